"""The Thinc model that carries a trained tagger through spaCy's serialisation."""

from typing import Any

from thinc.api import Model

from ...base.learnt import Learnt
from .model import TaggerModel


def build_linear_tagger(epochs: int = 5, seed: int = 0) -> Model:
    """A linear tagger: hashed features, a tag dictionary, word clusters where there are some.

    epochs (int): Passes over the training data.
    seed (int): Seed of the order of sentences.
    RETURNS (Model): A model without parameters of its own; what is learnt is in its attributes.
    """
    attrs = {"epochs": epochs, "seed": seed, "learnt": Learnt(TaggerModel)}
    return Model("linear_tagger", forward, attrs=attrs)


def forward(model: Model, inputs: Any, is_train: bool):
    """RETURNS (Tuple[Tagging, Callable]): Decisions about words, and no gradient."""
    words, starts, top, given = inputs
    tagging = model.attrs["learnt"].value.tag_words(words, starts, top=top, given=given)
    return tagging, lambda gradient: []
