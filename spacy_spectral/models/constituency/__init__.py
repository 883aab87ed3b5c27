"""Constituents: latent-variable grammars by spectral learning, a model of spans, and their product."""
