"""Spans, and what forests of them sum up and share out."""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t


cdef inline int64_t cell_of(int n, int begin, int width) noexcept nogil:
    """The number of a span: all of width 1 first, then of width 2..."""
    return <int64_t>(width - 1) * n - <int64_t>(width - 1) * (width - 2) // 2 + begin


cdef inline double log_sum(
    int64_t first, int64_t last, const int32_t *left, const int32_t *right, const double *score,
    const double *inside,
) noexcept nogil:
    """The logarithm of the sum over edges of what they and their parts weigh."""
    cdef int64_t e
    cdef double best = -INFINITY, total = 0, value
    for e in range(first, last):
        value = score[e] + inside[left[e]] + inside[right[e]]
        if value > best:
            best = value
    if best == -INFINITY:
        return best
    for e in range(first, last):
        value = score[e] + inside[left[e]] + inside[right[e]] - best
        if value > -40:
            total += exp(value)
    return best + log(total)


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
