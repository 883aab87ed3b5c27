"""The registered architecture `spacy-spectral.LogLinear.v1`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy

from ...base.errors import Errors, SpectralError
from ...base.learnt import architecture
from ...trees.interface import Resources
from ...trees.parses import cut_treebank
from ...trees.pseudoprojective import MIN_DECORATED, Inventory, projective_trees
from ...trees.sentences import MISSING, Bools, Ints, Tokens, Treebank, Trust
from .encode import Encoder
from .estimate import Annotated, Believed, Epoch, Settings, fit
from .parser import LogLinearParser, encode_tokens

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass
class LogLinearRecipe(Settings):
    """The settings of a log-linear parser, which gives conditional probabilities of labelled trees: those of
    `Settings`, and

    max_length (int): Longer sentences are parsed in pieces.
    """

    max_length: int = 250
    can_be_pretrained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 2:
            value = self.max_length
            raise SpectralError(
                Errors.S408.format(setting="max_length", low=2, high="any", value=value)
            )

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> LogLinearParser:
        """Crossing arcs are lifted, with decorated labels where there are enough of them; missing heads and
        labels are summed out. See `trees.interface.Recipe`.
        """
        dev, clusters, report = given.get("dev"), given.get("clusters"), given.get("report", print)
        treebank = cut_treebank(treebank, self.max_length)
        heads, names = projective_trees(treebank)
        if not any(names):
            raise SpectralError(Errors.S401)
        inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
        tags = sorted({symbol for symbol in treebank.tokens.symbols if symbol})
        encoder = Encoder(tags)

        def annotated(tokens: Tokens, heads: Ints, names: list[str]) -> Annotated:
            encoded = encode_tokens(encoder, tokens, clusters)
            return Annotated(encoded, heads, inventory.encode(names))

        train = annotated(treebank.tokens, heads, names)
        if treebank.trust is not None:
            train.trust = _believed(treebank.trust, inventory, heads == treebank.heads)

        def progress(epoch: Epoch) -> None:
            scores = "" if epoch.las is None else f", dev UAS {epoch.uas:.2%}, LAS {epoch.las:.2%}"
            report(f"epoch {epoch.epoch} of {epoch.n_epochs}: loss {epoch.loss:.4f}{scores}")

        model = fit(
            train,
            tags=tags,
            labels=inventory.names,
            dev=None if dev is None else annotated(dev.tokens, dev.heads, dev.labels),
            settings=self,
            progress=progress,
        )
        sources = sorted(set(treebank.tokens.sources) - {""})
        return LogLinearParser(model, clusters, max_length=self.max_length, sources=sources)


def _believed(trust: Trust, inventory: Inventory, is_plain: Bools) -> Believed:
    """What is to be believed, with numbers of labels. Of lifted arcs only the tree is known."""
    labels = inventory.encode(trust.labels)
    gone = (labels < 0) | ~is_plain
    heads = numpy.where(gone, MISSING, trust.heads).astype("int32")
    shares = numpy.where(heads < 0, 1, trust.shares).astype("float32")
    return Believed(trust.weights, shares, heads, labels)


build_loglinear = architecture(
    "loglinear",
    LogLinearParser,
    LogLinearRecipe,
    hidden=["n_blocks", "n_between", "prune_epochs", "prune_rate", "smallest"],
)
