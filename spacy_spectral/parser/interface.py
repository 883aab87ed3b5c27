"""What the component `spectral_parser` and its models agree on. Knows nothing of spaCy.

A model is made by a `Recipe` and parses whole batches: sentences lie one after the other in flat arrays.
Positions in a sentence count from 1; 0 is the root, MISSING (-1) a head that is not known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple, Protocol

import numpy
from numpy.typing import NDArray

from ..tagger.lexicon import Clusters
from ..treebank.dependency import Tree


@dataclass
class Tokens:
    """Sentences one after the other, as a parser sees them.

    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    words (List[str]): The words.
    symbols (List[str]): Their tags, or whatever the setting `symbol` names.
    second (List[str]): The tagger's second guess, with a class of its probability ("NN:2"); "" for a tag
        without a rival.
    pos, morphs (List[str]): Coarse tags and morphology, "" for none.
    """

    starts: NDArray[numpy.int32]
    words: list[str]
    symbols: list[str]
    second: list[str]
    pos: list[str]
    morphs: list[str]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def bounds(self) -> list[tuple[int, int]]:
        """RETURNS (List[Tuple[int, int]]): Where each sentence begins and ends."""
        return list(pairwise(self.starts.tolist()))

    def select(self, chosen: NDArray[numpy.bool_]) -> "Tokens":
        """chosen (ndarray): Which sentences.
        RETURNS (Tokens): Those sentences."""
        lengths = numpy.diff(self.starts)
        mask = numpy.repeat(chosen, lengths).tolist()
        columns = (self.words, self.symbols, self.second, self.pos, self.morphs)
        starts = numpy.concatenate([[0], numpy.cumsum(lengths[chosen])]).astype("int32")
        return Tokens(starts, *(list(compress(column, mask)) for column in columns))


@dataclass
class Treebank:
    """Sentences with their trees.

    tokens (Tokens): The sentences.
    heads (ndarray): int32, the head of every token; MISSING where not annotated.
    labels (List[str]): Its relation; "" where not annotated.
    """

    tokens: Tokens
    heads: NDArray[numpy.int32]
    labels: list[str]

    def trees(self) -> list[Tree]:
        """RETURNS (List[Tree]): The sentences as single trees."""
        tokens = self.tokens
        return [
            Tree(tokens.words[a:b], tokens.symbols[a:b], self.heads[a:b], self.labels[a:b])
            for a, b in tokens.bounds()
        ]

    def select(self, chosen: NDArray[numpy.bool_]) -> "Treebank":
        """chosen (ndarray): Which sentences.
        RETURNS (Treebank): Those sentences."""
        mask = numpy.repeat(chosen, numpy.diff(self.tokens.starts))
        labels = list(compress(self.labels, mask.tolist()))
        return Treebank(self.tokens.select(chosen), self.heads[mask], labels)


class Parse(NamedTuple):
    """One parse of one sentence.

    heads (ndarray): Heads, crossing arcs restored.
    labels (ndarray): Indices into the model's labels.
    log_prob (float): log P(tree | sentence).
    """

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    log_prob: float


class Parses(Protocol):
    """Parses of a batch. What costs time is a method, so that nobody pays for what is not asked for.

    heads (ndarray): int32, the head of every token, crossing arcs restored.
    labels (ndarray): int32, indices into the model's labels.
    """

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]

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
        """RETURNS (ndarray): [N+1, N+1], the probability of every arc (head, modifier), row 0 the root."""
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

    label_names (Sequence[str]): The labels, some perhaps decorated (see `treebank.dependency`).
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
