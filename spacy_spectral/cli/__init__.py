"""`python -m spacy spectral ...`: loaded by spaCy through the `spacy_cli` entry point."""

from . import eigenwords, neighbors, similarity, word_map  # noqa: F401  (each adds its command)
from ._app import spectral_cli

__all__ = ["spectral_cli"]
