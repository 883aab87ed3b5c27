# cython: language_level=3
"""How strings become numbers for linear models: hashes of characters, and classes of characters."""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from "Python.h":
    Py_UCS4 lower_case "Py_UNICODE_TOLOWER" (Py_UCS4) noexcept nogil  # one character for one

cdef enum:
    # the value of an attribute beyond the ends of a sequence; 0 is "has none"
    BOUNDARY = 1


cdef inline uint64_t mix(uint64_t h, uint64_t value) noexcept nogil:
    """A hash with one more value."""
    h = (h ^ value) * <uint64_t>0x9e3779b97f4a7c15
    return h ^ (h >> 29)


cdef inline uint32_t attribute(uint64_t h) noexcept nogil:
    """Fold a hash to an attribute value: never 0 (absent) and never the boundary."""
    h ^= h >> 33
    h *= <uint64_t>0xff51afd7ed558ccd
    h ^= h >> 33
    cdef uint32_t value = <uint32_t>h
    return value if value > BOUNDARY else value + 2


cdef inline uint32_t char_class(Py_UCS4 char) noexcept:
    """Upper case, other letter, number; any other character is a class of its own."""
    if char.isupper() or char.istitle():
        return 1
    if char.isalpha():
        return 2
    if char.isnumeric():
        return 3
    return <uint32_t>char + 8
