# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A sentence as the chart of states sees it: which arcs and which pairs of siblings there are, and where the
values of each are kept."""
from ...base._arena cimport Arena, take
from ...trees._sides cimport RIGHT
from ._grammar cimport Grammar


cdef enum:
    NOT_THERE = -1


cdef struct Sentence:
    int n                   # tokens
    int m                   # states of all tokens
    Grammar grammar
    const int* offset       # [n + 1], where the states of a token start
    const int* state        # [m]
    const double* emit      # [m]
    const double* weight    # [n, n]
    const double* root      # [m]
    int* first              # [2 n + 1], where the arcs of a head on one side start, LEFT first
    int* modifier           # [arcs] their modifiers, from the inside out
    int* arc                # [n, n], the arc from a head to a modifier, or NOT_THERE
    Py_ssize_t* block       # [arcs + 1], where the values of an arc start: [states of head, states of modifier]
    Py_ssize_t* pair        # [n, n], the same of i < j that can be neighbouring siblings; or NOT_THERE
    Py_ssize_t n_pair       # values of all of these


cdef inline int size_of(Sentence* s, int token) noexcept nogil:
    return s.offset[token + 1] - s.offset[token]


cdef inline int list_arcs(Sentence* s, Arena* arena) noexcept nogil:
    cdef int n = s.n, h, m, i, j, k = 0, side, step, low, high
    cdef size_t square = <size_t>n * n, at
    s.first = <int*>take(arena, (2 * n + 1) * sizeof(int))
    s.modifier = <int*>take(arena, square * sizeof(int))
    s.arc = <int*>take(arena, square * sizeof(int))
    s.block = <Py_ssize_t*>take(arena, (square + 1) * sizeof(Py_ssize_t))
    s.pair = <Py_ssize_t*>take(arena, square * sizeof(Py_ssize_t))
    if not (s.first and s.modifier and s.arc and s.block and s.pair):
        return -1
    for at in range(square):
        s.arc[at] = NOT_THERE
        s.pair[at] = NOT_THERE
    s.block[0] = 0
    for h in range(n):
        for side in range(2):
            step = 1 if side == RIGHT else -1
            s.first[2 * h + side] = k
            m = h + step
            while 0 <= m < n:
                at = <size_t>h * n + m
                if s.weight[at] != 0.0:
                    s.arc[at] = k
                    s.modifier[k] = m
                    s.block[k + 1] = s.block[k] + <Py_ssize_t>size_of(s, h) * size_of(s, m)
                    k += 1
                m += step
    s.first[2 * n] = k
    s.n_pair = 0
    for h in range(n):
        for side in range(2):
            for i in range(s.first[2 * h + side], s.first[2 * h + side + 1]):
                for j in range(i + 1, s.first[2 * h + side + 1]):
                    low, high = min(s.modifier[i], s.modifier[j]), max(s.modifier[i], s.modifier[j])
                    at = <size_t>low * n + high
                    if s.pair[at] == NOT_THERE:
                        s.pair[at] = s.n_pair
                        s.n_pair += <Py_ssize_t>size_of(s, low) * size_of(s, high)
    return 0
