from ..base._arena cimport Arena


cdef int best_projective(
    int n, const double* arcs, int* heads, double* score, Arena* arena
) noexcept nogil
cdef int k_best(
    int n, const double* arcs, int k, int* heads, double* scores, Arena* arena
) noexcept nogil
