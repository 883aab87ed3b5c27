"""How far probabilities can be trusted: of what is said with probability 0.8, four fifths should be right.

Measured by the expected calibration error of Guo, Pleiss, Sun and Weinberger (2017), by the Brier score
and by the logarithmic score; the last two also reward a parser for knowing more.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

N_BINS = 15
# Probabilities are sums of products of floats, and a certain one that is wrong must not be infinitely bad.
_SMALLEST = 1e-6


@dataclass
class Reliability:
    """Predictions in bins of equal width, by their probability.

    counts (ndarray): int64, how many predictions are in each bin.
    confidence (ndarray): Their mean probability; the middle of the bin where there are none.
    accuracy (ndarray): Which part of them is right; nan where there are none.
    brier (float): The mean of (probability - 1)^2 where right, probability^2 where wrong.
    log_likelihood (float): The mean of log(probability) where right, log(1 - probability) where wrong.
    """

    counts: NDArray[numpy.int64]
    confidence: NDArray[numpy.float64]
    accuracy: NDArray[numpy.float64]
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

    def _mean(self, values: NDArray) -> NDArray:
        filled = self.counts > 0
        return numpy.average(values[filled], weights=self.counts[filled])


def log_scores(probs: NDArray, right: NDArray[numpy.bool_]) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): The logarithm of the probability that was given to what came true."""
    probs = numpy.clip(numpy.asarray(probs, dtype="float64"), _SMALLEST, 1.0 - _SMALLEST)
    return numpy.log(numpy.where(right, probs, 1.0 - probs))
