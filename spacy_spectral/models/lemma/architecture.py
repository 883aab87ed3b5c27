"""The Thinc model that carries a trained lemmatizer through spaCy's serialisation."""

from typing import Any

from thinc.api import Model

from ...base.learnt import Learnt
from .model import LemmaModel


def build_linear_lemmatizer(epochs: int = 10, seed: int = 0) -> Model:
    """A linear model that chooses edit scripts, with a table of exceptions.

    epochs (int): Passes over the training data.
    seed (int): Seed of its order.
    RETURNS (Model): A model without parameters of its own; what is learnt is in its attributes.
    """
    attrs = {"epochs": epochs, "seed": seed, "learnt": Learnt(LemmaModel)}
    return Model("linear_lemmatizer", forward, attrs=attrs)


def forward(model: Model, inputs: Any, is_train: bool):
    """RETURNS (Tuple[List[str], Callable]): Lemmas of readings, and no gradient."""
    return model.attrs["learnt"].value.lemmatize(inputs), lambda gradient: []
