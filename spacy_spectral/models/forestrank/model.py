"""The second stage: a log-linear model of labelled trees over a parser's packed forest.

Knows nothing of spaCy.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bytes, Float, Format, List, Record, Stored, Str
from ...forest.conditions import GraphTrees
from ...trees.interface import (
    ArcMask,
    ArcProbs,
    Clusters,
    Parse,
    Parses,
    TreeDistribution,
)
from ...trees.parses import RestoredArcs, restored_arcs
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING, Tokens
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from ._engine import Engine
from .forests import Forests, decoded, forests_of, inside_probs
from .templates import TEMPLATES

# Rounds of finding arcs: of more where they make no tree, of fewer where they make too many.
_ROUNDS = 4
_SUFFIX = 2
_FORMAT = Format(
    "forest reranker",
    1,
    keys=Array("uint32", "keys", low=1, order="strict"),
    weights=Array("float32", "keys"),
    dense=Array("float64", "numbers", least=1),
    words=Array("uint32", "words", order="strict"),
    threshold=Float(above=0.0, below=1.0),
    clusters=Bytes(optional=True),
    # files of older versions have none of these, or have experts
    outside=Array("float64", 2, low=0.0, optional=True),
    experts=List(Record(name=Str(), kind=Str(), model=Bytes()), optional=True),
    temperature=Float(low=1e-2, high=1e2, optional=True),
)


class ForestReranker(Stored):
    """A trained second stage. Immutable."""

    FORMAT = _FORMAT

    def __init__(
        self,
        *,
        keys: NDArray[numpy.uint32],
        weights: NDArray[numpy.float32],
        dense: NDArray[numpy.float64],
        words: NDArray[numpy.uint32],
        clusters: Clusters | None,
        threshold: float,
        outside: NDArray[numpy.float64] | None = None,
        temperature: float = 1.0,
    ):
        """dense: The weight of the parser's log-marginals.
        words: The hashes of words that are looked at whole, ascending.
        outside: How likely right arcs are not in a forest, see `forests.fit_outside`; never by default.
        temperature: All probabilities are those of P(tree)^(1/temperature) over the trees of a forest;
        the tree is chosen by P."""
        self.outside = numpy.zeros(2) if outside is None else outside
        self.keys, self.weights, self.dense = keys, weights, dense
        self.words = words
        self.clusters = clusters
        self.threshold = threshold
        self.temperature = temperature
        self._engine = self._flat = Engine(keys, weights, dense, TEMPLATES)
        if temperature != 1:
            factor = 1 / temperature
            self._flat = Engine(keys, weights * numpy.float32(factor), dense * factor, TEMPLATES)
        self._known = frozenset(words.tolist())

    def with_temperature(self, temperature: float) -> "ForestReranker":
        """The same second stage at another temperature."""
        return ForestReranker(
            keys=self.keys,
            weights=self.weights,
            dense=self.dense,
            words=self.words,
            clusters=self.clusters,
            threshold=self.threshold,
            outside=self.outside,
            temperature=temperature,
        )

    def parse(
        self,
        tokens: Tokens,
        parses: Parses | Callable[[], Parses],
        names: Sequence[str],
        *,
        forests: Forests | None = None,
    ) -> "ForestParses":
        """Parse sentences once more, given the parser's parses, or what gives them where forests do not
        suffice."""
        base: Callable[[], Parses] = parses if callable(parses) else lambda: parses
        encoded = encode(tokens, self._known, self.clusters)
        thresholds = numpy.full(len(tokens), self.threshold)
        for rounds_left in range(_ROUNDS, -1, -1):
            if rounds_left < _ROUNDS or forests is None:
                forests = forests_of(base(), tokens.starts, names, thresholds)
            mu, log_z = self._engine.marginals(*arguments(forests, encoded))
            failed = (numpy.diff(forests.arc_starts) > 0) & ~numpy.isfinite(log_z)
            if not failed.any() or not rounds_left:
                break
            thresholds[failed] *= numpy.where(numpy.isnan(log_z[failed]), 0.1, 5.0)
            if rounds_left == 1:
                thresholds[failed] = numpy.inf  # the parser's own tree stands
        assert forests is not None
        inside = inside_probs(self.outside, forests.rest())
        chosen = decoded(forests, mu)
        if self._flat is not self._engine:
            mu, log_z = self._flat.marginals(*arguments(forests, encoded))
        return ForestParses(self._flat, encoded, forests, chosen, mu, log_z, base, inside)

    def to_payload(self) -> dict[str, Any]:
        fields = ("keys", "weights", "dense", "words", "threshold", "outside", "temperature")
        payload = {name: getattr(self, name) for name in fields}
        return payload | {"clusters": clusters_to_bytes(self.clusters), "experts": []}

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ForestReranker":
        clusters = clusters_from_bytes(read.pop("clusters"))
        if read.pop("experts"):
            raise SpectralError(Errors.S921)
        n_numbers = len(read["dense"])
        _FORMAT.require(n_numbers == 1, "dense", f"has {n_numbers}, not 1")
        if read["temperature"] is None:
            del read["temperature"]
        return cls(**read, clusters=clusters)


class ForestParses:
    """Parses by a second stage; see `trees.interface.Parses`. Sentences that it leaves alone are as the
    parser has them.
    """

    labelled = True

    def __init__(
        self,
        engine: Engine,
        tokens: NDArray[numpy.uint32],
        forests: Forests,
        chosen: NDArray[numpy.int64],
        mu: NDArray[numpy.float64],
        log_z: NDArray[numpy.float64],
        base: Callable[[], Parses],
        inside: NDArray[numpy.float64],
    ):
        """chosen: The arc of every token, -1 where a sentence is left alone.
        inside: For every token, the probability that its right arc is in the forest."""
        self._engine, self._tokens, self._forests = engine, tokens, forests
        self._log_z, self._base, self._inside = log_z, base, inside
        self._arcs = chosen
        self._mu = mu * inside[forests.token_of()]
        self._own = self._arcs >= 0
        self._inventory = Inventory(forests.names)
        if self._own.any() or not len(self._own):
            self.heads, self.labels = self._restored(forests.starts, self._arcs)
        if not self._own.all():
            heads, labels = base().heads, base().labels
            if self._own.any():
                heads = numpy.where(self._own, self.heads, heads)
                labels = numpy.where(self._own, self.labels, labels)
            self.heads, self.labels = heads, labels

    def _restored(
        self, starts: NDArray[numpy.int32], arcs: NDArray[numpy.int64]
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32]]:
        """Final heads and labels of trees; crossing arcs are restored."""
        known = arcs >= 0
        heads = numpy.where(known, self._forests.heads[arcs], 0)
        # a plain label, which asks for nothing, where there is no tree
        plain = next(i for i, name in enumerate(self._inventory.names) if "||" not in name)
        return self._inventory.restored(
            starts, heads, numpy.where(known, self._forests.labels[arcs], plain)
        )

    @cached_property
    def _head_probs(self) -> NDArray[numpy.float64]:
        """By arc: with any label."""
        forests, mu = self._forests, self._mu
        token = forests.token_of()
        new = (numpy.diff(token, prepend=-1) != 0) | (numpy.diff(forests.heads, prepend=-1) != 0)
        start = numpy.flatnonzero(new)
        if not len(start):
            return mu
        return numpy.repeat(numpy.add.reduceat(mu, start), numpy.diff(start, append=len(mu)))

    @cached_property
    def _restored_arcs(self) -> RestoredArcs:
        heads, labels, arcs = self.heads.copy(), self.labels.copy(), self._arcs[self._own]
        heads[self._own], labels[self._own] = self._forests.heads[arcs], self._forests.labels[arcs]
        return restored_arcs(self, self._forests.starts, heads, labels)

    def head_probs(self) -> NDArray[numpy.float32]:
        found = numpy.zeros(len(self._own), dtype="float32")
        if not self._own.all():
            found[:] = self._base().head_probs()
        found[self._own] = self._head_probs[self._arcs[self._own]]
        found[self._restored_arcs.tokens] = self._restored_arcs.head_probs
        return found

    def label_probs(self) -> NDArray[numpy.float32]:
        arcs = self._arcs[self._own]
        found = numpy.zeros(len(self._own), dtype="float32")
        if not self._own.all():
            found[:] = self._base().label_probs()
        found[self._own] = self._mu[arcs] / numpy.maximum(self._head_probs[arcs], 1e-12)
        found[self._restored_arcs.tokens] = self._restored_arcs.label_probs
        return found

    def log_probs(self) -> NDArray[numpy.float64]:
        # a forest of one tree: the sum is its score
        trees = self._forests.select(self._arcs[self._own])
        _, scores = self._engine.marginals(*arguments(trees, self._tokens))
        own = numpy.diff(trees.arc_starts) > 0
        # sentence by sentence: differences of sums over all would depend on the batch
        inside = numpy.log(self._inside)
        starts = self._forests.starts.tolist()
        sums = [inside[start:end].sum() for start, end in pairwise(starts)]
        logs = scores - self._log_z + numpy.array(sums)
        return logs if own.all() else numpy.where(own, logs, self._base().log_probs())

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        if self._is_left(sentence):
            return self._base().marginals(sentence)
        arcs = self._forests.arcs(sentence)
        # arcs outside have the shares that they have to the parser
        table = self._base().marginals(sentence).copy()
        places = self._forests.heads[arcs], self._forests.modifiers[arcs]
        table[places] = 0.0
        rest = numpy.maximum(table[:, 1:].sum(axis=0), 1e-300)
        table[:, 1:] *= (1.0 - self._inside[self._forests.tokens(sentence)]) / rest
        numpy.add.at(table, places, self._mu[arcs])
        return table

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        own = self._forests.arcs(sentence)
        if self._is_left(sentence):
            return self._base().arcs(sentence, labelled=labelled, min_prob=min_prob)
        heads, modifiers, labels = (
            column[own]
            for column in (self._forests.heads, self._forests.modifiers, self._forests.labels)
        )
        if labelled:
            kept = (self._mu[own] >= min_prob) & (self._mu[own] > 0)
            return ArcProbs(heads[kept], modifiers[kept], labels[kept], self._mu[own][kept])
        new = (numpy.diff(modifiers, prepend=-1) != 0) | (numpy.diff(heads, prepend=-1) != 0)
        kept = new & (self._head_probs[own] >= min_prob) & (self._head_probs[own] > 0)
        nothing = numpy.full(int(kept.sum()), MISSING, dtype="int32")
        return ArcProbs(heads[kept], modifiers[kept], nothing, self._head_probs[own][kept])

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        arcs, own = self._forests.arcs(sentence), self._forests.tokens(sentence)
        if self._is_left(sentence):
            return self._base().label_distributions(sentence)
        table = numpy.zeros((own.stop - own.start, len(self._inventory)))
        modifiers = self._forests.modifiers[arcs] - 1
        heads = self._forests.heads[self._arcs[own]]
        chosen = numpy.flatnonzero(self._forests.heads[arcs] == heads[modifiers]) + arcs.start
        given = self._mu[chosen] / numpy.maximum(self._head_probs[chosen], 1e-12)
        table[self._forests.modifiers[chosen] - 1, self._forests.labels[chosen]] = given
        return table

    def k_best(self, sentence: int, k: int, *, labelled: bool = True) -> list[Parse]:
        """The k likeliest labelled trees, found exactly: a forest has no others."""
        if self._is_left(sentence):
            return self._base().k_best(sentence, k, labelled=labelled)
        found = self._trees(sentence).k_best(k)
        own = self._forests.tokens(sentence)
        starts = (numpy.arange(len(found) + 1) * (own.stop - own.start)).astype("int32")
        flat = [
            numpy.concatenate(column) for column in zip(*(tree[:2] for tree in found), strict=True)
        ]
        heads, labels = (
            column.reshape(len(found), -1) for column in self._inventory.restored(starts, *flat)
        )
        inside = numpy.log(self._inside[own]).sum()
        logs = [tree.score - float(self._log_z[sentence]) + inside for tree in found]
        return list(map(Parse, heads, labels, logs))

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        if more is not None or self._is_left(sentence):
            return self._base().distribution(sentence, more=more, labelled=labelled)
        return self._trees(sentence)

    def _is_left(self, sentence: int) -> bool:
        """Whether a sentence is left as the parser has it."""
        return self._forests.arc_starts[sentence] == self._forests.arc_starts[sentence + 1]

    def _trees(self, sentence: int) -> GraphTrees:
        own, arcs = self._forests.tokens(sentence), self._forests.arcs(sentence)
        _, tokens, _, *columns = arguments(self._forests, self._tokens)
        heads, modifiers, hashes, dense = (column[arcs] for column in columns)
        graph, scores, arc_of = self._engine.graph(tokens[own], heads, modifiers, hashes, dense)
        labels = self._forests.labels[arcs]
        return GraphTrees(own.stop - own.start, graph, scores, heads, modifiers, labels, arc_of)


def encode(
    tokens: Tokens, words: frozenset[int], clusters: Clusters | None
) -> NDArray[numpy.uint32]:
    """uint32[tokens, 5], what features look at: hashes of tag, coarse tag and word (the end, if it is
    not among `words`); a coarse and a fine cluster."""
    result = numpy.zeros((len(tokens.words), 5), dtype="uint32")
    result[:, 0] = _hashes(tokens.symbols)
    result[:, 1] = _hashes(tokens.pos)
    whole = _hashes(tokens.words)
    result[:, 2] = [
        code if code in words else text_hash(f"~{word[-_SUFFIX:]}")
        for code, word in zip(whole, tokens.words, strict=True)
    ]
    if clusters is not None and len(tokens.words):
        ids = clusters.ids(tokens.words)
        last = ids.shape[1] - 1
        # in the middle of what there is; those without a cluster are all alike
        result[:, 3:] = ids[:, [min(1, last), min(2, last)]] + 1
    return result


def text_hash(text: str) -> int:
    """A hash of a text that is the same everywhere."""
    return crc32(text.encode("utf8"))


def _hashes(texts: Sequence[str]) -> list[int]:
    # tags are few
    known = {text: text_hash(text) for text in set(texts)}
    return [known[text] for text in texts]


def arguments(forests: Forests, tokens: NDArray[numpy.uint32]) -> tuple[NDArray, ...]:
    """What the methods of `Engine` take."""
    labels = numpy.array([text_hash(name) for name in forests.names], dtype="uint32")
    return (
        forests.starts,
        tokens,
        forests.arc_starts,
        forests.heads,
        forests.modifiers,
        labels[forests.labels],
        forests.dense,
    )
