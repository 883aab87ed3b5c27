# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The quick pruner: a first-order model with few features (see `_arcs`). Its marginals tell which arcs are
worth more time. Of long arcs it looks only at those of a few heads, so that its work hardly grows faster than
the sentence.
"""
import numpy

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memset

from ....base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._arcs cimport (
    Candidates, Scorer, arc_marginals, learn_arcs, make_keys, score_arc, score_arcs, set_scorer,
    take_candidates,
)


cdef struct Pruner:
    Scorer scorer
    int reach
    int n_far


cdef inline int _insert(double* best, int n, int most, double value) noexcept nogil:
    """Keep the largest few, in order. Returns how many there are now."""
    cdef int i = n if n < most else most - 1
    if n == most and value <= best[n - 1]:
        return n
    while i > 0 and best[i - 1] < value:
        best[i] = best[i - 1]
        i -= 1
    best[i] = value
    return min(n + 1, most)


cdef void _mark_far(
    const Pruner* pruner, const Candidates* some, uint8_t* is_far, double* score, double* best
) noexcept nogil:
    """Mark the likeliest roots: what is far away mostly depends on one of them."""
    cdef int m, i, n_found = 0, ties = 0
    for m in range(1, some.arcs.n + 1):
        score[m] = score_arc(&pruner.scorer, some, 0, m, 0)
        n_found = _insert(best, n_found, pruner.n_far, score[m])
    for i in range(n_found):  # as many of those that are no better than the last as there is room for
        ties += best[i] == best[n_found - 1]
    for m in range(1, some.arcs.n + 1):
        if score[m] > best[n_found - 1]:
            is_far[m] = 1
        elif score[m] == best[n_found - 1] and ties:
            is_far[m] = 1
            ties -= 1


cdef int _choose(
    const Pruner* pruner, const uint64_t* columns, const int32_t* tags, int n, const int32_t* keep,
    Candidates* some, Arena* arena
) noexcept nogil:
    """List and score the arcs that enter the chart: all short ones, those of likely roots, those from
    the root, and those of `keep`. A chain of arcs from the left is a tree, so there is one."""
    cdef int h, m, step, between, a = 0, reach = max(pruner.reach, 1)
    cdef int size = n * min(n, 2 * reach + pruner.n_far + 2)
    cdef const uint8_t* between_bit = pruner.scorer.between_bit
    cdef uint8_t* found = <uint8_t*>take(arena, n + 1)
    cdef uint8_t* is_far = <uint8_t*>take_zeros(arena, n + 1)
    cdef double* best = <double*>take(arena, (pruner.n_far + n + 2) * sizeof(double))
    if found == NULL or is_far == NULL or best == NULL or take_candidates(some, n, size, arena):
        return -1
    if make_keys(&pruner.scorer, columns, n, some, arena):
        return -1
    if n > reach and pruner.n_far:
        _mark_far(pruner, some, is_far, best + pruner.n_far + 1, best)
    for m in range(1, n + 1):
        for step in range(-1, 2, 2):
            between = 0
            h = m + step
            while 1 <= h <= n:
                found[h] = between
                between |= between_bit[tags[h - 1]]
                h += step
        found[0] = 0
        for h in range(n + 1):
            if h == m:
                continue
            if h and abs(h - m) > reach and not is_far[h] and h != keep[m - 1]:
                continue
            some.arcs.head[a], some.arcs.mod[a], some.between[a] = h, m, found[h]
            some.potential[a] = 0
            a += 1
        some.arcs.start[m + 1] = a
    some.arcs.n_arcs = a
    score_arcs(&pruner.scorer, some)
    return 0


def train_pruner(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] templates not None,
    const uint8_t[::1] between_bit not None, float[::1] weights not None, float[::1] squares not None,
    const int32_t[::1] order not None, double rate, int reach, int n_far,
):
    """Some sentences' worth of AdaGrad on the log-likelihood. Slot 0 is not used and stays 0."""
    cdef Pruner pruner
    cdef Candidates some
    cdef Arena arena
    cdef int i, s, start, n, failed = 0
    set_scorer(&pruner.scorer, columns.shape[1], composites, templates, between_bit, weights)
    pruner.reach, pruner.n_far = reach, n_far
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for i in range(order.shape[0]):
            s = order[i]
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            arena_reset(&arena)
            failed = _choose(
                &pruner, &columns[start, 0], &tags[start], n, &heads[start], &some, &arena)
            failed = failed or arc_marginals(&some, &arena)
            failed = failed or learn_arcs(
                &pruner.scorer, &some, &heads[start], &weights[0], &squares[0], rate, &arena)
            if failed:
                break
        arena_free(&arena)
    if failed:
        raise MemoryError


def prune(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[:, :, ::1] composites not None,
    const int32_t[:, ::1] templates not None, const uint8_t[::1] between_bit not None,
    const float[::1] weights not None, double threshold, int most, int reach, int n_far,
    const int32_t[::1] gold not None,
):
    """The heads worth a closer look.

    threshold (float): Keep heads with at least this probability relative to the token's best.
    most (int): Keep at most so many heads of a token.
    reach (int): Arcs of at most this length enter the chart,
    n_far (int): and all arcs of so many tokens, the likeliest roots.
    gold (int32[n]): Heads to keep in any case (-1: none).
    RETURNS (Tuple[ndarray, ndarray, ndarray]): arc_start (int32[n + 1]), heads (int32) ascending for
        each token, their probabilities (float32). The head to the left is always kept, so a tree exists.
    """
    cdef Pruner pruner
    cdef Candidates some
    cdef Arena arena
    cdef int s, start, n, m, a, h, kept, j, ties, failed = 0
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = numpy.zeros(total + 1, dtype=numpy.int32)
    arc_head = numpy.empty(total * (most + 2) + 1, dtype=numpy.int32)
    arc_prob = numpy.empty(total * (most + 2) + 1, dtype=numpy.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef double limit, prob
    cdef double[::1] best = numpy.empty(most, dtype=numpy.float64)
    set_scorer(&pruner.scorer, columns.shape[1], composites, templates, between_bit, weights)
    pruner.reach, pruner.n_far = reach, n_far
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            arena_reset(&arena)
            failed = _choose(
                &pruner, &columns[start, 0], &tags[start], n, &gold[start], &some, &arena)
            failed = failed or arc_marginals(&some, &arena)
            if failed:
                break
            for m in range(1, n + 1):
                kept = 0
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    kept = _insert(&best[0], kept, most, some.mu[a])
                limit = max(best[kept - 1], threshold * best[0])
                ties = 0  # as many of those at the limit as there is room for
                for j in range(kept):
                    ties += best[j] == limit
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    h, prob = some.arcs.head[a], some.mu[a]
                    if prob == limit and ties:
                        ties -= 1
                    elif prob <= limit and h != m - 1 and h != gold[start + m - 1]:
                        continue
                    out_head[at] = h
                    out_prob[at] = prob
                    at += 1
                out_start[start + m] = at
        arena_free(&arena)
    if failed:
        raise MemoryError
    return arc_start, arc_head[:at].copy(), arc_prob[:at].copy()
