"""Eigenwords as spaCy knows vectors: a blank pipeline with a vectors table and lookups.

`WordVectors` are those that a model keeps: it must not depend on the vocabulary it happens to meet.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import spacy
from numpy.typing import NDArray
from spacy.attrs import LOWER
from spacy.language import Language
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from ...base.files import Array, Format, Scope, Stored, Strings, loading
from ...base.linalg import unit_rows
from .clusters import GRANULARITIES, WordClusters, cluster_words
from .vocabulary import LEAST_OF_CLASS, Tokenize, choose_classes, names_of, normalize

if TYPE_CHECKING:
    from .model import Eigenwords

WEIGHTS_TABLE = "eigenword_weights"
_BATCH = 1000
# numerals are counted by their shape; up to this many digits each gets a key of its own
_MAX_DIGITS = 4
# of tables of others; models keep a copy
_MOST_WORDS = 200_000


def make_pipeline(model: "Eigenwords", *, lang: str = "en", meta: dict[str, Any]) -> Language:
    """A blank pipeline whose vocabulary has the vectors and clusters, to be written to disk.

    Words and the classes of rare words are keys of the vectors. `initialize.vectors` in a config
    copies the vectors; the clusters are read by `WordClusters.from_disk`, or come with spacy.load.
    """
    nlp = spacy.blank(lang)
    names = model.vocabulary.names[:-1]
    attr = "LOWER" if model.vocabulary.lowercase else "ORTH"
    keys = [nlp.vocab.strings.add(name) for name in names]
    vectors = Vectors(
        strings=nlp.vocab.strings, data=model.vectors, keys=keys, name="eigenwords", attr=attr
    )
    for row, word in enumerate(model.vocabulary.words):
        for numeral in _numerals(word):
            vectors.add(nlp.vocab.strings.add(numeral), row=row)
    nlp.vocab.vectors = vectors
    model.clusters.to_lookups(nlp.vocab.lookups)
    nlp.vocab.lookups.add_table(WEIGHTS_TABLE, _weights(model))
    nlp.meta["eigenwords"] = meta
    return nlp


def _weights(model: "Eigenwords") -> dict[str, float]:
    """Minus the logarithm of each word's frequency: rare words say more.

    A class of rare words weighs as much as a word that was seen once.
    """
    words = model.vocabulary.words
    total = float(model.vocabulary.counts.sum())
    frequencies = model.vocabulary.counts[: len(words)] / total
    weights = dict(zip(words, (-numpy.log(frequencies)).tolist(), strict=True))
    return weights | {name: float(numpy.log(total)) for name in model.vocabulary.classes}


def _numerals(word: str) -> Iterator[str]:
    if len(word) <= _MAX_DIGITS and word == "0" * len(word):
        yield from (str(n).zfill(len(word)) for n in range(1, 10 ** len(word)))


def read_vocab(path: str | Path) -> Vocab:
    """The vocabulary of a directory with eigenwords, or of any pipeline, checked."""
    what = f"eigenwords in '{path}'"
    vocab, vectors = Path(path) / "vocab", Path(path) / "vocab" / "vectors"
    if vectors.is_file():
        # spaCy counts the rows one by one, those of an array without columns, too
        found = loading(_shape, what, vectors, ())
        if 0 in found and max(found):
            Scope(what, "vectors").fail(f"has the shape {found}, and no entry")
    return check_vocab(loading(Vocab().from_disk, what, vocab, ()), what)


def _shape(path: Path, exclude: Any) -> tuple[int, ...]:
    return numpy.load(path, mmap_mode="r", allow_pickle=False).shape


def check_vocab(vocab: Vocab, what: str) -> Vocab:
    """spaCy's files have no checksums, and damaged ones load: here is what would fail later."""
    data, scope = numpy.asarray(vocab.vectors.data), Scope(what)
    Array(("float32", "float64", "float16"), "rows", "width").read(data, scope.inside("vectors"))
    numbers = list(vocab.vectors.key2row.values())
    if any(isinstance(number, bool) for number in numbers):
        # numpy takes them for numbers beside others, and for a mask where they stand alone
        scope.inside("key2row").fail("has rows that are no numbers")
    rows = numpy.array(numbers or numpy.zeros(0, dtype="int64"))
    fits = rows.dtype.kind in "iu" and ((rows >= 0) & (rows < len(data))).all()
    if not fits:
        scope.inside("key2row").fail("has unknown rows")
    if vocab.lookups.has_table(WordClusters.words_table):
        WordClusters.from_lookups(vocab.lookups).checked()
    if vocab.lookups.has_table(WEIGHTS_TABLE):
        values = list(vocab.lookups.get_table(WEIGHTS_TABLE).values())
        if not all(type(value) is float for value in values) or not numpy.isfinite(values).all():
            scope.inside(WEIGHTS_TABLE).fail("has weights that are no numbers")
    return vocab


def spacy_tokenizer(nlp: Language) -> Tokenize:
    """Tokenise chunks of text as spaCy would."""

    def tokenize(chunks: list[str]) -> list[list[str]]:
        result: list[list[str]] = []
        rest = iter(chunks)
        # one text of many chunks is quicker than many texts; spaCy splits at whitespace first
        while batch := list(islice(rest, _BATCH)):
            ends = numpy.cumsum([len(chunk) + 1 for chunk in batch])
            lists: list[list[str]] = [[] for _ in batch]
            at = 0
            for token in nlp.tokenizer(" ".join(batch)):
                while token.idx >= ends[at]:
                    at += 1
                if not token.is_space:
                    lists[at].append(token.text)
            result.extend(lists)
        return result

    return tokenize


def find_row(vocab: Vocab, form: str) -> int:
    """The row of a form in a vectors table by the first of `names_of` that has one, or -1."""
    key2row, strings = vocab.vectors.key2row, vocab.strings
    return next((key2row[k] for name in names_of(form) if (k := strings[name]) in key2row), -1)


def nearest_words(vocab: Vocab, form: str, *, n: int = 10) -> list[tuple[str, float]]:
    """The words whose vectors have the smallest angles to that of a word."""
    row = find_row(vocab, form)
    if row < 0:
        return []
    names = row_names(vocab)
    data = unit_rows(numpy.asarray(vocab.vectors.data))
    cosines = data @ data[row]
    order = numpy.argsort(-cosines, kind="stable")
    found = ((names[i], float(cosines[i])) for i in order.tolist() if i != row and i in names)
    return list(islice(found, n))


def row_names(vocab: Vocab) -> dict[int, str]:
    """The first key of every row that is a word, not a class of words."""
    names: dict[int, str] = {}
    classes = vocab.lookups.get_table("eigenword_cluster_classes", {})
    for key, row in vocab.vectors.key2row.items():
        if key not in classes and key in vocab.strings:
            names.setdefault(row, vocab.strings[key])
    return names


def word_vectors(vocab: Vocab, forms: Sequence[str]) -> numpy.ndarray:
    """One vector of length 1 for every word; zeros for a word that has none."""
    rows = numpy.array([find_row(vocab, form) for form in forms], dtype="int64")
    data = numpy.asarray(vocab.vectors.data)
    vectors = numpy.zeros((len(rows), data.shape[1]))
    vectors[rows >= 0] = data[rows[rows >= 0]]
    return unit_rows(vectors)


def word_weights(vocab: Vocab, forms: Sequence[str]) -> numpy.ndarray:
    """How informative words are: minus the logarithm of their frequency, if the vocabulary's lookups
    have eigenwords; else 1."""
    if not vocab.lookups.has_table(WEIGHTS_TABLE):
        return numpy.ones(len(forms))
    table = vocab.lookups.get_table(WEIGHTS_TABLE)
    return numpy.array(
        [next((table[name] for name in names_of(form) if name in table), 0.0) for form in forms]
    )


def look_alikes(vocab: Vocab) -> tuple[list[str], NDArray[numpy.floating]]:
    """Classes of rare words for vectors that have none, with the mean direction of their words, so that
    unknown words have a vector; nothing for a small table. All programs put frequent words first; the
    rare half of the words is what unknown words are most like."""
    names = _forms(vocab)
    rare = sorted(names)[len(names) // 2 :]
    if len(rare) < LEAST_OF_CLASS:
        rare = []
    data = unit_rows(numpy.asarray(vocab.vectors.data))
    members: dict[str, list[int]] = {}
    class_of = choose_classes({names[row]: 1 for row in rare})
    for row in rare:
        members.setdefault(class_of[names[row]], []).append(row)
    classes = sorted(members)
    means = [data[members[name]].mean(axis=0) for name in classes]
    return classes, unit_rows(numpy.array(means).reshape(-1, data.shape[1]))


def clusters_of_vectors(vocab: Vocab, *, seed: int = 0) -> WordClusters:
    """Clusters for vectors that came without: those of words and of `look_alikes`."""
    names = _forms(vocab)
    rows = sorted(names)
    classes, of_classes = look_alikes(vocab)
    data = unit_rows(numpy.asarray(vocab.vectors.data)[rows])
    points = numpy.concatenate([data, of_classes]).astype("float32")
    # frequencies are not known; they fall about as fast as this (Zipf's law)
    counts = len(rows) / numpy.arange(1, len(points) + 1)
    found = cluster_words(points, counts, seed=seed).tolist()
    of_row = dict(zip(rows, found, strict=False))
    words = {names[row]: of_row[row] for row in rows}
    # words that share the vector of another
    others = ((row, vocab.strings[key]) for key, row in vocab.vectors.key2row.items())
    for row, form in sorted(others):
        if row in of_row and len(words) < _MOST_WORDS:
            words.setdefault(form, of_row[row])
    of_class = dict(zip(classes, found[len(rows) :], strict=True))
    return WordClusters(words, of_class, GRANULARITIES, lowercase=vocab.vectors.attr == LOWER)


def _forms(vocab: Vocab) -> dict[int, str]:
    """A word of every row that has one and is not zero."""
    lengths = numpy.linalg.norm(numpy.asarray(vocab.vectors.data), axis=1).tolist()
    return {row: name for row, name in row_names(vocab).items() if lengths[row] > 0}


_FORMAT = Format(
    "word vectors",
    1,
    names=Strings("names", least=1, unique=True),
    # half precision: parsers see no difference, and the file is half as large
    data=Array("float16", "names", "size", least=1),
)


class WordVectors(Stored):
    """Vectors of length 1 by word, kept by a model."""

    FORMAT = _FORMAT

    def __init__(self, names: Sequence[str], data: NDArray[numpy.float16]):
        """names: Words, and classes of words as `spacy spectral eigenwords` has them."""
        self.size = data.shape[1]
        self._names = list(names)
        self._data = data
        self._rows = {name: row for row, name in enumerate(self._names)}

    @classmethod
    def from_vocab(cls, vocab: Vocab) -> "WordVectors | None":
        """The vectors of a vocabulary, and of its classes of rare words; None if it has none."""
        if not vocab.vectors.size:
            return None
        found = {vocab.strings[key]: row for key, row in vocab.vectors.key2row.items()}
        # numerals that are looked up by their shape anyway
        names = sorted(n for n in found if normalize(n) == n or normalize(n) not in found)
        data = unit_rows(numpy.asarray(vocab.vectors.data)[[found[name] for name in names]])
        if not vocab.lookups.has_table(WordClusters.classes_table):
            classes, of_classes = look_alikes(vocab)
            names, data = [*names, *classes], numpy.concatenate([data, of_classes])
        return cls(names, data.astype("float16"))

    def __call__(self, forms: Sequence[str]) -> NDArray[numpy.float32]:
        """The vectors of words, with the fall-backs of `find_row`."""
        rows = numpy.array([self._find(form) for form in forms], dtype="int64")
        vectors = numpy.zeros((len(rows), self.size), dtype="float32")
        vectors[rows >= 0] = self._data[rows[rows >= 0]]
        return vectors

    def _find(self, form: str) -> int:
        return next((self._rows[name] for name in names_of(form) if name in self._rows), -1)

    def to_payload(self) -> dict[str, Any]:
        return {"names": self._names, "data": self._data}
