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
given all others (see `_sample`), then beta given how many tables there are of each outcome in each context.

States may be bound to tags: then a token is in a state of its tag, or in a new one.
"""

from libc.math cimport exp, lgamma, log
from libc.stdint cimport int32_t, uint64_t

import numpy

from ._chain cimport (
    INDEPENDENT, MARKOV, NONE, SIMULTANEOUS, Chain, list_share, pair, put_own, put_stops, put_token,
    rebuild_lists, slot, triple,
)
from ...base._random cimport beta_draw, gamma_draw, normal, seed_random, uniform
from ._sample cimport sample_token

MODELS = ("independent", "markov", "simultaneous")


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
            for b in range(c + 1 if chain.kind == MARKOV else 1):
                if chain.kind == MARKOV:
                    if chain.total[pair(chain, side, a, b)] == 0:
                        continue
                    row = chain.by_outcome + triple(chain, side, a, b)
                else:
                    row = chain.by_outcome + pair(chain, side, a, 0)
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
            i = slot(chain, side, chain.z[t], chain.list_hash[2 * t + side])
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
        chain.size = <int32_t *>self._keep(numpy.zeros(c, dtype="int32"), "size")
        chain.words = <int32_t *>self._keep(numpy.zeros((n_words, c), dtype="int32"), "words")
        chain.roots = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "roots")
        chain.root_total[0] = chain.root_total[1] = 0
        if chain.kind == INDEPENDENT:
            chain.by_outcome = <int32_t *>self._keep(numpy.zeros((2, c, c + 1), dtype="int32"), "by_outcome")
            chain.by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c), dtype="int32"), "by_head")
            chain.total = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "total")
        elif chain.kind == MARKOV:
            chain.by_outcome = <int32_t *>self._keep(numpy.zeros((2, c, c + 1, c + 1), dtype="int32"), "by_outcome")
            chain.by_previous = <int32_t *>self._keep(numpy.zeros((2, c, c + 1, c + 1), dtype="int32"), "by_previous")
            chain.by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c + 1, c), dtype="int32"), "by_head")
            chain.total = <int32_t *>self._keep(numpy.zeros((2, c, c + 1), dtype="int32"), "total")
            chain.total_by_head = <int32_t *>self._keep(numpy.zeros((2, c + 1, c), dtype="int32"), "total_by_head")
        else:
            chain.n_slots = 1 << 10
            while chain.n_slots < 8 * <size_t>chain.n + 64:
                chain.n_slots *= 2
            chain.keys = <uint64_t *>self._keep(numpy.zeros(chain.n_slots, dtype="uint64"), "keys")
            chain.values = <int32_t *>self._keep(numpy.zeros(chain.n_slots, dtype="int32"), "values")
            chain.list_hash = <uint64_t *>self._keep(numpy.zeros((chain.n, 2), dtype="uint64"))
            chain.total = <int32_t *>self._keep(numpy.zeros((2, c), dtype="int32"), "total")
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

    @property
    def n_states(self):
        """RETURNS (int): How many states have tokens."""
        return self.chain.n_alive

    @property
    def alpha(self):
        """RETURNS (float): How much contexts are alike."""
        return self.chain.alpha

    @property
    def gamma(self):
        """RETURNS (float): How many states there are."""
        return self.chain.gamma

    @property
    def rho(self):
        """RETURNS (float): How much words are alike in a state."""
        return self.chain.rho

    def sweep(self, bint resample=False):
        """Draw the state of every token, then the shares.

        resample (bool): Whether to draw the parameters, too: alpha and gamma by auxiliary variables (Teh et al.
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
        """RETURNS (List[float]): How many events each context has that has any."""
        cdef Chain* chain = &self.chain
        size = 2 * chain.capacity * (chain.capacity + 1 if chain.kind == MARKOV else 1)
        totals = [chain.total[i] for i in range(size)] + [chain.root_total[0], chain.root_total[1]]
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
        """RETURNS (Dict[str, ndarray]): Copies of all that is counted, to compare with what it should be."""
        found = {name: array.copy() for name, array in self._counts.items()}
        if self.chain.kind == SIMULTANEOUS:
            kept = found["values"] != 0
            order = numpy.argsort(found["keys"][kept])
            for name in ("keys", "values"):
                found[name] = found[name][kept][order]
        return found
