# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Best and k best projective single-root trees under a matrix of arc scores.

Eisner's algorithm over three kinds of items for tokens i <= j:

    SPLIT(i, j)    i and j are about to be linked: RIGHT(i, k) next to LEFT(k+1, j)
    RIGHT(i, j)    i is a finished head of everything to its right up to j: arc i -> k, SPLIT(i, k), RIGHT(k, j)
    LEFT(i, j)     the mirror image, j is the head: arc j -> k, SPLIT(k, j), LEFT(i, k)

and one goal item: arc root -> m, LEFT(1, m), RIGHT(m, N). Every tree has exactly one derivation and every
derivation step has two parts, so the k best are enumerated lazily by Huang & Chiang (2005, algorithm 3).
Only arcs that are not forbidden are looked at: a pruned sentence costs its arcs times its length.
Ties are broken by split point, then by the ranks of the parts: results do not depend on memory layout.
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

import numpy

from ..base._arena cimport Arena, arena_free, take, take_zeros


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


cdef struct Chart:
    int n                   # tokens are 1..n, 0 is the root
    const double* arcs      # [n+1, n+1]: head, modifier
    int* start              # [2 (n+1) + 1]: where the modifiers of a head on one side start; RIGHT is first
    int* modifier           # their positions, ascending
    double* best            # [3, n+1, n+1]: best score of every item that some tree has
    int* split              # [3, n+1, n+1]: and the split point that gives it
    Item** items            # [3, n+1, n+1] and the goal as the last one; NULL until asked for
    Arena* arena


cdef inline size_t _at(Chart* chart, int kind, int i, int j) noexcept nogil:
    # by head, then end: loops over split points run along rows
    if kind == LEFT:
        i, j = j, i
    return (<size_t>kind * (chart.n + 1) + i) * (chart.n + 1) + j


cdef inline double _arc(Chart* chart, int head, int modifier) noexcept nogil:
    return chart.arcs[<size_t>head * (chart.n + 1) + modifier]


cdef inline double _step(double arc, double first, double second) noexcept nogil:
    # in one place: another order of additions would rank ties differently
    return arc + first + second


cdef int _lay_out(Chart* chart, int n, const double* arcs, Arena* arena) noexcept nogil:
    """List the allowed arcs and take memory. Returns 0, or -1 if memory ran out."""
    cdef int h, m, n_arcs = 0, width = n + 1
    cdef size_t cells = 3 * <size_t>width * width
    chart.n = n
    chart.arcs = arcs
    chart.arena = arena
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


cdef void _fill_split(Chart* chart, int i, int j) noexcept nogil:
    cdef const double* right = chart.best + _at(chart, RIGHT, i, 0)
    cdef const double* left = chart.best + _at(chart, LEFT, 1, j)  # of LEFT(k + 1, j) at k
    cdef double score, best = -INFINITY
    cdef int k, split = i
    for k in range(i, j):
        score = _step(0.0, right[k], left[k])
        if score > best:
            best = score
            split = k
    chart.best[_at(chart, SPLIT, i, j)] = best
    chart.split[_at(chart, SPLIT, i, j)] = split


cdef void _fill(Chart* chart) noexcept nogil:
    """Best score and split of every item, by right end and then from the inside out."""
    cdef int n = chart.n, i, j, k, a, best_k
    cdef double score, best
    for j in range(1, n + 1):
        chart.best[_at(chart, RIGHT, j, j)] = 0.0
        chart.best[_at(chart, LEFT, j, j)] = 0.0
        for i in range(j - 1, 0, -1):
            if _arc(chart, i, j) != -INFINITY or _arc(chart, j, i) != -INFINITY:
                _fill_split(chart, i, j)
            best, best_k = -INFINITY, j
            for a in range(chart.start[2 * i], chart.start[2 * i + 1]):
                k = chart.modifier[a]
                if k > j:
                    break
                score = _step(
                    _arc(chart, i, k), chart.best[_at(chart, SPLIT, i, k)],
                    chart.best[_at(chart, RIGHT, k, j)])
                if score > best:
                    best, best_k = score, k
            chart.best[_at(chart, RIGHT, i, j)] = best
            chart.split[_at(chart, RIGHT, i, j)] = best_k
            best, best_k = -INFINITY, i
            for a in range(chart.start[2 * j + 1], chart.start[2 * j + 2]):
                k = chart.modifier[a]
                if k < i:
                    continue
                score = _step(
                    _arc(chart, j, k), chart.best[_at(chart, SPLIT, k, j)],
                    chart.best[_at(chart, LEFT, i, k)])
                if score > best:
                    best, best_k = score, k
            chart.best[_at(chart, LEFT, i, j)] = best
            chart.split[_at(chart, LEFT, i, j)] = best_k


cdef double _best_root(Chart* chart, int* root) noexcept nogil:
    cdef int m
    cdef double score, best = -INFINITY
    root[0] = 1
    for m in range(1, chart.n + 1):
        score = _step(
            _arc(chart, 0, m), chart.best[_at(chart, LEFT, 1, m)],
            chart.best[_at(chart, RIGHT, m, chart.n)])
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


cdef inline Item** _item(Chart* chart, int kind, int i, int j) noexcept nogil:
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


cdef Derivation* _longer(Arena* arena, Derivation* old, int* size) noexcept nogil:
    """Twice the room; what was in the old one is copied."""
    cdef Derivation* new = <Derivation*>take(arena, (2 * size[0] + 4) * sizeof(Derivation))
    if new is not NULL:
        memcpy(new, old, size[0] * sizeof(Derivation))
        size[0] = 2 * size[0] + 4
    return new


cdef int _push(
    Arena* arena, Item* item, double score, int split, int first, int second
) noexcept nogil:
    cdef int child, parent
    cdef Derivation entry
    if item.n_heap == item.heap_size:
        item.heap = _longer(arena, item.heap, &item.heap_size)
        if item.heap is NULL:
            return -1
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


cdef int _pop(Arena* arena, Item* item) noexcept nogil:
    """Move the best candidate to the end of `done`."""
    cdef int parent = 0, child
    cdef Derivation last
    if item.n_done == item.done_size:
        item.done = _longer(arena, item.done, &item.done_size)
        if item.done is NULL:
            return -1
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
    return _item(chart, part[0], part[1], part[2])[0].done[rank].score


cdef int _consider(
    Chart* chart, Item* item, int kind, int i, int j, int k, int first, int second
) noexcept nogil:
    """Make a derivation a candidate."""
    cdef int[6] parts
    cdef double score
    _parts(chart, kind, i, j, k, parts)
    score = _step(
        _own_score(chart, kind, i, j, k), _rank_score(chart, parts, first),
        _rank_score(chart, parts + 3, second))
    if score == -INFINITY:
        return 0
    return _push(chart.arena, item, score, k, first, second)


cdef Item* _open(Chart* chart, int kind, int i, int j) noexcept nogil:
    """An item with the best derivation of every split point as candidates."""
    cdef Item* item = <Item*>take_zeros(chart.arena, sizeof(Item))
    cdef int k, a, side
    if item is NULL:
        return NULL
    if kind == SPLIT:
        for k in range(i, j):
            if _consider(chart, item, kind, i, j, k, 0, 0) < 0:
                return NULL
        return item
    side = 2 * j + 1 if kind == LEFT else (2 * i if kind == RIGHT else 0)
    for a in range(chart.start[side], chart.start[side + 1]):
        k = chart.modifier[a]
        if kind == GOAL or i <= k <= j:
            if _consider(chart, item, kind, i, j, k, 0, 0) < 0:
                return NULL
    return item


cdef int _find(Chart* chart, int kind, int i, int j, int rank) noexcept nogil:
    """Make sure that an item's derivation of this rank is known.

    Returns 1 if it exists, 0 if there is none, -1 if memory ran out.
    """
    cdef Item** place
    cdef Item* item
    cdef int found
    cdef int[6] parts
    cdef Derivation last
    if kind != GOAL and i == j:
        return 1 if rank == 0 else 0
    place = _item(chart, kind, i, j)
    if place[0] is NULL:
        place[0] = _open(chart, kind, i, j)
        if place[0] is NULL:
            return -1
    item = place[0]
    while item.n_done <= rank:
        if item.n_done > 0:
            # Successors of the last one. Raising the first rank only where the second is 0 reaches
            # every pair of ranks exactly once.
            last = item.done[item.n_done - 1]
            _parts(chart, kind, i, j, last.split, parts)
            found = _find(chart, parts[3], parts[4], parts[5], last.second + 1)
            if found > 0:
                found = _consider(
                    chart, item, kind, i, j, last.split, last.first, last.second + 1)
            if found < 0:
                return -1
            if last.second == 0:
                found = _find(chart, parts[0], parts[1], parts[2], last.first + 1)
                if found > 0:
                    found = _consider(chart, item, kind, i, j, last.split, last.first + 1, 0)
                if found < 0:
                    return -1
        if item.n_heap == 0:
            return 0
        if _pop(chart.arena, item) < 0:
            return -1
    return 1


cdef void _read(Chart* chart, int kind, int i, int j, int rank, int* heads) noexcept nogil:
    """Heads of a derivation that has been found."""
    cdef int[6] parts
    cdef Derivation derivation
    cdef int k
    if rank == 0 and kind != GOAL:
        _read_best(chart, kind, i, j, heads)
        return
    derivation = _item(chart, kind, i, j)[0].done[rank]
    k = derivation.split
    if kind != SPLIT:
        heads[k - 1] = i if kind == RIGHT else (j if kind == LEFT else 0)
    _parts(chart, kind, i, j, k, parts)
    _read(chart, parts[0], parts[1], parts[2], derivation.first, heads)
    _read(chart, parts[3], parts[4], parts[5], derivation.second, heads)


cdef int k_best(
    int n, const double* arcs, int k, int* heads, double* scores, Arena* arena
) noexcept nogil:
    """What `k_best_trees` does, for n > 0. Returns how many were found, or -1 if memory ran out."""
    cdef Chart chart
    cdef int found = 0, status
    if _lay_out(&chart, n, arcs, arena) < 0:
        return -1
    chart.items = <Item**>take_zeros(arena, (3 * <size_t>(n + 1) * (n + 1) + 1) * sizeof(Item*))
    if chart.items is NULL:
        return -1
    _fill(&chart)
    while found < k:
        status = _find(&chart, GOAL, 0, 0, found)
        if status < 0:
            return -1
        if status == 0:
            break
        _read(&chart, GOAL, 0, 0, found, heads + <size_t>found * n)
        scores[found] = _item(&chart, GOAL, 0, 0)[0].done[found].score
        found += 1
    return found


cdef int best_projective(
    int n, const double* arcs, int* heads, double* score, Arena* arena
) noexcept nogil:
    """What `best_tree` does, for n > 0. Returns 0, or -1 if memory ran out; no heads are written if every
    tree uses a forbidden arc."""
    cdef Chart chart
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
    """The best projective single-root tree.

    arcs (float[N+1, N+1]): Score of every arc (head, modifier); row 0 is the root. -inf forbids an arc.
    RETURNS (Tuple[ndarray, float]): Head of every token (1-based, 0 is the root), and the score: -inf if
        every tree uses a forbidden arc, and then the heads are just some tree.
    """
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
    """The k best projective single-root trees, best first, exactly.

    arcs (float[N+1, N+1]): Score of every arc (head, modifier); row 0 is the root. -inf forbids an arc.
    k (int): How many to find at most.
    RETURNS (Tuple[ndarray, ndarray]): Heads [found, N] (1-based, 0 is the root) and scores [found].
    """
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
        result = _is_part_of_tree(&heads[0] if n else NULL, n, &arena)
        arena_free(&arena)
    if result < 0:
        raise MemoryError()
    return bool(result)


cdef bint is_projective(const int* heads, int n) noexcept nogil:
    """One root; every token under an arc has its head under or at the ends of it; no cycle.

    The root stands left of all tokens, so its arc forbids others to reach over its child.
    """
    cdef int m, h, k, steps, roots = 0
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


cdef int _is_part_of_tree(const int* heads, int n, Arena* arena) noexcept nogil:
    """Arcs, that of the root included, must not cross, there is no cycle, and no head's own head stands
    between it and its modifier: then what is free can be filled in. Linear in n.

    Returns 1 or 0, or -1 if memory ran out.
    """
    cdef int m, h, k, top = 0, roots = 0
    # arcs as lists by right end, then by left end, those that reach farthest first
    cdef int* by_right = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    cdef int* by_left = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    cdef int* next_right = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* next_left = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* stack = <int*>take(arena, (n + 1) * sizeof(int))
    cdef int* seen = <int*>take_zeros(arena, (n + 1) * sizeof(int))
    if by_right is NULL or by_left is NULL or next_right is NULL or next_left is NULL:
        return -1
    if stack is NULL or seen is NULL:
        return -1
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h < -1 or h > n or h == m:
            return 0
        if h < 0:
            continue
        roots += h == 0
        if h and min(h, m) < heads[h - 1] < max(h, m):
            return 0
        next_right[m] = by_right[max(h, m)]
        by_right[max(h, m)] = m
    if roots > 1:
        return 0
    for k in range(1, n + 1):
        m = by_right[k]
        while m:
            h = min(heads[m - 1], m)
            next_left[m] = by_left[h]
            by_left[h] = m
            m = next_right[m]
    for k in range(n + 1):
        while top and stack[top - 1] == k:
            top -= 1
        m = by_left[k]
        while m:
            h = max(heads[m - 1], m)
            if top and h > stack[top - 1]:
                return 0
            stack[top] = h
            top += 1
            m = next_left[m]
    for m in range(1, n + 1):  # climb from every token to what was seen before
        k = m
        while k > 0 and not seen[k]:
            seen[k] = m
            k = heads[k - 1]
        if k > 0 and seen[k] == m:
            return 0
    return 1
