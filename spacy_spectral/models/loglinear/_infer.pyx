# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled model: from sentences and their kept arcs to parses.

log p(tree | x) = score(tree) - log Z, over all labelled projective trees of the kept arcs. The tree that is
given is the one with the best product of arc marginals.
"""
import numpy

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, log
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free, arena_reset, take, take_zeros
from ...base._exp cimport power_doubles
from ...base._linear cimport Entry, Slot
from ...trees._eisner cimport best_projective
from ...trees._eisner cimport is_projective
from ...trees._first_order cimport RESCALINGS, span_growth
from ._chart cimport Chart, chart_inside, chart_local, chart_outside
from ._forest cimport MAX_STATES, MOST_OF_STATES, Forests, tree_likelihood
from ._features cimport Machine, Scored, move_size, score_sentence
from ._table cimport Bucket, Cell

cdef double MIN_PROB = 1e-12


cdef class Engine:
    """Arrays of a model, checked by the caller, behind pointers.

    slots, entries (structured arrays): The feature table. Entries are changed by learning.
    moves (float32[tags, 2, C+1, C+1]): Log weights of state moves; tag 0 is shared by all.
    sharpness, label_sharpness (float): By what scores are multiplied, see `_score._sharpen`; moves already
        are. Not for learning.
    choice (float): The tree is chosen by P(tree)^choice, see `_sharper`.
    share (float): How much that counts in probabilities: share P^choice + (1 - share) P.
    table (Optional[ReadTable]): The feature table as it is read in parsing; without it, slots and entries are.
    """

    def __init__(
        self, *, const int32_t[:, :, ::1] composites not None, const int32_t[:, ::1] pairs not None,
        const int32_t[::1] unaries not None, const int32_t[:, ::1] siblings not None,
        const Slot[::1] slots not None, Entry[::1] entries not None,
        float[:, :, :, ::1] moves not None, const int32_t[::1] label_state not None,
        const uint8_t[:, ::1] allowed not None, const uint8_t[::1] between_bit not None, int n_columns,
        double sharpness=1.0, double label_sharpness=1.0, double choice=1.0, double share=0.0,
        table=None,
    ):
        cdef Machine* machine = &self.machine
        cdef const Cell[::1] cells
        cdef const uint32_t[:, ::1] buckets
        cdef const uint32_t[::1] bits
        self.keep = (
            composites, pairs, unaries, siblings, slots, label_state, allowed, between_bit, table)
        self.entries = entries
        self.moves = moves
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
        machine.slots = &slots[0]
        machine.mask = slots.shape[0] - 1
        machine.entries = &entries[0]
        if table is not None:
            cells, buckets, bits = table.cells, table.buckets, table.bits
            machine.table.cells, machine.table.step = &cells[0], table.step
            machine.table.buckets = <const Bucket*>&buckets[0, 0]
            machine.table.n_buckets = buckets.shape[0] - 1
            machine.table.bits = &bits[0]
            machine.table.shift = 33 - (32 * (<object>bits.shape[0])).bit_length()
            machine.table.mask = machine.mask
            machine.table.n_bits = (<object>slots.shape[0]).bit_length() - 1
        machine.n_labels = label_state.shape[0]
        machine.n_states = moves.shape[2] - 1
        machine.label_state = &label_state[0]
        machine.allowed = &allowed[0, 0]
        machine.between_bit = &between_bit[0]
        machine.sharpness, machine.label_sharpness = sharpness, label_sharpness
        machine.choice, machine.share = choice, share
        self.exp_moves = numpy.empty_like(moves, dtype=numpy.float64)
        machine.moves = &self.exp_moves[0, 0, 0, 0]
        machine.log_moves = &moves[0, 0, 0, 0]
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
        """Marginals and the tree of most expected correct arcs, for every sentence.

        columns (uint64[n, columns]), tags (int32[n]): The tokens of all sentences.
        starts (int32[sentences + 1]): Where sentences start.
        arc_start (int32[n + 1]), arc_head (int32[arcs]): The kept heads of every token.
        margins (float64[sentences]): Drop arcs whose own score is that much below the best of their
            modifier.
        extra (Optional[float32[arcs, labels]]): What else speaks for arcs with labels, in logarithms: it is
            added to what the model says.
        RETURNS (Dict[str, Any]): heads (int32[n]); labels (int32[n]); label_probs (float32[n, labels]),
            the probability of every label given the head; arc_probs (float32[arcs]); log_probs
            (float64[sentences]) of the labelled trees, nan if the chart failed; forests (Forests).
        """
        cdef int s, n, start, attempt, n_sentences = starts.shape[0] - 1, failed = 0
        cdef Arena arena
        cdef Scored scored
        cdef Forests forests = Forests(n_sentences, self)
        heads = numpy.zeros(columns.shape[0], dtype=numpy.int32)
        labels = numpy.zeros(columns.shape[0], dtype=numpy.int32)
        label_probs = numpy.zeros((columns.shape[0], self.machine.n_labels), dtype=numpy.float32)
        arc_probs = numpy.zeros(arc_head.shape[0], dtype=numpy.float32)
        log_probs = numpy.zeros(n_sentences, dtype=numpy.float64)
        cdef int32_t[::1] out_heads = heads
        cdef int32_t[::1] out_labels = labels
        cdef float[:, ::1] out_label_probs = label_probs
        cdef float[::1] out_probs = arc_probs
        cdef double[::1] out_log_probs = log_probs
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
                failed = failed or forests.keep(s, &self.machine, &scored)
                if failed:
                    break
                out_log_probs[s] = scored.likelihood
            arena_free(&arena)
        if failed:
            raise MemoryError
        return {
            "heads": heads, "labels": labels, "label_probs": label_probs, "arc_probs": arc_probs,
            "log_probs": log_probs, "forests": forests,
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
    """Read the tree and the probabilities of arcs from a chart, and those of labels given the chosen heads;
    `likelihood` becomes the tree's."""
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
    scored.likelihood = tree_likelihood(machine, scored, heads, labels)
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


def sentence_scores(
    Engine engine not None, const uint64_t[:, ::1] columns not None, const int32_t[::1] tags not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None, double margin,
    const float[:, ::1] extra=None,
):
    """All scores of one sentence, as the chart takes them: to pack its trees in another way. The arguments are
    those of `Engine.parse`.

    RETURNS (Dict[str, ndarray]): heads, modifiers (int32[arcs]) of the arcs within the margin, by modifier;
        scores (float32[arcs, labels]); ranks (int32[arcs]) among the arcs of a head's side, from the inside
        out; sibling_starts (int32[arcs]), where the scores of each arc after none and after the arcs of lower
        rank stand in siblings (float64); last (float64[arcs]) of being the outermost one; empty
        (float64[2n+2]) by 2 * head + side, of no modifier there; moves (float64[2n+2, C+1, C+1]) likewise.
    """
    cdef int n = columns.shape[0], n_labels = engine.machine.n_labels, a, h, failed
    cdef size_t size = engine.machine.n_states + 1
    cdef Arena arena
    cdef Scored scored
    cdef float[:, ::1] out_scores
    cdef int32_t[::1] out_heads, out_modifiers, out_ranks, out_starts
    cdef double[::1] out_siblings
    cdef double[:, :, ::1] out_moves
    cdef const float* more = &extra[0, 0] if extra is not None and extra.size else NULL
    memset(&arena, 0, sizeof(arena))
    try:
        with nogil:
            failed = score_sentence(
                &engine.machine, &scored, &arena, &columns[0, 0], &tags[0], n, &arc_start[0],
                &arc_head[0], more, margin)
        if failed:
            raise MemoryError
        integers = numpy.empty((4, scored.n_arcs), dtype=numpy.int32)
        out_heads, out_modifiers, out_ranks, out_starts = integers
        scores = numpy.empty((scored.n_arcs, n_labels), dtype=numpy.float32)
        siblings = numpy.empty(scored.chart.n_siblings)
        moves = numpy.zeros((2 * n + 2, size, size))
        out_scores, out_siblings, out_moves = scores, siblings, moves
        for a in range(scored.n_arcs):
            out_heads[a], out_modifiers[a] = scored.chart.head[a], scored.chart.mod[a]
            out_ranks[a], out_starts[a] = scored.chart.rank[a], scored.chart.pair_start[a]
        memcpy(&out_scores[0, 0], scored.score, scored.n_arcs * n_labels * sizeof(float))
        memcpy(&out_siblings[0], scored.sibling_score, scored.chart.n_siblings * sizeof(double))
        for h in range(2, 2 * n + 2):
            memcpy(&out_moves[h, 0, 0], scored.chart.moves[h], size * size * sizeof(double))
        numpy.log(moves[2:], out=moves[2:])
    finally:
        arena_free(&arena)
    return {
        "heads": integers[0], "modifiers": integers[1], "ranks": integers[2],
        "sibling_starts": integers[3], "scores": scores, "siblings": siblings,
        "last": siblings[scored.chart.last_at : scored.chart.empty_at],
        "empty": siblings[scored.chart.empty_at :], "moves": moves,
    }
