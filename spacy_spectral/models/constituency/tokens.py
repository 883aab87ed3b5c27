"""What the models of spans look at.

A *context* is a few attributes of tokens around a boundary between words: (offset, column), offset 0
being the word to the right of the boundary, -1 the one to its left. A span has a boundary at each end,
an anchored rule one more, where its children meet; a word is described by the boundary before it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy
from numpy.typing import NDArray

from ...trees.interface import Clusters
from ..linear.tagger import TaggerModel
from .lexicon import form, look, signatures

# columns of tokens
COLUMNS = ("word", "tag", "suffix", "shape", "fine", "coarse", "second", "head", "label")
WORD, TAG, SUFFIX, SHAPE, FINE, COARSE, SECOND, HEAD, LABEL = range(len(COLUMNS))
MAX_PARTS = 4
# how the width of a span enters a template; a narrow one can be told by the tags of all its words
PLAIN, WIDTH, CONTENT = range(3)

Context = tuple[tuple[int, int], ...]


class Templates(NamedTuple):
    """Compiled templates: contexts [contexts, MAX_PARTS, 2], offset and column (-1 ends a context);
    contexts at a word, and at the ends of a span.

    pairs: [pairs, 3], a context at each end, -1 for none, and how the width enters.
    anchored: [anchored rules, 5], which symbols, contexts where the rule begins, where its children meet
    and where it ends, -1 for none, and which widths.
    """

    contexts: NDArray[numpy.int32]
    words: NDArray[numpy.int32]
    left: NDArray[numpy.int32]
    right: NDArray[numpy.int32]
    pairs: NDArray[numpy.int32]
    anchored: NDArray[numpy.int32]


def _at(*parts: str) -> Context:
    """`_at("tag-1", "word0")`: the tag before a boundary with the word after it."""
    result = []
    for part in parts:
        name = part.rstrip("-0123456789")
        result.append((int(part[len(name) :]), COLUMNS.index(name)))
    return tuple(result)


def _mirror(context: Context) -> Context:
    """The same seen from the other side: the word before the boundary in place of the one after it."""
    return tuple((-1 - offset, column) for offset, column in context)


_T = {
    "b.w": _at("word0"), "b.t": _at("tag0"), "a.w": _at("word-1"), "a.t": _at("tag-1"),
    "ab.t": _at("tag-1", "tag0"), "bb.t": _at("tag0", "tag1"), "aa.t": _at("tag-2", "tag-1"),
    "bbb.t": _at("tag0", "tag1", "tag2"), "aab.t": _at("tag-2", "tag-1", "tag0"),
    "abb.t": _at("tag-1", "tag0", "tag1"), "aaa.t": _at("tag-3", "tag-2", "tag-1"),
    "a.w b.t": _at("word-1", "tag0"), "a.t b.w": _at("tag-1", "word0"), "ab.w": _at("word-1", "word0"),
    "b.w b1.t": _at("word0", "tag1"), "b.s": _at("suffix0"), "b.s a.t": _at("suffix0", "tag-1"),
    "b.f": _at("fine0"), "a.f": _at("fine-1"), "b.c": _at("coarse0"), "a.c": _at("coarse-1"),
    "ab.c": _at("coarse-1", "coarse0"), "b.f a.t": _at("fine0", "tag-1"), "b.2": _at("tag0", "second0"),
    "b.x": _at("shape0"), "bb.w": _at("word0", "word1"), "aabb.t": _at("tag-2", "tag-1", "tag0", "tag1"),
}  # fmt: skip

# at one end of a span; the other end has the same, mirrored
_ENDS = (
    "b.w", "a.w", "ab.t", "bb.t", "aa.t", "aab.t", "abb.t", "bbb.t", "a.w b.t", "a.t b.w", "ab.w", "b.w b1.t",
    "b.s a.t", "b.f", "a.f", "b.f a.t", "aabb.t", "b.2",
)  # fmt: skip
# both ends: the left context, the right one (mirrored), and the width
_PAIRS = (
    ("b.t", "b.t", WIDTH), ("a.t", "a.t", WIDTH), ("b.t", "a.t", WIDTH), ("a.t", "b.t", WIDTH),
    ("ab.t", "ab.t", PLAIN), ("ab.t", "a.t", PLAIN), ("ab.t", "b.t", PLAIN), ("b.t", "ab.t", PLAIN),
    ("a.t", "ab.t", PLAIN), ("bb.t", "bb.t", PLAIN), ("bb.t", "a.t", PLAIN), ("a.t", "bb.t", PLAIN),
    ("aa.t", "aa.t", PLAIN), ("b.t", "a.t", PLAIN), ("a.t", "a.t", PLAIN), ("b.t", "b.t", PLAIN),
    ("b.w", "b.w", PLAIN), ("a.w", "a.w", PLAIN), ("b.w", "a.w", PLAIN), ("a.w", "b.w", PLAIN),
    ("b.w", "a.t", PLAIN), ("b.t", "a.w", PLAIN), ("a.w", "a.t", PLAIN), ("a.t", "a.w", PLAIN),
    ("b.w", "b.t", PLAIN), ("b.t", "b.w", PLAIN), ("b.w", "ab.t", PLAIN), ("ab.t", "b.w", PLAIN),
    ("b.w", None, WIDTH), (None, "b.w", WIDTH), ("a.w", None, WIDTH), (None, "a.w", WIDTH),
    ("bb.t", None, WIDTH), (None, "bb.t", WIDTH), ("ab.t", None, WIDTH), (None, "ab.t", WIDTH),
    ("b.c", "b.c", PLAIN), ("b.c", "a.c", PLAIN), ("a.c", "a.c", PLAIN), ("ab.c", "ab.c", PLAIN),
    (None, None, WIDTH), (None, None, CONTENT), ("a.t", "a.t", CONTENT), ("a.t", None, CONTENT),
    (None, "a.t", CONTENT),
)  # fmt: skip
_WORDS = (
    _at("tag0"), _at("word0"), _at("tag0", "word0"), _at("tag-1", "tag0"), _at("tag0", "tag1"),
    _at("tag-1", "tag0", "tag1"), _at("tag-2", "tag-1", "tag0"), _at("tag0", "tag1", "tag2"),
    _at("tag-2", "tag-1", "tag0", "tag1"), _at("tag-1", "tag0", "tag1", "tag2"),
    _at("word-1", "tag0"), _at("tag0", "word1"), _at("word-1", "tag0", "word1"), _at("tag-1", "word0"),
    _at("word0", "tag1"), _at("tag-1", "word0", "tag1"), _at("suffix0", "tag0"), _at("suffix0", "second0"),
    _at("tag0", "second0"), _at("shape0", "tag0"), _at("fine0", "tag0"), _at("fine0", "tag-1"),
    _at("fine0", "tag1"), _at("coarse-1", "coarse0", "coarse1"), _at("word-1", "word0"),
    _at("word0", "word1"), _at("word-2", "tag-1", "tag0"), _at("tag0", "tag1", "word2"),
)  # fmt: skip


# anchored rules: which symbols; contexts where the rule begins, where its children meet and where it ends,
# not mirrored (b is the word after a boundary, a the one before); and which widths
RULE, PARENT, CHILDREN = range(3)
NO_WIDTH, LEFT_WIDTH, RIGHT_WIDTH, BOTH_WIDTHS = range(4)
_ANCHORED = (
    (RULE, None, None, None, NO_WIDTH), (RULE, None, None, None, LEFT_WIDTH),
    (RULE, None, None, None, RIGHT_WIDTH), (RULE, None, None, None, BOTH_WIDTHS),
    (RULE, None, "a.t", None, NO_WIDTH), (RULE, None, "b.t", None, NO_WIDTH),
    (RULE, None, "ab.t", None, NO_WIDTH), (RULE, None, "a.w", None, NO_WIDTH),
    (RULE, None, "b.w", None, NO_WIDTH), (RULE, "b.t", None, None, NO_WIDTH),
    (RULE, None, None, "a.t", NO_WIDTH), (RULE, "b.w", None, None, NO_WIDTH),
    (RULE, None, None, "a.w", NO_WIDTH), (RULE, "a.t", None, None, NO_WIDTH),
    (RULE, None, None, "b.t", NO_WIDTH), (RULE, "b.t", "b.t", None, NO_WIDTH),
    (RULE, None, "b.t", "a.t", NO_WIDTH), (RULE, "b.t", "ab.t", None, NO_WIDTH),
    (CHILDREN, None, "ab.t", None, NO_WIDTH), (CHILDREN, None, "ab.w", None, NO_WIDTH),
    (CHILDREN, "b.w", "b.w", None, NO_WIDTH), (PARENT, None, "ab.w", None, NO_WIDTH),
    (PARENT, "b.w", "b.w", None, NO_WIDTH), (PARENT, None, "b.w", "a.w", NO_WIDTH),
    (PARENT, "b.t", "ab.t", "a.t", NO_WIDTH), (PARENT, "ab.t", "ab.t", "ab.t", NO_WIDTH),
    (PARENT, None, "aabb.t", None, NO_WIDTH), (CHILDREN, None, "a.w b.t", None, NO_WIDTH),
    (CHILDREN, None, "a.t b.w", None, NO_WIDTH), (RULE, None, "ab.c", None, NO_WIDTH),
)  # fmt: skip


def _compile_templates() -> Templates:
    contexts: dict[Context, int] = {}

    def number(context: Context) -> int:
        return contexts.setdefault(context, len(contexts))

    left = [number(_T[name]) for name in _ENDS]
    right = [number(_mirror(_T[name])) for name in _ENDS]
    pairs = [
        (-1 if a is None else number(_T[a]), -1 if b is None else number(_mirror(_T[b])), width)
        for a, b, width in _PAIRS
    ]
    words = [number(context) for context in _WORDS]
    anchored = [
        (which, *(-1 if name is None else number(_T[name]) for name in names), widths)
        for which, *names, widths in _ANCHORED
    ]
    table = numpy.full((len(contexts), MAX_PARTS, 2), -1, dtype="int32")
    for context, i in contexts.items():
        table[i, : len(context)] = context
    lists = (table, words, left, right, pairs, anchored)
    templates = Templates(*(numpy.array(part, dtype="int32") for part in lists))
    for part in templates:
        part.flags.writeable = False
    return templates


TEMPLATES = _compile_templates()


# of the granularities of clusters, which are the coarse and the fine ones
_COARSE, _FINE = 1, -2


def _number(name: str) -> int:
    return crc32(name.encode("utf8")) & 0x3FFFFFFF


class Arcs(NamedTuple):
    """What a parser for dependencies has said of the words of sentences.

    heads: Where in its sentence the head of every word is, from 1; 0 for none, and for one that is not there.
    labels: Of their arcs.
    """

    heads: NDArray[numpy.int32]
    labels: list[str]

    @classmethod
    def joined(cls, parts: Iterable["Arcs"]) -> "Arcs":
        """Sentences one after the other."""
        heads, labels = [numpy.zeros(0, dtype="int32")], []
        for part in parts:
            heads.append(part.heads)
            labels += part.labels
        return cls(numpy.concatenate(heads), labels)

    def at(self, words: slice) -> "Arcs":
        """Those of some sentences."""
        return Arcs(self.heads[words], self.labels[words])

    def cut(self, starts: NDArray[numpy.int64], pieces: NDArray[numpy.int64]) -> "Arcs":
        """Pieces in place of sentences: heads in other pieces are none.

        starts, pieces: Where both start, closed by the number of words.
        """
        sizes = numpy.diff(pieces)
        sentence = numpy.searchsorted(starts, pieces[:-1], side="right") - 1
        heads = self.heads - numpy.repeat(pieces[:-1] - starts[sentence], sizes)
        inside = (heads > 0) & (heads <= numpy.repeat(sizes, sizes))
        return Arcs(numpy.where(inside, heads, 0).astype("int32"), self.labels)


class Encoder:
    """Makes rows of attributes, of words that are frequent enough to be told apart (`known`), their tags
    by a tagger, and word clusters."""

    def __init__(self, known: Iterable[str], tagger: TaggerModel, clusters: Clusters | None):
        self.known = frozenset(known)
        self.tagger = tagger
        self.clusters = clusters

    def words(self, words: Sequence[str]) -> NDArray[numpy.int32]:
        """int32, [words, columns], what words alone tell; tags are 0."""
        index: dict[str, int] = {}
        at = numpy.array([index.setdefault(word, len(index)) for word in words], dtype="int64")
        rows = [self._describe(form(word)) for word in index]
        table = numpy.array(rows, dtype="int32").reshape(len(rows), len(COLUMNS))
        if self.clusters is not None and rows:
            ids = self.clusters.ids([form(word) for word in index]) + 1
            table[:, COARSE] = ids[:, min(_COARSE, ids.shape[1] - 1)]
            table[:, FINE] = ids[:, max(_FINE, -ids.shape[1])]
        return table[at]

    def _describe(self, word: str) -> list[int]:
        row = [0] * len(COLUMNS)
        row[WORD] = _number(word if word in self.known else "|" + signatures(word)[2])
        row[SUFFIX] = _number(word.lower()[-3:])
        row[SHAPE] = _number(look(word))
        return row

    def __call__(
        self, words: Sequence[str], starts: NDArray[numpy.int64], arcs: Arcs | None = None
    ) -> NDArray[numpy.int32]:
        """What words of sentences tell with their tags, and with arcs, if there are some."""
        result = self.words(words)
        if arcs is not None:
            fill_arcs(result, arcs)
        if len(words):
            known = self.tagger.words(words)
            tagging = self.tagger.tag_words(known, starts.astype("int32"), top=2)
            fill_tags(result, tagging.tags, tagging.probs)
        return result


def fill_arcs(rows: NDArray[numpy.int32], arcs: Arcs) -> None:
    """Write the heads of words, and the labels of their arcs."""
    number = {label: _number(label) for label in set(arcs.labels)}
    rows[:, HEAD] = arcs.heads
    rows[:, LABEL] = [number[label] for label in arcs.labels]


def fill_tags(
    rows: NDArray[numpy.int32], tags: NDArray[numpy.int32], probs: NDArray[numpy.float32]
) -> None:
    """Write the best tags of words, and the second where the tagger is in doubt: [words, 2]."""
    rows[:, TAG] = tags[:, 0] + 1
    if tags.shape[1] > 1:
        doubt = numpy.digitize(probs[:, 1], [0.02, 0.2])
        rows[:, SECOND] = numpy.where(
            (doubt > 0) & (tags[:, 1] >= 0), 4 * (tags[:, 1] + 1) + doubt, 0
        )
