"""How far probabilities can be trusted: of what is said with probability 0.8, four fifths should be right.

Measured by the expected calibration error of Guo, Pleiss, Sun and Weinberger (2017), by the Brier score
and by the logarithmic score; the last two also reward a parser for knowing more.

Parsers are overconfident about trees and, some of them, not confident enough about labels. A few numbers mend
that: see `interface.Temperature`. The temperature of heads and the share of the sharper distribution maximise
the logarithmic score of the heads that the parser chooses, the temperature of labels the score of its
labelled arcs. In a model of labelled trees each depends on the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .interface import ParserModel, Parses, Temperature
from .sentences import MISSING, Bools, Floats, Longs, Treebank

N_BINS = 15
# Of which probabilities it is told how good predictions are that have them or higher ones.
THRESHOLDS = (0.5, 0.7, 0.9, 0.95)
# The range of temperatures, and of how many tokens it takes the evidence to believe in a temperature e times
# as high.
_LOW, _HIGH, PRIOR = 0.25, 20.0, 10.0
# Logarithms of temperatures of heads and labels: where to look first, how far to both sides then and later,
# how often at most, and how far away other points still count.
_FIRST, _FIRST_ARMS, _ARMS = numpy.array([0.6, 0.0]), numpy.array([0.5, 0.35]), numpy.full(2, 0.15)
_ROUNDS, _NEAR, _FREE = 3, 0.01, 100.0
# Between points, temperatures of heads and labels take turns so often at most, until logarithms change by
# less than this.
_TURNS, _CLOSE = 20, 1e-3
# A right head is worth this much evidence, where temperatures change trees.
_WORTH = 1.0
# More sentences than these tell little more about a few numbers. By 600 of them, heads of a product had a
# mean probability of 89.8 % on all of UD_English-EWT's development set, where 89.0 % are right.
_MAX_SENTENCES = 1200
_HELD_OUT, _MAX_BLOCK = 5, 50
# Probabilities are sums of products of floats, and a certain one that is wrong must not be infinitely bad.
_SMALLEST = 1e-6


class Above(NamedTuple):
    """Predictions with a probability of at least `threshold`: which share of all, and of them is right."""

    threshold: float
    share: float
    right: float | None


@dataclass
class Reliability:
    """Predictions in bins of equal width, by their probability: how many are in each, their mean
    probability (the middle of the bin where there are none) and which part of them is right (nan).

    variance: Of how many of them are right, if probabilities are true.
    brier: The mean of (probability - 1)^2 where right, probability^2 where wrong.
    log_likelihood: The mean of log(probability) where right, log(1 - probability) where wrong.
    """

    counts: Longs
    confidence: Floats
    accuracy: Floats
    variance: Floats
    brier: float
    log_likelihood: float
    above: "list[Above]"

    @classmethod
    def of(cls, probs: NDArray, right: Bools, *, n_bins: int = N_BINS) -> "Reliability":
        """Compare probabilities with what came true."""
        probs = numpy.clip(numpy.asarray(probs, dtype="float64"), 0.0, 1.0)
        right = numpy.asarray(right, dtype=bool)
        bins = numpy.minimum((probs * n_bins).astype("int64"), n_bins - 1)
        counts = numpy.bincount(bins, minlength=n_bins)
        filled = numpy.maximum(counts, 1)
        middle = (numpy.arange(n_bins) + 0.5) / n_bins
        confidence = numpy.bincount(bins, probs, minlength=n_bins) / filled
        accuracy = numpy.bincount(bins, right, minlength=n_bins) / filled
        return cls(
            counts,
            numpy.where(counts > 0, confidence, middle),
            numpy.where(counts > 0, accuracy, numpy.nan),
            numpy.bincount(bins, probs * (1.0 - probs), minlength=n_bins).astype("float64"),
            brier=float(((probs - right) ** 2).mean()),
            log_likelihood=float(log_scores(probs, right).mean()),
            above=[
                Above(t, float(own.mean()), float(right[own].mean()) if own.any() else None)
                for t, own in ((t, probs >= t) for t in THRESHOLDS)
            ],
        )

    @property
    def mean_probability(self) -> float:
        return float(self._mean(self.confidence))

    @property
    def share_right(self) -> float:
        return float(self._mean(self.accuracy))

    @property
    def error(self) -> float:
        """The expected calibration error: by how much probability and truth differ in a prediction's bin."""
        return float(self._mean(numpy.abs(self.confidence - self.accuracy)))

    @property
    def chance(self) -> float:
        """The error that is to be expected of true probabilities, by chance: the mean of |x| for a normal x
        is sqrt(2 / pi) of its deviation. Sentences with several mistakes make it larger."""
        return float(numpy.sqrt(2.0 / numpy.pi * self.variance).sum() / self.counts.sum())

    def _mean(self, values: NDArray) -> NDArray:
        filled = self.counts > 0
        return numpy.average(values[filled], weights=self.counts[filled])


def log_scores(probs: NDArray, right: Bools) -> Floats:
    """The logarithm of the probability that was given to what came true."""
    probs = numpy.clip(numpy.asarray(probs, dtype="float64"), _SMALLEST, 1.0 - _SMALLEST)
    return numpy.log(numpy.where(right, probs, 1.0 - probs))


class Judged(NamedTuple):
    """The probabilities of predicted heads, and of heads with their labels, of tokens with known heads;
    and whether they are right."""

    heads: Floats
    head_right: Bools
    arcs: Floats
    arc_right: Bools

    @classmethod
    def of_all(cls, parts: "Sequence[Judged]") -> "Judged":
        """The arcs of several comparisons."""
        return cls(*map(numpy.concatenate, zip(*parts, strict=True)))

    @property
    def uas(self) -> float:
        return float(self.head_right.mean())

    @property
    def las(self) -> float:
        return float(self.arc_right.mean())


def judge(parses: Parses, treebank: Treebank, names: Sequence[str]) -> Judged:
    """Compare parses with what is right, where tokens have a head. Labels are compared in lower case, as
    the scorers do."""
    known = treebank.heads != MISSING
    lower = numpy.array([name.lower() for name in names], dtype=object)
    gold = numpy.array([label.lower() for label in treebank.labels], dtype=object)
    head_right = parses.heads == treebank.heads
    arc_right = head_right & (lower[parses.labels] == gold)
    heads = parses.head_probs().astype("float64")
    arcs = heads * parses.label_probs()
    return Judged(heads[known], head_right[known], arcs[known], arc_right[known])


def some_sentences(treebank: Treebank, n: int = _MAX_SENTENCES) -> Treebank:
    """At most n sentences, from all parts of the treebank."""
    total = len(treebank.tokens)
    if total <= n:
        return treebank
    chosen = numpy.zeros(total, dtype=bool)
    chosen[numpy.linspace(0, total - 1, n).astype("int64")] = True
    return treebank.select(chosen)


class Tried:
    """What a parser says at a few temperatures, and so at those between them.

    Probabilities are kept as the log-odds that they give to the truth. In inverse temperatures (and weights)
    these are nearly linear: of a choice between two trees exactly. So between points that were tried they are
    taken for a sum of parabolas, one for each number, by least squares in which near points count most.
    """

    def __init__(self) -> None:
        self._points: list[Floats] = []
        self._judged: list[Judged] = []

    def add(self, logs: Floats, judged: Judged) -> None:
        self._points.append(numpy.exp(-logs))
        self._judged.append(judged)
        self.__dict__.pop("_odds", None)

    @cached_property
    def _odds(self) -> tuple[Floats, Floats, NDArray]:
        heads = [_truth_odds(found.heads, found.head_right) for found in self._judged]
        arcs = [_truth_odds(found.arcs, found.arc_right) for found in self._judged]
        right = [float(found.head_right.sum()) for found in self._judged]
        return numpy.array(heads), numpy.array(arcs), numpy.array(right)

    def heads(self, logs: Floats) -> Floats:
        """For every token the probability of what is true of its head."""
        return 1.0 / (1.0 + numpy.exp(-self._weights(logs) @ self._odds[0]))

    def arcs(self, logs: Floats) -> Floats:
        """The same of heads with their labels."""
        return 1.0 / (1.0 + numpy.exp(-self._weights(logs) @ self._odds[1]))

    def n_right(self, logs: Floats) -> float:
        """How many heads are right."""
        return float(self._weights(logs) @ self._odds[2])

    def _weights(self, logs: Floats) -> Floats:
        """How much each point counts: the sum of these parabolas at the point that is asked for."""
        away = numpy.array(self._points) * numpy.exp(logs) - 1.0
        near = 1.0 / ((away * away).sum(axis=1) + _NEAR)
        # of what few points leave open the flattest is taken: it has the smallest coefficients but for the
        # first
        first = numpy.full(len(away), _FREE)
        terms = numpy.column_stack([first, away, 0.5 * away * away])
        return _FREE * numpy.linalg.pinv(terms * near[:, None])[0] * near


def _truth_odds(probs: Floats, right: Bools) -> Floats:
    probs = numpy.clip(probs, _SMALLEST, 1.0 - _SMALLEST)
    odds = numpy.log(probs / (1.0 - probs))
    return numpy.where(right, odds, -odds)


def star(centre: Floats, arms: Floats) -> Iterator[Floats]:
    """The centre, and a point to both sides of it by every number whose arm is not 0."""
    yield centre
    for axis in numpy.flatnonzero(arms):
        for side in (-1.0, 1.0):
            point = centre.copy()
            point[axis] += side * arms[axis]
            yield point


def held_out_blocks(n: int) -> Bools:
    """Which of n sentences copies should not be trained on, where there is no development set: every fifth
    block. Neighbours stay together, for they are alike."""
    block = max(min(n // (2 * _HELD_OUT), _MAX_BLOCK), 1)
    return (numpy.arange(n) // block) % _HELD_OUT == _HELD_OUT - 1


def minimum(
    loss: Callable[[Floats], float], start: Floats, bounds: Sequence[tuple[float, float]]
) -> Floats:
    """Where a smooth function of a few numbers is least."""
    from scipy.optimize import minimize

    start = numpy.clip(start, *numpy.transpose(bounds))
    return minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"eps": 1e-4}).x


def _within(centre: Floats, reach: Floats) -> list[tuple[float, float]]:
    """Bounds of logarithms of temperatures around some."""
    low, high = numpy.log([_LOW, _HIGH])
    return [
        (min(max(low, own - far), high), max(min(high, own + far), low))
        for own, far in zip(centre.tolist(), reach.tolist(), strict=True)
    ]


def fit_temperature(
    parse: Callable[[Temperature], Parses],
    treebank: Treebank,
    names: Sequence[str],
    *,
    chosen_at: float = 1.0,
) -> Temperature:
    """Find the temperature under which what is said to be likely is as often right. A star of
    temperatures is tried, then a smaller one around the best between them (see `Tried`), and a third
    where the best is not inside that: 14 or 21 parses.

    chosen_at: The temperature at which trees are chosen: see `Temperature` for why it may be another.
    """

    def at(logs: Floats, share: float) -> Temperature:
        heads, labels = numpy.exp(logs).tolist()
        return Temperature(heads, labels, heads / chosen_at, share)

    if not (treebank.heads != MISSING).any():
        return at(numpy.zeros(2), 0.0)
    flat, sharp = Tried(), Tried()
    centre, arms, share = _FIRST, _FIRST_ARMS, 0.0
    for round_ in range(_ROUNDS):
        for logs in star(centre, arms):
            flat.add(logs, judge(parse(at(logs, 0.0)), treebank, names))
        # the distribution that trees are chosen by hardly depends on the temperature of heads
        for side in (-1.0, 1.0):
            logs = centre + side * arms * numpy.array([0.0, 1.0])
            sharp.add(logs[1:], judge(parse(at(logs, 1.0)), treebank, names))
        best, share = _settled(flat, sharp, centre, 2.0 * arms, share)
        if round_ and (numpy.abs(best - centre) <= arms).all():
            break
        centre, arms = best, _ARMS
    return at(best, share)


def _settled(
    flat: Tried, sharp: Tried, centre: Floats, reach: Floats, share: float
) -> tuple[Floats, float]:
    """The temperatures of heads and labels, of which each depends on the other, and the share, by what was
    tried."""
    of_heads, of_labels = _within(centre, reach)

    def mixed(first: Floats, second: Floats, share: float) -> float:
        probs = share * second + (1.0 - share) * first
        return float(numpy.log(numpy.clip(probs, _SMALLEST, 1.0 - _SMALLEST)).sum())

    def heads_loss(numbers: Floats, label_log: float) -> float:
        logs, share = numpy.array([numbers[0], label_log]), float(numbers[1])
        evidence = mixed(flat.heads(logs), sharp.heads(logs[1:]), share)
        # what trees are chosen by is made of the flat distribution, and gets worse the flatter that is
        return PRIOR * (logs[0] ** 2 + share**2) - evidence - _WORTH * flat.n_right(logs)

    def labels_loss(numbers: Floats, head_log: float, share: float) -> float:
        logs = numpy.array([head_log, numbers[0]])
        return PRIOR * logs[1] ** 2 - mixed(flat.arcs(logs), sharp.arcs(logs[1:]), share)

    best = centre.copy()
    for _ in range(_TURNS):
        before = best.copy()
        loss = partial(heads_loss, label_log=best[1])
        # a share of what is sharper can stand in for a lower temperature: there may be two minima
        starts = [best[0], share], [0.0, 0.0]
        found = [minimum(loss, numpy.array(one), [of_heads, (0.0, 1.0)]) for one in starts]
        best[0], share = min(found, key=loss)
        best[1] = minimum(
            partial(labels_loss, head_log=best[0], share=share), best[1:], [of_labels]
        )[0]
        if numpy.abs(best - before).max() < _CLOSE:
            break
    return best, float(share)


def fit_sharpness(
    parse: Callable[[float], Parses], treebank: Treebank, names: Sequence[str]
) -> float:
    """Find the temperature of a model that has but one for trees and labels."""
    if not (treebank.heads != MISSING).any():
        return 1.0
    tried = Tried()

    def loss(logs: Floats) -> float:
        evidence = numpy.log(tried.heads(logs)).sum() + numpy.log(tried.arcs(logs)).sum()
        return PRIOR * float(logs @ logs) - float(evidence) / 2

    centre, arms = _FIRST[:1], _FIRST_ARMS[:1]
    for round_ in range(_ROUNDS):
        for logs in star(centre, arms):
            tried.add(logs, judge(parse(float(numpy.exp(logs[0]))), treebank, names))
        best = minimum(loss, centre, _within(centre, 2.0 * arms))
        if round_ and (numpy.abs(best - centre) <= arms).all():
            break
        centre, arms = best, _ARMS[:1]
    return float(numpy.exp(best[0]))


def calibrated(model: ParserModel, treebank: Treebank, *, chosen_at: float = 1.0) -> ParserModel:
    """The same parser, as confident as a treebank that it was not trained on says it should be; see
    `fit_temperature`. A parser without a temperature stays as it is."""
    if model.temperature is None:
        return model
    treebank = some_sentences(treebank)
    parse = model.parses_at(treebank.tokens)
    found = fit_temperature(parse, treebank, model.label_names, chosen_at=chosen_at)
    return model.with_temperature(found)
