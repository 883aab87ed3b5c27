"""Keys of pairs of features, and the table with open addressing that rows of weights are found by.

The tagger's table is another: it has few rows and keeps whole keys. Rerankers have no table, they cut their hashes.
What is hashed how is part of their files, so that each keeps its own way.
"""
from libc.stdint cimport uint32_t, uint64_t


cdef inline uint64_t mixed(uint64_t value, int shift) noexcept nogil:
    value ^= value >> 32
    value *= <uint64_t>0xD6E8FEB86659FD93
    value ^= value >> shift
    return value


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    return mixed(value, 32)


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


# The halves of a key can be made once, for all partners that either of them meets.
cdef inline uint64_t first_half(uint64_t first, uint64_t seed) noexcept nogil:
    return (first + seed) * <uint64_t>0x9E3779B97F4A7C15


cdef inline uint64_t second_half(uint64_t second) noexcept nogil:
    return rotate(second, 27)


cdef inline uint64_t pair_key(uint64_t first, uint64_t second, uint64_t seed) noexcept nogil:
    return mix(first_half(first, seed) ^ second_half(second))


cdef packed struct Slot:
    uint32_t check  # upper half of the key
    uint32_t start  # where the row is, 0 for an empty slot


cdef inline uint32_t find_row(const Slot* slots, uint64_t mask, uint64_t key) noexcept nogil:
    """Where the row of a key is, 0 for none. The number of slots is a power of two, some are empty."""
    cdef uint32_t check = <uint32_t>(key >> 32)
    cdef uint64_t at = key & mask
    while slots[at].start:
        if slots[at].check == check:
            return slots[at].start
        at = (at + 1) & mask
    return 0
