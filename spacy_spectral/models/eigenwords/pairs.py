"""Sentence pairs with judgements, and their features by a spaCy pipeline."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from ...base.errors import Errors
from .similarity import Sentence, eigenword_features, surface_features
from .vectors import word_vectors, word_weights

# endings that are taken off where the pipeline has no lemmatizer
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly", "'s")
_MIN_STEM = 3


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
        raise ValueError(Errors.S218.format(path=path, line="?", reason=error)) from error
    for number, line in enumerate(lines, 1):
        columns = line.split("\t")
        if len(columns) != 3:
            reason = f"it has {len(columns)} columns, not score, sentence and sentence"
            raise ValueError(Errors.S218.format(path=path, line=number, reason=reason))
        try:
            pairs.append(Pair(columns[1], columns[2], float(columns[0])))
        except ValueError as error:
            raise ValueError(Errors.S218.format(path=path, line=number, reason=error)) from error
    if not pairs:
        raise ValueError(Errors.S218.format(path=path, line=1, reason="the file is empty"))
    return pairs


def read_extra_columns(path: str | Path, n_pairs: int) -> list[dict[str, float]]:
    """Read features made elsewhere (WordNet, neural models): a TSV with a header, a line per pair."""
    with open(path, encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    if len(rows) != n_pairs:
        reason = f"there are {len(rows)} lines of numbers for {n_pairs} pairs"
        raise ValueError(Errors.S219.format(path=path, reason=reason))
    try:
        return [{f"extra:{name}": float(row[name]) for name in row} for row in rows]
    except (TypeError, ValueError) as error:
        raise ValueError(Errors.S219.format(path=path, reason=error)) from error


def pair_features(
    nlp: Language,
    pairs: Iterable[Pair],
    *,
    eigenwords: bool = True,
    extra: Iterable[dict[str, float]] | None = None,
) -> list[dict[str, float]]:
    """The features of the regression system."""
    if eigenwords and not len(nlp.vocab.vectors):
        raise ValueError(Errors.S222)
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
