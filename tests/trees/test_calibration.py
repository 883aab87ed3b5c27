"""Measures of calibration against loops and another library's."""

import numpy
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from spacy_spectral.trees.calibration import Reliability, fit_temperature
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
    tell the truth at temperatures of 2 and 0.8."""

    def __init__(self, n=20_000, coupling=1.0):
        rng = numpy.random.default_rng(0)
        self.odds = rng.normal(2.0, 2.0, n)
        self.label_odds = rng.normal(3.0, 1.5, n)
        self.coupling = coupling
        right, label_right = (
            rng.random(n) < 1 / (1 + numpy.exp(-odds)) for odds in (self.odds, self.label_odds)
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
        factor = 2.0 / self.t.heads * (0.8 / self.t.labels) ** self.coupling
        return (1 / (1 + numpy.exp(-factor * self.odds))).astype("float32")

    def label_probs(self):
        factor = 0.8 / self.t.labels
        return (1 / (1 + numpy.exp(-factor * self.label_odds))).astype("float32")


@pytest.mark.parametrize("coupling", [0.0, 0.5, 1.0])
def test_temperatures_of_heads_and_labels_are_found_together(coupling):
    parses = Coupled(coupling=coupling)
    found = fit_temperature(parses, parses.treebank, ["a"])
    assert found.heads == pytest.approx(2.0, rel=0.04)
    assert found.labels == pytest.approx(0.8, rel=0.04)
    assert found.choice == found.heads
    assert parses.n_parses <= 40
    assert fit_temperature(parses, parses.treebank, ["a"], chosen_at=None).choice == 1.0
