"""The feature table as it is read in parsing: half as large as the one that is learnt, and sorted by use.

Weights are whole multiples of a power of two, so that sums do not depend on their order. A row is

    weight of the feature | number of sections
    and for every section, a block of outputs (see `_layout.pxd`):
        256 * block + bits of those of its first 8 outputs that have weights | number of other outputs
        their weights
        weight | number in the block, of every other output

Whoever needs one block skips the others, and weights of distances are found without a search.
"""
from libc.stdint cimport int16_t, uint16_t

cdef extern from *:
    """
    #include <stdint.h>
    #define B2(n) n, n + 1, n + 1, n + 2
    #define B4(n) B2(n), B2(n + 1), B2(n + 1), B2(n + 2)
    #define B6(n) B4(n), B4(n + 1), B4(n + 1), B4(n + 2)
    static inline int count_of_bits(int byte) {
        static const uint8_t counts[256] = {B6(0), B6(1), B6(1), B6(2)};
        return counts[byte];
    }
    """
    int count_of_bits(int byte) noexcept nogil

cdef enum:
    N_SMALL = 8  # outputs of a block with a bit of their own: the arc and its distances


cdef packed struct Cell:
    int16_t weight
    uint16_t output
