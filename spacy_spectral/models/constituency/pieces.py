"""Long sentences: they are cut into pieces at punctuation, which are parsed apart and stand side by side."""

from collections.abc import Sequence
from itertools import pairwise

import numpy
from numpy.typing import NDArray

from .nodes import Node, Parsed

MAX_LENGTH = 300
# without a model of spans, all symbols stand on all spans of a grammar's chart: time and memory are ten times
# as large (10,000 words in pieces of 300: 160 CPU s and 1.4 GB)
MAX_LENGTH_OF_GRAMMAR = 100
# of the longest piece, how much of it may be given up to cut at punctuation
_SLACK = 0.5
_CUTS = frozenset(".!?;:,)]}»”…—–-")


def cut(words: Sequence[str], starts: NDArray[numpy.int64], max_length: int) -> list[int]:
    """Where pieces start that are not too long: sentences, cut after punctuation where they must be."""
    result = [0] if len(starts) > 1 else []
    if not result:
        return [0]
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        while end - begin > max_length:
            cut = begin + max_length
            for place in range(cut, begin + int(_SLACK * max_length), -1):
                if words[place - 1] in _CUTS:
                    cut = place
                    break
            result.append(cut)
            begin = cut
        result.append(end)
    return result


def join(
    parsed: list[Parsed],
    lists: list[list[Parsed]],
    pieces: list[int],
    starts: list[int],
    root: str,
) -> tuple[list[Parsed], list[list[Parsed]]]:
    """Sentences out of pieces."""
    at = 0
    result, best = [], []
    for begin, end in pairwise(starts):
        own = []
        first = at
        while at < len(parsed) and pieces[at] < end:
            own.append((pieces[at] - begin, parsed[at]))
            at += 1
        if len(own) == 1:
            result.append(own[0][1])
            best.append(lists[first] if lists else [])
            continue
        nodes = [Node(root, 0, end - begin, 1.0)] if root and own else []
        for shift, tree in own:
            inner = tree.nodes[1:] if root else tree.nodes
            nodes += [Node(n.label, n.begin + shift, n.end + shift, n.prob) for n in inner]
        tags = [tag for _, tree in own for tag in tree.tags]
        result.append(Parsed(nodes, tags, sum(tree.log_prob for _, tree in own)))
        best.append(result[-1:] if lists and own else [])
    return result, best
