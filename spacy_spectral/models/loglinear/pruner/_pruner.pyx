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
    Candidates, Scorer, arc_marginals, learn_arcs, make_keys, score_arc, score_arcs, set_scorer, take_candidates,
)


cdef struct Batch:
    # sentences, what enters the chart of one, and the arena that each uses in turn
    Scorer scorer
    const uint64_t* columns
    const int32_t* tags
    const int32_t* starts
    int reach
    int n_far
    const int32_t* keep  # a head of every token, or -1
    Arena arena


cdef void _set_batch(
    Batch* batch, const uint64_t[:, ::1] columns, const int32_t[::1] tags, const int32_t[::1] starts,
    int reach, int n_far, const int32_t[::1] keep
):
    """What these views are of must stay as long as the batch is used; its arena must be freed."""
    batch.columns = &columns[0, 0] if columns.shape[0] else NULL
    batch.tags = &tags[0] if tags.shape[0] else NULL
    batch.keep = &keep[0] if keep.shape[0] else NULL
    batch.starts = &starts[0]
    batch.reach, batch.n_far = max(reach, 1), n_far
    memset(&batch.arena, 0, sizeof(batch.arena))


cdef int _open_sentence(Batch* batch, int s, Candidates* some) noexcept nogil:
    """Arcs and their probabilities. RETURNS (int): How many tokens the sentence has, or -1 without memory."""
    cdef int n = batch.starts[s + 1] - batch.starts[s]
    if n == 0:
        return 0
    arena_reset(&batch.arena)
    if _choose(batch, batch.starts[s], n, some):
        return -1
    score_arcs(&batch.scorer, some)
    return -1 if arc_marginals(some, &batch.arena) else n


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
    const Scorer* scorer, int n_far, const Candidates* some, uint8_t* is_far, double* score, double* best
) noexcept nogil:
    """Mark the likeliest roots: what is far away mostly depends on one of them."""
    cdef int m, i, n_found = 0, ties = 0
    for m in range(1, some.arcs.n + 1):
        score[m] = score_arc(scorer, some, 0, m, 0)
        n_found = _insert(best, n_found, n_far, score[m])
    for i in range(n_found):  # as many of those that are no better than the last as there is room for
        ties += best[i] == best[n_found - 1]
    for m in range(1, some.arcs.n + 1):
        if score[m] > best[n_found - 1]:
            is_far[m] = 1
        elif score[m] == best[n_found - 1] and ties:
            is_far[m] = 1
            ties -= 1


cdef int _choose(Batch* batch, Py_ssize_t start, int n, Candidates* some) noexcept nogil:
    """The arcs of a sentence that enter the chart: all short ones, those of likely roots, those from the root,
    and those of `keep`. A chain of arcs from the left is a tree, so there is one."""
    cdef const Scorer* scorer = &batch.scorer
    cdef const int32_t* tags = batch.tags + start
    cdef const int32_t* keep = batch.keep + start
    cdef int h, m, step, between, a = 0, reach = batch.reach, n_far = batch.n_far
    cdef int size = n * min(n, 2 * reach + n_far + 2)
    cdef Arena* arena = &batch.arena
    cdef uint8_t* found = <uint8_t*>take(arena, n + 1)
    cdef uint8_t* is_far = <uint8_t*>take_zeros(arena, n + 1)
    cdef double* best = <double*>take(arena, (n_far + n + 2) * sizeof(double))
    if found == NULL or is_far == NULL or best == NULL or take_candidates(some, n, size, arena):
        return -1
    if make_keys(scorer, batch.columns + start * scorer.context.n_columns, n, some, arena):
        return -1
    if n > reach and n_far:
        _mark_far(scorer, n_far, some, is_far, best + n_far + 1, best)
    for m in range(1, n + 1):
        for step in range(-1, 2, 2):
            between = 0
            h = m + step
            while 1 <= h <= n:
                found[h] = between
                between |= scorer.between_bit[tags[h - 1]]
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
    return 0


def train_pruner(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] templates not None,
    const uint8_t[::1] between_bit not None, float[::1] weights not None, float[::1] squares not None,
    const int32_t[::1] order not None, double rate, int reach, int n_far,
):
    """Some sentences' worth of AdaGrad."""
    cdef Batch batch
    cdef Candidates some
    cdef int i, n, failed = 0
    set_scorer(&batch.scorer, columns.shape[1], composites, templates, between_bit, weights)
    _set_batch(&batch, columns, tags, starts, reach, n_far, heads)
    with nogil:
        for i in range(order.shape[0]):
            n = _open_sentence(&batch, order[i], &some)
            failed = n < 0 or n > 0 and learn_arcs(
                &batch.scorer, &some, &heads[starts[order[i]]], &weights[0], &squares[0], rate, &batch.arena)
            if failed:
                break
        arena_free(&batch.arena)
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
    cdef Batch batch
    cdef Candidates some
    cdef int s, start, n = 0, m, a, h, kept, j, ties
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = numpy.zeros(total + 1, dtype=numpy.int32)
    arc_head = numpy.empty(total * (most + 2) + 1, dtype=numpy.int32)
    arc_prob = numpy.empty(total * (most + 2) + 1, dtype=numpy.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef double limit, prob
    cdef double[::1] best = numpy.empty(most, dtype=numpy.float64)
    set_scorer(&batch.scorer, columns.shape[1], composites, templates, between_bit, weights)
    _set_batch(&batch, columns, tags, starts, reach, n_far, gold)
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = _open_sentence(&batch, s, &some)
            if n < 0:
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
        arena_free(&batch.arena)
    if n < 0:
        raise MemoryError
    return arc_start, arc_head[:at].copy(), arc_prob[:at].copy()
