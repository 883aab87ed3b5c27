# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages in trees (see `_tree`), and subtrees that several trees share, which are computed once.

A subtree is known by a number: that of its top token alone, or of a smaller subtree and the child that was added
to it.
"""
from libc.math cimport fabs, isfinite, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset


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
