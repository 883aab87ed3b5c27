"""The bins of distance of `sentences.distance_bins`, for kernels."""

cdef enum:
    N_DISTANCES = 7


cdef inline int distance_bin(int distance) noexcept nogil:
    """The bin of a distance of at least 1: 1, 2, 3, 4, 5-6, 7-10, 11 and more."""
    if distance <= 4:
        return distance - 1
    if distance <= 6:
        return 4
    return 5 if distance <= 10 else 6


cdef inline unsigned int size_class(int n) noexcept nogil:
    """Of spans, which are longer than arcs: 1, 2, 3, 4, 5-6, 7-10, 11-20, more, either way; 0 stays."""
    n = n if n > 0 else -n
    if n <= 4:
        return n
    return 7 + (n > 20) if n > 10 else 5 + (n > 6)
