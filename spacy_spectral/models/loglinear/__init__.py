"""The log-linear parser: conditional training on pruned arcs. Knows nothing of spaCy."""
