# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scores of trees by hashed features of their parts; marginals, and learning by conditional likelihood.

The score of a part (see `_chart`) is a sum of units, which parts share:

    ROOT(c)         arc(c)
    FIRST(a, c)     arc(c) + pair(a, c) + sibling(-, c) + triple(a, -, c)
    NEXT(a, s, c)   arc(c) + pair(a, c) + sibling(s, c) + triple(a, s, c)
    STOP(a, c)      stop(a, c)
    EMPTY(a, side)  empty(a, side)

Every kind of unit has templates: lists of what it looks at (`templates`). The hash of a template's values is a
feature if the table has it. Arcs have numbers, too: the logarithms of their marginals by other models.

    log p(tree) = score(tree) - log Z

The gradient of a weight is how often its feature is in the target tree less how often it is expected to be
(Geman & Johnson 2002). AdaGrad, sentence by sentence; weights are averaged over all steps.
"""
import numpy

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...forest._hypergraph cimport NOTHING, graph_inside, graph_k_best, graph_outside
from ._chart cimport (
    DONE, EMPTY, FIRST, NEXT, NO_MEMORY, ROOT, STOP, TOO_LARGE, Arcs, Forest, Part, build_arcs,
    build_forest,
)

from ...base.errors import Errors
from ._chart import MAX_EDGES

# What a unit can look at: columns of the tokens in four roles, labels of three arcs, and how they lie.
cdef enum:
    GRAND = 0       # roles
    HEAD = 1
    MODIFIER = 2
    SIBLING = 3
    N_ROLES = 4
    N_COLUMNS = 7   # tag, coarse tag, word, two clusters, and the tags before and after

cdef enum:
    OWN_COLUMNS = 5
    TAG = 0
    BEFORE = 5
    AFTER = 6

cdef enum:
    GRAND_LABEL = 28
    LABEL = 29
    SIBLING_LABEL = 30
    SIDES = 31      # of the arc to the head and of the arc
    DISTANCE = 32   # from the head
    GAP = 33        # to the sibling
    GRAND_DISTANCE = 34
    N_ATOMS = 35

# Kinds of units.
cdef enum:
    ARC = 0
    PAIR = 1
    SIBLINGS = 2
    TRIPLE = 3
    ENDS = 4
    NONE = 5
    N_KINDS = 6

cdef enum:
    NOBODY = 0x5EED     # in the place of a token that is not there
    OUTSIDE = 0xE4D     # before and after the sentence
    MOST_TEMPLATES = 64

cdef double NEGLIGIBLE = 1e-5   # gradients below it are not worth a visit to memory


cdef struct Entry:
    uint32_t key        # 0 for none
    float weight


cdef struct Slope:
    float gradient
    float squares
    double drift        # sum of step number * change, for the average over steps
    uint8_t listed      # among those that the next step changes


cdef struct Sentence:
    int n
    const uint32_t *tokens      # [n, OWN_COLUMNS]
    const uint32_t *labels      # [n_arcs]: hashes
    const double *dense         # [n_arcs, n_dense]


cdef struct Scored:
    Forest forest
    int n_units, n_found
    int pair_at, sibling_at, slot_at    # where units of a kind begin; those of arcs begin at 0
    uint8_t *used                       # [n_units]
    int32_t *start                      # [n_units + 1]
    uint32_t *found                     # hashes, then places in the table
    double *unit                        # [n_units]: scores
    double *scores                      # [n_slots]
    double *values                      # [n_items]
    double *shares                      # [n_edges]
    double *mu                          # [n_slots]
    double log_z


cdef size_t MOST_EDGES = MAX_EDGES


cdef inline uint32_t size_class(int n) noexcept nogil:
    """1, 2, 3, 4, 5-6, 7-10, 11-20, more; either way."""
    n = n if n > 0 else -n
    if n <= 4:
        return n
    if n <= 6:
        return 5
    if n <= 10:
        return 6
    return 7 if n <= 20 else 8


cdef inline int pair_unit(const Scored *scored, const Part *part) noexcept nogil:
    cdef const Arcs *arcs = &scored.forest.arcs
    return (scored.pair_at + arcs.pair_start[part.c]
            + part.a - arcs.in_start[arcs.head[part.c]])


cdef inline int sibling_unit(const Scored *scored, const Part *part) noexcept nogil:
    cdef const Arcs *arcs = &scored.forest.arcs
    cdef int place = 0 if part.s < 0 else 1 + arcs.rank[part.s]
    return scored.sibling_at + arcs.sibling_start[part.c] + place


cdef inline int _use(
    Scored *scored, int32_t *units, int unit, int kind, int a, int s, int c
) noexcept nogil:
    """RETURNS (int): 1 if the unit was not used before."""
    if scored.used[unit]:
        return 0
    scored.used[unit] = True
    units += 4 * unit
    units[0], units[1], units[2], units[3] = kind, a, s, c
    return 1


cdef inline void _token(const Sentence *sentence, int position, uint32_t *atoms) noexcept nogil:
    """What there is to see of a token; position 0 is the root."""
    cdef int i
    cdef const uint32_t *own = sentence.tokens + (position - 1) * OWN_COLUMNS
    if position == 0:
        for i in range(N_COLUMNS):
            atoms[i] = OUTSIDE
        return
    for i in range(OWN_COLUMNS):
        atoms[i] = own[i]
    atoms[BEFORE] = own[TAG - OWN_COLUMNS] if position > 1 else OUTSIDE
    atoms[AFTER] = own[TAG + OWN_COLUMNS] if position < sentence.n else OUTSIDE


cdef inline void _nobody(uint32_t *atoms) noexcept nogil:
    cdef int i
    for i in range(N_COLUMNS):
        atoms[i] = NOBODY


cdef inline void _open(
    Sentence *sentence, int s, const int32_t[::1] starts, const uint32_t[:, ::1] tokens,
    const int32_t[::1] arc_starts, const uint32_t[::1] labels, const double[:, ::1] dense
) noexcept nogil:
    sentence.n = starts[s + 1] - starts[s]
    sentence.tokens = &tokens[starts[s], 0]
    sentence.labels = &labels[arc_starts[s]]
    sentence.dense = &dense[arc_starts[s], 0] if dense.shape[1] else NULL


cdef void _arc_marginals(const Scored *scored, double *out) noexcept nogil:
    cdef int p
    for p in range(scored.forest.graph.n_slots):
        if scored.forest.parts[p].kind < STOP:
            out[scored.forest.parts[p].c] += scored.mu[p]


cdef int _mark_tree(
    const Forest *forest, const int32_t *target, uint8_t *inside, Arena *arena
) noexcept nogil:
    """Mark the parts that a tree is made of. RETURNS (int): DONE or NO_MEMORY.

    target (int[n]): The arc of every token.
    """
    cdef const Arcs *arcs = &forest.arcs
    cdef const Part *part
    cdef int p, m, h, c, n = arcs.n
    cdef int *before = <int *>take(arena, (n + 1) * sizeof(int))       # of the arc to a token
    cdef int *latest = <int *>take(arena, 2 * (n + 1) * sizeof(int))   # outermost, left and right
    if before == NULL or latest == NULL:
        return NO_MEMORY
    for h in range(2 * (n + 1)):
        latest[h] = NOTHING
    for m in range(1, n + 1):  # to the right of heads, from the inside out
        h = arcs.head[target[m - 1]]
        if h < m:
            before[m], latest[2 * h + 1] = latest[2 * h + 1], target[m - 1]
    for m in range(n, 0, -1):  # to the left
        h = arcs.head[target[m - 1]]
        if h > m:
            before[m], latest[2 * h] = latest[2 * h], target[m - 1]
    for p in range(forest.graph.n_slots):
        part = forest.parts + p
        c = part.c
        if part.a >= 0 and target[arcs.mod[part.a] - 1] != part.a:
            continue
        if part.kind == EMPTY:
            inside[p] = latest[2 * arcs.mod[part.a] + part.s] == NOTHING
        elif target[arcs.mod[c] - 1] == c:
            if part.kind == STOP:
                inside[p] = latest[2 * arcs.head[c] + (arcs.mod[c] > arcs.head[c])] == c
            else:
                inside[p] = part.kind == ROOT or before[arcs.mod[c]] == part.s
    return DONE


cdef class Engine:
    """Weights of features.

    keys (ndarray): uint32, the hashes that are features, ascending, none of them 0.
    weights (ndarray): float32, their weights.
    dense (ndarray): float64, the weights of arcs' numbers.
    templates (Sequence[Sequence[Sequence[int]]]): For each kind of unit lists of what it looks at.
    """
    cdef Entry *table
    cdef Slope *slopes
    cdef uint32_t mask
    cdef int shift
    cdef double[::1] dense
    cdef double[::1] dense_squares
    cdef double[::1] dense_drift
    cdef long n_steps
    cdef int[N_KINDS + 1] kind_start
    cdef int32_t[::1] template_start
    cdef int32_t[::1] template_atoms
    cdef uint32_t *touched
    cdef size_t n_touched
    cdef size_t touched_room

    def __cinit__(self):
        self.table = NULL
        self.slopes = NULL
        self.touched = NULL

    def __dealloc__(self):
        free(self.table)
        free(self.slopes)
        free(self.touched)

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
            raise ValueError(Errors.S911)
        for i in range(N_KINDS + 1):
            self.kind_start[i] = kinds[i]
        self.template_start = numpy.array(starts, dtype=numpy.int32)
        self.template_atoms = numpy.array(atoms, dtype=numpy.int32)

    cdef void _insert(self, uint32_t key, float weight) noexcept:
        cdef uint32_t at = (key * <uint32_t>0x9E3779B1) >> self.shift
        while self.table[at].key:
            at = (at + 1) & self.mask
        self.table[at].key, self.table[at].weight = key, weight

    cdef inline uint32_t _find(self, uint32_t key) noexcept nogil:
        """RETURNS (uint32): The place of a feature in the table; an empty one if it has none."""
        cdef uint32_t at = (key * <uint32_t>0x9E3779B1) >> self.shift
        while self.table[at].key != key and self.table[at].key:
            at = (at + 1) & self.mask
        return at

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

    cdef void _atoms(
        self, const Sentence *sentence, const Arcs *arcs, int kind, int a, int s, int c,
        uint32_t *atoms
    ) noexcept nogil:
        """What a unit of arcs can look at. `s` is a side if it is of kind NONE."""
        cdef int h, m
        if kind == NONE:
            h = arcs.mod[a]
            atoms[SIDES] = s + 2 * (h > arcs.head[a])
        else:
            h, m = arcs.head[c], arcs.mod[c]
            _token(sentence, m, atoms + MODIFIER * N_COLUMNS)
            atoms[LABEL] = sentence.labels[c]
            atoms[DISTANCE] = size_class(m - h)
            atoms[SIDES] = m > h
            if a >= 0:
                atoms[SIDES] += 2 * (h > arcs.head[a])
        _token(sentence, h, atoms + HEAD * N_COLUMNS)
        if a >= 0:
            _token(sentence, arcs.head[a], atoms + GRAND * N_COLUMNS)
            atoms[GRAND_LABEL] = sentence.labels[a]
            atoms[GRAND_DISTANCE] = size_class(h - arcs.head[a])
        if kind == SIBLINGS or kind == TRIPLE:
            if s >= 0:
                _token(sentence, arcs.mod[s], atoms + SIBLING * N_COLUMNS)
                atoms[SIBLING_LABEL] = sentence.labels[s]
                atoms[GAP] = size_class(m - arcs.mod[s])
            else:
                _nobody(atoms + SIBLING * N_COLUMNS)
                atoms[SIBLING_LABEL] = NOBODY
                atoms[GAP] = 0

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
                n_used += _use(scored, units, part.c, ARC, NOTHING, NOTHING, part.c)
                if part.kind != ROOT:
                    n_used += _use(
                        scored, units, pair_unit(scored, part), PAIR, part.a, NOTHING, part.c)
                    n_used += _use(
                        scored, units, sibling_unit(scored, part), SIBLINGS, NOTHING, part.s, part.c)
                    n_used += _use(
                        scored, units, scored.slot_at + p, TRIPLE, part.a, part.s, part.c)
            else:
                kind = ENDS if part.kind == STOP else NONE
                n_used += _use(scored, units, scored.slot_at + p, kind, part.a, part.s, part.c)
        scored.found = <uint32_t *>take(arena, <size_t>n_used * self._most_templates() * sizeof(uint32_t))
        if scored.found == NULL:
            return NO_MEMORY
        scored.n_found = 0
        for unit in range(scored.n_units):
            scored.start[unit] = scored.n_found
            if scored.used[unit]:
                own = units + 4 * unit
                self._atoms(sentence, arcs, own[0], own[1], own[2], own[3], atoms)
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
        self, const Sentence *sentence, const double *offsets, Scored *scored, Arena *arena
    ) noexcept nogil:
        """Scores of all parts, and marginals. `offsets` of arcs are added to their scores, if not NULL."""
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
            if offsets != NULL:
                scored.unit[unit] += offsets[unit]
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

    def marginals(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None
    ):
        """Probabilities of arcs.

        starts (ndarray): int32[sentences + 1], where sentences begin.
        tokens (ndarray): uint32[tokens, 5], tag, coarse tag, word and two clusters, as hashes.
        arc_starts (ndarray): int32[sentences + 1], where their arcs begin.
        heads, modifiers (ndarray): int32, by modifier, then head.
        labels (ndarray): uint32, hashes of labels.
        dense (ndarray): float64[arcs, numbers].
        RETURNS (Tuple[ndarray, ndarray]): float64[arcs], the probability of every arc with its label; and
            float64[sentences], log Z; nan where no tree can be made of the arcs, inf where there are more
            than memory is for.
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
                _open(&sentence, s, starts, tokens, arc_starts, labels, dense)
                status = self._prepare(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]],
                    arc_starts[s + 1] - arc_starts[s], &scored, &arena)
                if status == DONE:
                    self._look_up(&scored)
                    status = self._score(&sentence, NULL, &scored, &arena)
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

    def k_best(
        self, const uint32_t[:, ::1] tokens not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None, int k
    ):
        """The best trees of one sentence.

        tokens, heads, modifiers, labels, dense (ndarray): As `marginals` takes them.
        k (int): How many at most.
        RETURNS (Tuple[ndarray, ndarray]): int32[k, tokens], the arc of every token; and float64[k], the
            log-probabilities of these trees.
        """
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef int32_t **edges = NULL
        cdef int *sizes = NULL
        cdef int t, i, slot, status, found = 0
        cdef const int32_t[::1] bounds = numpy.array([0, tokens.shape[0]], dtype=numpy.int32)
        cdef const int32_t[::1] arc_bounds = numpy.array([0, heads.shape[0]], dtype=numpy.int32)
        k = max(k, 1)
        trees = numpy.zeros((k, tokens.shape[0]), dtype=numpy.int32)
        logs = numpy.zeros(k)
        cdef int32_t[:, ::1] out = trees
        cdef double[::1] out_logs = logs
        cdef const Part *part
        memset(&arena, 0, sizeof(arena))
        with nogil:
            _open(&sentence, 0, bounds, tokens, arc_bounds, labels, dense)
            status = self._prepare(
                &sentence, &heads[0], &modifiers[0], heads.shape[0], &scored, &arena)
            if status == DONE:
                self._look_up(&scored)
                status = self._score(&sentence, NULL, &scored, &arena)
            if status == DONE:
                edges = <int32_t **>take(&arena, k * sizeof(int32_t *))
                sizes = <int *>take(&arena, k * sizeof(int))
                found = NO_MEMORY
                if edges != NULL and sizes != NULL:
                    found = graph_k_best(
                        &scored.forest.graph, scored.scores, k, &out_logs[0], edges, sizes, &arena)
            for t in range(found):
                out_logs[t] -= scored.log_z
                for i in range(sizes[t]):
                    slot = scored.forest.graph.slot[edges[t][i]]
                    if slot >= 0 and scored.forest.parts[slot].kind < STOP:
                        part = scored.forest.parts + slot
                        out[t, scored.forest.arcs.mod[part.c] - 1] = part.c
            arena_free(&arena)
        if status == NO_MEMORY or found < 0:
            raise MemoryError
        return trees[:found], logs[:found]

    # ------------------------------------------------------------------ learning

    def hashes(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None, const int32_t[::1] target not None
    ):
        """The hashes of everything that features can look at in some trees.

        target (ndarray): int32[tokens], the arc of every token, counted in the sentence; -1 in those
            without a tree.
        RETURNS (ndarray): uint32, hashes, each as often as it occurs.
        """
        cdef int s, i, status, n_sentences = starts.shape[0] - 1
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef uint32_t[::1] out
        parts = []
        memset(&arena, 0, sizeof(arena))
        try:
            for s in range(n_sentences):
                if starts[s + 1] == starts[s] or target[starts[s]] < 0:
                    continue
                arena_reset(&arena)
                _open(&sentence, s, starts, tokens, arc_starts, labels, dense)
                # of the target tree alone
                status = self._prepare_tree(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]], &target[starts[s]],
                    &scored, &arena)
                if status == NO_MEMORY:
                    raise MemoryError
                if status == DONE:
                    own = numpy.empty(scored.n_found, dtype=numpy.uint32)
                    out = own
                    for i in range(scored.n_found):
                        out[i] = scored.found[i]
                    parts.append(own)
        finally:
            arena_free(&arena)
        return numpy.concatenate([numpy.zeros(0, dtype=numpy.uint32), *parts])

    cdef int _prepare_tree(
        self, Sentence *sentence, const int32_t *head, const int32_t *mod, const int32_t *target,
        Scored *scored, Arena *arena
    ) noexcept nogil:
        cdef int m, n = sentence.n
        cdef int32_t *heads = <int32_t *>take(arena, n * sizeof(int32_t))
        cdef int32_t *mods = <int32_t *>take(arena, n * sizeof(int32_t))
        cdef uint32_t *labels = <uint32_t *>take(arena, n * sizeof(uint32_t))
        if heads == NULL or mods == NULL or labels == NULL:
            return NO_MEMORY
        for m in range(n):
            heads[m], mods[m], labels[m] = head[target[m]], m + 1, sentence.labels[target[m]]
        sentence.labels = labels
        return self._prepare(sentence, heads, mods, n, scored, arena)

    def begin_learning(self, double initial_squares):
        """Take memory for gradients; every AdaGrad accumulator starts at `initial_squares`."""
        cdef size_t i
        free(self.slopes)
        self.slopes = <Slope *>calloc(<size_t>self.mask + 1, sizeof(Slope))
        free(self.touched)
        self.touched = <uint32_t *>calloc(<size_t>self.mask + 1, sizeof(uint32_t))
        if self.slopes == NULL or self.touched == NULL:
            raise MemoryError
        for i in range(<size_t>self.mask + 1):
            self.slopes[i].squares = initial_squares
        self.dense_squares = numpy.full(self.dense.shape[0], initial_squares)
        self.dense_drift = numpy.zeros(self.dense.shape[0])
        self.n_steps, self.n_touched = 0, 0

    def learn(
        self, const int32_t[::1] starts not None, const uint32_t[:, ::1] tokens not None,
        const int32_t[::1] arc_starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] modifiers not None, const uint32_t[::1] labels not None,
        const double[:, ::1] dense not None, const int32_t[::1] target not None,
        const double[::1] offsets not None, const int64_t[::1] order not None, double rate,
        double decay
    ):
        """Go once through sentences, one step for each.

        target (ndarray): int32[tokens], see `hashes`; sentences without a tree teach nothing.
        offsets (ndarray): float64[arcs], added to the scores of arcs.
        order (ndarray): int64, the sentences.
        rate, decay (float): The learning rate of AdaGrad, and the L2 penalty of weights that are touched.
        RETURNS (Tuple[float, int]): The negative log-likelihood of the target trees, and how many there
            were.
        """
        cdef Py_ssize_t i
        cdef int s, status = DONE, n_taught = 0
        cdef Sentence sentence
        cdef Scored scored
        cdef Arena arena
        cdef double loss = 0, own
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for i in range(order.shape[0]):
                s = <int>order[i]
                if starts[s + 1] == starts[s] or target[starts[s]] < 0:
                    continue
                arena_reset(&arena)
                _open(&sentence, s, starts, tokens, arc_starts, labels, dense)
                status = self._prepare(
                    &sentence, &heads[arc_starts[s]], &modifiers[arc_starts[s]],
                    arc_starts[s + 1] - arc_starts[s], &scored, &arena)
                if status == DONE:
                    self._look_up(&scored)
                    status = self._score(&sentence, &offsets[arc_starts[s]], &scored, &arena)
                if status == NO_MEMORY:
                    break
                if status != DONE:
                    status = DONE
                    continue
                status = self._gradient(
                    &sentence, &scored, &target[starts[s]], rate, &own, &arena)
                if status:
                    break
                self._step(rate, decay)
                loss += own
                n_taught += 1
            arena_free(&arena)
        if status:
            raise MemoryError
        return loss, n_taught

    cdef int _gradient(
        self, const Sentence *sentence, Scored *scored, const int32_t *target, double rate,
        double *loss, Arena *arena
    ) noexcept nogil:
        """Add gradients of features and go a step along those of numbers. `loss` becomes that of the sentence."""
        cdef int p, i, unit, d, n_dense = self.dense.shape[0]
        cdef uint8_t *inside = <uint8_t *>take_zeros(arena, scored.forest.graph.n_slots)
        cdef double *slope = <double *>take_zeros(arena, scored.n_units * sizeof(double))
        cdef double value
        cdef const Part *part
        if inside == NULL or slope == NULL or _mark_tree(&scored.forest, target, inside, arena):
            return NO_MEMORY
        loss[0] = scored.log_z
        for p in range(scored.forest.graph.n_slots):
            part = scored.forest.parts + p
            value = inside[p] - scored.mu[p]
            if inside[p]:
                loss[0] -= scored.scores[p]
            if part.kind < STOP:
                slope[part.c] += value
            if part.kind != ROOT:
                slope[scored.slot_at + p] += value
                if part.kind < STOP:
                    slope[pair_unit(scored, part)] += value
                    slope[sibling_unit(scored, part)] += value
        for unit in range(scored.n_units):
            if fabs(slope[unit]) > NEGLIGIBLE:
                for i in range(scored.start[unit], scored.start[unit + 1]):
                    self._touch(scored.found[i], slope[unit])
        self.n_steps += 1
        for d in range(n_dense):
            value = 0
            for unit in range(scored.forest.arcs.n_arcs):
                value += slope[unit] * sentence.dense[unit * n_dense + d]
            self.dense_squares[d] += value * value
            value *= rate / sqrt(self.dense_squares[d])
            self.dense[d] += value
            self.dense_drift[d] += value * self.n_steps
        return DONE

    cdef inline void _touch(self, uint32_t at, double gradient) noexcept nogil:
        if not self.slopes[at].listed:
            self.slopes[at].listed = True
            self.touched[self.n_touched] = at
            self.n_touched += 1
        self.slopes[at].gradient += gradient

    cdef void _step(self, double rate, double decay) noexcept nogil:
        cdef size_t i
        cdef Slope *slope
        cdef Entry *entry
        cdef double gradient, change
        for i in range(self.n_touched):
            slope, entry = self.slopes + self.touched[i], self.table + self.touched[i]
            gradient = slope.gradient - decay * entry.weight
            slope.gradient, slope.listed = 0, False
            slope.squares += gradient * gradient
            change = rate * gradient / sqrt(slope.squares)
            entry.weight += change
            slope.drift += change * self.n_steps
        self.n_touched = 0

    def averaged(self, const uint32_t[::1] keys not None):
        """RETURNS (Tuple[ndarray, ndarray]): The weights of keys and of numbers, averaged over all steps."""
        cdef Py_ssize_t i
        cdef uint32_t at
        weights, dense = numpy.zeros(keys.shape[0], dtype=numpy.float32), numpy.array(self.dense)
        cdef float[::1] out = weights
        for i in range(keys.shape[0]):
            at = self._find(keys[i])
            out[i] = self.table[at].weight - self.slopes[at].drift / (self.n_steps + 1)
        return weights, dense - numpy.asarray(self.dense_drift) / (self.n_steps + 1)
