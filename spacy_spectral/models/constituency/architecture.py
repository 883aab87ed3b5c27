"""Parsers for constituents: their settings, how they are trained, and the registered architectures."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
from numpy.typing import NDArray
from thinc.api import Model, chain

from ...base.errors import Errors, SpectralError, require_settings
from ...base.files import Scope
from ...base.learnt import Learnt, architecture, check_layers
from ...treebank.brackets import Tree
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Batch
from ..biaffine.layers import gated_scan, sentence_vectors
from ..linear.tagger import TaggerRecipe, jackknife
from ..linear.tagger_training import TaggedSentence
from ._anchored import AnchoredTable
from ._span import items
from ._span import learn as learn_spans
from ._table import FeatureTable
from .estimate import estimate
from .lexicon import form, unseen_typography
from .model import ITEM, STRONG, ConstituencyModel
from .neural import (
    LAYER_FIELDS,
    Layers,
    SpanNetworkSettings,
    all_spans,
    span_scores,
    tokens_of,
)
from .neural import fit as fit_network
from .packing import Mixture
from .span import SMALL, compact, gold_forest, gold_nodes, new_table, train
from .statistics import Corpus, Items, RulePairs, binary_trees, encode, rule_features
from .tokens import Arcs, Encoder, fill_arcs, fill_tags

Report = Callable[[str], None]

ESTIMATORS = ("spectral", "cluster", "em", "spectral+em")
# words seen less often are not told apart by the models of spans
_KNOWN = 2
_TAGGER_FOLDS = 4
_TAGGER_EPOCHS = 2
_BITS = 22


def _silent(message: str) -> None:
    pass


@dataclass(frozen=True)
class ConstituencyRecipe:
    """The settings of a parser for constituents.

    spans (bool): Whether it has a model of spans.
    anchored (bool): Whether it has a model of anchored rules, beside that of spans.
    estimator (Optional[str]): How the grammar with states is estimated, one of ESTIMATORS; None for no
        grammar.
    states (int): The most states of a symbol.
    epochs, anchored_epochs (int): Passes over the treebank of both conditional models.
    rate (float): Their rate of learning.
    min_count (int): On how many gold spans a feature must occur.
    em_iterations (int): Rounds of EM, for estimators that have it.
    weights (Sequence[float]): Exponents of the posteriors of anchored rules, of the grammar with states and
        of the model of spans, where all are there.
    temperature (float): What logarithms of their product are divided by, so that it is not too confident.
    seed (int): Of everything that is drawn at random.
    """

    spans: bool = True
    anchored: bool = True
    neural: Any = None
    estimator: str | None = "spectral"
    states: int = 24
    epochs: int = 2
    anchored_epochs: int = 3
    rate: float = 0.1
    min_count: int = 2
    em_iterations: int = 8
    weights: Sequence[float] = Mixture()[:3]
    neural_weight: float = Mixture().neural
    temperature: float = Mixture().temperature
    seed: int = 0

    def __post_init__(self) -> None:
        is_there = self.network is not None or self.spans
        known = (*ESTIMATORS, None) if is_there else ESTIMATORS
        if self.estimator not in known:
            raise SpectralError(
                Errors.S701.format(value=self.estimator, choices=", ".join(ESTIMATORS))
            )
        names = ("epochs", "anchored_epochs", "min_count", "em_iterations")
        counts = dict.fromkeys(names, ">= 1")
        require_settings(Errors.S702, self, states=">= 1, <= 64", rate="> 0, <= 10", **counts)
        sound = len(self.weights) == 3 and all(0 <= weight <= 100 for weight in self.weights)
        if not sound or not 0.01 <= self.temperature <= 100:
            raise SpectralError(Errors.S709)

    @property
    def network(self) -> SpanNetworkSettings | None:
        """The settings of the network."""
        if isinstance(self.neural, Model):
            recipe = self.neural.attrs.get("recipe")
            if not isinstance(recipe, SpanNetworkSettings):
                raise SpectralError(Errors.S710.format(name=self.neural.name))
            return recipe
        return self.neural

    def fit(
        self,
        trees: Sequence[Tree],
        *,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        arcs: Arcs | None = None,
        report: Report = _silent,
    ) -> ConstituencyModel:
        """Train a parser.

        arcs: Of the words of all trees, by a parser for dependencies, for anchored rules to look at.
        """
        if arcs is not None and not self.anchored:
            raise SpectralError(Errors.S712)
        corpus = _encoded(trees, report)
        encoder = spans = anchored = neural = latent = None
        network = self.network
        if self.spans or network is not None:
            encoder, rows = learn_encoder(corpus, clusters, self.seed)
            if arcs is not None:
                fill_arcs(rows, arcs)
            if self.spans:
                spans, anchored = self._fit_spans(corpus, rows, report, arcs=arcs is not None)
            if network is not None:
                tokens = tokens_of(encoder, corpus.words, corpus.starts, rows)
                known: dict[str, Any] = {"clusters": clusters, "vectors": vectors}
                neural = fit_network(network, corpus, tokens, report=report, **known)
        if self.estimator is not None:
            options = {"states": self.states, "seed": self.seed, "iterations": self.em_iterations}
            latent = estimate(corpus, self.estimator, **options).rounded()
            report(f"{self.estimator} grammar with {int(latent.n_states.sum()):,} states")
        by_rules, by_states, by_spans = self.weights
        return ConstituencyModel(
            corpus.grammar, encoder=encoder, spans=spans, anchored=anchored, neural=neural, latent=latent,
            mixture=Mixture(by_rules, by_states, by_spans, self.temperature, self.neural_weight),
            typography=unseen_typography(corpus.words),
        )  # fmt: skip

    def _fit_spans(
        self, corpus: Corpus, tokens: NDArray[numpy.int32], report: Report, *, arcs: bool
    ) -> tuple[FeatureTable, AnchoredTable | None]:
        """The models of spans and of anchored rules."""
        options: dict[str, Any] = {"rate": self.rate, "seed": self.seed, "report": report}
        n, starts = len(corpus), corpus.starts
        table, keys = new_table(corpus, tokens, min_count=self.min_count)
        on_spans = partial(learn_spans, table, tokens, starts, *gold_nodes(corpus))
        weights = train(table, on_spans, n, "spans", epochs=self.epochs, **options)
        if not self.anchored or not len(corpus.grammar.rules):
            return compact(table, keys, [weights])[0], None
        *columns, probs, _ = items(table.with_weights(weights), tokens, starts, ITEM)
        pairs = RulePairs(corpus.grammar, possible=True)
        found = gold_forest(corpus, Items(*columns), strong=probs >= STRONG, pairs=pairs)
        rules, empty = rule_features(corpus.grammar), numpy.zeros(len(weights), dtype="float32")
        edges = numpy.zeros(1 << _BITS, dtype="float32")
        new = AnchoredTable(table.with_weights(empty), rules, edges, arcs=arcs)
        on_forest = partial(new.learn, tokens, starts, *found)
        of_items, of_edges = train(
            new, on_forest, n, "anchored rules", epochs=self.anchored_epochs, **options
        )
        spans, item_table = compact(table, keys, [weights, of_items])
        of_edges = of_edges.astype("float16").astype("float32")
        of_edges[numpy.abs(of_edges) < SMALL] = 0
        return spans, AnchoredTable(item_table, rules, of_edges, arcs=arcs)


@dataclass(frozen=True)
class NeuralSpanRecipe(SpanNetworkSettings):
    """The settings of a network that scores labelled spans; see `SpanNetworkSettings`."""

    def fit(
        self,
        trees: Sequence[Tree],
        *,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        arcs: Arcs | None = None,
        report: Report = _silent,
    ) -> ConstituencyModel:
        """Train a parser; it can't look at arcs."""
        whole = ConstituencyRecipe(
            spans=False, anchored=False, neural=self, estimator=None, seed=self.seed
        )
        return whole.fit(trees, clusters=clusters, vectors=vectors, arcs=arcs, report=report)


def _encoded(trees: Sequence[Tree], report: Report) -> Corpus:
    """A treebank as arrays; an error says so if no tree has words."""
    binary = binary_trees(trees)
    if not binary:
        raise SpectralError(Errors.S703)
    corpus = encode(binary)
    report(
        f"{len(corpus):,} trees, {len(corpus.grammar)} symbols, "
        f"{int((corpus.grammar.seen > 0).sum()):,} rules"
    )
    return corpus


def outline(trees: Sequence[Tree], report: Report = _silent) -> ConstituencyModel:
    """What a parser knows whose network is trained step by step, outside of it: symbols and rules."""
    return ConstituencyModel(_encoded(trees, report).grammar, outside=True)


def build_neural_span_v2(
    tok2vec: Model, scan_size: int = 256, scan_depth: int = 2, span_size: int = 128
) -> Model:
    """Build the model of a network that scores labelled spans, over a tok2vec or a transformer.

    Unlike other models of `spectral_constituency` it is trained step by step, by gradients. NeuralSpan.v1 is
    the same network with an embedding of its own, trained when the pipeline is initialized.

    tok2vec (Model[List[Doc], List[Floats2d]]): Gives token vectors: a listener or a model of its own.
    scan_size (int): Units of each recurrent layer in both directions together. Trees need to know more
        of a sentence than the few words that a convolutional tok2vec sees.
    scan_depth (int): How many recurrent layers; 0 for none, as for transformers.
    span_size (int): Width of the hidden layer of spans.
    RETURNS (Model[Batch, Tuple[Floats2d, Floats2d]]): The model, from sentences to scores of words and of
        wider spans. Its attribute "learnt" is the parser without the network, see `outline`.
    """
    sizes = {"scan_size": scan_size, "scan_depth": scan_depth, "span_size": span_size}
    bounds = {"scan_size": "even, >= 2", "scan_depth": ">= 0", "span_size": ">= 1"}
    require_settings(Errors.S702, sizes, **bounds)
    encoder = sentence_vectors(tok2vec)
    for _ in range(scan_depth):
        encoder = chain(encoder, gated_scan(scan_size))
    scores = span_scores(span_size)
    return Model(
        "neural_span",
        _stepwise_forward,
        init=_stepwise_init,
        layers=[encoder, scores],
        refs={"tok2vec": tok2vec, "encoder": encoder, "scores": scores},
        attrs={"learnt": Learnt(ConstituencyModel)},
    )


def stepwise_layers(model: Model) -> Layers:
    """The layers of a model that is trained step by step."""
    return Layers(model.get_ref("encoder"), model.get_ref("scores"))


def check_stepwise(model: Model) -> None:
    """Raise a ValueError if the parts of a model that is trained step by step do not fit together."""
    what, (_, scores) = "constituency", stepwise_layers(model)
    check_layers(model, what, LAYER_FIELDS)
    grammar = model.attrs["learnt"].value.grammar
    found = scores.get_dim("n_words"), scores.get_dim("n_phrases")
    if found != (grammar.n_words, len(grammar) - grammar.n_words):
        Scope(what).inside(scores.name).fail(f"has {found} symbols of words and of phrases")


def _stepwise_init(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialise all layers; `attrs["learnt"]` has the symbols by now."""
    (encoder, scores), grammar = stepwise_layers(model), model.attrs["learnt"].value.grammar
    encoder.initialize(X=X)
    scores.set_dim("n_words", grammar.n_words, force=True)
    scores.set_dim("n_phrases", len(grammar) - grammar.n_words, force=True)
    scores.initialize(X=all_spans(encoder.predict(X), X.tokens.starts))


def _stepwise_forward(model: Model, batch: Batch | list, is_train: bool) -> tuple[Any, Callable]:
    """The scores of all spans of all sentences."""
    if not isinstance(batch, Batch):
        # 'spacy debug model' asks with documents, which only components can read
        return [], lambda gradient: []
    encoder, scores = stepwise_layers(model)
    vectors, backprop_vectors = encoder(batch, is_train)
    found, backprop_scores = scores(all_spans(vectors, batch.tokens.starts), is_train)
    return found, lambda gradient: backprop_vectors(backprop_scores(gradient))


def learn_encoder(
    corpus: Corpus, clusters: Clusters | None, seed: int
) -> tuple[Encoder, NDArray[numpy.int32]]:
    """What the models of spans know of words before they are trained.

    RETURNS (Tuple[Encoder, ndarray]): The encoder, and the rows of all words, with tags of taggers that
        were not trained on them.
    """
    labels = [symbol.labels[-1] for symbol in corpus.grammar.symbols]
    tags = [labels[symbol] for symbol in corpus.symbol[corpus.left < 0].tolist()]
    sentences = [
        TaggedSentence(corpus.words[a:b], tags[a:b], [""] * (b - a), [None] * (b - a))
        for a, b in zip(corpus.starts[:-1].tolist(), corpus.starts[1:].tolist(), strict=True)
    ]
    tagger = TaggerRecipe(_TAGGER_EPOCHS, seed).fit(sentences, clusters=clusters)
    counts = Counter(map(form, corpus.words))
    known = sorted(word for word, count in counts.items() if count >= _KNOWN)
    encoder = Encoder(known, tagger, clusters)
    if len(sentences) < 2 * _TAGGER_FOLDS:
        return encoder, encoder(corpus.words, corpus.starts)
    rows = encoder.words(corpus.words)
    held_out = jackknife(
        sentences, folds=_TAGGER_FOLDS, clusters=clusters, epochs=_TAGGER_EPOCHS, seed=seed, top=2
    )
    number = {tag: i for i, tag in enumerate(tagger.tags)}
    numbers = numpy.array([*(number[tag] for tag in held_out.labels), -1], dtype="int32")
    fill_tags(rows, numbers[held_out.tags], held_out.probs)
    return encoder, rows


_OF_SPANS = ("epochs", "anchored_epochs", "rate", "min_count")
_OF_GRAMMARS = ("states", "em_iterations")
_OF_PRODUCTS = ("neural", "weights", "neural_weight", "temperature")

# a grammar with hidden states
build_lpcfg = architecture(
    "lpcfg",
    ConstituencyModel,
    ConstituencyRecipe,
    hidden=(*_OF_SPANS, *_OF_PRODUCTS),
    spans=False,
    anchored=False,
)
# conditional random fields over spans and anchored rules
build_span_crf = architecture(
    "span_crf",
    ConstituencyModel,
    ConstituencyRecipe,
    hidden=("spans", *_OF_GRAMMARS, *_OF_PRODUCTS),
    estimator=None,
)
# a network over spans
build_neural_span = architecture("neural_span", ConstituencyModel, NeuralSpanRecipe)
# the product of all
build_product = architecture(
    "constituency_product", ConstituencyModel, ConstituencyRecipe, hidden=("spans", "anchored")
)
