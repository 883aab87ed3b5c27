"""The Thinc model that carries a trained tagger through spaCy's serialisation."""

from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from .model import TaggerModel


class LearntTagger:
    """A place for a `TaggerModel`, empty before training.

    Thinc picks the (de)serialiser by the type of an attribute, so that type must not change
    when the model is trained.
    """

    def __init__(self, model: TaggerModel | None = None):
        self.model = model

    def to_bytes(self) -> bytes:
        return self.model.to_bytes() if self.model is not None else b""

    @classmethod
    def from_bytes(cls, data: bytes) -> "LearntTagger":
        return cls(TaggerModel.from_bytes(data) if data else None)

    def __reduce__(self) -> tuple[Any, ...]:
        # through the same bytes, so that caches do not travel to other processes
        return LearntTagger.from_bytes, (self.to_bytes(),)


@serialize_attr.register(LearntTagger)
def _serialize(_: Any, value: LearntTagger, name: str, model: Model) -> bytes:
    return value.to_bytes()


@deserialize_attr.register(LearntTagger)
def _deserialize(_: Any, value: bytes, name: str, model: Model) -> LearntTagger:
    return LearntTagger.from_bytes(value)


def build_linear_tagger(epochs: int = 5, seed: int = 0) -> Model:
    """A linear tagger: hashed features, a tag dictionary, word clusters where there are some.

    epochs (int): Passes over the training data.
    seed (int): Seed of the order of sentences.
    RETURNS (Model): A model without parameters of its own; what is learnt is in its attributes.
    """
    attrs = {"epochs": epochs, "seed": seed, "learnt": LearntTagger()}
    return Model("linear_tagger", forward, attrs=attrs)


def forward(model: Model, inputs: Any, is_train: bool):
    """RETURNS (Tuple[Tagging, Callable]): Decisions about rows of words, and no gradient."""
    rows, starts, top = inputs
    return model.attrs["learnt"].model.tag_rows(rows, starts, top=top), lambda gradient: []
