"""What benchmark_rerank.py measures: right arcs with intervals, and how large forests are."""

from typing import Any

import numpy
from spacy.language import Language
from spacy.training import Example

from arc_forests import from_arcs
from spacy_spectral.forest.packed import MAX_CELLS, Plan
from spacy_spectral.models.forestrank._chart import forest_of_arcs
from spacy_spectral.models.forestrank.forests import Forests, forests_of, nearest_trees
from spacy_spectral.models.rerank.model import Reranker
from spacy_spectral.pipeline.candidates import CandidateSource, SpectralCandidates
from spacy_spectral.scorers import count
from spacy_spectral.trees.calibration import Reliability
from spacy_spectral.trees.interface import Parses
from spacy_spectral.trees.pseudoprojective import plain, projective_trees
from spacy_spectral.trees.sentences import Treebank

THRESHOLDS = (0.3, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001)
# Elimination of head variables is looked at where it is thinkable.
WIDTHS = (0.3, 0.1, 0.05, 0.02)


def counts(nlp: Language, dev: list[Example], **options: Any) -> numpy.ndarray:
    """RETURNS (ndarray): [documents, 3], tokens, right heads and right labelled arcs."""
    docs = nlp.pipe((eg.predicted.copy() for eg in dev), **options)
    rows = []
    for doc, eg in zip(docs, dev, strict=True):
        own = count([Example(doc, eg.reference)])
        rows.append((own.tokens[0], own.heads[0], own.arcs[0]))
    return numpy.array(rows)


def interval(before: numpy.ndarray, after: numpy.ndarray, column: int) -> list[float]:
    """RETURNS (List[float]): The difference of scores and its 95 % interval."""
    rng = numpy.random.default_rng(0)
    tokens, gain = before[:, 0], after[:, column] - before[:, column]
    samples = rng.integers(0, len(gain), size=(5000, len(gain)))
    differences = gain[samples].sum(axis=1) / tokens[samples].sum(axis=1)
    return [gain.sum() / tokens.sum(), *numpy.percentile(differences, [2.5, 97.5]).tolist()]


def reduction(right: dict[str, numpy.ndarray], a: str, b: str, column: int) -> float:
    """RETURNS (float): By how much of itself the error becomes smaller."""
    wrong = right[a][:, 0].sum() - right[a][:, column].sum()
    return float((right[b][:, column].sum() - right[a][:, column].sum()) / wrong)


class DevCandidates:
    """The candidates of all sentences, and which of their arcs are right."""

    def __init__(
        self, nlp: Language, source: CandidateSource, dev: list[Example], n: int, margin: float
    ):
        self.margin = margin
        self.docs = list(nlp.pipe(eg.predicted.copy() for eg in dev))
        self.batch, self.found = source(self.docs, n)
        if isinstance(source, SpectralCandidates):
            _, self.parses, self.labels = source.parses(self.docs)
        offsets, bounds = self.batch.offsets, self.batch.tokens.bounds()
        first = self.batch.places[self.batch.tokens.starts[:-1]]
        self.doc_of = numpy.searchsorted(offsets, first, side="right") - 1
        self.tokens = [len(eg.reference) for eg in dev]
        self.right, self.gold = [], []
        for (begin, end), own, i in zip(bounds, self.found, self.doc_of.tolist(), strict=True):
            places = (self.batch.places[begin:end] - offsets[i]).tolist()
            position = {place: at for at, place in enumerate(places, start=1)}
            gold = [dev[i].reference[place] for place in places]
            heads = [0 if t.head.i == t.i else position.get(t.head.i, -1) for t in gold]
            self.gold.append((numpy.array(heads), [t.dep_ for t in gold]))
            self.right.append(own.correct(*self.gold[-1]))

    def choose(self, learnt: Reranker) -> list[int]:
        """RETURNS (List[int]): What a reranker chooses in each sentence."""
        kept = [own.within(self.margin) for own in self.found]
        rankings = learnt.rank(self.batch.tokens, kept)
        return [int(own.scores.argmax()) for own in rankings]

    def best(self) -> list[int]:
        """RETURNS (List[int]): The best choice in each sentence, by LAS."""
        return [int(arcs.argmax()) for _, arcs in self.right]

    def counts(self, chosen: list[int]) -> numpy.ndarray:
        """RETURNS (ndarray): [documents, 3], tokens, right heads and right labelled arcs."""
        return self._counts(
            [[own[i] for own in both] for both, i in zip(self.right, chosen, strict=True)]
        )

    def count_trees(self, heads: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
        """RETURNS (ndarray): The same for given trees."""
        names = numpy.array([plain(name).lower() for name in self.labels])
        rows = []
        for (begin, end), (gold, deps) in zip(self.batch.tokens.bounds(), self.gold, strict=True):
            head = heads[begin:end] == gold
            label = names[labels[begin:end]] == numpy.array([dep.lower() for dep in deps])
            rows.append([head.sum(), (head & label).sum()])
        return self._counts(rows)

    def calibration(self, parses: Parses) -> float:
        """RETURNS (float): By how much probabilities of heads differ from how often these are right."""
        gold = numpy.concatenate([heads for heads, _ in self.gold])
        return Reliability.of(parses.head_probs(), parses.heads == gold).error

    def _counts(self, found: list) -> numpy.ndarray:
        rows = numpy.array(found)
        result = numpy.zeros((len(self.tokens), 3), dtype="int64")
        result[:, 0] = self.tokens
        numpy.add.at(result[:, 1:], self.doc_of, rows)
        return result


def sizes(candidates: DevCandidates) -> list[dict[str, Any]]:
    """Forests over thresholds: arcs, what the best tree could be, how many trees, widths."""
    tokens = candidates.batch.tokens
    heads = numpy.concatenate([own for own, _ in candidates.gold]).astype("int32")
    labels = [dep for _, deps in candidates.gold for dep in deps]
    heads, labels = projective_trees(Treebank(tokens, heads, labels))
    result = []
    for threshold in THRESHOLDS:
        limits = numpy.full(len(tokens), threshold)
        forests = forests_of(candidates.parses, tokens.starts, candidates.labels, limits)
        target = nearest_trees(forests, heads, labels)
        known = target >= 0
        arcs = target + numpy.repeat(forests.arc_starts[:-1], numpy.diff(forests.starts))
        # where arcs make no tree, that of the parser stands
        own_heads, own_labels = candidates.parses.heads.copy(), candidates.parses.labels.copy()
        own_heads[known] = forests.heads[arcs[known]]
        own_labels[known] = forests.labels[arcs[known]]
        found = own_heads == heads
        names = numpy.array([forests.names[i] for i in own_labels])
        both = found & (names == numpy.array(labels))
        trees, widths, tables = [], [], []
        for s in range(len(forests)):
            own = forests.arcs(s)
            n = int(forests.starts[s + 1] - forests.starts[s])
            if n == 0 or own.start == own.stop:
                continue
            # trees with labels, from arcs without: each counts as often as it has labels
            both_ends = numpy.stack([forests.modifiers[own], forests.heads[own]])
            pairs, labels_of = numpy.unique(both_ends, axis=1, return_counts=True)
            mods, governors = numpy.ascontiguousarray(pairs)
            packed = forest_of_arcs(n, governors, mods)
            if packed is not None:
                graph, parts = packed
                logs = numpy.log(labels_of)[parts[:, 3]]
                trees.append(graph.expectations(numpy.where(parts[:, 0] < 3, logs, 0.0))[0])
            if threshold in WIDTHS:
                try:
                    plan = from_arcs(n, governors, mods, numpy.zeros(len(mods))).forest.plan()
                except ValueError:  # a no-good alone is too large
                    plan = Plan((), (), 0, MAX_CELLS + 1)
                widths.append(plan.width)
                tables.append(plan.largest)
        result.append(
            {
                "threshold": threshold,
                "arcs": _pairs(forests) / len(heads),
                "labelled": len(forests.heads) / len(heads),
                "uas": float(found.sum() / len(heads)),
                "las": float(both.sum() / len(heads)),
                "trees": numpy.exp(numpy.percentile(trees, [50, 90, 99])).tolist(),
                "width": numpy.percentile(widths, [50, 90, 99, 100]).tolist() if widths else [],
                "table": numpy.percentile(tables, [90, 99, 100]).tolist() if tables else [],
            }
        )
    return result


def _pairs(forests: Forests) -> int:
    """How many arcs there are without labels."""
    new = (numpy.diff(forests.modifiers, prepend=-1) != 0) | (
        numpy.diff(forests.heads, prepend=-1) != 0
    )
    new[forests.arc_starts[:-1][numpy.diff(forests.arc_starts) > 0]] = True
    return int(new.sum())
