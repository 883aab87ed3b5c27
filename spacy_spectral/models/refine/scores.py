"""What a refined grammar says of single arcs, for parsers that weigh it with others."""

from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from ...trees.sentences import Tokens

if TYPE_CHECKING:
    from .model import RefinedGrammar

# What the grammar leaves out, or thinks impossible, is this likely
SMALLEST = 1e-5


class RefinedScores:
    """Logarithms of marginals of arcs; implements `trees.interface.ArcScorer`.

    Only the arcs that are asked for are looked at: the marginals are those of the grammar given that the
    tree has no others, computed by a chart that is as small as these arcs make it. So they cost little where
    a pruner has left few arcs.
    """

    def __init__(self, grammar: "RefinedGrammar", tokens: Tokens):
        """grammar (RefinedGrammar): The grammar.
        tokens (Tokens): The batch.
        """
        self._grammar = grammar
        self._words = numpy.array(tokens.words, dtype=object)
        self._tags = grammar.symbols.encode(tokens.symbols)
        self._lattice = grammar.lexicon.lattice(tokens.words, self._tags)

    def log_marginals(
        self,
        tokens: NDArray[numpy.int64] | slice,
        starts: NDArray[numpy.int32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
    ) -> NDArray[numpy.float64]:
        """The marginals of arcs, without labels.

        tokens, starts, arc_starts, heads: As for `trees.interface.ArcScorer`.
        RETURNS (ndarray): [arcs], log P(arc | sentence, these arcs), at least log SMALLEST.
        """
        return self._marginals(tokens, starts, arc_starts, heads)[0]

    def __call__(
        self,
        tokens: NDArray[numpy.int64] | slice,
        starts: NDArray[numpy.int32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        logs, trees = self._marginals(tokens, starts, arc_starts, heads)
        grammar = self._grammar
        places = numpy.arange(len(self._tags))[tokens]
        modifier = numpy.repeat(numpy.arange(len(places)), numpy.diff(arc_starts))
        # one arc to every token at a time, seen in the best tree
        rank = numpy.arange(len(heads)) - arc_starts[modifier]
        labels = numpy.zeros((len(heads), len(grammar.label_names)))
        bounds = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
        tags, words = self._tags[places], self._words[places]
        for round_ in range(int(rank.max(initial=-1)) + 1):
            own = rank == round_
            asked = trees.copy()
            asked[modifier[own]] = heads[own]
            there = numpy.unique(numpy.searchsorted(starts, modifier[own], side="right") - 1)
            some = [bounds[s] for s in there.tolist()]
            found = grammar.labels.distributions(
                [tags[a:b] for a, b in some],
                [words[a:b].tolist() for a, b in some],
                [asked[a:b] for a, b in some],
                trees=[trees[a:b] for a, b in some],
                root_symbol=len(grammar.symbols),
            )
            inside = numpy.concatenate([numpy.arange(a, b) for a, b in some])
            labels[own] = found[numpy.searchsorted(inside, modifier[own])]
        return logs, numpy.log(numpy.maximum(labels, SMALLEST))

    def _marginals(
        self,
        tokens: NDArray[numpy.int64] | slice,
        starts: NDArray[numpy.int32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.int32]]:
        """Logarithms of arcs, and the best trees."""
        places = numpy.arange(len(self._tags))[tokens]
        logs = numpy.zeros(len(heads))
        trees = numpy.zeros(len(places), dtype="int32")
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            own = slice(int(arc_starts[begin]), int(arc_starts[end]))
            n = end - begin
            counts = numpy.diff(arc_starts[begin : end + 1])
            arcs = heads[own], numpy.repeat(numpy.arange(1, n + 1), counts)
            allowed = numpy.zeros((n + 1, n + 1), dtype=bool)
            allowed[arcs] = True
            chosen = places[begin:end]
            found = self._grammar.posterior(self._tags[chosen], self._lattice.part(chosen), allowed)
            logs[own] = numpy.log(numpy.maximum(found.marginals[arcs], SMALLEST))
            trees[begin:end] = found.heads
        return logs, trees
