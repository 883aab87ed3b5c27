"""The k best trees of a forest."""

import numpy
from numpy.typing import NDArray

from ...forest._hypergraph import Graph
from .forest import Forest


def k_best(
    forest: Forest,
    sentence: int,
    items: NDArray[numpy.float64],
    edges: NDArray[numpy.float64],
    roots: NDArray[numpy.float64],
    k: int,
) -> list[tuple[list[int], float]]:
    """The k trees of a sentence with the greatest sums of scores.

    forest (Forest): The trees.
    sentence (int): Which sentence.
    items, edges, roots (ndarray): float64, scores of items, of edges, and of items as roots.
    k (int): How many.
    RETURNS (List[Tuple[List[int], float]]): The items of each tree, children before parents and left before
        right, and its score.
    """
    own = slice(int(forest.starts[sentence]), int(forest.starts[sentence + 1]))
    begin, end = forest.edge_starts[own.start], forest.edge_starts[own.stop]
    tops = numpy.flatnonzero(forest.is_root[own])
    if not len(tops):
        return []
    # a word is made by an edge without parts, and the goal by one for every root
    is_word = forest.is_word[own].astype(bool)
    sizes = numpy.diff(forest.edge_starts[own.start : own.stop + 1]) + is_word
    parents = numpy.repeat(numpy.arange(len(sizes)), sizes)
    inner = ~is_word[parents]
    first = numpy.full(len(parents) + len(tops), -1, dtype="int32")
    second, scores = first.copy(), numpy.zeros(len(first))
    first[: len(parents)][inner] = forest.left[begin:end] - own.start
    second[: len(parents)][inner] = forest.right[begin:end] - own.start
    first[len(parents) :] = tops
    scores[: len(parents)] = items[own][parents]
    scores[: len(parents)][inner] += edges[begin:end]
    scores[len(parents) :] = roots[own][tops]
    starts = numpy.cumsum([0, *sizes, len(tops)]).astype("int32")
    graph = Graph(starts, first, second, numpy.arange(len(first), dtype="int32"))
    # derivations tell wholes before parts and first parts before second ones
    return [
        (_postorder(chosen[1:], parents, second, own.start), score)
        for chosen, score in graph.k_best(scores, k)
    ]


def _postorder(
    chosen: NDArray[numpy.int32], parents: NDArray, second: NDArray[numpy.int32], offset: int
) -> list[int]:
    """RETURNS (List[int]): The items of edges in preorder, children before parents."""
    result: list[int] = []
    waiting: list[tuple[int, int]] = []  # items, and how many of their parts are still to come
    for edge in chosen.tolist():
        item, missing = int(parents[edge]) + offset, 2 if second[edge] >= 0 else 0
        while not missing:
            result.append(item)
            if not waiting:
                break
            item, missing = waiting.pop()
            missing -= 1
        else:
            waiting.append((item, missing))
    return result
