# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Scores of arcs with labels in parsing: `_score` has what learning needs, this what can be left out then.

Rows are read from cells (see `_cells.pxd`), sums are whole numbers. Of a token's own features only those
outputs are summed that its arcs ask for: a word that is nobody's head in any arc left has nothing to say of
modifiers. Memory is asked for one arc, or token, before its rows are looked up, and rows one before they are
read.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from ...base._arena cimport Arena, take, take_zeros
from ...base._prefetch cimport FETCH
from ...base._slots cimport find_row
from ._cells cimport Cell, N_SMALL, count_of_bits
from ._keys cimport arc_key, between_of, unary_key
from ._layout cimport Machine, Scored, block_width, direction_of, token_width

cdef enum:
    MAX_TEMPLATES = 256  # as in `_score`


cdef inline int _find(
    const Machine* machine, const uint64_t* keys, int n, uint32_t* rows
) noexcept nogil:
    """Rows of the known ones of several keys, whose cells are asked for. RETURNS (int): How many."""
    cdef int t, n_rows = 0
    for t in range(n):
        if keys[t] == 0:
            continue
        rows[n_rows] = find_row(machine.slots, machine.mask, keys[t])
        FETCH(machine.cells + rows[n_rows])
        n_rows += rows[n_rows] != 0
    return n_rows


cdef inline void _add_token(
    const Machine* machine, const uint32_t* rows, int n_rows, int asked, int32_t* own
) noexcept nogil:
    cdef int t, i, s, n, bits, block, width = block_width(machine.n_labels)
    cdef const Cell* cell
    cdef int32_t* out
    for t in range(n_rows):
        cell = machine.cells + rows[t]
        s = cell.output
        cell += 1
        while s:
            s -= 1
            bits, block, n = cell.weight & 255, cell.weight >> 8, cell.output
            cell += 1
            if not asked >> block & 1:
                cell += count_of_bits(bits) + n
                continue
            out = own + block * width
            n += count_of_bits(bits)
            for i in range(n):
                out[cell[i].output] += cell[i].weight
            cell += n


cdef inline void _add_arc(
    const Machine* machine, const uint32_t* rows, int n_rows, int bin, int32_t* base, int32_t* sums
) noexcept nogil:
    """Of pairs, outputs are distances, then labels: their numbers are lower by one than those of tokens."""
    cdef int t, i, n, bits
    cdef const Cell* cell
    for t in range(n_rows):
        cell = machine.cells + rows[t]
        base[0] += cell.weight
        if cell.output == 0:
            continue
        cell += 1
        bits, n = cell.weight, cell.output
        if bits > 255:  # the row of a token: two keys can have the same slot and check
            continue
        cell += 1
        if bits >> bin & 1:
            base[0] += cell[count_of_bits(bits & ((1 << bin) - 1))].weight
        if bits >> (N_SMALL - 1):
            sums[0] += cell[count_of_bits(bits) - 1].weight
        cell += count_of_bits(bits)
        for i in range(n):
            sums[cell[i].output - N_SMALL + 1] += cell[i].weight


cdef int32_t* _read_tokens(const Machine* machine, const Scored* scored, Arena* arena) noexcept nogil:
    """RETURNS (int32[n + 1, outputs]): What tokens' own features say, as far as arcs ask."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef uint32_t rows[2][MAX_TEMPLATES]
    cdef int n_rows[2]
    cdef int a, m, t, direction, n = scored.n, k = machine.context.n_composites
    cdef int width = token_width(machine.n_labels)
    cdef int32_t* own = <int32_t*>take_zeros(arena, (n + 1) * width * sizeof(int32_t))
    cdef uint8_t* asked = <uint8_t*>take_zeros(arena, n + 1)
    if own == NULL or asked == NULL:
        return NULL
    for a in range(scored.n_arcs):
        direction = direction_of(scored.chart.head[a], scored.chart.mod[a])
        asked[scored.chart.mod[a]] |= 1 << direction
        if scored.chart.head[a]:
            asked[scored.chart.head[a]] |= 8 << direction
    for m in range(1, n + 3):
        if m <= n:
            for t in range(machine.n_unaries):
                keys[m & 1][t] = unary_key(t, scored.composites[m * k + machine.unaries[t]])
                FETCH(&machine.slots[keys[m & 1][t] & machine.mask])
        if m >= 3:
            _add_token(
                machine, rows[m & 1], n_rows[m & 1], asked[m - 2], own + (m - 2) * width)
        if 2 <= m <= n + 1:
            n_rows[(m - 1) & 1] = _find(
                machine, keys[(m - 1) & 1], machine.n_unaries, rows[(m - 1) & 1])
    return own


cdef inline void _arc_keys(
    const Machine* machine, const Scored* scored, int a, uint64_t* keys
) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], direction = direction_of(h, m)
    cdef int t, k = machine.context.n_composites, between = between_of(machine, scored.tags, h, m)
    cdef const int32_t* parts
    for t in range(machine.n_pairs):
        parts = machine.pairs + 3 * t
        keys[t] = arc_key(
            t, direction, scored.composites[h * k + parts[0]], scored.composites[m * k + parts[1]],
            between + 1 if parts[2] else 0)
        FETCH(&machine.slots[keys[t] & machine.mask])


cdef int read_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Fill the scores of all arcs with all labels. RETURNS (int): 0, or -1 without memory."""
    cdef uint64_t keys[2][MAX_TEMPLATES]
    cdef uint32_t rows[2][MAX_TEMPLATES]
    cdef int n_rows[2]
    cdef int a, b, l, h, m, direction, bin, n_labels = machine.n_labels
    cdef int width = token_width(n_labels), block = block_width(n_labels)
    cdef int32_t base
    cdef int32_t* own = _read_tokens(machine, scored, arena)
    # one more than labels: the last output of a token would be one of a pair that there is not
    cdef int32_t* sums = <int32_t*>take(arena, (n_labels + 1) * sizeof(int32_t))
    cdef const int32_t* part
    cdef float* score
    if own == NULL or sums == NULL:
        return -1
    for a in range(scored.n_arcs + 2):
        if a < scored.n_arcs:
            _arc_keys(machine, scored, a, keys[a & 1])
        if a >= 2:
            b = a - 2
            h, m, bin = scored.chart.head[b], scored.chart.mod[b], scored.distance[b]
            direction = direction_of(h, m)
            part = own + m * width + direction * block
            base = part[0] + part[1 + bin]
            for l in range(n_labels):
                sums[l] = part[N_SMALL + l]
            if h:
                part = own + h * width + (3 + direction) * block
                base += part[0] + part[1 + bin]
                for l in range(n_labels):
                    sums[l] += part[N_SMALL + l]
            _add_arc(machine, rows[b & 1], n_rows[b & 1], bin, &base, sums)
            score = scored.score + b * n_labels
            for l in range(n_labels):
                score[l] = machine.step * <float>(sums[l] + base)
        if 1 <= a <= scored.n_arcs:
            n_rows[(a - 1) & 1] = _find(
                machine, keys[(a - 1) & 1], machine.n_pairs, rows[(a - 1) & 1])
    return 0
