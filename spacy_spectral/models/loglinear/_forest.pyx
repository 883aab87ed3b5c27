# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The packed forests of parsed sentences: many trees at the cost of one chart.

A tree's score is a sum over its arcs, its neighbouring modifiers and the moves between their states.
The chart has all of them; they are kept as logarithms, so that one more tree of a sentence costs a walk over
its arcs.
"""
import numpy

from libc.math cimport INFINITY, exp, isfinite, log
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free, take
from ...trees._eisner cimport k_best
from ._chart cimport Chart
from ._features cimport Machine, Scored, move_size

cdef double MOST_OF_STATES = 1.5
MOST_OF_STATES_POWER = MOST_OF_STATES  # for Python


cdef class Forests:
    """Forests of some sentences.

    n (int): How many sentences there are.
    owner (Any): What owns the machine.
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
        cdef int i, n = scored.n, n_arcs = scored.n_arcs, n_siblings = scored.chart.n_siblings
        cdef int n_scores = n_arcs * machine.n_labels
        cdef Scored* own
        cdef char* free_memory
        cdef Forest* forest = <Forest*>malloc(
            sizeof(Forest) + n_siblings * sizeof(double)
            + (5 * n_arcs + 3 * n + 3) * sizeof(int32_t)
            + (n_scores + n_arcs * machine.n_states) * sizeof(float))
        if forest == NULL:
            return -1
        memset(forest, 0, sizeof(Forest))
        self.forests[sentence] = forest
        forest.machine = machine
        own, free_memory = &forest.scored, <char*>(forest + 1)
        own.n, own.n_arcs = n, n_arcs
        own.log_z, own.sharp_log_z = scored.log_z, scored.sharp_log_z
        own.sibling_score = <double*>_copy(&free_memory, scored.sibling_score, n_siblings * sizeof(double))
        own.chart.last_at, own.chart.empty_at = scored.chart.last_at, scored.chart.empty_at
        own.chart.head = <int*>_copy(&free_memory, scored.chart.head, n_arcs * sizeof(int))
        own.chart.mod = <int*>_copy(&free_memory, scored.chart.mod, n_arcs * sizeof(int))
        own.chart.rank = <int*>_copy(&free_memory, scored.chart.rank, n_arcs * sizeof(int))
        own.chart.pair_start = <int*>_copy(&free_memory, scored.chart.pair_start, n_arcs * sizeof(int))
        own.chart.side_arcs = <int*>_copy(&free_memory, scored.chart.side_arcs, n_arcs * sizeof(int))
        own.chart.side_start = <int*>_copy(
            &free_memory, scored.chart.side_start, (2 * n + 3) * sizeof(int))
        own.tags = <int32_t*>_copy(&free_memory, scored.tags, n * sizeof(int32_t))
        own.score = <float*>_copy(&free_memory, scored.score, n_scores * sizeof(float))
        forest.mu = <float*>free_memory
        for i in range(n_arcs * machine.n_states):
            forest.mu[i] = scored.chart.mu[i]
        return 0

    def joint(self, int sentence):
        """Probabilities of arcs with labels.

        sentence (int): Which sentence.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): head and modifier (int32) of the arcs that were scored,
            by modifier, and P(arc and label) (float32[arcs, labels]).
        """
        cdef Forest* forest = self.forests[sentence]
        cdef int n_arcs = forest.scored.n_arcs if forest != NULL else 0
        cdef int n_labels = forest.machine.n_labels if forest != NULL else 0
        heads, mods = numpy.empty(n_arcs, dtype=numpy.int32), numpy.empty(n_arcs, dtype=numpy.int32)
        probs = numpy.empty((n_arcs, n_labels), dtype=numpy.float32)
        cdef int32_t[::1] out_heads = heads
        cdef int32_t[::1] out_mods = mods
        cdef float[:, ::1] out_probs = probs
        if n_arcs:
            memcpy(&out_heads[0], forest.scored.chart.head, n_arcs * sizeof(int32_t))
            memcpy(&out_mods[0], forest.scored.chart.mod, n_arcs * sizeof(int32_t))
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
        cdef int found = 0, n = forest.scored.n if forest != NULL else 0
        heads = numpy.empty((k, n), dtype=numpy.int32)
        labels = numpy.empty((k, n), dtype=numpy.int32)
        logs = numpy.empty(k, dtype=numpy.float64)
        cdef int32_t[:, ::1] out_heads = heads
        cdef int32_t[:, ::1] out_labels = labels
        cdef double[::1] out_logs = logs
        if n and k > 0 and isfinite(forest.scored.log_z):
            memset(&arena, 0, sizeof(arena))
            with nogil:
                found = _k_best(forest, k, &out_heads[0, 0], &out_labels[0, 0], &out_logs[0], &arena)
                arena_free(&arena)
        if found < 0:
            raise MemoryError
        order = numpy.argsort(-logs[:found], kind="stable")
        return heads[order], labels[order], logs[order]


cdef void* _copy(char** free_memory, const void* data, size_t size) noexcept nogil:
    """Copy to the memory that is free, and leave the rest. What is as long as a double comes first."""
    cdef void* result = free_memory[0]
    memcpy(result, data, size)
    free_memory[0] += size
    return result


cdef void _fill_joint(const Forest* forest, float* joint) noexcept nogil:
    """P(arc and label) = P(arc and class) exp(s_label) / sum of the exponentials of its class."""
    cdef const Machine* machine = forest.machine
    cdef int a, l, n_labels = machine.n_labels
    cdef const float* score
    cdef const int32_t* state = machine.label_state
    cdef const uint8_t* allowed
    cdef double total[MAX_STATES]
    cdef float top
    for a in range(forest.scored.n_arcs):
        score = forest.scored.score + a * n_labels
        allowed = machine.allowed + (forest.scored.chart.head[a] == 0) * n_labels
        memset(total, 0, machine.n_states * sizeof(double))
        top = -1e30
        for l in range(n_labels):
            if allowed[l]:
                top = max(top, score[l])
        for l in range(n_labels):
            joint[a * n_labels + l] = exp(score[l] - top) if allowed[l] else 0
            total[state[l]] += joint[a * n_labels + l]
        for l in range(n_labels):
            if joint[a * n_labels + l] > 0:
                joint[a * n_labels + l] *= forest.mu[a * machine.n_states + state[l]] / total[state[l]]


cdef int _k_best(
    const Forest* forest, int k, int32_t* heads, int32_t* labels, double* logs, Arena* arena
) noexcept nogil:
    """RETURNS (int): How many trees there are, or -1 without memory."""
    cdef const Scored* scored = &forest.scored
    cdef const Chart* chart = &scored.chart
    cdef int n = scored.n, width = n + 1, a, c, l, t, found
    cdef int n_labels = forest.machine.n_labels, n_states = forest.machine.n_states
    cdef float best
    cdef double total
    cdef double* arcs = <double*>take(arena, <size_t>width * width * sizeof(double))
    cdef int* likeliest = <int*>take(arena, scored.n_arcs * sizeof(int))
    cdef float* joint = <float*>take(arena, scored.n_arcs * n_labels * sizeof(float))
    if arcs == NULL or likeliest == NULL or joint == NULL:
        return -1
    _fill_joint(forest, joint)
    for a in range(width * width):
        arcs[a] = -INFINITY
    for a in range(scored.n_arcs):
        best, total = -1, 0
        for l in range(n_labels):
            if joint[a * n_labels + l] > best:
                best, likeliest[a] = joint[a * n_labels + l], l
        for c in range(n_states):
            total += forest.mu[a * n_states + c]
        arcs[chart.head[a] * width + chart.mod[a]] = log(total)
    found = k_best(n, arcs, k, <int*>heads, logs, arena)
    for t in range(found):
        for a in range(scored.n_arcs):
            if heads[t * n + chart.mod[a] - 1] == chart.head[a]:
                labels[t * n + chart.mod[a] - 1] = likeliest[a]
        logs[t] = tree_likelihood(forest.machine, scored, heads + t * n, labels + t * n)
    return found


cdef inline double _log_move(const Machine* machine, int tag, int side, int move) noexcept nogil:
    """Log weight of going from the state of one modifier to that of the next; START and STOP are the last."""
    cdef int size = move_size(machine), at = side * (size // 2) + move
    return machine.log_moves[at] + (machine.log_moves[tag * size + at] if tag else 0)


cdef double tree_likelihood(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels
) noexcept nogil:
    """The logarithm of the probability of a labelled tree, mixed as probabilities of arcs are."""
    cdef double score = tree_score(machine, scored, heads, labels, False), flat = score - scored.log_z
    cdef double given, states, sharp, top
    if not isfinite(scored.sharp_log_z) or not isfinite(flat):
        return flat
    # labels given states are not to the power, and states given arcs to another
    _label_scores(machine, scored, heads, labels, &given, &states)
    sharp = machine.choice * (score - given - states) + given - scored.sharp_log_z + log(machine.share)
    sharp += min(machine.choice, MOST_OF_STATES) * states
    if machine.share >= 1:
        return sharp
    flat += log(1 - machine.share)
    top = max(flat, sharp)
    return top + log(exp(flat - top) + exp(sharp - top))


cdef void _label_scores(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels,
    double* given, double* states
) noexcept nogil:
    """Logarithms of the probabilities of a tree's labels given its arcs and their states, and of these given
    its arcs, by the scores of arcs alone."""
    cdef const Chart* chart = &scored.chart
    cdef int a, l, label, n_labels = machine.n_labels
    cdef const uint8_t* allowed
    cdef const float* score
    cdef double total, all_labels
    given[0] = states[0] = 0
    for a in range(scored.n_arcs):
        if heads[chart.mod[a] - 1] != chart.head[a]:
            continue
        label = labels[chart.mod[a] - 1]
        allowed = machine.allowed + (chart.head[a] == 0) * n_labels
        score = scored.score + a * n_labels
        total = all_labels = 0
        for l in range(n_labels):
            if allowed[l]:
                all_labels += exp(score[l] - score[label])
                if machine.label_state[l] == machine.label_state[label]:
                    total += exp(score[l] - score[label])
        given[0] -= log(total)
        states[0] += log(total) - log(all_labels)


cdef double tree_score(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels, bint count
) noexcept nogil:
    """The score of a labelled tree, -inf if it is not in the chart; with `count`, its features
    are added to the gradients."""
    cdef const Chart* chart = &scored.chart
    cdef int h, side, i, a, r, at, previous, state, label, n_labels = machine.n_labels
    cdef int n_states = machine.n_states, n_found = 0, size = move_size(machine) // 2
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
                if not machine.allowed[(h == 0) * n_labels + label]:
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
                r = state * (n_states + 1) + machine.label_state[label]
                score += _log_move(machine, scored.tags[h - 1], side, r)
                if count:
                    scored.move_gradient[(2 * h + side) * size + r] += 1
                previous, state = a, machine.label_state[label]
            if h == 0:
                continue
            r = state * (n_states + 1) + n_states
            score += _log_move(machine, scored.tags[h - 1], side, r)
            at = chart.empty_at + 2 * h + side if previous < 0 else chart.last_at + previous
            score += scored.sibling_score[at]
            if count:
                scored.move_gradient[(2 * h + side) * size + r] += 1
                scored.sibling_gradient[at] += 1
    return score if n_found == scored.n else -INFINITY
