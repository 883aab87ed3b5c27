"""What a trained tagger knows about words: its tag dictionary and its clusters."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy

from ..errors import Errors
from ._features import FORM_COLUMNS, form_attributes


class Clusters(Protocol):
    """Word clusters at several granularities, see `eigenwords.clusters.WordClusters`."""

    granularities: tuple[int, ...]

    def ids(self, words: Sequence[str]) -> numpy.ndarray:
        """RETURNS (ndarray): int32, words x granularities, -1 where nothing is known."""
        ...

    def to_lookups(self, lookups: Any) -> None:
        """Add the clusters to spaCy lookups as tables."""
        ...


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


def clusters_to_bytes(clusters: Clusters | None) -> bytes:
    """RETURNS (bytes): All the clusters: a model must not depend on where they came from."""
    # their own serialised form is spaCy's, and only models with clusters need it
    from spacy.lookups import Lookups

    if clusters is None:
        return b""
    lookups = Lookups()
    clusters.to_lookups(lookups)
    return lookups.to_bytes()


def clusters_from_bytes(data: bytes) -> Clusters | None:
    """Read what `clusters_to_bytes` wrote.

    data (bytes): The serialised clusters.
    RETURNS (Optional[Clusters]): The clusters.
    """
    if not data:
        return None
    try:
        from spacy.lookups import Lookups

        from ..eigenwords.clusters import WordClusters

        lookups = Lookups().from_bytes(data)
        clusters = WordClusters.from_lookups(lookups)
        for name in (WordClusters.words_table, WordClusters.classes_table):
            for ids in lookups.get_table(name).values():
                if len(ids) != len(clusters.granularities) or not 0 <= min(ids) <= max(ids) < 2**30:
                    raise ValueError(name)
    except Exception as error:
        raise ValueError(Errors.S002.format(what="tagger", reason="bad 'clusters'")) from error
    return clusters
