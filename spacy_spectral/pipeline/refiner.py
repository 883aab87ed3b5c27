"""The pipeline component `spectral_refiner`."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy
from spacy.attrs import TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError
from ..base.learnt import Learnt
from ..models.refine.model import RefinedGrammar
from ..models.refine.subtags import SubTags, state_names, sub_tags
from ..trees.sentences import MISSING
from .annotations import register, store_sub_tags
from .component import SpectralPipe
from .documents import TokenReader, fixed_heads, string_values, training_treebank
from .parser import SpectralParser
from .training_data import ParserData, component, warn_of_missing, with_gold_tags
from .words import with_words, word_examples


class SpectralRefiner(SpectralPipe):
    """Finds sub-tags: which of the kinds of words that its tag has a token belongs to.

    They are the likeliest states of a refined grammar: in the tree of a sentence where a parser before this
    has set one, over all trees otherwise.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_refiner",
        *,
        symbol: str | Sequence[str] = "TAG",
        use_heads: bool = True,
        parser: str | None = None,
        annotate_with: Sequence[str] = (),
        jackknife: str | None = None,
    ):
        """symbol: The token attribute, or attributes, that make a tag.
        use_heads: Whether the trees that documents have are looked at.
        parser: A `spectral_parser` before this one by `spacy-spectral.Refined.v1`: its grammar is used,
        and none is learnt.
        annotate_with, jackknife: Whose tags to train on; see `SpectralParser`."""
        super().__init__(vocab, model, name)
        learnt = model.attrs.get("learnt")
        if not isinstance(learnt, Learnt) or learnt.kind is not RefinedGrammar:
            raise SpectralError(Errors.S803.format(name=name, model=model.name))
        self.use_heads = use_heads
        self.parser = parser
        self.annotate_with = list(annotate_with)
        self.jackknife = jackknife
        symbols = [symbol] if isinstance(symbol, str) else symbol
        self.read = TokenReader(symbols, name=name)
        register("spectral_refiner")

    @property
    def labels(self) -> tuple[str, ...]:
        """The sub-tags that the refiner can give."""
        return tuple(state_names(self.learnt)) if self.is_learnt else ()

    def fit(
        self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None
    ) -> RefinedGrammar:
        """The grammar of `parser`, or what is learnt from all training examples."""
        if self.parser is not None:
            pipe = component(nlp, self.parser, parser=self.name)
            if not isinstance(pipe, SpectralParser) or not isinstance(pipe.grammar, RefinedGrammar):
                raise SpectralError(Errors.S807.format(name=self.name, parser=self.parser))
            return pipe.grammar
        examples = self.training_examples(get_examples, nlp)
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise SpectralError(Errors.S117.format(name=self.name))
        data = ParserData(
            nlp, self.read, self.name, self.annotate_with, self.jackknife, None, self.report
        )
        treebank = data.treebank(examples)
        warn_of_missing(treebank, self.name)
        return self.recipe.fit(treebank, report=self.report)

    def predict(self, docs: Iterable[Doc]) -> list[SubTags]:
        """Find the sub-tags of documents with sentence boundaries and tags, without changing them;
        states are -1 and probabilities NaN for whitespace."""
        grammar = self.learnt
        batch = self.read(docs)
        heads = numpy.full(len(batch.tokens.words), MISSING, dtype="int32")
        if self.use_heads:
            heads = fixed_heads(batch)
        found = sub_tags(grammar, batch.tokens, heads)
        n = int(batch.offsets[-1])
        states = numpy.full(n, -1, dtype="int32")
        probs = numpy.full(n, numpy.nan, dtype="float32")
        states[batch.places], probs[batch.places] = found
        # copies, so that a document does not keep the arrays of its whole batch
        return [
            SubTags(states[a:b].copy(), probs[a:b].copy())
            for a, b in pairwise(batch.offsets.tolist())
        ]

    def set_annotations(self, docs: Iterable[Doc], scores: list[SubTags]) -> None:
        """Keep sub-tags, from `predict`, on documents."""
        names = list(self.labels)
        for doc, prediction in zip(docs, scores, strict=True):
            if len(doc):
                store_sub_tags(doc, names, prediction.states, prediction.probs)

    def refined(self, doc: Doc) -> Doc:
        """A copy of a document with sentence boundaries and tags whose tags are sub-tags, for components
        that look at tags."""
        words = with_words(doc)  # a new one, unless tokens are words
        copy = doc.copy() if words is doc else words
        (prediction,) = self.predict([words])
        if len(doc):
            tags = string_values([copy], self.labels)
            values = copy.to_array([TAG]).reshape(-1)
            is_word = prediction.states >= 0
            values[is_word] = tags[prediction.states[is_word]]
            copy.from_array([TAG], values)
        return copy

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, float | None]:
        """ "subtag_acc": the share of tokens that have the same sub-tag as by the gold trees of the same
        sentences; None if no sentence has a gold tree, and gold tags."""
        grammar = self.learnt
        examples = [eg for eg in word_examples(examples) if self.read.can_read(eg.reference)]
        treebank = training_treebank(examples, with_gold_tags(examples), self.read)
        known = numpy.zeros(len(treebank.heads), dtype=bool)
        for a, b in treebank.tokens.bounds():
            known[a:b] = (treebank.heads[a:b] != MISSING).all()
        if not known.any():
            return {"subtag_acc": None}
        names = state_names(grammar)
        gold = sub_tags(grammar, treebank.tokens, treebank.heads).states
        found = [
            token._.subtag for eg in examples for token in eg.predicted if not token.text.isspace()
        ]
        right = numpy.array([names[g] == f for g, f in zip(gold, found, strict=True)])
        return {"subtag_acc": float(right[known].mean())}
