"""What is checked of a step-by-step parser that was loaded: Thinc takes parameters of any shape."""

from typing import Any

from thinc.api import Model

from ...base.fields import Array, Int, Record, Scope
from ...trees.interface import NEUTRAL, TEMPERATURE, Temperature
from ...trees.pseudoprojective import Inventory
from .layers import N_CLASSES

_WHAT = "biaffine parser"
# so far from 0 that sums of products of several layers are finite
_WEIGHT: dict[str, Any] = {"low": -1e6, "high": 1e6}


def _weights(*shape: int | str) -> Array:
    return Array("float32", *shape, **_WEIGHT)


# parameters by the name of the layer; sizes are the layer's dimensions
_LAYERS = {
    "sentence_vectors": Record(root=_weights("nO")),
    "gated_scan": Record(
        W=_weights("units+units+units", "nI"),
        b=_weights("units+units+units"),
    ),
    "arc_scores": Record(
        W=_weights("size+size", "nI"),
        b=_weights("size+size"),
        U=_weights("size", "size"),
        T=_weights(2 * N_CLASSES, "nI"),
    ),
    "label_scores": Record(
        W=_weights("size+size", "nI"),
        C=_weights(N_CLASSES, "size"),
        V=_weights("nO", "size"),
        b=_weights("nO"),
    ),
}


def check_model(model: Model, inventory: Inventory) -> None:
    """Raise a ValueError if the parts of a model do not fit together.

    model (Model): From `architecture.build_biaffine`, loaded.
    inventory (Inventory): Its labels.
    """
    scope = Scope(_WHAT)
    Int(low=2).read(model.attrs.get("max_length"), scope.inside("max_length"))
    numbers, own = model.attrs.get("temperature"), scope.inside("temperature")
    # older versions did not know the last of them
    if not isinstance(numbers, list | tuple) or len(numbers) not in (3, len(NEUTRAL)):
        own.fail(f"is not {len(NEUTRAL)} numbers")
    TEMPERATURE.read(dict(zip(Temperature._fields, numbers, strict=False)), own)
    for node in model.walk():
        own = scope.inside(node.name)
        dims: dict[str, Any] = {n: node.get_dim(n) for n in node.dim_names if node.has_dim(n)}
        params = {
            n: node.ops.to_numpy(node.get_param(n)) if node.has_param(n) else None
            for n in node.param_names
        }
        for name, size in dims.items():
            Int(low=0).read(size, own.inside(name))
        if node.name in _LAYERS:
            _LAYERS[node.name].read(params, Scope(_WHAT, node.name, dims))
            continue
        for name, value in params.items():
            if value is not None:
                _weights(*value.shape).read(value, own.inside(name))
                if not value.size:
                    own.inside(name).fail("has no entry")
    labels = model.get_ref("labels").get_dim("nO")
    if labels != len(inventory):
        scope.inside("label_scores").fail(f"has {labels} labels, not {len(inventory)}")
