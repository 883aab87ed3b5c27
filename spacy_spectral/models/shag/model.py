"""Operator models: automata over modifier sequences, whatever learnt them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy

from ...base.files import Array, Bool, Record
from ...trees.sentences import Floats, Ints

UNKNOWN_SYMBOL = "<unk>"
# Of an `OperatorModel`; heads are the named symbols, the unknown one and the root
FIELDS = Record(
    start=Array("float64", "names+2", 2, "states"),
    stop=Array("float64", "names+2", 2, "states"),
    operators=Array("float64", "names+2", 2, "names+1", "states", "states"),
    non_negative=Bool(),
)


class SymbolTable:
    """The symbols of a grammar.

    A symbol that it does not have, because training has not seen it or not often enough, is the narrowest
    that it has of those named by its first parts: NOUN|Case=Dat|Number=Plur is NOUN|Case=Dat or NOUN. If
    there is none, it is the back-off symbol.
    """

    def __init__(self, names: Sequence[str]):
        """names: The symbols without the back-off symbol, in the order of their ids."""
        self.names = [*names, UNKNOWN_SYMBOL]
        self._ids = {name: i for i, name in enumerate(names)}
        self.unknown = len(names)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], *, min_count: int = 1, max_symbols: int = 100
    ) -> "SymbolTable":
        """Choose the symbols of a grammar. If there are too many, the rarest of several parts go first,
        because they have a wider symbol to go to."""
        least = min_count
        pooled = _pooled(counts, least)
        while len(pooled) > max_symbols and any("|" in name for name in pooled):
            least += max(1, least // 4)
            pooled = _pooled(counts, least)
        names = sorted(pooled, key=lambda name: (-pooled[name], name))[:max_symbols]
        return cls(sorted(name for name in names if pooled[name] >= min_count))

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, names: Iterable[str]) -> Ints:
        names = list(names)
        ids = {name: self._find(name) for name in set(names)}
        return numpy.array([ids[name] for name in names], dtype="int32")

    def _find(self, name: str) -> int:
        while name not in self._ids and "|" in name:
            name = _wider(name)
        return self._ids.get(name, self.unknown)

    def __contains__(self, name: str) -> bool:
        return name in self._ids


def _wider(name: str) -> str:
    return name.rpartition("|")[0]


def _pooled(counts: Mapping[str, int], least: int) -> Counter[str]:
    """Counts after symbols of several parts that are too rare were counted as the next wider one."""
    pooled = Counter(counts)
    for n_bars in range(max((name.count("|") for name in counts), default=0), 0, -1):
        for name in [name for name in pooled if name.count("|") == n_bars]:
            if pooled[name] < least:
                pooled[_wider(name)] += pooled.pop(name)
    return pooled


@dataclass
class OperatorModel:
    """One automaton per head symbol and direction: f(x1..xm) = stop' A_xm .. A_x1 start.

    start and stop [H, 2, n], operators [H, 2, X, n, n], to-state before from-state. H head symbols (the
    X symbols and, last, the root), 2 directions, n states: a multiple of four, as the chart wants it;
    automata with fewer states are padded with zeros. `non_negative`: all parameters are probabilities,
    not projections of them.
    """

    start: Floats
    stop: Floats
    operators: Floats
    non_negative: bool

    @classmethod
    def zeros(cls, n_symbols: int, states: int, *, non_negative: bool) -> "OperatorModel":
        heads = n_symbols + 1
        states = -(-states // 4) * 4
        return cls(
            numpy.zeros((heads, 2, states)),
            numpy.zeros((heads, 2, states)),
            numpy.zeros((heads, 2, n_symbols, states, states)),
            non_negative,
        )

    @classmethod
    def uniform(cls, n_symbols: int) -> "OperatorModel":
        """Automata that say nothing: everything is left to the weights of arcs."""
        model = cls.zeros(n_symbols, 1, non_negative=True)
        model.start[:, :, 0] = model.stop[:, :, 0] = 1.0
        model.operators[:, :, :, 0, 0] = 1.0
        return model

    @property
    def states(self) -> int:
        return self.start.shape[2]

    @property
    def n_symbols(self) -> int:
        return self.operators.shape[2]

    @property
    def root(self) -> int:
        return self.operators.shape[2]

    def probability(self, head: int, direction: int, sequence: Iterable[int]) -> float:
        """Probability that a head generates exactly this sequence of modifiers, nearest first."""
        return float(self.stop[head, direction] @ self.forward(head, direction, sequence))

    def forward(self, head: int, direction: int, prefix: Iterable[int]) -> Floats:
        """State vector after a prefix of modifiers."""
        state = self.start[head, direction]
        for symbol in prefix:
            state = self.operators[head, direction, symbol] @ state
        return state
