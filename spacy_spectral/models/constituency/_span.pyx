# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A conditional random field over labelled spans.

Every tree of binary brackets over a sentence is possible, and every span of it has any symbol:

    score(tree) = sum over its spans s(i, j, symbol)
    in(i, j) = log sum_l exp s(i, j, l) + log sum_k exp(in(i, k) + in(k, j))

which takes N^3 + N^2 L steps. Posteriors are handed down: each split has its share in that of its span. Scores are
those of a table of features, or given: of a network.
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
    const float *score[2]  # of wider spans, in the order of cells, and of words
    int size[2]  # of their rows
    double *total  # [cells], log sum over symbols
    double *inside  # [n + 1, n + 1]
    double *post


cdef inline int _place(const Chart *chart, int i, int j) noexcept nogil:
    return i * (chart.n + 1) + j


cdef inline const float *_row(const Chart *chart, int i, int j) noexcept nogil:
    if j - i == 1:
        return chart.score[1] + <int64_t>i * chart.size[1]
    return chart.score[0] + (cell_of(chart.n, i, j - i) - chart.n) * chart.size[0]


cdef int _fill(
    FeatureTable table, const int32_t[:, ::1] tokens, int64_t first, int n, Context *c, Chart *chart, Arena *arena
) noexcept nogil:
    """Score a sentence by a table, and sum over its trees. RETURNS: 0, or another number without memory."""
    cdef int i, width, size = max(table.n_words, table.n_phrases) + 1
    cdef int64_t cell = 0
    cdef float *score = <float *>take(arena, <size_t>n * (n + 1) // 2 * size * sizeof(float))
    if score == NULL or table.context(c, tokens, first, n, arena):
        return -1
    table.score_ends(c)
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            table.score(c, i, i + width, &score[cell * size])
            cell += 1
    chart.n_symbols[0], chart.n_symbols[1] = table.n_phrases, table.n_words
    chart.size[0] = chart.size[1] = size
    chart.score[0], chart.score[1] = &score[<int64_t>n * size], score
    return _sum_up(n, chart, arena)


cdef int _sum_up(int n, Chart *chart, Arena *arena) noexcept nogil:
    """All sums over the trees of a sentence whose scores are there. RETURNS: 0, or another number without memory."""
    cdef int i, j, k, width
    cdef int64_t cell = 0
    cdef size_t n_places = <size_t>(n + 1) * (n + 1)
    cdef double best, total, share
    cdef double *inside
    cdef double *post
    cdef double *values = <double *>take(arena, (n + 1) * sizeof(double))
    chart.n = n
    chart.total = <double *>take(arena, <size_t>n * (n + 1) // 2 * sizeof(double))
    chart.inside = inside = <double *>take(arena, n_places * sizeof(double))
    chart.post = post = <double *>take_zeros(arena, n_places * sizeof(double))
    if values == NULL or chart.total == NULL or inside == NULL or post == NULL:
        return -1
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            chart.total[cell] = _log_sum(_row(chart, i, j), chart.n_symbols[width == 1])
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


cdef class _Items:
    """Items that were found, sentence by sentence."""

    cdef Item *found
    cdef size_t count, room

    def __dealloc__(self):
        free(self.found)

    cdef int add(self, const Chart *chart, double threshold, Arena *arena) noexcept nogil:
        """Add those of a sentence. RETURNS: 0, or another number without memory."""
        cdef int n = chart.n, i, j, width
        cdef void *block
        cdef uint8_t *in_tree = _best_tree(chart, arena)
        if in_tree == NULL:
            return -1
        for width in range(1, n + 1):
            for i in range(n - width + 1):
                j = i + width
                # room for all symbols of a cell
                block = grown(self.found, &self.room, self.count + chart.n_symbols[width == 1], sizeof(Item))
                if block == NULL:
                    return -1
                self.found = <Item *>block
                self.count += _kept(
                    chart, i, j, in_tree[_place(chart, i, j)], threshold, &self.found[self.count])
        return 0

    def columns(self, starts):
        columns = numpy.empty((4, self.count), dtype=numpy.int32)
        probs = numpy.empty(self.count, dtype=numpy.float32)
        cdef int32_t[:, ::1] out = columns
        cdef float[::1] out_probs = probs
        cdef size_t x
        for x in range(self.count):
            out[0, x], out[1, x], out[2, x] = self.found[x].begin, self.found[x].end, self.found[x].symbol
            out[3, x], out_probs[x] = self.found[x].is_best, self.found[x].prob
        begin, end, symbol, best = columns
        return starts, begin, end, symbol, probs, best.astype(numpy.uint8)


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
    cdef int n, failed = 0
    cdef _Items found = _Items()
    starts_out = numpy.zeros(starts.shape[0], dtype=numpy.int64)
    cdef int64_t[::1] out_starts = starts_out
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            arena_reset(&arena)
            if n:
                failed = (
                    _fill(table, tokens, starts[s], n, &c, &chart, &arena)
                    or found.add(&chart, threshold, &arena))
            if failed:
                break
            out_starts[s + 1] = found.count
        arena_free(&arena)
    if failed:
        raise MemoryError
    return found.columns(starts_out)


cdef void _point(
    Chart *chart, const float[:, ::1] words, const float[:, ::1] phrases, int64_t first_word, int64_t first_span
) noexcept nogil:
    """Let a chart have the scores of a sentence out of those of all."""
    chart.n_symbols[0] = chart.size[0] = <int>phrases.shape[1]
    chart.n_symbols[1] = chart.size[1] = <int>words.shape[1]
    chart.score[0] = &phrases[0, 0] + first_span * phrases.shape[1]
    chart.score[1] = &words[0, 0] + first_word * words.shape[1]


def given_items(
    const float[:, ::1] words not None, const float[:, ::1] phrases not None, const int64_t[::1] starts not None,
    double threshold
):
    """What `items` gives, for spans whose scores are known.

    words (float32[words, symbols of words]), phrases (float32[wider spans, symbols of phrases]): The scores, of
        all sentences in turn; the spans of a sentence are in the order of cells.
    """
    cdef Arena arena
    cdef Chart chart
    cdef int64_t s, span = 0
    cdef int n, failed = 0
    cdef _Items found = _Items()
    starts_out = numpy.zeros(starts.shape[0], dtype=numpy.int64)
    cdef int64_t[::1] out_starts = starts_out
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            arena_reset(&arena)
            if n:
                _point(&chart, words, phrases, starts[s], span)
                failed = _sum_up(n, &chart, &arena) or found.add(&chart, threshold, &arena)
                span += <int64_t>n * (n - 1) // 2
            if failed:
                break
            out_starts[s + 1] = found.count
        arena_free(&arena)
    if failed:
        raise MemoryError
    return found.columns(starts_out)


def given_gradient(
    const float[:, ::1] words not None, const float[:, ::1] phrases not None, const int64_t[::1] starts not None,
    const int32_t[::1] begin not None, const int32_t[::1] end not None, const int32_t[::1] symbol not None,
    double least
):
    """The negative log-likelihood of gold trees, given the scores of all spans; see `given_items`.

    begin, end, symbol (int32[nodes]): The nodes of the trees: 2n - 1 of a sentence of n words.
    least: The gradient is 0 at spans that are less probable, and not gold.
    RETURNS (Tuple[float, ndarray, ndarray, ndarray]): It, its gradients for the scores of words and of those wider
        spans where it is not 0, and which these are (int64): P(span, symbol) - [gold].
    """
    cdef Arena arena
    cdef Chart chart
    cdef int64_t s, span = 0, x = 0, row, n_rows = 0, cell
    cdef int n, i, j, width, y, k, failed = 0
    cdef int32_t *gold
    cdef double loss = 0, post, total
    cdef const float *score
    cdef float *out
    gradient_words = numpy.zeros((words.shape[0], words.shape[1]), dtype=numpy.float32)
    chosen = numpy.empty(phrases.shape[0], dtype=numpy.int64)
    gradients = numpy.empty((phrases.shape[0], phrases.shape[1]), dtype=numpy.float32)
    cdef float[:, ::1] of_words = gradient_words, of_phrases = gradients
    cdef int64_t[::1] rows = chosen
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            if n == 0:
                continue
            arena_reset(&arena)
            _point(&chart, words, phrases, starts[s], span)
            gold = <int32_t *>take(&arena, <size_t>n * (n + 1) // 2 * sizeof(int32_t))
            failed = gold == NULL or _sum_up(n, &chart, &arena)
            if failed:
                break
            for cell in range(<int64_t>n * (n + 1) // 2):
                gold[cell] = -1
            loss += chart.inside[n]
            for x in range(2 * starts[s] - s, 2 * starts[s + 1] - s - 1):
                i, width = begin[x], end[x] - begin[x]
                y = symbol[x] - (chart.n_symbols[1] if width > 1 else 0)
                gold[cell_of(n, i, width)] = y
                loss -= _row(&chart, i, end[x])[y]
            cell = 0
            for width in range(1, n + 1):
                for i in range(n - width + 1):
                    j = i + width
                    post = chart.post[_place(&chart, i, j)] if width > 1 else 1
                    if post >= least or gold[cell] >= 0:
                        if width == 1:
                            out = &of_words[starts[s] + i, 0]
                        else:
                            out = &of_phrases[n_rows, 0]
                            rows[n_rows] = span + cell - n
                            n_rows += 1
                        score, k = _row(&chart, i, j), chart.n_symbols[width == 1]
                        total = chart.total[cell] - log(max(post, 1e-30))
                        for y in range(k):
                            out[y] = <float>exp(score[y] - total) if score[y] - total > -16 else 0
                        if gold[cell] >= 0:
                            out[gold[cell]] -= 1
                    cell += 1
            span += <int64_t>n * (n - 1) // 2
        arena_free(&arena)
    if failed:
        raise MemoryError
    return loss, gradient_words, gradients[:n_rows], chosen[:n_rows]


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
