"""What a trained tagger knows about words: its tag dictionary and its clusters."""

import numpy

from ...trees.interface import Clusters
from ._features import FORM_COLUMNS, form_attributes


class Lexicon:
    """Attributes of words, whether seen in training or not.

    words (List[str]): The lower-cased words of the tag dictionary.
    entries (ndarray): uint32, their two attributes from the dictionary.
    clusters (Optional[Clusters]): Word clusters.
    """

    def __init__(self, words: list[str], entries: numpy.ndarray, clusters: Clusters | None = None):
        self.words = words
        self.entries = entries
        self.clusters = clusters
        self._rows = {word: i for i, word in enumerate(words)}

    @property
    def n_granularities(self) -> int:
        return len(self.clusters.granularities) if self.clusters is not None else 0

    def attributes(self, words: list[str]) -> numpy.ndarray:
        """RETURNS (ndarray): uint32, one row a word, all columns known from the word alone."""
        result = numpy.zeros((len(words), FORM_COLUMNS + 2 + self.n_granularities), dtype="uint32")
        result[:, :FORM_COLUMNS] = form_attributes(words)
        rows = numpy.array([self._rows.get(word.lower(), -1) for word in words], dtype="int64")
        known = rows >= 0
        result[known, FORM_COLUMNS : FORM_COLUMNS + 2] = self.entries[rows[known]]
        if self.clusters is not None and words:
            ids = self.clusters.ids(words)
            # 0 is "none" and 1 is "beyond the sentence"
            result[:, FORM_COLUMNS + 2 :] = numpy.where(ids >= 0, ids + 2, 0)
        return result
