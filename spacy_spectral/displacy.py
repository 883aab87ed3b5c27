"""`spacy_spectral.displacy`: the name users know; see `viz.displacy`."""

from .viz.displacy import parse_deps, render

__all__ = ["parse_deps", "render"]
