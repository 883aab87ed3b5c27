"""Similarity of sentences (Jha, Schwartz, Ungar 2012).

    s(a,b) = a'Wb / (|a| |b|)        a, b: counts of words;  W: similarity of words, W = E E'

with E the word vectors, scaled to length 1. With W = E E', a'Wb is the product of the two sums of
vectors. The length |a| is measured in W too, |a|^2 = a'Wa, so s(a,a) = 1 and s does not grow with
the length of the sentences. (With Euclidean lengths of counts s correlated 0.14 with the
judgements of SMTeuroparl, with lengths in W 0.65.)
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy


@dataclass
class Sentence:
    """What the features need to know of a sentence, one entry per token.

    content: Whether the word is a content word.
    vectors: Rows of length 1, or of zeros for words without a vector.
    """

    words: list[str]
    bases: list[str]
    content: list[bool]
    vectors: numpy.ndarray = field(default_factory=lambda: numpy.zeros((0, 1)))
    weights: numpy.ndarray = field(default_factory=lambda: numpy.zeros(0))


def sentence_similarity(
    left: numpy.ndarray,
    right: numpy.ndarray,
    *,
    left_weights: numpy.ndarray | None = None,
    right_weights: numpy.ndarray | None = None,
) -> float:
    """s(a,b) = a'Wb / sqrt(a'Wa b'Wb), of two sentences given as rows of word vectors."""
    a = left.sum(axis=0) if left_weights is None else left_weights @ left
    b = right.sum(axis=0) if right_weights is None else right_weights @ right
    lengths = float(numpy.linalg.norm(a) * numpy.linalg.norm(b))
    return float(a @ b) / lengths if lengths > 0 else 0.0


def surface_features(a: Sentence, b: Sentence) -> dict[str, float]:
    """What can be compared without any knowledge of words."""
    words = _lower(a.words), _lower(b.words)
    numerals = [[word for word in side if any(map(str.isdigit, word))] for side in words]
    content = [_lower(_pick(s.words, s.content)) for s in (a, b)]
    bases = _lower(_pick(a.bases, a.content)), _lower(_pick(b.bases, b.content))
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
        "eigenwords": sentence_similarity(
            a.vectors, b.vectors, left_weights=a.weights, right_weights=b.weights
        ),
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


def _lower(words: Sequence[str]) -> list[str]:
    return [word.lower() for word in words]


def _pick(words: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    return [word for word, take in zip(words, chosen, strict=True) if take]
