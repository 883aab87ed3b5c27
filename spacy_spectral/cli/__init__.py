"""`python -m spacy spectral ...`: loaded by spaCy through the `spacy_cli` entry point."""

from . import automaton, check, draw, evaluate, nbest, sample
from ._app import spectral_cli

__all__ = ["automaton", "check", "draw", "evaluate", "nbest", "sample", "spectral_cli"]
