# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The packed forests of parsed sentences: many trees at the cost of one chart.

A tree's score is a sum over its arcs, its neighbouring modifiers and the moves between their states.
The chart has all of them; they are kept as logarithms, so that one more tree of a sentence costs its
length.
"""
import numpy

from libc.math cimport INFINITY, exp, isfinite, log
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free, take
from ...trees._eisner cimport k_best
from ._chart cimport Chart
from ._layout cimport Machine, Scored


cdef class Forests:
    """Forests of some sentences.

    n (int): How many sentences there are.
    owner (Any): What owns the tables of moves.
    """

    def __cinit__(self, int n, owner):
        self.forests = <Forest**>calloc(n + 1, sizeof(Forest*))
        if self.forests == NULL:
            raise MemoryError
        self.n_forests = n
        self.owner = owner

    def __dealloc__(self):
        cdef int s
        for s in range(self.n_forests):
            free(self.forests[s])
        free(self.forests)

    def __len__(self):
        return self.n_forests

    cdef int keep(self, int sentence, const Machine* machine, const Scored* scored) noexcept nogil:
        """Copy what is needed from a chart. RETURNS (int): 0, or -1 without memory."""
        cdef const Chart* chart = &scored.chart
        cdef int i, n = scored.n, n_arcs = scored.n_arcs, n_pairs = chart.pair_start[n_arcs]
        cdef int n_scores = n_arcs * machine.n_labels
        cdef Forest* forest
        cdef int32_t* integers
        forest = <Forest*>malloc(
            sizeof(Forest) + (n_arcs + 2 * n + 2 + n_pairs) * sizeof(double)
            + (4 * n_arcs + n) * sizeof(int32_t)
            + (n_scores + n_arcs * machine.n_states) * sizeof(float))
        if forest == NULL:
            return -1
        self.forests[sentence] = forest
        forest.n, forest.n_arcs, forest.log_z = n, n_arcs, scored.log_z
        forest.moves, forest.n_states = machine.log_moves, machine.n_states
        forest.n_labels, forest.label_state = machine.n_labels, machine.label_state
        forest.allowed = machine.allowed
        forest.last = <double*>(forest + 1)
        forest.empty = forest.last + n_arcs
        forest.sibling = forest.empty + 2 * n + 2
        integers = <int32_t*>(forest.sibling + n_pairs)
        forest.head, forest.mod, forest.rank = integers, integers + n_arcs, integers + 2 * n_arcs
        forest.pair_start, forest.tags = integers + 3 * n_arcs, integers + 4 * n_arcs
        forest.score = <float*>(forest.tags + n)
        forest.mu = forest.score + n_scores
        memcpy(forest.head, chart.head, n_arcs * sizeof(int32_t))
        memcpy(forest.mod, chart.mod, n_arcs * sizeof(int32_t))
        memcpy(forest.rank, chart.rank, n_arcs * sizeof(int32_t))
        memcpy(forest.pair_start, chart.pair_start, n_arcs * sizeof(int32_t))
        memcpy(forest.last, scored.last_score, n_arcs * sizeof(double))
        memcpy(forest.sibling, scored.sibling_score, n_pairs * sizeof(double))
        memcpy(forest.empty, scored.empty_score, (2 * n + 2) * sizeof(double))
        memcpy(forest.tags, scored.tags, n * sizeof(int32_t))
        memcpy(forest.score, scored.score, n_scores * sizeof(float))
        for i in range(n_arcs * machine.n_states):
            forest.mu[i] = chart.mu[i]
        return 0

    def joint(self, int sentence):
        """Probabilities of arcs with labels.

        sentence (int): Which sentence.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): head and modifier (int32) of the arcs that were scored,
            by modifier, and P(arc and label) (float32[arcs, labels]).
        """
        cdef Forest* forest = self.forests[sentence]
        cdef int n_arcs = forest.n_arcs if forest != NULL else 0
        cdef int n_labels = forest.n_labels if forest != NULL else 0
        heads, mods = numpy.empty(n_arcs, dtype=numpy.int32), numpy.empty(n_arcs, dtype=numpy.int32)
        probs = numpy.empty((n_arcs, n_labels), dtype=numpy.float32)
        cdef int32_t[::1] out_heads = heads
        cdef int32_t[::1] out_mods = mods
        cdef float[:, ::1] out_probs = probs
        if n_arcs:
            memcpy(&out_heads[0], forest.head, n_arcs * sizeof(int32_t))
            memcpy(&out_mods[0], forest.mod, n_arcs * sizeof(int32_t))
            _fill_joint(forest, &out_probs[0, 0])
        return heads, mods, probs

    def k_best(self, int sentence, int k):
        """The k trees with the best products of arc probabilities, each arc with its likeliest label,
        ordered by their exact probabilities.

        sentence (int): Which sentence.
        k (int): How many trees at most.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): heads (int32[k, n]), labels (int32[k, n]) and
            log p(labelled tree | sentence) (float64[k]); none at all for a sentence whose chart failed.
        """
        cdef Forest* forest = self.forests[sentence]
        cdef Arena arena
        cdef int found = 0, n = forest.n if forest != NULL else 0
        heads = numpy.empty((k, n), dtype=numpy.int32)
        labels = numpy.empty((k, n), dtype=numpy.int32)
        logs = numpy.empty(k, dtype=numpy.float64)
        cdef int32_t[:, ::1] out_heads = heads
        cdef int32_t[:, ::1] out_labels = labels
        cdef double[::1] out_logs = logs
        if n and k > 0 and isfinite(forest.log_z):
            memset(&arena, 0, sizeof(arena))
            with nogil:
                found = _k_best(forest, k, &out_heads[0, 0], &out_labels[0, 0], &out_logs[0], &arena)
                arena_free(&arena)
        if found < 0:
            raise MemoryError
        order = numpy.argsort(-logs[:found], kind="stable")
        return heads[order], labels[order], logs[order]


cdef void _fill_joint(const Forest* forest, float* joint) noexcept nogil:
    """P(arc and label) = P(arc and class) exp(s_label) / sum of the exponentials of its class."""
    cdef int a, l, n_labels = forest.n_labels
    cdef const float* score
    cdef const int32_t* state = forest.label_state
    cdef const uint8_t* allowed
    cdef double total[MAX_STATES]
    cdef float top
    for a in range(forest.n_arcs):
        score = forest.score + a * n_labels
        allowed = forest.allowed + (forest.head[a] == 0) * n_labels
        memset(total, 0, forest.n_states * sizeof(double))
        top = -1e30
        for l in range(n_labels):
            if allowed[l]:
                top = max(top, score[l])
        for l in range(n_labels):
            joint[a * n_labels + l] = exp(score[l] - top) if allowed[l] else 0
            total[state[l]] += joint[a * n_labels + l]
        for l in range(n_labels):
            if joint[a * n_labels + l] > 0:
                joint[a * n_labels + l] *= forest.mu[a * forest.n_states + state[l]] / total[state[l]]


cdef int _k_best(
    const Forest* forest, int k, int32_t* heads, int32_t* labels, double* logs, Arena* arena
) noexcept nogil:
    """RETURNS (int): How many trees there are, or -1 without memory."""
    cdef int width = forest.n + 1, a, c, l, t, found, n_labels = forest.n_labels
    cdef float best
    cdef double total
    cdef double* arcs = <double*>take(arena, <size_t>width * width * sizeof(double))
    cdef int* arc_at = <int*>take(arena, <size_t>width * width * sizeof(int))
    cdef int* latest = <int*>take(arena, 2 * width * sizeof(int))
    cdef int* likeliest = <int*>take(arena, forest.n_arcs * sizeof(int))
    cdef float* joint = <float*>take(arena, forest.n_arcs * n_labels * sizeof(float))
    if arcs == NULL or arc_at == NULL or latest == NULL or likeliest == NULL or joint == NULL:
        return -1
    _fill_joint(forest, joint)
    for a in range(width * width):
        arcs[a] = -INFINITY
    for a in range(forest.n_arcs):
        best, total = -1, 0
        for l in range(n_labels):
            if joint[a * n_labels + l] > best:
                best, likeliest[a] = joint[a * n_labels + l], l
        for c in range(forest.n_states):
            total += forest.mu[a * forest.n_states + c]
        arcs[forest.head[a] * width + forest.mod[a]] = log(total)
        arc_at[forest.head[a] * width + forest.mod[a]] = a
    found = k_best(forest.n, arcs, k, <int*>heads, logs, arena)
    for t in range(found):
        logs[t] = _tree_log_prob(
            forest, arc_at, likeliest, heads + t * forest.n, labels + t * forest.n, latest)
    return found


cdef inline double _move(
    const Forest* forest, int head, int side, int before, int after
) noexcept nogil:
    """Log weight of going from the state of one modifier to the state of the next; START and STOP are
    the last."""
    cdef int width = forest.n_states + 1, tag = forest.tags[head - 1]
    cdef int at = (side * width + before) * width + after
    return forest.moves[at] + (forest.moves[2 * tag * width * width + at] if tag else 0)


cdef inline double _arc_score(
    const Forest* forest, const int* likeliest, int a, int head, int side, int* latest
) noexcept nogil:
    """Score of the next arc on one side of a head; `latest` is the one before it, or -1."""
    cdef double score = forest.score[a * forest.n_labels + likeliest[a]]
    cdef int state = forest.label_state[likeliest[a]]
    if head:
        if latest[0] < 0:
            score += forest.sibling[forest.pair_start[a]]
            score += _move(forest, head, side, forest.n_states, state)
        else:
            score += forest.sibling[forest.pair_start[a] + forest.rank[latest[0]] + 1]
            score += _move(
                forest, head, side, forest.label_state[likeliest[latest[0]]], state)
        latest[0] = a
    return score


cdef double _tree_log_prob(
    const Forest* forest, const int* arc_at, const int* likeliest, const int32_t* heads, int32_t* labels,
    int* latest
) noexcept nogil:
    """Log-probability of a tree whose arcs are all in the forest; writes its labels."""
    cdef int n = forest.n, width = n + 1, m, h, a, side
    cdef double score = -forest.log_z
    for h in range(2 * width):
        latest[h] = -1
    for m in range(1, n + 1):  # to the right of heads, from the inside out
        h = heads[m - 1]
        a = arc_at[h * width + m]
        labels[m - 1] = likeliest[a]
        if h < m:
            score += _arc_score(forest, likeliest, a, h, 1, &latest[2 * h + 1])
    for m in range(n, 0, -1):  # to the left
        h = heads[m - 1]
        if h > m:
            score += _arc_score(
                forest, likeliest, arc_at[h * width + m], h, 0, &latest[2 * h])
    for h in range(1, n + 1):
        for side in range(2):
            a = latest[2 * h + side]
            score += forest.empty[2 * h + side] if a < 0 else forest.last[a]
            score += _move(
                forest, h, side,
                forest.n_states if a < 0 else forest.label_state[likeliest[a]], forest.n_states)
    return score
