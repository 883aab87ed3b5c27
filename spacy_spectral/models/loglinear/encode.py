"""Sentences as arrays, one row of 64-bit columns per token, and the templates that look at them. Nothing here
is about one language.

A composite is written "tag@-1+tag": columns of a token and of its neighbours, joined. Columns that a corpus
does not have (no clusters, no morphology) take their templates with them.

If a parser learns from several treebanks, the name of the treebank is a column: `source`. Templates with it
are copies of some of the others (Daume 2007 copies all): what treebanks have in common is learnt once,
and what each does in its own way is learnt beside it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy
from numpy.typing import NDArray

from ...base.cache import Repeated, RowCache, distinct
from ...trees.sentences import SecondTags
from ._features import MAX_PARTS, hash_strings

COLUMNS = (
    "form",
    "lower",
    "prefix",
    "suffix2",
    "suffix",
    "shape",
    "tag",
    "second",
    "pos",
    "morph",
    "cluster0",
    "cluster1",
    "cluster2",
    "cluster3",
    "left",
    "right",
    "source",
)
# Filled in once the pruner has spoken.
GUESSED = ("left", "right")
N_WORD_COLUMNS = COLUMNS.index("tag")
N_CLUSTERS = sum(name.startswith("cluster") for name in COLUMNS)
_CACHE_SIZE = 50_000
# A second tag less likely than the first bound is none; the others part the rest into classes.
_SECOND_BOUNDS = numpy.array([0.02, 0.1, 0.3], dtype="float32")

# A token by itself: says something of its head's direction and distance and of labels.
UNARIES = """
lower
tag
lower+tag
tag@-1+tag
tag+tag@1
tag@-1+tag+tag@1
tag@-2+tag@-1+tag
tag+tag@1+tag@2
lower@-1+tag
tag+lower@1
lower@-1+lower
lower+lower@1
suffix+tag
suffix2+tag
prefix+tag
shape+tag
tag+second
second+tag@-1
second+tag@1
morph+tag
morph+tag@-1
morph+tag@1
lower+tag@1
lower+tag@-1
left+tag
left+lower
right+tag
left+right+tag
cluster0+tag@-1+tag@1
cluster1+tag
cluster1@-1+cluster1
cluster1+cluster1@1
cluster2
cluster2+tag@-1
cluster2+tag@1
cluster3
source+tag
source+lower
source+lower+tag
source+tag@-1+tag
source+tag+tag@1
source+tag@-1+tag+tag@1
"""

# Head | modifier; "between" adds which separating tags stand between them.
# Half as many again were tried: on parts of the training data of UD_English-EWT, UD_Turkish-IMST and
# UD_Vietnamese-VTB that parsers had not seen, LAS was 83.23, 56.94 and 57.12 with them, 83.29, 57.06 and
# 57.51 without; five fewer still made it 83.08 on the first.
PAIRS = """
tag | tag
tag | tag | between
pos | pos | between
lower | tag | between
tag | lower | between
lower | tag
tag | lower
lower | lower
tag+tag@1 | tag+tag@1
tag@-1+tag | tag+tag@1
tag@-1+tag+tag@1 | tag
tag | tag@-1+tag+tag@1
lower | tag@-1+tag
tag@-1+tag | lower
tag+tag@1 | lower
tag | suffix+tag
second | tag
tag | second
morph | tag
tag | morph
morph | morph
tag | left+tag
lower | left+tag
left+tag | tag
left+tag | left+tag
cluster0+tag | cluster0+tag
cluster1 | cluster1
cluster3 | cluster3
tag | cluster2
cluster1 | lower
tag | source+tag
tag | source+tag | between
lower | source+tag
tag | source+lower
lower | source+lower
"""

# Head | previous modifier | modifier, all on one side of the head.
SIBLINGS = """
tag | tag | tag
pos | tag | tag
pos | lower | tag
pos | tag | lower
lower | tag | tag
tag | left+tag | left+tag
tag | tag | source+tag
"""

# The pruner: d = with distance, b = with what is between.
PRUNER = """
tag | tag | d
tag | tag | b
pos | pos | db
lower | tag | d
tag | lower | d
lower | lower |
tag+tag@1 | tag@-1+tag |
tag@-1+tag | tag+tag@1 |
tag@-1+tag+tag@1 | tag | d
tag | tag@-1+tag+tag@1 | d
tag+tag@1 | tag | b
tag | tag+tag@1 | b
tag@-1+tag | tag | b
tag | tag@-1+tag | b
"""


@dataclass(frozen=True)
class Templates:
    """Templates as index arrays for the kernels: composites [k, 4, 2], offset and column of each part,
    column -1 after the last; of pairs composites of head and modifier, and a flag; of unaries and
    siblings [s, 3] composites."""

    composites: NDArray[numpy.int32]
    pairs: NDArray[numpy.int32]
    unaries: NDArray[numpy.int32]
    siblings: NDArray[numpy.int32]


def compile_templates(
    missing: set[str], *, pairs: str = PAIRS, unaries: str = UNARIES, siblings: str = SIBLINGS
) -> Templates:
    """Compile templates, leaving out those that need a missing column."""
    index: dict[tuple, int] = {}

    def composite(text: str) -> int | None:
        parts = []
        for part in text.split("+"):
            column, _, offset = part.partition("@")
            if column in missing:
                return None
            parts.append((int(offset or 0), COLUMNS.index(column)))
        parts += [(0, -1)] * (MAX_PARTS - len(parts))
        return index.setdefault(tuple(parts), len(index))

    def rows(text: str, n_composites: int, flags: dict[str, int] | None = None) -> NDArray:
        result = []
        for line in text.strip().splitlines():
            fields = [field.strip() for field in line.split("|")]
            row = [composite(field) for field in fields[:n_composites]]
            if flags is not None:
                row.append(flags[fields[n_composites] if len(fields) > n_composites else ""])
            if None not in row:
                result.append(row)
        n_columns = n_composites + (flags is not None)
        return numpy.asarray(result, dtype=numpy.int32).reshape(len(result), n_columns)

    flags = {"": 0, "between": 1, "d": 1, "b": 2, "db": 3}
    compiled = rows(pairs, 2, flags), rows(unaries, 1)[:, 0].copy(), rows(siblings, 3)
    composites = numpy.asarray(list(index), dtype=numpy.int32).reshape(len(index), MAX_PARTS, 2)
    return Templates(composites, *compiled)


@dataclass
class Sentences:
    """Encoded sentences: columns that templates look at (0 where there is nothing); tags, 0 for one that
    the model does not know; whether tokens have a letter or a digit."""

    columns: NDArray[numpy.uint64]
    starts: NDArray[numpy.int32]
    tags: NDArray[numpy.int32]
    wordlike: NDArray[numpy.bool_]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def part(self, begin: int, end: int) -> "Sentences":
        """Some of the sentences, sharing memory with this."""
        first, last = int(self.starts[begin]), int(self.starts[end])
        return Sentences(
            self.columns[first:last],
            self.starts[begin : end + 1] - numpy.int32(first),
            self.tags[first:last],
            self.wordlike[first:last],
        )

    def select(self, tokens: NDArray | slice, starts: NDArray[numpy.int32]) -> "Sentences":
        """Some of the tokens as sentences that start at `starts`."""
        return Sentences(self.columns[tokens], starts, self.tags[tokens], self.wordlike[tokens])


def second_names(guesses: Sequence[tuple[str, float] | None]) -> Sequence[str]:
    """What templates see of second tags: tags with a class of their probability ("NN:2"), ""
    for one without a rival."""
    if not isinstance(guesses, SecondTags):
        names = list(dict.fromkeys(guess[0] for guess in guesses if guess))
        index = {name: i for i, name in enumerate(names)}
        tags = numpy.array([index[guess[0]] if guess else -1 for guess in guesses], dtype="int64")
        probs = numpy.array([guess[1] if guess else 0 for guess in guesses], dtype="float32")
        guesses = SecondTags(names, tags, probs)
    classes = numpy.searchsorted(_SECOND_BOUNDS, guesses.probs, side="right")
    n_classes = len(_SECOND_BOUNDS)
    codes = guesses.tags * n_classes + classes
    codes[(guesses.tags < 0) | (classes == 0)] = 0
    found, which = distinct(codes)
    seen = [
        f"{guesses.names[(code - 1) // n_classes]}:{(code - 1) % n_classes}" if code else ""
        for code in found
    ]
    return Repeated(seen, which)


def _shape(word: str) -> str:
    """Kinds of characters, runs cut to two: "Xx-dd"."""
    shape = ""
    for char in word[:20]:
        kind = "d" if char.isdigit() else char
        if char.isalpha():
            kind = "X" if char.isupper() else "x"
        if not shape.endswith(kind * 2):
            shape += kind
    return shape


def _describe_words(words: list[str]) -> tuple[NDArray, NDArray]:
    """Hashes of what templates see of words, and which are wordlike."""
    parts: list[str] = []
    for word in words:
        lower = word.lower()
        parts += (word, lower, lower[:3], lower[-2:], lower[-3:], _shape(word))
    wordlike = numpy.array([any(map(str.isalnum, word)) for word in words], dtype=bool)
    return hash_strings(parts).reshape(len(words), N_WORD_COLUMNS), wordlike


def _describe_strings(strings: list[str]) -> tuple[NDArray]:
    """Hashes of strings, 0 for the empty one: there is nothing."""
    hashes = hash_strings(strings)
    hashes[[not string for string in strings]] = 0
    return (hashes,)


class Encoder:
    """Encodes sentences for a model."""

    def __init__(self, tags: Iterable[str]) -> None:
        self.tag_index = {tag: i for i, tag in enumerate(tags, 1)}
        self._words = RowCache(_describe_words, _describe_words([]), size=_CACHE_SIZE)
        self._strings = RowCache(_describe_strings, _describe_strings([]), size=_CACHE_SIZE)

    def __call__(
        self,
        words: Sequence[Sequence[str]],
        tags: Sequence[Sequence[str]],
        *,
        second: Sequence[Sequence[str]] | None = None,
        pos: Sequence[Sequence[str]] | None = None,
        morphs: Sequence[Sequence[str]] | None = None,
        clusters: NDArray[numpy.int32] | None = None,
        sources: Sequence[Sequence[str]] | None = None,
    ) -> Sentences:
        """Encode sentences.

        second: Second-best tags, from `second_names`.
        sources: Treebanks to parse like, by token.
        clusters: Of all tokens in order, one column per granularity, coarse to fine, -1 for a word
        without one.
        """
        lengths = numpy.fromiter(map(len, words), dtype=numpy.int32, count=len(words))
        starts = numpy.zeros(len(words) + 1, dtype=numpy.int32)
        numpy.cumsum(lengths, out=starts[1:])
        columns = numpy.zeros((int(starts[-1]), len(COLUMNS)), dtype=numpy.uint64)
        flat_tags = _flat(tags)
        rows, (hashes, wordlike) = self._words(_flat(words))
        columns[:, :N_WORD_COLUMNS] = hashes[rows]
        self._fill(columns, "tag", flat_tags)
        given = ("second", second), ("pos", pos), ("morph", morphs), ("source", sources)
        for name, values in given:
            if values is not None:
                self._fill(columns, name, _flat(values))
        if clusters is not None:
            first = COLUMNS.index("cluster0")
            known = numpy.asarray(clusters)[:, :N_CLUSTERS].astype(numpy.int64) + 1
            columns[:, first : first + known.shape[1]] = known.astype(numpy.uint64)
        return Sentences(columns, starts, self._tag_ids(flat_tags), wordlike[rows])

    def _tag_ids(self, tags: Sequence[str]) -> NDArray[numpy.int32]:
        if isinstance(tags, Repeated):
            return self._tag_ids(tags.names)[tags.codes]
        get = self.tag_index.get
        return numpy.fromiter((get(tag, 0) for tag in tags), dtype=numpy.int32, count=len(tags))

    def _fill(self, columns: NDArray[numpy.uint64], name: str, strings: Sequence[str]) -> None:
        rows, (hashes,) = self._strings(strings)
        columns[:, COLUMNS.index(name)] = hashes[rows]


def _flat(sentences: Sequence[Sequence[str]]) -> Sequence[str]:
    """All strings; those of a single sentence as they are."""
    return sentences[0] if len(sentences) == 1 else list(chain.from_iterable(sentences))
