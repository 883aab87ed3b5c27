from ..base._arena cimport Arena, take, take_zeros


cdef int best_projective(
    int n, const double* arcs, int* heads, double* score, Arena* arena
) noexcept nogil
cdef int k_best(
    int n, const double* arcs, int k, int* heads, double* scores, Arena* arena
) noexcept nogil


cdef inline bint is_projective(const int* heads, int n) noexcept nogil:
    """One root; every token under an arc has its head under or at the ends of it; no cycle.

    The root stands left of all tokens, so its arc forbids others to reach over its child.
    """
    cdef int m, h, k, steps, roots = 0
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h < 0 or h > n or h == m:
            return False
        roots += h == 0
        for k in range(min(h, m) + 1, max(h, m)):
            if heads[k - 1] < min(h, m) or heads[k - 1] > max(h, m):
                return False
    if roots != 1:
        return False
    for m in range(1, n + 1):
        k = m
        steps = 0
        while k != 0:
            k = heads[k - 1]
            steps += 1
            if steps > n:
                return False
    return True


cdef inline int is_part(const int* heads, int n, Arena* arena) noexcept nogil:
    """Arcs, that of the root included, must not cross, there is no cycle, and no head's own head stands
    between it and its modifier: then what is free can be filled in. Linear in n.

    Returns 1 or 0, or -1 if memory ran out.
    """
    cdef int m, h, k, top = 0, roots = 0
    # arcs as lists by right end, then by left end, those that reach farthest first
    cdef int* by_right = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    cdef int* by_left = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    cdef int* next_right = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* next_left = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* stack = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* seen = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    if by_right is NULL or by_left is NULL or next_right is NULL or next_left is NULL:
        return -1
    if stack is NULL or seen is NULL:
        return -1
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h < -1 or h > n or h == m:
            return 0
        if h < 0:
            continue
        roots += h == 0
        if h and min(h, m) < heads[h - 1] < max(h, m):
            return 0
        next_right[m] = by_right[max(h, m)]
        by_right[max(h, m)] = m
    if roots > 1:
        return 0
    for k in range(1, n + 1):
        m = by_right[k]
        while m:
            h = min(heads[m - 1], m)
            next_left[m] = by_left[h]
            by_left[h] = m
            m = next_right[m]
    for k in range(n + 1):
        while top and stack[top - 1] == k:
            top -= 1
        m = by_left[k]
        while m:
            h = max(heads[m - 1], m)
            if top and h > stack[top - 1]:
                return 0
            stack[top] = h
            top += 1
            m = next_left[m]
    for m in range(1, n + 1):  # climb from every token to what was seen before
        k = m
        while k > 0 and not seen[k]:
            seen[k] = m
            k = heads[k - 1]
        if k > 0 and seen[k] == m:
            return 0
    return 1
