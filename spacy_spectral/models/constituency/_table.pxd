"""Weighted features of words and spans, for the kernels of this room; see `_table.pyx`."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from ...base._arena cimport Arena
from ...base._linear cimport Entry, Slope, Slot, first_half, mixed, second_half


cdef struct Context:
    # of one sentence
    int n
    int n_contexts
    uint64_t *at  # [n + 1, contexts]
    uint64_t *content  # [n, CONTENT_WIDTH], the tags of spans by width
    # [n + 1, symbols of phrases + 1], the last for any symbol: what boundaries give to the spans that begin and
    # end there; when their gradients are followed, the sums of these
    size_t size
    float *left
    float *right


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    return mixed(value, 29)


cdef inline uint64_t join(uint64_t first, uint64_t second) noexcept nogil:
    return mix(first_half(first, 0) ^ second_half(second))


cdef inline int width_bin(int width) noexcept nogil:
    """1 to 5, then up to 7, 10, 15, 20, 30, and more."""
    if width <= 5:
        return width
    return 6 + (width > 7) + (width > 10) + (width > 15) + (width > 20) + (width > 30)


@cython.final
cdef class FeatureTable:
    cdef readonly object slots
    cdef readonly object entries
    cdef const Slot *slot
    cdef Entry *entry
    cdef uint64_t mask
    cdef Slope *slope
    cdef long n_steps
    cdef readonly int n_words
    cdef readonly int n_phrases

    cdef Entry *row(self, uint64_t key) noexcept nogil
    cdef int context(
        self, Context *c, const int32_t[:, ::1] tokens, int64_t first, int n, Arena *arena
    ) noexcept nogil
    cdef void score_ends(self, const Context *c) noexcept nogil
    cdef void score(self, const Context *c, int i, int j, float *out) noexcept nogil
    cdef void follow_row(self, uint64_t key, int size, const float *gradient, double rate) noexcept nogil
    cdef void follow(self, const Context *c, int i, int j, const float *gradient, double rate) noexcept nogil
    cdef void follow_ends(self, const Context *c, double rate) noexcept nogil
