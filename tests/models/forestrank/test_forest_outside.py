"""How likely right arcs are not in forests."""

import numpy
import pytest

from spacy_spectral.models.forestrank.forests import Forests, fit_outside, inside_probs


def one_arc_each(rest):
    """Sentences of one token, each with one arc."""
    n = len(rest)
    ends, zeros = numpy.arange(n + 1, dtype="int32"), numpy.zeros(n, dtype="int32")
    dense = numpy.log(1 - rest)[:, None]
    return Forests(ends, ends, zeros, zeros + 1, zeros, ["in", "out"], dense)


@pytest.mark.parametrize("known", [(0.02, 1.5), (0.1, 0.3)])
def test_known_chances_come_back(known):
    rng = numpy.random.default_rng(0)
    rest = rng.uniform(0, 0.5, 40_000)
    forests = one_arc_each(rest)
    assert forests.rest() == pytest.approx(rest)
    inside = rng.random(len(rest)) < inside_probs(numpy.array(known), rest)
    labels = ["in" if own else "out" for own in inside]
    heads = numpy.zeros(len(rest), dtype="int32")
    found = fit_outside(forests, heads, labels)
    assert found == pytest.approx(known, abs=0.03)
    # what is not annotated teaches nothing
    heads[20_000:] = -1
    labels[20_000:] = [""] * 20_000
    assert fit_outside(forests, heads, labels) == pytest.approx(known, abs=0.04)
    heads[:] = -1
    assert fit_outside(forests, heads, labels).tolist() == [0, 0]


def test_without_anything_outside():
    forests = one_arc_each(numpy.full(50, 0.1))
    assert fit_outside(forests, numpy.zeros(50, dtype="int32"), ["in"] * 50).tolist() == [0, 0]
    assert inside_probs(numpy.zeros(2), forests.rest()).tolist() == [1] * 50
