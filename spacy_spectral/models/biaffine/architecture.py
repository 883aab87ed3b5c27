"""The registered architectures `spacy-spectral.Biaffine.v1` and `v2`: settings in, a Thinc model out."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, chain

from ...base.errors import Errors
from ...base.learnt import Learnt, parser_model
from ...trees.interface import NEUTRAL, Clusters, Vectors
from ...trees.inventory import Inventory
from ...trees.sentences import Batch, Treebank
from .estimate import Settings
from .layers import Arcs, arc_scores, label_scores, sentence_vectors
from .parser import BiaffineParser
from .scan import gated_scan


def build_biaffine(
    tok2vec: Model,
    scan_size: int = 256,
    scan_depth: int = 2,
    arc_size: int = 128,
    label_size: int = 128,
    max_length: int = 250,
) -> Model:
    """Build the model of a parser that scores arcs by the vectors of their ends.

    Unlike other models of `spectral_parser` it is trained step by step, by gradients; see
    `parser.trainable` for what is asked of such a model.

    tok2vec (Model[List[Doc], List[Floats2d]]): Gives token vectors: a listener or a model of its own.
    scan_size (int): Units of each recurrent layer in both directions together. Trees need to know more
        of a sentence than the few words that a convolutional tok2vec sees.
    scan_depth (int): How many recurrent layers; 0 for none, as for transformers.
    arc_size (int): Width of the hidden layers of heads and of modifiers.
    label_size (int): Width of the hidden layer of labels.
    max_length (int): Longer sentences are parsed in pieces, and are not trained on.
    RETURNS (Model[Batch, List[ndarray]]): The model, from sentences to arc scores.
    """
    if scan_size < 2 or scan_size % 2 or scan_depth < 0 or min(arc_size, label_size) < 1:
        raise ValueError(Errors.S440)
    if max_length < 2:
        raise ValueError(Errors.S441.format(value=max_length))
    encoder = sentence_vectors(tok2vec)
    for _ in range(scan_depth):
        encoder = chain(encoder, gated_scan(scan_size))
    arcs, labels = arc_scores(arc_size), label_scores(label_size)
    return Model(
        "biaffine",
        forward,
        init=init,
        layers=[encoder, arcs, labels],
        refs={"tok2vec": tok2vec, "encoder": encoder, "arcs": arcs, "labels": labels},
        attrs={
            "inventory": Learnt(Inventory),
            "max_length": max_length,
            "temperature": list(NEUTRAL),
        },
    )


def init(model: Model, X: Any = None, Y: list | None = None) -> None:
    """Initialise all layers; `attrs["inventory"]` has the labels by now."""
    encoder, arcs, labels = (model.get_ref(name) for name in ("encoder", "arcs", "labels"))
    encoder.initialize(X=X)
    vectors = encoder.predict(X)
    arcs.initialize(X=vectors)
    labels.set_dim("nO", len(model.attrs["inventory"].value), force=True)
    labels.initialize(X=Arcs.of_trees(vectors, X.tokens.starts, [], []))


def forward(model: Model, batch: Batch, is_train: bool):
    """The scores of all arcs of every sentence. Labels have scores for given trees only."""
    vectors, backprop_vectors = model.get_ref("encoder")(batch, is_train)
    scores, backprop_scores = model.get_ref("arcs")(vectors, is_train)

    def backprop(d_scores: list):
        return backprop_vectors(backprop_scores(d_scores))

    return scores, backprop


def build_biaffine_v2(
    mix_size: int = 128,
    scan_size: int = 256,
    scan_depth: int = 2,
    arc_size: int = 128,
    label_size: int = 128,
    epochs: int = 12,
    rate: float = 0.004,
    batch_size: int = 1000,
    dropout: float = 0.33,
    word_dropout: float = 0.15,
    seed: int = 0,
    max_length: int = 250,
) -> Model:
    """Build the model of a parser that scores arcs by the vectors of their ends, with an embedding of its
    own: of words, tags, morphology, word clusters and word vectors. Like the log-linear parser it is trained
    when the pipeline is initialized.

    mix_size (int): Width of the layer over embeddings.
    scan_size (int): Units of each recurrent layer in both directions together.
    scan_depth (int): How many recurrent layers.
    arc_size (int): Width of the hidden layers of heads and of modifiers.
    label_size (int): Width of the hidden layer of labels.
    epochs (int): Passes over the treebank; the rate falls to zero over them.
    rate (float): The highest learning rate.
    batch_size (int): Tokens of a batch, about.
    dropout (float): Part of the units that are left out in training.
    word_dropout (float): Part of the features of tokens that are left out in training.
    seed (int): Seed of weights, batches and dropout.
    max_length (int): Longer sentences are parsed in pieces.
    RETURNS (Model): A model that holds the recipe and, once trained, the parser.
    """
    settings = Settings(
        mix_size=mix_size,
        scan_size=scan_size,
        scan_depth=scan_depth,
        arc_size=arc_size,
        label_size=label_size,
        epochs=epochs,
        rate=rate,
        batch_size=batch_size,
        dropout=dropout,
        word_dropout=word_dropout,
        seed=seed,
        max_length=max_length,
    )
    return parser_model("biaffine", BiaffineParser, BiaffineRecipe(settings))


class BiaffineRecipe:
    """Trains a network; see `trees.interface.Recipe`."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def fit(
        self,
        treebank: Treebank,
        *,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        report: Callable[[str], None] = print,
    ) -> BiaffineParser:
        return BiaffineParser.fit(
            treebank, self.settings, dev=dev, clusters=clusters, vectors=vectors, report=report
        )
