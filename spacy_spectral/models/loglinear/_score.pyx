# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From a sentence and its kept arcs to the potentials of the chart.

A feature that was kept has a row: a weight of its own (for the arc) and weights of its outputs, only
those seen with it in training: bins of distance and labels. One look-up so serves the arc, its length
and its label. Features of a token alone are summed once per token, for its role as modifier and as
head and for every direction (a supertagger trained along with the parser), those of pairs of tokens
once per kept arc, those of neighbouring modifiers once per pair.
"""
import numpy as np

from libc.math cimport exp
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from ...base._arena cimport Arena, take, take_zeros
from ._chart cimport Chart, chart_layout
from ._features cimport FETCH, Context, Entry, Slot, fill_composites, find_row, pair_key

cdef uint64_t PAIR = <uint64_t>0xA24BAED4963EE407
cdef uint64_t BETWEEN = <uint64_t>0x9FB21C651E98DF25
cdef uint64_t UNARY = <uint64_t>0xC2B2AE3D27D4EB4F
cdef uint64_t SIBLING = <uint64_t>0x165667B19E3779F9
cdef uint64_t NOBODY = <uint64_t>0x27D4EB2F165667C5  # stands for START and STOP

cpdef enum:
    MAX_TEMPLATES = 256

cdef enum:
    AHEAD = 4


def token_outputs(int n_labels):
    """RETURNS (int): How many outputs rows of tokens can have; see `unary_width`."""
    return 5 * (1 + N_DISTANCES + n_labels)


cdef int unary_width(const Machine *machine) noexcept nogil:
    """Outputs of a token's own features: as modifier in 3 directions, as head in 2."""
    return 5 * (1 + N_DISTANCES + machine.n_labels)


cdef inline uint64_t _unary_key(int template, uint64_t composite) noexcept nogil:
    return pair_key(composite, NOBODY, UNARY * (template + 1)) if composite else 0


cdef inline uint64_t _pair_key(
    int template, int direction, uint64_t head, uint64_t mod, int between
) noexcept nogil:
    if head == 0 or mod == 0:
        return 0
    return pair_key(head, mod, PAIR * (4 * template + direction + 1) + BETWEEN * between)


cdef inline uint64_t _sibling_key(
    int template, int side, uint64_t head, uint64_t previous, uint64_t mod
) noexcept nogil:
    if head == 0 or mod == 0 or previous == 0:
        return 0
    return pair_key(pair_key(head, mod, SIBLING * (2 * template + side + 1)), previous, SIBLING)


cdef inline int _between(const Machine *machine, const int32_t *tags, int head, int mod) noexcept nogil:
    """Which of the tags that separate stand between the two (see `estimate.separators`)."""
    cdef int k, found = 0
    if head == 0:
        head = mod
    for k in range(min(head, mod) + 1, max(head, mod)):
        found |= machine.between_bit[tags[k - 1]]
    return found


cdef inline void _look_up(
    const Machine *machine, const uint64_t *keys, int n, uint32_t *rows
) noexcept nogil:
    """Rows of several keys whose slots were asked for; asks for their entries."""
    cdef int t
    for t in range(n):
        rows[t] = find_row(machine.slots, machine.mask, keys[t]) if keys[t] else 0
        FETCH(&machine.entries[rows[t]])


cdef void _sibling_keys(
    const Machine *machine, const uint64_t *composites, int side, int head, int previous, int mod,
    uint64_t *keys
) noexcept nogil:
    """Keys of two neighbouring modifiers of a head; 0 is nobody (the first, the last)."""
    cdef int t, k = machine.context.n_composites
    cdef const int32_t *parts
    for t in range(machine.n_siblings):
        parts = machine.siblings + 3 * t
        keys[t] = _sibling_key(
            t, side, composites[head * k + parts[0]],
            composites[previous * k + parts[1]] if previous else NOBODY,
            composites[mod * k + parts[2]] if mod else NOBODY,
        )


cdef struct Siblings:
    # a queue of look-ups: hardly any of the memory is in the cache, so keys are made two steps before
    # their rows are read
    uint64_t keys[AHEAD][MAX_TEMPLATES]
    uint32_t *rows[2 * AHEAD]
    double *score[2 * AHEAD]
    double *potential[2 * AHEAD]
    int n


cdef void _advance(const Machine *machine, Siblings *queue) noexcept nogil:
    """Look up what was queued AHEAD steps ago, read what was looked up AHEAD steps before that."""
    cdef int t, at = queue.n - AHEAD
    cdef uint32_t *rows
    cdef double total = 0
    if at >= 0 and queue.rows[at % (2 * AHEAD)] != NULL:
        _look_up(
            machine, queue.keys[at % AHEAD], machine.n_siblings, queue.rows[at % (2 * AHEAD)])
    at -= AHEAD
    if at >= 0 and queue.rows[at % (2 * AHEAD)] != NULL:
        rows = queue.rows[at % (2 * AHEAD)]
        for t in range(machine.n_siblings):
            total += machine.entries[rows[t]].weight
        queue.score[at % (2 * AHEAD)][0] = total
        queue.potential[at % (2 * AHEAD)][0] = exp(total)


cdef void _queue(
    const Machine *machine, Siblings *queue, const uint64_t *composites, int side, int head,
    int previous, int mod, uint32_t *rows, double *score, double *potential
) noexcept nogil:
    """Score two neighbouring modifiers, some steps later."""
    cdef int t, at = queue.n % (2 * AHEAD)
    cdef uint64_t *keys = queue.keys[queue.n % AHEAD]
    _advance(machine, queue)
    _sibling_keys(machine, composites, side, head, previous, mod, keys)
    for t in range(machine.n_siblings):
        FETCH(&machine.slots[keys[t] & machine.mask])
    queue.rows[at], queue.score[at], queue.potential[at] = rows, score, potential
    queue.n += 1


cdef void _finish(const Machine *machine, Siblings *queue) noexcept nogil:
    cdef int i
    for i in range(2 * AHEAD):
        _advance(machine, queue)
        queue.rows[queue.n % (2 * AHEAD)] = NULL
        queue.n += 1


cdef void _arc_keys(const Machine *machine, const Scored *scored, int a, uint64_t *keys) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int t, k = machine.context.n_composites, between = _between(machine, scored.tags, h, m)
    cdef const int32_t *parts
    for t in range(machine.n_pairs):
        parts = machine.pairs + 3 * t
        keys[t] = _pair_key(
            t, direction, scored.composites[h * k + parts[0]], scored.composites[m * k + parts[1]],
            between + 1 if parts[2] else 0)
        FETCH(&machine.slots[keys[t] & machine.mask])


cdef void _score_arc(
    const Machine *machine, Scored *scored, const float *own, int a
) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int t, block = 1 + N_DISTANCES + machine.n_labels, bin = scored.distance[a]
    cdef const Entry *entry
    cdef const Entry *end
    cdef const float *part
    cdef const uint32_t *rows = scored.pair_rows + a * machine.n_pairs
    cdef float *score = scored.score + a * machine.n_labels
    cdef float base = 0
    part = own + m * unary_width(machine) + direction * block
    base = part[0] + part[1 + bin]
    for t in range(machine.n_labels):
        score[t] = part[1 + N_DISTANCES + t]
    if h:
        part = own + h * unary_width(machine) + (3 + direction) * block
        base += part[0] + part[1 + bin]
        for t in range(machine.n_labels):
            score[t] += part[1 + N_DISTANCES + t]
    for t in range(machine.n_pairs):
        entry = machine.entries + rows[t]
        base += entry.weight
        end = entry + entry.output
        entry += 1
        while entry <= end and entry.output < N_DISTANCES:
            if entry.output == <uint32_t>bin:
                base += entry.weight
            entry += 1
        # rows of tokens have more outputs: two keys can have the same slot and check
        while entry <= end and entry.output - N_DISTANCES < <uint32_t>machine.n_labels:
            score[entry.output - N_DISTANCES] += entry.weight
            entry += 1
    for t in range(machine.n_labels):
        score[t] += base


cdef void _score_arcs(const Machine *machine, Scored *scored, const float *own) noexcept nogil:
    """Scores of all arcs with all labels. Keys are made one arc before their rows are looked up, and
    these one arc before they are read: memory is asked for in time."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef int a
    for a in range(scored.n_arcs + 2):
        if a < scored.n_arcs:
            _arc_keys(machine, scored, a, keys[a & 1])
        if 1 <= a <= scored.n_arcs:
            _look_up(machine, keys[(a - 1) & 1], machine.n_pairs,
                     scored.pair_rows + (a - 1) * machine.n_pairs)
        if a >= 2:
            _score_arc(machine, scored, own, a - 2)


cdef void _score_tokens(const Machine *machine, Scored *scored, float *own) noexcept nogil:
    """What every token's own features say, in the same way."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef int m, t, n = scored.n, n_unaries = machine.n_unaries, width = unary_width(machine)
    cdef const Entry *entry
    cdef const Entry *end
    for m in range(1, n + 3):
        if m <= n:
            for t in range(n_unaries):
                keys[m & 1][t] = _unary_key(
                    t, scored.composites[m * machine.context.n_composites + machine.unaries[t]])
                FETCH(&machine.slots[keys[m & 1][t] & machine.mask])
        if 2 <= m <= n + 1:
            _look_up(machine, keys[(m - 1) & 1], n_unaries, scored.unary_rows + (m - 1) * n_unaries)
        if m >= 3:
            for t in range(n_unaries):
                entry = machine.entries + scored.unary_rows[(m - 2) * n_unaries + t]
                end = entry + entry.output
                entry += 1
                while entry <= end:
                    own[(m - 2) * width + entry.output] += entry.weight
                    entry += 1


cdef void state_potentials(
    const Machine *machine, const double *potential, int n_arcs, double *phi
) noexcept nogil:
    """phi[a, c]: the potentials of the labels of class c together."""
    cdef int a, l
    memset(phi, 0, n_arcs * machine.n_states * sizeof(double))
    for a in range(n_arcs):
        for l in range(machine.n_labels):
            phi[a * machine.n_states + machine.label_state[l]] += potential[a * machine.n_labels + l]


cdef int score_sentence(
    const Machine *machine, Scored *scored, Arena *arena, const uint64_t *columns,
    const int32_t *tags, int n, const int32_t *arc_start, const int32_t *arc_head, double margin,
) noexcept nogil:
    """Fill `scored` with everything up to the potentials. Arcs that score less than the best of their
    modifier by `margin` are dropped before siblings are looked at; not to be used in training.
    RETURNS (int): 0, or -1 without memory."""
    cdef int n_arcs = arc_start[n] - arc_start[0], k = machine.context.n_composites
    cdef int n_labels = machine.n_labels, n_siblings = machine.n_siblings
    cdef int i, a, l, r, t, h, m, side, first, width = unary_width(machine)
    cdef int *head = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    cdef int *mod = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    cdef float *own = <float *>take_zeros(arena, (n + 1) * width * sizeof(float))
    cdef Chart *chart = &scored.chart
    cdef const uint8_t *allowed
    cdef float top
    cdef float *tops
    cdef Siblings queue
    queue.n = 0
    scored.n, scored.n_arcs, scored.tags = n, n_arcs, tags
    scored.composites = <uint64_t *>take(arena, (n + 1) * k * sizeof(uint64_t))
    scored.unary_rows = <uint32_t *>take(arena, (n + 1) * machine.n_unaries * sizeof(uint32_t))
    scored.pair_rows = <uint32_t *>take(arena, n_arcs * machine.n_pairs * sizeof(uint32_t))
    scored.last_rows = <uint32_t *>take_zeros(arena, n_arcs * n_siblings * sizeof(uint32_t))
    scored.empty_rows = <uint32_t *>take_zeros(arena, (2 * n + 2) * n_siblings * sizeof(uint32_t))
    scored.distance = <int *>take(arena, n_arcs * sizeof(int))
    scored.origin = <int *>take(arena, n_arcs * sizeof(int))
    tops = <float *>take(arena, n_arcs * sizeof(float))
    scored.score = <float *>take(arena, n_arcs * n_labels * sizeof(float))
    scored.potential = <double *>take(arena, n_arcs * n_labels * sizeof(double))
    if head == NULL or mod == NULL or own == NULL or scored.composites == NULL:
        return -1
    if scored.unary_rows == NULL or scored.pair_rows == NULL or scored.last_rows == NULL:
        return -1
    if scored.empty_rows == NULL or scored.distance == NULL or scored.score == NULL:
        return -1
    if scored.potential == NULL or scored.origin == NULL or tops == NULL:
        return -1
    a = 0
    for m in range(1, n + 1):
        for i in range(arc_start[m - 1], arc_start[m]):
            head[a], mod[a] = arc_head[i], m
            h = arc_head[i]
            scored.distance[a] = distance_bin(m - h if m > h else h - m)
            a += 1
    chart.head, chart.mod = head, mod
    fill_composites(&machine.context, columns, n, scored.composites)
    _score_tokens(machine, scored, own)
    _score_arcs(machine, scored, own)
    # every modifier takes exactly one arc: dividing its potentials by their maximum only shifts log Z
    scored.shift = 0
    t = 0  # arcs that stay
    for m in range(1, n + 1):
        first = arc_start[m - 1] - arc_start[0]
        r = arc_start[m] - arc_start[0]
        top = -1e30
        for a in range(first, r):
            tops[a] = -1e30
            allowed = machine.allowed + (head[a] == 0) * n_labels
            for l in range(n_labels):
                if allowed[l] and scored.score[a * n_labels + l] > tops[a]:
                    tops[a] = scored.score[a * n_labels + l]
            top = max(top, tops[a])
        scored.shift += top
        for a in range(first, r):
            # the arc from the left stays, so that there is a tree
            if tops[a] < top - margin and head[a] != m - 1:
                continue
            allowed = machine.allowed + (head[a] == 0) * n_labels
            for l in range(n_labels):
                scored.score[t * n_labels + l] = scored.score[a * n_labels + l]
                scored.potential[t * n_labels + l] = (
                    exp(scored.score[a * n_labels + l] - top) if allowed[l] else 0)
            head[t], mod[t], scored.distance[t] = head[a], m, scored.distance[a]
            scored.origin[t] = a
            t += 1
    scored.n_arcs = n_arcs = t
    if chart_layout(chart, arena, n, n_arcs, machine.n_states, head, mod):
        return -1
    scored.sibling_rows = <uint32_t *>take(
        arena, (chart.pair_start[n_arcs] + 1) * n_siblings * sizeof(uint32_t))
    scored.sibling_score = <double *>take(arena, chart.pair_start[n_arcs] * sizeof(double))
    scored.last_score = <double *>take(arena, n_arcs * sizeof(double))
    scored.empty_score = <double *>take(arena, (2 * n + 2) * sizeof(double))
    if scored.sibling_rows == NULL or scored.sibling_score == NULL:
        return -1
    if scored.last_score == NULL or scored.empty_score == NULL:
        return -1
    state_potentials(machine, scored.potential, n_arcs, chart.phi)
    t = 2 * (machine.n_states + 1) * (machine.n_states + 1)
    for h in range(1, n + 1):
        for side in range(2):
            chart.moves[2 * h + side] = machine.moves + tags[h - 1] * t + side * (t // 2)
            _queue(machine, &queue, scored.composites, side, h, 0, 0,
                   scored.empty_rows + (2 * h + side) * n_siblings,
                   scored.empty_score + 2 * h + side, chart.empty + 2 * h + side)
    for a in range(n_arcs):
        if head[a] == 0:
            continue
        side = mod[a] > head[a]
        _queue(machine, &queue, scored.composites, side, head[a], mod[a], 0,
               scored.last_rows + a * n_siblings, scored.last_score + a, chart.last + a)
        first = chart.side_start[2 * head[a] + side]
        for r in range(chart.rank[a] + 1):
            i = mod[chart.side_arcs[first + r - 1]] if r else 0
            t = chart.pair_start[a] + r
            _queue(machine, &queue, scored.composites, side, head[a], i, mod[a],
                   scored.sibling_rows + t * n_siblings, scored.sibling_score + t,
                   chart.sibling + t)
    _finish(machine, &queue)
    return 0


def training_keys(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] pairs not None,
    const int32_t[::1] unaries not None, const int32_t[:, ::1] siblings not None,
    const uint8_t[::1] between_bit not None,
):
    """The keys of everything in annotated trees, to choose the features worth keeping.

    heads (int32[n]): Heads inside the sentence, 0 the root, -1 unknown (gives no keys).
    RETURNS (Tuple[ndarray, ndarray, ndarray]): uint64 keys of arcs (tokens x pair templates), of tokens
        (tokens x unary templates) and of neighbouring modifiers (any number x sibling templates).
    """
    cdef Machine machine
    cdef int s, n, m, h, t, k, side, previous, direction, between, start, n_sibling = 0
    cdef Py_ssize_t total = columns.shape[0]
    memset(&machine, 0, sizeof(machine))
    machine.context.n_columns = columns.shape[1]
    machine.context.n_composites = k = composites.shape[0]
    machine.context.composites = &composites[0, 0, 0]
    machine.n_siblings = siblings.shape[0]
    machine.siblings = &siblings[0, 0]
    machine.between_bit = &between_bit[0]
    longest = int(np.diff(starts).max()) if starts.shape[0] > 1 else 0
    cdef uint64_t[:, ::1] values = np.empty((longest + 1, k), dtype=np.uint64)
    pair_keys = np.zeros((total, pairs.shape[0]), dtype=np.uint64)
    unary_keys = np.zeros((total, unaries.shape[0]), dtype=np.uint64)
    # every token ends its modifiers on either side, and has one head
    sibling_keys = np.zeros((3 * total + 1, siblings.shape[0]), dtype=np.uint64)
    cdef uint64_t[:, ::1] out_pairs = pair_keys
    cdef uint64_t[:, ::1] out_unaries = unary_keys
    cdef uint64_t[:, ::1] out_siblings = sibling_keys
    cdef uint64_t *first
    for s in range(starts.shape[0] - 1):
        start = starts[s]
        n = starts[s + 1] - start
        if n == 0:
            continue
        first = &values[0, 0]
        with nogil:
            fill_composites(&machine.context, &columns[start, 0], n, first)
            for m in range(1, n + 1):
                for t in range(unaries.shape[0]):
                    out_unaries[start + m - 1, t] = _unary_key(t, values[m, unaries[t]])
                h = heads[start + m - 1]
                if h < 0:
                    continue
                direction = direction_of(h, m)
                between = _between(&machine, &tags[start], h, m)
                for t in range(pairs.shape[0]):
                    out_pairs[start + m - 1, t] = _pair_key(
                        t, direction, values[h, pairs[t, 0]], values[m, pairs[t, 1]],
                        between + 1 if pairs[t, 2] else 0)
            for h in range(1, n + 1):
                for side in range(2):
                    previous = 0
                    m = h + 1 if side else h - 1
                    while 1 <= m <= n:
                        if heads[start + m - 1] == h:
                            _sibling_keys(&machine, first, side, h, previous, m,
                                          &out_siblings[n_sibling, 0])
                            n_sibling += 1
                            previous = m
                        m += 1 if side else -1
                    _sibling_keys(&machine, first, side, h, previous, 0, &out_siblings[n_sibling, 0])
                    n_sibling += 1
    return pair_keys, unary_keys, sibling_keys[:n_sibling]
