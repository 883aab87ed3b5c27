"""The refined grammar: a generative parser whose symbols are states that refine tags.

P(tree, states, words) is the product of P(child | head, previous sibling, side) over all children and STOPs
(see `transitions`), of P(state | word, tag) / P(state | tag) over all tokens (see `lexicon`), and of a length
factor over all arcs. A sentence is given with its tags; its states are summed over, exactly. Deciding the
states beforehand does not work: on EWT it costs a third of the arcs.

Coarser grammars are so much cheaper that they look at every sentence first; arcs and states that they find
hopeless are left out (see `chart`). With prune = 0 everything is looked at.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bool, Float, Format, Int, Record, Strings
from ...trees.interface import NEUTRAL, TEMPERATURE, ArcScorer, AskedArcs, Temperature
from ...trees.posterior import Posterior
from ...trees.pseudoprojective import plain
from ...trees.sentences import DISTANCE_BINS, N_BINS, Tokens, length_table
from ..shag._chart import arc_weights
from ..shag.backoff import LABELS, LabelModel
from ..shag.model import SymbolTable
from ..shag.tempered import PosteriorOf, TemperedParser
from .chart import LatticeFactors, passes
from .lexicon import Lattice, Lexicon, TagStates
from .statistics import Labelling, Trees
from .transitions import Layer

# The file of a refined grammar. The kernels do not check bounds: all that they rely on is declared here.
#
# Counts are stored, and distributions made of them when the file is read: they are a tenth of the size.

# Tables grow with the square of the states, those of EM with their third power
MAX_STATES = 300
_MOST = 1 << 31
# What is made of a file may be many times its size: so many bytes at most
_MOST_BYTES = 800 << 20


def _layer(states: str) -> Record:
    return Record(
        contexts=Array("uint16", "contexts", 4),
        counts=Array("uint32", "contexts", low=1, high=_MOST),
        roots=Array("uint32", states, high=_MOST),
    )


FORMAT = Format(
    "refined grammar",
    1,
    settings=Record(
        lengths=Bool(),
        prune=Float(low=0.0, below=1.0),
        max_length=Int(low=2, high=1 << 30),
    ),
    symbols=Strings("names", unique=True, most=MAX_STATES - 1),
    tag_of=Array("int32", "states", low=0, below="names+1", order="ascending", most=MAX_STATES),
    totals=Array("uint32", "states", high=_MOST),
    coarse=_layer("names+1"),
    fine=_layer("states"),
    words=Strings("words", unique=True),
    entries=Array("uint32", "entries", 2),
    entry_counts=Array("uint32", "entries", low=1, high=_MOST),
    # probabilities that are multiplied with
    lengths=Array("float64", "names+1", 2, "names+1", N_BINS, low=1e-100, high=1.0),
    labels=LABELS,
    temperature=TEMPERATURE,
)


def require_sound(read: dict[str, Any]) -> None:
    """What kernels and the parts of a grammar take for granted of each other."""
    n_tags, n_states = len(read["symbols"]) + 1, len(read["tag_of"])
    every = numpy.array_equal(numpy.unique(read["tag_of"]), numpy.arange(n_tags))
    FORMAT.require(every, "tag_of", "leaves a tag without a state")
    for name, size in (("coarse", n_tags), ("fine", n_states)):
        contexts = read[name]["contexts"].astype("int64")
        sound = (contexts < [2, size, size + 1, size + 1]).all()
        FORMAT.require(sound, f"{name}.contexts", "has unknown states")
        _require_order(contexts, f"{name}.contexts")
    entries = read["entries"].astype("int64")
    sound = (entries < [len(read["words"]), n_states]).all()
    FORMAT.require(sound, "entries", "has unknown words or states")
    _require_order(entries, "entries")
    pairs = numpy.unique(entries[:, 0] * n_tags + read["tag_of"][entries[:, 1]])
    sound = is_small(
        read["tag_of"], read["coarse"]["contexts"], read["fine"]["contexts"], len(pairs)
    )
    FORMAT.require(sound, "tag_of", "has too many tags and states for what they are seen with")
    labels = read["labels"]
    n_labels = max(len(labels["labels"]), 1)
    sound = labels["model"]["n_outcomes"] == n_labels
    FORMAT.require(sound, "labels.model.n_outcomes", f"is not {n_labels}")
    whole = set(map(plain, labels["labels"])) <= set(labels["labels"])
    FORMAT.require(whole, "labels.labels", "has decorated labels without their plain forms")


def is_small(tag_of: NDArray, coarse: NDArray, fine: NDArray, n_pairs: int) -> bool:
    """Whether the tables of a grammar have room, known before any of them is made: by the tag of every
    state, and what tags and states are seen with (see `Transitions.fit`)."""
    sizes = numpy.bincount(tag_of)
    n_tags, n_states, width = len(sizes), len(tag_of), int(sizes.max())
    n_groups = int(numpy.ceil(numpy.sqrt(sizes)).sum())

    def rows(contexts: NDArray, k: int, most: int) -> int:
        """float32; see `transitions`."""
        side, head, previous, _ = contexts.astype("int64").T
        n = len(numpy.unique((side * (most + 1) + head) * (most + 1) + previous))
        return 4 * (k + 1) * (2 * k * (n_tags + 1) + min(n, 2 * k * (k + 1)))

    grammars = rows(coarse, n_tags, n_tags) + rows(fine, n_states, n_states)
    if n_groups > n_tags:
        # k-means of the states of a tag, with its copies; afterwards the grammar of the groups
        grammars += max(4 * 8 * width * 4 * (n_tags + 1) ** 2, rows(fine, n_groups, n_states))
    # words with their tags have a row as wide as the tag with the most states
    words = 8 * n_pairs * width
    columns = 150 * (len(coarse) + len(fine))
    return grammars + words + columns <= _MOST_BYTES


def _require_order(rows: numpy.ndarray, name: str) -> None:
    """Rows that differ, in order."""
    step = numpy.diff(rows, axis=0)
    first = (step != 0).argmax(axis=1)
    sound = (step[numpy.arange(len(step)), first] > 0).all()
    FORMAT.require(sound, name, "is not in order")


# What a refined grammar says of single arcs, for parsers that weigh it with others.

# What the grammar leaves out, or thinks impossible, is this likely
SMALLEST = 1e-5


class RefinedScores(ArcScorer):
    """Logarithms of marginals of arcs; implements `trees.interface.ArcScorer`.

    Only the arcs that are asked for are looked at: the marginals are those of the grammar given that the
    tree has no others, by a chart as small as these arcs make it. So they cost little where a pruner has
    left few arcs.
    """

    def __init__(self, grammar: "RefinedGrammar", tokens: Tokens):
        self._grammar = grammar
        self._words = numpy.array(tokens.words, dtype=object)
        self._tags = grammar.symbols.encode(tokens.symbols)
        self._lattice = grammar.lexicon.lattice(tokens.words, self._tags)

    def __call__(self, asked: AskedArcs) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
        """log P(arc | sentence, these arcs), at least log SMALLEST, and those of labels."""
        logs, trees = self._marginals(asked)
        grammar, starts, heads = self._grammar, asked.starts, asked.heads
        places = numpy.arange(len(self._tags))[asked.tokens]
        modifier = asked.modifiers()
        # one arc to every token at a time, seen in the best tree
        rank = numpy.arange(len(heads)) - asked.arc_starts[modifier]
        labels = numpy.zeros((len(heads), len(grammar.label_names)))
        bounds = list(pairwise(starts.tolist()))
        tags, words = self._tags[places], self._words[places]
        for round_ in range(int(rank.max(initial=-1)) + 1):
            own = rank == round_
            seen = trees.copy()
            seen[modifier[own]] = heads[own]
            there = numpy.unique(numpy.searchsorted(starts, modifier[own], side="right") - 1)
            some = [bounds[s] for s in there.tolist()]
            found = grammar.labels.distributions(
                [tags[a:b] for a, b in some],
                [words[a:b].tolist() for a, b in some],
                [seen[a:b] for a, b in some],
                trees=[trees[a:b] for a, b in some],
                root_symbol=len(grammar.symbols),
            )
            inside = numpy.concatenate([numpy.arange(a, b) for a, b in some])
            labels[own] = found[numpy.searchsorted(inside, modifier[own])]
        return logs, numpy.log(numpy.maximum(labels, SMALLEST))

    def _marginals(self, asked: AskedArcs) -> tuple[NDArray[numpy.float64], NDArray[numpy.int32]]:
        """Logarithms of arcs, and the best trees."""
        places = numpy.arange(len(self._tags))[asked.tokens]
        logs = numpy.zeros(len(asked.heads))
        trees = numpy.zeros(len(places), dtype="int32")
        for tokens, own, modifiers in asked.sentences():
            chosen = places[tokens]
            arcs = asked.heads[own], modifiers
            allowed = numpy.zeros((len(chosen) + 1,) * 2, dtype=bool)
            allowed[arcs] = True
            found = self._grammar.posterior(self._tags[chosen], self._lattice.part(chosen), allowed)
            logs[own] = numpy.log(numpy.maximum(found.marginals[arcs], SMALLEST))
            trees[tokens] = found.heads
        return logs, trees


@dataclass(frozen=True)
class ChartSettings:
    """How sentences are parsed.

    lengths: Whether arcs have the factor P(distance | head, direction, modifier).
    prune: Arcs whose marginal under the grammar of the tags alone is smaller are left out, and
        what that of groups of states finds unlikely; see `chart`. With 0 nothing is.
    max_length: Longer sentences are parsed in pieces; see `trees.parses`.
    """

    lengths: bool = True
    prune: float = 1e-4
    max_length: int = 250


class RefinedGrammar(TemperedParser):
    """A parser; see `trees.interface.ParserModel`."""

    FORMAT = FORMAT

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
        """temperature: How confident it is; see `shag.tempered`."""
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
        """Estimate the grammar of a labelling."""
        n = len(symbols)
        tags = Labelling(trees.tags, numpy.arange(n, dtype="int32"))
        modifiers = numpy.flatnonzero(trees.head_tokens >= 0)
        heads = trees.head_tokens[modifiers]
        coarse, fine = Layer.fit(trees, tags), Layer.fit(trees, labelling)
        lexicon = Lexicon.fit(trees.words, labelling.states, labelling.tag_states)
        tag_of = labelling.tag_states.tag_of
        if not is_small(tag_of, coarse.contexts, fine.contexts, len(lexicon.pairs)):
            raise SpectralError(Errors.S808.format(states=len(tag_of), tags=n))
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
        """Scores single arcs of sentences; see `trees.interface.ArcScorer`."""
        return RefinedScores(self, tokens)

    def posterior(
        self,
        tags: NDArray[numpy.int32],
        lattice: Lattice,
        allowed: NDArray[numpy.bool_] | None = None,
    ) -> Posterior:
        """The distribution over trees of one sentence, however long, by one chart."""
        if not len(tags):
            return Posterior.of_nothing()
        return Posterior.from_factors(self.factors(tags, lattice, allowed), allowed)

    def factors(
        self,
        tags: NDArray[numpy.int32],
        lattice: Lattice,
        allowed: NDArray[numpy.bool_] | None = None,
    ) -> Iterator[LatticeFactors]:
        """The factors of one sentence, without what coarser grammars find hopeless; then those of the
        tags."""
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
        yield self._factors(tags, Lattice.of_single(tags), self.coarse, weights)

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
