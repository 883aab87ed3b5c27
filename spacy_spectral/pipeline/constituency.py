"""The spaCy face of the parsers for constituents: `spectral_constituency`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from spacy.attrs import DEP, HEAD, ORTH, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError
from ..models.constituency.calibration import calibrated
from ..models.constituency.evalb import Constituent, Counts
from ..models.constituency.tokens import Arcs
from ..models.constituency.trees import ROOTS, Parsed
from ..treebank.brackets import Tree
from ..trees.calibration import Reliability
from .annotations import register
from .component import SpectralPipe
from .constituents import NAME, SentenceTree, store_trees, stored_trees, to_tree
from .training_data import annotated_by, corpus_examples, find_clusters, find_word_vectors


class GoldTrees(NamedTuple):
    """Sentences of gold documents that have trees.

    constituents: Of every sentence.
    arcs: Of every sentence, if a parser for dependencies stands before.
    """

    sentences: list[list[str]]
    constituents: list[list[Constituent]]
    arcs: list[Arcs] | None


class SpectralConstituency(SpectralPipe):
    """Finds constituents, with the probability of each."""

    # there are no brackets around words that do not stand in the text
    is_about_words = False

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_constituency",
        *,
        nbest: int = 0,
        spans_key: str | None = "constituents",
        set_tags: bool = False,
        annotate_with: Sequence[str] = (),
        scorer: Callable | None = None,
    ):
        """model: From `spacy-spectral.ConstituencyProduct.v1`, `spacy-spectral.LPCFG.v1`,
        `spacy-spectral.SpanCRF.v1` or `spacy-spectral.NeuralSpan.v1`.
        nbest: How many trees of every sentence to keep in `sent._.constituency_nbest`.
        spans_key: Where constituents go in `doc.spans`; None for nowhere.
        set_tags: Whether to write the tags of the trees to tokens that have none.
        annotate_with: Trained components before this one that end with a parser for dependencies, e.g.
        ["spectral_tagger", "spectral_parser"], whose arcs the model learns to look at; they are run over the
        training documents."""
        super().__init__(vocab, model, name, scorer=scorer)
        if nbest < 0:
            raise SpectralError(Errors.S704.format(name=name, value=nbest))
        self.nbest = nbest
        self.spans_key = spans_key
        self.set_tags = set_tags
        self.annotate_with = list(annotate_with)
        register(NAME)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of constituents."""
        return tuple(self.learnt.labels) if self.is_learnt else ()

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Any = None,
        clusters: str | Path | None = None,
        vectors: str | Path | None = None,
        dev_corpus: str | None = None,
    ) -> None:
        """Train the parser on the trees of gold documents. The whole training happens here.

        clusters: A directory with eigenword clusters; by default those of the vocabulary's lookups, if
        there are some.
        vectors: A directory with word vectors; by default those of the vocabulary, if there are some.
        dev_corpus: The corpus of the config to learn from how confident the parser may be, e.g.
        "corpora.dev".
        """
        trees: list[Tree] = []
        arcs: list[Arcs] = []
        gold = [eg.reference for eg in self.training_examples(get_examples, nlp)]
        for doc, parsed in zip(gold, self._parsed(gold, nlp), strict=True):
            own = stored_trees(doc)
            whole = [to_tree(t.parsed, [doc[i].text for i in t.tokens], root=True) for t in own]
            trees += [tree for tree in whole if tree is not None]
            if parsed is not None:
                pairs = zip(own, whole, strict=True)
                arcs += self._arcs(parsed, [t.tokens for t, tree in pairs if tree is not None])
        if not trees:
            raise SpectralError(Errors.S703)
        recipe = self.model.attrs["recipe"]
        found: dict[str, Any] = {
            "clusters": find_clusters(clusters, self.vocab),
            "vectors": find_word_vectors(vectors, self.vocab),
        }
        if self.annotate_with:
            found["arcs"] = Arcs.joined(arcs)
        dev = [] if dev_corpus is None else corpus_examples(nlp, dev_corpus, parser=self.name)
        model = recipe.fit(trees, **found, report=self.report)
        if dev:
            model = calibrated(model, *self.gold([eg.reference for eg in dev], nlp))
            self.report(
                f"probabilities fitted to development trees: {model.mixture.calibration:.2f}"
            )
        self.learn(model)

    def predict(self, docs: Iterable[Doc]) -> list[list[SentenceTree]]:
        """Parse documents without changing them, sentence by sentence where sentences are known."""
        return self._trees(docs, self.nbest)

    def _trees(self, docs: Iterable[Doc], k: int) -> list[list[SentenceTree]]:
        docs = list(docs)
        sentences = [_sentences(doc) for doc in docs]
        places = [place for own in sentences for place in own]
        words = [word for _, own in places for word in own]
        starts = numpy.cumsum([0, *(len(own) for _, own in places)])
        arcs = None
        if self.learnt.uses_arcs:
            pairs = zip(docs, sentences, strict=True)
            parts = (self._arcs(doc, [tokens for tokens, _ in own]) for doc, own in pairs)
            arcs = Arcs.joined(part for own in parts for part in own)
        parsed, nbest = self.learnt.parse(words, starts, arcs=arcs, k=k)
        found = zip(places, parsed, nbest, strict=True)
        trees = iter(SentenceTree(tokens, tree, best) for (tokens, _), tree, best in found)
        return [[next(trees) for _ in own] for own in sentences]

    def set_annotations(self, docs: Iterable[Doc], predictions: list[list[SentenceTree]]) -> None:
        """Write constituents, as `predict` gave them."""
        for doc, trees in zip(docs, predictions, strict=True):
            store_trees(doc, trees)
            if self.spans_key is not None:
                doc.spans[self.spans_key] = [
                    Span(doc, tokens[node.begin], tokens[node.end - 1] + 1, label=node.label)
                    for tokens, parsed in ((tree.tokens, tree.parsed) for tree in trees)
                    for node in parsed.nodes
                    if node.label not in ROOTS
                ]
            if self.set_tags and len(doc):
                values = doc.to_array([TAG]).reshape(-1, 1)
                for tree in trees:
                    for token, tag in zip(tree.tokens, tree.parsed.tags, strict=True):
                        if not values[token, 0]:
                            values[token, 0] = doc.vocab.strings.add(tag)
                doc.from_array([TAG], values)

    def gold(self, docs: Sequence[Doc], nlp: Language | None) -> GoldTrees:
        """The trees of gold documents, as this component would meet their sentences."""
        result = GoldTrees([], [], [] if self.annotate_with else None)
        for doc, parsed in zip(docs, self._parsed(docs, nlp), strict=True):
            for tree in stored_trees(doc):
                nodes = [Constituent(n.label, n.begin, n.end) for n in tree.parsed.nodes]
                result.sentences.append([doc[i].text for i in tree.tokens])
                result.constituents.append(nodes)
            if result.arcs is not None and parsed is not None:
                result.arcs.extend(self._arcs(parsed, [tree.tokens for tree in stored_trees(doc)]))
        return result

    def _parsed(self, docs: Sequence[Doc], nlp: Language | None) -> Iterable[Doc | None]:
        """The tokens and sentences of gold documents as the components of `annotate_with` parse them; None if
        there are no such components."""
        if not self.annotate_with:
            return [None] * len(docs)
        examples = []
        for doc in docs:
            spaces = [bool(token.whitespace_) for token in doc]
            bare = Doc(doc.vocab, words=[token.text for token in doc], spaces=spaces)
            examples.append(Example(bare, doc))
        return annotated_by(self.annotate_with, examples, nlp, parser=self.name)

    def _arcs(self, doc: Doc, sentences: Sequence[list[int]]) -> list[Arcs]:
        """The arcs of sentences, by their tokens."""
        if not sentences:
            return []
        if not doc.has_annotation("DEP"):
            raise SpectralError(Errors.S713.format(name=self.name))
        array, strings = doc.to_array([HEAD, DEP]), doc.vocab.strings
        heads = numpy.arange(len(doc)) + array[:, 0].astype("int64")
        result = []
        for tokens in sentences:
            # a root is its own head; one that is no word of the sentence is none
            place = {token: i for i, token in enumerate(tokens, 1)}
            pairs = zip(tokens, heads[tokens].tolist(), strict=True)
            own = [0 if head == token else place.get(head, 0) for token, head in pairs]
            labels = [strings[label] for label in array[tokens, 1].tolist()]
            result.append(Arcs(numpy.array(own, dtype="int32"), labels))
        return result

    def nbest_trees(self, doc: Doc, k: int) -> list[list[Parsed]]:
        """The k most probable trees of each of a document's sentences, best first."""
        if k < 1:
            raise SpectralError(Errors.S120.format(name=self.name, k=k))
        return [tree.nbest for tree in self._trees([doc], k)[0]]


def _sentences(doc: Doc) -> list[tuple[list[int], list[str]]]:
    """The tokens and words of a document's sentences, without white space. A document whose sentences are not
    known is one sentence."""
    if not len(doc):
        return []
    array = doc.to_array([ORTH, SENT_START])
    strings = doc.vocab.strings
    result: list[tuple[list[int], list[str]]] = []
    for i, (orth, start) in enumerate(array.tolist()):
        if i == 0 or start == 1:
            result.append(([], []))
        word = strings[orth]
        if not word.isspace():
            result[-1][0].append(i)
            result[-1][1].append(word)
    return [sentence for sentence in result if sentence[0]]


def count_brackets(examples: Iterable[Example]) -> Counts:
    """Compare the constituents of predicted and gold documents, as `evalb` does.

    Where their tokens differ, constituents are compared by the characters they cover: one that begins or ends
    inside a gold token is wrong.
    """
    counts = Counts()
    for eg in examples:
        gold_trees = stored_trees(eg.reference)
        if not gold_trees:
            continue
        predicted, tags = _by_characters(eg.predicted)
        for tree in gold_trees:
            own = [eg.reference[i] for i in tree.tokens]
            # one that begins in this sentence counts here, wherever it ends
            begins = {token.idx: i for i, token in enumerate(own)}
            ends = {token.idx + len(token): i + 1 for i, token in enumerate(own)}
            first, last = own[0].idx, own[-1].idx + len(own[-1])
            found = [
                Constituent(label, begins.get(begin, -1), ends.get(end, -1))
                for label, begin, end, _ in predicted
                if first <= begin < last
            ]
            found = [c if min(c.begin, c.end) >= 0 else Constituent(c.label, -1, -1) for c in found]
            gold = [Constituent(node.label, node.begin, node.end) for node in tree.parsed.nodes]
            guesses = [tags.get((token.idx, len(token)), "") for token in own]
            counts.add(gold, found, tree.parsed.tags, guesses)
    return counts


def constituent_reliability(examples: Iterable[Example]) -> Reliability | None:
    """How far probabilities of constituents can be trusted, the root left out: one is right if the gold tree
    has it, with the same label and characters. None if there are no probabilities."""
    probs: list[float] = []
    right: list[bool] = []
    for eg in examples:
        gold = Counter(own[:3] for own in _by_characters(eg.reference)[0])
        for label, begin, end, prob in _by_characters(eg.predicted)[0] if gold else ():
            if label in ROOTS or isnan(prob):
                continue
            probs.append(prob)
            right.append(gold[label, begin, end] > 0)
            gold[label, begin, end] -= 1
    return Reliability.of(numpy.array(probs), numpy.array(right)) if probs else None


def _by_characters(
    doc: Doc,
) -> tuple[list[tuple[str, int, int, float]], dict[tuple[int, int], str]]:
    """Constituents by the characters they cover, with their probabilities; tags by where tokens begin and how
    long they are."""
    found, tags = [], {}
    for tree in stored_trees(doc):
        own = [doc[i] for i in tree.tokens]
        for node in tree.parsed.nodes:
            last = own[node.end - 1]
            found.append((node.label, own[node.begin].idx, last.idx + len(last), node.prob))
        for token, tag in zip(own, tree.parsed.tags, strict=True):
            tags[token.idx, len(token)] = tag
    return found, tags


def score_constituents(examples: Iterable[Example], **cfg: Any) -> dict[str, Any]:
    """Labelled precision, recall and F1 of constituents, exact match and accuracy of tags, by the keys
    `bracket_p`, `bracket_r`, `bracket_f`, `bracket_exact`, `bracket_tag_acc` and `bracket_f_per_type`; None
    where the gold has no trees."""
    counts = count_brackets(examples)
    per_type = {
        label: 2 * counts.matched[label] / (counts.gold[label] + counts.predicted[label])
        for label in sorted(counts.gold | counts.predicted)
    }
    return {
        "bracket_p": counts.precision,
        "bracket_r": counts.recall,
        "bracket_f": counts.f1,
        "bracket_exact": counts.exact_match,
        "bracket_tag_acc": counts.tag_accuracy,
        "bracket_f_per_type": per_type or None,
    }


def make_constituency_scorer() -> Callable:
    """RETURNS (Callable): The registered scorer `spacy-spectral.constituency_scorer.v1`."""
    return score_constituents
