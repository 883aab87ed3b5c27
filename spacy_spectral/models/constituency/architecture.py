"""The registered architectures of parsers for constituents: settings in, a Thinc model out."""

from collections.abc import Sequence

from thinc.api import Model

from ...base.errors import Errors
from ...base.learnt import learnt_model
from .mixture import Mixture
from .model import ConstituencyModel
from .training import ConstituencyRecipe

_WEIGHTS = list(Mixture()[:3])


def build_lpcfg(
    estimator: str = "spectral", states: int = 24, em_iterations: int = 8, seed: int = 0
) -> Model:
    """Build the model of a parser by a grammar with hidden states.

    estimator (str): "spectral", "cluster", "em" or "spectral+em".
    states (int): The most states of a symbol.
    em_iterations (int): Rounds of EM, for estimators that have it.
    seed (int): Of whatever is random.
    RETURNS (Model): A model that holds the recipe and, once learnt, the parser.
    """
    recipe = ConstituencyRecipe(
        spans=False,
        anchored=False,
        estimator=estimator,
        states=states,
        em_iterations=em_iterations,
        seed=seed,
    )
    return learnt_model("lpcfg", ConstituencyModel, recipe)


def build_span_crf(
    anchored: bool = True,
    epochs: int = 2,
    anchored_epochs: int = 3,
    rate: float = 0.1,
    min_count: int = 2,
    seed: int = 0,
) -> Model:
    """Build the model of a parser by conditional random fields over spans and anchored rules.

    anchored (bool): Whether there is a model of anchored rules, beside that of spans.
    epochs, anchored_epochs (int): Passes over the treebank of both.
    rate (float): The rate of learning.
    min_count (int): On how many gold spans a feature must occur.
    seed (int): Of the order of sentences.
    RETURNS (Model): A model that holds the recipe and, once learnt, the parser.
    """
    recipe = ConstituencyRecipe(
        anchored=anchored,
        estimator=None,
        epochs=epochs,
        anchored_epochs=anchored_epochs,
        rate=rate,
        min_count=min_count,
        seed=seed,
    )
    return learnt_model("span_crf", ConstituencyModel, recipe)


def build_product(
    estimator: str = "spectral",
    states: int = 24,
    em_iterations: int = 8,
    epochs: int = 2,
    anchored_epochs: int = 3,
    rate: float = 0.1,
    min_count: int = 2,
    weights: Sequence[float] = _WEIGHTS,
    temperature: float = Mixture().temperature,
    seed: int = 0,
) -> Model:
    """Build the model of a parser by the product of a grammar with hidden states and the models of spans.

    The settings are those of both, and these:

    weights (Sequence[float]): Exponents of the posteriors of anchored rules, of the grammar with states and
        of the model of spans.
    temperature (float): What logarithms of probabilities are divided by, so that they are not too sure.
    RETURNS (Model): A model that holds the recipe and, once learnt, the parser.
    """
    if len(weights) != 3:
        raise ValueError(Errors.S709)
    anchored, grammar, spans = weights
    recipe = ConstituencyRecipe(
        estimator=estimator,
        states=states,
        em_iterations=em_iterations,
        epochs=epochs,
        anchored_epochs=anchored_epochs,
        rate=rate,
        min_count=min_count,
        mixture=Mixture(anchored, grammar, spans, temperature),
        seed=seed,
    )
    return learnt_model("constituency_product", ConstituencyModel, recipe)
