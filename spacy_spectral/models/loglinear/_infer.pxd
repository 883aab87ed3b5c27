from libc.stdint cimport int32_t

from ...base._arena cimport Arena
from ...base._linear cimport Entry
from ._chart cimport Chart
from ._features cimport Machine, Scored

cpdef enum:
    MAX_STATES = 1000  # room for what is summed by states


cdef class Engine:
    cdef Machine machine
    cdef object keep
    cdef Entry[::1] entries
    cdef float[:, :, :, ::1] moves
    cdef double[:, :, :, ::1] exp_moves
    cdef double[:, :, :, ::1] choice_moves

    cdef void refresh_moves(self) noexcept nogil


cdef struct Forest:
    # What is kept of a parsed sentence: enough to score its trees, in one piece of memory.
    Scored scored  # what `tree_score` looks at, and nothing else
    float* mu  # arcs x states: P(arc and class of its label)


cdef class Forests:
    cdef Engine engine
    cdef Forest** forests  # NULL where there is no sentence
    cdef int n_forests

    cdef int keep(self, int sentence, const Scored* scored) noexcept nogil


cdef int run_chart(
    Scored* scored, Chart* chart, double* potential, int n_labels, Arena* arena, double** counts
) noexcept nogil
cdef double tree_score(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels, bint count
) noexcept nogil
