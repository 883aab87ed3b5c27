"""From a treebank to a refined grammar: a labelling by some method, then the grammar of the labelling."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy

from ...base.errors import Errors
from ...base.progress import progress_bar
from ...trees.pseudoprojective import projective_trees
from ...trees.sentences import Treebank
from ..shag.backoff import LabelModel
from ..shag.model import SymbolTable
from .format import MAX_STATES
from .infinite import CHILDREN, infinite_labelling
from .labelling import Labelling
from .model import ChartSettings, RefinedGrammar
from .spectral import spectral_labelling
from .split_merge import split_merge_labelling
from .statistics import Trees

LABELLINGS = ("spectral", "split-merge", "infinite", "none")


@dataclass(frozen=True)
class RefineSettings:
    """How a refined grammar is learnt.

    labelling (str): How the tokens of the treebank get their states: one of LABELLINGS.
    states (int): For "spectral", about how many states there are in all; for others the most.
    dimensions (int): For "spectral", how many singular vectors are looked at.
    cycles (int): For "split-merge", how often states are split and merged.
    children (str): For "infinite", how children are generated: one of `infinite.CHILDREN`.
    sweeps (int): For "infinite", how often the state of every token is drawn.
    resample (bool): For "infinite", whether its parameters are drawn, too (see `infinite.make_sampler`);
        `states` is what keeps their number within bounds.
    seed (int): Of everything that is left to chance.
    min_symbol_count (int): Rarer tags are treated as a wider one, or as the unknown tag.
    max_symbols (int): So are the rarest if there are more tags than this.
    chart (ChartSettings): How sentences are parsed.
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

    def __post_init__(self) -> None:
        if self.labelling not in LABELLINGS:
            choices = ", ".join(LABELLINGS)
            raise ValueError(Errors.S801.format(value=self.labelling, choices=choices))
        if self.children not in CHILDREN:
            choices = ", ".join(CHILDREN)
            raise ValueError(Errors.S804.format(value=self.children, choices=choices))
        least = min(self.states, self.dimensions, self.cycles, self.sweeps, self.min_symbol_count)
        if (
            min(least, self.max_symbols, self.chart.max_length - 1) < 1
            or max(self.states, self.max_symbols + 1) > MAX_STATES
            or not 0 <= self.chart.prune < 1
            or self.seed < 0
        ):
            raise ValueError(Errors.S802.format(most=MAX_STATES))


def fit(
    treebank: Treebank,
    settings: RefineSettings,
    *,
    report: Callable[[str], None] = lambda message: None,
) -> RefinedGrammar:
    """Learn a refined grammar.

    treebank (Treebank): The treebank; crossing arcs are lifted, what is not annotated is left out.
    settings (RefineSettings): How.
    report (Callable[[str], None]): Told about progress.
    RETURNS (RefinedGrammar): The grammar.
    """
    if not (treebank.heads >= 0).any():
        raise ValueError(Errors.S104)
    heads, names = projective_trees(treebank)
    counts = Counter(treebank.tokens.symbols)
    symbols = SymbolTable.from_counts(
        counts, min_count=settings.min_symbol_count, max_symbols=settings.max_symbols
    )
    tags = symbols.encode(treebank.tokens.symbols)
    trees = Trees(treebank.tokens.starts, treebank.tokens.words, tags, heads)
    projective = Treebank(treebank.tokens, heads, names).trees()
    own_tags = [tags[a:b] for a, b in treebank.tokens.bounds()]
    labels = LabelModel.fit(projective, own_tags, len(symbols))
    labelling = label(trees, len(symbols), settings, report=report)
    report(f"{labelling.n_states} states of {len(symbols) - 1} tags")
    return RefinedGrammar.fit(trees, labelling, symbols, labels, settings.chart)


def label(
    trees: Trees,
    n_tags: int,
    settings: RefineSettings,
    *,
    report: Callable[[str], None] = lambda message: None,
) -> Labelling:
    """Give every token of a treebank a state.

    trees (Trees): The treebank.
    n_tags (int): How many tags there are.
    settings (RefineSettings): How.
    report (Callable[[str], None]): Told about progress.
    RETURNS (Labelling): The labelling.
    """
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
        own = {name: getattr(settings, name) for name in ("children", "sweeps", "resample")}
        own |= {"most_states": max(settings.states, n_tags), "report": report}
    else:
        return Labelling.from_parts(trees.tags, numpy.zeros(len(trees)), n_tags)
    return find(trees, n_tags, seed=settings.seed, progress=progress_bar(title), **own)
