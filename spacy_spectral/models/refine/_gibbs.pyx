# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gibbs sampling of the states of tokens in given trees: the infinite tree (Finkel, Grenager & Manning 2007).

A hierarchical Dirichlet process by direct assignment. Every context c has a distribution over outcomes, states
and STOP, drawn from DP(alpha, beta); beta, the shares of all outcomes, is drawn from a stick-breaking process
with parameter gamma. Integrating contexts out, an outcome k follows n_c others of which n_ck are the same with

    P(k | c) = (n_ck + alpha beta_k) / (n_c + alpha),

and a new state has the share beta_new that is left. What is a context, and an outcome, is the model:

    INDEPENDENT     side and head; one child, or STOP
    MARKOV          side, head and previous sibling; one child, or STOP
    SIMULTANEOUS    side and head; the whole list of children, whose share is the product of theirs

Words are drawn from a Dirichlet-multinomial of their state with parameter rho. The state of a token is drawn
given all others, then beta given how many tables there are of each outcome in each context.

States may be bound to tags: then a token is in a state of its tag, or in a new one.
"""

from libc.math cimport exp, lgamma, log
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

import numpy

from ...base._random cimport Random, beta_draw, gamma_draw, mix64, normal, seed_random, uniform

MODELS = ("independent", "markov", "simultaneous")


# The chain: states of tokens in their trees, and counts of all events. STOP and FIRST are the number `capacity`.


cdef enum:
    NONE = -1
    MISSING = -2        # as a head: it is not known; NONE is the root


cdef enum Kind:
    INDEPENDENT = 0
    MARKOV = 1
    SIMULTANEOUS = 2


cdef struct Chain:
    int n, kind, capacity, n_words
    int n_previous         # what contexts know of the sibling before: all states and FIRST, or 1 for nothing
    int mask               # of what they know: all bits, or none
    double alpha, gamma, rho, beta_new, beta_stop
    Random random
    int n_alive
    int n_tables           # of all contexts
    int n_draws            # from beta: a table of a list stands for several
    double stop_tables     # those of STOP; the tables of states are in `weight` until the shares are drawn
    int32_t* head
    int32_t* side
    int32_t* previous
    int32_t* following
    int32_t* first         # [n, 2]
    unsigned char* counted  # [n, 2]
    int32_t* word
    int32_t* tag
    int32_t* vocabulary    # [tags], how many words there are
    int32_t* z             # [n]
    double* beta           # [capacity]
    int32_t* tag_of        # [capacity], NONE if a state is free
    int32_t* size          # [capacity], tokens of a state
    int32_t* words         # [words, capacity]
    int32_t* roots         # [2, capacity], of roots and of tokens without a head
    int32_t[2] root_total
    # Counts of single children, n_previous wide where they are by the previous sibling
    int32_t* by_outcome    # [2, capacity, previous, capacity + 1]
    int32_t* by_head       # [2, previous, capacity + 1, capacity]
    int32_t* by_previous   # MARKOV: [2, capacity, capacity + 1, previous]
    int32_t* total         # [2, capacity, previous]
    int32_t* total_by_head  # [2, previous, capacity]
    # SIMULTANEOUS: lists by a hash of side, head and all children
    uint64_t* keys
    int32_t* values
    size_t n_slots
    size_t n_used
    uint64_t* list_hash    # [n, 2], of a token's children without the token itself
    # scratch
    int32_t* candidate
    double* numerator
    double* denominator
    double* weight


cdef inline int known(Chain* chain, int state) noexcept nogil:
    """What a context knows of the state of the sibling before, or of FIRST."""
    return state & chain.mask


cdef inline size_t context(Chain* chain, int side, int head, int previous) noexcept nogil:
    """Its place in `total`; that in `by_outcome` is so many rows farther."""
    return (<size_t>side * chain.capacity + head) * chain.n_previous + previous


cdef inline int32_t* outcomes_of(Chain* chain, int side, int head, int previous) noexcept nogil:
    return chain.by_outcome + context(chain, side, head, previous) * (chain.capacity + 1)


cdef inline int32_t* totals_of(Chain* chain, int side, int previous) noexcept nogil:
    """Of all heads."""
    return chain.total_by_head + (<size_t>side * chain.n_previous + previous) * chain.capacity


cdef inline int32_t* heads_of(Chain* chain, int side, int previous, int outcome) noexcept nogil:
    return chain.by_head + (
        (<size_t>side * chain.n_previous + previous) * (chain.capacity + 1) + outcome
    ) * chain.capacity


cdef inline int32_t* previous_of(Chain* chain, int side, int head, int outcome) noexcept nogil:
    return chain.by_previous + (
        (<size_t>side * chain.capacity + head) * (chain.capacity + 1) + outcome
    ) * chain.n_previous


cdef inline double share_of(Chain* chain, int outcome) noexcept nogil:
    return chain.beta_stop if outcome == chain.capacity else chain.beta[outcome]


cdef inline void put(Chain* chain, int side, int head, int previous, int outcome, int n) noexcept nogil:
    """Count an event, for models of single children."""
    previous = known(chain, previous)
    outcomes_of(chain, side, head, previous)[outcome] += n
    heads_of(chain, side, previous, outcome)[head] += n
    chain.total[context(chain, side, head, previous)] += n
    if chain.kind == MARKOV:
        # elsewhere there is one previous, and both totals are the same
        previous_of(chain, side, head, outcome)[previous] += n
        totals_of(chain, side, previous)[head] += n


cdef inline double probability(Chain* chain, int side, int head, int previous, int outcome) noexcept nogil:
    previous = known(chain, previous)
    return (outcomes_of(chain, side, head, previous)[outcome] + chain.alpha * share_of(chain, outcome)) / (
        chain.total[context(chain, side, head, previous)] + chain.alpha)


cdef inline int state_before(Chain* chain, int t) noexcept nogil:
    return chain.capacity if chain.previous[t] == NONE else chain.z[chain.previous[t]]


cdef inline int state_after(Chain* chain, int t) noexcept nogil:
    return chain.capacity if chain.following[t] == NONE else chain.z[chain.following[t]]


cdef inline void put_token(Chain* chain, int t, int k, int n) noexcept nogil:
    chain.words[<size_t>chain.word[t] * chain.capacity + k] += n
    chain.size[k] += n
    if chain.size[k] > 0:
        chain.tag_of[k] = chain.tag[t]


cdef inline void put_own(Chain* chain, int t, int n) noexcept nogil:
    """Count the event that generates a token; of a list, at its first token."""
    cdef int h = chain.head[t]
    if h < 0:
        chain.roots[(0 if h == NONE else chain.capacity) + chain.z[t]] += n
        chain.root_total[0 if h == NONE else 1] += n
    elif chain.kind != SIMULTANEOUS:
        put(chain, chain.side[t], chain.z[h], state_before(chain, t), chain.z[t], n)


cdef inline void put_stops(Chain* chain, int t, int n) noexcept nogil:
    """Count the ends of a token's lists of children, or the lists themselves."""
    cdef int side, m, last
    for side in range(2):
        if not chain.counted[2 * t + side]:
            continue
        if chain.kind == SIMULTANEOUS:
            chain.list_hash[2 * t + side] = hash_list(chain, t, side)
            put_list(chain, side, chain.z[t], chain.list_hash[2 * t + side], n)
            continue
        last = NONE
        m = chain.first[2 * t + side]
        while m != NONE:
            last, m = m, chain.following[m]
        put(chain,
            side, chain.z[t], chain.capacity if last == NONE else chain.z[last], chain.capacity, n)


# Lists of children


cdef inline uint64_t hash_place(Chain* chain, int place, int state) noexcept nogil:
    return mix64((<uint64_t>place << 32) + state + 1)


cdef inline uint64_t hash_list(Chain* chain, int t, int side) noexcept nogil:
    cdef uint64_t result = 0
    cdef int place = 0, m = chain.first[2 * t + side]
    while m != NONE:
        result ^= hash_place(chain, place, chain.z[m])
        place += 1
        m = chain.following[m]
    return result ^ mix64(<uint64_t>place + (<uint64_t>1 << 60))


cdef inline uint64_t list_key(int side, int head, uint64_t children) noexcept nogil:
    cdef uint64_t key = mix64(children ^ mix64((<uint64_t>side << 40) + head + (<uint64_t>1 << 61)))
    return key if key != 0 else 1


cdef inline size_t slot(Chain* chain, uint64_t key) noexcept nogil:
    """Where a list is counted, or where it belongs."""
    cdef size_t i = key & (chain.n_slots - 1)
    while chain.keys[i] != key and chain.keys[i] != 0:
        i = (i + 1) & (chain.n_slots - 1)
    return i


cdef inline int list_count(Chain* chain, int side, int head, uint64_t children) noexcept nogil:
    return chain.values[slot(chain, list_key(side, head, children))]


cdef inline void put_list(Chain* chain, int side, int head, uint64_t children, int n) noexcept nogil:
    cdef uint64_t key = list_key(side, head, children)
    cdef size_t i = slot(chain, key)
    chain.total[context(chain, side, head, 0)] += n
    chain.n_used += chain.keys[i] == 0
    chain.keys[i] = key
    chain.values[i] += n


cdef inline void rebuild_lists(Chain* chain) noexcept nogil:
    """Lists that are not there any longer have filled the table: put in those that are."""
    cdef int t, side
    memset(chain.keys, 0, chain.n_slots * sizeof(uint64_t))
    memset(chain.values, 0, chain.n_slots * sizeof(int32_t))
    memset(chain.total, 0, 2 * <size_t>chain.capacity * sizeof(int32_t))
    chain.n_used = 0
    for t in range(chain.n):
        for side in range(2):
            if chain.counted[2 * t + side]:
                put_list(chain, side, chain.z[t], chain.list_hash[2 * t + side], 1)


cdef inline double list_share(Chain* chain, int t, int side, int without) noexcept nogil:
    """The product of the shares of a token's children and STOP, perhaps without one of the children."""
    cdef double share = chain.beta_stop
    cdef int m = chain.first[2 * t + side]
    while m != NONE:
        if m != without:
            share *= chain.beta[chain.z[m]]
        m = chain.following[m]
    return share


# Drawing the state of a token given all others. Its events are its own, the one of the sibling after it, and its
# children's. Counts of these are taken away first; in the few states in which some of them share a context they
# are put back one by one, elsewhere they do not depend on each other but for repetitions, which are the same for
# all states.


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
    how often does not depend on the state."""
    cdef int side, m, other, state, last, same, before, other_last, factors = 0
    for side in range(2):
        if not chain.counted[2 * t + side]:
            continue
        last = known(chain, chain.capacity)
        m = chain.first[2 * t + side]
        while True:
            state = chain.capacity if m == NONE else chain.z[m]
            same = before = 0
            other, other_last = chain.first[2 * t + side], known(chain, chain.capacity)
            while other != m:
                if other_last == last:
                    before += 1
                    same += chain.z[other] == state
                other_last, other = known(chain, chain.z[other]), chain.following[other]
            times(chain, n, heads_of(chain, side, last, state), totals_of(chain, side, last),
                  same + chain.alpha * share_of(chain, state), before + chain.alpha)
            factors += 1
            if factors % 8 == 0:
                settle(chain, n)
            if m == NONE:
                break
            last, m = known(chain, state), chain.following[m]


cdef inline void weigh_single(Chain* chain, int t, int n) noexcept nogil:
    """Weights of all candidates by models of single children."""
    cdef int i, k, h = chain.head[t], side = chain.side[t], after
    cdef const int32_t *row
    if h >= 0:
        row = outcomes_of(chain, side, chain.z[h], known(chain, state_before(chain, t)))
        for i in range(n):
            k = chain.candidate[i]
            chain.numerator[i] *= row[k] + chain.alpha * chain.beta[k]
        if chain.kind == MARKOV:
            after = state_after(chain, t)
            times(chain, n, previous_of(chain, side, chain.z[h], after),
                  chain.total + context(chain, side, chain.z[h], 0),
                  chain.alpha * share_of(chain, after), chain.alpha)
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
                chain.total[context(chain, side, k, 0)] + own_context + chain.alpha)
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


cdef int tables_of(Chain* chain, int n, double a) noexcept nogil:
    """How many tables n guests sit at (Antoniak 1974): the i-th opens one with a / (a + i - 1)."""
    cdef int i, tables = 0
    for i in range(n):
        tables += uniform(&chain.random) * (a + i) < a
    return tables


cdef int count_tables(Chain* chain, double *tables, double *stop_tables) noexcept nogil:
    """Tables of all outcomes in all contexts. Returns how many draws from beta they stand for."""
    cdef int c = chain.capacity, side, a, b, k, n, in_all = 0
    cdef const int32_t *row
    for k in range(c):
        tables[k] = 0
    stop_tables[0] = 0
    for side in range(2):
        for k in range(c):
            n = tables_of(chain, chain.roots[side * c + k], chain.alpha * chain.beta[k])
            tables[k] += n
            in_all += n
    if chain.kind == SIMULTANEOUS:
        n = count_list_tables(chain, tables, stop_tables)
        chain.n_tables = in_all + <int>stop_tables[0]
        return in_all + n
    for side in range(2):
        for a in range(c):
            if chain.tag_of[a] == NONE:
                continue
            for b in range(chain.n_previous):
                if chain.total[context(chain, side, a, b)] == 0:
                    continue
                row = outcomes_of(chain, side, a, b)
                for k in range(c):
                    if row[k] > 0:
                        n = tables_of(chain, row[k], chain.alpha * chain.beta[k])
                        tables[k] += n
                        in_all += n
                n = tables_of(chain, row[c], chain.alpha * chain.beta_stop)
                stop_tables[0] += n
                in_all += n
    chain.n_tables = in_all
    return in_all


cdef int count_list_tables(Chain* chain, double *tables, double *stop_tables) noexcept nogil:
    """Each table of a list counts for each of its children; the first token with that list speaks for
    all: its count is negative until the end."""
    cdef int t, side, n, m, in_all = 0
    cdef size_t i
    for t in range(chain.n):
        for side in range(2):
            if not chain.counted[2 * t + side]:
                continue
            i = slot(chain, list_key(side, chain.z[t], chain.list_hash[2 * t + side]))
            if chain.values[i] <= 0:
                continue
            n = tables_of(chain, chain.values[i], chain.alpha * list_share(chain, t, side, NONE))
            chain.values[i] = -chain.values[i]
            stop_tables[0] += n
            in_all += n
            m = chain.first[2 * t + side]
            while m != NONE:
                tables[chain.z[m]] += n
                in_all += n
                m = chain.following[m]
    for i in range(chain.n_slots):
        if chain.values[i] < 0:
            chain.values[i] = -chain.values[i]
    return in_all


cdef void draw_shares(Chain* chain) noexcept nogil:
    """beta ~ Dirichlet(tables, gamma), of tables that have just been counted."""
    cdef int k
    cdef double total, stop_tables = chain.stop_tables
    # at most one table in what has none: states always have some
    chain.beta_new = gamma_draw(&chain.random, chain.gamma)
    chain.beta_stop = gamma_draw(&chain.random, stop_tables) if stop_tables > 0 else 0.0
    total = chain.beta_new + chain.beta_stop
    for k in range(chain.capacity):
        chain.beta[k] = gamma_draw(&chain.random, chain.weight[k]) if chain.weight[k] > 0 else 0.0
        total += chain.beta[k]
    for k in range(chain.capacity):
        chain.beta[k] /= total
    chain.beta_stop /= total
    chain.beta_new /= total


cdef double word_score(Chain* chain, double rho) noexcept nogil:
    cdef int k, w
    cdef double score = 0, vocabulary
    cdef int32_t count
    for k in range(chain.capacity):
        if chain.tag_of[k] != NONE:
            vocabulary = rho * chain.vocabulary[chain.tag_of[k]]
            score += lgamma(vocabulary) - lgamma(vocabulary + chain.size[k])
    for w in range(chain.n_words):
        for k in range(chain.capacity):
            count = chain.words[<size_t>w * chain.capacity + k]
            if count > 0:
                score += lgamma(rho + count) - lgamma(rho)
    return score


cdef class InfiniteTree:
    """A state of the chain: states of tokens, counts of all events, shares of outcomes."""

    cdef Chain chain
    cdef readonly object states
    cdef object _kept           # arrays that pointers point into
    cdef object _counts         # those of them that hold counts, by name

    def __init__(
        self,
        str model,
        const int32_t[::1] head not None,
        const int32_t[::1] previous not None,
        const int32_t[::1] following not None,
        const int32_t[:, ::1] first not None,
        const unsigned char[:, ::1] counted not None,
        const int32_t[::1] word not None,
        const int32_t[::1] tag not None,
        const int32_t[::1] start not None,
        *,
        int capacity,
        double alpha,
        double gamma,
        double rho,
        uint64_t seed,
    ):
        """model: One of MODELS.
        head (int[n]): The head of every token among all, -1 for roots, -2 for tokens without one.
        previous, following (int[n]): The siblings before and after it, from the inside out, -1 for none.
        first (int[n, 2]): Its innermost child by side, -1 for none.
        counted (uint8[n, 2]): Whether its children are all known, by side; others have none.
        tag (int[n]): Its tag; all the same for states that are bound to none.
        start (int[n]): A state for every token to start from; those of different tags must differ.
        capacity: Most states, and one.
        """
        cdef int t, c = capacity
        cdef Chain* chain = &self.chain
        n_words = int(numpy.max(word, initial=0)) + 1
        n_tags = int(numpy.max(tag, initial=0)) + 1
        if numpy.max(start, initial=0) >= capacity - 1 or numpy.min(start, initial=0) < 0:
            raise ValueError("states to start from beyond the capacity")
        chain.n, chain.kind, chain.capacity, chain.n_words = len(word), MODELS.index(model), c, n_words
        chain.alpha, chain.gamma, chain.rho = alpha, gamma, rho
        seed_random(&chain.random, seed)
        self._kept = []
        self._counts = {}
        side = (numpy.arange(chain.n) > numpy.asarray(head)).astype("int32")
        chain.head = <int32_t *>self._keep(numpy.array(head))
        chain.side = <int32_t *>self._keep(side)
        chain.previous = <int32_t *>self._keep(numpy.array(previous))
        chain.following = <int32_t *>self._keep(numpy.array(following))
        chain.first = <int32_t *>self._keep(numpy.array(first))
        chain.counted = <unsigned char *>self._keep(numpy.array(counted))
        chain.word = <int32_t *>self._keep(numpy.array(word))
        chain.tag = <int32_t *>self._keep(numpy.array(tag))
        pairs = numpy.unique(numpy.stack([tag, word]), axis=1)
        chain.vocabulary = <int32_t *>self._keep(
            numpy.bincount(pairs[0], minlength=n_tags).astype("int32"))
        self.states = numpy.array(start)
        chain.z = <int32_t *>self._keep(self.states)
        chain.beta = <double *>self._keep(numpy.zeros(c))
        chain.tag_of = <int32_t *>self._keep(numpy.full(c, NONE, dtype="int32"))
        chain.size = self._zeros("size", (c,))
        chain.words = self._zeros("words", (n_words, c))
        chain.roots = self._zeros("roots", (2, c))
        chain.root_total[0] = chain.root_total[1] = 0
        p = chain.n_previous = c + 1 if chain.kind == MARKOV else 1
        chain.mask = -1 if chain.kind == MARKOV else 0
        chain.total = chain.total_by_head = self._zeros("total", (2, c, p))
        if chain.kind == SIMULTANEOUS:
            chain.n_slots = 1 << 10
            while chain.n_slots < 8 * <size_t>chain.n + 64:
                chain.n_slots *= 2
            chain.keys = <uint64_t *>self._keep(numpy.zeros(chain.n_slots, dtype="uint64"), "keys")
            chain.values = self._zeros("values", (chain.n_slots,))
            chain.list_hash = <uint64_t *>self._keep(numpy.zeros((chain.n, 2), dtype="uint64"))
        else:
            chain.by_outcome = self._zeros("by_outcome", (2, c, p, c + 1))
            chain.by_head = self._zeros("by_head", (2, p, c + 1, c))
        if chain.kind == MARKOV:
            chain.by_previous = self._zeros("by_previous", (2, c, c + 1, p))
            chain.total_by_head = self._zeros("total_by_head", (2, p, c))
        chain.candidate = <int32_t *>self._keep(numpy.zeros(c, dtype="int32"))
        chain.numerator = <double *>self._keep(numpy.zeros(c))
        chain.denominator = <double *>self._keep(numpy.zeros(c))
        chain.weight = <double *>self._keep(numpy.zeros(c))
        for t in range(chain.n):
            put_token(chain, t, chain.z[t], 1)
        for t in range(chain.n):
            put_own(chain, t, 1)
            put_stops(chain, t, 1)
        chain.n_alive = 0
        for t in range(c):
            chain.n_alive += chain.tag_of[t] != NONE
        # every outcome the same share, before the first is drawn
        for t in range(c):
            chain.beta[t] = 1.0 / (chain.n_alive + 2) if chain.tag_of[t] != NONE else 0.0
        chain.beta_new = chain.beta_stop = 1.0 / (chain.n_alive + 2)
        chain.n_draws = count_tables(chain, chain.weight, &chain.stop_tables)
        draw_shares(chain)

    cdef size_t _keep(self, array, name=None) except 0:
        array = numpy.ascontiguousarray(array)
        self._kept.append(array)
        if name is not None:
            self._counts[name] = array
        if array.size == 0:
            self._kept.append(array := numpy.zeros(1, dtype=array.dtype))
        return <size_t>array.ctypes.data

    cdef int32_t* _zeros(self, name, tuple shape) except NULL:
        return <int32_t *>self._keep(numpy.zeros(shape, dtype="int32"), name)

    @property
    def n_states(self):
        """How many states have tokens."""
        return self.chain.n_alive

    @property
    def alpha(self):
        """How much contexts are alike."""
        return self.chain.alpha

    @property
    def gamma(self):
        """How many states there are."""
        return self.chain.gamma

    @property
    def rho(self):
        """How much words are alike in a state."""
        return self.chain.rho

    def sweep(self, bint resample=False):
        """Draw the state of every token, then the shares.

        resample: Whether to draw the parameters, too: alpha and gamma by auxiliary variables (Teh et al.
            2006; Escobar & West 1995), both with a prior Gamma(1, 0.1); rho by a Metropolis step.
        """
        cdef int t
        cdef Chain* chain = &self.chain
        with nogil:
            for t in range(chain.n):
                sample_token(chain, t)
        if chain.kind == SIMULTANEOUS and 2 * chain.n_used > chain.n_slots:
            rebuild_lists(chain)
        with nogil:
            chain.n_draws = count_tables(chain, chain.weight, &chain.stop_tables)
        if resample:
            # before the shares: these are drawn given gamma, which is drawn with the shares summed out
            self._draw_alpha()
            self._draw_gamma()
            self._draw_rho()
        with nogil:
            draw_shares(chain)

    cdef _draw_alpha(self):
        cdef Chain* chain = &self.chain
        cdef double shape = 1.0 + chain.n_tables, rate = 0.1
        for n in self._context_totals():
            rate -= log(beta_draw(&chain.random, chain.alpha + 1, n))
            shape -= uniform(&chain.random) * (n + chain.alpha) < n
        chain.alpha = gamma_draw(&chain.random, shape) / rate

    def _context_totals(self):
        """How many events each context has that has any."""
        cdef Chain* chain = &self.chain
        totals = [chain.total[i] for i in range(2 * chain.capacity * chain.n_previous)]
        totals += [chain.root_total[0], chain.root_total[1]]
        return [float(n) for n in totals if n > 0]

    cdef _draw_gamma(self):
        cdef Chain* chain = &self.chain
        cdef double eta = beta_draw(&chain.random, chain.gamma + 1, chain.n_draws)
        cdef double rate = 0.1 - log(eta), outcomes = chain.n_alive + 1
        cdef double odds = outcomes / (chain.n_draws * rate)
        cdef double shape = 1.0 + outcomes - (uniform(&chain.random) * (1 + odds) > odds)
        chain.gamma = gamma_draw(&chain.random, shape) / rate

    cdef _draw_rho(self):
        cdef Chain* chain = &self.chain
        cdef double other = chain.rho * exp(0.1 * normal(&chain.random))
        cdef double change = word_score(chain, other) - word_score(chain, chain.rho)
        # the walk is on log rho, with a prior Gamma(1, 1)
        change += log(other) - log(chain.rho) - other + chain.rho
        if log(uniform(&chain.random)) < change:
            chain.rho = other

    def counts(self):
        """Copies of all that is counted, to compare with what it should be."""
        found = {name: array.copy() for name, array in self._counts.items()}
        if self.chain.kind == SIMULTANEOUS:
            kept = found["values"] != 0
            order = numpy.argsort(found["keys"][kept])
            for name in ("keys", "values"):
                found[name] = found[name][kept][order]
        return found
