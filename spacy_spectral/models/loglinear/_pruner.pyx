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


cdef struct Pruner:
    Context context
    int n_templates
    const int32_t* templates  # n_templates x (composite of the head, of the modifier, flags)
    const uint8_t* between_bit
    const float* weights
    uint64_t mask
    int reach
    int n_far
    # sentences
    const uint64_t* columns
    const int32_t* tags
    const int32_t* starts
    const int32_t* keep  # a head of every token, or -1
    Arena arena  # of one sentence after the other


cdef struct Candidates:
    # the arcs of a sentence that enter the chart
    ArcList arcs
    uint8_t* between  # which separating tags stand between head and modifier
    uint64_t* as_head  # (n+1) x templates: a token's share in the keys of arcs
    uint64_t* as_mod
    double* potential
    double* mu


cdef void _set(
    Pruner* pruner, const uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] tags,
    const int32_t[:, :, ::1] composites, const int32_t[:, ::1] templates, const uint8_t[::1] between_bit,
    const float[::1] weights, int reach, int n_far, const int32_t[::1] keep
):
    """What these views are of must stay as long as the pruner is used; its arena must be freed."""
    memset(pruner, 0, sizeof(Pruner))
    pruner.context.n_columns = columns.shape[1]
    pruner.context.n_composites = composites.shape[0]
    pruner.context.composites = &composites[0, 0, 0]
    pruner.n_templates, pruner.templates = templates.shape[0], &templates[0, 0]
    pruner.between_bit = &between_bit[0]
    pruner.weights, pruner.mask = &weights[0], weights.shape[0] - 1
    pruner.reach, pruner.n_far = max(reach, 1), n_far
    pruner.columns = &columns[0, 0] if columns.shape[0] else NULL
    pruner.tags = &tags[0] if tags.shape[0] else NULL
    pruner.keep = &keep[0] if keep.shape[0] else NULL
    pruner.starts = &starts[0]


cdef int _make_keys(
    const Pruner* pruner, const uint64_t* columns, int n, Candidates* some, Arena* arena
) noexcept nogil:
    cdef int i, t, n_templates = pruner.n_templates, k = pruner.context.n_composites
    cdef uint64_t* composites = <uint64_t*>take(arena, (n + 1) * k * sizeof(uint64_t))
    some.as_head = <uint64_t*>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    some.as_mod = <uint64_t*>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    if composites == NULL or some.as_head == NULL or some.as_mod == NULL:
        return -1
    fill_composites(&pruner.context, columns, n, composites)
    for i in range(n + 1):
        for t in range(n_templates):
            some.as_head[i * n_templates + t] = (
                composites[i * k + pruner.templates[3 * t]] * SPREAD)
            some.as_mod[i * n_templates + t] = rotate(
                composites[i * k + pruner.templates[3 * t + 1]], 27)
    return 0


cdef inline int _distance_bin(int distance) noexcept nogil:
    # finer than those of `trees.lengths`: distance is half of what a pruner knows
    if distance <= 5:
        return distance
    if distance <= 10:
        return 6 + (distance > 7)
    return 8 + (distance > 15) + (distance > 30)


cdef inline void _slots_of(
    const Pruner* pruner, const Candidates* some, int h, int m, int between, uint32_t* slots
) noexcept nogil:
    """Where the weights of an arc's features are, and a request for that memory."""
    cdef int t, n_templates = pruner.n_templates
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
        key = head[t] + TEMPLATE * (t + 1) + seeds[pruner.templates[3 * t + 2]]
        slots[t] = mix(key ^ mod[t]) & pruner.mask if head[t] and mod[t] else 0
        FETCH(pruner.weights + slots[t])


cdef inline double _sum(const Pruner* pruner, const uint32_t* slots) noexcept nogil:
    cdef double total = 0
    cdef int t
    for t in range(pruner.n_templates):
        total += pruner.weights[slots[t]]
    return total


cdef void _score_arcs(const Pruner* pruner, Candidates* some) noexcept nogil:
    """Multiply the potentials of the arcs by what their features say, at most 1 for any modifier's best."""
    cdef uint32_t slots[2][MAX_TEMPLATES]
    cdef int a, m, n_arcs = some.arcs.n_arcs
    cdef double top
    for a in range(n_arcs + 1):
        if a < n_arcs:
            _slots_of(
                pruner, some, some.arcs.head[a], some.arcs.mod[a], some.between[a], slots[a & 1])
        if a:  # the weights of the arc before have been asked for a while ago
            some.potential[a - 1] += _sum(pruner, slots[(a - 1) & 1])
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
    const Pruner* pruner, const Candidates* some, const int32_t* heads, double trust, float* weights,
    float* squares, double rate, Arena* arena
) noexcept nogil:
    """One step of AdaGrad on the log-likelihood, times the weight of the sentence (`trust`), after `_arc_marginals`.
    Slot 0 is not used and stays 0. RETURNS (int): 0, or -1 without memory."""
    cdef int a, t
    cdef uint32_t slots[MAX_TEMPLATES]
    cdef float gradient
    cdef uint32_t at
    cdef double* target = <double*>take(arena, (some.arcs.n_arcs + 1) * sizeof(double))
    if target == NULL or _find_target(some, heads, target, arena):
        return -1
    for a in range(some.arcs.n_arcs):
        gradient = trust * (target[a] - some.mu[a])
        if fabs(gradient) < NEGLIGIBLE:
            continue
        _slots_of(pruner, some, some.arcs.head[a], some.arcs.mod[a], some.between[a], slots)
        for t in range(pruner.n_templates):
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


cdef int _open_sentence(Pruner* pruner, int s, Candidates* some) noexcept nogil:
    """Arcs and their probabilities. RETURNS (int): How many tokens the sentence has, or -1 without memory."""
    cdef int n = pruner.starts[s + 1] - pruner.starts[s]
    if n == 0:
        return 0
    arena_reset(&pruner.arena)
    if _choose(pruner, pruner.starts[s], n, some):
        return -1
    _score_arcs(pruner, some)
    return -1 if _arc_marginals(some, &pruner.arena) else n


cdef inline int _insert(const double* values, int* best, int n, int most, int at) noexcept nogil:
    """Keep the places of the largest few values, largest first; of equal ones those that came first. RETURNS (int):
    How many there are now."""
    cdef int i = min(n, most - 1)
    if n == most and values[at] <= values[best[n - 1]]:
        return n
    while i > 0 and values[best[i - 1]] < values[at]:
        best[i] = best[i - 1]
        i -= 1
    best[i] = at
    return min(n + 1, most)


cdef int _mark_far(Pruner* pruner, const Candidates* some, uint8_t* is_far) noexcept nogil:
    """Mark the likeliest roots: what is far away mostly depends on one of them. RETURNS (int): 0, or -1 without
    memory."""
    cdef int m, i, n_found = 0, n = some.arcs.n
    cdef uint32_t slots[MAX_TEMPLATES]
    cdef double* score = <double*>take(&pruner.arena, (n + 1) * sizeof(double))
    cdef int* best = <int*>take(&pruner.arena, (pruner.n_far + 1) * sizeof(int))
    if score == NULL or best == NULL:
        return -1
    for m in range(1, n + 1):
        _slots_of(pruner, some, 0, m, 0, slots)
        score[m] = _sum(pruner, slots)
        n_found = _insert(score, best, n_found, pruner.n_far, m)
    for i in range(n_found):
        is_far[best[i]] = 1
    return 0


cdef int _choose(Pruner* pruner, Py_ssize_t start, int n, Candidates* some) noexcept nogil:
    """The arcs of a sentence that enter the chart: all short ones, those of likely roots, those from the root,
    and those of `keep`. A chain of arcs from the left is a tree, so there is one."""
    cdef const int32_t* tags = pruner.tags + start
    cdef const int32_t* keep = pruner.keep + start
    cdef int h, m, step, between, a = 0, reach = pruner.reach
    cdef int size = n * min(n, 2 * reach + pruner.n_far + 2)
    cdef Arena* arena = &pruner.arena
    cdef uint8_t* found = <uint8_t*>take(arena, n + 1)
    cdef uint8_t* is_far = <uint8_t*>take_zeros(arena, n + 1)
    some.arcs.n = n
    some.arcs.start = <int*>take_zeros(arena, (n + 2) * sizeof(int))
    some.arcs.head = <int*>take(arena, size * sizeof(int))
    some.arcs.mod = <int*>take(arena, size * sizeof(int))
    some.between = <uint8_t*>take(arena, size)
    some.potential = <double*>take_zeros(arena, (size + 1) * sizeof(double))
    some.mu = <double*>take_zeros(arena, size * sizeof(double))
    if found == NULL or is_far == NULL or some.arcs.start == NULL or some.arcs.head == NULL:
        return -1
    if some.arcs.mod == NULL or some.between == NULL or some.potential == NULL or some.mu == NULL:
        return -1
    if _make_keys(pruner, pruner.columns + start * pruner.context.n_columns, n, some, arena):
        return -1
    if n > reach and pruner.n_far and _mark_far(pruner, some, is_far):
        return -1
    for m in range(1, n + 1):
        for step in range(-1, 2, 2):
            between = 0
            h = m + step
            while 1 <= h <= n:
                found[h] = between
                between |= pruner.between_bit[tags[h - 1]]
                h += step
        found[0] = 0
        for h in range(n + 1):
            if h == m or h and abs(h - m) > reach and not is_far[h] and h != keep[m - 1]:
                continue
            some.arcs.head[a], some.arcs.mod[a], some.between[a] = h, m, found[h]
            a += 1
        some.arcs.start[m + 1] = a
    some.arcs.n_arcs = a
    return 0


def train_pruner(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] templates not None,
    const uint8_t[::1] between_bit not None, float[::1] weights not None, float[::1] squares not None,
    const int32_t[::1] order not None, double rate, int reach, int n_far, const float[::1] trust=None,
):
    """Some sentences' worth of AdaGrad. `trust` is the weight of every sentence, 1 without."""
    cdef Pruner pruner
    cdef Candidates some
    cdef int i, n, failed = 0
    _set(
        &pruner, columns, starts, tags, composites, templates, between_bit, weights, reach, n_far, heads)
    with nogil:
        for i in range(order.shape[0]):
            n = _open_sentence(&pruner, order[i], &some)
            failed = n < 0 or n > 0 and _learn_arcs(
                &pruner, &some, &heads[starts[order[i]]], 1 if trust is None else trust[order[i]],
                &weights[0], &squares[0], rate, &pruner.arena)
            if failed:
                break
        arena_free(&pruner.arena)
    if failed:
        raise MemoryError


def prune(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[:, :, ::1] composites not None,
    const int32_t[:, ::1] templates not None, const uint8_t[::1] between_bit not None,
    const float[::1] weights not None, double threshold, int most, int reach, int n_far,
    const int32_t[::1] gold not None,
):
    """The heads worth a closer look, ascending for each token, with their probabilities. The head to the
    left is always kept, so a tree exists.

    threshold: Keep heads with at least this probability relative to the token's best, at most so many.
    reach, n_far: Arcs of at most this length enter the chart, and all of so many tokens, the likeliest
    roots.
    gold: Heads to keep in any case (-1: none).
    """
    cdef Pruner pruner
    cdef Candidates some
    cdef int s, start, n = 0, m, a, h, i, n_best
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = numpy.zeros(total + 1, dtype=numpy.int32)
    arc_head = numpy.empty(total * (most + 2) + 1, dtype=numpy.int32)
    arc_prob = numpy.empty(total * (most + 2) + 1, dtype=numpy.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef int[::1] best = numpy.empty(most, dtype=numpy.intc)
    cdef uint8_t* is_kept
    _set(
        &pruner, columns, starts, tags, composites, templates, between_bit, weights, reach, n_far, gold)
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = _open_sentence(&pruner, s, &some)
            if n == 0:
                continue
            is_kept = NULL
            if n > 0:
                is_kept = <uint8_t*>take_zeros(&pruner.arena, some.arcs.n_arcs)
            if is_kept == NULL:
                n = -1
                break
            for m in range(1, n + 1):
                n_best = 0
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    n_best = _insert(some.mu, &best[0], n_best, most, a)
                for i in range(n_best):
                    is_kept[best[i]] = some.mu[best[i]] >= threshold * some.mu[best[0]]
                for a in range(some.arcs.start[m], some.arcs.start[m + 1]):
                    h = some.arcs.head[a]
                    if is_kept[a] or h == m - 1 or h == gold[start + m - 1]:
                        out_head[at], out_prob[at] = h, some.mu[a]
                        at += 1
                out_start[start + m] = at
        arena_free(&pruner.arena)
    if n < 0:
        raise MemoryError
    return arc_start, arc_head[:at].copy(), arc_prob[:at].copy()
