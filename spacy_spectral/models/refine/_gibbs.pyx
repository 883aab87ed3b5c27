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

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, uint8_t, uint64_t

import numpy

from ...base._random cimport Random, beta_draw, gamma_draw, mix64, seed_random, uniform

MODELS = ("independent", "markov", "simultaneous")


cdef enum:
    NONE = -1           # as a head: the root; as a sibling or a child: there is none
    MISSING = -2        # as a head: it is not known

cdef enum Kind:
    INDEPENDENT = 0
    MARKOV = 1
    SIMULTANEOUS = 2


cdef struct Event:
    # What is generated in a context, and its share in beta; `cell` is where it is counted: a place in the table
    # of single children, or the key of a list
    uint64_t cell
    size_t context
    double share


cdef class InfiniteTree:
    """A state of the chain: states of tokens, counts of all events, shares of outcomes.

    STOP, and FIRST as the sibling before, have the number `capacity` among the states.
    """

    cdef int n, kind, capacity
    cdef int n_previous         # what contexts know of the sibling before: all states and FIRST, or 1 for nothing
    cdef double alpha, gamma, rho
    cdef double beta_new, beta_stop
    cdef Random random
    cdef readonly int n_states  # that have tokens
    cdef double stop_tables     # those of STOP; the tables of states are in `weight` until the shares are drawn
    cdef const int32_t[::1] head, previous, following, word, tag
    cdef const int32_t[:, ::1] first
    cdef const uint8_t[:, ::1] counted
    cdef int32_t[::1] vocabulary    # by tag, how many words there are
    cdef int32_t[::1] z             # the memory of `states`
    cdef readonly object states
    cdef double[::1] beta
    cdef int32_t[::1] tag_of        # NONE if a state is free
    cdef int32_t[::1] size          # tokens of a state
    cdef int32_t[:, ::1] words      # [words, capacity]
    cdef int32_t[:, ::1] roots      # [2, capacity], of roots and of tokens without a head
    cdef int32_t[::1] total         # of contexts: [2, n_previous, capacity]
    cdef int32_t[::1] cells         # single children: [2, n_previous, capacity + 1, capacity]
    cdef uint64_t[::1] keys         # SIMULTANEOUS: an open-addressing table of lists with their heads
    cdef int32_t[::1] values
    cdef size_t n_used
    # scratch: the events around a token, and its candidates
    cdef Event[::1] events
    cdef int n_events
    cdef int32_t[::1] candidate
    cdef double[::1] weight

    def __init__(
        self,
        str model,
        const int32_t[::1] head not None,
        const int32_t[::1] previous not None,
        const int32_t[::1] following not None,
        const int32_t[:, ::1] first not None,
        const uint8_t[:, ::1] counted not None,
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
        """head (int[n]): The head of every token among all, -1 for roots, -2 for tokens without one.
        previous, following (int[n]): The siblings before and after it, from the inside out, -1 for none.
        first (int[n, 2]): Its innermost child by side, -1 for none.
        counted (uint8[n, 2]): Whether its children are all known, by side; others have none.
        tag, start (int[n]): Its tag, one for all if states are bound to none, and a state to start from;
        those of different tags must differ.
        capacity: Most states, and one."""
        cdef int t, side, c = capacity
        if numpy.max(start, initial=0) >= c - 1 or numpy.min(start, initial=0) < 0:
            raise ValueError("states to start from beyond the capacity")
        self.n, self.kind, self.capacity = len(word), MODELS.index(model), c
        self.alpha, self.gamma, self.rho = alpha, gamma, rho
        seed_random(&self.random, seed)
        self.head, self.previous, self.following, self.first = head, previous, following, first
        self.counted, self.word, self.tag = counted, word, tag
        pairs = numpy.unique(numpy.stack([tag, word]), axis=1)
        self.vocabulary = numpy.bincount(pairs[0], minlength=1).astype("int32")
        self.states = self.z = numpy.array(start)
        self.beta, self.weight = numpy.zeros(c), numpy.zeros(c)
        self.tag_of = numpy.full(c, NONE, dtype="int32")
        self.size = _zeros(c)
        self.words = _zeros(int(numpy.max(word, initial=0)) + 1, c)
        self.roots = _zeros(2, c)
        self.n_previous = c + 1 if self.kind == MARKOV else 1
        self.total = _zeros(2 * c * self.n_previous)
        if self.kind == SIMULTANEOUS:
            n_slots = 1 << max(10, (8 * self.n + 63).bit_length())
            self.keys, self.values = numpy.zeros(n_slots, dtype="uint64"), _zeros(n_slots)
        else:
            self.cells = _zeros(len(self.total) * (c + 1))
        event = [("cell", "uint64"), ("context", "uintp"), ("share", "float64")]
        self.events = numpy.zeros(self.n + 4, dtype=event)
        self.candidate = _zeros(c)
        for t in range(self.n):
            self.put_token(t, 1)
        self.count_all()
        # every outcome the same share, before the first is drawn
        self.n_states = int(numpy.count_nonzero(self.size))
        for t in range(c):
            self.beta[t] = 1.0 / (self.n_states + 2) if self.size[t] > 0 else 0.0
        self.beta_new = self.beta_stop = 1.0 / (self.n_states + 2)
        self.count_tables()
        self.draw_shares()

    # Events

    cdef inline void list_single(self, int side, int head, int previous, int outcome) noexcept nogil:
        """A single child, or STOP."""
        cdef Event* event = &self.events[self.n_events]
        cdef size_t before = side if self.kind == INDEPENDENT else side * self.n_previous + previous
        # heads are the innermost: the candidates of a token are the heads of its children
        event.context = before * self.capacity + head
        event.cell = (before * (self.capacity + 1) + outcome) * self.capacity + head
        event.share = self.beta_stop if outcome == self.capacity else self.beta[outcome]
        self.n_events += 1

    cdef inline void list_children(self, int t, int side) noexcept nogil:
        """What generates a token's children on a side, and STOP."""
        cdef int m = self.first[t, side], last = self.capacity
        cdef Event* event = &self.events[self.n_events]
        if not self.counted[t, side]:
            return
        if self.kind != SIMULTANEOUS:
            while m != NONE:
                self.list_single(side, self.z[t], last, self.z[m])
                last, m = self.z[m], self.following[m]
            self.list_single(side, self.z[t], last, self.capacity)
            return
        event.context = <size_t>side * self.capacity + self.z[t]
        # not 0, which `mix64` leaves as it is
        event.cell = mix64(event.context + (<uint64_t>1 << 60))
        event.share = self.beta_stop
        while m != NONE:
            event.cell = mix64((event.cell << 1) + self.z[m] + 1)
            event.share *= self.beta[self.z[m]]
            m = self.following[m]
        # 0 is a free slot
        event.cell = mix64(event.cell) | 1
        self.n_events += 1

    cdef inline void list_around(self, int t) noexcept nogil:
        """All events that a token's state takes part in."""
        cdef int h = self.head[t], side = t > h
        self.n_events = 0
        if h >= 0 and self.kind == SIMULTANEOUS:
            self.list_children(h, side)
        elif h >= 0:
            self.list_single(side, self.z[h], self.state_of(self.previous[t]), self.z[t])
            if self.kind == MARKOV:
                self.list_single(side, self.z[h], self.z[t], self.state_of(self.following[t]))
        self.list_children(t, 0)
        self.list_children(t, 1)

    cdef inline int state_of(self, int t) noexcept nogil:
        return self.capacity if t == NONE else self.z[t]

    cdef inline size_t slot(self, uint64_t key) noexcept nogil:
        """Where a list is counted, or where it belongs."""
        cdef size_t mask = self.keys.shape[0] - 1, i = (key >> 1) & mask
        while self.keys[i] != key and self.keys[i] != 0:
            i = (i + 1) & mask
        return i

    cdef inline int count_of(self, uint64_t cell) noexcept nogil:
        return self.values[self.slot(cell)] if self.kind == SIMULTANEOUS else self.cells[cell]

    cdef void put_events(self, int n) noexcept nogil:
        """Count the events that are listed."""
        cdef int i
        cdef size_t slot
        for i in range(self.n_events):
            self.total[self.events[i].context] += n
            if self.kind != SIMULTANEOUS:
                self.cells[self.events[i].cell] += n
                continue
            slot = self.slot(self.events[i].cell)
            self.n_used += self.keys[slot] == 0
            self.keys[slot] = self.events[i].cell
            self.values[slot] += n

    cdef void count_all(self) noexcept nogil:
        """Count the events of all trees."""
        cdef int t, side
        for t in range(self.n):
            for side in range(2):
                self.n_events = 0
                self.list_children(t, side)
                self.put_events(1)

    cdef inline void put_token(self, int t, int n) noexcept nogil:
        """Count a token's word, its state, and that it is a root."""
        cdef int k = self.z[t]
        self.words[self.word[t], k] += n
        self.size[k] += n
        if self.size[k] > 0:
            self.tag_of[k] = self.tag[t]
        if self.head[t] < 0:
            self.roots[self.head[t] == MISSING, k] += n

    # Drawing the state of a token given all others

    cdef double log_weight(self, int t) noexcept nogil:
        """log P of a token's word and of all events around it, each given those before it."""
        cdef int i, j, same, before, k = self.z[t]
        cdef double log_value = 0, value = (self.words[self.word[t], k] + self.rho) / (
            self.size[k] + self.rho * self.vocabulary[self.tag[t]])
        cdef Event* event
        if self.head[t] < 0:
            value *= self.roots[self.head[t] == MISSING, k] + self.alpha * self.beta[k]
        self.list_around(t)
        for i in range(self.n_events):
            event = &self.events[i]
            same = before = 0
            for j in range(i):
                before += self.events[j].context == event.context
                same += self.events[j].cell == event.cell
            value *= (self.count_of(event.cell) + same + self.alpha * event.share) / (
                self.total[event.context] + before + self.alpha)
            if value < 1e-200:
                log_value += log(value)
                value = 1
        return log_value + log(value)

    cdef void sample_token(self, int t) noexcept nogil:
        cdef int i, k, n = 0, free = NONE, old = self.z[t]
        cdef double highest = -INFINITY, total = 0, at, u
        self.list_around(t)
        self.put_events(-1)
        self.put_token(t, -1)
        if self.size[old] == 0:
            # nobody else is in it: its share is that of new states
            self.tag_of[old] = NONE
            self.beta_new += self.beta[old]
            self.beta[old] = 0
            self.n_states -= 1
        for k in range(self.capacity):
            if self.tag_of[k] == self.tag[t]:
                self.candidate[n] = k
                n += 1
            elif free == NONE and self.tag_of[k] == NONE:
                free = k
        # there is always a free number, but the last one is not given away
        if self.n_states < self.capacity - 1:
            self.candidate[n] = free
            self.beta[free] = self.beta_new
            n += 1
        for i in range(n):
            self.z[t] = self.candidate[i]
            self.weight[i] = self.log_weight(t)
            highest = max(highest, self.weight[i])
        for i in range(n):
            self.weight[i] = exp(self.weight[i] - highest)
            total += self.weight[i]
        at = uniform(&self.random) * total
        i = 0
        while i < n - 1:
            at -= self.weight[i]
            if at < 0:
                break
            i += 1
        k = self.candidate[i]
        if free != NONE:
            self.beta[free] = 0
        if self.tag_of[k] == NONE:
            u = beta_draw(&self.random, 1.0, self.gamma)
            self.beta[k] = u * self.beta_new
            self.beta_new *= 1 - u
            self.n_states += 1
        self.z[t] = k
        self.put_token(t, 1)
        self.list_around(t)
        self.put_events(1)

    # Drawing the shares

    cdef int tables_of(self, int n, double a) noexcept nogil:
        """How many tables n guests sit at (Antoniak 1974): the i-th opens one with a / (a + i - 1)."""
        cdef int i, tables = 0
        for i in range(n):
            tables += uniform(&self.random) * (a + i) < a
        return tables

    cdef void count_tables(self) noexcept nogil:
        """Tables of all outcomes in all contexts, and how many draws from beta they stand for."""
        cdef int c = self.capacity, side, head, previous, k, n
        cdef size_t row
        self.weight[:] = 0
        self.stop_tables = 0
        for side in range(2):
            for k in range(c):
                n = self.tables_of(self.roots[side, k], self.alpha * self.beta[k])
                self.weight[k] += n
        if self.kind == SIMULTANEOUS:
            self.count_list_tables()
            return
        for side in range(2):
            for head in range(c):
                for previous in range(self.n_previous):
                    row = side * self.n_previous + previous
                    if self.total[row * c + head] == 0:
                        continue
                    for k in range(c + 1):
                        n = self.tables_of(
                            self.cells[(row * (c + 1) + k) * c + head],
                            self.alpha * (self.beta_stop if k == c else self.beta[k]))
                        if k == c:
                            self.stop_tables += n
                        else:
                            self.weight[k] += n

    cdef void count_list_tables(self) noexcept nogil:
        """Each table of a list counts for each of its children; the first token with that list speaks for
        all: its count is negative until the end."""
        cdef int t, side, n, m
        cdef size_t i
        for t in range(self.n):
            for side in range(2):
                self.n_events = 0
                self.list_children(t, side)
                if self.n_events == 0:
                    continue
                i = self.slot(self.events[0].cell)
                if self.values[i] <= 0:
                    continue
                n = self.tables_of(self.values[i], self.alpha * self.events[0].share)
                self.values[i] = -self.values[i]
                self.stop_tables += n
                m = self.first[t, side]
                while m != NONE:
                    self.weight[self.z[m]] += n
                    m = self.following[m]
        for i in range(<size_t>self.values.shape[0]):
            self.values[i] = max(self.values[i], -self.values[i])

    cdef void draw_shares(self) noexcept nogil:
        """beta ~ Dirichlet(tables, gamma), of tables that have just been counted."""
        cdef int k
        cdef double total
        # at most one table in what has none: states always have some
        self.beta_new = gamma_draw(&self.random, self.gamma)
        self.beta_stop = gamma_draw(&self.random, self.stop_tables) if self.stop_tables > 0 else 0.0
        total = self.beta_new + self.beta_stop
        for k in range(self.capacity):
            self.beta[k] = gamma_draw(&self.random, self.weight[k]) if self.weight[k] > 0 else 0.0
            total += self.beta[k]
        for k in range(self.capacity):
            self.beta[k] /= total
        self.beta_stop /= total
        self.beta_new /= total

    def sweep(self):
        """Draw the state of every token, then the shares."""
        cdef int t
        with nogil:
            for t in range(self.n):
                self.sample_token(t)
            if self.kind == SIMULTANEOUS and 2 * self.n_used > <size_t>self.keys.shape[0]:
                # lists that are not there any longer have filled the table
                self.keys[:] = 0
                self.values[:] = 0
                self.total[:] = 0
                self.n_used = 0
                self.count_all()
            self.count_tables()
            self.draw_shares()

    def counts(self):
        """Copies of all that is counted, to compare with what it should be."""
        found = {"size": self.size, "words": self.words, "roots": self.roots, "total": self.total}
        if self.kind == SIMULTANEOUS:
            # in the order of their keys, without those that are not there any longer
            kept = numpy.flatnonzero(self.values)
            kept = kept[numpy.argsort(numpy.asarray(self.keys)[kept])]
            found |= {"keys": numpy.asarray(self.keys)[kept], "values": numpy.asarray(self.values)[kept]}
        else:
            found["cells"] = self.cells
        return {name: numpy.array(array) for name, array in found.items()}


def _zeros(*shape):
    return numpy.zeros(shape, dtype="int32")
