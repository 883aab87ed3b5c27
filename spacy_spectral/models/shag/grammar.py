"""The grammar as a whole: automata, length factor, lexical model and labels, what can be asked of it, and its
file. The kernels do not check bounds: all that they rely on is declared in `FORMAT`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError, require_choice, require_settings
from ...base.files import Array, Bool, Float, Format, Int, Record, Str, Strings
from ...trees.interface import NEUTRAL, TEMPERATURE, Temperature
from ...trees.posterior import Factors, Posterior
from ...trees.pseudoprojective import plain, projective_tree
from ...trees.sentences import (
    DISTANCE_BINS,
    N_BINS,
    Bools,
    Floats,
    Ints,
    Tokens,
    Tree,
    length_table,
)
from ._chart import AutomataChart, arc_weights
from .backoff import LABELS, LEXICAL, LEXICAL_MODELS, LabelModel, LexicalModel
from .estimate import ESTIMATORS, RIGHT, EstimatorSettings, estimate, modifier_sequences
from .model import FIELDS as AUTOMATA
from .model import OperatorModel, SymbolTable
from .tempered import PosteriorOf, TemperedParser


@dataclass
class AutomataFactors(Factors):
    """See `trees.posterior.Factors`; the arrays are those of `_chart.AutomataChart`."""

    symbols: Ints
    word_class: Ints
    automata: OperatorModel
    states: int
    weights: Floats
    stop: Floats
    root: Floats
    log_scale: float = 0.0

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def non_negative(self) -> bool:
        return self.automata.non_negative

    def chart(self) -> AutomataChart:
        """The chart of the sentence."""
        automata = self.automata
        return AutomataChart(
            self.symbols,
            self.word_class,
            automata.start,
            automata.operators,
            self.weights,
            self.stop,
            self.root,
            self.states,
        )

    def restricted(self, allowed: Bools) -> "AutomataFactors":
        weights = self.weights * allowed[1:, 1:, None]
        return replace(self, weights=weights, root=self.root * allowed[0, 1:])

    def scaled(self, factor: float) -> "AutomataFactors":
        return replace(
            self,
            weights=self.weights * factor,
            root=self.root * factor,
            log_scale=self.log_scale + len(self.symbols) * float(numpy.log(factor)),
        )

    def inside_outside(self) -> tuple[float, Floats, Floats]:
        return self.chart().inside_outside()

    def tree_scores(self, trees: Ints) -> tuple[NDArray, NDArray]:
        return self.chart().tree_scores(trees)


# Of older versions: EM from another start.
_OLD_ESTIMATOR = "spectral+em"
FORMAT = Format(
    "shag grammar",
    1,
    settings=Record(
        automata=Record(
            estimator=Str(choices=(*ESTIMATORS, _OLD_ESTIMATOR)),
            states=Int(low=1),
            smoothing=Float(above=0),
            rank_tolerance=Float(),
            ridge=Float(),
            em_iterations=Int(low=1),
            em_tolerance=Float(),
            seed=Int(),
        ),
        lengths=Bool(),
        lexical=Str(choices=LEXICAL_MODELS, optional=True),
        only_lexical=Bool(),
        min_symbol_count=Int(low=1),
        max_symbols=Int(low=1, optional=True),
        max_length=Int(low=2, high=1 << 30),
    ),
    symbols=Strings("names", unique=True),
    automata=AUTOMATA,
    fallback=AUTOMATA,
    # probabilities that are divided by
    frequency=Array("float64", "names+1", low=1e-100, high=1.0),
    lengths=Array("float64", "names+1", 2, "names+1", N_BINS, low=1e-100, high=1.0, optional=True),
    lexical=LEXICAL,
    labels=LABELS,
    temperature=TEMPERATURE,
)


def require_sound(read: dict[str, Any]) -> None:
    """What kernels and the parts of a grammar take for granted of each other."""
    for name in ("automata", "fallback"):
        tables = {part: read[name][part] for part in ("start", "stop", "operators")}
        states = tables["start"].shape[-1]
        FORMAT.require(states and states % 4 == 0, f"{name}.start", f"has {states} states")
        for part, table in tables.items():
            sound = not read[name]["non_negative"] or (table >= 0).all()
            FORMAT.require(sound, f"{name}.{part}", "has negative values")
    FORMAT.require(read["fallback"]["non_negative"], "fallback.non_negative", "is False")
    settings, lexical, labels = read["settings"], read["lexical"], read["labels"]
    has_lengths = read["lengths"] is not None
    FORMAT.require(has_lengths == settings["lengths"], "lengths", "is not as the settings have it")
    kind = None if lexical is None else lexical["kind"]
    FORMAT.require(kind == settings["lexical"], "lexical", "is not as the settings have it")
    FORMAT.require(kind or not settings["only_lexical"], "lexical", "is needed by the settings")
    n_symbols = len(read["symbols"]) + 1
    counted = [("labels.model", labels["model"], max(len(labels["labels"]), 1))]
    if lexical is not None:
        sound = (lexical["symbol_class"] < LEXICAL_MODELS[lexical["kind"]]).all()
        FORMAT.require(sound, "lexical.symbol_class", "has unknown classes")
        counted.append(("lexical.tag_model", lexical["tag_model"], n_symbols + 1))
        counted.append(("lexical.word_model", lexical["word_model"], len(lexical["words"]) + 1))
    for name, model, n_outcomes in counted:
        sound = model["n_outcomes"] == n_outcomes
        FORMAT.require(sound, f"{name}.n_outcomes", f"is {model['n_outcomes']}, not {n_outcomes}")
    whole = set(map(plain, labels["labels"])) <= set(labels["labels"])
    FORMAT.require(whole, "labels.labels", "has decorated labels without their plain forms")


@dataclass(frozen=True)
class GrammarSettings:
    """What a grammar is made of.

    automata: How the head automata are learnt.
    lengths: Whether arcs have the factor P(distance | head, direction, modifier).
    lexical: LEX, LEX+F or LEX+FCP to multiply the automata with that lexical model;
        "none" is None, too.
    only_lexical: Whether to use that lexical model without automata.
    min_symbol_count: Rarer symbols are treated as a wider one, or as the unknown symbol.
    max_symbols: So are the rarest if there are more symbols than this: time and memory of training
        grow with the third and second power of their number. See `SymbolTable.from_counts`.
    max_length: Longer sentences are parsed in pieces: see `trees.parses`.
    """

    automata: EstimatorSettings = field(default_factory=EstimatorSettings)
    lengths: bool = True
    lexical: str | None = None
    only_lexical: bool = False
    min_symbol_count: int = 1
    max_symbols: int = 100
    max_length: int = 250

    def __post_init__(self) -> None:
        if self.lexical in ("", "none"):
            object.__setattr__(self, "lexical", None)
        if self.lexical is not None:
            require_choice(Errors.S103, self.lexical, LEXICAL_MODELS)
        bounds = {"max_length": ">= 2", "min_symbol_count": ">= 1", "max_symbols": ">= 1"}
        require_settings(Errors.S105, self, **bounds)
        if self.only_lexical and self.lexical is None:
            needed = "a lexical model if only_lexical is true"
            raise SpectralError(Errors.S105.format(bounds=needed, found="lexical = null"))


class Grammar(TemperedParser):
    """A split head-automata grammar with relation labels."""

    FORMAT = FORMAT

    def __init__(
        self,
        settings: GrammarSettings,
        symbols: SymbolTable,
        automata: OperatorModel,
        fallback: OperatorModel,
        frequency: Floats,
        lengths: Floats | None,
        lexical: LexicalModel | None,
        labels: LabelModel,
        temperature: Temperature = NEUTRAL,
    ):
        """fallback: Non-negative automata for sentences that `automata` fail on."""
        self.settings = settings
        self.symbols = symbols
        self.automata = automata
        self.fallback = fallback
        self.frequency = frequency
        self.lengths = lengths
        self.lexical = lexical
        self.labels = labels
        self.temperature = temperature

    @classmethod
    def fit(
        cls,
        trees: Sequence[Tree],
        settings: GrammarSettings,
        *,
        progress: Callable[[Iterable], Iterable] = iter,
    ) -> "Grammar":
        """Learn a grammar from a treebank: crossing arcs are lifted, missing heads are left out."""
        if not any(len(tree) and (tree.heads >= 0).any() for tree in trees):
            raise SpectralError(Errors.S104)
        trees = [projective_tree(tree) for tree in trees]
        counts = Counter(symbol for tree in trees for symbol in tree.symbols)
        symbols = SymbolTable.from_counts(
            counts, min_count=settings.min_symbol_count, max_symbols=settings.max_symbols
        )
        ids = [symbols.encode(tree.symbols) for tree in trees]
        n = len(symbols)
        sequences = modifier_sequences(ids, [tree.heads for tree in trees], n)
        fallback = estimate(sequences, replace(settings.automata, estimator="det+f"))
        if settings.only_lexical:
            automata = fallback = OperatorModel.uniform(n)
        else:
            automata = estimate(sequences, settings.automata, progress=progress)
        frequency = numpy.bincount(numpy.concatenate(ids), minlength=n) + 0.5
        return cls(
            settings,
            symbols,
            automata,
            fallback,
            frequency / frequency.sum(),
            _fit_lengths(ids, trees, n) if settings.lengths else None,
            LexicalModel.fit(trees, ids, n, kind=settings.lexical) if settings.lexical else None,
            LabelModel.fit(trees, ids, n),
        )

    @classmethod
    def from_automata(
        cls, names: Sequence[str], start: NDArray, stop: NDArray, operators: NDArray
    ) -> "Grammar":
        """A grammar of given automata, without labels: e.g. the true one of the sample treebank."""
        n, states = len(names), start.shape[2]
        symbols = SymbolTable(names)
        automata = OperatorModel.zeros(n + 1, states, non_negative=True)
        automata.start[:n, :, :states] = start[:n]
        automata.stop[:n, :, :states] = stop[:n]
        automata.operators[:n, :, :n, :states, :states] = operators[:n]
        automata.start[-1, :, 0] = automata.stop[-1, :, 0] = 1.0
        automata.operators[-1, RIGHT, :n, 0, 0] = numpy.einsum(
            "a,xab,b->x", stop[n, RIGHT], operators[n, RIGHT], start[n, RIGHT]
        )
        uniform = numpy.full(n + 1, 1.0 / (n + 1))
        labels = LabelModel.fit([], [], n + 1)
        settings = GrammarSettings(lengths=False)
        return cls(settings, symbols, automata, automata, uniform, None, None, labels)

    def posteriors(self, tokens: Tokens, symbols: Ints) -> PosteriorOf:
        words = numpy.array(tokens.words, dtype=object)
        return lambda at, allowed: self.posterior(symbols[at], words[at].tolist(), allowed=allowed)

    def posterior(
        self, symbols: Ints, words: Sequence[str], *, allowed: Bools | None = None
    ) -> Posterior:
        """The distribution over trees of one sentence, however long, by one chart; see
        `trees.posterior`."""
        if not len(symbols):
            return Posterior.of_nothing()
        return Posterior.from_factors(self._attempts(symbols, words), allowed)

    def _attempts(self, symbols: NDArray, words: Sequence[str]) -> Iterable[AutomataFactors]:
        """Factors of one sentence, best model first: lower ranks, then the fallback (see `Posterior`)."""
        n = len(symbols)
        lengths, bins = (
            (self.lengths, DISTANCE_BINS) if self.lengths is not None else self._no_lengths
        )
        weights = arc_weights(symbols, self.frequency, lengths, bins)[:, :, None]
        root = 1.0 / self.frequency[symbols]
        word_class = numpy.zeros(n, dtype="int32")
        lexical_stop = None
        if self.lexical is not None:
            arcs, lexical_stop, lexical_root = self.lexical.weights(
                symbols, words, root_symbol=len(self.symbols)
            )
            if not self.settings.only_lexical:
                # both models generate every tag, so each is measured against its frequency
                arcs, lexical_root = arcs * root[None, :, None], lexical_root * root
            weights, root = weights * arcs, root * lexical_root
            word_class = self.lexical.symbol_class[symbols]
        for automata, states in self._chain():
            stop = numpy.ascontiguousarray(automata.stop[symbols, :, :states])
            if lexical_stop is not None:
                stop = (lexical_stop[..., None] * stop[:, :, None]).reshape(n, 2, -1)
            own_root = root * automata.operators[automata.root, RIGHT, symbols, 0, 0]
            yield AutomataFactors(symbols, word_class, automata, states, weights, stop, own_root)

    @cached_property
    def _no_lengths(self) -> tuple[NDArray, NDArray]:
        """A length factor of 1, with one bin."""
        shape = (len(self.symbols), 2, len(self.symbols), 1)
        return numpy.ones(shape), numpy.zeros(1, dtype="int32")

    def _chain(self) -> Iterable[tuple[OperatorModel, int]]:
        states = self.automata.states
        yield self.automata, states
        if not self.automata.non_negative:
            while states > 4:
                states = -(-states // 8) * 4
                yield self.automata, states
            yield self.fallback, self.fallback.states

    def to_payload(self) -> dict[str, Any]:
        return {
            "settings": asdict(self.settings),
            "symbols": self.symbols.names[:-1],
            "automata": vars(self.automata),
            "fallback": vars(self.fallback),
            "frequency": self.frequency,
            "lengths": self.lengths,
            "lexical": self.lexical.to_payload() if self.lexical else None,
            "labels": self.labels.to_payload(),
            "temperature": self.temperature._asdict(),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "Grammar":
        require_sound(read)
        return cls(
            _settings(read["settings"]),
            SymbolTable(read["symbols"]),
            OperatorModel(**read["automata"]),
            OperatorModel(**read["fallback"]),
            read["frequency"],
            read["lengths"],
            LexicalModel.from_payload(read["lexical"]) if read["lexical"] else None,
            LabelModel.from_payload(read["labels"]),
            Temperature.read(read["temperature"]),
        )


def _settings(read: dict) -> GrammarSettings:
    # what older files do not have is as it is by default
    given = {name: value for name, value in read.items() if value is not None}
    automata = dict(read["automata"])
    if automata["estimator"] == _OLD_ESTIMATOR:
        automata["estimator"] = "em"
    return GrammarSettings(**{**given, "automata": EstimatorSettings(**automata)})


def _fit_lengths(ids: Sequence[NDArray], trees: Sequence[Tree], n_symbols: int) -> NDArray:
    heads, modifiers, distances = [], [], []
    for own, tree in zip(ids, trees, strict=True):
        m = numpy.flatnonzero(tree.heads > 0)
        h = tree.heads[m] - 1
        heads.append(own[h])
        modifiers.append(own[m])
        distances.append(m - h)
    head, modifier, distance = map(numpy.concatenate, (heads, modifiers, distances))
    return length_table(head, modifier, distance, n_symbols)
