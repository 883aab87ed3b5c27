"""The regression system of Jha et al.: ridge over features, squares, roots and interactions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...base.fields import Array, Bool, Float, Format, Map, Record, Strings
from ...base.stored import Stored

Values: TypeAlias = Sequence[float] | NDArray

PENALTIES = tuple(float(10**e) for e in numpy.arange(-1, 4.5, 0.5))
_FOLDS = 10
Dataset = tuple[Sequence[Mapping[str, float]], Sequence[float]]
_FORMAT = Format(
    "eigenword-similarity",
    1,
    regressions=Map(
        Record(
            names=Strings("names", unique=True),
            mean=Array("float64", "columns"),
            scale=Array("float64", "columns", above=0),
            weights=Array("float64", "columns"),
            intercept=Float(),
            lowest=Float(),
            highest=Float(),
            penalty=Float(),
        )
    ),
    eigenwords=Bool(),
)


@dataclass
class SimilarityRegression:
    """A linear model over expanded features, with predictions clipped to the range of the scores.

    scale: Standard deviation of every expanded column, 1 where it is 0.
    """

    names: list[str]
    mean: numpy.ndarray
    scale: numpy.ndarray
    weights: numpy.ndarray
    intercept: float
    lowest: float
    highest: float
    penalty: float

    @classmethod
    def train(
        cls,
        features: Sequence[Mapping[str, float]],
        scores: Sequence[float],
        *,
        lowest: float = 0.0,
        highest: float = 5.0,
        penalties: Sequence[float] = PENALTIES,
        seed: int = 0,
    ) -> "SimilarityRegression":
        """Fit ridge regression; the penalty is the best of some in cross-validation."""
        gold = numpy.asarray(scores, dtype="float64")
        if len(gold) < _FOLDS:
            raise ValueError(Errors.S221.format(n=len(gold), least=_FOLDS))
        names = sorted(features[0])
        columns = expand(_table(features, names))
        folds = numpy.random.default_rng(seed).permutation(len(gold)) % _FOLDS
        errors = numpy.zeros(len(penalties))
        for fold in range(_FOLDS):
            inside, outside = folds != fold, folds == fold
            for i, penalty in enumerate(penalties):
                mean, scale, weights = _ridge(columns[inside], gold[inside], penalty)
                predicted = (columns[outside] - mean) / scale @ weights + gold[inside].mean()
                predicted = predicted.clip(lowest, highest)
                errors[i] += ((predicted - gold[outside]) ** 2).sum()
        penalty = float(penalties[int(errors.argmin())])
        mean, scale, weights = _ridge(columns, gold, penalty)
        return cls(names, mean, scale, weights, float(gold.mean()), lowest, highest, penalty)

    def predict(self, features: Sequence[Mapping[str, float]]) -> numpy.ndarray:
        """The predicted score of every pair, clipped."""
        for pair in features:
            if sorted(pair) != self.names:
                raise ValueError(Errors.S220.format(expected=self.names, found=sorted(pair)))
        columns = expand(_table(features, self.names))
        predicted = (columns - self.mean) / self.scale @ self.weights + self.intercept
        return predicted.clip(self.lowest, self.highest)


@dataclass
class SimilarityModel(Stored):
    """One regression per dataset, and one on all datasets for sentences from elsewhere.

    eigenwords: Whether the features include those of word vectors.
    """

    FORMAT = _FORMAT

    regressions: dict[str, SimilarityRegression]
    eigenwords: bool

    @classmethod
    def train(
        cls, datasets: Mapping[str, Dataset], *, eigenwords: bool = True, highest: float = 5.0
    ) -> "SimilarityModel":
        """Fit all regressions."""
        together = (
            [row for rows, _ in datasets.values() for row in rows],
            [score for _, scores in datasets.values() for score in scores],
        )
        regressions = {
            name: SimilarityRegression.train(rows, scores, highest=highest)
            for name, (rows, scores) in [*datasets.items(), ("ALL", together)]
        }
        return cls(regressions, eigenwords)

    def predict(self, dataset: str, features: Sequence[Mapping[str, float]]) -> numpy.ndarray:
        """Scores by the regression of that dataset, or by the one for all."""
        return self.regressions.get(dataset, self.regressions["ALL"]).predict(features)

    def to_payload(self) -> dict[str, Any]:
        regressions = {name: vars(regression) for name, regression in self.regressions.items()}
        return {"regressions": regressions, "eigenwords": self.eigenwords}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "SimilarityModel":
        _FORMAT.require("ALL" in read["regressions"], "regressions", "has none for all datasets")
        for name, regression in read["regressions"].items():
            n, columns = len(regression["names"]), len(regression["mean"])
            # see `expand`
            sound = columns == 3 * n + n * (n - 1) // 2 and regression["names"] == sorted(
                regression["names"]
            )
            _FORMAT.require(sound, f"regressions.{name}.names", f"does not fit {columns} columns")
            sound = regression["lowest"] <= regression["highest"]
            _FORMAT.require(sound, f"regressions.{name}.lowest", "is above the highest")
        regressions = {name: SimilarityRegression(**r) for name, r in read["regressions"].items()}
        return cls(regressions, read["eigenwords"])


def expand(columns: numpy.ndarray) -> numpy.ndarray:
    """Features, their squares, their square roots, and all products of two."""
    roots = numpy.sign(columns) * numpy.sqrt(numpy.abs(columns))
    products = [columns[:, i] * columns[:, j] for i, j in combinations(range(columns.shape[1]), 2)]
    return numpy.column_stack([columns, columns**2, roots, *products])


def _table(features: Sequence[Mapping[str, float]], names: Sequence[str]) -> numpy.ndarray:
    rows = [[pair[name] for name in names] for pair in features]
    return numpy.array(rows, dtype="float64").reshape(len(features), len(names))


def _ridge(
    columns: numpy.ndarray, gold: numpy.ndarray, penalty: float
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    mean, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = numpy.where(scale > 1e-12, scale, 1.0)
    standard = (columns - mean) / scale
    gram = standard.T @ standard + penalty * numpy.eye(standard.shape[1])
    return mean, scale, numpy.linalg.solve(gram, standard.T @ (gold - gold.mean()))


def pearson(a: Values, b: Values) -> float:
    """Pearson's correlation; 0 if one side is constant."""
    x = numpy.asarray(a, dtype="float64") - numpy.mean(a)
    y = numpy.asarray(b, dtype="float64") - numpy.mean(b)
    lengths = float(numpy.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / lengths if lengths > 0 else 0.0


def score_datasets(predicted: Mapping[str, Values], gold: Mapping[str, Values]) -> dict[str, float]:
    """The measures of SemEval-2012 task 6.

    RETURNS: Pearson's correlation for each dataset; "ALL": of all datasets put together;
        "ALLnrm": the same after the predictions of each dataset were fitted to its judgements by
        least squares; "Mean": the mean over datasets, weighted by their sizes.
    """
    names = list(gold)
    scores = {name: pearson(predicted[name], gold[name]) for name in names}
    all_gold = numpy.concatenate([gold[name] for name in names])
    scores["ALL"] = pearson(numpy.concatenate([predicted[name] for name in names]), all_gold)
    fitted = [_least_squares_fit(predicted[name], gold[name]) for name in names]
    scores["ALLnrm"] = pearson(numpy.concatenate(fitted), all_gold)
    sizes = numpy.array([len(gold[name]) for name in names], dtype="float64")
    scores["Mean"] = float(numpy.average([scores[name] for name in names], weights=sizes))
    return scores


def _least_squares_fit(predicted: Values, gold: Values) -> numpy.ndarray:
    design = numpy.column_stack([numpy.asarray(predicted, dtype="float64"), numpy.ones(len(gold))])
    return design @ numpy.linalg.lstsq(design, numpy.asarray(gold, dtype="float64"), rcond=None)[0]
