"""Which symbols words can have, and how much each speaks for one.

The score of symbol a for word w is p(a | w) / p(a), which is p(w | a) up to a factor of the word alone:

    p(a | w)   = (c(a, w) + al p(a | sig(w))) / (c(w) + al)        al = 10 / (1 + c(w) / 5)
    p(a | sig) = (c(a, sig) + 5 p(a | vaguer sig)) / (c(sig) + 5)   counted on words seen at most 3 times

Units tell words apart for models with states: a symbol; a symbol with a signature; a symbol with a word.
Each is a special case of the one before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy
from numpy.typing import NDArray

_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'"}


def form(word: str) -> str:
    """A word as it is looked up: quotes of treebanks and of typesetters are plain ones."""
    return _QUOTES.get(word, word).replace("’", "'")


# Characters of typesetters, and what plain text has in their place.
PLAIN = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "‚": "'", "‹": "'", "›": "'",
    "—": "--", "–": "--", "…": "...",
}  # fmt: skip


def unseen_typography(words: Iterable[str]) -> str:
    """The characters of PLAIN that a treebank does not have, though it has what is plain. Texts have them,
    and the parser reads them as plain ones."""
    vocabulary = set(words)
    characters = frozenset().union(*vocabulary)
    return "".join(
        character
        for character, plain in PLAIN.items()
        if character not in characters and (plain in characters or plain in vocabulary)
    )


def look(word: str) -> str:
    """What kind of characters a word has."""
    kind = "x"
    if not any(map(str.isalpha, word)):
        kind = "d" if any(map(str.isdigit, word)) else "."
    elif word.isupper() and len(word) > 1:
        kind = "XX"
    elif word[0].isupper():
        kind = "Xx"
    elif not word.islower():
        kind = "xX"
    if kind not in "d." and any(map(str.isdigit, word)):
        kind += "d"
    return kind + ("-" if "-" in word[1:] else "")


def signatures(word: str) -> tuple[str, str, str]:
    """Signatures of a word, from the vaguest to the most exact."""
    kind, lower = look(word), word.lower()
    return (
        kind,
        f"{kind}|{lower[-2:]}",
        f"{kind}|{lower[-3:]}" if len(word) > 3 else f"{kind}|{lower}|",
    )


_RARE = 3
_STRENGTH = 5.0
_NEGLIGIBLE = 1e-5


@dataclass
class Lexicon:
    """Rows of scored symbols, ascending, for words first, then for signatures, then for anything else
    (one row). `units` has the unit of each symbol."""

    words: list[str]
    signatures: list[str]
    starts: NDArray[numpy.int32]
    symbols: NDArray[numpy.int32]
    scores: NDArray[numpy.floating]
    units: NDArray[numpy.int32]

    def __post_init__(self) -> None:
        self._word_rows = {word: i for i, word in enumerate(self.words)}
        n = len(self.words)
        self._signature_rows = {name: n + i for i, name in enumerate(self.signatures)}

    def single(self) -> "Lexicon":
        """The same in single precision."""
        return replace(self, scores=self.scores.astype("float32"))

    def entries(self, row: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.floating]]:
        """The symbols of a row, and their scores."""
        own = slice(self.starts[row], self.starts[row + 1])
        return self.symbols[own], self.scores[own]

    def rows(self, words: Sequence[str], starts: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
        """The rows of the words of sentences, which start at `starts`."""
        row_of = {word: self._row(form(word)) for word in set(words)}
        result = numpy.array([row_of[word] for word in words], dtype="int32")
        # the first word of a sentence is capitalised whatever it is
        for i in starts[:-1].tolist():
            if i < len(words) and result[i] >= len(self.words):
                result[i] = self._word_rows.get(form(words[i]).lower(), result[i])
        return result

    def _row(self, word: str) -> int:
        row = self._word_rows.get(word)
        if row is not None:
            return row
        found = (self._signature_rows.get(name, -1) for name in reversed(signatures(word)))
        return next((row for row in found if row >= 0), len(self.words) + len(self.signatures))


def learn_lexicon(
    words: Sequence[str], symbols: NDArray[numpy.int32], n_symbols: int, *, smooth: bool = True
) -> tuple[Lexicon, NDArray[numpy.int32], NDArray[numpy.int32]]:
    """Count words and their symbols. If `smooth`, words can have symbols that they were not seen with,
    as words that look like them can.

    RETURNS: The lexicon; the unit of every word; for every unit the one it is a case of, -1 for symbols,
    which are the first units.
    """
    forms = [form(word) for word in words]
    vocabulary = sorted(set(forms))
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = numpy.array([number[word] for word in forms], dtype="int64")
    counts = numpy.bincount(ids, minlength=len(vocabulary))
    own = [signatures(word) for word in vocabulary]
    names = sorted({name for i, s in enumerate(own) if counts[i] <= _RARE for name in s})
    name_number = {name: i for i, name in enumerate(names)}
    levels = numpy.array([[name_number.get(name, -1) for name in s] for s in own]).reshape(-1, 3)

    prior = numpy.bincount(symbols, minlength=n_symbols) / max(len(symbols), 1)
    rare = counts[ids] <= _RARE
    # distributions of signatures, the vaguer first
    table = numpy.zeros((len(names) + 1, n_symbols))
    table[-1] = numpy.bincount(symbols[rare], minlength=n_symbols) + prior
    table[-1] /= table[-1].sum()
    vaguer = numpy.full(len(names), -1)
    for level in range(3):
        at = levels[ids[rare], level]
        numpy.add.at(table, (at, symbols[rare]), 1.0)
        if level:
            vaguer[levels[counts <= _RARE, level]] = levels[counts <= _RARE, level - 1]
    done = numpy.zeros(len(names), dtype=bool)
    for level in range(3):
        at = numpy.setdiff1d(numpy.unique(levels[counts <= _RARE, level]), [-1])
        at = at[~done[at]]
        totals = table[at].sum(axis=1, keepdims=True)
        table[at] = (table[at] + _STRENGTH * table[vaguer[at]]) / (totals + _STRENGTH)
        done[at] = True

    # units: symbols, then (signature, symbol), then (word, symbol)
    exact = levels[:, 2].copy()
    for level in (1, 0):
        exact = numpy.where(exact < 0, levels[:, level], exact)
    sig_pairs = numpy.unique(exact[ids] * n_symbols + symbols)
    sig_pairs = sig_pairs[sig_pairs >= 0]
    word_pairs = numpy.unique(ids * n_symbols + symbols)
    n_sig = len(sig_pairs)

    def sig_unit(signature: NDArray, symbol: NDArray) -> NDArray:
        key = signature * n_symbols + symbol
        at = numpy.minimum(numpy.searchsorted(sig_pairs, key), max(n_sig - 1, 0))
        found = (signature >= 0) & (sig_pairs[at] == key) if n_sig else numpy.zeros(len(key), bool)
        return numpy.where(found, n_symbols + at, symbol)

    parents = numpy.concatenate([
        numpy.full(n_symbols, -1),
        sig_pairs % n_symbols,
        sig_unit(exact[word_pairs // n_symbols], word_pairs % n_symbols),
    ]).astype("int32")  # fmt: skip
    word_units = n_symbols + n_sig + numpy.searchsorted(word_pairs, ids * n_symbols + symbols)

    rows, cols, scores, units = [], [], [], []

    def add_row(probs: NDArray) -> NDArray:
        kept = numpy.flatnonzero(probs > _NEGLIGIBLE)
        rows.append(len(kept))
        cols.append(kept)
        scores.append(probs[kept] / prior[kept])
        return kept

    strength = 10.0 / (1.0 + counts / 5.0) if smooth else numpy.zeros(len(counts))
    order = numpy.argsort(ids, kind="stable")
    bounds = numpy.searchsorted(ids[order], numpy.arange(len(vocabulary) + 1))
    for w in range(len(vocabulary)):
        joint = numpy.bincount(symbols[order[bounds[w] : bounds[w + 1]]], minlength=n_symbols)
        back_off = table[exact[w]] if exact[w] >= 0 else table[-1]
        kept = add_row((joint + strength[w] * back_off) / (counts[w] + strength[w]))
        pair = w * n_symbols + kept
        at = numpy.minimum(numpy.searchsorted(word_pairs, pair), len(word_pairs) - 1)
        vaguer_unit = sig_unit(numpy.full(len(kept), exact[w]), kept)
        units.append(numpy.where(word_pairs[at] == pair, n_symbols + n_sig + at, vaguer_unit))
    for s in range(len(names) + 1):
        kept = add_row(table[s])
        units.append(sig_unit(numpy.full(len(kept), s if s < len(names) else -1), kept))
    lexicon = Lexicon(
        vocabulary,
        names,
        numpy.cumsum([0, *rows]).astype("int32"),
        numpy.concatenate(cols).astype("int32"),
        numpy.concatenate(scores),
        numpy.concatenate(units).astype("int32"),
    )
    return lexicon, word_units.astype("int32"), parents
