from libc.stdint cimport int32_t

from ._layout cimport Machine, Scored


cdef struct Forest:
    # What is kept of a parsed sentence: enough to score its trees, in one piece of memory.
    int n
    int n_arcs
    double log_z  # nan if the chart failed
    int32_t* head
    int32_t* mod
    int32_t* label  # the likeliest one of the arc
    int32_t* state  # its class
    int32_t* rank
    int32_t* pair_start
    double* score  # of the arc with its label
    double* log_prob  # of the arc, whatever its label
    double* last
    double* empty
    double* sibling
    int32_t* tags
    float* joint  # arcs x labels: P(arc and label)
    int n_labels
    const float* moves  # see Machine.log_moves
    int n_states


cdef class Forests:
    cdef Forest** forests  # NULL where there is no sentence
    cdef int n_forests
    cdef object owner

    cdef int keep(
        self, int sentence, const Machine* machine, const Scored* scored, const float* probs,
        const int32_t* labels
    ) noexcept nogil
