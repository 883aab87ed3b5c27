from ...base._arena cimport Arena
from ._layout cimport Machine, Scored


cdef int read_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil
cdef int read_siblings(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil
