"""How far probabilities can be trusted: of what is said with probability 0.8, four fifths should be right.

Measured by the expected calibration error of Guo, Pleiss, Sun and Weinberger (2017), by the Brier score
and by the logarithmic score; the last two also reward a parser for knowing more.

Parsers are too sure of trees and, some of them, not sure enough of labels. A few numbers mend that: see
`interface.Temperature`. The temperature of heads and the share of the surer distribution maximise the
logarithmic score of the heads that the parser chooses, the temperature of labels the score of its labelled
arcs. In a model of labelled trees each hangs on the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .interface import ParserModel, Parses, Temperature, Tempered
from .sentences import MISSING, Tokens, Treebank

N_BINS = 15
# The range of temperatures; how far logarithms may be off at first; and of how many tokens it takes the
# evidence to believe in a temperature e times as high.
_LOW, _HIGH, _TOLERANCE, PRIOR = 0.25, 20.0, 0.04, 10.0
# Temperatures of heads and labels take turns so often at most, until logarithms change by less than this;
# and how far to the left and right they look.
_ROUNDS, _CLOSE, _STEP = 4, 0.01, 0.1
# A right head is worth this much evidence, where temperatures change trees.
_WORTH = 1.0
# More sentences than these tell little more about a few numbers. By 600 of them, heads of a product had a
# mean probability of 89.8 % on all of UD_English-EWT's development set, where 89.0 % are right.
_MAX_SENTENCES = 1200
# Probabilities are sums of products of floats, and a certain one that is wrong must not be infinitely bad.
_SMALLEST = 1e-6


@dataclass
class Reliability:
    """Predictions in bins of equal width, by their probability.

    counts (ndarray): int64, how many predictions are in each bin.
    confidence (ndarray): Their mean probability; the middle of the bin where there are none.
    accuracy (ndarray): Which part of them is right; nan where there are none.
    variance (ndarray): Of how many of them are right, if probabilities are true.
    brier (float): The mean of (probability - 1)^2 where right, probability^2 where wrong.
    log_likelihood (float): The mean of log(probability) where right, log(1 - probability) where wrong.
    """

    counts: NDArray[numpy.int64]
    confidence: NDArray[numpy.float64]
    accuracy: NDArray[numpy.float64]
    variance: NDArray[numpy.float64]
    brier: float
    log_likelihood: float

    @classmethod
    def of(
        cls, probs: NDArray, right: NDArray[numpy.bool_], *, n_bins: int = N_BINS
    ) -> "Reliability":
        """Compare probabilities with what came true.

        probs (ndarray): The probability of each prediction; at least one.
        right (ndarray): Whether it is right.
        n_bins (int): How many bins.
        RETURNS (Reliability): The comparison.
        """
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


def log_scores(probs: NDArray, right: NDArray[numpy.bool_]) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): The logarithm of the probability that was given to what came true."""
    probs = numpy.clip(numpy.asarray(probs, dtype="float64"), _SMALLEST, 1.0 - _SMALLEST)
    return numpy.log(numpy.where(right, probs, 1.0 - probs))


class Judged(NamedTuple):
    """Predicted arcs of tokens with known heads.

    heads, arcs (ndarray): The probabilities of heads, and of heads with their labels.
    head_right, arc_right (ndarray): Whether they are right.
    """

    heads: NDArray[numpy.float64]
    head_right: NDArray[numpy.bool_]
    arcs: NDArray[numpy.float64]
    arc_right: NDArray[numpy.bool_]

    @classmethod
    def of_all(cls, parts: "Sequence[Judged]") -> "Judged":
        """RETURNS (Judged): The arcs of several comparisons."""
        return cls(*map(numpy.concatenate, zip(*parts, strict=True)))

    @property
    def uas(self) -> float:
        return float(self.head_right.mean())

    @property
    def las(self) -> float:
        return float(self.arc_right.mean())


def judge(parses: Parses, treebank: Treebank, names: Sequence[str]) -> Judged:
    """Compare parses with what is right.

    parses (Parses): Parses of the treebank's sentences.
    treebank (Treebank): What is right; tokens without a head are left out. Labels are compared in lower
        case, as the scorers do.
    names (Sequence[str]): The parser's labels.
    RETURNS (Judged): The comparison.
    """
    known = treebank.heads != MISSING
    lower = numpy.array([name.lower() for name in names], dtype=object)
    gold = numpy.array([label.lower() for label in treebank.labels], dtype=object)
    head_right = parses.heads == treebank.heads
    arc_right = head_right & (lower[parses.labels] == gold)
    heads = parses.head_probs().astype("float64")
    arcs = heads * parses.label_probs()
    return Judged(heads[known], head_right[known], arcs[known], arc_right[known])


def some_sentences(treebank: Treebank, n: int = _MAX_SENTENCES) -> Treebank:
    """RETURNS (Treebank): At most n sentences, from all parts of the treebank."""
    total = len(treebank.tokens)
    if total <= n:
        return treebank
    chosen = numpy.zeros(total, dtype=bool)
    chosen[numpy.linspace(0, total - 1, n).astype("int64")] = True
    return treebank.select(chosen)


def fit_temperature(
    parse: Callable[[Temperature], Parses],
    treebank: Treebank,
    names: Sequence[str],
    *,
    chosen_at: float | None = 1.0,
) -> Temperature:
    """Find the temperature under which what is said to be likely is as often right.

    parse (Callable[[Temperature], Parses]): Parses the treebank's sentences.
    treebank (Treebank): Sentences that the parser was not trained on.
    names (Sequence[str]): The parser's labels.
    chosen_at (Optional[float]): The temperature at which trees are chosen; None for the one that is found. A
        parser that is less sure chooses worse: `Temperature` says why.
    RETURNS (Temperature): The temperature.
    """

    def at(heads: float, labels: float, share: float) -> Temperature:
        if chosen_at is None:
            return Temperature(heads, labels)
        return Temperature(heads, labels, heads / chosen_at, share)

    if not (treebank.heads != MISSING).any():
        return at(1.0, 1.0, 0.0)
    known: dict[tuple[float, float, float], Judged] = {}

    def judged(heads: float, labels: float, share: float) -> Judged:
        key = heads, labels, share
        if key not in known:
            known[key] = judge(parse(at(*key)), treebank, names)
        return known[key]

    def of_heads(heads: float, labels: float, surer: Judged | None) -> tuple[float, float]:
        """The evidence at the best share, and that share: mixing needs no parsing."""
        found = judged(heads, labels, 0.0)
        if surer is None:
            return float(log_scores(found.heads, found.head_right).sum()), 0.0
        evidence, share = _best_share(surer.heads, found.heads, found.head_right)
        # what trees are chosen by is made of the flat distribution, and gets worse the flatter that is
        return evidence + _WORTH * float(found.head_right.sum()), share

    def of_arcs(heads: float, labels: float, share: float) -> float:
        found = judged(heads, labels, share)
        return float(log_scores(found.arcs, found.arc_right).sum())

    heads = labels = 1.0
    surer = None if chosen_at is None else judged(chosen_at, labels, 0.0)
    for round_ in range(_ROUNDS):
        find = _better_factor if round_ else best_factor
        before = numpy.log([heads, labels])
        if round_ and chosen_at is not None:
            surer = judged(heads, labels, 1.0)
        heads = find(lambda t: of_heads(t, labels, surer)[0], heads)  # noqa: B023
        share = of_heads(heads, labels, surer)[1]
        labels = find(lambda t: of_arcs(heads, t, share), labels)  # noqa: B023
        if round_ and numpy.abs(numpy.log([heads, labels]) - before).max() < _CLOSE:
            break
    return at(heads, labels, share)


def _best_share(
    first: NDArray[numpy.float64], second: NDArray[numpy.float64], right: NDArray[numpy.bool_]
) -> tuple[float, float]:
    """RETURNS (Tuple[float, float]): The evidence for a mixture of probabilities, less what speaks against
    shares at all, and the best share of the first."""
    from scipy.optimize import minimize_scalar

    def loss(share: float) -> float:
        mixed = share * first + (1.0 - share) * second
        return PRIOR * share * share - float(log_scores(mixed, right).sum())

    found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    nothing = loss(0.0)
    return (-nothing, 0.0) if nothing <= found.fun else (-float(found.fun), float(found.x))


def best_factor(evidence: Callable[[float], float], start: float = 1.0) -> float:
    """RETURNS (float): The factor that maximises a log-likelihood; near 1 where there is little evidence."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log: PRIOR * log * log - evidence(float(numpy.exp(log))),
        bounds=(numpy.log(_LOW), numpy.log(_HIGH)),
        method="bounded",
        options={"xatol": _TOLERANCE},
    )
    return float(numpy.exp(found.x))


def _better_factor(evidence: Callable[[float], float], factor: float) -> float:
    """The top of the parabola through three points, which small jumps of the evidence do not mislead.

    evidence (Callable[[float], float]): A log-likelihood, as for `best_factor`.
    factor (float): A factor near the best.
    RETURNS (float): A better one.
    """
    middle = numpy.log(factor)
    left, here, right = (
        evidence(float(numpy.exp(log)) if log != middle else factor) - PRIOR * log * log
        for log in (middle - _STEP, middle, middle + _STEP)
    )
    bend = left - 2.0 * here + right
    if not bend < 0:
        return factor
    step = float(numpy.clip(0.5 * (left - right) / bend, -1.0, 1.0)) * _STEP
    return float(numpy.clip(numpy.exp(middle + step), _LOW, _HIGH))


def fit_sharpness(
    parse: Callable[[float], Parses], treebank: Treebank, names: Sequence[str]
) -> float:
    """Find the temperature of a model that has but one for trees and labels.

    parse (Callable[[float], Parses]): Parses the treebank's sentences at a temperature.
    treebank (Treebank), names (Sequence[str]): As for `fit_temperature`.
    RETURNS (float): The temperature under which heads and labelled arcs are likeliest.
    """
    if not (treebank.heads != MISSING).any():
        return 1.0

    def evidence(temperature: float) -> float:
        found = judge(parse(temperature), treebank, names)
        heads, arcs = (
            log_scores(found.heads, found.head_right),
            log_scores(found.arcs, found.arc_right),
        )
        return float(heads.sum() + arcs.sum()) / 2

    return _better_factor(evidence, best_factor(evidence))


def parses_at(
    model: Tempered, tokens: Tokens, *, decode: str = "mbr"
) -> Callable[[Temperature], Parses]:
    """Parse a batch again and again, as sure as one likes.

    model (Tempered): The parser. If it has a method of this name, that computes but once what does not hang
        on the temperature.
    tokens (Tokens): The batch.
    decode (str): See `interface.ParserModel`.
    RETURNS (Callable[[Temperature], Parses]): Gives the parses at a temperature.
    """
    own = getattr(model, "parses_at", None)
    if own is not None:
        return own(tokens, decode=decode)
    return lambda t: model.with_temperature(t).parse(tokens, decode=decode)


def calibrated(
    model: ParserModel, treebank: Treebank, *, chosen_at: float | None = 1.0
) -> ParserModel:
    """Make a parser as sure as it should be.

    model (ParserModel): The parser.
    treebank (Treebank): Sentences that it was not trained on.
    chosen_at (Optional[float]): See `fit_temperature`.
    RETURNS (ParserModel): The same parser with another temperature, if it is one that can have another.
    """
    if not isinstance(model, Tempered):
        return model
    treebank = some_sentences(treebank)
    temperature = fit_temperature(
        parses_at(model, treebank.tokens),
        treebank,
        model.label_names,
        chosen_at=chosen_at,
    )
    return model.with_temperature(temperature)
