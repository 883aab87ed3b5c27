# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sums over the trees of a sentence and the states of its tokens.

Every token has a few states. A head in state a generates its children on each side from the inside out:
the first in state c with P(c | a, FIRST), one after a sibling in state b with P(c | a, b), and then STOP.
For tokens h, m, s < m with states a, c, b, the right halves are (left ones are their mirror image)

    I[ha, mc] = w[h, m] e[mc] (P(c | a, FIRST) L[mc, h + 1] + sum_sb I[ha, sb] P(c | a, b) B[sb, mc])
    B[sb, mc] = sum_k R[sb, k] L[mc, k + 1]
    R[ha, e]  = sum_mc I[ha, mc] P(STOP | a, c) R[mc, e]           R[ha, h] = P(STOP | a, FIRST)

where I ends in the arc from h to m, all between them being filled in, B is what lies between neighbouring
siblings, R and L are finished halves, w weighs arcs and e states. The sum over all trees is

    Z = sum_ha root[ha] e[ha] L[ha, 1] R[ha, N].

With S states a token the cost is O(S^3 N^3) at most: only triples of a head and two children whose arcs
have a weight are looked at, and only these arcs and pairs have memory. The outside pass is the exact adjoint of these lines in reverse order.

Distributions are rows of a table, see `_grammar`.
"""

from libc.math cimport isfinite
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, take, take_zeros
from ...base._rows cimport dot
from ...trees._sides cimport LEFT, RIGHT
from ._grammar cimport Grammar, bind_grammar, row_after


cdef enum:
    NOT_THERE = -1


cdef struct Sentence:
    int n                   # tokens
    int m                   # states of all tokens
    Grammar grammar
    const int* offset       # [n + 1], where the states of a token start
    const int* state        # [m]
    const double* emit      # [m]
    const double* weight    # [n, n]
    const double* root      # [m]
    int* first              # [2 n + 1], where the arcs of a head on one side start, LEFT first
    int* modifier           # [arcs] their modifiers, from the inside out
    int* arc                # [n, n], the arc from a head to a modifier, or NOT_THERE
    Py_ssize_t* block       # [arcs + 1], where the values of an arc start: [states of head, states of modifier]
    Py_ssize_t* pair        # [n, n], the same of i < j that can be neighbouring siblings; or NOT_THERE
    Py_ssize_t n_pair       # values of all of these


cdef inline int size_of(Sentence* s, int token) noexcept nogil:
    return s.offset[token + 1] - s.offset[token]


cdef inline int list_arcs(Sentence* s, Arena* arena) noexcept nogil:
    cdef int n = s.n, h, m, i, j, k = 0, side, step, low, high
    cdef size_t square = <size_t>n * n, at
    s.first = <int*>take(arena, (2 * n + 1) * sizeof(int))
    s.modifier = <int*>take(arena, square * sizeof(int))
    s.arc = <int*>take(arena, square * sizeof(int))
    s.block = <Py_ssize_t*>take(arena, (square + 1) * sizeof(Py_ssize_t))
    s.pair = <Py_ssize_t*>take(arena, square * sizeof(Py_ssize_t))
    if not (s.first and s.modifier and s.arc and s.block and s.pair):
        return -1
    for at in range(square):
        s.arc[at] = NOT_THERE
        s.pair[at] = NOT_THERE
    s.block[0] = 0
    for h in range(n):
        for side in range(2):
            step = 1 if side == RIGHT else -1
            s.first[2 * h + side] = k
            m = h + step
            while 0 <= m < n:
                at = <size_t>h * n + m
                if s.weight[at] != 0.0:
                    s.arc[at] = k
                    s.modifier[k] = m
                    s.block[k + 1] = s.block[k] + <Py_ssize_t>size_of(s, h) * size_of(s, m)
                    k += 1
                m += step
    s.first[2 * n] = k
    s.n_pair = 0
    for h in range(n):
        for side in range(2):
            for i in range(s.first[2 * h + side], s.first[2 * h + side + 1]):
                for j in range(i + 1, s.first[2 * h + side + 1]):
                    low, high = min(s.modifier[i], s.modifier[j]), max(s.modifier[i], s.modifier[j])
                    at = <size_t>low * n + high
                    if s.pair[at] == NOT_THERE:
                        s.pair[at] = s.n_pair
                        s.n_pair += <Py_ssize_t>size_of(s, low) * size_of(s, high)
    return 0


cdef struct Chart:
    # left and right halves do not meet but where they are empty
    double* arc             # I, by blocks of arcs
    double* last            # I * P(STOP): the arc to a head's outermost child
    double* between         # B, by blocks of pairs
    double* left            # [m, n] L by its end
    double* right           # [m, n] R by its end
    double* left_by_end     # [n, m] the same numbers
    double* right_by_end    # [n, m]


cdef inline const float* _row(Sentence* s, int side, int head, int previous) noexcept nogil:
    """The distribution after `previous`, a state of the grammar or FIRST; `head` is one of the sentence."""
    return row_after(&s.grammar, side, s.state[head], previous)


cdef int _allocate(Sentence* s, Chart* chart, Arena* arena) noexcept nogil:
    cdef size_t arcs = s.block[s.first[2 * s.n]], wide = <size_t>s.m * s.n
    cdef double* block = <double*>take_zeros(
        arena, (2 * arcs + s.n_pair + 4 * wide) * sizeof(double))
    if block is NULL:
        return -1
    chart.arc = block
    chart.last = chart.arc + arcs
    chart.between = chart.last + arcs
    chart.left = chart.between + s.n_pair
    chart.right = chart.left + wide
    chart.left_by_end = chart.right + wide
    chart.right_by_end = chart.left_by_end + wide
    return 0


cdef inline void _spread(double g, const double* a, const double* b, double* da, double* db, int n) noexcept nogil:
    """The adjoint of `dot`."""
    cdef int k
    for k in range(n):
        da[k] += g * b[k]
        db[k] += g * a[k]


cdef void _fill_between(Sentence* s, Chart* chart, int i, int j) noexcept nogil:
    cdef int b, c
    cdef double* target = chart.between + s.pair[<size_t>i * s.n + j]
    for b in range(s.offset[i], s.offset[i + 1]):
        for c in range(s.offset[j], s.offset[j + 1]):
            target[0] = dot(
                chart.right + <size_t>b * s.n + i, chart.left + <size_t>c * s.n + i + 1, j - i)
            target += 1


cdef inline double* _pair_block(Sentence* s, Chart* chart, int i, int j) noexcept nogil:
    """B of two tokens, whichever is the first."""
    return chart.between + s.pair[<size_t>min(i, j) * s.n + max(i, j)]


cdef inline double* _inner_half(Sentence* s, Chart* chart, int side, int head, int child) noexcept nogil:
    """The child's half that reaches up to its head, if there is no sibling between them."""
    if side == RIGHT:
        return chart.left + <size_t>child * s.n + head + 1
    return chart.right + <size_t>child * s.n + head - 1


cdef void _fill_arc(Sentence* s, Chart* chart, int side, int h, int m) noexcept nogil:
    cdef int a, b, c, k, sibling, own = s.arc[<size_t>h * s.n + m], n_states = s.grammar.n_states
    cdef int width = size_of(s, m), n_before, by_sibling, by_child
    cdef double weight = s.weight[<size_t>h * s.n + m], so_far
    cdef const int* state = s.state + s.offset[m]
    cdef const double* emit = s.emit + s.offset[m]
    cdef const double* before
    cdef const double* between
    cdef const float* row
    cdef double* target = chart.arc + s.block[own]
    cdef double* last = chart.last + s.block[own]
    for a in range(s.offset[h], s.offset[h + 1]):
        row = _row(s, side, a, n_states)
        for c in range(width):
            target[c] = row[state[c]] * _inner_half(s, chart, side, h, s.offset[m] + c)[0]
        for k in range(s.first[2 * h + side], own):
            sibling = s.modifier[k]
            n_before = size_of(s, sibling)
            by_sibling = width if side == RIGHT else 1
            by_child = 1 if side == RIGHT else n_before
            before = chart.arc + s.block[k] + <size_t>(a - s.offset[h]) * n_before
            between = _pair_block(s, chart, sibling, m)
            for b in range(n_before):
                so_far = before[b]
                if so_far != 0.0:
                    row = _row(s, side, a, s.state[s.offset[sibling] + b])
                    for c in range(width):
                        target[c] += so_far * row[state[c]] * between[c * by_child]
                between += by_sibling
        for c in range(width):
            target[c] *= weight * emit[c]
            last[c] = target[c] * _row(s, side, a, state[c])[n_states]
        target += width
        last += width


cdef inline bint _inside_half(int side, int modifier, int end) noexcept nogil:
    return modifier <= end if side == RIGHT else modifier >= end


cdef void _fill_half(Sentence* s, Chart* chart, int side, int h, int end) noexcept nogil:
    """R[h, end] or L[h, end], in both layouts."""
    cdef int a, k, modifier, width
    cdef double* by_end = (chart.right_by_end if side == RIGHT else chart.left_by_end) + <size_t>end * s.m
    cdef double* by_head = chart.right if side == RIGHT else chart.left
    for k in range(s.first[2 * h + side], s.first[2 * h + side + 1]):
        modifier = s.modifier[k]
        if not _inside_half(side, modifier, end):
            break
        width = size_of(s, modifier)
        for a in range(size_of(s, h)):
            by_end[s.offset[h] + a] += dot(
                chart.last + s.block[k] + <size_t>a * width, by_end + s.offset[modifier], width)
    for a in range(s.offset[h], s.offset[h + 1]):
        by_head[<size_t>a * s.n + end] = by_end[a]


cdef double _inside(Sentence* s, Chart* chart) noexcept nogil:
    cdef int n = s.n, i, j, a, span
    cdef double total = 0, empty
    for i in range(n):
        for a in range(s.offset[i], s.offset[i + 1]):
            empty = _row(s, LEFT, a, s.grammar.n_states)[s.grammar.n_states]
            chart.left[<size_t>a * n + i] = empty
            chart.left_by_end[<size_t>i * s.m + a] = empty
            empty = _row(s, RIGHT, a, s.grammar.n_states)[s.grammar.n_states]
            chart.right[<size_t>a * n + i] = empty
            chart.right_by_end[<size_t>i * s.m + a] = empty
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            if s.pair[<size_t>i * n + j] != NOT_THERE:
                _fill_between(s, chart, i, j)
            if s.arc[<size_t>i * n + j] != NOT_THERE:
                _fill_arc(s, chart, RIGHT, i, j)
            if s.arc[<size_t>j * n + i] != NOT_THERE:
                _fill_arc(s, chart, LEFT, j, i)
            _fill_half(s, chart, RIGHT, i, j)
            _fill_half(s, chart, LEFT, j, i)
    for a in range(s.m):
        total += (
            s.root[a] * s.emit[a] * chart.left_by_end[a]
            * chart.right_by_end[<size_t>(n - 1) * s.m + a])
    return total


cdef void _half_adjoint(Sentence* s, Chart* chart, Chart* d, int side, int h, int end) noexcept nogil:
    cdef int a, k, modifier, width
    cdef size_t at = <size_t>end * s.m, block
    cdef double g
    cdef const double* halves = (chart.right_by_end if side == RIGHT else chart.left_by_end) + at
    cdef double* d_halves = (d.right_by_end if side == RIGHT else d.left_by_end) + at
    cdef const double* by_head = d.right if side == RIGHT else d.left
    for a in range(s.offset[h], s.offset[h + 1]):
        g = by_head[<size_t>a * s.n + end] + d_halves[a]
        if g == 0.0:
            continue
        for k in range(s.first[2 * h + side], s.first[2 * h + side + 1]):
            modifier = s.modifier[k]
            if not _inside_half(side, modifier, end):
                break
            width = size_of(s, modifier)
            block = s.block[k] + <size_t>(a - s.offset[h]) * width
            _spread(
                g, chart.last + block, halves + s.offset[modifier],
                d.last + block, d_halves + s.offset[modifier], width)


cdef double _arc_adjoint(
    Sentence* s, Chart* chart, Chart* d, int side, int h, int m, double* of_state
) noexcept nogil:
    """Returns the unnormalised marginal of the arc; adds those of the modifier's states."""
    cdef int a, b, c, k, sibling, own = s.arc[<size_t>h * s.n + m], n_states = s.grammar.n_states
    cdef int width = size_of(s, m), n_before, by_sibling, by_child
    cdef size_t at = s.block[own], before
    cdef double weight = s.weight[<size_t>h * s.n + m], g, marginal, total = 0, so_far, change
    cdef const int* state = s.state + s.offset[m]
    cdef const double* between
    cdef double* d_between
    cdef const float* row
    for a in range(s.offset[h], s.offset[h + 1]):
        row = _row(s, side, a, n_states)
        for c in range(width):
            g = d.arc[at + c] + d.last[at + c] * _row(s, side, a, state[c])[n_states]
            marginal = g * chart.arc[at + c]
            total += marginal
            of_state[s.offset[m] + c] += marginal
            g *= weight * s.emit[s.offset[m] + c]
            # the adjoint of the sum in brackets, where the siblings below look for it
            d.arc[at + c] = g
            _inner_half(s, d, side, h, s.offset[m] + c)[0] += g * row[state[c]]
        for k in range(s.first[2 * h + side], own):
            sibling = s.modifier[k]
            n_before = size_of(s, sibling)
            by_sibling = width if side == RIGHT else 1
            by_child = 1 if side == RIGHT else n_before
            before = s.block[k] + <size_t>(a - s.offset[h]) * n_before
            between = _pair_block(s, chart, sibling, m)
            d_between = _pair_block(s, d, sibling, m)
            for b in range(n_before):
                so_far = chart.arc[before + b]
                if so_far != 0.0:
                    row = _row(s, side, a, s.state[s.offset[sibling] + b])
                    change = 0
                    for c in range(width):
                        g = d.arc[at + c] * row[state[c]]
                        change += g * between[c * by_child]
                        d_between[c * by_child] += g * so_far
                    d.arc[before + b] += change
                between += by_sibling
                d_between += by_sibling
        at += width
    return total


cdef void _between_adjoint(Sentence* s, Chart* chart, Chart* d, int i, int j) noexcept nogil:
    cdef int b, c
    cdef const double* g = d.between + s.pair[<size_t>i * s.n + j]
    for b in range(s.offset[i], s.offset[i + 1]):
        for c in range(s.offset[j], s.offset[j + 1]):
            if g[0] != 0.0:
                _spread(
                    g[0], chart.right + <size_t>b * s.n + i, chart.left + <size_t>c * s.n + i + 1,
                    d.right + <size_t>b * s.n + i, d.left + <size_t>c * s.n + i + 1, j - i)
            g += 1


cdef void _outside(
    Sentence* s, Chart* chart, Chart* d, double* marginals, double* of_state
) noexcept nogil:
    """Fills marginals[h + 1, m + 1] and [0, m + 1], the root's, and of_state[m]; not normalised."""
    cdef int n = s.n, i, j, a, span
    cdef size_t at
    cdef double left, right, root
    for i in range(n):
        for a in range(s.offset[i], s.offset[i + 1]):
            at = <size_t>(n - 1) * s.m + a
            left, right, root = chart.left_by_end[a], chart.right_by_end[at], s.root[a] * s.emit[a]
            d.left_by_end[a] += root * right
            d.right_by_end[at] += root * left
            of_state[a] += root * left * right
            marginals[i + 1] += root * left * right
    for span in range(n - 1, 0, -1):
        for i in range(n - span):
            j = i + span
            _half_adjoint(s, chart, d, RIGHT, i, j)
            _half_adjoint(s, chart, d, LEFT, j, i)
            if s.arc[<size_t>i * n + j] != NOT_THERE:
                marginals[<size_t>(i + 1) * (n + 1) + j + 1] = _arc_adjoint(
                    s, chart, d, RIGHT, i, j, of_state)
            if s.arc[<size_t>j * n + i] != NOT_THERE:
                marginals[<size_t>(j + 1) * (n + 1) + i + 1] = _arc_adjoint(
                    s, chart, d, LEFT, j, i, of_state)
            if s.pair[<size_t>i * n + j] != NOT_THERE:
                _between_adjoint(s, chart, d, i, j)


cdef void _largest_by_span(Sentence* s, Chart* chart, double* largest) noexcept nogil:
    cdef int i, e, a
    cdef double value
    for i in range(s.n):
        for a in range(s.offset[i], s.offset[i + 1]):
            for e in range(s.n):
                value = chart.right[<size_t>a * s.n + e] if e >= i else chart.left[<size_t>a * s.n + e]
                # written so that a NaN is kept: it must be seen
                if not (value <= largest[abs(i - e)]):
                    largest[abs(i - e)] = value


def inside_outside(
    const int[::1] offsets not None,
    const int[::1] states not None,
    const double[::1] emissions not None,
    const float[:, ::1] rows not None,
    const int[:, :, ::1] row_of not None,
    const double[:, ::1] weights not None,
    const double[::1] root not None,
):
    """Z; unnormalised marginals of the arcs [N+1, N+1] (head, modifier; 0 is the root) and states [M] of
    one sentence; the largest finished half for every span length, for rescaling.

    offsets, states, emissions: The states of tokens, see `lexicon.Lattice`; rows, row_of: the grammar,
    see `_grammar`.
    weights (float[N, N]): Weight of every arc (head, modifier); 0 for those that no tree has.
    root (float[M]): Weight of every state of every token as the only child of the root.
    """
    cdef int n = weights.shape[0], failed
    cdef double z = 0
    cdef Sentence s
    cdef Chart chart, d
    cdef Arena arena
    marginal_array = numpy.zeros((n + 1, n + 1))
    state_array = numpy.zeros(states.shape[0])
    largest_array = numpy.zeros(n)
    cdef double[:, ::1] marginals = marginal_array
    cdef double[::1] of_state = state_array
    cdef double[::1] largest = largest_array
    if n == 0:
        return 1.0, marginal_array, state_array, largest_array
    s.n = n
    s.m = states.shape[0]
    bind_grammar(&s.grammar, rows, row_of)
    s.offset = &offsets[0]
    s.state = &states[0]
    s.emit = &emissions[0]
    s.weight = &weights[0, 0]
    s.root = &root[0]
    memset(&arena, 0, sizeof(arena))
    with nogil:
        failed = list_arcs(&s, &arena) or _allocate(&s, &chart, &arena)
        if not failed:
            z = _inside(&s, &chart)
            _largest_by_span(&s, &chart, &largest[0])
            if isfinite(z) and z > 0:
                failed = _allocate(&s, &d, &arena)
                if not failed:
                    _outside(&s, &chart, &d, &marginals[0, 0], &of_state[0])
        arena_free(&arena)
    if failed:
        raise MemoryError()
    return z, marginal_array, state_array, largest_array
