"""The registered architecture `spacy-spectral.SHAG.v1`: settings in, a Thinc model out."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model

from ..learnt import Learnt
from .estimate import EstimatorSettings
from .grammar import Grammar, GrammarSettings


def build_shag(
    estimator: str = "spectral",
    states: int = 8,
    smoothing: float = 10.0,
    rank_tolerance: float = 1.0,
    ridge: float = 2.0,
    em_iterations: int = 100,
    em_tolerance: float = 1e-6,
    seed: int = 0,
    lengths: bool = True,
    lexical: str | None = None,
    min_symbol_count: int = 1,
    max_length: int = 250,
) -> Model:
    """Build the model of a parser by split head automata.

    The settings are explained in `EstimatorSettings` and `GrammarSettings`. The model is not trained by
    gradients: `fit` in its attributes learns the grammar in one go.

    RETURNS (Model): A model that holds the settings and, once learnt, the grammar.
    """
    automata = EstimatorSettings(
        estimator=estimator,
        states=states,
        smoothing=smoothing,
        rank_tolerance=rank_tolerance,
        ridge=ridge,
        em_iterations=em_iterations,
        em_tolerance=em_tolerance,
        seed=seed,
    )
    settings = GrammarSettings(
        automata=automata,
        lengths=lengths,
        lexical=None if lexical in (None, "", "none") else lexical,
        min_symbol_count=min_symbol_count,
        max_length=max_length,
    )
    return Model(
        "shag", _forward, attrs={"settings": Settings(settings), "learnt": Learnt(Grammar)}
    )


class Settings:
    """Keeps the settings out of Thinc's serialisation: the config has them already."""

    def __init__(self, value: GrammarSettings):
        self.value = value


def _forward(model: Model, X: Any, is_train: bool) -> tuple[Any, Callable]:
    """Posteriors of (symbols, words) pairs. Module-level, so that the model can be pickled."""
    grammar = model.attrs["learnt"].value
    return [grammar.posterior(symbols, words) for symbols, words in X], lambda d: []
