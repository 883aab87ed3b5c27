# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sparse features of candidate trees.

A feature is a hash of what a token's surroundings in the tree look like. The trees of a list are nearly
alike, and only differences between them decide: every tree is described relative to the first, by the
tokens whose surroundings differ, with +1 for the features of the tree and -1 for those of the first.
"""
import numpy as np

from cython cimport floating
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
    int groups             # of features, a mask
    uint32_t mask          # hashes are cut to some bits
    int n_found
    uint32_t[MOST] found
    uint32_t[MOST] before


def extract(
    const int32_t[:, ::1] heads not None, const int32_t[:, ::1] labels not None,
    const uint32_t[::1] names not None, const uint32_t[:, ::1] columns not None, int groups, int bits
):
    """Features of one sentence's trees (int32[k, n]; 0 is the root) relative to the first.

    names: uint32, a hash of each label.
    columns: uint32[n + 2, 3], hashes of tag, coarse tag and word of every position: the root is position
    0, the end of the sentence n + 1.
    RETURNS: int64[k], the lengths of sparse rows; int32 indices, of some bits, and int8 values. An index
    may stand in a row more than once.
    """
    cdef int t, m, i, n = heads.shape[1], k = heads.shape[0]
    cdef int64_t n_indices = 0, row
    cdef Work work
    cdef size_t n_bytes = (n + 1) * sizeof(Surroundings)
    lengths = np.zeros(k, dtype=np.int64)
    cdef int64_t[::1] out = lengths
    # with room for more, as they come
    indices = np.empty(0, dtype=np.int32)
    values = np.empty(0, dtype=np.int8)
    cdef int32_t[::1] out_indices = indices
    cdef signed char[::1] out_values = values
    memset(&work.arena, 0, sizeof(Arena))
    work.groups, work.mask = groups, (<uint32_t>1 << bits) - 1
    try:
        work.first = <Surroundings *>take(&work.arena, n_bytes)
        work.own = <Surroundings *>take(&work.arena, n_bytes)
        work.latest = <int32_t *>take(&work.arena, (n + 1) * sizeof(int32_t))
        if not (work.first and work.own and work.latest):
            raise MemoryError
        _read(&work, heads[0], labels[0], names, work.first)
        for t in range(1, k):
            _read(&work, heads[t], labels[t], names, work.own)
            row = n_indices
            for m in range(1, n + 1):
                if memcmp(&work.own[m], &work.first[m], sizeof(Surroundings)) == 0:
                    continue
                _hash(&work, m, n, &work.first[m], columns, work.before)
                _hash(&work, m, n, &work.own[m], columns, work.found)
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
            out[t] = n_indices - row
    finally:
        arena_free(&work.arena)
    return lengths, indices[:n_indices].copy(), values[:n_indices].copy()


cdef void _read(
    Work *work, const int32_t[::1] heads, const int32_t[::1] labels,
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
    Work *work, uint32_t *found, uint32_t template, uint32_t a, uint32_t b, uint32_t c,
    uint32_t d
) noexcept:
    found[work.n_found] = mix(mix(mix(mix(mix(1, template), a), b), c), d) & work.mask
    work.n_found += 1

cdef void _hash(
    Work *work, int m, int n, const Surroundings *token, const uint32_t[:, ::1] columns,
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
    if work.groups & G_POS:
        _add(work, found, 1, columns[token.inner_left, TAG], tag,
             columns[token.inner_right, TAG], 0)
        _add(work, found, 2, tag, head, grand, 0)
        _add(work, found, 3, tag, head, grand, side)
        _add(work, found, 4, columns[m, POS], columns[h, POS], columns[g, POS], side)
        _add(work, found, 5, tag, columns[s, TAG], head, side)
    if work.groups & G_LABELS:
        _add(work, found, 20, label, token.head_label, head, side)
        _add(work, found, 21, label, token.head_label, tag, head)
        _add(work, found, 22, label, token.sibling_label, head, side)
        _add(work, found, 23, label, token.sibling_label, token.head_label, side)
        _add(work, found, 24, tag, token.frame_left, token.frame_right, 0)
        _add(work, found, 25, columns[m, POS], label, token.frame_left, token.frame_right)
        _add(work, found, 26, label, tag, grand, side)
    if work.groups & G_WORDS:
        _add(work, found, 40, word, head, grand, side)
        _add(work, found, 41, tag, head_word, grand, side)
        _add(work, found, 42, tag, head, columns[g, WORD], side)
        _add(work, found, 43, word, columns[g, WORD], label, side)
        _add(work, found, 44, word, token.frame_left, token.frame_right, 0)
        _add(work, found, 45, word, label, token.head_label, side)
        _add(work, found, 46, head_word, label, token.sibling_label, side)
    if work.groups & G_SPANS:
        _add(work, found, 60, label, tag, size, side)
        _add(work, found, 61, label, before, after, side)
        _add(work, found, 62, tag, head, size, side)
        _add(work, found, 63, label, columns[token.first, TAG], columns[token.last, TAG], 0)
        _add(work, found, 64, tag, before, after, head)
        _add(work, found, 65, label, head, size_class(m - h), after)


def times(
    const int64_t[::1] starts not None, const int32_t[::1] indices not None,
    const signed char[::1] values not None, const floating[::1] x not None,
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
