"""Training of a product: every expert by itself, then their weights and the temperature together.

Weights and temperature maximise the logarithmic score of the arcs that the product chooses (see
`trees.calibration`) on sentences that no expert was trained on. Trees are chosen at another, lower
temperature: with experts that had not seen a part of UD_English-EWT's training data (850 sentences) UAS was
90.2 at 1.7, which is what makes probabilities true, 90.3 at 1.5, 90.5 at 1.25, 90.6 at 1, 0.75 and 0.5, and
the error of head probabilities 0.6 %, 0.6, 0.7, 0.9, 1.0 and 1.0; `scripts/benchmark_product.py` prints such
a table.
"""

from collections.abc import Callable, Mapping
from typing import cast

import numpy

from ...trees.calibration import (
    PRIOR,
    Tried,
    calibrated,
    held_out_blocks,
    judge,
    minimum,
    some_sentences,
    star,
)
from ...trees.interface import (
    ArcScorer,
    Clusters,
    ParserModel,
    Pretrained,
    Recipe,
    Resources,
    Temperature,
    Vectors,
)
from ...trees.sentences import MISSING, Floats, Treebank
from .parser import ProductParser

_CHOSEN_AT = 1.0  # the temperature at which trees are chosen, for weights that sum to 1
# How far logarithms of weights and of the temperature are changed to see what it does, at first and then.
_ARMS = (0.7, 0.4)


def fit(
    recipes: Mapping[str, Recipe],
    weights: Mapping[str, float] | None,
    treebank: Treebank,
    *,
    dev: Treebank | None = None,
    clusters: Clusters | None = None,
    vectors: Vectors | None = None,
    pretrained: Pretrained | None = None,
    report: Callable[[str], None] = print,
) -> ProductParser:
    """Train a product of experts with given weights, or learn these from `dev`; without, from copies of
    the experts that are trained without a part of the treebank."""
    given = Resources(clusters=clusters, vectors=vectors, pretrained=pretrained, report=report)
    equal = dict.fromkeys(recipes, 1.0 / len(recipes))
    experts = fit_experts(recipes, treebank, dev, given)
    product = ProductParser(experts, weights or equal)
    held_out, judges = dev, product
    if weights is None and dev is None:
        inside = held_out_blocks(len(treebank.tokens))
        if inside.any() and not inside.all():
            held_out = treebank.select(inside)
            others = treebank.select(~inside)
            copies = fit_experts(recipes, others, None, given, prefix="without a part, ")
            judges = ProductParser(copies, equal)
    if held_out is None:
        return product
    if weights is None and len(recipes) > 1:
        some = some_sentences(held_out)
        judges = fit_weights(judges, some, judges.scorers(some.tokens))
        rounded = ", ".join(f"{name} {weight:.2f}" for name, weight in judges.weights.items())
        report(f"weights of experts: {rounded}")
    chosen_at = _CHOSEN_AT * sum(judges.weights.values())
    judged = cast(ProductParser, calibrated(judges, held_out, chosen_at=chosen_at))
    return ProductParser(experts, judged.weights, temperature=judged.temperature)


def fit_experts(
    recipes: Mapping[str, Recipe],
    treebank: Treebank,
    dev: Treebank | None,
    given: Resources,
    *,
    prefix: str = "",
) -> dict[str, ParserModel]:
    """Train every expert by itself."""
    experts = {}
    for name, recipe in recipes.items():

        def report(message: str, start: str = f"{prefix}{name}: ") -> None:
            given["report"](start + message)

        own: Resources = {**given, "dev": dev, "report": report}
        experts[name] = recipe.fit(treebank, **own)
    return experts


def fit_weights(
    product: ProductParser, treebank: Treebank, scorers: Mapping[str, ArcScorer]
) -> ProductParser:
    """The same experts with weights that are learnt, relative to the first; how confident they are is
    not settled yet.

    scorers: What `ProductParser.scorers` says of the treebank's tokens, and experts outside."""
    if not (treebank.heads != MISSING).any():
        return product
    tried = Tried()

    def loss(logs: Floats) -> float:
        return PRIOR * float(logs @ logs) - float(numpy.log(tried.heads(_spread(logs))).sum())

    # how much experts should count depends on how confident they are together, and on one another
    best = numpy.zeros(len(product.weights))
    for arm in _ARMS:
        centre, arms = best, numpy.full(len(best), arm)
        for logs in star(centre, arms):
            parses = _at(product, logs).parse_scored(scorers, treebank.tokens)
            tried.add(_spread(logs), judge(parses, treebank, product.label_names))
        best = minimum(
            loss, centre, list(zip(centre - 2.0 * arms, centre + 2.0 * arms, strict=True))
        )
    return _at(product, best)


def _weights(logs: Floats) -> Floats:
    """Weights, of the logarithms of a temperature and of weights, relative to the first."""
    shares = numpy.exp(numpy.append(0.0, logs[1:]))
    return shares / shares.sum()


def _at(product: ProductParser, logs: Floats) -> ProductParser:
    weights = dict(zip(product.weights, _weights(logs).tolist(), strict=True))
    temperature = Temperature(float(numpy.exp(logs[0])))
    return ProductParser(product.experts, weights, temperature=temperature)


def _spread(logs: Floats) -> Floats:
    """Logarithms of the temperature that every expert has in the product."""
    return logs[0] - numpy.log(_weights(logs))
