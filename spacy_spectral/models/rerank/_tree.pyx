# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The recursion of the latent tree model: many trees of one sentence at once, and expectations.

Trees are arrays of heads: token i (from 1) hangs on heads[i - 1], 0 is the root. Arrays of vectors have a
row for each token. With emissions o_i(h) = P(word of i | h), transitions T_d(h, c) = P(child state c |
parent state h, direction d) and P(root state h) = pi(h):

    s_i = o_i * prod_{children j of i} T_{d(j)} s_j          p(tree) = pi' s_root

All elementwise, so the order of children does not matter. Vectors are rescaled at every token and the
logarithm is carried along.
"""
import numpy

from libc.math cimport fabs, isfinite, log
from libc.string cimport memcpy, memset

from ...trees._sides cimport LEFT, RIGHT

cdef inline void multiply_message(
    const double *upward, const double *state, double *message, int k
) noexcept nogil:
    """message = T s; upward[c, h] = T(h, c), so that the inner loop runs along memory."""
    cdef int h, c
    memset(message, 0, k * sizeof(double))
    for c in range(k):
        for h in range(k):
            message[h] += upward[c * k + h] * state[c]


cdef inline double rescale(double *vector, int k) noexcept nogil:
    """Divide by the largest absolute value and give its logarithm; a vector of zeros stays."""
    cdef int h
    cdef double largest = 0
    for h in range(k):
        largest = max(largest, fabs(vector[h]))
    if largest == 0 or not isfinite(largest):
        return 0
    for h in range(k):
        vector[h] /= largest
    return log(largest)


cdef inline int bottom_up(const int *heads, int n, int *order, int *degree) noexcept nogil:
    """Tokens with a head >= 0, children before their heads. How many there are: fewer than all if the
    heads have a cycle."""
    cdef int i, done = 0, n_ready = 0
    memset(degree, 0, n * sizeof(int))
    for i in range(n):
        if heads[i] > 0:
            degree[heads[i] - 1] += 1
    # from the last to the first token: the order of equal tokens is fixed, results are reproducible
    for i in range(n - 1, -1, -1):
        if heads[i] >= 0 and degree[i] == 0:
            order[n_ready] = i
            n_ready += 1
    while done < n_ready:
        i = order[done]
        done += 1
        if heads[i] > 0:
            degree[heads[i] - 1] -= 1
            if degree[heads[i] - 1] == 0:
                order[n_ready] = heads[i] - 1
                n_ready += 1
    return done


cdef struct Messages:
    # of the tokens of one tree
    double *states      # [n, k]: s
    double *messages    # [n, k]: T s, to the head
    double *logs        # [n]: what s was divided by


cdef inline Messages messages_in(double *memory, int n, int k) noexcept nogil:
    """memory: At least `(2 k + 1) n` numbers."""
    cdef Messages result
    result.states, result.messages, result.logs = memory, memory + n * k, memory + 2 * n * k
    return result


cdef inline void begin(Messages *tree, int i, const double *emission, int k) noexcept nogil:
    """A token alone."""
    memcpy(tree.states + i * k, emission, k * sizeof(double))
    tree.logs[i] = rescale(tree.states + i * k, k)


cdef inline void send(Messages *tree, int i, int head, const double *upward, int k) noexcept nogil:
    multiply_message(
        upward + (LEFT if i < head else RIGHT) * k * k, tree.states + i * k, tree.messages + i * k, k)


cdef inline void receive(
    Messages *tree, int head, const Messages *child, int i, int k
) noexcept nogil:
    """Add a child, which may be of another tree, to its head."""
    cdef int h
    cdef double *state = tree.states + head * k
    for h in range(k):
        state[h] *= child.messages[i * k + h]
    tree.logs[head] += child.logs[i]
    tree.logs[head] += rescale(state, k)


def score_trees(
    const int[:, ::1] symbols not None,
    const int[:, ::1] heads not None,
    const double[:, ::1] emissions not None,
    const double[:, :, ::1] upward not None,
    const double[::1] root not None,
):
    """log |p(tree)|, -inf for zero, and its sign for trees (int[trees, n]) of one sentence; NaN for
    heads that are not a tree with one root.

    Trees are nearly alike: what is below a token is computed again only where it differs from the first
    tree. emissions (float[symbols, k]): P(symbol | state); upward: T_L and T_R, by child state, then
    parent state.
    """
    cdef int n = heads.shape[1], n_trees = heads.shape[0], k = root.shape[0]
    logs_array, signs_array = numpy.full(n_trees, numpy.nan), numpy.zeros(n_trees)
    cdef double[::1] logs = logs_array, signs = signs_array
    cdef double[:, ::1] memory = numpy.empty((2, max((2 * k + 1) * n, 1)))
    cdef int[:, ::1] places = numpy.empty((3, n + 1), dtype="intc")
    cdef int *order = &places[0, 0]
    cdef int *is_new = &places[1, 1]    # from -1, the head of roots
    cdef int *degree = &places[2, 0]
    cdef Messages first = messages_in(&memory[0, 0], n, k), other = messages_in(&memory[1, 0], n, k)
    cdef Messages *tree
    cdef Messages *child
    cdef int t, h, i, at, head, top, known = -1
    cdef double value
    for t in range(n_trees if n else 0):
        if bottom_up(&heads[t, 0], n, order, degree) < n:
            continue
        tree, top = &other, -1
        if known < 0:
            tree = &first
        for i in range(-1, n):
            is_new[i] = known < 0 or (i >= 0 and symbols[t, i] != symbols[known, i])
        for i in range(n):
            if known >= 0 and heads[t, i] != heads[known, i]:
                is_new[heads[t, i] - 1] = is_new[heads[known, i] - 1] = True
        for at in range(n):
            i = order[at]
            if is_new[i]:
                is_new[heads[t, i] - 1] = True
                begin(tree, i, &emissions[symbols[t, i], 0], k)
        for at in range(n):
            i, head = order[at], heads[t, order[at]] - 1
            child = tree if is_new[i] else &first
            if head < 0:
                top = i if top < 0 else n
            elif is_new[head]:
                if is_new[i]:
                    send(tree, i, head, &upward[0, 0, 0], k)
                elif (i < head) != (i < heads[known, i] - 1):
                    # on another side than in the first tree, whose root is always new if it has a head here
                    memcpy(other.states + i * k, first.states + i * k, k * sizeof(double))
                    other.logs[i], child = first.logs[i], &other
                    send(&other, i, head, &upward[0, 0, 0], k)
                receive(tree, head, child, i, k)
        if top < 0 or top == n:
            continue
        tree = tree if is_new[top] else &first
        if known < 0:
            known = t
        value = 0
        for h in range(k):
            value += root[h] * tree.states[top * k + h]
        logs[t] = tree.logs[top] + log(fabs(value))
        signs[t] = (value > 0) - (value < 0)
    return logs_array, signs_array


cdef double inside_outside(
    const double *emissions,
    const int *heads,
    const int *order,
    int n_ordered,
    int k,
    const double *transitions,
    const double *upward,
    const double *root,
    Messages *tree,
    double *outside,
) noexcept nogil:
    """s_i, T s_i, and the weight of everything but what is below i, by its state; only tokens in `order`.
    Non-negative parameters. log p(tree)."""
    cdef int at, i, head, h, c
    cdef const double *transition
    cdef double *own
    cdef double *above
    cdef double total, likelihood = 0
    for at in range(n_ordered):
        begin(tree, order[at], emissions + order[at] * k, k)
    for at in range(n_ordered):
        i = order[at]
        head = heads[i] - 1
        if head >= 0:
            send(tree, i, head, upward, k)
            receive(tree, head, tree, i, k)
            continue
        total = 0
        for h in range(k):
            total += root[h] * tree.states[i * k + h]
        likelihood += tree.logs[i] + log(total)
    for at in range(n_ordered - 1, -1, -1):
        i = order[at]
        own = outside + i * k
        head = heads[i] - 1
        if head < 0:
            memcpy(own, root, k * sizeof(double))
            continue
        transition = transitions + (LEFT if i < head else RIGHT) * k * k
        memset(own, 0, k * sizeof(double))
        above = outside + head * k
        for h in range(k):
            if tree.messages[i * k + h] > 0:
                total = above[h] * tree.states[head * k + h] / tree.messages[i * k + h]
                for c in range(k):
                    own[c] += total * transition[h * k + c]
        rescale(own, k)
    return likelihood


def expected_counts(
    const int[::1] symbols not None,
    const int[::1] heads not None,
    const int[::1] starts not None,
    const double[:, ::1] emissions not None,
    const double[:, :, ::1] transitions not None,
    const double[:, :, ::1] upward not None,
    const double[::1] root not None,
    double[:, ::1] emission_counts not None,
    double[:, :, ::1] transition_counts not None,
    double[::1] root_counts not None,
):
    """The E step of EM: add expected counts of states, given complete trees, one after the other, and
    non-negative parameters. Gives the log-likelihood of the trees."""
    cdef int k = root.shape[0], s, n, i, at, head, h, c, n_ordered
    cdef int longest = numpy.diff(starts).max(initial=0)
    cdef double likelihood = 0, total, weight
    cdef double[::1] numbers = numpy.empty((2 * k + 1) * longest + 2 * longest * k + k)
    cdef int[::1] places = numpy.empty(2 * longest + 2, dtype="intc")
    cdef Messages tree = messages_in(&numbers[0], longest, k)
    cdef double *work = tree.logs + longest
    cdef double *outside = work + longest * k
    cdef double *local = outside + longest * k
    cdef double *inside = tree.states
    cdef double *messages = tree.messages
    cdef int *order = &places[0]
    cdef const double *transition
    cdef double *counts
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            for i in range(n):
                memcpy(work + i * k, &emissions[symbols[starts[s] + i], 0], k * sizeof(double))
            n_ordered = bottom_up(&heads[starts[s]], n, order, order + n)
            likelihood += inside_outside(
                work, &heads[starts[s]], order, n_ordered, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], &tree, outside,
            )
            for at in range(n_ordered):
                i = order[at]
                total = 0
                for h in range(k):
                    local[h] = inside[i * k + h] * outside[i * k + h]
                    total += local[h]
                if total <= 0:
                    continue
                for h in range(k):
                    emission_counts[symbols[starts[s] + i], h] += local[h] / total
                head = heads[starts[s] + i] - 1
                if head < 0:
                    for h in range(k):
                        root_counts[h] += local[h] / total
                    continue
                c = LEFT if i < head else RIGHT
                transition, counts = &transitions[c, 0, 0], &transition_counts[c, 0, 0]
                total = 0
                for h in range(k):
                    local[h] = 0
                    if messages[i * k + h] > 0:
                        # all of the head but this child
                        local[h] = outside[head * k + h] * inside[head * k + h] / messages[i * k + h]
                    total += local[h] * messages[i * k + h]
                if total <= 0:
                    continue
                for h in range(k):
                    weight = local[h] / total
                    for c in range(k):
                        counts[h * k + c] += weight * transition[h * k + c] * inside[i * k + c]
    return likelihood


def head_probabilities(
    const double[:, ::1] emissions not None,
    const int[::1] heads not None,
    const double[:, :, ::1] transitions not None,
    const double[:, :, ::1] upward not None,
    const double[::1] root not None,
):
    """[n, n] by token and head: the probability of each possible head, given the rest of the tree; zeros
    for the root.

    Token i with all that is below it is cut off; what is left gives every token j a distribution of
    states q_j, and i fits under j with the weight q_j' T s_i.
    """
    cdef int n = emissions.shape[0], k = emissions.shape[1], i, j, h, at, n_all, n_ordered, direction
    result_array = numpy.zeros((n, n))
    cdef double[:, ::1] result = result_array
    cdef double total, fit, weight
    cdef double[::1] numbers = numpy.empty((2 * k + 1) * n + (n + 2) * k)
    cdef int[::1] places = numpy.empty(5 * n + 1, dtype="intc")
    cdef Messages tree = messages_in(&numbers[0], n, k)
    cdef double *outside = tree.logs + n
    cdef double *below = outside + n * k
    cdef int *order = &places[0]
    cdef int *rest = order + 2 * n
    cdef int *cut = order + 4 * n
    cdef double *inside = tree.states
    with nogil:
        n_all = bottom_up(&heads[0], n, order, order + n)
        for i in range(n):
            if heads[i] <= 0:
                continue
            inside_outside(
                &emissions[0, 0], &heads[0], order, n_all, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], &tree, outside,
            )
            for direction in range(2):
                multiply_message(&upward[direction, 0, 0], inside + i * k, below + direction * k, k)
            # heads come after their children in `order`, so downwards from the end
            n_ordered = 0
            for at in range(n_all - 1, -1, -1):
                j = order[at]
                cut[j] = 1 if j == i or (heads[j] > 0 and cut[heads[j] - 1]) else 0
            for at in range(n_all):
                if not cut[order[at]]:
                    rest[n_ordered] = order[at]
                    n_ordered += 1
            inside_outside(
                &emissions[0, 0], &heads[0], rest, n_ordered, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], &tree, outside,
            )
            total = 0
            for at in range(n_ordered):
                j = rest[at]
                direction = LEFT if i < j else RIGHT
                fit = weight = 0
                for h in range(k):
                    weight += inside[j * k + h] * outside[j * k + h]
                    fit += inside[j * k + h] * outside[j * k + h] * below[direction * k + h]
                result[i, j] = fit / weight if weight > 0 else 0
                total += result[i, j]
            if total > 0:
                for j in range(n):
                    result[i, j] /= total
    return result_array
