"""A corpus made ready for training: features are extracted once, however often it is trained on."""

from typing import Any

import numpy

from ...trees.interface import Clusters
from .classifier import ClassScheme, LinearClassifier
from .estimate import FeatureIndex, Progress, train
from .features import AMBIGUITY, FREQUENT, Templates, morph_templates, tag_templates
from .lexicon import Lexicon
from .statistics import N_BLOCKS, Corpus, dictionary_attributes, held_out_attributes

_CUTOFF = 2


def tag_label(pair: tuple[str, str]) -> str:
    """RETURNS (str): What a pair of tags is called: the fine tag where there is one."""
    return pair[0] or pair[1]


class Preparation:
    """Attributes and features of the tokens of a corpus.

    corpus (Corpus): The corpus.
    clusters (Optional[Clusters]): Word clusters.
    """

    def __init__(self, corpus: Corpus, clusters: Clusters | None):
        self.corpus = corpus
        self._clusters = clusters
        # the tag dictionary does not care about case
        rows: dict[str, int] = {}
        key_of_type = [rows.setdefault(word.lower(), len(rows)) for word in corpus.types]
        self._dictionary_words = list(rows)
        self._keys = numpy.array(key_of_type, dtype="int32")[corpus.words]
        self._blocks = corpus.per_token(corpus.sentence_blocks(N_BLOCKS))
        no_dictionary = Lexicon([], numpy.zeros((0, 2), dtype="uint32"), clusters)
        of_types = no_dictionary.attributes(corpus.types)
        self._attributes = numpy.zeros((len(corpus.words), of_types.shape[1] + 2), dtype="uint32")
        self._attributes[:, :-2] = of_types[corpus.words]
        self._templates = tag_templates(no_dictionary.n_granularities)
        self._morph_templates = morph_templates(no_dictionary.n_granularities)
        self._set_classes(self._templates.out_column, corpus.tag_gold)
        chosen = ~self._templates.about_dictionary()
        self._shared = self._index(self._templates, chosen)

    def fit_tags(
        self, gold: numpy.ndarray, *, epochs: int, seed: int, progress: Progress | None = None
    ) -> tuple[Lexicon, LinearClassifier]:
        """Learn tags from some of the tokens; the others are neither learnt from nor looked up.

        gold (ndarray): int32, the class of each token, -1 for those to leave out.
        epochs (int): Passes over the sentences.
        seed (int): Seed of the order of sentences.
        progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
        RETURNS (Tuple[Lexicon, LinearClassifier]): The tag dictionary and the classifier.
        """
        pairs = self.corpus.tag_classes
        entries = dictionary_attributes(self._keys, gold, len(self._dictionary_words), len(pairs))
        seen = numpy.flatnonzero(entries[:, 0])
        words = [self._dictionary_words[i] for i in seen]
        lexicon = Lexicon(words, entries[seen], self._clusters)
        self._attributes[:, [AMBIGUITY, FREQUENT]] = held_out_attributes(
            self._keys, gold, self._blocks, len(pairs)
        )
        self._set_classes(self._templates.out_column, gold)
        about_dictionary = self._index(self._templates, self._templates.about_dictionary())
        index = self._shared.joined(about_dictionary)
        # a pair scores as itself and as its coarse tag; every token may have every pair
        parts = [[("pair", pair), ("coarse", pair[1])] for pair in pairs]
        scheme = ClassScheme.make(parts, [list(range(len(pairs)))], [tag_label(p) for p in pairs])
        groups = numpy.zeros(len(gold), dtype="int32")
        return lexicon, self._train(
            gold, groups, index, self._templates, scheme,
            epochs=epochs, seed=seed, stage="tags", progress=progress,
        )  # fmt: skip

    def fit_morphs(
        self,
        tag_gold: numpy.ndarray,
        *,
        epochs: int,
        seed: int,
        progress: Progress | None = None,
    ) -> LinearClassifier:
        """Learn morphological analyses, each among those that were seen with the token's tag.

        tag_gold (ndarray): int32, the class of each token's tags, -1 for tokens to leave out.
        epochs (int): Passes over the sentences.
        seed (int): Seed of the order of sentences.
        progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
        RETURNS (LinearClassifier): The classifier; its groups are the classes of tags.
        """
        corpus = self.corpus
        templates = self._morph_templates
        gold = numpy.where(tag_gold >= 0, corpus.morph_gold, -1).astype("int32")
        seen = gold >= 0
        groups: list[set[int]] = [set() for _ in corpus.tag_classes]
        for tag, morph in set(zip(tag_gold[seen].tolist(), gold[seen].tolist(), strict=True)):
            groups[tag].add(morph)
        # an analysis scores as itself and as each of its Feature=Value
        parts = [[("whole", m), *(("value", v) for v in m.split("|"))] for m in corpus.morphs]
        scheme = ClassScheme.make(parts, [sorted(group) for group in groups], corpus.morphs)
        self._set_classes(templates.out_column - 1, tag_gold)
        self._set_classes(templates.out_column, gold)
        # where the analysis follows from the tag there is nothing to learn
        ambiguous = numpy.diff(scheme.group_starts)[tag_gold] > 1
        gold[~ambiguous] = -1
        everything = numpy.ones(len(templates.cells), dtype=bool)
        return self._train(
            gold, numpy.maximum(tag_gold, 0), self._index(templates, everything),
            templates, scheme, epochs=epochs, seed=seed, stage="morphology", progress=progress,
        )  # fmt: skip

    def _index(self, templates: Templates, chosen: numpy.ndarray) -> FeatureIndex:
        return FeatureIndex.make(self._attributes, self.corpus.starts, templates, chosen)

    def _train(self, gold, groups, index, templates, scheme, **options: Any) -> LinearClassifier:
        return train(
            self._attributes, self.corpus.starts, gold, groups,
            index=index, templates=templates, scheme=scheme, cutoff=_CUTOFF, **options,
        )  # fmt: skip

    def _set_classes(self, column: int, classes: numpy.ndarray) -> None:
        """Write classes as the kernels do, 0 where there is none."""
        self._attributes[:, column] = numpy.where(classes >= 0, classes + 2, 0)
