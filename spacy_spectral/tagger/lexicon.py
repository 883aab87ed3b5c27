"""What a trained tagger knows about words: its tag dictionary and its clusters."""

from collections.abc import Sequence
from typing import Protocol

import numpy

from ._features import FORM_COLUMNS, form_attributes

_DIGITS = str.maketrans("123456789", "000000000")


class Clusters(Protocol):
    """Word clusters at several granularities, e.g. `eigenwords.clusters.WordClusters`."""

    granularities: tuple[int, ...]
    words: Sequence[str]

    def ids(self, words: Sequence[str]) -> numpy.ndarray:
        """RETURNS (ndarray): int32, words x granularities, -1 where the word is not known."""
        ...


class Lexicon:
    """Attributes of words, whether seen in training or not.

    words (List[str]): The lower-cased words of the tag dictionary.
    entries (ndarray): uint32, their two attributes from the dictionary.
    cluster_words (List[str]): The words with clusters.
    cluster_ids (ndarray): int32, their clusters, -1 for none.
    """

    def __init__(
        self,
        words: list[str],
        entries: numpy.ndarray,
        cluster_words: list[str],
        cluster_ids: numpy.ndarray,
    ):
        self.words = words
        self.entries = entries
        self.cluster_words = cluster_words
        self.cluster_ids = cluster_ids
        self._word_rows = {word: i for i, word in enumerate(words)}
        self._cluster_rows = {word: i for i, word in enumerate(cluster_words)}

    @property
    def n_granularities(self) -> int:
        return self.cluster_ids.shape[1]

    def attributes(self, words: list[str]) -> numpy.ndarray:
        """RETURNS (ndarray): uint32, one row a word, all columns known from the word alone."""
        n_columns = FORM_COLUMNS + 2 + self.n_granularities
        result = numpy.zeros((len(words), n_columns), dtype="uint32")
        result[:, :FORM_COLUMNS] = form_attributes(words)
        for i, word in enumerate(words):
            row = self._word_rows.get(word.lower(), -1)
            if row >= 0:
                result[i, FORM_COLUMNS : FORM_COLUMNS + 2] = self.entries[row]
            row = self._cluster_row(word)
            if row >= 0:
                result[i, FORM_COLUMNS + 2 :] = self.cluster_ids[row] + 2
        result[:, FORM_COLUMNS + 2 :][result[:, FORM_COLUMNS + 2 :] == 1] = 0
        return result

    def _cluster_row(self, word: str) -> int:
        """Clusters are looked up by the form, without its digits, and in lower case, in this order."""
        rows = self._cluster_rows
        row = rows.get(word, -1)
        if row < 0 and rows:
            plain = word.translate(_DIGITS)
            row = rows.get(plain, -1)
            if row < 0:
                row = rows.get(plain.lower(), -1)
        return row


def known_clusters(clusters: Clusters | None) -> tuple[list[str], numpy.ndarray]:
    """The whole table of clusters, to be kept in the model.

    clusters (Optional[Clusters]): Clusters, or None for a model without.
    RETURNS (Tuple[List[str], ndarray]): Words, and int32 their clusters.
    """
    if clusters is None:
        return [], numpy.zeros((0, 0), dtype="int32")
    words = list(clusters.words)
    return words, numpy.ascontiguousarray(clusters.ids(words), dtype="int32")
