"""Packed forests: many trees at the cost of few. Knows nothing of spaCy."""
