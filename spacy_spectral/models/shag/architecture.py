"""The registered architecture `spacy-spectral.SHAG.v1`: settings in, a Thinc model out."""

from collections.abc import Callable

from thinc.api import Model

from ...base.learnt import parser_model
from ...base.progress import progress_bar
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Treebank
from .estimate import EstimatorSettings
from .grammar import Grammar, GrammarSettings


def build_shag(
    estimator: str = "spectral",
    states: int = 8,
    smoothing: float = 10.0,
    rank_tolerance: float = 1.0,
    ridge: float = 2.0,
    em_iterations: int = 100,
    em_tolerance: float = 1e-6,
    seed: int = 0,
    lengths: bool = True,
    lexical: str | None = None,
    min_symbol_count: int = 1,
    max_symbols: int = 100,
    max_length: int = 250,
) -> Model:
    """Build the model of a parser by split head automata.

    The settings are explained in `EstimatorSettings` and `GrammarSettings`. The model is not trained by
    gradients: its recipe learns the grammar in one go.

    RETURNS (Model): A model that holds the recipe and, once learnt, the grammar.
    """
    automata = EstimatorSettings(
        estimator=estimator,
        states=states,
        smoothing=smoothing,
        rank_tolerance=rank_tolerance,
        ridge=ridge,
        em_iterations=em_iterations,
        em_tolerance=em_tolerance,
        seed=seed,
    )
    settings = GrammarSettings(
        automata=automata,
        lengths=lengths,
        lexical=None if lexical in (None, "", "none") else lexical,
        min_symbol_count=min_symbol_count,
        max_symbols=max_symbols,
        max_length=max_length,
    )
    return parser_model("shag", Grammar, ShagRecipe(settings))


class ShagRecipe:
    """Learns a grammar; see `trees.interface.Recipe`."""

    def __init__(self, settings: GrammarSettings):
        self.settings = settings

    def fit(
        self,
        treebank: Treebank,
        *,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        report: Callable[[str], None] = print,
    ) -> Grammar:
        bar = progress_bar("Head automata")
        return Grammar.fit(treebank.trees(), self.settings, progress=bar)
