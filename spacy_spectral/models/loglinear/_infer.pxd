from ...base._arena cimport Arena
from ._chart cimport Chart
from ...base._linear cimport Entry
from ._features cimport Machine, Scored


cdef class Engine:
    cdef Machine machine
    cdef object keep
    cdef Entry[::1] entries
    cdef float[:, :, :, ::1] moves
    cdef double[:, :, :, ::1] exp_moves
    cdef double[:, :, :, ::1] choice_moves

    cdef void refresh_moves(self) noexcept nogil


cdef int run_chart(
    Scored* scored, Chart* chart, double* potential, int n_labels, Arena* arena, double** counts
) noexcept nogil
