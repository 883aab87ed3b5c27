"""The registered architecture `spacy-spectral.Refined.v1`: a labelling by some method, then its grammar."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from ...base.errors import Errors, SpectralError, require_choice, require_settings
from ...base.learnt import architecture
from ...base.progress import progress_bar
from ...trees.interface import Resources
from ...trees.pseudoprojective import projective_trees
from ...trees.sentences import Treebank
from ..shag.backoff import LabelModel
from ..shag.model import SymbolTable
from .infinite import CHILDREN, infinite_labelling
from .model import MAX_STATES, ChartSettings, RefinedGrammar
from .spectral import spectral_labelling
from .split_merge import split_merge_labelling
from .statistics import Labelling, Trees

if TYPE_CHECKING:
    from typing_extensions import Unpack

LABELLINGS = ("spectral", "split-merge", "infinite", "none")


@dataclass(frozen=True)
class RefinedRecipe:
    """The settings of a parser by a grammar whose symbols are states that refine tags. It is not trained by
    gradients: the grammar is learnt in one go.

    labelling: How the tokens of the treebank get their states: one of LABELLINGS.
    states: For "spectral", about how many states there are in all; for others the most.
    dimensions: For "spectral", how many singular vectors are looked at.
    cycles: For "split-merge", how often states are split and merged.
    children: For "infinite", how children are generated: one of `infinite.CHILDREN`.
    sweeps: For "infinite", how often the state of every token is drawn.
    resample: False: configs of earlier versions have this setting.
    seed: Of everything that is left to chance.
    min_symbol_count: Rarer tags are treated as a wider one, or as the unknown tag.
    max_symbols: So are the rarest if there are more tags than this.
    chart: How sentences are parsed; see `ChartSettings`.
    """

    labelling: str = "spectral"
    states: int = 200
    dimensions: int = 6
    cycles: int = 3
    children: str = "independent"
    sweeps: int = 60
    resample: bool = False
    seed: int = 0
    min_symbol_count: int = 1
    max_symbols: int = 100
    chart: ChartSettings = field(default_factory=ChartSettings)
    can_be_pretrained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_choice(Errors.S801, self.labelling, LABELLINGS)
        require_choice(Errors.S804, self.children, CHILDREN)
        if self.resample:
            raise SpectralError(Errors.S809)
        counts = dict.fromkeys(("dimensions", "cycles", "sweeps", "min_symbol_count"), ">= 1")
        most = {"states": f">= 1, <= {MAX_STATES}", "max_symbols": f">= 1, < {MAX_STATES}"}
        require_settings(Errors.S802, self, **most, **counts, seed=">= 0")
        require_settings(Errors.S802, self.chart, max_length=">= 2", prune=">= 0, < 1")

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> RefinedGrammar:
        """The grammar of a treebank, crossing arcs lifted, without what is not annotated; see
        `trees.interface.Recipe`."""
        report = given.get("report", print)
        treebank.require_gold("Refined.v1")
        if not (treebank.heads >= 0).any():
            raise SpectralError(Errors.S104)
        heads, names = projective_trees(treebank)
        counts = Counter(treebank.tokens.symbols)
        symbols = SymbolTable.from_counts(
            counts, min_count=self.min_symbol_count, max_symbols=self.max_symbols
        )
        tags = symbols.encode(treebank.tokens.symbols)
        trees = Trees(treebank.tokens.starts, treebank.tokens.words, tags, heads)
        projective = Treebank(treebank.tokens, heads, names).trees()
        own_tags = [tags[a:b] for a, b in treebank.tokens.bounds()]
        labels = LabelModel.fit(projective, own_tags, len(symbols))
        labelling = label(trees, len(symbols), self, report=report)
        report(f"{labelling.n_states} states of {len(symbols) - 1} tags")
        return RefinedGrammar.fit(trees, labelling, symbols, labels, self.chart)


def label(
    trees: Trees, n_tags: int, settings: RefinedRecipe, *, report: Callable[[str], None]
) -> Labelling:
    """Give every token of a treebank a state."""
    find: Callable[..., Labelling]
    own: dict[str, Any]
    if settings.labelling == "spectral":
        find, title = spectral_labelling, "Sub-tags"
        own = {"states": settings.states, "dimensions": settings.dimensions}
    elif settings.labelling == "split-merge":
        find, title = split_merge_labelling, "Split-merge EM"
        own = {"cycles": settings.cycles, "most_states": settings.states, "report": report}
    elif settings.labelling == "infinite":
        find, title = infinite_labelling, "Infinite tree"
        own = {name: getattr(settings, name) for name in ("children", "sweeps")}
        own |= {"most_states": max(settings.states, n_tags), "report": report}
    else:
        return Labelling.from_parts(trees.tags, numpy.zeros(len(trees)), n_tags)
    return find(trees, n_tags, seed=settings.seed, progress=progress_bar(title), **own)


build_refined = architecture("refined", RefinedGrammar, RefinedRecipe)
