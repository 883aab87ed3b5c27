"""Trees under conditions against enumeration of all projective trees."""

import numpy
import pytest

from brute_force import marginals as brute_marginals
from brute_force import projective_trees
from spacy_spectral.forest import conditions as module
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    RootIs,
    SameHead,
    conditioned,
)


def meets(heads, condition):
    """By definition."""
    if isinstance(condition, HeadIs):
        return heads[condition.token - 1] == condition.head
    if isinstance(condition, HeadIsNot):
        return heads[condition.token - 1] != condition.head
    if isinstance(condition, RootIs):
        return heads[condition.token - 1] == 0
    if isinstance(condition, SameHead):
        return heads[condition.one - 1] == heads[condition.other - 1]
    inside = range(condition.first, condition.last + 1)
    tops = [m for m in inside if heads[m - 1] not in inside]
    outside = [h for m, h in enumerate(heads, 1) if m not in inside and h in inside]
    return len(tops) == 1 and set(outside) <= set(tops)


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
    kept = numpy.array([all(meets(heads, c) for c in conditions) for heads in trees])
    own, chosen = scores[kept], [tree for tree, keep in zip(trees, kept, strict=True) if keep]
    found = conditioned(weights, conditions)
    assert tuple(found.heads.tolist()) == chosen[int(own.argmax())]
    assert found.log_prob == pytest.approx(numpy.log(own.max() / own.sum()), abs=1e-9)
    assert found.probability == pytest.approx(own.sum() / scores.sum(), abs=1e-9)
    expected = brute_marginals(own / own.sum(), chosen)
    numpy.testing.assert_allclose(found.marginals[:, 1:], expected[:, 1:], atol=1e-9)


def test_contradictions_are_named():
    weights = numpy.ones((5, 5))
    innocent = [HeadIsNot(1, 3), LabelIs(1, "x")]
    with pytest.raises(ValueError, match="S916") as error:
        conditioned(weights, [HeadIs(2, 1), *innocent, HeadIs(1, 2)])
    assert "HeadIs(token=2, head=1), HeadIs(token=1, head=2)" in str(error.value)
    assert "HeadIsNot" not in str(error.value) and "LabelIs" not in str(error.value)
    with pytest.raises(ValueError, match="S916"):
        conditioned(weights, [RootIs(1), RootIs(2)])
    with pytest.raises(ValueError, match="S916"):  # they would cross
        conditioned(weights, [HeadIs(3, 1), HeadIs(4, 2)])
    with pytest.raises(ValueError, match="S916"):
        conditioned(numpy.ones((3, 3)), [SameHead(1, 2)])


def test_what_was_ruled_out_is_possible_if_it_must_be():
    weights = numpy.zeros((4, 4))
    weights[0, 1] = weights[1, 2] = weights[2, 3] = 1.0
    found = conditioned(weights, [HeadIs(2, 3)])
    assert found.heads.tolist()[1] == 3 and 0 < found.probability < 1e-6


def test_too_many_ways(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAYS", 5)
    with pytest.raises(ValueError, match="S917"):
        conditioned(numpy.ones((6, 6)), [SameHead(1, 2), SameHead(2, 3)])
