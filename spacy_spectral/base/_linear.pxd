"""The parts of every sparse linear model: keys of features, the table that finds a key's row, AdaGrad.

A model has millions of features, each with a row of weights, one for every output that the feature was seen with.
A feature is a key, a 64-bit hash of what is seen; the table finds the row of a key, and rows lie one after the other.
Learning is AdaGrad, and the weights that are kept are averages over all its steps. `_linear.pyx` makes tables.
Which values a key is made of is part of a model's file.
"""
from libc.math cimport sqrt, sqrtf
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    # the value of an attribute beyond the ends of a sequence; 0 is "has none"
    BOUNDARY = 1


# ---------------------------------------------------------------- keys

cdef inline uint64_t extend(uint64_t h, uint64_t value) noexcept nogil:
    """A hash with one more value: of strings, character by character."""
    h = (h ^ value) * <uint64_t>0x9e3779b97f4a7c15
    return h ^ (h >> 29)


cdef inline uint32_t attribute(uint64_t h) noexcept nogil:
    """Fold a hash to an attribute value: never 0 (absent) and never the boundary."""
    h ^= h >> 33
    h *= <uint64_t>0xff51afd7ed558ccd
    h ^= h >> 33
    cdef uint32_t value = <uint32_t>h
    return value if value > BOUNDARY else value + 2


cdef inline uint64_t mixed(uint64_t value, int shift) noexcept nogil:
    value ^= value >> 32
    value *= <uint64_t>0xD6E8FEB86659FD93
    value ^= value >> shift
    return value


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    """One value, mixed so that all bits of a key depend on all of its bits."""
    return mixed(value, 32)


cdef inline uint64_t rotate(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


# The halves of a key of two features can be made once, for all partners that either of them meets.
cdef inline uint64_t first_half(uint64_t first, uint64_t seed) noexcept nogil:
    return (first + seed) * <uint64_t>0x9E3779B97F4A7C15


cdef inline uint64_t second_half(uint64_t second) noexcept nogil:
    return rotate(second, 27)


cdef inline uint64_t pair_key(uint64_t first, uint64_t second, uint64_t seed) noexcept nogil:
    return mix(first_half(first, seed) ^ second_half(second))


# ---------------------------------------------------------------- the table

cdef struct Slot:
    uint32_t check  # upper half of the key
    uint32_t start  # where the row is, 0 for an empty slot


cdef struct Entry:
    float weight
    uint32_t output  # in the first entry of a row: how many entries follow it


cdef inline uint32_t find_row(const Slot* slots, uint64_t mask, uint64_t key) noexcept nogil:
    """Where the row of a key is, 0 for none. The number of slots is a power of two, some are empty.

    A key that is not in the table is taken for another one in 2^32 times.
    """
    cdef uint32_t check = <uint32_t>(key >> 32)
    cdef uint64_t at = key & mask
    while slots[at].start:
        if slots[at].check == check:
            return slots[at].start
        at = (at + 1) & mask
    return 0


# ---------------------------------------------------------------- learning

# AdaGrad (Duchi et al., 2011) divides the rate of a weight by the root of the sum of its squared gradients. The
# average of a weight over all steps is weight - drift / (steps + 1): its changes are summed, each times the step
# it was made in. If time runs from 0 to 1 instead, it is weight - drift.

ctypedef fused gradient_t:
    float
    double


ctypedef fused rate_t:
    float
    double


cdef struct Slope:
    float squares  # sum of squared gradients
    float drift  # sum of step * change


cdef inline rate_t stride(float* squares, gradient_t gradient, rate_t rate) noexcept nogil:
    """How much a weight changes along a gradient, in the precision of the rate."""
    squares[0] += gradient * gradient
    if rate_t is float:
        return rate * gradient / sqrtf(squares[0])
    else:
        return rate * gradient / sqrt(squares[0])


cdef inline void climb(
    float* weight, Slope* slope, float gradient, rate_t rate, float step
) noexcept nogil:
    """One step along a gradient, in a weight that is averaged."""
    cdef float change = stride(&slope.squares, gradient, rate)
    weight[0] += change
    slope.drift += change * step


cdef inline Slope* new_slopes(Slope* old, size_t n, double initial_squares) except NULL:
    """Memory for n weights in the place of `old`; their sums of squares start at `initial_squares`."""
    cdef Slope* slopes = <Slope*>calloc(n + 1, sizeof(Slope))
    cdef size_t i
    if slopes == NULL:
        raise MemoryError
    for i in range(n):
        slopes[i].squares = initial_squares
    free(old)
    return slopes


cdef inline void average(
    const float* weights, const Slope* slopes, size_t n, long n_steps, float* out
) noexcept nogil:
    """The averages of weights over all steps."""
    cdef size_t i
    for i in range(n):
        out[i] = weights[i] - slopes[i].drift / (n_steps + 1)
