# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Inside-outside of models that score arcs one by one: P(tree) ~ product of its arcs' potentials.

Eisner's chart over the arcs that are allowed, one left end i after the other, from the right:

    G[i,j] = sum_k R[i,k] L[j,k+1]    inner[i->j] = p[i->j] G[i,j]    inner[j->i] = p[j->i] G[i,j]
    R[i,j] = sum_m inner[i->m] R[m,j]    L[j,i] = sum_m inner[j->m] L[m,i]

R and L are rows, so that the sums run over contiguous memory; `lt` is L transposed. The second half is the
adjoint, line by line. Charts whose halves carry states are others: that of the head automata (`models.shag`),
where states are vectors, and that of the log-linear parser, where they are classes of labels on arcs.
"""
import numpy

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, log
from libc.string cimport memset

from ..base._arena cimport Arena, arena_free, take, take_zeros
from ..base._rows cimport add, dot


cdef struct Spans:
    # the tables of `first_order_marginals`
    int* right_start  # arcs i -> j, i < j, by head
    int* right
    int* left_start  # arcs j -> i
    int* left
    int* n_left  # so many of them have j's span done
    double* inner
    double* r
    double* l
    double* lt


cdef double _inside(
    const ArcList* arcs, const double* p, double scale, Spans* spans
) noexcept nogil:
    """Fill the tables, with potentials p times `scale`. RETURNS (double): Z."""
    cdef int n = arcs.n, i, j, k, m, a, b, at, to
    cdef Py_ssize_t w = n + 2
    cdef int* right_start = spans.right_start
    cdef int* right = spans.right
    cdef int* left_start = spans.left_start
    cdef int* left = spans.left
    cdef int* n_left = spans.n_left
    cdef double* inner = spans.inner
    cdef double* r = spans.r
    cdef double* l = spans.l
    cdef double* lt = spans.lt
    cdef double z = 0, x, g
    memset(n_left, 0, w * sizeof(int))
    memset(r, 0, w * w * sizeof(double))
    for i in range(n, 0, -1):
        r[i * w + i] = l[i * w + i] = lt[i * w + i] = 1
        at, to = right_start[i], arcs.start[i]
        while to < arcs.start[i + 1] and arcs.head[to] < i:
            to += 1
        while at < right_start[i + 1] or to < arcs.start[i + 1]:
            a = right[at] if at < right_start[i + 1] else -1
            b = to if to < arcs.start[i + 1] else -1
            j = min(arcs.mod[a] if a >= 0 else n + 2, arcs.head[b] if b >= 0 else n + 2)
            g = scale * dot(r + i * w + i, l + j * w + i + 1, j - i)
            if a >= 0 and arcs.mod[a] == j:
                at += 1
                inner[a] = p[a] * g
                add(r + i * w + j, inner[a], r + j * w + j, n - j + 1)
            if b >= 0 and arcs.head[b] == j:
                to += 1
                inner[b] = p[b] * g
                left[left_start[j] + n_left[j]] = b
                n_left[j] += 1
        for j in range(i + 1, n + 1):
            x = 0
            for k in range(left_start[j], left_start[j] + n_left[j]):
                x += inner[left[k]] * lt[i * w + arcs.mod[left[k]]]
            l[j * w + i] = lt[i * w + j] = x
    for m in range(1, n + 1):
        a = arcs.start[m]
        if arcs.head[a] == 0:
            z += scale * p[a] * l[m * w + 1] * r[m * w + n]
    return z


cdef int first_order_marginals(
    const ArcList* arcs, const double* potential, double* mu, double* log_z, Arena* arena
) noexcept nogil:
    """Arc marginals of the model P(tree) ~ product of its arcs' potentials, into `mu`, and log Z.
    Returns 0, or -1 if memory ran out. Where Z is not in the range of doubles, log Z is nan and `mu` is
    not filled; long sentences are brought into it."""
    cdef int n = arcs.n, h, i, j, k, m, a, b, at, to, attempt
    cdef Py_ssize_t w = n + 2, cells = w * w
    cdef Spans spans
    cdef int* right_start = <int*>take_zeros(arena, w * sizeof(int))
    cdef int* right = <int*>take(arena, (arcs.n_arcs + 1) * sizeof(int))
    cdef int* left_start = <int*>take_zeros(arena, w * sizeof(int))
    cdef int* left = <int*>take(arena, (arcs.n_arcs + 1) * sizeof(int))
    cdef int* n_left = <int*>take_zeros(arena, w * sizeof(int))
    cdef double* inner = <double*>take_zeros(arena, 2 * (arcs.n_arcs + 1) * sizeof(double))
    cdef double* r = <double*>take(arena, 3 * cells * sizeof(double))
    cdef double* l = r + cells
    cdef double* lt = l + cells
    cdef double* dr
    cdef double* dl
    cdef double* d_row
    cdef double* d_inner = inner + arcs.n_arcs + 1
    cdef const double* p = potential
    cdef double z, x, g, growth, scale = 1
    log_z[0] = NAN
    if right_start == NULL or right == NULL or left_start == NULL or left == NULL:
        return -1
    if n_left == NULL or inner == NULL or r == NULL:
        return -1
    for a in range(arcs.n_arcs):
        if arcs.head[a] > 0:
            (right_start if arcs.mod[a] > arcs.head[a] else left_start)[arcs.head[a] + 1] += 1
    for i in range(n + 1):
        right_start[i + 1] += right_start[i]
        left_start[i + 1] += left_start[i]
    for a in range(arcs.n_arcs):  # modifiers ascend; n_left counts for a moment
        h = arcs.head[a]
        if 0 < h < arcs.mod[a]:
            right[right_start[h] + n_left[h]] = a
            n_left[h] += 1
    spans = Spans(right_start, right, left_start, left, n_left, inner, r, l, lt)
    z = _inside(arcs, p, scale, &spans)
    for attempt in range(RESCALINGS):
        if 1e-250 < z < 1e250:
            break
        growth = span_growth(r, l, n)
        if not fabs(growth) * n > 1:
            break
        scale *= exp(-growth)
        z = _inside(arcs, p, scale, &spans)
    if not (z > 0 and isfinite(z)):
        return 0
    log_z[0] = log(z) - n * log(scale)
    dr = <double*>take_zeros(arena, (2 * cells + w) * sizeof(double))
    if dr == NULL:
        return -1
    dl = dr + cells
    d_row = dl + cells
    for m in range(1, n + 1):
        a = arcs.start[m]
        if arcs.head[a] == 0:
            x = scale * p[a]
            mu[a] = x * l[m * w + 1] * r[m * w + n] / z
            dl[m * w + 1] += x * r[m * w + n]
            dr[m * w + n] += x * l[m * w + 1]
    for i in range(1, n + 1):
        for j in range(i, n + 1):
            d_row[j] = dl[j * w + i]
        for j in range(n, i, -1):
            x = d_row[j]
            if x != 0:
                for k in range(left_start[j], left_start[j] + n_left[j]):
                    b = left[k]
                    d_inner[b] += x * lt[i * w + arcs.mod[b]]
                    d_row[arcs.mod[b]] += x * inner[b]
        at, to = right_start[i + 1] - 1, arcs.start[i + 1] - 1
        while at >= right_start[i] or (to >= arcs.start[i] and arcs.head[to] > i):
            a = right[at] if at >= right_start[i] else -1
            b = to if to >= arcs.start[i] and arcs.head[to] > i else -1
            j = max(arcs.mod[a] if a >= 0 else 0, arcs.head[b] if b >= 0 else 0)
            g = 0
            if a >= 0 and arcs.mod[a] == j:
                at -= 1
                d_inner[a] = dot(dr + i * w + j, r + j * w + j, n - j + 1)
                add(dr + j * w + j, inner[a], dr + i * w + j, n - j + 1)
                mu[a] = d_inner[a] * inner[a] / z
                g += d_inner[a] * p[a]
            if b >= 0 and arcs.head[b] == j:
                to -= 1
                n_left[j] -= 1
                mu[b] = d_inner[b] * inner[b] / z
                g += d_inner[b] * p[b]
            if g != 0:
                g *= scale
                add(dr + i * w + i, g, l + j * w + i + 1, j - i)
                add(dl + j * w + i + 1, g, r + i * w + i, j - i)
    return 0


cdef double span_growth(const double* right, const double* left, int n) noexcept nogil:
    """By how much the logarithm of a span (by head and end, tokens being 1..n) grows with every token,
    from the longest spans that stay in the range of doubles; nan if no span does."""
    cdef int i, span
    cdef Py_ssize_t width = n + 2
    cdef double largest, value
    for span in range(n - 1, 0, -1):
        largest = 0
        for i in range(1, n - span + 1):
            value = right[i * width + i + span] + left[(i + span) * width + i]
            if not (value <= largest):  # a nan is out of range, too: it came from an overflow
                largest = value if value == value else INFINITY
        if 1e-200 < largest < 1e200:
            return log(largest) / span
    return NAN


def arc_marginals(const double[:, ::1] potentials not None):
    """Sum over all projective trees with one root: log Z, and the probability of every arc [N+1, N+1];
    nan and zeros if no tree has a potential above 0, or none that doubles can hold.

    potentials: Of every arc (head, modifier), not negative; row 0 is the root, column 0 and the diagonal
    are not looked at.
    """
    cdef int n = potentials.shape[0] - 1, h, m, a = 0, failed = 0
    cdef double log_z = 0.0
    cdef ArcList arcs
    cdef Arena arena
    cdef double* potential
    cdef double* mu
    result = numpy.zeros((n + 1, n + 1))
    cdef double[:, ::1] out = result
    if n < 1:
        return log_z, result
    memset(&arena, 0, sizeof(arena))
    with nogil:
        arcs.n = n
        arcs.start = <int*>take_zeros(&arena, (n + 2) * sizeof(int))
        arcs.head = <int*>take(&arena, <size_t>n * n * sizeof(int))
        arcs.mod = <int*>take(&arena, <size_t>n * n * sizeof(int))
        potential = <double*>take(&arena, 2 * <size_t>n * n * sizeof(double))
        failed = arcs.start is NULL or arcs.head is NULL or arcs.mod is NULL or potential is NULL
        if not failed:
            mu = potential + <size_t>n * n
            for m in range(1, n + 1):
                for h in range(n + 1):
                    # arcs from the root stay, so that they are the first of every token
                    if h != m and (h == 0 or potentials[h, m] != 0):
                        arcs.head[a], arcs.mod[a], potential[a] = h, m, potentials[h, m]
                        a += 1
                arcs.start[m + 1] = a
            arcs.n_arcs = a
            failed = first_order_marginals(&arcs, potential, mu, &log_z, &arena)
        if not failed and isfinite(log_z):
            for a in range(arcs.n_arcs):
                out[arcs.head[a], arcs.mod[a]] = mu[a]
        arena_free(&arena)
    if failed:
        raise MemoryError()
    return log_z, result
