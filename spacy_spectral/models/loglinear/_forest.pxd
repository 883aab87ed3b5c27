from libc.stdint cimport int32_t

from ._features cimport Machine, Scored

cpdef enum:
    MAX_STATES = 1000  # room for what is summed by states


# In the distribution that trees are chosen by, P(state | arc) is to the power of `choice`, but of no more than
# this: states that are sure of themselves choose worse trees. LAS at powers of 1, 1.4, 1.8, 2.4 and 3.2, on parts
# of the training data that parsers had not seen: UD_Turkish-IMST 57.09, 57.31, 57.30, 57.32, 56.90;
# UD_Vietnamese-VTB 57.40, 57.88, 58.00, 58.06, 57.73; UD_English-EWT 83.32, 83.33, 83.26, 83.19, 83.13.
cdef double MOST_OF_STATES


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
