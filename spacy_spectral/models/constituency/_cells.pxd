"""Spans, and how the probability of a node is shared out."""
from libc.math cimport exp, log
from libc.stdint cimport int32_t, int64_t


cdef inline int64_t cell_of(int n, int begin, int width) noexcept nogil:
    """The number of a span: all of width 1 first, then of width 2..."""
    return <int64_t>(width - 1) * n - <int64_t>(width - 1) * (width - 2) // 2 + begin


cdef inline void share_out(
    int64_t x, const int64_t *edge_starts, const int32_t *left, const int32_t *right,
    const double *item_score, const double *edge_score, const double *inside, double *post,
    double *edge_post
) noexcept nogil:
    """From the posterior of an item that is no word to those of its edges, and to its parts."""
    cdef int64_t e
    cdef double value
    if post[x] <= 0:
        return
    value = log(post[x]) + item_score[x] - inside[x]
    for e in range(edge_starts[x], edge_starts[x + 1]):
        edge_post[e] = exp(value + edge_score[e] + inside[left[e]] + inside[right[e]])
        post[left[e]] += edge_post[e]
        post[right[e]] += edge_post[e]
