"""Tags of training sentences as a tagger gives them that has not seen the sentence.

A parser trained on gold tags, or on the tags a tagger gives its own training data, trusts tags more
than it may. Folds are contiguous blocks: sentences of one document share words, so that random
folds would leak. The tag dictionary is counted anew in every fold.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from ...base.errors import Errors
from ...trees.interface import Clusters
from .estimate import Epoch, Progress
from .model import tag_types
from .preparation import Preparation, tag_label
from .statistics import Corpus, TaggedSentence


class Jackknifed(NamedTuple):
    """Predicted tags of all tokens, one sentence after the other.

    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    tag_classes (List[Tuple[str, str]]): Pairs of fine and coarse tag.
    labels (List[str]): The fine tags.
    classes (ndarray): int32, the best pair of each token.
    tags (ndarray): int32, tokens x top, indices into `labels`, best first, -1 for none.
    probs (ndarray): float32, tokens x top, their probabilities.
    morphs (List[str]): Morphological analyses.
    morph_classes (ndarray): int32, the analysis of each token, -1 for none.
    """

    starts: numpy.ndarray
    tag_classes: list[tuple[str, str]]
    labels: list[str]
    classes: numpy.ndarray
    tags: numpy.ndarray
    probs: numpy.ndarray
    morphs: list[str]
    morph_classes: numpy.ndarray


def jackknife(
    sentences: Sequence[TaggedSentence],
    *,
    folds: int = 5,
    clusters: Clusters | None = None,
    epochs: int = 2,
    seed: int = 0,
    top: int = 2,
    morphology: bool = False,
    progress: Progress | None = None,
) -> Jackknifed:
    """Tag every sentence by a model trained on the other folds.

    sentences (Sequence[TaggedSentence]): Annotated sentences, in the order of the text.
    folds (int): The number of contiguous blocks.
    clusters (Optional[Clusters]): Word clusters.
    epochs (int): Passes over the sentences in each fold.
    seed (int): Seed of the order of sentences.
    top (int): How many tags to report for each token.
    morphology (bool): Whether to predict morphology too.
    progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
    RETURNS (Jackknifed): The predicted tags.
    """
    if folds < 2 or len(sentences) < folds:
        raise ValueError(Errors.S305.format(folds=folds, sentences=len(sentences)))
    corpus = Corpus.encode(sentences)
    if not corpus.tag_classes:
        raise ValueError(Errors.S301)
    preparation = Preparation(corpus, clusters)
    fold_of = corpus.sentence_blocks(folds)
    n_tokens = len(corpus.words)
    classes = numpy.full(n_tokens, -1, dtype="int32")
    tags = numpy.full((n_tokens, top), -1, dtype="int32")
    probs = numpy.zeros((n_tokens, top), dtype="float32")
    morph_classes = numpy.full(n_tokens, -1, dtype="int32")
    for fold in range(folds):
        held_out = corpus.per_token(fold_of == fold)
        if not held_out.any():
            continue
        gold = numpy.where(held_out, -1, corpus.tag_gold).astype("int32")

        def report(epoch: Epoch, fold: int = fold) -> None:
            if progress is not None:
                progress(epoch._replace(stage=f"{epoch.stage}, fold {fold + 1} of {folds}"))

        options: Any = {"epochs": epochs, "seed": seed, "progress": report}
        lexicon, tagger = preparation.fit_tags(gold, **options)
        morphologizer = preparation.fit_morphs(gold, **options) if morphology else None
        lengths = numpy.diff(corpus.starts)[fold_of == fold]
        starts = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("int32")
        decisions, analyses = tag_types(
            lexicon, tagger, morphologizer, corpus.types, corpus.words[held_out], starts, top
        )
        classes[held_out], tags[held_out], probs[held_out] = decisions
        morph_classes[held_out] = analyses
    labels = list(dict.fromkeys(map(tag_label, corpus.tag_classes)))
    return Jackknifed(
        corpus.starts,
        corpus.tag_classes,
        labels,
        classes,
        tags,
        probs,
        corpus.morphs,
        morph_classes,
    )
