# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Inside and outside of forests with a vector of states at every item (Cohen et al. 2012, figure 3).

    a(x) = sum_{e: x -> y z} T_rule(e)(a(y), a(z))        a(word) as given
    Z    = sum_{x over everything} pi_x . a(x)

The vector of an item is kept as a(x) exp(-s(x)), its largest entry being 1 or -1. With f(e) = exp(s(y) + s(z) -
s(x)), computed on the way up, the way down is the adjoint of the same lines and its values are posteriors: no
second set of scales. Values may be negative, and so may be posteriors.

Rules of few trees have a product of three vectors in place of a tensor; those of none, the means of their symbols.
"""
from libc.math cimport INFINITY, exp, fabs, isfinite, log
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy

from ._forest cimport Columns, Forest

cdef extern from "_tensor.h" nogil:
    void float32_inside(
        const float *t, const float *l, const float *r, int na, int nb, int nc, float w, float *out)
    float float32_outside(
        const float *t, const float *l, const float *r, const float *o, int na, int nb, int nc, float w,
        float *dl, float *dr)
    void float32_outer(
        float *counts, const float *l, const float *r, const float *o, int na, int nb, int nc, float w)
    void float64_inside(
        const double *t, const double *l, const double *r, int na, int nb, int nc, double w, double *out)
    double float64_outside(
        const double *t, const double *l, const double *r, const double *o, int na, int nb, int nc, double w,
        double *dl, double *dr)
    void float64_outer(
        double *counts, const double *l, const double *r, const double *o, int na, int nb, int nc, double w)

cdef enum:
    VECTORS = 0
    DENSE = 1
    MEANS = 2

ctypedef fused real:
    float
    double


cdef inline real _dot(const real *x, const real *y, int n) noexcept nogil:
    cdef int i
    cdef real result = 0
    for i in range(n):
        result += x[i] * y[i]
    return result


cdef inline void _inside(
    const real *t, const real *u, const real *v, const real *l, const real *r, int na, int nb, int nc, real w,
    bint dense, real *out
) noexcept nogil:
    """Add what an edge gives to the vector of its parent; t is the tensor, or t, u and v are three vectors."""
    cdef int i
    cdef real x, y
    if not dense:
        x, y = _dot(u, l, nb), _dot(v, r, nc)
        for i in range(na):
            out[i] += w * x * y * t[i]
    elif real is float:
        float32_inside(t, l, r, na, nb, nc, w, out)
    else:
        float64_inside(t, l, r, na, nb, nc, w, out)


cdef inline real _outside(
    const real *t, const real *u, const real *v, const real *l, const real *r, const real *o, int na, int nb,
    int nc, real w, bint dense, real *dl, real *dr
) noexcept nogil:
    """Add what an edge gives to the vectors of its children. RETURNS: Its posterior."""
    cdef int i
    cdef real x, y, z
    if not dense:
        z, x, y = _dot(t, o, na), _dot(u, l, nb), _dot(v, r, nc)
        for i in range(nb):
            dl[i] += w * z * y * u[i]
        for i in range(nc):
            dr[i] += w * z * x * v[i]
        return w * x * y * z
    if real is float:
        return float32_outside(t, l, r, o, na, nb, nc, w, dl, dr)
    else:
        return float64_outside(t, l, r, o, na, nb, nc, w, dl, dr)


def posteriors(
    Forest forest not None, const int64_t[::1] offset not None, const real[::1] words not None,
    const double[::1] word_scale not None,
    const int32_t[::1] n_states not None, const real[:, ::1] root not None,
    const real[::1] tensors not None, const int64_t[::1] tensor_start not None,
    const uint8_t[::1] kind not None, const real[::1] factors not None, const real[:, ::1] z_mean not None,
    const real[:, ::1] y_mean not None, real[::1] counts=None,
):
    """Posteriors of the items and edges of forests.

    offset (int64[items + 1]): Where the vectors of items start.
    words (real[offset[-1]]): The vectors of words, anything for other items.
    word_scale (float64[items]): Logarithms of factors of the vectors of words.
    n_states (int32[symbols]): How many states symbols have.
    root (real[symbols, states]): The vectors pi.
    tensors (real[]), tensor_start (int64[rules]), kind (uint8[rules]): By rule, a tensor [b, c, a] (DENSE), three
        vectors, of a, b and c (VECTORS), or nothing (MEANS).
    factors (real[rules]), z_mean, y_mean (real[symbols, states]): Rules without parameters have the means of their
        symbols, times a factor.
    counts (Optional[real]): To this, laid out as `tensors`, the products of vectors at the edges of rules with
        tensors are added: times the tensors they are expected counts.
    RETURNS (Tuple[ndarray, ...]): log |Z| by sentence (-inf or nan where nothing can be said); the posteriors of
        items and edges; the vectors of items, inside and outside, so that their product is the posterior.
    """
    cdef int64_t s, x, e, y, z, at
    cdef int i, na, nb, nc
    cdef bint means
    cdef const real *t
    cdef const real *u
    cdef const real *v
    cdef real *own
    cdef double best, norm, total, scale
    cdef const Columns *c = &forest.c
    dtype = numpy.float32 if real is float else numpy.float64
    up_array, down_array = (numpy.zeros(words.shape[0], dtype=dtype) for _ in range(2))
    scales, log_zs = numpy.full(c.n_items, -numpy.inf), numpy.full(c.n_sentences, -numpy.inf)
    item_array, edge_array = numpy.zeros(c.n_items), numpy.zeros(c.n_edges)
    cdef real[::1] up = up_array, down = down_array
    cdef double[::1] factor = numpy.zeros(c.n_edges), scale_of = scales, log_z = log_zs
    cdef double[::1] item_post = item_array, edge_post = edge_array
    with nogil:
        for s in range(c.n_sentences):
            best = -INFINITY
            for x in range(c.starts[s], c.starts[s + 1]):
                na = n_states[c.symbol[x]]
                own = &up[offset[x]]
                if c.is_word[x]:
                    for i in range(na):
                        own[i] = words[offset[x] + i]
                    scale = word_scale[x]
                else:
                    scale = -INFINITY
                    for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                        scale = max(scale, scale_of[c.left[e]] + scale_of[c.right[e]])
                    if scale == -INFINITY:
                        continue
                    for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                        y, z = c.left[e], c.right[e]
                        factor[e] = exp(scale_of[y] + scale_of[z] - scale)
                        nb, nc = n_states[c.symbol[y]], n_states[c.symbol[z]]
                        means = kind[c.rule[e]] == MEANS
                        if means:
                            factor[e] *= factors[c.rule[e]]
                        t = &z_mean[c.symbol[x], 0] if means else &tensors[tensor_start[c.rule[e]]]
                        u = &y_mean[c.symbol[y], 0] if means else t + na
                        v = &y_mean[c.symbol[z], 0] if means else u + nb
                        if factor[e] > 0:
                            _inside(
                                t, u, v, &up[offset[y]], &up[offset[z]], na, nb, nc, <real>factor[e],
                                kind[c.rule[e]] == DENSE, own)
                norm = 0
                for i in range(na):
                    norm = max(norm, fabs(own[i]))
                if norm == 0 or not isfinite(norm):
                    for i in range(na):
                        own[i] = 0
                    continue
                for i in range(na):
                    own[i] = <real>(own[i] / norm)
                scale_of[x] = scale + log(norm)
                for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                    factor[e] /= norm
                if c.is_root[x]:
                    best = max(best, scale_of[x])
            if best == -INFINITY:
                continue
            total = 0
            for x in range(c.starts[s], c.starts[s + 1]):
                if c.is_root[x] and scale_of[x] > -INFINITY:
                    for i in range(n_states[c.symbol[x]]):
                        total += root[c.symbol[x], i] * up[offset[x] + i] * exp(scale_of[x] - best)
            log_z[s] = log(fabs(total)) + best
            if not isfinite(log_z[s]):
                continue
            for x in range(c.starts[s + 1] - 1, c.starts[s] - 1, -1):
                if scale_of[x] == -INFINITY:
                    continue
                na = n_states[c.symbol[x]]
                own = &down[offset[x]]
                if c.is_root[x]:
                    for i in range(na):
                        own[i] += <real>(root[c.symbol[x], i] * exp(scale_of[x] - best) / total)
                for i in range(na):
                    item_post[x] += own[i] * up[offset[x] + i]
                for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                    y, z = c.left[e], c.right[e]
                    if scale_of[y] == -INFINITY or scale_of[z] == -INFINITY or factor[e] <= 0:
                        continue
                    at = tensor_start[c.rule[e]]
                    nb, nc = n_states[c.symbol[y]], n_states[c.symbol[z]]
                    means = kind[c.rule[e]] == MEANS
                    t = &z_mean[c.symbol[x], 0] if means else &tensors[at]
                    u = &y_mean[c.symbol[y], 0] if means else t + na
                    v = &y_mean[c.symbol[z], 0] if means else u + nb
                    edge_post[e] = _outside(
                        t, u, v, &up[offset[y]], &up[offset[z]], own, na, nb, nc, <real>factor[e],
                        kind[c.rule[e]] == DENSE, &down[offset[y]], &down[offset[z]])
                    if counts is not None and kind[c.rule[e]] == DENSE:
                        if real is float:
                            float32_outer(
                                &counts[at], &up[offset[y]], &up[offset[z]], own, na, nb, nc, <float>factor[e])
                        else:
                            float64_outer(
                                &counts[at], &up[offset[y]], &up[offset[z]], own, na, nb, nc, factor[e])
    return log_zs, item_array, edge_array, up_array, down_array
