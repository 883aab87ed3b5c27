"""The k best trees of a forest, found lazily (Huang & Chiang 2005, algorithm 3)."""

from heapq import heapify, heappop, heappush

import numpy
from numpy.typing import NDArray

from .forest import Forest


class _Item:
    """The derivations of an item: those found, best first, and candidates for the next."""

    __slots__ = ("candidates", "found", "seen")

    def __init__(self) -> None:
        self.found: list[tuple[float, int, int, int]] = []
        self.candidates: list[tuple[float, int, int, int]] | None = None
        self.seen: set[tuple[int, int, int]] = set()


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
    search = _Search(forest, items, edges)
    first, last = int(forest.starts[sentence]), int(forest.starts[sentence + 1])
    heap = []
    for root in range(first, last):
        if forest.is_root[root] and search.score(root, 0) > -numpy.inf:
            heap.append((-(search.score(root, 0) + float(roots[root])), root, 0))
    heapify(heap)
    result: list[tuple[list[int], float]] = []
    while heap and len(result) < k:
        score, root, rank = heappop(heap)
        result.append((search.tree(root, rank), -score))
        following = search.score(root, rank + 1)
        if following > -numpy.inf:
            heappush(heap, (-(following + float(roots[root])), root, rank + 1))
    return result


class _Search:
    def __init__(self, forest: Forest, items: NDArray, edges: NDArray):
        self.forest, self.items, self.edges = forest, items, edges
        self.known: dict[int, _Item] = {}

    def score(self, item: int, rank: int) -> float:
        """The score of the rank-th best tree of an item; -inf if there are not so many."""
        # an item asks for those below it: with a stack of our own, since trees can be deep
        stack = [(item, rank)]
        while stack:
            at, wanted = stack[-1]
            missing = self._extend(at, wanted)
            if missing is None:
                stack.pop()
            else:
                stack.append(missing)
        found = self.known[item].found
        return found[rank][0] if rank < len(found) else -numpy.inf

    def _extend(self, item: int, rank: int) -> tuple[int, int] | None:
        """Find the rank-th best tree of an item. RETURNS: What must be found before, None if it is done."""
        forest = self.forest
        own = self.known.setdefault(item, _Item())
        if forest.is_word[item]:
            own.found = [(float(self.items[item]), -1, 0, 0)]
            return None
        if own.candidates is None:
            edges = range(int(forest.edge_starts[item]), int(forest.edge_starts[item + 1]))
            for edge in edges:
                for child in (int(forest.left[edge]), int(forest.right[edge])):
                    if child not in self.known or not self.known[child].found:
                        return child, 0
            own.candidates = [self._candidate(item, edge, 0, 0) for edge in edges]
            own.seen = {(edge, 0, 0) for edge in edges}
            heapify(own.candidates)
        while len(own.found) <= rank and own.candidates:
            _, edge, a, b = own.candidates[0]
            # the neighbours of the best candidate become candidates, once their parts are known
            for x, y, child, needed in (
                (a + 1, b, int(forest.left[edge]), a + 1),
                (a, b + 1, int(forest.right[edge]), b + 1),
            ):
                if (edge, x, y) in own.seen:
                    continue
                below = self.known[child]
                if len(below.found) <= needed and below.candidates:
                    return child, needed
                own.seen.add((edge, x, y))
                if len(below.found) > needed:
                    heappush(own.candidates, self._candidate(item, edge, x, y))
            score, edge, a, b = heappop(own.candidates)
            own.found.append((-score, edge, a, b))
        return None

    def _candidate(self, item: int, edge: int, a: int, b: int) -> tuple[float, int, int, int]:
        left = self.known[int(self.forest.left[edge])].found[a][0]
        right = self.known[int(self.forest.right[edge])].found[b][0]
        return (-(float(self.items[item]) + float(self.edges[edge]) + left + right), edge, a, b)

    def tree(self, item: int, rank: int) -> list[int]:
        result: list[int] = []
        stack = [(item, rank)]
        while stack:
            at, place = stack.pop()
            result.append(at)
            _, edge, a, b = self.known[at].found[place]
            if edge >= 0:
                stack += [(int(self.forest.left[edge]), a), (int(self.forest.right[edge]), b)]
        return result[::-1]
