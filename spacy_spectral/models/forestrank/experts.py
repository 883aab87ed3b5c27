"""Other parsers whose word counts in a second stage: what they say of the arcs of its forests.

An expert is trained on the same data as the parser, jack-knifed like it, and sees other things: a refined
grammar, for instance, sums over hidden states of heads and siblings. Its log-marginals are numbers of arcs
beside the parser's own, with weights that are learnt.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy
from numpy.typing import NDArray

from ...trees.interface import AskedArcs, Clusters, ParserModel, Recipe
from ...trees.sentences import Tokens, Treebank
from .forests import Forests

SMALLEST = 1e-5  # what an expert thinks impossible is this likely
Report = Callable[[str], None]


def train_experts(
    recipes: Mapping[str, Recipe], treebank: Treebank, clusters: Clusters | None, report: Report
) -> dict[str, ParserModel]:
    """RETURNS (Dict[str, ParserModel]): Experts that were trained on a treebank."""
    return {
        name: recipe.fit(
            treebank,
            dev=None,
            clusters=clusters,
            vectors=None,
            report=lambda message, name=name: report(f"{name}: {message}"),  # type: ignore[misc]
        )
        for name, recipe in recipes.items()
    }


def with_experts(forests: Forests, experts: Sequence[ParserModel], tokens: Tokens) -> Forests:
    """RETURNS (Forests): Forests whose arcs have the logarithms of the experts' marginals as numbers, too."""
    if not experts:
        return forests
    asked, arc_of = _asked(forests)
    columns = [forests.dense]
    for expert in experts:
        logs = _log_marginals(expert, tokens, asked)
        columns.append(logs[arc_of][:, None])
    return forests.with_dense(numpy.concatenate(columns, axis=1))


def _asked(forests: Forests) -> tuple[AskedArcs, NDArray[numpy.int64]]:
    """RETURNS (Tuple[AskedArcs, ndarray]): The arcs of forests without labels, of sentences that have some,
    and which of them every labelled arc is."""
    token = forests.token_of()
    new = (numpy.diff(token, prepend=-1) != 0) | (numpy.diff(forests.heads, prepend=-1) != 0)
    lengths = numpy.diff(forests.starts)
    there = numpy.diff(forests.arc_starts) > 0
    tokens = numpy.flatnonzero(numpy.repeat(there, lengths))
    counts = numpy.bincount(token[new], minlength=int(forests.starts[-1]))[tokens]
    starts, arc_starts = (
        numpy.concatenate([[0], numpy.cumsum(own)]).astype("int32")
        for own in (lengths[there], counts)
    )
    asked = AskedArcs(tokens, starts, arc_starts, forests.heads[new])
    return asked, numpy.cumsum(new) - 1


def _log_marginals(expert: ParserModel, tokens: Tokens, asked: AskedArcs) -> NDArray[numpy.float64]:
    scorer = expert.scorer(tokens)
    known = None if scorer is None else scorer.log_marginals(asked)
    if known is not None:
        return known
    parses = expert.parse(tokens.at(asked.tokens, asked.starts))
    result = numpy.empty(len(asked.heads))
    for s, (own, arcs, modifiers) in enumerate(asked.sentences()):
        found = parses.arcs(s, min_prob=SMALLEST)
        width = own.stop - own.start + 1
        places = found.modifiers.astype("int64") * width + found.heads
        wanted = modifiers * width + asked.heads[arcs]
        at = numpy.minimum(numpy.searchsorted(places, wanted), len(places) - 1)
        result[arcs] = numpy.where(places[at] == wanted, found.probs[at], 0.0)
    return numpy.log(numpy.maximum(result, SMALLEST))
