"""Keeps what a component has learnt as an attribute of its Thinc model.

spaCy serialises a component through its Thinc model, and Thinc serialises a model's attributes. A
`Learnt` attribute holds any object with `to_bytes` and a classmethod `from_bytes`, so that spaCy's and
Thinc's own to_bytes, from_bytes, to_disk and copy are all the code there is.

Layers that are trained step by step are Thinc's to save: it takes arrays of any kind and size from a file, so
they are checked here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any

from thinc.api import Model
from thinc.model import deserialize_attr, serialize_attr

from .files import Array, Int, Record, Scope


class Learnt:
    """An object that is learnt by `initialize`, or nothing yet."""

    def __init__(self, kind: type, value: Any = None):
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


def learnt_model(name: str, kind: type, recipe: Any) -> Model:
    """The Thinc model of a component that is trained as a whole, when its pipeline is initialized.

    recipe: The settings, with `fit`, which trains. Thinc does not serialise it: the config has it.
    """
    return Model(name, _forward, attrs={"recipe": recipe, "learnt": Learnt(kind)})


def _forward(model: Model, inputs: Any, is_train: bool) -> tuple[list, Callable]:
    """Gives nothing: components ask what was learnt themselves, and 'spacy debug model' has documents, which
    only components can read. Module-level, so that models can be pickled."""
    return [], lambda gradient: []


def layer_weights(*shape: int | str) -> Array:
    """An array of a layer; numbers are so far from 0 that sums of products of several layers are finite."""
    return Array("float32", *shape, low=-1e6, high=1e6)


def check_layers(model: Model, what: str, fields: Mapping[str, Record]) -> None:
    """Raise a ValueError if the arrays of a model that was loaded are not what its layers need.

    what: The model's name in errors.
    fields: By the name of a layer its arrays, see `layer_weights`; sizes are the layer's dimensions. Those of
        other layers must only be finite.
    """
    for node in model.walk():
        own = Scope(what).inside(node.name)
        dims: dict[str, Any] = {n: node.get_dim(n) for n in node.dim_names if node.has_dim(n)}
        params = {
            n: node.ops.to_numpy(node.get_param(n)) if node.has_param(n) else None
            for n in node.param_names
        }
        for name, size in dims.items():
            Int(low=0).read(size, own.inside(name))
        if node.name in fields:
            fields[node.name].read(params, Scope(what, node.name, dims))
            continue
        for name, value in params.items():
            if value is not None:
                layer_weights(*value.shape).read(value, own.inside(name))
                if not value.size:
                    own.inside(name).fail("has no entry")


def architecture(
    name: str,
    kind: type,
    recipe: type,
    *,
    hidden: Sequence[str] = (),
    **fixed: Any,
) -> Callable[..., Model]:
    """A function that configs can name: settings in, a model out (see `learnt_model`).

    recipe: A dataclass of settings, with `fit`. Settings that are dataclasses again stand beside the
    others.
    hidden: Settings that configs do not have; fixed: such settings with other values than their
    defaults.
    """
    shown = {
        key: Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for key, (annotation, default) in _flat(recipe).items()
        if key not in hidden and key not in fixed
    }

    def build(**settings: Any) -> Model:
        unknown = [key for key in settings if key not in shown]
        if unknown:
            raise TypeError(f"{name} has no setting {unknown[0]!r}")
        return learnt_model(name, kind, _nested(recipe, fixed | settings))

    build.__doc__ = recipe.__doc__
    build.__signature__ = Signature(list(shown.values()), return_annotation=Model)  # type: ignore[attr-defined]
    return build


def _flat(settings: type) -> dict[str, tuple[Any, Any]]:
    """The types and defaults of settings, with those of settings inside."""
    result: dict[str, tuple[Any, Any]] = {}
    for own in fields(settings):
        if is_dataclass(own.type):
            result |= _flat(own.type)  # type: ignore[arg-type]
        elif own.init:
            # spaCy writes defaults into configs, which know lists
            is_list = isinstance(own.default, tuple)
            result[own.name] = (own.type, list(own.default) if is_list else own.default)  # type: ignore[arg-type]
    return result


def _nested(settings: type, given: dict[str, Any]) -> Any:
    own = {key.name: given[key.name] for key in fields(settings) if key.name in given}
    for key in fields(settings):
        if is_dataclass(key.type):
            own[key.name] = _nested(key.type, given)  # type: ignore[arg-type]
    return settings(**own)
