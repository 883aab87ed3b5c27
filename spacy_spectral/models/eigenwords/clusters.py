"""Discrete word classes at several granularities, for models that count or hash features."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from ...base.cache import RowCache
from ...base.errors import Errors, SpectralError
from ...base.files import Bool, Int, List, Scope, loading
from ...base.linalg import kmeans
from ...trees.interface import Clusters
from .vocabulary import find_name

GRANULARITIES = (32, 128, 512, 1024)
_CACHE_SIZE = 50_000
# more would be columns of every word in every model
_GRANULARITIES = List(Int(low=1, high=1 << 30), least=1, most=64)


def cluster_words(
    vectors: numpy.ndarray,
    counts: numpy.ndarray,
    *,
    granularities: Sequence[int] = GRANULARITIES,
    seed: int = 0,
) -> numpy.ndarray:
    """Cluster words several times, coarsely and finely: one column for each number of clusters. Frequent
    words count somewhat more (logarithm); more clusters than words make no difference."""
    weights = numpy.log1p(counts.astype("float64"))
    columns = []
    for size in granularities:
        n_clusters = min(size, len(vectors))
        columns.append(kmeans(vectors, n_clusters, weights=weights, spherical=True, seed=seed))
    return numpy.stack(columns, axis=1)


class WordClusters:
    """The clusters of any word form, known or not.

    An unseen form has the clusters of its lower-cased form; failing that, of the class of rare
    words that look like it (`vocabulary.signatures`). Digits are all alike.
    """

    words_table = "eigenword_clusters"
    classes_table = "eigenword_cluster_classes"
    sizes_table = "eigenword_cluster_sizes"

    def __init__(
        self,
        words: Mapping[str, Sequence[int]],
        classes: Mapping[str, Sequence[int]],
        granularities: Sequence[int],
        *,
        lowercase: bool = False,
    ):
        """lowercase: Whether the words are lower-cased."""
        self.granularities = tuple(int(size) for size in granularities)
        self.lowercase = lowercase
        self._words = words
        self._classes = classes
        # falling back takes several look-ups
        first = (numpy.zeros((0, len(self.granularities)), dtype="int32"),)
        find = partial(_find, words, classes, len(self.granularities))
        self._cache = RowCache(find, first, size=_CACHE_SIZE)

    def ids(self, words: Sequence[str]) -> numpy.ndarray:
        """One row for every word, one column for each granularity; -1 where nothing is known."""
        rows, (table,) = self._cache(words)
        return table[rows]

    def to_lookups(self, lookups: Any) -> None:
        """Add the clusters to spaCy lookups as tables."""
        sizes = {"granularities": list(self.granularities), "lowercase": self.lowercase}
        tables = (self._words, self._classes, sizes)
        for name, table in zip(self._table_names(), tables, strict=True):
            if lookups.has_table(name):
                lookups.remove_table(name)
            lookups.add_table(name, dict(table))

    @classmethod
    def _table_names(cls) -> tuple[str, str, str]:
        return cls.words_table, cls.classes_table, cls.sizes_table

    @classmethod
    def from_lookups(cls, lookups: Any) -> "WordClusters":
        """Use the tables that `to_lookups` made."""
        names = cls._table_names()
        if not all(lookups.has_table(name) for name in names):
            raise SpectralError(Errors.S215.format(name=cls.words_table))
        words, classes, sizes = (lookups.get_table(name) for name in names)
        granularities, lowercase = sizes.get("granularities"), sizes.get("lowercase")
        scope = Scope("eigenword clusters")
        _GRANULARITIES.read(granularities, scope.inside("granularities"))
        Bool().read(lowercase, scope.inside("lowercase"))
        return cls(words, classes, granularities, lowercase=lowercase)

    @classmethod
    def from_disk(cls, path: str | Path) -> "WordClusters":
        """Read the clusters from a directory that `spacy spectral eigenwords` wrote."""
        return cls.from_lookups(read_lookups(path)).checked()

    def checked(self) -> "WordClusters":
        """These, if every word has a cluster of every granularity; spaCy's lookups come from files
        that nobody has checked."""
        sizes = numpy.array(self.granularities)
        for name, table in ((self.words_table, self._words), (self.classes_table, self._classes)):
            scope, rows = Scope("eigenword clusters", name), list(table.values())
            if not all(type(row) is list and len(row) == len(sizes) for row in rows):
                scope.fail(f"has a row without {len(sizes)} clusters")
            if not all(type(cluster) is int for row in rows for cluster in row):
                scope.fail("has clusters that are no numbers")
            # of any size: larger ones than int64 become objects
            ids = numpy.array(rows or numpy.zeros((0, len(sizes)), dtype="int64"))
            if not ((ids >= 0) & (ids < sizes)).all():
                scope.fail("has unknown clusters")
        return self


def read_lookups(path: str | Path) -> Any:
    """The lookup tables of a directory with eigenwords."""
    from spacy.lookups import Lookups

    if not (Path(path) / "vocab" / "lookups.bin").is_file():
        raise SpectralError(Errors.S216.format(path=path))
    return loading(Lookups().from_disk, f"eigenwords in '{path}'", Path(path) / "vocab", ())


def _find(
    words: Mapping[str, Sequence[int]],
    classes: Mapping[str, Sequence[int]],
    n_granularities: int,
    forms: list[str],
) -> tuple[numpy.ndarray]:
    nothing = [-1] * n_granularities
    rows = [find_name(form, words, classes, nothing) for form in forms]
    return (numpy.array(rows, dtype="int32"),)


def clusters_to_bytes(clusters: Clusters | None) -> bytes:
    """All the clusters: a model must not depend on where they came from."""
    # their own serialised form is spaCy's, and only models with clusters need it
    from spacy.lookups import Lookups

    if clusters is None:
        return b""
    lookups = Lookups()
    clusters.to_lookups(lookups)
    return lookups.to_bytes()


def clusters_from_bytes(data: bytes) -> Clusters | None:
    """Read what `clusters_to_bytes` wrote."""
    if not data:
        return None
    from spacy.lookups import Lookups

    lookups = loading(Lookups().from_bytes, "eigenword clusters", data, ())
    return WordClusters.from_lookups(lookups).checked()
