# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A conditional random field over the trees of a forest: items as in the model of spans, and anchored rules.

    score(tree) = sum over items s(i, j, symbol) + sum over edges r(i, k, j, rule)

The features of an anchored rule are its rule, or some of its symbols, with contexts at its three boundaries; their
weights are in one table, found by hashing.
"""
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

import numpy

from ...base._linear cimport climb
from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._prefetch cimport FETCH
from ._forest cimport Columns, Forest, Packed, pack, sum_up
from ._table cimport Context, FeatureTable, Weights, join, mix, width_bin

from .tokens import TEMPLATES

cdef enum:
    MOST_TEMPLATES = 64
    # which symbols of the rule a template looks at
    RULE = 0
    PARENT = 1
    CHILDREN = 2
    # which widths
    NO_WIDTH = 0
    LEFT_WIDTH = 1
    RIGHT_WIDTH = 2
    BOTH_WIDTHS = 3


cdef class AnchoredTable(Weights):
    """The weights.

    spans (FeatureTable): Those of items.
    rules (int32[rules, 4]): The rules; see `statistics.rule_features`.
    weight (float32[2 ** bits]): The weights of anchored rules.
    """

    cdef readonly FeatureTable spans
    cdef const int32_t[:, ::1] templates
    cdef const int32_t[:, ::1] rules
    cdef uint64_t mask

    def __init__(self, FeatureTable spans not None, rules, weight):
        self.spans = spans
        self.templates, self.rules, self.weight = TEMPLATES.anchored, rules, weight
        self.mask = weight.shape[0] - 1
        if self.templates.shape[0] > MOST_TEMPLATES:
            raise ValueError(self.templates.shape[0])

    def parts(self):
        """RETURNS (ndarray): The weights of anchored rules."""
        return numpy.asarray(self.weight)

    cdef inline void _edge_keys(
        self, const Context *c, int rule, int i, int k, int j, uint64_t *keys
    ) noexcept nogil:
        """Where the weights of an anchored rule are."""
        cdef int x, at
        cdef uint64_t key, by_rule = self.rules[rule, 3] + 1, parent = 10000000 + self.rules[rule, 0], children
        cdef int n_contexts = self.spans.t.n_contexts
        children = 20000000 + <uint64_t>self.rules[rule, 1] * 65536 + self.rules[rule, 2]
        for x in range(self.templates.shape[0]):
            key = self.templates[x, 0]
            key = (by_rule if key == RULE else parent if key == PARENT else children) * 64 + x
            at = self.templates[x, 1]
            if at >= 0:
                key = join(key, c.at[i * n_contexts + at])
            at = self.templates[x, 2]
            if at >= 0:
                key = join(key, c.at[k * n_contexts + at] + 1)
            at = self.templates[x, 3]
            if at >= 0:
                key = join(key, c.at[j * n_contexts + at] + 2)
            if self.templates[x, 4] & LEFT_WIDTH:
                key = join(key, width_bin(k - i, 0))
            if self.templates[x, 4] & RIGHT_WIDTH:
                key = join(key, 32 + width_bin(j - k, 0))
            keys[x] = mix(key) & self.mask
            FETCH(&self.weight[keys[x]])

    cdef int _score(
        self, const Context *c, const Columns *f, int64_t first, int64_t last, double *item_score,
        double *edge_score, Arena *arena
    ) noexcept nogil:
        cdef int n = c.n, L = self.spans.n_phrases, x, i = -1, j = -1, k
        cdef int64_t y, e
        cdef uint64_t keys[MOST_TEMPLATES]
        cdef float *lefts = <float *>take(arena, (n + 1) * (L + 1) * sizeof(float))
        cdef float *rights = <float *>take(arena, (n + 1) * (L + 1) * sizeof(float))
        cdef float *scratch = <float *>take(arena, max(L + 1, self.spans.n_words) * sizeof(float))
        cdef float total
        if lefts == NULL or rights == NULL or scratch == NULL:
            return -1
        self.spans.score_ends(c, lefts, rights)
        for y in range(first, last):
            if f.begin[y] != i or f.end[y] != j:
                i, j = f.begin[y], f.end[y]
                if j - i == 1:
                    self.spans.score_word(c, i, scratch)
                else:
                    self.spans.score_span(c, i, j, lefts, rights, scratch)
            item_score[y] = scratch[f.symbol[y] - (self.spans.n_words if j - i > 1 else 0)]
            for e in range(f.edge_starts[y], f.edge_starts[y + 1]):
                k = f.end[f.left[e]]
                self._edge_keys(c, f.rule[e], i, k, j, keys)
                total = 0
                for x in range(self.templates.shape[0]):
                    total += self.weight[keys[x]]
                edge_score[e] = total
        return 0

    def scores(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] word_starts not None,
        Forest forest not None,
    ):
        """The scores of the items and edges of a forest.

        tokens (int32[words, columns]), word_starts (int64[sentences + 1]): The words.
        RETURNS (Tuple[ndarray, ndarray]): float64, by item and by edge.
        """
        cdef Arena arena
        cdef Context c
        cdef int64_t s
        cdef int n, failed = 0
        cdef const Columns *f = &forest.c
        items, edges = numpy.zeros(f.n_items), numpy.zeros(f.n_edges)
        cdef double[::1] item_score = items, edge_score = edges
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(f.n_sentences):
                n = f.lengths[s]
                if f.starts[s] == f.starts[s + 1]:
                    continue
                arena_reset(&arena)
                failed = self.spans.context(&c, &tokens[word_starts[s], 0], n, &arena) or self._score(
                    &c, f, f.starts[s], f.starts[s + 1], &item_score[0], &edge_score[0], &arena)
                if failed:
                    break
            arena_free(&arena)
        if failed:
            raise MemoryError
        return items, edges

    # ------------------------------------------------------------------ learning

    def begin_learning(self, double initial_squares):
        self.spans.begin_learning(initial_squares)
        Weights.begin_learning(self, initial_squares)

    def learn(
        self, const int32_t[:, ::1] tokens not None, const int64_t[::1] word_starts not None,
        Forest forest not None, const uint8_t[::1] gold not None, const uint8_t[::1] gold_edge not None,
        const int32_t[::1] order not None, double rate, bint update=True,
    ):
        """Improve the likelihood of gold trees, one sentence after the other.

        gold (uint8[items]), gold_edge (uint8[edges]): What is in the gold trees.
        order (int32[]): Which sentences, and in which order.
        RETURNS (float): The negative log-likelihood of the trees.
        """
        cdef Arena arena
        cdef Context c
        cdef const Columns *f = &forest.c
        cdef int64_t s, x, e, first, last, first_edge
        cdef int o, n, failed = 0
        cdef double loss = 0, log_z, score
        cdef Packed packed
        cdef double *item_score
        cdef double *edge_score
        cdef double *post
        cdef double *edge_post
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for o in range(order.shape[0]):
                s = order[o]
                n = f.lengths[s]
                first, last = f.starts[s], f.starts[s + 1]
                if first == last:
                    continue
                first_edge = f.edge_starts[first]
                arena_reset(&arena)
                item_score = <double *>take(&arena, (last - first) * sizeof(double))
                post = <double *>take_zeros(&arena, (last - first) * sizeof(double))
                edge_score = <double *>take(&arena, (f.edge_starts[last] - first_edge + 1) * sizeof(double))
                edge_post = <double *>take_zeros(&arena, (f.edge_starts[last] - first_edge + 1) * sizeof(double))
                if item_score == NULL or post == NULL or edge_score == NULL or edge_post == NULL:
                    failed = 1
                    break
                # numbers of items and edges count from the beginning of the batch
                item_score -= first
                post -= first
                edge_score -= first_edge
                edge_post -= first_edge
                failed = self.spans.context(&c, &tokens[word_starts[s], 0], n, &arena) or self._score(
                    &c, f, first, last, item_score, edge_score, &arena)
                if failed:
                    break
                score = 0
                for x in range(first, last):
                    score += gold[x] * item_score[x]
                    for e in range(f.edge_starts[x], f.edge_starts[x + 1]):
                        score += gold_edge[e] * edge_score[e]
                failed = pack(&packed, f, s, item_score, edge_score, NULL, &arena)
                if failed:
                    break
                log_z = sum_up(&packed, first, post, edge_post, &arena)
                failed = isnan(log_z)
                if failed:
                    break
                loss += log_z - score
                if not update:
                    continue
                self.n_steps += 1
                self.spans.n_steps += 1
                failed = self._step(
                    &c, f, first, last, &gold[0], &gold_edge[0], post, edge_post, rate, &arena)
                if failed:
                    break
            arena_free(&arena)
        if failed:
            raise MemoryError
        return loss

    cdef int _step(
        self, const Context *c, const Columns *f, int64_t first, int64_t last, const uint8_t *gold,
        const uint8_t *gold_edge, const double *post, const double *edge_post, double rate, Arena *arena
    ) noexcept nogil:
        cdef int n = c.n, L = self.spans.n_phrases, W = self.spans.n_words, x, i, j, size
        cdef int64_t y, e
        cdef uint64_t keys[MOST_TEMPLATES]
        cdef float gradient
        cdef float *lefts = <float *>take_zeros(arena, (n + 1) * (L + 1) * sizeof(float))
        cdef float *rights = <float *>take_zeros(arena, (n + 1) * (L + 1) * sizeof(float))
        cdef float *scratch = <float *>take(arena, (max(L, W) + 1) * sizeof(float))
        cdef float largest
        if lefts == NULL or rights == NULL or scratch == NULL:
            return -1
        y = first
        while y < last:
            i, j = f.begin[y], f.end[y]
            size = W if j - i == 1 else L
            memset(scratch, 0, (size + 1) * sizeof(float))
            largest = 0
            while y < last and f.begin[y] == i and f.end[y] == j:
                gradient = <float>(gold[y] - post[y])
                if not -1e-4 < gradient < 1e-4:
                    scratch[f.symbol[y] - (W if j - i > 1 else 0)] = gradient
                    largest = 1
                    if j - i > 1:
                        scratch[L] += gradient
                for e in range(f.edge_starts[y], f.edge_starts[y + 1]):
                    gradient = <float>(gold_edge[e] - edge_post[e])
                    if -1e-4 < gradient < 1e-4:
                        continue
                    self._edge_keys(c, f.rule[e], i, f.end[f.left[e]], j, keys)
                    for x in range(self.templates.shape[0]):
                        climb(&self.weight[keys[x]], &self.slope[keys[x]], gradient, rate, self.n_steps)
                y += 1
            if largest == 0:
                continue
            if j - i == 1:
                self.spans.update_word(c, i, scratch, rate)
            else:
                self.spans.update_span(c, i, j, scratch, rate)
                for x in range(L + 1):
                    lefts[i * (L + 1) + x] += scratch[x]
                    rights[j * (L + 1) + x] += scratch[x]
        self.spans.update_ends(c, lefts, rights, rate)
        return 0

    def averaged(self):
        """RETURNS (Tuple[ndarray, ndarray]): The weights of items and of anchored rules, averaged over all steps."""
        return self.spans.averaged(), Weights.averaged(self)
