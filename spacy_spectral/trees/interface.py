"""What the component `spectral_parser` and its models agree on. Knows nothing of spaCy.

A model is made by a `Recipe` and parses whole batches: sentences lie one after the other in flat arrays.
Positions in a sentence count from 1; 0 is the root, MISSING (-1) a head that is not known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, TypeVar

import numpy
from numpy.typing import NDArray

from ..base.files import Float, Record, Stored
from .sentences import Bools, Floats, Ints, Longs, Tokens, Treebank

if TYPE_CHECKING:
    from typing_extensions import Unpack

Model = TypeVar("Model", bound="ParserModel")


class Temperature(NamedTuple):
    """How confident a parser is: scores are divided by these numbers before trees are summed over, so
    that all probabilities stay those of one distribution. Above 1 they are less confident.

    heads: Of trees; labels: of the label of an arc, given the arc.
    choice: The output tree maximises the marginals of P(tree)^choice. A temperature that calibrates
    probabilities may select worse trees: in a flat distribution many bad trees that share an arc outvote
    a good one.
    share: How much that distribution counts in probabilities: they are those of share P^choice + (1 -
    share) P. A parser is often right where it is certain, and knows little where it is not: no single
    temperature calibrates both.
    """

    heads: float = 1.0
    labels: float = 1.0
    choice: float = 1.0
    share: float = 0.0

    def weighted(self, weight: float) -> "Temperature":
        """That of a model whose scores count `weight` times."""
        return self._replace(heads=self.heads / weight, labels=self.labels / weight)

    @classmethod
    def read(cls, found: Mapping[str, float | None] | None) -> "Temperature":
        """What a file has; older ones lack some of it."""
        return cls(**{name: value for name, value in (found or {}).items() if value is not None})


NEUTRAL = Temperature()
# In files; those of older versions have none.
TEMPERATURE = Record(
    heads=Float(low=1e-3, high=1e3),
    labels=Float(low=1e-3, high=1e3),
    choice=Float(low=1e-2, high=1e2, optional=True),
    share=Float(low=0.0, high=1.0, optional=True),
    optional=True,
)


class Parse(NamedTuple):
    """One parse of one sentence: heads, crossing arcs restored; indices into the model's labels; and log
    P(tree | sentence), of the projective tree that the model has; with its labels where the model or the
    list is about labelled trees."""

    heads: Ints
    labels: Ints
    log_prob: float


class ArcProbs(NamedTuple):
    """Arcs of one sentence and their probabilities, P(arc) or P(arc and label), by modifier, then head,
    then label. Labels are indices into the model's, decorated ones included; MISSING for arcs with any
    label."""

    heads: Ints
    modifiers: Ints
    labels: Ints
    probs: Floats

    def rows(self) -> list[tuple[int, int, int, float]]:
        """Head, modifier, label and probability of each."""
        columns = (self.heads, self.modifiers, self.labels, self.probs)
        return list(zip(*(column.tolist() for column in columns), strict=True))


# [N+1, N+1] by head and modifier, row 0 the root: which arcs of a sentence, and a number of each.
ArcMask = Bools
ArcTable = Floats
# The labels that tokens may have, by position; those of others are free.
Labels = Mapping[int, frozenset[int]]


class BestTree(NamedTuple):
    """The best tree of a `TreeDistribution`: projective heads, indices into the model's labels,
    decorated ones included, and the logarithm of its weight."""

    heads: Ints
    labels: Ints
    score: float


class TreeDistribution(Protocol):
    """The distribution over a sentence's projective trees, of which arcs and labels can be left out."""

    def arcs(self, labels: Labels) -> ArcMask:
        """[N+1, N+1] by head and modifier, the arcs that have a weight with labels that tokens may have."""
        ...

    def total(self, allowed: ArcMask, labels: Labels) -> tuple[float, ArcTable]:
        """The logarithm of the weight of all trees of some arcs, with labels that tokens may have, -inf
        without a tree; and the marginals of arcs among them."""
        ...

    def best(self, ways: Sequence[ArcMask], labels: Labels, marginals: ArcTable) -> BestTree:
        """The tree with the largest weight among those of some arcs, or some others (`ways`); for models
        that sum over hidden states, that with the best product of marginals among all these trees."""
        ...


class RankedTrees(TreeDistribution, Protocol):
    """A distribution over labelled trees that knows the best of them."""

    def k_best(self, k: int) -> list[BestTree]:
        """The k labelled trees with the largest weights, best first."""
        ...


class Parses(Protocol):
    """Parses of a batch. What costs time is a method, so that nobody pays for what is not asked for.

    heads, labels: The head of every token, crossing arcs restored; indices into the model's labels.
    labelled: Whether log-probabilities are those of labelled trees.
    """

    heads: Ints
    labels: Ints
    labelled: bool

    def head_probs(self) -> NDArray[numpy.float32]:
        """The marginal probability of every token's arc; of a crossing arc that was restored, that of
        the lifted arc with its decorated label, and of the same arc not lifted."""
        ...

    def label_probs(self) -> NDArray[numpy.float32]:
        """The probability of every token's label given its head."""
        ...

    def log_probs(self) -> Floats:
        """log P(tree | sentence) for each sentence; of the labelled tree where the model is about
        labelled trees."""
        ...

    def marginals(self, sentence: int) -> Floats:
        """[N+1, N+1], the probability of every arc (head, modifier), row 0 the root. For long sentences
        ask for `arcs`: this takes 800 MB for 10,000 tokens."""
        ...

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        """The arcs of a sentence, with any label or each with its labels, that are at least so likely
        and not impossible."""
        ...

    def label_distributions(self, sentence: int) -> Floats:
        """[N, labels], P(label | arc) for the arcs of the parse; 0 for labels whose probability the
        model does not tell."""
        ...

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        """The k trees with the best products of arc marginals, found exactly, each with its likeliest
        labels, in the order of their exact probabilities; or the k likeliest labelled trees, exactly.
        Models that sum over hidden states look for these among the trees with the best products of the
        probabilities of labelled arcs."""
        ...

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        """The distribution behind a parse, for conditions: that of the model itself. Trees weigh the
        product of their arcs' marginals where there is no such thing: of a sentence that was parsed in
        pieces; and, if the model sums over hidden states, for labels and for arcs that it left out.

        more: [N+1, N+1], arcs that trees may have, too, if the model left them out.
        labelled: Whether labels will be left out, not only arcs.
        """
        ...


class AskedArcs(NamedTuple):
    """Single arcs of a batch that an expert is asked about, by their heads, 0 for the root.

    tokens: Which tokens of the batch, as sentences; slice(None) for all.
    starts, arc_starts: Where these sentences, and the arcs of each token, start, closed by their number.
    """

    tokens: Longs | slice
    starts: Ints
    arc_starts: Ints
    heads: Ints

    def modifiers(self) -> Longs:
        """Which of the tokens every arc leads to, from 0."""
        return numpy.repeat(numpy.arange(len(self.arc_starts) - 1), numpy.diff(self.arc_starts))

    def sentences(self) -> Iterator[tuple[slice, slice, Longs]]:
        """Of every sentence its tokens, its arcs, and their positions in the sentence, from 1."""
        modifiers = self.modifiers()
        for begin, end in pairwise(self.starts.tolist()):
            arcs = slice(int(self.arc_starts[begin]), int(self.arc_starts[end]))
            yield slice(begin, end), arcs, modifiers[arcs] - begin + 1


class ArcScorer:
    """What an expert says of single arcs of a batch, for others who ask."""

    def __call__(self, asked: AskedArcs) -> tuple[NDArray[numpy.floating], NDArray[numpy.floating]]:
        """The score of every arc, a logarithm, and log P(label | arc): [arcs, labels]."""
        raise NotImplementedError


class Vectors(Protocol):
    """Word vectors, see `models.eigenwords.vectors.WordVectors`."""

    size: int

    def __call__(self, forms: Sequence[str]) -> NDArray[numpy.float32]:
        """A row of length 1 for every word; zeros where nothing is known."""
        ...

    def to_bytes(self) -> bytes: ...


class Clusters(Protocol):
    """Word clusters at several granularities, see `models.eigenwords.clusters.WordClusters`."""

    granularities: tuple[int, ...]

    def ids(self, words: Sequence[str]) -> Ints:
        """int32, words x granularities, -1 where nothing is known."""
        ...

    def to_lookups(self, lookups: Any) -> None:
        """Add the clusters to spaCy lookups as tables."""
        ...


class ParserModel(Stored):
    """A trained parser. What not every parser can do has a default here. Some labels may be decorated
    (see `trees.pseudoprojective`); the temperature is None if it can't be changed; sources are the
    treebanks that it can parse like, if it has learnt from several; outside are experts of a product that
    are not in it, see `models.product.parser`."""

    label_names: Sequence[str]
    sources: Sequence[str] = ()
    outside: Sequence[str] = ()
    temperature: Temperature | None = None
    clusters: Clusters | None = None
    vectors: Vectors | None = None

    def parse(self, tokens: Tokens, *, fixed: Ints | None = None) -> Parses:
        """Parse a batch. A projective tree with the heads that are fixed, MISSING for other tokens, must
        exist (see `posterior.possible`)."""
        raise NotImplementedError

    def with_temperature(self: Model, temperature: Temperature) -> Model:
        """The same parser, more or less confident; for parsers with a temperature."""
        raise NotImplementedError

    def parses_at(self, tokens: Tokens) -> Callable[[Temperature], Parses]:
        """A function that parses a batch again and again, at one temperature after the other. Parsers that
        can compute but once what does not depend on the temperature do so."""
        return lambda t: self.with_temperature(t).parse(tokens)

    def scorer(self, tokens: Tokens) -> ArcScorer | None:
        """Scores single arcs of a batch; None if only whole sentences can be parsed."""
        return None


class Pretrained(Protocol):
    """The encoder of a network that has learnt from raw text, see `models.biaffine.pretrain`; the lexicon
    has what it knows of words."""

    lexicon: Any

    def start(self, encoder: Any, settings: Any, lexicon: Any) -> None:
        """Give its weights to the encoder of another network."""
        ...


class Resources(TypedDict, total=False):
    """What a parser may learn from beside a treebank: sentences to stop by, word clusters, word vectors and
    a network's encoder. `report` is told about progress."""

    dev: Treebank | None
    clusters: Clusters | None
    vectors: Vectors | None
    pretrained: Pretrained | None
    report: Callable[[str], None]


class Recipe(Protocol):
    """The settings of an architecture, and how to train with them; whether there is a network in it that can
    begin with a pre-trained encoder."""

    @property
    def can_be_pretrained(self) -> bool: ...

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> ParserModel:
        """Train a parser. The whole training happens here."""
        ...
