# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A conditional random field over labelled spans.

Every tree of binary brackets over a sentence is possible, and every span of it has any symbol:

    score(tree) = sum over its spans s(i, j, symbol)
    in(i, j) = log sum_l exp s(i, j, l) + log sum_k exp(in(i, k) + in(k, j))

which takes N^3 + N^2 L steps. Posteriors are handed down: each split has its share in that of its span.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._table cimport Context, FeatureTable


cdef struct Chart:
    int n
    float *score  # [spans, symbols of phrases]
    float *word_score  # [n, symbols of words]
    double *total  # [spans, then words] log sum over symbols
    double *inside  # [n + 1, n + 1]
    double *post
    float *left  # [n + 1, symbols of phrases + 1], the last for any symbol
    float *right
    double log_z


cdef inline int64_t _span(int n, int i, int j) noexcept nogil:
    """The number of a span of at least two words, those that begin at i next to each other."""
    return <int64_t>i * (2 * n - i - 1) // 2 + j - i - 2


cdef int _score(FeatureTable table, const Context *c, Chart *chart, Arena *arena) noexcept nogil:
    """All scores of a sentence. RETURNS (int): 0, or -1 without memory."""
    cdef int n = c.n, i, j, p, L = table.n_phrases
    cdef int64_t n_spans = <int64_t>n * (n - 1) // 2, s = 0
    cdef float *scratch = <float *>take(arena, (L + 1) * sizeof(float))
    chart.n = n
    chart.score = <float *>take(arena, n_spans * L * sizeof(float))
    chart.word_score = <float *>take(arena, n * table.n_words * sizeof(float))
    chart.left = <float *>take(arena, (n + 1) * (L + 1) * sizeof(float))
    chart.right = <float *>take(arena, (n + 1) * (L + 1) * sizeof(float))
    if (scratch == NULL or chart.score == NULL or chart.word_score == NULL or chart.left == NULL
            or chart.right == NULL):
        return -1
    for p in range(n):
        table.score_word(c, p, &chart.word_score[p * table.n_words])
    table.score_ends(c, chart.left, chart.right)
    for i in range(n):
        for j in range(i + 2, n + 1):
            table.score_span(c, i, j, chart.left, chart.right, scratch)
            memcpy(&chart.score[s * L], scratch, L * sizeof(float))
            s += 1
    return 0


cdef int _inside(FeatureTable table, Chart *chart, Arena *arena) noexcept nogil:
    cdef int n = chart.n, i, j, k, width
    cdef int64_t n_spans = <int64_t>n * (n - 1) // 2, s
    cdef double best, total, value
    cdef double *values
    chart.total = <double *>take(arena, (n_spans + n) * sizeof(double))
    # one number for words, too: [i * (n + 1) + j]
    chart.inside = <double *>take(arena, <size_t>(n + 1) * (n + 1) * sizeof(double))
    chart.post = <double *>take_zeros(arena, <size_t>(n + 1) * (n + 1) * sizeof(double))
    values = <double *>take(arena, (n + 1) * sizeof(double))
    if chart.total == NULL or chart.inside == NULL or chart.post == NULL or values == NULL:
        return -1
    for i in range(n):
        chart.total[n_spans + i] = _log_sum(&chart.word_score[i * table.n_words], table.n_words)
        chart.inside[i * (n + 1) + i + 1] = chart.total[n_spans + i]
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            best = -INFINITY
            for k in range(i + 1, j):
                values[k] = chart.inside[i * (n + 1) + k] + chart.inside[k * (n + 1) + j]
                best = max(best, values[k])
            total = 0
            for k in range(i + 1, j):
                value = values[k] - best
                if value > -30:
                    total += exp(value)
            s = _span(n, i, j)
            chart.total[s] = _log_sum(&chart.score[s * table.n_phrases], table.n_phrases)
            chart.inside[i * (n + 1) + j] = best + log(total) + chart.total[s]
    chart.log_z = chart.inside[n]
    return 0


cdef void _outside(FeatureTable table, Chart *chart) noexcept nogil:
    cdef int n = chart.n, i, j, k, width
    cdef double value, share
    chart.post[n] = 1
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            if chart.post[i * (n + 1) + j] < 1e-7:
                continue
            value = (log(chart.post[i * (n + 1) + j]) + chart.total[_span(n, i, j)]
                     - chart.inside[i * (n + 1) + j])
            for k in range(i + 1, j):
                share = value + chart.inside[i * (n + 1) + k] + chart.inside[k * (n + 1) + j]
                if share > -20:
                    share = exp(share)
                    chart.post[i * (n + 1) + k] += share
                    chart.post[k * (n + 1) + j] += share


cdef int _fill(
    FeatureTable table, const int32_t *tokens, int n, Context *c, Chart *chart, Arena *arena
) noexcept nogil:
    """All sums over the trees of a sentence. RETURNS (int): 0, or another number without memory."""
    if table.context(c, tokens, n, arena) or _score(table, c, chart, arena) or _inside(table, chart, arena):
        return -1
    _outside(table, chart)
    return 0


def items(FeatureTable table not None, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None, double threshold):
    """The items of sentences with at least some posterior, and the best trees of all.

    tokens (int32[words, columns]): The attributes of words.
    starts (int64[sentences + 1]): Where sentences start.
    threshold (float): The least posterior of items.
    RETURNS (Tuple[ndarray, ...]): starts (int64[sentences + 1]); begin, end, symbol (int32[items]); posterior
        (float32[items]); whether they are in the best tree (uint8[items]). Items are in the order of forests. The
        best tree has the greatest sum of posteriors of spans, each with its best symbol; it is always there.
    """
    cdef Arena arena
    cdef Context c
    cdef Chart chart
    cdef int64_t s, first
    cdef int n, i, j, k, width, x, failed = 0, best_x, offset = table.n_words
    cdef size_t count = 0, room = 0
    cdef int32_t *found = NULL
    cdef float *probs = NULL
    cdef double post, value
    cdef float best_value
    cdef float *score
    cdef void *block
    cdef uint8_t *in_tree
    starts_out = numpy.zeros(starts.shape[0], dtype=numpy.int64)
    cdef int64_t[::1] out_starts = starts_out
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            first = starts[s]
            n = starts[s + 1] - first
            if n > 0:
                arena_reset(&arena)
                failed = _fill(table, &tokens[first, 0], n, &c, &chart, &arena)
                if failed:
                    break
                in_tree = _best_tree(table, &chart, &arena)
                if in_tree == NULL:
                    failed = 1
                    break
                for width in range(1, n + 1):
                    for i in range(n - width + 1):
                        j = i + width
                        post = chart.post[i * (n + 1) + j]
                        if post < threshold and not in_tree[i * (n + 1) + j]:
                            continue
                        k = table.n_words if width == 1 else table.n_phrases
                        if width == 1:
                            score = &chart.word_score[i * k]
                            value = chart.total[<int64_t>n * (n - 1) // 2 + i]
                        else:
                            score = &chart.score[_span(n, i, j) * k]
                            value = chart.total[_span(n, i, j)]
                        best_x, best_value = -1, -INFINITY
                        if in_tree[i * (n + 1) + j]:
                            for x in range(k):
                                if score[x] > best_value:
                                    best_value, best_x = score[x], x
                        for x in range(k):
                            if x != best_x and (
                                    score[x] - value < -30 or post * exp(score[x] - value) < threshold):
                                continue
                            if count == room:
                                room = 2 * room + 4096
                                block = realloc(found, 4 * room * sizeof(int32_t))
                                if block == NULL:
                                    failed = 1
                                    break
                                found = <int32_t *>block
                                block = realloc(probs, room * sizeof(float))
                                if block == NULL:
                                    failed = 1
                                    break
                                probs = <float *>block
                            found[4 * count] = i
                            found[4 * count + 1] = j
                            found[4 * count + 2] = x + (offset if width > 1 else 0)
                            found[4 * count + 3] = x == best_x
                            probs[count] = <float>(post * exp(score[x] - value))
                            count += 1
                        if failed:
                            break
                    if failed:
                        break
            if failed:
                break
            out_starts[s + 1] = count
        arena_free(&arena)
    if failed:
        free(found); free(probs)
        raise MemoryError
    columns = numpy.empty((count, 4), dtype=numpy.int32)
    posteriors = numpy.empty(count, dtype=numpy.float32)
    cdef int32_t[:, ::1] out_table = columns
    cdef float[::1] out_probs = posteriors
    if count:
        memcpy(&out_table[0, 0], found, 4 * count * sizeof(int32_t))
        memcpy(&out_probs[0], probs, count * sizeof(float))
    free(found); free(probs)
    begin, end, symbol, best = (numpy.ascontiguousarray(columns[:, x]) for x in range(4))
    return starts_out, begin, end, symbol, posteriors, best.astype(numpy.uint8)


cdef uint8_t *_best_tree(FeatureTable table, Chart *chart, Arena *arena) noexcept nogil:
    """Which spans are in the tree with the greatest sum of posteriors of spans; NULL without memory."""
    cdef int n = chart.n, i, j, k, width, top = 0
    cdef double *best = <double *>take(arena, <size_t>(n + 1) * (n + 1) * sizeof(double))
    cdef int32_t *split = <int32_t *>take(arena, <size_t>(n + 1) * (n + 1) * sizeof(int32_t))
    cdef uint8_t *result = <uint8_t *>take_zeros(arena, <size_t>(n + 1) * (n + 1))
    cdef int32_t *stack = <int32_t *>take(arena, 4 * (n + 1) * sizeof(int32_t))
    cdef double value
    if best == NULL or split == NULL or result == NULL or stack == NULL:
        return NULL
    for i in range(n):
        best[i * (n + 1) + i + 1] = 0
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            best[i * (n + 1) + j] = -1
            for k in range(i + 1, j):
                value = best[i * (n + 1) + k] + best[k * (n + 1) + j]
                if value > best[i * (n + 1) + j]:
                    best[i * (n + 1) + j] = value
                    split[i * (n + 1) + j] = k
            best[i * (n + 1) + j] += chart.post[i * (n + 1) + j]
    stack[0], stack[1], top = 0, n, 1
    while top:
        top -= 1
        i, j = stack[2 * top], stack[2 * top + 1]
        result[i * (n + 1) + j] = 1
        if j - i > 1:
            k = split[i * (n + 1) + j]
            stack[2 * top], stack[2 * top + 1] = i, k
            stack[2 * top + 2], stack[2 * top + 3] = k, j
            top += 2
    return result


def learn(
    FeatureTable table not None, const int32_t[:, ::1] tokens not None, const int64_t[::1] starts not None,
    const int64_t[::1] node_starts not None, const int32_t[::1] begin not None, const int32_t[::1] end not None,
    const int32_t[::1] symbol not None, const int32_t[::1] order not None, double rate, bint update=True,
):
    """Improve the likelihood of trees, one sentence after the other.

    node_starts (int64[sentences + 1]), begin, end, symbol (int32[nodes]): The nodes of gold trees.
    order (int32[]): Which sentences, and in which order.
    rate (float): The rate of AdaGrad.
    update (bool): Whether to change anything.
    RETURNS (float): The negative log-likelihood of the trees.
    """
    cdef Arena arena
    cdef Context c
    cdef Chart chart
    cdef int o, n, failed = 0
    cdef int64_t s, first
    cdef double loss = 0
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for o in range(order.shape[0]):
            s = order[o]
            first = starts[s]
            n = starts[s + 1] - first
            arena_reset(&arena)
            failed = _fill(table, &tokens[first, 0], n, &c, &chart, &arena)
            if failed:
                break
            loss += chart.log_z - _tree_score(table, 
                &chart, &begin[node_starts[s]], &end[node_starts[s]], &symbol[node_starts[s]], 2 * n - 1)
            if update:
                table.n_steps += 1
                failed = _step(table, 
                    &c, &chart, &begin[node_starts[s]], &end[node_starts[s]], &symbol[node_starts[s]], rate,
                    &arena)
                if failed:
                    break
        arena_free(&arena)
    if failed:
        raise MemoryError
    return loss


cdef double _tree_score(
    FeatureTable table, Chart *chart, const int32_t *begin, const int32_t *end, const int32_t *symbol, int n_nodes
) noexcept nogil:
    cdef int x, i, j, n = chart.n
    cdef double result = 0
    for x in range(n_nodes):
        i, j = begin[x], end[x]
        if j - i == 1:
            result += chart.word_score[i * table.n_words + symbol[x]]
        else:
            result += chart.score[_span(n, i, j) * table.n_phrases + symbol[x] - table.n_words]
    return result


cdef int _step(
    FeatureTable table, Context *c, Chart *chart, const int32_t *begin, const int32_t *end, const int32_t *symbol,
    double rate, Arena *arena
) noexcept nogil:
    cdef int n = c.n, i, j, x, p, L = table.n_phrases, W = table.n_words, width = table.n_phrases + 1
    cdef double post, value
    cdef float *gradient = <float *>take(arena, max(width, W + 1) * sizeof(float))
    cdef float *left = <float *>take_zeros(arena, (n + 1) * width * sizeof(float))
    cdef float *right = <float *>take_zeros(arena, (n + 1) * width * sizeof(float))
    cdef int32_t *gold = <int32_t *>take(arena, <size_t>(n + 1) * (n + 1) * sizeof(int32_t))
    cdef float *score
    if gradient == NULL or left == NULL or right == NULL or gold == NULL:
        return -1
    for i in range((n + 1) * (n + 1)):
        gold[i] = -1
    for x in range(2 * n - 1):
        gold[begin[x] * (n + 1) + end[x]] = symbol[x] - (W if end[x] - begin[x] > 1 else 0)
    for p in range(n):
        score = &chart.word_score[p * W]
        value = chart.total[<int64_t>n * (n - 1) // 2 + p]
        for x in range(W):
            gradient[x] = -exp(score[x] - value) if score[x] - value > -14 else 0
        gradient[gold[p * (n + 1) + p + 1]] += 1
        gradient[W] = 0
        table.update_word(c, p, gradient, rate)
    for i in range(n):
        for j in range(i + 2, n + 1):
            post = chart.post[i * (n + 1) + j]
            x = gold[i * (n + 1) + j]
            if post < 1e-4 and x < 0:
                continue
            score = &chart.score[_span(n, i, j) * L]
            value = chart.total[_span(n, i, j)] - log(max(post, 1e-30))
            gradient[L] = -post
            for p in range(L):
                gradient[p] = -exp(score[p] - value) if score[p] - value > -14 else 0
            if x >= 0:
                gradient[x] += 1
                gradient[L] += 1
            for p in range(width):
                left[i * width + p] += gradient[p]
                right[j * width + p] += gradient[p]
            table.update_span(c, i, j, gradient, rate)
    table.update_ends(c, left, right, rate)
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
