"""The registered architecture `spacy-spectral.Refined.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...base.learnt import architecture
from ...trees.interface import Resources
from ...trees.sentences import Treebank
from .estimate import RefineSettings, fit
from .model import RefinedGrammar

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class RefinedRecipe(RefineSettings):
    """The settings of a parser by a grammar whose symbols are states that refine tags; see `RefineSettings`
    and `ChartSettings`. It is not trained by gradients: the grammar is learnt in one go.
    """

    decoders: ClassVar[Sequence[str]] = RefinedGrammar.decoders

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> RefinedGrammar:
        """The grammar of a treebank; see `trees.interface.Recipe`."""
        return fit(treebank, self, report=given.get("report", print))


build_refined = architecture("refined", RefinedGrammar, RefinedRecipe)
