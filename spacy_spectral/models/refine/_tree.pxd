# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A tree whose tokens have states: what is given of it, and memory for sums over its states."""
from ...base._arena cimport Arena, take, take_zeros
from ...trees._sides cimport LEFT, RIGHT


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


cdef inline int lay_out(Tree* t, bint backward, Arena* arena) noexcept nogil:
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
        h = t.head[m] - 1
        if 0 <= h < m:
            t.next[m] = t.first[2 * h + RIGHT]
            t.first[2 * h + RIGHT] = m
    for m in range(n):
        h = t.head[m] - 1
        if h > m:
            t.next[m] = t.first[2 * h + LEFT]
            t.first[2 * h + LEFT] = m
        if h >= 0:
            pending[h] += 1
    for h in range(n):
        for k in range(2):
            m = t.first[2 * h + k]
            begin = NONE
            while m != NONE:
                t.previous[m] = begin
                begin, m = m, t.next[m]
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
            t.backward[m] = <double*>take(arena, size) if backward else t.forward[m]
            if t.forward[m] is NULL or t.backward[m] is NULL:
                return NO_MEMORY
    return 0
