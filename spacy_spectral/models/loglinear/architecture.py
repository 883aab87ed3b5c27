"""The registered architecture `spacy-spectral.LogLinear.v1`: settings in, a Thinc model out."""

from collections.abc import Callable

from thinc.api import Model

from ...base.errors import Errors
from ...base.learnt import parser_model
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Treebank
from .estimate import Settings
from .parser import LogLinearParser

_DEFAULT = Settings()


def build_loglinear(
    epochs: int = _DEFAULT.epochs,
    rate: float = _DEFAULT.rate,
    decay: float = _DEFAULT.decay,
    batch_size: int = _DEFAULT.batch_size,
    n_states: int = _DEFAULT.n_states,
    siblings: bool = _DEFAULT.siblings,
    second_tag: bool = _DEFAULT.second_tag,
    windows: bool = _DEFAULT.windows,
    min_blocks: int = _DEFAULT.min_blocks,
    prune_threshold: float = _DEFAULT.prune_threshold,
    prune_most: int = _DEFAULT.prune_most,
    patience: int = _DEFAULT.patience,
    seed: int = _DEFAULT.seed,
    n_threads: int = _DEFAULT.n_threads,
    max_length: int = 250,
) -> Model:
    """Build the model of a log-linear parser: conditional probabilities of labelled trees.

    epochs (int): Passes over the training sentences.
    rate (float): Learning rate.
    decay (float): L2 penalty.
    batch_size (int): Sentences per step.
    n_states (int): Classes of labels, the states of the head automata; 1 for no automata.
    siblings (bool): Look at neighbouring modifiers of a head together.
    second_tag (bool): Look at the second-best tags of a `spectral_tagger`.
    windows (bool): Look at every token in its context by itself: for its label, and for the direction
        and distance of its head and of its modifiers.
    min_blocks (int): A feature is kept if it occurs in so many of a hundred parts of the text.
    prune_threshold (float): Drop heads less likely than this relative to the token's best.
    prune_most (int): Keep at most so many heads of a token.
    patience (int): Stop after so many epochs without a gain on the development corpus.
    seed (int): Seed of the order of sentences.
    n_threads (int): Threads in training; the result does not depend on it.
    max_length (int): Longer sentences are parsed in pieces.
    RETURNS (Model): A model that holds the recipe and, once trained, the parser.
    """
    if max_length < 2:
        raise ValueError(
            Errors.S408.format(setting="max_length", low=2, high="any", value=max_length)
        )
    settings = Settings(
        epochs=epochs,
        rate=rate,
        decay=decay,
        batch_size=batch_size,
        n_states=n_states,
        siblings=siblings,
        second_tag=second_tag,
        windows=windows,
        min_blocks=min_blocks,
        prune_threshold=prune_threshold,
        prune_most=prune_most,
        patience=patience,
        seed=seed,
        n_threads=n_threads,
    )
    return parser_model("loglinear", LogLinearParser, LogLinearRecipe(settings, max_length))


class LogLinearRecipe:
    """Trains a log-linear parser; see `trees.interface.Recipe`."""

    def __init__(self, settings: Settings, max_length: int):
        self.settings = settings
        self.max_length = max_length

    def fit(
        self,
        treebank: Treebank,
        *,
        dev: Treebank | None = None,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        report: Callable[[str], None] = print,
    ) -> LogLinearParser:
        return LogLinearParser.fit(
            treebank,
            self.settings,
            max_length=self.max_length,
            dev=dev,
            clusters=clusters,
            report=report,
        )
