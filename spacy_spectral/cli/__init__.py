"""`python -m spacy spectral ...`: loaded by spaCy through the `spacy_cli` entry point."""

# each module adds its command
from . import (  # noqa: F401
    brackets,
    calibrate,
    draw,
    eigenwords,
    evaluate,
    nbest,
    parse,
    pick,
    pretrain,
    score,
    servers,
    teach,
    treebanks,
)
from ._app import spectral_cli

__all__ = ["spectral_cli"]
