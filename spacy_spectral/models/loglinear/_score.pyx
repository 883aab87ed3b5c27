# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From a sentence and its kept arcs to the potentials of the chart.

A feature that was kept has a row: a weight of its own (for the arc) and weights of its outputs, only
those seen with it in training: bins of distance and labels. One look-up so serves the arc, its length
and its label. Features of a token alone are summed once per token, for its role as modifier and as
head and for every direction (a supertagger trained along with the parser), those of pairs of tokens
once per kept arc, those of neighbouring modifiers once per pair.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, take, take_zeros
from ...base._exp cimport exp_floats
from ...base._rows cimport largest
from ...base._slots cimport find_row
from ...base._prefetch cimport FETCH
from ...trees._lengths cimport N_DISTANCES, distance_bin
from ._chart cimport Chart, chart_layout
from ._features cimport fill_composites
from ._keys cimport arc_key, between_of, sibling_keys, unary_key
from ._layout cimport Entry, Machine, Scored, block_width, direction_of, token_width
from ._read cimport read_arcs, read_siblings

cpdef enum:
    MAX_TEMPLATES = 256  # room for keys

cdef enum:
    AHEAD = 4

cdef float FORBIDDEN = -1e30  # the score of a label that an arc cannot have
# Arcs that others find worse than the best by this much, at a temperature of 1, are not looked at. In a product
# with a network, on parts of UD_English-EWT's training data that it had not seen, UAS and LAS were 90.09 and
# 87.43 without a margin, 90.08 and 87.43 with 15, 89.66 and 86.99 with 8. Where this model counts little it could
# not outvote others; but what they find likely has to stay for its own sake.
cdef double OTHERS_MARGIN = 15, LEAST_MARGIN = 2.5


def token_outputs(int n_labels):
    """RETURNS (int): How many outputs rows of tokens can have; see `_layout.pxd`."""
    return token_width(n_labels)


def kernel_bins(int n):
    """RETURNS (List[int]): The bins of the distances 1..n, to be compared with `trees.sentences`."""
    return [distance_bin(distance) for distance in range(1, n + 1)]


cdef inline void _look_up(
    const Machine* machine, const uint64_t* keys, int n, uint32_t* rows
) noexcept nogil:
    """Rows of several keys whose slots were asked for; asks for their entries."""
    cdef int t
    for t in range(n):
        rows[t] = find_row(machine.slots, machine.mask, keys[t]) if keys[t] else 0
        FETCH(machine.entries + rows[t])


cdef struct Siblings:
    # a queue of look-ups: hardly any of the memory is in the cache, so keys are made two steps before
    # their rows are read
    uint64_t keys[AHEAD][MAX_TEMPLATES]
    uint32_t* rows[2 * AHEAD]
    double* score[2 * AHEAD]
    double* potential[2 * AHEAD]
    int n


cdef void _advance(const Machine* machine, Siblings* queue) noexcept nogil:
    """Look up what was queued AHEAD steps ago, read what was looked up AHEAD steps before that."""
    cdef int t, at = queue.n - AHEAD
    cdef uint32_t* rows
    cdef double total = 0
    if at >= 0 and queue.rows[at % (2 * AHEAD)] != NULL:
        _look_up(
            machine, queue.keys[at % AHEAD], machine.n_siblings, queue.rows[at % (2 * AHEAD)])
    at -= AHEAD
    if at >= 0 and queue.rows[at % (2 * AHEAD)] != NULL:
        rows = queue.rows[at % (2 * AHEAD)]
        for t in range(machine.n_siblings):
            total += machine.entries[rows[t]].weight
        total *= machine.sharpness
        queue.score[at % (2 * AHEAD)][0] = total
        queue.potential[at % (2 * AHEAD)][0] = exp(total)


cdef void _queue(
    const Machine* machine, Siblings* queue, const uint64_t* composites, int side, int head,
    int previous, int mod, uint32_t* rows, double* score, double* potential
) noexcept nogil:
    """Score two neighbouring modifiers, some steps later."""
    cdef int t, at = queue.n % (2 * AHEAD)
    cdef uint64_t* keys = queue.keys[queue.n % AHEAD]
    _advance(machine, queue)
    sibling_keys(machine, composites, side, head, previous, mod, keys)
    for t in range(machine.n_siblings):
        FETCH(&machine.slots[keys[t] & machine.mask])
    queue.rows[at], queue.score[at], queue.potential[at] = rows, score, potential
    queue.n += 1


cdef void _finish(const Machine* machine, Siblings* queue) noexcept nogil:
    cdef int i
    for i in range(2 * AHEAD):
        _advance(machine, queue)
        queue.rows[queue.n % (2 * AHEAD)] = NULL
        queue.n += 1


cdef void _arc_keys(const Machine* machine, const Scored* scored, int a, uint64_t* keys) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int t, k = machine.context.n_composites, between = between_of(machine, scored.tags, h, m)
    cdef const int32_t* parts
    for t in range(machine.n_pairs):
        parts = machine.pairs + 3 * t
        keys[t] = arc_key(
            t, direction, scored.composites[h * k + parts[0]], scored.composites[m * k + parts[1]],
            between + 1 if parts[2] else 0)
        FETCH(&machine.slots[keys[t] & machine.mask])


cdef void _score_arc(
    const Machine* machine, Scored* scored, const float* own, int a
) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int t, block = block_width(machine.n_labels), bin = scored.distance[a]
    cdef const Entry* entry
    cdef const Entry* end
    cdef const float* part
    cdef const uint32_t* rows = scored.pair_rows + a * machine.n_pairs
    cdef float* score = scored.score + a * machine.n_labels
    cdef float base = 0
    part = own + m * token_width(machine.n_labels) + direction * block
    base = part[0] + part[1 + bin]
    for t in range(machine.n_labels):
        score[t] = part[1 + N_DISTANCES + t]
    if h:
        part = own + h * token_width(machine.n_labels) + (3 + direction) * block
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


cdef int _score_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Scores of all arcs with all labels. Keys are made one arc before their rows are looked up, and
    these one arc before they are read: memory is asked for in time. RETURNS (int): 0, or -1 without memory."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef int a, width = token_width(machine.n_labels)
    cdef float* own = <float*>take_zeros(arena, (scored.n + 1) * width * sizeof(float))
    scored.unary_rows = <uint32_t*>take(
        arena, (scored.n + 1) * machine.n_unaries * sizeof(uint32_t))
    scored.pair_rows = <uint32_t*>take(arena, scored.n_arcs * machine.n_pairs * sizeof(uint32_t))
    if own == NULL or scored.unary_rows == NULL or scored.pair_rows == NULL:
        return -1
    _score_tokens(machine, scored, own)
    for a in range(scored.n_arcs + 2):
        if a < scored.n_arcs:
            _arc_keys(machine, scored, a, keys[a & 1])
        if 1 <= a <= scored.n_arcs:
            _look_up(machine, keys[(a - 1) & 1], machine.n_pairs,
                     scored.pair_rows + (a - 1) * machine.n_pairs)
        if a >= 2:
            _score_arc(machine, scored, own, a - 2)
    return 0


cdef void _score_tokens(const Machine* machine, Scored* scored, float* own) noexcept nogil:
    """What every token's own features say, in the same way."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef int m, t, n = scored.n, n_unaries = machine.n_unaries, width = token_width(machine.n_labels)
    cdef const Entry* entry
    cdef const Entry* end
    for m in range(1, n + 3):
        if m <= n:
            for t in range(n_unaries):
                keys[m & 1][t] = unary_key(
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
    const Machine* machine, const double* potential, int n_arcs, double* phi
) noexcept nogil:
    """phi[a, c]: the potentials of the labels of class c together."""
    cdef int a, l
    memset(phi, 0, n_arcs * machine.n_states * sizeof(double))
    for a in range(n_arcs):
        for l in range(machine.n_labels):
            phi[a * machine.n_states + machine.label_state[l]] += potential[a * machine.n_labels + l]


cdef int _score_siblings(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Scores and potentials of neighbouring modifiers. RETURNS (int): 0, or -1 without memory."""
    cdef Chart* chart = &scored.chart
    cdef int n = scored.n, n_arcs = scored.n_arcs, n_siblings = machine.n_siblings
    cdef int a, h, i, r, t, side, first
    cdef Siblings queue
    queue.n = 0
    scored.last_rows = <uint32_t*>take_zeros(arena, n_arcs * n_siblings * sizeof(uint32_t))
    scored.empty_rows = <uint32_t*>take_zeros(arena, (2 * n + 2) * n_siblings * sizeof(uint32_t))
    scored.sibling_rows = <uint32_t*>take(
        arena, (chart.pair_start[n_arcs] + 1) * n_siblings * sizeof(uint32_t))
    if scored.last_rows == NULL or scored.empty_rows == NULL or scored.sibling_rows == NULL:
        return -1
    for h in range(1, n + 1):
        for side in range(2):
            _queue(machine, &queue, scored.composites, side, h, 0, 0,
                   scored.empty_rows + (2 * h + side) * n_siblings,
                   scored.empty_score + 2 * h + side, chart.empty + 2 * h + side)
    for a in range(n_arcs):
        h = chart.head[a]
        if h == 0:
            continue
        side = chart.mod[a] > h
        _queue(machine, &queue, scored.composites, side, h, chart.mod[a], 0,
               scored.last_rows + a * n_siblings, scored.last_score + a, chart.last + a)
        first = chart.side_start[2 * h + side]
        for r in range(chart.rank[a] + 1):
            i = chart.mod[chart.side_arcs[first + r - 1]] if r else 0
            t = chart.pair_start[a] + r
            _queue(machine, &queue, scored.composites, side, h, i, chart.mod[a],
                   scored.sibling_rows + t * n_siblings, scored.sibling_score + t,
                   chart.sibling + t)
    _finish(machine, &queue)
    return 0


cdef float _sharpen(
    const Machine* machine, float* score, const uint8_t* allowed, double* potential
) noexcept nogil:
    """Scores of one arc's labels: the arc's own score is what they amount to together,

        A = log(sum_l exp(b s_l)) / b          s_l becomes a A + b (s_l - A)

    with a for trees and b for labels given their arcs; all scores are multiplied by a if a = b.
    RETURNS (float): The largest score of an allowed label, by whose exponential the potentials are divided."""
    cdef int l, n_labels = machine.n_labels
    cdef float a = machine.sharpness, b = machine.label_sharpness, top, shift = 0
    cdef double total = 0
    for l in range(n_labels):
        score[l] = b * score[l] if allowed[l] else FORBIDDEN
    top = largest(score, n_labels)
    exp_floats(potential, score, top, n_labels)
    if a != b:
        for l in range(n_labels):
            total += potential[l]
        shift = (a - b) * (top + log(total)) / b
        for l in range(n_labels):
            score[l] += shift
    return top + shift


cdef void _choose_arcs(
    const Machine* machine, Scored* scored, const int32_t* arc_start, bint sharpened, float* tops,
    double margin, int* head, int* mod
) noexcept nogil:
    """Potentials of arcs with labels. Arcs that are worse than the best of their modifier by the margin are
    dropped. If scores are `sharpened`, potentials need but a factor."""
    cdef int n_labels = machine.n_labels, a, l, m, t = 0, first, end
    cdef const uint8_t* allowed
    cdef float top
    cdef double factor
    cdef double* potential
    # every modifier takes exactly one arc: dividing its potentials by their maximum only shifts log Z
    scored.shift = 0
    for m in range(1, scored.n + 1):
        first, end = arc_start[m - 1] - arc_start[0], arc_start[m] - arc_start[0]
        top = -1e30
        for a in range(first, end):
            if not sharpened:
                tops[a] = -1e30
                allowed = machine.allowed + (head[a] == 0) * n_labels
                for l in range(n_labels):
                    if allowed[l] and scored.score[a * n_labels + l] > tops[a]:
                        tops[a] = scored.score[a * n_labels + l]
            top = max(top, tops[a])
        scored.shift += top
        for a in range(first, end):
            # the arc from the left stays, so that there is a tree
            if tops[a] < top - margin and head[a] != m - 1:
                continue
            if t < a:
                memcpy(scored.score + t * n_labels, scored.score + a * n_labels, n_labels * sizeof(float))
            potential = scored.potential + t * n_labels
            if sharpened:
                factor = exp(tops[a] - top)
                for l in range(n_labels):
                    potential[l] = factor * scored.potential[a * n_labels + l]
            else:
                allowed = machine.allowed + (head[a] == 0) * n_labels
                exp_floats(potential, scored.score + t * n_labels, top, n_labels)
                for l in range(n_labels):
                    potential[l] *= allowed[l]
            head[t], mod[t], scored.distance[t] = head[a], m, scored.distance[a]
            scored.origin[t] = scored.origin[a]
            t += 1
    scored.n_arcs = t


cdef int _list_arcs(
    Scored* scored, const int32_t* arc_start, const int32_t* arc_head, const float* extra, int n_labels,
    double margin, int32_t* own_start, int* head, int* mod
) noexcept nogil:
    """The arcs to look at, by modifier, and where those of a modifier start. Arcs that others (`extra`, may be
    NULL) find worse than the best of their modifier by the margin are left out; the arc from the left stays, so
    that there is a tree. RETURNS (int): How many there are."""
    cdef int i, h, m, first = arc_start[0], n_arcs = 0
    cdef float least = -INFINITY
    cdef bint to_choose = extra != NULL and margin != INFINITY
    for m in range(1, scored.n + 1):
        own_start[m - 1] = n_arcs
        if to_choose:
            least = largest(
                extra + (arc_start[m - 1] - first) * <size_t>n_labels,
                (arc_start[m] - arc_start[m - 1]) * n_labels) - margin
        for i in range(arc_start[m - 1], arc_start[m]):
            h = arc_head[i]
            if to_choose and h != m - 1 and largest(
                    extra + (i - first) * <size_t>n_labels, n_labels) < least:
                continue
            head[n_arcs], mod[n_arcs], scored.origin[n_arcs] = h, m, i - first
            scored.distance[n_arcs] = distance_bin(m - h if m > h else h - m)
            n_arcs += 1
    own_start[scored.n] = n_arcs
    return n_arcs


cdef int score_sentence(
    const Machine* machine, Scored* scored, Arena* arena, const uint64_t* columns,
    const int32_t* tags, int n, const int32_t* arc_start, const int32_t* arc_head,
    const float* extra, double margin,
) noexcept nogil:
    """Fill `scored` with everything up to the potentials. `extra` (arcs x labels, may be NULL) is added to
    what the model says of arcs; those that it finds hopeless are not looked at. Arcs that score less than the
    best of their modifier by `margin` are dropped before siblings are looked at; not to be used in training.
    RETURNS (int): 0, or -1 without memory."""
    cdef int n_arcs = arc_start[n] - arc_start[0], k = machine.context.n_composites
    cdef int n_labels = machine.n_labels
    cdef int i, a, t, h, m, side
    cdef int* head = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    cdef int* mod = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    cdef int32_t* own_start = <int32_t*>take(arena, (n + 1) * sizeof(int32_t))
    cdef Chart* chart = &scored.chart
    cdef const float* more
    cdef float* tops
    cdef bint to_read = machine.table.cells != NULL
    cdef bint to_sharpen = machine.sharpness != 1 or machine.label_sharpness != 1
    scored.n, scored.n_arcs, scored.tags = n, n_arcs, tags
    scored.composites = <uint64_t*>take(arena, (n + 1) * k * sizeof(uint64_t))
    scored.distance = <int*>take(arena, n_arcs * sizeof(int))
    scored.origin = <int*>take(arena, n_arcs * sizeof(int))
    tops = <float*>take(arena, n_arcs * sizeof(float))
    scored.score = <float*>take(arena, n_arcs * n_labels * sizeof(float))
    scored.potential = <double*>take(arena, n_arcs * n_labels * sizeof(double))
    if head == NULL or mod == NULL or own_start == NULL or scored.composites == NULL:
        return -1
    if scored.distance == NULL or scored.score == NULL:
        return -1
    if scored.potential == NULL or scored.origin == NULL or tops == NULL:
        return -1
    n_arcs = scored.n_arcs = _list_arcs(
        scored, arc_start, arc_head, extra, n_labels,
        INFINITY if margin == INFINITY else max(OTHERS_MARGIN * machine.sharpness, LEAST_MARGIN),
        own_start, head, mod)
    chart.head, chart.mod = head, mod
    fill_composites(&machine.context, columns, n, scored.composites)
    if (read_arcs if to_read else _score_arcs)(machine, scored, arena):
        return -1
    if to_sharpen:
        for a in range(n_arcs):
            tops[a] = _sharpen(
                machine, scored.score + a * n_labels, machine.allowed + (head[a] == 0) * n_labels,
                scored.potential + a * n_labels)
    if extra != NULL:
        for a in range(n_arcs):
            more = extra + scored.origin[a] * <size_t>n_labels
            for i in range(n_labels):
                scored.score[a * n_labels + i] += more[i]
    _choose_arcs(
        machine, scored, own_start, to_sharpen and extra == NULL, tops, margin, head, mod)
    n_arcs = scored.n_arcs
    if chart_layout(chart, arena, n, n_arcs, machine.n_states, head, mod):
        return -1
    scored.sibling_score = <double*>take(arena, chart.pair_start[n_arcs] * sizeof(double))
    scored.last_score = <double*>take(arena, n_arcs * sizeof(double))
    scored.empty_score = <double*>take(arena, (2 * n + 2) * sizeof(double))
    if scored.sibling_score == NULL or scored.last_score == NULL or scored.empty_score == NULL:
        return -1
    state_potentials(machine, scored.potential, n_arcs, chart.phi)
    t = 2 * (machine.n_states + 1) * (machine.n_states + 1)
    for h in range(1, n + 1):
        for side in range(2):
            chart.moves[2 * h + side] = machine.moves + tags[h - 1] * t + side * (t // 2)
    return (read_siblings if to_read else _score_siblings)(machine, scored, arena)
