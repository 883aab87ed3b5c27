"""The memory that the largest forests take."""

import pytest

from memory import peak_memory

# random arcs within a reach, each with several labels
CODE = """
import sys

import numpy

from spacy_spectral.models.forestrank._engine import Engine
from spacy_spectral.models.forestrank.templates import TEMPLATES

n, n_heads, n_labels, k = map(int, sys.argv[1:])
rng = numpy.random.default_rng(0)
arcs = []
for m in range(1, n + 1):
    near = [h for h in range(max(m - 10, 0), min(m + 10, n) + 1) if h != m]
    heads = {m - 1, *rng.choice(near, n_heads - 1, replace=False).tolist()}
    arcs += [(h, m, label) for h in sorted(heads) for label in range(n_labels)]
heads, modifiers, labels = numpy.array(arcs, dtype="int32").T.copy()
keys = numpy.arange(1, 1000, dtype="uint32")
engine = Engine(keys, numpy.ones(999, "float32"), numpy.array([0.5]), TEMPLATES)
tokens = rng.integers(1, 1 << 31, size=(n, 5)).astype("uint32")
own = heads, modifiers, labels.astype("uint32"), numpy.full((len(arcs), 1), -1.0)
if k >= 0:
    ends = numpy.array([[0, n], [0, len(arcs)]], dtype="int32")
    _, log_z = engine.marginals(ends[0], tokens, ends[1], *own)
    assert numpy.isfinite(log_z[0]) or log_z[0] == numpy.inf
if k > 0:
    graph, scores, _ = engine.graph(tokens, *own)
    assert len(graph.k_best(scores, k)) == k
"""


@pytest.fixture(scope="module")
def nothing():
    return peak_memory(CODE, "500", "2", "2", "-1")


# as many arcs as at a threshold of 0.01; so many that they are just not too many; too many
@pytest.mark.parametrize("size", [(60, 2, 2, 50), (500, 2, 2, 50), (500, 5, 4, 0), (500, 8, 4, 0)])
def test_forests_stay_within_200_megabytes(nothing, size):
    assert peak_memory(CODE, *map(str, size)) <= nothing + 200
