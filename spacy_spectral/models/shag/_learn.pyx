# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The two loops of estimation: operators from trigrams, and forward-backward for one automaton."""

from libc.math cimport log
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy


def add_operators(
    const int[::1] previous not None,
    const int[::1] symbols not None,
    const int[::1] following not None,
    const double[::1] counts not None,
    const double[:, ::1] rows not None,
    const double[:, ::1] columns not None,
    double[:, :, ::1] operators not None,
):
    """operators[x] += rows[c]' columns[a] * count for every trigram (a, x, c).

    With rows = U and columns = ((U' P)^+) by symbol this sums A_x = U' P_x (U' P)^+ without ever
    building the three-way array P_x.
    """
    cdef Py_ssize_t t, i, j
    cdef Py_ssize_t n = rows.shape[1]
    cdef double scaled
    cdef double* target
    with nogil:
        for t in range(counts.shape[0]):
            for i in range(n):
                scaled = counts[t] * rows[following[t], i]
                target = &operators[symbols[t], i, 0]
                for j in range(n):
                    target[j] += scaled * columns[previous[t], j]


def expectation_maximisation(
    const int[::1] symbols not None,
    const int64_t[::1] offsets not None,
    const double[::1] counts not None,
    double[::1] start not None,
    double[:, :, ::1] operators not None,
    double[::1] stop not None,
    const double[::1] prior not None,
    double prior_stop,
    int iterations,
    double tolerance,
):
    """Improve one non-negative automaton in place by forward-backward (Baum-Welch).

    The distinct sequences are those of `SequenceSet`. Pseudo-counts of each symbol (`prior`) and of
    stopping are shared by the states. It ends after some iterations, or when the log-likelihood gains
    less than `tolerance`, relatively. Gives the log-likelihood of the data before each iteration.
    """
    cdef int n = start.shape[0], n_symbols = operators.shape[0]
    cdef int longest = 0, iteration, a, b, x, t, length
    cdef Py_ssize_t k
    cdef double likelihood, previous = 0, total, scale, weight, value
    cdef double* forward
    cdef double* backward
    cdef double* scales
    cdef double[::1] new_start = numpy.zeros(n)
    cdef double[:, :, ::1] new_operators = numpy.zeros((n_symbols, n, n))
    cdef double[::1] new_stop = numpy.zeros(n)
    for k in range(counts.shape[0]):
        longest = max(longest, <int>(offsets[k + 1] - offsets[k]))
    forward = <double*>calloc((longest + 1) * (2 * n + 1), sizeof(double))
    if forward is NULL:
        raise MemoryError()
    backward = forward + (longest + 1) * n
    scales = backward + (longest + 1) * n
    history = []
    for iteration in range(iterations):
        likelihood = 0
        with nogil:
            new_start[:] = 0
            for x in range(n_symbols):
                for a in range(n):
                    for b in range(n):
                        new_operators[x, a, b] = prior[x] / (n * n)
            for a in range(n):
                new_stop[a] = prior_stop / n
            for k in range(counts.shape[0]):
                length = <int>(offsets[k + 1] - offsets[k])
                # forward vectors, each scaled to sum to one
                for a in range(n):
                    forward[a] = start[a]
                for t in range(length):
                    x = symbols[offsets[k] + t]
                    scale = 0
                    for a in range(n):
                        value = 0
                        for b in range(n):
                            value += operators[x, a, b] * forward[t * n + b]
                        forward[(t + 1) * n + a] = value
                        scale += value
                    scales[t] = scale
                    if scale > 0:
                        for a in range(n):
                            forward[(t + 1) * n + a] /= scale
                        likelihood += counts[k] * log(scale)
                total = 0
                for a in range(n):
                    total += stop[a] * forward[length * n + a]
                if total <= 0:
                    continue
                likelihood += counts[k] * log(total)
                # backward vectors, scaled alike, so that forward . backward = total at every position
                for a in range(n):
                    backward[length * n + a] = stop[a]
                for t in range(length - 1, -1, -1):
                    x = symbols[offsets[k] + t]
                    for b in range(n):
                        value = 0
                        for a in range(n):
                            value += operators[x, a, b] * backward[(t + 1) * n + a]
                        backward[t * n + b] = value / scales[t]
                weight = counts[k] / total
                for a in range(n):
                    new_start[a] += weight * forward[a] * backward[a]
                    new_stop[a] += weight * forward[length * n + a] * stop[a]
                for t in range(length):
                    x = symbols[offsets[k] + t]
                    for a in range(n):
                        value = weight * backward[(t + 1) * n + a] / scales[t]
                        for b in range(n):
                            new_operators[x, a, b] += value * operators[x, a, b] * forward[t * n + b]
            # M step: from every state the symbols with their next states and STOP sum to one
            total = 0
            for a in range(n):
                total += new_start[a]
            if total > 0:
                for a in range(n):
                    start[a] = new_start[a] / total
            for b in range(n):
                total = new_stop[b]
                for x in range(n_symbols):
                    for a in range(n):
                        total += new_operators[x, a, b]
                if total > 0:
                    stop[b] = new_stop[b] / total
                    for x in range(n_symbols):
                        for a in range(n):
                            operators[x, a, b] = new_operators[x, a, b] / total
        history.append(likelihood)
        if iteration > 0 and likelihood - previous < tolerance * abs(likelihood):
            break
        previous = likelihood
    free(forward)
    return history
