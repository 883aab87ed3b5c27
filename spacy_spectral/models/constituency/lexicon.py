"""Which symbols words can have, and how much each speaks for one.

The score of symbol a for word w is p(a | w) / p(a), which is p(w | a) up to a factor of the word alone:

    p(a | w)   = (c(a, w) + al p(a | sig(w))) / (c(w) + al)        al = 10 / (1 + c(w) / 5)
    p(a | sig) = (c(a, sig) + 5 p(a | vaguer sig)) / (c(sig) + 5)   counted on words seen at most 3 times

Units tell words apart for models with states: a symbol; a symbol with a signature; a symbol with a word.
Each is a special case of the one before.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'"}


def form(word: str) -> str:
    """A word as it is looked up: quotes of treebanks and of typesetters are plain ones."""
    return _QUOTES.get(word, word).replace("’", "'")


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


class Lexicon:
    """Rows of scored symbols for words and for signatures.

    words, signatures (List[str]): What has a row: words first, then signatures, then anything else (one
        row).
    starts (ndarray): int32, where rows start.
    symbols (ndarray): int32, the symbols of rows, ascending.
    scores (ndarray): Their scores.
    units (ndarray): int32, the unit of each.
    """

    def __init__(
        self,
        words: list[str],
        signatures: list[str],
        starts: NDArray[numpy.int32],
        symbols: NDArray[numpy.int32],
        scores: NDArray[numpy.floating],
        units: NDArray[numpy.int32],
    ):
        self.words, self.signatures = words, signatures
        self.starts, self.symbols, self.scores, self.units = starts, symbols, scores, units
        self._word_rows = {word: i for i, word in enumerate(words)}
        self._signature_rows = {name: len(words) + i for i, name in enumerate(signatures)}

    def single(self) -> "Lexicon":
        """The same in single precision."""
        scores = self.scores.astype("float32")
        return Lexicon(self.words, self.signatures, self.starts, self.symbols, scores, self.units)

    def rows(self, words: Sequence[str], starts: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
        """The rows of the words of sentences.

        starts (ndarray): Where sentences start, closed by the number of words.
        RETURNS (ndarray): int32, a row for each word.
        """
        cache: dict[str, int] = {}
        result = numpy.empty(len(words), dtype="int32")
        for i, word in enumerate(words):
            row = cache.get(word)
            if row is None:
                row = cache[word] = self._row(form(word))
            result[i] = row
        # the first word of a sentence is capitalised whatever it is
        for i in starts[:-1].tolist():
            if i < len(words) and result[i] >= len(self.words):
                result[i] = self._word_rows.get(form(words[i]).lower(), result[i])
        return result

    def _row(self, word: str) -> int:
        row = self._word_rows.get(word)
        if row is None:
            for signature in reversed(signatures(word)):
                row = self._signature_rows.get(signature)
                if row is not None:
                    return row
            return len(self.words) + len(self.signatures)
        return row


def learn_lexicon(
    words: Sequence[str], symbols: NDArray[numpy.int32], n_symbols: int, *, smooth: bool = True
) -> tuple[Lexicon, NDArray[numpy.int32], NDArray[numpy.int32]]:
    """Count words.

    symbols (ndarray): int32, their symbols.
    smooth (bool): Whether words can have symbols that they were not seen with, as words that look like
        them can.
    RETURNS (Tuple[Lexicon, ndarray, ndarray]): The lexicon; the unit of every word; for every unit the
        one it is a case of, -1 for symbols, which are the first units.
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
    strength = 10.0 / (1.0 + counts / 5.0) if smooth else numpy.zeros(len(counts))
    order = numpy.argsort(ids, kind="stable")
    bounds = numpy.searchsorted(ids[order], numpy.arange(len(vocabulary) + 1))
    for w in range(len(vocabulary)):
        joint = numpy.bincount(symbols[order[bounds[w] : bounds[w + 1]]], minlength=n_symbols)
        back_off = table[exact[w]] if exact[w] >= 0 else table[-1]
        p = (joint + strength[w] * back_off) / (counts[w] + strength[w])
        kept = numpy.flatnonzero(p > _NEGLIGIBLE)
        rows.append(len(kept))
        cols.append(kept)
        scores.append(p[kept] / prior[kept])
        pair = w * n_symbols + kept
        at = numpy.searchsorted(word_pairs, pair)
        at = numpy.minimum(at, len(word_pairs) - 1)
        is_seen = word_pairs[at] == pair
        units.append(
            numpy.where(
                is_seen, n_symbols + n_sig + at, sig_unit(numpy.full(len(kept), exact[w]), kept)
            )
        )
    for s in range(len(names) + 1):
        kept = numpy.flatnonzero(table[s] > _NEGLIGIBLE)
        rows.append(len(kept))
        cols.append(kept)
        scores.append(table[s][kept] / prior[kept])
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
