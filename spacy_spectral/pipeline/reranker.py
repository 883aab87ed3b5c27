"""The pipeline component `spectral_reranker`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError
from ..forest.conditions import Condition
from ..models.eigenwords.vectors import read_vocab, word_vectors
from ..models.forestrank.architecture import ForestSettings
from ..models.forestrank.model import ForestParses
from ..models.rerank.features import ByNames, Candidates
from ..models.rerank.model import Ranking, Reranker
from ..models.rerank.tree_model import TreeScore, tree_scores
from ..trees.calibration import fit_sharpness, some_sentences
from ..trees.interface import Parses
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .annotations import (
    SentenceCandidates,
    parse_values,
    register,
    store_candidates,
    store_parse,
)
from .candidates import (
    BestTrees,
    CandidateSource,
    LikelyArcs,
    Plan,
    SpectralCandidates,
    candidate_source,
    docs_of,
)
from .component import FirstStage, SecondStage, Wish, take_off
from .conditions import ConditionedParse, parse_under
from .documents import Prediction, TokenReader, fixed_heads, predictions, string_values, write_parse
from .words import with_words

STORABLE = ("parses",)


@dataclass
class _Sentence:
    """What `predict` hands to `set_annotations` for one sentence, of models of lists. `tokens` are its
    indices in the document, without white space."""

    tokens: NDArray[numpy.int64]
    candidates: Candidates
    ranking: Ranking


@dataclass
class _Forests:
    """What `predict` hands to `set_annotations`, of models of forests: by document its parse and, if they are
    kept, the likeliest trees of its sentences. `is_kept` tells whether probabilities are."""

    names: list[str]
    documents: list[Prediction]
    is_kept: bool
    candidates: list[list[SentenceCandidates]] | None


class SpectralReranker(SecondStage):
    """Chooses among the n best parses of a parser before it, by what the parser can't see.

    The parser before it leaves the candidates on documents, and the reranker takes them off again (see
    `component`); documents that were parsed elsewhere, changed since, or not parsed at all, are parsed for
    them. Sentence boundaries stay as the parser has them. A sentence with a single candidate, such as one of
    one token, keeps it. Tags and words that training did not have count as unknown.
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
        """nlp: The pipeline. Sourced into others, the reranker uses the parser of each.
        model: From `spacy-spectral.Reranker.v1`, which chooses from a list of trees, or
        `spacy-spectral.ForestReranker.v1`, which looks at all that are likely at all.
        base: The name of the parser: a `spectral_parser` or, for lists, a `beam_parser`.
        n: How many candidates a sentence has at most; of a `beam_parser` as many as its beam has.
        Forests have no such limit: of their trees so many are kept, if they are.
        margin: Candidates are left out whose log-probability is this much below the likeliest's: they
        are hardly ever chosen, and take time.
        symbol: The token attribute that is a tag. By default what a `spectral_parser` looks at, or TAG.
        store: ["parses"] to keep all candidates in `span._.parses`."""
        super().__init__(nlp, model, name, base=base, scorer=scorer)
        if n < 2 or not margin > 0:
            raise SpectralError(Errors.S541.format(name=name, n=n, margin=margin))
        self.n = n
        self.margin = margin
        self.symbol = symbol
        self.store = self.storable(store, STORABLE)
        recipe = model.attrs["recipe"]
        self._is_forest = isinstance(recipe, ForestSettings)
        self.wish: Wish = BestTrees(n, margin)
        if isinstance(recipe, ForestSettings):
            self.wish = LikelyArcs(recipe.threshold)
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
        """Learn from all training examples; this is the whole training. Copies of the base parser, which
        must have been trained before, are trained on parts of the training data, and the reranker learns
        from what they make of the rest.

        vectors: A directory with eigenwords, for the tree model of words. By default it learns from the
        treebank alone.
        dev_corpus: The corpus of the config to learn from how confident a model of forests may be, e.g.
        "corpora.dev".
        """
        examples = self.training_examples(get_examples, nlp)
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise SpectralError(Errors.S117.format(name=self.name))
        if nlp is not None:
            if self.base not in nlp.component_names:
                raise SpectralError(Errors.S532.format(name=self.name, base=self.base))
            parser = nlp.get_pipe(self.base)
            if not isinstance(parser, FirstStage):
                self.attach(nlp)  # such parsers do not introduce themselves
        else:
            parser = self.find_parser([])
        if self._is_forest:
            self.learn(self._fit_forests(self._forest_source(parser), examples, nlp, dev_corpus))
            return
        plan = Plan(self.n, self.recipe.folds, self.recipe.parser_epochs)
        folds = self._source(parser).jackknife(examples, nlp, plan, self.report)
        known = find_vectors(vectors)
        self.learn(self.recipe.fit(folds, margin=self.margin, vectors=known, report=self.report))

    def _fit_forests(
        self,
        source: SpectralCandidates,
        examples: list[Example],
        nlp: Language | None,
        dev_corpus: str | None,
    ) -> Any:
        folds = source.held_out(examples, nlp, folds=self.recipe.folds, report=self.report)
        grammar = source.parser.grammar
        clusters = grammar.clusters
        learnt = self.recipe.fit(folds, clusters=clusters, report=self.report)
        if dev_corpus is None:
            return learnt
        treebank = source.parser.development_treebank(nlp, dev_corpus)
        # as it is if the corpus has no trees, or another symbol is looked at than the parser's
        if treebank is not None and source.read is source.parser.read:
            treebank = some_sentences(treebank)
            base = grammar.parse(treebank.tokens)
            names = list(grammar.label_names)

            def parse(temperature: float) -> ForestParses:
                return learnt.with_temperature(temperature).parse(treebank.tokens, base, names)

            learnt = learnt.with_temperature(fit_sharpness(parse, treebank, names))
        self.report(f"temperature {learnt.temperature:.2f}")
        return learnt

    def _source(self, parser: Any) -> CandidateSource:
        """Where candidates come from."""
        return candidate_source(parser, self.base, self.symbol, name=self.name)

    def _forest_source(self, parser: Any) -> SpectralCandidates:
        """Where forests come from."""
        found = self._source(parser)
        if not isinstance(found, SpectralCandidates):
            raise SpectralError(Errors.S914.format(name=self.name, base=self.base))
        return found

    def predict(self, docs: Iterable[Doc]) -> Any:
        """What `set_annotations` writes; documents are not changed."""
        docs = list(docs)
        reranker = self.reranker
        if self._is_forest:
            return self._predict_forests(docs)
        found = self.found(docs)
        if found is None or isinstance(self.wish, LikelyArcs):
            batch, trees = self._source(self.find_parser(docs))(docs, self.n)
            candidates = [own.within(self.margin) for own in trees]
        else:
            batch = self._as_seen(found.batch)
            candidates = BestTrees.candidates(found.values, found.names)
        rankings = reranker.rank(batch.tokens, candidates)
        result: list[list[_Sentence]] = [[] for _ in docs]
        bounds = zip(batch.tokens.bounds(), docs_of(batch).tolist(), strict=True)
        for ((begin, end), i), own, ranking in zip(bounds, candidates, rankings, strict=True):
            tokens = batch.places[begin:end] - batch.offsets[i]
            result[i].append(_Sentence(tokens, own, ranking))
        return result

    def _predict_forests(self, docs: list[Doc]) -> _Forests:
        found = self.found(docs)
        forests = None
        if found is not None:
            batch, names, store = self._as_seen(found.batch), found.names, found.store
            threshold = self.reranker.threshold
            forests = LikelyArcs.forests(found.values, batch, names, threshold)
        parses: Parses | Callable[[], Parses]
        if forests is None:
            source = self._forest_source(self.find_parser(docs))
            batch, parses, names = source.parses(docs)
            store = source.parser.store
        else:
            # of sentences without a tree of likely arcs, and to keep all marginals
            parses = cache(lambda: self._forest_source(self.find_parser(docs)).parses(docs)[1])
        result = self.reranker.parse(batch.tokens, parses, names, forests=forests)
        candidates = _likeliest(batch, result, self.n) if self.store else None
        return _Forests(names, predictions(batch, result, store, names), bool(store), candidates)

    def _as_seen(self, batch: Batch) -> Batch:
        """Documents by the symbol that the reranker looks at."""
        read = TokenReader([self.symbol], name=self.name) if self.symbol else None
        return batch if read is None else read(batch.docs)

    def set_annotations(self, docs: Iterable[Doc], scores: Any) -> None:
        """Write the chosen trees, from `predict`, to documents."""
        docs = list(docs)
        for doc in docs:
            take_off(doc)
        if self._is_forest:
            _write_forests(docs, scores)
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
        """Where the forests of documents come from, for models of forests."""
        if not self._is_forest:
            raise SpectralError(Errors.S456.format(name=self.name))
        return self._forest_source(self.find_parser(docs))

    def parse_with(self, doc: Doc, constraints: Sequence[Condition]) -> list[ConditionedParse]:
        """Parse a document under conditions, without changing it; see `SpectralParser.parse_with`. The
        distribution is that of the second stage, over the trees of its forests; if none of these meets
        the conditions, it is that of the parser."""
        if not self._is_forest:
            raise SpectralError(Errors.S920.format(name=self.name, base=self.base))
        batch, base, names = self._forest_source(self.find_parser([doc])).parses([doc])
        parses = self.reranker.parse(batch.tokens, base, names)
        return parse_under(batch, parses, names, constraints)

    def spectral_tree_score(self, doc: Doc) -> list[TreeScore | None]:
        """How likely the trees of a document with sentence boundaries, tags, heads and labels are;
        nothing is parsed. For every one of `doc.sents` log p(tree), how much above chance that is, and
        the probability of each token's head given the rest of the tree (white space left out); None
        where heads are missing, or there is nothing but white space."""
        reranker = self.reranker
        if not isinstance(reranker, Reranker) or not reranker.models:
            raise SpectralError(Errors.S507.format(name=self.name))
        doc = with_words(doc)
        batch = self._source(self.find_parser([doc])).read([doc])
        labels = [doc[place].dep_ for place in batch.places.tolist()]
        found = tree_scores(reranker.models, batch.tokens, fixed_heads(batch), labels)
        first = batch.places[batch.tokens.starts[:-1]].tolist()
        by_start = {doc[i].sent.start: score for i, score in zip(first, found, strict=True)}
        return [by_start.get(sent.start) for sent in doc.sents]


def find_vectors(path: str | Path | None) -> Callable[[Sequence[str]], NDArray] | None:
    """What gives the vectors of words, from a directory made by `spacy spectral eigenwords`."""
    if path is None:
        return None
    vocab = read_vocab(path) if (Path(path) / "vocab").is_dir() else Vocab()
    if not vocab.vectors.shape[0]:
        raise SpectralError(Errors.S216.format(path=path))
    return lambda words: word_vectors(vocab, words)


def _write_forests(docs: list[Doc], found: _Forests) -> None:
    names = list(map(plain, found.names))
    hashes = string_values(docs, names)
    for i, (doc, prediction) in enumerate(zip(docs, found.documents, strict=True)):
        write_parse(doc, prediction.heads, hashes[prediction.labels])
        if found.is_kept and len(doc):
            store_parse(doc, prediction.values)
        if found.candidates is not None and found.candidates[i]:
            store_candidates(doc, names, found.candidates[i])


def _likeliest(batch: Batch, parses: ForestParses, n: int) -> list[list[SentenceCandidates]]:
    """The n likeliest trees of every sentence, by document."""
    result: list[list[SentenceCandidates]] = [[] for _ in batch.docs]
    bounds = zip(batch.tokens.bounds(), docs_of(batch).tolist(), strict=True)
    for s, ((begin, end), doc) in enumerate(bounds):
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
    values.alternative = None  # it may be in the tree now
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
