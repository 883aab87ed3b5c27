# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Scores of arcs with labels, and of neighbouring modifiers, in parsing: `_score` has what learning needs, this
what can be left out then.

Rows are read from cells (see `_cells.pxd`), sums are whole numbers. Halves of keys are made once for every
token. Of a token's own features only those outputs are summed that its arcs ask for: a word that is nobody's
head in any arc left has nothing to say of modifiers. Memory is asked for one arc, or token, before its rows
are looked up, and rows one before they are read.
"""
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t

from ...base._arena cimport Arena, take, take_zeros
from ...base._exp cimport exp_floats
from ...base._prefetch cimport FETCH
from ...base._linear cimport mix, second_half
from ._cells cimport (
    ALONE, DENSE, N_SMALL, Cell, CellTable, Query, add_dense, ask_for, count_of_bits, find_cells,
)
from ._chart cimport Chart
from ._keys cimport (
    between_half, between_of, head_half, previous_half, sibling_halves, sibling_key, unary_key,
)
from ._layout cimport Machine, Scored, block_width, direction_of, token_width

cdef enum:
    MAX_TEMPLATES = 256  # as in `_score`
    AHEAD = 8
    LINE = 16  # cells, or sums, of a line of memory
    TOKEN_LINES = 3  # of a token's row that are asked for beforehand


cdef struct Asked:
    # what the arcs want to know of tokens
    uint8_t* sides  # bits of the blocks of outputs, see `_layout.pxd`
    uint64_t* as_head  # (n+1) x 2 sides x pairs: halves of keys; those of the root stand on its first side
    uint64_t* as_mod  # (n+1) x pairs


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


cdef int32_t* _read_tokens(
    const Machine* machine, const Scored* scored, const Asked* asked, Arena* arena
) noexcept nogil:
    """RETURNS (int32[n + 1, outputs]): What tokens' own features say, as far as arcs ask."""
    cdef Query queries[2][MAX_TEMPLATES]
    cdef uint32_t rows[2][MAX_TEMPLATES]
    cdef int n_rows[2]
    cdef int n_queries[2]
    cdef int m, t, n = scored.n, k = machine.context.n_composites
    cdef int width = token_width(machine.n_labels)
    cdef int32_t nothing = 0  # tokens have no feature of their own without outputs
    cdef int32_t* own = <int32_t*>take_zeros(arena, <size_t>(n + 1) * width * sizeof(int32_t))
    if own == NULL:
        return NULL
    for m in range(1, n + 3):
        if m <= n:
            n_queries[m & 1] = 0
            for t in range(machine.n_unaries):
                n_queries[m & 1] += ask_for(
                    &machine.table, unary_key(t, scored.composites[m * k + machine.unaries[t]]),
                    &queries[m & 1][n_queries[m & 1]])
        if m >= 3:
            _add_token(
                machine, rows[m & 1], n_rows[m & 1], asked.sides[m - 2], own + (m - 2) * width)
        if 2 <= m <= n + 1:
            n_rows[(m - 1) & 1] = _find(
                &machine.table, queries[(m - 1) & 1], n_queries[(m - 1) & 1], rows[(m - 1) & 1], &nothing,
                TOKEN_LINES)
    return own


cdef inline int _ask_for_arc(
    const Machine* machine, const Scored* scored, const Asked* asked, int a, Query* queries
) noexcept nogil:
    """RETURNS (int): How many queries."""
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], t, n = 0, n_pairs = machine.n_pairs
    cdef uint64_t between = between_half(between_of(machine, scored.tags, h, m) + 1)
    cdef const uint64_t* head = asked.as_head + (2 * h + (h > 0 and m > h)) * n_pairs
    cdef const uint64_t* mod = asked.as_mod + m * n_pairs
    cdef uint64_t key
    for t in range(n_pairs):
        key = mix((head[t] + (between if machine.pairs[3 * t + 2] else 0)) ^ mod[t])
        n += ask_for(&machine.table, key if head[t] and mod[t] else 0, queries + n)
    return n


cdef inline size_t _room(int n_labels) noexcept nogil:
    """Of the sums of an arc: at least one more than labels (the last output of a token would be one of a pair that
    there is not), in whole lines of memory (parsing takes 6 % less time)."""
    return (n_labels + LINE) // LINE * LINE


cdef int read_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
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
    cdef Asked asked
    if base == NULL or sums == NULL or _ask(machine, scored, &asked, arena):
        return -1
    if _ends_of_arcs(machine, scored, &asked, base, sums, arena):
        return -1
    for a in range(n_arcs + 2):
        if a < n_arcs:
            n_queries[a & 1] = _ask_for_arc(machine, scored, &asked, a, queries[a & 1])
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


cdef int _ends_of_arcs(
    const Machine* machine, const Scored* scored, const Asked* asked, int32_t* base, int32_t* sums,
    Arena* arena
) noexcept nogil:
    """Begin the sums of arcs with what their two tokens say. RETURNS (int): 0, or -1 without memory."""
    cdef int a, l, h, m, direction, bin, n_labels = machine.n_labels
    cdef int width = token_width(n_labels), block = block_width(n_labels)
    cdef const int32_t* part
    cdef const int32_t* own = _read_tokens(machine, scored, asked, arena)
    if own == NULL:
        return -1
    for a in range(scored.n_arcs):
        h, m, bin = scored.chart.head[a], scored.chart.mod[a], scored.distance[a]
        direction = direction_of(h, m)
        part = own + m * width + direction * block
        base[a] = part[0] + part[1 + bin]
        for l in range(n_labels):
            sums[l] = part[N_SMALL + l]
        if h:
            part = own + h * width + (3 + direction) * block
            base[a] += part[0] + part[1 + bin]
            for l in range(n_labels):
                sums[l] += part[N_SMALL + l]
        sums += _room(n_labels)
    return 0


cdef struct Queue:
    # look-ups whose memory is on its way
    Query queries[AHEAD][MAX_TEMPLATES]
    int n_queries[AHEAD]
    float* out[AHEAD]
    int n


cdef void _finish(const Machine* machine, Queue* queue, double scale) noexcept nogil:
    """Look up what was queued AHEAD steps ago."""
    cdef int t, at = queue.n % AHEAD
    cdef int32_t steps = 0
    cdef uint32_t row
    if queue.out[at] == NULL:
        return
    for t in range(queue.n_queries[at]):
        row = find_cells(&machine.table, &queue.queries[at][t])
        if row and not row & ALONE:  # the row of an arc, by the same bucket and check
            continue
        steps += <int16_t>(row & 0xFFFF)
    queue.out[at][0] = scale * steps


cdef inline void _queue(
    const Machine* machine, Queue* queue, const uint64_t* half, const uint64_t* previous, float* out,
    double scale
) noexcept nogil:
    """Score two neighbouring modifiers, some steps later."""
    cdef int t, n = 0, at = queue.n % AHEAD
    cdef Query* queries = queue.queries[at]
    _finish(machine, queue, scale)
    for t in range(machine.n_siblings):
        n += ask_for(&machine.table, sibling_key(half[t], previous[t]), queries + n)
    queue.out[at], queue.n_queries[at] = out, n
    queue.n += 1


cdef int read_siblings(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Fill the scores and potentials of neighbouring modifiers, of first and of last ones. RETURNS (int): 0,
    or -1 without memory."""
    cdef Chart* chart = &scored.chart
    cdef int n = scored.n, n_arcs = scored.n_arcs, n_pairs = chart.pair_start[n_arcs]
    cdef int n_siblings = machine.n_siblings
    cdef int a, h, i, m, r, t, side, first
    cdef uint64_t half[MAX_TEMPLATES]
    cdef uint64_t end[MAX_TEMPLATES]
    cdef double scale = machine.table.step * machine.sharpness
    cdef Queue queue
    cdef uint64_t* previous = <uint64_t*>take(
        arena, <size_t>(n + 1) * n_siblings * sizeof(uint64_t))
    cdef float* sibling = <float*>take(arena, n_pairs * sizeof(float))
    cdef float* last = <float*>take_zeros(arena, n_arcs * sizeof(float))  # nothing is last below the root
    cdef float* empty = <float*>take_zeros(arena, (2 * n + 2) * sizeof(float))
    if previous == NULL or sibling == NULL or last == NULL or empty == NULL:
        return -1
    for m in range(n + 1):
        for t in range(n_siblings):
            previous[m * n_siblings + t] = previous_half(machine, scored.composites, t, m)
    queue.n = 0
    for i in range(AHEAD):
        queue.out[i] = NULL
    for h in range(1, n + 1):
        for side in range(2):
            first = chart.side_start[2 * h + side]
            sibling_halves(machine, scored.composites, side, h, 0, end)
            _queue(machine, &queue, end, previous, empty + 2 * h + side, scale)
            for i in range(first, chart.side_start[2 * h + side + 1]):
                a = chart.side_arcs[i]
                m = chart.mod[a]
                _queue(machine, &queue, end, previous + m * n_siblings, last + a, scale)
                sibling_halves(machine, scored.composites, side, h, m, half)
                for r in range(chart.rank[a] + 1):
                    m = chart.mod[chart.side_arcs[first + r - 1]] if r else 0
                    _queue(machine, &queue, half, previous + m * n_siblings,
                           sibling + chart.pair_start[a] + r, scale)
    for i in range(AHEAD):
        _finish(machine, &queue, scale)
        queue.n += 1
    _potentials(sibling, n_pairs, scored.sibling_score, chart.sibling)
    _potentials(last, n_arcs, scored.last_score, chart.last)
    _potentials(empty, 2 * n + 2, scored.empty_score, chart.empty)
    return 0


cdef inline void _potentials(const float* x, int n, double* score, double* potential) noexcept nogil:
    cdef int i
    for i in range(n):
        score[i] = x[i]
    exp_floats(potential, x, 0, n)
