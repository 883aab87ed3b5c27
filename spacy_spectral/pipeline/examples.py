"""What spaCy's examples tell by themselves: gold annotation on predicted tokens, and tagged sentences."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy
from spacy.attrs import LEMMA, MORPH, ORTH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.util import resolve_dot_names

from ..base.errors import Errors, SpectralError
from ..treebank.documents import set_sentence_starts

if TYPE_CHECKING:
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
    return read_examples(get_examples, f"{kind}.initialize")


def corpus_examples(nlp: Language | None, name: str, *, parser: str) -> list[Example]:
    """The examples of a corpus of the pipeline's own config.

    name: Where the config has the corpus, e.g. "corpora.dev".
    RETURNS: The examples; none if the corpus has no path.
    """
    section, _, key = name.partition(".")
    config = nlp.config.interpolate() if nlp is not None else {}
    block = config.get(section, {}).get(key)
    if block is None:
        raise SpectralError(Errors.S122.format(name=parser, corpus=name))
    if "path" in block and block["path"] is None:
        return []
    (corpus,) = resolve_dot_names(config, [name])
    return list(corpus(nlp))


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
    examples: Iterable[Example], nlp: Language | None = None, name: str = ""
) -> "Iterator[TaggedSentence]":
    """The tokens of the predicted Docs with the annotation of the reference, without white space.

    Sentences are as the tagger will find them: those of the predicted Doc where they are set, those
    of the reference if a component before this one sets them, and otherwise the whole Doc is one.
    """
    from ..models.linear.tagger_training import TaggedSentence

    gold_sentences = nlp is not None and _sentences_come_first(nlp, name)
    for eg in examples:
        words = [token.text for token in eg.predicted]
        if not words:
            continue
        tags, pos, morphs = (aligned(eg, attr) for attr in (TAG, POS, MORPH))
        if eg.predicted.has_annotation("SENT_START"):
            is_start = eg.predicted.to_array([SENT_START]).ravel() == 1
        elif gold_sentences:
            is_start = numpy.array(eg.get_aligned_sent_starts(), dtype=object) == True  # noqa: E712
        else:
            is_start = numpy.zeros(len(words), dtype=bool)
        bounds = [0, *(i for i in numpy.flatnonzero(is_start).tolist() if i > 0), len(words)]
        for start, end in pairwise(bounds):
            kept = [i for i in range(start, end) if not words[i].isspace()]
            if kept:
                yield TaggedSentence(
                    [words[i] for i in kept],
                    [tags[i] or "" for i in kept],
                    [pos[i] or "" for i in kept],
                    [_features(morphs[i]) for i in kept],
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
