# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Hashed features: from a sentence and its kept arcs to the potentials of the chart.

A *composite* joins a few columns of a token and its neighbours into one 64-bit number, once per token; the key of an
arc is then one multiplication of two composites. 0 stands for "does not apply" (no cluster, no morphology): every
key made from it is 0 as well and never looked up.

A feature that was kept has a row: a weight of its own (for the arc) and weights of its outputs, only
those seen with it in training: bins of distance and labels. One look-up so serves the arc, its length
and its label. Features of a token alone are summed once per token, for its role as modifier and as
head and for every direction (a supertagger trained along with the parser), those of pairs of tokens
once per kept arc, those of neighbouring modifiers once per pair.

Learning reads rows of the table that it changes, in floats, and keeps where they are. Parsing reads them from cells
(see `_table.pxd`), in whole numbers; of a token's own features it sums only those outputs that its arcs ask for: a
word that is nobody's head in any arc left has nothing to say of modifiers.
"""
import numpy

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, take, take_zeros
from ...base._exp cimport exp_floats
from ...base._linear cimport Entry, find_row, mix, second_half
from ...base._prefetch cimport FETCH
from ...base._rows cimport largest
from ...trees._lengths cimport N_DISTANCES, distance_bin
from ._chart cimport Chart, chart_layout
from ._table cimport (
    ALONE, DENSE, N_SMALL, Cell, Query, add_dense, ask_for, count_of_bits, fetch_bit, find_cells,
)

cpdef enum:
    MAX_PARTS = 4
    MAX_TEMPLATES = 256  # room for keys
    NO_CHILD = 7  # stands for a word that is not there

cdef enum:
    TOGETHER = 8  # arcs, or tokens, whose look-ups are asked for before the first is made
    LINE = 16  # cells of a line of memory
    TOKEN_LINES = 3  # of a token's row that are asked for beforehand

cdef float FORBIDDEN = -1e30  # the score of a label that an arc cannot have: its exponential is 0
# Arcs that others find worse than the best by this much, at a temperature of 1, are not looked at. In a product
# with a network, on parts of UD_English-EWT's training data that it had not seen, UAS and LAS were 90.09 and
# 87.43 without a margin, 90.08 and 87.43 with 15, 89.66 and 86.99 with 8. Where this model counts little it could
# not outvote others; but what they find likely has to stay for its own sake.
cdef double OTHERS_MARGIN = 15, LEAST_MARGIN = 2.5



def hash_strings(strings) -> numpy.ndarray:
    """Texts hashed to 64 bits (FNV-1a over UTF-8, mixed), never to 0."""
    result = numpy.empty(len(strings), dtype=numpy.uint64)
    cdef uint64_t[::1] out = result
    cdef Py_ssize_t i
    cdef uint64_t value
    cdef bytes data
    cdef const unsigned char* text
    cdef Py_ssize_t position
    for i, string in enumerate(strings):
        data = string.encode("utf8", "surrogatepass")
        text = data
        value = <uint64_t>0xCBF29CE484222325
        for position in range(len(data)):
            value = (value ^ text[position]) * <uint64_t>0x100000001B3
        value = mix(mix(value))
        out[i] = value if value else 1
    return result


cdef void fill_composites(
    const Context* context, const uint64_t* columns, int length, uint64_t* out
) noexcept nogil:
    """Composites of positions 0 (the root) to `length` of one sentence."""
    cdef int position, k, part, at, column
    cdef uint64_t value, atom
    cdef const int32_t* parts
    for position in range(length + 1):
        for k in range(context.n_composites):
            parts = context.composites + k * MAX_PARTS * 2
            value = k + 1
            for part in range(MAX_PARTS):
                column = parts[2 * part + 1]
                if column < 0:
                    break
                at = position + parts[2 * part]
                if at <= 0:
                    atom = 11 - at  # the root and what would stand before it
                elif at > length:
                    atom = 101 + at - length
                else:
                    atom = columns[(at - 1) * context.n_columns + column]
                if atom == 0:
                    value = 0
                    break
                value = (value ^ atom) * <uint64_t>0x9FB21C651E98DF25
                value ^= value >> 29
            out[position * context.n_composites + k] = value


def fill_children(
    uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None,
    const float[::1] arc_prob not None, const uint8_t[::1] is_function not None, int word, int left,
    int right,
):
    """Write beside every token, into two columns, a column of the outermost function words whose
    likeliest head it is, on its left and right; NO_CHILD where there is none. Function words hardly ever
    have modifiers (see `statistics.function_tags`)."""
    cdef int s, start, n, m, a, best
    with nogil:
        for s in range(columns.shape[0]):
            columns[s, left] = columns[s, right] = NO_CHILD
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
                elif columns[start + best - 1, right] == NO_CHILD:
                    columns[start + best - 1, right] = columns[start + m - 1, word]


def training_keys(
    const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] tags not None, const int32_t[::1] heads not None,
    const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] pairs not None,
    const int32_t[::1] unaries not None, const int32_t[:, ::1] siblings not None,
    const uint8_t[::1] between_bit not None,
):
    """The keys of everything in annotated trees (heads in the sentence, 0 the root, -1 gives no keys),
    to choose the features worth keeping: of arcs (tokens x pair templates), of tokens (x unary
    templates) and of neighbouring modifiers (any number x sibling templates)."""
    cdef Machine machine
    cdef int s, n, m, h, t, k, side, step, direction, previous, start, at = 0
    cdef uint64_t between
    cdef Py_ssize_t total = columns.shape[0]
    memset(&machine, 0, sizeof(machine))
    machine.context.n_columns = columns.shape[1]
    machine.context.n_composites = k = composites.shape[0]
    machine.context.composites = &composites[0, 0, 0]
    machine.n_siblings = siblings.shape[0]
    machine.siblings = &siblings[0, 0]
    machine.between_bit = &between_bit[0]
    longest = int(numpy.diff(starts).max()) if starts.shape[0] > 1 else 0
    cdef uint64_t[:, ::1] values = numpy.empty((longest + 1, k), dtype=numpy.uint64)
    pair_keys = numpy.zeros((total, pairs.shape[0]), dtype=numpy.uint64)
    unary_keys = numpy.zeros((total, unaries.shape[0]), dtype=numpy.uint64)
    # every token ends its modifiers on either side, and has one head
    among_siblings = numpy.zeros((3 * total + 1, siblings.shape[0]), dtype=numpy.uint64)
    cdef uint64_t[:, ::1] out_pairs = pair_keys
    cdef uint64_t[:, ::1] out_unaries = unary_keys
    cdef uint64_t[:, ::1] out_siblings = among_siblings
    cdef uint64_t[::1] halves = numpy.empty(siblings.shape[0] + 1, dtype=numpy.uint64)
    cdef uint64_t[::1] others = numpy.empty(siblings.shape[0] + 1, dtype=numpy.uint64)
    cdef uint64_t* first
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
                    out_unaries[start + m - 1, t] = unary_key(t, values[m, unaries[t]])
                h = heads[start + m - 1]
                if h < 0:
                    continue
                direction = direction_of(h, m)
                between = between_half(between_of(&machine, &tags[start], h, m) + 1)
                for t in range(pairs.shape[0]):
                    out_pairs[start + m - 1, t] = arc_key(
                        head_half(t, direction, values[h, pairs[t, 0]]),
                        second_half(values[m, pairs[t, 1]]), between if pairs[t, 2] else 0)
            for h in range(1, n + 1):
                for side in range(2):
                    previous, m, step = 0, h, 1 if side else -1
                    while m:  # 0 is nobody, after the last
                        m += step
                        while 1 <= m <= n and heads[start + m - 1] != h:
                            m += step
                        m = m if m <= n else 0
                        sibling_halves(&machine, first, side, h, m, &halves[0])
                        previous_halves(&machine, first, previous, &others[0])
                        for t in range(siblings.shape[0]):
                            out_siblings[at, t] = sibling_key(halves[t], others[t])
                        at += 1
                        previous = m
    return pair_keys, unary_keys, among_siblings[:at]


def token_outputs(int n_labels):
    """RETURNS (int): How many outputs rows of tokens can have; see `_features.pxd`."""
    return token_width(n_labels)


def kernel_bins(int n):
    """RETURNS (List[int]): The bins of the distances 1..n, to be compared with `trees.sentences`."""
    return [distance_bin(distance) for distance in range(1, n + 1)]


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


cdef struct Lookups:
    # of some arcs or tokens: what is looked for, and the rows that were found
    uint64_t keys[TOGETHER][MAX_TEMPLATES]
    Query queries[TOGETHER][MAX_TEMPLATES]
    int n_queries[TOGETHER]
    uint32_t rows[TOGETHER][MAX_TEMPLATES]
    int n_rows[TOGETHER]


cdef inline int _ask_for(const Machine* machine, uint64_t key, Query* query) noexcept nogil:
    """Have the memory brought where a key is looked for. RETURNS (int): 1, or 0 if it can't be found: the query is to
    be written over then."""
    if machine.table.cells != NULL:
        return ask_for(&machine.table, key, query)
    query.check, query.bucket = <uint32_t>(key >> 32), <uint32_t>(key & machine.mask)
    FETCH(machine.slots + query.bucket)
    return key != 0


cdef inline int _find(
    const Machine* machine, Lookups* some, int at, int n_lines
) noexcept nogil:
    """Look up rows and ask for so many lines of each. RETURNS (int): The sum of the weights of features without
    rows, in parsing."""
    cdef int t, i, n_rows = 0, alone = 0
    cdef uint32_t row
    cdef const Query* query
    for t in range(some.n_queries[at]):
        query = &some.queries[at][t]
        if machine.table.cells == NULL:
            row = find_row(machine.slots, machine.mask, <uint64_t>query.check << 32 | query.bucket)
            FETCH(machine.entries + row)
        else:
            row = find_cells(&machine.table, query)
            if row & ALONE:
                alone += <int16_t>(row & 0xFFFF)
                continue
            for i in range(n_lines):
                FETCH(machine.table.cells + row + LINE * i)
        some.rows[at][n_rows] = row
        n_rows += row != 0
    some.n_rows[at] = n_rows
    return alone


cdef inline void _make_key(const Machine* machine, uint64_t key, uint64_t* out) noexcept nogil:
    """Note a key and have the memory brought that tells whether it can be found."""
    out[0] = key
    if machine.table.cells != NULL:
        fetch_bit(&machine.table, key)


cdef inline void _ask_for_keys(
    const Machine* machine, int n_keys, Lookups* some, int at
) noexcept nogil:
    cdef int t, n = 0
    for t in range(n_keys):
        n += _ask_for(machine, some.keys[at][t], &some.queries[at][n])
    some.n_queries[at] = n


cdef inline void _make_arc_keys(
    const Machine* machine, const Scored* scored, const Asked* asked, int a, Lookups* some, int at
) noexcept nogil:
    cdef int h = scored.chart.head[a], m = scored.chart.mod[a], t, n_pairs = machine.n_pairs
    cdef uint64_t between = between_half(between_of(machine, scored.tags, h, m) + 1)
    cdef const uint64_t* head = asked.as_head + (2 * h + (h > 0 and m > h)) * n_pairs
    cdef const uint64_t* mod = asked.as_mod + m * n_pairs
    for t in range(n_pairs):
        _make_key(
            machine, arc_key(head[t], mod[t], between if machine.pairs[3 * t + 2] else 0),
            &some.keys[at][t])


cdef inline void _make_token_keys(
    const Machine* machine, const Scored* scored, int m, Lookups* some, int at
) noexcept nogil:
    cdef int t
    cdef const uint64_t* own = scored.composites + m * machine.context.n_composites
    for t in range(machine.n_unaries):
        _make_key(machine, unary_key(t, own[machine.unaries[t]]), &some.keys[at][t])


cdef inline void _keep_rows(const Lookups* some, int at, uint32_t* rows, int n) noexcept nogil:
    """For the gradient; the rest are 0."""
    memset(rows, 0, n * sizeof(uint32_t))
    memcpy(rows, some.rows[at], some.n_rows[at] * sizeof(uint32_t))


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


cdef void _learn_token(
    const Machine* machine, const uint32_t* rows, int n_rows, float* own
) noexcept nogil:
    cdef int t
    cdef const Entry* entry
    cdef const Entry* end
    for t in range(n_rows):
        entry = machine.entries + rows[t]
        end = entry + entry.output
        while entry < end:
            entry += 1
            own[entry.output] += entry.weight


cdef void _learn_arc(
    const Machine* machine, const uint32_t* rows, int n_rows, int bin, float base, float* score
) noexcept nogil:
    """Add what an arc's rows say of its labels."""
    cdef int t
    cdef const Entry* entry
    cdef const Entry* end
    for t in range(n_rows):
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


cdef inline void _read_token(
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


cdef inline void _read_arc(
    const Machine* machine, const uint32_t* rows, int n_rows, int bin, int32_t base, int32_t* sums,
    float* score
) noexcept nogil:
    """Of pairs, outputs are distances, then labels: their numbers are lower by one than those of tokens.
    Weights that are not there are masked, which is cheaper than to guess whether they are."""
    cdef int t, i, n, bits, n_small, below = (1 << bin) - 1
    cdef const Cell* cell
    for t in range(n_rows):
        cell = machine.table.cells + rows[t]
        base += cell.weight
        bits, n = cell[1].weight, cell[1].output
        if bits > 255 or n == DENSE:  # the row of a token: two keys can have the same bucket and check
            continue
        cell += 2
        n_small = count_of_bits(bits)
        base += cell[count_of_bits(bits & below)].weight & -(bits >> bin & 1)
        sums[0] += cell[n_small - 1].weight & -(bits >> (N_SMALL - 1))
        cell += n_small
        for i in range(n):
            sums[cell[i].output - N_SMALL + 1] += cell[i].weight
    for i in range(machine.n_labels):
        score[i] = machine.table.step * <float>(sums[i] + base)


cdef int _score_arcs(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Scores of all arcs with all labels. RETURNS (int): 0, or -1 without memory."""
    cdef int first, i, m, a, size
    cdef int alone[TOGETHER]
    cdef int n = scored.n, n_labels = machine.n_labels, width = token_width(n_labels)
    cdef bint to_learn = machine.table.cells == NULL
    cdef Lookups some
    cdef Asked asked
    # what tokens' own features say
    cdef int32_t* steps = <int32_t*>take_zeros(arena, <size_t>(n + 1) * width * sizeof(int32_t))
    cdef float* own = <float*>steps
    # one more than labels: the last output of a token would be one of a pair that there is not
    cdef int32_t* sums = <int32_t*>take(arena, (n_labels + 1) * sizeof(int32_t))
    cdef float* score
    scored.unary_rows = <uint32_t*>take(
        arena, ((n + 1) * machine.n_unaries if to_learn else 0) * sizeof(uint32_t))
    scored.pair_rows = <uint32_t*>take(
        arena, (scored.n_arcs * machine.n_pairs if to_learn else 0) * sizeof(uint32_t))
    if steps == NULL or sums == NULL or scored.unary_rows == NULL or scored.pair_rows == NULL:
        return -1
    if _ask(machine, scored, &asked, arena):
        return -1
    first = 1
    while first <= n:
        size = min(TOGETHER, n + 1 - first)
        for i in range(size):
            _make_token_keys(machine, scored, first + i, &some, i)
        for i in range(size):
            _ask_for_keys(machine, machine.n_unaries, &some, i)
        for i in range(size):
            _find(machine, &some, i, TOKEN_LINES)  # none is without outputs
        for i in range(size):
            m = first + i
            if to_learn:
                _learn_token(machine, some.rows[i], some.n_rows[i], own + m * width)
                _keep_rows(
                    &some, i, scored.unary_rows + m * machine.n_unaries, machine.n_unaries)
            else:
                _read_token(
                    machine, some.rows[i], some.n_rows[i], asked.sides[m], steps + m * width)
        first += size
    first = 0
    while first < scored.n_arcs:
        size = min(TOGETHER, scored.n_arcs - first)
        for i in range(size):
            _make_arc_keys(machine, scored, &asked, first + i, &some, i)
        for i in range(size):
            _ask_for_keys(machine, machine.n_pairs, &some, i)
        for i in range(size):
            alone[i] = _find(machine, &some, i, 1)
        for i in range(size):
            a = first + i
            score = scored.score + a * n_labels
            if to_learn:
                _learn_arc(
                    machine, some.rows[i], some.n_rows[i], scored.distance[a],
                    _ends_of_arc(machine, scored, own, a, score), score)
                _keep_rows(&some, i, scored.pair_rows + a * machine.n_pairs, machine.n_pairs)
            else:
                _read_arc(
                    machine, some.rows[i], some.n_rows[i], scored.distance[a],
                    alone[i] + _ends_of_arc(machine, scored, steps, a, sums), sums, score)
        first += size
    return 0


cdef void state_potentials(
    const Machine* machine, const double* potential, int n_arcs, double* phi
) noexcept nogil:
    """phi[a, c]: the potentials of the labels of class c together."""
    cdef int a, l
    memset(phi, 0, n_arcs * machine.n_states * sizeof(double))
    for a in range(n_arcs):
        for l in range(machine.n_labels):
            phi[a * machine.n_states + machine.label_state[l]] += potential[a * machine.n_labels + l]


cdef struct Pairs:
    # look-ups of the neighbouring modifiers on one side of a head
    Query* queries
    int* n_queries
    int* place  # in the chart
    int n
    Query* end


cdef inline void _ask_for_pair(
    const Machine* machine, Pairs* pairs, const uint64_t* half, const uint64_t* previous, int place
) noexcept nogil:
    cdef int t, n = 0
    for t in range(machine.n_siblings):
        n += _ask_for(machine, sibling_key(half[t], previous[t]), pairs.end + n)
    pairs.end += n
    pairs.place[pairs.n], pairs.n_queries[pairs.n] = place, n
    pairs.n += 1


cdef int _score_siblings(const Machine* machine, Scored* scored, Arena* arena) noexcept nogil:
    """Fill the scores and potentials of neighbouring modifiers, of last ones, of sides without any. In learning the
    rows are kept. RETURNS (int): 0, or -1 without memory."""
    cdef Chart* chart = &scored.chart
    cdef int n = scored.n, n_siblings = machine.n_siblings, size = chart.n_siblings
    cdef int a, h, i, m, r, t, side, first, end, most = 0, steps
    cdef bint to_learn = machine.table.cells == NULL
    cdef double total
    cdef uint64_t half[MAX_TEMPLATES]
    cdef uint64_t nobody[MAX_TEMPLATES]
    cdef uint32_t row
    cdef uint32_t* rows
    cdef Query* query
    cdef Pairs pairs
    cdef uint64_t* previous = <uint64_t*>take(
        arena, <size_t>(n + 1) * n_siblings * sizeof(uint64_t))
    # what is not asked for stays 0: nothing is last below the root
    cdef float* sums = <float*>take_zeros(arena, size * sizeof(float))
    for side in range(2, 2 * n + 2):
        most = max(most, chart.side_start[side + 1] - chart.side_start[side])
    most = most * (most + 3) // 2 + 1
    pairs.queries = <Query*>take(arena, <size_t>(most * n_siblings + 1) * sizeof(Query))
    pairs.n_queries = <int*>take(arena, most * sizeof(int))
    pairs.place = <int*>take(arena, most * sizeof(int))
    rows = scored.sibling_rows = <uint32_t*>take_zeros(
        arena, (<size_t>size * n_siblings if to_learn else 0) * sizeof(uint32_t))
    scored.sibling_score = <double*>take(arena, size * sizeof(double))
    if previous == NULL or sums == NULL or rows == NULL or scored.sibling_score == NULL:
        return -1
    if pairs.queries == NULL or pairs.n_queries == NULL or pairs.place == NULL:
        return -1
    for m in range(n + 1):
        previous_halves(machine, scored.composites, m, previous + m * n_siblings)
    for h in range(1, n + 1):
        for side in range(2):
            first, end = chart.side_start[2 * h + side], chart.side_start[2 * h + side + 1]
            pairs.n, pairs.end = 0, pairs.queries
            sibling_halves(machine, scored.composites, side, h, 0, nobody)
            _ask_for_pair(machine, &pairs, nobody, previous, chart.empty_at + 2 * h + side)
            for i in range(first, end):
                a = chart.side_arcs[i]
                m = chart.mod[a]
                _ask_for_pair(
                    machine, &pairs, nobody, previous + m * n_siblings, chart.last_at + a)
                sibling_halves(machine, scored.composites, side, h, m, half)
                for r in range(chart.rank[a] + 1):
                    m = chart.mod[chart.side_arcs[first + r - 1]] if r else 0
                    _ask_for_pair(
                        machine, &pairs, half, previous + m * n_siblings, chart.pair_start[a] + r)
            query = pairs.queries
            for i in range(pairs.n):
                steps = 0
                for t in range(pairs.n_queries[i]):
                    if to_learn:
                        rows[pairs.place[i] * n_siblings + t] = find_row(
                            machine.slots, machine.mask,
                            <uint64_t>query.check << 32 | query.bucket)
                    else:
                        row = find_cells(&machine.table, query)
                        if row == 0 or row & ALONE:  # not of an arc, by the same bucket and check
                            steps += <int16_t>(row & 0xFFFF)
                    query += 1
                sums[pairs.place[i]] = machine.table.step * machine.sharpness * steps
    if not to_learn:
        for i in range(size):
            scored.sibling_score[i] = sums[i]
        exp_floats(chart.sibling, sums, 0, size)
        return 0
    for i in range(size):
        total = 0
        for t in range(n_siblings):
            total += machine.entries[rows[i * n_siblings + t]].weight
        scored.sibling_score[i] = machine.sharpness * total
        chart.sibling[i] = exp(scored.sibling_score[i])
    return 0


cdef void _sharpen(const Machine* machine, float* score, double* exponentials) noexcept nogil:
    """Scores of one arc's labels: the arc's own score is what they amount to together,

        A = log(sum_l exp(b s_l)) / b          s_l becomes a A + b (s_l - A)

    with a for trees and b for labels given their arcs; all scores are multiplied by a if a = b. The exponentials are
    room for as many numbers."""
    cdef int l, n_labels = machine.n_labels
    cdef float a = machine.sharpness, b = machine.label_sharpness, top, shift
    cdef double total = 0
    for l in range(n_labels):
        score[l] *= b
    if a == b:
        return
    top = largest(score, n_labels)
    exp_floats(exponentials, score, top, n_labels)
    for l in range(n_labels):
        total += exponentials[l]
    shift = (a - b) * (top + log(total)) / b
    for l in range(n_labels):
        score[l] += shift


cdef void _choose_arcs(
    const Machine* machine, Scored* scored, const int32_t* arc_start, float* tops, double margin,
    int* head, int* mod
) noexcept nogil:
    """Potentials of arcs with labels. Arcs that are worse than the best of their modifier by the margin are
    dropped."""
    cdef int n_labels = machine.n_labels, a, m, t = 0
    cdef float top
    # every modifier takes exactly one arc: dividing its potentials by their maximum only shifts log Z
    scored.shift = 0
    for m in range(1, scored.n + 1):
        top = -1e30
        for a in range(arc_start[m - 1], arc_start[m]):
            tops[a] = largest(scored.score + a * n_labels, n_labels)
            top = max(top, tops[a])
        scored.shift += top
        for a in range(arc_start[m - 1], arc_start[m]):
            # the arc from the left stays, so that there is a tree
            if tops[a] < top - margin and head[a] != m - 1:
                continue
            if t < a:
                memcpy(scored.score + t * n_labels, scored.score + a * n_labels, n_labels * sizeof(float))
            exp_floats(scored.potential + t * n_labels, scored.score + t * n_labels, top, n_labels)
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
    cdef int n_arcs = arc_start[n] - arc_start[0], n_labels = machine.n_labels
    cdef int i, a, h, side
    cdef int* head = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    cdef int* mod = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    cdef int32_t* own_start = <int32_t*>take(arena, (n + 1) * sizeof(int32_t))
    cdef float* tops = <float*>take(arena, n_arcs * sizeof(float))
    cdef Chart* chart = &scored.chart
    cdef float* score
    cdef const float* more
    cdef const uint8_t* allowed
    scored.n, scored.tags = n, tags
    scored.composites = <uint64_t*>take(
        arena, (n + 1) * machine.context.n_composites * sizeof(uint64_t))
    scored.distance = <int*>take(arena, n_arcs * sizeof(int))
    scored.origin = <int*>take(arena, n_arcs * sizeof(int))
    scored.score = <float*>take(arena, n_arcs * n_labels * sizeof(float))
    scored.potential = <double*>take(arena, n_arcs * n_labels * sizeof(double))
    if head == NULL or mod == NULL or own_start == NULL or tops == NULL or scored.composites == NULL:
        return -1
    if scored.distance == NULL or scored.origin == NULL or scored.score == NULL:
        return -1
    if scored.potential == NULL:
        return -1
    scored.n_arcs = _list_arcs(
        scored, arc_start, arc_head, extra, n_labels,
        INFINITY if margin == INFINITY else max(OTHERS_MARGIN * machine.sharpness, LEAST_MARGIN),
        own_start, head, mod)
    chart.head, chart.mod = head, mod
    fill_composites(&machine.context, columns, n, scored.composites)
    if _score_arcs(machine, scored, arena):
        return -1
    for a in range(scored.n_arcs):
        score = scored.score + a * n_labels
        allowed = machine.allowed + (head[a] == 0) * n_labels
        for i in range(n_labels):
            score[i] = score[i] if allowed[i] else FORBIDDEN
        if machine.sharpness != 1 or machine.label_sharpness != 1:
            _sharpen(machine, score, scored.potential)
        if extra != NULL:
            more = extra + scored.origin[a] * <size_t>n_labels
            for i in range(n_labels):
                score[i] += more[i]
    _choose_arcs(machine, scored, own_start, tops, margin, head, mod)
    if chart_layout(chart, arena, n, scored.n_arcs, machine.n_states, head, mod):
        return -1
    state_potentials(machine, scored.potential, scored.n_arcs, chart.phi)
    for h in range(1, n + 1):
        for side in range(2):
            chart.moves[2 * h + side] = machine.moves + (2 * tags[h - 1] + side) * (move_size(machine) // 2)
    return _score_siblings(machine, scored, arena)
