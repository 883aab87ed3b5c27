from cython cimport final
from libc.stdint cimport int32_t, uint32_t

from ...base._arena cimport Arena
from ._units cimport N_KINDS, Scored, Sentence


cdef struct Entry:
    uint32_t key        # 0 for none
    float weight


cdef class Engine:
    cdef Entry *table
    cdef uint32_t mask
    cdef int shift
    cdef double[::1] dense
    cdef int[N_KINDS + 1] kind_start
    cdef int32_t[::1] template_start
    cdef int32_t[::1] template_atoms

    @final
    cdef inline uint32_t _find(self, uint32_t key) noexcept nogil:
        """RETURNS (uint32): The place of a feature in the table; an empty one if it has none."""
        cdef uint32_t at = (key * <uint32_t>0x9E3779B1) >> self.shift
        while self.table[at].key != key and self.table[at].key:
            at = (at + 1) & self.mask
        return at

    cdef void _look_up(self, Scored *scored) noexcept nogil
    cdef int _prepare(
        self, const Sentence *sentence, const int32_t *head, const int32_t *mod, int n_arcs,
        Scored *scored, Arena *arena
    ) noexcept nogil
    cdef int _score(
        self, const Sentence *sentence, Scored *scored, Arena *arena
    ) noexcept nogil
    cdef int _infer(
        self, const Sentence *sentence, const int32_t *head, const int32_t *mod, int n_arcs,
        Scored *scored, Arena *arena
    ) noexcept nogil
    cdef void _insert(self, uint32_t key, float weight) noexcept
    cdef int _hash_unit(self, int kind, const uint32_t *atoms, uint32_t *out) noexcept nogil
    cdef int _extract(self, const Sentence *sentence, Scored *scored, Arena *arena) noexcept nogil
    cdef int _most_templates(self) noexcept nogil
