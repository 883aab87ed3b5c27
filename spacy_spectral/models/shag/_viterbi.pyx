# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The best tree together with its hidden states: the chart of `_chart.pyx` with max for sum, in logs.

Only automata with non-negative parameters have such a best path; `_chart.pyx` explains the items. How the best
came about is not noted down: the few items of the best tree are looked at again.
"""

from libc.math cimport INFINITY

import numpy

from ...trees._sides cimport LEFT, RIGHT


cdef class BestPaths:
    """The chart of one sentence; arguments as those of `_chart.AutomataChart`, in logs."""
    cdef int n, states, width
    cdef const int[::1] symbols, word_class
    cdef const double[:, :, :, :, ::1] operators
    cdef const double[:, :, ::1] start, weights, stop
    cdef const double[::1] root
    cdef double[:, :, :, ::1] C     # [direction, h, e, width]
    cdef double[:, :, :, ::1] I     # [direction, h, e, states]
    cdef double[:, :, ::1] Q        # [direction, h, e]
    cdef double[::1] S              # [width], of the arc at hand

    def __init__(
        self,
        const int[::1] symbols not None,
        const int[::1] word_class not None,
        const double[:, :, ::1] start not None,
        const double[:, :, :, :, ::1] operators not None,
        const double[:, :, ::1] weights not None,
        const double[:, :, ::1] stop not None,
        const double[::1] root not None,
    ):
        self.symbols, self.word_class, self.start = symbols, word_class, start
        self.operators, self.weights, self.stop, self.root = operators, weights, stop, root
        self.n, self.states, self.width = symbols.shape[0], operators.shape[4], stop.shape[2]
        self.C = numpy.full((2, self.n, self.n, self.width), -INFINITY)
        self.I = numpy.full((2, self.n, self.n, self.states), -INFINITY)
        self.Q = numpy.full((2, self.n, self.n), -INFINITY)
        self.S = numpy.zeros(self.width)

    cdef void fill(self) noexcept nogil:
        cdef int span, i, h, e, d, x, step, k, a, b
        for span in range(self.n):
            for i in range(self.n - span):
                for d in range(2):
                    h, e = (i, i + span) if d == RIGHT else (i + span, i)
                    step = 1 if d == RIGHT else -1
                    if span == 0:
                        for k in range(self.states):
                            self.C[d, h, h, k] = self.start[self.symbols[h], d, k]
                    else:
                        self.sum_splits(d, h, e)
                        for a in range(self.states):
                            for b in range(self.width):
                                self.I[d, h, e, a] = max(self.I[d, h, e, a], self.step(d, h, e, a, b))
                    x = h
                    while x != e:
                        x += step
                        for a in range(self.states):
                            k = self.word_class[x] * self.states + a
                            self.C[d, h, e, k] = max(self.C[d, h, e, k], self.I[d, h, x, a] + self.Q[d, x, e])
                    for k in range(self.width):
                        self.Q[d, h, e] = max(self.Q[d, h, e], self.stop[h, d, k] + self.C[d, h, e, k])

    cdef void sum_splits(self, int d, int h, int m) noexcept nogil:
        """S[h,m]."""
        cdef int x = h, step = 1 if d == RIGHT else -1, k
        self.S[:] = -INFINITY
        while x != m:
            for k in range(self.width):
                self.S[k] = max(self.S[k], self.C[d, h, x, k] + self.Q[1 - d, m, x + step])
            x += step

    cdef inline double step(self, int d, int h, int m, int a, int b) noexcept nogil:
        """The arc h -> m from state b to state a, after `sum_splits`."""
        cdef double op = self.operators[self.symbols[h], d, self.symbols[m], a, b % self.states]
        return op + self.weights[h, m, b // self.states] + self.S[b]

    cdef void read(self, int d, int h, int e, int state, int[::1] heads) noexcept nogil:
        """Find the modifiers of half [h, e] that ends in a state; -1 for the best."""
        cdef int x, m, k, before, step = 1 if d == RIGHT else -1
        if h == e:
            return
        if state < 0:
            state = 0
            while self.stop[h, d, state] + self.C[d, h, e, state] != self.Q[d, h, e]:
                state += 1
        m = h + step
        k = state % self.states
        while (
            self.word_class[m] != state // self.states
            or self.I[d, h, m, k] + self.Q[d, m, e] != self.C[d, h, e, state]
        ):
            m += step
        heads[m] = h + 1
        self.sum_splits(d, h, m)
        before = 0
        while self.step(d, h, m, k, before) != self.I[d, h, m, k]:
            before += 1
        x = h
        while self.C[d, h, x, before] + self.Q[1 - d, m, x + step] != self.S[before]:
            x += step
        self.read(d, h, x, before, heads)
        self.read(1 - d, m, x + step, -1, heads)
        self.read(d, m, e, -1, heads)

    def best(self):
        """RETURNS (Tuple[ndarray, float]): Head of every token (1-based, 0 is the root), and the log score."""
        cdef int top
        heads = numpy.zeros(self.n, dtype="int32")
        with nogil:
            self.fill()
        halves = numpy.asarray(self.Q)
        scores = numpy.asarray(self.root) + halves[LEFT, :, 0] + halves[RIGHT, :, self.n - 1]
        top = scores.argmax()
        if scores[top] != -INFINITY:
            self.read(LEFT, top, 0, -1, heads)
            self.read(RIGHT, top, self.n - 1, -1, heads)
        return heads, scores[top]
