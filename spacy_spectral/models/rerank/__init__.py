"""Choosing from lists of trees, with latent tree models among the features. Knows nothing of spaCy."""
