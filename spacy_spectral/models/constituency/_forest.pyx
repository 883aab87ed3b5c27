# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Forests of binary trees: which items can be joined by rules, and sums and best trees over them.

An item is a symbol over a span. The items of a sentence are in order of width, then of where they begin, so that
children come before their parents. An edge joins two neighbours by a rule to a wider item; the edges of an item
are next to each other. Everything is a flat array over all sentences of a batch.

Sums are in logarithms, so that sentences of any length are the same to them:

    in(x) = s(x) + log sum_{e: x -> y z} exp(s(e) + in(y) + in(z))          in(word) = s(word)
    log Z = log sum_{x over everything} exp(r(x) + in(x))

They are those of `forest/_hypergraph`: in the hypergraph of a sentence a word is made by an edge without parts,
and the goal by one for every item that covers everything.
"""
from libc.math cimport INFINITY, NAN, exp, isfinite, isnan, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take
from ...forest._hypergraph cimport NOTHING, graph_inside, graph_k_best, graph_outside


cdef struct Edge:
    int32_t left
    int32_t right
    int32_t rule
    int32_t parent


def connect(
    const int64_t[::1] starts not None, const int32_t[::1] begin not None,
    const int32_t[::1] end not None, const int32_t[::1] symbol not None, const uint8_t[::1] strong not None,
    const int32_t[::1] lengths not None, const int32_t[::1] pair_start not None,
    const int32_t[::1] pair_rule not None, const int32_t[::1] pair_parent not None,
    const uint8_t[::1] pair_seen not None, int n_symbols,
):
    """Find all edges between items.

    starts (int64[sentences + 1]): Where the items of sentences start.
    begin, end, symbol (int32[items]): The items, `end` exclusive.
    strong (uint8[items]): Items that may be joined by rules that were not seen.
    lengths (int32[sentences]): The numbers of words.
    pair_start (int32[symbols * symbols + 1]), pair_rule, pair_parent (int32[rules]): For every pair of
        children, the rules that join them, and their parents.
    pair_seen (uint8[rules]): Whether rules were seen; of a pair, those come first.
    RETURNS (Tuple[ndarray, ...]): edge_starts (int64[items + 1]), left, right, rule (int32[edges]). An item that
        is wider than a word and has no edges stands for no tree.
    """
    cdef int64_t s, x, y, z, first, last, base, item
    cdef int i, j, k, width, n, a, failed = 0
    cdef int64_t n_cells, cell, lcell, rcell
    cdef int64_t p
    cdef int64_t total_items = begin.shape[0]
    cdef size_t e, n_edges = 0, room_of_edges = 0
    cdef Edge *edges = NULL
    cdef void *block
    cdef int64_t *cells = NULL
    cdef int32_t *here = <int32_t *>malloc(n_symbols * sizeof(int32_t))
    cdef int64_t room = 0
    edge_starts = numpy.zeros(total_items + 1, dtype=numpy.int64)
    cdef int64_t[::1] out_starts = edge_starts
    alive_array = numpy.zeros(total_items, dtype=numpy.uint8)
    cdef uint8_t[::1] alive = alive_array
    if here == NULL:
        raise MemoryError
    for a in range(n_symbols):
        here[a] = -1
    with nogil:
        for s in range(lengths.shape[0]):
            n = lengths[s]
            first, last = starts[s], starts[s + 1]
            n_cells = <int64_t>n * (n + 1) // 2
            if n_cells + 1 > room:
                free(cells)
                room = 2 * n_cells + 1
                cells = <int64_t *>malloc(room * sizeof(int64_t))
                if cells == NULL:
                    failed = 1
                    break
            # cells are numbered as items are sorted: by width, then by begin
            cell = 0
            x = first
            for width in range(1, n + 1):
                for i in range(n - width + 1):
                    cells[cell] = x
                    cell += 1
                    while x < last and begin[x] == i and end[x] - begin[x] == width:
                        x += 1
            cells[cell] = x
            for x in range(cells[0], cells[n] if n else cells[0]):
                alive[x] = 1
            cell = n
            for width in range(2, n + 1):
                for i in range(n - width + 1):
                    if cells[cell] == cells[cell + 1]:
                        cell += 1
                        continue
                    for x in range(cells[cell], cells[cell + 1]):
                        here[symbol[x]] = <int32_t>x
                    j = i + width
                    for k in range(i + 1, j):
                        lcell = cell_of(n, i, k - i)
                        rcell = cell_of(n, k, j - k)
                        for y in range(cells[lcell], cells[lcell + 1]):
                            if not alive[y]:
                                continue
                            base = <int64_t>symbol[y] * n_symbols
                            for z in range(cells[rcell], cells[rcell + 1]):
                                if not alive[z]:
                                    continue
                                for p in range(pair_start[base + symbol[z]], pair_start[base + symbol[z] + 1]):
                                    item = here[pair_parent[p]]
                                    if not pair_seen[p]:
                                        if not (strong[y] and strong[z]):
                                            break
                                        if item < 0 or not strong[item]:
                                            continue
                                    if item < 0:
                                        continue
                                    if n_edges == room_of_edges:
                                        room_of_edges = 2 * room_of_edges + 1024
                                        block = realloc(edges, room_of_edges * sizeof(Edge))
                                        if block == NULL:
                                            failed = 1
                                            break
                                        edges = <Edge *>block
                                    edges[n_edges].left, edges[n_edges].right = <int32_t>y, <int32_t>z
                                    edges[n_edges].rule = pair_rule[p]
                                    edges[n_edges].parent = <int32_t>item
                                    n_edges += 1
                                    alive[item] = 1
                                    out_starts[item + 1] += 1
                    for x in range(cells[cell], cells[cell + 1]):
                        here[symbol[x]] = -1
                    cell += 1
            if failed:
                break
        for x in range(total_items):
            out_starts[x + 1] += out_starts[x]
    free(cells)
    free(here)
    if failed:
        free(edges)
        raise MemoryError
    left, right, rule = (numpy.empty(n_edges, dtype=numpy.int32) for _ in range(3))
    cdef int32_t[::1] out_left = left, out_right = right, out_rule = rule
    place = edge_starts.copy()
    cdef int64_t[::1] at = place
    with nogil:
        for e in range(n_edges):
            x = at[edges[e].parent]
            at[edges[e].parent] += 1
            out_left[x], out_right[x], out_rule[x] = edges[e].left, edges[e].right, edges[e].rule
    free(edges)
    return edge_starts, left, right, rule


def reach(
    const int64_t[::1] starts not None, const uint8_t[::1] is_word not None,
    const uint8_t[::1] is_root not None, const int64_t[::1] edge_starts not None,
    const int32_t[::1] left not None, const int32_t[::1] right not None,
    const uint8_t[::1] keep_item not None, const uint8_t[::1] keep_edge not None,
):
    """Which items and edges are in a tree of those that are kept.

    RETURNS (Tuple[ndarray, ndarray]): bool, by item and by edge.
    """
    cdef int64_t x, e, n = is_word.shape[0]
    items = numpy.zeros(n, dtype=numpy.uint8)
    edges = numpy.zeros(left.shape[0], dtype=numpy.uint8)
    cdef uint8_t[::1] up = items, used = edges
    seen = numpy.zeros(n, dtype=numpy.uint8)
    cdef uint8_t[::1] down = seen
    with nogil:
        for x in range(n):
            if not keep_item[x]:
                continue
            if is_word[x]:
                up[x] = 1
            for e in range(edge_starts[x], edge_starts[x + 1]):
                if keep_edge[e] and up[left[e]] and up[right[e]]:
                    used[e] = 1
                    up[x] = 1
        for x in range(n - 1, -1, -1):
            if up[x] and is_root[x]:
                down[x] = 1
            for e in range(edge_starts[x], edge_starts[x + 1]):
                if used[e]:
                    if down[x]:
                        down[left[e]] = 1
                        down[right[e]] = 1
                    else:
                        used[e] = 0
            up[x] = down[x]
    return items.astype(bool), edges.astype(bool)


# Sums and best trees, by the hypergraph of every sentence.


cdef int pack(
    Packed *packed, int64_t first, int64_t last, int n, const int32_t *begin, const int32_t *end,
    const int64_t *edge_starts, const int32_t *left, const int32_t *right, const double *item_score,
    const double *edge_score, const double *root_score, Arena *arena
) noexcept nogil:
    cdef int64_t first_edge = edge_starts[first], x, e
    cdef size_t room = edge_starts[last] - first_edge + 2 * (last - first) + 1
    cdef int32_t *start = <int32_t *>take(arena, (last - first + 2) * sizeof(int32_t))
    cdef int32_t *columns = <int32_t *>take(arena, 5 * room * sizeof(int32_t))
    cdef int32_t m = 0
    packed.scores = <double *>take(arena, room * sizeof(double))
    if start == NULL or columns == NULL or packed.scores == NULL:
        return -1
    packed.first, packed.second, packed.slot = columns, columns + room, columns + 2 * room
    packed.edge, packed.item = columns + 3 * room, columns + 4 * room
    for x in range(first, last):
        start[x - first] = m
        if end[x] - begin[x] == 1:
            _add(packed, m, <int32_t>x, NOTHING, NOTHING, NOTHING, item_score[x])
            m += 1
        for e in range(edge_starts[x], edge_starts[x + 1]):
            # right before left: backwards, the order of derivations has children before parents
            _add(
                packed, m, <int32_t>x, <int32_t>e, <int32_t>(right[e] - first), <int32_t>(left[e] - first),
                item_score[x] + edge_score[e])
            m += 1
    start[last - first] = m
    for x in range(first, last):
        if end[x] - begin[x] == n:
            _add(
                packed, m, NOTHING, NOTHING, <int32_t>(x - first), NOTHING,
                root_score[x] if root_score != NULL else 0)
            m += 1
    start[last - first + 1] = m
    packed.graph.n_items, packed.graph.n_edges, packed.graph.n_slots = <int>(last - first + 1), m, m
    packed.graph.start, packed.graph.slot = start, packed.slot
    packed.graph.first, packed.graph.second = packed.first, packed.second
    return 0


cdef inline void _add(
    Packed *packed, int32_t m, int32_t item, int32_t edge, int32_t first, int32_t second, double score
) noexcept nogil:
    packed.item[m], packed.edge[m], packed.slot[m] = item, edge, m
    packed.first[m], packed.second[m], packed.scores[m] = first, second, score


cdef double sum_up(
    const Packed *packed, int64_t first, double *post, double *edge_post, Arena *arena
) noexcept nogil:
    cdef int n_items = packed.graph.n_items, n_edges = packed.graph.n_edges, m
    cdef double *values = <double *>take(arena, 2 * n_items * sizeof(double))
    cdef double *shares = <double *>take(arena, 2 * (n_edges + 1) * sizeof(double))
    cdef double *mu_items = values + n_items
    cdef double *mu = shares + n_edges
    cdef double log_z
    if values == NULL or shares == NULL:
        return NAN
    log_z = graph_inside(&packed.graph, packed.scores, values, shares)
    if not isfinite(log_z):
        return -INFINITY
    graph_outside(&packed.graph, shares, mu_items, mu)
    for m in range(n_items - 1):
        post[first + m] = mu_items[m]
    for m in range(n_edges):
        if packed.edge[m] >= 0:
            edge_post[packed.edge[m]] = mu[m]
    return log_z


def inside_outside(
    const int64_t[::1] starts not None, const int32_t[::1] lengths not None, const int32_t[::1] begin not None,
    const int32_t[::1] end not None, const int64_t[::1] edge_starts not None,
    const int32_t[::1] left not None, const int32_t[::1] right not None, const double[::1] item_score not None,
    const double[::1] edge_score not None, const double[::1] root_score not None,
):
    """Posteriors of items and edges.

    item_score, edge_score, root_score (float64): What items and edges add to the score of a tree, and items as
        its root.
    RETURNS (Tuple[ndarray, ndarray, ndarray]): log Z by sentence, -inf without a tree; posteriors of items and of
        edges.
    """
    cdef Arena arena
    cdef Packed packed
    cdef int64_t s
    cdef int failed = 0
    posteriors, edge_posteriors = numpy.zeros(begin.shape[0]), numpy.zeros(left.shape[0])
    log_zs = numpy.full(lengths.shape[0], -numpy.inf)
    cdef double[::1] post = posteriors, edge_post = edge_posteriors, out_z = log_zs
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(lengths.shape[0]):
            if starts[s] == starts[s + 1]:
                continue
            arena_reset(&arena)
            failed = pack(
                &packed, starts[s], starts[s + 1], lengths[s], &begin[0], &end[0], &edge_starts[0], &left[0],
                &right[0], &item_score[0], &edge_score[0], &root_score[0], &arena)
            if not failed:
                out_z[s] = sum_up(&packed, starts[s], &post[0], &edge_post[0], &arena)
                failed = isnan(out_z[s])
            if failed:
                break
        arena_free(&arena)
    if failed:
        raise MemoryError
    return log_zs, posteriors, edge_posteriors


def best_trees(
    const int64_t[::1] starts not None, const int32_t[::1] lengths not None, const int32_t[::1] begin not None,
    const int32_t[::1] end not None, const int64_t[::1] edge_starts not None,
    const int32_t[::1] left not None, const int32_t[::1] right not None, const double[::1] item_score not None,
    const double[::1] edge_score not None, const double[::1] root_score not None, int k,
):
    """The k trees of every sentence with the greatest sums of scores, best first.

    RETURNS (List[List[Tuple[List[int], float]]]): By sentence, the items of each tree, children before parents and
        left before right, and its score; fewer than k if there are fewer.
    """
    cdef Arena arena
    cdef Packed packed
    cdef int64_t s
    cdef int t, m, n = 0
    cdef int32_t **edges
    cdef int *sizes
    cdef double *found
    result = []
    memset(&arena, 0, sizeof(arena))
    try:
        for s in range(lengths.shape[0]):
            result.append([])
            if starts[s] == starts[s + 1]:
                continue
            with nogil:
                arena_reset(&arena)
                edges = <int32_t **>take(&arena, k * sizeof(int32_t *))
                sizes = <int *>take(&arena, k * sizeof(int))
                found = <double *>take(&arena, k * sizeof(double))
                n = -1
                if edges != NULL and sizes != NULL and found != NULL and not pack(
                    &packed, starts[s], starts[s + 1], lengths[s], &begin[0], &end[0], &edge_starts[0], &left[0],
                    &right[0], &item_score[0], &edge_score[0], &root_score[0], &arena
                ):
                    n = graph_k_best(&packed.graph, packed.scores, k, found, edges, sizes, &arena)
            if n < 0:
                raise MemoryError
            for t in range(n):
                # the first edge is that of the goal
                tree = [packed.item[edges[t][m]] for m in range(sizes[t] - 1, 0, -1)]
                result[s].append((tree, found[t]))
    finally:
        arena_free(&arena)
    return result


# The chart of a plain grammar, only to find out which items are worth a second look.
#
# Cells hold the few symbols that are not hopeless, relative to the best of the cell, and a scale, so that
# sentences of any length are the same. Posteriors are handed down from parents to children: the share of a pair of
# children in the inside value of its parent is its share in the posterior.


cdef struct CoarseChart:
    int32_t *symbol
    double *value
    double *post
    size_t n
    size_t room


cdef int _make_room(CoarseChart *chart, size_t needed) noexcept nogil:
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
    cdef CoarseChart chart
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
                if _make_room(&chart, n_active):
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


cdef object _kept(CoarseChart *chart, int64_t *cells, int n, double threshold, double log_z):
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
