"""The registered architecture `spacy-spectral.LogLinear.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...base.errors import Errors, SpectralError
from ...base.learnt import architecture
from ...trees.interface import Resources
from ...trees.sentences import Treebank
from .estimate import Settings
from .parser import LogLinearParser

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass
class LogLinearRecipe(Settings):
    """The settings of a log-linear parser, which gives conditional probabilities of labelled trees: those of
    `Settings`, and

    max_length (int): Longer sentences are parsed in pieces.
    """

    max_length: int = 250
    decoders: ClassVar[Sequence[str]] = LogLinearParser.decoders

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_length < 2:
            value = self.max_length
            raise SpectralError(
                Errors.S408.format(setting="max_length", low=2, high="any", value=value)
            )

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> LogLinearParser:
        """RETURNS (LogLinearParser): A parser; see `trees.interface.Recipe`."""
        return LogLinearParser.fit(
            treebank,
            self,
            max_length=self.max_length,
            dev=given.get("dev"),
            clusters=given.get("clusters"),
            report=given.get("report", print),
        )


build_loglinear = architecture(
    "loglinear",
    LogLinearParser,
    LogLinearRecipe,
    hidden=["n_blocks", "n_between", "prune_epochs", "prune_rate", "smallest"],
)
