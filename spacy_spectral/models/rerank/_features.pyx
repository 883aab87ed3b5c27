# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sparse features of candidate trees.

A feature is a hash of what a token's surroundings in the tree look like. The trees of a list are nearly
alike, and only differences between them decide: every tree is described relative to the first, by the
tokens whose surroundings differ, with +1 for the features of the tree and -1 for those of the first.
"""
import numpy as np

from libc.math cimport NAN, isnan
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from ...base._arena cimport Arena, arena_free, take
from ...trees._lengths cimport size_class

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


cdef inline void _hang(
    Surroundings *tree, int32_t *latest, int m, int32_t *inner, uint32_t *frame
) noexcept nogil:
    """A token comes after the latest on its side of its head."""
    cdef Surroundings *token = &tree[m]
    if inner[0] == NOBODY:
        inner[0] = m
    token.sibling = latest[token.head]
    token.sibling_label = tree[token.sibling].label
    latest[token.head] = m
    frame[0] = mix(frame[0], token.label)


cdef struct Work:
    # Of one call: memory for the trees of a sentence of n tokens.
    Arena arena
    Surroundings *first    # [n + 1]
    Surroundings *own      # [n + 1]
    int32_t *latest        # [n + 1]
    double *first_score    # [n + 1]
    int n_found
    uint32_t[MOST] found
    uint32_t[MOST] before


cdef int _take(Work *work, int n) except -1:
    """Take memory; whatever happens, `arena_free` must follow."""
    memset(&work.arena, 0, sizeof(Arena))
    work.first = <Surroundings *>take(&work.arena, (n + 1) * sizeof(Surroundings))
    work.own = <Surroundings *>take(&work.arena, (n + 1) * sizeof(Surroundings))
    work.latest = <int32_t *>take(&work.arena, (n + 1) * sizeof(int32_t))
    work.first_score = <double *>take(&work.arena, (n + 1) * sizeof(double))
    if not (work.first and work.own and work.latest and work.first_score):
        raise MemoryError
    return 0


cdef class Extractor:
    """Extracts or scores the features of one sentence's trees.

    groups (int): The groups of features, a mask.
    bits (int): Hashes are cut to this many bits.
    """
    cdef int groups
    cdef uint32_t mask

    def __init__(self, int groups, int bits):
        self.groups = groups
        self.mask = (<uint32_t>1 << bits) - 1

    def extract(
        self, const int32_t[:, ::1] heads not None, const int32_t[:, ::1] labels not None,
        const uint32_t[::1] names not None, const uint32_t[:, ::1] columns not None
    ):
        """Features of the trees relative to the first.

        heads, labels (ndarray): int32[k, n], the trees; 0 is the root.
        names (ndarray): uint32, a hash of each label.
        columns (ndarray): uint32[n + 2, 3], hashes of tag, coarse tag and word of every position: the
            root is position 0, the end of the sentence n + 1.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): int32 starts of the rows[k + 1], int32 indices and
            int8 values. An index may stand in a row more than once.
        """
        cdef int t, m, i, n = heads.shape[1], k = heads.shape[0]
        cdef int64_t n_indices = 0
        cdef Work work
        starts = np.zeros(k + 1, dtype=np.int32)
        cdef int32_t[::1] out = starts
        # with room for more, as they come
        indices = np.empty(0, dtype=np.int32)
        values = np.empty(0, dtype=np.int8)
        cdef int32_t[::1] out_indices = indices
        cdef signed char[::1] out_values = values
        try:
            self._begin(&work, heads, labels, names)
            for t in range(1, k):
                self._read(&work, heads[t], labels[t], names, work.own)
                for m in range(1, n + 1):
                    if memcmp(&work.own[m], &work.first[m], sizeof(Surroundings)) == 0:
                        continue
                    self._hash(&work, m, n, &work.first[m], columns, work.before)
                    self._hash(&work, m, n, &work.own[m], columns, work.found)
                    if n_indices + 2 * MOST > out_indices.shape[0]:
                        indices = np.resize(indices, 2 * n_indices + 2 * MOST)
                        values = np.resize(values, 2 * n_indices + 2 * MOST)
                        out_indices, out_values = indices, values
                    for i in range(work.n_found):  # but for what both have
                        if work.found[i] != work.before[i]:
                            out_indices[n_indices] = <int32_t>work.found[i]
                            out_indices[n_indices + 1] = <int32_t>work.before[i]
                            out_values[n_indices], out_values[n_indices + 1] = 1, -1
                            n_indices += 2
                out[t + 1] = <int32_t>n_indices
        finally:
            arena_free(&work.arena)
        return starts, indices[:n_indices].copy(), values[:n_indices].copy()

    def score(
        self, const int32_t[:, ::1] heads not None, const int32_t[:, ::1] labels not None,
        const uint32_t[::1] names not None, const uint32_t[:, ::1] columns not None,
        const float[::1] weights not None
    ):
        """The same features times their weights.

        weights (ndarray): float32, one weight for each hash.
        RETURNS (ndarray): float64[k].
        """
        cdef int t, m, n = heads.shape[1], k = heads.shape[0]
        cdef Work work
        scores = np.zeros(k, dtype=np.float64)
        cdef double[::1] out = scores
        try:
            self._begin(&work, heads, labels, names)
            for m in range(1, n + 1):
                work.first_score[m] = NAN
            for t in range(1, k):
                self._read(&work, heads[t], labels[t], names, work.own)
                for m in range(1, n + 1):
                    if memcmp(&work.own[m], &work.first[m], sizeof(Surroundings)) == 0:
                        continue
                    if isnan(work.first_score[m]):
                        self._hash(&work, m, n, &work.first[m], columns, work.found)
                        work.first_score[m] = _sum(&work, weights)
                    self._hash(&work, m, n, &work.own[m], columns, work.found)
                    out[t] += _sum(&work, weights) - work.first_score[m]
        finally:
            arena_free(&work.arena)
        return scores

    cdef int _begin(
        self, Work *work, const int32_t[:, ::1] heads, const int32_t[:, ::1] labels,
        const uint32_t[::1] names
    ) except -1:
        """Read the first tree."""
        _take(work, <int>heads.shape[1])
        self._read(work, heads[0], labels[0], names, work.first)
        return 0

    cdef void _read(
        self, Work *work, const int32_t[::1] heads, const int32_t[::1] labels,
        const uint32_t[::1] names, Surroundings *tree
    ) noexcept:
        """The surroundings of every token in a tree."""
        cdef int m, h, a, steps, n = heads.shape[0]
        cdef Surroundings *token
        memset(tree, 0, (n + 1) * sizeof(Surroundings))
        memset(work.latest, 0, (n + 1) * sizeof(int32_t))
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
                _hang(tree, work.latest, m, &tree[h].inner_right, &tree[h].frame_right)
        memset(work.latest, 0, (n + 1) * sizeof(int32_t))
        for m in range(n, 0, -1):  # to the left
            h = tree[m].head
            if h > m:
                _hang(tree, work.latest, m, &tree[h].inner_left, &tree[h].frame_left)

    cdef inline void _add(
        self, Work *work, uint32_t *found, uint32_t template, uint32_t a, uint32_t b, uint32_t c,
        uint32_t d
    ) noexcept:
        found[work.n_found] = mix(mix(mix(mix(mix(1, template), a), b), c), d) & self.mask
        work.n_found += 1

    cdef void _hash(
        self, Work *work, int m, int n, const Surroundings *token, const uint32_t[:, ::1] columns,
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
        work.n_found = 0
        if self.groups & G_POS:
            self._add(work, found, 1, columns[token.inner_left, TAG], tag,
                      columns[token.inner_right, TAG], 0)
            self._add(work, found, 2, tag, head, grand, 0)
            self._add(work, found, 3, tag, head, grand, side)
            self._add(work, found, 4, columns[m, POS], columns[h, POS], columns[g, POS], side)
            self._add(work, found, 5, tag, columns[s, TAG], head, side)
        if self.groups & G_LABELS:
            self._add(work, found, 20, label, token.head_label, head, side)
            self._add(work, found, 21, label, token.head_label, tag, head)
            self._add(work, found, 22, label, token.sibling_label, head, side)
            self._add(work, found, 23, label, token.sibling_label, token.head_label, side)
            self._add(work, found, 24, tag, token.frame_left, token.frame_right, 0)
            self._add(work, found, 25, columns[m, POS], label, token.frame_left, token.frame_right)
            self._add(work, found, 26, label, tag, grand, side)
        if self.groups & G_WORDS:
            self._add(work, found, 40, word, head, grand, side)
            self._add(work, found, 41, tag, head_word, grand, side)
            self._add(work, found, 42, tag, head, columns[g, WORD], side)
            self._add(work, found, 43, word, columns[g, WORD], label, side)
            self._add(work, found, 44, word, token.frame_left, token.frame_right, 0)
            self._add(work, found, 45, word, label, token.head_label, side)
            self._add(work, found, 46, head_word, label, token.sibling_label, side)
        if self.groups & G_SPANS:
            self._add(work, found, 60, label, tag, size, side)
            self._add(work, found, 61, label, before, after, side)
            self._add(work, found, 62, tag, head, size, side)
            self._add(work, found, 63, label, columns[token.first, TAG], columns[token.last, TAG], 0)
            self._add(work, found, 64, tag, before, after, head)
            self._add(work, found, 65, label, head, size_class(m - h), after)


cdef inline double _sum(const Work *work, const float[::1] weights) noexcept:
    cdef int i
    cdef double total = 0
    for i in range(work.n_found):
        total += weights[work.found[i]]
    return total


def times(
    const int64_t[::1] starts not None, const int32_t[::1] indices not None,
    const signed char[::1] values not None, const double[::1] x not None,
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
    const int64_t[::1] starts not None, const int32_t[::1] indices not None,
    const signed char[::1] values not None, const double[::1] y not None, double[::1] out not None,
):
    """Add the product of the transposed sparse rows and y[rows] to `out`."""
    cdef Py_ssize_t row, i
    for row in range(starts.shape[0] - 1):
        if y[row] != 0:
            for i in range(starts[row], starts[row + 1]):
                out[indices[i]] += values[i] * y[row]
