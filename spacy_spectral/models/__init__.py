"""One room per model: what it counts, how it is estimated, what can be asked of it."""
