from ..base._arena cimport Arena


cdef enum:
    RESCALINGS = 8  # of a sentence whose numbers leave the range of doubles


cdef struct ArcList:
    # The arcs of a sentence that trees may have, by modifier, heads ascending. Tokens are 1..n, 0 is the
    # root. Some tree must have them alone.
    int n
    int n_arcs
    int* start  # of modifier m: start[m]..start[m + 1]
    int* head
    int* mod


cdef int first_order_marginals(
    const ArcList* arcs, const double* potential, double* mu, double* log_z, Arena* arena
) noexcept nogil
cdef double span_growth(const double* right, const double* left, int n) noexcept nogil
