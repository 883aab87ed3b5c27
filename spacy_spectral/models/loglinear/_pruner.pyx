# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The quick pruner: a first-order model with few features in a small table without collision checks,
trained by conditional likelihood. Its marginals tell which arcs are worth the real model's time. Of long
arcs it looks only at those of a few heads, so that its work hardly grows faster than the sentence.
"""
import numpy as np

from libc.math cimport exp, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ._chart cimport RESCALINGS, span_growth
from ._features cimport FETCH, Context, fill_composites, mix, rotate

cpdef enum:
    MAX_TEMPLATES = 64
    N_FLAGS = 4  # with distance, with what is between, or both

DEF NEGLIGIBLE = 1e-3

cdef uint64_t SPREAD = <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t TEMPLATE = <uint64_t>0xD1B54A32D192ED03 * <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t KIND = <uint64_t>0x9FB21C651E98DF25 * <uint64_t>0x9E3779B97F4A7C15


cdef struct Pruner:
    Context context
    int n_templates
    const int32_t *templates
    const uint8_t *between_bit
    const float *weights
    uint64_t mask
    int reach
    int n_far


cdef struct Candidates:
    # the arcs of a sentence that enter the chart, by modifier, heads ascending
    int n
    int n_arcs
    int *start  # of modifier m: start[m]..start[m + 1]
    int *head
    int *mod
    uint8_t *between
    uint64_t *as_head  # (n+1) x templates: a token's share in the keys of arcs
    uint64_t *as_mod
    double *potential
    double *mu


cdef inline int _distance_bin(int distance) noexcept nogil:
    if distance <= 5:
        return distance
    if distance <= 10:
        return 6 + (distance > 7)
    return 8 + (distance > 15) + (distance > 30)


cdef void _slots_of(
    const Pruner *pruner, const Candidates *arcs, int h, int m, int between, uint32_t *slots
) noexcept nogil:
    """Where the weights of an arc's features are, and a request for that memory."""
    cdef int t, n_templates = pruner.n_templates
    cdef uint64_t direction = 2 if h == 0 else (m > h)
    cdef uint64_t distance = 4 * (1 + _distance_bin(m - h if m > h else h - m)) if h else 4
    cdef uint64_t seeds[N_FLAGS]
    cdef const uint64_t *head = arcs.as_head + h * n_templates
    cdef const uint64_t *mod = arcs.as_mod + m * n_templates
    cdef uint64_t key
    seeds[0] = KIND * direction
    seeds[1] = KIND * (direction + distance)
    seeds[2] = KIND * (direction + 64 * (1 + between))
    seeds[3] = KIND * (direction + distance + 64 * (1 + between))
    for t in range(n_templates):
        key = head[t] + TEMPLATE * (t + 1) + seeds[pruner.templates[3 * t + 2]]
        slots[t] = mix(key ^ mod[t]) & pruner.mask if head[t] and mod[t] else 0
        FETCH(pruner.weights + slots[t])


cdef inline double _dot(const double *x, const double *y, int n) noexcept nogil:
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


cdef inline void _add(double *x, double factor, const double *y, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        x[i] += factor * y[i]


cdef struct Spans:
    # the tables of `_marginals`
    int *right_start  # arcs i -> j, i < j, by head
    int *right
    int *left_start  # arcs j -> i
    int *left
    int *n_left  # so many of them have j's span done
    double *inner
    double *r
    double *l
    double *lt


cdef double _inside(
    const Candidates *arcs, const double *p, double scale, Spans *spans
) noexcept nogil:
    """Fill the tables, with potentials p times `scale`. RETURNS (double): Z."""
    cdef int n = arcs.n, i, j, k, m, a, b, at, to
    cdef Py_ssize_t w = n + 2
    cdef int *right_start = spans.right_start
    cdef int *right = spans.right
    cdef int *left_start = spans.left_start
    cdef int *left = spans.left
    cdef int *n_left = spans.n_left
    cdef double *inner = spans.inner
    cdef double *r = spans.r
    cdef double *l = spans.l
    cdef double *lt = spans.lt
    cdef double z = 0, x, g
    memset(n_left, 0, w * sizeof(int))
    memset(r, 0, w * w * sizeof(double))
    for i in range(n, 0, -1):
        r[i * w + i] = l[i * w + i] = lt[i * w + i] = 1
        at, to = right_start[i], arcs.start[i]
        while to < arcs.start[i + 1] and arcs.head[to] < i:
            to += 1
        while at < right_start[i + 1] or to < arcs.start[i + 1]:
            a = right[at] if at < right_start[i + 1] else -1
            b = to if to < arcs.start[i + 1] else -1
            j = min(arcs.mod[a] if a >= 0 else n + 2, arcs.head[b] if b >= 0 else n + 2)
            g = scale * _dot(r + i * w + i, l + j * w + i + 1, j - i)
            if a >= 0 and arcs.mod[a] == j:
                at += 1
                inner[a] = p[a] * g
                _add(r + i * w + j, inner[a], r + j * w + j, n - j + 1)
            if b >= 0 and arcs.head[b] == j:
                to += 1
                inner[b] = p[b] * g
                left[left_start[j] + n_left[j]] = b
                n_left[j] += 1
        for j in range(i + 1, n + 1):
            x = 0
            for k in range(left_start[j], left_start[j] + n_left[j]):
                x += inner[left[k]] * lt[i * w + arcs.mod[left[k]]]
            l[j * w + i] = lt[i * w + j] = x
    for m in range(1, n + 1):
        a = arcs.start[m]
        if arcs.head[a] == 0:
            z += scale * p[a] * l[m * w + 1] * r[m * w + n]
    return z


cdef double _marginals(
    const Candidates *arcs, const double *p, double *mu, Arena *arena
) noexcept nogil:
    """Arc marginals of the first-order model with potentials `p`, into `mu`.

    Eisner's chart over the candidates only, one left end i after the other, from the right:

        G[i,j] = sum_k R[i,k] L[j,k+1]    inner[i->j] = p[i->j] G[i,j]    inner[j->i] = p[j->i] G[i,j]
        R[i,j] = sum_m inner[i->m] R[m,j]    L[j,i] = sum_m inner[j->m] L[m,i]

    R and L are rows, so that the sums run over contiguous memory; `lt` is L transposed. The second
    half is the adjoint, line by line. RETURNS (double): Z, up to a factor for each token that keeps long
    sentences in the range of doubles; -1 without memory. `mu` is only filled if Z is positive and finite.
    """
    cdef int n = arcs.n, h, i, j, k, m, a, b, at, to, attempt
    cdef Py_ssize_t w = n + 2, cells = w * w
    cdef Spans spans
    cdef int *right_start = <int *>take_zeros(arena, w * sizeof(int))
    cdef int *right = <int *>take(arena, (arcs.n_arcs + 1) * sizeof(int))
    cdef int *left_start = <int *>take_zeros(arena, w * sizeof(int))
    cdef int *left = <int *>take(arena, (arcs.n_arcs + 1) * sizeof(int))
    cdef int *n_left = <int *>take_zeros(arena, w * sizeof(int))
    cdef double *inner = <double *>take_zeros(arena, 2 * (arcs.n_arcs + 1) * sizeof(double))
    cdef double *r = <double *>take(arena, 3 * cells * sizeof(double))
    cdef double *l = r + cells
    cdef double *lt = l + cells
    cdef double *dr
    cdef double *dl
    cdef double *d_row
    cdef double *d_inner = inner + arcs.n_arcs + 1
    cdef double z, x, g, growth, scale = 1
    if right_start == NULL or right == NULL or left_start == NULL or left == NULL:
        return -1
    if n_left == NULL or inner == NULL or r == NULL:
        return -1
    for a in range(arcs.n_arcs):
        if arcs.head[a] > 0:
            (right_start if arcs.mod[a] > arcs.head[a] else left_start)[arcs.head[a] + 1] += 1
    for i in range(n + 1):
        right_start[i + 1] += right_start[i]
        left_start[i + 1] += left_start[i]
    for a in range(arcs.n_arcs):  # modifiers ascend; n_left counts for a moment
        h = arcs.head[a]
        if 0 < h < arcs.mod[a]:
            right[right_start[h] + n_left[h]] = a
            n_left[h] += 1
    spans = Spans(right_start, right, left_start, left, n_left, inner, r, l, lt)
    z = _inside(arcs, p, scale, &spans)
    for attempt in range(RESCALINGS):
        if 1e-250 < z < 1e250:
            break
        growth = span_growth(r, l, n)
        if not fabs(growth) * n > 1:
            break
        scale *= exp(-growth)
        z = _inside(arcs, p, scale, &spans)
    if not (z > 0 and isfinite(z)):
        return z
    dr = <double *>take_zeros(arena, (2 * cells + w) * sizeof(double))
    if dr == NULL:
        return -1
    dl = dr + cells
    d_row = dl + cells
    for m in range(1, n + 1):
        a = arcs.start[m]
        if arcs.head[a] == 0:
            x = scale * p[a]
            mu[a] = x * l[m * w + 1] * r[m * w + n] / z
            dl[m * w + 1] += x * r[m * w + n]
            dr[m * w + n] += x * l[m * w + 1]
    for i in range(1, n + 1):
        for j in range(i, n + 1):
            d_row[j] = dl[j * w + i]
        for j in range(n, i, -1):
            x = d_row[j]
            if x != 0:
                for k in range(left_start[j], left_start[j] + n_left[j]):
                    b = left[k]
                    d_inner[b] += x * lt[i * w + arcs.mod[b]]
                    d_row[arcs.mod[b]] += x * inner[b]
        at, to = right_start[i + 1] - 1, arcs.start[i + 1] - 1
        while at >= right_start[i] or (to >= arcs.start[i] and arcs.head[to] > i):
            a = right[at] if at >= right_start[i] else -1
            b = to if to >= arcs.start[i] and arcs.head[to] > i else -1
            j = max(arcs.mod[a] if a >= 0 else 0, arcs.head[b] if b >= 0 else 0)
            g = 0
            if a >= 0 and arcs.mod[a] == j:
                at -= 1
                d_inner[a] = _dot(dr + i * w + j, r + j * w + j, n - j + 1)
                _add(dr + j * w + j, inner[a], dr + i * w + j, n - j + 1)
                mu[a] = d_inner[a] * inner[a] / z
                g += d_inner[a] * p[a]
            if b >= 0 and arcs.head[b] == j:
                to -= 1
                n_left[j] -= 1
                mu[b] = d_inner[b] * inner[b] / z
                g += d_inner[b] * p[b]
            if g != 0:
                g *= scale
                _add(dr + i * w + i, g, l + j * w + i + 1, j - i)
                _add(dl + j * w + i + 1, g, r + i * w + i, j - i)
    return z


cdef int _make_keys(
    const Pruner *pruner, const uint64_t *columns, int n, Candidates *arcs, Arena *arena
) noexcept nogil:
    cdef int i, t, n_templates = pruner.n_templates, k = pruner.context.n_composites
    cdef uint64_t *composites = <uint64_t *>take(arena, (n + 1) * k * sizeof(uint64_t))
    arcs.as_head = <uint64_t *>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    arcs.as_mod = <uint64_t *>take(arena, (n + 1) * n_templates * sizeof(uint64_t))
    if composites == NULL or arcs.as_head == NULL or arcs.as_mod == NULL:
        return -1
    fill_composites(&pruner.context, columns, n, composites)
    for i in range(n + 1):
        for t in range(n_templates):
            arcs.as_head[i * n_templates + t] = (
                composites[i * k + pruner.templates[3 * t]] * SPREAD)
            arcs.as_mod[i * n_templates + t] = rotate(
                composites[i * k + pruner.templates[3 * t + 1]], 27)
    return 0


cdef inline double _sum(const Pruner *pruner, const uint32_t *slots) noexcept nogil:
    cdef double total = 0
    cdef int t
    for t in range(pruner.n_templates):
        total += pruner.weights[slots[t]]
    return total


cdef void _mark_far(
    const Pruner *pruner, const Candidates *arcs, uint8_t *is_far, double *best
) noexcept nogil:
    """Mark the likeliest roots: what is far away mostly depends on one of them."""
    cdef int m, i, n_found = 0, ties = 0
    cdef uint32_t slots[MAX_TEMPLATES]
    cdef double score
    for m in range(1, arcs.n + 1):
        _slots_of(pruner, arcs, 0, m, 0, slots)
        score = _sum(pruner, slots)
        if n_found == pruner.n_far and score <= best[n_found - 1]:
            continue
        i = n_found if n_found < pruner.n_far else n_found - 1
        while i > 0 and best[i - 1] < score:
            best[i] = best[i - 1]
            i -= 1
        best[i] = score
        n_found += n_found < pruner.n_far
    for i in range(n_found):  # as many of those that are no better than the last as there is room for
        ties += best[i] == best[n_found - 1]
    for m in range(1, arcs.n + 1):
        _slots_of(pruner, arcs, 0, m, 0, slots)
        score = _sum(pruner, slots)
        if score > best[n_found - 1]:
            is_far[m] = 1
        elif score == best[n_found - 1] and ties:
            is_far[m] = 1
            ties -= 1


cdef int _choose(
    const Pruner *pruner, const uint64_t *columns, const int32_t *tags, int n, const int32_t *keep,
    Candidates *arcs, Arena *arena
) noexcept nogil:
    """List and score the arcs that enter the chart: all short ones, those of likely roots, those from
    the root, and those of `keep`. A chain of arcs from the left is a tree, so there is one."""
    cdef int h, m, step, between, a = 0, reach = max(pruner.reach, 1)
    cdef int size = n * min(n, 2 * reach + pruner.n_far + 2)
    cdef uint32_t slots[2][MAX_TEMPLATES]
    cdef uint8_t *found = <uint8_t *>take(arena, n + 1)
    cdef uint8_t *is_far = <uint8_t *>take_zeros(arena, n + 1)
    cdef double *best = <double *>take(arena, (pruner.n_far + 1) * sizeof(double))
    cdef double top
    arcs.n = n
    arcs.start = <int *>take_zeros(arena, (n + 2) * sizeof(int))
    arcs.head = <int *>take(arena, size * sizeof(int))
    arcs.mod = <int *>take(arena, size * sizeof(int))
    arcs.between = <uint8_t *>take(arena, size)
    arcs.potential = <double *>take(arena, (size + 1) * sizeof(double))
    arcs.mu = <double *>take_zeros(arena, size * sizeof(double))
    if found == NULL or is_far == NULL or best == NULL or arcs.start == NULL:
        return -1
    if arcs.head == NULL or arcs.mod == NULL or arcs.between == NULL or arcs.potential == NULL:
        return -1
    if arcs.mu == NULL or _make_keys(pruner, columns, n, arcs, arena):
        return -1
    if n > reach and pruner.n_far:
        _mark_far(pruner, arcs, is_far, best)
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
            if h == m:
                continue
            if h and abs(h - m) > reach and not is_far[h] and h != keep[m - 1]:
                continue
            arcs.head[a], arcs.mod[a], arcs.between[a] = h, m, found[h]
            _slots_of(pruner, arcs, h, m, found[h], slots[a & 1])
            if a:  # the weights of the arc before have been asked for a while ago
                arcs.potential[a - 1] = _sum(pruner, slots[(a - 1) & 1])
            a += 1
        arcs.start[m + 1] = a
    arcs.potential[a - 1] = _sum(pruner, slots[(a - 1) & 1])
    arcs.n_arcs = a
    for m in range(1, n + 1):
        top = -1e30
        for a in range(arcs.start[m], arcs.start[m + 1]):
            top = max(top, arcs.potential[a])
        for a in range(arcs.start[m], arcs.start[m + 1]):
            arcs.potential[a] = exp(arcs.potential[a] - top)
    return 0


cdef int _arc_marginals(Candidates *arcs, Arena *arena) noexcept nogil:
    cdef int m, a
    cdef double total, z = _marginals(arcs, arcs.potential, arcs.mu, arena)
    cdef bint sound = z > 0 and isfinite(z)
    if z == -1:
        return -1
    for a in range(arcs.n_arcs if sound else 0):
        sound = sound and isfinite(arcs.mu[a])
    if not sound:
        for m in range(1, arcs.n + 1):  # a very long sentence: each token by itself
            total = 0
            for a in range(arcs.start[m], arcs.start[m + 1]):
                total += arcs.potential[a]
            for a in range(arcs.start[m], arcs.start[m + 1]):
                arcs.mu[a] = arcs.potential[a] / total
    return 0


cdef void _learn(
    const Pruner *pruner, const Candidates *arcs, const double *target, float *weights,
    float *squares, double rate
) noexcept nogil:
    cdef int a, t
    cdef uint32_t slots[MAX_TEMPLATES]
    cdef float gradient
    cdef uint32_t at
    for a in range(arcs.n_arcs):
        gradient = target[a] - arcs.mu[a]
        if fabs(gradient) < NEGLIGIBLE:
            continue
        _slots_of(pruner, arcs, arcs.head[a], arcs.mod[a], arcs.between[a], slots)
        for t in range(pruner.n_templates):
            at = slots[t]
            if at:
                squares[at] += gradient * gradient
                weights[at] += rate * gradient / sqrt(squares[at])


cdef int _target(
    const Candidates *arcs, const int32_t *heads, double *target, Arena *arena
) noexcept nogil:
    """What the marginals should be: the annotated arcs, and marginals given them for the rest."""
    cdef int a, m
    cdef bint complete = True
    cdef double *given
    cdef double z
    for a in range(arcs.n_arcs):
        m = arcs.mod[a] - 1
        complete = complete and heads[m] >= 0
        target[a] = heads[m] == arcs.head[a]
    if complete:
        return 0
    given = <double *>take(arena, (arcs.n_arcs + 1) * sizeof(double))
    if given == NULL:
        return -1
    for a in range(arcs.n_arcs):
        m = arcs.mod[a] - 1
        given[a] = arcs.potential[a] if heads[m] < 0 or heads[m] == arcs.head[a] else 0
    z = _marginals(arcs, given, target, arena)
    if z == -1:
        return -1
    if not (z > 0 and isfinite(z)):  # no tree of the candidates agrees: nothing is known of the rest
        for a in range(arcs.n_arcs):
            if heads[arcs.mod[a] - 1] < 0:
                target[a] = arcs.mu[a]
    return 0


cdef void _set_pruner(
    Pruner *pruner, int n_columns, const int32_t[:, :, ::1] composites,
    const int32_t[:, ::1] templates, const uint8_t[::1] between_bit, const float[::1] weights,
    int reach, int n_far
):
    pruner.reach = reach
    pruner.n_far = n_far
    pruner.context.n_columns = n_columns
    pruner.context.n_composites = composites.shape[0]
    pruner.context.composites = &composites[0, 0, 0]
    pruner.n_templates = templates.shape[0]
    pruner.templates = &templates[0, 0]
    pruner.between_bit = &between_bit[0]
    pruner.weights = &weights[0]
    pruner.mask = weights.shape[0] - 1


def train_pruner(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] templates not None,
    const uint8_t[::1] between_bit not None, float[::1] weights not None, float[::1] squares not None,
    const int32_t[::1] order not None, double rate, int reach, int n_far,
):
    """Some sentences' worth of AdaGrad on the log-likelihood. Slot 0 is not used and stays 0."""
    cdef Pruner pruner
    cdef Candidates arcs
    cdef Arena arena
    cdef int i, s, start, n, failed = 0
    cdef double *target
    _set_pruner(&pruner, columns.shape[1], composites, templates, between_bit, weights, reach, n_far)
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
                &pruner, &columns[start, 0], &tags[start], n, &heads[start], &arcs, &arena)
            target = <double *>take(&arena, (arcs.n_arcs + 1) * sizeof(double))
            failed = failed or target == NULL or _arc_marginals(&arcs, &arena)
            failed = failed or _target(&arcs, &heads[start], target, &arena)
            if failed:
                break
            _learn(&pruner, &arcs, target, &weights[0], &squares[0], rate)
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
    cdef Candidates arcs
    cdef Arena arena
    cdef int s, start, n, m, a, h, kept, j, ties, failed = 0
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = np.zeros(total + 1, dtype=np.int32)
    arc_head = np.empty(total * (most + 2) + 1, dtype=np.int32)
    arc_prob = np.empty(total * (most + 2) + 1, dtype=np.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef double limit, prob
    cdef double[::1] best = np.empty(most, dtype=np.float64)
    _set_pruner(
        &pruner, columns.shape[1], composites, templates, between_bit, weights, reach, n_far)
    memset(&arena, 0, sizeof(arena))
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            arena_reset(&arena)
            failed = _choose(
                &pruner, &columns[start, 0], &tags[start], n, &gold[start], &arcs, &arena)
            failed = failed or _arc_marginals(&arcs, &arena)
            if failed:
                break
            for m in range(1, n + 1):
                kept = 0
                for a in range(arcs.start[m], arcs.start[m + 1]):  # insertion into the best few
                    prob = arcs.mu[a]
                    if kept == most and prob <= best[kept - 1]:
                        continue
                    j = kept if kept < most else most - 1
                    while j > 0 and best[j - 1] < prob:
                        best[j] = best[j - 1]
                        j -= 1
                    best[j] = prob
                    kept += kept < most
                limit = max(best[kept - 1], threshold * best[0])
                ties = 0  # as many of those at the limit as there is room for
                for j in range(kept):
                    ties += best[j] == limit
                for a in range(arcs.start[m], arcs.start[m + 1]):
                    h, prob = arcs.head[a], arcs.mu[a]
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


def fill_children(
    uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None,
    const float[::1] arc_prob not None, const uint8_t[::1] is_function not None, int word, int left,
    int right,
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
