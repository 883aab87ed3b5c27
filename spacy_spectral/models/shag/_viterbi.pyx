# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The best tree together with its hidden states: the chart of `_chart.pyx` with max for sum, in logs.

Only automata with non-negative parameters have such a best path; `_chart.pyx` explains the items.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy

from ...trees._sides cimport LEFT, RIGHT


cdef struct BestHalf:
    double* C           # [h, e, width]
    double* I           # [h, e, states]
    double* Q           # [h, e]
    int* previous_C     # [h, e, width]: the last modifier
    int* previous_I     # [h, e, states]: the state before it
    int* previous_S     # [h, e, width]: where the head's half ended before it
    int* state_Q        # [h, e]: the state in which the half stopped


cdef struct Task:
    int direction
    int head
    int end
    int state


cdef int _allocate(BestHalf* half, int n, int width, int states) noexcept nogil:
    cdef size_t cells = <size_t>n * n
    cdef size_t k
    half.C = <double*>malloc(cells * (width + states + 1) * sizeof(double))
    half.previous_C = <int*>calloc(cells * (2 * width + states + 1), sizeof(int))
    if half.C is NULL or half.previous_C is NULL:
        return -1
    half.I = half.C + cells * width
    half.Q = half.I + cells * states
    half.previous_S = half.previous_C + cells * width
    half.previous_I = half.previous_S + cells * width
    half.state_Q = half.previous_I + cells * states
    for k in range(cells * (width + states + 1)):
        half.C[k] = -INFINITY
    return 0


cdef void _finish(BestHalf* half, const double* stop, int n, int width, int head, int end) noexcept nogil:
    cdef size_t cell = <size_t>head * n + end
    cdef int k
    cdef double value
    for k in range(width):
        value = stop[k] + half.C[cell * width + k]
        if value > half.Q[cell]:
            half.Q[cell] = value
            half.state_Q[cell] = k


cdef void _attach(
    BestHalf* half, BestHalf* other, int n, int classes, int states, const double* op, const double* w,
    double* best, int head, int modifier
) noexcept nogil:
    """S[h,m] and I[h,m]; `best` is scratch for S."""
    cdef int width = classes * states
    cdef int step = 1 if modifier > head else -1
    cdef size_t cell = <size_t>head * n + modifier
    cdef size_t source
    cdef int x = head, k, a, b
    cdef double value, inward
    for k in range(width):
        best[k] = -INFINITY
    while x != modifier:
        source = <size_t>head * n + x
        inward = other.Q[<size_t>modifier * n + x + step]
        for k in range(width):
            value = half.C[source * width + k] + inward
            if value > best[k]:
                best[k] = value
                half.previous_S[cell * width + k] = x
        x += step
    for a in range(states):
        for b in range(width):
            value = op[a * states + b % states] + w[b // states] + best[b]
            if value > half.I[cell * states + a]:
                half.I[cell * states + a] = value
                half.previous_I[cell * states + a] = b


cdef void _complete(
    BestHalf* half, int n, int classes, int states, const int* word_class, int head, int end
) noexcept nogil:
    """C[h,e] over the last modifier x."""
    cdef int width = classes * states
    cdef int step = 1 if end > head else -1
    cdef size_t cell = <size_t>head * n + end
    cdef int x = head, a, k
    cdef double value, outward
    while x != end:
        x += step
        outward = half.Q[<size_t>x * n + end]
        for a in range(states):
            k = word_class[x] * states + a
            value = half.I[(<size_t>head * n + x) * states + a] + outward
            if value > half.C[cell * width + k]:
                half.C[cell * width + k] = value
                half.previous_C[cell * width + k] = x


cdef int _read(BestHalf* halves, int n, int classes, int states, int root, int* heads) noexcept nogil:
    """Follow the pointers from the root's two halves."""
    cdef int width = classes * states
    cdef Task* stack = <Task*>malloc((2 * n + 2) * sizeof(Task))
    cdef Task task
    cdef int top = 2, x, before, state, inner
    cdef size_t cell
    if stack is NULL:
        return -1
    stack[0] = Task(LEFT, root, 0, halves[LEFT].state_Q[<size_t>root * n])
    stack[1] = Task(RIGHT, root, n - 1, halves[RIGHT].state_Q[<size_t>root * n + n - 1])
    while top > 0:
        top -= 1
        task = stack[top]
        if task.head == task.end:
            continue
        cell = <size_t>task.head * n + task.end
        x = halves[task.direction].previous_C[cell * width + task.state]
        heads[x] = task.head + 1
        stack[top] = Task(
            task.direction, x, task.end, halves[task.direction].state_Q[<size_t>x * n + task.end])
        cell = <size_t>task.head * n + x
        state = halves[task.direction].previous_I[cell * states + task.state % states]
        before = halves[task.direction].previous_S[cell * width + state]
        inner = before + (1 if task.direction == RIGHT else -1)
        stack[top + 1] = Task(
            1 - task.direction, x, inner, halves[1 - task.direction].state_Q[<size_t>x * n + inner])
        stack[top + 2] = Task(task.direction, task.head, before, state)
        top += 3
    free(stack)
    return 0


def viterbi(
    const int[::1] symbols not None,
    const int[::1] word_class not None,
    const double[:, :, ::1] log_start not None,
    const double[:, :, :, :, ::1] log_operators not None,
    const double[:, :, ::1] log_weights not None,
    const double[:, :, ::1] log_stop not None,
    const double[::1] log_root not None,
):
    """The best tree and hidden states of one sentence; arguments as in `inside_outside`, in logs.

    RETURNS (Tuple[ndarray, float]): Head of every token (1-based, 0 is the root), and the log score.
    """
    cdef int n = symbols.shape[0]
    cdef int states = log_operators.shape[4]
    cdef int classes = log_weights.shape[2]
    cdef int width = classes * states
    cdef int span, i, j, k, root = 0, status = 0
    cdef double value, best = -INFINITY
    cdef BestHalf[2] halves
    scratch_array = numpy.zeros(width)
    cdef double[::1] scratch = scratch_array
    heads_array = numpy.zeros(n, dtype="int32")
    cdef int[::1] heads = heads_array
    memset(halves, 0, sizeof(halves))
    with nogil:
        status = _allocate(&halves[LEFT], n, width, states)
        if status == 0:
            status = _allocate(&halves[RIGHT], n, width, states)
        if status == 0:
            for i in range(n):
                for k in range(states):
                    for j in range(2):
                        halves[j].C[(<size_t>i * n + i) * width + k] = log_start[symbols[i], j, k]
                for j in range(2):
                    _finish(&halves[j], &log_stop[i, j, 0], n, width, i, i)
            for span in range(1, n):
                for i in range(n - span):
                    j = i + span
                    _attach(&halves[RIGHT], &halves[LEFT], n, classes, states,
                            &log_operators[symbols[i], RIGHT, symbols[j], 0, 0],
                            &log_weights[i, j, 0], &scratch[0], i, j)
                    _attach(&halves[LEFT], &halves[RIGHT], n, classes, states,
                            &log_operators[symbols[j], LEFT, symbols[i], 0, 0],
                            &log_weights[j, i, 0], &scratch[0], j, i)
                    _complete(&halves[RIGHT], n, classes, states, &word_class[0], i, j)
                    _complete(&halves[LEFT], n, classes, states, &word_class[0], j, i)
                    _finish(&halves[RIGHT], &log_stop[i, RIGHT, 0], n, width, i, j)
                    _finish(&halves[LEFT], &log_stop[j, LEFT, 0], n, width, j, i)
            for i in range(n):
                value = (log_root[i] + halves[LEFT].Q[<size_t>i * n]
                         + halves[RIGHT].Q[<size_t>i * n + n - 1])
                if value > best:
                    best = value
                    root = i
            if best != -INFINITY:
                heads[root] = 0
                status = _read(&halves[0], n, classes, states, root, &heads[0])
        for j in range(2):
            free(halves[j].C)
            free(halves[j].previous_C)
    if status != 0:
        raise MemoryError()
    return heads_array, best
