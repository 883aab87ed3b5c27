"""Small deterministic automata that show what an operator model has learnt.

Section 5.3 of Luque et al. 2012. The states of an operator model are vectors, in a basis that means
nothing to a reader. Histories can be read: two prefixes of modifiers after which nearly the same is
to come have forward vectors of nearly the same direction. So the forward vectors of the frequent
prefixes are clustered, clusters are merged until they are the states of a deterministic automaton,
and its probabilities are those of the prefixes in them.

A loaded model has no treebank any more: the prefixes are those the model itself finds likely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from ..models.shag.estimate import LEFT, RIGHT

if TYPE_CHECKING:
    from ..models.shag.grammar import Grammar

DIRECTIONS = {"left": LEFT, "right": RIGHT}

# Forward vectors at a smaller cosine distance are the same state but for noise.
_SAME_STATE = 0.01
# Operators that do not let their sequences end are damped to this spectral radius.
_MOST_GROWTH = 0.999
# This many of a state's prefixes are named as its examples.
_EXAMPLES = 5


@dataclass(frozen=True)
class AutomatonState:
    """hidden: Probability of the transitions that were too rare to show."""

    probability: float
    stop: float
    hidden: float
    prefixes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AutomatonEdge:
    """All transitions from one state to another."""

    source: int
    target: int
    symbols: tuple[tuple[str, float], ...]

    @property
    def probability(self) -> float:
        return sum(probability for _, probability in self.symbols)


@dataclass(frozen=True)
class AutomatonGraph:
    """A deterministic automaton over the modifiers of a head, nearest first. State 0 is the first."""

    head: str
    direction: str
    states: tuple[AutomatonState, ...]
    edges: tuple[AutomatonEdge, ...]

    def to_dot(self) -> str:
        """The automaton in the language of Graphviz."""
        from .drawing import to_dot

        return to_dot(self)

    def to_svg(self) -> str:
        """The automaton as a picture of its own; no other program is needed."""
        from .drawing import to_svg

        return to_svg(self)


def head_automaton(
    grammar: "Grammar",
    head: str,
    direction: str,
    *,
    states: int = 6,
    threshold: float = 0.05,
    min_probability: float = 0.005,
    max_prefixes: int = 500,
) -> AutomatonGraph:
    """The automaton of one head symbol and direction of a grammar, as a readable DFA: the automata
    alone, without length factor and lexical model of the grammar.

    threshold: Less probable transitions are left out, with states only they lead to.
    min_probability: Rarer prefixes are not looked at. All must fit into the DFA, so the more rare ones
    there are, the more states are merged.
    """
    if direction not in DIRECTIONS:
        choices = ", ".join(DIRECTIONS)
        raise SpectralError(Errors.S151.format(value=direction, choices=choices))
    if head not in grammar.symbols:
        known = ", ".join(grammar.symbols.names[:-1])
        raise SpectralError(Errors.S150.format(value=head, known=known))
    if states < 1 or not 0.0 <= threshold <= 1.0:
        raise SpectralError(Errors.S153)
    if grammar.settings.only_lexical:
        raise SpectralError(Errors.S152)
    names = grammar.symbols.names
    settings = grammar.settings
    if settings.min_symbol_count <= 1 and len(names) - 1 < settings.max_symbols:
        # the back-off symbol stands for no token of the training data: its weight is no probability
        names = names[:-1]
    row = int(grammar.symbols.encode([head])[0]), DIRECTIONS[direction]
    model = grammar.automata
    dfa = _Determinised(
        model.start[row],
        model.operators[row][: len(names)],
        model.stop[row],
        states=states,
        min_probability=min_probability,
        max_prefixes=max_prefixes,
    )
    return dfa.graph(head, direction, names, threshold)


@dataclass
class _Prefix:
    symbols: tuple[int, ...]
    probability: float
    vector: NDArray[numpy.float64]
    events: NDArray[numpy.float64]  # probability of every symbol to follow and, last, of STOP


def frequent_prefixes(
    start: NDArray,
    operators: NDArray,
    stop: NDArray,
    *,
    min_probability: float,
    max_prefixes: int,
) -> Iterator[_Prefix]:
    """Best-first search for the prefixes that most sequences of an automaton (start [n], operators [X,
    n, n], stop [n]) begin with.

    The mass of all sequences that begin with p is total' forward(p), where total' = stop' (I - A)^-1
    sums over everything that may follow (A the sum of all operators). Values of spectral models can be
    negative or add up wrongly: at each prefix the masses of its continuations are clipped at 0 and
    normalised, so that what follows a prefix is a distribution. For a proper automaton this changes
    nothing.
    """
    radius = numpy.abs(numpy.linalg.eigvals(operators.sum(axis=0))).max(initial=0.0)
    if radius > _MOST_GROWTH:
        operators = operators * (_MOST_GROWTH / radius)
    total = numpy.linalg.solve(numpy.eye(len(stop)) - operators.sum(axis=0).T, stop)
    queue: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    vectors: dict[tuple[int, ...], NDArray] = {(): start}
    for _ in range(max_prefixes):
        if not queue:
            return
        probability, prefix = heappop(queue)
        probability = -probability
        vector = vectors.pop(prefix)
        following = operators @ vector
        events = numpy.maximum(numpy.append(following @ total, stop @ vector), 0.0)
        mass = events.sum()
        if mass > 0:
            events /= mass
        else:
            events[-1] = 1.0
        yield _Prefix(prefix, probability, _unit(vector), events)
        for symbol in numpy.flatnonzero(events[:-1] * probability >= min_probability).tolist():
            longer = (*prefix, symbol)
            # only the direction of a vector matters: keep long prefixes from underflowing
            vectors[longer] = _unit(following[symbol])
            heappush(queue, (-probability * float(events[symbol]), longer))


def _unit(vector: NDArray) -> NDArray:
    norm = numpy.linalg.norm(vector)
    return vector / norm if norm > 0 else vector


class _Determinised:
    """The frequent prefixes of an automaton, and the state of the DFA that each leads to."""

    def __init__(
        self, start: NDArray, operators: NDArray, stop: NDArray, *, states: int, **limits
    ) -> None:
        self.prefixes = list(frequent_prefixes(start, operators, stop, **limits))
        self.operators = operators
        self.vectors = numpy.array([prefix.vector for prefix in self.prefixes])
        index = {prefix.symbols: i for i, prefix in enumerate(self.prefixes)}
        # (index of the shorter prefix, symbol, index of the longer one)
        self.steps = [
            (index[prefix.symbols[:-1]], prefix.symbols[-1], i)
            for i, prefix in enumerate(self.prefixes)
            if prefix.symbols
        ]
        self.state = self._cluster(states)

    def _cluster(self, states: int) -> NDArray[numpy.int64]:
        """Cut the tree of clusters where merging to a DFA leaves most states, but not too many."""
        n = len(self.prefixes)
        best = numpy.zeros(n, dtype="int64")
        if n < 2 or states < 2:
            return best
        from scipy.cluster.hierarchy import fcluster, linkage

        # rounding can make the distance of equal vectors negative, which scipy refuses
        upper = numpy.triu_indices(n, 1)
        distances = numpy.maximum(1.0 - (self.vectors @ self.vectors.T)[upper], 0.0)
        tree = linkage(distances, method="average")
        most = 1 + int(numpy.count_nonzero(tree[:, 2] > _SAME_STATE))
        found = 1
        for clusters in range(2, most + 1):
            merged = self._merge(fcluster(tree, clusters, criterion="maxclust"))
            size = int(merged.max()) + 1
            if found < size <= states:
                best, found = merged, size
            # cuts only get finer: nothing is left to win
            if found == states:
                break
        return best

    def _merge(self, clusters: NDArray) -> NDArray[numpy.int64]:
        """Merge clusters until equal symbols lead from equal clusters to equal clusters."""
        clusters = clusters.copy()
        consistent = False
        while not consistent:
            consistent = True
            targets: dict[tuple[int, int], int] = {}
            for source, symbol, target in self.steps:
                known = targets.setdefault((clusters[source], symbol), clusters[target])
                if known != clusters[target]:
                    clusters[clusters == clusters[target]] = known
                    consistent = False
                    break
        _, first, inverse = numpy.unique(clusters, return_index=True, return_inverse=True)
        return numpy.argsort(numpy.argsort(first))[inverse]

    def graph(
        self, head: str, direction: str, names: Sequence[str], threshold: float
    ) -> AutomatonGraph:
        weights = numpy.array([prefix.probability for prefix in self.prefixes])
        member = (self.state == numpy.arange(self.state.max() + 1)[:, None]) * weights
        visits = member.sum(axis=1)
        events = member @ numpy.array([prefix.events for prefix in self.prefixes])
        events /= visits[:, None]
        shown = (events[:, :-1] >= threshold) & (events[:, :-1] > 0)
        targets = self._targets(shown)
        flow = numpy.zeros((len(visits), len(visits)))
        for (state, symbol), target in targets.items():
            flow[state, target] += visits[state] * events[state, symbol]
        reachable = _forward_order(flow)
        number = {state: i for i, state in enumerate(reachable)}
        states, edges = [], []
        for state in reachable:
            own = numpy.flatnonzero(self.state == state)[:_EXAMPLES]
            examples = tuple(
                tuple(names[symbol] for symbol in self.prefixes[i].symbols) for i in own
            )
            states.append(
                AutomatonState(
                    float(visits[state] / visits.sum()),
                    float(events[state, -1]),
                    float(events[state, :-1][~shown[state]].sum()),
                    examples,
                )
            )
            by_target: dict[int, list[tuple[str, float]]] = {}
            for symbol in numpy.argsort(-events[state, :-1], kind="stable").tolist():
                if shown[state, symbol]:
                    transition = (names[symbol], float(events[state, symbol]))
                    by_target.setdefault(number[targets[state, symbol]], []).append(transition)
            for target, symbols in sorted(by_target.items()):
                edges.append(AutomatonEdge(number[state], target, tuple(symbols)))
        return AutomatonGraph(head, direction, tuple(states), tuple(edges))

    def _targets(self, shown: NDArray[numpy.bool_]) -> dict[tuple[int, int], int]:
        """Where every transition that is shown leads to."""
        targets = {
            (int(self.state[source]), symbol): int(self.state[target])
            for source, symbol, target in self.steps
        }
        size = len(shown)
        member = (self.state == numpy.arange(size)[:, None]).astype("float64")
        centres = (member @ self.vectors) / member.sum(axis=1)[:, None]
        for state, symbol in numpy.argwhere(shown).tolist():
            if (state, symbol) not in targets:
                # no frequent prefix goes this way: continue the most frequent one of the state, to
                # the nearest state by group average
                first = int(numpy.argmax(self.state == state))
                vector = self.operators[symbol] @ self.prefixes[first].vector
                targets[state, symbol] = int(numpy.argmax(centres @ vector))
        return {key: target for key, target in targets.items() if shown[key]}


def _forward_order(flow: NDArray) -> list[int]:
    """The states that can be reached from state 0, in an order that most steps follow. Finding the very
    best order is hard. Here the next state is always the one that, among those that are left, sends most
    in proportion to what it receives: sources first, sinks last."""
    left = [0]
    for state in left:
        left += [t for t in numpy.flatnonzero(flow[state]).tolist() if t not in left]
    order = [left.pop(0)]
    flow = flow * (1 - numpy.eye(len(flow)))
    while left:
        between = flow[numpy.ix_(left, left)]
        sent, received = between.sum(axis=1), between.sum(axis=0)
        share = (sent - received) / numpy.maximum(sent + received, 1e-300)
        order.append(left.pop(int(numpy.argmax(share))))
    return order
