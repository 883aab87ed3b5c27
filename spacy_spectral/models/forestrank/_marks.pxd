# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Which spans trees can have: what can be made of tokens, from the inside out, then what a whole tree needs, from the
outside in. It does not depend on arcs to heads or on labels (see `_chart`)."""
from libc.stdint cimport uint8_t

from ...forest._hypergraph cimport NOTHING
from ...trees._sides cimport LEFT, RIGHT
from ._chart cimport Arcs


# Marks of spans and arcs.
cdef enum:
    POSSIBLE = 1
    NEEDED = 2
    KNOWN = 4   # of joins, which are looked at when they are asked for


cdef struct Marks:
    Py_ssize_t width
    uint8_t *right      # [head, end]
    uint8_t *left       # [head, end]
    uint8_t *join       # [i, j]: C>[k] of an arc to i next to C<[k + 1] of one to j
    uint8_t *inner      # [arc]


cdef inline bint can_join(Marks *marks, int i, int j) noexcept nogil:
    cdef uint8_t *mark = marks.join + i * marks.width + j
    cdef int k
    if not mark[0] & KNOWN:
        mark[0] |= KNOWN
        for k in range(i, j):
            if marks.right[i * marks.width + k] and marks.left[j * marks.width + k + 1]:
                mark[0] |= POSSIBLE
                break
    return mark[0] & POSSIBLE


cdef inline bint joins(Marks *marks, int m, int before) noexcept nogil:
    """Whether a modifier can come after another of the same head."""
    return can_join(marks, before, m) if before < m else can_join(marks, m, before)


cdef inline uint8_t *half_mark(Marks *marks, int side, int h, int end) noexcept nogil:
    return (marks.right if side == RIGHT else marks.left) + h * marks.width + end


cdef inline uint8_t *inner_half(Marks *marks, int h, int m) noexcept nogil:
    """The half of m that lies between it and its head, all the way."""
    return half_mark(marks, LEFT, m, h + 1) if m > h else half_mark(marks, RIGHT, m, h - 1)


cdef inline bint _can_link(const Arcs *arcs, Marks *marks, int c) noexcept nogil:
    """Whether I[c] can be made."""
    cdef int h = arcs.head[c], m = arcs.mod[c], side = 2 * h + (m > h), i, s
    if inner_half(marks, h, m)[0]:
        return True
    for i in range(arcs.side_start[side], arcs.side_start[side] + arcs.n_inner[c]):
        s = arcs.side_arcs[i]
        if marks.inner[s] and joins(marks, m, arcs.mod[s]):
            return True
    return False


cdef inline bint _can_end(const Arcs *arcs, Marks *marks, int h, int side, int end) noexcept nogil:
    """Whether the half of a head can reach to an end."""
    cdef int i, c
    for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
        c = arcs.side_arcs[i]
        if (arcs.mod[c] > end) if side == RIGHT else (arcs.mod[c] < end):
            break
        if marks.inner[c] and half_mark(marks, side, arcs.mod[c], end)[0]:
            return True
    return False


cdef inline void mark_possible(const Arcs *arcs, Marks *marks) noexcept nogil:
    """From the inside out: by right ends, then left ends."""
    cdef int i, j
    for j in range(1, arcs.n + 1):
        half_mark(marks, RIGHT, j, j)[0] = POSSIBLE
        half_mark(marks, LEFT, j, j)[0] = POSSIBLE
        for i in range(j - 1, 0, -1):
            _link(arcs, marks, i, j)
            _link(arcs, marks, j, i)
            half_mark(marks, RIGHT, i, j)[0] = _can_end(arcs, marks, i, RIGHT, j)
            half_mark(marks, LEFT, j, i)[0] = _can_end(arcs, marks, j, LEFT, i)


cdef inline void _link(const Arcs *arcs, Marks *marks, int h, int m) noexcept nogil:
    """Mark the arcs from h to m, which are neighbours among those to m."""
    cdef int c, first = first_arc(arcs, h, m)
    cdef bint possible
    if first < 0:
        return
    possible = _can_link(arcs, marks, first)
    c = first
    while c < arcs.in_start[m + 1] and arcs.head[c] == h:
        marks.inner[c] = possible
        c += 1


cdef inline int first_arc(const Arcs *arcs, int h, int m) noexcept nogil:
    cdef int c
    for c in range(arcs.in_start[m], arcs.in_start[m + 1]):
        if arcs.head[c] == h:
            return c
    return NOTHING


cdef inline bint mark_needed(const Arcs *arcs, Marks *marks) noexcept nogil:
    """From the outside in. RETURNS (bool): Whether there is a tree at all."""
    cdef int i, j, k, c, m, n = arcs.n
    cdef bint found = False
    cdef Py_ssize_t width = marks.width
    for i in range(arcs.side_start[1], arcs.side_start[2]):
        c = arcs.side_arcs[i]
        m = arcs.mod[c]
        if half_mark(marks, LEFT, m, 1)[0] and half_mark(marks, RIGHT, m, n)[0]:
            half_mark(marks, LEFT, m, 1)[0] |= NEEDED
            half_mark(marks, RIGHT, m, n)[0] |= NEEDED
            marks.inner[c] = POSSIBLE | NEEDED
            found = True
    for j in range(n, 0, -1):
        for i in range(1, j):
            _need_end(arcs, marks, i, RIGHT, j)
            _need_end(arcs, marks, j, LEFT, i)
            _need_link(arcs, marks, i, j)
            _need_link(arcs, marks, j, i)
            if marks.join[i * width + j] & NEEDED:
                for k in range(i, j):
                    if marks.right[i * width + k] and marks.left[j * width + k + 1]:
                        marks.right[i * width + k] |= NEEDED
                        marks.left[j * width + k + 1] |= NEEDED
    return found


cdef inline void _need_end(const Arcs *arcs, Marks *marks, int h, int side, int end) noexcept nogil:
    cdef int i, c
    cdef uint8_t *rest
    if not half_mark(marks, side, h, end)[0] & NEEDED:
        return
    for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
        c = arcs.side_arcs[i]
        if (arcs.mod[c] > end) if side == RIGHT else (arcs.mod[c] < end):
            break
        rest = half_mark(marks, side, arcs.mod[c], end)
        if marks.inner[c] and rest[0]:
            marks.inner[c] |= NEEDED
            rest[0] |= NEEDED


cdef inline void _need_link(const Arcs *arcs, Marks *marks, int h, int m) noexcept nogil:
    cdef int i, s, side = 2 * h + (m > h), c = first_arc(arcs, h, m), before
    cdef uint8_t *half
    if c < 0 or not marks.inner[c] & NEEDED:
        return
    half = inner_half(marks, h, m)
    if half[0]:
        half[0] |= NEEDED
    for i in range(arcs.side_start[side], arcs.side_start[side] + arcs.n_inner[c]):
        s = arcs.side_arcs[i]
        before = arcs.mod[s]
        if marks.inner[s] and joins(marks, m, before):
            marks.inner[s] |= NEEDED
            marks.join[min(m, before) * marks.width + max(m, before)] |= NEEDED
