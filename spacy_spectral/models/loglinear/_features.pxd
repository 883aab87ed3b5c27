from libc.stdint cimport int32_t, uint32_t, uint64_t

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define FETCH(address) __builtin_prefetch(address)
    #else
    #define FETCH(address) ((void)0)
    #endif
    """
    void FETCH(const void *address) noexcept nogil


cdef packed struct Slot:
    uint32_t check  # upper half of the key
    uint32_t start  # first entry of the row, 0 for an empty slot


cdef packed struct Entry:
    float weight
    uint32_t output  # in the first entry of a row: how many entries follow it


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    value ^= value >> 32
    value *= <uint64_t>0xD6E8FEB86659FD93
    value ^= value >> 32
    return value


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t pair_key(uint64_t first, uint64_t second, uint64_t seed) noexcept nogil:
    return mix((first + seed) * <uint64_t>0x9E3779B97F4A7C15 ^ rotate(second, 27))


cdef inline uint32_t find_row(const Slot *slots, uint64_t mask, uint64_t key) noexcept nogil:
    cdef uint32_t check = <uint32_t>(key >> 32)
    cdef uint64_t at = key & mask
    while slots[at].start:
        if slots[at].check == check:
            return slots[at].start
        at = (at + 1) & mask
    return 0


cdef struct Context:
    # the compiled templates: composites as (position offset, column) pairs, -1 ends one
    int n_columns
    int n_composites
    const int32_t *composites  # n_composites x MAX_PARTS x 2


cdef void fill_composites(
    const Context *context, const uint64_t *columns, int length, uint64_t *out
) noexcept nogil
