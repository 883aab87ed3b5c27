"""The registered architecture `spacy-spectral.Reranker.v1`: settings in, a Thinc model out."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model

from ...base.learnt import Learnt
from .features import GROUPS
from .model import Reranker
from .training import Settings

_DEFAULT = Settings()


def build_reranker(
    learner: str = _DEFAULT.learner,
    features: list[str] = list(GROUPS),  # noqa: B006 (spaCy shows it in filled configs)
    states: int = _DEFAULT.states,
    folds: int = _DEFAULT.folds,
    l2: float = _DEFAULT.l2,
    sharpness: float = _DEFAULT.sharpness,
    max_iterations: int = _DEFAULT.max_iterations,
    epochs: int = _DEFAULT.epochs,
    seed: int = _DEFAULT.seed,
    parser_epochs: int = _DEFAULT.parser_epochs,
) -> Model:
    """Build the model of a reranker.

    learner (str): "loglinear" (conditional log-linear model) or "perceptron" (averaged).
    features (List[str]): Groups of features: "base" (the parser's own scores), "logp" (latent tree
        models of words, tags and labels), "pos", "labels", "words", "spans".
    states (int): Hidden states of the tree models.
    folds (int): Blocks of the training data; the candidates of each come from a parser trained on the
        others.
    l2 (float): Penalty of the log-linear model.
    sharpness (float): How much better a tree with one more right arc is, for the log-linear model.
    max_iterations (int): Iterations of the log-linear model.
    epochs (int): Passes of the perceptron.
    seed (int): Seed of the perceptron's order of sentences.
    parser_epochs (int): Passes over the sentences when a copy of a `beam_parser` is trained.
    RETURNS (Model): A model that holds the settings and, once trained, the reranker.
    """
    settings = Settings(
        learner=learner,
        features=features,
        states=states,
        folds=folds,
        l2=l2,
        sharpness=sharpness,
        max_iterations=max_iterations,
        epochs=epochs,
        seed=seed,
        parser_epochs=parser_epochs,
    )
    return Model("reranker", _rank, attrs={"recipe": settings, "learnt": Learnt(Reranker)})


def _rank(model: Model, batch: Any, is_train: bool) -> tuple[Any, Callable]:
    """Module-level, so that the model can be pickled."""
    return model.attrs["learnt"].value.rank(*batch), lambda gradient: []
