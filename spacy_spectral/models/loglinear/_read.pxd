from ._layout cimport Machine, Scored
from ...base._arena cimport Arena


cdef int read_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil
