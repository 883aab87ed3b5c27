"""How what a component has learnt travels inside its Thinc model.

spaCy serialises a component through its Thinc model, and Thinc serialises a model's attributes. A
`Learnt` attribute holds any object with `to_bytes` and a classmethod `from_bytes`, so that spaCy's and
Thinc's own to_bytes, from_bytes, to_disk and copy are all the code there is.
"""

from collections.abc import Callable
from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr


class Learnt:
    """An object that is learnt by `initialize`, or nothing yet."""

    def __init__(self, kind: type, value: Any = None):
        """kind (type): The class of the object.
        value (Any): The object, or None.
        """
        self.kind = kind
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        # by the same bytes, so that caches do not travel to other processes
        return _from_bytes, (self.kind, _to_bytes(self))


def _to_bytes(learnt: Learnt) -> bytes:
    return b"" if learnt.value is None else learnt.value.to_bytes()


def _from_bytes(kind: Any, data: bytes) -> Learnt:
    return Learnt(kind, kind.from_bytes(data) if data else None)


@serialize_attr.register(Learnt)
def _serialize_learnt(_, value: Learnt, name: str, model: Model) -> bytes:
    return _to_bytes(value)


@deserialize_attr.register(Learnt)
def _deserialize_learnt(attribute: Learnt, value: bytes, name: str, model: Model) -> Learnt:
    return _from_bytes(attribute.kind, value)


def parser_model(name: str, kind: type, recipe: Any) -> Model:
    """The Thinc model of a `spectral_parser`.

    name (str): Its name.
    kind (type): The class of the parser that `recipe` trains: a `trees.interface.ParserModel`.
    recipe (Recipe): How to train it. Thinc does not serialise it: the config has the settings.
    RETURNS (Model): The model.
    """
    return Model(name, _parse, attrs={"recipe": recipe, "learnt": Learnt(kind)})


def _parse(model: Model, tokens: Any, is_train: bool) -> tuple[Any, Callable]:
    """Parses of `trees.interface.Tokens`. Module-level, so that the model can be pickled."""
    return model.attrs["learnt"].value.parse(tokens), lambda gradient: []
