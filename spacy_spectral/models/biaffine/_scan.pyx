# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The recurrence of `scan`, sentence by sentence, and its gradient.

Gates are rows [z, f, o] of one token, each as wide as there are units; the first half of the units runs from
left to right, the second from right to left. All that is computed of a token is computed at once, while it
is in the cache.
"""
import numpy


cdef void _step(
    const float* gates, const float* before, float* c, float* y, Py_ssize_t n, Py_ssize_t units
) noexcept nogil:
    """c = f * before + (1 - f) * z, y = o * c, for n units; before is NULL at the first token."""
    cdef const float* z = gates
    cdef const float* f = gates + units
    cdef const float* o = gates + 2 * units
    cdef Py_ssize_t u
    if before == NULL:
        for u in range(n):
            c[u] = (1 - f[u]) * z[u]
            y[u] = o[u] * c[u]
    else:
        for u in range(n):
            c[u] = z[u] + f[u] * (before[u] - z[u])
            y[u] = o[u] * c[u]


cdef void _step_back(
    const float* gates,
    const float* before,
    const float* c,
    const float* d_y,
    float* carried,
    float* d_gates,
    Py_ssize_t n,
    Py_ssize_t units,
) noexcept nogil:
    """The gradient of what goes into the gates' sigmoids and tanh. `carried` is the gradient of c that comes
    from the tokens after this one, and then of what this one was given."""
    cdef const float* z = gates
    cdef const float* f = gates + units
    cdef const float* o = gates + 2 * units
    cdef float* d_z = d_gates
    cdef float* d_f = d_gates + units
    cdef float* d_o = d_gates + 2 * units
    cdef Py_ssize_t u
    cdef float d_c, was
    for u in range(n):
        d_c = d_y[u] * o[u] + carried[u]
        was = before[u] if before != NULL else 0
        d_z[u] = d_c * (1 - f[u]) * (1 - z[u] * z[u])
        d_f[u] = d_c * (was - z[u]) * f[u] * (1 - f[u])
        d_o[u] = d_y[u] * c[u] * o[u] * (1 - o[u])
        carried[u] = d_c * f[u]


def scan(
    const float[:, ::1] gates not None, const int[::1] lengths not None, float[:, :] y not None
):
    """Run the recurrence over gates [tokens, 3 * units] of sentences that lie one after the other. `y`
    is filled; the cells c are returned."""
    cdef Py_ssize_t units = gates.shape[1] // 3, half = units // 2
    cells = numpy.empty((gates.shape[0], units), dtype="float32")
    cdef float[:, ::1] c = cells
    cdef Py_ssize_t s, t, begin = 0, end
    _check(gates.shape[0], gates.shape[1], lengths, y)
    with nogil:
        for s in range(lengths.shape[0]):
            end = begin + lengths[s]
            for t in range(begin, end):
                _step(
                    &gates[t, 0], NULL if t == begin else &c[t - 1, 0], &c[t, 0], &y[t, 0],
                    half, units,
                )
            for t in range(end - 1, begin - 1, -1):
                _step(
                    &gates[t, half], NULL if t == end - 1 else &c[t + 1, half], &c[t, half],
                    &y[t, half], units - half, units,
                )
            begin = end
    return cells


def scan_back(
    const float[:, ::1] gates not None,
    const int[::1] lengths not None,
    const float[:, ::1] c not None,
    const float[:, ::1] d_y not None,
):
    """The gradient of `scan`, of what goes into tanh (z) and sigmoids (f and o), [tokens, 3 * units]."""
    cdef Py_ssize_t units = gates.shape[1] // 3, half = units // 2
    gradient = numpy.empty((gates.shape[0], 3 * units), dtype="float32")
    cdef float[:, ::1] d_gates = gradient
    cdef float[::1] carried = numpy.zeros(units, dtype="float32")
    cdef Py_ssize_t s, t, begin = 0, end
    cdef const float* before
    _check(gates.shape[0], gates.shape[1], lengths, d_y)
    _check(gates.shape[0], gates.shape[1], lengths, c)
    with nogil:
        for s in range(lengths.shape[0]):
            end = begin + lengths[s]
            carried[:] = 0
            for t in range(end - 1, begin - 1, -1):
                before = NULL
                if t > begin:
                    before = &c[t - 1, 0]
                _step_back(
                    &gates[t, 0], before, &c[t, 0], &d_y[t, 0], &carried[0], &d_gates[t, 0], half,
                    units,
                )
            for t in range(begin, end):
                before = NULL
                if t < end - 1:
                    before = &c[t + 1, half]
                _step_back(
                    &gates[t, half], before, &c[t, half], &d_y[t, half], &carried[half],
                    &d_gates[t, half], units - half, units,
                )
            begin = end
    return gradient


cdef _check(Py_ssize_t n, Py_ssize_t width, const int[::1] lengths, const float[:, :] table):
    cdef Py_ssize_t s, total = 0
    for s in range(lengths.shape[0]):
        total += lengths[s]
        if lengths[s] < 0:
            raise ValueError("lengths")
    if total != n or width % 3 or table.shape[0] != n or table.shape[1] != width // 3:
        raise ValueError("shapes")
    if n and width and table.strides[1] != sizeof(float):
        raise ValueError("columns must lie side by side")
