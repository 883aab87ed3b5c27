# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Inside-outside over the kept arcs: Eisner's chart with sibling factors and label-class states.

An arc h -> m of state c (the class of m's label), m being the outermost modifier so far, has inside

    inner[h,m,c] = phi[h,m,c] sum_c' before[h,m,c'] move[h,side][c',c]
    before[h,m,START] = sibling[h,-,m] (innermost modifier: the other half of the gap belongs to m)
    before[h,m,c']    = sum_s inner[h,s,c'] sibling[h,s,m] G[s,m]
    G[i,j]   = sum_k C_R[i,k] C_L[j,k+1]
    outer[h,m] = last[h,m] sum_c inner[h,m,c] move[h,side][c,STOP]
    C_R[h,e] = sum_m outer[h,m] C_R[m,e]           C_R[h,h] = empty[h,right] move[START,STOP]

(C_L in mirror image). States live on arcs only: they multiply sibling pairs, not the sums over split
points, and those are dot products of contiguous rows. `outside` is the adjoint, line by line.
With neither siblings nor states it would be the chart of `trees._first_order`, which the pruner uses.
"""
from libc.string cimport memset

from ...base._arena cimport Arena, take, take_zeros
from ...base._rows cimport add, dot


cdef int chart_layout(
    Chart* chart, Arena* arena, int n, int n_arcs, int n_states, int* head, int* mod
) noexcept nogil:
    """Sort the arcs by head and side and take memory for the potentials. `head` and `mod` list the
    arcs grouped by modifier, modifiers ascending. RETURNS (int): 0, or -1 without memory."""
    cdef int a, i, side, n_pairs = 0
    cdef int* n_found
    chart.n, chart.n_arcs, chart.n_states = n, n_arcs, n_states
    chart.head, chart.mod = head, mod
    chart.right = chart.d_right = NULL
    chart.side_start = <int*>take_zeros(arena, (2 * n + 3) * sizeof(int))
    chart.side_arcs = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    chart.rank = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    chart.pair_start = <int*>take(arena, (n_arcs + 1) * sizeof(int))
    n_found = <int*>take_zeros(arena, (2 * n + 2) * sizeof(int))
    if chart.side_start == NULL or chart.side_arcs == NULL or chart.rank == NULL:
        return -1
    if chart.pair_start == NULL or n_found == NULL:
        return -1
    for a in range(n_arcs):
        chart.side_start[2 * head[a] + (mod[a] > head[a]) + 1] += 1
    for i in range(2 * n + 2):
        chart.side_start[i + 1] += chart.side_start[i]
    for a in range(n_arcs):  # modifiers ascend: outward to the right of a head, inward to its left
        side = 2 * head[a] + (mod[a] > head[a])
        chart.rank[a] = n_found[side]
        n_found[side] += 1
        if mod[a] < head[a]:
            chart.rank[a] = chart.side_start[side + 1] - chart.side_start[side] - n_found[side]
        chart.side_arcs[chart.side_start[side] + chart.rank[a]] = a
    for a in range(n_arcs):
        chart.pair_start[a] = n_pairs
        if head[a] > 0:  # the root has one child: nothing goes before it
            n_pairs += chart.rank[a] + 1
    chart.last_at, chart.empty_at = n_pairs, n_pairs + n_arcs
    chart.n_siblings = chart.empty_at + 2 * n + 2
    chart.phi = <double*>take(arena, n_arcs * n_states * sizeof(double))
    chart.sibling = <double*>take(arena, chart.n_siblings * sizeof(double))
    chart.moves = <const double**>take(arena, (2 * n + 2) * sizeof(double*))
    return -1 if chart.phi == NULL or chart.sibling == NULL or chart.moves == NULL else 0


cdef inline double _join(Chart* chart, int i, int j) noexcept nogil:
    cdef Py_ssize_t width = chart.n + 2
    cdef double* cell = chart.join + i * width + j
    if cell[0] < 0:
        cell[0] = dot(chart.right + i * width + i, chart.left + j * width + i + 1, j - i)
    return cell[0]


cdef void _inner(Chart* chart, int a) noexcept nogil:
    """inner, before and outer of an arc all of whose inner spans are done."""
    cdef int h = chart.head[a], m = chart.mod[a], n_states = chart.n_states
    cdef Py_ssize_t width = chart.n + 2
    cdef int c, r, s, side = 2 * h + (m > h)
    cdef double* before = chart.before + a * (n_states + 1)
    cdef double* inner = chart.inner + a * n_states
    cdef const double* phi = chart.phi + a * n_states
    cdef const double* moves = chart.moves[side]
    cdef const double* sibling = chart.sibling + chart.pair_start[a]
    cdef double factor, total = 0
    if m > h:
        before[n_states] = sibling[0] * chart.left[m * width + h + 1]
    else:
        before[n_states] = sibling[0] * chart.right[m * width + h - 1]
    memset(before, 0, n_states * sizeof(double))
    memset(inner, 0, n_states * sizeof(double))
    for r in range(chart.rank[a]):
        s = chart.side_arcs[chart.side_start[side] + r]
        factor = sibling[r + 1]
        factor *= _join(chart, chart.mod[s], m) if m > h else _join(chart, m, chart.mod[s])
        if factor != 0:
            add(before, factor, chart.inner + s * n_states, n_states)
    for c in range(n_states + 1):
        if before[c] != 0:
            add(inner, before[c], moves + c * (n_states + 1), n_states)
    for c in range(n_states):
        inner[c] *= phi[c]
        total += inner[c] * moves[c * (n_states + 1) + n_states]
    chart.outer[a] = total * chart.sibling[chart.last_at + a]


cdef int _take_inside(Chart* chart, Arena* arena) noexcept nogil:
    cdef size_t cells = <size_t>(chart.n + 2) * (chart.n + 2)
    chart.right = <double*>take(arena, cells * sizeof(double))
    chart.left = <double*>take(arena, cells * sizeof(double))
    chart.join = <double*>take(arena, cells * sizeof(double))
    chart.inner = <double*>take(arena, (chart.n_arcs * chart.n_states + 1) * sizeof(double))
    chart.before = <double*>take(
        arena, (chart.n_arcs * (chart.n_states + 1) + 1) * sizeof(double))
    chart.outer = <double*>take(arena, (chart.n_arcs + 1) * sizeof(double))
    chart.n_right = <int*>take(arena, (chart.n + 2) * sizeof(int))
    if chart.right == NULL or chart.left == NULL or chart.join == NULL or chart.inner == NULL:
        return -1
    return -1 if chart.before == NULL or chart.outer == NULL or chart.n_right == NULL else 0


cdef inline double _arc_total(const Chart* chart, int a) noexcept nogil:
    """The potential of an arc in any state."""
    cdef int i
    cdef double total = 0
    for i in range(chart.n_states):
        total += chart.phi[a * chart.n_states + i]
    return total


cdef int chart_inside(Chart* chart, Arena* arena) noexcept nogil:
    """Fill the inside tables and z, in the memory of the last time if there was one. RETURNS (int): 0,
    or -1 without memory."""
    cdef int n = chart.n, n_states = chart.n_states, corner
    cdef int i, j, k, a, first, done
    cdef Py_ssize_t width = n + 2, cell
    cdef int* n_right
    cdef const double* empty = chart.sibling + chart.empty_at
    cdef double total
    if chart.right == NULL and _take_inside(chart, arena):
        return -1
    n_right = chart.n_right
    memset(n_right, 0, width * sizeof(int))
    for cell in range(width * width):
        chart.join[cell] = -1  # not asked for yet
    corner = n_states * (n_states + 1) + n_states
    for j in range(1, n + 1):
        chart.right[j * width + j] = empty[2 * j + 1] * chart.moves[2 * j + 1][corner]
        chart.left[j * width + j] = empty[2 * j] * chart.moves[2 * j][corner]
        done = chart.side_start[2 * j]
        for i in range(j - 1, 0, -1):
            k = chart.side_start[2 * i + 1] + n_right[i]
            if k < chart.side_start[2 * i + 2] and chart.mod[chart.side_arcs[k]] == j:
                _inner(chart, chart.side_arcs[k])
                n_right[i] += 1
            if done < chart.side_start[2 * j + 1] and chart.mod[chart.side_arcs[done]] == i:
                _inner(chart, chart.side_arcs[done])
                done += 1
            total = 0
            first = chart.side_start[2 * i + 1]
            for k in range(first, first + n_right[i]):
                a = chart.side_arcs[k]
                total += chart.outer[a] * chart.right[chart.mod[a] * width + j]
            chart.right[i * width + j] = total
            total = 0
            for k in range(chart.side_start[2 * j], done):
                a = chart.side_arcs[k]
                total += chart.outer[a] * chart.left[chart.mod[a] * width + i]
            chart.left[j * width + i] = total
    chart.z = 0
    for k in range(chart.side_start[1], chart.side_start[2]):
        a = chart.side_arcs[k]
        j = chart.mod[a]
        chart.z += _arc_total(chart, a) * chart.left[j * width + 1] * chart.right[j * width + n]
    return 0


cdef void _d_inner(Chart* chart, int a, double* d_move) noexcept nogil:
    """The adjoint of `_inner`, and the expected counts of the arc."""
    cdef int h = chart.head[a], m = chart.mod[a], n_states = chart.n_states
    cdef Py_ssize_t cell, width = chart.n + 2
    cdef int c, c2, r, s, side = 2 * h + (m > h)
    cdef double* before = chart.before + a * (n_states + 1)
    cdef double* inner = chart.inner + a * n_states
    cdef double* d_inner = chart.d_inner + a * n_states
    cdef const double* phi = chart.phi + a * n_states
    cdef const double* moves = chart.moves[side]
    cdef const double* sibling = chart.sibling + chart.pair_start[a]
    cdef double* mu_sibling = chart.mu_sibling + chart.pair_start[a]
    cdef const double* row
    cdef double d_outer = chart.d_outer[a] * chart.sibling[chart.last_at + a]
    cdef double scale = 1 / chart.z, value, d_before, factor
    chart.mu_sibling[chart.last_at + a] = chart.outer[a] * chart.d_outer[a] * scale
    for c in range(n_states):
        value = d_outer * moves[c * (n_states + 1) + n_states]
        d_inner[c] += value
        if d_move != NULL:
            d_move[c * (n_states + 1) + n_states] += inner[c] * value * scale
        chart.mu[a * n_states + c] = inner[c] * d_inner[c] * scale
        d_inner[c] *= phi[c]
    for c in range(n_states + 1):  # from here on `before` holds its own adjoint
        row = moves + c * (n_states + 1)
        d_before = 0
        for c2 in range(n_states):
            d_before += row[c2] * d_inner[c2]
        if d_move != NULL and before[c] != 0:
            value = before[c] * scale
            for c2 in range(n_states):
                d_move[c * (n_states + 1) + c2] += value * row[c2] * d_inner[c2]
        if c == n_states:
            mu_sibling[0] = before[c] * d_before * scale
        before[c] = d_before
    if m > h:
        chart.d_left[m * width + h + 1] += before[n_states] * sibling[0]
    else:
        chart.d_right[m * width + h - 1] += before[n_states] * sibling[0]
    for r in range(chart.rank[a]):
        s = chart.side_arcs[chart.side_start[side] + r]
        cell = chart.mod[s] * width + m if m > h else m * width + chart.mod[s]
        value = sibling[r + 1] * dot(before, chart.inner + s * n_states, n_states)
        factor = sibling[r + 1] * chart.join[cell]
        mu_sibling[r + 1] = value * chart.join[cell] * scale
        chart.d_join[cell] += value
        if factor != 0:
            add(chart.d_inner + s * n_states, factor, before, n_states)


cdef int _take_outside(Chart* chart, Arena* arena) noexcept nogil:
    cdef size_t cells = <size_t>(chart.n + 2) * (chart.n + 2)
    chart.d_right = <double*>take(arena, 3 * cells * sizeof(double))
    chart.d_inner = <double*>take(arena, (chart.n_arcs * chart.n_states + 1) * sizeof(double))
    chart.d_outer = <double*>take(arena, (chart.n_arcs + 1) * sizeof(double))
    chart.mu = <double*>take(arena, (chart.n_arcs * chart.n_states + 1) * sizeof(double))
    chart.mu_sibling = <double*>take(arena, chart.n_siblings * sizeof(double))
    if chart.d_right == NULL or chart.d_inner == NULL or chart.d_outer == NULL or chart.mu == NULL:
        return -1
    chart.d_left = chart.d_right + cells
    chart.d_join = chart.d_left + cells
    return -1 if chart.mu_sibling == NULL else 0


cdef int chart_outside(Chart* chart, Arena* arena, double** d_moves) noexcept nogil:
    """Expected counts, after `chart_inside` found z > 0. `d_moves` (may be NULL) holds for each
    2 * head + side where the expected counts of moves are added. RETURNS (int): 0, or -1."""
    cdef int n = chart.n, n_states = chart.n_states, corner
    cdef int i, j, k, a, first, done
    cdef Py_ssize_t width = n + 2
    cdef int* n_right = chart.n_right
    cdef double* mu_empty
    cdef double total, scale = 1 / chart.z
    if chart.d_right == NULL and _take_outside(chart, arena):
        return -1
    memset(chart.d_right, 0, 3 * width * width * sizeof(double))
    memset(chart.d_inner, 0, chart.n_arcs * n_states * sizeof(double))
    memset(chart.d_outer, 0, chart.n_arcs * sizeof(double))
    memset(chart.mu_sibling, 0, chart.n_siblings * sizeof(double))
    mu_empty = chart.mu_sibling + chart.empty_at
    corner = n_states * (n_states + 1) + n_states
    for k in range(chart.side_start[1], chart.side_start[2]):
        a = chart.side_arcs[k]
        j = chart.mod[a]
        total = _arc_total(chart, a)
        for i in range(n_states):
            chart.mu[a * n_states + i] = (chart.phi[a * n_states + i] * scale
                                          * chart.left[j * width + 1] * chart.right[j * width + n])
        chart.d_left[j * width + 1] += total * chart.right[j * width + n]
        chart.d_right[j * width + n] += total * chart.left[j * width + 1]
    for i in range(n + 1):
        n_right[i] = chart.side_start[2 * i + 2] - chart.side_start[2 * i + 1]
    for j in range(n, 0, -1):
        done = chart.side_start[2 * j + 1]
        for i in range(1, j):
            total = chart.d_right[i * width + j]
            first = chart.side_start[2 * i + 1]
            if total != 0:
                for k in range(first, first + n_right[i]):
                    a = chart.side_arcs[k]
                    chart.d_outer[a] += total * chart.right[chart.mod[a] * width + j]
                    chart.d_right[chart.mod[a] * width + j] += total * chart.outer[a]
            total = chart.d_left[j * width + i]
            if total != 0:
                for k in range(chart.side_start[2 * j], done):
                    a = chart.side_arcs[k]
                    chart.d_outer[a] += total * chart.left[chart.mod[a] * width + i]
                    chart.d_left[chart.mod[a] * width + i] += total * chart.outer[a]
            k = first + n_right[i] - 1
            if k >= first and chart.mod[chart.side_arcs[k]] == j:
                _d_inner(chart, chart.side_arcs[k], NULL if d_moves == NULL else d_moves[2 * i + 1])
                n_right[i] -= 1
            k = done - 1
            if k >= chart.side_start[2 * j] and chart.mod[chart.side_arcs[k]] == i:
                _d_inner(chart, chart.side_arcs[k], NULL if d_moves == NULL else d_moves[2 * j])
                done -= 1
            total = chart.d_join[i * width + j]
            if total != 0:
                add(chart.d_right + i * width + i, total, chart.left + j * width + i + 1, j - i)
                add(chart.d_left + j * width + i + 1, total, chart.right + i * width + i, j - i)
        mu_empty[2 * j] = chart.d_left[j * width + j] * chart.left[j * width + j] * scale
        mu_empty[2 * j + 1] = chart.d_right[j * width + j] * chart.right[j * width + j] * scale
        if d_moves != NULL:
            d_moves[2 * j][corner] += mu_empty[2 * j]
            d_moves[2 * j + 1][corner] += mu_empty[2 * j + 1]
    return 0


cdef int chart_local(Chart* chart, Arena* arena) noexcept nogil:
    """In place of `chart_outside` where z is out of reach: every modifier by itself."""
    cdef int a, c, m, n_states = chart.n_states
    cdef double* total = <double*>take_zeros(arena, (chart.n + 1) * sizeof(double))
    chart.mu = <double*>take_zeros(arena, chart.n_arcs * n_states * sizeof(double))
    if total == NULL or chart.mu == NULL:
        return -1
    for a in range(chart.n_arcs):
        for c in range(n_states):
            total[chart.mod[a]] += chart.phi[a * n_states + c]
    for a in range(chart.n_arcs):
        m = chart.mod[a]
        for c in range(n_states):
            if total[m] > 0:
                chart.mu[a * n_states + c] = chart.phi[a * n_states + c] / total[m]
    return 0
