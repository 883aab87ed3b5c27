# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Forests of binary trees: which items can be joined by rules, and sums and best trees over them.

An item is a symbol over a span. The items of a sentence are in order of width, then of where they begin, so that
children come before their parents. An edge joins two neighbours by a rule to a wider item; the edges of an item
are next to each other. Everything is a flat array over all sentences of a batch.

Sums are in logarithms, so that sentences of any length are the same to them:

    in(x) = s(x) + log sum_{e: x -> y z} exp(s(e) + in(y) + in(z))          in(word) = s(word)
    log Z = log sum_{x over everything} exp(r(x) + in(x))
"""
from libc.math cimport INFINITY, exp, isfinite, log
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

import numpy

from ._cells cimport cell_of, log_sum, share_out


cdef struct Edges:
    int32_t *left
    int32_t *right
    int32_t *rule
    int32_t *parent
    size_t n
    size_t room


cdef int _grow(Edges *edges) noexcept nogil:
    cdef size_t room = 2 * edges.room + 1024
    cdef void *block
    for which in range(4):
        if which == 0:
            block = realloc(edges.left, room * sizeof(int32_t))
            if block == NULL:
                return -1
            edges.left = <int32_t *>block
        elif which == 1:
            block = realloc(edges.right, room * sizeof(int32_t))
            if block == NULL:
                return -1
            edges.right = <int32_t *>block
        elif which == 2:
            block = realloc(edges.rule, room * sizeof(int32_t))
            if block == NULL:
                return -1
            edges.rule = <int32_t *>block
        else:
            block = realloc(edges.parent, room * sizeof(int32_t))
            if block == NULL:
                return -1
            edges.parent = <int32_t *>block
    edges.room = room
    return 0


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
    cdef size_t e
    cdef Edges edges
    cdef int64_t *cells = NULL
    cdef int32_t *here = <int32_t *>malloc(n_symbols * sizeof(int32_t))
    cdef int64_t room = 0
    edge_starts = numpy.zeros(total_items + 1, dtype=numpy.int64)
    cdef int64_t[::1] out_starts = edge_starts
    alive_array = numpy.zeros(total_items, dtype=numpy.uint8)
    cdef uint8_t[::1] alive = alive_array
    memset(&edges, 0, sizeof(edges))
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
                    from_edge = edges.n
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
                                    if edges.n == edges.room and _grow(&edges):
                                        failed = 1
                                        break
                                    edges.left[edges.n] = <int32_t>y
                                    edges.right[edges.n] = <int32_t>z
                                    edges.rule[edges.n] = pair_rule[p]
                                    edges.parent[edges.n] = <int32_t>item
                                    edges.n += 1
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
        free(edges.left); free(edges.right); free(edges.rule); free(edges.parent)
        raise MemoryError
    left, right, rule = (numpy.empty(edges.n, dtype=numpy.int32) for _ in range(3))
    cdef int32_t[::1] out_left = left, out_right = right, out_rule = rule
    place = edge_starts.copy()
    cdef int64_t[::1] at = place
    with nogil:
        for e in range(edges.n):
            x = at[edges.parent[e]]
            at[edges.parent[e]] += 1
            out_left[x] = edges.left[e]
            out_right[x] = edges.right[e]
            out_rule[x] = edges.rule[e]
    free(edges.left); free(edges.right); free(edges.rule); free(edges.parent)
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


def inside_outside(
    const int64_t[::1] starts not None, const int64_t[::1] edge_starts not None,
    const int32_t[::1] left not None, const int32_t[::1] right not None,
    const uint8_t[::1] is_word not None, const double[::1] item_score not None,
    const double[::1] edge_score not None, const double[::1] root_score not None,
):
    """Posteriors of items and edges.

    item_score, edge_score, root_score (float64): What items and edges add to the score of a tree; the root
        score is -inf for an item that is not the whole of a sentence.
    RETURNS (Tuple[ndarray, ndarray, ndarray]): log Z by sentence, -inf without a tree; posteriors of items and of
        edges.
    """
    cdef int64_t s, x, first, last, n = is_word.shape[0]
    cdef double best, total, log_z
    inside_array = numpy.empty(n, dtype=numpy.float64)
    posteriors, edge_posteriors = numpy.zeros(n), numpy.zeros(left.shape[0])
    log_zs = numpy.full(starts.shape[0] - 1, -numpy.inf)
    cdef double[::1] inside = inside_array
    cdef double[::1] post = posteriors, edge_post = edge_posteriors, out_z = log_zs
    with nogil:
        for s in range(starts.shape[0] - 1):
            first, last = starts[s], starts[s + 1]
            best = -INFINITY
            for x in range(first, last):
                inside[x] = item_score[x] + (0 if is_word[x] else log_sum(
                    edge_starts[x], edge_starts[x + 1], &left[0], &right[0], &edge_score[0], &inside[0]))
                if root_score[x] + inside[x] > best:
                    best = root_score[x] + inside[x]
            if not isfinite(best):
                continue
            total = 0
            for x in range(first, last):
                total += exp(root_score[x] + inside[x] - best)
            log_z = best + log(total)
            out_z[s] = log_z
            # outside values are relative to log Z, so that a sum of posteriors needs no second pass:
            # post(x) is known before its edges share it out
            for x in range(first, last):
                post[x] = exp(root_score[x] + inside[x] - log_z)
            for x in range(last - 1, first - 1, -1):
                if not is_word[x]:
                    share_out(
                        x, &edge_starts[0], &left[0], &right[0], &item_score[0], &edge_score[0], &inside[0],
                        &post[0], &edge_post[0])
    return log_zs, posteriors, edge_posteriors


def best_trees(
    const int64_t[::1] starts not None, const int64_t[::1] edge_starts not None,
    const int32_t[::1] left not None, const int32_t[::1] right not None,
    const uint8_t[::1] is_word not None, const double[::1] item_score not None,
    const double[::1] edge_score not None, const double[::1] root_score not None,
):
    """The tree with the greatest sum of scores, for every sentence.

    RETURNS (Tuple[ndarray, ndarray]): by item, the best edge, -1 for none; by sentence, the best root item, -1
        for a sentence without a tree.
    """
    cdef int64_t s, x, e
    cdef double value, best
    score_array = numpy.empty(is_word.shape[0])
    best_edges = numpy.full(is_word.shape[0], -1, dtype=numpy.int64)
    roots = numpy.full(starts.shape[0] - 1, -1, dtype=numpy.int64)
    cdef double[::1] score = score_array
    cdef int64_t[::1] best_edge = best_edges, root = roots
    with nogil:
        for s in range(starts.shape[0] - 1):
            best = -INFINITY
            for x in range(starts[s], starts[s + 1]):
                score[x] = 0 if is_word[x] else -INFINITY
                for e in range(edge_starts[x], edge_starts[x + 1]):
                    value = edge_score[e] + score[left[e]] + score[right[e]]
                    if value > score[x]:
                        score[x] = value
                        best_edge[x] = e
                score[x] += item_score[x]
                if score[x] + root_score[x] > best:
                    best = score[x] + root_score[x]
                    root[s] = x
    return best_edges, roots
