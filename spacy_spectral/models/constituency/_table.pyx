# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Weighted features of words and spans.

The row of a feature has a weight for any symbol, then weights of the symbols it was seen with. Features of one end
of a span are looked up once for every boundary, not for every span.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take
from ...base._linear cimport Entry, Slot, climb, find_row, new_slopes
from ...base._prefetch cimport FETCH

from .tokens import TAG, TEMPLATES

cdef enum:
    MOST_PAIRS = 96
    # how the width of a span enters a template
    WIDTH = 1
    CONTENT = 2
    CONTENT_WIDTH = 6  # wider spans have no content
    WIDTHS = 12

cdef const int32_t[:, :, ::1] CONTEXTS = TEMPLATES.contexts
cdef const int32_t[::1] WORDS = TEMPLATES.words
cdef const int32_t[::1] LEFT = TEMPLATES.left
cdef const int32_t[::1] RIGHT = TEMPLATES.right
cdef const int32_t[:, ::1] PAIRS = TEMPLATES.pairs
cdef int CONTENT_COLUMN = TAG


cdef inline uint64_t _word_key(const Context *c, int p, int x) noexcept nogil:
    return join(c.at[p * c.n_contexts + WORDS[x]], 500 + x + (100 if c.n == 1 else 0))


cdef inline uint64_t _left_key(const Context *c, int p, int x) noexcept nogil:
    return join(c.at[p * c.n_contexts + LEFT[x]], 200 + 2 * x)


cdef inline uint64_t _right_key(const Context *c, int p, int x) noexcept nogil:
    return join(c.at[p * c.n_contexts + RIGHT[x]], 201 + 2 * x)


cdef inline uint64_t _pair_key(const Context *c, int i, int j, int x) noexcept nogil:
    """0 for a template that says nothing of this span."""
    cdef int left = PAIRS[x, 0], right = PAIRS[x, 1], mode = PAIRS[x, 2]
    cdef uint64_t key = 800 + x
    if left >= 0:
        key += c.at[i * c.n_contexts + left]
    if right >= 0:
        key = join(key, c.at[j * c.n_contexts + right])
    if mode == WIDTH:
        key = join(key, width_bin(j - i) + (WIDTHS if j - i == c.n else 0))
    elif mode == CONTENT:
        if j - i > CONTENT_WIDTH:
            return 0
        key = join(key, c.content[i * CONTENT_WIDTH + j - i - 1])
    return mix(key)


cdef inline void _add_row(const Entry *row, int size, float *out) noexcept nogil:
    """Add a row to the scores of some symbols, and of any symbol, which come last."""
    cdef uint32_t x
    out[size] += row.weight
    for x in range(1, row.output + 1):
        # a row that is found by chance may be one of words
        if row[x].output < <uint32_t>size:
            out[row[x].output] += row[x].weight


@cython.final
cdef class FeatureTable:
    """The table of features; see `base/_linear`. Row and entry 0 are empty. Words and phrases have so
    many symbols."""

    def __init__(self, slots, entries, int n_words, int n_phrases):
        cdef const Slot[::1] all_slots = slots
        cdef Entry[::1] all_entries = entries
        if PAIRS.shape[0] > MOST_PAIRS:
            raise ValueError(PAIRS.shape[0])
        self.slots, self.entries = slots, entries
        self.slot, self.entry, self.mask = &all_slots[0], &all_entries[0], slots.shape[0] - 1
        self.n_words, self.n_phrases = n_words, n_phrases

    def __dealloc__(self):
        free(self.slope)

    @property
    def headers(self):
        """The places of the first entries of rows among the weights."""
        starts = self.slots["start"]
        return numpy.sort(starts[starts > 0]) - 1

    @property
    def labels(self):
        """The symbols of all entries but the first, 0 for those of any symbol."""
        labels = self.entries["output"][1:].copy()
        labels[self.headers] = 0
        return labels

    @property
    def weights(self):
        """Those of all entries but the first, which is empty."""
        return self.entries["weight"][1:]

    def with_weights(self, weights):
        """The same features with other weights."""
        entries = self.entries.copy()
        entries["weight"][1:] = weights
        return FeatureTable(self.slots, entries, self.n_words, self.n_phrases)

    cdef Entry *row(self, uint64_t key) noexcept nogil:
        return &self.entry[find_row(self.slot, self.mask, key)]

    cdef int context(
        self, Context *c, const int32_t[:, ::1] tokens, int64_t first, int n, Arena *arena
    ) noexcept nogil:
        """What the features of a sentence are made of. RETURNS: 0, or -1 without memory."""
        cdef int p, x, part, at, column
        cdef uint64_t key, value
        c.n, c.n_contexts = n, <int>CONTEXTS.shape[0]
        c.size = 2 * <size_t>(n + 1) * (self.n_phrases + 1) * sizeof(float)
        c.at = <uint64_t *>take(arena, <size_t>(n + 1) * c.n_contexts * sizeof(uint64_t))
        c.content = <uint64_t *>take(arena, <size_t>n * CONTENT_WIDTH * sizeof(uint64_t))
        c.left = <float *>take(arena, c.size)
        if c.at == NULL or c.content == NULL or c.left == NULL:
            return -1
        c.right = c.left + (n + 1) * (self.n_phrases + 1)
        for p in range(n + 1):
            for x in range(c.n_contexts):
                key = x + 1
                for part in range(CONTEXTS.shape[1]):
                    column = CONTEXTS[x, part, 1]
                    if column < 0:
                        break
                    at = p + CONTEXTS[x, part, 0]
                    if at < 0:
                        value = 1000000007
                    elif at >= n:
                        value = 1000000009
                    else:
                        value = <uint64_t>tokens[first + at, column]
                    key = join(key, value)
                c.at[p * c.n_contexts + x] = key
        for p in range(n):
            key = 77
            for x in range(CONTENT_WIDTH):
                if p + x < n:
                    key = join(key, <uint64_t>tokens[first + p + x, CONTENT_COLUMN])
                c.content[p * CONTENT_WIDTH + x] = key
        return 0

    cdef void score_ends(self, const Context *c) noexcept nogil:
        """What each boundary gives to the spans that begin and end there; before any `score` of a span."""
        cdef int p, x, size = self.n_phrases
        memset(c.left, 0, c.size)
        for p in range(c.n + 1):
            for x in range(LEFT.shape[0]):
                if p < c.n:
                    _add_row(self.row(_left_key(c, p, x)), size, &c.left[p * (size + 1)])
                if p > 0:
                    _add_row(self.row(_right_key(c, p, x)), size, &c.right[p * (size + 1)])

    cdef void score(self, const Context *c, int i, int j, float *out) noexcept nogil:
        """The scores of a word's or a wider span's symbols, and one more number."""
        cdef int x, m = 0, size = self.n_words if j - i == 1 else self.n_phrases
        cdef uint64_t key
        cdef uint64_t keys[MOST_PAIRS]
        cdef const Entry *rows[MOST_PAIRS]
        if j - i == 1:
            memset(out, 0, (size + 1) * sizeof(float))
            for x in range(WORDS.shape[0]):
                _add_row(self.row(_word_key(c, i, x)), size, out)
            return
        # keys first, so that memory is there when it is needed
        for x in range(PAIRS.shape[0]):
            key = _pair_key(c, i, j, x)
            if key:
                keys[m] = key
                FETCH(&self.slot[key & self.mask])
                m += 1
        for x in range(m):
            rows[x] = self.row(keys[x])
            FETCH(rows[x])
        for x in range(size + 1):
            out[x] = c.left[i * (size + 1) + x] + c.right[j * (size + 1) + x]
        for x in range(m):
            _add_row(rows[x], size, out)
        for x in range(size):
            out[x] += out[size]

    cdef void follow_row(self, uint64_t key, int size, const float *gradient, double rate) noexcept nogil:
        """Follow a gradient by symbols, closed by that of any symbol."""
        cdef uint32_t e = find_row(self.slot, self.mask, key), x, symbol
        if e == 0:
            return
        if gradient[size] != 0:
            climb(&self.entry[e].weight, &self.slope[e], gradient[size], rate, self.n_steps)
        for x in range(e + 1, e + 1 + self.entry[e].output):
            symbol = self.entry[x].output
            if symbol < <uint32_t>size and gradient[symbol] != 0:
                climb(&self.entry[x].weight, &self.slope[x], gradient[symbol], rate, self.n_steps)

    cdef void follow(self, const Context *c, int i, int j, const float *gradient, double rate) noexcept nogil:
        """Follow the gradient of a word or of a wider span; that of any symbol of a word is 0."""
        cdef int x, size = self.n_words if j - i == 1 else self.n_phrases
        cdef uint64_t key
        if j - i == 1:
            for x in range(WORDS.shape[0]):
                self.follow_row(_word_key(c, i, x), size, gradient, rate)
            return
        for x in range(size + 1):
            c.left[i * (size + 1) + x] += gradient[x]
            c.right[j * (size + 1) + x] += gradient[x]
        for x in range(PAIRS.shape[0]):
            key = _pair_key(c, i, j, x)
            if key:
                self.follow_row(key, size, gradient, rate)

    cdef void follow_ends(self, const Context *c, double rate) noexcept nogil:
        """Follow what `follow` has summed up at boundaries, which were 0 before."""
        cdef int p, x, size = self.n_phrases
        for p in range(c.n + 1):
            for x in range(LEFT.shape[0]):
                if p < c.n:
                    self.follow_row(_left_key(c, p, x), size, &c.left[p * (size + 1)], rate)
                if p > 0:
                    self.follow_row(_right_key(c, p, x), size, &c.right[p * (size + 1)], rate)

    def begin_learning(self, double initial_squares):
        """Take memory for AdaGrad; its sums of squares start at `initial_squares`."""
        self.slope = new_slopes(self.slope, len(self.entries), initial_squares)
        self.n_steps = 0

    def averaged(self):
        """The weights, averaged over all steps."""
        result = numpy.empty(len(self.entries) - 1, dtype=numpy.float32)
        cdef float[::1] out = result
        cdef Py_ssize_t e
        for e in range(out.shape[0]):
            out[e] = self.entry[e + 1].weight - self.slope[e + 1].drift / (self.n_steps + 1)
        return result

    def keys(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None,
        const int64_t[::1] node_starts not None, const int32_t[::1] begin not None, const int32_t[::1] end not None,
        bint of_words,
    ):
        """The keys of all features of words, or of wider nodes, [nodes of that kind, features]: 0 where
        a template says nothing. The order of templates is: left, right, pairs."""
        cdef Arena arena
        cdef Context c
        cdef int64_t s, x, row = 0
        cdef int n, y, failed = 0, n_ends = <int>LEFT.shape[0]
        cdef int width = <int>(WORDS.shape[0] if of_words else 2 * n_ends + PAIRS.shape[0])
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
                failed = self.context(&c, tokens, starts[s], n, &arena)
                if failed:
                    break
                for x in range(node_starts[s], node_starts[s + 1]):
                    if (end[x] - begin[x] == 1) != of_words:
                        continue
                    if of_words:
                        for y in range(width):
                            out[row, y] = _word_key(&c, begin[x], y)
                    else:
                        for y in range(n_ends):
                            out[row, y] = _left_key(&c, begin[x], y)
                            out[row, n_ends + y] = _right_key(&c, end[x], y)
                        for y in range(PAIRS.shape[0]):
                            out[row, 2 * n_ends + y] = _pair_key(&c, begin[x], end[x], y)
                    row += 1
            arena_free(&arena)
        if failed:
            raise MemoryError
        return result
