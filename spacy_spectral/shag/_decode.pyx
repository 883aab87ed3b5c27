# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Best and k best projective single-root trees under a matrix of arc scores.

Eisner's algorithm over three kinds of items for tokens i <= j:

    SPLIT(i, j)    i and j are about to be linked: RIGHT(i, k) next to LEFT(k+1, j)
    RIGHT(i, j)    i is a finished head of everything to its right up to j: arc i -> k, SPLIT(i, k), RIGHT(k, j)
    LEFT(i, j)     the mirror image, j is the head: arc j -> k, SPLIT(k, j), LEFT(i, k)

and one goal item: arc root -> m, LEFT(1, m), RIGHT(m, N). Every tree has exactly one derivation and every
derivation step has two parts, so the k best are enumerated lazily by Huang & Chiang (2005, algorithm 3).
Ties are broken by split point, then by the ranks of the parts: results do not depend on memory layout.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, malloc, realloc

import numpy


cdef enum:
    SPLIT = 0
    RIGHT = 1
    LEFT = 2


cdef struct Derivation:
    double score
    int split
    int first       # rank of the first part
    int second      # rank of the second part


cdef struct Item:
    Derivation* done        # the best derivations found so far, best first
    Derivation* heap        # candidates for the next one
    int n_done
    int n_heap
    int done_size
    int heap_size
    bint ready              # whether the heap has been filled


cdef struct Chart:
    int n                   # tokens are 1..n, 0 is the root
    const double* arcs      # [n+1, n+1]: head, modifier
    double* best            # [3, n+1, n+1]: best score of every item
    int* split              # [3, n+1, n+1]: and the split point that gives it
    Item* items             # [3, n+1, n+1] and the goal as the last one; NULL when only the best is asked for


cdef inline size_t _at(Chart* chart, int kind, int i, int j) noexcept nogil:
    return (<size_t>kind * (chart.n + 1) + i) * (chart.n + 1) + j


cdef inline double _arc(Chart* chart, int head, int modifier) noexcept nogil:
    return chart.arcs[<size_t>head * (chart.n + 1) + modifier]


cdef void _fill(Chart* chart) noexcept nogil:
    """Best score and split of every item, by increasing span."""
    cdef int n = chart.n, i, j, k, span, best_split, best_right, best_left
    cdef double score, best, right, left
    for i in range(1, n + 1):
        chart.best[_at(chart, RIGHT, i, i)] = 0.0
        chart.best[_at(chart, LEFT, i, i)] = 0.0
    for span in range(1, n):
        for i in range(1, n - span + 1):
            j = i + span
            best = -INFINITY
            best_split = i
            for k in range(i, j):
                score = chart.best[_at(chart, RIGHT, i, k)] + chart.best[_at(chart, LEFT, k + 1, j)]
                if score > best:
                    best = score
                    best_split = k
            chart.best[_at(chart, SPLIT, i, j)] = best
            chart.split[_at(chart, SPLIT, i, j)] = best_split
            right = -INFINITY
            left = -INFINITY
            best_right = j
            best_left = i
            for k in range(i + 1, j + 1):
                score = (
                    chart.best[_at(chart, SPLIT, i, k)] + _arc(chart, i, k)
                    + chart.best[_at(chart, RIGHT, k, j)])
                if score > right:
                    right = score
                    best_right = k
            for k in range(i, j):
                score = (
                    chart.best[_at(chart, SPLIT, k, j)] + _arc(chart, j, k)
                    + chart.best[_at(chart, LEFT, i, k)])
                if score > left:
                    left = score
                    best_left = k
            chart.best[_at(chart, RIGHT, i, j)] = right
            chart.split[_at(chart, RIGHT, i, j)] = best_right
            chart.best[_at(chart, LEFT, i, j)] = left
            chart.split[_at(chart, LEFT, i, j)] = best_left


cdef double _best_root(Chart* chart, int* root) noexcept nogil:
    cdef int m
    cdef double score, best = -INFINITY
    root[0] = 1
    for m in range(1, chart.n + 1):
        score = (
            _arc(chart, 0, m) + chart.best[_at(chart, LEFT, 1, m)]
            + chart.best[_at(chart, RIGHT, m, chart.n)])
        if score > best:
            best = score
            root[0] = m
    return best


cdef void _read_best(Chart* chart, int kind, int i, int j, int* heads) noexcept nogil:
    cdef int k
    if i == j:
        return
    k = chart.split[_at(chart, kind, i, j)]
    if kind == SPLIT:
        _read_best(chart, RIGHT, i, k, heads)
        _read_best(chart, LEFT, k + 1, j, heads)
    elif kind == RIGHT:
        heads[k - 1] = i
        _read_best(chart, SPLIT, i, k, heads)
        _read_best(chart, RIGHT, k, j, heads)
    else:
        heads[k - 1] = j
        _read_best(chart, SPLIT, k, j, heads)
        _read_best(chart, LEFT, i, k, heads)


# The k best. An item is addressed by (kind, i, j); the goal has kind GOAL.
cdef enum:
    GOAL = 3


cdef inline Item* _item(Chart* chart, int kind, int i, int j) noexcept nogil:
    if kind == GOAL:
        return chart.items + 3 * <size_t>(chart.n + 1) * (chart.n + 1)
    return chart.items + _at(chart, kind, i, j)


cdef inline bint _before(Derivation* a, Derivation* b) noexcept nogil:
    if a.score != b.score:
        return a.score > b.score
    if a.split != b.split:
        return a.split < b.split
    if a.first != b.first:
        return a.first < b.first
    return a.second < b.second


cdef int _push(Item* item, double score, int split, int first, int second) noexcept nogil:
    cdef int child, parent
    cdef Derivation entry
    cdef Derivation* grown
    if item.n_heap == item.heap_size:
        grown = <Derivation*>realloc(
            item.heap, (2 * item.heap_size + 4) * sizeof(Derivation))
        if grown is NULL:
            return -1
        item.heap = grown
        item.heap_size = 2 * item.heap_size + 4
    entry.score = score
    entry.split = split
    entry.first = first
    entry.second = second
    child = item.n_heap
    item.n_heap += 1
    while child > 0:
        parent = (child - 1) // 2
        if not _before(&entry, item.heap + parent):
            break
        item.heap[child] = item.heap[parent]
        child = parent
    item.heap[child] = entry
    return 0


cdef int _pop(Item* item) noexcept nogil:
    """Move the best candidate to the end of `done`."""
    cdef int parent = 0, child
    cdef Derivation last
    cdef Derivation* grown
    if item.n_done == item.done_size:
        grown = <Derivation*>realloc(item.done, (2 * item.done_size + 4) * sizeof(Derivation))
        if grown is NULL:
            return -1
        item.done = grown
        item.done_size = 2 * item.done_size + 4
    item.done[item.n_done] = item.heap[0]
    item.n_done += 1
    item.n_heap -= 1
    last = item.heap[item.n_heap]
    while True:
        child = 2 * parent + 1
        if child >= item.n_heap:
            break
        if child + 1 < item.n_heap and _before(item.heap + child + 1, item.heap + child):
            child += 1
        if not _before(item.heap + child, &last):
            break
        item.heap[parent] = item.heap[child]
        parent = child
    item.heap[parent] = last
    return 0


cdef void _parts(Chart* chart, int kind, int i, int j, int k, int* parts) noexcept nogil:
    """The two parts of a step as (kind, i, j, kind, i, j)."""
    if kind == SPLIT:
        parts[0], parts[1], parts[2] = RIGHT, i, k
        parts[3], parts[4], parts[5] = LEFT, k + 1, j
    elif kind == RIGHT:
        parts[0], parts[1], parts[2] = SPLIT, i, k
        parts[3], parts[4], parts[5] = RIGHT, k, j
    elif kind == LEFT:
        parts[0], parts[1], parts[2] = SPLIT, k, j
        parts[3], parts[4], parts[5] = LEFT, i, k
    else:
        parts[0], parts[1], parts[2] = LEFT, 1, k
        parts[3], parts[4], parts[5] = RIGHT, k, chart.n


cdef inline double _own_score(Chart* chart, int kind, int i, int j, int k) noexcept nogil:
    if kind == SPLIT:
        return 0.0
    return _arc(chart, i if kind == RIGHT else (j if kind == LEFT else 0), k)


cdef inline double _rank_score(Chart* chart, int* part, int rank) noexcept nogil:
    """Score of a part's derivation of that rank, which must have been found before."""
    if rank == 0:
        return 0.0 if part[1] == part[2] else chart.best[_at(chart, part[0], part[1], part[2])]
    return _item(chart, part[0], part[1], part[2]).done[rank].score


cdef int _find(Chart* chart, int kind, int i, int j, int rank) noexcept nogil:
    """Make sure that an item's derivation of this rank is known.

    Returns 1 if it exists, 0 if there is none, -1 if memory ran out.
    """
    cdef Item* item
    cdef int first_k, last_k, k, found
    cdef int[6] parts
    cdef Derivation last
    cdef double score
    if kind != GOAL and i == j:
        return 1 if rank == 0 else 0
    item = _item(chart, kind, i, j)
    if not item.ready:
        item.ready = True
        first_k = i + 1 if kind == RIGHT else (1 if kind == GOAL else i)
        last_k = j if kind == RIGHT else (chart.n if kind == GOAL else j - 1)
        for k in range(first_k, last_k + 1):
            _parts(chart, kind, i, j, k, parts)
            score = (
                _own_score(chart, kind, i, j, k)
                + _rank_score(chart, parts, 0) + _rank_score(chart, parts + 3, 0))
            if score != -INFINITY and _push(item, score, k, 0, 0) < 0:
                return -1
    while item.n_done <= rank:
        if item.n_done > 0:
            # Successors of the last one. Raising the first rank only where the second is 0 reaches
            # every pair of ranks exactly once.
            last = item.done[item.n_done - 1]
            _parts(chart, kind, i, j, last.split, parts)
            found = _find(chart, parts[3], parts[4], parts[5], last.second + 1)
            if found < 0:
                return -1
            if found:
                score = (
                    _own_score(chart, kind, i, j, last.split)
                    + _rank_score(chart, parts, last.first)
                    + _rank_score(chart, parts + 3, last.second + 1))
                if _push(item, score, last.split, last.first, last.second + 1) < 0:
                    return -1
            if last.second == 0:
                found = _find(chart, parts[0], parts[1], parts[2], last.first + 1)
                if found < 0:
                    return -1
                if found:
                    score = (
                        _own_score(chart, kind, i, j, last.split)
                        + _rank_score(chart, parts, last.first + 1)
                        + _rank_score(chart, parts + 3, 0))
                    if _push(item, score, last.split, last.first + 1, 0) < 0:
                        return -1
        if item.n_heap == 0:
            return 0
        if _pop(item) < 0:
            return -1
    return 1


cdef int _read(Chart* chart, int kind, int i, int j, int rank, int* heads) noexcept nogil:
    cdef int[6] parts
    cdef Derivation derivation
    cdef int k
    if kind != GOAL and i == j:
        return 0
    # A part taken at rank 0 may never have been asked for by name.
    if _find(chart, kind, i, j, rank) < 0:
        return -1
    derivation = _item(chart, kind, i, j).done[rank]
    k = derivation.split
    if kind == RIGHT:
        heads[k - 1] = i
    elif kind == LEFT:
        heads[k - 1] = j
    elif kind == GOAL:
        heads[k - 1] = 0
    _parts(chart, kind, i, j, k, parts)
    if _read(chart, parts[0], parts[1], parts[2], derivation.first, heads) < 0:
        return -1
    return _read(chart, parts[3], parts[4], parts[5], derivation.second, heads)


def best_tree(const double[:, ::1] arcs):
    """The best projective single-root tree.

    arcs (float[N+1, N+1]): Score of every arc (head, modifier); row 0 is the root. -inf forbids an arc.
    RETURNS (Tuple[ndarray, float]): Head of every token (1-based, 0 is the root), and the score: -inf if
        every tree uses a forbidden arc, and then the heads mean nothing.
    """
    cdef int n = arcs.shape[0] - 1
    cdef size_t cells = 3 * <size_t>(n + 1) * (n + 1)
    cdef Chart chart
    cdef double score = -INFINITY
    cdef int root = 0
    heads_array = numpy.zeros(n, dtype="int32")
    cdef int[::1] heads = heads_array
    if n == 0:
        return heads_array, 0.0
    chart.n = n
    chart.arcs = &arcs[0, 0]
    chart.items = NULL
    chart.best = <double*>malloc(cells * sizeof(double))
    chart.split = <int*>malloc(cells * sizeof(int))
    if chart.best is NULL or chart.split is NULL:
        free(chart.best)
        free(chart.split)
        raise MemoryError()
    with nogil:
        _fill(&chart)
        score = _best_root(&chart, &root)
        _read_best(&chart, LEFT, 1, root, &heads[0])
        _read_best(&chart, RIGHT, root, n, &heads[0])
        heads[root - 1] = 0
        free(chart.best)
        free(chart.split)
    return heads_array, score


def k_best_trees(const double[:, ::1] arcs, int k):
    """The k best projective single-root trees, best first, exactly.

    arcs (float[N+1, N+1]): Score of every arc (head, modifier); row 0 is the root. -inf forbids an arc.
    k (int): How many to find at most.
    RETURNS (Tuple[ndarray, ndarray]): Heads [found, N] (1-based, 0 is the root) and scores [found].
    """
    cdef int n = arcs.shape[0] - 1
    cdef size_t cells = 3 * <size_t>(n + 1) * (n + 1), cell
    cdef Chart chart
    cdef int found = 0, status = 0
    heads_array = numpy.zeros((max(k, 0), n), dtype="int32")
    score_array = numpy.zeros(max(k, 0))
    cdef int[:, ::1] heads = heads_array
    cdef double[::1] scores = score_array
    if n == 0 or k <= 0:
        return heads_array[:0], score_array[:0]
    chart.n = n
    chart.arcs = &arcs[0, 0]
    chart.best = <double*>malloc(cells * sizeof(double))
    chart.split = <int*>malloc(cells * sizeof(int))
    chart.items = <Item*>calloc(cells + 1, sizeof(Item))
    if chart.best is NULL or chart.split is NULL or chart.items is NULL:
        free(chart.best)
        free(chart.split)
        free(chart.items)
        raise MemoryError()
    with nogil:
        _fill(&chart)
        while found < k:
            status = _find(&chart, GOAL, 0, 0, found)
            if status <= 0:
                break
            status = _read(&chart, GOAL, 0, 0, found, &heads[found, 0])
            if status < 0:
                break
            scores[found] = _item(&chart, GOAL, 0, 0).done[found].score
            found += 1
        for cell in range(cells + 1):
            free(chart.items[cell].done)
            free(chart.items[cell].heap)
        free(chart.best)
        free(chart.split)
        free(chart.items)
    if status < 0:
        raise MemoryError()
    return heads_array[:found], score_array[:found]


def greedy_tree(const double[:, ::1] marginals):
    """The most probable head of every token, if these heads form a projective single-root tree.

    When they do, that tree has the largest possible sum of (log) marginals, so Eisner's algorithm could
    find nothing better; this is the common case and much cheaper.

    marginals (float[N+1, N+1]): Marginal of every arc (head, modifier); row 0 is the root.
    RETURNS (Optional[ndarray]): Head of every token (1-based, 0 is the root), or None.
    """
    cdef int n = marginals.shape[0] - 1
    cdef int m, h, best
    cdef double value, largest
    cdef bint tree
    heads_array = numpy.zeros(n, dtype="int32")
    cdef int[::1] heads = heads_array
    with nogil:
        for m in range(1, n + 1):
            best = 0
            largest = -INFINITY
            for h in range(n + 1):
                value = marginals[h, m]
                if h != m and value > largest:
                    largest = value
                    best = h
            heads[m - 1] = best
        tree = _is_projective_tree(heads)
    return heads_array if tree else None


def is_projective_tree(const int[::1] heads):
    """Whether heads (1-based, 0 is the root) form a projective tree with exactly one root."""
    return _is_projective_tree(heads)


cdef bint _is_projective_tree(const int[::1] heads) noexcept nogil:
    """One root; every token under an arc has its head under or at the ends of it; no cycle.

    The root stands left of all tokens, so its arc forbids others to reach over its child.
    """
    cdef int n = heads.shape[0], m, h, k, steps, roots = 0
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h < 0 or h > n or h == m:
            return False
        roots += h == 0
        for k in range(min(h, m) + 1, max(h, m)):
            if heads[k - 1] < min(h, m) or heads[k - 1] > max(h, m):
                return False
    if roots != 1:
        return False
    for m in range(1, n + 1):
        k = m
        steps = 0
        while k != 0:
            k = heads[k - 1]
            steps += 1
            if steps > n:
                return False
    return True
