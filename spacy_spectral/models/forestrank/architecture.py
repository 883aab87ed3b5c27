"""From the forests of jack-knifed parsers to a second stage: the recipe, registered as
`spacy-spectral.ForestReranker.v1`."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from ...base.errors import Errors, SpectralError, require_settings
from ...base.learnt import architecture
from ...trees.interface import Clusters, Parses
from ...trees.pseudoprojective import projective_trees
from ...trees.sentences import Treebank
from ._learn import Learner
from .forests import fit_outside, forests_of, joined, nearest_trees
from .model import ForestReranker, arguments, encode, text_hash
from .templates import TEMPLATES

# Where the weight of the parser's own log-marginals starts; it ends near that.
_DENSE = 0.5


class ForestFold(NamedTuple):
    """Sentences, held out from the training of the parser that parsed them; `names` are its labels."""

    train: Treebank
    held_out: Treebank
    parses: Parses
    names: list[str]


@dataclass
class ForestSettings:
    """How a second stage is trained.

    threshold: How likely an arc with its label must be to be in a forest.
    folds: Blocks of the training data in jack-knifing.
    epochs: Passes over the sentences.
    learn_rate: Of AdaGrad.
    l2: Penalty of weights that a step changes.
    min_count: How often the target trees must have a feature.
    min_word_count: How often a word must occur to be looked at whole.
    seed: Seed of the order of sentences.
    experts: There are none any more: configs of earlier versions have this setting.
    """

    threshold: float = 0.01
    folds: int = 4
    epochs: int = 3
    learn_rate: float = 0.03
    l2: float = 1e-3
    min_count: int = 2
    min_word_count: int = 3
    seed: int = 0
    # Any: spaCy checks types of what stands in a dict before it has made models of it
    experts: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.experts:
            raise SpectralError(Errors.S921)
        counts = dict.fromkeys(("epochs", "min_count", "min_word_count"), ">= 1")
        others = {"folds": ">= 2", "threshold": "> 0, < 1", "learn_rate": "> 0", "l2": ">= 0"}
        require_settings(Errors.S912, self, **counts, **others, seed=">= 0")

    def fit(
        self,
        folds: Iterable[ForestFold],
        *,
        clusters: Clusters | None,
        report: Callable[[str], None],
    ) -> ForestReranker:
        """Train a second stage on all training sentences, in blocks; it keeps a copy of word clusters."""
        parts, heads, labels, held_out = [], [], [], []
        for fold in folds:
            starts = fold.held_out.tokens.starts
            thresholds = numpy.full(len(fold.held_out.tokens), self.threshold)
            parts.append(forests_of(fold.parses, starts, fold.names, thresholds))
            own_heads, own_labels = projective_trees(fold.held_out)
            heads.append(own_heads)
            labels += own_labels
            held_out.append(fold.held_out)
        forests = joined(parts)
        gold = numpy.concatenate(heads)
        target = nearest_trees(forests, gold, labels)
        if not (target >= 0).any():
            raise SpectralError(Errors.S913)
        counts = Counter(word for part in held_out for word in part.tokens.words)
        known = {text_hash(w) for w, n in counts.items() if n >= self.min_word_count}
        words = frozenset(known)
        encoded = numpy.concatenate([encode(part.tokens, words, clusters) for part in held_out])
        given = arguments(forests, encoded)
        dense = numpy.zeros(forests.dense.shape[1])
        dense[0] = _DENSE
        no_keys = numpy.zeros(0, dtype="uint32"), numpy.zeros(0, dtype="float32")
        hashes = Learner(*no_keys, dense, TEMPLATES).hashes(*given, target)
        keys, seen = numpy.unique(hashes, return_counts=True)
        del hashes
        keys = keys[seen >= self.min_count]
        learner = Learner(keys, numpy.zeros(len(keys), dtype="float32"), dense, TEMPLATES)
        learner.begin_learning(1.0)
        order = numpy.random.default_rng(self.seed)
        for epoch in range(1, self.epochs + 1):
            loss, n = learner.learn(
                *given,
                target,
                order.permutation(len(forests)).astype("int64"),
                self.learn_rate,
                self.l2,
            )
            report(f"forests, pass {epoch} of {self.epochs}: loss {loss / max(n, 1):.4f}")
        weights, dense = learner.averaged(keys)
        used = weights != 0
        return ForestReranker(
            keys=keys[used],
            weights=weights[used],
            dense=dense,
            words=numpy.array(sorted(words), dtype="uint32"),
            clusters=clusters,
            threshold=self.threshold,
            outside=fit_outside(forests, gold, labels),
        )


build_forest_reranker = architecture("forest_reranker", ForestReranker, ForestSettings)
