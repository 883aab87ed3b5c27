"""`python -m spacy spectral ...`: loaded by spaCy through the `spacy_cli` entry point."""

from . import check, evaluate, sample
from ._app import spectral_cli

__all__ = ["check", "evaluate", "sample", "spectral_cli"]
