"""A second stage over the whole packed forest of a parser, see `_chart`. Knows nothing of spaCy."""
