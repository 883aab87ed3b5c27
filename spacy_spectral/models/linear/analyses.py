"""Lexica: analyses of forms, from files with tabs between form, lemma, part of speech and features."""

import re
from pathlib import Path
from typing import NamedTuple, NoReturn

from ...base.errors import Errors, SpectralError

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
