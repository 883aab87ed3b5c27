"""`python -m spacy spectral ...`: loaded by spaCy through the `spacy_cli` entry point."""

# each module adds its command
from . import (  # noqa: F401
    automaton,
    brackets,
    calibrate,
    draw,
    eigenwords,
    evaluate,
    nbest,
    neighbors,
    parse,
    score,
    similarity,
    subtags,
    treebanks,
    word_map,
)
from ._app import spectral_cli

__all__ = ["spectral_cli"]
