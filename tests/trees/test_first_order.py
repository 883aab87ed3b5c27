"""The first-order chart against enumeration of all trees."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brute_force import marginals, projective_trees
from spacy_spectral.trees._first_order import arc_marginals


@given(st.integers(1, 6), st.integers(0, 1000), st.sampled_from([0.0, 0.3, 0.7]))
def test_marginals_and_total(n, seed, forbidden):
    rng = numpy.random.default_rng(seed)
    potentials = rng.gamma(0.5, size=(n + 1, n + 1)) * (rng.random((n + 1, n + 1)) >= forbidden)
    trees = projective_trees(n)
    tokens = numpy.arange(1, n + 1)
    scores = [potentials[list(heads), tokens].prod() for heads in trees]
    log_z, found = arc_marginals(potentials)
    if sum(scores) == 0:
        assert numpy.isnan(log_z) and not found.any()
        return
    assert log_z == pytest.approx(numpy.log(sum(scores)))
    numpy.testing.assert_allclose(found, marginals(scores, trees) / sum(scores), atol=1e-9)


@pytest.mark.parametrize("scale", [-3.0, 0.0, 3.0])
def test_long_sentences_are_brought_into_range(scale):
    """What is multiplied to every arc of a modifier changes nothing but log Z."""
    n = 400
    potentials = numpy.random.default_rng(0).gamma(0.5, size=(n + 1, n + 1))
    log_z, found = arc_marginals(potentials)
    other, again = arc_marginals(potentials * numpy.exp(scale))
    assert other == pytest.approx(log_z + n * scale)
    numpy.testing.assert_allclose(again, found, atol=1e-9)
    numpy.testing.assert_allclose(found[:, 1:].sum(axis=0), 1.0)
    assert found[0].sum() == pytest.approx(1.0)


def test_no_tokens_and_nothing_allowed():
    assert arc_marginals(numpy.ones((1, 1)))[0] == 0.0
    assert numpy.isnan(arc_marginals(numpy.zeros((4, 4)))[0])
    with pytest.raises(TypeError):
        arc_marginals(None)
