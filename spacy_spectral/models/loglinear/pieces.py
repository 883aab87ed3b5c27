"""Pruning of very long sentences in pieces.

The pruner's chart is cubic in the length of a sentence, the model's chart over kept arcs is not. So a long
sentence is cut into pieces of equal size and the pruner reads each as a sentence of its own. A token that
may be the root of its piece may hang on the likeliest roots of the other pieces as well; the first token
of a piece may hang on the token to its left, so that there is always a tree.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from .encode import Sentences
from .pruner import Arcs


def prune_in_pieces(
    prune: Callable[[Sentences], Arcs], sentences: Sentences, max_length: int
) -> Arcs:
    """Prune a batch of sentences.

    prune (Callable[[Sentences], Arcs]): The pruner.
    sentences (Sentences): The batch.
    max_length (int): The longest sentence that is pruned whole.
    RETURNS (Arcs): The kept arcs.
    """
    lengths = np.diff(sentences.starts)
    if not (lengths > max_length).any():
        return prune(sentences)
    starts, long = [0], []
    for s, (first, n) in enumerate(
        zip(sentences.starts[:-1].tolist(), lengths.tolist(), strict=True)
    ):
        edges = first + np.linspace(0, n, -(-n // max_length) + 1).astype(int) if n else [first]
        if n > max_length:
            long.append((s, np.asarray(edges)))
        starts.extend(edges[1:] if n else [first])
    arcs = prune(replace(sentences, starts=np.array(starts, dtype=np.int32)))
    heads = np.split(arcs.heads, arcs.starts[1:-1])
    probs = np.split(arcs.probs, arcs.starts[1:-1])
    for s, edges in long:
        _join(heads, probs, int(sentences.starts[s]), edges.tolist())
    counts = [len(own) for own in heads]
    return Arcs(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.concatenate(heads),
        np.concatenate(probs),
    )


def _join(heads: list[np.ndarray], probs: list[np.ndarray], first: int, edges: list[int]) -> None:
    """Arcs inside the pieces of one sentence become arcs of the sentence.

    heads, probs (List[ndarray]): Of every token of the batch; changed in place.
    first (int): The sentence's first token.
    edges (List[int]): Where its pieces start, closed by its end.
    """
    pieces = list(pairwise(edges))
    roots = []
    for begin, end in pieces:
        # heads ascend, so an arc from the root is the first
        as_root = [probs[t][0] if heads[t][0] == 0 else -1.0 for t in range(begin, end)]
        roots.append(begin + int(np.argmax(as_root)) - first + 1)
    for piece, (begin, end) in enumerate(pieces):
        others = np.array([root for p, root in enumerate(roots) if p != piece], dtype=np.int32)
        for t in range(begin, end):
            inside = heads[t] > 0
            mine, own = heads[t][inside] + np.int32(begin - first), probs[t][inside]
            if not inside.all():
                root_prob = probs[t][~inside][0]
                mine = np.concatenate([mine, others, np.zeros(1, dtype=np.int32)])
                share = np.full(len(others) + 1, root_prob / (len(others) + 1), dtype=np.float32)
                own = np.concatenate([own, share])
            if t == begin and t > first and t - first not in mine:
                mine = np.append(mine, np.int32(t - first))
                own = np.append(own, np.float32(0))
            order = np.argsort(mine)
            heads[t], probs[t] = mine[order], own[order]
