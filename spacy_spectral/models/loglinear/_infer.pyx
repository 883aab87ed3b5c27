# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled model: from sentences and their kept arcs to parses, and to packed forests: many trees at the cost of
one chart.

log p(tree | x) = score(tree) - log Z, over all labelled projective trees of the kept arcs. The tree that is
given is the one with the best product of arc marginals.

A tree's score is a sum over its arcs, its neighbouring modifiers and the moves between their states. The chart has all
of them; they are kept as logarithms, so that one more tree of a sentence costs a walk over its arcs.
"""
import numpy

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, log
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._exp cimport power_doubles
from ...base._linear cimport Entry, Slot
from ...base._rows cimport largest
from ...trees._eisner cimport best_projective, is_projective, k_best
from ...trees._first_order cimport RESCALINGS, span_growth
from ._chart cimport Chart, chart_inside, chart_local, chart_outside
from ._features cimport Machine, Scored, move_size, score_sentence
from ._table cimport Bucket, Cell

cdef double MIN_PROB = 1e-12
# In the distribution that trees are chosen by, P(state | arc) is to the power of `choice`, but of no more than
# this: states that are sure of themselves choose worse trees. LAS at powers of 1, 1.4, 1.8, 2.4 and 3.2, on parts
# of the training data that parsers had not seen: UD_Turkish-IMST 57.09, 57.31, 57.30, 57.32, 56.90;
# UD_Vietnamese-VTB 57.40, 57.88, 58.00, 58.06, 57.73; UD_English-EWT 83.32, 83.33, 83.26, 83.19, 83.13.
cdef double MOST_OF_STATES = 1.5
MOST_OF_STATES_POWER = MOST_OF_STATES  # for Python


cdef class Engine:
    """A model behind pointers; its arrays are checked by the caller. Without the feature table as it is
    read in parsing (`table`), that of the model is read. A `Learner` changes entries and moves."""

    def __init__(self, model not None, int n_columns, table=None):
        cdef Machine* machine = &self.machine
        templates = model.templates
        heads, labels, choice, share = model.temperature
        cdef const int32_t[:, :, ::1] composites = templates.composites
        cdef const int32_t[:, ::1] pairs = templates.pairs, siblings = templates.siblings
        cdef const int32_t[::1] unaries = templates.unaries, label_state = model.label_classes
        cdef const uint8_t[:, ::1] allowed = model.allowed
        cdef const uint8_t[::1] between_bit = model.between_bit
        cdef const Slot[::1] slots = model.slots
        cdef const Cell[::1] cells
        cdef const uint32_t[:, ::1] buckets
        cdef const uint32_t[::1] bits
        self.keep = (templates, model.label_classes, model.allowed, model.between_bit, model.slots, table)
        self.entries = model.entries
        self.moves = model.moves if heads == 1 else model.moves / numpy.float32(heads)
        memset(machine, 0, sizeof(Machine))
        machine.context.n_columns = n_columns
        machine.context.n_composites = composites.shape[0]
        machine.context.composites = &composites[0, 0, 0]
        machine.n_pairs = pairs.shape[0]
        machine.pairs = &pairs[0, 0] if pairs.shape[0] else NULL
        machine.n_unaries = unaries.shape[0]
        machine.unaries = &unaries[0] if unaries.shape[0] else NULL
        machine.n_siblings = siblings.shape[0]
        machine.siblings = &siblings[0, 0] if siblings.shape[0] else NULL
        machine.slots, machine.mask = &slots[0], slots.shape[0] - 1
        machine.entries = &self.entries[0]
        if table is not None:
            cells, buckets, bits = table.cells, table.buckets, table.bits
            machine.table.cells, machine.table.step = &cells[0], table.step
            machine.table.buckets = <const Bucket*>&buckets[0, 0]
            machine.table.n_buckets = buckets.shape[0] - 1
            machine.table.bits = &bits[0]
            machine.table.shift = 33 - (32 * (<object>bits.shape[0])).bit_length()
            machine.table.mask = machine.mask
            machine.table.n_bits = (<object>slots.shape[0]).bit_length() - 1
        machine.n_labels, machine.n_states = label_state.shape[0], self.moves.shape[2] - 1
        machine.label_state = &label_state[0]
        machine.allowed, machine.between_bit = &allowed[0, 0], &between_bit[0]
        machine.sharpness, machine.label_sharpness = 1 / heads, 1 / labels
        machine.choice, machine.share = choice, share
        self.exp_moves = numpy.empty_like(self.moves, dtype=numpy.float64)
        machine.moves = &self.exp_moves[0, 0, 0, 0]
        machine.log_moves = &self.moves[0, 0, 0, 0]
        self.refresh_moves()
        if choice != 1:
            self.choice_moves = numpy.asarray(self.exp_moves) ** choice
            machine.choice_moves = &self.choice_moves[0, 0, 0, 0]

    cdef void refresh_moves(self) noexcept nogil:
        """Make the potentials of moves from their weights."""
        cdef int tag, i, size = move_size(&self.machine)
        cdef const float* shared = &self.moves[0, 0, 0, 0]
        cdef const float* own
        cdef double* out
        for tag in range(self.moves.shape[0]):
            own, out = &self.moves[tag, 0, 0, 0], &self.exp_moves[tag, 0, 0, 0]
            for i in range(size):
                out[i] = exp(shared[i] + own[i] if tag else shared[i])

    def parse(
        self, const uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
        const int32_t[::1] tags not None, const int32_t[::1] arc_start not None,
        const int32_t[::1] arc_head not None, const double[::1] margins not None,
        const float[:, ::1] extra=None,
    ):
        """Marginals and the tree of most expected correct arcs, for every sentence, among the kept
        heads.

        margins: Of every sentence; arcs whose own score is that much below the best of their modifier
        are dropped.
        extra ([arcs, labels]): What else speaks for arcs with labels, in logarithms, added to what the
        model says.
        RETURNS: heads, labels; label_probs [n, labels] given the head; arc_probs; failed, of every sentence:
        whether the chart failed; forests (Forests).
        """
        cdef int s, n, start, attempt, n_sentences = starts.shape[0] - 1, failed = 0
        cdef Arena arena
        cdef Scored scored
        cdef Forests forests = Forests(self, n_sentences)
        heads = numpy.zeros(columns.shape[0], dtype=numpy.int32)
        labels = numpy.zeros(columns.shape[0], dtype=numpy.int32)
        label_probs = numpy.zeros((columns.shape[0], self.machine.n_labels), dtype=numpy.float32)
        arc_probs = numpy.zeros(arc_head.shape[0], dtype=numpy.float32)
        has_failed = numpy.zeros(n_sentences, dtype=bool)
        cdef int32_t[::1] out_heads = heads
        cdef int32_t[::1] out_labels = labels
        cdef float[:, ::1] out_label_probs = label_probs
        cdef float[::1] out_probs = arc_probs
        cdef uint8_t[::1] out_failed = has_failed.view(numpy.uint8)
        cdef const float* more = &extra[0, 0] if extra is not None and extra.size else NULL
        cdef const float* own
        memset(&arena, 0, sizeof(arena))
        with nogil:
            for s in range(n_sentences):
                start = starts[s]
                n = starts[s + 1] - start
                if n == 0:
                    continue
                own = more
                if more != NULL:
                    own += arc_start[start] * <size_t>self.machine.n_labels
                for attempt in range(2):  # without a tree left, once more with all arcs
                    arena_reset(&arena)
                    failed = score_sentence(
                        &self.machine, &scored, &arena, &columns[start, 0], &tags[start], n, &arc_start[start],
                        &arc_head[0], own, INFINITY if attempt else margins[s])
                    failed = failed or run_chart(
                        &scored, &scored.chart, scored.potential, self.machine.n_labels, &arena, NULL)
                    if failed or isfinite(scored.log_z) or margins[s] == INFINITY:
                        break
                failed = failed or _decode(
                    &self.machine, &scored, &arena, &out_heads[start], &out_labels[start],
                    &out_label_probs[start, 0], &out_probs[arc_start[start]])
                failed = failed or forests.keep(s, &scored)
                if failed:
                    break
                out_failed[s] = not isfinite(scored.log_z)
            arena_free(&arena)
        if failed:
            raise MemoryError
        return {
            "heads": heads, "labels": labels, "label_probs": label_probs, "arc_probs": arc_probs,
            "failed": has_failed, "forests": forests,
        }


cdef int run_chart(
    Scored* scored, Chart* chart, double* potential, int n_labels, Arena* arena, double** counts
) noexcept nogil:
    """Inside and outside. RETURNS (int): 0, or -1 without memory; log_z is nan if z is useless."""
    cdef int attempt, i
    cdef double growth, factor, shift = scored.shift
    if chart_inside(chart, arena):
        return -1
    for attempt in range(RESCALINGS):
        if 1e-250 < chart.z < 1e250:
            break
        # A long sentence: what every token must take once can be shared out at will. The growth of
        # spans tells how much of it each should take; where they hardly grow, nothing is gained.
        growth = span_growth(chart.right, chart.left, chart.n)
        if not fabs(growth) * scored.n > 1:
            break
        factor = exp(-growth)
        for i in range(scored.n_arcs * n_labels):
            potential[i] *= factor
        for i in range(scored.n_arcs * chart.n_states):
            chart.phi[i] *= factor
        shift += scored.n * growth
        if chart_inside(chart, arena):
            return -1
    if potential == scored.potential:
        scored.shift = shift  # for a second chart made from these potentials
    if not (chart.z > 0 and isfinite(chart.z)):
        scored.log_z = NAN
        return chart_local(chart, arena)
    scored.log_z = log(chart.z) + shift
    return chart_outside(chart, arena, counts)


cdef int _decode(
    const Machine* machine, Scored* scored, Arena* arena, int32_t* heads, int32_t* labels,
    float* label_probs, float* probs
) noexcept nogil:
    """Read the tree and the probabilities of arcs from a chart, and those of labels given the chosen heads."""
    cdef int a, l, m, c, n = scored.n, n_labels = machine.n_labels
    cdef int n_states = machine.n_states
    cdef Chart* chart = &scored.chart
    cdef Chart sharp
    cdef int* best = <int*>take_zeros(arena, (n + 2) * sizeof(int))
    cdef double ratio[MAX_STATES]
    cdef double total, value, best_value
    if best == NULL:
        return -1
    scored.sharp_log_z = NAN
    if machine.choice == 1:
        if _choose(chart, best, arena):
            return -1
    else:
        if _sharper(machine, scored, &sharp, arena) or _choose(&sharp, best, arena):
            return -1
        if machine.share > 0 and isfinite(scored.sharp_log_z) and isfinite(scored.log_z):
            for a in range(scored.n_arcs * n_states):
                chart.mu[a] += machine.share * (sharp.mu[a] - chart.mu[a])
        else:
            scored.sharp_log_z = NAN
    for a in range(scored.n_arcs):
        total = 0
        for c in range(n_states):
            total += chart.mu[a * n_states + c]
        probs[scored.origin[a]] = total
    for a in range(scored.n_arcs):
        m = chart.mod[a]
        if best[m] != chart.head[a]:
            continue
        total = max(<double>probs[scored.origin[a]], MIN_PROB)
        for c in range(n_states):
            value = chart.phi[a * n_states + c]
            ratio[c] = chart.mu[a * n_states + c] / (value * total) if value > 0 else 0
        best_value = -1
        for l in range(n_labels):
            value = scored.potential[a * n_labels + l] * ratio[machine.label_state[l]]
            label_probs[(m - 1) * n_labels + l] = value
            if value > best_value:
                best_value, labels[m - 1] = value, l
    for m in range(1, n + 1):
        heads[m - 1] = best[m]
    return 0


cdef int _sharper(const Machine* machine, Scored* scored, Chart* sharp, Arena* arena) noexcept nogil:
    """The chart of the same sentence in which every tree with its states weighs P^choice. States of arcs are
    to a smaller power if that is large, see MOST_OF_STATES: which tree is the best depends on it."""
    cdef Chart* chart = &scored.chart
    cdef int i, a, c, n_states = chart.n_states
    cdef int n_sides = 2 * chart.n + 2
    cdef double choice = machine.choice, log_z = scored.log_z
    cdef double* totals = <double*>take(arena, chart.n_arcs * sizeof(double))
    sharp[0] = chart[0]
    sharp.right = sharp.d_right = NULL  # these tables are its own
    sharp.phi = <double*>take(arena, chart.n_arcs * chart.n_states * sizeof(double))
    sharp.sibling = <double*>take(arena, chart.n_siblings * sizeof(double))
    sharp.moves = <const double**>take(arena, n_sides * sizeof(double*))
    if totals == NULL or sharp.phi == NULL or sharp.sibling == NULL or sharp.moves == NULL:
        return -1
    if choice <= MOST_OF_STATES:
        power_doubles(sharp.phi, chart.phi, choice, chart.n_arcs * n_states)
    else:
        for a in range(chart.n_arcs):
            totals[a] = 0
            for c in range(n_states):
                totals[a] += chart.phi[a * n_states + c]
            for c in range(n_states):
                sharp.phi[a * n_states + c] = chart.phi[a * n_states + c] / totals[a] if totals[a] > 0 else 0
        power_doubles(sharp.phi, sharp.phi, MOST_OF_STATES, chart.n_arcs * n_states)
        for a in range(chart.n_arcs):
            totals[a] = totals[a] ** choice
            for c in range(n_states):
                sharp.phi[a * n_states + c] *= totals[a]
    power_doubles(sharp.sibling, chart.sibling, choice, chart.n_siblings)
    for i in range(2, n_sides):
        sharp.moves[i] = machine.choice_moves + (chart.moves[i] - machine.moves)
    i = run_chart(scored, sharp, NULL, 0, arena, NULL)
    # shifts are to the power, too
    scored.sharp_log_z = scored.log_z + (choice - 1) * scored.shift
    scored.log_z = log_z
    return i


cdef int _choose(const Chart* chart, int* heads, Arena* arena) noexcept nogil:
    """The tree with the best product of arc probabilities; heads of 1..n."""
    cdef int n = chart.n, a, c, m, n_states = chart.n_states
    cdef size_t width = n + 1, i
    cdef double score
    cdef double* logs
    cdef double* total = <double*>take_zeros(arena, (chart.n_arcs + 1) * sizeof(double))
    cdef double* top = <double*>take(arena, (n + 1) * sizeof(double))
    if total == NULL or top == NULL:
        return -1
    for m in range(n + 1):
        top[m] = -1
    for a in range(chart.n_arcs):
        for c in range(n_states):
            total[a] += chart.mu[a * n_states + c]
        m = chart.mod[a]
        if total[a] > top[m]:
            top[m] = total[a]
            heads[m] = chart.head[a]
    # every token's best head: if that is a tree, no tree is better (96 % of sentences)
    if is_projective(heads + 1, n):
        return 0
    logs = <double*>take(arena, width * width * sizeof(double))
    if logs == NULL:
        return -1
    for i in range(width * width):
        logs[i] = -INFINITY
    for a in range(chart.n_arcs):
        logs[chart.head[a] * width + chart.mod[a]] = log(max(total[a], MIN_PROB))
    if best_projective(n, logs, heads + 1, &score, arena):
        return -1
    if score == -INFINITY:  # every token on its neighbour: these arcs are always kept
        for m in range(1, n + 1):
            heads[m] = m - 1
    return 0


cdef class Forests:
    """Packed forests of parsed sentences."""

    def __cinit__(self, Engine engine not None, int n):
        self.forests = <Forest**>calloc(n + 1, sizeof(Forest*))
        if self.forests == NULL:
            raise MemoryError
        self.engine, self.n_forests = engine, n

    def __dealloc__(self):
        cdef int s
        for s in range(self.n_forests):
            free(self.forests[s])
        free(self.forests)

    def __len__(self):
        return self.n_forests

    cdef int keep(self, int sentence, const Scored* scored) noexcept nogil:
        """Copy what is needed from a chart. RETURNS (int): 0, or -1 without memory."""
        cdef const Machine* machine = &self.engine.machine
        cdef int i, n = scored.n, n_arcs = scored.n_arcs, n_siblings = scored.chart.n_siblings
        cdef int n_scores = n_arcs * machine.n_labels
        cdef Scored* own
        cdef char* free_memory
        cdef Forest* forest = <Forest*>malloc(
            sizeof(Forest) + n_siblings * sizeof(double)
            + (5 * n_arcs + 3 * n + 3) * sizeof(int32_t)
            + (n_scores + n_arcs * machine.n_states) * sizeof(float))
        if forest == NULL:
            return -1
        memset(forest, 0, sizeof(Forest))
        self.forests[sentence] = forest
        own, free_memory = &forest.scored, <char*>(forest + 1)
        own.n, own.n_arcs = n, n_arcs
        own.log_z, own.sharp_log_z = scored.log_z, scored.sharp_log_z
        own.sibling_score = <double*>_copy(&free_memory, scored.sibling_score, n_siblings * sizeof(double))
        own.chart.last_at, own.chart.empty_at = scored.chart.last_at, scored.chart.empty_at
        own.chart.head = <int*>_copy(&free_memory, scored.chart.head, n_arcs * sizeof(int))
        own.chart.mod = <int*>_copy(&free_memory, scored.chart.mod, n_arcs * sizeof(int))
        own.chart.rank = <int*>_copy(&free_memory, scored.chart.rank, n_arcs * sizeof(int))
        own.chart.pair_start = <int*>_copy(&free_memory, scored.chart.pair_start, n_arcs * sizeof(int))
        own.chart.side_arcs = <int*>_copy(&free_memory, scored.chart.side_arcs, n_arcs * sizeof(int))
        own.chart.side_start = <int*>_copy(
            &free_memory, scored.chart.side_start, (2 * n + 3) * sizeof(int))
        own.tags = <int32_t*>_copy(&free_memory, scored.tags, n * sizeof(int32_t))
        own.score = <float*>_copy(&free_memory, scored.score, n_scores * sizeof(float))
        forest.mu = <float*>free_memory
        for i in range(n_arcs * machine.n_states):
            forest.mu[i] = scored.chart.mu[i]
        return 0

    def scores(self, int sentence):
        """All scores of one sentence, as the chart takes them: to pack its trees in another way.

        RETURNS: heads, modifiers of the arcs that were scored, by modifier; scores [arcs, labels]; ranks
        among the arcs of a head's side, from the inside out; sibling_starts, where the scores of each
        arc after none and after the arcs of lower rank stand in siblings; last, of being the outermost
        one; empty [2n+2] by 2 * head + side, of no modifier there; moves [2n+2, C+1, C+1] likewise.
        """
        cdef Scored* scored = &self.forests[sentence].scored
        cdef Machine* machine = &self.engine.machine
        cdef int side, n_arcs = scored.n_arcs, size = machine.n_states + 1, n_sides = 2 * scored.n + 2
        cdef int last_at = scored.chart.last_at, empty_at = scored.chart.empty_at
        siblings = _copied(scored.sibling_score, empty_at + n_sides, numpy.float64)
        moves = numpy.zeros((n_sides, size, size))
        for side in range(2, n_sides):
            own = machine.moves + (scored.tags[side // 2 - 1] * 2 + side % 2) * size * size
            moves[side] = _copied(own, (size, size), numpy.float64)
        numpy.log(moves[2:], out=moves[2:])
        return {
            "heads": _copied(scored.chart.head, n_arcs, numpy.int32),
            "modifiers": _copied(scored.chart.mod, n_arcs, numpy.int32),
            "ranks": _copied(scored.chart.rank, n_arcs, numpy.int32),
            "sibling_starts": _copied(scored.chart.pair_start, n_arcs, numpy.int32),
            "scores": _copied(scored.score, (n_arcs, machine.n_labels), numpy.float32),
            "siblings": siblings, "last": siblings[last_at:empty_at], "empty": siblings[empty_at:],
            "moves": moves,
        }

    def log_probs(
        self, const int32_t[::1] starts not None, const int32_t[::1] heads not None,
        const int32_t[::1] labels not None,
    ):
        """log p(labelled tree | sentence) of a tree of every sentence; nan where the chart failed."""
        cdef int s
        result = numpy.zeros(self.n_forests, dtype=numpy.float64)
        cdef double[::1] out = result
        with nogil:
            for s in range(self.n_forests):
                if self.forests[s] != NULL:
                    out[s] = tree_likelihood(
                        &self.engine.machine, &self.forests[s].scored, &heads[starts[s]],
                        &labels[starts[s]])
        return result

    def joint(self, int sentence):
        """Probabilities of arcs with labels: head and modifier (int32) of the arcs that were scored, by modifier,
        and P(arc and label) (float32[arcs, labels])."""
        cdef Forest* forest = self.forests[sentence]
        cdef int n_arcs = forest.scored.n_arcs if forest != NULL else 0
        probs = numpy.empty((n_arcs, self.engine.machine.n_labels), dtype=numpy.float32)
        cdef float[:, ::1] out = probs
        if n_arcs == 0:
            nothing = numpy.zeros(0, dtype=numpy.int32)
            return nothing, nothing, probs
        _fill_joint(&self.engine.machine, forest, &out[0, 0])
        heads = _copied(forest.scored.chart.head, n_arcs, numpy.int32)
        return heads, _copied(forest.scored.chart.mod, n_arcs, numpy.int32), probs

    def k_best(self, int sentence, int k):
        """Heads and labels [k, n] of the k trees with the best products of arc probabilities, each arc
        with its likeliest label, ordered by log p(labelled tree | sentence), and these; none if the
        chart failed."""
        cdef Forest* forest = self.forests[sentence]
        cdef Arena arena
        cdef int found = 0, n = forest.scored.n if forest != NULL else 0
        heads = numpy.empty((k, n), dtype=numpy.int32)
        labels = numpy.empty((k, n), dtype=numpy.int32)
        logs = numpy.empty(k, dtype=numpy.float64)
        cdef int32_t[:, ::1] out_heads = heads
        cdef int32_t[:, ::1] out_labels = labels
        cdef double[::1] out_logs = logs
        if n and k > 0 and isfinite(forest.scored.log_z):
            memset(&arena, 0, sizeof(arena))
            with nogil:
                found = _k_best(
                    &self.engine.machine, forest, k, &out_heads[0, 0], &out_labels[0, 0], &out_logs[0],
                    &arena)
                arena_free(&arena)
        if found < 0:
            raise MemoryError
        order = numpy.argsort(-logs[:found], kind="stable")
        return heads[order], labels[order], logs[order]


cdef void* _copy(char** free_memory, const void* data, size_t size) noexcept nogil:
    """Copy to the memory that is free, and leave the rest. What is as long as a double comes first."""
    cdef void* result = free_memory[0]
    memcpy(result, data, size)
    free_memory[0] += size
    return result


cdef object _copied(const void* data, shape, kind):
    """An array of what is there."""
    result = numpy.empty(shape, dtype=kind)
    cdef unsigned char[::1] out = result.reshape(-1).view(numpy.uint8)
    if out.shape[0]:
        memcpy(&out[0], data, out.shape[0])
    return result


cdef void _fill_joint(
    const Machine* machine, const Forest* forest, float* joint
) noexcept nogil:
    """P(arc and label) = P(arc and class) exp(s_label) / sum of the exponentials of its class."""
    cdef int a, l, n_labels = machine.n_labels
    cdef const float* score
    cdef const int32_t* state = machine.label_state
    cdef const uint8_t* allowed
    cdef double total[MAX_STATES]
    cdef float top
    for a in range(forest.scored.n_arcs):
        score = forest.scored.score + a * n_labels
        allowed = machine.allowed + (forest.scored.chart.head[a] == 0) * n_labels
        memset(total, 0, machine.n_states * sizeof(double))
        top = largest(score, n_labels)
        for l in range(n_labels):
            joint[a * n_labels + l] = exp(score[l] - top) if allowed[l] else 0
            total[state[l]] += joint[a * n_labels + l]
        for l in range(n_labels):
            if joint[a * n_labels + l] > 0:
                joint[a * n_labels + l] *= forest.mu[a * machine.n_states + state[l]] / total[state[l]]


cdef int _k_best(
    const Machine* machine, const Forest* forest, int k, int32_t* heads, int32_t* labels, double* logs,
    Arena* arena
) noexcept nogil:
    """RETURNS (int): How many trees there are, or -1 without memory."""
    cdef const Scored* scored = &forest.scored
    cdef const Chart* chart = &scored.chart
    cdef int n = scored.n, width = n + 1, a, c, l, t, found
    cdef int n_labels = machine.n_labels, n_states = machine.n_states
    cdef float best
    cdef double total
    cdef double* arcs = <double*>take(arena, <size_t>width * width * sizeof(double))
    cdef int* likeliest = <int*>take(arena, scored.n_arcs * sizeof(int))
    cdef float* joint = <float*>take(arena, scored.n_arcs * n_labels * sizeof(float))
    if arcs == NULL or likeliest == NULL or joint == NULL:
        return -1
    _fill_joint(machine, forest, joint)
    for a in range(width * width):
        arcs[a] = -INFINITY
    for a in range(scored.n_arcs):
        best, total = -1, 0
        for l in range(n_labels):
            if joint[a * n_labels + l] > best:
                best, likeliest[a] = joint[a * n_labels + l], l
        for c in range(n_states):
            total += forest.mu[a * n_states + c]
        arcs[chart.head[a] * width + chart.mod[a]] = log(total)
    found = k_best(n, arcs, k, <int*>heads, logs, arena)
    for t in range(found):
        for a in range(scored.n_arcs):
            if heads[t * n + chart.mod[a] - 1] == chart.head[a]:
                labels[t * n + chart.mod[a] - 1] = likeliest[a]
        logs[t] = tree_likelihood(machine, scored, heads + t * n, labels + t * n)
    return found


cdef inline double _log_move(const Machine* machine, int tag, int side, int move) noexcept nogil:
    """Log weight of going from the state of one modifier to that of the next; START and STOP are the last."""
    cdef int size = move_size(machine), at = side * (size // 2) + move
    return machine.log_moves[at] + (machine.log_moves[tag * size + at] if tag else 0)


cdef double tree_likelihood(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels
) noexcept nogil:
    """The logarithm of the probability of a labelled tree, mixed as probabilities of arcs are."""
    cdef double score = tree_score(machine, scored, heads, labels, False), flat = score - scored.log_z
    cdef double given, states, sharp, top
    if not isfinite(scored.sharp_log_z) or not isfinite(flat):
        return flat
    # labels given states are not to the power, and states given arcs to another
    _label_scores(machine, scored, heads, labels, &given, &states)
    sharp = machine.choice * (score - given - states) + given - scored.sharp_log_z + log(machine.share)
    sharp += min(machine.choice, MOST_OF_STATES) * states
    if machine.share >= 1:
        return sharp
    flat += log(1 - machine.share)
    top = max(flat, sharp)
    return top + log(exp(flat - top) + exp(sharp - top))


cdef void _label_scores(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels,
    double* given, double* states
) noexcept nogil:
    """Logarithms of the probabilities of a tree's labels given its arcs and their states, and of these given
    its arcs, by the scores of arcs alone."""
    cdef const Chart* chart = &scored.chart
    cdef int a, l, label, n_labels = machine.n_labels
    cdef const uint8_t* allowed
    cdef const float* score
    cdef double total, all_labels
    given[0] = states[0] = 0
    for a in range(scored.n_arcs):
        if heads[chart.mod[a] - 1] != chart.head[a]:
            continue
        label = labels[chart.mod[a] - 1]
        allowed = machine.allowed + (chart.head[a] == 0) * n_labels
        score = scored.score + a * n_labels
        total = all_labels = 0
        for l in range(n_labels):
            if allowed[l]:
                all_labels += exp(score[l] - score[label])
                if machine.label_state[l] == machine.label_state[label]:
                    total += exp(score[l] - score[label])
        given[0] -= log(total)
        states[0] += log(total) - log(all_labels)


cdef double tree_score(
    const Machine* machine, const Scored* scored, const int32_t* heads, const int32_t* labels, bint count
) noexcept nogil:
    """The score of a labelled tree, -inf if it is not in the chart; with `count`, its features
    are added to the gradients."""
    cdef const Chart* chart = &scored.chart
    cdef int h, side, i, a, r, at, previous, state, label, n_labels = machine.n_labels
    cdef int n_states = machine.n_states, n_found = 0, size = move_size(machine) // 2
    cdef double score = 0
    for h in range(scored.n + 1):
        for side in range(2):
            previous, state = -1, n_states
            for i in range(chart.side_start[2 * h + side], chart.side_start[2 * h + side + 1]):
                a = chart.side_arcs[i]
                if heads[chart.mod[a] - 1] != h:
                    continue
                n_found += 1
                label = labels[chart.mod[a] - 1]
                if not machine.allowed[(h == 0) * n_labels + label]:
                    return -INFINITY
                score += scored.score[a * n_labels + label]
                if count:
                    scored.gradient[a * n_labels + label] += 1
                if h == 0:
                    continue
                r = chart.pair_start[a] + (0 if previous < 0 else chart.rank[previous] + 1)
                score += scored.sibling_score[r]
                if count:
                    scored.sibling_gradient[r] += 1
                r = state * (n_states + 1) + machine.label_state[label]
                score += _log_move(machine, scored.tags[h - 1], side, r)
                if count:
                    scored.move_gradient[(2 * h + side) * size + r] += 1
                previous, state = a, machine.label_state[label]
            if h == 0:
                continue
            r = state * (n_states + 1) + n_states
            score += _log_move(machine, scored.tags[h - 1], side, r)
            at = chart.empty_at + 2 * h + side if previous < 0 else chart.last_at + previous
            score += scored.sibling_score[at]
            if count:
                scored.move_gradient[(2 * h + side) * size + r] += 1
                scored.sibling_gradient[at] += 1
    return score if n_found == scored.n else -INFINITY
