"""Spectral learning for spaCy. Everything is found by entry points: importing this is cheap."""

__version__ = "0.1.0"
