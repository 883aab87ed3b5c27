"""What a reranker looks at: numbers about whole trees, and hashed features of their parts.

Only differences between the trees of a sentence decide which is best, so every tree is described
relative to the first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...trees.sentences import Tokens
from ._features import Extractor
from .interface import ByNames, Candidates

# What the tree models are about.
KINDS = ("words", "tags", "labels")
# Groups of features: numbers about trees, and bits of the kernel's mask for hashed ones.
DENSE = {
    "base": ("log p by the parser", "the same per token", "log arc probs", "arc probs"),
    "logp": tuple(
        f"{number} of {kind}"
        for kind in KINDS
        for number in ("log |p|", "log |p| per token", "the sign of p")
    ),
}
SPARSE = {"pos": 1, "labels": 2, "words": 4, "spans": 8}
GROUPS = (*DENSE, *SPARSE)
BITS = 20
# Arcs that a parser restored or did not keep are not impossible.
_SMALLEST_PROB = 1e-3
_ROOT, _END = 0x5EED, 0xE4D


class TreeScores(Protocol):
    """A model of whole trees; see `tree_model`."""

    def encode(self, symbols: Sequence[str]) -> NDArray[numpy.int32]: ...

    def log_scores(
        self, ids: NDArray[numpy.int32], heads: NDArray[numpy.int32]
    ) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...


@dataclass
class Described:
    """The trees of one sentence, relative to the first.

    dense (ndarray): float64[k, numbers].
    starts, indices, values (ndarray): Hashed features in sparse rows, see `_features`.
    """

    dense: NDArray[numpy.float64]
    starts: NDArray[numpy.int32]
    indices: NDArray[numpy.int32]
    values: NDArray[numpy.int8]


class Features:
    """Describes candidates."""

    def __init__(self, groups: Sequence[str], models: Mapping[str, TreeScores]):
        """groups (Sequence[str]): The groups of features, of GROUPS.
        models (Mapping[str, TreeModel]): Tree models of "words", "tags" and "labels", for the group
            "logp".
        """
        unknown = [group for group in groups if group not in GROUPS]
        if unknown or not groups:
            raise ValueError(Errors.S536.format(value=unknown, choices=", ".join(GROUPS)))
        self.groups = tuple(group for group in GROUPS if group in groups)
        self.models = models
        self.n_dense = sum(len(DENSE.get(group, ())) for group in self.groups)
        self._mask = sum(SPARSE.get(group, 0) for group in self.groups)
        self._extractor = Extractor(self._mask, BITS)

    def describe(self, tokens: Tokens, candidates: Sequence[Candidates]) -> list[Described]:
        """Describe the candidates of some sentences, for learning.

        tokens (Tokens): The sentences.
        candidates (Sequence[Candidates]): The candidates of each.
        RETURNS (List[Described]): One for each sentence.
        """
        columns, names = self._columns(tokens), ByNames(_label_hashes)
        dense = self._dense(tokens, candidates)
        result = []
        for (begin, end), own, numbers in zip(tokens.bounds(), candidates, dense, strict=True):
            rows = self._extractor.extract(
                own.heads, own.labels, names(own), _framed(columns[begin:end])
            )
            result.append(Described(numbers, *rows))
        return result

    def score(
        self,
        tokens: Tokens,
        candidates: Sequence[Candidates],
        dense: NDArray[numpy.float64],
        sparse: NDArray[numpy.float32],
    ) -> list[NDArray[numpy.float64]]:
        """The same features times their weights.

        tokens (Tokens): The sentences.
        candidates (Sequence[Candidates]): The candidates of each.
        dense (ndarray): float64, a weight for each number.
        sparse (ndarray): float32[2 ** BITS], a weight for each hash.
        RETURNS (List[ndarray]): The scores of each sentence's trees.
        """
        columns, names = self._columns(tokens), ByNames(_label_hashes)
        numbers = self._dense(tokens, candidates)
        result = []
        for (begin, end), own, rows in zip(tokens.bounds(), candidates, numbers, strict=True):
            # not by BLAS, which adds in another order on every processor
            scores = (rows * dense).sum(axis=1)
            if self._mask and len(own) > 1:
                scores += self._extractor.score(
                    own.heads, own.labels, names(own), _framed(columns[begin:end]), sparse
                )
            result.append(scores)
        return result

    def _columns(self, tokens: Tokens) -> NDArray[numpy.uint32]:
        """Hashes of tags, coarse tags and words."""
        texts = (tokens.symbols, tokens.pos, tokens.words)
        columns = numpy.empty((len(tokens.words), len(texts)), dtype="uint32")
        for i, column in enumerate(texts):
            columns[:, i] = [crc32(text.encode("utf8")) for text in column]
        return columns

    def _dense(
        self, tokens: Tokens, candidates: Sequence[Candidates]
    ) -> list[NDArray[numpy.float64]]:
        columns: list[list[NDArray[numpy.float64]]] = [[] for _ in candidates]
        if "base" in self.groups:
            for own, found in zip(columns, candidates, strict=True):
                probs = numpy.maximum(found.arc_probs, _SMALLEST_PROB)
                own += [found.log_probs, found.log_probs / max(probs.shape[1], 1)]
                own += [numpy.log(probs).sum(axis=1), probs.sum(axis=1)]
        if "logp" in self.groups:
            words = self.models["words"].encode(tokens.words)
            tags = self.models["tags"].encode(tokens.symbols)
            label_ids = ByNames(self.models["labels"].encode)
            for (begin, end), own, found in zip(tokens.bounds(), columns, candidates, strict=True):
                for kind, ids in (
                    ("words", words[begin:end]),
                    ("tags", tags[begin:end]),
                    ("labels", label_ids(found)[found.labels]),
                ):
                    logs, signs = self.models[kind].log_scores(ids, found.heads)
                    own += [logs, logs / (end - begin), signs]
        result = []
        for own, found in zip(columns, candidates, strict=True):
            rows = numpy.stack(own, axis=1) if own else numpy.zeros((len(found), 0))
            result.append(rows - rows[:1])
        return result


def _label_hashes(names: Sequence[str]) -> NDArray[numpy.uint32]:
    return numpy.array([crc32(name.lower().encode("utf8")) for name in names], dtype="uint32")


def _framed(columns: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    """Columns with the root before and the end of the sentence after them."""
    framed = numpy.empty((len(columns) + 2, columns.shape[1]), dtype="uint32")
    framed[0], framed[1:-1], framed[-1] = _ROOT, columns, _END
    return framed
