"""Word vectors that a model keeps for itself: it must not depend on the vocabulary it happens to meet."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.vocab import Vocab

from ...base.fields import Array, Format, Strings
from ...base.linalg import unit_rows
from ...base.stored import Stored
from .vocabulary import normalize, signatures

_FORMAT = Format(
    "word vectors",
    1,
    names=Strings("names", least=1, unique=True),
    # half precision: parsers see no difference, and the file is half as large
    data=Array("float16", "names", "size", least=1),
)


class WordVectors(Stored):
    """Vectors of length 1 by word."""

    FORMAT = _FORMAT

    def __init__(self, names: Sequence[str], data: NDArray[numpy.float16]):
        """names: Words, and classes of words as `spacy spectral eigenwords` has them."""
        self.size = data.shape[1]
        self._names = list(names)
        self._data = data
        self._rows = {name: row for row, name in enumerate(self._names)}

    @classmethod
    def from_vocab(cls, vocab: Vocab) -> "WordVectors | None":
        """The vectors of a vocabulary; None if it has none."""
        if not vocab.vectors.size:
            return None
        found = {vocab.strings[key]: row for key, row in vocab.vectors.key2row.items()}
        # numerals that are looked up by their shape anyway
        names = sorted(n for n in found if normalize(n) == n or normalize(n) not in found)
        data = numpy.asarray(vocab.vectors.data)[[found[name] for name in names]]
        return cls(names, unit_rows(data.astype("float64")).astype("float16"))

    def __call__(self, forms: Sequence[str]) -> NDArray[numpy.float32]:
        """The vectors of words, with the fall-backs of `vectors.find_row`."""
        rows = numpy.array([self._find(form) for form in forms], dtype="int64")
        vectors = numpy.zeros((len(rows), self.size), dtype="float32")
        vectors[rows >= 0] = self._data[rows[rows >= 0]]
        return vectors

    def _find(self, form: str) -> int:
        shape = normalize(form)
        names = (form, shape, shape.lower(), *signatures(form))
        return next((self._rows[name] for name in names if name in self._rows), -1)

    def to_payload(self) -> dict[str, Any]:
        return {"names": self._names, "data": self._data}
