"""Random labelled arcs, and all trees of them by definition; random treebanks."""

from itertools import product

import numpy

from brute_force import is_single_root_projective, projective_trees
from spacy_spectral.trees.sentences import Tree


def random_arcs(seed, n, density):
    """heads and modifiers of arcs, by modifier; some pairs of tokens have two (two labels)."""
    rng = numpy.random.default_rng(seed)
    arcs = []
    for m in range(1, n + 1):
        heads = [h for h in range(n + 1) if h != m and rng.random() < density] or [m - 1]
        arcs += [(h, m) for h in heads for _ in range(rng.integers(1, 3))]
    return numpy.array(arcs, dtype="int32").T.copy()


def labelled_trees(n, heads, mods):
    """All choices of one arc to each token that make a projective tree."""
    own = [numpy.flatnonzero(mods == m).tolist() for m in range(1, n + 1)]
    return [
        tree for tree in product(*own) if is_single_root_projective([int(heads[a]) for a in tree])
    ]


def random_treebank(tags, describe, *, longest, seed=0, size=80):
    """Random projective trees of random tags; `describe(rng, tags, heads)` gives words and labels."""
    rng = numpy.random.default_rng(seed)
    trees = []
    for _ in range(size):
        n = int(rng.integers(1, longest + 1))
        choices = projective_trees(n)
        heads = numpy.array(choices[rng.integers(len(choices))], dtype="int32")
        own = rng.choice(tags, n).tolist()
        words, labels = describe(rng, own, heads)
        trees.append(Tree(words, own, heads, labels))
    return trees
