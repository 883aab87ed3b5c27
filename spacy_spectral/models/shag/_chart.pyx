# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Inside-outside for split head automata with state vectors (Luque et al. 2012, eqs. 18-20).

Every head h has two halves, one per direction. A half that reaches from h to the far end e carries

    C[h,e]   the state vector after its modifiers up to e have been generated
    I[h,e]   the same, just after the arc h -> e, before e's own outward half is filled in
    Q[h,e]   the scalar stop . C[h,e]: the half is finished

and the recurrences, written once for both directions (x' is the next position from x towards e), are

    S[h,e] = sum_x C[h,x] * Q_inward[e,x']      I[h,e] = A^h_e (w[h,e] S[h,e])
    C[h,e] = sum_x I[h,x] * Q_outward[x,e]

Split points are summed before the operator is applied, so the cost is O(n N^3 + n^2 N^2).

A state is a pair (class, hidden state). The class is deterministic: it is the class of the previous
modifier (class 0 before the first), so that a lexical model with that memory multiplies the automata
inside the same chart; with one class it vanishes. The number of states is a multiple of four, for the
sake of the inner loops; models are padded with states that are never reached.

The outside pass is the exact adjoint of these lines in reverse order and needs no equations of its own.
"""

from libc.math cimport fabs, isfinite, log
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, take_zeros
from ...base._rows cimport dot
from ...trees._sides cimport LEFT, RIGHT


cdef extern from "_vector.h" nogil:
    void prefetch(const double* block, int size)
    void weighted_sum(const double* rows, const double* weights, int count, int width, double* out)
    void add_product(
        const double* matrix, int stride, int n, double weight, const double* vector, double* out)
    void transposed_product(
        const double* matrix, int stride, int n, const double* vector, double* out)
    void weighted_sum_adjoint(
        const double* rows, const double* weights, int count, int width,
        const double* d_out, double* d_rows, double* d_weights)


cdef struct Half:
    # For one direction; row h of every table belongs to head h. A left half ends at or before its head
    # and a right half at or after it, so both directions share one block, the right one moved on by one
    # column. A row has `row` = N + 1 columns.
    double* C       # [h, e, width]
    double* I       # [h, e, width]
    double* Q       # [h, e]
    double* QT      # [e, h]: the same numbers, laid out for sums over heads
    double* dC
    double* dI
    double* dQ
    double* dQT


cdef struct AutomataSentence:
    int length
    int row         # length + 1
    int states      # n
    int classes     # K
    int width       # K * n
    int n_symbols
    int stride_states           # allocated states of the operators, >= states
    const int* symbols          # [N]
    const int* word_class       # [N]
    const double* start         # [H, 2, stride]
    const double* operators     # [H, 2, X, stride, stride]
    const double* weights       # [N, N, K]: head, modifier, class of the previous modifier
    const double* stop          # [N, 2, width]: per token, the class weights folded in
    const double* root          # [N]


cdef int _allocate(
    Arena* arena, Half* left, Half* right, double** scratch, int n, int width
) noexcept nogil:
    cdef size_t scalars = <size_t>n * (n + 1)
    cdef size_t vectors = scalars * width
    cdef size_t total = width + 4 * (vectors + scalars)
    cdef double* block = <double*>take_zeros(arena, total * sizeof(double))
    if block is NULL:
        return -1
    scratch[0] = block
    left.C = block + width
    left.I = left.C + vectors
    left.Q = left.I + vectors
    # transposed, a left half's head comes at or after its end
    right.QT = left.Q + scalars
    left.dC = right.QT + scalars
    left.dI = left.dC + vectors
    left.dQ = left.dI + vectors
    right.dQT = left.dQ + scalars
    right.dC = left.dC + width
    right.dI = left.dI + width
    right.dQ = left.dQ + 1
    left.dQT = right.dQT + 1
    right.C = left.C + width
    right.I = left.I + width
    right.Q = left.Q + 1
    left.QT = right.QT + 1
    return 0


cdef inline const double* _operator(AutomataSentence* s, int head, int direction, int modifier) noexcept nogil:
    cdef size_t index = (<size_t>s.symbols[head] * 2 + direction) * s.n_symbols + s.symbols[modifier]
    return s.operators + index * s.stride_states * s.stride_states


cdef inline void _finish(AutomataSentence* s, Half* half, int direction, int head, int end) noexcept nogil:
    """Q[h,e] = stop . C[h,e], in both layouts."""
    cdef double value = dot(
        s.stop + (<size_t>head * 2 + direction) * s.width,
        half.C + (<size_t>head * s.row + end) * s.width, s.width)
    half.Q[<size_t>head * s.row + end] = value
    half.QT[<size_t>end * s.row + head] = value


cdef inline void _attach(
    AutomataSentence* s, Half* half, int direction, int head, int modifier, const double* source
) noexcept nogil:
    """I[h,m] = A^h_m (sum over classes of w[h,m,class] * S[h,m,class]), S being the source."""
    cdef int n = s.length, states = s.states, c
    cdef const double* op = _operator(s, head, direction, modifier)
    cdef const double* w = s.weights + (<size_t>head * n + modifier) * s.classes
    cdef double* target = (
        half.I + (<size_t>head * s.row + modifier) * s.width + s.word_class[modifier] * states)
    for c in range(s.classes):
        if w[c] != 0.0:
            add_product(op, s.stride_states, states, w[c], source + c * states, target)


cdef double _inside(AutomataSentence* s, Half* left, Half* right, double* scratch) noexcept nogil:
    cdef int n = s.length, row = s.row, states = s.states, width = s.width
    cdef int i, j, span, k
    cdef double total = 0
    for i in range(n):
        for k in range(states):
            left.C[(<size_t>i * row + i) * width + k] = (
                s.start[(<size_t>s.symbols[i] * 2 + LEFT) * s.stride_states + k])
            right.C[(<size_t>i * row + i) * width + k] = (
                s.start[(<size_t>s.symbols[i] * 2 + RIGHT) * s.stride_states + k])
        _finish(s, left, LEFT, i, i)
        _finish(s, right, RIGHT, i, i)
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            if j + 1 < n:
                prefetch(_operator(s, i + 1, RIGHT, j + 1), s.stride_states * s.stride_states)
                prefetch(_operator(s, j + 1, LEFT, i + 1), s.stride_states * s.stride_states)
            # head i, modifier j: C_R[i, i..j-1] with Q_L[j, i+1..j]
            weighted_sum(right.C + (<size_t>i * row + i) * width, left.Q + <size_t>j * row + i + 1,
                         span, width, scratch)
            _attach(s, right, RIGHT, i, j, scratch)
            # head j, modifier i: C_L[j, i+1..j] with Q_R[i, i..j-1]
            weighted_sum(left.C + (<size_t>j * row + i + 1) * width, right.Q + <size_t>i * row + i,
                         span, width, scratch)
            _attach(s, left, LEFT, j, i, scratch)
            # I_R[i, i+1..j] with Q_R[i+1..j, j]; I_L[j, i..j-1] with Q_L[i..j-1, i]
            weighted_sum(right.I + (<size_t>i * row + i + 1) * width, right.QT + <size_t>j * row + i + 1,
                         span, width, right.C + (<size_t>i * row + j) * width)
            weighted_sum(left.I + (<size_t>j * row + i) * width, left.QT + <size_t>i * row + i,
                         span, width, left.C + (<size_t>j * row + i) * width)
            _finish(s, right, RIGHT, i, j)
            _finish(s, left, LEFT, j, i)
    for i in range(n):
        total += s.root[i] * left.Q[<size_t>i * row] * right.Q[<size_t>i * row + n - 1]
    return total


cdef inline double _attach_adjoint(
    AutomataSentence* s, Half* half, int direction, int head, int modifier, double* d_source
) noexcept nogil:
    """Adjoint of _attach. Returns <dI, I>, the unnormalised marginal of the arc."""
    cdef int n = s.length, states = s.states, b, c
    cdef const double* op = _operator(s, head, direction, modifier)
    cdef const double* w = s.weights + (<size_t>head * n + modifier) * s.classes
    cdef size_t item = (<size_t>head * s.row + modifier) * s.width + s.word_class[modifier] * states
    cdef double* d_target = half.dI + item
    # A' dI once, into the first class, then spread by the class weights from the last class down
    transposed_product(op, s.stride_states, states, d_target, d_source)
    for c in range(s.classes - 1, -1, -1):
        for b in range(states):
            d_source[c * states + b] = w[c] * d_source[b]
    return dot(d_target, half.I + item, states)


cdef inline void _finish_adjoint(
    AutomataSentence* s, Half* half, int direction, int head, int end
) noexcept nogil:
    cdef int k
    cdef double d = half.dQ[<size_t>head * s.row + end] + half.dQT[<size_t>end * s.row + head]
    cdef const double* stop = s.stop + (<size_t>head * 2 + direction) * s.width
    cdef double* d_C = half.dC + (<size_t>head * s.row + end) * s.width
    for k in range(s.width):
        d_C[k] += d * stop[k]


cdef void _outside(
    AutomataSentence* s, Half* left, Half* right, double* d_source, double* marginals
) noexcept nogil:
    """Fills marginals[h + 1, m + 1] with unnormalised arc marginals; row 0 is the root."""
    cdef int n = s.length, row = s.row, width = s.width
    cdef int i, j, span
    for i in range(n):
        left.dQ[<size_t>i * row] = s.root[i] * right.Q[<size_t>i * row + n - 1]
        right.dQ[<size_t>i * row + n - 1] = s.root[i] * left.Q[<size_t>i * row]
        marginals[i + 1] = left.dQ[<size_t>i * row] * left.Q[<size_t>i * row]
    for span in range(n - 1, 0, -1):
        for i in range(n - span):
            j = i + span
            _finish_adjoint(s, right, RIGHT, i, j)
            _finish_adjoint(s, left, LEFT, j, i)
            weighted_sum_adjoint(
                right.I + (<size_t>i * row + i + 1) * width, right.QT + <size_t>j * row + i + 1,
                span, width, right.dC + (<size_t>i * row + j) * width,
                right.dI + (<size_t>i * row + i + 1) * width, right.dQT + <size_t>j * row + i + 1)
            weighted_sum_adjoint(
                left.I + (<size_t>j * row + i) * width, left.QT + <size_t>i * row + i,
                span, width, left.dC + (<size_t>j * row + i) * width,
                left.dI + (<size_t>j * row + i) * width, left.dQT + <size_t>i * row + i)
            marginals[<size_t>(i + 1) * (n + 1) + j + 1] = _attach_adjoint(
                s, right, RIGHT, i, j, d_source)
            weighted_sum_adjoint(
                right.C + (<size_t>i * row + i) * width, left.Q + <size_t>j * row + i + 1,
                span, width, d_source,
                right.dC + (<size_t>i * row + i) * width, left.dQ + <size_t>j * row + i + 1)
            marginals[<size_t>(j + 1) * (n + 1) + i + 1] = _attach_adjoint(
                s, left, LEFT, j, i, d_source)
            weighted_sum_adjoint(
                left.C + (<size_t>j * row + i + 1) * width, right.Q + <size_t>i * row + i,
                span, width, d_source,
                left.dC + (<size_t>j * row + i + 1) * width, right.dQ + <size_t>i * row + i)


cdef void _largest_by_span(int n, Half* left, Half* right, double* largest) noexcept nogil:
    cdef int i, j, row = n + 1
    cdef double value
    for i in range(n):
        for j in range(n):
            value = fabs(right.Q[<size_t>i * row + j] if i <= j else left.Q[<size_t>i * row + j])
            # written so that a NaN is kept: it must be seen
            if not (value <= largest[abs(i - j)]):
                largest[abs(i - j)] = value


def arc_weights(
    const int[::1] symbols not None,
    const double[::1] frequency not None,
    const double[:, :, :, ::1] lengths not None,
    const int[::1] distance_bin not None,
):
    """[N, N] by head and modifier: the length factor (float[X, 2, X, bins]) over the frequency of the
    modifier's symbol. The last of `distance_bin` holds for longer distances, too."""
    cdef int n = symbols.shape[0], i, j, longest = distance_bin.shape[0] - 1
    weight_array = numpy.zeros((n, n))
    cdef double[:, ::1] weights = weight_array
    with nogil:
        for i in range(n):
            for j in range(n):
                weights[i, j] = lengths[
                    symbols[i], i < j, symbols[j], distance_bin[min(abs(i - j), longest)]
                ] / frequency[symbols[j]]
    return weight_array


cdef class AutomataChart:
    """One sentence; the arrays are those of `AutomataSentence`. `states`, a multiple of four, says how
    many leading states of the automata to use."""
    cdef AutomataSentence s
    cdef const int[::1] symbols, word_class
    cdef const double[:, :, ::1] start, weights, stop
    cdef const double[:, :, :, :, ::1] operators
    cdef const double[::1] root

    def __init__(
        self,
        const int[::1] symbols not None,
        const int[::1] word_class not None,
        const double[:, :, ::1] start not None,
        const double[:, :, :, :, ::1] operators not None,
        const double[:, :, ::1] weights not None,
        const double[:, :, ::1] stop not None,
        const double[::1] root not None,
        int states,
    ):
        cdef AutomataSentence* s = &self.s
        if states % 4 or states > operators.shape[4] or stop.shape[2] != states * weights.shape[2]:
            raise ValueError(f"states must be a multiple of four within the automata, not {states}")
        self.symbols, self.word_class, self.start, self.operators = symbols, word_class, start, operators
        self.weights, self.stop, self.root = weights, stop, root
        s.length, s.row = symbols.shape[0], symbols.shape[0] + 1
        s.states, s.classes, s.width = states, weights.shape[2], weights.shape[2] * states
        s.n_symbols, s.stride_states = operators.shape[2], operators.shape[4]
        s.symbols, s.word_class = &symbols[0], &word_class[0]
        s.start, s.operators = &start[0, 0, 0], &operators[0, 0, 0, 0, 0]
        s.weights, s.stop, s.root = &weights[0, 0, 0], &stop[0, 0, 0], &root[0]

    def inside_outside(self):
        """Z; unnormalised marginals [N+1, N+1] (head, modifier; 0 is the root); and the largest |Q| for
        every span length, for rescaling."""
        cdef int n = self.s.length, status
        cdef double z = 0
        cdef double* scratch
        cdef Arena arena
        cdef Half left, right
        marginal_array, largest_array = numpy.zeros((n + 1, n + 1)), numpy.zeros(n)
        cdef double[:, ::1] marginals = marginal_array
        cdef double[::1] largest = largest_array
        memset(&arena, 0, sizeof(arena))
        with nogil:
            status = _allocate(&arena, &left, &right, &scratch, n, self.s.width)
            if status == 0:
                z = _inside(&self.s, &left, &right, scratch)
                _largest_by_span(n, &left, &right, &largest[0])
                if isfinite(z):
                    _outside(&self.s, &left, &right, scratch, &marginals[0, 0])
            arena_free(&arena)
        if status != 0:
            raise MemoryError()
        return z, marginal_array, largest_array

    def tree_scores(self, const int[:, ::1] trees not None):
        """log |score| and sign of what single trees (int[k, N], heads from 1, 0 for the root) contribute
        to Z."""
        cdef int n = self.s.length, states = self.s.states, t, m, h, a, b, d, step
        cdef double value, scale
        log_array = numpy.zeros(trees.shape[0])
        sign_array = numpy.ones(trees.shape[0])
        cdef double[::1] logs = log_array
        cdef double[::1] signs = sign_array
        cdef double[:, :, ::1] state = numpy.zeros((n, 2, states))
        cdef int[:, ::1] last = numpy.zeros((n, 2), dtype="int32")
        cdef double[::1] moved = numpy.zeros(states)
        with nogil:
            for t in range(trees.shape[0]):
                for h in range(n):
                    for d in range(2):
                        last[h, d] = 0
                        for a in range(states):
                            state[h, d, a] = self.start[self.symbols[h], d, a]
                # modifiers in head-outward order: to the right ascending, to the left descending
                for d in range(2):
                    for step in range(n):
                        m = step if d == RIGHT else n - 1 - step
                        h = trees[t, m] - 1
                        if h < 0 or (m > h) != (d == RIGHT):
                            continue
                        scale = self.weights[h, m, last[h, d]]
                        for a in range(states):
                            value = 0
                            for b in range(states):
                                value += self.operators[self.symbols[h], d, self.symbols[m], a, b] * state[h, d, b]
                            moved[a] = scale * value
                        for a in range(states):
                            state[h, d, a] = moved[a]
                        last[h, d] = self.word_class[m]
                for h in range(n):
                    if trees[t, h] == 0:
                        signs[t] = -signs[t] if self.root[h] < 0 else signs[t]
                        logs[t] += log(fabs(self.root[h]))
                    for d in range(2):
                        value = 0
                        for a in range(states):
                            value += self.stop[h, d, last[h, d] * states + a] * state[h, d, a]
                        signs[t] = -signs[t] if value < 0 else signs[t]
                        logs[t] += log(fabs(value))
        return log_array, sign_array
