"""Measures of calibration against loops and another library's."""

import numpy
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from brute_force import marginals, projective_trees
from spacy_spectral.trees.calibration import Reliability, fit_temperature, log_scores
from spacy_spectral.trees.interface import Temperature
from spacy_spectral.trees.posterior import MixedPosterior, arc_posterior
from spacy_spectral.trees.sentences import Tokens, Treebank


def predictions(n=2000, *, sharpness=1.0, seed=0):
    """Probabilities of events, said with a sharpness that they do not have."""
    rng = numpy.random.default_rng(seed)
    odds = rng.normal(1.5, 2.0, n)
    right = rng.random(n) < 1 / (1 + numpy.exp(-odds))
    return 1 / (1 + numpy.exp(-sharpness * odds)), right


def test_measures_agree_with_loops_and_scikit_learn():
    probs, right = predictions(sharpness=2.0)
    found = Reliability.of(probs, right, n_bins=10)
    error = 0.0
    for b in range(10):
        own = [i for i, p in enumerate(probs) if b / 10 <= p < (b + 1) / 10 or (b == 9 and p == 1)]
        assert found.counts[b] == len(own)
        said, true = probs[own].mean(), right[own].mean()
        assert found.confidence[b] == pytest.approx(said)
        assert found.accuracy[b] == pytest.approx(true)
        error += len(own) / len(probs) * abs(said - true)
    assert found.error == pytest.approx(error)
    assert found.mean_probability == pytest.approx(probs.mean())
    assert found.share_right == pytest.approx(right.mean())
    assert found.brier == pytest.approx(brier_score_loss(right, probs))
    assert found.log_likelihood == pytest.approx(-log_loss(right, probs), abs=1e-4)


def test_chance_is_the_mean_error_of_true_probabilities():
    probs, _ = predictions(n=5000)
    rng = numpy.random.default_rng(1)
    errors = [Reliability.of(probs, rng.random(len(probs)) < probs).error for _ in range(300)]
    chance = Reliability.of(probs, probs > 0.5).chance
    # normal deviations: a little less than those of small bins
    assert chance == pytest.approx(numpy.mean(errors), rel=0.05)
    assert Reliability.of(numpy.ones(3), numpy.zeros(3, dtype=bool)).chance == 0


def test_true_probabilities_are_the_best():
    measured = {s: Reliability.of(*predictions(20_000, sharpness=s)) for s in (0.5, 1.0, 2.0)}
    assert measured[1.0].error < 0.01
    for other in (measured[0.5], measured[2.0]):
        assert other.error > 0.04
        assert other.brier > measured[1.0].brier
        assert other.log_likelihood < measured[1.0].log_likelihood


def test_certain_and_single_predictions():
    found = Reliability.of(numpy.array([1.0, 0.0, 1.0 + 1e-7]), numpy.array([True, False, False]))
    assert found.counts.tolist() == [1] + 13 * [0] + [2]
    assert numpy.isnan(found.accuracy[1:-1]).all()
    assert found.error == pytest.approx(1 / 3)
    assert numpy.isfinite(found.log_likelihood)


class Coupled:
    """Parses whose heads are as sure as both temperatures make them, as in a model of labelled trees. They
    tell the truth at temperatures of 2 and 0.8, and at some share of what is as sure as trees are chosen."""

    def __init__(self, n=40_000, coupling=1.0, share=0.0):
        rng = numpy.random.default_rng(0)
        self.odds = rng.normal(2.0, 3.0, n)
        self.label_odds = rng.normal(3.0, 1.5, n)
        self.coupling = coupling
        self.n_parses = 0
        self(Temperature(2.0, 0.8, 2.0, share))
        right, label_right = (
            rng.random(n) < probs for probs in (self.head_probs(), self.label_probs())
        )
        self.heads = numpy.zeros(n, dtype="int32")
        self.labels = numpy.zeros(n, dtype="int32")
        names = numpy.where(label_right, "a", "b").tolist()
        starts = numpy.arange(n + 1, dtype="int32")
        tokens = Tokens(starts, ["w"] * n, ["t"] * n, [None] * n, [""] * n, [""] * n)
        self.treebank = Treebank(tokens, numpy.where(right, 0, 1).astype("int32"), names)
        self.n_parses = 0

    def __call__(self, temperature):
        self.n_parses += 1
        self.t = temperature
        return self

    def head_probs(self):
        t = self.t
        factor = 2.0 / t.heads * (0.8 / t.labels) ** self.coupling
        flat, sharp = (1 / (1 + numpy.exp(-own * self.odds)) for own in (factor, t.choice * factor))
        return ((1 - t.share) * flat + t.share * sharp).astype("float32")

    def label_probs(self):
        factor = 0.8 / self.t.labels
        return (1 / (1 + numpy.exp(-factor * self.label_odds))).astype("float32")


@pytest.mark.parametrize("coupling", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_shares_are_found_with_temperatures(coupling, share):
    parses = Coupled(coupling=coupling, share=share)
    found = fit_temperature(parses, parses.treebank, ["a"])
    assert found.choice == found.heads
    truth = Temperature(2.0, 0.8, 2.0, share)
    right = parses.treebank.heads == 0
    evidence = [log_scores(parses(t).head_probs(), right).sum() for t in (truth, found)]
    # three numbers fit some thousands of tokens by so much better than the truth, or worse
    assert abs(evidence[0] - evidence[1]) < 5
    assert found.labels == pytest.approx(0.8, rel=0.05)
    if share:
        assert found.share == pytest.approx(share, abs=0.15)
    assert parses.n_parses <= 16


def test_mixtures_of_posteriors():
    """Against probabilities of all trees of two random distributions."""
    rng = numpy.random.default_rng(3)
    trees = numpy.array(projective_trees(4), dtype="int32")
    scores = rng.normal(0, 2, (2, 5, 5))
    first, second = map(arc_posterior, scores)
    mixed = MixedPosterior(first, second, 0.3)
    columns = numpy.arange(1, 5)
    weights = numpy.exp([own[trees, columns].sum(axis=1) for own in scores])
    probs = numpy.array([0.3, 0.7]) @ (weights / weights.sum(axis=1, keepdims=True))
    expected = marginals(probs, [tuple(tree) for tree in trees.tolist()])
    numpy.testing.assert_allclose(mixed.marginals, expected, atol=1e-12)
    for tree, prob in zip(trees, probs, strict=True):
        assert numpy.exp(mixed.log_probability(tree)) == pytest.approx(prob)
    best = mixed.k_best(len(trees))
    assert numpy.exp([log for _, log in best]) == pytest.approx(sorted(probs, reverse=True))
    for share, same in ((0.0, second), (1.0, first)):
        alone = MixedPosterior(first, second, share)
        assert alone.log_probability(trees[0]) == pytest.approx(same.log_probability(trees[0]))
