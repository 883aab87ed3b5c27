# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scores of trees by hashed features of their parts; marginals and best trees.

The score of a part (see `_chart`) is a sum of units, which parts share:

    ROOT(c)         arc(c)
    FIRST(a, c)     arc(c) + pair(a, c) + sibling(-, c) + triple(a, -, c)
    NEXT(a, s, c)   arc(c) + pair(a, c) + sibling(s, c) + triple(a, s, c)
    STOP(a, c)      stop(a, c)
    EMPTY(a, side)  empty(a, side)

Every kind of unit has templates: lists of what it looks at (`templates`). The hash of a template's values is a
feature if the table has it. Arcs have numbers, too: the logarithms of their marginals by other models.

    log p(tree) = score(tree) - log Z
"""
import numpy

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...forest._hypergraph cimport NOTHING, graph_inside, graph_outside
from ._chart cimport (
    DONE, NO_MEMORY, ROOT, STOP, TOO_LARGE, Arcs, Part, build_arcs, build_forest, read_forest,
)
from ._units cimport (
    ARC, ENDS, MOST_TEMPLATES, N_ATOMS, N_KINDS, NONE, PAIR, SIBLINGS, TRIPLE, Scored, Sentence, look_at,
    open_sentence, pair_unit, sibling_unit, use_unit,
)

from ...base.errors import Errors, SpectralError
from ._chart import MAX_EDGES

cdef size_t MOST_EDGES = MAX_EDGES


cdef void _arc_marginals(const Scored *scored, double *out) noexcept nogil:
    cdef int p
    for p in range(scored.forest.graph.n_slots):
        if scored.forest.parts[p].kind < STOP:
            out[scored.forest.parts[p].c] += scored.mu[p]


cdef class Engine:
    """Weights of features: of hashes (ascending, none of them 0) and of arcs' numbers; `templates` has
    for each kind of unit lists of what it looks at."""
    def __cinit__(self):
        self.table = NULL

    def __dealloc__(self):
        free(self.table)

    def __init__(
        self, const uint32_t[::1] keys not None, const float[::1] weights not None,
        const double[::1] dense not None, templates
    ):
        cdef Py_ssize_t i
        cdef int bits = 4
        while (<Py_ssize_t>1 << bits) < 2 * keys.shape[0]:
            bits += 1
        self.shift, self.mask = 32 - bits, (<uint32_t>1 << bits) - 1
        self.table = <Entry *>calloc(<size_t>1 << bits, sizeof(Entry))
        if self.table == NULL:
            raise MemoryError
        for i in range(keys.shape[0]):
            self._insert(keys[i], weights[i])
        self.dense = numpy.array(dense)
        starts, atoms, kinds = [0], [], [0]
        for own in templates:
            for template in own:
                atoms += template
                starts.append(len(atoms))
            kinds.append(len(starts) - 1)
        if len(kinds) != N_KINDS + 1 or max(map(len, templates)) > MOST_TEMPLATES:
            raise SpectralError(Errors.S911)
        for i in range(N_KINDS + 1):
            self.kind_start[i] = kinds[i]
        self.template_start = numpy.array(starts, dtype=numpy.int32)
        self.template_atoms = numpy.array(atoms, dtype=numpy.int32)

    cdef void _insert(self, uint32_t key, float weight) noexcept:
        cdef uint32_t at = (key * <uint32_t>0x9E3779B1) >> self.shift
        while self.table[at].key:
            at = (at + 1) & self.mask
        self.table[at].key, self.table[at].weight = key, weight

    # ------------------------------------------------------------------ features

    cdef int _hash_unit(self, int kind, const uint32_t *atoms, uint32_t *out) noexcept nogil:
        """RETURNS (int): How many hashes were written."""
        cdef int t, i
        cdef uint64_t h
        for t in range(self.kind_start[kind], self.kind_start[kind + 1]):
            h = <uint64_t>0x9E3779B97F4A7C15 * (t + 1)
            for i in range(self.template_start[t], self.template_start[t + 1]):
                h = (h ^ atoms[self.template_atoms[i]]) * <uint64_t>0xD6E8FEB86659FD93
                h ^= h >> 32
            h *= <uint64_t>0xD6E8FEB86659FD93
            out[t - self.kind_start[kind]] = max(<uint32_t>(h >> 32), <uint32_t>1)
        return self.kind_start[kind + 1] - self.kind_start[kind]

    cdef int _extract(
        self, const Sentence *sentence, Scored *scored, Arena *arena
    ) noexcept nogil:
        """Mark the units that parts have, and list the hashes of their features."""
        cdef const Arcs *arcs = &scored.forest.arcs
        cdef const Part *part
        cdef int i, p, n_slots = scored.forest.graph.n_slots, n_arcs = arcs.n_arcs, place
        cdef int unit, kind, n_used = 0
        cdef uint32_t[N_ATOMS] atoms
        cdef int32_t *units     # kind, a, s, c
        cdef int32_t *own
        scored.pair_at = n_arcs
        scored.sibling_at = scored.pair_at + arcs.pair_start[n_arcs]
        scored.slot_at = scored.sibling_at + arcs.sibling_start[n_arcs]
        scored.n_units = scored.slot_at + n_slots
        scored.used = <uint8_t *>take_zeros(arena, scored.n_units)
        scored.start = <int32_t *>take(arena, (scored.n_units + 1) * sizeof(int32_t))
        units = <int32_t *>take(arena, 4 * scored.n_units * sizeof(int32_t))
        if scored.used == NULL or scored.start == NULL or units == NULL:
            return NO_MEMORY
        for p in range(n_slots):
            part = scored.forest.parts + p
            if part.kind < STOP:
                n_used += use_unit(scored, units, part.c, ARC, NOTHING, NOTHING, part.c)
                if part.kind != ROOT:
                    n_used += use_unit(
                        scored, units, pair_unit(scored, part), PAIR, part.a, NOTHING, part.c)
                    n_used += use_unit(
                        scored, units, sibling_unit(scored, part), SIBLINGS, NOTHING, part.s, part.c)
                    n_used += use_unit(
                        scored, units, scored.slot_at + p, TRIPLE, part.a, part.s, part.c)
            else:
                kind = ENDS if part.kind == STOP else NONE
                n_used += use_unit(scored, units, scored.slot_at + p, kind, part.a, part.s, part.c)
        scored.found = <uint32_t *>take(arena, <size_t>n_used * self._most_templates() * sizeof(uint32_t))
        if scored.found == NULL:
            return NO_MEMORY
        scored.n_found = 0
        for unit in range(scored.n_units):
            scored.start[unit] = scored.n_found
            if scored.used[unit]:
                own = units + 4 * unit
                look_at(sentence, arcs, own[0], own[1], own[2], own[3], atoms)
                scored.n_found += self._hash_unit(own[0], atoms, scored.found + scored.n_found)
        scored.start[scored.n_units] = scored.n_found
        return DONE

    cdef int _most_templates(self) noexcept nogil:
        cdef int kind, most = 1
        for kind in range(N_KINDS):
            most = max(most, self.kind_start[kind + 1] - self.kind_start[kind])
        return most

    cdef void _look_up(self, Scored *scored) noexcept nogil:
        """Places in the table for hashes; those that are no features are left out."""
        cdef int unit, i, begin = 0, end, n = 0
        cdef uint32_t at
        for unit in range(scored.n_units):
            end = scored.start[unit + 1]
            scored.start[unit] = n
            for i in range(begin, end):
                at = self._find(scored.found[i])
                if self.table[at].key:
                    scored.found[n] = at
                    n += 1
            begin = end
        scored.start[scored.n_units] = scored.n_found = n

    # ------------------------------------------------------------------ scores

    cdef int _prepare(
        self, const Sentence *sentence, const int32_t *head, const int32_t *mod, int n_arcs,
        Scored *scored, Arena *arena
    ) noexcept nogil:
        """The forest of a sentence, and the features of its parts."""
        cdef int status
        status = build_arcs(&scored.forest.arcs, sentence.n, n_arcs, head, mod, arena)
        if status:
            return status
        status = build_forest(&scored.forest, MOST_EDGES, arena)
        if status:
            return status
        return self._extract(sentence, scored, arena)

    cdef int _score(
        self, const Sentence *sentence, Scored *scored, Arena *arena
    ) noexcept nogil:
        """Scores of all parts, and marginals."""
        cdef int unit, i, p, d, n_dense = self.dense.shape[0]
        cdef int n_slots = scored.forest.graph.n_slots
        cdef double total
        cdef double *items
        cdef const Part *part
        scored.unit = <double *>take(arena, scored.n_units * sizeof(double))
        scored.scores = <double *>take(arena, n_slots * sizeof(double))
        scored.mu = <double *>take(arena, n_slots * sizeof(double))
        scored.values = <double *>take(arena, scored.forest.graph.n_items * sizeof(double))
        scored.shares = <double *>take(arena, scored.forest.graph.n_edges * sizeof(double))
        items = <double *>take(arena, scored.forest.graph.n_items * sizeof(double))
        if scored.unit == NULL or scored.scores == NULL or scored.mu == NULL:
            return NO_MEMORY
        if scored.values == NULL or scored.shares == NULL or items == NULL:
            return NO_MEMORY
        for unit in range(scored.n_units):
            total = 0
            for i in range(scored.start[unit], scored.start[unit + 1]):
                total += self.table[scored.found[i]].weight
            scored.unit[unit] = total
        for unit in range(scored.forest.arcs.n_arcs):
            for d in range(n_dense):
                scored.unit[unit] += self.dense[d] * sentence.dense[unit * n_dense + d]
        for p in range(n_slots):
            part = scored.forest.parts + p
            total = 0
            if part.kind < STOP:
                total = scored.unit[part.c]
            if part.kind != ROOT:
                total += scored.unit[scored.slot_at + p]
                if part.kind < STOP:
                    total += scored.unit[pair_unit(scored, part)]
                    total += scored.unit[sibling_unit(scored, part)]
            scored.scores[p] = total
        scored.log_z = graph_inside(
            &scored.forest.graph, scored.scores, scored.values, scored.shares)
        graph_outside(&scored.forest.graph, scored.shares, items, scored.mu)
        return DONE

    cdef int _infer(
        self, const Sentence *sentence, const int32_t *head, const int32_t *mod, int n_arcs,
        Scored *scored, Arena *arena
    ) noexcept nogil:
        """From arcs to scores of all parts, and marginals. RETURNS (int): DONE, or why not."""
        cdef int status = self._prepare(sentence, head, mod, n_arcs, scored, arena)
        if status != DONE:
            return status
        self._look_up(scored)
        return self._score(sentence, scored, arena)

    def marginals(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None
    ):
        """The probability of every arc with its label, and log Z of every sentence: nan where no tree
        can be made of the arcs, inf where there are more than memory is for.

        tokens: uint32[tokens, 5], tag, coarse tag, word and two clusters, as hashes; labels are hashes,
        too.
        heads, modifiers: Arcs by modifier, then head; dense: float64[arcs, numbers].
        """
        cdef int s, n_sentences = starts.shape[0] - 1, status = DONE
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        mu, log_z = numpy.zeros(heads.shape[0]), numpy.full(n_sentences, numpy.nan)
        cdef double[::1] out = mu, out_log_z = log_z
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(n_sentences):
                if arc_starts[s + 1] == arc_starts[s]:
                    continue
                arena_reset(&arena)
                open_sentence(&sentence, s, starts, tokens, arc_starts, labels, dense)
                status = self._infer(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]],
                    arc_starts[s + 1] - arc_starts[s], &scored, &arena)
                if status == NO_MEMORY:
                    break
                if status == DONE:
                    _arc_marginals(&scored, &out[arc_starts[s]])
                    out_log_z[s] = scored.log_z
                elif status == TOO_LARGE:
                    out_log_z[s] = INFINITY
                status = DONE
            arena_free(&arena)
        if status == NO_MEMORY:
            raise MemoryError
        return mu, log_z

    def graph(
        self, const uint32_t[:, ::1] tokens not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None
    ):
        """The forest of one sentence, given as `marginals` takes it: the hypergraph, the scores of its
        slots, and the arc that each adds to a tree, -1 for none."""
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef int status, p
        cdef double[::1] out
        sentence.n, sentence.tokens, sentence.labels = tokens.shape[0], &tokens[0, 0], &labels[0]
        sentence.dense = &dense[0, 0] if dense.shape[1] else NULL
        memset(&arena, 0, sizeof(arena))
        try:
            with nogil:
                status = self._infer(
                    &sentence, &heads[0], &modifiers[0], heads.shape[0], &scored, &arena)
            if status != DONE:
                raise MemoryError
            graph, parts = read_forest(&scored.forest)
            scores = numpy.empty(len(parts))
            out = scores
            for p in range(out.shape[0]):
                out[p] = scored.scores[p]
        finally:
            arena_free(&arena)
        return graph, scores, numpy.where(parts[:, 0] < STOP, parts[:, 3], NOTHING)
