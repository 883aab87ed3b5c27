"""Parameters of grammars with states, out of what is known of the nodes of a treebank.

Every node has an inside y and an outside z, vectors over the states of its symbol. The parameters are
moments:

    rule a -> b c   P(rule | a) E[z(a) y(b) y(c) | rule]
    word w of a     E[z | a, w], beside the score of the lexicon
    root a          P(a is the root) E[y | a is the root]

For the spectral estimator (Cohen et al. 2012, figure 4) y and z are projections. With hard or soft
clusters of nodes, y being the share of the node in every cluster and z the same divided by P(cluster |
a), the same moments are the relative frequencies of a grammar with annotated symbols, and EM is their
repetition.

Moments of rare events are smoothed (Cohen et al. 2013): E[zyy] towards products of pairs, those towards
products of means, those towards means of symbols, each with the weight sqrt(n) / (20 + sqrt(n)).

Projections of the inside and outside of nodes to a few dimensions (Cohen et al. 2012, figure 4).

For each symbol with M nodes, features X of insides and Y of outsides, the singular vectors of

    X'Y / M  ~  U diag(S) V'

give every node its inside y = U'x and outside z = diag(1/S) V'y', so that E[y z'] is the identity: the
two are coordinates of the hidden state, in bases that fit. Any invertible change of the one is undone by
a change of the other; here every y_i has mean square 1 and a mean that is not negative.

What is seen of the inside and of the outside of a node, for spectral learning (Cohen et al. 2012,
section 6).

Every template gives each node one number or none (-1); equal numbers are the same feature. Numbers of
different templates have nothing to do with each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.linalg import kmeans, svd, unit_rows
from ._forest import Forest
from ._latent import posteriors
from .latent import DENSE, MEANS, VECTORS, LatentGrammar
from .lexicon import form, learn_lexicon, signatures
from .statistics import Corpus

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


def scaled_matrix(columns: Sequence[Column], nodes: NDArray) -> Any:
    """The features of some nodes, each divided by the root of its frequency: [nodes, features], sparse."""
    from scipy.sparse import csr_matrix

    indices, values, used = [], [], 0
    for column in columns:
        own = column[nodes]
        distinct, inverse, counts = numpy.unique(own, return_inverse=True, return_counts=True)
        keep = (counts >= _MIN_COUNT) & (distinct >= 0)
        place = numpy.where(keep, used + numpy.cumsum(keep) - 1, -1)
        weight = numpy.sqrt(len(nodes) / (counts + _ADD))
        indices.append(place[inverse])
        values.append(weight[inverse])
        used += int(keep.sum())
    flat, weights = numpy.stack(indices, axis=1), numpy.stack(values, axis=1)
    there = flat >= 0
    starts = numpy.concatenate([[0], numpy.cumsum(there.sum(axis=1))])
    columns = weights[there].astype("float32"), flat[there].astype("int32"), starts
    return csr_matrix(columns, shape=(len(nodes), used))


_MIN_COUNT = 2
_ADD = 5.0
_ROUNDS = 3
_EXTRA = 8
# how many nodes a symbol must have for each of its states
_PER_STATE = 20


@dataclass
class Projections:
    """n_states (ndarray): int32, by symbol.
    inside, outside (ndarray): float32, [nodes, states], 0 beyond the states of the node's symbol.
    """

    n_states: NDArray[numpy.int32]
    inside: NDArray[numpy.float32]
    outside: NDArray[numpy.float32]


def project(corpus: Corpus, *, states: int, seed: int = 0) -> Projections:
    """Project all nodes of a corpus."""
    features = NodeFeatures(corpus)
    n_symbols = len(corpus.grammar)
    n_states = numpy.ones(n_symbols, dtype="int32")
    inside = numpy.zeros((len(corpus.symbol), states), dtype="float32")
    outside = numpy.zeros((len(corpus.symbol), states), dtype="float32")
    inside[:, 0] = outside[:, 0] = 1.0
    for symbol, nodes in _groups(corpus.symbol, n_symbols):
        wanted = min(states, len(nodes) // _PER_STATE)
        if wanted < 2:
            continue
        x, y = (scaled_matrix(own, nodes) for own in (features.inside, features.outside))
        if min(x.shape[1], y.shape[1]) < wanted + _EXTRA:
            continue
        y_own, z_own = _project(x, y, wanted, seed)
        m = y_own.shape[1]
        n_states[symbol] = m
        inside[nodes, :m], outside[nodes, :m] = y_own, z_own
    return Projections(n_states, inside, outside)


def _project(x, y, k: int, seed: int) -> tuple[NDArray, NDArray]:
    """Inside and outside of some nodes in k dimensions, fewer if the rank is less."""
    m = x.shape[0]
    random = numpy.random.default_rng(seed)
    basis = random.standard_normal((y.shape[1], k + _EXTRA)).astype(x.dtype)
    x_t, y_t = x.T.tocsr(), y.T.tocsr()
    for _ in range(_ROUNDS):
        basis, _r = numpy.linalg.qr(x_t @ (y @ basis) / m)
        basis, _r = numpy.linalg.qr(y_t @ (x @ basis) / m)
    left, values, right = svd((x_t @ (y @ basis) / m).astype("float64"), k)
    rank = max(1, int((values > 1e-4 * values[0]).sum()))
    inside = x @ left[:, :rank].astype(x.dtype)
    outside = (y @ (basis @ right[:, :rank])) / values[:rank]
    size = numpy.sqrt((inside.astype("float64") ** 2).mean(axis=0))
    size *= numpy.where(inside.mean(axis=0) < 0, -1.0, 1.0)
    return inside / size, outside * size


_RULE_STRENGTH = 20.0
_WORD_STRENGTH = 5.0
# rules seen less often have the product of their means for a tensor
_DENSE = 5
_PER_CLUSTER = 40
_MOST_CLUSTERS = 8


def estimate(
    corpus: Corpus, estimator: str, *, states: int, seed: int = 0, iterations: int = 8
) -> LatentGrammar:
    """Estimate a grammar.

    estimator (str): "spectral"; "cluster", k-means of the projections; "spectral+em", EM from these clusters;
        "em", EM from random ones.
    states (int): The most states of a symbol. More than 8 clusters of a symbol are not better than 8.
    """
    if estimator == "spectral":
        return from_moments(corpus, project(corpus, states=states, seed=seed)).single()
    states = min(states, _MOST_CLUSTERS)
    if estimator == "em":
        clusters = _random_clusters(corpus, states, seed)
    else:
        clusters = _cluster(corpus, project(corpus, states=states, seed=seed), states, seed)
    if estimator == "cluster":
        return from_moments(corpus, clusters).single()
    return _expectation_maximisation(corpus, clusters, iterations)


def from_moments(
    corpus: Corpus,
    nodes: Projections,
    *,
    dense: int = _DENSE,
    full: LatentGrammar | None = None,
    smooth: bool = True,
) -> LatentGrammar:
    """A grammar out of moments.

    full (Optional[LatentGrammar]): Its tensors are expected counts of rules, to be taken in place of
        products of what is known of nodes one by one.
    """
    n_states, y, z = nodes.n_states, nodes.inside, nodes.outside
    grammar = corpus.grammar
    leaves = corpus.left < 0
    lexicon, units, parents = learn_lexicon(
        corpus.words, corpus.symbol[leaves], grammar.n_words, smooth=smooth
    )
    n_symbols, n_rules = len(grammar), len(grammar.rules)
    counts = numpy.bincount(corpus.symbol, minlength=n_symbols)
    y_mean, z_mean = (_group_means(corpus.symbol, values, n_symbols) for values in (y, z))
    rule_counts = numpy.bincount(corpus.rule[corpus.rule >= 0], minlength=n_rules)
    rule_probs = rule_counts / numpy.maximum(counts[grammar.rules[:, 0]], 1)
    rule_probs = numpy.where(grammar.seen > 0, rule_probs, grammar.backoff)
    tensors, kind = [], numpy.where(grammar.seen > 0, VECTORS, MEANS).astype("uint8")
    for rule, own in _groups(corpus.rule, int((grammar.seen > 0).sum())):
        a, b, c = grammar.rules[rule].tolist()
        n, (na, nb, nc) = len(own), n_states[[a, b, c]].tolist()
        zs, ls, rs = (
            values[at, :size].astype("float64")
            for values, at, size in (
                (z, own, na),
                (y, corpus.left[own], nb),
                (y, corpus.right[own], nc),
            )
        )
        # a rule of the grammar that this part of its treebank lacks keeps the means of its symbols
        trust = numpy.sqrt(n) / (_RULE_STRENGTH + numpy.sqrt(n)) if smooth else 1.0
        symbols = z_mean[a, :na], y_mean[b, :nb], y_mean[c, :nc]
        means = [
            values.mean(axis=0) if n else of
            for values, of in zip((zs, ls, rs), symbols, strict=True)
        ]
        if n < dense or (dense > 1 and na * nb * nc <= na + nb + nc):
            vectors = [trust * m + (1 - trust) * s for m, s in zip(means, symbols, strict=True)]
            vectors[0] = vectors[0] * rule_probs[rule]
            tensors.append(numpy.concatenate(vectors))
            continue
        kind[rule] = DENSE
        if full is None:
            products = (ls[:, :, None] * rs[:, None, :]).reshape(n, -1)
            moment = (products.T @ zs / n).reshape(nb, nc, na)
        else:
            at = full.tensor_starts[rule]
            moment = full.tensors[at : at + na * nb * nc].reshape(nb, nc, na) / n
            share = numpy.maximum(y_mean[a, :na], 1e-9)
            moment = moment / share
        tensor = trust * _product(*means) + (1 - trust) * _product(*symbols)
        tensor = trust * _pairs(zs, ls, rs, *means) + (1 - trust) * tensor
        tensors.append((rule_probs[rule] * (trust * moment + (1 - trust) * tensor)).ravel())
    roots = corpus.roots
    root_probs = numpy.bincount(corpus.symbol[roots], minlength=n_symbols) / max(len(roots), 1)
    root = _group_means(corpus.symbol[roots], y[roots], n_symbols) * root_probs[:, None]
    starts = numpy.zeros(n_rules, dtype="int64")
    starts[: len(tensors)] = numpy.cumsum([0, *map(len, tensors)])[:-1]
    return LatentGrammar(
        grammar, lexicon, n_states, root, numpy.concatenate([numpy.zeros(0), *tensors]),
        starts, kind, y_mean, z_mean, _unit_vectors(z[leaves].astype("float64"), units, parents, smooth),
        rule_probs, root_probs, counts / counts.sum(),
    )  # fmt: skip


def _groups(values: NDArray, n: int) -> Iterator[tuple[int, NDArray]]:
    """The places of each value from 0 to n - 1."""
    order = numpy.argsort(values, kind="stable")
    bounds = numpy.searchsorted(values[order], numpy.arange(n + 1)).tolist()
    for value in range(n):
        yield value, order[bounds[value] : bounds[value + 1]]


def _product(z: NDArray, left: NDArray, right: NDArray) -> NDArray:
    return left[:, None, None] * right[:, None] * z


def _pairs(
    zs: NDArray, ls: NDArray, rs: NDArray, z: NDArray, left: NDArray, right: NDArray
) -> NDArray:
    """The mean of the three products of a pair's moment and the mean of the third."""
    n = len(zs)
    return (
        (ls.T @ rs / n)[:, :, None] * z
        + (ls.T @ zs / n)[:, None, :] * right[:, None]
        + (rs.T @ zs / n)[None] * left[:, None, None]
    ) / 3


def _group_means(groups: NDArray, values: NDArray, n_groups: int) -> NDArray[numpy.float64]:
    sums = _group_sums(groups, values, n_groups)
    return sums / numpy.maximum(numpy.bincount(groups, minlength=n_groups), 1)[:, None]


def _group_sums(groups: NDArray, values: NDArray, n_groups: int) -> NDArray[numpy.float64]:
    sums = numpy.zeros((n_groups, values.shape[1]))
    for column in range(values.shape[1]):
        sums[:, column] = numpy.bincount(groups, weights=values[:, column], minlength=n_groups)
    return sums


def _unit_vectors(
    z: NDArray, units: NDArray, parents: NDArray, smooth: bool
) -> NDArray[numpy.float64]:
    """E[z | unit], smoothed towards that of the unit it is a case of."""
    counts = numpy.bincount(units, minlength=len(parents)).astype("float64")
    sums = _group_sums(units, z, len(parents))
    levels = _levels(parents)
    # words hand up their counts to signatures, these to symbols
    for own in levels:
        numpy.add.at(counts, parents[own], counts[own])
        numpy.add.at(sums, parents[own], sums[own])
    result = sums / numpy.maximum(counts, 1)[:, None]
    for own in reversed(levels):
        root = numpy.sqrt(counts[own])
        trust = (root / ((_WORD_STRENGTH if smooth else 0.0) + root))[:, None]
        result[own] = trust * result[own] + (1 - trust) * result[parents[own]]
    return result


def _levels(parents: NDArray) -> list[NDArray]:
    """Units by depth, the deepest first, without the roots."""
    depth, at = numpy.zeros(len(parents), dtype="int64"), parents
    while (at >= 0).any():
        depth += at >= 0
        at = numpy.where(at >= 0, parents[at], -1)
    return [numpy.flatnonzero(depth == d) for d in range(int(depth.max(initial=0)), 0, -1)]


def _shares(corpus: Corpus, n_states: NDArray[numpy.int32], inside: NDArray) -> Projections:
    """Nodes by their shares in clusters."""
    mean = _group_means(corpus.symbol, inside, len(corpus.grammar))
    outside = inside / numpy.maximum(mean, 1e-9)[corpus.symbol]
    return Projections(n_states, inside.astype("float32"), outside.astype("float32"))


def _clusters(corpus: Corpus, states: int, assign) -> Projections:
    """Hard clusters of the nodes of each symbol that has enough of them."""
    n_states = numpy.ones(len(corpus.grammar), dtype="int32")
    inside = numpy.zeros((len(corpus.symbol), states))
    inside[:, 0] = 1.0
    for symbol, nodes in _groups(corpus.symbol, len(corpus.grammar)):
        k = min(states, len(nodes) // _PER_CLUSTER)
        if k < 2:
            continue
        cluster = assign(symbol, nodes, k)
        used, cluster = numpy.unique(cluster, return_inverse=True)
        n_states[symbol] = len(used)
        inside[nodes] = 0.0
        inside[nodes, cluster] = 1.0
    return _shares(corpus, n_states, inside)


def _cluster(corpus: Corpus, nodes: Projections, states: int, seed: int) -> Projections:
    """Clusters of [inside | outside], each scaled to length 1."""

    def assign(symbol: int, own: NDArray, k: int) -> NDArray:
        m = nodes.n_states[symbol]
        both = [unit_rows(values[own, :m]) for values in (nodes.inside, nodes.outside)]
        return kmeans(numpy.concatenate(both, axis=1), k, iterations=12, seed=seed)

    return _clusters(corpus, states, assign)


def _random_clusters(corpus: Corpus, states: int, seed: int) -> Projections:
    random = numpy.random.default_rng(seed)
    return _clusters(corpus, states, lambda symbol, own, k: random.integers(k, size=len(own)))


def _expectation_maximisation(
    corpus: Corpus, clusters: Projections, iterations: int
) -> LatentGrammar:
    """EM on the treebank (Matsuzaki et al. 2005): shares of nodes, then moments, again and again."""
    forest = tree_forest(corpus)
    grammar = from_moments(corpus, clusters, dense=1).single()
    for i in range(iterations):
        clusters, counts = expected(corpus, forest, grammar)
        full, is_last = replace(grammar, tensors=counts), i == iterations - 1
        grammar = from_moments(corpus, clusters, dense=1, full=full, smooth=is_last).single()
    return grammar


def tree_forest(corpus: Corpus) -> Forest:
    """The treebank as a forest in which every sentence has one tree; items are its nodes."""
    offset = numpy.repeat(corpus.starts[:-1], numpy.diff(corpus.node_starts)).astype("int32")
    inner = corpus.left >= 0
    return Forest(
        numpy.diff(corpus.starts).astype("int32"), corpus.node_starts,
        corpus.begin - offset, corpus.end - offset, corpus.symbol,
        numpy.concatenate([[0], numpy.cumsum(inner)]),
        corpus.left[inner], corpus.right[inner], corpus.rule[inner],
    )  # fmt: skip


def expected(
    corpus: Corpus, forest: Forest, grammar: LatentGrammar
) -> tuple[Projections, NDArray[numpy.float32]]:
    """The E-step.

    RETURNS (Tuple[Projections, ndarray]): The shares of nodes in states, and expected counts of rules.
    """
    counts = numpy.zeros(len(grammar.tensors), dtype="float32")
    rows = grammar.lexicon.rows(corpus.words, corpus.starts)
    arrays = grammar.kernel_arrays(forest, rows, corpus.starts)
    _, _, _, up, down = posteriors(*arrays, counts)
    # the kernel sums products of vectors: each count has its parameter as a factor, too
    counts *= grammar.tensors
    offset = arrays[1]
    states = grammar.root.shape[1]
    column = numpy.arange(states)
    there = column < grammar.n_states[corpus.symbol][:, None]
    shares = numpy.zeros((len(corpus.symbol), states))
    flat = (up.astype("float64") * down)[(offset[:-1][:, None] + column)[there]]
    shares[there] = numpy.maximum(flat, 0.0)
    total = shares.sum(axis=1, keepdims=True)
    even = there / there.sum(axis=1, keepdims=True)
    shares = numpy.where(total > 0, shares / numpy.maximum(total, 1e-30), even)
    return _shares(corpus, grammar.n_states, shares), counts
