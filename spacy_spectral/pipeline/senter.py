"""The pipeline component `spectral_senter`: sentence boundaries with probabilities."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy
from numpy.typing import NDArray
from spacy.attrs import LENGTH, ORTH, SENT_START, SPACY
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.progress import EpochBar
from ..models.linear.senter import Layout, Passage, SenterModel, count_line_ends
from ..treebank.documents import set_sentence_starts
from .annotations import register, store_sent_starts
from .component import SpectralPipe
from .documents import string_finder


class SpectralSenter(SpectralPipe):
    """Splits documents into sentences. Boundaries that are set already are kept."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_senter",
        *,
        threshold: float = 0.5,
        store: bool = True,
        scorer: Callable | None = None,
    ):
        """threshold: How likely a token must be to start a sentence.
        store: Whether the probabilities are kept, in `token._.sent_start_prob`."""
        super().__init__(vocab, model, name, scorer=scorer)
        self.threshold = threshold
        self.store = store
        register("spectral_senter")

    def fit(
        self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None
    ) -> SenterModel:
        """What is learnt from the sentences of all reference documents."""
        passages = [passage(eg.reference) for eg in self.training_examples(get_examples, nlp)]
        with EpochBar(self.name, self.recipe.epochs) as progress:
            return self.recipe.fit(passages, progress=progress)

    def predict(self, docs: Iterable[Doc]) -> list[NDArray[numpy.float32]]:
        """How likely tokens are to start a sentence, without changing documents; NaN for white space, 1
        for the first word."""
        docs = list(docs)
        learnt = self.learnt
        words = _Words(docs)
        types = [word for word in words.types if not word.isspace()]
        row_of_type = numpy.cumsum([not word.isspace() for word in words.types])
        rows = row_of_type[words.type_of[words.places]].astype("int32")
        values = numpy.full(words.offsets[-1], numpy.nan, dtype="float32")
        values[words.places] = learnt.probabilities(types, rows, words.layout, words.bounds)
        return [values[begin:end] for begin, end in pairwise(words.offsets.tolist())]

    def set_annotations(self, docs: Iterable[Doc], scores: list[NDArray[numpy.float32]]) -> None:
        """Write sentence boundaries, from `predict`."""
        docs = list(docs)
        offsets = numpy.cumsum([0, *map(len, docs)])
        probs = numpy.concatenate([numpy.zeros(0, dtype="float32"), *scores])
        # NaN is no start
        starts = numpy.where(probs > self.threshold, 1, -1)
        # the first word is one only if no white space is in front of it
        words = numpy.flatnonzero(~numpy.isnan(probs))
        first = numpy.searchsorted(words, offsets[:-1])
        starts[words[first[first < len(words)]]] = -1
        starts[offsets[:-1][numpy.diff(offsets) > 0]] = 1
        for doc, (begin, end) in zip(docs, pairwise(offsets.tolist()), strict=True):
            if begin == end:
                continue
            own = starts[begin:end]
            given = doc.to_array([SENT_START]).astype("int64").ravel()
            if given.any():
                own = numpy.where(given != 0, given, own)
            set_sentence_starts(doc, own)
            if self.store:
                # a copy, so that a Doc does not keep the values of its whole batch
                store_sent_starts(doc, probs[begin:end].copy())


class _Words:
    """The words of documents and where they stand, one document after the other: the distinct tokens,
    and which of them each token is; the tokens that are words, not white space, and where those of
    documents start."""

    def __init__(self, docs: list[Doc]):
        arrays = [doc.to_array([ORTH, LENGTH, SPACY]).reshape(-1, 3) for doc in docs]
        array = numpy.concatenate([numpy.zeros((0, 3), dtype="uint64"), *arrays])
        self.offsets = numpy.cumsum([0, *map(len, docs)])
        orths, self.type_of = numpy.unique(array[:, 0], return_inverse=True)
        find = string_finder(docs)
        self.types = [find(orth) for orth in orths.tolist()]
        is_space = numpy.array([word.isspace() for word in self.types], dtype=bool)[self.type_of]
        self.places = numpy.flatnonzero(~is_space)
        self.bounds = numpy.searchsorted(self.places, self.offsets).astype("int32")
        lengths, spaces = array[:, 1].astype("int64"), array[:, 2].astype("int64")
        ends = (numpy.cumsum(lengths + spaces) - spaces)[self.places]
        own = lengths[self.places]
        ended = numpy.zeros(len(self.types), dtype="int64")
        for i, word in enumerate(self.types):
            if word.isspace():
                ended[i] = count_line_ends(word)
        passed = numpy.append(0, numpy.cumsum(ended[self.type_of]))[self.places]
        gaps = numpy.diff(ends, prepend=0) - own
        line_ends = numpy.diff(passed, prepend=0)
        # in front of a document there is nothing
        first = self.bounds[:-1][numpy.diff(self.bounds) > 0]
        gaps[first] = line_ends[first] = 0
        self.layout = Layout(own, gaps, line_ends)


def passage(doc: Doc) -> Passage:
    """The sentences of a document, to learn from."""
    own = _Words([doc])
    starts = doc.to_array([SENT_START]).astype("int64").ravel()[own.places]
    gold = numpy.where(starts == 1, 1, numpy.where(starts == 0, -1, 0)).astype("int32")
    words = [own.types[i] for i in own.type_of[own.places].tolist()]
    return Passage(words, own.layout, gold)
