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
given all others: its own event, the one of the sibling after it, and its children's. Counts of these are taken
away first; in the few states in which some of them share a context they are put back one by one, elsewhere
they do not depend on each other but for repetitions, which are the same for all states.

States may be bound to tags: then a token is in a state of its tag, or in a new one.
"""

from libc.math cimport exp, lgamma, log
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

import numpy

from ._random cimport (
    Random, beta_draw, gamma_draw, mix64, normal, seed_random, uniform
)


cdef enum:
    NONE = -1
    MISSING = -2        # as a head: it is not known; NONE is the root

MODELS = ("independent", "markov", "simultaneous")

cdef enum Kind:
    INDEPENDENT = 0
    MARKOV = 1
    SIMULTANEOUS = 2


cdef class InfiniteTree:
    """A state of the chain: states of tokens, counts of all events, shares of outcomes."""

    cdef readonly int n, kind, capacity, n_words
    cdef readonly double alpha, gamma, rho, beta_new, beta_stop
    cdef readonly object states
    cdef Random random
    cdef int n_alive
    cdef int n_tables           # of all contexts
    cdef int n_draws            # from beta: a table of a list stands for several
    cdef object _kept           # arrays that pointers point into
    cdef object _counts         # those of them that hold counts, by name
    cdef int32_t *head
    cdef int32_t *side
    cdef int32_t *previous
    cdef int32_t *following
    cdef int32_t *first         # [n, 2]
    cdef unsigned char *counted  # [n, 2]
    cdef int32_t *word
    cdef int32_t *tag
    cdef int32_t *vocabulary    # [tags], how many words there are
    cdef int32_t *z             # [n]
    cdef double *beta           # [capacity]
    cdef int32_t *tag_of        # [capacity], NONE if a state is free
    cdef int32_t *size          # [capacity], tokens of a state
    cdef int32_t *words         # [words, capacity]
    cdef int32_t *roots         # [2, capacity], of roots and of tokens without a head
    cdef int32_t[2] root_total
    # INDEPENDENT: by_outcome [2, capacity, capacity + 1], by_head [2, capacity + 1, capacity].
    # MARKOV: the same with the previous sibling (FIRST last) before the last axis but one, and by_previous.
    cdef int32_t *by_outcome
    cdef int32_t *by_head
    cdef int32_t *by_previous
    cdef int32_t *total         # [2, capacity(, capacity + 1)]
    cdef int32_t *total_by_head  # MARKOV: [2, capacity + 1, capacity]
    # SIMULTANEOUS: lists by a hash of side, head and all children
    cdef uint64_t *keys
    cdef int32_t *values
    cdef size_t n_slots
    cdef size_t n_used
    cdef uint64_t *list_hash    # [n, 2], of a token's children without the token itself
    # scratch
    cdef int32_t *candidate
    cdef double *numerator
    cdef double *denominator
    cdef double *weight

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
        """model (str): One of MODELS.
        head (int[n]): The head of every token among all, -1 for roots, -2 for tokens without one.
        previous, following (int[n]): The siblings before and after it, from the inside out, -1 for none.
        first (int[n, 2]): Its innermost child by side, -1 for none.
        counted (uint8[n, 2]): Whether its children are all known, by side; others have none.
        word (int[n]): Its word.
        tag (int[n]): Its tag; all the same for states that are bound to none.
        start (int[n]): A state for every token to start from; those of different tags must differ.
        capacity (int): Most states, and one.
        alpha, gamma, rho (float): Parameters.
        seed (int): Of chance.
        """
        cdef int t, c = capacity
        n_words = int(numpy.max(word, initial=0)) + 1
        n_tags = int(numpy.max(tag, initial=0)) + 1
        if numpy.max(start, initial=0) >= capacity - 1 or numpy.min(start, initial=0) < 0:
            raise ValueError("states to start from beyond the capacity")
        self.n, self.kind, self.capacity, self.n_words = len(word), MODELS.index(model), c, n_words
        self.alpha, self.gamma, self.rho = alpha, gamma, rho
        seed_random(&self.random, seed)
        self._kept = []
        self._counts = {}
        side = (numpy.arange(self.n) > numpy.asarray(head)).astype("int32")
        self.head = <int32_t *>self._keep(numpy.array(head))
        self.side = <int32_t *>self._keep(side)
        self.previous = <int32_t *>self._keep(numpy.array(previous))
        self.following = <int32_t *>self._keep(numpy.array(following))
        self.first = <int32_t *>self._keep(numpy.array(first))
        self.counted = <unsigned char *>self._keep(numpy.array(counted))
        self.word = <int32_t *>self._keep(numpy.array(word))
        self.tag = <int32_t *>self._keep(numpy.array(tag))
        pairs = numpy.unique(numpy.stack([tag, word]), axis=1)
        self.vocabulary = <int32_t *>self._keep(
            numpy.bincount(pairs[0], minlength=n_tags).astype("int32"))
        self.states = numpy.array(start)
        self.z = <int32_t *>self._keep(self.states)
        self.beta = <double *>self._keep(numpy.zeros(c))
        self.tag_of = <int32_t *>self._keep(numpy.full(c, NONE, dtype="int32"))
        self.size = <int32_t *>self._keep(numpy.zeros(c, dtype="int32"), "size")
        self.words = <int32_t *>self._keep(numpy.zeros((n_words, c), dtype="int32"), "words")
        self.roots = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "roots")
        self.root_total[0] = self.root_total[1] = 0
        if self.kind == INDEPENDENT:
            self.by_outcome = <int32_t *>self._keep(numpy.zeros((2, c, c + 1), dtype="int32"), "by_outcome")
            self.by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c), dtype="int32"), "by_head")
            self.total = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "total")
        elif self.kind == MARKOV:
            self.by_outcome = <int32_t *>self._keep(numpy.zeros((2, c, c + 1, c + 1), dtype="int32"), "by_outcome")
            self.by_previous = <int32_t *>self._keep(numpy.zeros((2, c, c + 1, c + 1), dtype="int32"), "by_previous")
            self.by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c + 1, c), dtype="int32"), "by_head")
            self.total = <int32_t *>self._keep(numpy.zeros((2, c, c + 1), dtype="int32"), "total")
            self.total_by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c), dtype="int32"), "total_by_head")
        else:
            self.n_slots = 1 << 10
            while self.n_slots < 8 * <size_t>self.n + 64:
                self.n_slots *= 2
            self.keys = <uint64_t *>self._keep(numpy.zeros(self.n_slots, dtype="uint64"), "keys")
            self.values = <int32_t *>self._keep(numpy.zeros(self.n_slots, dtype="int32"), "values")
            self.list_hash = <uint64_t *>self._keep(numpy.zeros((self.n, 2), dtype="uint64"))
            self.total = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "total")
        self.candidate = <int32_t *>self._keep(numpy.zeros(c, dtype="int32"))
        self.numerator = <double *>self._keep(numpy.zeros(c))
        self.denominator = <double *>self._keep(numpy.zeros(c))
        self.weight = <double *>self._keep(numpy.zeros(c))
        for t in range(self.n):
            self._put_token(t, self.z[t], 1)
        for t in range(self.n):
            self._put_own(t, 1)
            self._put_stops(t, 1)
        self.n_alive = int(sum(self.tag_of[k] != NONE for k in range(c)))
        # every outcome the same share, before the first is drawn
        for t in range(c):
            self.beta[t] = 1.0 / (self.n_alive + 2) if self.tag_of[t] != NONE else 0.0
        self.beta_new = self.beta_stop = 1.0 / (self.n_alive + 2)
        self._draw_shares()

    cdef size_t _keep(self, array, name=None) except 0:
        array = numpy.ascontiguousarray(array)
        self._kept.append(array)
        if name is not None:
            self._counts[name] = array
        if array.size == 0:
            self._kept.append(array := numpy.zeros(1, dtype=array.dtype))
        return <size_t>array.ctypes.data

    @property
    def n_states(self):
        """RETURNS (int): How many states have tokens."""
        return self.n_alive

    # Counts. `STOP` and `FIRST` are the number `capacity`.

    cdef inline size_t _pair(self, int side, int head, int outcome) noexcept nogil:
        return (<size_t>side * self.capacity + head) * (self.capacity + 1) + outcome

    cdef inline size_t _pair_by_head(self, int side, int outcome) noexcept nogil:
        return (<size_t>side * (self.capacity + 1) + outcome) * self.capacity

    cdef inline size_t _triple(self, int side, int head, int previous) noexcept nogil:
        return self._pair(side, head, previous) * (self.capacity + 1)

    cdef inline size_t _triple_by_head(self, int side, int previous, int outcome) noexcept nogil:
        return (
            (<size_t>side * (self.capacity + 1) + previous) * (self.capacity + 1) + outcome
        ) * self.capacity

    cdef inline void _put(self, int side, int head, int previous, int outcome, int n) noexcept nogil:
        """Count an event, for models of single children."""
        if self.kind == INDEPENDENT:
            self.by_outcome[self._pair(side, head, outcome)] += n
            self.by_head[self._pair_by_head(side, outcome) + head] += n
            self.total[<size_t>side * self.capacity + head] += n
        else:
            self.by_outcome[self._triple(side, head, previous) + outcome] += n
            self.by_previous[self._triple(side, head, outcome) + previous] += n
            self.by_head[self._triple_by_head(side, previous, outcome) + head] += n
            self.total[self._pair(side, head, previous)] += n
            self.total_by_head[self._pair_by_head(side, previous) + head] += n

    cdef inline double _probability(self, int side, int head, int previous, int outcome) noexcept nogil:
        cdef double share = self.beta_stop if outcome == self.capacity else self.beta[outcome]
        if self.kind == INDEPENDENT:
            return (self.by_outcome[self._pair(side, head, outcome)] + self.alpha * share) / (
                self.total[<size_t>side * self.capacity + head] + self.alpha)
        return (self.by_outcome[self._triple(side, head, previous) + outcome] + self.alpha * share) / (
            self.total[self._pair(side, head, previous)] + self.alpha)

    cdef inline int _state_before(self, int t) noexcept nogil:
        return self.capacity if self.previous[t] == NONE else self.z[self.previous[t]]

    cdef inline int _state_after(self, int t) noexcept nogil:
        return self.capacity if self.following[t] == NONE else self.z[self.following[t]]

    cdef void _put_token(self, int t, int k, int n) noexcept nogil:
        self.words[<size_t>self.word[t] * self.capacity + k] += n
        self.size[k] += n
        if self.size[k] > 0:
            self.tag_of[k] = self.tag[t]

    cdef void _put_own(self, int t, int n) noexcept nogil:
        """Count the event that generates a token; of a list, at its first token."""
        cdef int h = self.head[t]
        if h < 0:
            self.roots[(0 if h == NONE else self.capacity) + self.z[t]] += n
            self.root_total[0 if h == NONE else 1] += n
        elif self.kind != SIMULTANEOUS:
            self._put(self.side[t], self.z[h], self._state_before(t), self.z[t], n)

    cdef void _put_stops(self, int t, int n) noexcept nogil:
        """Count the ends of a token's lists of children, or the lists themselves."""
        cdef int side, m, last
        for side in range(2):
            if not self.counted[2 * t + side]:
                continue
            if self.kind == SIMULTANEOUS:
                self.list_hash[2 * t + side] = self._hash_list(t, side)
                self._put_list(side, self.z[t], self.list_hash[2 * t + side], n)
                continue
            last = NONE
            m = self.first[2 * t + side]
            while m != NONE:
                last, m = m, self.following[m]
            self._put(
                side, self.z[t], self.capacity if last == NONE else self.z[last], self.capacity, n)

    # Lists of children

    cdef inline uint64_t _hash_place(self, int place, int state) noexcept nogil:
        return mix64((<uint64_t>place << 32) + state + 1)

    cdef uint64_t _hash_list(self, int t, int side) noexcept nogil:
        cdef uint64_t result = 0
        cdef int place = 0, m = self.first[2 * t + side]
        while m != NONE:
            result ^= self._hash_place(place, self.z[m])
            place += 1
            m = self.following[m]
        return result ^ mix64(<uint64_t>place + (<uint64_t>1 << 60))

    cdef inline size_t _slot(self, int side, int head, uint64_t children) noexcept nogil:
        cdef uint64_t key = mix64(children ^ mix64((<uint64_t>side << 40) + head + (<uint64_t>1 << 61)))
        cdef size_t i = key & (self.n_slots - 1)
        if key == 0:
            key = 1
        while self.keys[i] != key and self.keys[i] != 0:
            i = (i + 1) & (self.n_slots - 1)
        if self.keys[i] == 0:
            return i + self.n_slots  # free
        return i

    cdef inline int _list_count(self, int side, int head, uint64_t children) noexcept nogil:
        cdef size_t i = self._slot(side, head, children)
        return self.values[i] if i < self.n_slots else 0

    cdef void _put_list(self, int side, int head, uint64_t children, int n) noexcept nogil:
        cdef size_t i = self._slot(side, head, children)
        cdef uint64_t key
        self.total[<size_t>side * self.capacity + head] += n
        if i >= self.n_slots:
            i -= self.n_slots
            key = mix64(children ^ mix64((<uint64_t>side << 40) + head + (<uint64_t>1 << 61)))
            self.keys[i] = key if key != 0 else 1
            self.n_used += 1
        self.values[i] += n

    def _rebuild_lists(self):
        """Lists that are not there any longer have filled the table: put in those that are."""
        cdef int t, side
        memset(self.keys, 0, self.n_slots * sizeof(uint64_t))
        memset(self.values, 0, self.n_slots * sizeof(int32_t))
        memset(self.total, 0, 2 * <size_t>self.capacity * sizeof(int32_t))
        self.n_used = 0
        for t in range(self.n):
            for side in range(2):
                if self.counted[2 * t + side]:
                    self._put_list(side, self.z[t], self.list_hash[2 * t + side], 1)

    cdef double _list_share(self, int t, int side, int without) noexcept nogil:
        """The product of the shares of a token's children and STOP, perhaps without one of the children."""
        cdef double share = self.beta_stop
        cdef int m = self.first[2 * t + side]
        while m != NONE:
            if m != without:
                share *= self.beta[self.z[m]]
            m = self.following[m]
        return share

    # Sampling

    cdef void _put_around(self, int t, int n) noexcept nogil:
        """Count all events that a token's state takes part in."""
        cdef int h = self.head[t], side, m
        self._put_own(t, n)
        if self.kind == SIMULTANEOUS:
            if h >= 0:
                self._put_list(self.side[t], self.z[h], self.list_hash[2 * h + self.side[t]], n)
            for side in range(2):
                if self.counted[2 * t + side]:
                    self._put_list(side, self.z[t], self.list_hash[2 * t + side], n)
            return
        if self.kind == MARKOV and h >= 0:
            self._put(self.side[t], self.z[h], self.z[t], self._state_after(t), n)
        for side in range(2):
            m = self.first[2 * t + side]
            while m != NONE:
                self._put(side, self.z[t], self._state_before(m), self.z[m], n)
                m = self.following[m]
        self._put_stops(t, n)

    cdef double _one_by_one(self, int t, int k) noexcept nogil:
        """log P of all events around a token in state k, each given those before it, and of its word."""
        cdef int h = self.head[t], side, m, last, old = self.z[t]
        cdef double value = 1, log_value = 0
        self.z[t] = k
        if h >= 0:
            value *= self._probability(self.side[t], self.z[h], self._state_before(t), k)
            self._put(self.side[t], self.z[h], self._state_before(t), k, 1)
            if self.kind == MARKOV:
                value *= self._probability(self.side[t], self.z[h], k, self._state_after(t))
                self._put(self.side[t], self.z[h], k, self._state_after(t), 1)
        for side in range(2):
            if not self.counted[2 * t + side]:
                continue
            last = self.capacity
            m = self.first[2 * t + side]
            while m != NONE:
                value *= self._probability(side, k, last, self.z[m])
                self._put(side, k, last, self.z[m], 1)
                last, m = self.z[m], self.following[m]
                if value < 1e-200:
                    log_value += log(value)
                    value = 1
            value *= self._probability(side, k, last, self.capacity)
            self._put(side, k, last, self.capacity, 1)
        # and away again
        if h >= 0:
            self._put(self.side[t], self.z[h], self._state_before(t), k, -1)
            if self.kind == MARKOV:
                self._put(self.side[t], self.z[h], k, self._state_after(t), -1)
        for side in range(2):
            if not self.counted[2 * t + side]:
                continue
            last = self.capacity
            m = self.first[2 * t + side]
            while m != NONE:
                self._put(side, k, last, self.z[m], -1)
                last, m = self.z[m], self.following[m]
            self._put(side, k, last, self.capacity, -1)
        self.z[t] = old
        value *= (self.words[<size_t>self.word[t] * self.capacity + k] + self.rho) / (
            self.size[k] + self.rho * self.vocabulary[self.tag[t]])
        return log_value + log(value)

    cdef inline void _times(
        self, int n, const int32_t *counts, const int32_t *totals, double more, double total
    ) noexcept nogil:
        """Multiply the weights of all candidates k with (counts[k] + more) / (totals[k] + total)."""
        cdef int i, k
        for i in range(n):
            k = self.candidate[i]
            self.numerator[i] *= counts[k] + more
            self.denominator[i] *= totals[k] + total

    cdef void _settle(self, int n) noexcept nogil:
        """Divide, so that products of many factors stay in range."""
        cdef int i
        cdef double largest = 0
        for i in range(n):
            self.weight[i] *= self.numerator[i] / self.denominator[i]
            self.numerator[i] = self.denominator[i] = 1
            largest = max(largest, self.weight[i])
        if largest > 0:
            for i in range(n):
                self.weight[i] /= largest

    cdef void _weigh_children(self, int t, int n) noexcept nogil:
        """Children of a token for all of its states. Events before an equal one in the list raise its count;
        how often does not hang on the state."""
        cdef int side, m, other, state, last, same, before, other_last, done, factors = 0
        cdef double share
        for side in range(2):
            if not self.counted[2 * t + side]:
                continue
            last, done = self.capacity, 0
            m = self.first[2 * t + side]
            while True:
                state = self.capacity if m == NONE else self.z[m]
                same, before = 0, done
                if self.kind == MARKOV:
                    before = 0
                other, other_last = self.first[2 * t + side], self.capacity
                while other != m:
                    if self.kind == INDEPENDENT:
                        same += self.z[other] == state
                    elif other_last == last:
                        before += 1
                        same += self.z[other] == state
                    other_last, other = self.z[other], self.following[other]
                share = self.beta_stop if m == NONE else self.beta[state]
                if self.kind == INDEPENDENT:
                    self._times(
                        n, self.by_head + self._pair_by_head(side, state),
                        self.total + <size_t>side * self.capacity,
                        same + self.alpha * share, before + self.alpha)
                else:
                    self._times(
                        n, self.by_head + self._triple_by_head(side, last, state),
                        self.total_by_head + self._pair_by_head(side, last),
                        same + self.alpha * share, before + self.alpha)
                factors += 1
                if factors % 8 == 0:
                    self._settle(n)
                if m == NONE:
                    break
                last, done, m = state, done + 1, self.following[m]

    cdef void _weigh_single(self, int t, int n) noexcept nogil:
        """Weights of all candidates by models of single children."""
        cdef int i, k, h = self.head[t], before, after
        cdef double share
        cdef const int32_t *row
        if h >= 0:
            before, after = self._state_before(t), self._state_after(t)
            if self.kind == INDEPENDENT:
                row = self.by_outcome + self._pair(self.side[t], self.z[h], 0)
            else:
                row = self.by_outcome + self._triple(self.side[t], self.z[h], before)
            for i in range(n):
                k = self.candidate[i]
                self.numerator[i] *= row[k] + self.alpha * self.beta[k]
            if self.kind == MARKOV:
                share = self.beta_stop if after == self.capacity else self.beta[after]
                self._times(
                    n, self.by_previous + self._triple(self.side[t], self.z[h], after),
                    self.total + self._pair(self.side[t], self.z[h], 0),
                    self.alpha * share, self.alpha)
        self._weigh_children(t, n)
        self._settle(n)

    cdef int _place(self, int t) noexcept nogil:
        """Where a token stands in the list of its head's children."""
        cdef int place = 0, m = self.first[2 * self.head[t] + self.side[t]]
        while m != t:
            place += 1
            m = self.following[m]
        return place

    cdef void _weigh_lists(self, int t, int n) noexcept nogil:
        """Weights of all candidates by the model of whole lists."""
        cdef int i, k, h = self.head[t], side, place = 0, count
        cdef uint64_t others = 0, own
        cdef double rest = 0, value
        cdef double[2] share
        cdef bint own_context
        for side in range(2):
            share[side] = self._list_share(t, side, NONE)
        if h >= 0:
            place = self._place(t)
            others = self.list_hash[2 * h + self.side[t]] ^ self._hash_place(place, self.z[t])
            rest = self._list_share(h, self.side[t], t)
        for i in range(n):
            k = self.candidate[i]
            value = 1
            own = others ^ self._hash_place(place, k)
            if h >= 0:
                value *= self._list_count(self.side[t], self.z[h], own) + (
                    self.alpha * rest * self.beta[k])
            for side in range(2):
                if not self.counted[2 * t + side]:
                    continue
                count = self._list_count(side, k, self.list_hash[2 * t + side])
                # the list that the token stands in has been generated just before
                own_context = h >= 0 and k == self.z[h] and side == self.side[t]
                if own_context and own == self.list_hash[2 * t + side]:
                    count += 1
                value *= (count + self.alpha * share[side]) / (
                    self.total[<size_t>side * self.capacity + k] + own_context + self.alpha)
            self.numerator[i] *= value
        self._settle(n)

    cdef int _draw(self, int n) noexcept nogil:
        cdef double total = 0, at
        cdef int i
        for i in range(n):
            total += self.weight[i]
        at = uniform(&self.random) * total
        for i in range(n):
            at -= self.weight[i]
            if at < 0:
                return i
        return n - 1

    cdef void _sample_token(self, int t) noexcept nogil:
        cdef int i, k, n = 0, free = NONE, h = self.head[t], old = self.z[t], tag = self.tag[t], place
        cdef double vocabulary = self.rho * self.vocabulary[tag], u
        cdef const int32_t *words = self.words + <size_t>self.word[t] * self.capacity
        self._put_around(t, -1)
        self._put_token(t, old, -1)
        if self.size[old] == 0:
            # nobody else is in it: its share is that of new states
            self.tag_of[old] = NONE
            self.beta_new += self.beta[old]
            self.beta[old] = 0
            self.n_alive -= 1
        for k in range(self.capacity):
            if self.tag_of[k] == tag:
                self.candidate[n] = k
                n += 1
            elif free == NONE and self.tag_of[k] == NONE:
                free = k
        # there is always a free number, but the last one is not given away
        if self.n_alive < self.capacity - 1:
            self.candidate[n] = free
            self.beta[free] = self.beta_new
            n += 1
        for i in range(n):
            k = self.candidate[i]
            self.weight[i] = 1
            self.numerator[i] = words[k] + self.rho
            self.denominator[i] = self.size[k] + vocabulary
            if h < 0:
                self.numerator[i] *= (
                    self.roots[(0 if h == NONE else self.capacity) + k] + self.alpha * self.beta[k])
        if self.kind == SIMULTANEOUS:
            self._weigh_lists(t, n)
        else:
            self._weigh_single(t, n)
            if h >= 0:
                self._mend(t, n)
        i = self._draw(n)
        k = self.candidate[i]
        if free != NONE:
            self.beta[free] = 0
        if self.tag_of[k] == NONE:
            u = beta_draw(&self.random, 1.0, self.gamma)
            self.beta[k] = u * self.beta_new
            self.beta_new *= 1 - u
            self.n_alive += 1
        if self.kind == SIMULTANEOUS and h >= 0:
            place = self._place(t)
            self.list_hash[2 * h + self.side[t]] ^= (
                self._hash_place(place, old) ^ self._hash_place(place, k))
        self.z[t] = k
        self._put_token(t, k, 1)
        self._put_around(t, 1)

    cdef inline bint _shares_context(self, int t, int k) noexcept nogil:
        return k == self.z[self.head[t]] or (self.kind == MARKOV and k == self._state_before(t))

    cdef void _mend(self, int t, int n) noexcept nogil:
        """Events share a context where a token is in the state of its head or of the sibling before it: there
        the weight is computed one by one, against that of a candidate whose weight is right."""
        cdef int i, reference = NONE
        cdef double log_scale, highest = 0
        for i in range(n):
            if not self._shares_context(t, self.candidate[i]) and self.weight[i] > highest:
                reference, highest = i, self.weight[i]
        if reference != NONE:
            log_scale = log(highest) - self._one_by_one(t, self.candidate[reference])
        else:
            log_scale = -1e300
            for i in range(n):
                log_scale = max(log_scale, self._one_by_one(t, self.candidate[i]))
            log_scale = -log_scale
        for i in range(n):
            if self._shares_context(t, self.candidate[i]):
                self.weight[i] = exp(log_scale + self._one_by_one(t, self.candidate[i]))

    # Shares and parameters

    cdef int _tables(self, int n, double a) noexcept nogil:
        """How many tables n guests sit at (Antoniak 1974): the i-th opens one with a / (a + i - 1)."""
        cdef int i, tables = 0
        for i in range(n):
            tables += uniform(&self.random) * (a + i) < a
        return tables

    cdef int _count_tables(self, double *tables, double *stop_tables) noexcept nogil:
        """Tables of all outcomes in all contexts. Returns how many draws from beta they stand for."""
        cdef int c = self.capacity, side, a, b, k, n, in_all = 0
        cdef const int32_t *row
        for k in range(c):
            tables[k] = 0
        stop_tables[0] = 0
        for side in range(2):
            for k in range(c):
                n = self._tables(self.roots[side * c + k], self.alpha * self.beta[k])
                tables[k] += n
                in_all += n
        if self.kind == SIMULTANEOUS:
            n = self._count_list_tables(tables, stop_tables)
            self.n_tables = in_all + <int>stop_tables[0]
            return in_all + n
        for side in range(2):
            for a in range(c):
                if self.tag_of[a] == NONE:
                    continue
                for b in range(c + 1 if self.kind == MARKOV else 1):
                    if self.kind == MARKOV:
                        if self.total[self._pair(side, a, b)] == 0:
                            continue
                        row = self.by_outcome + self._triple(side, a, b)
                    else:
                        row = self.by_outcome + self._pair(side, a, 0)
                    for k in range(c):
                        if row[k] > 0:
                            n = self._tables(row[k], self.alpha * self.beta[k])
                            tables[k] += n
                            in_all += n
                    n = self._tables(row[c], self.alpha * self.beta_stop)
                    stop_tables[0] += n
                    in_all += n
        self.n_tables = in_all
        return in_all

    cdef int _count_list_tables(self, double *tables, double *stop_tables) noexcept nogil:
        """Each table of a list counts for each of its children; the first token with that list speaks for
        all: its count is negative until the end."""
        cdef int t, side, n, m, in_all = 0
        cdef size_t i
        for t in range(self.n):
            for side in range(2):
                if not self.counted[2 * t + side]:
                    continue
                i = self._slot(side, self.z[t], self.list_hash[2 * t + side])
                if self.values[i] <= 0:
                    continue
                n = self._tables(self.values[i], self.alpha * self._list_share(t, side, NONE))
                self.values[i] = -self.values[i]
                stop_tables[0] += n
                in_all += n
                m = self.first[2 * t + side]
                while m != NONE:
                    tables[self.z[m]] += n
                    in_all += n
                    m = self.following[m]
        for i in range(self.n_slots):
            if self.values[i] < 0:
                self.values[i] = -self.values[i]
        return in_all

    cdef void _draw_shares(self) noexcept nogil:
        """beta ~ Dirichlet(tables, gamma)."""
        cdef int k
        cdef double total, stop_tables = 0
        self.n_draws = self._count_tables(self.weight, &stop_tables)
        # at most one table in what has none: states always have some
        self.beta_new = gamma_draw(&self.random, self.gamma)
        self.beta_stop = gamma_draw(&self.random, stop_tables) if stop_tables > 0 else 0.0
        total = self.beta_new + self.beta_stop
        for k in range(self.capacity):
            self.beta[k] = gamma_draw(&self.random, self.weight[k]) if self.weight[k] > 0 else 0.0
            total += self.beta[k]
        for k in range(self.capacity):
            self.beta[k] /= total
        self.beta_stop /= total
        self.beta_new /= total

    def sweep(self, bint resample=False):
        """Draw the state of every token, then the shares.

        resample (bool): Whether to draw the parameters, too: alpha and gamma by auxiliary variables (Teh et al.
            2006; Escobar & West 1995), both with a prior Gamma(1, 0.1); rho by a Metropolis step.
        """
        cdef int t
        with nogil:
            for t in range(self.n):
                self._sample_token(t)
        if self.kind == SIMULTANEOUS and 2 * self.n_used > self.n_slots:
            self._rebuild_lists()
        with nogil:
            self._draw_shares()
        if resample:
            self._draw_alpha()
            self._draw_gamma()
            self._draw_rho()

    cdef _draw_alpha(self):
        cdef double shape = 1.0 + self.n_tables, rate = 0.1
        for n in self._context_totals():
            rate -= log(beta_draw(&self.random, self.alpha + 1, n))
            shape -= uniform(&self.random) * (n + self.alpha) < n
        self.alpha = gamma_draw(&self.random, shape) / rate

    def _context_totals(self):
        """RETURNS (List[float]): How many events each context has that has any."""
        size = 2 * self.capacity * (self.capacity + 1 if self.kind == MARKOV else 1)
        totals = [self.total[i] for i in range(size)] + [self.root_total[0], self.root_total[1]]
        return [float(n) for n in totals if n > 0]

    cdef _draw_gamma(self):
        cdef double eta = beta_draw(&self.random, self.gamma + 1, self.n_draws)
        cdef double rate = 0.1 - log(eta), outcomes = self.n_alive + 1
        cdef double odds = outcomes / (self.n_draws * rate)
        cdef double shape = 1.0 + outcomes - (uniform(&self.random) * (1 + odds) > odds)
        self.gamma = gamma_draw(&self.random, shape) / rate

    cdef _draw_rho(self):
        cdef double other = self.rho * exp(0.1 * normal(&self.random))
        cdef double change = self._word_score(other) - self._word_score(self.rho)
        # the walk is on log rho, with a prior Gamma(1, 1)
        change += log(other) - log(self.rho) - other + self.rho
        if log(uniform(&self.random)) < change:
            self.rho = other

    cdef double _word_score(self, double rho) noexcept nogil:
        cdef int k, w
        cdef double score = 0, vocabulary
        cdef int32_t count
        for k in range(self.capacity):
            if self.tag_of[k] != NONE:
                vocabulary = rho * self.vocabulary[self.tag_of[k]]
                score += lgamma(vocabulary) - lgamma(vocabulary + self.size[k])
        for w in range(self.n_words):
            for k in range(self.capacity):
                count = self.words[<size_t>w * self.capacity + k]
                if count > 0:
                    score += lgamma(rho + count) - lgamma(rho)
        return score

    def counts(self):
        """RETURNS (Dict[str, ndarray]): Copies of all that is counted, to compare with what it should be."""
        found = {name: array.copy() for name, array in self._counts.items()}
        if self.kind == SIMULTANEOUS:
            kept = found["values"] != 0
            order = numpy.argsort(found["keys"][kept])
            for name in ("keys", "values"):
                found[name] = found[name][kept][order]
        return found
