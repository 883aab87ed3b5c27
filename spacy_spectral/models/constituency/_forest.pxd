"""Forests of binary trees for the kernels of this room; see `_forest.pyx`."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc

from ...base._arena cimport Arena
from ...forest._hypergraph cimport Hypergraph


cdef struct Columns:
    # of a forest; see there
    int64_t n_sentences
    int64_t n_items
    int64_t n_edges
    const int32_t *lengths
    const int64_t *starts
    const int32_t *begin
    const int32_t *end
    const int32_t *symbol
    const int64_t *edge_starts
    const int32_t *left
    const int32_t *right
    const int32_t *rule
    const uint8_t *is_word
    const uint8_t *is_root


cdef class Forest:
    cdef Columns c
    cdef readonly object lengths, starts, begin, end, symbol, edge_starts, left, right, rule, is_word, is_root


cdef struct Packed:
    Hypergraph graph
    double *scores
    int32_t *first
    int32_t *second
    int32_t *slot
    int32_t *item  # by edge of the graph, the item of the batch that it makes, -1 for the goal
    int32_t *edge  # likewise the edge of the batch, -1 for words and the goal


cdef inline int64_t cell_of(int n, int begin, int width) noexcept nogil:
    """The number of a span: all of width 1 first, then of width 2..."""
    return <int64_t>(width - 1) * n - <int64_t>(width - 1) * (width - 2) // 2 + begin


cdef inline void *grown(void *old, size_t *room, size_t needed, size_t size) noexcept nogil:
    """`old` with room for all that are needed, each of some size; NULL without memory, and `old` is as it was."""
    if needed > room[0] or old == NULL:
        old = realloc(old, 2 * (room[0] + needed + 512) * size)
        if old != NULL:
            room[0] = 2 * (room[0] + needed + 512)
    return old


# The hypergraph of a sentence; `root_score` may be NULL. -1 without memory.
cdef int pack(
    Packed *packed, const Columns *c, int64_t sentence, const double *item_score, const double *edge_score,
    const double *root_score, Arena *arena
) noexcept nogil

# log Z, -inf without a tree and nan without memory; writes posteriors of the items and edges of the batch.
cdef double sum_up(
    const Packed *packed, int64_t first, double *post, double *edge_post, Arena *arena
) noexcept nogil
