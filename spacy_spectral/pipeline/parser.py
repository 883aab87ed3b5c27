"""The pipeline component `spectral_parser`, and parses under conditions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError, Warnings
from ..forest.conditions import Condition, LabelIs, NoCrossing, SentenceTrees, conditioned
from ..trees.interface import Parses
from ..trees.posterior import possible
from ..trees.pseudoprojective import plain
from ..trees.sentences import MISSING, Batch, Treebank
from .annotations import SentenceParse, register, store_parse
from .documents import TokenReader, fixed_heads, string_values, use_ud_noun_chunks, write_parse
from .handover import FirstStage, leave
from .learners import learner_of
from .training_data import ParserData, find_clusters, find_word_vectors
from .views import (
    STORABLE,
    Prediction,
    by_modifier,
    head_and_label_probs,
    predictions,
    sentence_parses,
)

# Longer sentences are not for conditions: all pairs of tokens are looked at.
MAX_LENGTH = 1_000


class ConditionedParse(NamedTuple):
    """The parse of one sentence under conditions.

    tree: The best tree that meets them; its `logprob` is given them, of the labelled tree if the model is
        about labelled trees.
    head_probs: The probability of every head, given them.
    probability: The probability of the conditions.
    """

    tree: SentenceParse
    head_probs: list[float]
    probability: float


class SpectralParser(FirstStage):
    """Dependency parser with exact probabilities, by one of several models.

    It parses inside the sentences that a document has, so something before it must set boundaries and,
    for models that look at tags, the attributes named by `symbol`. Models with a recipe are trained when
    the pipeline is initialized; others (see `learners`) step by step.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_parser",
        *,
        symbol: str | Sequence[str] = "TAG",
        decode: str = "mbr",
        constrain: bool = False,
        store: Sequence[str] = (),
        annotate_with: Sequence[str] = (),
        jackknife: str | None = None,
        scorer: Callable | None = None,
    ):
        """vocab (Vocab): The shared vocabulary.
        model (Model): From `spacy-spectral.SHAG.v1`, `spacy-spectral.LogLinear.v1`,
            `spacy-spectral.Biaffine.v1`, `spacy-spectral.Biaffine.v2`, `spacy-spectral.Refined.v1` or
            `spacy-spectral.Product.v1`.
        name (str): The component's name in the pipeline.
        symbol (Union[str, Sequence[str]]): The token attribute, or attributes, that make a tag.
        decode (str): "mbr" for the tree with the best arc marginals, "viterbi" for the best tree and
            hidden states, or of single arcs, the best tree (SHAG without the estimator "spectral", and
            Biaffine).
        constrain (bool): Whether heads that a document has already are kept.
        store (Sequence[str]): What is kept on documents beside the parse: any of "head_prob",
            "dep_prob", "parse_logprob", "marginals", "alternative".
        annotate_with (Sequence[str]): Components to run over the training documents, so that the
            parser is trained on tags like those it will meet, e.g. ["tagger"]: components that were
            trained before. Without, on gold tags.
        jackknife (Optional[str]): A `spectral_tagger` that is trained in the same run. The training
            documents are tagged by five taggers with its settings but for `epochs`, which is 2: each is
            trained without the documents it tags.
        scorer (Optional[Callable]): The scoring method.
        """
        super().__init__(vocab, model, name, scorer=scorer)
        unknown = [item for item in store if item not in STORABLE]
        if unknown:
            raise SpectralError(
                Errors.S113.format(name=name, value=unknown, choices=", ".join(STORABLE))
            )
        if decode not in ("mbr", "viterbi"):
            raise SpectralError(Errors.S114.format(name=name, value=decode))
        self.decode = decode
        self.constrain = constrain
        self.store = list(store)
        self.annotate_with = list(annotate_with)
        self.jackknife = jackknife
        self.learner = learner_of(model, name=name)
        self.learner.check(annotate_with=annotate_with, jackknife=jackknife)
        self._check_decode()
        symbols = [symbol] if isinstance(symbol, str) else symbol
        self.read = TokenReader(symbols, name=name, required=self.learner.needs_tags)
        register("spectral_parser")
        use_ud_noun_chunks(vocab)

    def _check_decode(self) -> None:
        choices = self.learner.decoders
        if self.decode not in choices:
            listed = ", ".join(map(repr, choices))
            raise SpectralError(
                Errors.S119.format(name=self.name, value=self.decode, choices=listed)
            )

    @property
    def grammar(self) -> Any:
        """What was learnt: a `Grammar` or another model, as the architecture has it."""
        if not self.is_learnt:
            raise SpectralError(Errors.S115.format(name=self.name))
        return self.learner.grammar

    @property
    def is_learnt(self) -> bool:
        return self.learner.is_learnt

    @property
    def labels(self) -> tuple[str, ...]:
        """The relation labels that the parser can give."""
        names = self.grammar.label_names if self.is_learnt else ()
        return tuple(sorted(set(map(plain, names))))

    @property
    def label_data(self) -> list[str]:
        """The labels as `spacy init labels` stores them: all that `initialize` wants to know."""
        return self.learner.label_data

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        clusters: str | Path | None = None,
        vectors: str | Path | None = None,
        dev_corpus: str | None = None,
    ) -> None:
        """Learn from all training examples; this is the whole training of models with a recipe.

        get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
        nlp (Optional[Language]): The pipeline, for `annotate_with` and `jackknife`.
        labels (Optional[Sequence[str]]): From `spacy init labels`, for models that are trained step by
            step; for others the treebank decides.
        clusters (Optional[Union[str, Path]]): A directory with eigenword clusters, for models that look
            at words. By default those of the vocabulary's lookups are used if there are some.
        vectors (Optional[Union[str, Path]]): A directory with word vectors, for models that look at them;
            they keep a copy. By default those of the vocabulary are used if there are some.
        dev_corpus (Optional[str]): The corpus of the config to stop training by, e.g. "corpora.dev", for
            models that are trained in epochs; and to learn from how sure the parser may be.
        """
        self.learner.check(clusters=clusters, vectors=vectors, dev_corpus=dev_corpus)
        data = replace(
            self._data(nlp, dev_corpus),
            labels=labels,
            clusters=find_clusters(clusters, self.vocab),
            vectors=find_word_vectors(vectors, self.vocab),
        )
        self.learner.initialize(get_examples, data, decode=self.decode)
        self._was_loaded = False
        for label in self.labels:
            self.vocab.strings.add(label)

    def training_treebank(self, examples: list[Example], nlp: Language | None) -> Treebank:
        """What the parser is trained on.

        examples (List[Example]): The training examples; they are not changed.
        nlp (Optional[Language]): The pipeline, for `annotate_with` and `jackknife`.
        RETURNS (Treebank): Gold trees on tags as the settings have them.
        """
        return self._data(nlp, None).treebank(examples)

    def development_treebank(self, nlp: Language | None, corpus: str) -> Treebank | None:
        """RETURNS (Optional[Treebank]): The trees of a corpus of the config, on tags as the parser is to meet
        them; None if it has none."""
        return self._data(nlp, corpus).dev()

    def _data(self, nlp: Language | None, dev_corpus: str | None) -> ParserData:
        return ParserData(
            nlp=nlp,
            read=self.read,
            name=self.name,
            annotate_with=self.annotate_with,
            jackknife=self.jackknife,
            dev_corpus=dev_corpus,
            report=self.report,
        )

    def step(self, examples: Sequence[Example], *, drop: float) -> float | None:
        """RETURNS (Optional[float]): The negative log-likelihood of the trees and their labels; None if the
        model was trained when the pipeline was initialized."""
        return self.learner.step(examples, self.read, drop=drop)

    def check_loaded(self) -> None:
        """Raise an error if what was loaded does not fit together."""
        if self.is_learnt:
            self.learner.check_loaded(self.read)
            self._check_decode()

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Parse documents without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (List[Prediction]): One parse per document.
        """
        batch, parses = self.parse(docs)
        result = predictions(batch, parses, self.store, self.grammar.label_names)
        if not self.constrain:  # a reranker could not tell given heads from others
            found = self.found(batch, parses, list(self.grammar.label_names))
            for prediction, own in zip(result, found, strict=True):
                prediction.found = own
        return result

    def parse(self, docs: Iterable[Doc]) -> tuple[Batch, Parses]:
        """Parse documents without changing them; everything can be asked of the result.

        docs (Iterable[Doc]): Documents with sentence boundaries and tags.
        RETURNS (Tuple[Batch, Parses]): Their sentences, and the parses of these.
        """
        if not self.is_learnt:
            raise SpectralError(Errors.S115.format(name=self.name))
        batch = self.read(docs)
        fixed = self._fixed_heads(batch) if self.constrain else None
        return batch, self.learner.parse(batch, fixed=fixed, decode=self.decode)

    def _fixed_heads(self, batch: Batch) -> NDArray[numpy.int32] | None:
        """Heads given beforehand, but for sentences in which they can't all be in one tree."""
        fixed = fixed_heads(batch)
        for begin, end in batch.tokens.bounds():
            own = fixed[begin:end]
            if (own != MISSING).any() and not possible(own):
                words = " ".join(batch.tokens.words[begin:end])[:80]
                logger.warning(Warnings.W102.format(name=self.name, words=words))
                own[:] = MISSING
        return fixed if (fixed != MISSING).any() else None

    def set_annotations(self, docs: Iterable[Doc], scores: list[Prediction]) -> None:
        """Write parses to documents.

        docs (Iterable[Doc]): The documents.
        scores (List[Prediction]): From `predict`.
        """
        docs = list(docs)
        hashes = string_values(docs, self.grammar.label_names)
        for doc, prediction in zip(docs, scores, strict=True):
            # the vocabulary of another pipeline, which the parser was sourced into
            use_ud_noun_chunks(doc.vocab)
            doc.noun_chunks_iterator = doc.vocab.get_noun_chunks
            write_parse(doc, prediction.heads, hashes[prediction.labels])
            if self.store and len(doc):
                store_parse(doc, prediction.values)
            leave(doc, prediction.found)

    def marginals(self, doc: Doc) -> list[NDArray[numpy.float64]]:
        """Exact arc probabilities, whatever tree was or will be chosen.

        doc (Doc): A document with sentence boundaries and tags.
        RETURNS (List[ndarray]): Per sentence [n, n]: row m holds the probability of every token of the
            sentence as head of its token m, the diagonal that of being the root. Rows sum to one.
            Whitespace tokens are left out.
        """
        batch, parses = self.parse([doc])
        return [by_modifier(parses.marginals(s)) for s in range(len(batch.tokens))]

    def nbest(self, doc: Doc, k: int = 5, *, labelled: bool = False) -> list[list[SentenceParse]]:
        """The k best parses of every sentence.

        By default the list is over heads: no two trees have the same, punctuation counts, and each tree has
        its likeliest labels. The k trees with the best products of arc marginals are found exactly and come
        in the order of their exact probabilities. With `labelled` it is over heads and labels: the k
        likeliest labelled trees, exactly, by LogLinear, Biaffine and products of these; by SHAG and Refined,
        which sum over hidden states, those of the trees with the best products of probabilities of labelled
        arcs.
        Crossing arcs are restored as in a normal parse; probabilities are those of the trees without.

        doc (Doc): A document with sentence boundaries and tags.
        k (int): How many parses per sentence at most.
        labelled (bool): Whether parses may differ in labels alone.
        RETURNS (List[List[SentenceParse]]): Per sentence, most probable first.
        """
        if k < 1:
            raise SpectralError(Errors.S120.format(name=self.name, k=k))
        batch, parses = self.parse([doc])
        names = self.grammar.label_names
        return sentence_parses(batch, parses, k, names, labelled=labelled)

    def parse_with(self, doc: Doc, constraints: Sequence[Condition]) -> list[ConditionedParse]:
        """Parse a document under conditions, without changing it.

        The distribution is that of the model, over projective trees (crossing arcs are not restored). The
        probabilities of heads and of the conditions are exact, and so is the likeliest tree, of models that
        score trees by their parts: LogLinear, Biaffine and their products. Of those that sum over hidden
        states (SHAG, Refined) the tree is that with the best product of probabilities, and labels are judged
        by the probabilities of arcs alone. If no tree meets all conditions, an error names some that
        contradict each other.

        doc (Doc): A document with sentence boundaries and tags.
        constraints (Sequence[Condition]): Any of `HeadIs`, `HeadIsNot`, `RootIs`, `LabelIs`, `SameHead` and
            `NoCrossing` from `spacy_spectral.forest.conditions`, on indices of the document's tokens.
        RETURNS (List[ConditionedParse]): Per sentence, the best tree, the probabilities of its heads, and
            that of the conditions.
        """
        batch, parses = self.parse([doc])
        return parse_under(batch, parses, self.grammar.label_names, constraints)

    def scored_parses(
        self, docs: Iterable[Doc]
    ) -> tuple[list[dict[tuple[int, int], float]], list[dict[tuple[int, str], float]]]:
        """Probabilities of heads and labels, in the form of the method of spaCy's `beam_parser`.

        docs (Iterable[Doc]): Documents with sentence boundaries and tags.
        RETURNS (Tuple[List[dict], List[dict]]): Per document, the probability of every likely (token, head)
            and of every (token, label), the latter for the chosen head.
        """
        names = self.grammar.label_names
        pairs = [head_and_label_probs(*self.parse([doc]), names) for doc in docs]
        return [heads for heads, _ in pairs], [labels for _, labels in pairs]


def parse_under(
    batch: Batch, parses: Parses, names: Sequence[str], conditions: Sequence[Condition]
) -> list[ConditionedParse]:
    """Parse the sentences of one document under conditions.

    RETURNS: One for each sentence with words.
    """
    labels = list(map(plain, names))
    own = _by_sentence(batch, conditions, labels)
    result = []
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        places = batch.places[begin:end]
        moved, told = own[s]
        if end - begin <= MAX_LENGTH:
            result.append(_sentence(parses, s, places, labels, moved, told))
        elif moved:
            raise SpectralError(
                Errors.S918.format(condition=told[0], n=end - begin, most=MAX_LENGTH)
            )
        else:
            result.append(_as_it_is(parses, s, slice(begin, end), places, labels))
    return result


def _by_sentence(
    batch: Batch, conditions: Sequence[Condition], labels: Sequence[str]
) -> list[tuple[list[Condition], list[Condition]]]:
    """The conditions of every sentence, on positions in it and as they were given."""
    place_of = {
        int(place): (s, i)
        for s, (begin, end) in enumerate(batch.tokens.bounds())
        for i, place in enumerate(batch.places[begin:end].tolist(), start=1)
    }
    result: list[tuple[list[Condition], list[Condition]]] = [
        ([], []) for _ in range(len(batch.tokens))
    ]
    known_labels = {label.lower() for label in labels}
    for condition in conditions:
        if not isinstance(condition, Condition):
            raise SpectralError(Errors.S919.format(value=repr(condition)))
        tokens = list(condition.tokens.values())
        known = [place_of.get(token) for token in tokens]
        sentences = {place[0] for place in known if place is not None}
        alone = isinstance(condition, NoCrossing) or len(set(tokens)) == len(tokens)
        sound = None not in known and len(sentences) == 1 and alone
        if isinstance(condition, LabelIs):
            sound = sound and condition.label.lower() in known_labels
        if isinstance(condition, NoCrossing):
            sound = sound and condition.first <= condition.last
        if not sound:
            listed = ", ".join(sorted(set(labels)))
            raise SpectralError(Errors.S915.format(condition=condition, labels=listed))
        moved, told = result[sentences.pop()]
        moved.append(condition.moved(lambda token: place_of[token][1]))
        told.append(condition)
    return result


def _sentence(
    parses: Parses,
    sentence: int,
    places: NDArray[numpy.int64],
    labels: Sequence[str],
    conditions: Sequence[Condition],
    told: Sequence[Condition],
) -> ConditionedParse:
    n = len(places)
    labelled = any(isinstance(own, LabelIs) for own in conditions)
    trees = SentenceTrees(parses, sentence, labelled)
    found = conditioned(n, trees, conditions, names=labels, told=told)
    heads = numpy.where(found.heads > 0, places[found.heads - 1], places)
    probs = found.marginals[found.heads, numpy.arange(1, n + 1)]
    deps = [labels[i] for i in found.labels.tolist()]
    tree = SentenceParse(int(places[0]), heads.tolist(), deps, found.log_prob)
    return ConditionedParse(tree, probs.tolist(), found.probability)


def _as_it_is(
    parses: Parses,
    sentence: int,
    own: slice,
    places: NDArray[numpy.int64],
    labels: Sequence[str],
) -> ConditionedParse:
    """A sentence of any length without conditions."""
    heads = numpy.where(parses.heads[own] > 0, places[parses.heads[own] - 1], places)
    deps = [labels[i] for i in parses.labels[own].tolist()]
    log_prob = float(parses.log_probs()[sentence])
    tree = SentenceParse(int(places[0]), heads.tolist(), deps, log_prob)
    return ConditionedParse(tree, parses.head_probs()[own].tolist(), 1.0)
