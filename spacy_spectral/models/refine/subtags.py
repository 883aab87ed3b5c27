"""The sub-tags of tokens: posteriors of their states, in given trees or over all trees."""

from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...trees._eisner import is_projective_tree
from ...trees.posterior import Posterior
from ...trees.pseudoprojective import find_cycle, projectivize
from ...trees.sentences import MISSING, Tokens
from ._chains import state_posteriors
from .chart import LatticeFactors
from .lexicon import Lattice
from .model import MAX_STATES, RefinedGrammar


class SubTags(NamedTuple):
    """The likeliest states of tokens, and their probabilities."""

    states: NDArray[numpy.int32]
    probs: NDArray[numpy.float32]


def state_names(grammar: RefinedGrammar) -> list[str]:
    """The names of states, e.g. "NN.3": the largest of a tag is the first."""
    tags = grammar.fine.tag_states
    names = (grammar.symbols.names[tag] for tag in tags.tag_of)
    return [f"{name}.{local + 1}" for name, local in zip(names, tags.local, strict=True)]


def sub_tags(grammar: RefinedGrammar, tokens: Tokens, heads: NDArray[numpy.int32]) -> SubTags:
    """Find the states of tokens. A sentence all of whose heads are known (not MISSING) is seen in that
    tree, others in all trees."""
    tags = grammar.symbols.encode(tokens.symbols)
    lattice = grammar.lexicon.lattice(tokens.words, tags)
    probs = numpy.zeros(len(lattice.states))
    trees = heads.astype("int32")
    in_tree = numpy.zeros(len(tokens), dtype=bool)
    for s, (a, b) in enumerate(tokens.bounds()):
        trees[a:b] = _as_tree(trees[a:b])
        in_tree[s] = (trees[a:b] != MISSING).all()
        if not in_tree[s]:
            for begin, end in _pieces(a, b, grammar.settings.max_length):
                own = slice(lattice.offsets[begin], lattice.offsets[end])
                probs[own] = _over_trees(
                    grammar, tags[begin:end], lattice.part(numpy.arange(begin, end))
                )
    if in_tree.any():
        known = numpy.repeat(in_tree, numpy.diff(tokens.starts))
        probs[numpy.repeat(known, numpy.diff(lattice.offsets))] = _in_trees(
            grammar,
            numpy.append(0, numpy.cumsum(numpy.diff(tokens.starts)[in_tree])).astype("int32"),
            trees[known],
            lattice.part(numpy.flatnonzero(known)),
        )
    return _likeliest(lattice, probs)


def _as_tree(heads: NDArray[numpy.int32]) -> NDArray[numpy.int32]:
    """Projective heads of a sentence; all MISSING if they are no tree."""
    if (heads == MISSING).any() or (heads == 0).sum() != 1 or find_cycle(heads):
        return numpy.full(len(heads), MISSING, dtype="int32")
    return heads if is_projective_tree(heads) else projectivize(heads, [""] * len(heads))[0]


def _pieces(begin: int, end: int, max_length: int) -> list[tuple[int, int]]:
    """A sentence in pieces of about equal size."""
    n_pieces = -(-(end - begin) // max_length)
    return list(pairwise(numpy.linspace(begin, end, n_pieces + 1).astype(int).tolist()))


def _over_trees(
    grammar: RefinedGrammar, tags: NDArray[numpy.int32], lattice: Lattice
) -> NDArray[numpy.float64]:
    fine = next(grammar.factors(tags, lattice))
    factors = Posterior.from_factors([fine], None).factors
    if not isinstance(factors, LatticeFactors):
        # no chart: what the words say
        return lattice.emissions * grammar.lexicon.share[lattice.states]
    # states that were left out have no share
    probs = numpy.zeros(len(lattice.states))
    kept = numpy.isin(_places(lattice), _places(factors.lattice))
    probs[kept] = factors.state_marginals()
    return probs


def _places(lattice: Lattice) -> NDArray[numpy.int64]:
    """A number for every token and state of it."""
    sizes = numpy.diff(lattice.offsets)
    return numpy.repeat(numpy.arange(len(sizes)), sizes) * MAX_STATES + lattice.states


def _in_trees(
    grammar: RefinedGrammar,
    starts: NDArray[numpy.int32],
    heads: NDArray[numpy.int32],
    lattice: Lattice,
) -> NDArray[numpy.float64]:
    layer = grammar.fine
    root = layer.root[lattice.states]
    posterior, _, _ = state_posteriors(
        starts,
        heads,
        numpy.ones((len(heads), 2), dtype="uint8"),
        lattice.offsets,
        lattice.states,
        lattice.emissions,
        layer.transitions.rows,
        layer.transitions.row_of,
        root,
        root,
    )
    return posterior


def _likeliest(lattice: Lattice, probs: NDArray[numpy.float64]) -> SubTags:
    if not len(probs):
        return SubTags(numpy.zeros(0, dtype="int32"), numpy.zeros(0, dtype="float32"))
    starts = lattice.offsets[:-1]
    token = numpy.repeat(numpy.arange(len(starts)), numpy.diff(lattice.offsets))
    # of a token's states the likeliest comes first, of equals the first
    best = numpy.lexsort((-probs, token))[starts]
    total = numpy.maximum(numpy.bincount(token, probs), 1e-300)
    return SubTags(lattice.states[best], (probs[best] / total).astype("float32"))
