"""Eigenwords as learnt from a corpus: words, vectors, clusters, singular values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from .clusters import GRANULARITIES, WordClusters, cluster_words
from .estimate import Context, estimate_vectors
from .statistics import Counts
from .vocabulary import Vocabulary


@dataclass
class Eigenwords:
    """One vector of length 1 and one row of clusters per word, then per class of rare words.

    vectors: float32, (number of words and classes, k).
    singular_values: float64, k of them, from large to small.
    cluster_ids: int32, (number of words and classes, number of granularities).
    """

    vocabulary: Vocabulary
    vectors: numpy.ndarray
    singular_values: numpy.ndarray
    cluster_ids: numpy.ndarray
    granularities: tuple[int, ...]

    @classmethod
    def estimate(
        cls,
        counts: Counts,
        *,
        k: int = 100,
        window: int = 2,
        context: Context = "list",
        two_step: bool = False,
        granularities: Sequence[int] = GRANULARITIES,
        seed: int = 0,
    ) -> "Eigenwords":
        """Learn vectors and clusters from counts; the settings are those of `estimate_vectors`."""
        vectors, singular_values = estimate_vectors(
            counts, k=k, window=window, context=context, two_step=two_step, seed=seed
        )
        cluster_ids = cluster_words(
            vectors, counts.vocabulary.counts[:-1], granularities=granularities, seed=seed
        )
        vocabulary = counts.vocabulary
        return cls(vocabulary, vectors, singular_values, cluster_ids, tuple(granularities))

    @property
    def clusters(self) -> WordClusters:
        """The clusters of any word form."""
        rows: list[Any] = self.cluster_ids.tolist()
        names = self.vocabulary.names
        n_words = len(self.vocabulary.words)
        return WordClusters(
            dict(zip(names[:n_words], rows[:n_words], strict=True)),
            dict(zip(names[n_words:-1], rows[n_words:], strict=True)),
            self.granularities,
            lowercase=self.vocabulary.lowercase,
        )
