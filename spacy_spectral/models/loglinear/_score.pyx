# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From a sentence and its kept arcs to the potentials of the chart.

A feature that was kept has a row: a weight of its own (for the arc) and weights of its outputs, only
those seen with it in training: bins of distance and labels. One look-up so serves the arc, its length
and its label. Features of a token alone are summed once per token, for its role as modifier and as
head and for every direction (a supertagger trained along with the parser), those of pairs of tokens
once per kept arc, those of neighbouring modifiers once per pair.
"""
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, take, take_zeros
from ...base._exp cimport exp_floats
from ...base._rows cimport largest
from ...base._linear cimport Entry, find_row, mix, second_half
from ...base._prefetch cimport FETCH
from ...trees._lengths cimport N_DISTANCES, distance_bin
from ._cells cimport (
    ALONE, DENSE, N_SMALL, Cell, CellTable, Query, add_dense, ask_for, count_of_bits, find_cells,
)
from ._chart cimport Chart, chart_layout
from ._features cimport (
    Machine, Scored, between_half, between_of, block_width, direction_of, fill_composites, head_half,
    previous_half, sibling_halves, sibling_key, token_width, unary_key,
)

cpdef enum:
    MAX_TEMPLATES = 256  # room for keys

cdef enum:
    AHEAD = 8  # look-ups of which the memory is on its way
    LINE = 16  # cells, or sums, of a line of memory
    TOKEN_LINES = 3  # of a token's row that are asked for beforehand

cdef float FORBIDDEN = -1e30  # the score of a label that an arc cannot have
# Arcs that others find worse than the best by this much, at a temperature of 1, are not looked at. In a product
# with a network, on parts of UD_English-EWT's training data that it had not seen, UAS and LAS were 90.09 and
# 87.43 without a margin, 90.08 and 87.43 with 15, 89.66 and 86.99 with 8. Where this model counts little it could
# not outvote others; but what they find likely has to stay for its own sake.
cdef double OTHERS_MARGIN = 15, LEAST_MARGIN = 2.5


def token_outputs(int n_labels):
    """RETURNS (int): How many outputs rows of tokens can have; see `_features.pxd`."""
    return token_width(n_labels)


def kernel_bins(int n):
    """RETURNS (List[int]): The bins of the distances 1..n, to be compared with `trees.sentences`."""
    return [distance_bin(distance) for distance in range(1, n + 1)]


cdef inline int _ask_for(const Machine* machine, uint64_t key, Query* query, bint to_read) noexcept nogil:
    """Have the memory brought where a key is looked for, in parsing (see `_cells.pxd`) or in learning. RETURNS
    (int): 1, or 0 if it can't be found: the query is to be written over then."""
    if to_read:
        return ask_for(&machine.table, key, query)
    query.check, query.bucket = <uint32_t>(key >> 32), <uint32_t>(key & machine.mask)
    FETCH(machine.slots + query.bucket)
    return key != 0


cdef inline void _look_up(
    const Machine* machine, const Query* queries, int n_queries, uint32_t* rows, int n
) noexcept nogil:
    """In learning: rows of several keys, and 0 for the rest of n; asks for their entries."""
    cdef int t
    for t in range(n_queries):
        rows[t] = find_row(machine.slots, machine.mask, <uint64_t>queries[t].check << 32 | queries[t].bucket)
        FETCH(machine.entries + rows[t])
    for t in range(n_queries, n):
        rows[t] = 0


cdef struct Asked:
    # what the arcs want to know of tokens
    uint8_t* sides  # bits of the blocks of outputs, see `_features.pxd`
    uint64_t* as_head  # (n+1) x 2 sides x pairs: halves of keys; those of the root stand on its first side
    uint64_t* as_mod  # (n+1) x pairs


cdef int _ask(const Machine* machine, const Scored* scored, Asked* asked, Arena* arena) noexcept nogil:
    cdef int a, h, m, t, side, direction, n = scored.n, k = machine.context.n_composites
    cdef int n_pairs = machine.n_pairs
    cdef const uint64_t* own
    asked.sides = <uint8_t*>take_zeros(arena, n + 1)
    asked.as_head = <uint64_t*>take(arena, <size_t>(n + 1) * 2 * n_pairs * sizeof(uint64_t))
    asked.as_mod = <uint64_t*>take(arena, <size_t>(n + 1) * n_pairs * sizeof(uint64_t))
    if asked.sides == NULL or asked.as_head == NULL or asked.as_mod == NULL:
        return -1
    for a in range(scored.n_arcs):
        direction = direction_of(scored.chart.head[a], scored.chart.mod[a])
        asked.sides[scored.chart.mod[a]] |= 1 << direction
        if scored.chart.head[a]:
            asked.sides[scored.chart.head[a]] |= 8 << direction
    for h in range(n + 1):
        own = scored.composites + h * k
        for side in range(2):
            if h and not asked.sides[h] >> (3 + side) & 1:
                continue
            direction = side if h else 2
            for t in range(n_pairs):
                asked.as_head[(2 * h + side) * n_pairs + t] = head_half(
                    t, direction, own[machine.pairs[3 * t]])
        for t in range(n_pairs):
            asked.as_mod[h * n_pairs + t] = second_half(own[machine.pairs[3 * t + 1]])
    return 0


cdef inline int _ask_for_arc(
    const Machine* machine, const Scored* scored, const Asked* asked, int a, Query* queries,
    bint to_read
) noexcept nogil:
    """RETURNS (int): How many queries."""
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], t, n = 0, n_pairs = machine.n_pairs
    cdef uint64_t between = between_half(between_of(machine, scored.tags, h, m) + 1)
    cdef const uint64_t* head = asked.as_head + (2 * h + (h > 0 and m > h)) * n_pairs
    cdef const uint64_t* mod = asked.as_mod + m * n_pairs
    cdef uint64_t key
    for t in range(n_pairs):
        key = mix((head[t] + (between if machine.pairs[3 * t + 2] else 0)) ^ mod[t])
        n += _ask_for(machine, key if head[t] and mod[t] else 0, queries + n, to_read)
    return n


cdef inline int _ask_for_token(
    const Machine* machine, const Scored* scored, int m, Query* queries, bint to_read
) noexcept nogil:
    """RETURNS (int): How many queries."""
    cdef int t, n = 0
    cdef const uint64_t* own = scored.composites + m * machine.context.n_composites
    for t in range(machine.n_unaries):
        n += _ask_for(machine, unary_key(t, own[machine.unaries[t]]), queries + n, to_read)
    return n


cdef fused Sum:
    float  # in learning
    int32_t  # in parsing: multiples of a step


cdef inline Sum _ends_of_arc(
    const Machine* machine, const Scored* scored, const Sum* own, int a, Sum* score
) noexcept nogil:
    """Begin the scores of an arc's labels with what its two tokens say. RETURNS: What they say of any label."""
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int l, bin = scored.distance[a], n_labels = machine.n_labels
    cdef int width = token_width(n_labels), block = block_width(n_labels)
    cdef const Sum* part = own + m * width + direction * block
    cdef Sum base = part[0] + part[1 + bin]
    for l in range(n_labels):
        score[l] = part[1 + N_DISTANCES + l]
    if h:
        part = own + h * width + (3 + direction) * block
        base += part[0] + part[1 + bin]
        for l in range(n_labels):
            score[l] += part[1 + N_DISTANCES + l]
    return base


cdef void _score_arc(
    const Machine* machine, Scored* scored, const float* own, int a
) noexcept nogil:
    cdef int t, bin = scored.distance[a]
    cdef const Entry* entry
    cdef const Entry* end
    cdef const uint32_t* rows = scored.pair_rows + a * machine.n_pairs
    cdef float* score = scored.score + a * machine.n_labels
    cdef float base = _ends_of_arc(machine, scored, own, a, score)
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
    cdef Query queries[2][MAX_TEMPLATES]
    cdef int n_queries[2]
    cdef int a, width = token_width(machine.n_labels)
    cdef Asked asked
    cdef float* own = <float*>take_zeros(arena, (scored.n + 1) * width * sizeof(float))
    scored.unary_rows = <uint32_t*>take(
        arena, (scored.n + 1) * machine.n_unaries * sizeof(uint32_t))
    scored.pair_rows = <uint32_t*>take(arena, scored.n_arcs * machine.n_pairs * sizeof(uint32_t))
    if own == NULL or scored.unary_rows == NULL or scored.pair_rows == NULL:
        return -1
    if _ask(machine, scored, &asked, arena):
        return -1
    _score_tokens(machine, scored, own)
    for a in range(scored.n_arcs + 2):
        if a < scored.n_arcs:
            n_queries[a & 1] = _ask_for_arc(machine, scored, &asked, a, queries[a & 1], False)
        if 1 <= a <= scored.n_arcs:
            _look_up(
                machine, queries[(a - 1) & 1], n_queries[(a - 1) & 1],
                scored.pair_rows + (a - 1) * machine.n_pairs, machine.n_pairs)
        if a >= 2:
            _score_arc(machine, scored, own, a - 2)
    return 0


cdef void _score_tokens(const Machine* machine, Scored* scored, float* own) noexcept nogil:
    """What every token's own features say, in the same way."""
    cdef Query queries[2][MAX_TEMPLATES]
    cdef int n_queries[2]
    cdef int m, t, n = scored.n, n_unaries = machine.n_unaries, width = token_width(machine.n_labels)
    cdef const Entry* entry
    cdef const Entry* end
    for m in range(1, n + 3):
        if m <= n:
            n_queries[m & 1] = _ask_for_token(machine, scored, m, queries[m & 1], False)
        if 2 <= m <= n + 1:
            _look_up(
                machine, queries[(m - 1) & 1], n_queries[(m - 1) & 1],
                scored.unary_rows + (m - 1) * n_unaries, n_unaries)
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


# In parsing, rows are read from cells (see `_cells.pxd`), and what learning needs is left out: sums are whole
# numbers, halves of keys are made once for every token. Of a token's own features only those outputs are summed that
# its arcs ask for: a word that is nobody's head in any arc left has nothing to say of modifiers. Memory is asked for
# one arc, or token, before its rows are looked up, and rows one before they are read.

cdef inline int _find(
    const CellTable* table, const Query* queries, int n, uint32_t* rows, int32_t* alone, int n_lines
) noexcept nogil:
    """Rows of the known ones of several keys, of whose cells so many lines are asked for; weights of those
    without rows are added up. RETURNS (int): How many rows."""
    cdef int t, i, n_rows = 0
    cdef uint32_t row
    for t in range(n):
        row = find_cells(table, queries + t)
        if row & ALONE:
            alone[0] += <int16_t>(row & 0xFFFF)
            continue
        rows[n_rows] = row
        for i in range(n_lines):
            FETCH(table.cells + row + LINE * i)
        n_rows += row != 0
    return n_rows


cdef inline void _add_token(
    const Machine* machine, const uint32_t* rows, int n_rows, int asked, int32_t* own
) noexcept nogil:
    cdef int t, i, s, n, bits, block, width = block_width(machine.n_labels)
    cdef const Cell* cell
    cdef int32_t* out
    for t in range(n_rows):
        cell = machine.table.cells + rows[t]
        s = cell.output
        cell += 1
        while s:
            s -= 1
            bits, block, n = cell.weight & 255, cell.weight >> 8, cell.output
            out = own + block * width
            cell += 1
            if n == DENSE:
                if asked >> block & 1:
                    add_dense(out, cell, width)
                cell += (width + 1) // 2
                continue
            n += count_of_bits(bits)
            if asked >> block & 1:
                for i in range(n):
                    out[cell[i].output] += cell[i].weight
            cell += n


cdef inline void _add_arc(
    const Machine* machine, const uint32_t* rows, int n_rows, int bin, int32_t* base, int32_t* sums
) noexcept nogil:
    """Of pairs, outputs are distances, then labels: their numbers are lower by one than those of tokens.
    Weights that are not there are masked, which is cheaper than to guess whether they are."""
    cdef int t, i, n, bits, n_small, below = (1 << bin) - 1
    cdef int32_t total = 0
    cdef const Cell* cell
    for t in range(n_rows):
        cell = machine.table.cells + rows[t]
        total += cell.weight
        bits, n = cell[1].weight, cell[1].output
        if bits > 255 or n == DENSE:  # the row of a token: two keys can have the same bucket and check
            continue
        cell += 2
        n_small = count_of_bits(bits)
        total += cell[count_of_bits(bits & below)].weight & -(bits >> bin & 1)
        sums[0] += cell[n_small - 1].weight & -(bits >> (N_SMALL - 1))
        cell += n_small
        for i in range(n):
            sums[cell[i].output - N_SMALL + 1] += cell[i].weight
    base[0] += total


cdef int32_t* _read_tokens(
    const Machine* machine, const Scored* scored, const Asked* asked, Arena* arena
) noexcept nogil:
    """RETURNS (int32[n + 1, outputs]): What tokens' own features say, as far as arcs ask."""
    cdef Query queries[2][MAX_TEMPLATES]
    cdef uint32_t rows[2][MAX_TEMPLATES]
    cdef int n_rows[2]
    cdef int n_queries[2]
    cdef int m, n = scored.n
    cdef int width = token_width(machine.n_labels)
    cdef int32_t nothing = 0  # tokens have no feature of their own without outputs
    cdef int32_t* own = <int32_t*>take_zeros(arena, <size_t>(n + 1) * width * sizeof(int32_t))
    if own == NULL:
        return NULL
    for m in range(1, n + 3):
        if m <= n:
            n_queries[m & 1] = _ask_for_token(machine, scored, m, queries[m & 1], True)
        if m >= 3:
            _add_token(
                machine, rows[m & 1], n_rows[m & 1], asked.sides[m - 2], own + (m - 2) * width)
        if 2 <= m <= n + 1:
            n_rows[(m - 1) & 1] = _find(
                &machine.table, queries[(m - 1) & 1], n_queries[(m - 1) & 1], rows[(m - 1) & 1], &nothing,
                TOKEN_LINES)
    return own


cdef inline size_t _room(int n_labels) noexcept nogil:
    """Of the sums of an arc: at least one more than labels (the last output of a token would be one of a pair that
    there is not), in whole lines of memory (parsing takes 6 % less time)."""
    return (n_labels + LINE) // LINE * LINE


cdef int _read_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Fill the scores of all arcs with all labels. RETURNS (int): 0, or -1 without memory."""
    cdef Query queries[2][MAX_TEMPLATES]
    cdef uint32_t rows[2][MAX_TEMPLATES]
    cdef int n_queries[2]
    cdef int n_rows[2]
    cdef int a, b, l, n_arcs = scored.n_arcs, n_labels = machine.n_labels
    cdef size_t width = _room(n_labels)
    cdef int32_t* base = <int32_t*>take(arena, n_arcs * sizeof(int32_t))
    cdef int32_t* sums = <int32_t*>take(arena, n_arcs * width * sizeof(int32_t))
    cdef float* score = scored.score
    cdef const int32_t* own
    cdef Asked asked
    if base == NULL or sums == NULL or _ask(machine, scored, &asked, arena):
        return -1
    own = _read_tokens(machine, scored, &asked, arena)
    if own == NULL:
        return -1
    for a in range(n_arcs):
        base[a] = _ends_of_arc(machine, scored, own, a, sums + a * width)
    for a in range(n_arcs + 2):
        if a < n_arcs:
            n_queries[a & 1] = _ask_for_arc(machine, scored, &asked, a, queries[a & 1], True)
        if a >= 2:
            b = a - 2
            _add_arc(
                machine, rows[b & 1], n_rows[b & 1], scored.distance[b], base + b, sums + b * width)
        if 1 <= a <= n_arcs:
            b = a - 1
            n_rows[b & 1] = _find(
                &machine.table, queries[b & 1], n_queries[b & 1], rows[b & 1], base + b, 1)
    for a in range(n_arcs):
        for l in range(n_labels):
            score[l] = machine.table.step * <float>(sums[l] + base[a])
        score, sums = score + n_labels, sums + width
    return 0


cdef struct Queue:
    # look-ups of neighbouring modifiers whose memory is on its way
    Query queries[AHEAD][MAX_TEMPLATES]
    int n_queries[AHEAD]
    int place[AHEAD]  # in the chart, -1 for none
    int n


cdef void _finish(const Machine* machine, Queue* queue, float* sums, uint32_t* rows) noexcept nogil:
    """Look up what was queued AHEAD steps ago: rows in learning, sums in parsing."""
    cdef int t, at = queue.n % AHEAD, place = queue.place[at]
    cdef const Query* queries = queue.queries[at]
    cdef int32_t steps = 0
    cdef uint32_t row
    queue.n += 1
    if place < 0:
        return
    if rows != NULL:
        _look_up(
            machine, queries, queue.n_queries[at], rows + place * machine.n_siblings, queue.n_queries[at])
        return
    for t in range(queue.n_queries[at]):
        row = find_cells(&machine.table, queries + t)
        if row and not row & ALONE:  # the row of an arc, by the same bucket and check
            continue
        steps += <int16_t>(row & 0xFFFF)
    sums[place] = machine.table.step * machine.sharpness * steps


cdef inline void _queue(
    const Machine* machine, Queue* queue, const uint64_t* half, const uint64_t* previous, int place, float* sums,
    uint32_t* rows
) noexcept nogil:
    """Score two neighbouring modifiers, some steps later."""
    cdef int t, n = 0, at = queue.n % AHEAD
    cdef Query* queries = queue.queries[at]
    cdef uint64_t key
    _finish(machine, queue, sums, rows)
    for t in range(machine.n_siblings):
        key = sibling_key(half[t], previous[t])
        n += _ask_for(machine, key, queries + n, rows == NULL)
    queue.place[at], queue.n_queries[at] = place, n


cdef int _score_siblings(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Fill the scores and potentials of neighbouring modifiers, of last ones, of sides without any. In learning the
    rows are kept. RETURNS (int): 0, or -1 without memory."""
    cdef Chart* chart = &scored.chart
    cdef int n = scored.n, n_siblings = machine.n_siblings, size = chart.n_siblings
    cdef int a, h, i, m, r, t, side, first
    cdef bint to_read = machine.table.cells != NULL
    cdef double total
    cdef uint64_t half[MAX_TEMPLATES]
    cdef uint64_t end[MAX_TEMPLATES]
    cdef Queue queue
    cdef float* sums = NULL
    cdef uint32_t* rows = NULL
    cdef uint64_t* previous = <uint64_t*>take(
        arena, <size_t>(n + 1) * n_siblings * sizeof(uint64_t))
    scored.sibling_score = <double*>take(arena, size * sizeof(double))
    if to_read:  # what is not asked for stays 0: nothing is last below the root
        sums = <float*>take_zeros(arena, size * sizeof(float))
    else:
        rows = scored.sibling_rows = <uint32_t*>take_zeros(
            arena, <size_t>(size * n_siblings + 1) * sizeof(uint32_t))
    if previous == NULL or scored.sibling_score == NULL or (sums == NULL and rows == NULL):
        return -1
    for m in range(n + 1):
        for t in range(n_siblings):
            previous[m * n_siblings + t] = previous_half(machine, scored.composites, t, m)
    queue.n = 0
    for i in range(AHEAD):
        queue.place[i] = -1
    for h in range(1, n + 1):
        for side in range(2):
            first = chart.side_start[2 * h + side]
            sibling_halves(machine, scored.composites, side, h, 0, end)
            _queue(machine, &queue, end, previous, chart.empty_at + 2 * h + side, sums, rows)
            for i in range(first, chart.side_start[2 * h + side + 1]):
                a = chart.side_arcs[i]
                m = chart.mod[a]
                _queue(machine, &queue, end, previous + m * n_siblings, chart.last_at + a, sums, rows)
                sibling_halves(machine, scored.composites, side, h, m, half)
                for r in range(chart.rank[a] + 1):
                    m = chart.mod[chart.side_arcs[first + r - 1]] if r else 0
                    _queue(
                        machine, &queue, half, previous + m * n_siblings, chart.pair_start[a] + r, sums, rows)
    for i in range(AHEAD):
        _finish(machine, &queue, sums, rows)
    if to_read:
        for i in range(size):
            scored.sibling_score[i] = sums[i]
        exp_floats(chart.sibling, sums, 0, size)
        return 0
    for i in range(size):
        total = 0
        for t in range(n_siblings):
            total += machine.entries[rows[i * n_siblings + t]].weight
        total *= machine.sharpness
        scored.sibling_score[i] = total
        chart.sibling[i] = exp(total)
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
    if (_read_arcs if to_read else _score_arcs)(machine, scored, arena):
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
    state_potentials(machine, scored.potential, n_arcs, chart.phi)
    t = 2 * (machine.n_states + 1) * (machine.n_states + 1)
    for h in range(1, n + 1):
        for side in range(2):
            chart.moves[2 * h + side] = machine.moves + tags[h - 1] * t + side * (t // 2)
    return _score_siblings(machine, scored, arena)
