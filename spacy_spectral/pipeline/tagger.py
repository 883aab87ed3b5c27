"""The spaCy face of the tagger: `spectral_tagger`."""

from collections.abc import Callable, Iterable, Sequence
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
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Config, Model

from ..base.errors import Errors
from ..models.tagger.estimate import Epoch
from ..models.tagger.model import TaggerModel
from ..trees.interface import Clusters
from .annotations import TagGuesses, register, store_tags
from .component import SpectralPipe
from .examples import tagged_sentences

# What spaCy's own pipelines call white space.
_SPACE_TAG = "_SP"

DEFAULT_MODEL = Config().from_str(
    """
[model]
@architectures = "spacy-spectral.LinearTagger.v1"
epochs = 5
seed = 0
"""
)["model"]


class Prediction(NamedTuple):
    """What was decided about the tokens of one Doc.

    values (ndarray): uint64, tokens x 3: TAG, POS and MORPH.
    tags (ndarray): int32, tokens x top_k, indices of the most probable labels, -1 for none.
    probs (ndarray): float32, tokens x top_k, their probabilities.
    """

    values: numpy.ndarray
    tags: numpy.ndarray
    probs: numpy.ndarray


@Language.factory(
    "spectral_tagger",
    assigns=["token.tag", "token.pos", "token.morph", "token._.tag_probs"],
    default_config={
        "model": DEFAULT_MODEL,
        "overwrite": False,
        "top_k": 3,
        "scorer": {"@scorers": "spacy-spectral.tagger_scorer.v1"},
    },
    default_score_weights={
        "tag_acc": 0.4,
        "pos_acc": 0.3,
        "morph_acc": 0.3,
        "morph_micro_p": None,
        "morph_micro_r": None,
        "morph_micro_f": None,
        "morph_per_feat": None,
    },
)
def make_spectral_tagger(
    nlp: Language, name: str, model: Model, overwrite: bool, top_k: int, scorer: Callable | None
) -> "SpectralTagger":
    return SpectralTagger(nlp.vocab, model, name, overwrite=overwrite, top_k=top_k, scorer=scorer)


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
        scorer: Callable | None = None,
    ):
        """Make a tagger.

        vocab (Vocab): The shared vocabulary.
        model (Model): A model by "spacy-spectral.LinearTagger.v1".
        name (str): The component instance name.
        overwrite (bool): Whether to replace annotation that is already there.
        top_k (int): How many tags to keep in `token._.tag_probs`, 0 for none.
        scorer (Optional[Callable]): The scoring method.
        """
        super().__init__(vocab, model, name, scorer=scorer)
        self.overwrite = overwrite
        self.top_k = top_k
        self._symbols: tuple[TaggerModel, numpy.ndarray, numpy.ndarray] | None = None
        register("spectral_tagger")

    @property
    def labels(self) -> tuple[str, ...]:
        """RETURNS (Tuple[str]): The tags that were learnt."""
        return tuple(self.learnt.tags) if self.is_learnt else ()

    @property
    def clusters(self) -> Clusters | None:
        """RETURNS (Optional[Clusters]): The word clusters that the tagger looks at."""
        return self.learnt.lexicon.clusters

    def add_label(self, label: str) -> int:
        raise ValueError(Errors.S303.format(name=self.name, label=label))

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        clusters: str | Path | None = None,
    ) -> None:
        """Train the tagger. The whole training happens here, in seconds.

        get_examples (Callable[[], Iterable[Example]]): The training data.
        nlp (Optional[Language]): The current pipeline.
        labels (Optional[Sequence[str]]): Tags to learn; others count as missing.
        clusters (Optional[Union[str, Path]]): A directory with eigenword clusters. By default those
            of the vocabulary's lookups are used if there are some.
        """
        examples = self.training_examples(get_examples, nlp)
        sentences = list(tagged_sentences(examples, nlp, self.name))
        attrs = self.model.attrs
        with _Bar(self.name, 2 * attrs["epochs"]) as report:
            learnt = TaggerModel.fit(
                sentences,
                clusters=find_clusters(clusters, self.vocab),
                labels=labels,
                epochs=attrs["epochs"],
                seed=attrs["seed"],
                progress=report,
            )
        self.learn(learnt)

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Tag Docs without changing them, sentence by sentence where sentences are known.

        docs (Iterable[Doc]): The documents.
        RETURNS (List[Prediction]): One prediction a document.
        """
        docs = list(docs)
        learnt: TaggerModel = self.learnt
        arrays = [doc.to_array([ORTH, SENT_START]).reshape(-1, 2) for doc in docs]
        ends = numpy.cumsum([0, *map(len, docs)])
        tokens = numpy.concatenate([numpy.zeros((0, 2), dtype="uint64"), *arrays])
        if not len(tokens):
            nothing = numpy.zeros((0, 3), dtype="uint64"), *(numpy.zeros((0, 0)) for _ in range(2))
            return [Prediction(*nothing) for _ in docs]
        # a Doc starts a sentence, whether sentences are known or not; white space is in none
        starts_sentence = tokens[:, 1] == 1
        starts_sentence[ends[:-1][numpy.diff(ends) > 0]] = True
        orths, types = numpy.unique(tokens[:, 0], return_inverse=True)
        forms = [self.vocab.strings[orth] for orth in orths]
        is_word = ~numpy.array([form.isspace() for form in forms])[types]
        sentences = numpy.cumsum(starts_sentence)[is_word]
        starts = numpy.flatnonzero(numpy.diff(sentences, prepend=0, append=-1))
        words = learnt.words(forms).at(types[is_word])
        tagging = self.model.predict((words, starts.astype("int32"), self.top_k))

        pair_symbols, morph_symbols = self._get_symbols(learnt)
        values = numpy.zeros((len(tokens), 3), dtype="uint64")
        values[~is_word, :2] = self.vocab.strings.add(_SPACE_TAG), POS_IDS["SPACE"]
        values[is_word, :2] = pair_symbols[tagging.classes]
        values[is_word, 2] = morph_symbols[tagging.morphs]
        tags = numpy.full((len(tokens), self.top_k), -1, dtype="int32")
        probs = numpy.zeros(tags.shape, dtype="float32")
        tags[is_word], probs[is_word] = tagging.tags, tagging.probs
        bounds = pairwise(ends.tolist())
        return [Prediction(values[a:b], tags[a:b], probs[a:b]) for a, b in bounds]

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """Write tags, parts of speech, morphology and probabilities of tags.

        docs (Iterable[Doc]): The documents.
        predictions (List[Prediction]): What `predict` gave.
        """
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

    def _get_symbols(self, learnt: TaggerModel) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The values of TAG and POS by class, and of MORPH by analysis (the last for none)."""
        if self._symbols is None or self._symbols[0] is not learnt:
            arrays = annotation_values(self.vocab, learnt.tag_classes, learnt.morphs)
            self._symbols = (learnt, *arrays)
        return self._symbols[1:]


def annotation_values(
    vocab: Vocab, tag_classes: Sequence[tuple[str, str]], morphs: Sequence[str]
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Classes as values of token attributes.

    vocab (Vocab): The vocabulary; unknown strings are added.
    tag_classes (Sequence[Tuple[str, str]]): Pairs of fine and coarse tag.
    morphs (Sequence[str]): Morphological analyses.
    RETURNS (Tuple[ndarray, ndarray]): uint64, classes x 2, TAG and POS; and MORPH by analysis, the last
        for none.
    """
    pairs = [(vocab.strings.add(tag), POS_IDS.get(pos, 0)) for tag, pos in tag_classes]
    values = [*(vocab.morphology.add(morph) for morph in morphs), 0]
    return numpy.array(pairs, dtype="uint64"), numpy.array(values, dtype="uint64")


def find_clusters(path: str | Path | None, vocab: Vocab) -> Clusters | None:
    """Word clusters of a directory, or else of the vocabulary's lookups if there are some.

    path (Optional[Union[str, Path]]): A directory made by `spacy spectral eigenwords`.
    vocab (Vocab): The vocabulary.
    RETURNS (Optional[Clusters]): The clusters.
    """
    if path is None and not vocab.lookups.has_table("eigenword_clusters"):
        return None
    from ..models.eigenwords.clusters import WordClusters

    if path is not None:
        return WordClusters.from_disk(path)
    return WordClusters.from_lookups(vocab.lookups)


def tagger_score(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Accuracy of tags, coarse tags and morphology.

    examples (Iterable[Example]): The examples.
    RETURNS (Dict[str, Any]): "tag_acc", "pos_acc", "morph_acc" and scores per feature.
    """
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


class _Bar:
    """A progress bar with the loss of the last epoch, quiet when nobody is looking."""

    def __init__(self, name: str, total: int):
        self.name = name
        self.total = total

    def __enter__(self) -> Callable[[Epoch], None]:
        from tqdm import tqdm

        self._bar = tqdm(total=self.total, desc=self.name, unit="epoch", leave=False, disable=None)
        return self._report

    def _report(self, epoch: Epoch) -> None:
        self._bar.set_postfix_str(f"{epoch.stage}: loss {epoch.loss:.4f}, {epoch.accuracy:.2%}")
        self._bar.update()
        logger.debug(
            "%s, %s, epoch %d of %d: loss %.4f, accuracy %.4f",
            self.name, epoch.stage, epoch.number, epoch.total, epoch.loss, epoch.accuracy,
        )  # fmt: skip

    def __exit__(self, *exception: Any) -> None:
        self._bar.close()
