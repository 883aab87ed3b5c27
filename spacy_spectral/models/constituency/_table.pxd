"""Weighted features of words and spans, for the kernels of this room."""
cimport cython
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

from ...base._adagrad cimport Slope
from ...base._arena cimport Arena
from ._context cimport Context, Templates


cdef packed struct Slot:
    uint32_t check
    uint32_t row  # 0 for an empty slot


@cython.final
cdef class FeatureTable:
    cdef Templates t
    cdef object keep
    cdef const Slot[::1] slots
    cdef const uint32_t[::1] row_start
    cdef const uint16_t[::1] label
    cdef float[::1] weight
    cdef uint64_t mask
    cdef readonly int n_words
    cdef readonly int n_phrases
    cdef Slope *slope
    cdef long n_steps

    cdef uint32_t find(self, uint64_t key) noexcept nogil
    cdef void add_row(self, uint32_t row, float *out) noexcept nogil
    cdef void update(self, uint32_t row, const float *gradient, int any_symbol, double rate) noexcept nogil
    cdef int context(self, Context *c, const int32_t *tokens, int n, Arena *arena) noexcept nogil
    cdef void score_ends(self, const Context *c, float *left, float *right) noexcept nogil
    cdef void score_span(
        self, const Context *c, int i, int j, const float *left, const float *right, float *scratch
    ) noexcept nogil
    cdef void score_word(self, const Context *c, int p, float *out) noexcept nogil
    cdef void update_ends(self, const Context *c, const float *left, const float *right, double rate) noexcept nogil
    cdef void update_span(self, const Context *c, int i, int j, const float *gradient, double rate) noexcept nogil
    cdef void update_word(self, const Context *c, int p, const float *gradient, double rate) noexcept nogil
