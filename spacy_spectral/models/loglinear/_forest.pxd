from libc.stdint cimport int32_t, uint8_t

from ._layout cimport Machine, Scored

cpdef enum:
    MAX_STATES = 1000  # room for what is summed by states


cdef struct Forest:
    # What is kept of a parsed sentence: enough to score its trees, in one piece of memory.
    int n
    int n_arcs
    double log_z  # nan if the chart failed
    int32_t* head
    int32_t* mod
    int32_t* rank
    int32_t* pair_start
    double* last
    double* empty
    double* sibling
    int32_t* tags
    float* score  # arcs x labels
    float* mu  # arcs x states: P(arc and class of its label)
    int n_labels
    const int32_t* label_state
    const uint8_t* allowed  # see Machine
    const float* moves  # see Machine.log_moves
    int n_states


cdef class Forests:
    cdef Forest** forests  # NULL where there is no sentence
    cdef int n_forests
    cdef object owner

    cdef int keep(self, int sentence, const Machine* machine, const Scored* scored) noexcept nogil
