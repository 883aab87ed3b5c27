"""The spaCy face of the parsers for constituents: `spectral_constituency`.

Models with a recipe are trained as a whole when the pipeline is initialized. One without has layers over a
tok2vec or a transformer, which are trained step by step; its attribute "learnt" is the parser without them,
and what they make of sentences is given to it (see `models.constituency.architecture.build_neural_span_v2`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from spacy.attrs import DEP, HEAD, ORTH, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model, set_dropout_rate

from ..base.errors import Errors, SpectralError, Warnings
from ..models.constituency.architecture import check_stepwise, outline, stepwise_layers
from ..models.constituency.calibration import calibrated
from ..models.constituency.evalb import Constituent, Counts
from ..models.constituency.neural import MAX_LENGTH, States
from ..models.constituency.statistics import binary_trees, joined
from ..models.constituency.tokens import Arcs
from ..models.constituency.trees import ROOTS, BinaryTree, Parsed
from ..treebank.brackets import Tree
from ..trees.calibration import Reliability
from ..trees.sentences import Batch, Tokens
from .annotations import register
from .component import SpectralPipe
from .constituents import NAME, SentenceTree, store_trees, stored_trees, to_tree
from .listeners import (
    answer,
    heard_components,
    listens,
    refuse_settings,
    require_upstream,
    require_vectors,
)
from .training_data import (
    annotated_by,
    corpus_examples,
    find_clusters,
    find_word_vectors,
    predicted_tokens,
)

# the tokens of a sentence in its document, without white space, and their words
Sentence = tuple[list[int], list[str]]
_N_SAMPLE = 10


class GoldTrees(NamedTuple):
    """Sentences of gold documents that have trees.

    constituents: Of every sentence.
    beside: Of every sentence its arcs, if a parser for dependencies stands before; or its states, for a model
        that is trained step by step.
    """

    sentences: list[list[str]]
    constituents: list[list[Constituent]]
    beside: list[Arcs] | list[States] | None


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
        `spacy-spectral.SpanCRF.v1`, `spacy-spectral.NeuralSpan.v1` or `spacy-spectral.NeuralSpan.v2`.
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
        if self.learns_in_steps:
            refuse_settings(name, annotate_with=annotate_with)
        register(NAME)

    @property
    def learns_in_steps(self) -> bool:
        return "recipe" not in self.model.attrs

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
        """Train the parser on the trees of gold documents. This is the whole training of models with a
        recipe; others learn which symbols and rules there are.

        clusters: A directory with eigenword clusters; by default those of the vocabulary's lookups, if
        there are some.
        vectors: A directory with word vectors; by default those of the vocabulary, if there are some.
        dev_corpus: The corpus of the config to learn from how confident the parser may be, e.g.
        "corpora.dev".
        """
        if self.learns_in_steps:
            given = {"clusters": clusters, "vectors": vectors, "dev_corpus": dev_corpus}
            refuse_settings(self.name, **given)
            self._initialize_layers(get_examples, nlp)
            return
        trees: list[Tree] = []
        arcs: list[Arcs] = []
        gold = [eg.reference for eg in self.training_examples(get_examples, nlp)]
        for doc, parsed in zip(gold, self._parsed(gold, nlp), strict=True):
            own = stored_trees(doc)
            whole = [_whole(doc, tree) for tree in own]
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

    def _initialize_layers(
        self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None
    ) -> None:
        """Learn symbols and rules, and make the layers ready for training."""
        require_upstream(self.model, nlp, name=self.name)
        if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
            raise SpectralError(Errors.S714.format(name=self.name))
        examples = self.training_examples(get_examples, nlp)
        gold = [(eg.reference, stored_trees(eg.reference)) for eg in examples]
        whole = (_whole(doc, tree) for doc, trees in gold for tree in trees)
        self.learn(outline([tree for tree in whole if tree is not None], self.report))
        n_trees = sum(len(trees) for _, trees in gold)
        unused = n_trees - sum(len(list(_teaching(eg))) for eg in examples)
        if unused:
            message = Warnings.W700.format(name=self.name, unused=unused, trees=n_trees)
            logger.warning(message)
        sentences = ((eg.predicted, _sentences(eg.predicted)) for eg in examples)
        sample = list(islice(((doc, own) for doc, own in sentences if own), _N_SAMPLE))
        if not sample:
            raise SpectralError(Errors.S703)
        self.model.initialize(X=_batch(*zip(*sample, strict=True)))

    def step(self, examples: Sequence[Example], *, drop: float) -> float | None:
        """The negative log-likelihood of the trees of examples; those of sentences without trees, or of other
        tokens, teach nothing. None if the model was trained when the pipeline was initialized."""
        if not self.learns_in_steps:
            return None
        teaching = [list(_teaching(eg)) for eg in examples]
        nodes = self.learnt.grammar.nodes([tree for own in teaching for _, tree in own])
        found = iter(nodes)
        sentences: list[list[Sentence]] = [
            [(tokens, tree.words) for tokens, tree in own if next(found) is not None]
            for own in teaching
        ]
        docs = [eg.predicted for eg in examples]
        set_dropout_rate(self.model, drop)
        if not any(sentences):
            if any(map(len, docs)):
                answer(self.model, docs)
            return 0.0
        batch, known = _batch(docs, sentences), joined([own for own in nodes if own is not None])
        return stepwise_layers(self.model).step(batch, batch.tokens.starts, known)

    def check_loaded(self) -> None:
        """Raise an error if what was loaded does not fit together. What is `Learnt` checks itself."""
        if not self.is_learnt:
            return
        if self.learnt.outside != self.learns_in_steps:
            reason = "its network is not there, or one that it does not have"
            raise SpectralError(Errors.S002.format(what=self.name, reason=reason))
        if not self.learns_in_steps:
            return
        check_stepwise(self.model)
        if not listens(self.model):
            doc = Doc(Vocab(), words=list("abc"), sent_starts=[True, False, False])
            ((tree,),) = self._trees([doc], 0)
            if not all(isfinite(node.prob) for node in tree.parsed.nodes):
                raise SpectralError(Errors.S002.format(what=self.name, reason="it can't parse"))

    def predict(self, docs: Iterable[Doc]) -> list[list[SentenceTree]]:
        """Parse documents without changing them, sentence by sentence where sentences are known."""
        return self._trees(docs, self.nbest)

    def _trees(self, docs: Iterable[Doc], k: int) -> list[list[SentenceTree]]:
        docs = list(docs)
        sentences = [_sentences(doc) for doc in docs]
        places = [place for own in sentences for place in own]
        words = [word for _, own in places for word in own]
        starts = numpy.cumsum([0, *(len(own) for _, own in places)])
        beside: Arcs | States | None = None
        if self.learns_in_steps:
            beside = self._states(docs, sentences)
        elif self.learnt.uses_arcs:
            pairs = zip(docs, sentences, strict=True)
            parts = (self._arcs(doc, [tokens for tokens, _ in own]) for doc, own in pairs)
            beside = Arcs.joined(part for own in parts for part in own)
        parsed, nbest = self.learnt.parse(words, starts, beside=beside, k=k)
        found = zip(places, parsed, nbest, strict=True)
        trees = iter(SentenceTree(tokens, tree, best) for (tokens, _), tree, best in found)
        return [[next(trees) for _ in own] for own in sentences]

    def _states(self, docs: Sequence[Doc], sentences: Sequence[list[Sentence]]) -> States | None:
        """What the layers make of sentences of documents; None if there is none."""
        require_vectors(self.model, docs, name=self.name)
        if not any(sentences):
            return None
        batch, layers = _batch(docs, sentences), stepwise_layers(self.model)
        return States(layers.scores, layers.encoder.predict(batch), batch.tokens.starts)

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
        result = GoldTrees([], [], [] if self.annotate_with or self.learns_in_steps else None)
        for doc, parsed in zip(docs, self._parsed(docs, nlp), strict=True):
            trees = stored_trees(doc)
            words = [[doc[i].text for i in tree.tokens] for tree in trees]
            result.sentences.extend(words)
            for tree in trees:
                nodes = [Constituent(n.label, n.begin, n.end) for n in tree.parsed.nodes]
                result.constituents.append(nodes)
            if result.beside is not None and parsed is not None:
                sentences = [(tree.tokens, own) for tree, own in zip(trees, words, strict=True)]
                result.beside.extend(self._beside(parsed, sentences))
        return result

    def _beside(self, doc: Doc, sentences: list[Sentence]) -> list[Any]:
        """What a parser looks at beside the words of sentences, one by one."""
        if not self.learns_in_steps:
            return self._arcs(doc, [tokens for tokens, _ in sentences])
        states = self._states([doc], [sentences])
        if states is None:
            return []
        return [states.at(slice(a, b)) for a, b in pairwise(states.starts.tolist())]

    def _parsed(self, docs: Sequence[Doc], nlp: Language | None) -> Iterable[Doc | None]:
        """The tokens and sentences of gold documents, annotated by the components whose arcs or vectors the
        parser looks at; None if it looks at none."""
        names = self.annotate_with
        if self.learns_in_steps:
            names = heard_components(self.model, nlp)
        elif not names:
            return [None] * len(docs)
        examples = []
        for doc in docs:
            spaces = [bool(token.whitespace_) for token in doc]
            bare = Doc(doc.vocab, words=[token.text for token in doc], spaces=spaces)
            examples.append(Example(bare, doc))
        return annotated_by(names, examples, nlp, parser=self.name)

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


def _whole(doc: Doc, tree: SentenceTree) -> Tree | None:
    """The tree of a sentence of a gold document, with the label around it."""
    return to_tree(tree.parsed, [doc[i].text for i in tree.tokens], root=True)


def _teaching(eg: Example) -> Iterator[tuple[list[int], BinaryTree]]:
    """The gold trees of an example that layers can learn from, and their predicted tokens: each word is one
    token, and there are not too many."""
    place = predicted_tokens(eg)
    for stored in stored_trees(eg.reference):
        tokens = place[stored.tokens].tolist()
        if min(tokens) < 0 or len(tokens) > MAX_LENGTH:
            continue
        tree = _whole(eg.reference, stored)
        for binary in binary_trees([tree] if tree is not None else []):
            # empty elements are words of no tree
            if len(binary.words) == len(tokens):
                yield tokens, binary


def _batch(docs: Sequence[Doc], sentences: Sequence[list[Sentence]]) -> Batch:
    """Sentences of documents as layers over a tok2vec see them."""
    offsets = numpy.cumsum([0, *map(len, docs)])
    pairs = zip(sentences, offsets[:-1].tolist(), strict=True)
    places = [offset + i for own, offset in pairs for tokens, _ in own for i in tokens]
    words = [word for own in sentences for _, sentence in own for word in sentence]
    lengths = [len(tokens) for own in sentences for tokens, _ in own]
    starts, empty = numpy.cumsum([0, *lengths]).astype("int32"), [""] * len(words)
    tokens = Tokens(starts, words, empty, [None] * len(words), empty, empty)
    values = numpy.zeros((int(offsets[-1]), 0), dtype="uint64")
    return Batch(list(docs), offsets, numpy.array(places, dtype="int64"), tokens, values)


def _sentences(doc: Doc) -> list[Sentence]:
    """The tokens and words of a document's sentences, without white space. A document whose sentences are not
    known is one sentence."""
    if not len(doc):
        return []
    array = doc.to_array([ORTH, SENT_START])
    strings = doc.vocab.strings
    result: list[Sentence] = []
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
