"""Where candidates come from: one class for each kind of parser, and what is wanted of a parser in front."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import DependencyParser
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Adam, fix_random_seed

from ..base.errors import Errors, SpectralError
from ..models.forestrank.architecture import ForestFold
from ..models.forestrank.forests import Forests, likely_arcs, of_arcs
from ..models.product.architecture import ProductRecipe
from ..models.rerank.features import Candidates, Fold, blocks
from ..trees.interface import ArcProbs, Parses
from ..trees.pseudoprojective import deprojectivize, plain
from ..trees.sentences import Batch
from .component import Wish
from .documents import TokenReader, training_treebank
from .parser import SpectralParser
from .tagger import SpectralTagger
from .training_data import annotated_by, jackknifed

Report = Callable[[str], None]

# One document's beam: heads (token indices, roots their own) and labels of each tree, probabilities.
Beam = tuple[NDArray[numpy.int64], list[list[str]], NDArray[numpy.float64]]


class Plan(NamedTuple):
    """How candidates are found by jack-knifing: how many of each sentence at most, in how many blocks;
    and passes over the sentences, for parsers whose own settings do not tell."""

    n: int
    folds: int
    epochs: int


@dataclass(frozen=True)
class BestTrees(Wish):
    """The n best trees of every sentence, none of them less likely than the best by more than the margin."""

    n: int
    margin: float

    def of(self, batch: Batch, parses: Parses, names: list[str]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = [{"trees": []} for _ in batch.docs]
        for s, doc in enumerate(docs_of(batch)):
            own = k_best(parses, s, self.n, ()).within(self.margin)
            columns = (own.heads, own.labels, own.log_probs, own.arc_probs)
            result[doc]["trees"].append(columns)
        return result

    @staticmethod
    def candidates(values: list[dict[str, Any]], names: list[str]) -> list[Candidates]:
        """The trees of all sentences, from what `of` has given."""
        shared = list(map(plain, names))
        return [
            Candidates(heads, labels, shared, log_probs, arc_probs)
            for own in values
            for heads, labels, log_probs, arc_probs in own["trees"]
        ]


@dataclass(frozen=True)
class LikelyArcs(Wish):
    """The labelled arcs of every sentence that are likely enough to be in its forest."""

    threshold: float

    def of(self, batch: Batch, parses: Parses, names: list[str]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = [
            {"threshold": self.threshold, "arcs": []} for _ in batch.docs
        ]
        sizes = numpy.diff(batch.tokens.starts).tolist()
        for s, (doc, n) in enumerate(zip(docs_of(batch), sizes, strict=True)):
            result[doc]["arcs"].append(tuple(likely_arcs(parses, s, n, self.threshold)))
        return result

    @staticmethod
    def forests(
        values: list[dict[str, Any]], batch: Batch, names: list[str], threshold: float
    ) -> Forests | None:
        """The forests of all sentences, from what `of` has given; None if the threshold was another."""
        if any(own["threshold"] != threshold for own in values):
            return None
        arcs = [ArcProbs(*columns) for own in values for columns in own["arcs"]]
        return of_arcs(arcs, batch.tokens.starts, names)


def docs_of(batch: Batch) -> NDArray[numpy.int64]:
    """The document that every sentence is in."""
    first = batch.places[batch.tokens.starts[:-1]]
    return numpy.searchsorted(batch.offsets, first, side="right") - 1


class CandidateSource:
    """Gives the candidates of sentences, and those of training sentences by jack-knifing. `kind` is the class
    of the base parser; `read` reads what a reranker sees of documents."""

    kind: type

    def __init__(self, parser: Any, read: TokenReader, *, name: str, base: str):
        self.parser, self.read = parser, read
        self._name, self._base = name, base

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        """The sentences of documents, which are not changed, and at most n candidates of each."""
        raise NotImplementedError

    def jackknife(
        self, examples: list[Example], nlp: Language | None, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        """The candidates of each block of the text, by copies of the parser that are trained without it."""
        raise NotImplementedError


class SpectralCandidates(CandidateSource):
    """The n best trees of a `spectral_parser`."""

    kind = SpectralParser
    parser: SpectralParser

    def __init__(self, parser: SpectralParser, symbol: str | None, *, name: str, base: str):
        if parser.constrain:
            raise SpectralError(Errors.S533.format(name=name, base=base))
        read = parser.read if symbol is None else TokenReader([symbol], name=name)
        super().__init__(parser, read, name=name, base=base)

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        batch, parses, labels = self.parses(docs)
        names = list(map(plain, labels))
        return batch, [k_best(parses, s, n, names) for s in range(len(batch.tokens))]

    def jackknife(
        self, examples: list[Example], nlp: Language | None, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        for fold in self.held_out(examples, nlp, folds=plan.folds, report=report):
            yield listed(fold, plan.n)

    def parses(self, docs: list[Doc]) -> tuple[Batch, Parses, list[str]]:
        """The sentences of documents, the parser's parses, and its labels."""
        batch, parses = self.parser.parse(docs)
        if self.read is not self.parser.read:
            batch = self.read(docs)
        return batch, parses, list(self.parser.grammar.label_names)

    def held_out(
        self, examples: list[Example], nlp: Language | None, *, folds: int, report: Report
    ) -> Iterator[ForestFold]:
        """The parses of each block of the text, by copies of the parser that are trained without it."""
        parser = self.parser
        if "recipe" not in parser.model.attrs:
            raise SpectralError(Errors.S543.format(name=self._name, base=parser.name))
        return self._held_out(examples, nlp, folds, report)

    def _held_out(
        self, examples: list[Example], nlp: Language | None, folds: int, report: Report
    ) -> Iterator[ForestFold]:
        parser = self.parser
        recipe = parser.model.attrs["recipe"]
        if isinstance(recipe, ProductRecipe):
            recipe = recipe.like(parser.grammar)
        treebank = parser.training_treebank(examples, nlp)
        if len(treebank.tokens) < folds:
            found = len(treebank.tokens)
            raise SpectralError(Errors.S544.format(name=self._name, folds=folds, sentences=found))
        seen = treebank
        if self.read is not parser.read:
            seen = training_treebank(examples, (eg.reference for eg in examples), self.read)
        fold_of = blocks(numpy.diff(treebank.tokens.starts), folds)
        for fold in range(folds):
            inside = fold_of == fold
            learnt = recipe.fit(
                treebank.select(~inside),
                dev=None,
                clusters=parser.grammar.clusters,
                vectors=parser.grammar.vectors,
                report=_prefixed(report, f"block {fold + 1} of {folds} held out"),
            )
            if parser.grammar.temperature is not None:
                learnt = learnt.with_temperature(parser.grammar.temperature)
            parses = learnt.parse(treebank.tokens.select(inside))
            names = list(learnt.label_names)
            yield ForestFold(seen.select(~inside), seen.select(inside), parses, names)


class BeamCandidates(CandidateSource):
    """The trees in the beam of spaCy's `beam_parser`.

    A beam is of a whole document. Its best tree tells the sentences, as in a normal parse; the
    candidates of a sentence are the different parts that trees of the beam have in its place. The
    probability of a candidate is the part of the beam that has it.
    """

    kind = DependencyParser

    def __init__(self, parser: DependencyParser, symbol: str | None, *, name: str, base: str):
        if parser.cfg["beam_width"] < 2:
            width = parser.cfg["beam_width"]
            raise SpectralError(Errors.S535.format(base=base, width=width))
        super().__init__(parser, TokenReader([symbol or "TAG"], name=name), name=name, base=base)

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        trees = beam_trees(self.parser, docs)
        starts = [sentence_starts(own[0][0], doc) for own, doc in zip(trees, docs, strict=True)]
        batch = self.read(docs, starts)
        return batch, in_sentences(batch, trees, n)

    def jackknife(
        self, examples: list[Example], nlp: Language | None, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        if nlp is None:
            raise SpectralError(Errors.S532.format(name=self._name, base=self._base))
        if any(node.name.endswith("listener") for node in self.parser.model.walk()):
            raise SpectralError(Errors.S534.format(name=self._name, base=self._base))
        docs = list(self._tagged(examples, nlp, report))
        folds = plan.folds
        fold_of = blocks(numpy.array([len(doc) for doc in docs]), folds)
        for fold in range(folds):
            inside = [i for i in range(len(docs)) if fold_of[i] == fold]
            outside = [i for i in range(len(docs)) if fold_of[i] != fold]
            train = [examples[i] for i in outside]
            held_out = [examples[i] for i in inside]
            parser = trained_copy(
                nlp,
                self._base,
                [Example(docs[i].copy(), examples[i].reference) for i in outside],
                epochs=plan.epochs,
                report=_prefixed(report, f"block {fold + 1} of {folds} held out"),
            )
            treebank = training_treebank(held_out, (docs[i] for i in inside), self.read)
            # in the gold sentences, so that candidates can be compared with gold trees
            starts = [numpy.array([t.is_sent_start for t in docs[i]], dtype=bool) for i in inside]
            batch = self.read([docs[i] for i in inside], starts)
            yield Fold(
                training_treebank(train, (docs[i] for i in outside), self.read),
                treebank,
                in_sentences(batch, beam_trees(parser, batch.docs), plan.n),
            )

    def _tagged(self, examples: list[Example], nlp: Language, report: Report) -> Iterable[Doc]:
        before = nlp.component_names[: nlp.component_names.index(self._base)]
        for name in before:
            if isinstance(nlp.get_pipe(name), SpectralTagger):
                return jackknifed(name, examples, nlp, parser=self._name, report=report)
        return annotated_by(before, examples, nlp, parser=self._name)


def candidate_source(parser: Any, base: str, symbol: str | None, *, name: str) -> CandidateSource:
    """The candidates of a parser in a pipeline. The symbol is the attribute that is a token's tag; None
    for what the parser looks at. The name of the component that asks is for errors."""
    for source in (SpectralCandidates, BeamCandidates):
        if isinstance(parser, source.kind):
            return source(parser, symbol, name=name, base=base)
    raise SpectralError(Errors.S531.format(name=name, base=base, kind=type(parser).__name__))


def listed(fold: ForestFold, n: int) -> Fold:
    """The n best trees of sentences that were held out."""
    names = list(map(plain, fold.names))
    found = [k_best(fold.parses, s, n, names) for s in range(len(fold.held_out.tokens))]
    return Fold(fold.train, fold.held_out, found)


def k_best(parses: Parses, sentence: int, n: int, names: Sequence[str]) -> Candidates:
    """The n best trees of a sentence; `names` are the labels, without decoration."""
    heads, labels, log_probs = zip(*parses.k_best(sentence, n), strict=True)
    trees = numpy.array(heads, dtype="int32")
    arc_probs = _arc_probs(parses.arcs(sentence, min_prob=1e-9), trees)
    ids = numpy.array(labels, dtype="int32")
    return Candidates(trees, ids, names, numpy.array(log_probs), arc_probs)


def _arc_probs(arcs: ArcProbs, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
    """The probability of every arc of some trees, 0 where there is none."""
    width = trees.shape[1] + 1
    known = arcs.modifiers.astype("int64") * width + arcs.heads
    wanted = numpy.arange(1, width) * width + trees
    at = numpy.minimum(numpy.searchsorted(known, wanted), len(known) - 1)
    return numpy.where(known[at] == wanted, arcs.probs[at], 0.0)


def _prefixed(report: Report, prefix: str) -> Report:
    return lambda message: report(f"{prefix}, {message}")


def beam_trees(parser: DependencyParser, docs: list[Doc]) -> list[Beam]:
    """The beam of every document."""
    width, density = parser.cfg["beam_width"], parser.cfg["beam_density"]
    result = []
    for doc in docs:
        parses = []
        if len(doc):
            # one by one: spaCy gives other, worse beams for documents of different lengths in a batch
            (beam,) = parser.beam_parse([doc], beam_width=width, beam_density=density)
            parses = parser.moves.get_beam_parses(beam)
        result.append(_beam(parses, doc))
    return result


def _beam(parses: list[tuple[float, list[tuple[int, int, str]]]], doc: Doc) -> Beam:
    n = len(doc)
    # spaCy leaves out the tree without arcs: all roots, or a single token
    rest = 1.0 - sum(prob for prob, _ in parses)
    if rest > 1e-6:
        parses = [*parses, (rest, [])]
    parses = sorted(parses, key=lambda parse: -parse[0])
    heads = numpy.tile(numpy.arange(n), (len(parses), 1))
    labels = [["ROOT"] * n for _ in parses]
    for tree, (_, arcs) in enumerate(parses):
        for head, child, label in arcs:
            heads[tree, child] = head
            labels[tree][child] = label
        _without_space(heads[tree], doc)
    return heads, labels, numpy.array([prob for prob, _ in parses])


def sentence_starts(heads: NDArray[numpy.int64], doc: Doc) -> NDArray[numpy.bool_]:
    """Where sentences of a projective tree start: where the root of words changes."""
    roots = heads
    while (heads[roots] != roots).any():
        roots = heads[roots]
    words = numpy.array([token.i for token in doc if not token.is_space], dtype="int64")
    starts = numpy.zeros(len(doc), dtype=bool)
    starts[words] = numpy.diff(roots[words], prepend=-1) != 0
    return starts


def in_sentences(batch: Batch, trees: list[Beam], n: int) -> list[Candidates]:
    """The n most probable trees that sentences have in the beams of documents."""
    names: dict[str, int] = {}
    result = []
    for (begin, end), doc in zip(batch.tokens.bounds(), docs_of(batch).tolist(), strict=True):
        tokens = batch.places[begin:end] - batch.offsets[doc]
        result.append(_part(trees[doc], tokens, n, names))
    shared = list(names)
    for candidates in result:
        candidates.names = shared
    return result


def _part(beam: Beam, tokens: NDArray[numpy.int64], n: int, names: dict[str, int]) -> Candidates:
    """The different trees that a beam has of some tokens, without others between them (white space)."""
    parts: dict[tuple[bytes, bytes], float] = {}
    for heads, labels, prob in zip(*beam, strict=True):
        tree = _tree_of(heads, tokens)
        if tree is None:
            continue
        restored, plain = deprojectivize(tree, [labels[token] for token in tokens.tolist()])
        ids = numpy.array([names.setdefault(label, len(names)) for label in plain], dtype="int32")
        key = restored.tobytes(), ids.tobytes()
        parts[key] = parts.get(key, 0.0) + prob
    order = sorted(parts, key=lambda key: -parts[key])[:n]
    trees = numpy.array(
        [numpy.frombuffer(heads, dtype="int32") for heads, _ in order], dtype="int32"
    )
    ids = numpy.array(
        [numpy.frombuffer(labels, dtype="int32") for _, labels in order], dtype="int32"
    )
    probs = numpy.array([parts[key] for key in order])
    return Candidates(
        trees.reshape(-1, len(tokens)),
        ids.reshape(-1, len(tokens)),
        (),
        numpy.log(numpy.maximum(probs, 1e-300)),
        _shares(trees, probs).reshape(-1, len(tokens)),
    )


def _shares(trees: NDArray[numpy.int32], probs: NDArray) -> NDArray[numpy.float64]:
    """The part of a beam that has each arc."""
    shares = numpy.zeros(trees.shape)
    for tree, prob in zip(trees, probs, strict=True):
        shares += prob * (trees == tree)
    return shares / max(probs.sum(), 1e-300)


def _tree_of(
    heads: NDArray[numpy.int64], tokens: NDArray[numpy.int64]
) -> NDArray[numpy.int32] | None:
    """The part of a tree on some tokens (1-based, 0 for the root); None if it is not one tree there."""
    position = numpy.zeros(len(heads), dtype="int32")
    position[tokens] = numpy.arange(1, len(tokens) + 1)
    own = heads[tokens]
    is_root = own == tokens
    if is_root.sum() != 1 or (position[own] == 0).any():
        return None
    return numpy.where(is_root, 0, position[own]).astype("int32")


def _without_space(heads: NDArray[numpy.int64], doc: Doc) -> None:
    """White space has no place in a tree: what is attached to it moves up, in place. Below a root of white
    space the first word takes its place."""
    for token in doc:
        if token.is_space:
            below = numpy.flatnonzero(heads == token.i)
            below = below[below != token.i]
            if len(below):
                heads[below] = below[0] if heads[token.i] == token.i else heads[token.i]
            heads[token.i] = token.i


def trained_copy(
    nlp: Language, name: str, examples: list[Example], *, epochs: int, report: Report
) -> DependencyParser:
    """A parser with the same settings, trained from the beginning."""
    language = type(nlp)(vocab=nlp.vocab)
    config = {key: value for key, value in nlp.get_pipe_config(name).items() if key != "factory"}
    parser = language.add_pipe(nlp.get_pipe_meta(name).factory, config=config)
    train_beam_parser(parser, language, examples, epochs=epochs, report=report)
    return parser


def train_beam_parser(
    parser: DependencyParser,
    nlp: Language,
    examples: list[Example],
    *,
    epochs: int,
    report: Report,
) -> None:
    """Train a parser of spaCy's that has no settings of its own for that."""
    fix_random_seed(0)
    order = random.Random(0)
    parser.initialize(lambda: examples, nlp=nlp)
    sgd = Adam(0.001)
    examples = list(examples)
    for epoch in range(1, epochs + 1):
        losses: dict[str, float] = {}
        order.shuffle(examples)
        for batch in minibatch(examples, 32):
            parser.update(batch, drop=0.1, sgd=sgd, losses=losses)
        report(f"epoch {epoch} of {epochs}: loss {sum(losses.values()):.1f}")
