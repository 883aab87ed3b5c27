# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled model: parsing, and learning by conditional likelihood.

log p(tree | x) = score(tree) - log Z; its gradient for a feature is the count in the tree minus the
expected count, and the chart gives the expected counts (Geman & Johnson 2002: it is the packed
forest). Tokens without annotation are summed out: their tree count becomes the expected count under
the annotation, from a second chart in which everything that contradicts it has potential 0.
"""
import numpy as np

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, log, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._chart cimport (
    RESCALINGS, Chart, chart_inside, chart_local, chart_outside, eisner, is_projective_tree,
    span_growth,
)
from ._features cimport Entry, Slot
from ._forest cimport Forests
from ._score cimport (
    N_DISTANCES, Machine, Scored, direction_of, score_sentence, state_potentials, unary_width,
)

DEF MIN_PROB = 1e-12
DEF NEGLIGIBLE = 1e-5  # gradients below it are not worth a visit to memory


cdef packed struct Slope:
    float gradient
    float squares
    float drift  # sum of step number * change, for the average over steps


cdef class Engine:
    """Arrays of a model, checked by the caller, behind pointers.

    slots, entries (structured arrays): The feature table. Entries are changed by learning.
    moves (float32[tags, 2, C+1, C+1]): Log weights of state moves; tag 0 is shared by all.
    """

    cdef Machine machine
    cdef object keep
    cdef Entry[::1] entries
    cdef float[:, :, :, ::1] moves
    cdef double[:, :, :, ::1] exp_moves
    # learning
    cdef Slope *slopes
    cdef Slope *move_slopes
    cdef uint32_t *touched
    cdef size_t n_touched
    cdef size_t touched_size
    cdef double[:, :, :, ::1] move_counts
    cdef long n_steps
    cdef Arena *arenas  # one per sentence of a round: they are computed in any order, added in one
    cdef Scored *scored
    cdef int n_arenas

    def __cinit__(self):
        self.slopes = NULL
        self.move_slopes = NULL
        self.touched = NULL
        self.arenas = NULL
        self.scored = NULL
        self.n_arenas = 0

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_arenas):
            arena_free(&self.arenas[i])
        free(self.arenas)
        free(self.scored)
        free(self.slopes)
        free(self.move_slopes)
        free(self.touched)

    def __init__(
        self, *, const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] pairs not None,
        const int32_t[::1] unaries not None, const int32_t[:, ::1] siblings not None,
        const Slot[::1] slots not None, Entry[::1] entries not None,
        float[:, :, :, ::1] moves not None, const int32_t[::1] label_state not None,
        const uint8_t[:, ::1] allowed not None, const uint8_t[::1] between_bit not None, int n_columns,
    ):
        cdef Machine *machine = &self.machine
        self.keep = (composites, pairs, unaries, siblings, slots, label_state, allowed, between_bit)
        self.entries = entries
        self.moves = moves
        memset(machine, 0, sizeof(Machine))
        machine.context.n_columns = n_columns
        machine.context.n_composites = composites.shape[0]
        machine.context.composites = &composites[0, 0, 0]
        machine.n_pairs = pairs.shape[0]
        machine.pairs = &pairs[0, 0] if pairs.shape[0] else NULL
        machine.n_unaries = unaries.shape[0]
        machine.unaries = &unaries[0] if unaries.shape[0] else NULL
        machine.n_siblings = siblings.shape[0]
        machine.siblings = &siblings[0, 0] if siblings.shape[0] else NULL
        machine.slots = &slots[0]
        machine.mask = slots.shape[0] - 1
        machine.entries = &entries[0]
        machine.n_labels = label_state.shape[0]
        machine.n_states = moves.shape[2] - 1
        machine.label_state = &label_state[0]
        machine.allowed = &allowed[0, 0]
        machine.between_bit = &between_bit[0]
        self.exp_moves = np.empty_like(moves, dtype=np.float64)
        machine.moves = &self.exp_moves[0, 0, 0, 0]
        machine.log_moves = &moves[0, 0, 0, 0]
        self.refresh_moves()

    cpdef void refresh_moves(self):
        cdef int tag
        with nogil:
            for tag in range(self.moves.shape[0]):
                self._refresh_tag(tag)

    cdef void _refresh_tag(self, int tag) noexcept nogil:
        cdef int i, size = self._move_size()
        cdef const float *shared = &self.moves[0, 0, 0, 0]
        cdef const float *own = &self.moves[tag, 0, 0, 0]
        cdef double *out = &self.exp_moves[tag, 0, 0, 0]
        for i in range(size):
            out[i] = exp(shared[i] + own[i] if tag else shared[i])

    cdef int _move_size(self) noexcept nogil:
        return 2 * (self.machine.n_states + 1) * (self.machine.n_states + 1)

    # ------------------------------------------------------------------ parsing

    def parse(
        self, const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
        const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
        const int32_t[::1] arc_head not None, const double[::1] margins not None,
    ):
        """Marginals and the tree of most expected correct arcs, for every sentence.

        columns (uint64[n, columns]), tags (int32[n]): The tokens of all sentences.
        starts (int32[sentences + 1]): Where sentences start.
        arc_start (int32[n + 1]), arc_head (int32[arcs]): The kept heads of every token.
        margins (float64[sentences]): Drop arcs whose own score is that much below the best of their
            modifier.
        RETURNS (Dict[str, Any]): heads (int32[n]); labels (int32[n]); label_probs (float32[n, labels]),
            the probability of every label given the head; arc_probs (float32[arcs]); arc_labels
            (int32[arcs]), the likeliest label of every arc; log_probs (float64[sentences]) of the
            labelled trees, nan if the chart failed; forests (Forests).
        """
        cdef int s, n, start, attempt, n_sentences = starts.shape[0] - 1, failed = 0
        cdef Arena arena
        cdef Scored scored
        cdef Forests forests = Forests(n_sentences, self)
        heads = np.zeros(columns.shape[0], dtype=np.int32)
        labels = np.zeros(columns.shape[0], dtype=np.int32)
        label_probs = np.zeros((columns.shape[0], self.machine.n_labels), dtype=np.float32)
        arc_probs = np.zeros(arc_head.shape[0], dtype=np.float32)
        arc_labels = np.zeros(arc_head.shape[0], dtype=np.int32)
        log_probs = np.zeros(n_sentences, dtype=np.float64)
        cdef int32_t[::1] out_heads = heads
        cdef int32_t[::1] out_labels = labels
        cdef float[:, ::1] out_label_probs = label_probs
        cdef float[::1] out_probs = arc_probs
        cdef int32_t[::1] out_arc_labels = arc_labels
        cdef double[::1] out_log_probs = log_probs
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(n_sentences):
                start = starts[s]
                n = starts[s + 1] - start
                if n == 0:
                    continue
                for attempt in range(2):  # without a tree left, once more with all arcs
                    failed = self._fill_chart(
                        &scored, &arena, &columns[start, 0], &tags[start], n, &arc_start[start],
                        &arc_head[0], INFINITY if attempt else margins[s])
                    if failed or isfinite(scored.log_z) or margins[s] == INFINITY:
                        break
                failed = failed or self._decode(
                    &scored, &arena, &out_heads[start], &out_labels[start],
                    &out_label_probs[start, 0], &out_probs[arc_start[start]],
                    &out_arc_labels[arc_start[start]])
                failed = failed or forests.keep(
                    s, &self.machine, &scored, &out_probs[arc_start[start]],
                    &out_arc_labels[arc_start[start]])
                if failed:
                    break
                out_log_probs[s] = scored.likelihood
            arena_free(&arena)
        if failed:
            raise MemoryError
        return {
            "heads": heads, "labels": labels, "label_probs": label_probs, "arc_probs": arc_probs,
            "arc_labels": arc_labels, "log_probs": log_probs, "forests": forests,
        }

    cdef int _fill_chart(
        self, Scored *scored, Arena *arena, const uint64_t *columns, const int32_t *tags, int n,
        const int32_t *arc_start, const int32_t *arc_head, double margin
    ) noexcept nogil:
        """Scores and the chart of one sentence, without expected moves."""
        arena_reset(arena)
        return score_sentence(
            &self.machine, scored, arena, columns, tags, n, arc_start, arc_head, margin
        ) or _run_chart(
            scored, &scored.chart, scored.potential, self.machine.n_labels, arena, NULL)

    def log_probs(
        self, const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
        const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
        const int32_t[::1] arc_head not None, const int32_t[:, ::1] heads not None,
        const int32_t[:, ::1] labels not None,
    ) -> np.ndarray:
        """Log-probabilities of trees, for every sentence several of them at the cost of one chart.

        heads, labels (int32[k, n]): k labelled trees of every sentence.
        RETURNS (float64[k, sentences]): log p(tree | sentence); -inf for a tree with an arc that was
            not kept.
        """
        cdef int s, t, n, start, failed = 0
        cdef Arena arena
        cdef Scored scored
        result = np.zeros((heads.shape[0], starts.shape[0] - 1), dtype=np.float64)
        cdef double[:, ::1] out = result
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(starts.shape[0] - 1):
                start = starts[s]
                n = starts[s + 1] - start
                if n == 0:
                    continue
                failed = self._fill_chart(
                    &scored, &arena, &columns[start, 0], &tags[start], n, &arc_start[start],
                    &arc_head[0], INFINITY)
                if failed:
                    break
                for t in range(heads.shape[0]):
                    out[t, s] = self._tree_score(
                        &scored, &heads[t, start], &labels[t, start], False) - scored.log_z
            arena_free(&arena)
        if failed:
            raise MemoryError
        return result

    cdef int _decode(
        self, Scored *scored, Arena *arena, int32_t *heads, int32_t *labels, float *label_probs,
        float *probs, int32_t *arc_labels
    ) noexcept nogil:
        """Read the tree and all probabilities from a chart; `likelihood` becomes the tree's."""
        cdef int a, l, m, c, n = scored.n, n_labels = self.machine.n_labels, best_label
        cdef int n_states = self.machine.n_states
        cdef Chart *chart = &scored.chart
        cdef int *best = <int *>take_zeros(arena, 2 * (n + 2) * sizeof(int))
        cdef double *logs
        cdef double *top = <double *>take(arena, (n + 1) * sizeof(double))
        cdef double *ratio = <double *>take(arena, scored.n_arcs * n_states * sizeof(double))
        cdef double total, value, best_value
        scored.joint = <float *>take(arena, scored.n_arcs * n_labels * sizeof(float))
        if best == NULL or top == NULL or ratio == NULL or scored.joint == NULL:
            return -1
        for m in range(n + 1):
            top[m] = -1
        for a in range(scored.n_arcs * n_states):
            ratio[a] = chart.mu[a] / chart.phi[a] if chart.phi[a] > 0 else 0
        for a in range(scored.n_arcs):
            total = 0
            best_value, best_label = -1, 0
            for c in range(n_states):
                total += chart.mu[a * n_states + c]
            for l in range(n_labels):
                value = (scored.potential[a * n_labels + l]
                         * ratio[a * n_states + self.machine.label_state[l]])
                scored.joint[a * n_labels + l] = value
                if value > best_value:
                    best_value, best_label = value, l
            probs[scored.origin[a]] = total
            arc_labels[scored.origin[a]] = best_label
            m = chart.mod[a]
            if total > top[m]:
                top[m] = total
                best[m] = chart.head[a]
        # every token's best head: if that is a tree, no tree is better (96 % of sentences)
        if not is_projective_tree(best, n):
            logs = <double *>take(arena, (scored.n_arcs + 1) * sizeof(double))
            if logs == NULL:
                return -1
            for a in range(scored.n_arcs):
                value = probs[scored.origin[a]]
                logs[a] = log(max(value, MIN_PROB))
            if eisner(chart, logs, best, arena):
                return -1
        for a in range(scored.n_arcs):
            m = chart.mod[a]
            if best[m] != chart.head[a]:
                continue
            labels[m - 1] = arc_labels[scored.origin[a]]
            total = max(<double>probs[scored.origin[a]], MIN_PROB)
            for l in range(n_labels):
                label_probs[(m - 1) * n_labels + l] = scored.joint[a * n_labels + l] / total
        for m in range(1, n + 1):
            heads[m - 1] = best[m]
        scored.likelihood = self._tree_score(scored, heads, labels, False) - scored.log_z
        return 0

    # ------------------------------------------------------------------ learning

    def begin_learning(self, double initial_squares):
        """Take memory for gradients; every AdaGrad accumulator starts at `initial_squares`."""
        cdef size_t i
        free(self.slopes)
        free(self.move_slopes)
        self.slopes = <Slope *>calloc(self.entries.shape[0], sizeof(Slope))
        self.move_slopes = <Slope *>calloc(self.moves.size, sizeof(Slope))
        if self.slopes == NULL or self.move_slopes == NULL:
            raise MemoryError
        for i in range(<size_t>self.entries.shape[0]):
            self.slopes[i].squares = initial_squares
        for i in range(<size_t>self.moves.size):
            self.move_slopes[i].squares = initial_squares
        self.move_counts = np.zeros_like(self.moves, dtype=np.float64)
        self.n_touched = 0
        self.n_steps = 0

    def gradient(
        self, const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
        const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
        const int32_t[::1] arc_head not None, const int32_t[::1] heads not None,
        const int32_t[::1] labels not None, const int32_t[::1] batch not None, run=map,
        int n_threads=1,
    ):
        """Add the gradient of the log-likelihood of some sentences.

        heads, labels (int32[n]): The annotation, -1 where it is missing; annotated arcs must be kept.
        batch (int32[]): Which sentences.
        run (Callable): `map` of an executor with `n_threads` threads.
        RETURNS (Tuple[float, int]): The negative log-likelihood of the annotation, and how many sentences
            were left out because their charts failed or no tree agrees with the annotation.
        """
        cdef int i, begin, end = 0, failed = 0, skipped = 0
        cdef double loss = 0

        def compute(int worker):
            cdef int k, s, n, start, bad = 0
            with nogil:
                k = worker - n_threads
                while k + n_threads < end - begin:
                    k += n_threads
                    s = batch[begin + k]
                    start = starts[s]
                    n = starts[s + 1] - start
                    arena_reset(&self.arenas[k])
                    self.scored[k].n = n
                    self.scored[k].likelihood = 0
                    if n == 0:
                        continue
                    bad = score_sentence(
                        &self.machine, &self.scored[k], &self.arenas[k], &columns[start, 0],
                        &tags[start], n, &arc_start[start], &arc_head[0], INFINITY)
                    bad = bad or self._differentiate(
                        &self.scored[k], &self.arenas[k], &heads[start], &labels[start])
                    if bad:
                        break
            return bad

        self._prepare_arenas(1 if n_threads == 1 else 4 * n_threads)
        while end < batch.shape[0]:  # in rounds: memory does not grow with the batch
            begin, end = end, min(end + self.n_arenas, <int>batch.shape[0])
            if any(list(run(compute, range(n_threads)))):
                raise MemoryError
            with nogil:
                for i in range(end - begin):
                    if self.scored[i].n == 0:
                        continue
                    if not isfinite(self.scored[i].likelihood):
                        skipped += 1
                        continue
                    loss -= self.scored[i].likelihood
                    failed |= self._spread(&self.scored[i], &self.arenas[i])
            if failed:
                raise MemoryError
        return loss, skipped

    cdef void _prepare_arenas(self, int n) except *:
        cdef int i
        cdef void *longer
        if n <= self.n_arenas:
            return
        longer = realloc(self.scored, n * sizeof(Scored))
        if longer == NULL:
            raise MemoryError
        self.scored = <Scored *>longer
        longer = realloc(self.arenas, n * sizeof(Arena))
        if longer == NULL:
            raise MemoryError
        self.arenas = <Arena *>longer
        memset(self.arenas + self.n_arenas, 0, (n - self.n_arenas) * sizeof(Arena))
        self.n_arenas = n

    cdef int _differentiate(
        self, Scored *scored, Arena *arena, const int32_t *heads, const int32_t *labels
    ) noexcept nogil:
        """Gradients of the potentials of a sentence, and its log-likelihood."""
        cdef int n = scored.n, m, i, n_arcs = scored.n_arcs, n_labels = self.machine.n_labels
        cdef int n_pairs = scored.chart.pair_start[n_arcs], size = self._move_size() // 2
        cdef bint complete = True
        cdef Chart given
        cdef double log_z
        cdef double **counts = <double **>take(arena, (2 * n + 2) * sizeof(double *))
        scored.gradient = <double *>take_zeros(arena, n_arcs * n_labels * sizeof(double))
        scored.sibling_gradient = <double *>take_zeros(arena, n_pairs * sizeof(double))
        scored.last_gradient = <double *>take_zeros(arena, n_arcs * sizeof(double))
        scored.empty_gradient = <double *>take_zeros(arena, (2 * n + 2) * sizeof(double))
        scored.move_gradient = <double *>take_zeros(
            arena, <size_t>(2 * n + 2) * size * sizeof(double))
        if counts == NULL or scored.gradient == NULL or scored.sibling_gradient == NULL:
            return -1
        if scored.last_gradient == NULL or scored.empty_gradient == NULL:
            return -1
        if scored.move_gradient == NULL:
            return -1
        for i in range(2 * n + 2):
            counts[i] = scored.move_gradient + i * size
        if _run_chart(scored, &scored.chart, scored.potential, n_labels, arena, counts):
            return -1
        if not isfinite(scored.log_z):  # there are no expected counts
            scored.likelihood = NAN
            return 0
        self._add_expected(scored, &scored.chart, scored.potential, -1)
        for i in range((2 * n + 2) * size):
            scored.move_gradient[i] = -scored.move_gradient[i]
        for m in range(n):
            complete = complete and heads[m] >= 0 and labels[m] >= 0
        log_z = scored.log_z
        if complete:
            scored.likelihood = self._tree_score(scored, heads, labels, True) - log_z
            return 0
        given = scored.chart
        if self._given_chart(scored, &given, arena, heads, labels, counts):
            return -1
        scored.likelihood = scored.log_z - log_z
        return 0

    cdef int _given_chart(
        self, Scored *scored, Chart *given, Arena *arena, const int32_t *heads,
        const int32_t *labels, double **counts
    ) noexcept nogil:
        """The chart of all trees that agree with the annotation."""
        cdef int a, l, m, n_labels = self.machine.n_labels
        cdef double *potential = <double *>take_zeros(
            arena, scored.n_arcs * n_labels * sizeof(double))
        given.phi = <double *>take(arena, scored.n_arcs * self.machine.n_states * sizeof(double))
        if potential == NULL or given.phi == NULL:
            return -1
        for a in range(scored.n_arcs):
            m = given.mod[a] - 1
            if heads[m] >= 0 and heads[m] != given.head[a]:
                continue
            for l in range(n_labels):
                if labels[m] < 0 or labels[m] == l:
                    potential[a * n_labels + l] = scored.potential[a * n_labels + l]
        state_potentials(&self.machine, potential, scored.n_arcs, given.phi)
        if _run_chart(scored, given, potential, n_labels, arena, counts):
            return -1
        if isfinite(scored.log_z):
            self._add_expected(scored, given, potential, 1)
        return 0

    cdef void _add_expected(
        self, Scored *scored, Chart *chart, const double *potential, double sign
    ) noexcept nogil:
        cdef int a, l, c, i, n_labels = self.machine.n_labels, n_states = self.machine.n_states
        for a in range(scored.n_arcs):
            for l in range(n_labels):
                c = a * n_states + self.machine.label_state[l]
                if potential[a * n_labels + l] > 0:
                    scored.gradient[a * n_labels + l] += (
                        sign * chart.mu[c] * potential[a * n_labels + l] / chart.phi[c])
            scored.last_gradient[a] += sign * chart.mu_last[a]
        for i in range(chart.pair_start[scored.n_arcs]):
            scored.sibling_gradient[i] += sign * chart.mu_sibling[i]
        for i in range(2, 2 * scored.n + 2):
            scored.empty_gradient[i] += sign * chart.mu_empty[i]

    cdef double _tree_score(
        self, Scored *scored, const int32_t *heads, const int32_t *labels, bint count
    ) noexcept nogil:
        """The score of a labelled tree, -inf if it is not in the chart; with `count`, its features
        are added to the gradients."""
        cdef Chart *chart = &scored.chart
        cdef int h, side, i, a, r, previous, state, label, n_labels = self.machine.n_labels
        cdef int n_states = self.machine.n_states, n_found = 0, size = self._move_size() // 2
        cdef double score = 0
        for h in range(scored.n + 1):
            for side in range(2):
                previous, state = -1, n_states
                for i in range(chart.side_start[2 * h + side], chart.side_start[2 * h + side + 1]):
                    a = chart.side_arcs[i]
                    if heads[chart.mod[a] - 1] != h:
                        continue
                    n_found += 1
                    label = labels[chart.mod[a] - 1]
                    if not self.machine.allowed[(h == 0) * n_labels + label]:
                        return -INFINITY
                    score += scored.score[a * n_labels + label]
                    if count:
                        scored.gradient[a * n_labels + label] += 1
                    if h == 0:
                        continue
                    r = chart.pair_start[a] + (0 if previous < 0 else chart.rank[previous] + 1)
                    score += scored.sibling_score[r]
                    if count:
                        scored.sibling_gradient[r] += 1
                    r = state * (n_states + 1) + self.machine.label_state[label]
                    score += log(chart.moves[2 * h + side][r])
                    if count:
                        scored.move_gradient[(2 * h + side) * size + r] += 1
                    previous, state = a, self.machine.label_state[label]
                if h == 0:
                    continue
                r = state * (n_states + 1) + n_states
                score += log(chart.moves[2 * h + side][r])
                score += (scored.empty_score[2 * h + side] if previous < 0
                          else scored.last_score[previous])
                if count:
                    scored.move_gradient[(2 * h + side) * size + r] += 1
                    if previous < 0:
                        scored.empty_gradient[2 * h + side] += 1
                    else:
                        scored.last_gradient[previous] += 1
        return score if n_found == scored.n else -INFINITY

    cdef inline int _touch(self, uint32_t at, float gradient) noexcept nogil:
        cdef void *longer
        if self.slopes[at].gradient == 0:
            if self.n_touched == self.touched_size:
                self.touched_size = 2 * self.touched_size + 4096
                longer = realloc(self.touched, self.touched_size * sizeof(uint32_t))
                if longer == NULL:
                    return -1
                self.touched = <uint32_t *>longer
            self.touched[self.n_touched] = at
            self.n_touched += 1
        self.slopes[at].gradient += gradient
        return 0

    cdef int _spread(self, Scored *scored, Arena *arena) noexcept nogil:
        """From gradients of potentials to gradients of weights, added to those of other sentences."""
        cdef int a, l, m, t, h, i, direction, n_labels = self.machine.n_labels, n = scored.n
        cdef int width = unary_width(&self.machine), block = 1 + N_DISTANCES + n_labels
        cdef int bin, failed = 0, n_siblings = self.machine.n_siblings
        cdef double *gradient
        cdef double total
        cdef bint matters
        cdef float *own = <float *>take_zeros(arena, (n + 1) * width * sizeof(float))
        cdef float *part
        cdef uint32_t row, last
        cdef double *counts
        if own == NULL:
            return -1
        for h in range(1, n + 1):
            counts = &self.move_counts[scored.tags[h - 1], 0, 0, 0]
            for i in range(self._move_size()):
                counts[i] += scored.move_gradient[h * self._move_size() + i]
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
                last = row + self.entries[row].output
                row += 1
                while row <= last and self.entries[row].output < N_DISTANCES:
                    if self.entries[row].output == <uint32_t>bin:
                        failed |= self._touch(row, total)
                    row += 1
                while row <= last and self.entries[row].output - N_DISTANCES < <uint32_t>n_labels:
                    l = self.entries[row].output - N_DISTANCES
                    if fabs(gradient[l]) > NEGLIGIBLE:
                        failed |= self._touch(row, gradient[l])
                    row += 1
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
                last = row + self.entries[row].output
                row += 1
                while row <= last:
                    if fabs(part[self.entries[row].output]) > NEGLIGIBLE:
                        failed |= self._touch(row, part[self.entries[row].output])
                    row += 1
        for i in range(scored.chart.pair_start[scored.n_arcs]):
            if fabs(scored.sibling_gradient[i]) > NEGLIGIBLE:
                for t in range(n_siblings):
                    row = scored.sibling_rows[i * n_siblings + t]
                    if row:
                        failed |= self._touch(row, scored.sibling_gradient[i])
        for a in range(scored.n_arcs):
            if fabs(scored.last_gradient[a]) > NEGLIGIBLE:
                for t in range(n_siblings):
                    row = scored.last_rows[a * n_siblings + t]
                    if row:
                        failed |= self._touch(row, scored.last_gradient[a])
        for i in range(2, 2 * n + 2):
            if fabs(scored.empty_gradient[i]) > NEGLIGIBLE:
                for t in range(n_siblings):
                    row = scored.empty_rows[i * n_siblings + t]
                    if row:
                        failed |= self._touch(row, scored.empty_gradient[i])
        return failed

    def step(self, double rate, double decay):
        """Go one step along the added gradients and forget them.

        rate (float): Learning rate of AdaGrad.
        decay (float): L2 penalty, applied to the weights a step touches.
        """
        cdef size_t i, n_moves = self.moves.size, size = self._move_size()
        cdef float *weights = &self.moves[0, 0, 0, 0]
        cdef double *counts = &self.move_counts[0, 0, 0, 0]
        cdef uint32_t at
        with nogil:
            self.n_steps += 1
            for i in range(self.n_touched):
                at = self.touched[i]
                _adagrad(&self.entries[at].weight, &self.slopes[at], rate, decay, self.n_steps)
            self.n_touched = 0
            for i in range(size, n_moves):
                counts[i % size] += counts[i]  # what is counted for any tag is counted for all
            for i in range(n_moves):
                if counts[i] != 0:
                    self.move_slopes[i].gradient = counts[i]
                    _adagrad(weights + i, &self.move_slopes[i], rate, decay, self.n_steps)
                    counts[i] = 0
        self.refresh_moves()

    def gradients(self):
        """RETURNS (Tuple[ndarray, ndarray]): The added gradients of entries and moves, for tests."""
        cdef Py_ssize_t i
        entries = np.zeros(self.entries.shape[0])
        for i in range(self.entries.shape[0]):
            entries[i] = self.slopes[i].gradient
        moves = np.array(self.move_counts)
        moves[0] = moves.sum(axis=0)
        return entries, moves

    def averaged(self):
        """RETURNS (Tuple[ndarray, ndarray]): Weights of entries and moves, averaged over all steps."""
        cdef Py_ssize_t i
        entries = np.zeros(self.entries.shape[0], dtype=np.float32)
        moves = np.zeros(self.moves.size, dtype=np.float32)
        cdef float[::1] out = entries
        cdef float[::1] out_moves = moves
        cdef float *weights = &self.moves[0, 0, 0, 0]
        for i in range(self.entries.shape[0]):
            out[i] = self.entries[i].weight - self.slopes[i].drift / (self.n_steps + 1)
        for i in range(out_moves.shape[0]):
            out_moves[i] = weights[i] - self.move_slopes[i].drift / (self.n_steps + 1)
        return entries, moves.reshape(np.asarray(self.moves).shape)


cdef inline void _adagrad(
    float *weight, Slope *slope, double rate, double decay, long n_steps
) noexcept nogil:
    cdef float gradient = slope.gradient - decay * weight[0], change
    slope.gradient = 0
    slope.squares += gradient * gradient
    change = rate * gradient / sqrt(slope.squares)
    weight[0] += change
    slope.drift += change * n_steps


cdef int _run_chart(
    Scored *scored, Chart *chart, double *potential, int n_labels, Arena *arena, double **counts
) noexcept nogil:
    """Inside and outside. RETURNS (int): 0, or -1 without memory; log_z is nan if z is useless."""
    cdef int attempt, i
    cdef double growth, factor, shift = scored.shift
    if chart_inside(chart, arena):
        return -1
    for attempt in range(RESCALINGS):
        if 1e-250 < chart.z < 1e250:
            break
        # A long sentence: what every token must take once can be shared out at will. The growth of
        # spans tells how much of it each should take; where they hardly grow, nothing is gained.
        growth = span_growth(chart.right, chart.left, chart.n)
        if not fabs(growth) * scored.n > 1:
            break
        factor = exp(-growth)
        for i in range(scored.n_arcs * n_labels):
            potential[i] *= factor
        for i in range(scored.n_arcs * chart.n_states):
            chart.phi[i] *= factor
        shift += scored.n * growth
        if chart_inside(chart, arena):
            return -1
    if potential == scored.potential:
        scored.shift = shift  # for a second chart made from these potentials
    if not (chart.z > 0 and isfinite(chart.z)):
        scored.log_z = NAN
        return chart_local(chart, arena)
    scored.log_z = log(chart.z) + shift
    return chart_outside(chart, arena, counts)
