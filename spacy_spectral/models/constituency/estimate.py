"""Parameters of latent-variable grammars from what is known of the nodes of a treebank."""

import numpy
from numpy.typing import NDArray

from .latent import LatentGrammar
from .lexicon import learn_lexicon
from .projections import Projections, project
from .statistics import Corpus

_RULE_STRENGTH = 20.0
_WORD_STRENGTH = 5.0
# rules seen less often have the product of their means for a tensor
_DENSE = 5


def spectral(
    corpus: Corpus, *, states: int, seed: int = 0, projections: Projections | None = None
) -> LatentGrammar:
    """The spectral estimator (Cohen et al. 2012, figure 4).

    A rule's tensor is P(rule | a) E[z(a) y(b) y(c) | rule]; a word's vector is its score times E[z | a,
    word]; a root's P(a) E[y | a is the root].

    corpus (Corpus): The treebank.
    states (int): The most states of a symbol.
    seed (int): Of the singular value decomposition.
    projections (Optional[Projections]): What is known of the nodes, if that has been computed.
    RETURNS (LatentGrammar): The grammar.
    """
    projections = project(corpus, states=states, seed=seed) if projections is None else projections
    n_states, y, z = projections.n_states, projections.inside, projections.outside
    grammar = corpus.grammar
    lexicon, units, parents = learn_lexicon(
        corpus.words, corpus.symbol[corpus.left < 0], grammar.n_words
    )
    n_symbols = len(grammar)
    counts = numpy.bincount(corpus.symbol, minlength=n_symbols)
    y_mean, z_mean = (_group_means(corpus.symbol, values, n_symbols) for values in (y, z))

    inner = numpy.flatnonzero(corpus.rule >= 0)
    order = inner[numpy.argsort(corpus.rule[inner], kind="stable")]
    n_rules = len(grammar.rules)
    bounds = numpy.searchsorted(corpus.rule[order], numpy.arange(n_rules + 1))
    rule_probs = numpy.diff(bounds) / counts[grammar.rules[:, 0]]
    tensors, is_dense = [], numpy.zeros(n_rules, dtype="uint8")
    for rule, (a, b, c) in enumerate(grammar.rules.tolist()):
        nodes = order[bounds[rule] : bounds[rule + 1]]
        n, (na, nb, nc) = len(nodes), n_states[[a, b, c]].tolist()
        trust = numpy.sqrt(n) / (_RULE_STRENGTH + numpy.sqrt(n))
        zs = z[nodes, :na].astype("float64")
        ls = y[corpus.left[nodes], :nb].astype("float64")
        rs = y[corpus.right[nodes], :nc].astype("float64")
        mz, ml, mr = zs.mean(axis=0), ls.mean(axis=0), rs.mean(axis=0)
        sz, sl, sr = z_mean[a, :na], y_mean[b, :nb], y_mean[c, :nc]
        if n < _DENSE or na * nb * nc <= na + nb + nc:
            vz, vl, vr = (
                trust * own + (1 - trust) * of for own, of in ((mz, sz), (ml, sl), (mr, sr))
            )
            tensors.append(numpy.concatenate([vz * rule_probs[rule], vl, vr]))
            continue
        is_dense[rule] = 1
        lr = (ls[:, :, None] * rs[:, None, :]).reshape(n, -1)
        full = (lr.T @ zs / n).reshape(nb, nc, na)
        pairs = (
            (ls.T @ rs / n)[:, :, None] * mz
            + (ls.T @ zs / n)[:, None, :] * mr[:, None]
            + (rs.T @ zs / n)[None] * ml[:, None, None]
        ) / 3
        means = ml[:, None, None] * mr[:, None] * mz
        symbols = sl[:, None, None] * sr[:, None] * sz
        tensor = trust * means + (1 - trust) * symbols
        tensor = trust * pairs + (1 - trust) * tensor
        tensor = trust * full + (1 - trust) * tensor
        tensors.append((rule_probs[rule] * tensor).ravel())
    sizes = [len(tensor) for tensor in tensors]
    starts = numpy.cumsum([0, *sizes])[:-1]
    roots = corpus.roots
    root_probs = numpy.bincount(corpus.symbol[roots], minlength=n_symbols) / max(len(roots), 1)
    root = _group_means(corpus.symbol[roots], y[roots], n_symbols) * root_probs[:, None]
    leaves = numpy.flatnonzero(corpus.left < 0)
    vectors = _unit_vectors(z[leaves].astype("float64"), units, parents)
    return LatentGrammar(
        grammar, lexicon, n_states,
        root.astype("float32"),
        numpy.concatenate(tensors).astype("float32") if tensors else numpy.zeros(0, dtype="float32"),
        starts.astype("int64"), is_dense, vectors.astype("float32"),
        rule_probs, root_probs, counts / counts.sum(),
    )  # fmt: skip


def _group_means(groups: NDArray, values: NDArray, n_groups: int) -> NDArray[numpy.float64]:
    sums = numpy.zeros((n_groups, values.shape[1]))
    for column in range(values.shape[1]):
        sums[:, column] = numpy.bincount(groups, weights=values[:, column], minlength=n_groups)
    return sums / numpy.maximum(numpy.bincount(groups, minlength=n_groups), 1)[:, None]


def _unit_vectors(z: NDArray, units: NDArray, parents: NDArray) -> NDArray[numpy.float64]:
    """E[z | unit], smoothed towards that of the unit it is a case of."""
    counts = numpy.bincount(units, minlength=len(parents)).astype("float64")
    sums = numpy.zeros((len(parents), z.shape[1]))
    for column in range(z.shape[1]):
        sums[:, column] = numpy.bincount(units, weights=z[:, column], minlength=len(parents))
    # children come after their parents: words, then signatures, hand up their counts
    for unit_range in _levels(parents):
        up = parents[unit_range]
        numpy.add.at(counts, up, counts[unit_range])
        numpy.add.at(sums, up, sums[unit_range])
    result = sums / numpy.maximum(counts, 1)[:, None]
    for unit_range in reversed(_levels(parents)):
        root = numpy.sqrt(counts[unit_range])
        trust = (root / (_WORD_STRENGTH + root))[:, None]
        result[unit_range] = trust * result[unit_range] + (1 - trust) * result[parents[unit_range]]
    return result


def _levels(parents: NDArray) -> list[NDArray]:
    """Units by depth, the deepest first, without the roots."""
    depth = numpy.zeros(len(parents), dtype="int64")
    at = parents.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = numpy.where(at >= 0, parents[at], -1)
    return [numpy.flatnonzero(depth == d) for d in range(int(depth.max(initial=0)), 0, -1)]
