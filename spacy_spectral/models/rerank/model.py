"""The reranker: tree models, features and their weights. Knows nothing of spaCy."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.files import Array, Bytes, Format, List, Map, Stored, Str
from ...trees.sentences import Tokens
from ._features import times
from .features import BITS, GROUPS, KINDS, Candidates, Features
from .learn import Weights, softmax
from .tree_model import TreeModel

_WEIGHT: dict[str, Any] = {"low": -1e6, "high": 1e6}
_FORMAT = Format(
    "reranker",
    1,
    groups=List(Str(choices=GROUPS), least=1, unique=True),
    models=Map(Bytes()),
    dense=Array("float64", "dense", **_WEIGHT),
    used=Array("uint32", "used", below=1 << BITS, order="strict"),
    sparse=Array("float32", "used", **_WEIGHT),
)


class Ranking(NamedTuple):
    """The scores of a sentence's candidates, relative to the first, and the probability of each of being
    the best of the list."""

    scores: NDArray[numpy.float64]
    probs: NDArray[numpy.float64]


class Reranker(Stored):
    """A trained reranker."""

    FORMAT = _FORMAT

    def __init__(self, groups: Sequence[str], models: Mapping[str, TreeModel], weights: Weights):
        """models: Tree models by what they are about, see `Features`."""
        self.models = dict(models)
        self.weights = weights
        self.features = Features(groups, self.models)

    def rank(self, tokens: Tokens, candidates: Sequence[Candidates]) -> list[Ranking]:
        """Judge the candidates of some sentences."""
        # where there is nothing to choose, there is nothing to compute
        several = numpy.array([len(own) > 1 for own in candidates], dtype=bool)
        kept = [own for own in candidates if len(own) > 1]
        rows = self.features.describe(tokens.select(several), kept)
        starts = numpy.cumsum([0, *rows.lengths])
        # not by BLAS, which adds in another order on every processor
        scores = (rows.dense * self.weights.dense).sum(axis=1)
        scores += times(starts, rows.indices, rows.values, self.weights.sparse)
        starts = numpy.cumsum([0, *rows.sizes])
        probs = softmax(scores, starts)[0]
        found = (
            Ranking(scores[begin:end], probs[begin:end]) for begin, end in pairwise(starts.tolist())
        )
        alone = Ranking(numpy.zeros(1), numpy.ones(1))
        return [next(found) if choice else alone for choice in several.tolist()]

    def to_payload(self) -> dict[str, Any]:
        used = numpy.flatnonzero(self.weights.sparse).astype("uint32")
        return {
            "groups": list(self.features.groups),
            "models": {kind: self.models[kind].to_bytes() for kind in sorted(self.models)},
            "dense": self.weights.dense,
            "used": used,
            "sparse": self.weights.sparse[used],
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "Reranker":
        needed = set(KINDS) if "logp" in read["groups"] else set()
        _FORMAT.require(set(read["models"]) == needed, "models", "does not fit the groups")
        sparse = numpy.zeros(1 << BITS, dtype="float32")
        sparse[read["used"]] = read["sparse"]
        models = {kind: TreeModel.from_bytes(own) for kind, own in read["models"].items()}
        result = cls(read["groups"], models, Weights(read["dense"], sparse))
        n_dense = result.features.n_dense
        _FORMAT.require(len(read["dense"]) == n_dense, "dense", f"needs {n_dense} entries")
        return result
