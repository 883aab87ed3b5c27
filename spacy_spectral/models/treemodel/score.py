"""How likely given trees are: to find annotation errors. Knows nothing of spaCy."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...trees.sentences import MISSING, Tokens
from .tree_model import TreeModel


class TreeScore(NamedTuple):
    """How well the parts of one tree fit together.

    log_prob (float): log p(tree), summed over the tree models: of words, tags and labels.
    gain (float): How much better than chance its symbols fit together, per token: log p(tree) minus the
        log-probability of its symbols alone. Low for unlikely trees, whatever their words and length are.
    head_probs (ndarray): For every token the probability of its head given the rest of the tree; NaN for
        the root.
    """

    log_prob: float
    gain: float
    head_probs: NDArray[numpy.float64]


def tree_scores(
    models: Mapping[str, TreeModel],
    tokens: Tokens,
    heads: NDArray[numpy.int32],
    labels: Sequence[str],
) -> list[TreeScore | None]:
    """Score one tree for each sentence.

    models (Mapping[str, TreeModel]): Tree models of "words", "tags" and "labels".
    tokens (Tokens): The sentences.
    heads (ndarray), labels (Sequence[str]): The tree of each.
    RETURNS (List[Optional[TreeScore]]): One for each sentence; None where heads are missing.
    """
    symbols = {"words": tokens.words, "tags": tokens.symbols, "labels": labels}
    encoded = [(model, model.encode(symbols[kind])) for kind, model in models.items()]
    return [
        None
        if (heads[begin:end] == MISSING).any()
        else _score([(model, ids[begin:end]) for model, ids in encoded], heads[begin:end])
        for begin, end in tokens.bounds()
    ]


def _score(
    encoded: Sequence[tuple[TreeModel, NDArray[numpy.int32]]], heads: NDArray[numpy.int32]
) -> TreeScore:
    n = len(heads)
    log_prob = gain = 0.0
    # models of different symbols are taken as independent, given the tree
    fit = numpy.ones((n, n))
    for model, ids in encoded:
        (own,), _ = model.log_scores(ids, heads[None])
        log_prob += own
        gain += own - model.log_frequency(ids)
        fit *= model.head_probs(ids, heads)
    total = fit.sum(axis=1)
    probs = fit[numpy.arange(n), numpy.maximum(heads - 1, 0)]
    head_probs = numpy.divide(probs, total, out=numpy.zeros(n), where=total > 0)
    return TreeScore(log_prob, gain / n, numpy.where(heads == 0, numpy.nan, head_probs))
