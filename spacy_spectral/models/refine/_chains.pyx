# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sums over the states of tokens in given trees.

The children of a head on one side are a hidden Markov chain for every state a of the head (see `_lattice`):
with In[mc] the sum over everything below token m in state c,

    F_1[a, c] = P(c | a, FIRST) In[c]                F_k[a, c] = sum_b F_k-1[a, b] P(c | a, b) In[c]
    G_last[a, c] = P(STOP | a, c)                    G_k-1[a, b] = sum_c P(c | a, b) In[c] G_k[a, c]
    End[a] = sum_b F_last[a, b] P(STOP | a, b)       In[a] = e[a] End_left[a] End_right[a]

forwards and backwards. Everything is divided by its largest value on the way, and the logarithms of the
divisors are summed, so that trees may have any size.

Trees may be known in part: a half of a head that is not counted says nothing, and tokens without a head
have the weight `prior`.
"""

from libc.math cimport INFINITY, log
from libc.string cimport memcpy, memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...trees._sides cimport LEFT, RIGHT
from ._grammar cimport Grammar, bind_grammar, context_of, row_after


cdef enum:
    NONE = -1
    NO_MEMORY = -1
    NO_TREE = -2


cdef struct Tree:
    int n
    const int* offset       # [n + 1], where the states of a token start; of the first, too
    const int* state        # by offset
    const double* emit      # by offset
    const double* root      # by offset
    const double* prior     # by offset
    const int* head         # [n], 0 for the root, -1 for none
    const unsigned char* counted    # [n, 2], whether a half is complete
    int* first              # [n, 2], the innermost child
    int* next               # [n], the next sibling outwards
    int* previous           # [n], the next sibling inwards
    int* order              # [n], children before their heads
    double** forward        # [n]: [states of the head, states of the child]
    double** backward       # [n]: the same
    double* divisor         # [n], what `forward` was divided by
    double* inside          # by state - offset[0]
    double* end             # [2, all states]
    double* scale           # [n], what `inside` was divided by


cdef inline int width_of(Tree* t, int token) noexcept nogil:
    return t.offset[token + 1] - t.offset[token]


cdef inline void bind_tree(Tree* t, const int* offsets, int begin, int end) noexcept nogil:
    t.n = end - begin
    t.offset = offsets + begin


cdef inline void put_child(Tree* t, int half, int m) noexcept nogil:
    t.next[m] = t.first[half]
    t.previous[m] = NONE
    if t.next[m] != NONE:
        t.previous[t.next[m]] = m
    t.first[half] = m


cdef inline int lay_out(Tree* t, Arena* arena) noexcept nogil:
    """Lists of children, an order from the leaves up, and memory. RETURNS (int): 0, NO_MEMORY or NO_TREE."""
    cdef int n = t.n, m, h, k, begin, all_states = t.offset[n] - t.offset[0]
    cdef int* pending = <int*>take_zeros(arena, n * sizeof(int))
    cdef size_t size
    t.first = <int*>take(arena, 2 * n * sizeof(int))
    t.next = <int*>take(arena, n * sizeof(int))
    t.previous = <int*>take(arena, n * sizeof(int))
    t.order = <int*>take(arena, n * sizeof(int))
    t.forward = <double**>take(arena, n * sizeof(double*))
    t.backward = <double**>take(arena, n * sizeof(double*))
    t.divisor = <double*>take(arena, n * sizeof(double))
    t.inside = <double*>take(arena, all_states * sizeof(double))
    t.end = <double*>take(arena, 2 * all_states * sizeof(double))
    t.scale = <double*>take(arena, n * sizeof(double))
    if (
        pending is NULL or t.first is NULL or t.next is NULL or t.previous is NULL
        or t.order is NULL or t.forward is NULL or t.backward is NULL or t.divisor is NULL
        or t.inside is NULL or t.end is NULL or t.scale is NULL
    ):
        return NO_MEMORY
    for k in range(2 * n):
        t.first[k] = NONE
    # each is put before those that are farther away
    for m in range(n - 1, -1, -1):
        if 0 <= t.head[m] - 1 < m:
            put_child(t, 2 * (t.head[m] - 1) + RIGHT, m)
    for m in range(n):
        h = t.head[m] - 1
        if h > m:
            put_child(t, 2 * h + LEFT, m)
        if h >= 0:
            pending[h] += 1
    begin, k = 0, 0
    for m in range(n):
        if pending[m] == 0:
            t.order[k] = m
            k += 1
    while begin < k:
        h = t.head[t.order[begin]] - 1
        begin += 1
        if h >= 0:
            pending[h] -= 1
            if pending[h] == 0:
                t.order[k] = h
                k += 1
    if k < n:
        return NO_TREE  # but a cycle
    for m in range(n):
        h = t.head[m] - 1
        if h >= 0:
            size = <size_t>width_of(t, h) * width_of(t, m) * sizeof(double)
            t.forward[m] = <double*>take(arena, size)
            t.backward[m] = <double*>take(arena, size)
            if t.forward[m] is NULL or t.backward[m] is NULL:
                return NO_MEMORY
    return 0


cdef void _fill_forward(Grammar* g, Tree* t, int side, int h, int m) noexcept nogil:
    cdef int a, b, c, width = width_of(t, m), p = t.previous[m]
    cdef int first_a = t.offset[h], first_b, first_c = t.offset[m]
    cdef double* target = t.forward[m]
    cdef const double* inside = t.inside + (first_c - t.offset[0])
    cdef double so_far, largest = 0
    cdef const float* row
    for a in range(width_of(t, h)):
        if p == NONE:
            row = row_after(g, side, t.state[first_a + a], g.n_states)
            for c in range(width):
                target[a * width + c] = row[t.state[first_c + c]]
        else:
            first_b = t.offset[p]
            for c in range(width):
                target[a * width + c] = 0
            for b in range(width_of(t, p)):
                so_far = t.forward[p][a * width_of(t, p) + b]
                row = row_after(g, side, t.state[first_a + a], t.state[first_b + b])
                for c in range(width):
                    target[a * width + c] += so_far * row[t.state[first_c + c]]
        for c in range(width):
            target[a * width + c] *= inside[c]
            largest = max(largest, target[a * width + c])
    t.divisor[m] = largest if largest > 0 else 1.0
    for c in range(width_of(t, h) * width):
        target[c] /= t.divisor[m]


cdef double _upwards(Grammar* g, Tree* t) noexcept nogil:
    """Sums from the leaves to the roots. Returns the logarithm of the score of the tree."""
    cdef int k, h, m, a, b, side, last, begin = t.offset[0], all_states = t.offset[t.n] - t.offset[0]
    cdef double log_score = 0, value, largest
    cdef const double* top
    for k in range(t.n):
        h = t.order[k]
        for side in range(2):
            last = NONE
            m = t.first[2 * h + side]
            while m != NONE:
                _fill_forward(g, t, side, h, m)
                log_score += log(t.divisor[m])
                last, m = m, t.next[m]
            for a in range(width_of(t, h)):
                value = 0
                if not t.counted[2 * h + side]:
                    value = 1
                elif last == NONE:
                    value = row_after(g, side, t.state[t.offset[h] + a], g.n_states)[g.n_states]
                else:
                    for b in range(width_of(t, last)):
                        value += t.forward[last][a * width_of(t, last) + b] * row_after(
                            g, side, t.state[t.offset[h] + a], t.state[t.offset[last] + b]
                        )[g.n_states]
                t.end[side * all_states + t.offset[h] - begin + a] = value
        largest = 0
        for a in range(t.offset[h] - begin, t.offset[h + 1] - begin):
            t.inside[a] = t.emit[begin + a] * t.end[a] * t.end[all_states + a]
            largest = max(largest, t.inside[a])
        t.scale[h] = largest if largest > 0 else 1.0
        for a in range(t.offset[h] - begin, t.offset[h + 1] - begin):
            t.inside[a] /= t.scale[h]
        log_score += log(t.scale[h])
        if t.head[h] <= 0:
            top = t.root if t.head[h] == 0 else t.prior
            value = 0
            for a in range(t.offset[h] - begin, t.offset[h + 1] - begin):
                value += top[begin + a] * t.inside[a]
            log_score += log(value) if value > 0 else -INFINITY
    return log_score


cdef void _downwards(
    Grammar* g, Tree* t, double* posterior, double* counts, double* root_counts, double* scratch
) noexcept nogil:
    """Posteriors of the states of every token, and expected counts of what heads generate if `counts` is
    not NULL. `posterior` is by state of the tree; `scratch` has room for the states of one token."""
    cdef int k, h, m, a, b, c, p, q, side, width, begin = t.offset[0]
    cdef int all_states = t.offset[t.n] - begin, n_states = g.n_states
    cdef double value, total, xi
    cdef double* cell
    cdef const double* top
    cdef const float* row
    for k in range(t.n - 1, -1, -1):
        h = t.order[k]
        width = width_of(t, h)
        cell = posterior + t.offset[h] - begin
        if t.head[h] <= 0:
            top = t.root if t.head[h] == 0 else t.prior
            total = 0
            for a in range(width):
                cell[a] = top[t.offset[h] + a] * t.inside[t.offset[h] - begin + a]
                total += cell[a]
            for a in range(width):
                cell[a] = cell[a] / total if total > 0 else 1.0 / width
                if t.head[h] == 0 and root_counts is not NULL:
                    root_counts[t.state[t.offset[h] + a]] += cell[a]
        for side in range(2):
            if not t.counted[2 * h + side]:
                continue
            # P(a) / End[a]: what the chain is worth for every state of the head
            for a in range(width):
                value = t.end[side * all_states + t.offset[h] - begin + a]
                scratch[a] = cell[a] / value if value > 0 else 0.0
            q = NONE
            m = t.first[2 * h + side]
            if m == NONE:
                if counts is not NULL:
                    for a in range(width):
                        _cell(counts, n_states, side, t.state[t.offset[h] + a], n_states)[n_states] += cell[a]
                continue
            while m != NONE:
                q, m = m, t.next[m]
            m = q
            q = NONE  # the sibling outside of m
            while m != NONE:
                for a in range(width):
                    for b in range(width_of(t, m)):
                        row = row_after(g, side, t.state[t.offset[h] + a], t.state[t.offset[m] + b])
                        if q == NONE:
                            value = row[n_states]
                            if counts is not NULL:
                                _cell(
                                    counts, n_states, side, t.state[t.offset[h] + a],
                                    t.state[t.offset[m] + b]
                                )[n_states] += scratch[a] * t.forward[m][a * width_of(t, m) + b] * value
                        else:
                            value = 0
                            for c in range(width_of(t, q)):
                                xi = (
                                    row[t.state[t.offset[q] + c]]
                                    * t.inside[t.offset[q] - begin + c]
                                    * t.backward[q][a * width_of(t, q) + c] / t.divisor[q])
                                value += xi
                                if counts is not NULL:
                                    _cell(
                                        counts, n_states, side, t.state[t.offset[h] + a],
                                        t.state[t.offset[m] + b]
                                    )[t.state[t.offset[q] + c]] += (
                                        scratch[a] * t.forward[m][a * width_of(t, m) + b] * xi)
                        t.backward[m][a * width_of(t, m) + b] = value
                p = t.previous[m]
                for b in range(width_of(t, m)):
                    value = 0
                    for a in range(width):
                        xi = (
                            scratch[a] * t.forward[m][a * width_of(t, m) + b]
                            * t.backward[m][a * width_of(t, m) + b])
                        value += xi
                        if p == NONE and counts is not NULL:
                            _cell(counts, n_states, side, t.state[t.offset[h] + a], n_states)[
                                t.state[t.offset[m] + b]] += xi
                    posterior[t.offset[m] - begin + b] = value
                q, m = m, p


cdef inline double* _cell(double* counts, int n_states, int side, int head, int previous) noexcept nogil:
    """Counts of all outcomes of a context."""
    return counts + context_of(n_states, side, head, previous) * (n_states + 1)


def state_posteriors(
    const int[::1] starts not None,
    const int[::1] heads not None,
    const unsigned char[:, ::1] counted not None,
    const int[::1] offsets not None,
    const int[::1] states not None,
    const double[::1] emissions not None,
    const float[:, ::1] rows not None,
    const int[:, :, ::1] row_of not None,
    const double[::1] root not None,
    const double[::1] prior not None,
    double[:, :, :, ::1] counts=None,
    double[::1] root_counts=None,
):
    """Posterior of every state of the tokens of many trees; In of every state, divided by the largest of
    its token; and the logarithm of the score of every tree.

    starts, heads: The trees; heads in the sentence, from 1; 0 for the root, -1 for tokens without one.
    counted (uint8[N, 2]): Whether the children of a token on its left and right are all known; others
    must not have it as their head.
    offsets, states, emissions: The states of every token, see `lexicon.Lattice`; rows, row_of: the
    grammar, see `_grammar`.
    root, prior (float[M]): Weights of states as child of the root, and as one without a head.
    counts (float[2, K, K + 1, K + 1]), root_counts (float[K]): Expected counts are added to these: by
    side, state of the head, previous sibling (FIRST last) and child (STOP last).
    """
    cdef int k, failed = 0, widest = 0
    cdef Grammar g
    cdef Tree t
    cdef Arena arena
    posterior_array = numpy.zeros(states.shape[0])
    inside_array = numpy.zeros(states.shape[0])
    log_array = numpy.zeros(starts.shape[0] - 1)
    cdef double[::1] logs = log_array
    cdef double[::1] posterior = posterior_array
    cdef double[::1] inside = inside_array
    cdef double* count_block = NULL
    cdef double* root_block = NULL
    cdef double* scratch
    if states.shape[0] == 0:
        return posterior_array, inside_array, log_array
    if counts is not None:
        count_block = &counts[0, 0, 0, 0]
    if root_counts is not None:
        root_block = &root_counts[0]
    widest = int(numpy.diff(offsets).max())
    bind_grammar(&g, rows, row_of)
    t.state = &states[0]
    t.emit = &emissions[0]
    t.root = &root[0]
    t.prior = &prior[0]
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for k in range(starts.shape[0] - 1):
            if starts[k] == starts[k + 1]:
                continue
            arena_reset(&arena)
            bind_tree(&t, &offsets[0], starts[k], starts[k + 1])
            t.head = &heads[starts[k]]
            t.counted = &counted[starts[k], 0]
            scratch = <double*>take(&arena, widest * sizeof(double))
            failed = NO_MEMORY if scratch is NULL else lay_out(&t, &arena)
            if failed:
                break
            logs[k] = _upwards(&g, &t)
            _downwards(&g, &t, &posterior[t.offset[0]], count_block, root_block, scratch)
            memcpy(
                &inside[t.offset[0]], t.inside,
                (t.offset[t.n] - t.offset[0]) * sizeof(double))
        arena_free(&arena)
    if failed == NO_MEMORY:
        raise MemoryError()
    if failed:
        raise ValueError(f"sentence {k} is no tree")
    return posterior_array, inside_array, log_array
