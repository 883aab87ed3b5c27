"""Products of parsers that see different things."""
