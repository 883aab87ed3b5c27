"""What experts say of single arcs, where their own scores can't be asked for."""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from ...trees.interface import ArcScorer, AskedArcs, ParserModel
from ...trees.pseudoprojective import plain
from ...trees.sentences import Tokens

# What an expert thinks impossible, or does not know a label for, is very unlikely to the product.
_SMALLEST = 1e-6


class ProbabilityScores:
    """Logarithms of an expert's probabilities of labelled arcs; see `trees.interface.ArcScorer`."""

    def __init__(self, expert: ParserModel, tokens: Tokens):
        """expert (ParserModel): The expert.
        tokens (Tokens): The batch.
        """
        self._expert = expert
        self._tokens = tokens
        self._n_labels = len(expert.label_names)

    def __call__(self, asked: AskedArcs) -> tuple[NDArray[numpy.floating], NDArray[numpy.floating]]:
        parses = self._expert.parse(self._tokens.at(asked.tokens, asked.starts))
        joint = numpy.full((len(asked.heads), self._n_labels), _SMALLEST / self._n_labels)
        for s, (tokens, own, modifiers) in enumerate(asked.sentences()):
            n = tokens.stop - tokens.start
            place = numpy.full((n + 1, n + 1), -1)
            place[asked.heads[own], modifiers] = numpy.arange(own.start, own.stop)
            found = parses.arcs(s, labelled=True, min_prob=_SMALLEST / self._n_labels)
            rows = place[found.heads, found.modifiers]
            kept = rows >= 0
            numpy.add.at(joint, (rows[kept], found.labels[kept]), found.probs[kept])
        total = joint.sum(axis=1)
        return numpy.log(total), numpy.log(joint / total[:, None])


def translated(scorer: ArcScorer, names: Sequence[str], wanted: Sequence[str]) -> ArcScorer:
    """What an expert says, in terms of another's labels.

    scorer (ArcScorer): The expert.
    names (Sequence[str]): Its labels.
    wanted (Sequence[str]): The labels that are asked for. One that the expert does not know counts as its
        plain form, and as very unlikely if that is not known either.
    RETURNS (ArcScorer): The same expert.
    """
    if list(names) == list(wanted):
        return scorer
    index = {name: i for i, name in enumerate(names)}
    columns = numpy.array([index.get(name, index.get(plain(name), -1)) for name in wanted])
    unknown = numpy.log(_SMALLEST)

    def scores(asked: AskedArcs) -> tuple[NDArray[numpy.floating], NDArray[numpy.floating]]:
        arcs, labels = scorer(asked)
        return arcs, numpy.where(columns >= 0, labels[:, columns], unknown)

    return scores


def remembered(scorer: ArcScorer) -> ArcScorer:
    """What an expert has said of all tokens of a batch, for whoever asks the same again and again: the arcs
    are the same whatever the weights.

    scorer (ArcScorer): The expert.
    RETURNS (ArcScorer): The same expert.
    """
    known: list = []

    def scores(asked: AskedArcs) -> tuple[NDArray[numpy.floating], NDArray[numpy.floating]]:
        if not isinstance(asked.tokens, slice):
            return scorer(asked)
        if not known or not all(map(numpy.array_equal, known[0][1:], asked[1:])):
            known[:] = [asked, scorer(asked)]
        return known[1]

    return scores
