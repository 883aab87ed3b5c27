# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The chart of a plain grammar, only to find out which items are worth a second look.

Cells hold the few symbols that are not hopeless, relative to the best of the cell, and a scale, so that
sentences of any length are the same. Posteriors are handed down from parents to children: the share of a pair of
children in the inside value of its parent is its share in the posterior.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

import numpy

from ._cells cimport cell_of


cdef struct Chart:
    int32_t *symbol
    double *value
    double *post
    size_t n
    size_t room


cdef int _grow(Chart *chart, size_t needed) noexcept nogil:
    cdef size_t room = 2 * (chart.room + needed)
    cdef void *symbol
    cdef void *value
    cdef void *post
    if chart.n + needed <= chart.room:
        return 0
    symbol = realloc(chart.symbol, room * sizeof(int32_t))
    if symbol != NULL:
        chart.symbol = <int32_t *>symbol
    value = realloc(chart.value, room * sizeof(double))
    if value != NULL:
        chart.value = <double *>value
    post = realloc(chart.post, room * sizeof(double))
    if post != NULL:
        chart.post = <double *>post
    if symbol == NULL or value == NULL or post == NULL:
        return -1
    chart.room = room
    return 0


def coarse_items(
    const int32_t[::1] word_start not None, const int32_t[::1] word_symbol not None,
    const double[::1] word_score not None, const int32_t[::1] pair_start not None,
    const int32_t[::1] pair_parent not None, const double[::1] pair_prob not None,
    const double[::1] root not None, const double[::1] prior not None,
    double beam, double threshold,
):
    """The items of one sentence that are in probable trees of a plain grammar.

    word_start (int32[n + 1]), word_symbol (int32[]), word_score (float64[]): The symbols of each word.
    pair_start (int32[symbols * symbols + 1]), pair_parent (int32[rules]), pair_prob (float64[rules]): For
        every pair of children, the parents they can have.
    root, prior (float64[symbols]): Probabilities of being the root, and of occurring at all.
    beam (float): Symbols of a cell are dropped if their inside value times their prior is that much less than
        the best; 0 for none.
    threshold (float): The least posterior of items.
    RETURNS (Tuple[ndarray, ...]): begin, end, symbol of the items, their posteriors, and log Z, -inf if the
        sentence has no tree.
    """
    cdef int n = word_start.shape[0] - 1, n_symbols = root.shape[0]
    cdef int64_t n_cells = <int64_t>n * (n + 1) // 2, cell, lc, rc, y, z, x, p, base
    cdef int width, i, j, k, a, failed = 0, n_active
    cdef double best, smax, f, value, norm, log_z = -INFINITY, total
    cdef Chart chart
    cdef int64_t *cells = <int64_t *>malloc((n_cells + 1) * sizeof(int64_t))
    cdef double *scale = <double *>malloc((n_cells + 1) * sizeof(double))
    cdef double *acc = <double *>malloc(n_symbols * sizeof(double))
    cdef int32_t *active = <int32_t *>malloc(n_symbols * sizeof(int32_t))
    memset(&chart, 0, sizeof(chart))
    if cells == NULL or scale == NULL or acc == NULL or active == NULL:
        free(cells); free(scale); free(acc); free(active)
        raise MemoryError
    with nogil:
        memset(acc, 0, n_symbols * sizeof(double))
        cell = 0
        for width in range(1, n + 1):
            if failed:
                break
            for i in range(n - width + 1):
                j = i + width
                n_active = 0
                smax = 0
                if width == 1:
                    for p in range(word_start[i], word_start[i + 1]):
                        a = word_symbol[p]
                        if acc[a] == 0 and word_score[p] > 0:
                            active[n_active] = a
                            n_active += 1
                        acc[a] += word_score[p]
                else:
                    smax = -INFINITY
                    for k in range(i + 1, j):
                        lc, rc = cell_of(n, i, k - i), cell_of(n, k, j - k)
                        smax = max(smax, scale[lc] + scale[rc])
                    for k in range(i + 1, j):
                        lc, rc = cell_of(n, i, k - i), cell_of(n, k, j - k)
                        if cells[lc] == cells[lc + 1] or cells[rc] == cells[rc + 1]:
                            continue
                        f = exp(scale[lc] + scale[rc] - smax)
                        if f == 0:
                            continue
                        for y in range(cells[lc], cells[lc + 1]):
                            base = <int64_t>chart.symbol[y] * n_symbols
                            value = f * chart.value[y]
                            for z in range(cells[rc], cells[rc + 1]):
                                for p in range(
                                    pair_start[base + chart.symbol[z]],
                                    pair_start[base + chart.symbol[z] + 1],
                                ):
                                    a = pair_parent[p]
                                    if acc[a] == 0:
                                        active[n_active] = a
                                        n_active += 1
                                        # a sum that stays 0 would be entered twice
                                        acc[a] = 1e-300
                                    acc[a] += value * chart.value[z] * pair_prob[p]
                best, norm = 0, 0
                for k in range(n_active):
                    best = max(best, acc[active[k]] * prior[active[k]])
                    norm = max(norm, acc[active[k]])
                cells[cell] = chart.n
                scale[cell] = smax + log(norm) if norm > 0 else -INFINITY
                if _grow(&chart, n_active):
                    failed = 1
                    break
                # in the order of symbols
                for k in range(n_active):
                    a = active[k]
                    if acc[a] > 1e-290 and acc[a] * prior[a] >= beam * best:
                        y = chart.n
                        while y > cells[cell] and chart.symbol[y - 1] > a:
                            chart.symbol[y] = chart.symbol[y - 1]
                            chart.value[y] = chart.value[y - 1]
                            y -= 1
                        chart.symbol[y] = a
                        chart.value[y] = acc[a] / norm
                        chart.n += 1
                    acc[a] = 0
                cell += 1
                cells[cell] = chart.n
        if not failed:
            for x in range(<int64_t>chart.n):
                chart.post[x] = 0
            cell = n_cells - 1
            total = 0
            for x in range(cells[cell], cells[cell + 1]):
                chart.post[x] = root[chart.symbol[x]] * chart.value[x]
                total += chart.post[x]
            if total > 0:
                log_z = log(total) + scale[cell]
                for x in range(cells[cell], cells[cell + 1]):
                    chart.post[x] /= total
            for width in range(n if total > 0 else 0, 1, -1):
                for i in range(n - width + 1):
                    j = i + width
                    cell = cell_of(n, i, width)
                    k = 0
                    for x in range(cells[cell], cells[cell + 1]):
                        if chart.post[x] > 0.01 * threshold:
                            acc[chart.symbol[x]] = chart.post[x] / chart.value[x]
                            k = 1
                    if not k:
                        continue
                    for k in range(i + 1, j):
                        lc, rc = cell_of(n, i, k - i), cell_of(n, k, j - k)
                        f = exp(scale[lc] + scale[rc] - scale[cell])
                        if f == 0 or cells[lc] == cells[lc + 1] or cells[rc] == cells[rc + 1]:
                            continue
                        for y in range(cells[lc], cells[lc + 1]):
                            base = <int64_t>chart.symbol[y] * n_symbols
                            for z in range(cells[rc], cells[rc + 1]):
                                value = 0
                                for p in range(
                                    pair_start[base + chart.symbol[z]],
                                    pair_start[base + chart.symbol[z] + 1],
                                ):
                                    value += pair_prob[p] * acc[pair_parent[p]]
                                if value > 0:
                                    value *= f * chart.value[y] * chart.value[z]
                                    chart.post[y] += value
                                    chart.post[z] += value
                    for x in range(cells[cell], cells[cell + 1]):
                        acc[chart.symbol[x]] = 0
    result = None
    if not failed:
        result = _kept(&chart, cells, n, threshold, log_z)
    free(cells); free(scale); free(acc); free(active)
    free(chart.symbol); free(chart.value); free(chart.post)
    if failed:
        raise MemoryError
    return result


cdef object _kept(Chart *chart, int64_t *cells, int n, double threshold, double log_z):
    cdef int width, i
    cdef int64_t x, cell = 0, m = 0
    for x in range(<int64_t>chart.n):
        m += chart.post[x] >= threshold
    begin, end, symbol = (numpy.empty(m, dtype=numpy.int32) for _ in range(3))
    post = numpy.empty(m)
    cdef int32_t[::1] out_begin = begin, out_end = end, out_symbol = symbol
    cdef double[::1] out_post = post
    m = 0
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            for x in range(cells[cell], cells[cell + 1]):
                if chart.post[x] >= threshold:
                    out_begin[m], out_end[m], out_symbol[m] = i, i + width, chart.symbol[x]
                    out_post[m] = chart.post[x]
                    m += 1
            cell += 1
    return begin, end, symbol, post, log_z
