"""The registered architecture `spacy-spectral.LinearLemmatizer.v1`."""

from collections.abc import Iterable
from dataclasses import dataclass

from ...base.learnt import architecture
from ..tagger.estimate import Progress
from .model import LemmaModel, Reading


@dataclass(frozen=True)
class LemmatizerRecipe:
    """The settings of a linear model that chooses edit scripts, with a table of exceptions.

    epochs (int): Passes over the training data.
    seed (int): Seed of its order.
    """

    epochs: int = 10
    seed: int = 0

    def fit(
        self, readings: Iterable[tuple[Reading, str]], *, progress: Progress | None = None
    ) -> LemmaModel:
        """RETURNS (LemmaModel): A lemmatizer; see `LemmaModel.fit`."""
        return LemmaModel.fit(readings, epochs=self.epochs, seed=self.seed, progress=progress)


build_linear_lemmatizer = architecture(
    "linear_lemmatizer", LemmaModel, LemmatizerRecipe, ask="lemmatize"
)
