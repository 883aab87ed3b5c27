"""Arc and label scores from token vectors: a Thinc model over any tok2vec or transformer."""
