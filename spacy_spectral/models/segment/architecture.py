"""The registered architecture `spacy-spectral.LinearSenter.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...base.learnt import architecture
from ..tagger.estimate import Progress
from .sentences import Passage, SenterModel


@dataclass(frozen=True)
class SenterRecipe:
    """The settings of a linear model of words, shapes and gaps around the start of a sentence.

    epochs (int): Passes over the training data.
    seed (int): Seed of its order, and of how texts are laid out anew.
    """

    epochs: int = 10
    seed: int = 0

    def fit(self, passages: Sequence[Passage], *, progress: Progress | None = None) -> SenterModel:
        """RETURNS (SenterModel): A splitter; see `SenterModel.fit`."""
        return SenterModel.fit(passages, epochs=self.epochs, seed=self.seed, progress=progress)


build_linear_senter = architecture("linear_senter", SenterModel, SenterRecipe, ask="probabilities")
