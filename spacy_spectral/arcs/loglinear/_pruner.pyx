# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The quick pruner: a first-order model of all arcs, few features in a small table without collision
checks, trained by conditional likelihood; arcs with a negligible marginal are never looked at again.
"""
import numpy as np

from libc.math cimport exp, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from libc.string cimport memset

from ..._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._features cimport Context, fill_composites, pair_key

DEF MAX_TEMPLATES = 64
DEF NEGLIGIBLE = 1e-3

cdef uint64_t SEED = <uint64_t>0xD1B54A32D192ED03


cdef inline int _distance_bin(int distance) noexcept nogil:
    if distance <= 5:
        return distance
    if distance <= 10:
        return 6 + (distance > 7)
    return 8 + (distance > 15) + (distance > 30)


cdef void _slots_of(
    const uint64_t *composites, int k, const int32_t *templates, int n_templates, int h, int m,
    int between, uint64_t mask, uint32_t *slots
) noexcept nogil:
    cdef int t, extra, kind
    cdef int direction = 2 if h == 0 else (m > h)
    cdef int distance = _distance_bin(m - h if m > h else h - m) if h else 0
    cdef uint64_t head, mod
    for t in range(n_templates):
        kind = templates[3 * t + 2]
        extra = direction
        if kind & 1:
            extra += 4 * (1 + distance)
        if kind & 2:
            extra += 64 * (1 + between)
        head = composites[h * k + templates[3 * t]]
        mod = composites[m * k + templates[3 * t + 1]]
        slots[t] = pair_key(head, mod, SEED * (t + 1) + extra * <uint64_t>0x9FB21C651E98DF25) & mask
        if head == 0 or mod == 0:
            slots[t] = 0


cdef double _dot(const double *x, const double *y, int n) noexcept nogil:
    cdef double a = 0, b = 0, c = 0, d = 0
    cdef int i = 0
    while i + 4 <= n:
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        a += x[i] * y[i]
        i += 1
    return (a + b) + (c + d)


cdef void _add(double *x, double factor, const double *y, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        x[i] += factor * y[i]


cdef double _marginals(const double *p, int n, double *mu, Arena *arena) noexcept nogil:
    """Arc marginals of the first-order model with potentials p[h * (n + 1) + m], into `mu`.

    Eisner's chart with all loops over contiguous rows; `rt`/`lt` are transposed copies for that.
    RETURNS (double): Z; -1 without memory. `mu` is only filled if Z is positive and finite.
    """
    cdef int w = n + 2, i, j, m, v = n + 1
    cdef size_t cells = <size_t>w * w
    cdef double *memory = <double *>take_zeros(arena, 12 * cells * sizeof(double))
    if memory == NULL:
        return -1
    cdef double *r = memory  # r[i, j]: i and its right modifiers, up to j
    cdef double *rt = memory + cells  # rt[j, i] = r[i, j]
    cdef double *l = memory + 2 * cells  # l[j, i]: j and its left modifiers, down to i
    cdef double *lt = memory + 3 * cells
    cdef double *ir = memory + 4 * cells  # ir[i, j]: the span of the arc i -> j
    cdef double *il = memory + 5 * cells
    cdef double *dr = memory + 6 * cells
    cdef double *drt = memory + 7 * cells
    cdef double *dl = memory + 8 * cells
    cdef double *dlt = memory + 9 * cells
    cdef double *dir = memory + 10 * cells
    cdef double *dil = memory + 11 * cells
    cdef double z = 0, x, g
    for j in range(1, n + 1):
        r[j * w + j] = rt[j * w + j] = l[j * w + j] = lt[j * w + j] = 1
        for i in range(j - 1, 0, -1):
            g = _dot(r + i * w + i, l + j * w + i + 1, j - i)
            ir[i * w + j] = p[i * v + j] * g
            il[j * w + i] = p[j * v + i] * g
            r[i * w + j] = rt[j * w + i] = _dot(ir + i * w + i + 1, rt + j * w + i + 1, j - i)
            l[j * w + i] = lt[i * w + j] = _dot(il + j * w + i, lt + i * w + i, j - i)
    for m in range(1, n + 1):
        z += p[m] * l[m * w + 1] * r[m * w + n]
    if not (z > 0 and isfinite(z)):
        return z
    for m in range(1, n + 1):
        mu[m] = p[m] * l[m * w + 1] * r[m * w + n] / z
        dl[m * w + 1] += p[m] * r[m * w + n]
        dr[m * w + n] += p[m] * l[m * w + 1]
    for j in range(n, 0, -1):
        for i in range(1, j):
            x = dr[i * w + j] + drt[j * w + i]
            _add(dir + i * w + i + 1, x, rt + j * w + i + 1, j - i)
            _add(drt + j * w + i + 1, x, ir + i * w + i + 1, j - i)
            x = dl[j * w + i] + dlt[i * w + j]
            _add(dil + j * w + i, x, lt + i * w + i, j - i)
            _add(dlt + i * w + i, x, il + j * w + i, j - i)
            mu[i * v + j] = dir[i * w + j] * ir[i * w + j] / z
            mu[j * v + i] = dil[j * w + i] * il[j * w + i] / z
            g = dir[i * w + j] * p[i * v + j] + dil[j * w + i] * p[j * v + i]
            _add(dr + i * w + i, g, l + j * w + i + 1, j - i)
            _add(dl + j * w + i + 1, g, r + i * w + i, j - i)
    return z


cdef struct Pruner:
    Context context
    int n_templates
    const int32_t *templates
    const uint8_t *between_bit
    const float *weights
    uint64_t mask


cdef struct Pruned:
    uint32_t *slots  # (n+1) x (n+1) x templates
    double *potential
    double *mu


cdef int _arc_marginals(
    const Pruner *pruner, const uint64_t *columns, const int32_t *tags, int n, Arena *arena,
    Pruned *pruned,
) noexcept nogil:
    """Features, potentials and marginals of all arcs of a sentence."""
    cdef int k = pruner.context.n_composites, n_templates = pruner.n_templates, v = n + 1
    cdef int h, m, t, step, between
    cdef uint64_t *composites = <uint64_t *>take(arena, (n + 1) * k * sizeof(uint64_t))
    cdef uint32_t *slots
    cdef double score, top, total
    pruned.slots = <uint32_t *>take(arena, <size_t>v * v * n_templates * sizeof(uint32_t))
    pruned.potential = <double *>take_zeros(arena, <size_t>v * v * sizeof(double))
    pruned.mu = <double *>take_zeros(arena, <size_t>v * v * sizeof(double))
    if composites == NULL or pruned.slots == NULL or pruned.potential == NULL or pruned.mu == NULL:
        return -1
    fill_composites(&pruner.context, columns, n, composites)
    for m in range(1, n + 1):
        top = -1e30
        for step in range(-1, 2, 2):
            between = 0
            h = m + step
            while 0 <= h <= n:
                slots = pruned.slots + (h * v + m) * n_templates
                _slots_of(composites, k, pruner.templates, n_templates, h, m,
                          between if h else 0, pruner.mask, slots)
                if h:
                    between |= pruner.between_bit[tags[h - 1]]
                score = 0
                for t in range(n_templates):
                    score += pruner.weights[slots[t]]
                pruned.potential[h * v + m] = score
                top = max(top, score)
                h += step
        for h in range(n + 1):
            if h != m:
                pruned.potential[h * v + m] = exp(pruned.potential[h * v + m] - top)
    score = _marginals(pruned.potential, n, pruned.mu, arena)
    if score == -1:
        return -1
    if not (score > 0 and isfinite(score)):
        for m in range(1, n + 1):  # a very long sentence: each token by itself
            total = 0
            for h in range(n + 1):
                total += pruned.potential[h * v + m]
            for h in range(n + 1):
                pruned.mu[h * v + m] = pruned.potential[h * v + m] / total
    return 0


cdef void _learn(
    const Pruner *pruner, Pruned *pruned, const double *target, int n, float *weights,
    float *squares, double rate
) noexcept nogil:
    cdef int h, m, t, v = n + 1
    cdef float gradient
    cdef uint32_t at
    for m in range(1, n + 1):
        for h in range(n + 1):
            gradient = target[h * v + m] - pruned.mu[h * v + m]
            if h == m or fabs(gradient) < NEGLIGIBLE:
                continue
            for t in range(pruner.n_templates):
                at = pruned.slots[(h * v + m) * pruner.n_templates + t]
                if at:
                    squares[at] += gradient * gradient
                    weights[at] += rate * gradient / sqrt(squares[at])


cdef int _target(
    Pruned *pruned, const int32_t *heads, int n, double *target, Arena *arena
) noexcept nogil:
    """What the marginals should be: the annotated arcs, and marginals given them for the rest."""
    cdef int h, m, v = n + 1
    cdef bint complete = True
    cdef double *given
    cdef double z
    for m in range(1, n + 1):
        complete = complete and heads[m - 1] >= 0
        if heads[m - 1] >= 0:
            target[heads[m - 1] * v + m] = 1
    if complete:
        return 0
    given = <double *>take_zeros(arena, <size_t>v * v * sizeof(double))
    if given == NULL:
        return -1
    for m in range(1, n + 1):
        for h in range(n + 1):
            if heads[m - 1] < 0 or heads[m - 1] == h:
                given[h * v + m] = pruned.potential[h * v + m]
    z = _marginals(given, n, target, arena)
    return -1 if z == -1 else 0


cdef void _set_pruner(
    Pruner *pruner, int n_columns, const int32_t[:, :, ::1] composites,
    const int32_t[:, ::1] templates, const uint8_t[::1] between_bit, const float[::1] weights
):
    pruner.context.n_columns = n_columns
    pruner.context.n_composites = composites.shape[0]
    pruner.context.composites = &composites[0, 0, 0]
    pruner.n_templates = templates.shape[0]
    pruner.templates = &templates[0, 0]
    pruner.between_bit = &between_bit[0]
    pruner.weights = &weights[0]
    pruner.mask = weights.shape[0] - 1


def train_pruner(
    const uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] tags,
    const int32_t[::1] heads, const int32_t[:, :, ::1] composites, const int32_t[:, ::1] templates,
    const uint8_t[::1] between_bit, float[::1] weights, float[::1] squares, const int32_t[::1] order,
    double rate,
):
    """Some sentences' worth of AdaGrad on the log-likelihood. Slot 0 is not used and stays 0."""
    cdef Pruner pruner
    cdef Pruned pruned
    cdef Arena arena
    cdef int i, s, start, n, failed = 0
    cdef double *target
    _set_pruner(&pruner, columns.shape[1], composites, templates, between_bit, weights)
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for i in range(order.shape[0]):
            s = order[i]
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            arena_reset(&arena)
            target = <double *>take_zeros(&arena, <size_t>(n + 1) * (n + 1) * sizeof(double))
            failed = target == NULL or _arc_marginals(
                &pruner, &columns[start, 0], &tags[start], n, &arena, &pruned)
            failed = failed or _target(&pruned, &heads[start], n, target, &arena)
            if failed:
                break
            _learn(&pruner, &pruned, target, n, &weights[0], &squares[0], rate)
        arena_free(&arena)
    if failed:
        raise MemoryError


def prune(
    const uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] tags,
    const int32_t[:, :, ::1] composites, const int32_t[:, ::1] templates,
    const uint8_t[::1] between_bit, const float[::1] weights, double threshold, int most,
    const int32_t[::1] gold,
):
    """The heads worth a closer look.

    threshold (float): Keep heads with at least this probability relative to the token's best.
    most (int): Keep at most so many heads of a token.
    gold (int32[n]): Heads to keep in any case (-1: none).
    RETURNS (Tuple[ndarray, ndarray, ndarray]): arc_start (int32[n + 1]), heads (int32) ascending for
        each token, their probabilities (float32). The head to the left is always kept, so a tree exists.
    """
    cdef Pruner pruner
    cdef Pruned pruned
    cdef Arena arena
    cdef int s, start, n, m, h, kept, j, v, failed = 0
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = np.zeros(total + 1, dtype=np.int32)
    arc_head = np.empty(total * (most + 2) + 1, dtype=np.int32)
    arc_prob = np.empty(total * (most + 2) + 1, dtype=np.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef double limit, prob
    cdef double[::1] best = np.empty(most, dtype=np.float64)
    _set_pruner(&pruner, columns.shape[1], composites, templates, between_bit, weights)
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            arena_reset(&arena)
            failed = _arc_marginals(&pruner, &columns[start, 0], &tags[start], n, &arena, &pruned)
            if failed:
                break
            v = n + 1
            for m in range(1, n + 1):
                kept = 0
                for h in range(n + 1):  # insertion into the best few
                    prob = pruned.mu[h * v + m]
                    if h == m or (kept == most and prob <= best[kept - 1]):
                        continue
                    j = kept if kept < most else most - 1
                    while j > 0 and best[j - 1] < prob:
                        best[j] = best[j - 1]
                        j -= 1
                    best[j] = prob
                    kept += kept < most
                limit = max(best[kept - 1], threshold * best[0])
                j = 0
                for h in range(n + 1):
                    if h == m:
                        continue
                    prob = pruned.mu[h * v + m]
                    if prob >= limit and j < most:  # there may be ties
                        j += 1
                    elif h != m - 1 and h != gold[start + m - 1]:
                        continue
                    out_head[at] = h
                    out_prob[at] = prob
                    at += 1
                out_start[start + m] = at
        arena_free(&arena)
    if failed:
        raise MemoryError
    return arc_start, arc_head[:at].copy(), arc_prob[:at].copy()


def fill_children(
    uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] arc_start,
    const int32_t[::1] arc_head, const float[::1] arc_prob, const uint8_t[::1] is_function,
    int word, int left, int right,
):
    """Write beside every token the outermost function words that seem to depend on it.

    is_function (uint8[n]): Tokens that hardly ever have modifiers (see `estimate.function_tags`).
    word (int): The column that is copied.
    left, right (int): Columns for the word of the outermost function word on that side whose likeliest
        head is the token; 7 where there is none.
    """
    cdef int s, start, n, m, a, best
    with nogil:
        for s in range(columns.shape[0]):
            columns[s, left] = columns[s, right] = 7
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            for m in range(n, 0, -1):  # the leftmost one is written last
                if not is_function[start + m - 1]:
                    continue
                best = arc_start[start + m - 1]
                for a in range(best + 1, arc_start[start + m]):
                    if arc_prob[a] > arc_prob[best]:
                        best = a
                best = arc_head[best]
                if best == 0:
                    continue
                if best > m:
                    columns[start + best - 1, left] = columns[start + m - 1, word]
                elif columns[start + best - 1, right] == 7:
                    columns[start + best - 1, right] = columns[start + m - 1, word]
