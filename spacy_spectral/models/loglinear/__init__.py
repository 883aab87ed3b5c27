"""The log-linear parser: conditional training on pruned arcs. Knows nothing of spaCy."""

from .encode import Encoder, Sentences
from .estimate import Annotated, Epoch, Settings, fit
from .model import LogLinearModel, ModelParses
from .pruner import Arcs

__all__ = [
    "Annotated",
    "Arcs",
    "Encoder",
    "Epoch",
    "LogLinearModel",
    "ModelParses",
    "Sentences",
    "Settings",
    "fit",
]
