# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The pruner's model of arcs: first-order, few features, in a small table without collision checks, trained by
conditional likelihood.
"""
from libc.math cimport exp, fabs, isfinite, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from ....base._arena cimport Arena, take, take_zeros
from ....base._prefetch cimport FETCH
from ....base._slots cimport mix, rotate
from ....trees._first_order cimport first_order_marginals
from .._features cimport fill_composites

cpdef enum:
    MAX_TEMPLATES = 64
    N_FLAGS = 4  # with distance, with what is between, or both

cdef double NEGLIGIBLE = 1e-3  # gradients below it are not worth a visit to memory
cdef uint64_t SPREAD = <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t TEMPLATE = <uint64_t>0xD1B54A32D192ED03 * <uint64_t>0x9E3779B97F4A7C15
cdef uint64_t KIND = <uint64_t>0x9FB21C651E98DF25 * <uint64_t>0x9E3779B97F4A7C15


cdef void set_scorer(
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


cdef int take_candidates(Candidates* some, int n, int size, Arena* arena) noexcept nogil:
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


cdef int make_keys(
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
    # finer than those of `trees.sentences`: distance is half of what a pruner knows
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


cdef double score_arc(
    const Scorer* scorer, const Candidates* some, int h, int m, int between
) noexcept nogil:
    """RETURNS (double): The score of one arc."""
    cdef uint32_t slots[MAX_TEMPLATES]
    _slots_of(scorer, some, h, m, between, slots)
    return _sum(scorer, slots)


cdef void score_arcs(const Scorer* scorer, Candidates* some) noexcept nogil:
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


cdef int arc_marginals(Candidates* some, Arena* arena) noexcept nogil:
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


cdef int learn_arcs(
    const Scorer* scorer, const Candidates* some, const int32_t* heads, float* weights, float* squares,
    double rate, Arena* arena
) noexcept nogil:
    """One step of AdaGrad on the log-likelihood, after `arc_marginals`. Slot 0 is not used and stays 0. RETURNS (int): 0, or -1 without memory."""
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
                squares[at] += gradient * gradient
                weights[at] += rate * gradient / sqrt(squares[at])
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
