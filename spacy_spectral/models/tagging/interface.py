"""Taggers that give distributions: what the component asks them, answered from what an expert has to say.

A pair of fine and coarse tag is a class. What is chosen for each token is the likeliest class and, among the
analyses that were seen with it, the likeliest one.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray

from ...trees.interface import Clusters
from ...trees.sentences import Bools, Ints
from ..linear.analyses import KnownForms
from ..linear.tagger import SourceTagger, Tagging, parts_of_speech, token_blocks
from ..linear.tagger_training import Corpus, tag_label

Logs = NDArray[numpy.float32]


def seen_in(corpus: Corpus) -> Bools:
    """[classes, analyses], which of them tokens of a corpus have together."""
    seen = numpy.zeros((len(corpus.tag_classes), len(corpus.morphs)), dtype=bool)
    known = (corpus.tag_gold >= 0) & (corpus.morph_gold >= 0)
    seen[corpus.tag_gold[known], corpus.morph_gold[known]] = True
    return seen


class Opinion(Protocol):
    """What a tagger has to say of the tokens of some sentences."""

    def classes(self) -> Logs:
        """[tokens, classes], log P(class), but for a constant of each token."""
        ...

    def analyses(self, classes: Ints) -> Logs:
        """[tokens, analyses], log P(analysis | class), but for a constant of each token."""
        ...


class DistributionTagger(SourceTagger):
    """A tagger that has a probability for every class and every analysis; `opinion` is all that its kinds
    differ in. See `models.linear.tagger.TaggerModel`, which is asked the same.

    tag_classes: Pairs of fine and coarse tag.
    morphs: Morphological analyses, "" for no features.
    seen: bool[classes, analyses], which were seen together.
    """

    clusters: Clusters | None
    known: KnownForms | None = None  # the forms of a lexicon

    def __init__(self, tag_classes: list[tuple[str, str]], morphs: list[str], seen: Bools):
        self.tag_classes, self.morphs, self.seen = tag_classes, morphs, seen
        labels = [tag_label(pair) for pair in tag_classes]
        self.tags = list(dict.fromkeys(labels))
        self.parts, self._part_of = parts_of_speech(tag_classes)
        numbers = {label: i for i, label in enumerate(self.tags)}
        self._label_of = numpy.array([numbers[label] for label in labels])
        # classes by label, and where those of each label start
        self._by_label = numpy.argsort(self._label_of, kind="stable")
        self._label_starts = numpy.searchsorted(
            self._label_of[self._by_label], numpy.arange(len(self.tags))
        )

    def words(self, words: Sequence[str]) -> Any:
        """What is known of words; its `at` gives that of tokens, by which word each is."""
        raise NotImplementedError

    def opinion(self, words: Any, starts: Ints) -> Opinion:
        """What it has to say of sentences."""
        raise NotImplementedError

    def tag(self, sentences: Sequence[Sequence[str]], *, top: int = 3) -> Tagging:
        """Tag sentences, and report the `top` tags of each token."""
        words = [word for sentence in sentences for word in sentence]
        starts = numpy.cumsum([0, *map(len, sentences)], dtype="int32")
        return self.tag_words(self.words(words), starts, top=top)

    def tag_words(
        self,
        words: Any,
        starts: Ints,
        top: int = 3,
        given: Ints | None = None,
        parts: Ints | None = None,
    ) -> Tagging:
        """Tag sentences. Tokens have given tags, as indices into `tags`, and parts of speech that their tags
        must have, as indices into `parts`, -1 where they are to be found. Their class and morphology are
        chosen with them, tags around are not: who tags twice gets the same."""
        none = numpy.zeros((0, top), dtype="int32")
        blocks = [Tagging(none[:, 0], none, none.astype("float32"), none[:, 0])]
        for own, own_starts in token_blocks(starts):
            allowed = self._allowed(own, given, parts)
            opinion = self.opinion(words.at(own), own_starts)
            blocks.append(self._tagging(opinion, top, allowed))
        return Tagging(*map(numpy.concatenate, zip(*blocks, strict=True)))

    def _allowed(self, own: slice, given: Ints | None, parts: Ints | None) -> Bools | None:
        """[tokens, classes], which may be chosen; None if all may."""
        allowed = None
        for asked, of_class in ((given, self._label_of), (parts, self._part_of[:-1])):
            if asked is not None and (asked[own] >= 0).any():
                fits = (asked[own, None] < 0) | (of_class == asked[own, None])
                allowed = fits if allowed is None else allowed & fits
        return allowed

    def _tagging(self, opinion: Opinion, top: int, allowed: Bools | None) -> Tagging:
        logs = opinion.classes()
        classes = self._classes(logs, allowed)
        return Tagging(classes, *self._likeliest(logs, top), self._analyses(opinion, classes))

    def _analyses(self, opinion: Opinion, classes: Ints) -> Ints:
        """The likeliest analysis of each token that was seen with its class, -1 if there is none."""
        if not self.morphs:
            return numpy.full(len(classes), -1, dtype="int32")
        seen = self.seen[classes]
        best = numpy.where(seen, opinion.analyses(classes), -numpy.inf).argmax(axis=1)
        return numpy.where(seen.any(axis=1), best, -1).astype("int32")

    def _classes(self, logs: Logs, allowed: Bools | None) -> Ints:
        if allowed is not None:
            logs = numpy.where(allowed, logs, -numpy.inf)
        return logs.argmax(axis=1).astype("int32")

    def _likeliest(self, logs: Logs, top: int) -> tuple[Ints, NDArray[numpy.float32]]:
        """The likeliest tags of each token, -1 for none, and their probabilities."""
        tags = numpy.full((len(logs), top), -1, dtype="int32")
        probs = numpy.zeros((len(logs), top), dtype="float32")
        left = numpy.exp(log_softmax(logs))[:, self._by_label]
        left = numpy.add.reduceat(left, self._label_starts, axis=1)
        every = numpy.arange(len(logs))
        for rank in range(min(top, len(self.tags))):
            best = left.argmax(axis=1)
            tags[:, rank], probs[:, rank] = best, left[every, best]
            left[every, best] = -1.0
        return tags, numpy.minimum(probs, 1.0)


def log_softmax(scores: NDArray) -> NDArray:
    """Logarithms of probabilities, row by row."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - numpy.log(numpy.exp(scores).sum(axis=1, keepdims=True))
