"""The registered architectures `spacy-spectral.Biaffine.v1` and `v2`: settings in, a Thinc model out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from thinc.api import Model, chain

from ...base.errors import Errors, SpectralError, require_settings
from ...base.learnt import Learnt, architecture
from ...trees.interface import NEUTRAL, Resources
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import Batch, Treebank
from .estimate import NetworkSettings
from .layers import ArcRows, arc_scores, gated_scan, label_scores, sentence_vectors
from .parser import BiaffineParser

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    `pipeline.parser` for what is asked of such a model.

    tok2vec (Model[List[Doc], List[Floats2d]]): Gives token vectors: a listener or a model of its own.
    scan_size (int): Units of each recurrent layer in both directions together. Trees need to know more
        of a sentence than the few words that a convolutional tok2vec sees.
    scan_depth (int): How many recurrent layers; 0 for none, as for transformers.
    arc_size (int): Width of the hidden layers of heads and of modifiers.
    label_size (int): Width of the hidden layer of labels.
    max_length (int): Longer sentences are parsed in pieces, and are not trained on.
    RETURNS (Model[Batch, List[ndarray]]): The model, from sentences to arc scores.
    """
    sizes = {
        "scan_size": scan_size,
        "scan_depth": scan_depth,
        "arc_size": arc_size,
        "label_size": label_size,
    }
    bounds = {"scan_depth": ">= 0", "arc_size": ">= 1", "label_size": ">= 1"}
    require_settings(Errors.S440, sizes, scan_size="even, >= 2", **bounds)
    if max_length < 2:
        raise SpectralError(Errors.S441.format(architecture="Biaffine.v1", value=max_length))
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
    labels.initialize(X=ArcRows.of_trees(vectors, X.tokens.starts, [], []))


def forward(model: Model, batch: Batch | list, is_train: bool):
    """The scores of all arcs of every sentence. Labels have scores for given trees only."""
    if not isinstance(batch, Batch):
        # 'spacy debug model' asks with documents, which only components can read
        return [], lambda d_scores: []
    vectors, backprop_vectors = model.get_ref("encoder")(batch, is_train)
    scores, backprop_scores = model.get_ref("arcs")(vectors, is_train)

    def backprop(d_scores: list):
        return backprop_vectors(backprop_scores(d_scores))

    return scores, backprop


@dataclass(frozen=True)
class BiaffineRecipe(NetworkSettings):
    """The settings of a parser that scores arcs by the vectors of their ends, with an embedding of its own:
    of words, tags, morphology, word clusters and word vectors; see `NetworkSettings`. Like the log-linear
    parser it is trained when the pipeline is initialized."""

    can_be_pretrained: ClassVar[bool] = True

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> BiaffineParser:
        """A parser; see `trees.interface.Recipe`."""
        return BiaffineParser.fit(treebank, self, **given)


build_biaffine_v2 = architecture("biaffine", BiaffineParser, BiaffineRecipe)
