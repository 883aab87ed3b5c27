# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""All scores of one sentence, as the chart takes them: to pack its trees in another way."""
import numpy

from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free
from ._infer cimport Engine
from ._layout cimport Scored
from ._score cimport score_sentence


def sentence_scores(
    Engine engine not None, const uint64_t[:, ::1] columns not None, const int32_t[::1] tags not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None, double margin,
    const float[:, ::1] extra=None,
):
    """The arguments are those of `Engine.parse`, of a single sentence.

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
    cdef double[::1] out_siblings, out_last, out_empty
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
        siblings = numpy.empty(max(scored.chart.pair_start[scored.n_arcs], 1))
        last, empty = numpy.zeros(scored.n_arcs), numpy.zeros(2 * n + 2)
        moves = numpy.zeros((2 * n + 2, size, size))
        out_scores, out_siblings, out_last, out_empty = scores, siblings, last, empty
        out_moves = moves
        for a in range(scored.n_arcs):
            out_heads[a], out_modifiers[a] = scored.chart.head[a], scored.chart.mod[a]
            out_ranks[a], out_starts[a] = scored.chart.rank[a], scored.chart.pair_start[a]
            if scored.chart.head[a]:
                out_last[a] = scored.last_score[a]
        memcpy(&out_scores[0, 0], scored.score, scored.n_arcs * n_labels * sizeof(float))
        memcpy(
            &out_siblings[0], scored.sibling_score,
            scored.chart.pair_start[scored.n_arcs] * sizeof(double))
        for h in range(2, 2 * n + 2):
            out_empty[h] = scored.empty_score[h]
            memcpy(&out_moves[h, 0, 0], scored.chart.moves[h], size * size * sizeof(double))
    finally:
        arena_free(&arena)
    return {
        "heads": integers[0], "modifiers": integers[1], "ranks": integers[2],
        "sibling_starts": integers[3], "scores": scores, "siblings": siblings, "last": last,
        "empty": empty, "moves": _logs(moves),
    }


def _logs(moves):
    numpy.log(moves[2:], out=moves[2:])
    return moves
