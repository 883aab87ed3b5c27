"""Bracketed treebanks as spaCy Docs; `pipeline.constituents` keeps the trees on them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from .brackets import Tree

BRACKET_SUFFIXES = (".ptb", ".mrg", ".brackets")


def is_bracketed(path: str | Path) -> bool:
    """Whether a file has bracketed trees, by its name."""
    return Path(path).suffix.lower() in BRACKET_SUFFIXES


def bracket_docs(
    trees: Iterable[Tree], vocab: Vocab, *, n_sents: int = 1
) -> Iterator[tuple[Doc, list[Tree]]]:
    """Documents of bracketed trees, with their words, tags and sentences. Brackets say nothing of white
    space, so that spaces are unknown: spaCy then trains and evaluates on the treebank's tokens.

    trees: The trees, without empty elements.
    YIELDS: Documents, and the trees of their sentences.
    """
    trees = iter(trees)
    while group := list(islice(trees, max(n_sents, 1))):
        leaves = [list(tree.leaves()) for tree in group]
        words = [[leaf.word for leaf in own] for own in leaves]
        doc = Doc(
            vocab,
            words=[word for own in words for word in own],
            tags=[leaf.label for own in leaves for leaf in own],
            sent_starts=[i == 0 for own in words for i in range(len(own))],
        )
        yield doc, group
