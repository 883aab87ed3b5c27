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
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from ...trees._sides cimport LEFT, RIGHT

# Messages in trees (see `_tree`), and subtrees that several trees share, which are computed once.
#
# A subtree is known by a number: that of its top token alone, or of a smaller subtree and the child that was added
# to it.

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


cdef struct Subtrees:
    int k
    int n_used
    int n_space
    double *states  # [n, k]
    double *logs
    double *messages  # [n, 2, k], to a head on the right (as its LEFT child) and on the left
    char *has_message  # [n, 2]
    int n_slots
    uint64_t *keys  # what a subtree is made of; 0 for a free slot
    int *numbers


cdef inline int grow(Subtrees *all) noexcept nogil:
    """Make room for more subtrees; -1 if memory is short."""
    cdef int space = max(256, 2 * all.n_space), i, slot
    cdef size_t k = all.k
    cdef double *states = <double *>realloc(all.states, space * k * sizeof(double))
    if states != NULL:
        all.states = states
    cdef double *messages = <double *>realloc(all.messages, 2 * space * k * sizeof(double))
    if messages != NULL:
        all.messages = messages
    cdef double *logs = <double *>realloc(all.logs, space * sizeof(double))
    if logs != NULL:
        all.logs = logs
    cdef char *has_message = <char *>realloc(all.has_message, 2 * space)
    if has_message != NULL:
        all.has_message = has_message
    cdef uint64_t *keys = <uint64_t *>calloc(4 * space, sizeof(uint64_t))
    cdef int *numbers = <int *>malloc(4 * space * sizeof(int))
    if states == NULL or messages == NULL or logs == NULL or has_message == NULL \
            or keys == NULL or numbers == NULL:
        free(keys)
        free(numbers)
        return -1
    for i in range(all.n_slots):
        if all.keys[i]:
            slot = find_slot(keys, 4 * space, all.keys[i])
            keys[slot] = all.keys[i]
            numbers[slot] = all.numbers[i]
    free(all.keys)
    free(all.numbers)
    all.keys, all.numbers = keys, numbers
    all.n_slots, all.n_space = 4 * space, space
    return 0


cdef inline void release(Subtrees *all) noexcept nogil:
    free(all.states)
    free(all.messages)
    free(all.logs)
    free(all.has_message)
    free(all.keys)
    free(all.numbers)


cdef inline int find_slot(const uint64_t *keys, int n_slots, uint64_t key) noexcept nogil:
    cdef uint64_t mixed = key * <uint64_t>0x9E3779B97F4A7C15
    cdef int slot = <int>((mixed >> 32) & <uint64_t>(n_slots - 1))
    while keys[slot] and keys[slot] != key:
        slot = (slot + 1) & (n_slots - 1)
    return slot


cdef inline int look_up(Subtrees *all, uint64_t key, bint *is_new) noexcept nogil:
    """The number of the subtree with this key, a new one if it is not known; -1 if memory is short."""
    cdef int slot, number = all.n_used
    if all.n_used == all.n_space and grow(all):
        return -1
    slot = find_slot(all.keys, all.n_slots, key)
    is_new[0] = not all.keys[slot]
    if not is_new[0]:
        return all.numbers[slot]
    all.keys[slot], all.numbers[slot] = key, number
    all.has_message[2 * number] = all.has_message[2 * number + 1] = 0
    all.n_used += 1
    return number


cdef inline int single_token(Subtrees *all, int token, int symbol, const double *emission) noexcept nogil:
    """The subtree of a token alone."""
    cdef bint is_new
    # the highest bit: subtrees with children have keys without it
    cdef uint64_t key = (<uint64_t>1 << 63) | (<uint64_t>token << 32) | <uint64_t>symbol
    cdef int number = look_up(all, key, &is_new)
    if number >= 0 and is_new:
        memcpy(all.states + <size_t>number * all.k, emission, all.k * sizeof(double))
        all.logs[number] = rescale(all.states + <size_t>number * all.k, all.k)
    return number


cdef inline int add_child(
    Subtrees *all, int tree, int child, int direction, const double *upward
) noexcept nogil:
    """The subtree with one more child."""
    cdef bint is_new
    cdef int h, k = all.k
    cdef uint64_t key = ((<uint64_t>tree << 32) | <uint64_t>child) + 1
    cdef int number = look_up(all, key, &is_new)
    cdef double *message
    cdef double *state
    if number < 0 or not is_new:
        return number
    message = all.messages + <size_t>(2 * child + direction) * k
    if not all.has_message[2 * child + direction]:
        multiply_message(
            upward + direction * k * k, all.states + <size_t>child * k, message, k
        )
        all.has_message[2 * child + direction] = 1
    state = all.states + <size_t>number * k
    for h in range(k):
        state[h] = all.states[<size_t>tree * k + h] * message[h]
    all.logs[number] = all.logs[tree] + all.logs[child] + rescale(state, k)
    return number


cdef int score_tree(
    Subtrees *all,
    const int *symbols,
    const int *heads,
    int n,
    const double *emissions,
    const double *upward,
    int *work,
) noexcept nogil:
    """The number of a whole tree; -1 if memory is short, -2 if it is not a tree with one root."""
    cdef int *order = work
    cdef int *subtree = work + n
    cdef int at, i, head, top = -1
    if bottom_up(heads, n, order, subtree) < n:
        return -2
    for i in range(n):
        subtree[i] = single_token(all, i, symbols[i], emissions + <size_t>symbols[i] * all.k)
        if subtree[i] < 0:
            return -1
    for at in range(n):
        i = order[at]
        head = heads[i] - 1
        if head < 0:
            if top >= 0:
                return -2
            top = i
            continue
        subtree[head] = add_child(
            all, subtree[head], subtree[i], LEFT if i < head else RIGHT, upward
        )
        if subtree[head] < 0:
            return -1
    return subtree[top] if top >= 0 else -2


def score_trees(
    const int[:, ::1] symbols not None,
    const int[:, ::1] heads not None,
    const double[:, ::1] emissions not None,
    const double[:, :, ::1] upward not None,
    const double[::1] root not None,
):
    """log |p(tree)| and its sign for trees of one sentence.

    symbols, heads (int[trees, n]): The trees. emissions (float[symbols, k]): P(symbol | state).
    upward (float[2, k, k]): T_L and T_R, by child state, then parent state. root (float[k]): pi.
    RETURNS (Tuple[float[trees], float[trees]]): The logarithms, -inf for zero, and the signs. NaN for heads
        that are not a tree with one root.
    """
    cdef int n = heads.shape[1], n_trees = heads.shape[0], k = root.shape[0]
    logs_array, signs_array = numpy.full(n_trees, numpy.nan), numpy.zeros(n_trees)
    cdef double[::1] logs = logs_array, signs = signs_array
    cdef int[::1] work = numpy.empty(2 * n, dtype="intc")
    cdef Subtrees all
    cdef int t, h, tree = 0
    cdef double value
    if n == 0 or n_trees == 0:
        return logs_array, signs_array
    memset(&all, 0, sizeof(Subtrees))
    all.k = k
    with nogil:
        for t in range(n_trees):
            tree = score_tree(
                &all, &symbols[t, 0], &heads[t, 0], n, &emissions[0, 0], &upward[0, 0, 0], &work[0]
            )
            if tree == -1:
                break
            if tree == -2:
                continue
            value = 0
            for h in range(k):
                value += root[h] * all.states[<size_t>tree * k + h]
            logs[t] = all.logs[tree] + log(fabs(value))
            signs[t] = (value > 0) - (value < 0)
        release(&all)
    if tree == -1:
        raise MemoryError()
    return logs_array, signs_array


cdef double inside_outside(
    const double *emissions,
    const int *heads,
    const int *order,
    int n,
    int n_ordered,
    int k,
    const double *transitions,
    const double *upward,
    const double *root,
    double *inside,
    double *messages,
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
        i = order[at]
        memcpy(inside + i * k, emissions + i * k, k * sizeof(double))
    for at in range(n_ordered):
        i = order[at]
        likelihood += rescale(inside + i * k, k)
        head = heads[i] - 1
        if head < 0:
            total = 0
            for h in range(k):
                total += root[h] * inside[i * k + h]
            likelihood += log(total)
            continue
        multiply_message(
            upward + (LEFT if i < head else RIGHT) * k * k, inside + i * k, messages + i * k, k
        )
        for h in range(k):
            inside[head * k + h] *= messages[i * k + h]
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
            if messages[i * k + h] > 0:
                total = above[h] * inside[head * k + h] / messages[i * k + h]
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
    """The E step of EM: add expected counts of states, given trees.

    symbols, heads (int[tokens]), starts (int[sentences + 1]): Complete trees, one after the other.
    emissions (float[symbols, k]), transitions, root: The parameters, not negative.
    RETURNS (float): The log-likelihood of the trees.
    """
    cdef int k = root.shape[0], longest = 0, s, n, i, at, head, h, c, n_ordered
    cdef double likelihood = 0, total, weight
    cdef double *work
    cdef double *inside
    cdef double *messages
    cdef double *outside
    cdef double *local
    cdef int *order
    cdef double[::1] numbers
    cdef int[::1] places
    cdef const double *transition
    cdef double *counts
    for s in range(starts.shape[0] - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    numbers, places = numpy.empty((4 * longest + 2) * k), numpy.empty(2 * longest + 2, dtype="intc")
    work, order = &numbers[0], &places[0]
    inside = work + longest * k
    messages = inside + longest * k
    outside = messages + longest * k
    local = outside + longest * k
    with nogil:
        for s in range(starts.shape[0] - 1):
            n = starts[s + 1] - starts[s]
            for i in range(n):
                memcpy(work + i * k, &emissions[symbols[starts[s] + i], 0], k * sizeof(double))
            n_ordered = bottom_up(&heads[starts[s]], n, order, order + n)
            likelihood += inside_outside(
                work, &heads[starts[s]], order, n, n_ordered, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], inside, messages, outside,
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
    """For every token the probability of each possible head, given the rest of the tree.

    Token i with all that is below it is cut off; what is left gives every token j a distribution of states
    q_j, and i fits under j with the weight q_j' T s_i.

    RETURNS (float[n, n]): Row i by head; rows of zeros for the root.
    """
    cdef int n = emissions.shape[0], k = emissions.shape[1], i, j, h, at, n_all, n_ordered, direction
    result_array = numpy.zeros((n, n))
    cdef double[:, ::1] result = result_array
    cdef double *inside
    cdef double *messages
    cdef double *outside
    cdef double *below
    cdef int *order
    cdef int *rest
    cdef int *cut
    cdef double total, fit, weight
    cdef double[::1] numbers = numpy.empty((3 * n + 3) * k)
    cdef int[::1] places = numpy.empty(5 * n + 1, dtype="intc")
    inside, order = &numbers[0], &places[0]
    messages, outside, below = inside + n * k, inside + 2 * n * k, inside + 3 * n * k
    rest, cut = order + 2 * n, order + 4 * n
    with nogil:
        n_all = bottom_up(&heads[0], n, order, order + n)
        for i in range(n):
            if heads[i] <= 0:
                continue
            inside_outside(
                &emissions[0, 0], &heads[0], order, n, n_all, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], inside, messages, outside,
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
                &emissions[0, 0], &heads[0], rest, n, n_ordered, k, &transitions[0, 0, 0],
                &upward[0, 0, 0], &root[0], inside, messages, outside,
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
