from libc.stdint cimport int32_t, uint64_t

from ...base._arena cimport Arena
from ._features cimport Machine, Scored


cdef int score_sentence(
    const Machine* machine, Scored* scored, Arena* arena, const uint64_t* columns,
    const int32_t* tags, int n, const int32_t* arc_start, const int32_t* arc_head,
    const float* extra, double margin,
) noexcept nogil
cdef void state_potentials(
    const Machine* machine, const double* potential, int n_arcs, double* phi) noexcept nogil
