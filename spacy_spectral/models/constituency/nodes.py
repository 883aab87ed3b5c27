"""Trees as they are told: constituents of words, with probabilities."""

from typing import NamedTuple

from .trees import Symbol


class Node(NamedTuple):
    """A constituent: its label, its words (`end` exclusive), and the probability that it is there."""

    label: str
    begin: int
    end: int
    prob: float


class Parsed(NamedTuple):
    """The tree of a sentence.

    nodes (List[Node]): Constituents, parents before children and left before right.
    tags (List[str]): The tags of its words.
    log_prob (float): log P(tree | sentence), nan if it is not known.
    """

    nodes: list[Node]
    tags: list[str]
    log_prob: float


def constituents(symbol: Symbol) -> tuple[str, ...]:
    """The labels of constituents that a symbol stands for."""
    if symbol.is_part:
        return ()
    return symbol.labels[:-1] if symbol.kind == 0 else symbol.labels
