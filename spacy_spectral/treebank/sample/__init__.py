"""The sample treebank: drawn from a grammar of this project, so its true model is known."""
