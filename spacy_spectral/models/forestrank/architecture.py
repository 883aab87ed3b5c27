"""The registered architecture `spacy-spectral.ForestReranker.v1`: settings in, a Thinc model out."""

from typing import Any

from thinc.api import Model

from ...base.learnt import learnt_model
from .experts import check_experts
from .model import ForestReranker
from .training import ForestSettings

_DEFAULT = ForestSettings()


def build_forest_reranker(
    threshold: float = _DEFAULT.threshold,
    folds: int = _DEFAULT.folds,
    epochs: int = _DEFAULT.epochs,
    learn_rate: float = _DEFAULT.learn_rate,
    l2: float = _DEFAULT.l2,
    min_count: int = _DEFAULT.min_count,
    min_word_count: int = _DEFAULT.min_word_count,
    seed: int = _DEFAULT.seed,
    experts: dict[str, Any] | None = None,
) -> Model:
    """Build the model of a reranker that looks at the whole packed forest of a parser.

    threshold (float): Arcs whose probability with their label, by the parser, is below are left out.
    folds (int): Blocks of the training data; the forests of each come from a parser trained on the others.
    epochs (int): Passes over the sentences.
    learn_rate (float): The learning rate of AdaGrad.
    l2 (float): Penalty of weights that a step changes.
    min_count (int): Features that trees of the training data have less often are left out.
    min_word_count (int): Of rarer words only the last letters are looked at.
    seed (int): Seed of the order of sentences.
    experts (Optional[Dict[str, Model]]): Other parsers that are trained when the pipeline is initialized, by
        names of your choice, e.g. `spacy-spectral.Refined.v1`: what they say of arcs counts, too.
    RETURNS (Model): A model that holds the settings and, once trained, the reranker.
    """
    settings = ForestSettings(
        threshold=threshold,
        folds=folds,
        epochs=epochs,
        learn_rate=learn_rate,
        l2=l2,
        min_count=min_count,
        min_word_count=min_word_count,
        seed=seed,
        experts=check_experts(experts),
    )
    return learnt_model("forest_reranker", ForestReranker, settings)
