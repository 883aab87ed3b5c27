"""Sums over contiguous rows."""


cdef inline double dot(const double* x, const double* y, int n) noexcept nogil:
    # four sums: strict floating point would make one sum wait for every addition
    cdef double a = 0, b = 0, c = 0, d = 0
    cdef int i = 0
    while i + 4 <= n:
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        a += x[i] * y[i]
        i += 1
    return (a + b) + (c + d)


cdef inline void add(double* x, double factor, const double* y, int n) noexcept nogil:
    """x += factor * y"""
    cdef int i
    for i in range(n):
        x[i] += factor * y[i]


cdef inline float largest(const float* x, int n) noexcept nogil:
    """The largest of n numbers, -1e30 if none is larger."""
    cdef float a = -1e30, b = -1e30, c = -1e30, d = -1e30
    cdef int i = 0
    while i + 4 <= n:
        a = x[i] if x[i] > a else a
        b = x[i + 1] if x[i + 1] > b else b
        c = x[i + 2] if x[i + 2] > c else c
        d = x[i + 3] if x[i + 3] > d else d
        i += 4
    while i < n:
        a = x[i] if x[i] > a else a
        i += 1
    return max(max(a, b), max(c, d))
