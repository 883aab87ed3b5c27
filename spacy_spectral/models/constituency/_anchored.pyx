# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A conditional random field over the trees of a forest: items as in the model of spans, and anchored rules.

    score(tree) = sum over items s(i, j, symbol) + sum over edges r(i, k, j, rule)

The features of an anchored rule are its rule, or some of its symbols, with contexts at its three boundaries; their
weights are in one table, found by hashing.

Where words have arcs of a dependency parser (`tokens.HEAD`), a rule also looks at the arcs between its children, how
many in each direction, and the label of one that is alone; at how many words of the span have their head outside; and
at how many words outside have their head in the span.
"""
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

import numpy

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._linear cimport Slope, average, climb, new_slopes
from ...base._prefetch cimport FETCH
from ._forest cimport Columns, Forest, Packed, pack, sum_up
from ._table cimport Context, FeatureTable, join, mix, width_bin

from .tokens import HEAD, LABEL, TEMPLATES

cdef enum:
    MOST_TEMPLATES = 64
    # what a rule sees of arcs, each with the rule and with its parent; numbers of their features begin here
    OF_ARCS = 4
    FIRST_OF_ARCS = 50
    # as many or more
    MANY = 3
    # which symbols of the rule a template looks at
    RULE = 0
    PARENT = 1
    # which widths
    LEFT_WIDTH = 1
    RIGHT_WIDTH = 2

cdef const int32_t[:, ::1] ANCHORED = TEMPLATES.anchored
cdef int HEAD_COLUMN = HEAD, LABEL_COLUMN = LABEL


cdef struct Arcs:
    # of one sentence: how many arcs have a head before one place and a modifier before another, and the sum of the
    # numbers of their labels
    int n
    int32_t *count  # [n + 1, n + 1]
    int64_t *label


cdef int _count_arcs(Arcs *a, const int32_t[:, ::1] tokens, int64_t first, int n, Arena *arena) noexcept nogil:
    """RETURNS: 0, or -1 without memory."""
    cdef int h, m, width = n + 1
    cdef size_t size = <size_t>width * width
    a.n = n
    a.count = <int32_t *>take_zeros(arena, size * sizeof(int32_t))
    a.label = <int64_t *>take_zeros(arena, size * sizeof(int64_t))
    if a.count == NULL or a.label == NULL:
        return -1
    for m in range(n):
        h = tokens[first + m, HEAD_COLUMN]
        if 0 < h <= n:
            a.count[h * width + m + 1] = 1
            a.label[h * width + m + 1] = tokens[first + m, LABEL_COLUMN]
    for h in range(1, width):
        for m in range(1, width):
            a.count[h * width + m] += (
                a.count[(h - 1) * width + m] + a.count[h * width + m - 1] - a.count[(h - 1) * width + m - 1])
            a.label[h * width + m] += (
                a.label[(h - 1) * width + m] + a.label[h * width + m - 1] - a.label[(h - 1) * width + m - 1])
    return 0


cdef inline int _between(const Arcs *a, int i, int j, int k, int l) noexcept nogil:
    """How many arcs have a head from i to j and a modifier from k to l."""
    cdef int width = a.n + 1
    return (
        a.count[j * width + l] - a.count[i * width + l] - a.count[j * width + k] + a.count[i * width + k])


cdef inline int64_t _labels(const Arcs *a, int i, int j, int k, int l) noexcept nogil:
    """The sum of the numbers of their labels."""
    cdef int width = a.n + 1
    return (
        a.label[j * width + l] - a.label[i * width + l] - a.label[j * width + k] + a.label[i * width + k])


cdef void _describe_arcs(const Arcs *a, int i, int k, int j, uint64_t *found) noexcept nogil:
    """What a rule sees of arcs."""
    cdef int right = _between(a, i, k, k, j), left = _between(a, k, j, i, k), own = _between(a, i, j, i, j)
    cdef int out = j - i - own, modifiers = _between(a, i, j, 0, a.n) - own
    cdef uint64_t joined = (MANY + 1) * min(right, MANY) + min(left, MANY), label
    out, modifiers = min(out, MANY), min(modifiers, MANY)
    if right + left == 1:
        label = 2 * <uint64_t>(_labels(a, i, k, k, j) + _labels(a, k, j, i, k)) + left + 1
    else:
        label = (<uint64_t>1 << 40) + joined
    found[0] = joined
    found[1] = 16 * joined + 4 * out + modifiers
    found[2] = label
    found[3] = 4 * label + out


cdef class AnchoredTable:
    """The weights: of items, in the table of spans, and of anchored rules by hash (see
    `statistics.rule_features`)."""

    cdef readonly FeatureTable spans
    cdef readonly object weights
    cdef float[::1] weight
    cdef Slope *slope
    cdef const int32_t[:, ::1] rules
    cdef uint64_t mask
    cdef readonly bint arcs
    cdef int n_keys

    def __init__(self, FeatureTable spans not None, rules, weights, *, bint arcs=False):
        """arcs: Whether it looks at arcs."""
        self.arcs, self.n_keys = arcs, <int>ANCHORED.shape[0] + 2 * OF_ARCS * arcs
        if self.n_keys > MOST_TEMPLATES or ANCHORED.shape[0] > FIRST_OF_ARCS:
            raise ValueError(self.n_keys)
        self.spans, self.rules = spans, rules
        self.weight = self.weights = weights
        self.mask = weights.shape[0] - 1

    def __dealloc__(self):
        free(self.slope)

    cdef inline void _edge_keys(
        self, const Context *c, const Arcs *arcs, int rule, int i, int k, int j, uint64_t *keys
    ) noexcept nogil:
        """Where the weights of an anchored rule are."""
        cdef int x, n = c.n_contexts
        cdef uint64_t seen[OF_ARCS]
        cdef uint64_t key, by_rule = self.rules[rule, 3] + 1, parent = 10000000 + self.rules[rule, 0], children
        children = 20000000 + <uint64_t>self.rules[rule, 1] * 65536 + self.rules[rule, 2]
        for x in range(ANCHORED.shape[0]):
            key = ANCHORED[x, 0]
            key = (by_rule if key == RULE else parent if key == PARENT else children) * 64 + x
            if ANCHORED[x, 1] >= 0:
                key = join(key, c.at[i * n + ANCHORED[x, 1]])
            if ANCHORED[x, 2] >= 0:
                key = join(key, c.at[k * n + ANCHORED[x, 2]] + 1)
            if ANCHORED[x, 3] >= 0:
                key = join(key, c.at[j * n + ANCHORED[x, 3]] + 2)
            if ANCHORED[x, 4] & LEFT_WIDTH:
                key = join(key, width_bin(k - i))
            if ANCHORED[x, 4] & RIGHT_WIDTH:
                key = join(key, 32 + width_bin(j - k))
            keys[x] = mix(key) & self.mask
            FETCH(&self.weight[keys[x]])
        if self.arcs:
            _describe_arcs(arcs, i, k, j, seen)
            for x in range(2 * OF_ARCS):
                key = (parent if x % 2 else by_rule) * 64 + FIRST_OF_ARCS + x
                keys[ANCHORED.shape[0] + x] = mix(join(key, seen[x // 2])) & self.mask
                FETCH(&self.weight[keys[ANCHORED.shape[0] + x]])

    cdef int _score(
        self, const int32_t[:, ::1] tokens, int64_t first_word, const Columns *f, int64_t s, Context *c,
        Arcs *arcs, double *item_score, double *edge_score, Arena *arena
    ) noexcept nogil:
        """Scores of the items and edges of a sentence. RETURNS: 0, or -1 without memory."""
        cdef int n_words = self.spans.n_words, x, i = -1, j = -1
        cdef int64_t y, e
        cdef uint64_t keys[MOST_TEMPLATES]
        cdef float *own = <float *>take(arena, (max(self.spans.n_phrases, n_words) + 1) * sizeof(float))
        cdef float total
        if own == NULL or self.spans.context(c, tokens, first_word, f.lengths[s], arena):
            return -1
        if self.arcs and _count_arcs(arcs, tokens, first_word, f.lengths[s], arena):
            return -1
        self.spans.score_ends(c)
        for y in range(f.starts[s], f.starts[s + 1]):
            if f.begin[y] != i or f.end[y] != j:
                i, j = f.begin[y], f.end[y]
                self.spans.score(c, i, j, own)
            item_score[y] = own[f.symbol[y] - (n_words if j - i > 1 else 0)]
            for e in range(f.edge_starts[y], f.edge_starts[y + 1]):
                self._edge_keys(c, arcs, f.rule[e], i, f.end[f.left[e]], j, keys)
                total = 0
                for x in range(self.n_keys):
                    total += self.weight[keys[x]]
                edge_score[e] = total
        return 0

    def scores(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] word_starts not None,
        Forest forest not None,
    ):
        """The scores of the items and of the edges of a forest over encoded words."""
        cdef Arena arena
        cdef Context c
        cdef Arcs arcs
        cdef int64_t s
        cdef int failed = 0
        cdef const Columns *f = &forest.c
        items, edges = numpy.zeros(f.n_items), numpy.zeros(f.n_edges)
        cdef double[::1] item_score = items, edge_score = edges
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(f.n_sentences):
                if f.starts[s] == f.starts[s + 1]:
                    continue
                arena_reset(&arena)
                failed = self._score(
                    tokens, word_starts[s], f, s, &c, &arcs, &item_score[0], &edge_score[0], &arena)
                if failed:
                    break
            arena_free(&arena)
        if failed:
            raise MemoryError
        return items, edges

    def begin_learning(self, double initial_squares):
        """Take memory for AdaGrad; its sums of squares start at `initial_squares`."""
        self.spans.begin_learning(initial_squares)
        self.slope = new_slopes(self.slope, self.weight.shape[0], initial_squares)

    def learn(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] word_starts not None,
        Forest forest not None, const uint8_t[::1] gold not None, const uint8_t[::1] gold_edge not None,
        const int32_t[::1] order not None, double rate,
    ):
        """Improve the likelihood of gold trees, marked among items and edges, one sentence after the
        other. Gives the negative log-likelihood."""
        cdef Arena arena
        cdef Context c
        cdef Arcs arcs
        cdef const Columns *f = &forest.c
        cdef int64_t s, x, e, first, first_edge, n_items, n_edges
        cdef int o, failed = 0
        cdef double loss = 0, log_z
        cdef Packed packed
        cdef double *score
        cdef double *post
        cdef double *edge_score
        cdef double *edge_post
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for o in range(order.shape[0]):
                s = order[o]
                first, first_edge = f.starts[s], f.edge_starts[f.starts[s]]
                n_items, n_edges = f.starts[s + 1] - first, f.edge_starts[f.starts[s + 1]] - first_edge
                if not n_items:
                    continue
                arena_reset(&arena)
                score = <double *>take_zeros(&arena, 2 * n_items * sizeof(double))
                edge_score = <double *>take_zeros(&arena, 2 * n_edges * sizeof(double))
                failed = score == NULL or edge_score == NULL
                if failed:
                    break
                # numbers of items and edges count from the beginning of the batch
                score, edge_score = score - first, edge_score - first_edge
                post, edge_post = score + n_items, edge_score + n_edges
                failed = (
                    self._score(tokens, word_starts[s], f, s, &c, &arcs, score, edge_score, &arena)
                    or pack(&packed, f, s, score, edge_score, NULL, &arena))
                if failed:
                    break
                log_z = sum_up(&packed, first, post, edge_post, &arena)
                loss += log_z
                for x in range(first, first + n_items):
                    loss -= gold[x] * score[x]
                    for e in range(f.edge_starts[x], f.edge_starts[x + 1]):
                        loss -= gold_edge[e] * edge_score[e]
                self.spans.n_steps += 1
                failed = isnan(log_z) or self._step(
                    &c, &arcs, f, s, &gold[0], &gold_edge[0], post, edge_post, rate, &arena)
                if failed:
                    break
            arena_free(&arena)
        if failed:
            raise MemoryError
        return loss

    cdef int _step(
        self, const Context *c, const Arcs *arcs, const Columns *f, int64_t s, const uint8_t *gold, const uint8_t *gold_edge,
        const double *post, const double *edge_post, double rate, Arena *arena
    ) noexcept nogil:
        cdef int n_words = self.spans.n_words, x, i, j, size
        cdef int64_t y = f.starts[s], e
        cdef uint64_t keys[MOST_TEMPLATES]
        cdef float gradient
        cdef float *own = <float *>take(arena, (max(self.spans.n_phrases, n_words) + 1) * sizeof(float))
        cdef bint is_there
        if own == NULL:
            return -1
        memset(c.left, 0, c.size)
        while y < f.starts[s + 1]:
            i, j = f.begin[y], f.end[y]
            size = n_words if j - i == 1 else self.spans.n_phrases
            memset(own, 0, (size + 1) * sizeof(float))
            is_there = False
            while y < f.starts[s + 1] and f.begin[y] == i and f.end[y] == j:
                gradient = <float>(gold[y] - post[y])
                if not -1e-4 < gradient < 1e-4:
                    own[f.symbol[y] - (n_words if j - i > 1 else 0)] = gradient
                    is_there = True
                    if j - i > 1:
                        own[size] += gradient
                for e in range(f.edge_starts[y], f.edge_starts[y + 1]):
                    gradient = <float>(gold_edge[e] - edge_post[e])
                    if -1e-4 < gradient < 1e-4:
                        continue
                    self._edge_keys(c, arcs, f.rule[e], i, f.end[f.left[e]], j, keys)
                    for x in range(self.n_keys):
                        climb(&self.weight[keys[x]], &self.slope[keys[x]], gradient, rate, self.spans.n_steps)
                y += 1
            if is_there:
                self.spans.follow(c, i, j, own, rate)
        self.spans.follow_ends(c, rate)
        return 0

    def averaged(self):
        """RETURNS: The weights of items and of anchored rules, averaged over all steps."""
        result = numpy.empty(self.weight.shape[0], dtype=numpy.float32)
        cdef float[::1] out = result
        average(&self.weight[0], self.slope, self.weight.shape[0], self.spans.n_steps, &out[0])
        return self.spans.averaged(), result
