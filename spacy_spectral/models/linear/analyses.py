"""Lexica: analyses of forms, from files with tabs between form, lemma, part of speech and features; and
tables that have the lemmas of forms and nothing else."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from .stems import hashes

_POS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)
_NO_FEATURES = "_"
_FEATURES = re.compile(r"[^\s=|]+=[^\s=|]+(\|[^\s=|]+=[^\s=|]+)*")


class Analysis(NamedTuple):
    """An analysis of a form; `morph` is "" if it has no features."""

    form: str
    lemma: str
    pos: str
    morph: str


def read_analyses(path: str | Path) -> list[Analysis]:
    """Read a lexicon, or raise an error that names the file and the line; empty lines say nothing."""
    try:
        lines = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as error:
        raise SpectralError(
            Errors.S307.format(path=path, reason=error.strerror or error)
        ) from error

    def refuse(number: int, reason: str) -> NoReturn:
        raise SpectralError(Errors.S306.format(path=path, line=number, reason=reason))

    result = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf8")
        except UnicodeDecodeError:
            refuse(number, "it is not in UTF-8")
        if not text.strip():
            continue
        columns = text.split("\t")
        if len(columns) != 4:
            refuse(number, f"it has {len(columns)} columns")
        form, lemma, pos, features = columns
        for name, value in (("form", form), ("lemma", lemma)):
            if not value or value != value.strip():
                refuse(number, f"the {name} is {value!r}")
        if pos not in _POS:
            refuse(number, f"there is no part of speech {pos!r}")
        if features != _NO_FEATURES and not _FEATURES.fullmatch(features):
            refuse(number, f"the features are {features!r}")
        result.append(Analysis(form, lemma, pos, "" if features == _NO_FEATURES else features))
    return result


# Attributes of the forms of a lexicon: all parts of speech of a form, and all its analyses.
ALL_POS, ALL_ANALYSES = range(2)


class KnownForms:
    """Forms of a lexicon in small letters, as taggers look at them: each has a row, its attributes."""

    def __init__(self, names: list[str], entries: NDArray[numpy.uint32]):
        self.names = names
        self.entries = entries
        self._rows = {name: i for i, name in enumerate(names)}

    @classmethod
    def of(cls, analyses: Iterable[Analysis]) -> "KnownForms":
        """The forms of a lexicon."""
        of_form: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for form, _, pos, morph in analyses:
            of_form[form.lower()].add((pos, morph))
        all_pos = [" ".join(sorted({pos for pos, _ in found})) for found in of_form.values()]
        whole = [" ".join(sorted(map("\t".join, found))) for found in of_form.values()]
        return cls(list(of_form), numpy.column_stack([hashes(all_pos), hashes(whole)]))

    def attributes(self, forms: Sequence[str]) -> NDArray[numpy.uint32]:
        """uint32, one row a form in small letters, 0 for what is not in the lexicon."""
        rows = numpy.array([self._rows.get(form, -1) for form in forms], dtype="int64")
        result = numpy.zeros((len(forms), 2), dtype="uint32")
        result[rows >= 0] = self.entries[rows[rows >= 0]]
        return result


class LemmaTable:
    """The lemmas of forms, without parts of speech, by the hashes that spaCy has of forms.

    keys: uint64, in order.
    rows: Which of the lemmas each key has; a form with several lemmas has its key several times.
    """

    def __init__(
        self, keys: NDArray[numpy.uint64], rows: NDArray[numpy.int32], lemmas: Sequence[str]
    ):
        self.keys, self.rows, self.lemmas = keys, rows, list(lemmas)

    @classmethod
    def of(cls, lemmas: Mapping[int, Sequence[str]]) -> "LemmaTable":
        """A table of lemmas by keys."""
        numbers: dict[str, int] = {}
        pairs = [
            (key, numbers.setdefault(lemma, len(numbers)))
            for key in sorted(lemmas)
            for lemma in dict.fromkeys(lemmas[key])
        ]
        keys = numpy.array([key for key, _ in pairs], dtype="uint64")
        return cls(keys, numpy.array([row for _, row in pairs], dtype="int32"), list(numbers))

    def __getitem__(self, form: str) -> list[str]:
        """The lemmas that a form may have."""
        key = numpy.uint64(lookup_key(form))
        first, end = (int(self.keys.searchsorted(key, side)) for side in ("left", "right"))
        return [self.lemmas[row] for row in self.rows[first:end].tolist()]


_MASK = (1 << 64) - 1
_MIX = 0xC6A4A7935BD1E995


def lookup_key(form: str) -> int:
    """The hash that spaCy has of a form: MurmurHash64A of its bytes in UTF-8, with seed 1."""
    data = form.encode("utf8", "surrogatepass")
    key = 1 ^ (len(data) * _MIX & _MASK)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        block = int.from_bytes(data[at : at + 8], "little") * _MIX & _MASK
        key = (key ^ ((block ^ block >> 47) * _MIX & _MASK)) * _MIX & _MASK
    if rest := data[whole:]:
        key = (key ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    key = (key ^ key >> 47) * _MIX & _MASK
    return key ^ key >> 47
