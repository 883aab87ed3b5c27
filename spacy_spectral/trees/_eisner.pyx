# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Best and k best projective single-root trees under a matrix of arc scores.

Eisner's algorithm over three kinds of items for tokens i <= j:

    SPLIT(i, j)    i and j are about to be linked: RIGHT(i, k) next to LEFT(k+1, j)
    RIGHT(i, j)    i is a finished head of everything to its right up to j: arc i -> k, SPLIT(i, k), RIGHT(k, j)
    LEFT(i, j)     the mirror image, j is the head: arc j -> k, SPLIT(k, j), LEFT(i, k)

and one goal item: arc root -> m, LEFT(1, m), RIGHT(m, N). Every tree has exactly one derivation and every
derivation step has two parts, so the k best are enumerated lazily, see `base/_k_best`; ties are broken by
split point. Only arcs that are not forbidden are looked at: a pruned sentence costs its arcs times its length.
"""

from libc.math cimport INFINITY
from libc.string cimport memset

import numpy

from ..base._arena cimport Arena, arena_free, take, take_zeros
from ..base._k_best cimport Derivation, Ranking, Search, added, consider, find_best, item_t


cdef enum:
    SPLIT = 0
    RIGHT = 1
    LEFT = 2
    GOAL = 3


cdef struct EisnerChart:
    int n                   # tokens are 1..n, 0 is the root
    const double* arcs      # [n+1, n+1]: head, modifier
    int* start              # [2 (n+1) + 1]: where the modifiers of a head on one side start; RIGHT is first
    int* modifier           # their positions, ascending
    double* best            # [3, n+1, n+1]: best score of every item that some tree has
    int* split              # [3, n+1, n+1]: and the split point that gives it


cdef inline size_t _at(const EisnerChart* chart, int kind, int i, int j) noexcept nogil:
    # by head, then end: loops over split points run along rows
    if kind == LEFT:
        i, j = j, i
    return (<size_t>kind * (chart.n + 1) + i) * (chart.n + 1) + j


cdef inline double _arc(const EisnerChart* chart, int head, int modifier) noexcept nogil:
    return chart.arcs[<size_t>head * (chart.n + 1) + modifier]


cdef int _lay_out(EisnerChart* chart, int n, const double* arcs, Arena* arena) noexcept nogil:
    """List the allowed arcs and take memory. Returns 0, or -1 if memory ran out."""
    cdef int h, m, n_arcs = 0, width = n + 1
    cdef size_t cells = 3 * <size_t>width * width
    chart.n = n
    chart.arcs = arcs
    chart.start = <int*>take(arena, (2 * width + 1) * sizeof(int))
    chart.modifier = <int*>take(arena, <size_t>width * width * sizeof(int))
    chart.best = <double*>take(arena, cells * sizeof(double))
    chart.split = <int*>take(arena, cells * sizeof(int))
    if chart.start is NULL or chart.modifier is NULL or chart.best is NULL or chart.split is NULL:
        return -1
    for h in range(width):
        chart.start[2 * h] = n_arcs
        for m in range(h + 1, width):
            if arcs[<size_t>h * width + m] != -INFINITY:
                chart.modifier[n_arcs] = m
                n_arcs += 1
        chart.start[2 * h + 1] = n_arcs
        for m in range(1, h):
            if arcs[<size_t>h * width + m] != -INFINITY:
                chart.modifier[n_arcs] = m
                n_arcs += 1
    chart.start[2 * width] = n_arcs
    return 0


cdef void _fill_split(EisnerChart* chart, int i, int j) noexcept nogil:
    cdef const double* right = chart.best + _at(chart, RIGHT, i, 0)
    cdef const double* left = chart.best + _at(chart, LEFT, 1, j)  # of LEFT(k + 1, j) at k
    cdef double score, best = -INFINITY
    cdef int k, split = i
    for k in range(i, j):
        score = added(0.0, right[k], left[k])
        if score > best:
            best = score
            split = k
    chart.best[_at(chart, SPLIT, i, j)] = best
    chart.split[_at(chart, SPLIT, i, j)] = split


cdef inline void _fill_half(EisnerChart* chart, int kind, int i, int j) noexcept nogil:
    """RIGHT(i, j) or LEFT(i, j)."""
    cdef int k, a, head = i if kind == RIGHT else j, side = 2 * head + (kind == LEFT)
    cdef int best_k = j if kind == RIGHT else i
    cdef double score, best = -INFINITY
    for a in range(chart.start[side], chart.start[side + 1]):
        k = chart.modifier[a]
        if k < i:
            continue
        if k > j:
            break
        if kind == RIGHT:
            score = added(
                _arc(chart, i, k), chart.best[_at(chart, SPLIT, i, k)],
                chart.best[_at(chart, RIGHT, k, j)])
        else:
            score = added(
                _arc(chart, j, k), chart.best[_at(chart, SPLIT, k, j)],
                chart.best[_at(chart, LEFT, i, k)])
        if score > best:
            best, best_k = score, k
    chart.best[_at(chart, kind, i, j)] = best
    chart.split[_at(chart, kind, i, j)] = best_k


cdef void _fill(EisnerChart* chart) noexcept nogil:
    """Best score and split of every item, by right end and then from the inside out."""
    cdef int i, j
    for j in range(1, chart.n + 1):
        chart.best[_at(chart, RIGHT, j, j)] = 0.0
        chart.best[_at(chart, LEFT, j, j)] = 0.0
        for i in range(j - 1, 0, -1):
            if _arc(chart, i, j) != -INFINITY or _arc(chart, j, i) != -INFINITY:
                _fill_split(chart, i, j)
            _fill_half(chart, RIGHT, i, j)
            _fill_half(chart, LEFT, i, j)


cdef double _best_root(EisnerChart* chart, int* root) noexcept nogil:
    cdef int m
    cdef double score, best = -INFINITY
    root[0] = 1
    for m in range(1, chart.n + 1):
        score = added(
            _arc(chart, 0, m), chart.best[_at(chart, LEFT, 1, m)],
            chart.best[_at(chart, RIGHT, m, chart.n)])
        if score > best:
            best = score
            root[0] = m
    return best


cdef void _read_best(const EisnerChart* chart, int kind, int i, int j, int* heads) noexcept nogil:
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


# The k best. The number of an item is its place in the chart, the goal is the last one; steps are split points.


cdef inline item_t _goal(const EisnerChart* chart) noexcept nogil:
    # below 2^32 for every sentence whose chart has room
    return 3 * <item_t>(chart.n + 1) * (chart.n + 1)


cdef inline item_t _part(const EisnerChart* chart, int kind, int i, int j) noexcept nogil:
    return -1 if i == j else <item_t>_at(chart, kind, i, j)


cdef inline int _address(const EisnerChart* chart, item_t item, int* i, int* j) noexcept nogil:
    """The inverse of `_at`. Returns the kind."""
    cdef unsigned int width = chart.n + 1, row
    cdef int kind
    i[0], j[0] = 1, chart.n
    if item == _goal(chart):
        return GOAL
    row = <unsigned int>item // width
    j[0] = <unsigned int>item - row * width
    kind = row // width
    i[0] = row - kind * width
    if kind == LEFT:
        i[0], j[0] = j[0], i[0]
    return kind


cdef double _parts(const void* given, item_t item, int k, item_t* first, item_t* second) noexcept nogil:
    cdef const EisnerChart* chart = <const EisnerChart*>given
    cdef int i, j, kind = _address(chart, item, &i, &j)
    if kind == SPLIT:
        first[0], second[0] = _part(chart, RIGHT, i, k), _part(chart, LEFT, k + 1, j)
        return 0.0
    if kind == RIGHT:
        first[0], second[0] = _part(chart, SPLIT, i, k), _part(chart, RIGHT, k, j)
        return _arc(chart, i, k)
    if kind == LEFT:
        first[0], second[0] = _part(chart, SPLIT, k, j), _part(chart, LEFT, i, k)
        return _arc(chart, j, k)
    first[0], second[0] = _part(chart, LEFT, 1, k), _part(chart, RIGHT, k, chart.n)
    return _arc(chart, 0, k)


cdef double _best(const void* given, item_t item) noexcept nogil:
    return (<const EisnerChart*>given).best[item]


cdef int _open(Search* search, item_t item, Ranking* ranking) noexcept nogil:
    cdef const EisnerChart* chart = <const EisnerChart*>search.chart
    cdef int i, j, k, a, side, kind = _address(chart, item, &i, &j)
    if kind == SPLIT:
        for k in range(i, j):
            if consider(search, item, ranking, k, 0, 0) < 0:
                return -1
        return 0
    side = 2 * j + 1 if kind == LEFT else (2 * i if kind == RIGHT else 0)
    for a in range(chart.start[side], chart.start[side + 1]):
        k = chart.modifier[a]
        if i <= k <= j and consider(search, item, ranking, k, 0, 0) < 0:
            return -1
    return 0


cdef void _read(const Search* search, item_t item, int rank, int* heads) noexcept nogil:
    """Heads of a derivation that has been found."""
    cdef const EisnerChart* chart = <const EisnerChart*>search.chart
    cdef int i, j, kind
    cdef item_t[2] part
    cdef Derivation derivation
    if item < 0:
        return
    kind = _address(chart, item, &i, &j)
    if rank == 0 and kind != GOAL:
        _read_best(chart, kind, i, j, heads)
        return
    derivation = search.rankings[item].done[rank]
    if kind != SPLIT:
        heads[derivation.step - 1] = i if kind == RIGHT else (j if kind == LEFT else 0)
    _parts(chart, item, derivation.step, &part[0], &part[1])
    _read(search, part[0], derivation.first, heads)
    _read(search, part[1], derivation.second, heads)


cdef int k_best(
    int n, const double* arcs, int k, int* heads, double* scores, Arena* arena
) noexcept nogil:
    """What `k_best_trees` does, for n > 0. Returns how many were found, or -1 if memory ran out."""
    cdef EisnerChart chart
    cdef Search search
    cdef item_t goal
    cdef int i, n_found
    if _lay_out(&chart, n, arcs, arena) < 0:
        return -1
    goal = _goal(&chart)
    search.chart, search.arena = &chart, arena
    search.parts, search.best, search.open = _parts, _best, _open
    search.rankings = <Ranking**>take_zeros(arena, (goal + 1) * sizeof(Ranking*))
    if search.rankings is NULL:
        return -1
    _fill(&chart)
    n_found = find_best(&search, goal, k)
    for i in range(n_found):
        _read(&search, goal, i, heads + <size_t>i * n)
        scores[i] = search.rankings[goal].done[i].score
    return n_found


cdef int best_projective(
    int n, const double* arcs, int* heads, double* score, Arena* arena
) noexcept nogil:
    """What `best_tree` does, for n > 0. Returns 0, or -1 if memory ran out; no heads are written if every
    tree uses a forbidden arc."""
    cdef EisnerChart chart
    cdef int root
    if _lay_out(&chart, n, arcs, arena) < 0:
        return -1
    _fill(&chart)
    score[0] = _best_root(&chart, &root)
    if score[0] != -INFINITY:
        _read_best(&chart, LEFT, 1, root, heads)
        _read_best(&chart, RIGHT, root, n, heads)
        heads[root - 1] = 0
    return 0


def best_tree(const double[:, ::1] arcs not None):
    """The best projective single-root tree (heads from 1, 0 for the root) by scores of arcs [N+1, N+1]
    (head, modifier; row 0 is the root; -inf forbids an arc), and its score: -inf if every tree uses a
    forbidden arc, and then the heads are just some tree."""
    cdef int n = arcs.shape[0] - 1, failed
    cdef Arena arena
    cdef double score = -INFINITY
    heads_array = numpy.arange(n, dtype="int32")
    cdef int[::1] heads = heads_array
    if n == 0:
        return heads_array, 0.0
    memset(&arena, 0, sizeof(arena))
    with nogil:
        failed = best_projective(n, &arcs[0, 0], &heads[0], &score, &arena)
        arena_free(&arena)
    if failed:
        raise MemoryError()
    return heads_array, score


def k_best_trees(const double[:, ::1] arcs not None, int k):
    """The heads [found, N] and scores of the k best projective single-root trees, best first, exactly;
    see `best_tree`."""
    cdef int n = arcs.shape[0] - 1, found = 0
    cdef Arena arena
    heads_array = numpy.zeros((max(k, 0), n), dtype="int32")
    score_array = numpy.zeros(max(k, 0))
    cdef int[:, ::1] heads = heads_array
    cdef double[::1] scores = score_array
    if n == 0 or k <= 0:
        return heads_array[:0], score_array[:0]
    memset(&arena, 0, sizeof(arena))
    with nogil:
        found = k_best(n, &arcs[0, 0], k, &heads[0, 0], &scores[0], &arena)
        arena_free(&arena)
    if found < 0:
        raise MemoryError()
    return heads_array[:found], score_array[:found]


def greedy_tree(const double[:, ::1] marginals not None):
    """The most probable head of every token, if these heads form a projective single-root tree; else
    None.

    When they do, that tree has the largest possible sum of (log) marginals, so Eisner's algorithm could
    find nothing better; this is the common case and much cheaper.
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
        tree = is_projective(&heads[0] if n else NULL, n)
    return heads_array if tree else None


def is_projective_tree(const int[::1] heads not None):
    """Whether heads (1-based, 0 is the root) form a projective tree with exactly one root."""
    return is_projective(&heads[0] if heads.shape[0] else NULL, heads.shape[0])


def is_part_of_tree(const int[::1] heads not None):
    """Whether some projective tree with exactly one root has these heads (1-based, 0 is the root, -1 for
    tokens whose head is not known)."""
    cdef int n = heads.shape[0], result
    cdef Arena arena
    memset(&arena, 0, sizeof(arena))
    with nogil:
        result = is_part(&heads[0] if n else NULL, n, &arena)
        arena_free(&arena)
    if result < 0:
        raise MemoryError()
    return bool(result)
