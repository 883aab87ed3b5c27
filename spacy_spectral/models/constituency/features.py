"""What is seen of the inside and of the outside of a node, for spectral learning (Cohen et al. 2012,
section 6).

Every template gives each node one number or none (-1); equal numbers are the same feature. Numbers of
different templates have nothing to do with each other.
"""

from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from .statistics import Corpus
from .words import form, signatures

Column = NDArray[numpy.int64]
_LENGTHS = numpy.array([1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50])


def _numbers(values: Sequence[str]) -> Column:
    index: dict[str, int] = {}
    return numpy.array([index.setdefault(value, len(index)) for value in values], dtype="int64")


class NodeFeatures:
    """The features of all nodes of a corpus.

    inside, outside (List[ndarray]): int64, templates with a number for every node, -1 for none.
    """

    def __init__(self, corpus: Corpus):
        forms = [form(word) for word in corpus.words]
        self._words = [_numbers(forms)]
        index: dict[str, tuple[str, str, str]] = {word: signatures(word) for word in set(forms)}
        for level in (2, 1, 0):
            self._words.append(_numbers([index[word][level] for word in forms]))
        labels = [symbol.labels[-1] for symbol in corpus.grammar.symbols]
        tag_numbers = _numbers(labels[: corpus.grammar.n_words])
        is_leaf = corpus.left < 0
        # nodes of words are in the order of words
        leaves = numpy.flatnonzero(is_leaf)
        self._tags = tag_numbers[corpus.symbol[leaves]]
        self.inside = self._inside(corpus, is_leaf)
        self.outside = self._outside(corpus)

    def _inside(self, corpus: Corpus, is_leaf: NDArray[numpy.bool_]) -> list[Column]:
        rule, left, right = corpus.rule.astype("int64"), corpus.left, corpus.right
        head, first, last = corpus.head, corpus.begin, corpus.end - 1
        n_rules = int(rule.max(initial=0)) + 1
        word = self._words[0]
        # a child by its rule, or its word
        child = numpy.where(is_leaf, n_rules + word[first], rule)
        tags = self._tags[head]
        length = numpy.searchsorted(_LENGTHS, corpus.end - corpus.begin)
        inner = [
            rule,
            _pair(rule, child[left]),
            _pair(rule, child[right]),
            tags,
            word[head],
            _pair(rule, tags),
            length,
        ]
        inner = [numpy.where(is_leaf, -1, column) for column in inner]
        ends = [
            numpy.where(is_leaf, -1, column[at]) for at in (first, last) for column in self._words
        ]
        own = [numpy.where(is_leaf, column[first], -1) for column in self._words]
        return [*inner, *ends, *own]

    def _outside(self, corpus: Corpus) -> list[Column]:
        parent, rule = corpus.parent, corpus.rule.astype("int64")
        symbol = corpus.symbol.astype("int64")
        is_root = parent < 0
        up = numpy.where(is_root, 0, parent)
        is_left = corpus.left[up] == numpy.arange(len(parent))
        sibling = numpy.where(is_left, corpus.right[up], corpus.left[up])
        one = numpy.where(is_root, -1, 2 * rule[up] + is_left)
        two = _pair(one, _above(one, up, is_root))
        three = _pair(two, _above(_above(one, up, is_root), up, is_root))
        label = numpy.where(is_root, -1, symbol[up])
        grand = _above(label, up, is_root)
        tags, word = self._tags, self._words[0]
        # where trees begin and end in the corpus, so that nothing is seen beyond them
        tree = numpy.searchsorted(corpus.starts, corpus.begin, side="right") - 1
        before = numpy.where(corpus.begin > corpus.starts[tree], corpus.begin - 1, -1)
        after = numpy.where(corpus.end < corpus.starts[tree + 1], corpus.end, -1)
        # the nearest ancestors that are constituents, not parts of one
        is_part = numpy.array([s.is_part for s in corpus.grammar.symbols])
        proper = _proper_ancestor(corpus, is_part)
        ancestor = numpy.where(proper >= 0, symbol[proper], -1)
        second = numpy.where(proper >= 0, proper[proper], -1)
        return [
            one,
            two,
            three,
            numpy.where(is_root, -1, _pair(label, tags[corpus.head[up]])),
            numpy.where(is_root, -1, word[corpus.head[up]]),
            numpy.where(is_root, -1, _pair(symbol[sibling], tags[corpus.head[sibling]])),
            grand,
            _pair(ancestor, numpy.where(second >= 0, symbol[second], -2)),
            numpy.searchsorted(_LENGTHS, corpus.begin - corpus.starts[tree]),
            numpy.searchsorted(_LENGTHS, corpus.starts[tree + 1] - corpus.end),
            *(
                numpy.where(at >= 0, column[at], len(corpus.words))
                for at in (before, after)
                for column in (tags, word)
            ),
        ]


def _pair(first: Column, second: Column) -> Column:
    """Numbers of pairs; -1 where the first is none."""
    joint = numpy.where(first < 0, -1, first * (second.max(initial=0) + 4) + second + 2)
    return joint.astype("int64")


def _above(column: Column, up: NDArray, is_root: NDArray) -> Column:
    return numpy.where(is_root, -1, column[up])


def _proper_ancestor(corpus: Corpus, is_part: NDArray[numpy.bool_]) -> Column:
    """The nearest ancestor of every node that is a constituent, -1 for none."""
    result = corpus.parent.astype("int64")
    while True:
        skip = (result >= 0) & is_part[corpus.symbol[result]]
        if not skip.any():
            return result
        result[skip] = corpus.parent[result[skip]]


def scaled_matrix(
    columns: Sequence[Column], nodes: NDArray, min_count: int, add: float
) -> tuple[object, int]:
    """The features of some nodes as a sparse matrix, each column divided by the root of its frequency.

    columns (Sequence[ndarray]): Templates.
    nodes (ndarray): The nodes.
    min_count (int): Features that are rarer are left out.
    add (float): Added to frequencies.
    RETURNS (Tuple[csr_matrix, int]): float32, [nodes, features], and the number of features.
    """
    from scipy.sparse import csr_matrix

    indices, values, used = [], [], 0
    for column in columns:
        own = column[nodes]
        distinct, inverse, counts = numpy.unique(own, return_inverse=True, return_counts=True)
        keep = (counts >= min_count) & (distinct >= 0)
        place = numpy.where(keep, used + numpy.cumsum(keep) - 1, -1)
        weight = numpy.sqrt(len(nodes) / (counts + add))
        indices.append(place[inverse])
        values.append(weight[inverse])
        used += int(keep.sum())
    flat, weights = numpy.stack(indices, axis=1), numpy.stack(values, axis=1)
    there = flat >= 0
    starts = numpy.concatenate([[0], numpy.cumsum(there.sum(axis=1))])
    matrix = csr_matrix(
        (weights[there].astype("float32"), flat[there].astype("int32"), starts),
        shape=(len(nodes), used),
    )
    return matrix, used
