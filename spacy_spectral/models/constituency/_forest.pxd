"""Forests of binary trees for the kernels of this room; see `_forest.pyx`."""
from libc.stdint cimport int32_t, int64_t

from ...base._arena cimport Arena
from ...forest._hypergraph cimport Hypergraph


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


# The hypergraph of a sentence of n words with the items from `first` to `last`; `root_score` may be NULL. -1 without
# memory.
cdef int pack(
    Packed *packed, int64_t first, int64_t last, int n, const int32_t *begin, const int32_t *end,
    const int64_t *edge_starts, const int32_t *left, const int32_t *right, const double *item_score,
    const double *edge_score, const double *root_score, Arena *arena
) noexcept nogil

# log Z, -inf without a tree and nan without memory; writes posteriors of the items and edges of the batch.
cdef double sum_up(
    const Packed *packed, int64_t first, double *post, double *edge_post, Arena *arena
) noexcept nogil
