"""The pipeline component `spectral_parser`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, Warnings
from ..forest.conditions import Condition
from ..models.eigenwords.word_vectors import WordVectors
from ..trees.interface import Parses
from ..trees.posterior import possible
from ..trees.pseudoprojective import plain
from ..trees.sentences import MISSING, Batch, Treebank
from .annotations import SentenceParse, register, store_parse
from .conditions import ConditionedParse, parse_under
from .documents import TokenReader, fixed_heads, string_values, write_parse
from .learners import learner_of
from .listening import ListenedTo
from .noun_chunks import use_ud_noun_chunks
from .tagger import find_clusters
from .training_data import ParserData
from .views import (
    STORABLE,
    Prediction,
    by_modifier,
    head_and_label_probs,
    predictions,
    sentence_parses,
)


class SpectralParser(ListenedTo):
    """Dependency parser with exact probabilities, by one of several models.

    It parses inside the sentences that a document has, so something before it must set boundaries and,
    for models that look at tags, the attributes named by `symbol`. Models with a recipe are trained when
    the pipeline is initialized; others (see `stepwise`) step by step.
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
            "dep_prob", "parse_logprob", "marginals".
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
            raise ValueError(
                Errors.S113.format(name=name, value=unknown, choices=", ".join(STORABLE))
            )
        if decode not in ("mbr", "viterbi"):
            raise ValueError(Errors.S114.format(name=name, value=decode))
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
            raise ValueError(Errors.S119.format(name=self.name, value=self.decode, choices=listed))

    @property
    def grammar(self) -> Any:
        """What was learnt: a `Grammar` or another model, as the architecture has it."""
        if not self.is_learnt:
            raise ValueError(Errors.S115.format(name=self.name))
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
        self.keep_parses(batch, parses)
        return predictions(batch, parses, self.store)

    def parse(self, docs: Iterable[Doc]) -> tuple[Batch, Parses]:
        """Parse documents without changing them; everything can be asked of the result.

        docs (Iterable[Doc]): Documents with sentence boundaries and tags.
        RETURNS (Tuple[Batch, Parses]): Their sentences, and the parses of these.
        """
        if not self.is_learnt:
            raise ValueError(Errors.S115.format(name=self.name))
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
            raise ValueError(Errors.S120.format(name=self.name, k=k))
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


def find_word_vectors(path: str | Path | None, vocab: Vocab) -> WordVectors | None:
    """Word vectors of a directory, or else those of the vocabulary if it has some.

    path (Optional[Union[str, Path]]): A directory made by `spacy spectral eigenwords`, or any pipeline.
    vocab (Vocab): The vocabulary.
    RETURNS (Optional[WordVectors]): The vectors.
    """
    if path is None:
        return WordVectors.from_vocab(vocab)
    directory = Path(path) / "vocab"
    vectors = WordVectors.from_vocab(Vocab().from_disk(directory)) if directory.is_dir() else None
    if vectors is None:
        raise ValueError(Errors.S216.format(path=path))
    return vectors
