# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A conditional random field over labelled spans.

Every tree of binary brackets over a sentence is possible, and every span of it has any symbol:

    score(tree) = sum over its spans s(i, j, symbol)
    in(i, j) = log sum_l exp s(i, j, l) + log sum_k exp(in(i, k) + in(k, j))

which takes N^3 + N^2 L steps. Posteriors are handed down: each split has its share in that of its span.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._forest cimport cell_of, grown
from ._table cimport Context, FeatureTable


cdef struct Chart:
    int n
    int n_symbols[2]  # of phrases, of words
    int size  # of the row of a cell: its symbols and one more number
    float *score  # [cells, size]
    double *total  # [cells], log sum over symbols
    double *inside  # [n + 1, n + 1]
    double *post


cdef inline int _place(const Chart *chart, int i, int j) noexcept nogil:
    return i * (chart.n + 1) + j


cdef inline const float *_row(const Chart *chart, int i, int j) noexcept nogil:
    return &chart.score[cell_of(chart.n, i, j - i) * chart.size]


cdef int _fill(
    FeatureTable table, const int32_t[:, ::1] tokens, int64_t first, int n, Context *c, Chart *chart, Arena *arena
) noexcept nogil:
    """All sums over the trees of a sentence. RETURNS: 0, or another number without memory."""
    cdef int i, j, k, width
    cdef int64_t n_cells = <int64_t>n * (n + 1) // 2, cell = 0
    cdef size_t n_places = <size_t>(n + 1) * (n + 1)
    cdef double best, total, share
    cdef double *inside
    cdef double *post
    cdef double *values = <double *>take(arena, (n + 1) * sizeof(double))
    chart.n, chart.n_symbols[0], chart.n_symbols[1] = n, table.n_phrases, table.n_words
    chart.size = max(table.n_words, table.n_phrases) + 1
    chart.score = <float *>take(arena, n_cells * chart.size * sizeof(float))
    chart.total = <double *>take(arena, n_cells * sizeof(double))
    chart.inside = inside = <double *>take(arena, n_places * sizeof(double))
    chart.post = post = <double *>take_zeros(arena, n_places * sizeof(double))
    if (table.context(c, tokens, first, n, arena) or values == NULL or chart.score == NULL or chart.total == NULL
            or inside == NULL or post == NULL):
        return -1
    table.score_ends(c)
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            table.score(c, i, j, &chart.score[cell * chart.size])
            chart.total[cell] = _log_sum(&chart.score[cell * chart.size], chart.n_symbols[width == 1])
            inside[_place(chart, i, j)] = chart.total[cell]
            if width > 1:
                best = -INFINITY
                for k in range(i + 1, j):
                    values[k] = inside[_place(chart, i, k)] + inside[_place(chart, k, j)]
                    best = max(best, values[k])
                total = 0
                for k in range(i + 1, j):
                    if values[k] - best > -30:
                        total += exp(values[k] - best)
                inside[_place(chart, i, j)] = best + log(total) + chart.total[cell]
            cell += 1
    post[n] = 1
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            if post[_place(chart, i, j)] < 1e-7:
                continue
            total = (log(post[_place(chart, i, j)]) + chart.total[cell_of(n, i, width)]
                     - inside[_place(chart, i, j)])
            for k in range(i + 1, j):
                share = total + inside[_place(chart, i, k)] + inside[_place(chart, k, j)]
                if share > -20:
                    share = exp(share)
                    post[_place(chart, i, k)] += share
                    post[_place(chart, k, j)] += share
    return 0


cdef double _log_sum(const float *values, int n) noexcept nogil:
    cdef int i
    cdef float best, value
    cdef double total = 0
    if n == 0:
        # a treebank without phrases: spans are there, but have no symbol
        return 0
    best = values[0]
    for i in range(1, n):
        best = max(best, values[i])
    for i in range(n):
        value = values[i] - best
        if value > -16:
            total += exp(value)
    return best + log(total)


cdef struct Item:
    int32_t begin
    int32_t end
    int32_t symbol
    int32_t is_best
    float prob


def items(
    FeatureTable table not None, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None,
    double threshold
):
    """The items of sentences with at least some posterior, in the order of forests, with their
    posteriors, and whether they are in the best tree: that with the greatest sum of posteriors of spans,
    each with its best symbol; it is always there."""
    cdef Arena arena
    cdef Context c
    cdef Chart chart
    cdef int64_t s
    cdef int n, i, j, width, failed = 0
    cdef size_t count = 0, room = 0
    cdef Item *found = NULL
    cdef void *block
    cdef uint8_t *in_tree
    starts_out = numpy.zeros(starts.shape[0], dtype=numpy.int64)
    cdef int64_t[::1] out_starts = starts_out
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            arena_reset(&arena)
            in_tree = NULL
            if n and not _fill(table, tokens, starts[s], n, &c, &chart, &arena):
                in_tree = _best_tree(&chart, &arena)
            failed = n > 0 and in_tree == NULL
            for width in range(1, n + 1):
                for i in range(n - width + 1):
                    if failed:
                        break
                    j = i + width
                    # room for all symbols of a cell
                    block = grown(found, &room, count + chart.size, sizeof(Item))
                    if block == NULL:
                        failed = 1
                        break
                    found = <Item *>block
                    count += _kept(&chart, i, j, in_tree[_place(&chart, i, j)], threshold, &found[count])
            if failed:
                break
            out_starts[s + 1] = count
        arena_free(&arena)
    if failed:
        free(found)
        raise MemoryError
    columns, probs = numpy.empty((4, count), dtype=numpy.int32), numpy.empty(count, dtype=numpy.float32)
    cdef int32_t[:, ::1] out = columns
    cdef float[::1] out_probs = probs
    for s in range(<int64_t>count):
        out[0, s], out[1, s], out[2, s] = found[s].begin, found[s].end, found[s].symbol
        out[3, s], out_probs[s] = found[s].is_best, found[s].prob
    free(found)
    begin, end, symbol, best = columns
    return starts_out, begin, end, symbol, probs, best.astype(numpy.uint8)


cdef int _kept(
    const Chart *chart, int i, int j, bint in_tree, double threshold, Item *found
) noexcept nogil:
    """Write the items of a span. RETURNS: How many."""
    cdef int x, best = -1, count = 0, k = chart.n_symbols[j - i == 1]
    cdef int offset = chart.n_symbols[1] if j - i > 1 else 0
    cdef const float *score = _row(chart, i, j)
    cdef double post = chart.post[_place(chart, i, j)], total = chart.total[cell_of(chart.n, i, j - i)]
    if post < threshold and not in_tree:
        return 0
    if in_tree:
        for x in range(k):
            if best < 0 or score[x] > score[best]:
                best = x
    for x in range(k):
        if x != best and (score[x] - total < -30 or post * exp(score[x] - total) < threshold):
            continue
        found[count].begin, found[count].end, found[count].symbol = i, j, x + offset
        found[count].is_best, found[count].prob = x == best, <float>(post * exp(score[x] - total))
        count += 1
    return count


cdef uint8_t *_best_tree(const Chart *chart, Arena *arena) noexcept nogil:
    """Which spans are in the tree with the greatest sum of posteriors of spans; NULL without memory."""
    cdef int n = chart.n, i, j, k, width, best_k
    cdef size_t n_places = <size_t>(n + 1) * (n + 1)
    cdef double *best = <double *>take(arena, n_places * sizeof(double))
    cdef int32_t *split = <int32_t *>take(arena, n_places * sizeof(int32_t))
    cdef uint8_t *result = <uint8_t *>take_zeros(arena, n_places)
    cdef double value
    if best == NULL or split == NULL or result == NULL:
        return NULL
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j, best_k, value = i + width, 0, 0
            for k in range(i + 1, j):
                if not best_k or best[_place(chart, i, k)] + best[_place(chart, k, j)] > value:
                    best_k, value = k, best[_place(chart, i, k)] + best[_place(chart, k, j)]
            split[_place(chart, i, j)] = best_k
            best[_place(chart, i, j)] = value + (chart.post[_place(chart, i, j)] if width > 1 else 0)
    result[n] = 1
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            if result[_place(chart, i, i + width)]:
                k = split[_place(chart, i, i + width)]
                result[_place(chart, i, k)] = result[_place(chart, k, i + width)] = 1
    return result


def learn(
    FeatureTable table not None, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None,
    const int64_t[::1] node_starts not None, const int32_t[::1] begin not None, const int32_t[::1] end not None,
    const int32_t[::1] symbol not None, const int32_t[::1] order not None, double rate,
):
    """Improve the likelihood of the nodes of gold trees, one sentence after the other. Gives the
    negative log-likelihood."""
    cdef Arena arena
    cdef Context c
    cdef Chart chart
    cdef int o, n, i, j, size = max(table.n_words, table.n_phrases) + 1, failed = 0
    cdef int64_t s, x
    cdef int32_t *gold
    cdef float *gradient
    cdef double loss = 0
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for o in range(order.shape[0]):
            s = order[o]
            n = starts[s + 1] - starts[s]
            arena_reset(&arena)
            gold = <int32_t *>take(&arena, <size_t>(n + 1) * (n + 1) * sizeof(int32_t))
            gradient = <float *>take(&arena, size * sizeof(float))
            failed = gold == NULL or gradient == NULL or _fill(table, tokens, starts[s], n, &c, &chart, &arena)
            if failed:
                break
            loss += chart.inside[n]
            for i in range((n + 1) * (n + 1)):
                gold[i] = -1
            for x in range(node_starts[s], node_starts[s + 1]):
                i = _place(&chart, begin[x], end[x])
                gold[i] = symbol[x] - (table.n_words if end[x] - begin[x] > 1 else 0)
                loss -= _row(&chart, begin[x], end[x])[gold[i]]
            table.n_steps += 1
            memset(c.left, 0, c.size)
            for i in range(n):
                _follow(table, &c, &chart, i, i + 1, gold, gradient, rate)
            for i in range(n):
                for j in range(i + 2, n + 1):
                    _follow(table, &c, &chart, i, j, gold, gradient, rate)
            table.follow_ends(&c, rate)
        arena_free(&arena)
    if failed:
        raise MemoryError
    return loss


cdef void _follow(
    FeatureTable table, const Context *c, const Chart *chart, int i, int j, const int32_t *gold, float *gradient,
    double rate
) noexcept nogil:
    """Follow the gradient of a span."""
    cdef int x, k = chart.n_symbols[j - i == 1], right = gold[_place(chart, i, j)]
    cdef const float *score = _row(chart, i, j)
    # every tree has all words
    cdef double post = chart.post[_place(chart, i, j)] if j - i > 1 else 1, value
    if post < 1e-4 and right < 0:
        return
    value = chart.total[cell_of(chart.n, i, j - i)] - log(max(post, 1e-30))
    for x in range(k):
        gradient[x] = -exp(score[x] - value) if score[x] - value > -14 else 0
    gradient[k] = -post
    if right >= 0:
        gradient[right] += 1
        gradient[k] += 1
    table.follow(c, i, j, gradient, rate)
