from ..base._arena cimport Arena


cdef int k_best(
    int n, const double* arcs, int k, int* heads, double* scores, Arena* arena
) noexcept nogil
