# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sparse features of candidate trees.

A feature is a hash of what a token's surroundings in the tree look like. The trees of a list are nearly
alike, and only differences between them decide: every tree is described relative to the first, by the
tokens whose surroundings differ, with +1 for the features of the tree and -1 for those of the first.
"""
import numpy as np

from libc.math cimport NAN, isnan
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset

# What features can look at of a token: the columns of `columns`.
cdef enum:
    TAG = 0
    POS = 1
    WORD = 2
    N_COLUMNS = 3

# Groups of features, as bits of a mask.
cdef enum:
    G_POS = 1
    G_LABELS = 2
    G_WORDS = 4
    G_SPANS = 8

# More features than a token has.
cdef enum:
    MOST = 64

# A token that is not there: the root's head, no sibling. Position 0 of the columns.
cdef enum:
    NOBODY = 0


cdef struct Surroundings:
    int32_t head, grand, sibling      # positions, 0 for nobody
    int32_t inner_left, inner_right   # the token's own nearest modifiers
    int32_t first, last               # the span of its subtree
    uint32_t label, head_label, sibling_label
    uint32_t frame_left, frame_right  # labels of its modifiers, from the inside out


cdef inline uint32_t mix(uint32_t h, uint32_t value) noexcept nogil:
    """One more value into a hash."""
    cdef uint64_t x = (<uint64_t>h ^ value) * <uint64_t>0x9E3779B97F4A7C15
    x ^= x >> 29
    x *= <uint64_t>0xBF58476D1CE4E5B9
    return <uint32_t>(x >> 32)


cdef inline uint32_t size_class(int n) noexcept nogil:
    """1, 2, 3, 4, 5-6, 7-10, 11-20, more."""
    if n <= 4:
        return n
    if n <= 6:
        return 5
    if n <= 10:
        return 6
    return 7 if n <= 20 else 8


cdef void *_grown(void *buffer, size_t size) except NULL:
    buffer = realloc(buffer, size)
    if buffer == NULL:
        raise MemoryError
    return buffer


cdef class Extractor:
    """Extracts or scores the features of one sentence's trees.

    groups (int): The groups of features, a mask.
    bits (int): Hashes are cut to this many bits.
    """
    cdef int groups, n_found, room
    cdef uint32_t mask
    cdef Surroundings *first
    cdef Surroundings *own
    cdef int32_t *latest
    cdef double *first_score
    cdef uint32_t[MOST] found
    cdef uint32_t[MOST] before
    cdef int32_t *indices
    cdef signed char *values
    cdef int64_t n_indices, index_room

    def __init__(self, int groups, int bits):
        self.groups = groups
        self.mask = (<uint32_t>1 << bits) - 1

    def __dealloc__(self):
        free(self.first)
        free(self.own)
        free(self.latest)
        free(self.first_score)
        free(self.indices)
        free(self.values)

    def extract(
        self, const int32_t[:, ::1] heads, const int32_t[:, ::1] labels,
        const uint32_t[::1] names, const uint32_t[:, ::1] columns
    ):
        """Features of the trees relative to the first.

        heads, labels (ndarray): int32[k, n], the trees; 0 is the root.
        names (ndarray): uint32, a hash of each label.
        columns (ndarray): uint32[n + 2, 3], hashes of tag, coarse tag and word of every position: the
            root is position 0, the end of the sentence n + 1.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): int32 starts of the rows[k + 1], int32 indices and
            int8 values. An index may stand in a row more than once.
        """
        cdef int t, m, n = heads.shape[1], k = heads.shape[0]
        cdef int64_t i
        starts = np.zeros(k + 1, dtype=np.int32)
        cdef int32_t[::1] out = starts
        self._make_room(n)
        self.n_indices = 0
        self._read(heads[0], labels[0], names, self.first)
        for t in range(1, k):
            self._read(heads[t], labels[t], names, self.own)
            for m in range(1, n + 1):
                if memcmp(&self.own[m], &self.first[m], sizeof(Surroundings)) != 0:
                    self._hash(m, n, &self.first[m], columns, self.before)
                    self._hash(m, n, &self.own[m], columns, self.found)
                    self._append()
            out[t + 1] = <int32_t>self.n_indices
        indices = np.empty(self.n_indices, dtype=np.int32)
        values = np.empty(self.n_indices, dtype=np.int8)
        cdef int32_t[::1] out_indices = indices
        cdef signed char[::1] out_values = values
        for i in range(self.n_indices):
            out_indices[i], out_values[i] = self.indices[i], self.values[i]
        return starts, indices, values

    def score(
        self, const int32_t[:, ::1] heads, const int32_t[:, ::1] labels,
        const uint32_t[::1] names, const uint32_t[:, ::1] columns, const float[::1] weights
    ):
        """The same features times their weights.

        weights (ndarray): float32, one weight for each hash.
        RETURNS (ndarray): float64[k].
        """
        cdef int t, m, n = heads.shape[1], k = heads.shape[0]
        scores = np.zeros(k, dtype=np.float64)
        cdef double[::1] out = scores
        self._make_room(n)
        for m in range(1, n + 1):
            self.first_score[m] = NAN
        self._read(heads[0], labels[0], names, self.first)
        for t in range(1, k):
            self._read(heads[t], labels[t], names, self.own)
            for m in range(1, n + 1):
                if memcmp(&self.own[m], &self.first[m], sizeof(Surroundings)) != 0:
                    if isnan(self.first_score[m]):
                        self._hash(m, n, &self.first[m], columns, self.found)
                        self.first_score[m] = self._sum(weights)
                    self._hash(m, n, &self.own[m], columns, self.found)
                    out[t] += self._sum(weights) - self.first_score[m]
        return scores

    cdef int _make_room(self, int n) except -1:
        """Buffers for a sentence of n tokens."""
        if n + 1 > self.room:
            self.room = n + 1
            self.first = <Surroundings *>_grown(self.first, self.room * sizeof(Surroundings))
            self.own = <Surroundings *>_grown(self.own, self.room * sizeof(Surroundings))
            self.latest = <int32_t *>_grown(self.latest, self.room * sizeof(int32_t))
            self.first_score = <double *>_grown(self.first_score, self.room * sizeof(double))
        return 0

    cdef int _append(self) except -1:
        """What was found in the tree and in the first to the indices, but for what both have."""
        cdef int i
        cdef int64_t at
        if self.n_indices + 2 * MOST > self.index_room:
            self.index_room = 2 * self.index_room + 2 * MOST
            self.indices = <int32_t *>_grown(self.indices, self.index_room * sizeof(int32_t))
            self.values = <signed char *>_grown(self.values, self.index_room)
        for i in range(self.n_found):
            if self.found[i] != self.before[i]:
                at = self.n_indices
                self.indices[at], self.values[at] = <int32_t>self.found[i], 1
                self.indices[at + 1], self.values[at + 1] = <int32_t>self.before[i], -1
                self.n_indices += 2
        return 0

    cdef double _sum(self, const float[::1] weights) noexcept:
        cdef int i
        cdef double total = 0
        for i in range(self.n_found):
            total += weights[self.found[i]]
        return total

    cdef void _read(
        self, const int32_t[::1] heads, const int32_t[::1] labels, const uint32_t[::1] names,
        Surroundings *tree
    ) noexcept:
        """The surroundings of every token in a tree."""
        cdef int m, h, a, steps, n = heads.shape[0]
        cdef Surroundings *token
        cdef Surroundings *head
        memset(tree, 0, (n + 1) * sizeof(Surroundings))
        memset(self.latest, 0, (n + 1) * sizeof(int32_t))
        for m in range(1, n + 1):
            token = &tree[m]
            token.head = heads[m - 1]
            token.label = names[labels[m - 1]]
            token.first = token.last = m
        for m in range(1, n + 1):
            token, h = &tree[m], tree[m].head
            token.head_label = tree[h].label
            token.grand = tree[h].head if h else NOBODY
            # climbing ends even where heads go round in a circle
            a, steps = h, 0
            while a and steps < n:
                tree[a].first, tree[a].last = min(tree[a].first, m), max(tree[a].last, m)
                a, steps = tree[a].head, steps + 1
            if h and h < m:  # to the right of heads, from the inside out
                head = &tree[h]
                if head.inner_right == NOBODY:
                    head.inner_right = m
                token.sibling = self.latest[h]
                token.sibling_label = tree[token.sibling].label
                self.latest[h] = m
                head.frame_right = mix(head.frame_right, token.label)
        memset(self.latest, 0, (n + 1) * sizeof(int32_t))
        for m in range(n, 0, -1):  # to the left
            token, h = &tree[m], tree[m].head
            if h > m:
                head = &tree[h]
                if head.inner_left == NOBODY:
                    head.inner_left = m
                token.sibling = self.latest[h]
                token.sibling_label = tree[token.sibling].label
                self.latest[h] = m
                head.frame_left = mix(head.frame_left, token.label)

    cdef inline void _add(
        self, uint32_t *found, uint32_t template, uint32_t a, uint32_t b, uint32_t c, uint32_t d
    ) noexcept:
        found[self.n_found] = mix(mix(mix(mix(mix(1, template), a), b), c), d) & self.mask
        self.n_found += 1

    cdef void _hash(
        self, int m, int n, const Surroundings *token, const uint32_t[:, ::1] columns,
        uint32_t *found
    ) noexcept:
        """All features of one token, always in the same order."""
        cdef int h = token.head, g = token.grand, s = token.sibling
        cdef uint32_t label = token.label
        cdef uint32_t side = (m < h) | ((h < g) << 1) | ((h == 0) << 2)
        cdef uint32_t tag = columns[m, TAG], head = columns[h, TAG], grand = columns[g, TAG]
        cdef uint32_t word = columns[m, WORD], head_word = columns[h, WORD]
        cdef uint32_t size = size_class(token.last - token.first + 1)
        cdef uint32_t before = columns[token.first - 1, TAG]
        cdef uint32_t after = columns[token.last + 1, TAG]
        self.n_found = 0
        if self.groups & G_POS:
            self._add(found, 1, columns[token.inner_left, TAG], tag, columns[token.inner_right, TAG], 0)
            self._add(found, 2, tag, head, grand, 0)
            self._add(found, 3, tag, head, grand, side)
            self._add(found, 4, columns[m, POS], columns[h, POS], columns[g, POS], side)
            self._add(found, 5, tag, columns[s, TAG], head, side)
        if self.groups & G_LABELS:
            self._add(found, 20, label, token.head_label, head, side)
            self._add(found, 21, label, token.head_label, tag, head)
            self._add(found, 22, label, token.sibling_label, head, side)
            self._add(found, 23, label, token.sibling_label, token.head_label, side)
            self._add(found, 24, tag, token.frame_left, token.frame_right, 0)
            self._add(found, 25, columns[m, POS], label, token.frame_left, token.frame_right)
            self._add(found, 26, label, tag, grand, side)
        if self.groups & G_WORDS:
            self._add(found, 40, word, head, grand, side)
            self._add(found, 41, tag, head_word, grand, side)
            self._add(found, 42, tag, head, columns[g, WORD], side)
            self._add(found, 43, word, columns[g, WORD], label, side)
            self._add(found, 44, word, token.frame_left, token.frame_right, 0)
            self._add(found, 45, word, label, token.head_label, side)
            self._add(found, 46, head_word, label, token.sibling_label, side)
        if self.groups & G_SPANS:
            self._add(found, 60, label, tag, size, side)
            self._add(found, 61, label, before, after, side)
            self._add(found, 62, tag, head, size, side)
            self._add(found, 63, label, columns[token.first, TAG], columns[token.last, TAG], 0)
            self._add(found, 64, tag, before, after, head)
            self._add(found, 65, label, head, size_class(m - h if m > h else h - m), after)


def times(
    const int64_t[::1] starts, const int32_t[::1] indices, const signed char[::1] values,
    const double[::1] x
):
    """RETURNS (ndarray): float64[rows], the product of sparse rows and x."""
    cdef Py_ssize_t row, i
    cdef double total
    product = np.empty(starts.shape[0] - 1, dtype=np.float64)
    cdef double[::1] out = product
    for row in range(out.shape[0]):
        total = 0
        for i in range(starts[row], starts[row + 1]):
            total += values[i] * x[indices[i]]
        out[row] = total
    return product


def add_transposed(
    const int64_t[::1] starts, const int32_t[::1] indices, const signed char[::1] values,
    const double[::1] y, double[::1] out
):
    """Add the product of the transposed sparse rows and y[rows] to `out`."""
    cdef Py_ssize_t row, i
    for row in range(starts.shape[0] - 1):
        if y[row] != 0:
            for i in range(starts[row], starts[row + 1]):
                out[indices[i]] += values[i] * y[row]
