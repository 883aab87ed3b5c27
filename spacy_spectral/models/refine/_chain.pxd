# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The state of a chain of samples (see `_gibbs`): the states of tokens in their trees, and counts of all events.

`STOP` and `FIRST` are the number `capacity`.
"""
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from ...base._random cimport Random, mix64


cdef enum:
    NONE = -1
    MISSING = -2        # as a head: it is not known; NONE is the root


cdef enum Kind:
    INDEPENDENT = 0
    MARKOV = 1
    SIMULTANEOUS = 2


cdef struct Chain:
    int n, kind, capacity, n_words
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
    # INDEPENDENT: by_outcome [2, capacity, capacity + 1], by_head [2, capacity + 1, capacity].
    # MARKOV: the same with the previous sibling (FIRST last) before the last axis but one, and by_previous.
    int32_t* by_outcome
    int32_t* by_head
    int32_t* by_previous
    int32_t* total         # [2, capacity(, capacity + 1)]
    int32_t* total_by_head  # MARKOV: [2, capacity + 1, capacity]
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


cdef inline size_t pair(Chain* chain, int side, int head, int outcome) noexcept nogil:
    return (<size_t>side * chain.capacity + head) * (chain.capacity + 1) + outcome


cdef inline size_t pair_by_head(Chain* chain, int side, int outcome) noexcept nogil:
    return (<size_t>side * (chain.capacity + 1) + outcome) * chain.capacity


cdef inline size_t triple(Chain* chain, int side, int head, int previous) noexcept nogil:
    return pair(chain, side, head, previous) * (chain.capacity + 1)


cdef inline size_t triple_by_head(Chain* chain, int side, int previous, int outcome) noexcept nogil:
    return (
        (<size_t>side * (chain.capacity + 1) + previous) * (chain.capacity + 1) + outcome
    ) * chain.capacity


cdef inline void put(Chain* chain, int side, int head, int previous, int outcome, int n) noexcept nogil:
    """Count an event, for models of single children."""
    if chain.kind == INDEPENDENT:
        chain.by_outcome[pair(chain, side, head, outcome)] += n
        chain.by_head[pair_by_head(chain, side, outcome) + head] += n
        chain.total[<size_t>side * chain.capacity + head] += n
    else:
        chain.by_outcome[triple(chain, side, head, previous) + outcome] += n
        chain.by_previous[triple(chain, side, head, outcome) + previous] += n
        chain.by_head[triple_by_head(chain, side, previous, outcome) + head] += n
        chain.total[pair(chain, side, head, previous)] += n
        chain.total_by_head[pair_by_head(chain, side, previous) + head] += n


cdef inline double probability(Chain* chain, int side, int head, int previous, int outcome) noexcept nogil:
    cdef double share = chain.beta_stop if outcome == chain.capacity else chain.beta[outcome]
    if chain.kind == INDEPENDENT:
        return (chain.by_outcome[pair(chain, side, head, outcome)] + chain.alpha * share) / (
            chain.total[<size_t>side * chain.capacity + head] + chain.alpha)
    return (chain.by_outcome[triple(chain, side, head, previous) + outcome] + chain.alpha * share) / (
        chain.total[pair(chain, side, head, previous)] + chain.alpha)


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


cdef inline size_t slot(Chain* chain, int side, int head, uint64_t children) noexcept nogil:
    cdef uint64_t key = mix64(children ^ mix64((<uint64_t>side << 40) + head + (<uint64_t>1 << 61)))
    cdef size_t i = key & (chain.n_slots - 1)
    if key == 0:
        key = 1
    while chain.keys[i] != key and chain.keys[i] != 0:
        i = (i + 1) & (chain.n_slots - 1)
    if chain.keys[i] == 0:
        return i + chain.n_slots  # free
    return i


cdef inline int list_count(Chain* chain, int side, int head, uint64_t children) noexcept nogil:
    cdef size_t i = slot(chain, side, head, children)
    return chain.values[i] if i < chain.n_slots else 0


cdef inline void put_list(Chain* chain, int side, int head, uint64_t children, int n) noexcept nogil:
    cdef size_t i = slot(chain, side, head, children)
    cdef uint64_t key
    chain.total[<size_t>side * chain.capacity + head] += n
    if i >= chain.n_slots:
        i -= chain.n_slots
        key = mix64(children ^ mix64((<uint64_t>side << 40) + head + (<uint64_t>1 << 61)))
        chain.keys[i] = key if key != 0 else 1
        chain.n_used += 1
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
