"""A grammar with hidden states: every symbol has some, every rule a tensor of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from ._forest import Forest, coarse_items
from ._latent import posteriors
from .lexicon import Lexicon
from .statistics import Items, RulePairs, Symbols

VECTORS, DENSE, MEANS = range(3)
_MOST = 127
_DIGITS = 10
# of the chart of the plain grammar; see `_forest.coarse_items`
_BEAM, _THRESHOLD = 1e-6, 1e-4


def row_sizes(kind: NDArray[numpy.uint8], n_states: NDArray) -> NDArray[numpy.int64]:
    """The lengths of all rows of all tensors, by the numbers of states of parent, left and right child."""
    sizes = n_states.astype("int64")
    n_rows = numpy.choose(kind, [numpy.full(len(kind), 3), sizes[:, 1] * sizes[:, 2], 0])
    first = numpy.cumsum(n_rows) - n_rows
    result = numpy.repeat(sizes[:, 0], n_rows)
    vectors = kind == VECTORS
    for child in (1, 2):
        result[first[vectors] + child] = sizes[vectors, child]
    return result


def shrink(
    values: NDArray[numpy.float32], sizes: NDArray[numpy.int64]
) -> tuple[NDArray[numpy.int8], NDArray[numpy.float32]]:
    """Rows of numbers as bytes, with the scale of every row; none of them has length 0."""
    if not len(sizes):
        return numpy.zeros(0, dtype="int8"), numpy.zeros(0, dtype="float32")
    starts = numpy.cumsum(sizes) - sizes
    largest = numpy.maximum.reduceat(numpy.abs(values.astype("float64")), starts)
    mantissa, exponent = numpy.frexp(largest / _MOST)
    # rounded up, so that no number is larger than 127 scales; tiny ones would lose digits
    mantissa = numpy.ceil(mantissa * 2.0**_DIGITS) / 2.0**_DIGITS
    scales = numpy.where(exponent < -100, 0.0, numpy.ldexp(mantissa, exponent))
    inverse = numpy.where(scales > 0, 1.0 / numpy.maximum(scales, 1e-300), 0.0)
    small = numpy.rint(values * numpy.repeat(inverse, sizes)).astype("int8")
    return small, scales.astype("float32")


def grow(
    small: NDArray[numpy.int8], scales: NDArray[numpy.float32], sizes: NDArray[numpy.int64]
) -> NDArray[numpy.float32]:
    """The numbers that `shrink` made bytes of."""
    return small.astype("float32") * numpy.repeat(scales, sizes)


@dataclass
class LatentGrammar:
    """A grammar with states. Its parameters are estimated in double precision and used in single
    precision.

    root: [symbols, states]; tensors: one after the other, see `_latent.pyx`; vectors: [units of the
    lexicon, states].
    kind: By rule: VECTORS, DENSE, or MEANS of its symbols; y_mean, z_mean: [symbols, states], means of
    insides and outsides.
    rule_probs, root_probs, prior: The plain grammar: of rules given their parent, of symbols as roots
    and of symbols.
    """

    grammar: Symbols
    lexicon: Lexicon
    n_states: NDArray[numpy.int32]
    root: NDArray[numpy.floating]
    tensors: NDArray[numpy.floating]
    tensor_starts: NDArray[numpy.int64]
    kind: NDArray[numpy.uint8]
    y_mean: NDArray[numpy.floating]
    z_mean: NDArray[numpy.floating]
    vectors: NDArray[numpy.floating]
    rule_probs: NDArray[numpy.float64]
    root_probs: NDArray[numpy.float64]
    prior: NDArray[numpy.float64]

    def __post_init__(self) -> None:
        self.pairs = RulePairs(self.grammar)
        self._factors = self.rule_probs.astype(self.tensors.dtype)
        self._pair_probs = numpy.ascontiguousarray(self.rule_probs[self.pairs.rule])
        lexicon = self.lexicon
        of_row = numpy.repeat(numpy.arange(len(lexicon.starts) - 1), numpy.diff(lexicon.starts))
        self._entry_keys = of_row * numpy.int64(self.grammar.n_words) + lexicon.symbols

    def single(self) -> "LatentGrammar":
        """The same in single precision, in which parsing is fastest."""
        names = ("root", "tensors", "vectors", "y_mean", "z_mean")
        arrays: dict[str, Any] = {name: getattr(self, name).astype("float32") for name in names}
        return replace(self, lexicon=self.lexicon.single(), **arrays)

    def rounded(self) -> "LatentGrammar":
        """The same, with parameters that are as precise as files are."""
        own = self.single()
        sizes = own.row_sizes()
        tensors = grow(*shrink(own.tensors, sizes), sizes)
        return replace(
            own, tensors=tensors, vectors=own.vectors.astype("float16").astype("float32")
        )

    def row_sizes(self) -> NDArray[numpy.int64]:
        """The lengths of the rows of tensors, which files keep apart."""
        return row_sizes(self.kind, self.n_states[self.grammar.rules])

    def forest(self, rows: NDArray[numpy.int32], starts: NDArray[numpy.int64]) -> Forest:
        """The items that are in probable trees of the plain grammar, of words as rows of the lexicon."""
        lexicon, pairs = self.lexicon, self.pairs
        found: list[tuple[Any, ...]] = []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            own = rows[begin:end]
            first, sizes = lexicon.starts[own], lexicon.starts[own + 1] - lexicon.starts[own]
            word_start = numpy.concatenate([[0], numpy.cumsum(sizes)]).astype("int32")
            places = numpy.repeat(first - word_start[:-1], sizes) + numpy.arange(word_start[-1])
            for beam in (_BEAM, 0.0):
                items = coarse_items(
                    word_start, lexicon.symbols[places], lexicon.scores[places].astype("float64"),
                    pairs.start, pairs.parent, self._pair_probs, self.root_probs, self.prior, beam,
                    _THRESHOLD,
                )  # fmt: skip
                if items[-1] > -numpy.inf:
                    break
            found.append(items)
        item_starts = numpy.cumsum([0, *(len(items[0]) for items in found)])
        columns = [
            numpy.concatenate([numpy.zeros(0, dtype="int32"), *(items[i] for items in found)])
            for i in range(3)
        ]
        every = Items(item_starts, *columns)
        return Forest.build(pairs, numpy.diff(starts).astype("int32"), every)

    def posteriors(
        self, forest: Forest, rows: NDArray[numpy.int32], starts: NDArray[numpy.int64]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]:
        """log |Z| by sentence, posteriors of items and of edges; spectral ones can be negative."""
        return posteriors(*self.kernel_arrays(forest, rows, starts))[:3]

    def kernel_arrays(
        self, forest: Forest, rows: NDArray[numpy.int32], starts: NDArray[numpy.int64]
    ) -> tuple[Any, ...]:
        """What the kernel takes: forests, vectors of their words, parameters."""
        offset = numpy.concatenate([[0], numpy.cumsum(self.n_states[forest.symbol])])
        words = numpy.zeros(int(offset[-1]), dtype=self.vectors.dtype)
        scale = numpy.zeros(len(forest.symbol))
        items = numpy.flatnonzero(forest.is_word)
        entries = self._entries(forest, items, rows, starts)
        known = entries >= 0
        items, entries = items[known], entries[known]
        scale[items] = numpy.log(self.lexicon.scores[entries])
        vectors = self.vectors[self.lexicon.units[entries]]
        sizes = self.n_states[forest.symbol[items]]
        column = numpy.arange(vectors.shape[1])
        there = column < sizes[:, None]
        words[(offset[items][:, None] + column)[there]] = vectors[there]
        return (
            forest, offset, words, scale, self.n_states, self.root, self.tensors, self.tensor_starts,
            self.kind, self._factors, self.z_mean, self.y_mean,
        )  # fmt: skip

    def _entries(
        self,
        forest: Forest,
        items: NDArray,
        rows: NDArray[numpy.int32],
        starts: NDArray[numpy.int64],
    ) -> NDArray[numpy.int64]:
        """The entry of the lexicon for each item of a word; -1 where it has none."""
        row = rows[starts[:-1][forest.items.sentence[items]] + forest.begin[items]]
        n = self.grammar.n_words
        wanted = row * numpy.int64(n) + forest.symbol[items]
        at = numpy.minimum(numpy.searchsorted(self._entry_keys, wanted), len(self._entry_keys) - 1)
        return numpy.where(self._entry_keys[at] == wanted, at, -1)
