"""Layers of a component's model that listen to another component: a `tok2vec` or a transformer that stands
before it, and that several components share."""

from collections.abc import Iterator, Sequence
from typing import Any

from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.tokens import Doc
from thinc.api import Model

from ..base.errors import Errors, SpectralError


def upstream_of(layer: Model) -> str | None:
    """The name of the component that a layer listens to; None if it is no listener."""
    # those of spacy-curated-transformers are no class of their own
    if "_TRANSFORMER_LISTENER" in layer.attrs:
        return layer.attrs["_upstream_name"]
    return getattr(layer, "upstream_name", None)


def _listeners(model: Model) -> Iterator[tuple[Model, str]]:
    for node in model.walk():
        upstream = upstream_of(node)
        if upstream is not None:
            yield node, upstream


def listens(model: Model) -> bool:
    """Whether a model needs the vectors of another component."""
    return any(True for _ in _listeners(model))


def heard_components(model: Model, nlp: Language | None) -> list[str]:
    """The names of the components of a pipeline that a model listens to."""
    own = {id(layer) for layer, _ in _listeners(model)}
    return [
        name
        for name, pipe in (nlp.components if nlp is not None else ())
        if any(id(layer) in own for layer in _heard_by(pipe))
    ]


def _heard_by(pipe: Any) -> Sequence[Model]:
    # components of spaCy and of others
    return getattr(pipe, "listeners", ())


def require_upstream(model: Model, nlp: Language | None, *, name: str) -> None:
    """Raise an error if a layer of a component's model has nobody to listen to.

    name: The component's.
    """
    if nlp is None:
        return
    heard = {id(layer) for _, pipe in nlp.components for layer in _heard_by(pipe)}
    for layer, upstream in _listeners(model):
        if id(layer) not in heard:
            raise SpectralError(Errors.S443.format(name=name, upstream=upstream))


def require_vectors(model: Model, docs: Sequence[Doc], *, name: str) -> None:
    """Raise an error if documents lack what a component's model listens to. Listeners give zeros where no
    tok2vec or transformer has been: a parse of nothing.

    name: The component's.
    """
    for layer, upstream in _listeners(model):
        heard = _has_tensor if isinstance(layer, Tok2VecListener) else _has_transformed
        if not all(map(heard, filter(len, docs))):
            raise SpectralError(Errors.S443.format(name=name, upstream=upstream))


def answer(model: Model, docs: Sequence[Doc]) -> None:
    """Give no gradient for documents to what a model listens to. In an update all that listen must answer, or
    the gradients of the others are lost."""
    for layer, _ in _listeners(model):
        vectors, backprop = layer.begin_update(docs)
        backprop([layer.ops.xp.zeros_like(own) for own in vectors])


def _has_tensor(doc: Doc) -> bool:
    return doc.tensor.size > 0


def _has_transformed(doc: Doc) -> bool:
    return doc.has_extension("trf_data") and doc._.trf_data is not None


def refuse_settings(name: str, **settings: Any) -> None:
    """Raise an error if a component whose model is trained step by step has settings that are for others.

    name: The component's.
    """
    for setting, value in settings.items():
        if value:
            raise SpectralError(Errors.S444.format(name=name, setting=setting))
