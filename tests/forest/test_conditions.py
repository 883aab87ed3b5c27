"""Trees under conditions against enumeration of all projective trees."""

import numpy
import pytest

from brute_force import Always, meets, projective_trees
from brute_force import marginals as brute_marginals
from spacy_spectral.forest import conditions as module
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    RootIs,
    SameHead,
    SentenceTrees,
    conditioned,
)
from spacy_spectral.trees.conditions import ArcTrees, marginal_trees


def given(weights, label_probs=None):
    """A distribution of arcs."""
    n = len(weights) - 1
    with numpy.errstate(divide="ignore"):
        trees = ArcTrees(numpy.log(weights), label_probs or (lambda heads: numpy.ones((n, 1))))
    return SentenceTrees(Always(trees))


CASES = [
    [],
    [HeadIs(2, 4)],
    [HeadIsNot(2, 1), HeadIsNot(2, 3)],
    [RootIs(3)],
    [SameHead(1, 5)],
    [NoCrossing(2, 4)],
    [NoCrossing(3, 3)],
    [NoCrossing(1, 5)],
    [SameHead(1, 2), SameHead(2, 5)],
    [NoCrossing(1, 3), HeadIsNot(4, 5), RootIs(4)],
    [NoCrossing(2, 3), NoCrossing(2, 4), SameHead(1, 5)],
]


@pytest.mark.parametrize("conditions", CASES)
def test_against_enumeration(conditions):
    n = 5
    weights = numpy.random.default_rng(0).random((n + 1, n + 1))
    trees = projective_trees(n)
    scores = numpy.array(
        [numpy.prod([weights[h, m] for m, h in enumerate(heads, 1)]) for heads in trees]
    )
    kept = numpy.array([all(meets(c, heads) for c in conditions) for heads in trees])
    own, chosen = scores[kept], [tree for tree, keep in zip(trees, kept, strict=True) if keep]
    found = conditioned(n, given(weights), conditions)
    assert tuple(found.heads.tolist()) == chosen[int(own.argmax())]
    assert found.log_prob == pytest.approx(numpy.log(own.max() / own.sum()), abs=1e-9)
    assert found.probability == pytest.approx(own.sum() / scores.sum(), abs=1e-9)
    expected = brute_marginals(own / own.sum(), chosen)
    numpy.testing.assert_allclose(found.marginals[:, 1:], expected[:, 1:], atol=1e-9)


def test_contradictions_are_named():
    trees = given(numpy.ones((5, 5)))
    innocent = [HeadIsNot(1, 3), LabelIs(1, "x")]
    names = ["x"]
    with pytest.raises(ValueError, match="S916") as error:
        conditioned(4, trees, [HeadIs(2, 1), *innocent, HeadIs(1, 2)], names=names)
    assert "HeadIs(token=2, head=1), HeadIs(token=1, head=2)" in str(error.value)
    assert "HeadIsNot" not in str(error.value) and "LabelIs" not in str(error.value)
    with pytest.raises(ValueError, match="S916"):
        conditioned(4, trees, [RootIs(1), RootIs(2)])
    with pytest.raises(ValueError, match="S916"):  # they would cross
        conditioned(4, trees, [HeadIs(3, 1), HeadIs(4, 2)])
    with pytest.raises(ValueError, match="S916"):
        conditioned(2, given(numpy.ones((3, 3))), [SameHead(1, 2)])


def test_what_was_ruled_out_is_possible_if_it_must_be():
    weights = numpy.zeros((4, 4))
    weights[0, 1] = weights[1, 2] = weights[2, 3] = 1.0
    trees = marginal_trees(weights, lambda heads: numpy.ones((3, 1)))
    found = conditioned(3, SentenceTrees(Always(trees)), [HeadIs(2, 3)])
    assert found.heads.tolist()[1] == 3 and 0 < found.probability < 1e-6


def test_too_many_ways(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAYS", 5)
    with pytest.raises(ValueError, match="S917"):
        conditioned(5, given(numpy.ones((6, 6))), [SameHead(1, 2), SameHead(2, 3)])
