# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The k best derivations of a chart, enumerated lazily (Huang & Chiang 2005, algorithm 3).

An item is made by steps; a step has a score and up to two parts, which are items. A derivation of an item is a step
and the ranks of its parts' derivations. The chart tells what the steps of an item are, see `Search`. Ties go to the
lower step, then to the lower ranks of parts: results do not depend on memory layout.
"""
from libc.math cimport INFINITY
from libc.string cimport memcpy

from ._arena cimport Arena, take, take_zeros

ctypedef Py_ssize_t item_t      # negative for a part that is not there: it has one derivation, of score 0


cdef struct Derivation:
    double score
    int step
    int first       # ranks of the parts' derivations
    int second


cdef struct Ranking:
    Derivation* done        # the best derivations found so far, best first
    Derivation* heap        # candidates for the next one
    int n_done
    int n_heap
    int done_size
    int heap_size


cdef struct Search:
    const void* chart
    # the parts and the own score of a step
    double (*parts)(const void* chart, item_t item, int step, item_t* first, item_t* second) noexcept nogil
    # the score of an item's best derivation
    double (*best)(const void* chart, item_t item) noexcept nogil
    # calls `consider(search, item, ranking, step, 0, 0)` for every step of an item; returns 0, or -1 without memory
    int (*open)(Search* search, item_t item, Ranking* ranking) noexcept nogil
    Ranking** rankings      # by item, NULL until asked for
    Arena* arena


cdef inline double added(double own, double first, double second) noexcept nogil:
    # in one place: another order of additions would rank ties differently
    return own + first + second


cdef inline bint _before(const Derivation* a, const Derivation* b) noexcept nogil:
    if a.score != b.score:
        return a.score > b.score
    if a.step != b.step:
        return a.step < b.step
    if a.first != b.first:
        return a.first < b.first
    return a.second < b.second


cdef inline Derivation* _longer(Arena* arena, Derivation* old, int* size) noexcept nogil:
    """Twice the room; what was in the old one is copied."""
    cdef Derivation* new = <Derivation*>take(arena, (2 * size[0] + 4) * sizeof(Derivation))
    if new is not NULL:
        if size[0]:
            memcpy(new, old, size[0] * sizeof(Derivation))
        size[0] = 2 * size[0] + 4
    return new


cdef inline int _push(Arena* arena, Ranking* ranking, Derivation entry) noexcept nogil:
    cdef int child, parent
    if ranking.n_heap == ranking.heap_size:
        ranking.heap = _longer(arena, ranking.heap, &ranking.heap_size)
        if ranking.heap is NULL:
            return -1
    child = ranking.n_heap
    ranking.n_heap += 1
    while child > 0:
        parent = (child - 1) // 2
        if not _before(&entry, ranking.heap + parent):
            break
        ranking.heap[child] = ranking.heap[parent]
        child = parent
    ranking.heap[child] = entry
    return 0


cdef inline int _pop(Arena* arena, Ranking* ranking) noexcept nogil:
    """Move the best candidate to the end of `done`."""
    cdef int parent = 0, child
    cdef Derivation last
    if ranking.n_done == ranking.done_size:
        ranking.done = _longer(arena, ranking.done, &ranking.done_size)
        if ranking.done is NULL:
            return -1
    ranking.done[ranking.n_done] = ranking.heap[0]
    ranking.n_done += 1
    ranking.n_heap -= 1
    last = ranking.heap[ranking.n_heap]
    while True:
        child = 2 * parent + 1
        if child >= ranking.n_heap:
            break
        if child + 1 < ranking.n_heap and _before(ranking.heap + child + 1, ranking.heap + child):
            child += 1
        if not _before(ranking.heap + child, &last):
            break
        ranking.heap[parent] = ranking.heap[child]
        parent = child
    ranking.heap[parent] = last
    return 0


cdef inline double _rank_score(const Search* search, item_t item, int rank) noexcept nogil:
    """The score of a part's derivation of that rank, which must have been found before."""
    if item < 0:
        return 0.0
    return search.best(search.chart, item) if rank == 0 else search.rankings[item].done[rank].score


cdef inline int consider(
    Search* search, item_t item, Ranking* ranking, int step, int first, int second
) noexcept nogil:
    """Make a derivation a candidate. Returns 0, or -1 if memory ran out."""
    cdef Derivation entry
    cdef item_t[2] part
    cdef double own = search.parts(search.chart, item, step, &part[0], &part[1])
    entry.score = added(
        own, _rank_score(search, part[0], first), _rank_score(search, part[1], second))
    if entry.score == -INFINITY:
        return 0
    entry.step, entry.first, entry.second = step, first, second
    return _push(search.arena, ranking, entry)


cdef inline int find_ranked(Search* search, item_t item, int rank) noexcept nogil:
    """Make sure that an item's derivation of this rank is known.

    Returns 1 if it exists, 0 if there is none, -1 if memory ran out.
    """
    cdef Ranking* ranking
    cdef Derivation last
    cdef item_t[2] part
    cdef int found
    if item < 0:
        return rank == 0
    ranking = search.rankings[item]
    if ranking is NULL:
        ranking = search.rankings[item] = <Ranking*>take_zeros(search.arena, sizeof(Ranking))
        if ranking is NULL or search.open(search, item, ranking) < 0:
            return -1
    while ranking.n_done <= rank:
        if ranking.n_done > 0:
            # Successors of the last one. Raising the first rank only where the second is 0 reaches
            # every pair of ranks exactly once.
            last = ranking.done[ranking.n_done - 1]
            search.parts(search.chart, item, last.step, &part[0], &part[1])
            found = find_ranked(search, part[1], last.second + 1)
            if found > 0:
                found = consider(search, item, ranking, last.step, last.first, last.second + 1)
            if found < 0:
                return -1
            if last.second == 0:
                found = find_ranked(search, part[0], last.first + 1)
                if found > 0:
                    found = consider(search, item, ranking, last.step, last.first + 1, 0)
                if found < 0:
                    return -1
        if ranking.n_heap == 0:
            return 0
        if _pop(search.arena, ranking) < 0:
            return -1
    return 1


cdef inline int find_best(Search* search, item_t item, int k) noexcept nogil:
    """Find the k best derivations of an item. Returns how many there are, k at most; -1 if memory ran out."""
    if find_ranked(search, item, k - 1) < 0:
        return -1
    return min(k, search.rankings[item].n_done)
