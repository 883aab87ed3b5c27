# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Weighted features of words and spans.

A feature is a row of the table: first a weight for any symbol, then weights of the symbols it was seen with.
Features of one end of a span are looked up once for every boundary, not for every span.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take
from ...base._linear cimport Slot, average, climb, find_row, new_slopes
from ...base._prefetch cimport FETCH

from .tokens import TEMPLATES

cdef enum:
    MOST_PAIRS = 96


cdef class Weights:
    """Weights that are learnt by AdaGrad; see `base/_adagrad`."""

    def __dealloc__(self):
        free(self.slope)

    def begin_learning(self, double initial_squares):
        """Take memory for AdaGrad; its sums of squares start at `initial_squares`."""
        self.slope = new_slopes(self.slope, self.weight.shape[0], initial_squares)
        self.n_steps = 0

    def averaged(self):
        """The weights, averaged over all steps."""
        result = numpy.zeros(self.weight.shape[0], dtype=numpy.float32)
        cdef float[::1] out = result
        average(&self.weight[0], self.slope, self.weight.shape[0], self.n_steps, &out[0])
        return result


@cython.final
cdef class FeatureTable(Weights):
    """The table of features, with what learning needs beside the weights.

    slots (structured array), row_start (uint32[rows + 1]), label (uint16[]), weight (float32[]): The table. Row 0
        is empty. The first entry of a row is its weight for any symbol; its label is not looked at.
    n_words (int), n_phrases (int): How many symbols words and phrases have.
    """

    def __init__(self, slots, row_start, label, weight, int n_words, int n_phrases):
        cdef const int32_t[:, :, ::1] contexts = TEMPLATES.contexts
        cdef const int32_t[::1] words = TEMPLATES.words, left = TEMPLATES.left, right = TEMPLATES.right
        cdef const int32_t[:, ::1] pairs = TEMPLATES.pairs
        self.keep = (contexts, words, left, right, pairs)
        self.t.n_contexts = contexts.shape[0]
        self.t.contexts = &contexts[0, 0, 0]
        self.t.n_words, self.t.words = words.shape[0], &words[0]
        self.t.n_ends, self.t.left, self.t.right = left.shape[0], &left[0], &right[0]
        self.t.n_pairs, self.t.pairs = pairs.shape[0], &pairs[0, 0]
        self.t.content_column = TEMPLATES.content_column
        self.t.n_columns = TEMPLATES.n_columns
        if self.t.n_pairs > MOST_PAIRS:
            raise ValueError(self.t.n_pairs)
        self.slots, self.row_start, self.label, self.weight = slots, row_start, label, weight
        self.mask = slots.shape[0] - 1
        self.n_words, self.n_phrases = n_words, n_phrases

    def parts(self):
        """RETURNS (Tuple): What the table is made of: slots, starts of rows, labels, weights and both numbers."""
        arrays = numpy.asarray(self.slots), numpy.asarray(self.row_start), numpy.asarray(self.label)
        return (*arrays, numpy.asarray(self.weight), self.n_words, self.n_phrases)

    def with_weights(self, weight):
        """The same features with other weights."""
        slots, row_start, label, _, n_words, n_phrases = self.parts()
        return FeatureTable(slots, row_start, label, weight, n_words, n_phrases)

    cdef uint32_t find(self, uint64_t key) noexcept nogil:
        return find_row(&self.slots[0], self.mask, key)

    cdef void add_row(self, uint32_t row, float *out) noexcept nogil:
        """Add a row to [symbols of phrases + 1], the last for any symbol."""
        cdef uint32_t e = self.row_start[row], end = self.row_start[row + 1]
        if e == end:
            return
        out[self.n_phrases] += self.weight[e]
        for e in range(e + 1, end):
            # a row that is found by chance may be one of words
            if self.label[e] < self.n_phrases:
                out[self.label[e]] += self.weight[e]

    cdef void score_word(self, const Context *c, int p, float *out) noexcept nogil:
        """The scores of a word's symbols."""
        cdef int x
        cdef uint32_t row, e
        for x in range(self.n_words):
            out[x] = 0
        for x in range(self.t.n_words):
            row = self.find(word_key(&self.t, c, p, x))
            for e in range(self.row_start[row] + 1, self.row_start[row + 1]):
                if self.label[e] < self.n_words:
                    out[self.label[e]] += self.weight[e]

    cdef void score_ends(self, const Context *c, float *left, float *right) noexcept nogil:
        """What each boundary gives to the spans that begin and end there: [n + 1, symbols of phrases + 1]."""
        cdef int p, x, width = self.n_phrases + 1
        memset(left, 0, (c.n + 1) * width * sizeof(float))
        memset(right, 0, (c.n + 1) * width * sizeof(float))
        for p in range(c.n + 1):
            for x in range(self.t.n_ends):
                if p < c.n:
                    self.add_row(self.find(end_key(&self.t, c, p, x, False)), &left[p * width])
                if p > 0:
                    self.add_row(self.find(end_key(&self.t, c, p, x, True)), &right[p * width])

    cdef void score_span(
        self, const Context *c, int i, int j, const float *left, const float *right, float *scratch
    ) noexcept nogil:
        """The scores of a span's symbols, in the first entries of [symbols of phrases + 1]."""
        cdef int x, m = 0, width = self.n_phrases + 1
        cdef uint64_t key
        cdef uint64_t keys[MOST_PAIRS]
        cdef uint32_t rows[MOST_PAIRS]
        cdef float any_symbol
        # keys first, so that memory is there when it is needed
        for x in range(self.t.n_pairs):
            key = pair_key(&self.t, c, i, j, x)
            if key:
                keys[m] = key
                FETCH(&self.slots[key & self.mask])
                m += 1
        for x in range(m):
            rows[x] = self.find(keys[x])
            FETCH(&self.row_start[rows[x]])
        for x in range(m):
            FETCH(&self.label[self.row_start[rows[x]]])
            FETCH(&self.weight[self.row_start[rows[x]]])
        for x in range(width):
            scratch[x] = left[i * width + x] + right[j * width + x]
        for x in range(m):
            self.add_row(rows[x], scratch)
        any_symbol = scratch[self.n_phrases]
        for x in range(self.n_phrases):
            scratch[x] += any_symbol

    cdef int context(self, Context *c, const int32_t *tokens, int n, Arena *arena) noexcept nogil:
        c.n = n
        c.tokens = tokens
        c.at = <uint64_t *>take(arena, <size_t>(n + 1) * self.t.n_contexts * sizeof(uint64_t))
        c.content = <uint64_t *>take(arena, <size_t>n * CONTENT_WIDTH * sizeof(uint64_t))
        if c.at == NULL or c.content == NULL:
            return -1
        fill_context(&self.t, c)
        return 0

    cdef void update_word(self, const Context *c, int p, const float *gradient, double rate) noexcept nogil:
        """Follow a gradient by symbols of words, closed by 0."""
        cdef int x
        for x in range(self.t.n_words):
            self.update(self.find(word_key(&self.t, c, p, x)), gradient, self.n_words, rate)

    cdef void update_span(self, const Context *c, int i, int j, const float *gradient, double rate) noexcept nogil:
        """Follow a gradient by symbols of phrases, and their sum."""
        cdef int x
        cdef uint64_t key
        for x in range(self.t.n_pairs):
            key = pair_key(&self.t, c, i, j, x)
            if key:
                self.update(self.find(key), gradient, self.n_phrases, rate)

    cdef void update_ends(self, const Context *c, const float *left, const float *right, double rate) noexcept nogil:
        cdef int p, x, width = self.n_phrases + 1
        for p in range(c.n + 1):
            for x in range(self.t.n_ends):
                if p < c.n:
                    self.update(
                        self.find(end_key(&self.t, c, p, x, False)), &left[p * width], self.n_phrases, rate)
                if p > 0:
                    self.update(
                        self.find(end_key(&self.t, c, p, x, True)), &right[p * width], self.n_phrases, rate)

    cdef void update(self, uint32_t row, const float *gradient, int any_symbol, double rate) noexcept nogil:
        cdef uint32_t e = self.row_start[row], end = self.row_start[row + 1]
        if e == end:
            return
        if gradient[any_symbol] != 0:
            climb(&self.weight[e], &self.slope[e], gradient[any_symbol], rate, self.n_steps)
        for e in range(e + 1, end):
            if self.label[e] < any_symbol and gradient[self.label[e]] != 0:
                climb(&self.weight[e], &self.slope[e], gradient[self.label[e]], rate, self.n_steps)

    def keys(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None,
        const int64_t[::1] node_starts not None, const int32_t[::1] begin not None, const int32_t[::1] end not None,
        bint of_words,
    ):
        """The keys of all features of words, or of wider nodes.

        of_words (bool): Which.
        RETURNS (ndarray): uint64[nodes of that kind, features], 0 where a template says nothing. The order of
            templates is: left, right, pairs.
        """
        cdef Arena arena
        cdef Context c
        cdef int64_t s, x, row = 0
        cdef int n, y, failed = 0
        cdef int width = self.t.n_words if of_words else 2 * self.t.n_ends + self.t.n_pairs
        widths = numpy.asarray(end) - numpy.asarray(begin)
        result = numpy.zeros((int(((widths == 1) == of_words).sum()), width), dtype=numpy.uint64)
        cdef uint64_t[:, ::1] out = result
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(starts.shape[0] - 1):
                n = starts[s + 1] - starts[s]
                if n == 0:
                    continue
                arena_reset(&arena)
                failed = self.context(&c, &tokens[starts[s], 0], n, &arena)
                if failed:
                    break
                for x in range(node_starts[s], node_starts[s + 1]):
                    if (end[x] - begin[x] == 1) != of_words:
                        continue
                    if of_words:
                        for y in range(self.t.n_words):
                            out[row, y] = word_key(&self.t, &c, begin[x], y)
                    else:
                        for y in range(self.t.n_ends):
                            out[row, y] = end_key(&self.t, &c, begin[x], y, False)
                            out[row, self.t.n_ends + y] = end_key(&self.t, &c, end[x], y, True)
                        for y in range(self.t.n_pairs):
                            out[row, 2 * self.t.n_ends + y] = pair_key(&self.t, &c, begin[x], end[x], y)
                    row += 1
            arena_free(&arena)
        if failed:
            raise MemoryError
        return result
