"""The registered architecture `spacy-spectral.LinearTagger.v1`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...base.learnt import architecture
from ...trees.interface import Clusters
from .estimate import Progress
from .model import TaggerModel
from .statistics import TaggedSentence


@dataclass(frozen=True)
class TaggerRecipe:
    """The settings of a linear tagger: hashed features, a tag dictionary, word clusters where there are some.

    epochs (int): Passes over the training data.
    seed (int): Seed of the order of sentences.
    """

    epochs: int = 5
    seed: int = 0

    def fit(
        self,
        sentences: Sequence[TaggedSentence],
        *,
        clusters: Clusters | None = None,
        labels: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> TaggerModel:
        """RETURNS (TaggerModel): A tagger; see `TaggerModel.fit`."""
        own = {"epochs": self.epochs, "seed": self.seed}
        return TaggerModel.fit(
            sentences, clusters=clusters, labels=labels, progress=progress, **own
        )


build_linear_tagger = architecture("linear_tagger", TaggerModel, TaggerRecipe, ask="tag_words")
