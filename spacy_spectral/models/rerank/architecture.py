"""From jack-knifed candidates to a reranker: the recipe, registered as `spacy-spectral.Reranker.v1`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError, require_choice, require_settings
from ...base.learnt import architecture
from ...trees.sentences import MISSING, Treebank
from .features import GROUPS, Features, Fold
from .learn import LEARNERS, fit_loglinear, fit_perceptron, make_lists
from .model import Reranker
from .tree_estimate import TreeSettings, estimate_tree_model
from .tree_model import TreeModel

# Vectors of words; None to learn them from the treebank.
Vectors = Callable[[Sequence[str]], NDArray] | None


@dataclass
class Settings:
    """How a reranker is trained.

    learner: "loglinear" or "perceptron".
    features: Groups of features.
    states: Hidden states of the tree models.
    folds: Blocks of the training data in jack-knifing.
    l2, sharpness, max_iterations: See `learn.fit_loglinear`.
    epochs, seed: See `learn.fit_perceptron`.
    parser_epochs: Passes over the sentences when a copy of a `beam_parser` is trained.
    """

    learner: str = "loglinear"
    features: Sequence[str] = GROUPS
    states: int = TreeSettings.states
    folds: int = 3
    l2: float = 100.0
    sharpness: float = 1.0
    max_iterations: int = 60
    epochs: int = 5
    seed: int = 0
    parser_epochs: int = 10

    def __post_init__(self) -> None:
        Features(self.features, {})  # complains about unknown groups
        require_choice(Errors.S538, self.learner, LEARNERS)
        counts = dict.fromkeys(("states", "max_iterations", "epochs", "parser_epochs"), ">= 1")
        others = {"folds": ">= 2", "l2": "> 0", "sharpness": "> 0", "seed": ">= 0"}
        require_settings(Errors.S539, self, **counts, **others)

    def fit(
        self,
        folds: Iterable[Fold],
        *,
        margin: float,
        vectors: Vectors,
        report: Callable[[str], None],
    ) -> Reranker:
        """Train a reranker on all training sentences, in blocks."""
        described, gains, blocks = [], [], []
        for fold in folds:
            # a tree model that has seen a sentence's tree would be trusted too much
            models = self._tree_models([fold.train], vectors)
            treebank = fold.held_out
            found = [own.within(margin) for own in fold.candidates]
            # without a choice or a gold tree there is nothing to learn
            usable = numpy.array([len(own) > 1 for own in found], dtype=bool)
            usable &= _annotated(treebank)
            kept = [own for own, use in zip(found, usable.tolist(), strict=True) if use]
            chosen = treebank.select(usable)
            described.append(Features(self.features, models).describe(chosen.tokens, kept))
            bounds = chosen.tokens.bounds()
            for (begin, end), own in zip(bounds, kept, strict=True):
                gold = chosen.heads[begin:end], chosen.labels[begin:end]
                gains.append(own.correct(*gold)[1])
            blocks.append(treebank)
        if not gains:
            raise SpectralError(Errors.S537)
        lists = make_lists(described, gains)
        report(f"{len(lists)} sentences with {len(lists.gains)} candidates")
        weights = (
            fit_perceptron(lists, epochs=self.epochs, seed=self.seed, report=report)
            if self.learner == "perceptron"
            else fit_loglinear(
                lists,
                l2=self.l2,
                sharpness=self.sharpness,
                max_iterations=self.max_iterations,
                report=report,
            )
        )
        return Reranker(self.features, self._tree_models(blocks, vectors), weights)

    def _tree_models(self, parts: list[Treebank], vectors: Vectors) -> dict[str, TreeModel]:
        if "logp" not in self.features:
            return {}
        trees = [tree for part in parts for tree in part.trees()]
        settings = TreeSettings(states=self.states)
        dictionary = None
        if vectors is not None:
            words = sorted({word for tree in trees for word in tree.words})
            dictionary = words, vectors(words)
        return {
            "words": estimate_tree_model(
                ((tree.words, tree.heads) for tree in trees),
                dictionary=dictionary,
                settings=settings,
            ),
            "tags": estimate_tree_model(
                ((tree.symbols, tree.heads) for tree in trees), words=False, settings=settings
            ),
            "labels": estimate_tree_model(
                ((tree.labels, tree.heads) for tree in trees), words=False, settings=settings
            ),
        }


def _annotated(treebank: Treebank) -> NDArray[numpy.bool_]:
    """Which sentences have a complete tree."""
    missing = numpy.concatenate([[0], numpy.cumsum(treebank.heads == MISSING)])
    starts = treebank.tokens.starts
    return missing[starts[1:]] == missing[starts[:-1]]


build_reranker = architecture("reranker", Reranker, Settings)
