"""The component `spectral_reranker` with a model that looks at whole packed forests."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..models.forestrank.model import ForestParses, ForestReranker
from ..models.forestrank.training import ForestSettings
from ..trees.calibration import fit_sharpness, some_sentences
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .annotations import SentenceCandidates, store_candidates, store_parse
from .candidates import SpectralCandidates
from .documents import string_values, write_parse
from .views import Prediction, predictions


@dataclass
class ForestPrediction:
    """What is written to some documents.

    names (List[str]): The parser's labels.
    documents (List[Prediction]): The parse of each.
    is_kept (bool): Whether probabilities are kept, as the parser keeps them.
    candidates (Optional[List[List[SentenceCandidates]]]): The likeliest trees of each document's sentences.
    """

    names: list[str]
    documents: list[Prediction]
    is_kept: bool
    candidates: list[list[SentenceCandidates]] | None


def fit_forests(
    source: SpectralCandidates,
    recipe: ForestSettings,
    examples: list[Example],
    nlp: Language,
    *,
    report: Callable[[str], None],
) -> ForestReranker:
    """Train a second stage on what copies of the parser make of sentences they were not trained on.

    source (SpectralCandidates): The parser.
    recipe (ForestSettings): How to train.
    examples (List[Example]): The training examples; they are not changed.
    nlp (Language): The pipeline of the parser.
    report (Callable[[str], None]): Told how far it has come.
    RETURNS (ForestReranker): The second stage.
    """
    folds = source.held_out(examples, nlp, folds=recipe.folds, report=report)
    clusters = source.parser.grammar.clusters
    return recipe.fit(folds, clusters=clusters, report=report)


def calibrated_forests(
    source: SpectralCandidates, reranker: ForestReranker, corpus: str, nlp: Language
) -> ForestReranker:
    """Make a second stage as sure as it should be.

    source (SpectralCandidates): The parser.
    reranker (ForestReranker): The second stage.
    corpus (str): The corpus of the config with sentences that neither was trained on.
    nlp (Language): The pipeline of the parser.
    RETURNS (ForestReranker): The same with another temperature; as it is if the corpus has no trees, or
        another symbol is looked at than the parser's.
    """
    treebank = source.parser.development_treebank(nlp, corpus)
    if treebank is None or source.read is not source.parser.read:
        return reranker
    treebank = some_sentences(treebank)
    grammar = source.parser.grammar
    base = grammar.parse(treebank.tokens, decode=source.parser.decode)
    names = list(grammar.label_names)

    def parse(temperature: float) -> ForestParses:
        return reranker.with_temperature(temperature).parse(treebank.tokens, base, names)

    return reranker.with_temperature(fit_sharpness(parse, treebank, names))


def parse_forests(
    source: SpectralCandidates, reranker: ForestReranker, docs: list[Doc], *, n: int
) -> ForestPrediction:
    """Parse documents once more.

    source (SpectralCandidates): The parser.
    reranker (ForestReranker): The second stage.
    docs (List[Doc]): The documents; they are not changed.
    n (int): How many trees of each sentence are kept; 0 for none.
    RETURNS (ForestPrediction): What is to be written.
    """
    batch, base, names = source.parses(docs)
    parses = reranker.parse(batch.tokens, base, names)
    store = source.parser.store
    candidates = _candidates(batch, parses, n) if n else None
    return ForestPrediction(names, predictions(batch, parses, store), bool(store), candidates)


def write_forests(docs: list[Doc], found: ForestPrediction) -> None:
    """Write parses to documents.

    docs (List[Doc]): The documents.
    found (ForestPrediction): From `parse_forests`.
    """
    names = list(map(plain, found.names))
    hashes = string_values(docs, names)
    for i, (doc, prediction) in enumerate(zip(docs, found.documents, strict=True)):
        write_parse(doc, prediction.heads, hashes[prediction.labels])
        if found.is_kept and len(doc):
            store_parse(doc, prediction.values)
        if found.candidates is not None and found.candidates[i]:
            store_candidates(doc, names, found.candidates[i])


def _candidates(batch: Batch, parses: ForestParses, n: int) -> list[list[SentenceCandidates]]:
    result: list[list[SentenceCandidates]] = [[] for _ in batch.docs]
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        place = int(batch.places[begin])
        doc = int(numpy.searchsorted(batch.offsets, place, side="right")) - 1
        tokens = batch.places[begin:end] - batch.offsets[doc]
        found = parses.k_best(s, n)
        heads = numpy.array([parse.heads for parse in found])
        logs = numpy.array([parse.log_prob for parse in found])
        own = SentenceCandidates(
            tokens=tokens,
            heads=numpy.where(heads > 0, tokens[heads - 1], tokens).astype("int32"),
            labels=numpy.array([parse.labels for parse in found], dtype="int32"),
            log_probs=logs,
            scores=logs - logs.max(),
            probs=numpy.exp(logs),
        )
        result[doc].append(own)
    return result
