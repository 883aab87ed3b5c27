# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Chance that is the same on every machine: xoshiro256++ (Blackman & Vigna), and draws made of it."""
from libc.math cimport exp, log, sqrt
from libc.stdint cimport uint64_t


cdef struct Random:
    uint64_t s0
    uint64_t s1
    uint64_t s2
    uint64_t s3


cdef inline uint64_t mix64(uint64_t z) noexcept nogil:
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline void seed_random(Random* r, uint64_t seed) noexcept nogil:
    r.s0 = mix64(seed + <uint64_t>0x9E3779B97F4A7C15)
    r.s1 = mix64(seed + 2 * <uint64_t>0x9E3779B97F4A7C15)
    r.s2 = mix64(seed + 3 * <uint64_t>0x9E3779B97F4A7C15)
    r.s3 = mix64(seed + 4 * <uint64_t>0x9E3779B97F4A7C15)


cdef inline uint64_t _rotate(uint64_t x, int k) noexcept nogil:
    return (x << k) | (x >> (64 - k))


cdef inline uint64_t next_random(Random* r) noexcept nogil:
    cdef uint64_t result = _rotate(r.s0 + r.s3, 23) + r.s0, t = r.s1 << 17
    r.s2 ^= r.s0
    r.s3 ^= r.s1
    r.s1 ^= r.s2
    r.s0 ^= r.s3
    r.s2 ^= t
    r.s3 = _rotate(r.s3, 45)
    return result


cdef inline double uniform(Random* r) noexcept nogil:
    """In (0, 1): never 0, so that logarithms are finite."""
    return ((next_random(r) >> 11) + 0.5) * (1.0 / 9007199254740992.0)


cdef inline double normal(Random* r) noexcept nogil:
    """By the polar method; of the two values that it gives one is used."""
    cdef double x, y, s
    while True:
        x = 2 * uniform(r) - 1
        y = 2 * uniform(r) - 1
        s = x * x + y * y
        if 0 < s < 1:
            return x * sqrt(-2 * log(s) / s)


cdef inline double gamma_draw(Random* r, double shape) noexcept nogil:
    """Of scale 1, by Marsaglia & Tsang (2000)."""
    cdef double d, c, x, v, u, boost = 1.0
    if shape < 1:
        boost = exp(log(uniform(r)) / shape)
        shape += 1
    d = shape - 1.0 / 3
    c = 1 / sqrt(9 * d)
    while True:
        x = normal(r)
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        u = uniform(r)
        if log(u) < 0.5 * x * x + d - d * v + d * log(v):
            return boost * d * v


cdef inline double beta_draw(Random* r, double a, double b) noexcept nogil:
    cdef double x = gamma_draw(r, a), y = gamma_draw(r, b)
    return x / (x + y) if x + y > 0 else a / (a + b)
