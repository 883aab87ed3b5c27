# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sums, expectations, k best and samples over a hypergraph: the packed form of any chart.

An item is made by edges; an edge has a score and up to two parts, which are items:

    inside(i)  = log sum_e exp(score(e) + inside(first) + inside(second))
    share(e)   = P(e | i) = exp(score(e) + inside(first) + inside(second) - inside(i))
    mu(goal)   = 1,   mu(e) = mu(i) share(e),   mu(part) = sum of mu(e) over the edges it is in

Scores stand in slots, which edges may share: the sum of mu(e) over the edges of a slot is the derivative of
log Z by its score, so that expected features come out of the same pass. In logarithms nothing can over- or
underflow, and an item with one edge, as most are in pruned forests, needs no exponential.

The k best are found lazily, see `base/_k_best`; ties go to the first edge.
"""
import numpy

from libc.math cimport INFINITY, exp, isfinite, log
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from ..base._arena cimport Arena, arena_free, take, take_zeros
from ..base._k_best cimport Derivation, Ranking, Search, added, consider, find_best, find_ranked, item_t

from ..base.errors import Errors, SpectralError


cdef double graph_inside(
    const Hypergraph *graph, const double *scores, double *values, double *shares
) noexcept nogil:
    """Fill values[n_items] and shares[n_edges]. RETURNS (double): log Z, -inf without a derivation."""
    cdef int i, e, begin, end
    cdef double value, top, total
    for i in range(graph.n_items):
        begin, end = graph.start[i], graph.start[i + 1]
        top = -INFINITY
        for e in range(begin, end):
            value = _score(graph, scores, e)
            if graph.first[e] >= 0:
                value += values[graph.first[e]]
            if graph.second[e] >= 0:
                value += values[graph.second[e]]
            shares[e] = value
            top = max(top, value)
        values[i] = top
        if end - begin == 1:
            shares[begin] = 1 if top > -INFINITY else 0
        elif top > -INFINITY:
            total = 0
            for e in range(begin, end):
                shares[e] = exp(shares[e] - top)
                total += shares[e]
            values[i] += log(total)
            for e in range(begin, end):
                shares[e] /= total
        else:
            for e in range(begin, end):
                shares[e] = 0
    return values[graph.n_items - 1]


cdef void graph_outside(
    const Hypergraph *graph, const double *shares, double *mu_items, double *mu_slots
) noexcept nogil:
    """Fill mu_items[n_items] and mu_slots[n_slots] after `graph_inside` has found a derivation."""
    cdef int i, e
    cdef double mu
    memset(mu_items, 0, graph.n_items * sizeof(double))
    memset(mu_slots, 0, graph.n_slots * sizeof(double))
    mu_items[graph.n_items - 1] = 1
    for i in range(graph.n_items - 1, -1, -1):
        if mu_items[i] == 0:
            continue
        for e in range(graph.start[i], graph.start[i + 1]):
            mu = mu_items[i] * shares[e]
            if graph.slot[e] >= 0:
                mu_slots[graph.slot[e]] += mu
            if graph.first[e] >= 0:
                mu_items[graph.first[e]] += mu
            if graph.second[e] >= 0:
                mu_items[graph.second[e]] += mu


cdef inline double _score(const Hypergraph *graph, const double *scores, int e) noexcept nogil:
    return scores[graph.slot[e]] if graph.slot[e] >= 0 else 0


# The k best.


cdef enum:
    MOST_EDGES = 1 << 26  # of one derivation; items that are parts more than once could make it endless


cdef struct Chart:
    const Hypergraph* graph
    const double* scores
    double* best            # [n_items]


cdef double _parts(const void* given, item_t item, int e, item_t* first, item_t* second) noexcept nogil:
    cdef const Chart* chart = <const Chart*>given
    first[0], second[0] = chart.graph.first[e], chart.graph.second[e]
    return _score(chart.graph, chart.scores, e)


cdef double _best(const void* given, item_t item) noexcept nogil:
    return (<const Chart*>given).best[item]


cdef int _open(Search* search, item_t item, Ranking* ranking) noexcept nogil:
    cdef const Hypergraph* graph = (<const Chart*>search.chart).graph
    cdef int e
    for e in range(graph.start[item], graph.start[item + 1]):
        if consider(search, item, ranking, e, 0, 0) < 0:
            return -1
    return 0


cdef int _read(Search* search, item_t item, int rank, int32_t* edges, int n) noexcept nogil:
    """Write the edges of a derivation, or with NULL only count them. RETURNS (int): How many there are now, or
    -1 without memory."""
    cdef Derivation derivation
    cdef const Hypergraph* graph = (<const Chart*>search.chart).graph
    if item < 0:
        return n
    if n == MOST_EDGES:
        return -1
    if find_ranked(search, item, rank) < 0:  # the best of an item may not have been asked for
        return -1
    derivation = search.rankings[item].done[rank]
    if edges != NULL:
        edges[n] = derivation.step
    n = _read(search, graph.first[derivation.step], derivation.first, edges, n + 1)
    if n < 0:
        return -1
    return _read(search, graph.second[derivation.step], derivation.second, edges, n)


cdef int graph_k_best(
    const Hypergraph *graph, const double *scores, int k, double *found, int32_t **edges,
    int *n_edges, Arena *arena
) noexcept nogil:
    """The k best derivations: found[k] gets their scores, edges[k] and n_edges[k] what they are made of.
    RETURNS (int): How many there are, or -1 without memory."""
    cdef Chart chart
    cdef Search search
    cdef int i, e, n, goal = graph.n_items - 1
    cdef double first, second
    chart.graph, chart.scores = graph, scores
    chart.best = <double *>take(arena, graph.n_items * sizeof(double))
    search.chart, search.arena = &chart, arena
    search.parts, search.best, search.open = _parts, _best, _open
    search.rankings = <Ranking **>take_zeros(arena, graph.n_items * sizeof(Ranking *))
    if chart.best == NULL or search.rankings == NULL:
        return -1
    for i in range(graph.n_items):
        chart.best[i] = -INFINITY
        for e in range(graph.start[i], graph.start[i + 1]):
            first = chart.best[graph.first[e]] if graph.first[e] >= 0 else 0
            second = chart.best[graph.second[e]] if graph.second[e] >= 0 else 0
            chart.best[i] = max(chart.best[i], added(_score(graph, scores, e), first, second))
    n = find_best(&search, goal, k)
    for i in range(n):
        n_edges[i] = _read(&search, goal, i, NULL, 0)
        if n_edges[i] < 0:
            return -1
        edges[i] = <int32_t *>take(arena, n_edges[i] * sizeof(int32_t))
        if edges[i] == NULL or _read(&search, goal, i, edges[i], 0) < 0:
            return -1
        found[i] = search.rankings[goal].done[i].score
    return n


cdef class Graph:
    """A hypergraph, immutable: the columns of `Hypergraph`. Items are numbered parts before wholes; the
    last is the goal."""
    cdef Hypergraph graph
    cdef const int32_t[::1] start, first, second, slot
    cdef readonly int n_items, n_edges, n_slots
    cdef readonly object slots

    def __init__(
        self, const int32_t[::1] start not None, const int32_t[::1] first not None,
        const int32_t[::1] second not None, const int32_t[::1] slot not None
    ):
        self.start, self.first = numpy.array(start), numpy.array(first)
        self.second, self.slot = numpy.array(second), numpy.array(slot)
        self.slots = numpy.asarray(self.slot)
        self.n_items, self.n_edges = start.shape[0] - 1, first.shape[0]
        self._check()
        self.n_slots = numpy.asarray(self.slot).max() + 1
        self.graph.n_items, self.graph.n_edges = self.n_items, self.n_edges
        self.graph.n_slots = self.n_slots
        self.graph.start = &self.start[0]
        self.graph.first = &self.first[0]
        self.graph.second = &self.second[0]
        self.graph.slot = &self.slot[0]

    cdef _check(self):
        cdef int i, e
        if self.n_items < 1 or self.start[0] != 0 or self.start[self.n_items] != self.n_edges:
            raise SpectralError(Errors.S909.format(reason="edges of items do not begin and end with all"))
        if self.n_edges < 1 or not self.second.shape[0] == self.slot.shape[0] == self.n_edges:
            raise SpectralError(Errors.S909.format(reason="there is no edge, or columns differ in length"))
        for i in range(self.n_items):
            if self.start[i] > self.start[i + 1] or self.start[i] < 0:
                raise SpectralError(Errors.S909.format(reason="starts do not ascend"))
            for e in range(self.start[i], self.start[i + 1]):
                if not (NOTHING <= self.first[e] < i and NOTHING <= self.second[e] < i):
                    raise SpectralError(Errors.S909.format(reason=f"edge {e} has parts that come later"))
                if self.slot[e] < NOTHING:
                    raise SpectralError(Errors.S909.format(reason=f"edge {e} has no slot"))

    def _scores(self, scores):
        values = numpy.ascontiguousarray(scores, dtype=numpy.float64)
        if values.ndim != 1 or len(values) < self.n_slots or not (values < numpy.inf).all():
            raise SpectralError(Errors.S909.format(reason="it needs a score below inf for every slot"))
        return values if len(values) else numpy.zeros(1)

    def expectations(self, scores):
        """log Z, and how often every slot is used in expectation, given the scores of slots; if there is
        no derivation, -inf and zeros."""
        cdef const double[::1] own = self._scores(scores)
        values, shares = numpy.empty(self.n_items), numpy.empty(self.n_edges)
        mu_items, mu = numpy.empty(self.n_items), numpy.zeros(max(self.n_slots, 1))
        cdef double[::1] out_values = values, out_shares = shares, out_items = mu_items, out_mu = mu
        cdef double log_z
        with nogil:
            log_z = graph_inside(&self.graph, &own[0], &out_values[0], &out_shares[0])
            if isfinite(log_z):
                graph_outside(&self.graph, &out_shares[0], &out_items[0], &out_mu[0])
        return log_z, mu[:self.n_slots]

    def k_best(self, scores, int k):
        """The edges and the score of each of the k best derivations, best first."""
        cdef const double[::1] own = self._scores(scores)
        cdef Arena arena
        cdef int32_t **edges
        cdef int *sizes
        cdef int t, n = -1
        cdef int32_t[::1] out
        if k < 1:
            return []
        found = numpy.empty(k)
        cdef double[::1] out_found = found
        result = []
        memset(&arena, 0, sizeof(arena))
        try:
            with nogil:
                edges = <int32_t **>take(&arena, k * sizeof(int32_t *))
                sizes = <int *>take(&arena, k * sizeof(int))
                if edges != NULL and sizes != NULL:
                    n = graph_k_best(
                        &self.graph, &own[0], k, &out_found[0], edges, sizes, &arena)
            if n < 0:
                raise MemoryError
            for t in range(n):
                chosen = numpy.empty(sizes[t], dtype=numpy.int32)
                out = chosen
                memcpy(&out[0], edges[t], sizes[t] * sizeof(int32_t))
                result.append((chosen, float(found[t])))
        finally:
            arena_free(&arena)
        return result

    def sample(self, scores, rng, int n=1):
        """The edges of n derivations, each drawn with its probability; none if there is no derivation."""
        cdef const double[::1] own = self._scores(scores)
        values, shares = numpy.empty(self.n_items), numpy.empty(self.n_edges)
        cdef double[::1] out_values = values, out_shares = shares
        cdef int i, e, drawn = 0
        cdef double rest
        if not isfinite(graph_inside(&self.graph, &own[0], &out_values[0], &out_shares[0])):
            return []
        result = []
        for _ in range(n):
            chosen, waiting = [], [self.n_items - 1]
            while waiting:
                i = waiting.pop()
                rest = rng.random()
                for e in range(self.start[i], self.start[i + 1]):
                    if out_shares[e] > 0:
                        drawn = e
                        rest -= out_shares[e]
                        if rest < 0:
                            break
                chosen.append(drawn)
                parts = self.first[drawn], self.second[drawn]
                waiting += [part for part in parts if part >= 0]
            result.append(numpy.array(chosen, dtype=numpy.int32))
        return result
