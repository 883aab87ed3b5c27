# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The filter: a second look at the arcs that the pruner has left, by a first-order model with many features
(see `_arcs`). What its marginals leave is worth looking up labels and neighbouring modifiers for.

It does not look at the pruner's probabilities: with them it is surer, and drops more right heads for as many
arcs that are left.
"""
import numpy

from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, uint8_t, uint64_t

from ....base._arena cimport Arena, arena_free, take, take_zeros
from ....trees._eisner cimport best_projective
from ....trees._projective cimport is_projective
from ._arcs cimport (
    Batch, Candidates, Scorer, learn_sentences, make_keys, open_sentence, score_arcs, set_batch, set_scorer,
    take_candidates,
)

cdef double SMALLEST = 1e-30  # of a probability whose logarithm is needed


cdef struct Given:
    # arcs of the batch
    const int32_t* start
    const int32_t* head


cdef int _score(
    const Scorer* scorer, const void* given, const uint64_t* columns, const int32_t* tags, int n,
    Py_ssize_t start, Candidates* some, Arena* arena
) noexcept nogil:
    """A `Lister` of the given arcs."""
    cdef const int32_t* arc_start = (<const Given*>given).start + start
    cdef const int32_t* arc_head = (<const Given*>given).head
    cdef int m, i, k, h, between, at, a = 0, first = arc_start[0]
    if take_candidates(some, n, arc_start[n] - first, arena):
        return -1
    if make_keys(scorer, columns, n, some, arena):
        return -1
    for m in range(1, n + 1):
        # heads ascend: from the modifier outwards, to the left and to the right
        between, at, i = 0, m - 1, arc_start[m] - 1
        while i >= arc_start[m - 1] and arc_head[i] > m:
            i -= 1
        k = i
        while i >= arc_start[m - 1]:
            h = arc_head[i]
            while at > h and h > 0:
                between |= scorer.between_bit[tags[at - 1]]
                at -= 1
            some.between[i - first] = between if h else 0
            i -= 1
        between, at = 0, m + 1
        for i in range(k + 1, arc_start[m]):
            while at < arc_head[i]:
                between |= scorer.between_bit[tags[at - 1]]
                at += 1
            some.between[i - first] = between
        for i in range(arc_start[m - 1], arc_start[m]):
            some.arcs.head[a], some.arcs.mod[a] = arc_head[i], m
            some.potential[a] = 0
            a += 1
        some.arcs.start[m + 1] = a
    some.arcs.n_arcs = a
    score_arcs(scorer, some)
    return 0


def train_filter(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] templates not None,
    const uint8_t[::1] between_bit not None, float[::1] weights not None,
    float[::1] squares not None, const int32_t[::1] order not None, double rate,
):
    """See `_arcs.learn_sentences`."""
    cdef Scorer scorer
    cdef Given given
    cdef Batch batch
    set_scorer(&scorer, columns.shape[1], composites, templates, between_bit, weights)
    given.start, given.head = &arc_start[0], &arc_head[0]
    set_batch(&batch, &scorer, columns, tags, starts, _score, &given)
    learn_sentences(&batch, heads, weights, squares, order, rate)


cdef int _best_tree(const Candidates* some, int* heads, Arena* arena) noexcept nogil:
    """Heads of 1..n: the likeliest of every token if they are a tree, else the tree with the best product of
    probabilities. RETURNS (int): 0, or -1 without memory."""
    cdef int n = some.arcs.n, m, a, top
    cdef size_t width = n + 1, i
    cdef double score
    cdef double* logs
    for m in range(1, n + 1):
        top = some.arcs.start[m]
        for a in range(top + 1, some.arcs.start[m + 1]):
            if some.mu[a] > some.mu[top]:
                top = a
        heads[m] = some.arcs.head[top]
    if is_projective(heads + 1, n):
        return 0
    logs = <double*>take(arena, width * width * sizeof(double))
    if logs == NULL:
        return -1
    for i in range(width * width):
        logs[i] = -INFINITY
    for a in range(some.arcs.n_arcs):
        logs[some.arcs.head[a] * width + some.arcs.mod[a]] = log(max(some.mu[a], SMALLEST))
    return best_projective(n, logs, heads + 1, &score, arena)


def filter_arcs(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
    const int32_t[::1] arc_head not None, const int32_t[:, :, ::1] composites not None,
    const int32_t[:, ::1] templates not None, const uint8_t[::1] between_bit not None,
    const float[::1] weights not None, double threshold, const int32_t[::1] gold not None,
):
    """The arcs that are left after a second look.

    arc_start (int32[n + 1]), arc_head (int32[arcs]): What the pruner has left; each sentence has a tree of
        them.
    threshold (float): Keep heads with at least this probability relative to the token's best.
    gold (int32[n]): Heads to keep in any case (-1: none).
    RETURNS (Tuple[ndarray, ndarray, ndarray]): Arcs in the same form, and their probabilities (float32). The
        arcs of the likeliest tree are always kept; of a sentence that is annotated in part, all are: who
        knows which of them agree with the annotation.
    """
    cdef Scorer scorer
    cdef Given given
    cdef Batch batch
    cdef Candidates some
    cdef int s, start, n, m, a, h, n_known, failed = 0
    cdef Py_ssize_t at = 0
    cdef double limit
    cdef int* best
    out_start = numpy.zeros(arc_start.shape[0], dtype=numpy.int32)
    out_head = numpy.empty(arc_head.shape[0] + 1, dtype=numpy.int32)
    out_prob = numpy.empty(arc_head.shape[0] + 1, dtype=numpy.float32)
    cdef int32_t[::1] new_start = out_start
    cdef int32_t[::1] new_head = out_head
    cdef float[::1] new_prob = out_prob
    set_scorer(&scorer, columns.shape[1], composites, templates, between_bit, weights)
    given.start, given.head = &arc_start[0], &arc_head[0]
    set_batch(&batch, &scorer, columns, tags, starts, _score, &given)
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = open_sentence(&batch, s, &some)
            if n == 0:
                continue
            best = <int*>take_zeros(&batch.arena, (n + 2) * sizeof(int)) if n > 0 else NULL
            failed = best == NULL or _best_tree(&some, best, &batch.arena)
            if failed:
                break
            n_known = 0
            for m in range(1, n + 1):
                n_known += gold[start + m - 1] >= 0
            for m in range(1, n + 1):
                limit = 0
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    limit = max(limit, some.mu[a])
                limit *= threshold if n_known in (0, n) else 0
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    h = some.arcs.head[a]
                    if some.mu[a] >= limit or h == best[m] or h == gold[start + m - 1]:
                        new_head[at], new_prob[at] = h, some.mu[a]
                        at += 1
                new_start[start + m] = at
        arena_free(&batch.arena)
    if failed:
        raise MemoryError
    return out_start, out_head[:at].copy(), out_prob[:at].copy()
