"""Similarity of sentences, and the regression system (Jha, Schwartz, Ungar 2012).

    s(a,b) = a'Wb / (|a| |b|)        a, b: counts of words;  W: similarity of words, W = E E'

with E the word vectors, scaled to length 1. With W = E E', a'Wb is the product of the two sums of
vectors. The length |a| is measured in W too, |a|^2 = a'Wa, so s(a,a) = 1 and s does not grow with
the length of the sentences. (With Euclidean lengths of counts s correlated 0.14 with the
judgements of SMTeuroparl, with lengths in W 0.65.)

The system is a ridge regression over features of a pair, their squares, roots and interactions.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bool, Float, Format, Map, Record, Stored, Strings
from .vectors import word_vectors, word_weights

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
# endings that are taken off where the pipeline has no lemmatizer
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly", "'s")
_MIN_STEM = 3


@dataclass
class Sentence:
    """What the features need to know of a sentence, one entry per token; vectors have length 1, or are
    zeros for words without one."""

    words: list[str]
    bases: list[str]
    content: list[bool]
    vectors: numpy.ndarray = field(default_factory=lambda: numpy.zeros((0, 1)))
    weights: numpy.ndarray = field(default_factory=lambda: numpy.zeros(0))


def sentence_similarity(
    left: numpy.ndarray,
    right: numpy.ndarray,
    left_weights: numpy.ndarray,
    right_weights: numpy.ndarray,
) -> float:
    """s(a,b) = a'Wb / sqrt(a'Wa b'Wb), of two sentences given as rows of word vectors and their weights."""
    a, b = left_weights @ left, right_weights @ right
    lengths = float(numpy.linalg.norm(a) * numpy.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def surface_features(a: Sentence, b: Sentence) -> dict[str, float]:
    """What can be compared without any knowledge of words."""
    words = [_lower(s.words) for s in (a, b)]
    numerals = [[word for word in side if any(map(str.isdigit, word))] for side in words]
    content = [_lower(compress(s.words, s.content)) for s in (a, b)]
    bases = [_lower(compress(s.bases, s.content)) for s in (a, b)]
    lengths = len(a.words), len(b.words)
    return {
        "length": float(sum(lengths)) / 2,
        "length_difference": float(abs(lengths[0] - lengths[1])),
        "length_ratio": min(lengths) / max(*lengths, 1),
        "shared_words": _overlap(*words),
        "shared_numerals": _overlap(*numerals),
        "has_numerals": float(bool(numerals[0] or numerals[1])),
        "shared_content_words": _overlap(*content),
        "shared_base_forms": _overlap(*bases),
    }


def eigenword_features(a: Sentence, b: Sentence) -> dict[str, float]:
    """What word vectors say about two sentences."""
    products = numpy.maximum(a.vectors @ b.vectors.T, 0.0)
    return {
        "eigenwords": sentence_similarity(a.vectors, b.vectors, a.weights, b.weights),
        # the best counterpart of every word; without it two half-right words pass for a right one
        "eigenwords_aligned": (_aligned(products, a.weights) + _aligned(products.T, b.weights)) / 2,
        "eigenwords_worst": min(_worst(products, a), _worst(products.T, b)),
    }


def _aligned(products: numpy.ndarray, weights: numpy.ndarray) -> float:
    total = float(weights.sum())
    if not products.size or total <= 0:
        return 0.0
    return float(products.max(axis=1) @ weights) / total


def _worst(products: numpy.ndarray, sentence: Sentence) -> float:
    """How well the content word without a counterpart is matched."""
    rows = numpy.flatnonzero(numpy.array(sentence.content, dtype=bool))
    if not products.size or not len(rows):
        return 0.0
    return float(products[rows].max(axis=1).min())


def _overlap(a: list[str], b: list[str]) -> float:
    """Dice's coefficient of two bags of words; two empty bags are alike."""
    shared = sum((Counter(a) & Counter(b)).values())
    return 2 * shared / (len(a) + len(b)) if a or b else 1.0


def _lower(words: Iterable[str]) -> list[str]:
    return [word.lower() for word in words]


@dataclass
class Pair:
    """Two sentences and, where known, the score that people gave them."""

    left: str
    right: str
    score: float


def read_pairs(path: str | Path) -> list[Pair]:
    """Read pairs in the form of the STS tasks: score, sentence and sentence, separated by tabs."""
    pairs = []
    try:
        lines = Path(path).read_text(encoding="utf8").splitlines()
    except UnicodeDecodeError as error:
        raise SpectralError(Errors.S218.format(path=path, line="?", reason=error)) from error
    for number, line in enumerate(lines, 1):
        columns = line.split("\t")
        if len(columns) != 3:
            reason = f"it has {len(columns)} columns, not score, sentence and sentence"
            raise SpectralError(Errors.S218.format(path=path, line=number, reason=reason))
        try:
            pairs.append(Pair(columns[1], columns[2], float(columns[0])))
        except ValueError as error:
            raise SpectralError(Errors.S218.format(path=path, line=number, reason=error)) from error
    if not pairs:
        raise SpectralError(Errors.S218.format(path=path, line=1, reason="the file is empty"))
    return pairs


def read_extra_columns(path: str | Path, n_pairs: int) -> list[dict[str, float]]:
    """Read features made elsewhere (WordNet, neural models): a TSV with a header, a line per pair."""
    with open(path, encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    if len(rows) != n_pairs:
        reason = f"there are {len(rows)} lines of numbers for {n_pairs} pairs"
        raise SpectralError(Errors.S219.format(path=path, reason=reason))
    try:
        return [{f"extra:{name}": float(row[name]) for name in row} for row in rows]
    except (TypeError, ValueError) as error:
        raise SpectralError(Errors.S219.format(path=path, reason=error)) from error


def pair_features(
    nlp: Language,
    pairs: Iterable[Pair],
    *,
    eigenwords: bool = True,
    extra: Iterable[dict[str, float]] | None = None,
) -> list[dict[str, float]]:
    """The features of the regression system."""
    if eigenwords and not len(nlp.vocab.vectors):
        raise SpectralError(Errors.S222)
    pairs = list(pairs)
    docs = list(nlp.pipe(text for pair in pairs for text in (pair.left, pair.right)))
    sentences = [describe(doc, eigenwords=eigenwords) for doc in docs]
    features = []
    for a, b in zip(sentences[::2], sentences[1::2], strict=True):
        features.append(surface_features(a, b) | (eigenword_features(a, b) if eigenwords else {}))
    for pair, columns in zip(features, extra or [], strict=False):
        pair.update(columns)
    return features


def describe(doc: Doc, *, eigenwords: bool = True) -> Sentence:
    """A Doc as the features see it; whitespace and punctuation are left out."""
    tokens = [token for token in doc if not (token.is_space or token.is_punct)]
    words = [token.text for token in tokens]
    sentence = Sentence(
        words,
        [token.lemma_ or base_form(token.lower_) for token in tokens],
        [not token.is_stop for token in tokens],
    )
    if eigenwords:
        sentence.vectors = word_vectors(doc.vocab, words)
        sentence.weights = word_weights(doc.vocab, words)
    return sentence


def base_form(word: str) -> str:
    """The word without its English inflection, roughly; only equality matters."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _MIN_STEM:
            return word[: -len(suffix)].rstrip("e")
    return word.rstrip("e")


@dataclass
class SimilarityRegression:
    """A linear model over expanded features, with predictions clipped to the range of the scores."""

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
        highest: float = 5.0,
        penalties: Sequence[float] = PENALTIES,
    ) -> "SimilarityRegression":
        """Fit ridge regression to scores from 0; the penalty is the best of some in cross-validation."""
        gold = numpy.asarray(scores, dtype="float64")
        if len(gold) < _FOLDS:
            raise SpectralError(Errors.S221.format(n=len(gold), least=_FOLDS))
        names = sorted(features[0])
        columns = expand(_table(features, names))
        folds = numpy.random.default_rng(0).permutation(len(gold)) % _FOLDS
        errors = numpy.zeros(len(penalties))
        for fold in range(_FOLDS):
            inside, outside = folds != fold, folds == fold
            for i, penalty in enumerate(penalties):
                mean, scale, weights = _ridge(columns[inside], gold[inside], penalty)
                predicted = (columns[outside] - mean) / scale @ weights + gold[inside].mean()
                predicted = predicted.clip(0.0, highest)
                errors[i] += ((predicted - gold[outside]) ** 2).sum()
        penalty = float(penalties[int(errors.argmin())])
        mean, scale, weights = _ridge(columns, gold, penalty)
        return cls(names, mean, scale, weights, float(gold.mean()), 0.0, highest, penalty)

    def predict(self, features: Sequence[Mapping[str, float]]) -> numpy.ndarray:
        """The predicted score of every pair, clipped."""
        for pair in features:
            if sorted(pair) != self.names:
                raise SpectralError(Errors.S220.format(expected=self.names, found=sorted(pair)))
        columns = expand(_table(features, self.names))
        predicted = (columns - self.mean) / self.scale @ self.weights + self.intercept
        return predicted.clip(self.lowest, self.highest)


@dataclass
class SimilarityModel(Stored):
    """One regression per dataset, and one on all datasets for sentences from elsewhere."""

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
    """The measures of SemEval-2012 task 6: Pearson's correlation for each dataset; "ALL": of all put
    together; "ALLnrm": the same after the predictions of each were fitted to its judgements by least
    squares; "Mean": weighted by their sizes."""
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
