from libc.stdint cimport int32_t

from ._layout cimport Machine, Scored

cpdef enum:
    MAX_STATES = 1000  # room for what is summed by states


cdef struct Forest:
    # What is kept of a parsed sentence: enough to score its trees, in one piece of memory.
    const Machine* machine
    Scored scored  # what `tree_score` looks at, and nothing else
    float* mu  # arcs x states: P(arc and class of its label)


cdef class Forests:
    cdef Forest** forests  # NULL where there is no sentence
    cdef int n_forests
    cdef object owner

    cdef int keep(self, int sentence, const Machine* machine, const Scored* scored) noexcept nogil


cdef double tree_likelihood(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels
) noexcept nogil


cdef double tree_score(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels, bint count
) noexcept nogil
