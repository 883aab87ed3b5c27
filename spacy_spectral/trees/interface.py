"""What the component `spectral_parser` and its models agree on. Knows nothing of spaCy.

A model is made by a `Recipe` and parses whole batches: sentences lie one after the other in flat arrays.
Positions in a sentence count from 1; 0 is the root, MISSING (-1) a head that is not known.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy
from numpy.typing import NDArray

from .sentences import Tokens, Treebank


class Parse(NamedTuple):
    """One parse of one sentence.

    heads (ndarray): Heads, crossing arcs restored.
    labels (ndarray): Indices into the model's labels.
    log_prob (float): log P(tree | sentence).
    """

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    log_prob: float


class ArcProbs(NamedTuple):
    """Arcs of one sentence and their probabilities, by modifier, then head, then label.

    heads, modifiers (ndarray): int32, positions.
    labels (ndarray): int32, indices into the model's labels, decorated ones included; MISSING for arcs with
        any label.
    probs (ndarray): float64, P(arc), or P(arc and label).
    """

    heads: NDArray[numpy.int32]
    modifiers: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    probs: NDArray[numpy.float64]

    def rows(self) -> list[tuple[int, int, int, float]]:
        """RETURNS (List[Tuple[int, int, int, float]]): Head, modifier, label and probability of each."""
        columns = (self.heads, self.modifiers, self.labels, self.probs)
        return list(zip(*(column.tolist() for column in columns), strict=True))


class Parses(Protocol):
    """Parses of a batch. What costs time is a method, so that nobody pays for what is not asked for.

    heads (ndarray): int32, the head of every token, crossing arcs restored.
    labels (ndarray): int32, indices into the model's labels.
    labelled (bool): Whether log-probabilities are those of labelled trees.
    """

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    labelled: bool

    def head_probs(self) -> NDArray[numpy.float32]:
        """RETURNS (ndarray): The marginal probability of every token's arc in the (projective) tree."""
        ...

    def label_probs(self) -> NDArray[numpy.float32]:
        """RETURNS (ndarray): The probability of every token's label given its head."""
        ...

    def log_probs(self) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): log P(tree | sentence) for each sentence; of the labelled tree where the
        model is about labelled trees."""
        ...

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): [N+1, N+1], the probability of every arc (head, modifier), row 0 the root. For
        long sentences ask for `arcs`: this takes 800 MB for 10,000 tokens."""
        ...

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        """The arcs of a sentence that are likely at all.

        sentence (int): Which sentence.
        labelled (bool): Whether to tell labels of arcs apart.
        min_prob (float): What is less likely is left out, and what is impossible in any case.
        RETURNS (ArcProbs): The arcs.
        """
        ...

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        """RETURNS (ndarray): [N, labels], P(label | arc) for the arcs of the parse; 0 for labels whose
        probability the model does not tell."""
        ...

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        """RETURNS (List[Parse]): The k trees with the best products of arc marginals, found exactly, in
        the order of their exact probabilities."""
        ...


class ParserModel(Protocol):
    """A trained parser.

    label_names (Sequence[str]): The labels, some perhaps decorated (see `trees.pseudoprojective`).
    decoders (Sequence[str]): What `parse` takes as `decode`.
    """

    label_names: Sequence[str]
    decoders: Sequence[str]

    def parse(
        self, tokens: Tokens, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch.

        tokens (Tokens): The sentences.
        fixed (Optional[ndarray]): int32, a head for each token that must have it, MISSING for others. A
            projective tree with these heads must exist (see `constraints.possible`).
        decode (str): One of `decoders`.
        RETURNS (Parses): The parses.
        """
        ...

    def to_bytes(self) -> bytes: ...

    @classmethod
    def from_bytes(cls, data: bytes) -> "ParserModel": ...


class Clusters(Protocol):
    """Word clusters at several granularities, see `models.eigenwords.clusters.WordClusters`."""

    granularities: tuple[int, ...]

    def ids(self, words: Sequence[str]) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): int32, words x granularities, -1 where nothing is known."""
        ...

    def to_lookups(self, lookups: Any) -> None:
        """Add the clusters to spaCy lookups as tables."""
        ...


class Recipe(Protocol):
    """The settings of an architecture, and how to train with them."""

    def fit(
        self,
        treebank: Treebank,
        *,
        dev: Treebank | None,
        clusters: Clusters | None,
        report: Callable[[str], None],
    ) -> ParserModel:
        """Train a parser. The whole training happens here.

        treebank (Treebank): The training data.
        dev (Optional[Treebank]): Sentences to stop by; models that need none pay no heed to them.
        clusters (Optional[Clusters]): Word clusters, for models that look at words.
        report (Callable[[str], None]): Told about progress.
        RETURNS (ParserModel): The trained parser.
        """
        ...
