"""What a refined grammar says of single arcs, for parsers that weigh it with others."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from ...trees.interface import ArcScorer, AskedArcs
from ...trees.sentences import Tokens

if TYPE_CHECKING:
    from .model import RefinedGrammar

# What the grammar leaves out, or thinks impossible, is this likely
SMALLEST = 1e-5


class RefinedScores(ArcScorer):
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

    def log_marginals(self, asked: AskedArcs) -> NDArray[numpy.float64]:
        """The marginals of arcs, without labels.

        asked (AskedArcs): The arcs.
        RETURNS (ndarray): [arcs], log P(arc | sentence, these arcs), at least log SMALLEST.
        """
        return self._marginals(asked)[0]

    def __call__(self, asked: AskedArcs) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        logs, trees = self._marginals(asked)
        grammar, starts, heads = self._grammar, asked.starts, asked.heads
        places = numpy.arange(len(self._tags))[asked.tokens]
        modifier = asked.modifiers()
        # one arc to every token at a time, seen in the best tree
        rank = numpy.arange(len(heads)) - asked.arc_starts[modifier]
        labels = numpy.zeros((len(heads), len(grammar.label_names)))
        bounds = list(pairwise(starts.tolist()))
        tags, words = self._tags[places], self._words[places]
        for round_ in range(int(rank.max(initial=-1)) + 1):
            own = rank == round_
            seen = trees.copy()
            seen[modifier[own]] = heads[own]
            there = numpy.unique(numpy.searchsorted(starts, modifier[own], side="right") - 1)
            some = [bounds[s] for s in there.tolist()]
            found = grammar.labels.distributions(
                [tags[a:b] for a, b in some],
                [words[a:b].tolist() for a, b in some],
                [seen[a:b] for a, b in some],
                trees=[trees[a:b] for a, b in some],
                root_symbol=len(grammar.symbols),
            )
            inside = numpy.concatenate([numpy.arange(a, b) for a, b in some])
            labels[own] = found[numpy.searchsorted(inside, modifier[own])]
        return logs, numpy.log(numpy.maximum(labels, SMALLEST))

    def _marginals(self, asked: AskedArcs) -> tuple[NDArray[numpy.float64], NDArray[numpy.int32]]:
        """Logarithms of arcs, and the best trees."""
        places = numpy.arange(len(self._tags))[asked.tokens]
        logs = numpy.zeros(len(asked.heads))
        trees = numpy.zeros(len(places), dtype="int32")
        for tokens, own, modifiers in asked.sentences():
            chosen = places[tokens]
            arcs = asked.heads[own], modifiers
            allowed = numpy.zeros((len(chosen) + 1,) * 2, dtype=bool)
            allowed[arcs] = True
            found = self._grammar.posterior(self._tags[chosen], self._lattice.part(chosen), allowed)
            logs[own] = numpy.log(numpy.maximum(found.marginals[arcs], SMALLEST))
            trees[tokens] = found.heads
        return logs, trees
