"""The Thinc model that carries a trained splitter of sentences through spaCy's serialisation."""

from typing import Any

from thinc.api import Model

from ...base.learnt import Learnt
from .sentences import SenterModel


def build_linear_senter(epochs: int = 10, seed: int = 0) -> Model:
    """A linear model of words, shapes and gaps around the start of a sentence.

    epochs (int): Passes over the training data.
    seed (int): Seed of its order, and of how texts are laid out anew.
    RETURNS (Model): A model without parameters of its own; what is learnt is in its attributes.
    """
    attrs = {"epochs": epochs, "seed": seed, "learnt": Learnt(SenterModel)}
    return Model("linear_senter", forward, attrs=attrs)


def forward(model: Model, inputs: Any, is_train: bool):
    """RETURNS (Tuple[ndarray, Callable]): Probabilities of starts, and no gradient."""
    return model.attrs["learnt"].value.probabilities(*inputs), lambda gradient: []
