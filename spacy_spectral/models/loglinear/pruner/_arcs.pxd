"""See `_arcs.pyx`."""
from libc.stdint cimport int32_t, uint8_t, uint64_t

from ....base._arena cimport Arena
from ....trees._first_order cimport ArcList
from .._features cimport Context


cdef struct Scorer:
    Context context
    int n_templates
    const int32_t* templates  # n_templates x (composite of the head, of the modifier, flags)
    const uint8_t* between_bit
    const float* weights
    uint64_t mask


cdef struct Candidates:
    # the arcs of a sentence that enter the chart
    ArcList arcs
    uint8_t* between  # which separating tags stand between head and modifier
    uint64_t* as_head  # (n+1) x templates: a token's share in the keys of arcs
    uint64_t* as_mod
    double* potential
    double* mu


cdef void set_scorer(
    Scorer* scorer, int n_columns, const int32_t[:, :, ::1] composites,
    const int32_t[:, ::1] templates, const uint8_t[::1] between_bit, const float[::1] weights
)
cdef int take_candidates(Candidates* some, int n, int size, Arena* arena) noexcept nogil
cdef int make_keys(
    const Scorer* scorer, const uint64_t* columns, int n, Candidates* some, Arena* arena
) noexcept nogil
cdef double score_arc(
    const Scorer* scorer, const Candidates* some, int h, int m, int between
) noexcept nogil
cdef void score_arcs(const Scorer* scorer, Candidates* some) noexcept nogil
cdef int arc_marginals(Candidates* some, Arena* arena) noexcept nogil
cdef int learn_arcs(
    const Scorer* scorer, const Candidates* some, const int32_t* heads, float* weights, float* squares,
    double rate, Arena* arena
) noexcept nogil
