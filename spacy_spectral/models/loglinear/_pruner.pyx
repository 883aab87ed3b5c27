# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The quick pruner: a first-order model of arcs with few features, in a small table without collision checks,
trained by conditional likelihood. Its marginals tell which arcs are worth more time. Of long arcs it looks only at
those of a few heads, so that its work hardly grows faster than the sentence.
"""
import numpy

from libc.math cimport exp, fabs, isfinite
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._prefetch cimport FETCH
from ...base._linear cimport mix, rotate, stride
from ...trees._first_order cimport ArcList, first_order_marginals
from ._features cimport Context, fill_composites

cpdef enum:
    MAX_TEMPLATES = 64
    N_FLAGS = 4  # with distance, with what is between, or both

cdef double NEGLIGIBLE = 1e-3  # gradients below it are not worth a visit to memory
cdef uint64_t SPREAD = <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t TEMPLATE = <uint64_t>0xD1B54A32D192ED03 * <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t KIND = <uint64_t>0x9FB21C651E98DF25 * <uint64_t>0x9E3779B97F4A7C15


cdef struct Scorer:
    Context context
    int n_templates
    const int32_t* templates  # n_templates x (composite of the head, of the modifier, flags)
    const uint8_t* between_bit
    const float* weights
    uint64_t mask


cdef struct Candidates:
    # the arcs of a sentence that enter the chart
    ArcList arcs
    uint8_t* between  # which separating tags stand between head and modifier
    uint64_t* as_head  # (n+1) x templates: a token's share in the keys of arcs
    uint64_t* as_mod
    double* potential
    double* mu


cdef void _set_scorer(
    Scorer* scorer, int n_columns, const int32_t[:, :, ::1] composites,
    const int32_t[:, ::1] templates, const uint8_t[::1] between_bit, const float[::1] weights
):
    scorer.context.n_columns = n_columns
    scorer.context.n_composites = composites.shape[0]
    scorer.context.composites = &composites[0, 0, 0]
    scorer.n_templates = templates.shape[0]
    scorer.templates = &templates[0, 0]
    scorer.between_bit = &between_bit[0]
    scorer.weights = &weights[0]
    scorer.mask = weights.shape[0] - 1


cdef int _take_candidates(Candidates* some, int n, int size, Arena* arena) noexcept nogil:
    """Memory for at most `size` arcs. RETURNS (int): 0, or -1 without memory."""
    some.arcs.n = n
    some.arcs.start = <int*>take_zeros(arena, (n + 2) * sizeof(int))
    some.arcs.head = <int*>take(arena, size * sizeof(int))
    some.arcs.mod = <int*>take(arena, size * sizeof(int))
    some.between = <uint8_t*>take(arena, size)
    some.potential = <double*>take(arena, (size + 1) * sizeof(double))
    some.mu = <double*>take_zeros(arena, size * sizeof(double))
    if some.arcs.start == NULL or some.arcs.head == NULL or some.arcs.mod == NULL:
        return -1
    return -1 if some.between == NULL or some.potential == NULL or some.mu == NULL else 0


cdef int _make_keys(
    const Scorer* scorer, const uint64_t* columns, int n, Candidates* some, Arena* arena
) noexcept nogil:
    cdef int i, t, n_templates = scorer.n_templates, k = scorer.context.n_composites
    cdef uint64_t* composites = <uint64_t*>take(arena, (n + 1) * k * sizeof(uint64_t))
    some.as_head = <uint64_t*>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    some.as_mod = <uint64_t*>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    if composites == NULL or some.as_head == NULL or some.as_mod == NULL:
        return -1
    fill_composites(&scorer.context, columns, n, composites)
    for i in range(n + 1):
        for t in range(n_templates):
            some.as_head[i * n_templates + t] = (
                composites[i * k + scorer.templates[3 * t]] * SPREAD)
            some.as_mod[i * n_templates + t] = rotate(
                composites[i * k + scorer.templates[3 * t + 1]], 27)
    return 0


cdef inline int _distance_bin(int distance) noexcept nogil:
    # finer than those of `trees.lengths`: distance is half of what a pruner knows
    if distance <= 5:
        return distance
    if distance <= 10:
        return 6 + (distance > 7)
    return 8 + (distance > 15) + (distance > 30)


cdef inline void _slots_of(
    const Scorer* scorer, const Candidates* some, int h, int m, int between, uint32_t* slots
) noexcept nogil:
    """Where the weights of an arc's features are, and a request for that memory."""
    cdef int t, n_templates = scorer.n_templates
    cdef uint64_t direction = 2 if h == 0 else (m > h)
    cdef uint64_t distance = 4 * (1 + _distance_bin(m - h if m > h else h - m)) if h else 4
    cdef uint64_t seeds[N_FLAGS]
    cdef const uint64_t* head = some.as_head + h * n_templates
    cdef const uint64_t* mod = some.as_mod + m * n_templates
    cdef uint64_t key
    seeds[0] = KIND * direction
    seeds[1] = KIND * (direction + distance)
    seeds[2] = KIND * (direction + 64 * (1 + between))
    seeds[3] = KIND * (direction + distance + 64 * (1 + between))
    for t in range(n_templates):
        key = head[t] + TEMPLATE * (t + 1) + seeds[scorer.templates[3 * t + 2]]
        slots[t] = mix(key ^ mod[t]) & scorer.mask if head[t] and mod[t] else 0
        FETCH(scorer.weights + slots[t])


cdef inline double _sum(const Scorer* scorer, const uint32_t* slots) noexcept nogil:
    cdef double total = 0
    cdef int t
    for t in range(scorer.n_templates):
        total += scorer.weights[slots[t]]
    return total


cdef double _score_arc(
    const Scorer* scorer, const Candidates* some, int h, int m, int between
) noexcept nogil:
    """RETURNS (double): The score of one arc."""
    cdef uint32_t slots[MAX_TEMPLATES]
    _slots_of(scorer, some, h, m, between, slots)
    return _sum(scorer, slots)


cdef void _score_arcs(const Scorer* scorer, Candidates* some) noexcept nogil:
    """Multiply the potentials of the arcs by what their features say, at most 1 for any modifier's best."""
    cdef uint32_t slots[2][MAX_TEMPLATES]
    cdef int a, m, n_arcs = some.arcs.n_arcs
    cdef double top
    for a in range(n_arcs + 1):
        if a < n_arcs:
            _slots_of(
                scorer, some, some.arcs.head[a], some.arcs.mod[a], some.between[a], slots[a & 1])
        if a:  # the weights of the arc before have been asked for a while ago
            some.potential[a - 1] += _sum(scorer, slots[(a - 1) & 1])
    for m in range(1, some.arcs.n + 1):
        top = -1e30
        for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
            top = max(top, some.potential[a])
        for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
            some.potential[a] = exp(some.potential[a] - top)


cdef int _arc_marginals(Candidates* some, Arena* arena) noexcept nogil:
    """Probabilities of the arcs, into `mu`. RETURNS (int): 0, or -1 without memory."""
    cdef int m, a
    cdef double total, log_z
    cdef bint sound
    if first_order_marginals(&some.arcs, some.potential, some.mu, &log_z, arena):
        return -1
    sound = isfinite(log_z)
    for a in range(some.arcs.n_arcs if sound else 0):
        sound = sound and isfinite(some.mu[a])
    if not sound:
        for m in range(1, some.arcs.n + 1):  # a very long sentence: each token by itself
            total = 0
            for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                total += some.potential[a]
            for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                some.mu[a] = some.potential[a] / total
    return 0


cdef int _learn_arcs(
    const Scorer* scorer, const Candidates* some, const int32_t* heads, float* weights, float* squares,
    double rate, Arena* arena
) noexcept nogil:
    """One step of AdaGrad on the log-likelihood, after `_arc_marginals`. Slot 0 is not used and stays 0. RETURNS (int): 0, or -1 without memory."""
    cdef int a, t
    cdef uint32_t slots[MAX_TEMPLATES]
    cdef float gradient
    cdef uint32_t at
    cdef double* target = <double*>take(arena, (some.arcs.n_arcs + 1) * sizeof(double))
    if target == NULL or _find_target(some, heads, target, arena):
        return -1
    for a in range(some.arcs.n_arcs):
        gradient = target[a] - some.mu[a]
        if fabs(gradient) < NEGLIGIBLE:
            continue
        _slots_of(scorer, some, some.arcs.head[a], some.arcs.mod[a], some.between[a], slots)
        for t in range(scorer.n_templates):
            at = slots[t]
            if at:
                weights[at] += stride(&squares[at], gradient, rate)
    return 0


cdef int _find_target(
    const Candidates* some, const int32_t* heads, double* target, Arena* arena
) noexcept nogil:
    """What the marginals should be: the annotated arcs, and marginals given them for the rest."""
    cdef int a, m
    cdef bint complete = True
    cdef double* given
    cdef double log_z
    for a in range(some.arcs.n_arcs):
        m = some.arcs.mod[a] - 1
        complete = complete and heads[m] >= 0
        target[a] = heads[m] == some.arcs.head[a]
    if complete:
        return 0
    given = <double*>take(arena, (some.arcs.n_arcs + 1) * sizeof(double))
    if given == NULL:
        return -1
    for a in range(some.arcs.n_arcs):
        m = some.arcs.mod[a] - 1
        given[a] = some.potential[a] if heads[m] < 0 or heads[m] == some.arcs.head[a] else 0
    if first_order_marginals(&some.arcs, given, target, &log_z, arena):
        return -1
    if not isfinite(log_z):  # no tree of the candidates agrees: nothing is known of the rest
        for a in range(some.arcs.n_arcs):
            if heads[some.arcs.mod[a] - 1] < 0:
                target[a] = some.mu[a]
    return 0


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
    _score_arcs(&batch.scorer, some)
    return -1 if _arc_marginals(some, &batch.arena) else n


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
        score[m] = _score_arc(scorer, some, 0, m, 0)
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
    if found == NULL or is_far == NULL or best == NULL or _take_candidates(some, n, size, arena):
        return -1
    if _make_keys(scorer, batch.columns + start * scorer.context.n_columns, n, some, arena):
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
    _set_scorer(&batch.scorer, columns.shape[1], composites, templates, between_bit, weights)
    _set_batch(&batch, columns, tags, starts, reach, n_far, heads)
    with nogil:
        for i in range(order.shape[0]):
            n = _open_sentence(&batch, order[i], &some)
            failed = n < 0 or n > 0 and _learn_arcs(
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
    _set_scorer(&batch.scorer, columns.shape[1], composites, templates, between_bit, weights)
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
