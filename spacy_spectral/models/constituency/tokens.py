"""Words as rows of attributes, for the models of spans (see `templates.COLUMNS`)."""

from collections.abc import Iterable, Sequence
from zlib import crc32

import numpy
from numpy.typing import NDArray

from ...trees.interface import Clusters
from ..linear.tagger import TaggerModel
from .templates import COARSE, COLUMNS, FINE, SECOND, SHAPE, SUFFIX, TAG, WORD
from .words import form, look, signatures

# of the granularities of clusters, which are the coarse and the fine ones
_COARSE, _FINE = 1, -2


def _number(name: str) -> int:
    return crc32(name.encode("utf8")) & 0x3FFFFFFF


class Encoder:
    """Makes rows of attributes.

    known (Iterable[str]): Forms of words that are frequent enough to be told apart.
    tagger (TaggerModel): Gives words their tags.
    clusters (Optional[Clusters]): Word clusters.
    """

    def __init__(self, known: Iterable[str], tagger: TaggerModel, clusters: Clusters | None):
        self.known = frozenset(known)
        self.tagger = tagger
        self.clusters = clusters

    def words(self, words: Sequence[str]) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): int32, [words, columns], what words alone tell; tags are 0."""
        index: dict[str, int] = {}
        rows: list[list[int]] = []
        at = numpy.empty(len(words), dtype="int64")
        for i, word in enumerate(words):
            place = index.get(word)
            if place is None:
                place = index[word] = len(rows)
                rows.append(self._describe(form(word)))
            at[i] = place
        table = numpy.array(rows, dtype="int32").reshape(len(rows), len(COLUMNS))
        if self.clusters is not None and rows:
            ids = self.clusters.ids([form(word) for word in index]) + 1
            table[:, COARSE] = ids[:, min(_COARSE, ids.shape[1] - 1)]
            table[:, FINE] = ids[:, max(_FINE, -ids.shape[1])]
        return table[at]

    def _describe(self, word: str) -> list[int]:
        row = [0] * len(COLUMNS)
        row[WORD] = _number(word if word in self.known else "|" + signatures(word)[2])
        row[SUFFIX] = _number(word.lower()[-3:])
        row[SHAPE] = _number(look(word))
        return row

    def __call__(self, words: Sequence[str], starts: NDArray[numpy.int64]) -> NDArray[numpy.int32]:
        """Describe sentences.

        words (Sequence[str]): The words.
        starts (ndarray): Where sentences start.
        RETURNS (ndarray): int32, [words, columns].
        """
        result = self.words(words)
        if len(words):
            known = self.tagger.words(words)
            tagging = self.tagger.tag_words(known, starts.astype("int32"), top=2)
            fill_tags(result, tagging.tags, tagging.probs)
        return result


def fill_tags(
    rows: NDArray[numpy.int32], tags: NDArray[numpy.int32], probs: NDArray[numpy.float32]
) -> None:
    """Write the best tags of words, and the second where the tagger is in doubt.

    rows (ndarray): What is written to.
    tags, probs (ndarray): [words, 2], numbers of tags and their probabilities.
    """
    rows[:, TAG] = tags[:, 0] + 1
    if tags.shape[1] > 1:
        doubt = numpy.digitize(probs[:, 1], [0.02, 0.2])
        rows[:, SECOND] = numpy.where(
            (doubt > 0) & (tags[:, 1] >= 0), 4 * (tags[:, 1] + 1) + doubt, 0
        )
