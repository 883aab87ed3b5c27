"""The pipeline component `spectral_reranker`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors
from ..forest.conditions import Condition
from ..models.eigenwords.vectors import read_vocab, word_vectors
from ..models.forestrank.training import ForestSettings
from ..models.rerank.interface import ByNames, Candidates
from ..models.rerank.model import Ranking
from ..models.treemodel.score import TreeScore, tree_scores
from ..trees.sentences import Batch
from .annotations import (
    SentenceCandidates,
    parse_values,
    register,
    store_candidates,
    store_parse,
)
from .candidates import CandidateSource, Plan, SpectralCandidates, candidate_source
from .documents import fixed_heads, string_values, write_parse
from .forest_stage import calibrated_forests, fit_forests, parse_forests, write_forests
from .listening import Listener
from .parser import ConditionedParse, parse_under

STORABLE = ("parses",)


@dataclass
class _Sentence:
    """What `predict` hands to `set_annotations` for one sentence.

    tokens (ndarray): Its tokens' indices in the document, without white space.
    candidates (Candidates): The trees.
    ranking (Ranking): What the reranker says of them.
    """

    tokens: NDArray[numpy.int64]
    candidates: Candidates
    ranking: Ranking


class SpectralReranker(Listener):
    """Chooses among the n best parses of a parser before it, by what the parser can't see.

    The parser finds the candidates; documents that were parsed elsewhere, or not at all, are parsed for
    them. Sentence boundaries stay as the parser has them. A sentence with a single candidate, such as
    one of one token, keeps it. Tags and words that training did not have count as unknown.
    """

    def __init__(
        self,
        nlp: Language,
        model: Model,
        name: str = "spectral_reranker",
        *,
        base: str = "spectral_parser",
        n: int = 50,
        margin: float = 6.0,
        symbol: str | None = None,
        store: Sequence[str] = (),
        scorer: Callable | None = None,
    ):
        """nlp (Language): The pipeline. Sourced into others, the reranker uses the parser of each.
        model (Model): From `spacy-spectral.Reranker.v1`, which chooses from a list of trees, or
            `spacy-spectral.ForestReranker.v1`, which looks at all that are likely at all.
        name (str): The component's name in the pipeline.
        base (str): The name of the parser: a `spectral_parser` or, for lists, a `beam_parser`.
        n (int): How many candidates a sentence has at most; of a `beam_parser` as many as its beam has.
            Forests have no such limit: of their trees so many are kept, if they are.
        margin (float): Candidates are left out whose log-probability is this much below the likeliest's:
            they are hardly ever chosen, and take time.
        symbol (Optional[str]): The token attribute that is a tag. By default what a `spectral_parser`
            looks at, and TAG after a `beam_parser`.
        store (Sequence[str]): ["parses"] to keep all candidates in `span._.parses`.
        scorer (Optional[Callable]): The scoring method.
        """
        super().__init__(nlp, model, name, base=base, scorer=scorer)
        if n < 2 or not margin > 0:
            raise ValueError(Errors.S541.format(name=name, n=n, margin=margin))
        unknown = [item for item in store if item not in STORABLE]
        if unknown:
            choices = ", ".join(STORABLE)
            raise ValueError(Errors.S542.format(name=name, value=unknown, choices=choices))
        self.n = n
        self.margin = margin
        self.symbol = symbol
        self.store = list(store)
        self._is_forest = isinstance(model.attrs["recipe"], ForestSettings)
        register("spectral_reranker")

    @property
    def reranker(self) -> Any:
        """What was learnt: a `Reranker`, or a `ForestReranker`."""
        return self.learnt

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        vectors: str | Path | None = None,
        dev_corpus: str | None = None,
    ) -> None:
        """Learn from all training examples; this is the whole training.

        Copies of the base parser are trained on parts of the training data, and the reranker learns from
        what they make of the rest, so the base parser must have been trained before.

        get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
        nlp (Optional[Language]): The pipeline, for what the base parser is trained on.
        labels (Optional[Sequence[str]]): Accepted for `spacy init labels`; the base parser decides.
        vectors (Optional[Union[str, Path]]): A directory with eigenwords, for the tree model of words. By
            default it learns from the treebank alone.
        dev_corpus (Optional[str]): The corpus of the config to learn from how sure a model of forests may be,
            e.g. "corpora.dev".
        """
        examples = self.training_examples(get_examples, nlp)
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise ValueError(Errors.S117.format(name=self.name))
        recipe = self.model.attrs["recipe"]
        parser = self.find_parser([], nlp)
        if self._is_forest:
            source = self._forest_source(parser)
            whole = nlp or self.pipeline
            forests = fit_forests(source, recipe, examples, whole, report=self.report)
            if dev_corpus is not None:
                forests = calibrated_forests(source, forests, dev_corpus, whole)
                self.report(f"temperature {forests.temperature:.2f}")
            self.learn(forests)
            return
        plan = Plan(self.n, recipe.folds, recipe.parser_epochs)
        folds = self._source(parser).jackknife(examples, nlp or self.pipeline, plan, self.report)
        learnt = recipe.fit(
            folds, margin=self.margin, vectors=find_vectors(vectors), report=self.report
        )
        self.learn(learnt)

    def _source(self, parser: Any) -> CandidateSource:
        """Where candidates come from."""
        return candidate_source(parser, self.base, self.symbol, name=self.name)

    def _forest_source(self, parser: Any) -> SpectralCandidates:
        """Where forests come from."""
        found = self._source(parser)
        if not isinstance(found, SpectralCandidates):
            raise ValueError(Errors.S914.format(name=self.name, base=self.base))
        return found

    def predict(self, docs: Iterable[Doc]) -> Any:
        """Judge the candidates of documents without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (Any): What `set_annotations` writes.
        """
        docs = list(docs)
        reranker = self.reranker
        parser = self.find_parser(docs)
        if self._is_forest:
            n = self.n if self.store else 0
            return parse_forests(self._forest_source(parser), reranker, docs, n=n)
        batch, found = self._source(parser)(docs, self.n)
        candidates = [own.within(self.margin) for own in found]
        rankings = reranker.rank(batch.tokens, candidates)
        result: list[list[_Sentence]] = [[] for _ in docs]
        first = batch.places[batch.tokens.starts[:-1]]
        doc_of = numpy.searchsorted(batch.offsets, first, side="right") - 1
        for i, own in zip(doc_of.tolist(), _sentences(batch, candidates, rankings), strict=True):
            own.tokens = own.tokens - batch.offsets[i]
            result[i].append(own)
        return result

    def set_annotations(self, docs: Iterable[Doc], scores: Any) -> None:
        """Write the chosen trees to documents.

        docs (Iterable[Doc]): The documents.
        scores (Any): From `predict`.
        """
        docs = list(docs)
        if self._is_forest:
            write_forests(docs, scores)
            return
        hashes = ByNames(partial(string_values, docs))
        for doc, sentences in zip(docs, scores, strict=True):
            heads = numpy.full(len(doc), -1, dtype="int64")
            labels = numpy.zeros(len(doc), dtype="uint64")
            for own in sentences:
                best = int(own.ranking.scores.argmax())
                heads[own.tokens] = _places(own, best)
                labels[own.tokens] = hashes(own.candidates)[own.candidates.labels[best]]
            write_parse(doc, heads, labels)
            _correct_probs(doc, sentences)
            if self.store and sentences:
                names = sentences[0].candidates.names
                store_candidates(doc, names, list(map(_kept, sentences)))

    def forest_source(self, docs: Sequence[Doc]) -> SpectralCandidates:
        """RETURNS (SpectralCandidates): Where the forests of documents come from, for models of forests."""
        if not self._is_forest:
            raise ValueError(Errors.S456.format(name=self.name))
        return self._forest_source(self.find_parser(docs))

    def parse_with(self, doc: Doc, constraints: Sequence[Condition]) -> list[ConditionedParse]:
        """Parse a document under conditions, without changing it; see `SpectralParser.parse_with`. The
        distribution is that of the second stage, over the trees of its forests; if none of these meets the
        conditions, it is that of the parser.

        doc (Doc): A document with sentence boundaries and tags.
        constraints (Sequence[Condition]): Conditions on its tokens.
        RETURNS (List[ConditionedParse]): Per sentence, the likeliest labelled tree, the probabilities of its
            heads, and that of the conditions.
        """
        if not self._is_forest:
            raise ValueError(Errors.S920.format(name=self.name, base=self.base))
        batch, base, names = self._forest_source(self.find_parser([doc])).parses([doc])
        parses = self.reranker.parse(batch.tokens, base, names)
        return parse_under(batch, parses, names, constraints)

    def spectral_tree_score(self, doc: Doc) -> list[TreeScore | None]:
        """How likely the trees of a document are; nothing is parsed.

        doc (Doc): A document with sentence boundaries, tags, heads and labels.
        RETURNS (List[Optional[TreeScore]]): For every one of `doc.sents` log p(tree), how much above
            chance that is, and the probability of each token's head given the rest of the tree (white
            space left out); None where heads are missing, or there is nothing but white space.
        """
        models = getattr(self.reranker, "models", None)
        if not models:
            raise ValueError(Errors.S507.format(name=self.name))
        batch = self._source(self.find_parser([doc])).read([doc])
        labels = [doc[place].dep_ for place in batch.places.tolist()]
        found = tree_scores(models, batch.tokens, fixed_heads(batch), labels)
        first = batch.places[batch.tokens.starts[:-1]].tolist()
        by_start = {doc[i].sent.start: score for i, score in zip(first, found, strict=True)}
        return [by_start.get(sent.start) for sent in doc.sents]


def find_vectors(path: str | Path | None) -> Callable[[Sequence[str]], NDArray] | None:
    """path (Optional[Union[str, Path]]): A directory made by `spacy spectral eigenwords`.
    RETURNS (Optional[Callable]): Gives the vectors of words; None without a directory."""
    if path is None:
        return None
    vocab = read_vocab(path) if (Path(path) / "vocab").is_dir() else Vocab()
    if not vocab.vectors.shape[0]:
        raise ValueError(Errors.S216.format(path=path))
    return lambda words: word_vectors(vocab, words)


def _sentences(
    batch: Batch, candidates: Sequence[Candidates], rankings: Sequence[Ranking]
) -> Iterable[_Sentence]:
    for (begin, end), found, ranking in zip(
        batch.tokens.bounds(), candidates, rankings, strict=True
    ):
        yield _Sentence(batch.places[begin:end], found, ranking)


def _places(own: _Sentence, trees: Any) -> NDArray[numpy.int64]:
    """Heads of some of a sentence's trees as indices into the document; a root's is its own."""
    heads = own.candidates.heads[trees]
    return numpy.where(heads > 0, own.tokens[heads - 1], own.tokens)


def _correct_probs(doc: Doc, sentences: list[_Sentence]) -> None:
    """Probabilities that the base parser has stored are those of the arcs it had chosen."""
    values = parse_values(doc)
    if values is None:
        return
    for own in sentences:
        best = int(own.ranking.scores.argmax())
        if values.head_prob is not None:
            known = values.head_prob[own.tokens]
            arc_probs = own.candidates.arc_probs[best]
            values.head_prob[own.tokens] = numpy.where(numpy.isnan(known), arc_probs, known)
        if values.parse_logprob is not None:
            sentence = numpy.searchsorted(values.sents, own.tokens[0], side="right") - 1
            values.parse_logprob[sentence] = own.candidates.log_probs[best]
    store_parse(doc, values)


def _kept(own: _Sentence) -> SentenceCandidates:
    return SentenceCandidates(
        tokens=own.tokens,
        heads=_places(own, slice(None)).astype("int32"),
        labels=own.candidates.labels,
        log_probs=own.candidates.log_probs,
        scores=own.ranking.scores,
        probs=own.ranking.probs,
    )
