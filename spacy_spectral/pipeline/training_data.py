"""What a parser is trained on: gold trees on tags like those it will meet, which other components give.
What spaCy's examples tell by themselves: gold annotation on predicted tokens, and tagged sentences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import srsly
from numpy.typing import NDArray
from spacy.attrs import LEMMA, MORPH, ORTH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.util import logger, resolve_dot_names
from spacy.vocab import Vocab

from ..base.errors import Errors, SpectralError, Warnings
from ..treebank.documents import set_sentence_starts
from ..trees.interface import Clusters, Pretrained, Vectors
from ..trees.sentences import MISSING, Treebank
from .annotations import TagGuesses, origin_of, store_tags, treebank_like
from .documents import TokenReader, training_treebank, vocabularies
from .words import word_examples

if TYPE_CHECKING:
    from ..models.eigenwords.vectors import WordVectors
    from ..models.linear.tagger import Jackknifed
    from ..models.linear.tagger_training import TaggedSentence

# How an analysis without features is written in the string store.
_NO_FEATURES = "_"


def read_examples(get_examples: Callable[[], Iterable[Example]], method: str) -> list[Example]:
    """All training examples, checked as spaCy does it, but without reading the corpus twice."""
    examples = list(get_examples() or ()) if callable(get_examples) else []
    validate_get_examples((lambda: examples) if examples else get_examples, method)
    return examples


def all_examples(
    get_examples: Callable[[], Iterable[Example]], nlp: Language | None, *, name: str, kind: str
) -> list[Example]:
    """All that a component learns from when its pipeline is initialized, or an error if some is kept back."""
    if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
        raise SpectralError(Errors.S116.format(name=name))
    return word_examples(read_examples(get_examples, f"{kind}.initialize"))


def corpus_examples(
    nlp: Language | None, name: str, *, parser: str, setting: str = "dev_corpus"
) -> list[Example]:
    """The examples of a corpus of the pipeline's own config, e.g. "corpora.dev"; none if it has no path. The
    setting that names it is for errors."""
    section, _, key = name.partition(".")
    config = nlp.config.interpolate() if nlp is not None else {}
    block = config.get(section, {}).get(key)
    if block is None:
        example = f"corpora.{setting.removesuffix('_corpus')}"
        error = Errors.S122.format(name=parser, corpus=name, setting=setting, example=example)
        raise SpectralError(error)
    if "path" in block and block["path"] is None:
        return []
    (corpus,) = resolve_dot_names(config, [name])
    return list(corpus(nlp))


def sentences_of_corpus(nlp: Language | None, name: str) -> str:
    """What tells the sentences of a corpus of the config from those of others: two may read the same ones
    with other weights."""
    section, _, key = name.partition(".")
    block = nlp.config.interpolate().get(section, {}).get(key, {}) if nlp is not None else {}
    told = {setting: value for setting, value in block.items() if setting not in _OF_LEARNING}
    return srsly.json_dumps(told, sort_keys=True)


# Settings of readers that choose no sentences.
_OF_LEARNING = ("weight", "source", "soft")


def silver_examples(
    nlp: Language | None, corpora: str | Sequence[str] | None, *, name: str
) -> dict[str, list[Example]]:
    """The examples of the corpora that the setting `silver_corpus` lists, but for empty ones. The component
    that asks is for errors."""
    listed = [corpora] if isinstance(corpora, str) else corpora or []
    found = {
        corpus: corpus_examples(nlp, corpus, parser=name, setting="silver_corpus")
        for corpus in listed
    }
    return {corpus: examples for corpus, examples in found.items() if examples}


def with_gold_tags(examples: Iterable[Example]) -> Iterator[Doc]:
    """Documents of the predicted tokens with gold annotation."""
    for example in examples:
        yield example.y if _same_tokens(example) else _with_aligned_tags(example)


def with_gold_sentences(example: Example) -> Doc:
    """A copy of the predicted document, with the sentences of the reference."""
    doc = example.predicted.copy()
    if len(doc):
        is_start = numpy.array(example.get_aligned_sent_starts(), dtype=object) == 1
        is_start[0] = True
        set_sentence_starts(doc, numpy.where(is_start, 1, -1))
    return doc


def tagged_sentences(
    examples: Iterable[Example],
    nlp: Language | None = None,
    name: str = "",
    *,
    source: str | None = None,
    corpus: int = 0,
) -> "Iterator[TaggedSentence]":
    """The tokens of the predicted Docs with the annotation of the reference, without white space.

    Sentences are as the tagger will find them: those of the predicted Doc where they are set, those
    of the reference if a component before this one sets them, and otherwise the whole Doc is one.

    source: What the gold treebank is called; corpus: see `TaggedSentence`.
    """
    from ..models.linear.tagger_training import TaggedSentence

    gold_sentences = nlp is not None and _sentences_come_first(nlp, name)
    for eg in examples:
        words = [token.text for token in eg.predicted]
        if not words:
            continue
        tags, pos, morphs, lemmas = (aligned(eg, attr) for attr in (TAG, POS, MORPH, LEMMA))
        if eg.predicted.has_annotation("SENT_START"):
            is_start = eg.predicted.to_array([SENT_START]).ravel() == 1
        elif gold_sentences:
            is_start = numpy.array(eg.get_aligned_sent_starts(), dtype=object) == True  # noqa: E712
        else:
            is_start = numpy.zeros(len(words), dtype=bool)
        bounds = [0, *(i for i in numpy.flatnonzero(is_start).tolist() if i > 0), len(words)]
        origin = origin_of(eg.reference)
        own = treebank_like(eg.reference, source), origin.weight if origin else 1.0, corpus
        for start, end in pairwise(bounds):
            kept = [i for i in range(start, end) if not words[i].isspace()]
            if kept:
                yield TaggedSentence(
                    [words[i] for i in kept],
                    [tags[i] or "" for i in kept],
                    [pos[i] or "" for i in kept],
                    [_features(morphs[i]) for i in kept],
                    [lemmas[i] or "" for i in kept],
                    *own,
                )


def _sentences_come_first(nlp: Language, name: str) -> bool:
    names = nlp.pipe_names
    before = names[: names.index(name)] if name in names else []
    return any("token.is_sent_start" in nlp.get_pipe_meta(pipe).assigns for pipe in before)


def aligned(eg: Example, attr: int) -> list[str | None]:
    """Gold annotation on the predicted tokens."""
    if _same_tokens(eg):
        # aligning is slow, and most training data has gold tokens
        strings = eg.reference.vocab.strings
        return [strings[value] for value in eg.reference.to_array([attr]).ravel()]
    return eg.get_aligned(_NAMES[attr], as_string=True)


def predicted_tokens(eg: Example) -> NDArray[numpy.int64]:
    """By gold token the predicted token that has the same characters, -1 for none."""
    n = len(eg.reference)
    if _same_tokens(eg):
        return numpy.arange(n)
    forth, back = eg.alignment.y2x, eg.alignment.x2y
    result = numpy.full(n, -1, dtype="int64")
    one = numpy.flatnonzero(forth.lengths == 1)
    found = numpy.asarray(forth.data)[(numpy.cumsum(forth.lengths) - forth.lengths)[one]]
    is_alone = back.lengths[found] == 1
    result[one[is_alone]] = found[is_alone]
    return result


def _same_tokens(eg: Example) -> bool:
    predicted, reference = eg.predicted, eg.reference
    return predicted is reference or numpy.array_equal(
        predicted.to_array([ORTH]), reference.to_array([ORTH])
    )


_NAMES = {TAG: "TAG", POS: "POS", MORPH: "MORPH", LEMMA: "LEMMA"}


def _with_aligned_tags(example: Example) -> Doc:
    """Gold annotation on predicted tokens, where the two are tokenised differently."""
    doc = example.predicted.copy()
    for attribute in _NAMES.values():
        values = example.get_aligned(attribute, as_string=True)
        for token, value in zip(doc, values, strict=True):
            if attribute == "MORPH":
                token.set_morph(value or "")
            else:
                setattr(token, f"{attribute.lower()}_", value or "")
    return doc


def _features(morph: str | None) -> str | None:
    if not morph:
        return None
    return "" if morph == _NO_FEATURES else morph


FOLDS = 5


@dataclass
class ParserData:
    """What a parser is trained on, as its settings have it. With labels, not all examples must be looked
    at."""

    nlp: Language | None
    read: TokenReader
    name: str
    annotate_with: Sequence[str]
    jackknife: str | None
    dev_corpus: str | None
    report: Callable[[str], None]
    silver_corpus: str | Sequence[str] | None = None
    labels: Sequence[str] | None = None
    clusters: Clusters | None = None
    vectors: Vectors | None = None
    pretrained: Pretrained | None = None

    def treebank(self, examples: list[Example]) -> Treebank:
        """Gold trees of examples, on tags as the settings have them, and silver trees.

        Silver trees are tagged as texts will be, or, if the tagger was trained on them, as gold ones are: in
        this way the parser learns from the same tags, with the same errors.
        """
        corpora = silver_examples(self.nlp, self.silver_corpus, name=self.name)
        if self.jackknife is None:
            gold = self._annotated(self.annotate_with, examples)
            silver = [self._annotated(self.annotate_with, own) for own in corpora.values()]
        else:
            tags = JackknifedTags.of(
                self.jackknife, examples, self.nlp, parser=self.name, report=self.report
            )
            gold = training_treebank(examples, tags.documents(examples), self.read)
            keys = [sentences_of_corpus(self.nlp, name) for name in corpora]
            silver = [
                training_treebank(own, tags.documents(own, key), self.read)
                if key in tags.parts
                else self._annotated([self.jackknife], own)
                for key, own in zip(keys, corpora.values(), strict=True)
            ]
        if silver:
            n = sum(len(part.heads) for part in silver)
            self.report(f"{len(gold.heads):,} gold tokens, {n:,} silver tokens")
        return Treebank.mixed([gold, *silver])

    @property
    def _taggers(self) -> Sequence[str]:
        """What tags texts that it was not trained on."""
        return [self.jackknife] if self.jackknife is not None else self.annotate_with

    def dev(self) -> Treebank | None:
        """The trees of the development corpus, if it has some."""
        if not self.dev_corpus:
            return None
        examples = corpus_examples(self.nlp, self.dev_corpus, parser=self.name)
        if not examples:
            return None
        treebank = self._annotated(self._taggers, examples)
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
    """Say how many tokens of a parser's training data have no head, if some have none."""
    missing, tokens = int((treebank.heads == MISSING).sum()), len(treebank.heads)
    if missing:
        logger.warning(Warnings.W101.format(name=name, missing=missing, tokens=tokens))


def annotated_by(
    names: Iterable[str], examples: Iterable[Example], nlp: Language | None, *, parser: str
) -> Iterable[Doc]:
    """Run trained components over the predicted tokens of examples, which are not changed, inside gold
    sentences."""
    docs: Iterable[Doc] = (with_gold_sentences(example) for example in examples)
    for name in names:
        docs = component(nlp, name, parser=parser).pipe(docs)
    return docs


def component(nlp: Language | None, name: str, *, parser: str) -> Any:
    """A component of the pipeline, frozen ones included."""
    if nlp is None or name not in nlp.component_names:
        raise SpectralError(Errors.S118.format(name=parser, missing=name))
    return nlp.get_pipe(name)


@dataclass
class JackknifedTags:
    """Tags as a tagger would give them, had it not been trained on the documents.

    parts: Those of the sentences that the tagger was trained on, by corpus (see `sentences_of_corpus`); None
        is the gold treebank.
    """

    parts: "Mapping[str | None, Jackknifed]"

    @classmethod
    def of(
        cls,
        name: str,
        examples: list[Example],
        nlp: Language | None,
        *,
        parser: str,
        report: Callable[[str], None],
    ) -> "JackknifedTags":
        """Those of the tagger of that name, which stands before the parser. The examples of the gold treebank
        come in the order of the text."""
        from .tagger import SpectralTagger

        tagger = component(nlp, name, parser=parser)
        if not isinstance(tagger, SpectralTagger):
            raise SpectralError(Errors.S121.format(name=parser, tagger=name))
        sentences = list(tagged_sentences(examples, nlp, name, source=tagger.source))
        parts = tagger.jackknife(sentences, nlp, folds=min(FOLDS, len(sentences)))
        own = parts[None]
        gold = numpy.array([tag for sentence in sentences for tag in sentence.tags])
        guessed = numpy.array([tag for tag, _ in own.tag_classes])[own.classes]
        right = (gold == guessed)[gold != ""]
        if len(right):
            report(f"'{name}' jack-knifed in {FOLDS} blocks: {right.mean():.2%} of tags are right")
        found: dict[str | None, Jackknifed] = {None: own}
        found |= {sentences_of_corpus(nlp, name): part for name, part in parts.items() if name}
        return cls(found)

    def documents(self, examples: list[Example], corpus: str | None = None) -> Iterator[Doc]:
        """The predicted documents of a corpus's examples, which are not changed, with their tags, in gold
        sentences."""
        from .tagger import annotation_values

        result = self.parts[corpus]
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
                tags = numpy.full((len(doc), result.tags.shape[1]), -1, dtype="int32")
                probs = numpy.zeros(tags.shape, dtype="float32")
                array[is_word] = values[own]
                tags[is_word], probs[is_word] = result.tags[own], result.probs[own]
                doc.from_array([TAG, POS, MORPH], array)
                store_tags(doc, TagGuesses(result.labels, tags, probs))
            yield doc


def jackknifed(
    name: str,
    examples: list[Example],
    nlp: Language | None,
    *,
    parser: str,
    report: Callable[[str], None],
) -> Iterator[Doc]:
    """The documents of examples of the gold treebank, tagged by taggers that have not seen them; see
    `JackknifedTags`."""
    return JackknifedTags.of(name, examples, nlp, parser=parser, report=report).documents(examples)


def find_clusters(path: str | Path | None, vocab: Vocab) -> Clusters | None:
    """Word clusters of a directory made by `spacy spectral eigenwords`, or of any pipeline with vectors,
    whose words are clustered then; or else of the vocabulary's lookups if there are some."""
    if path is None and not vocab.lookups.has_table("eigenword_clusters"):
        return None
    from ..models.eigenwords.clusters import WordClusters

    if path is None:
        return WordClusters.from_lookups(vocab.lookups).checked()
    from ..models.eigenwords.vectors import clusters_of_vectors, read_vocab

    if not (Path(path) / "vocab").is_dir():
        raise SpectralError(Errors.S216.format(path=path))
    found = read_vocab(path)
    if found.vectors.size and not found.lookups.has_table(WordClusters.words_table):
        return clusters_of_vectors(found)
    return WordClusters.from_lookups(found.lookups)


def find_word_vectors(path: str | Path | None, vocab: Vocab) -> "WordVectors | None":
    """Word vectors of a directory made by `spacy spectral eigenwords`, or of any pipeline; or else those
    of the vocabulary if it has some."""
    if path is None and not vocab.vectors.size:
        return None
    from ..models.eigenwords.vectors import WordVectors, read_vocab

    if path is None:
        return WordVectors.from_vocab(vocab)
    is_there = (Path(path) / "vocab").is_dir()
    vectors = WordVectors.from_vocab(read_vocab(path)) if is_there else None
    if vectors is None:
        raise SpectralError(Errors.S216.format(path=path))
    return vectors


def find_pretrained(path: str | Path | None) -> Pretrained | None:
    """The encoder that `spacy spectral pretrain` has written to a file."""
    if path is None:
        return None
    from ..models.biaffine.pretrain import PretrainedEncoder

    if not Path(path).is_file():
        raise SpectralError(Errors.S463.format(path=path))
    try:
        return PretrainedEncoder.from_bytes(Path(path).read_bytes())
    except SpectralError as error:
        raise SpectralError(Errors.S467.format(path=path, reason=error)) from error
