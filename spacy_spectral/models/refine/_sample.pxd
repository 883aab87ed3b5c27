# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Drawing the state of a token given all others (see `_gibbs`).

Its events are its own, the one of the sibling after it, and its children's. Counts of these are taken away
first; in the few states in which some of them share a context they are put back one by one, elsewhere they
do not depend on each other but for repetitions, which are the same for all states.
"""
from libc.math cimport exp, log
from libc.stdint cimport int32_t, uint64_t

from ._chain cimport (
    INDEPENDENT, MARKOV, NONE, SIMULTANEOUS, Chain, hash_place, list_count, list_share, pair,
    pair_by_head, probability, put, put_list, put_own, put_token, state_after,
    state_before, triple, triple_by_head,
)
from ...base._random cimport beta_draw, uniform


cdef inline double put_children(Chain* chain, int t, int n, double* value) noexcept nogil:
    """Count the events of a token's children and the ends of their lists, for models of single children.

    value (double*): Multiplied with the probability of every event given those before it; may be NULL.
    RETURNS (double): The logarithm of what was taken out of it, so that it stays in range.
    """
    cdef int side, m, outcome, last, k = chain.z[t]
    cdef double log_value = 0
    for side in range(2):
        if not chain.counted[2 * t + side]:
            continue
        outcome, m = chain.capacity, chain.first[2 * t + side]
        while True:
            last = outcome
            outcome = chain.z[m] if m != NONE else chain.capacity
            if value != NULL:
                value[0] *= probability(chain, side, k, last, outcome)
            put(chain, side, k, last, outcome, n)
            if m == NONE:
                break
            m = chain.following[m]
            if value != NULL and value[0] < 1e-200:
                log_value += log(value[0])
                value[0] = 1
    return log_value


cdef inline void put_around(Chain* chain, int t, int n) noexcept nogil:
    """Count all events that a token's state takes part in."""
    cdef int h = chain.head[t], side
    put_own(chain, t, n)
    if chain.kind == SIMULTANEOUS:
        if h >= 0:
            put_list(chain, chain.side[t], chain.z[h], chain.list_hash[2 * h + chain.side[t]], n)
        for side in range(2):
            if chain.counted[2 * t + side]:
                put_list(chain, side, chain.z[t], chain.list_hash[2 * t + side], n)
        return
    if chain.kind == MARKOV and h >= 0:
        put(chain, chain.side[t], chain.z[h], chain.z[t], state_after(chain, t), n)
    put_children(chain, t, n, NULL)


cdef inline double one_by_one(Chain* chain, int t, int k) noexcept nogil:
    """log P of all events around a token in state k, each given those before it, and of its word."""
    cdef int h = chain.head[t], old = chain.z[t]
    cdef double value = 1, log_value
    chain.z[t] = k
    if h >= 0:
        value *= probability(chain, chain.side[t], chain.z[h], state_before(chain, t), k)
        put(chain, chain.side[t], chain.z[h], state_before(chain, t), k, 1)
        if chain.kind == MARKOV:
            value *= probability(chain, chain.side[t], chain.z[h], k, state_after(chain, t))
            put(chain, chain.side[t], chain.z[h], k, state_after(chain, t), 1)
    log_value = put_children(chain, t, 1, &value)
    # and away again
    if h >= 0:
        put(chain, chain.side[t], chain.z[h], state_before(chain, t), k, -1)
        if chain.kind == MARKOV:
            put(chain, chain.side[t], chain.z[h], k, state_after(chain, t), -1)
    put_children(chain, t, -1, NULL)
    chain.z[t] = old
    value *= (chain.words[<size_t>chain.word[t] * chain.capacity + k] + chain.rho) / (
        chain.size[k] + chain.rho * chain.vocabulary[chain.tag[t]])
    return log_value + log(value)


cdef inline void times(
    Chain* chain, int n, const int32_t *counts, const int32_t *totals, double more, double total
) noexcept nogil:
    """Multiply the weights of all candidates k with (counts[k] + more) / (totals[k] + total)."""
    cdef int i, k
    for i in range(n):
        k = chain.candidate[i]
        chain.numerator[i] *= counts[k] + more
        chain.denominator[i] *= totals[k] + total


cdef inline void settle(Chain* chain, int n) noexcept nogil:
    """Divide, so that products of many factors stay in range."""
    cdef int i
    cdef double largest = 0
    for i in range(n):
        chain.weight[i] *= chain.numerator[i] / chain.denominator[i]
        chain.numerator[i] = chain.denominator[i] = 1
        largest = max(largest, chain.weight[i])
    if largest > 0:
        for i in range(n):
            chain.weight[i] /= largest


cdef inline void weigh_children(Chain* chain, int t, int n) noexcept nogil:
    """Children of a token for all of its states. Events before an equal one in the list raise its count;
    how often does not hang on the state."""
    cdef int side, m, other, state, last, same, before, other_last, done, factors = 0
    cdef double share
    for side in range(2):
        if not chain.counted[2 * t + side]:
            continue
        last, done = chain.capacity, 0
        m = chain.first[2 * t + side]
        while True:
            state = chain.capacity if m == NONE else chain.z[m]
            same, before = 0, done
            if chain.kind == MARKOV:
                before = 0
            other, other_last = chain.first[2 * t + side], chain.capacity
            while other != m:
                if chain.kind == INDEPENDENT:
                    same += chain.z[other] == state
                elif other_last == last:
                    before += 1
                    same += chain.z[other] == state
                other_last, other = chain.z[other], chain.following[other]
            share = chain.beta_stop if m == NONE else chain.beta[state]
            if chain.kind == INDEPENDENT:
                times(chain, 
                    n, chain.by_head + pair_by_head(chain, side, state),
                    chain.total + <size_t>side * chain.capacity,
                    same + chain.alpha * share, before + chain.alpha)
            else:
                times(chain, 
                    n, chain.by_head + triple_by_head(chain, side, last, state),
                    chain.total_by_head + pair_by_head(chain, side, last),
                    same + chain.alpha * share, before + chain.alpha)
            factors += 1
            if factors % 8 == 0:
                settle(chain, n)
            if m == NONE:
                break
            last, done, m = state, done + 1, chain.following[m]


cdef inline void weigh_single(Chain* chain, int t, int n) noexcept nogil:
    """Weights of all candidates by models of single children."""
    cdef int i, k, h = chain.head[t], before, after
    cdef double share
    cdef const int32_t *row
    if h >= 0:
        before, after = state_before(chain, t), state_after(chain, t)
        if chain.kind == INDEPENDENT:
            row = chain.by_outcome + pair(chain, chain.side[t], chain.z[h], 0)
        else:
            row = chain.by_outcome + triple(chain, chain.side[t], chain.z[h], before)
        for i in range(n):
            k = chain.candidate[i]
            chain.numerator[i] *= row[k] + chain.alpha * chain.beta[k]
        if chain.kind == MARKOV:
            share = chain.beta_stop if after == chain.capacity else chain.beta[after]
            times(chain, 
                n, chain.by_previous + triple(chain, chain.side[t], chain.z[h], after),
                chain.total + pair(chain, chain.side[t], chain.z[h], 0),
                chain.alpha * share, chain.alpha)
    weigh_children(chain, t, n)
    settle(chain, n)


cdef inline int place_of(Chain* chain, int t) noexcept nogil:
    """Where a token stands in the list of its head's children."""
    cdef int place = 0, m = chain.first[2 * chain.head[t] + chain.side[t]]
    while m != t:
        place += 1
        m = chain.following[m]
    return place


cdef inline void weigh_lists(Chain* chain, int t, int n) noexcept nogil:
    """Weights of all candidates by the model of whole lists."""
    cdef int i, k, h = chain.head[t], side, place = 0, count
    cdef uint64_t others = 0, own
    cdef double rest = 0, value
    cdef double[2] share
    cdef bint own_context
    for side in range(2):
        share[side] = list_share(chain, t, side, NONE)
    if h >= 0:
        place = place_of(chain, t)
        others = chain.list_hash[2 * h + chain.side[t]] ^ hash_place(chain, place, chain.z[t])
        rest = list_share(chain, h, chain.side[t], t)
    for i in range(n):
        k = chain.candidate[i]
        value = 1
        own = others ^ hash_place(chain, place, k)
        if h >= 0:
            value *= list_count(chain, chain.side[t], chain.z[h], own) + (
                chain.alpha * rest * chain.beta[k])
        for side in range(2):
            if not chain.counted[2 * t + side]:
                continue
            count = list_count(chain, side, k, chain.list_hash[2 * t + side])
            # the list that the token stands in has been generated just before
            own_context = h >= 0 and k == chain.z[h] and side == chain.side[t]
            if own_context and own == chain.list_hash[2 * t + side]:
                count += 1
            value *= (count + chain.alpha * share[side]) / (
                chain.total[<size_t>side * chain.capacity + k] + own_context + chain.alpha)
        chain.numerator[i] *= value
    settle(chain, n)


cdef inline int draw(Chain* chain, int n) noexcept nogil:
    cdef double total = 0, at
    cdef int i
    for i in range(n):
        total += chain.weight[i]
    at = uniform(&chain.random) * total
    for i in range(n):
        at -= chain.weight[i]
        if at < 0:
            return i
    return n - 1


cdef inline void sample_token(Chain* chain, int t) noexcept nogil:
    cdef int i, k, n = 0, free = NONE, h = chain.head[t], old = chain.z[t], tag = chain.tag[t], place
    cdef double vocabulary = chain.rho * chain.vocabulary[tag], u
    cdef const int32_t *words = chain.words + <size_t>chain.word[t] * chain.capacity
    put_around(chain, t, -1)
    put_token(chain, t, old, -1)
    if chain.size[old] == 0:
        # nobody else is in it: its share is that of new states
        chain.tag_of[old] = NONE
        chain.beta_new += chain.beta[old]
        chain.beta[old] = 0
        chain.n_alive -= 1
    for k in range(chain.capacity):
        if chain.tag_of[k] == tag:
            chain.candidate[n] = k
            n += 1
        elif free == NONE and chain.tag_of[k] == NONE:
            free = k
    # there is always a free number, but the last one is not given away
    if chain.n_alive < chain.capacity - 1:
        chain.candidate[n] = free
        chain.beta[free] = chain.beta_new
        n += 1
    for i in range(n):
        k = chain.candidate[i]
        chain.weight[i] = 1
        chain.numerator[i] = words[k] + chain.rho
        chain.denominator[i] = chain.size[k] + vocabulary
        if h < 0:
            chain.numerator[i] *= (
                chain.roots[(0 if h == NONE else chain.capacity) + k] + chain.alpha * chain.beta[k])
    if chain.kind == SIMULTANEOUS:
        weigh_lists(chain, t, n)
    else:
        weigh_single(chain, t, n)
        if h >= 0:
            mend(chain, t, n)
    i = draw(chain, n)
    k = chain.candidate[i]
    if free != NONE:
        chain.beta[free] = 0
    if chain.tag_of[k] == NONE:
        u = beta_draw(&chain.random, 1.0, chain.gamma)
        chain.beta[k] = u * chain.beta_new
        chain.beta_new *= 1 - u
        chain.n_alive += 1
    if chain.kind == SIMULTANEOUS and h >= 0:
        place = place_of(chain, t)
        chain.list_hash[2 * h + chain.side[t]] ^= (
            hash_place(chain, place, old) ^ hash_place(chain, place, k))
    chain.z[t] = k
    put_token(chain, t, k, 1)
    put_around(chain, t, 1)


cdef inline bint shares_context(Chain* chain, int t, int k) noexcept nogil:
    return k == chain.z[chain.head[t]] or (chain.kind == MARKOV and k == state_before(chain, t))


cdef inline void mend(Chain* chain, int t, int n) noexcept nogil:
    """Events share a context where a token is in the state of its head or of the sibling before it: there
    the weight is computed one by one, against that of a candidate whose weight is right."""
    cdef int i, reference = NONE
    cdef double log_scale, highest = 0
    for i in range(n):
        if not shares_context(chain, t, chain.candidate[i]) and chain.weight[i] > highest:
            reference, highest = i, chain.weight[i]
    if reference != NONE:
        log_scale = log(highest) - one_by_one(chain, t, chain.candidate[reference])
    else:
        log_scale = -1e300
        for i in range(n):
            log_scale = max(log_scale, one_by_one(chain, t, chain.candidate[i]))
        log_scale = -log_scale
    for i in range(n):
        if shares_context(chain, t, chain.candidate[i]):
            chain.weight[i] = exp(log_scale + one_by_one(chain, t, chain.candidate[i]))
