"""Other parsers whose word counts in a second stage: what they say of the arcs of its forests.

An expert is trained on the same data as the parser, jack-knifed like it, and sees other things: a refined
grammar, for instance, sums over hidden states of heads and siblings. Its log-marginals are numbers of arcs
beside the parser's own, with weights that are learnt.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...trees.interface import Clusters, ParserModel, Recipe
from ...trees.sentences import Tokens, Treebank
from ..product.parser import KINDS
from .forests import Forests

SMALLEST = 1e-5  # what an expert thinks impossible is this likely
Report = Callable[[str], None]


@runtime_checkable
class MarginalScorer(Protocol):
    """An `ArcScorer` (see `trees.interface`) that knows marginals of arcs given that there are no others."""

    def log_marginals(
        self,
        tokens: NDArray[numpy.int64] | slice,
        starts: NDArray[numpy.int32],
        arc_starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
    ) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): The logarithm of every arc's marginal."""
        ...


def check_experts(experts: Mapping[str, Any] | None) -> dict[str, Recipe]:
    """experts (Optional[Mapping[str, Model]]): Models of parsers that are trained in one go, by names.
    RETURNS (Dict[str, Recipe]): How to train them."""
    recipes = {}
    for name, expert in (experts or {}).items():
        learnt = expert.attrs.get("learnt")
        if learnt is None or learnt.kind not in KINDS.values():
            raise ValueError(Errors.S455.format(name=name, kind=expert.name))
        recipes[name] = expert.attrs["recipe"]
    return recipes


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
    asked = _asked(forests)
    columns = [forests.dense]
    for expert in experts:
        logs = _log_marginals(expert, tokens, asked)
        columns.append(logs[asked.arc_of][:, None])
    return forests.with_dense(numpy.concatenate(columns, axis=1))


class _Asked(NamedTuple):
    """The arcs of forests, without labels.

    tokens (ndarray): The tokens of sentences with arcs.
    starts (ndarray): Where these sentences start among them, closed by their number.
    arc_starts (ndarray): Where the arcs of each of these tokens start, likewise.
    heads (ndarray): Their heads.
    arc_of (ndarray): Which of them every labelled arc of the forests is.
    """

    tokens: NDArray[numpy.int64]
    starts: NDArray[numpy.int32]
    arc_starts: NDArray[numpy.int32]
    heads: NDArray[numpy.int32]
    arc_of: NDArray[numpy.int64]


def _asked(forests: Forests) -> _Asked:
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
    return _Asked(tokens, starts, arc_starts, forests.heads[new], numpy.cumsum(new) - 1)


def _log_marginals(expert: ParserModel, tokens: Tokens, asked: _Asked) -> NDArray[numpy.float64]:
    scorer = expert.scorer(tokens) if hasattr(expert, "scorer") else None
    arcs = (asked.tokens, asked.starts, asked.arc_starts, asked.heads)
    if isinstance(scorer, MarginalScorer):
        return scorer.log_marginals(*arcs)
    parses = expert.parse(tokens.at(asked.tokens, asked.starts))
    modifiers = numpy.repeat(numpy.arange(len(asked.tokens)), numpy.diff(asked.arc_starts))
    modifiers -= numpy.repeat(asked.starts[:-1], numpy.diff(asked.starts))[modifiers]
    result = numpy.empty(len(asked.heads))
    bounds = asked.arc_starts[asked.starts]
    for s, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        found = parses.arcs(s, min_prob=SMALLEST)
        n = int(asked.starts[s + 1] - asked.starts[s])
        known = found.modifiers.astype("int64") * (n + 1) + found.heads
        wanted = (modifiers[begin:end] + 1) * (n + 1) + asked.heads[begin:end]
        at = numpy.minimum(numpy.searchsorted(known, wanted), len(known) - 1)
        result[begin:end] = numpy.where(known[at] == wanted, found.probs[at], 0.0)
    return numpy.log(numpy.maximum(result, SMALLEST))
