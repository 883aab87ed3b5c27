"""What the latent tree model counts: symbols, vectors for them, and moments of small pieces of trees.

The moments are taken over one population, all triples (left child, parent, right child): with p = P(parent
state), T_d(h, c) = P(child state c | parent state h, d) and G = E[vector | state], column by column,

    Sigma_d   = E[parent child_d']      = G diag(p) T_d G'
    Lambda_L  = E[left right']          = G T_L' diag(p) T_R G'
    K(y)      = E[left (y'parent) right'] = G T_L' diag(p * G'y) T_R G'

hold exactly whatever the distribution p of such parents is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.linalg import svd
from ..eigenwords.vocabulary import normalize, signatures

# Symbols seen less often are counted as the class of words that look like them.
MIN_COUNT = 3
# Added to counts before rows and columns are scaled by their roots: rare symbols get short vectors.
_RARE = 3.0


class Alphabet:
    """Numbers of symbols. One that is not known is counted as the narrowest class of words that look
    like it, or, for tags, has the number after the last."""

    def __init__(self, symbols: Sequence[str], *, words: bool):
        """symbols (Sequence[str]): Symbols and classes, in the order of their numbers.
        words (bool): Whether unknown symbols have classes.
        """
        self.symbols = list(symbols)
        self.words = words
        self._ids = {symbol: i for i, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Sequence[str]) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): Their numbers; `len(self)` for what is not known."""
        ids, unknown = self._ids, len(self.symbols)
        numbers = numpy.empty(len(symbols), dtype="int32")
        for i, symbol in enumerate(symbols):
            number = ids.get(symbol)
            if number is None:
                number = unknown
                if self.words:
                    number = next((ids[n] for n in _other_names(symbol) if n in ids), unknown)
            numbers[i] = number
        return numbers

    @classmethod
    def count(cls, sentences: Iterable[Sequence[str]], *, words: bool) -> "Alphabet":
        """Make an alphabet of what is frequent enough.

        sentences (Iterable[Sequence[str]]): Symbols, sentence by sentence.
        words (bool): Whether the symbols are words: rare ones are counted as their classes.
        RETURNS (Alphabet): The alphabet, in alphabetical order.
        """
        counts = Counter(symbol for sentence in sentences for symbol in sentence)
        if not words:
            return cls(sorted(counts), words=False)
        known = {symbol for symbol, n in counts.items() if n >= MIN_COUNT}
        classes: Counter[str] = Counter()
        for symbol, n in counts.items():
            if symbol not in known:
                for name in _other_names(symbol):
                    classes[name] += n
        known.update(name for name, n in classes.items() if n >= MIN_COUNT)
        # not the wide classes whose words all have a narrower one: nothing would be known of them
        used = set(cls(sorted(known), words=True).encode(list(counts)).tolist())
        return cls([name for i, name in enumerate(sorted(known)) if i in used], words=True)


def _other_names(word: str) -> Iterator[str]:
    normal = normalize(word)
    yield normal
    yield normal.lower()
    yield from signatures(word)


@dataclass
class Trees:
    """Complete trees, one after the other.

    symbols (ndarray): int32, the number of every token's symbol.
    heads (ndarray): int32, heads in the sentence, from 1; 0 for the root.
    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    """

    symbols: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    starts: NDArray[numpy.int32]

    def arcs(self) -> tuple[NDArray, NDArray, NDArray]:
        """RETURNS (Tuple[ndarray, ndarray, ndarray]): Parents and children, as indices of tokens, and
        whether the child stands on the right."""
        children = numpy.flatnonzero(self.heads > 0)
        first = numpy.repeat(self.starts[:-1], numpy.diff(self.starts))
        parents = (first + self.heads - 1)[children]
        return parents, children, children > parents


@dataclass
class Moments:
    """Moments over triples (left child, parent, right child) of vectors; see above.

    sigma_left, sigma_right, lambda_left (ndarray): [k, k].
    third (ndarray): [k, k, k], third[b] = K(e_b).
    roots (ndarray): The mean vector of roots.
    n (float): How many triples there are, infinity for exact moments.
    """

    sigma_left: NDArray[numpy.float64]
    sigma_right: NDArray[numpy.float64]
    lambda_left: NDArray[numpy.float64]
    third: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]
    n: float

    @classmethod
    def count(cls, trees: Trees, vectors: NDArray[numpy.float64]) -> "Moments":
        """Take the moments of a treebank.

        trees (Trees): The treebank.
        vectors (ndarray): [symbols, k].
        RETURNS (Moments): The moments.
        """
        k = vectors.shape[1]
        parents, children, on_right = trees.arcs()
        # sums over the children of each token and side: a sum over pairs is a product of sums
        sums = numpy.zeros((2, len(trees.symbols), k))
        n_children = numpy.zeros((2, len(trees.symbols)))
        for side in (0, 1):
            own = on_right == bool(side)
            numpy.add.at(sums[side], parents[own], vectors[trees.symbols[children[own]]])
            n_children[side] = numpy.bincount(parents[own], minlength=len(trees.symbols))
        both = numpy.flatnonzero(n_children.prod(axis=0))
        left, right = sums[:, both]
        n_left, n_right = n_children[:, both, None]
        parent = vectors[trees.symbols[both]]
        n = max(float((n_left * n_right).sum()), 1.0)
        return cls(
            sigma_left=(parent * n_right).T @ left / n,
            sigma_right=(parent * n_left).T @ right / n,
            lambda_left=left.T @ right / n,
            third=numpy.stack([(left * parent[:, [b]]).T @ right for b in range(k)]) / n,
            roots=vectors[trees.symbols[trees.heads == 0]].mean(axis=0),
            n=n,
        )


def bigram_counts(trees: Trees, n_symbols: int):
    """How often symbols have each parent and each child, on either side.

    trees (Trees): The treebank.
    n_symbols (int): How many symbols there are.
    RETURNS (csr_matrix): [symbols, 4 * symbols].
    """
    from scipy.sparse import csr_matrix

    parents, children, on_right = trees.arcs()
    parent, child = trees.symbols[parents].astype("int64"), trees.symbols[children].astype("int64")
    rows = numpy.concatenate([child, parent])
    columns = numpy.concatenate([parent + n_symbols * on_right, child + n_symbols * (2 + on_right)])
    counts = numpy.ones(len(rows))
    return csr_matrix((counts, (rows, columns)), shape=(n_symbols, 4 * n_symbols))


def symbol_vectors(bigrams, k: int) -> NDArray[numpy.float64]:
    """Vectors of symbols by their parents and children: CCA by an SVD of scaled counts.

    The first singular vector is left out: it is the constant, which tells nothing.

    bigrams (csr_matrix): From `bigram_counts`.
    k (int): How many dimensions at most.
    RETURNS (ndarray): [symbols, dimensions], the most informative dimensions first.
    """
    from scipy.sparse import diags

    rows = numpy.asarray(bigrams.sum(axis=1)).ravel() + _RARE
    columns = numpy.asarray(bigrams.sum(axis=0)).ravel() + _RARE
    scaled = diags(rows**-0.5) @ bigrams @ diags(columns**-0.5)
    left, _, _ = svd(scaled, k + 1)
    return left[:, 1:] / numpy.sqrt(rows)[:, None]


def whitened(
    vectors: NDArray[numpy.float64], frequency: NDArray[numpy.float64], k: int
) -> NDArray[numpy.float64]:
    """The constant 1 and the first directions of vectors, uncorrelated and of variance 1.

    Then P(symbol | state) = frequency * vector'G is the only way to read emissions off E[vector | state]
    = G, and the first coordinate of G is 1.

    vectors (ndarray): [symbols, dimensions].
    frequency (ndarray): [symbols], sums to 1.
    k (int): How many columns at most.
    RETURNS (ndarray): [symbols, columns]; fewer columns than k if the vectors have no more directions.
    """
    columns = [numpy.ones(len(vectors))]
    for column in vectors.T:
        if len(columns) == k:
            break
        length = numpy.sqrt(frequency @ column**2)
        found = numpy.stack(columns, axis=1)
        for _ in range(2):  # twice: once loses digits
            column = column - found @ (found.T @ (frequency * column))
        rest = numpy.sqrt(frequency @ column**2)
        if rest > 1e-8 * length:
            columns.append(column / rest)
    return numpy.stack(columns, axis=1)
