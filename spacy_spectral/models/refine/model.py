"""The refined grammar: a generative parser whose symbols are states that refine tags.

P(tree, states, words) is the product of P(child | head, previous sibling, side) over all children and STOPs
(see `transitions`), of P(state | word, tag) / P(state | tag) over all tokens (see `lexicon`), and of a length
factor over all arcs. A sentence is given with its tags; its states are summed over, exactly. Deciding the
states beforehand does not work: on EWT it costs a third of the arcs.

The grammar of the tags alone is so much cheaper that it looks at every arc first; those that it finds
hopeless (marginal below `prune`) are left out. With prune = 0 everything is looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy
from numpy.typing import NDArray

from ...trees.interface import Parses
from ...trees.lengths import DISTANCE_BINS, length_table
from ...trees.parsing import PosteriorParses, sentence_constraints
from ...trees.pieces import parse_in_pieces
from ...trees.posterior import Posterior
from ...trees.sentences import Tokens
from ..shag._chart import arc_weights
from ..shag.labels import LabelModel
from ..shag.model import SymbolTable
from .factors import LatticeFactors
from .format import FORMAT, unpack_grammar
from .labelling import Labelling
from .lexicon import Lattice, Lexicon, TagStates
from .statistics import Trees, count_rows
from .transitions import Transitions, event_states

# How many observations the tags of roots are worth
_ROOT_STRENGTH = 3.0


@dataclass(frozen=True)
class ChartSettings:
    """How sentences are parsed.

    lengths (bool): Whether arcs have the factor P(distance | head, direction, modifier).
    prune (float): Arcs whose marginal under the grammar of the tags alone is smaller are left out.
    max_length (int): Longer sentences are parsed in pieces; see `trees.pieces`.
    """

    lengths: bool = True
    prune: float = 1e-4
    max_length: int = 250


@dataclass
class Layer:
    """A grammar over states, of tags or finer.

    tag_states (TagStates): Which states refine which tag.
    contexts (ndarray): int32, [n, 4], what was seen; see `Transitions.fit`.
    counts (ndarray): [n], how often.
    roots (ndarray): [K], how often states are roots.
    """

    tag_states: TagStates
    contexts: NDArray[numpy.int32]
    counts: NDArray[numpy.float64]
    roots: NDArray[numpy.float64]

    def __post_init__(self) -> None:
        self.transitions = Transitions.fit(self.contexts, self.counts, self.tag_states)
        self.root = root_distribution(self.roots, self.tag_states)

    @classmethod
    def fit(cls, trees: Trees, labelling: Labelling) -> "Layer":
        """RETURNS (Layer): The grammar of a treebank whose tokens have states."""
        k = labelling.n_states
        contexts, counts = count_rows(event_states(trees.events, labelling.states, k))
        roots = numpy.bincount(labelling.states[trees.roots], minlength=k).astype("float64")
        return cls(labelling.tag_states, contexts, counts, roots)

    def to_payload(self) -> dict[str, NDArray]:
        return {
            "contexts": self.contexts.astype("uint16"),
            "counts": self.counts.astype("uint32"),
            "roots": self.roots.astype("uint32"),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, NDArray], tag_states: TagStates) -> "Layer":
        """RETURNS (Layer): What `to_payload` gave, checked by `format`."""
        return cls(
            tag_states,
            payload["contexts"].astype("int32"),
            payload["counts"].astype("float64"),
            payload["roots"].astype("float64"),
        )


def root_distribution(roots: NDArray, tag_states: TagStates) -> NDArray[numpy.float64]:
    """RETURNS (ndarray): [K], P(state | root), smoothed by the tags of roots."""
    tags = numpy.bincount(tag_states.tag_of, roots) + 0.1
    general = (tags / tags.sum() / tag_states.size)[tag_states.tag_of]
    return (roots + _ROOT_STRENGTH * general) / (roots.sum() + _ROOT_STRENGTH)


class RefinedGrammar:
    """A parser; implements `trees.interface.ParserModel`."""

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
    ):
        """settings (ChartSettings): How sentences are parsed.
        symbols (SymbolTable): The tags.
        coarse, fine (Layer): The grammars of the tags and of the states.
        lexicon (Lexicon): What words tell about states.
        lengths (ndarray): From `trees.lengths.length_table`.
        labels (LabelModel): Labels of arcs.
        """
        self.settings = settings
        self.symbols = symbols
        self.coarse, self.fine = coarse, fine
        self.lexicon = lexicon
        self.lengths = lengths
        self.labels = labels
        # share of every tag among all tokens
        frequency = numpy.bincount(lexicon.tag_states.tag_of, lexicon.totals) + 0.5
        self.frequency = frequency / frequency.sum()

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
        return cls(
            settings or ChartSettings(),
            symbols,
            Layer.fit(trees, tags),
            Layer.fit(trees, labelling),
            Lexicon.fit(trees.words, labelling.states, labelling.tag_states),
            length_table(trees.tags[heads], trees.tags[modifiers], modifiers - heads, n),
            labels,
        )

    @property
    def label_names(self) -> list[str]:
        return self.labels.inventory.names

    def parse(
        self, tokens: Tokens, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse a batch of sentences; see `trees.interface.ParserModel`."""
        tags = self.symbols.encode(tokens.symbols)
        words = numpy.array(tokens.words, dtype=object)
        lattice = self.lexicon.lattice(tokens.words, tags)

        def parse(
            chosen: NDArray[numpy.int64] | slice,
            starts: NDArray[numpy.int32],
            fixed: NDArray[numpy.int32] | None,
        ) -> PosteriorParses:
            own = lattice.part(numpy.arange(len(tags))[chosen])
            return self._parse(tags[chosen], words[chosen].tolist(), own, starts, fixed, decode)

        return parse_in_pieces(
            parse, tokens.starts, max_length=self.settings.max_length, fixed=fixed
        )

    def _parse(
        self,
        tags: NDArray[numpy.int32],
        words: list[str],
        lattice: Lattice,
        starts: NDArray[numpy.int32],
        fixed: NDArray[numpy.int32] | None,
        decode: str,
    ) -> PosteriorParses:
        bounds = list(pairwise(starts.tolist()))

        def label_distributions(
            sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
        ) -> NDArray[numpy.float64]:
            own = [slice(*bounds[s]) for s in sentences]
            return self.labels.distributions(
                [tags[s] for s in own],
                [words[s] for s in own],
                heads,
                trees=trees,
                root_symbol=len(self.symbols),
            )

        return PosteriorParses(
            starts,
            [
                self.posterior(tags[a:b], lattice.part(numpy.arange(a, b)), allowed)
                for (a, b), allowed in zip(bounds, sentence_constraints(bounds, fixed), strict=True)
            ],
            inventory=self.labels.inventory,
            label_distributions=label_distributions,
            fixed=fixed,
            decode=decode,
        )

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
        """The factors of one sentence, without hopeless arcs; then those of the tags alone.

        tags (ndarray): The tags of its tokens.
        lattice (Lattice): Their states.
        allowed (Optional[ndarray]): [N+1, N+1], the arcs that are allowed.
        YIELDS (LatticeFactors): The factors.
        """
        weights = self._arc_weights(tags)
        coarse = self._coarse_factors(tags, weights)
        fine = LatticeFactors(
            lattice,
            self.fine.transitions,
            weights,
            self.fine.root[lattice.states] / self._repeated_frequency(tags, lattice),
        )
        if self.settings.prune > 0 and len(tags) > 2:
            first = Posterior.from_factors([coarse], allowed)
            kept = first.marginals >= self.settings.prune
            # at least one tree
            kept[first.heads, numpy.arange(1, len(tags) + 1)] = True
            fine = fine.restricted(kept)
        yield fine
        yield coarse

    def _coarse_factors(self, tags: NDArray[numpy.int32], weights: NDArray) -> LatticeFactors:
        n = len(tags)
        lattice = Lattice(numpy.arange(n + 1, dtype="int32"), tags, numpy.ones(n))
        root = self.coarse.root[tags] / self.frequency[tags]
        return LatticeFactors(lattice, self.coarse.transitions, weights, root)

    def _arc_weights(self, tags: NDArray[numpy.int32]) -> NDArray[numpy.float64]:
        """Length factor over the tag's frequency: without it long sentences would underflow."""
        if not self.settings.lengths:
            return numpy.tile(1.0 / self.frequency[tags], (len(tags), 1))
        return arc_weights(tags, self.frequency, self.lengths, DISTANCE_BINS)

    def _repeated_frequency(self, tags: NDArray, lattice: Lattice) -> NDArray[numpy.float64]:
        return numpy.repeat(self.frequency[tags], numpy.diff(lattice.offsets))

    def to_bytes(self) -> bytes:
        entries, counts = self.lexicon.entries()
        return FORMAT.pack(
            {
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
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "RefinedGrammar":
        """Read what `to_bytes` wrote, or raise a ValueError that says what is wrong."""
        read = unpack_grammar(data)
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
        )
