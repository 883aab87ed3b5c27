"""What a reranker looks at: numbers about whole trees, and hashed features of their parts.

Only differences between the trees of a sentence decide which is best, so every tree is described
relative to the first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...trees.sentences import Tokens, Treebank
from ._features import extract
from .tree_model import TreeModel


@dataclass
class Candidates:
    """The k trees of one sentence that there are to choose from, all complete and different, the base
    parser's likeliest first. Labels are indices into `names`, which many sentences share; probabilities
    of trees [k] and arcs [k, n] are the base parser's."""

    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    names: Sequence[str]
    log_probs: NDArray[numpy.float64]
    arc_probs: NDArray[numpy.float64]

    def __len__(self) -> int:
        return len(self.heads)

    def within(self, margin: float) -> "Candidates":
        """Those whose log-probability is at most so much below the first's."""
        k = int((self.log_probs >= self.log_probs[:1] - margin).sum())
        return Candidates(
            self.heads[:k], self.labels[:k], self.names, self.log_probs[:k], self.arc_probs[:k]
        )

    def correct(
        self, heads: NDArray[numpy.int32], labels: Sequence[str]
    ) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]:
        """How many heads, and heads with labels, are right, by tree. Labels are compared in lower case,
        as the scorers do; MISSING and "" are never right."""
        ids = {name.lower(): i for i, name in enumerate(self.names)}
        lower = numpy.array([ids[name.lower()] for name in self.names])
        gold = numpy.array([ids.get(label.lower(), -1) for label in labels])
        right = self.heads == heads
        return right.sum(axis=1), (right & (lower[self.labels] == gold)).sum(axis=1)


class ByNames:
    """Numbers for labels, computed once for names that sentences share."""

    def __init__(self, number: Callable[[Sequence[str]], NDArray]) -> None:
        self._number = number
        self._names: Sequence[str] | None = None
        self._numbers = numpy.zeros(0)

    def __call__(self, candidates: Candidates) -> NDArray:
        if candidates.names is not self._names:
            self._names = candidates.names
            self._numbers = self._number(self._names)
        return self._numbers


@dataclass
class Fold:
    """Candidates of sentences that the parser who made them was not trained on."""

    train: Treebank
    held_out: Treebank
    candidates: list[Candidates]


def blocks(lengths: NDArray[numpy.int64], n: int) -> NDArray[numpy.int64]:
    """Part texts into contiguous blocks with about as many tokens each: neighbours resemble each other."""
    ends = numpy.cumsum(lengths)
    middles = ends - lengths / 2
    return numpy.minimum(middles * n // max(int(ends[-1:].sum()), 1), n - 1).astype("int64")


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


@dataclass
class Described:
    """The trees of some sentences, each relative to the first of its sentence: how many each sentence
    has (`sizes`), [trees, numbers], and hashed features in sparse rows, see `_features`."""

    sizes: NDArray[numpy.int64]
    dense: NDArray[numpy.float64]
    lengths: NDArray[numpy.int64]
    indices: NDArray[numpy.int32]
    values: NDArray[numpy.int8]


class Features:
    """Describes candidates."""

    def __init__(self, groups: Sequence[str], models: Mapping[str, TreeModel]):
        """models: Tree models of "words", "tags" and "labels", for the group "logp"."""
        unknown = [group for group in groups if group not in GROUPS]
        if unknown or not groups:
            raise SpectralError(Errors.S536.format(value=unknown, choices=", ".join(GROUPS)))
        self.groups = tuple(group for group in GROUPS if group in groups)
        self.models = models
        self.n_dense = sum(len(DENSE.get(group, ())) for group in self.groups)
        self._mask = sum(SPARSE.get(group, 0) for group in self.groups)

    def describe(self, tokens: Tokens, candidates: Sequence[Candidates]) -> Described:
        """Describe the candidates of some sentences."""
        columns, names = self._columns(tokens), ByNames(_label_hashes)
        nothing = [numpy.zeros(0, dtype=kind) for kind in ("int64", "int32", "int8")]
        rows = [nothing]
        for (begin, end), own in zip(tokens.bounds(), candidates, strict=True):
            framed = _framed(columns[begin:end])
            rows.append(extract(own.heads, own.labels, names(own), framed, self._mask, BITS))
        return Described(
            numpy.array([len(own) for own in candidates], dtype="int64"),
            self._dense(tokens, candidates),
            *map(numpy.concatenate, zip(*rows, strict=True)),
        )

    def _columns(self, tokens: Tokens) -> NDArray[numpy.uint32]:
        """Hashes of tags, coarse tags and words."""
        texts = (tokens.symbols, tokens.pos, tokens.words)
        columns = numpy.empty((len(tokens.words), len(texts)), dtype="uint32")
        for i, column in enumerate(texts):
            columns[:, i] = [crc32(text.encode("utf8")) for text in column]
        return columns

    def _dense(self, tokens: Tokens, candidates: Sequence[Candidates]) -> NDArray[numpy.float64]:
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
        result = [numpy.zeros((0, self.n_dense))]
        for own, found in zip(columns, candidates, strict=True):
            rows = numpy.stack(own, axis=1) if own else numpy.zeros((len(found), 0))
            result.append(rows - rows[:1])
        return numpy.concatenate(result)


def _label_hashes(names: Sequence[str]) -> NDArray[numpy.uint32]:
    return numpy.array([crc32(name.lower().encode("utf8")) for name in names], dtype="uint32")


def _framed(columns: NDArray[numpy.uint32]) -> NDArray[numpy.uint32]:
    """Columns with the root before and the end of the sentence after them."""
    framed = numpy.empty((len(columns) + 2, columns.shape[1]), dtype="uint32")
    framed[0], framed[1:-1], framed[-1] = _ROOT, columns, _END
    return framed
