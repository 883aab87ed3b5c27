"""The registered architecture `spacy-spectral.SHAG.v1`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.learnt import architecture
from ...base.progress import progress_bar
from ...trees.interface import Resources
from ...trees.sentences import Treebank
from .grammar import Grammar, GrammarSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class ShagRecipe(GrammarSettings):
    """The settings of a parser by split head automata; see `EstimatorSettings` and `GrammarSettings`. It is
    not trained by gradients: the grammar is learnt in one go."""

    @property
    def decoders(self) -> tuple[str, ...]:
        """As `Grammar.decoders`, before there is a grammar."""
        projected = self.automata.estimator == "spectral" and not self.only_lexical
        return ("mbr",) if projected else ("mbr", "viterbi")

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> Grammar:
        """The grammar of a treebank; see `trees.interface.Recipe`."""
        return Grammar.fit(treebank.trees(), self, progress=progress_bar("Head automata"))


build_shag = architecture("shag", Grammar, ShagRecipe, hidden=["only_lexical"])
