"""The refined grammar: a generative parser whose symbols are states that refine tags.

P(tree, states, words) is the product of P(child | head, previous sibling, side) over all children and STOPs
(see `transitions`), of P(state | word, tag) / P(state | tag) over all tokens (see `lexicon`), and of a length
factor over all arcs. A sentence is given with its tags; its states are summed over, exactly. Deciding the
states beforehand does not work: on EWT it costs a third of the arcs.

Coarser grammars are so much cheaper that they look at every sentence first; arcs and states that they find
hopeless are left out (see `passes`). With prune = 0 everything is looked at.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors
from ...trees.interface import NEUTRAL, Temperature
from ...trees.posterior import Posterior
from ...trees.sentences import DISTANCE_BINS, Tokens, length_table
from ..shag._chart import arc_weights
from ..shag.backoff import LabelModel
from ..shag.model import SymbolTable
from ..shag.tempered import PosteriorOf, TemperedParser
from .factors import LatticeFactors
from .format import FORMAT, is_small, require_sound
from .labelling import Labelling
from .layer import Layer
from .lexicon import Lattice, Lexicon, TagStates
from .passes import passes
from .scores import RefinedScores
from .statistics import Trees


@dataclass(frozen=True)
class ChartSettings:
    """How sentences are parsed.

    lengths (bool): Whether arcs have the factor P(distance | head, direction, modifier).
    prune (float): Arcs whose marginal under the grammar of the tags alone is smaller are left out, and what
        that of groups of states finds unlikely; see `passes`. With 0 nothing is.
    max_length (int): Longer sentences are parsed in pieces; see `trees.parses`.
    """

    lengths: bool = True
    prune: float = 1e-4
    max_length: int = 250


class RefinedGrammar(TemperedParser):
    """A parser; see `trees.interface.ParserModel`."""

    FORMAT = FORMAT

    decoders = ("mbr",)

    def __init__(
        self,
        settings: ChartSettings,
        symbols: SymbolTable,
        coarse: Layer,
        fine: Layer,
        lexicon: Lexicon,
        lengths: NDArray[numpy.float64],
        labels: LabelModel,
        temperature: Temperature = NEUTRAL,
    ):
        """settings (ChartSettings): How sentences are parsed.
        symbols (SymbolTable): The tags.
        coarse, fine (Layer): The grammars of the tags and of the states.
        lexicon (Lexicon): What words tell about states.
        lengths (ndarray): From `trees.sentences.length_table`.
        labels (LabelModel): Labels of arcs.
        temperature (Temperature): How sure it is; see `shag.tempered`.
        """
        self.settings = settings
        self.symbols = symbols
        self.coarse, self.fine = coarse, fine
        self.lexicon = lexicon
        self.lengths = lengths
        self.labels = labels
        self.temperature = temperature
        # share of every tag among all tokens
        frequency = numpy.bincount(lexicon.tag_states.tag_of, lexicon.totals) + 0.5
        self.frequency = frequency / frequency.sum()
        self._passes = passes(coarse, fine, lexicon.share)

    @classmethod
    def fit(
        cls,
        trees: Trees,
        labelling: Labelling,
        symbols: SymbolTable,
        labels: LabelModel,
        settings: ChartSettings | None = None,
    ) -> "RefinedGrammar":
        """Estimate the grammar of a labelling.

        trees (Trees): The treebank.
        labelling (Labelling): A state for each of its tokens.
        symbols (SymbolTable): Its tags.
        labels (LabelModel): Labels of arcs.
        settings (Optional[ChartSettings]): How sentences are to be parsed.
        RETURNS (RefinedGrammar): The grammar.
        """
        n = len(symbols)
        tags = Labelling(trees.tags, numpy.arange(n, dtype="int32"))
        modifiers = numpy.flatnonzero(trees.head_tokens >= 0)
        heads = trees.head_tokens[modifiers]
        coarse, fine = Layer.fit(trees, tags), Layer.fit(trees, labelling)
        lexicon = Lexicon.fit(trees.words, labelling.states, labelling.tag_states)
        tag_of = labelling.tag_states.tag_of
        if not is_small(tag_of, coarse.contexts, fine.contexts, len(lexicon.pairs)):
            raise ValueError(Errors.S808.format(states=len(tag_of), tags=n))
        return cls(
            settings or ChartSettings(),
            symbols,
            coarse,
            fine,
            lexicon,
            length_table(trees.tags[heads], trees.tags[modifiers], modifiers - heads, n),
            labels,
        )

    def posteriors(self, tokens: Tokens, symbols: NDArray[numpy.int32]) -> PosteriorOf:
        lattice = self.lexicon.lattice(tokens.words, symbols)
        return lambda at, allowed: self.posterior(symbols[at], lattice.part(at), allowed)

    def scorer(self, tokens: Tokens) -> RefinedScores:
        """RETURNS (RefinedScores): Scores single arcs of sentences; see `trees.interface.ArcScorer`."""
        return RefinedScores(self, tokens)

    def posterior(
        self,
        tags: NDArray[numpy.int32],
        lattice: Lattice,
        allowed: NDArray[numpy.bool_] | None = None,
    ) -> Posterior:
        """The distribution over trees of one sentence, however long, by one chart.

        tags (ndarray): The tags of its tokens.
        lattice (Lattice): Their states.
        allowed (Optional[ndarray]): [N+1, N+1], the arcs that are allowed.
        RETURNS (Posterior): Marginals, trees and their probabilities.
        """
        if not len(tags):
            return Posterior.of_nothing()
        return Posterior.from_factors(self.factors(tags, lattice, allowed), allowed)

    def factors(
        self,
        tags: NDArray[numpy.int32],
        lattice: Lattice,
        allowed: NDArray[numpy.bool_] | None = None,
    ) -> Iterator[LatticeFactors]:
        """The factors of one sentence, without what coarser grammars find hopeless; then those of the tags.

        tags (ndarray): The tags of its tokens.
        lattice (Lattice): Their states.
        allowed (Optional[ndarray]): [N+1, N+1], the arcs that are allowed.
        YIELDS (LatticeFactors): The factors.
        """
        weights = self._arc_weights(tags)
        fine = self._factors(tags, lattice, self.fine, weights)
        if self.settings.prune > 0 and len(tags) > 2:
            arcs = allowed
            for coarser in self._passes:
                groups, which = coarser.lattice(fine.lattice)
                first = self._factors(tags, groups, coarser.layer, weights)
                left = coarser.left(first, arcs, self.settings.prune)
                if left is not None:
                    arcs, states = left
                    fine = fine.only(states[which])
            if arcs is not None:
                fine = fine.restricted(arcs)
        yield fine
        n = len(tags)
        alone = Lattice(numpy.arange(n + 1, dtype="int32"), tags, numpy.ones(n))
        yield self._factors(tags, alone, self.coarse, weights)

    def _factors(
        self, tags: NDArray[numpy.int32], lattice: Lattice, layer: Layer, weights: NDArray
    ) -> LatticeFactors:
        frequency = numpy.repeat(self.frequency[tags], numpy.diff(lattice.offsets))
        root = layer.root[lattice.states] / frequency
        return LatticeFactors(lattice, layer.transitions, weights, root)

    def _arc_weights(self, tags: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        """Length factor over the tag's frequency: without it long sentences would underflow."""
        if not self.settings.lengths:
            return numpy.tile(1.0 / self.frequency[tags], (len(tags), 1))
        return arc_weights(tags, self.frequency, self.lengths, DISTANCE_BINS)

    def to_payload(self) -> dict[str, Any]:
        entries, counts = self.lexicon.entries()
        return {
            "settings": asdict(self.settings),
            "symbols": self.symbols.names[:-1],
            "tag_of": self.fine.tag_states.tag_of,
            "totals": self.lexicon.totals.astype("uint32"),
            "coarse": self.coarse.to_payload(),
            "fine": self.fine.to_payload(),
            "words": self.lexicon.names,
            "entries": entries,
            "entry_counts": counts,
            "lengths": self.lengths,
            "labels": self.labels.to_payload(),
            "temperature": self.temperature._asdict(),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "RefinedGrammar":
        require_sound(read)
        tag_states = TagStates(read["tag_of"])
        tags = TagStates(numpy.arange(tag_states.n_tags, dtype="int32"))
        return cls(
            ChartSettings(**read["settings"]),
            SymbolTable(read["symbols"]),
            Layer.from_payload(read["coarse"], tags),
            Layer.from_payload(read["fine"], tag_states),
            Lexicon.from_entries(
                tag_states, read["words"], read["entries"], read["entry_counts"], read["totals"]
            ),
            read["lengths"],
            LabelModel.from_payload(read["labels"]),
            Temperature.read(read["temperature"]),
        )
