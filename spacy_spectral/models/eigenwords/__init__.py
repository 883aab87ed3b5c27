"""Eigenwords: spectral word vectors and clusters from raw text, and similarity of sentences."""
