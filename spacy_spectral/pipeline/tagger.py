"""The spaCy face of the tagger: `spectral_tagger`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from spacy.attrs import MORPH, ORTH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.parts_of_speech import IDS as POS_IDS
from spacy.scorer import Scorer
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.cache import distinct
from ..base.errors import Errors, SpectralError
from ..base.progress import EpochBar
from ..models.linear.analyses import read_analyses
from ..models.linear.tagger import Jackknifed, jackknife
from ..models.linear.tagger_training import TaggedSentence
from ..trees.interface import Clusters
from .annotations import TagGuesses, register, store_tags
from .component import SpectralPipe
from .documents import string_finder, vocabularies
from .training_data import (
    corpus_examples,
    find_clusters,
    find_word_vectors,
    silver_examples,
    tagged_sentences,
)

# What spaCy's own pipelines call white space.
_SPACE_TAG = "_SP"
# Words and their annotation among the fields of a sentence.
_N_COLUMNS = 5
# A tag that was given, but not learnt: to the model it is as if there was none.
_FOREIGN = -2


class Prediction(NamedTuple):
    """What was decided about the tokens of one Doc: TAG, POS and MORPH (tokens x 3), and the most
    probable labels (tokens x top_k, -1 for none) with their probabilities."""

    values: numpy.ndarray
    tags: numpy.ndarray
    probs: numpy.ndarray


class SpectralTagger(SpectralPipe):
    """Assigns tags, coarse parts of speech and morphology, with the probabilities of tags."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_tagger",
        *,
        overwrite: bool = False,
        top_k: int = 3,
        source: str | None = None,
        scorer: Callable | None = None,
    ):
        """model: From `spacy-spectral.LinearTagger.v1`, `spacy-spectral.NeuralTagger.v1` or
        `spacy-spectral.ProductTagger.v1`.
        overwrite: Whether to replace annotation that is already there.
        top_k: How many tags to keep in `token._.tag_probs`, 0 for none.
        source: What the gold treebank is called, if the tagger learns from several. A trained tagger tags
        like the one that is named here."""
        super().__init__(vocab, model, name, scorer=scorer)
        self.overwrite = overwrite
        self.top_k = top_k
        self.source = source
        # the silver corpora that it was trained on, in the order of the numbers of their sentences
        self._silver_corpora: list[str] = []
        self._jackknifed: tuple[bytes, Any, dict[str | None, Jackknifed]] | None = None
        register("spectral_tagger")

    @property
    def labels(self) -> tuple[str, ...]:
        """RETURNS (Tuple[str]): The tags that were learnt."""
        return tuple(self.learnt.tags) if self.is_learnt else ()

    @property
    def clusters(self) -> Clusters | None:
        """RETURNS (Optional[Clusters]): The word clusters that the tagger looks at."""
        return self.learnt.clusters

    def add_label(self, label: str) -> int:
        raise SpectralError(Errors.S303.format(name=self.name, label=label))

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        clusters: str | Path | None = None,
        vectors: str | Path | None = None,
        dev_corpus: str | None = None,
        lexicon: str | Path | None = None,
        silver_corpus: str | Sequence[str] | None = None,
    ) -> None:
        """Train the tagger. The whole training happens here, in seconds; of a neural one, in minutes.

        labels: Tags to learn; others count as missing.
        clusters, vectors: Directories with eigenword clusters, and with word vectors for models that
        look at them. By default those of the vocabulary are used if it has some.
        dev_corpus: A corpus of the config, for models that learn from it how much each of several
        experts counts.
        lexicon: A file with tabs between form, lemma, part of speech and features: analyses of more
        forms.
        silver_corpus: A corpus of the config with tags of another treebank, or of another tagger, e.g.
        "corpora.silver", or several, by the reader `spacy-spectral.Silver.v1`.
        """
        analyses = read_analyses(lexicon) if lexicon is not None else None
        examples = self.training_examples(get_examples, nlp)
        dev = [] if dev_corpus is None else corpus_examples(nlp, dev_corpus, parser=self.name)
        sentences, held_out = (
            list(tagged_sentences(own, nlp, self.name, source=self.source))
            for own in (examples, dev)
        )
        silver = silver_examples(nlp, silver_corpus, name=self.name)
        sentences += self._silver_sentences(silver)
        self._silver_corpora = list(silver)
        recipe = self.recipe
        given: Any = {
            "clusters": find_clusters(clusters, self.vocab),
            "vectors": find_word_vectors(vectors, self.vocab),
            "dev": held_out,
            "labels": labels,
            "lexicon": analyses,
        }
        with EpochBar(self.name, recipe.n_epochs) as progress:
            self.learn(recipe.fit(sentences, **given, progress=progress))

    def _silver_sentences(self, silver: Mapping[str, list[Example]]) -> list[TaggedSentence]:
        return [
            sentence
            for corpus, examples in enumerate(silver.values(), start=1)
            for sentence in tagged_sentences(examples, source=self.source, corpus=corpus)
        ]

    def jackknife(
        self, sentences: Sequence[TaggedSentence], nlp: Language | None = None, *, folds: int
    ) -> dict[str | None, Jackknifed]:
        """The tags and morphology of gold sentences, in the order of the text, and of the silver corpora that
        this tagger was trained on, by corpus, None for the gold one: by taggers like this one that have not
        seen them; their `epochs` are 2. All tag like the gold treebank, as this one will. A lemmatizer and
        a parser that are trained in one run ask for the same: the last result is remembered."""
        digest = blake2b(repr((folds, self.recipe.seed, self.source)).encode())
        for sentence in sentences:
            columns: Any = sentence[:_N_COLUMNS]
            fields = ("\x1f".join(map(str, column)) for column in columns)
            digest.update("\x1e".join(fields).encode("utf8", "surrogatepass"))
        key, learnt = digest.digest(), self.learnt
        last = self._jackknifed
        if last is not None and last[0] == key and last[1] is learnt:
            return last[2]
        silver = silver_examples(nlp, self._silver_corpora, name=self.name)
        everything = [*sentences, *self._silver_sentences(silver)]
        given: Any = {"clusters": learnt.clusters, "known": learnt.known, "source": self.source}
        seed = self.recipe.seed
        result = jackknife(everything, folds=folds, seed=seed, morphology=True, **given)
        sizes = numpy.bincount([sentence.corpus for sentence in everything])
        bounds = pairwise([0, *numpy.cumsum(sizes).tolist()])
        names = [None, *self._silver_corpora]
        parts = {name: result.part(*own) for name, own in zip(names, bounds, strict=True)}
        self._jackknifed = (key, learnt, parts)
        return parts

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Tag Docs without changing them, sentence by sentence where sentences are known. Tags that are
        given, and parts of speech that tags must fit, are kept but for `overwrite`."""
        docs = list(docs)
        learnt = self.learnt.like(self.source)
        arrays = [doc.to_array([ORTH, SENT_START, TAG, POS]).reshape(-1, 4) for doc in docs]
        ends = numpy.cumsum([0, *map(len, docs)])
        tokens = numpy.concatenate([numpy.zeros((0, 4), dtype="uint64"), *arrays])
        if not len(tokens):
            nothing = numpy.zeros((0, 3), dtype="uint64"), *(numpy.zeros((0, 0)) for _ in range(2))
            return [Prediction(*nothing) for _ in docs]
        # a Doc starts a sentence, whether sentences are known or not; white space is in none
        starts_sentence = tokens[:, 1] == 1
        starts_sentence[ends[:-1][numpy.diff(ends) > 0]] = True
        find = string_finder(docs)
        orths, types = distinct(tokens[:, 0])
        forms = [find(orth) for orth in orths]
        is_word = ~numpy.array([form.isspace() for form in forms])[types]
        sentences = numpy.cumsum(starts_sentence)[is_word]
        starts = numpy.flatnonzero(numpy.diff(sentences, prepend=0, append=-1))
        words = learnt.words(forms).at(types[is_word])
        given = parts = None
        if not self.overwrite:
            numbers = {tag: i for i, tag in enumerate(learnt.tags)}
            given = _numbers(tokens[is_word, 2], lambda key: numbers.get(find(key), _FOREIGN))
            own = {POS_IDS.get(part): i for i, part in enumerate(learnt.parts)}
            # a tag that is given says more
            known = numpy.where(tokens[is_word, 2] != 0, 0, tokens[is_word, 3])
            parts = _numbers(known, lambda key: own.get(key, -1))
        tagging = learnt.tag_words(words, starts.astype("int32"), self.top_k, given, parts)

        vocabs = vocabularies(docs)
        values = numpy.zeros((len(tokens), 3), dtype="uint64")
        for vocab in vocabs:
            values[~is_word, :2] = vocab.strings.add(_SPACE_TAG), POS_IDS["SPACE"]
        values[is_word] = annotation_values(
            vocabs, learnt.tag_classes, learnt.morphs, tagging.classes, tagging.morphs
        )
        if given is not None:
            # morphology goes with the tag: of one that is not known nothing is
            values[numpy.flatnonzero(is_word)[given == _FOREIGN], 2] = 0
        tags = numpy.full((len(tokens), self.top_k), -1, dtype="int32")
        probs = numpy.zeros(tags.shape, dtype="float32")
        tags[is_word], probs[is_word] = tagging.tags, tagging.probs
        bounds = pairwise(ends.tolist())
        return [Prediction(values[a:b], tags[a:b], probs[a:b]) for a, b in bounds]

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """Write tags, parts of speech, morphology and probabilities of tags, from `predict`."""
        labels = self.learnt.tags
        for doc, (values, tags, probs) in zip(docs, predictions, strict=True):
            if not len(doc):
                continue
            if not self.overwrite:
                there = doc.to_array([TAG, POS, MORPH]).reshape(-1, 3)
                values = numpy.where(there != 0, there, values)
            doc.from_array([TAG, POS, MORPH], values)
            if self.top_k:
                # copies, so that a Doc does not keep the arrays of its whole batch
                store_tags(doc, TagGuesses(labels, tags.copy(), probs.copy()))


def _numbers(keys: numpy.ndarray, number: Callable[[int], int]) -> numpy.ndarray | None:
    """The number of what each word has already, -1 for nothing; None if none has anything."""
    if not keys.any():
        return None
    found, which = distinct(keys)
    return numpy.array([number(key) if key else -1 for key in found], dtype="int32")[which]


def annotation_values(
    vocabs: Iterable[Vocab],
    tag_classes: Sequence[tuple[str, str]],
    morphs: Sequence[str],
    classes: numpy.ndarray,
    analyses: numpy.ndarray,
) -> numpy.ndarray:
    """TAG, POS and MORPH of tokens (tokens x 3), by which of the pairs of fine and coarse tag, and which
    of the analyses, each has, -1 for none. Strings that are used are added to the vocabularies."""
    # one more row, for none
    pairs = numpy.zeros((len(tag_classes) + 1, 2), dtype="uint64")
    keys = numpy.zeros(len(morphs) + 1, dtype="uint64")
    for vocab in vocabs:
        for i in set(classes.tolist()) - {-1}:
            tag, pos = tag_classes[i]
            pairs[i] = vocab.strings.add(tag), POS_IDS.get(pos, 0)
        for i in set(analyses.tolist()) - {-1}:
            keys[i] = vocab.morphology.add(morphs[i])
    return numpy.column_stack([pairs[classes], keys[analyses]])


def tagger_score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Accuracy of tags, coarse tags and morphology: "tag_acc", "pos_acc", "morph_acc" and scores per
    feature."""
    examples = list(examples)
    results = Scorer.score_token_attr(examples, "tag", **kwargs)
    results |= Scorer.score_token_attr(examples, "pos", **kwargs)
    results |= Scorer.score_token_attr(examples, "morph", getter=_morph_key, **kwargs)
    results |= Scorer.score_token_attr_per_feat(examples, "morph", getter=_morph_key, **kwargs)
    return results


def make_tagger_scorer() -> Callable:
    return tagger_score


def _morph_key(token: Token, attr: str) -> int:
    return getattr(token, attr).key
