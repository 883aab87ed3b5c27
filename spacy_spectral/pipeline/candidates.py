"""Where candidates come from: one class for each kind of parser. A new kind is one more in SOURCES."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import DependencyParser
from spacy.tokens import Doc
from spacy.training import Example

from ..base.errors import Errors
from ..models.forestrank.training import ForestFold
from ..models.product.architecture import ProductRecipe
from ..models.rerank.interface import Candidates, Fold, blocks
from ..trees.interface import ArcProbs, Parses
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .beams import beam_trees, in_sentences, sentence_starts, trained_copy
from .documents import TokenReader, training_treebank
from .parser import SpectralParser
from .tagger import SpectralTagger
from .training_data import annotated_by, jackknifed

Report = Callable[[str], None]


class Plan(NamedTuple):
    """How candidates are found by jack-knifing.

    n (int): How many candidates a sentence has at most.
    folds (int): How many blocks.
    epochs (int): Passes over the sentences, for parsers whose own settings do not tell.
    """

    n: int
    folds: int
    epochs: int


class CandidateSource(Protocol):
    """Gives the candidates of sentences, and those of training sentences by jack-knifing.

    read (TokenReader): Reads what a reranker sees of documents.
    """

    read: TokenReader

    def __init__(self, parser: Any, symbol: str | None, *, name: str, base: str):
        """parser (Any): The base parser.
        symbol (Optional[str]): The attribute that is a token's tag; None for what the parser looks at.
        name (str): The component that asks, for error messages.
        base (str): The name of the parser in the pipeline.
        """
        ...

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        """docs (List[Doc]): The documents; they are not changed.
        n (int): How many candidates a sentence has at most.
        RETURNS (Tuple[Batch, List[Candidates]]): Their sentences, and the candidates of each.
        """
        ...

    def jackknife(
        self, examples: list[Example], nlp: Language, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        """Train copies of the parser, each without a contiguous block of the text.

        examples (List[Example]): The training examples; they are not changed.
        nlp (Language): The pipeline of the parser.
        plan (Plan): How.
        report (Callable[[str], None]): Told how far it has come.
        YIELDS (Fold): The candidates of each block.
        """
        ...


class SpectralCandidates:
    """The n best trees of a `spectral_parser`; see `CandidateSource`."""

    kind = SpectralParser

    def __init__(self, parser: SpectralParser, symbol: str | None, *, name: str, base: str):
        if parser.constrain:
            raise ValueError(Errors.S533.format(name=name, base=base))
        self.parser = parser
        self._name = name
        self.read = parser.read if symbol is None else TokenReader([symbol], name=name)

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        batch, parses, labels = self.parses(docs)
        names = list(map(plain, labels))
        return batch, [k_best(parses, s, n, names) for s in range(len(batch.tokens))]

    def jackknife(
        self, examples: list[Example], nlp: Language, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        for fold in self.held_out(examples, nlp, folds=plan.folds, report=report):
            yield listed(fold, plan.n)

    def parses(self, docs: list[Doc]) -> tuple[Batch, Parses, list[str]]:
        """docs (List[Doc]): The documents; they are not changed.
        RETURNS (Tuple[Batch, Parses, List[str]]): Their sentences, the parser's parses, its labels."""
        batch, parses = self.parser.take_parses(docs) or self.parser.parse(docs)
        if self.read is not self.parser.read:
            batch = self.read(docs)
        return batch, parses, list(self.parser.grammar.label_names)

    def held_out(
        self, examples: list[Example], nlp: Language, *, folds: int, report: Report
    ) -> Iterator[ForestFold]:
        """Train copies of the parser, each without a contiguous block of the text.

        examples (List[Example]): The training examples; they are not changed.
        nlp (Language): The pipeline of the parser.
        folds (int): How many blocks.
        report (Callable[[str], None]): Told how far it has come.
        YIELDS (ForestFold): What they make of each block.
        """
        parser = self.parser
        if "recipe" not in parser.model.attrs:
            raise ValueError(Errors.S543.format(name=self._name, base=parser.name))
        recipe = parser.model.attrs["recipe"]
        if isinstance(recipe, ProductRecipe):
            recipe = recipe.like(parser.grammar)
        treebank = parser.training_treebank(examples, nlp)
        if len(treebank.tokens) < folds:
            found = len(treebank.tokens)
            raise ValueError(Errors.S544.format(name=self._name, folds=folds, sentences=found))
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
            parses = learnt.parse(treebank.tokens.select(inside), decode=parser.decode)
            names = list(learnt.label_names)
            yield ForestFold(seen.select(~inside), seen.select(inside), parses, names)


class BeamCandidates:
    """The trees in the beam of spaCy's `beam_parser`; see `CandidateSource`.

    A beam is of a whole document. Its best tree tells the sentences, as in a normal parse; the
    candidates of a sentence are the different parts that trees of the beam have in its place. The
    probability of a candidate is the part of the beam that has it.
    """

    kind = DependencyParser

    def __init__(self, parser: DependencyParser, symbol: str | None, *, name: str, base: str):
        if parser.cfg["beam_width"] < 2:
            width = parser.cfg["beam_width"]
            raise ValueError(Errors.S535.format(base=base, width=width))
        self.parser = parser
        self._name, self._base = name, base
        self.read = TokenReader([symbol or "TAG"], name=name)

    def __call__(self, docs: list[Doc], n: int) -> tuple[Batch, list[Candidates]]:
        trees = beam_trees(self.parser, docs)
        starts = [sentence_starts(own[0][0], doc) for own, doc in zip(trees, docs, strict=True)]
        batch = self.read(docs, starts)
        return batch, in_sentences(batch, trees, n)

    def jackknife(
        self, examples: list[Example], nlp: Language, plan: Plan, report: Report
    ) -> Iterator[Fold]:
        if any(node.name.endswith("listener") for node in self.parser.model.walk()):
            raise ValueError(Errors.S534.format(name=self._name, base=self._base))
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


SOURCES: tuple[Any, ...] = (SpectralCandidates, BeamCandidates)


def candidate_source(parser: Any, base: str, symbol: str | None, *, name: str) -> CandidateSource:
    """The candidates of a parser in a pipeline.

    parser (Any): The parser.
    base (str): Its name in the pipeline.
    symbol (Optional[str]): See `CandidateSource`.
    name (str): The component that asks, for error messages.
    RETURNS (CandidateSource): Gives the candidates.
    """
    for source in SOURCES:
        if isinstance(parser, source.kind):
            return source(parser, symbol, name=name, base=base)
    raise ValueError(Errors.S531.format(name=name, base=base, kind=type(parser).__name__))


def listed(fold: ForestFold, n: int) -> Fold:
    """RETURNS (Fold): The n best trees of sentences that were held out."""
    names = list(map(plain, fold.names))
    sentences = range(len(fold.held_out.tokens))
    found = [k_best(fold.parses, s, n, names) for s in sentences]
    return Fold(fold.train, fold.held_out, found)


def k_best(parses: Parses, sentence: int, n: int, names: list[str]) -> Candidates:
    """The n best trees of a sentence.

    parses (Parses): The parses of some.
    sentence (int): Which.
    n (int): How many at most.
    names (List[str]): The labels, without decoration.
    RETURNS (Candidates): The trees.
    """
    heads, labels, log_probs = zip(*parses.k_best(sentence, n), strict=True)
    trees = numpy.array(heads, dtype="int32")
    arc_probs = _arc_probs(parses.arcs(sentence, min_prob=1e-9), trees)
    ids = numpy.array(labels, dtype="int32")
    return Candidates(trees, ids, names, numpy.array(log_probs), arc_probs)


def _arc_probs(arcs: ArcProbs, trees: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): The probability of every arc of some trees, 0 where there is none."""
    width = trees.shape[1] + 1
    known = arcs.modifiers.astype("int64") * width + arcs.heads
    wanted = numpy.arange(1, width) * width + trees
    at = numpy.minimum(numpy.searchsorted(known, wanted), len(known) - 1)
    return numpy.where(known[at] == wanted, arcs.probs[at], 0.0)


def _prefixed(report: Report, prefix: str) -> Report:
    return lambda message: report(f"{prefix}, {message}")
