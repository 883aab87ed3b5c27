"""What a parser is trained on: gold trees on tags like those it will meet, which other components give.
What examples tell by themselves is in `examples`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from spacy.attrs import MORPH, POS, TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import logger

from ..base.errors import Errors, Warnings
from ..trees.interface import Clusters, Vectors
from ..trees.sentences import MISSING, Treebank
from .documents import TokenReader, training_treebank, vocabularies
from .examples import corpus_examples, tagged_sentences, with_gold_sentences, with_gold_tags
from .tagger import SpectralTagger, annotation_values

FOLDS = 5


@dataclass
class ParserData:
    """What a parser is trained on, as its settings have it.

    nlp (Optional[Language]): The pipeline.
    read (TokenReader): What the parser reads of documents.
    name (str): The parser, for messages.
    annotate_with (Sequence[str]), jackknife (Optional[str]), dev_corpus (Optional[str]): See
        `SpectralParser`.
    report (Callable[[str], None]): Told how it went.
    labels (Optional[Sequence[str]]): The labels, so that not all examples must be looked at.
    clusters (Optional[Clusters]), vectors (Optional[Vectors]): Word clusters and vectors.
    """

    nlp: Language | None
    read: TokenReader
    name: str
    annotate_with: Sequence[str]
    jackknife: str | None
    dev_corpus: str | None
    report: Callable[[str], None]
    labels: Sequence[str] | None = None
    clusters: Clusters | None = None
    vectors: Vectors | None = None

    def treebank(self, examples: list[Example]) -> Treebank:
        """RETURNS (Treebank): Gold trees of examples, on tags as the settings have them."""
        if self.jackknife is None:
            return self._annotated(self.annotate_with, examples)
        docs = jackknifed(self.jackknife, examples, self.nlp, parser=self.name, report=self.report)
        return training_treebank(examples, docs, self.read)

    def dev(self) -> Treebank | None:
        """RETURNS (Optional[Treebank]): The trees of the development corpus, if it has some."""
        if not self.dev_corpus:
            return None
        examples = corpus_examples(self.nlp, self.dev_corpus, parser=self.name)
        if not examples:
            return None
        taggers = [self.jackknife] if self.jackknife is not None else self.annotate_with
        treebank = self._annotated(taggers, examples)
        if (treebank.heads == MISSING).all():
            logger.warning(Warnings.W103.format(name=self.name, corpus=self.dev_corpus))
            return None
        return treebank

    def _annotated(self, names: Sequence[str], examples: list[Example]) -> Treebank:
        docs = (
            annotated_by(names, examples, self.nlp, parser=self.name)
            if names
            else with_gold_tags(examples)
        )
        return training_treebank(examples, docs, self.read)


def warn_of_missing(treebank: Treebank, name: str) -> None:
    """Say how many tokens of a parser's training data have no head, if some have none.

    treebank (Treebank): The training data.
    name (str): The parser.
    """
    missing, tokens = int((treebank.heads == MISSING).sum()), len(treebank.heads)
    if missing:
        logger.warning(Warnings.W101.format(name=name, missing=missing, tokens=tokens))


def annotated_by(
    names: Iterable[str], examples: Iterable[Example], nlp: Language | None, *, parser: str
) -> Iterable[Doc]:
    """Run trained components over the predicted tokens, inside gold sentences.

    names (Iterable[str]): The components.
    examples (Iterable[Example]): The examples; they are not changed.
    nlp (Optional[Language]): The pipeline with the components.
    parser (str): Who asks, for the error message.
    RETURNS (Iterable[Doc]): One document per example.
    """
    docs: Iterable[Doc] = (with_gold_sentences(example) for example in examples)
    for name in names:
        docs = component(nlp, name, parser=parser).pipe(docs)
    return docs


def component(nlp: Language | None, name: str, *, parser: str) -> Any:
    """RETURNS (Callable): A component of the pipeline, frozen ones included."""
    if nlp is None or name not in nlp.component_names:
        raise ValueError(Errors.S118.format(name=parser, missing=name))
    return nlp.get_pipe(name)


def jackknifed(
    name: str,
    examples: list[Example],
    nlp: Language | None,
    *,
    parser: str,
    report: Callable[[str], None],
) -> Iterator[Doc]:
    """Tags as the tagger would give them, had it not been trained on the document.

    name (str): A `spectral_tagger` that stands before the parser, so that it is trained already.
    examples (List[Example]): The training examples in the order of the text; they are not changed.
    nlp (Optional[Language]): The pipeline.
    parser (str): Who asks, for the error message.
    report (Callable[[str], None]): Told how it went.
    YIELDS (Doc): One document per example.
    """
    tagger = component(nlp, name, parser=parser)
    if not isinstance(tagger, SpectralTagger):
        raise ValueError(Errors.S121.format(name=parser, tagger=name))
    sentences = list(tagged_sentences(examples, nlp, name))
    result = tagger.jackknife(sentences, folds=min(FOLDS, len(sentences)))
    gold = numpy.array([tag for sentence in sentences for tag in sentence.tags])
    guessed = numpy.array([tag for tag, _ in result.tag_classes])[result.classes]
    right = (gold == guessed)[gold != ""]
    if len(right):
        report(f"'{name}' jack-knifed in {FOLDS} blocks: {right.mean():.2%} of tags are right")
    values = annotation_values(
        vocabularies(example.predicted for example in examples),
        result.tag_classes,
        result.morphs,
        result.classes,
        result.morph_classes,
    )
    begin = 0
    for example in examples:
        doc = with_gold_sentences(example)
        is_word = numpy.array([not token.text.isspace() for token in doc], dtype=bool)
        own = slice(begin, begin + int(is_word.sum()))
        begin = own.stop
        if len(doc):
            array = numpy.zeros((len(doc), 3), dtype="uint64")
            array[is_word] = values[own]
            doc.from_array([TAG, POS, MORPH], array)
        yield doc
