"""The registered architecture `spacy-spectral.SHAG.v1`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...base.learnt import architecture
from ...base.progress import progress_bar
from ...trees.interface import Resources
from ...trees.sentences import Treebank
from .grammar import Grammar, GrammarSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class ShagRecipe(GrammarSettings):
    """The settings of a parser by split head automata: those of `EstimatorSettings` and
    `GrammarSettings`."""

    can_be_pretrained: ClassVar[bool] = False

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> Grammar:
        """The grammar of a treebank; see `trees.interface.Recipe`."""
        treebank.require_gold("SHAG.v1")
        return Grammar.fit(treebank.trees(), self, progress=progress_bar("Head automata"))


build_shag = architecture("shag", Grammar, ShagRecipe, hidden=["only_lexical"])
