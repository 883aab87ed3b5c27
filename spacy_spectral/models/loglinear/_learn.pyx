# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Learning by conditional likelihood: gradients of sentences, AdaGrad, averages.

The gradient of log p(tree | x) for a feature is its count in the tree minus the expected count, and the chart
gives the expected counts (Geman & Johnson 2002: it is the packed forest). Tokens without annotation are summed
out: their tree count becomes the expected count under the annotation, from a second chart in which everything
that contradicts it has potential 0.

A tree that another parser made need not be believed. Its sentence has a weight w, and tokens may have a second arc,
each of the two with its share t(a). In place of a tree there are then all trees of these arcs,

    q(tree) ~ prod_{a in tree} t(a),        gradient = w (E_q[features] - E_p[features])

the gradient of the cross-entropy w sum_y q(y) log p(y). E_q comes from a chart of these arcs alone, in which
neighbours and moves have the potential 1. If the tree has the whole share, q is the tree.
"""
import numpy

from libc.math cimport INFINITY, NAN, fabs, isfinite, log
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from ...base._linear cimport Slope, climb
from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...trees._lengths cimport N_DISTANCES
from ._chart cimport Chart, chart_inside, chart_layout, chart_outside
from ._features cimport (
    Machine, Scored, block_width, direction_of, move_size, score_sentence, state_potentials, token_width,
)
from ._infer cimport Engine, run_chart, tree_score

cdef double NEGLIGIBLE = 1e-5  # gradients below it are not worth a visit to memory


cdef struct Sloped:
    float gradient
    Slope slope


cdef struct Trust:
    # how far the tree of a sentence is to be believed, see `trees.sentences.Trust`; NULL: it is gold
    double weight
    const float* shares
    const int32_t* heads
    const int32_t* labels


cdef class Learner:
    """Changes the entries and moves of a model. AdaGrad accumulators start at `initial_squares`; so many
    calls of `run` (see `gradient`) may happen at once."""

    cdef Engine engine
    cdef Machine* machine
    cdef Sloped* slopes
    cdef Sloped* move_slopes
    cdef uint32_t* touched
    cdef size_t n_touched
    cdef size_t touched_size
    cdef double[:, :, :, ::1] move_counts
    cdef long n_steps
    cdef Arena* arenas  # one per sentence of a round: they are computed in any order, added in one
    cdef Scored* scored
    cdef int n_threads
    cdef int n_arenas

    def __cinit__(self, Engine engine not None, double initial_squares, int n_threads=1):
        cdef size_t i
        self.engine = engine
        self.machine = &engine.machine
        self.slopes = <Sloped*>calloc(engine.entries.shape[0], sizeof(Sloped))
        self.move_slopes = <Sloped*>calloc(engine.moves.size, sizeof(Sloped))
        # rounds of a few sentences: memory does not grow with the batch
        self.n_threads, self.n_arenas = n_threads, 1 if n_threads == 1 else 4 * n_threads
        self.arenas = <Arena*>calloc(self.n_arenas, sizeof(Arena))
        self.scored = <Scored*>calloc(self.n_arenas, sizeof(Scored))
        if self.slopes == NULL or self.move_slopes == NULL or self.arenas == NULL or self.scored == NULL:
            raise MemoryError
        for i in range(<size_t>engine.entries.shape[0]):
            self.slopes[i].slope.squares = initial_squares
        for i in range(<size_t>engine.moves.size):
            self.move_slopes[i].slope.squares = initial_squares
        self.move_counts = numpy.zeros_like(engine.moves, dtype=numpy.float64)

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_arenas if self.arenas != NULL else 0):
            arena_free(&self.arenas[i])
        free(self.arenas)
        free(self.scored)
        free(self.slopes)
        free(self.move_slopes)
        free(self.touched)

    def gradient(
        self, const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
        const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
        const int32_t[::1] arc_head not None, const int32_t[::1] heads not None,
        const int32_t[::1] labels not None, const int32_t[::1] batch not None, run=map,
        const float[::1] weights=None, const float[::1] shares=None,
        const int32_t[::1] other_heads=None, const int32_t[::1] other_labels=None,
    ):
        """Add the gradient of the log-likelihood of some sentences.

        heads, labels: The annotation, -1 where it is missing; annotated arcs must be kept.
        batch: Which sentences.
        run: `map`, or that of an executor.
        weights: Of sentences; shares: of the annotated arcs, the rest is that of the other ones (-1: of none).
            All four or none are given.
        RETURNS (Tuple[float, int]): The negative log-likelihood of the annotation, and how many sentences
            were left out because their charts failed or no tree agrees with the annotation.
        """
        cdef int i, begin, end = 0, failed = 0, skipped = 0
        cdef double loss = 0

        def compute(int worker):
            cdef int k = worker, s, n, start, bad = 0
            cdef Trust trust
            trust.weight, trust.shares = 1, NULL
            with nogil:
                while k < end - begin and not bad:
                    s = batch[begin + k]
                    start = starts[s]
                    n = starts[s + 1] - start
                    arena_reset(&self.arenas[k])
                    self.scored[k].n = n
                    self.scored[k].likelihood = 0
                    if n:
                        bad = score_sentence(
                            self.machine, &self.scored[k], &self.arenas[k], &columns[start, 0],
                            &tags[start], n, &arc_start[start], &arc_head[0], NULL, INFINITY)
                        if weights is not None:
                            trust.weight, trust.shares = weights[s], &shares[start]
                            trust.heads, trust.labels = &other_heads[start], &other_labels[start]
                        bad = bad or self._differentiate(
                            &self.scored[k], &self.arenas[k], &heads[start], &labels[start], &trust)
                    k += self.n_threads
            return bad

        while end < batch.shape[0]:
            begin, end = end, min(end + self.n_arenas, <int>batch.shape[0])
            if any(list(run(compute, range(self.n_threads)))):
                raise MemoryError
            with nogil:
                for i in range(end - begin):
                    if not isfinite(self.scored[i].likelihood):
                        skipped += 1
                    elif self.scored[i].n:
                        loss -= self.scored[i].likelihood
                        failed |= self._spread(&self.scored[i], &self.arenas[i])
            if failed:
                raise MemoryError
        return loss, skipped

    cdef int _differentiate(
        self, Scored* scored, Arena* arena, const int32_t* heads, const int32_t* labels,
        const Trust* trust
    ) noexcept nogil:
        """Gradients of the potentials of a sentence, and its log-likelihood."""
        cdef int n = scored.n, m, i, n_arcs = scored.n_arcs, n_labels = self.machine.n_labels
        cdef int size = move_size(self.machine) // 2
        cdef bint complete = True, soft = False
        cdef double log_z
        cdef double** counts = <double**>take(arena, (2 * n + 2) * sizeof(double*))
        scored.gradient = <double*>take_zeros(arena, n_arcs * n_labels * sizeof(double))
        scored.sibling_gradient = <double*>take_zeros(arena, scored.chart.n_siblings * sizeof(double))
        scored.move_gradient = <double*>take_zeros(
            arena, <size_t>(2 * n + 2) * size * sizeof(double))
        if counts == NULL or scored.gradient == NULL or scored.sibling_gradient == NULL:
            return -1
        if scored.move_gradient == NULL:
            return -1
        for i in range(2 * n + 2):
            counts[i] = scored.move_gradient + i * size
        if run_chart(scored, &scored.chart, scored.potential, n_labels, arena, counts):
            return -1
        if not isfinite(scored.log_z):  # there are no expected counts
            scored.likelihood = NAN
            return 0
        self._add_expected(scored, &scored.chart, scored.potential, -1)
        for i in range((2 * n + 2) * size):
            scored.move_gradient[i] = -scored.move_gradient[i]
        for m in range(n):
            complete = complete and heads[m] >= 0 and labels[m] >= 0
            soft = soft or trust.shares != NULL and trust.heads[m] >= 0
        log_z = scored.log_z
        if soft and complete:
            if self._add_soft(scored, arena, heads, labels, trust, counts):
                return -1
        elif complete:
            scored.likelihood = tree_score(self.machine, scored, heads, labels, True) - log_z
        else:
            if self._add_given(scored, arena, heads, labels, counts):
                return -1
            scored.likelihood = scored.log_z - log_z
        if trust.weight != 1:
            scored.likelihood *= trust.weight
            for i in range(n_arcs * n_labels):
                scored.gradient[i] *= trust.weight
            for i in range(scored.chart.n_siblings):
                scored.sibling_gradient[i] *= trust.weight
            for i in range((2 * n + 2) * size):
                scored.move_gradient[i] *= trust.weight
        return 0

    cdef int _add_soft(
        self, Scored* scored, Arena* arena, const int32_t* heads, const int32_t* labels,
        const Trust* trust, double** counts
    ) noexcept nogil:
        """What trees of the believed arcs expect, by a chart of these; and their expected log-likelihood."""
        cdef Chart* chart = &scored.chart
        cdef Chart soft
        cdef int a, b, c, h, i, m, r, l, s, side, n = scored.n, n_soft = 0
        cdef int n_labels = self.machine.n_labels, n_states = self.machine.n_states
        cdef int size = (n_states + 1) * (n_states + 1)
        cdef double value, score = 0
        cdef double* share = <double*>take_zeros(arena, 2 * n * n_labels * sizeof(double))
        cdef double* ones = <double*>take(arena, size * sizeof(double))
        cdef double* before = <double*>take(arena, (2 * n + 2) * size * sizeof(double))
        cdef int* origin = <int*>take(arena, 2 * n * sizeof(int))
        cdef int* head = <int*>take(arena, 2 * n * sizeof(int))
        cdef int* mod = <int*>take(arena, 2 * n * sizeof(int))
        if share == NULL or ones == NULL or before == NULL or origin == NULL or head == NULL or mod == NULL:
            return -1
        for a in range(scored.n_arcs):
            h, m = chart.head[a], chart.mod[a] - 1
            if h != heads[m] and h != trust.heads[m]:
                continue
            for i in range(2):
                if h != (trust.heads[m] if i else heads[m]):
                    continue
                l = trust.labels[m] if i else labels[m]
                if self.machine.allowed[(h == 0) * n_labels + l]:
                    share[n_soft * n_labels + l] += 1 - trust.shares[m] if i else trust.shares[m]
            origin[n_soft], head[n_soft], mod[n_soft] = a, h, m + 1
            n_soft += 1
        if chart_layout(&soft, arena, n, n_soft, n_states, head, mod):
            return -1
        state_potentials(self.machine, share, n_soft, soft.phi)
        for i in range(soft.n_siblings):
            soft.sibling[i] = 1
        for i in range(size):
            ones[i] = 1
        for i in range(2, 2 * n + 2):
            soft.moves[i] = ones
        if chart_inside(&soft, arena):
            return -1
        if not 1e-250 < soft.z < INFINITY:  # the tree is not in the chart
            scored.likelihood = NAN
            return 0
        memcpy(before, scored.move_gradient, (2 * n + 2) * size * sizeof(double))
        if chart_outside(&soft, arena, counts):
            return -1
        for b in range(n_soft):
            a, h = origin[b], head[b]
            for l in range(n_labels):
                if share[b * n_labels + l] > 0:
                    c = b * n_states + self.machine.label_state[l]
                    value = soft.mu[c] * (share[b * n_labels + l] / soft.phi[c])
                    scored.gradient[a * n_labels + l] += value
                    score += value * scored.score[a * n_labels + l]
            if h == 0:
                continue
            side = soft.side_start[2 * h + (mod[b] > h)]
            for r in range(soft.rank[b] + 1):
                i = chart.pair_start[a]
                if r:
                    i += chart.rank[origin[soft.side_arcs[side + r - 1]]] + 1
                score += _count_pair(scored, i, soft.mu_sibling[soft.pair_start[b] + r])
            score += _count_pair(scored, chart.last_at + a, soft.mu_sibling[soft.last_at + b])
        for i in range(2, 2 * n + 2):
            score += _count_pair(scored, chart.empty_at + i, soft.mu_sibling[soft.empty_at + i])
            for s in range(size):
                value = scored.move_gradient[i * size + s] - before[i * size + s]
                if value != 0:
                    score += value * log(chart.moves[i][s])
        scored.likelihood = score - scored.log_z
        return 0

    cdef int _add_given(
        self, Scored* scored, Arena* arena, const int32_t* heads, const int32_t* labels, double** counts
    ) noexcept nogil:
        """What all trees that agree with the annotation expect, by a chart of these."""
        cdef int a, l, m, n_labels = self.machine.n_labels
        cdef Chart given = scored.chart
        cdef double* potential = <double*>take_zeros(
            arena, scored.n_arcs * n_labels * sizeof(double))
        given.phi = <double*>take(arena, scored.n_arcs * self.machine.n_states * sizeof(double))
        if potential == NULL or given.phi == NULL:
            return -1
        for a in range(scored.n_arcs):
            m = given.mod[a] - 1
            for l in range(n_labels):
                if (heads[m] < 0 or heads[m] == given.head[a]) and (labels[m] < 0 or labels[m] == l):
                    potential[a * n_labels + l] = scored.potential[a * n_labels + l]
        state_potentials(self.machine, potential, scored.n_arcs, given.phi)
        if run_chart(scored, &given, potential, n_labels, arena, counts):
            return -1
        if isfinite(scored.log_z):
            self._add_expected(scored, &given, potential, 1)
        return 0

    cdef void _add_expected(
        self, Scored* scored, Chart* chart, const double* potential, double sign
    ) noexcept nogil:
        cdef int a, l, c, i, n_labels = self.machine.n_labels, n_states = self.machine.n_states
        for a in range(scored.n_arcs):
            for l in range(n_labels):
                c = a * n_states + self.machine.label_state[l]
                if potential[a * n_labels + l] > 0:
                    scored.gradient[a * n_labels + l] += (
                        sign * chart.mu[c] * potential[a * n_labels + l] / chart.phi[c])
        for i in range(chart.n_siblings):
            scored.sibling_gradient[i] += sign * chart.mu_sibling[i]

    cdef inline int _touch(self, uint32_t at, float gradient) noexcept nogil:
        cdef void* longer
        if self.slopes[at].gradient == 0:
            if self.n_touched == self.touched_size:
                self.touched_size = 2 * self.touched_size + 4096
                longer = realloc(self.touched, self.touched_size * sizeof(uint32_t))
                if longer == NULL:
                    return -1
                self.touched = <uint32_t*>longer
            self.touched[self.n_touched] = at
            self.n_touched += 1
        self.slopes[at].gradient += gradient
        return 0

    cdef int _spread(self, Scored* scored, Arena* arena) noexcept nogil:
        """From gradients of potentials to gradients of weights, added to those of other sentences."""
        cdef int a, l, m, t, h, i, direction, n_labels = self.machine.n_labels, n = scored.n
        cdef int width = token_width(n_labels), block = block_width(n_labels)
        cdef int bin, at, failed = 0, n_siblings = self.machine.n_siblings
        cdef double* gradient
        cdef double total
        cdef bint matters
        cdef float* own = <float*>take_zeros(arena, (n + 1) * width * sizeof(float))
        cdef float* part
        cdef uint32_t row, last
        cdef double* counts
        if own == NULL:
            return -1
        for h in range(1, n + 1):
            counts = &self.move_counts[scored.tags[h - 1], 0, 0, 0]
            for i in range(move_size(self.machine)):
                counts[i] += scored.move_gradient[h * move_size(self.machine) + i]
        for a in range(scored.n_arcs):
            gradient = scored.gradient + a * n_labels
            total, matters = 0, False
            for l in range(n_labels):
                total += gradient[l]
                matters = matters or fabs(gradient[l]) > NEGLIGIBLE
            if not matters:
                continue
            h, m, bin = scored.chart.head[a], scored.chart.mod[a], scored.distance[a]
            direction = direction_of(h, m)
            for t in range(self.machine.n_pairs):
                row = scored.pair_rows[a * self.machine.n_pairs + t]
                if row == 0:
                    continue
                failed |= self._touch(row, total)
                last = row + self.machine.entries[row].output
                while row < last:
                    row += 1
                    at = self.machine.entries[row].output
                    if at == bin:
                        failed |= self._touch(row, total)
                    elif N_DISTANCES <= at < N_DISTANCES + n_labels:
                        if fabs(gradient[at - N_DISTANCES]) > NEGLIGIBLE:
                            failed |= self._touch(row, gradient[at - N_DISTANCES])
            for i in range(2 if h else 1):
                part = (own + h * width + (3 + direction) * block if i
                        else own + m * width + direction * block)
                part[0] += total
                part[1 + bin] += total
                for l in range(n_labels):
                    part[1 + N_DISTANCES + l] += gradient[l]
        for m in range(1, n + 1):
            part = own + m * width
            for t in range(self.machine.n_unaries):
                row = scored.unary_rows[m * self.machine.n_unaries + t]
                last = row + self.machine.entries[row].output
                while row < last:
                    row += 1
                    if fabs(part[self.machine.entries[row].output]) > NEGLIGIBLE:
                        failed |= self._touch(row, part[self.machine.entries[row].output])
        for i in range(scored.chart.n_siblings):
            if fabs(scored.sibling_gradient[i]) > NEGLIGIBLE:
                for t in range(n_siblings):
                    row = scored.sibling_rows[i * n_siblings + t]
                    if row:
                        failed |= self._touch(row, scored.sibling_gradient[i])
        return failed

    def step(self, double rate, double decay):
        """Go one step along the added gradients and forget them; the L2 penalty is that of the weights a step
        touches."""
        cdef size_t i, n_moves = self.engine.moves.size, size = move_size(self.machine)
        cdef float* weights = &self.engine.moves[0, 0, 0, 0]
        cdef double* counts = &self.move_counts[0, 0, 0, 0]
        cdef uint32_t at
        with nogil:
            self.n_steps += 1
            for i in range(self.n_touched):
                at = self.touched[i]
                _adagrad(&self.engine.entries[at].weight, &self.slopes[at], rate, decay, self.n_steps)
            self.n_touched = 0
            for i in range(size, n_moves):
                counts[i % size] += counts[i]  # what is counted for any tag is counted for all
            for i in range(n_moves):
                if counts[i] != 0:
                    self.move_slopes[i].gradient = counts[i]
                    _adagrad(weights + i, &self.move_slopes[i], rate, decay, self.n_steps)
                    counts[i] = 0
        self.engine.refresh_moves()

    def gradients(self):
        """The added gradients of entries and moves, for tests."""
        cdef Py_ssize_t i
        entries = numpy.zeros(self.engine.entries.shape[0])
        for i in range(self.engine.entries.shape[0]):
            entries[i] = self.slopes[i].gradient
        moves = numpy.array(self.move_counts)
        moves[0] = moves.sum(axis=0)
        return entries, moves

    def averaged(self):
        """Weights of entries and moves, averaged over all steps."""
        cdef Py_ssize_t i
        entries = numpy.zeros(self.engine.entries.shape[0], dtype=numpy.float32)
        moves = numpy.zeros(self.engine.moves.size, dtype=numpy.float32)
        cdef float[::1] out = entries
        cdef float[::1] out_moves = moves
        cdef float* weights = &self.engine.moves[0, 0, 0, 0]
        for i in range(self.engine.entries.shape[0]):
            out[i] = self.engine.entries[i].weight - self.slopes[i].slope.drift / (self.n_steps + 1)
        for i in range(out_moves.shape[0]):
            out_moves[i] = weights[i] - self.move_slopes[i].slope.drift / (self.n_steps + 1)
        return entries, moves.reshape(numpy.asarray(self.engine.moves).shape)


cdef inline double _count_pair(Scored* scored, int at, double count) noexcept nogil:
    """Count a pair of neighbours. RETURNS: What it adds to the score."""
    scored.sibling_gradient[at] += count
    return count * scored.sibling_score[at] if count else 0


cdef inline void _adagrad(
    float* weight, Sloped* sloped, double rate, double decay, long n_steps
) noexcept nogil:
    cdef float gradient = sloped.gradient - decay * weight[0]
    sloped.gradient = 0
    climb(weight, &sloped.slope, gradient, rate, n_steps)
