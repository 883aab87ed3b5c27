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
from libc.stdlib cimport free
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...forest._hypergraph cimport NOTHING, graph_inside, graph_k_best, graph_outside

from .statistics import Items


cdef struct Edge:
    int32_t left
    int32_t right
    int32_t rule
    int32_t parent


cdef class Forest:
    """Items and edges of all sentences of a batch, children before their parents. Immutable.

    lengths (ndarray): int32, the numbers of words of sentences.
    starts (ndarray): int64, where the items of sentences start, closed by the number of items.
    begin, end, symbol (ndarray): int32, by item.
    edge_starts (ndarray): int64, where the edges of items start, closed by the number of edges.
    left, right (ndarray): int32, by edge, items of the batch.
    rule (ndarray): int32, by edge.
    is_word, is_root (ndarray): uint8, by item.
    """

    def __init__(
        self, const int32_t[::1] lengths not None, const int64_t[::1] starts not None,
        const int32_t[::1] begin not None, const int32_t[::1] end not None, const int32_t[::1] symbol not None,
        const int64_t[::1] edge_starts not None, const int32_t[::1] left not None, const int32_t[::1] right not None,
        const int32_t[::1] rule not None,
    ):
        cdef const uint8_t[::1] is_word, is_root
        columns = map(numpy.asarray, (lengths, starts, begin, end, symbol, edge_starts, left, right, rule))
        self.lengths, self.starts, self.begin, self.end, self.symbol, *edges = columns
        self.edge_starts, self.left, self.right, self.rule = edges
        widths = self.end - self.begin
        self.is_word = (widths == 1).astype(numpy.uint8)
        self.is_root = (widths == numpy.repeat(self.lengths, numpy.diff(self.starts))).astype(numpy.uint8)
        is_word, is_root = self.is_word, self.is_root
        self.c.n_sentences, self.c.n_items, self.c.n_edges = len(lengths), len(begin), len(left)
        self.c.lengths, self.c.starts, self.c.edge_starts = &lengths[0], &starts[0], &edge_starts[0]
        self.c.begin, self.c.end, self.c.symbol = &begin[0], &end[0], &symbol[0]
        self.c.left, self.c.right, self.c.rule = &left[0], &right[0], &rule[0]
        self.c.is_word, self.c.is_root = &is_word[0], &is_root[0]

    def __len__(self):
        return self.c.n_sentences

    @property
    def items(self):
        return Items(self.starts, self.begin, self.end, self.symbol)

    @property
    def parent(self):
        """The parent of every edge."""
        return numpy.repeat(numpy.arange(len(self.begin)), numpy.diff(self.edge_starts))

    @staticmethod
    def build(pairs, lengths, items, strong=None):
        """All trees of some items, without items that are in none.

        pairs (RulePairs): The rules.
        lengths (ndarray): int32, the numbers of words of sentences.
        items (Items): The items.
        strong (Optional[ndarray]): uint8, items that may be joined by rules that were not seen.
        """
        strong = numpy.zeros(len(items.begin), dtype=numpy.uint8) if strong is None else strong
        forest = Forest(lengths, *items, *_connect(pairs, lengths, *items, strong))
        every = numpy.ones(len(items.begin), dtype=numpy.uint8)
        return forest.pruned(every, numpy.ones(len(forest.left), dtype=numpy.uint8))[0]

    def pruned(self, const uint8_t[::1] keep_item not None, const uint8_t[::1] keep_edge not None):
        """Only trees of some items and edges.

        RETURNS (Tuple[Forest, ndarray, ndarray]): The smaller forest, and which items and edges are in it.
        """
        cdef const Columns *c = &self.c
        cdef int64_t x, e
        keep, used_edges, seen = (numpy.zeros(n, dtype=numpy.uint8) for n in (c.n_items, c.n_edges, c.n_items))
        cdef uint8_t[::1] up = keep, used = used_edges, down = seen
        with nogil:
            for x in range(c.n_items):
                if not keep_item[x]:
                    continue
                if c.is_word[x]:
                    up[x] = 1
                for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                    if keep_edge[e] and up[c.left[e]] and up[c.right[e]]:
                        used[e] = 1
                        up[x] = 1
            for x in range(c.n_items - 1, -1, -1):
                if up[x] and c.is_root[x]:
                    down[x] = 1
                for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
                    if used[e]:
                        if down[x]:
                            down[c.left[e]] = 1
                            down[c.right[e]] = 1
                        else:
                            used[e] = 0
                up[x] = down[x]
        kept, kept_edges = numpy.flatnonzero(keep), numpy.flatnonzero(used_edges)
        before = numpy.concatenate([[0], numpy.cumsum(keep, dtype=numpy.int64)])
        edges_before = numpy.concatenate([[0], numpy.cumsum(used_edges, dtype=numpy.int64)])
        forest = Forest(
            self.lengths, before[self.starts], self.begin[kept], self.end[kept], self.symbol[kept],
            numpy.append(edges_before[self.edge_starts[:-1]][kept], len(kept_edges)),
            before[self.left[kept_edges]].astype(numpy.int32), before[self.right[kept_edges]].astype(numpy.int32),
            self.rule[kept_edges],
        )
        return forest, kept, kept_edges

    def posteriors(
        self, const double[::1] items not None, const double[::1] edges not None, const double[::1] roots not None
    ):
        """Posteriors of items and edges.

        items, edges, roots (float64): What items and edges add to the score of a tree, and items as its root.
        RETURNS (Tuple[ndarray, ndarray, ndarray]): log Z by sentence, -inf without a tree; posteriors of items
            and of edges.
        """
        cdef Arena arena
        cdef Packed packed
        cdef int64_t s
        cdef int failed = 0
        posteriors, edge_posteriors = numpy.zeros(self.c.n_items), numpy.zeros(self.c.n_edges)
        log_zs = numpy.full(self.c.n_sentences, -numpy.inf)
        cdef double[::1] post = posteriors, edge_post = edge_posteriors, out_z = log_zs
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(self.c.n_sentences):
                if self.c.starts[s] == self.c.starts[s + 1]:
                    continue
                arena_reset(&arena)
                failed = pack(&packed, &self.c, s, &items[0], &edges[0], &roots[0], &arena)
                if not failed:
                    out_z[s] = sum_up(&packed, self.c.starts[s], &post[0], &edge_post[0], &arena)
                    failed = isnan(out_z[s])
                if failed:
                    break
            arena_free(&arena)
        if failed:
            raise MemoryError
        return log_zs, posteriors, edge_posteriors

    def k_best(
        self, const double[::1] items not None, const double[::1] edges not None, const double[::1] roots not None,
        int k
    ):
        """The k trees of every sentence with the greatest sums of scores, best first.

        RETURNS (List[List[Tuple[List[int], float]]]): By sentence, the items of each tree, children before
            parents and left before right, and its score; fewer than k if there are fewer.
        """
        cdef Arena arena
        cdef Packed packed
        cdef int64_t s
        cdef int t, m, n = 0
        cdef int32_t **chosen
        cdef int *sizes
        cdef double *found
        result = []
        memset(&arena, 0, sizeof(arena))
        try:
            for s in range(self.c.n_sentences):
                result.append([])
                if self.c.starts[s] == self.c.starts[s + 1]:
                    continue
                with nogil:
                    arena_reset(&arena)
                    chosen = <int32_t **>take(&arena, k * sizeof(int32_t *))
                    sizes = <int *>take(&arena, k * sizeof(int))
                    found = <double *>take(&arena, k * sizeof(double))
                    n = -1
                    if chosen != NULL and sizes != NULL and found != NULL and not pack(
                        &packed, &self.c, s, &items[0], &edges[0], &roots[0], &arena
                    ):
                        n = graph_k_best(&packed.graph, packed.scores, k, found, chosen, sizes, &arena)
                if n < 0:
                    raise MemoryError
                for t in range(n):
                    # the first edge is that of the goal
                    tree = [packed.item[chosen[t][m]] for m in range(sizes[t] - 1, 0, -1)]
                    result[s].append((tree, found[t]))
        finally:
            arena_free(&arena)
        return result

    def best(self, items, edges, roots):
        """The items of the best tree of every sentence, as `k_best` has them; empty if there is none."""
        return [own[0][0] if own else [] for own in self.k_best(items, edges, roots, 1)]


def _connect(
    pairs, const int32_t[::1] lengths not None, const int64_t[::1] starts not None, const int32_t[::1] begin not None,
    const int32_t[::1] end not None, const int32_t[::1] symbol not None, const uint8_t[::1] strong not None
):
    """All edges between items: where those of items start, left and right items, rules. An item that is
    wider than a word and has no edges stands for no tree."""
    cdef const int32_t[::1] pair_start = pairs.start, pair_rule = pairs.rule, pair_parent = pairs.parent
    cdef const uint8_t[::1] pair_seen = pairs.seen
    cdef int64_t s, x, y, z, first, last, base, item, n_cells, cell, lcell, rcell, p
    cdef int i, j, k, width, n, a, failed = 0, n_symbols = pairs.n_symbols
    cdef int64_t total_items = begin.shape[0]
    cdef size_t e, n_edges = 0, room_of_edges = 0
    cdef Edge *edges = NULL
    cdef void *block
    cdef int64_t *cells
    cdef int32_t *here
    cdef Arena arena
    edge_starts = numpy.zeros(total_items + 1, dtype=numpy.int64)
    cdef int64_t[::1] out_starts = edge_starts
    cdef uint8_t[::1] alive = numpy.zeros(total_items, dtype=numpy.uint8)
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(lengths.shape[0]):
            n = lengths[s]
            first, last = starts[s], starts[s + 1]
            n_cells = <int64_t>n * (n + 1) // 2
            arena_reset(&arena)
            cells = <int64_t *>take(&arena, (n_cells + 1) * sizeof(int64_t))
            here = <int32_t *>take(&arena, n_symbols * sizeof(int32_t))
            if cells == NULL or here == NULL:
                failed = 1
                break
            for a in range(n_symbols):
                here[a] = -1
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
                                    block = grown(edges, &room_of_edges, n_edges + 1, sizeof(Edge))
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
        arena_free(&arena)
    if failed:
        free(edges)
        raise MemoryError
    left, right, rule = (numpy.empty(n_edges, dtype=numpy.int32) for _ in range(3))
    cdef int32_t[::1] out_left = left, out_right = right, out_rule = rule
    cdef int64_t[::1] at = edge_starts.copy()
    with nogil:
        for e in range(n_edges):
            x = at[edges[e].parent]
            at[edges[e].parent] += 1
            out_left[x], out_right[x], out_rule[x] = edges[e].left, edges[e].right, edges[e].rule
    free(edges)
    return edge_starts, left, right, rule


# Sums and best trees, by the hypergraph of every sentence.


cdef int pack(
    Packed *packed, const Columns *c, int64_t sentence, const double *item_score, const double *edge_score,
    const double *root_score, Arena *arena
) noexcept nogil:
    cdef int64_t first = c.starts[sentence], last = c.starts[sentence + 1], x, e
    cdef size_t room = c.edge_starts[last] - c.edge_starts[first] + 2 * (last - first) + 1
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
        if c.is_word[x]:
            _add(packed, m, <int32_t>x, NOTHING, NOTHING, NOTHING, item_score[x])
            m += 1
        for e in range(c.edge_starts[x], c.edge_starts[x + 1]):
            # right before left: backwards, the order of derivations has children before parents
            _add(
                packed, m, <int32_t>x, <int32_t>e, <int32_t>(c.right[e] - first), <int32_t>(c.left[e] - first),
                item_score[x] + edge_score[e])
            m += 1
    start[last - first] = m
    for x in range(first, last):
        if c.is_root[x]:
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


def coarse_items(
    const int32_t[::1] word_start not None, const int32_t[::1] word_symbol not None,
    const double[::1] word_score not None, const int32_t[::1] pair_start not None,
    const int32_t[::1] pair_parent not None, const double[::1] pair_prob not None,
    const double[::1] root not None, const double[::1] prior not None,
    double beam, double threshold,
):
    """The items of one sentence that are in probable trees of a plain grammar: those worth a second look.

    Cells hold the symbols that are not hopeless, relative to the best of the cell, and a scale, so that sentences of
    any length are the same. Posteriors are handed down: the share of a pair of children in the inside value of its
    parent is its share in the posterior.

    word_start (int32[n + 1]), word_symbol (int32[]), word_score (float64[]): The symbols of each word.
    pair_start (int32[symbols * symbols + 1]), pair_parent (int32[rules]), pair_prob (float64[rules]): For
        every pair of children, the parents they can have.
    root, prior (float64[symbols]): Probabilities of being the root, and of occurring at all.
    beam: Symbols of a cell are dropped if their inside value times their prior is that much less than the best.
    threshold: The least posterior of items.
    RETURNS: begin, end, symbol of the items, their posteriors, and log Z, -inf if the sentence has no tree.
    """
    cdef int n = word_start.shape[0] - 1, n_symbols = root.shape[0], width, i, k, a, b, c, y, z
    cdef int64_t n_cells = <int64_t>n * (n + 1) // 2, cell = 0, lc, rc, p
    cdef double best, top, norm, f, weight, total = 0, log_z = -INFINITY
    cdef double *own
    values, posts = numpy.zeros((n_cells, n_symbols)), numpy.zeros((n_cells, n_symbols))
    cdef double[:, ::1] value = values, post = posts
    cdef double[::1] scale = numpy.empty(n_cells), share = numpy.empty(n_symbols)
    cdef int32_t[:, ::1] kept = numpy.empty((n_cells, n_symbols), dtype=numpy.int32)
    cdef int32_t[::1] n_kept = numpy.zeros(n_cells, dtype=numpy.int32)
    with nogil:
        for width in range(1, n + 1):
            for i in range(n - width + 1):
                top, own = 0 if width == 1 else -INFINITY, &value[cell, 0]
                if width == 1:
                    for p in range(word_start[i], word_start[i + 1]):
                        own[word_symbol[p]] += word_score[p]
                for k in range(1, width):
                    top = max(top, scale[cell_of(n, i, k)] + scale[cell_of(n, i + k, width - k)])
                for k in range(1, width):
                    lc, rc = cell_of(n, i, k), cell_of(n, i + k, width - k)
                    if not n_kept[lc] or not n_kept[rc]:
                        continue
                    f = exp(scale[lc] + scale[rc] - top)
                    if f == 0:
                        continue
                    for y in range(n_kept[lc]):
                        b = kept[lc, y]
                        for z in range(n_kept[rc]):
                            c = kept[rc, z]
                            weight = f * value[lc, b] * value[rc, c]
                            for p in range(pair_start[b * n_symbols + c], pair_start[b * n_symbols + c + 1]):
                                own[pair_parent[p]] += weight * pair_prob[p]
                best, norm = 0, 0
                for a in range(n_symbols):
                    best, norm = max(best, own[a] * prior[a]), max(norm, own[a])
                scale[cell] = top + log(norm) if norm > 0 else -INFINITY
                for a in range(n_symbols):
                    if own[a] > 1e-290 and own[a] * prior[a] >= beam * best:
                        own[a] /= norm
                        kept[cell, n_kept[cell]] = a
                        n_kept[cell] += 1
                    else:
                        own[a] = 0
                cell += 1
        cell, own = n_cells - 1, &share[0]
        for a in range(n_symbols):
            post[cell, a] = root[a] * value[cell, a]
            total += post[cell, a]
        if total > 0:
            log_z = log(total) + scale[cell]
            for a in range(n_symbols):
                post[cell, a] /= total
        for width in range(n if total > 0 else 0, 1, -1):
            for i in range(n - width + 1):
                cell, best = cell_of(n, i, width), 0
                for a in range(n_symbols):
                    own[a] = post[cell, a] / value[cell, a] if post[cell, a] > 0.01 * threshold else 0
                    best = max(best, own[a])
                for k in range(1, width if best > 0 else 1):
                    lc, rc = cell_of(n, i, k), cell_of(n, i + k, width - k)
                    if not n_kept[lc] or not n_kept[rc]:
                        continue
                    f = exp(scale[lc] + scale[rc] - scale[cell])
                    if f == 0:
                        continue
                    for y in range(n_kept[lc]):
                        b = kept[lc, y]
                        for z in range(n_kept[rc]):
                            c, norm = kept[rc, z], 0
                            for p in range(pair_start[b * n_symbols + c], pair_start[b * n_symbols + c + 1]):
                                norm += pair_prob[p] * own[pair_parent[p]]
                            if norm > 0:
                                norm *= f * value[lc, b] * value[rc, c]
                                post[lc, b] += norm
                                post[rc, c] += norm
    cells, symbol = numpy.nonzero((posts >= threshold) & (values > 0))
    widths = numpy.repeat(numpy.arange(1, n + 1), numpy.arange(n, 0, -1))[cells]
    begin = cells - (widths - 1) * n + (widths - 1) * (widths - 2) // 2
    columns = (own.astype(numpy.int32) for own in (begin, begin + widths, symbol))
    return *columns, posts[cells, symbol], log_z
