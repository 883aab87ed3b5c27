"""Keys and weights of the features of words and spans, for the kernels of this room."""
cimport cython
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

from ...base._arena cimport Arena
from ...base._linear cimport Slope, Slot, first_half, mixed, second_half

cdef enum:
    MAX_PARTS = 4
    PLAIN = 0
    WIDTH = 1
    CONTENT = 2
    CONTENT_WIDTH = 6  # wider spans have no content
    WIDTHS = 12


cdef struct Templates:
    int n_contexts
    const int32_t *contexts
    int n_columns
    int n_words
    const int32_t *words
    int n_ends
    const int32_t *left
    const int32_t *right
    int n_pairs
    const int32_t *pairs
    int content_column


cdef struct Context:
    # of one sentence
    int n
    const int32_t *tokens  # [n, columns]
    uint64_t *at  # [n + 1, contexts]
    uint64_t *content  # [n, CONTENT_WIDTH], the tags of spans by width


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    return mixed(value, 29)


cdef inline uint64_t join(uint64_t first, uint64_t second) noexcept nogil:
    return mix(first_half(first, 0) ^ second_half(second))


cdef inline int width_bin(int width, int n) noexcept nogil:
    cdef int result
    if width <= 5:
        result = width
    elif width <= 7:
        result = 6
    elif width <= 10:
        result = 7
    elif width <= 15:
        result = 8
    elif width <= 20:
        result = 9
    elif width <= 30:
        result = 10
    else:
        result = 11
    return result + (WIDTHS if width == n else 0)


cdef inline void fill_context(const Templates *t, Context *c) noexcept nogil:
    """The contexts of all boundaries; memory is the caller's."""
    cdef int p, x, part, at, column
    cdef uint64_t key, value
    for p in range(c.n + 1):
        for x in range(t.n_contexts):
            key = x + 1
            for part in range(MAX_PARTS):
                column = t.contexts[(x * MAX_PARTS + part) * 2 + 1]
                if column < 0:
                    break
                at = p + t.contexts[(x * MAX_PARTS + part) * 2]
                if at < 0:
                    value = 1000000007
                elif at >= c.n:
                    value = 1000000009
                else:
                    value = <uint64_t>c.tokens[at * t.n_columns + column]
                key = join(key, value)
            c.at[p * t.n_contexts + x] = key
    for p in range(c.n):
        key = 77
        for x in range(CONTENT_WIDTH):
            if p + x < c.n:
                key = join(key, <uint64_t>c.tokens[(p + x) * t.n_columns + t.content_column])
            c.content[p * CONTENT_WIDTH + x] = key


cdef inline uint64_t end_key(const Templates *t, const Context *c, int p, int number, bint is_right) noexcept nogil:
    cdef int x = t.right[number] if is_right else t.left[number]
    return join(c.at[p * t.n_contexts + x], 200 + 2 * number + is_right)


cdef inline uint64_t word_key(const Templates *t, const Context *c, int p, int number) noexcept nogil:
    return join(c.at[p * t.n_contexts + t.words[number]], 500 + number + (100 if c.n == 1 else 0))


cdef inline uint64_t pair_key(
    const Templates *t, const Context *c, int i, int j, int number
) noexcept nogil:
    """0 for a template that says nothing of this span."""
    cdef int left = t.pairs[3 * number], right = t.pairs[3 * number + 1], mode = t.pairs[3 * number + 2]
    cdef uint64_t key = 800 + number
    if left >= 0:
        key += c.at[i * t.n_contexts + left]
    if right >= 0:
        key = join(key, c.at[j * t.n_contexts + right])
    if mode == WIDTH:
        key = join(key, width_bin(j - i, c.n))
    elif mode == CONTENT:
        if j - i > CONTENT_WIDTH:
            return 0
        key = join(key, c.content[i * CONTENT_WIDTH + j - i - 1])
    return mix(key)


cdef class Weights:
    cdef float[::1] weight
    cdef Slope *slope
    cdef long n_steps


@cython.final
cdef class FeatureTable(Weights):
    cdef Templates t
    cdef object keep
    cdef const Slot[::1] slots
    cdef const uint32_t[::1] row_start
    cdef const uint16_t[::1] label
    cdef uint64_t mask
    cdef readonly int n_words
    cdef readonly int n_phrases

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
