"""What pipelines make of a treebank: measured word by word, and compared with each other.

Everything is measured on the treebank's own words and sentences, but for the scores from raw text. Two
pipelines are compared sentence by sentence, by a paired bootstrap (Berg-Kirkpatrick, Burkett and Klein 2012):
sentences are drawn again and again with replacement, and the difference of the scores is looked at.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_model
from spacy.vocab import Vocab

from .base.errors import SpectralError
from .models.constituency.evalb import Counts
from .pipeline.annotations import tag_probs
from .pipeline.constituency import count_brackets
from .pipeline.parser import store_with_alternatives
from .raw import evaluate_raw
from .readers import bracketed_docs, parsed_anew, superseded
from .scorers import Compared, compare, probabilities, score_ud
from .treebank.conllu import Sentence, scan_conllu
from .treebank.documents import CONLLU_SUFFIXES, read_docs, sentences_to_doc, treebank_files

# more kinds of documents than these are no genres
_MOST_GENRES = 30
RESAMPLES = 2000
_CONFIDENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


class GoldSentence(NamedTuple):
    """A sentence of a treebank: its document, what it is called, and the genre of the text it is from."""

    doc: Doc
    name: str
    genre: str


def read_sentences(path: Path, vocab: Vocab) -> list[GoldSentence]:
    """Read a treebank sentence by sentence.

    The genre is what the comments `genre` or `meta::genre` say; or else that part of the names of documents
    (`newdoc id = weblog-juancole.com...`) that tells a few groups of them apart.
    """
    brackets = bracketed_docs(path, vocab)
    if brackets is not None:
        return [GoldSentence(doc, str(i), "") for i, doc in enumerate(brackets, start=1)]
    docs: list[Doc] = []
    names: list[str] = []
    origins: list[tuple[str, str]] = []
    for file in treebank_files(path):
        if file.suffix not in CONLLU_SUFFIXES:
            for doc in read_docs(file, vocab, trees=False):
                docs += [sent.as_doc(copy_user_data=True) for sent in doc.sents]
            names += [str(i) for i in range(len(names) + 1, len(docs) + 1)]
            origins += [("", "")] * (len(docs) - len(origins))
            continue
        genre = document = ""
        for item in scan_conllu(file, trees=False):
            if not isinstance(item, Sentence):
                raise item
            if item.starts_document:
                document, genre = item.comment("newdoc") or "", ""
            genre = item.comment("meta::genre") or item.comment("genre") or genre
            docs.append(sentences_to_doc([item], vocab))
            names.append(item.comment("sent_id") or f"line {item.line}")
            origins.append((genre, document))
    return [GoldSentence(*row) for row in zip(docs, names, _genres(origins), strict=True)]


def _genres(origins: Sequence[tuple[str, str]]) -> list[str]:
    if any(genre for genre, _ in origins):
        return [genre for genre, _ in origins]
    parts = {name: re.split(r"[-_./:]", name) for _, name in origins if name}
    for place in range(max(map(len, parts.values()), default=0)):
        found = {own[place] for own in parts.values() if len(own) > place}
        if len(found) > 1:
            if len(found) > min(_MOST_GENRES, len(parts) // 2):
                break
            return ["".join(parts.get(name, [])[place : place + 1]) for _, name in origins]
    return [""] * len(origins)


@dataclass
class Measured:
    """What a pipeline has made of a treebank.

    docs: The parsed sentences.
    words: All words of the treebank; the same for every pipeline.
    sentence: Which sentence each is in.
    heads, labels, tags: The probabilities of heads, of labels and of tags, nan for none.
    raw: The scores from raw text; none where `why_not` says why.
    """

    title: str
    docs: list[Doc]
    words: list[Compared]
    sentence: NDArray[numpy.int64]
    heads: NDArray[numpy.float64]
    labels: NDArray[numpy.float64]
    tags: NDArray[numpy.float64]
    scores: dict[str, Any]
    brackets: Counts
    words_per_second: float
    raw: dict[str, float]
    why_not: str

    @cached_property
    def has_arcs(self) -> bool:
        """Whether there are arcs that can be compared."""
        return any(word.label and word.guess for word in self.words)

    @cached_property
    def has_tags(self) -> bool:
        return any(word.tag and word.guessed_tag for word in self.words)

    @cached_property
    def has_brackets(self) -> bool:
        return bool(self.brackets.gold.total() and self.brackets.predicted.total())

    @cached_property
    def scored(self) -> NDArray[numpy.int64]:
        """The words whose head is known."""
        return numpy.flatnonzero([bool(word.label) for word in self.words])

    @cached_property
    def tagged(self) -> NDArray[numpy.int64]:
        """The words whose tag is known."""
        return numpy.flatnonzero([bool(word.tag) for word in self.words])

    @cached_property
    def head_right(self) -> NDArray[numpy.bool_]:
        return numpy.array([word.head_right for word in self.words], dtype=bool)

    @cached_property
    def arc_right(self) -> NDArray[numpy.bool_]:
        return numpy.array([word.arc_right for word in self.words], dtype=bool)

    @cached_property
    def tag_right(self) -> NDArray[numpy.bool_]:
        return numpy.array([word.tag_right for word in self.words], dtype=bool)

    @cached_property
    def arcs(self) -> NDArray[numpy.float64]:
        """The probabilities of heads with their labels."""
        return self.heads * self.labels


def measure(
    nlp: Language, data: Path, sentences: Sequence[GoldSentence], *, title: str, raw: bool = True
) -> Measured:
    """Run a pipeline over a treebank and compare.

    sentences: From `read_sentences`, with the pipeline's vocabulary.
    raw: Whether to find the scores from raw text, too.
    """
    golds = [sentence.doc for sentence in sentences]
    parsed, seconds = parsed_anew(nlp, golds)
    examples = [Example(doc, gold) for doc, gold in zip(parsed, golds, strict=True)]
    words: list[Compared] = []
    places: list[int] = []
    probs: list[tuple[float, float, float]] = []
    for number, eg in enumerate(examples):
        arcs = probabilities(eg.predicted)
        for word in compare(eg):
            words.append(word)
            places.append(number)
            own = arcs[word.found] if arcs is not None and word.found >= 0 else (numpy.nan,) * 2
            tag = numpy.nan
            if word.guessed_tag:
                tag = tag_probs(eg.predicted[word.found]).get(word.guessed_tag, numpy.nan)
            probs.append((*own, tag))
    heads, labels, tags = numpy.array(probs, dtype="float64").reshape(-1, 3).T
    scores: dict[str, float] = {}
    why_not = ""
    if not superseded(nlp, gold_tags=False):
        why_not = "the pipeline finds no sentences"
    elif not raw or bracketed_docs(data, nlp.vocab) is not None:
        why_not = "see 'spacy spectral evaluate --raw' for constituents" if raw else "not asked for"
    else:
        try:
            scores = evaluate_raw(nlp, data)
        except SpectralError as error:
            why_not = str(error)
    speed = scores.get("words_per_second") or (len(words) / seconds if seconds else 0.0)
    return Measured(
        title, parsed, words, numpy.array(places, dtype="int64"), heads, labels, tags,
        score_ud(examples), count_brackets(examples), speed, scores, why_not,
    )  # fmt: skip


class Difference(NamedTuple):
    """By how much a score of one pipeline is above that of another.

    value: In the treebank.
    low, high: Between these it is in 95 % of the drawn samples.
    chance: How often a difference this large, to either side, would come about by chance.
    """

    value: float
    low: float
    high: float
    chance: float


def paired_bootstrap(
    first: NDArray, second: NDArray, total: NDArray, *, seed: int = 0, n: int = RESAMPLES
) -> Difference:
    """Compare two pipelines by what they get right, sentence by sentence.

    first, second: How much is right of each sentence.
    total: How much there is of each.
    n: How many samples to draw.
    """
    gain = (second - first).astype("float64")
    value = float(gain.sum() / total.sum())
    random, drawn = numpy.random.default_rng(seed), numpy.empty(n)
    for i in range(n):
        own = random.integers(0, len(total), len(total))
        drawn[i] = gain[own].sum() / max(total[own].sum(), 1)
    low, high = numpy.quantile(drawn, (0.025, 0.975))
    # as if there were no difference: how far samples are away from the value itself
    extreme = int((numpy.abs(drawn - value) >= abs(value)).sum())
    return Difference(value, float(low), float(high), (extreme + 1) / (n + 1))


def load_for_report(model: str) -> Language:
    """Load a pipeline so that its parsers tell the second-best head of every word."""
    nlp = load_model(model)
    settings = store_with_alternatives(nlp)
    return load_model(model, config=settings) if settings else nlp


def named_ranges(limits: Sequence[int], unit: str) -> Callable[[int], str]:
    """A function that names the range that a number is in: "1-5 words"."""
    lows = [1, *(limit + 1 for limit in limits)]

    def name(value: int) -> str:
        place = sum(value > limit for limit in limits)
        if place == len(limits):
            return f"more than {limits[-1]}{unit}"
        low, high = lows[place], limits[place]
        return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"

    return name


def confidence_range(prob: float) -> str:
    """The range that a probability is in: "0.9 to 0.95"."""
    if prob != prob:
        return "unknown"
    place = sum(prob >= limit for limit in _CONFIDENCES)
    low = 0.0 if place == 0 else _CONFIDENCES[place - 1]
    high = 1.0 if place == len(_CONFIDENCES) else _CONFIDENCES[place]
    return f"{low:g} to {high:g}"


def range_start(name: str) -> float:
    """What names of ranges are sorted by; others have none."""
    found = re.match(r"(more than )?(\d+(?:\.\d+)?)", name)
    return float(found[2]) + bool(found[1]) if found else 0.0
