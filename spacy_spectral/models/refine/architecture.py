"""The registered architecture `spacy-spectral.Refined.v1`: settings in, a Thinc model out."""

from collections.abc import Callable

from thinc.api import Model

from ...base.learnt import parser_model
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Treebank
from .estimate import RefineSettings, fit
from .model import ChartSettings, RefinedGrammar


def build_refined(
    labelling: str = "spectral",
    states: int = 200,
    dimensions: int = 6,
    cycles: int = 3,
    children: str = "independent",
    sweeps: int = 60,
    resample: bool = False,
    seed: int = 0,
    lengths: bool = True,
    prune: float = 1e-4,
    min_symbol_count: int = 1,
    max_symbols: int = 100,
    max_length: int = 250,
) -> Model:
    """Build the model of a parser by a grammar whose symbols are states that refine tags.

    The settings are explained in `RefineSettings` and `ChartSettings`. The model is not trained by
    gradients: its recipe learns the grammar in one go.

    RETURNS (Model): A model that holds the recipe and, once learnt, the grammar.
    """
    settings = RefineSettings(
        labelling=labelling,
        states=states,
        dimensions=dimensions,
        cycles=cycles,
        children=children,
        sweeps=sweeps,
        resample=resample,
        seed=seed,
        min_symbol_count=min_symbol_count,
        max_symbols=max_symbols,
        chart=ChartSettings(lengths=lengths, prune=prune, max_length=max_length),
    )
    return parser_model("refined", RefinedGrammar, RefinedRecipe(settings))


class RefinedRecipe:
    """Learns a refined grammar; see `trees.interface.Recipe`."""

    def __init__(self, settings: RefineSettings):
        self.settings = settings

    def fit(
        self,
        treebank: Treebank,
        *,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        report: Callable[[str], None] = print,
    ) -> RefinedGrammar:
        return fit(treebank, self.settings, report=report)
