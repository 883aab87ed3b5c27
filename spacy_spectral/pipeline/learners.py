"""How the model of a parser is trained and asked: one protocol, so that the component need not know.

Models with a recipe are trained as a whole when the pipeline is initialized (here), others step by step
(`stepwise`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy
from numpy.typing import NDArray
from spacy.training import Example
from thinc.api import Model

from ..base.errors import Errors
from ..base.learnt import Learnt
from ..trees.calibration import calibrated, judge
from ..trees.interface import NEUTRAL, ParserModel, Parses, Temperature
from ..trees.pseudoprojective import plain
from ..trees.sentences import Batch
from .documents import TokenReader
from .examples import all_examples
from .stepwise import StepwiseLearner
from .training_data import ParserData, warn_of_missing


class Learner(Protocol):
    """Trains a parser's model, and parses with it.

    needs_tags (bool): Whether documents must have the attributes that are a token's symbol.
    is_learnt (bool): Whether there is something to parse with.
    grammar (Any): What was learnt, as the architecture has it; it has `label_names`.
    label_data (List[str]): The labels as `spacy init labels` stores them.
    decoders (Sequence[str]): How trees can be chosen: what `decode` can be.
    """

    needs_tags: bool

    @property
    def decoders(self) -> Sequence[str]: ...

    @property
    def is_learnt(self) -> bool: ...

    @property
    def grammar(self) -> Any: ...

    @property
    def label_data(self) -> list[str]: ...

    def check(self, **settings: Any) -> None:
        """Raise an error if there are settings that are not for such models.

        settings (Any): Settings by name.
        """
        ...

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], data: ParserData, *, decode: str
    ) -> None:
        """Train the model, or make it ready for training.

        get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
        data (ParserData): Makes of them what there is to learn from.
        decode (str): How the component will decode.
        """
        ...

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float | None:
        """Add the gradients of a batch to the model's.

        examples (Sequence[Example]): The batch.
        read (TokenReader): What to read of documents.
        drop (float): The dropout rate.
        RETURNS (Optional[float]): The loss, summed over all tokens; None if nothing is learnt like this.
        """
        ...

    def check_loaded(self, read: TokenReader) -> None:
        """Raise an error if what was loaded does not fit together.

        read (TokenReader): What to read of documents.
        """
        ...

    def with_temperature(self, temperature: Temperature) -> "Learner":
        """RETURNS (Learner): One that parses surer or less sure; for models with a temperature."""
        ...

    def keep_temperature(self, temperature: Temperature) -> None:
        """Make the model itself surer or less sure."""
        ...

    def parses_at(self, batch: Batch, *, decode: str) -> Callable[[Temperature], Parses]:
        """RETURNS (Callable[[Temperature], Parses]): Parses the batch as sure as one likes."""
        ...

    def parse(self, batch: Batch, *, fixed: NDArray[numpy.int32] | None, decode: str) -> Parses:
        """Parse documents; see `trees.interface.ParserModel`, whose `parse` knows no documents.

        batch (Batch): The documents.
        fixed (Optional[ndarray]): A head for each token that must have it, MISSING for others.
        decode (str): "mbr" or "viterbi".
        RETURNS (Parses): The parses.
        """
        ...


def learner_of(model: Model, *, name: str) -> Learner:
    """What trains a model, and parses with it.

    model (Model): The model of a parser.
    name (str): The component's name, for messages.
    RETURNS (Learner): The learner.
    """
    if "recipe" in model.attrs:
        return WholeLearner(model, name=name)
    return StepwiseLearner(model, name=name)


class WholeLearner:
    """Of models with `attrs["recipe"]`, a `trees.interface.Recipe`, and `attrs["learnt"]`; see `Learner`."""

    needs_tags = True

    def __init__(self, model: Model, *, name: str, other: ParserModel | None = None):
        """model (Model): The model.
        name (str): The component's name, for messages.
        other (Optional[ParserModel]): What parses instead of what was learnt.
        """
        self.model = model
        self.name = name
        self._other = other

    @property
    def is_learnt(self) -> bool:
        return self.model.attrs["learnt"].value is not None

    @property
    def grammar(self) -> Any:
        return self._other or self.model.attrs["learnt"].value

    @property
    def label_data(self) -> list[str]:
        # the treebank decides: this is for those who want to know
        return sorted(set(map(plain, self.grammar.label_names))) if self.is_learnt else []

    @property
    def decoders(self) -> Sequence[str]:
        return self.grammar.decoders if self.is_learnt else self.model.attrs["recipe"].decoders

    def check(self, **settings: Any) -> None:
        pass

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], data: ParserData, *, decode: str
    ) -> None:
        examples = all_examples(get_examples, data.nlp, name=self.name, kind="SpectralParser")
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise ValueError(Errors.S117.format(name=self.name))
        treebank = data.treebank(examples)
        warn_of_missing(treebank, self.name)
        dev = data.dev()
        learnt = self.model.attrs["recipe"].fit(
            treebank, dev=dev, clusters=data.clusters, vectors=data.vectors, report=data.report
        )
        if dev is not None:
            if learnt.temperature == NEUTRAL:
                learnt = calibrated(learnt, dev)
            if learnt.temperature is not None:
                t = learnt.temperature
                judged = judge(learnt.parse(dev.tokens, decode=decode), dev, learnt.label_names)
                data.report(
                    f"temperature of heads {t.heads:.2f}, of labels {t.labels:.2f}, "
                    f"share {t.share:.2f}: "
                    f"dev UAS {judged.uas:.2%}, LAS {judged.las:.2%}"
                )
        self.model.attrs["learnt"] = Learnt(type(learnt), learnt)

    def with_temperature(self, temperature: Temperature) -> "WholeLearner":
        other = self.grammar.with_temperature(temperature)
        return WholeLearner(self.model, name=self.name, other=other)

    def keep_temperature(self, temperature: Temperature) -> None:
        learnt = self.grammar.with_temperature(temperature)
        self.model.attrs["learnt"] = Learnt(type(learnt), learnt)

    def parses_at(self, batch: Batch, *, decode: str) -> Callable[[Temperature], Parses]:
        return self.grammar.parses_at(batch.tokens, decode=decode)

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> None:
        return None

    def check_loaded(self, read: TokenReader) -> None:
        """What is `Learnt` checks itself."""

    def parse(self, batch: Batch, *, fixed: NDArray[numpy.int32] | None, decode: str) -> Parses:
        return self.grammar.parse(batch.tokens, fixed=fixed, decode=decode)
