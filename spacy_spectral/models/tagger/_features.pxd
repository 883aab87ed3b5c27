# cython: language_level=3
"""What the compiled modules of the tagger share: the key of a template, and finding a key."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from ...base._hash cimport BOUNDARY

cdef enum:
    CELLS = 3


cdef packed struct Slot:
    # one line of cache answers a question: the key, and which entries are its row
    uint64_t key
    int32_t start
    int32_t end


cdef struct Table:
    const Slot* slots
    uint64_t mask


cdef inline uint64_t template_key(
    const uint32_t* attributes, Py_ssize_t width, const int32_t* template, int number,
    Py_ssize_t i, Py_ssize_t start, Py_ssize_t end,
) noexcept nogil:
    """The key of a template at token i of the sentence [start, end); 0 if a cell is empty."""
    cdef uint64_t h = <uint64_t>(number + 1) * <uint64_t>0xc2b2ae3d27d4eb4f
    cdef uint32_t value
    cdef Py_ssize_t j
    cdef int cell
    for cell in range(CELLS):
        if template[2 * cell + 1] < 0:
            break
        j = i + template[2 * cell]
        if j < start or j >= end:
            value = BOUNDARY
        else:
            value = attributes[j * width + template[2 * cell + 1]]
            if value == 0:
                return 0
        h = (h ^ value) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 32
    return h if h != 0 else 1


cdef inline const Slot* find_key(const Table* table, uint64_t key) noexcept nogil:
    """The slot of a key, NULL if it is not in the table."""
    cdef uint64_t where = (key >> 7) & table.mask
    while table.slots[where].key != key:
        if table.slots[where].key == 0:
            return NULL
        where = (where + 1) & table.mask
    return &table.slots[where]
