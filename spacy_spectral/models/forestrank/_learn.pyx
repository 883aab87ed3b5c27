# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Learning weights by conditional likelihood.

The gradient of a weight is how often its feature is in the target tree less how often it is expected to be
(Geman & Johnson 2002). AdaGrad, sentence by sentence; weights are averaged over all steps.
"""
import numpy

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._linear cimport stride
from ...forest._hypergraph cimport NOTHING
from ._chart cimport DONE, EMPTY, NO_MEMORY, ROOT, STOP, Arcs, Forest, Part
from ._engine cimport Engine, Entry
from ._units cimport Scored, Sentence, open_sentence, pair_unit, sibling_unit

cdef double NEGLIGIBLE = 1e-5   # gradients below it are not worth a visit to memory


cdef struct Slope:
    float gradient
    float squares
    double drift        # sum of step number * change, for the average over steps
    uint8_t listed      # among those that the next step changes


cdef int _mark_tree(
    const Forest *forest, const int32_t *target, uint8_t *inside, Arena *arena
) noexcept nogil:
    """Mark the parts that the tree of some arcs is made of. RETURNS (int): DONE or NO_MEMORY."""
    cdef const Arcs *arcs = &forest.arcs
    cdef const Part *part
    cdef int p, m, h, c, n = arcs.n
    cdef int *before = <int *>take(arena, (n + 1) * sizeof(int))       # of the arc to a token
    cdef int *latest = <int *>take(arena, 2 * (n + 1) * sizeof(int))   # outermost, left and right
    if before == NULL or latest == NULL:
        return NO_MEMORY
    for h in range(2 * (n + 1)):
        latest[h] = NOTHING
    for m in range(1, n + 1):  # to the right of heads, from the inside out
        h = arcs.head[target[m - 1]]
        if h < m:
            before[m], latest[2 * h + 1] = latest[2 * h + 1], target[m - 1]
    for m in range(n, 0, -1):  # to the left
        h = arcs.head[target[m - 1]]
        if h > m:
            before[m], latest[2 * h] = latest[2 * h], target[m - 1]
    for p in range(forest.graph.n_slots):
        part = forest.parts + p
        c = part.c
        if part.a >= 0 and target[arcs.mod[part.a] - 1] != part.a:
            continue
        if part.kind == EMPTY:
            inside[p] = latest[2 * arcs.mod[part.a] + part.s] == NOTHING
        elif target[arcs.mod[c] - 1] == c:
            if part.kind == STOP:
                inside[p] = latest[2 * arcs.head[c] + (arcs.mod[c] > arcs.head[c])] == c
            else:
                inside[p] = part.kind == ROOT or before[arcs.mod[c]] == part.s
    return DONE


cdef class Learner(Engine):
    """An engine whose weights are being learnt."""
    cdef Slope *slopes
    cdef double[::1] dense_squares
    cdef double[::1] dense_drift
    cdef long n_steps
    cdef uint32_t *touched
    cdef size_t n_touched

    def __dealloc__(self):
        free(self.slopes)
        free(self.touched)

    def hashes(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None, const int32_t[::1] target not None
    ):
        """The hashes, each as often as it occurs, of everything that features can look at in some trees:
        the arc of every token, counted in the sentence; -1 in those without a tree."""
        cdef int s, i, status, n_sentences = starts.shape[0] - 1
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef uint32_t[::1] out
        parts = []
        memset(&arena, 0, sizeof(arena))
        try:
            for s in range(n_sentences):
                if starts[s + 1] == starts[s] or target[starts[s]] < 0:
                    continue
                arena_reset(&arena)
                open_sentence(&sentence, s, starts, tokens, arc_starts, labels, dense)
                # of the target tree alone
                status = self._prepare_tree(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]], &target[starts[s]],
                    &scored, &arena)
                if status == NO_MEMORY:
                    raise MemoryError
                if status == DONE:
                    own = numpy.empty(scored.n_found, dtype=numpy.uint32)
                    out = own
                    for i in range(scored.n_found):
                        out[i] = scored.found[i]
                    parts.append(own)
        finally:
            arena_free(&arena)
        return numpy.concatenate([numpy.zeros(0, dtype=numpy.uint32), *parts])

    cdef int _prepare_tree(
        self, Sentence *sentence, const int32_t *head, const int32_t *mod, const int32_t *target,
        Scored *scored, Arena *arena
    ) noexcept nogil:
        cdef int m, n = sentence.n
        cdef int32_t *heads = <int32_t *>take(arena, n * sizeof(int32_t))
        cdef int32_t *mods = <int32_t *>take(arena, n * sizeof(int32_t))
        cdef uint32_t *labels = <uint32_t *>take(arena, n * sizeof(uint32_t))
        if heads == NULL or mods == NULL or labels == NULL:
            return NO_MEMORY
        for m in range(n):
            heads[m], mods[m], labels[m] = head[target[m]], m + 1, sentence.labels[target[m]]
        sentence.labels = labels
        return self._prepare(sentence, heads, mods, n, scored, arena)

    def begin_learning(self, double initial_squares):
        """Take memory for gradients; every AdaGrad accumulator starts at `initial_squares`."""
        cdef size_t i
        free(self.slopes)
        self.slopes = <Slope *>calloc(<size_t>self.mask + 1, sizeof(Slope))
        free(self.touched)
        self.touched = <uint32_t *>calloc(<size_t>self.mask + 1, sizeof(uint32_t))
        if self.slopes == NULL or self.touched == NULL:
            raise MemoryError
        for i in range(<size_t>self.mask + 1):
            self.slopes[i].squares = initial_squares
        self.dense_squares = numpy.full(self.dense.shape[0], initial_squares)
        self.dense_drift = numpy.zeros(self.dense.shape[0])
        self.n_steps, self.n_touched = 0, 0

    def learn(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None, const int32_t[::1] target not None,
        const int64_t[::1] order not None, double rate, double decay
    ):
        """Go once through sentences in some order, one step for each, by AdaGrad; `decay` is the L2
        penalty of weights that are touched. Sentences without a tree (see `hashes`) teach nothing.

        RETURNS: The negative log-likelihood of the target trees, and how many there were.
        """
        cdef Py_ssize_t i
        cdef int s, status = DONE, n_taught = 0
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef double loss = 0, own
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for i in range(order.shape[0]):
                s = <int>order[i]
                if starts[s + 1] == starts[s] or target[starts[s]] < 0:
                    continue
                arena_reset(&arena)
                open_sentence(&sentence, s, starts, tokens, arc_starts, labels, dense)
                status = self._infer(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]],
                    arc_starts[s + 1] - arc_starts[s], &scored, &arena)
                if status == NO_MEMORY:
                    break
                if status != DONE:
                    status = DONE
                    continue
                status = self._gradient(
                    &sentence, &scored, &target[starts[s]], rate, &own, &arena)
                if status:
                    break
                self._step(rate, decay)
                loss += own
                n_taught += 1
            arena_free(&arena)
        if status:
            raise MemoryError
        return loss, n_taught

    cdef int _gradient(
        self, const Sentence *sentence, Scored *scored, const int32_t *target, double rate,
        double *loss, Arena *arena
    ) noexcept nogil:
        """Add gradients of features and go a step along those of numbers. `loss` becomes that of the sentence."""
        cdef int p, i, unit, d, n_dense = self.dense.shape[0]
        cdef uint8_t *inside = <uint8_t *>take_zeros(arena, scored.forest.graph.n_slots)
        cdef double *slope = <double *>take_zeros(arena, scored.n_units * sizeof(double))
        cdef double value
        cdef const Part *part
        if inside == NULL or slope == NULL or _mark_tree(&scored.forest, target, inside, arena):
            return NO_MEMORY
        loss[0] = scored.log_z
        for p in range(scored.forest.graph.n_slots):
            part = scored.forest.parts + p
            value = inside[p] - scored.mu[p]
            if inside[p]:
                loss[0] -= scored.scores[p]
            if part.kind < STOP:
                slope[part.c] += value
            if part.kind != ROOT:
                slope[scored.slot_at + p] += value
                if part.kind < STOP:
                    slope[pair_unit(scored, part)] += value
                    slope[sibling_unit(scored, part)] += value
        for unit in range(scored.n_units):
            if fabs(slope[unit]) > NEGLIGIBLE:
                for i in range(scored.start[unit], scored.start[unit + 1]):
                    self._touch(scored.found[i], slope[unit])
        self.n_steps += 1
        for d in range(n_dense):
            value = 0
            for unit in range(scored.forest.arcs.n_arcs):
                value += slope[unit] * sentence.dense[unit * n_dense + d]
            self.dense_squares[d] += value * value
            value *= rate / sqrt(self.dense_squares[d])
            self.dense[d] += value
            self.dense_drift[d] += value * self.n_steps
        return DONE

    cdef inline void _touch(self, uint32_t at, double gradient) noexcept nogil:
        if not self.slopes[at].listed:
            self.slopes[at].listed = True
            self.touched[self.n_touched] = at
            self.n_touched += 1
        self.slopes[at].gradient += gradient

    cdef void _step(self, double rate, double decay) noexcept nogil:
        cdef size_t i
        cdef Slope *slope
        cdef Entry *entry
        cdef double gradient, change
        for i in range(self.n_touched):
            slope, entry = self.slopes + self.touched[i], self.table + self.touched[i]
            gradient = slope.gradient - decay * entry.weight
            slope.gradient, slope.listed = 0, False
            change = stride(&slope.squares, gradient, rate)
            entry.weight += change
            slope.drift += change * self.n_steps
        self.n_touched = 0

    def averaged(self, const uint32_t[::1] keys not None):
        """RETURNS (Tuple[ndarray, ndarray]): The weights of keys and of numbers, averaged over all steps."""
        cdef Py_ssize_t i
        cdef uint32_t at
        weights, dense = numpy.zeros(keys.shape[0], dtype=numpy.float32), numpy.array(self.dense)
        cdef float[::1] out = weights
        for i in range(keys.shape[0]):
            at = self._find(keys[i])
            out[i] = self.table[at].weight - self.slopes[at].drift / (self.n_steps + 1)
        return weights, dense - numpy.asarray(self.dense_drift) / (self.n_steps + 1)
