"""How the model of a parser is trained and asked, so that the component need not know which kind it is.

Models with a recipe are trained as a whole when the pipeline is initialized, others step by step, by
gradients, in spaCy's training loop. What is asked of the Thinc model of the latter:

    refs["encoder"]      Model[Batch, Ragged]: vectors of the sentences' tokens, each with its root in front
    refs["arcs"]         Model[Ragged, List[ndarray]]: the scores of all arcs of every sentence
    refs["labels"]       Model[Arcs, Floats2d]: the scores of all labels of given arcs
    attrs["inventory"]   Learnt[Inventory]: the labels
    attrs["max_length"]  longer sentences are parsed in pieces, and their arcs are not trained on
    attrs["temperature"] how confident it is, see `trees.interface.Temperature`: numbers in its order

What is learnt and computed is that of `models.biaffine.network`, which is imported when it is needed.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model, set_dropout_rate

from ..base.errors import Errors, SpectralError, Warnings
from ..base.learnt import Learnt
from ..trees._eisner import is_projective_tree
from ..trees.calibration import calibrated, judge
from ..trees.interface import NEUTRAL, ParserModel, Parses, Temperature
from ..trees.posterior import possible
from ..trees.pseudoprojective import MIN_DECORATED, Inventory, plain, projective_trees
from ..trees.sentences import Batch, Treebank
from .documents import TokenReader, training_batch
from .training_data import ParserData, all_examples, warn_of_missing

if TYPE_CHECKING:
    from ..models.biaffine.network import Network

_N_SAMPLE = 10


class Learner:
    """Trains a parser's model, and parses with it.

    needs_tags: Whether documents must have the attributes that are a token's symbol.
    is_learnt: Whether there is something to parse with.
    grammar: What was learnt, as the architecture has it; it has `label_names`.
    label_data: The labels as `spacy init labels` stores them.
    decoders: How trees can be chosen: what `decode` can be.
    """

    needs_tags: bool

    def __init__(self, model: Model, *, name: str):
        self.model = model
        self.name = name

    @property
    def is_learnt(self) -> bool:
        raise NotImplementedError

    @property
    def grammar(self) -> Any:
        raise NotImplementedError

    @property
    def label_data(self) -> list[str]:
        raise NotImplementedError

    @property
    def decoders(self) -> Sequence[str]:
        raise NotImplementedError

    def check(self, **settings: Any) -> None:
        """Raise an error if there are settings that are not for such models."""

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], data: ParserData, *, decode: str
    ) -> None:
        """Train the model, or make it ready for training."""
        raise NotImplementedError

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float | None:
        """Add the gradients of a batch to the model's.

        RETURNS: The loss, summed over all tokens; None if nothing is learnt like this.
        """
        return None

    def check_loaded(self, read: TokenReader) -> None:
        """Raise an error if what was loaded does not fit together. What is `Learnt` checks itself."""

    def with_temperature(self, temperature: Temperature) -> "Learner":
        """One that is more or less confident, with the same model; for models with a temperature."""
        raise NotImplementedError

    def keep_temperature(self, temperature: Temperature) -> None:
        """Make the model itself more or less confident."""
        raise NotImplementedError

    def parses_at(self, batch: Batch, *, decode: str) -> Callable[[Temperature], Parses]:
        """A function that parses the batch at any temperature."""
        raise NotImplementedError

    def parse(
        self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        """Parse documents; see `trees.interface.ParserModel`, whose `parse` knows no documents.

        fixed: A head for each token that must have it, MISSING for others.
        """
        raise NotImplementedError


def learner_of(model: Model, *, name: str) -> Learner:
    """What trains a model, and parses with it."""
    if "recipe" in model.attrs:
        return WholeLearner(model, name=name)
    return StepwiseLearner(model, name=name)


class WholeLearner(Learner):
    """Of models with `attrs["recipe"]`, a `trees.interface.Recipe`, and `attrs["learnt"]`; see `Learner`."""

    needs_tags = True

    def __init__(self, model: Model, *, name: str, other: ParserModel | None = None):
        super().__init__(model, name=name)
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

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], data: ParserData, *, decode: str
    ) -> None:
        examples = all_examples(get_examples, data.nlp, name=self.name, kind="SpectralParser")
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise SpectralError(Errors.S117.format(name=self.name))
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

    def parse(
        self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        return self.grammar.parse(batch.tokens, fixed=fixed, decode=decode)


class StepwiseLearner(Learner):
    """Of models that are trained step by step."""

    needs_tags = False

    def __init__(self, model: Model, *, name: str, temperature: Temperature | None = None):
        super().__init__(model, name=name)
        self._temperature = temperature

    @property
    def is_learnt(self) -> bool:
        return self.model.attrs["inventory"].value is not None

    @property
    def decoders(self) -> Sequence[str]:
        return ("mbr", "viterbi")

    @property
    def grammar(self) -> "StepwiseLearner":
        return self

    @property
    def label_data(self) -> list[str]:
        # decorated ones, too: with them `initialize` need not look at the examples
        return list(self.label_names)

    @property
    def inventory(self) -> Inventory:
        inventory = self.model.attrs["inventory"].value
        if inventory is None:
            raise SpectralError(Errors.S115.format(name=self.name))
        return inventory

    @property
    def label_names(self) -> list[str]:
        return self.inventory.names

    def check(self, **settings: Any) -> None:
        for setting, value in settings.items():
            if value:
                raise SpectralError(Errors.S444.format(name=self.name, setting=setting))

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], data: ParserData, *, decode: str
    ) -> None:
        """Collect labels and make the model ready for training."""
        nlp, read, labels = data.nlp, data.read, data.labels
        self._require_upstream(nlp)
        validate_get_examples(get_examples, "SpectralParser.initialize")
        examples = get_examples()
        if labels is not None:
            examples = list(islice(examples, _N_SAMPLE))
            inventory = Inventory(sorted({*labels, *map(plain, labels)}))
        else:
            if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
                raise SpectralError(Errors.S442.format(name=self.name))
            examples = list(examples)
            _, treebank = training_batch(examples, (eg.predicted for eg in examples), read)
            heads, names = projective_trees(treebank)
            inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
            self._warn(treebank, heads)
        words = (eg for eg in examples if eg.predicted.text.strip())
        sample = list(islice(words, _N_SAMPLE))
        if not sample or not len(inventory):
            raise SpectralError(Errors.S117.format(name=self.name))
        self.model.attrs["inventory"] = Learnt(Inventory, inventory)
        batch, _ = training_batch(sample, [eg.predicted for eg in sample], read)
        self.model.initialize(X=batch)

    def _require_upstream(self, nlp: Language | None) -> None:
        """Listeners must have somebody to listen to."""
        if nlp is None:
            return
        heard = [
            listener for _, pipe in nlp.components for listener in getattr(pipe, "listeners", [])
        ]
        for node in self.model.walk():
            upstream = getattr(node, "upstream_name", None)
            if upstream is not None and not any(node is listener for listener in heard):
                raise SpectralError(Errors.S443.format(name=self.name, upstream=upstream))

    def _warn(self, treebank: Treebank, heads: NDArray[numpy.int32]) -> None:
        warn_of_missing(treebank, self.name)
        bounds = treebank.tokens.bounds()
        unused = sum(
            b - a > self.model.attrs["max_length"]
            or not (is_projective_tree(heads[a:b]) or possible(heads[a:b]))
            for a, b in bounds
        )
        if unused:
            message = Warnings.W440.format(name=self.name, unused=unused, sentences=len(bounds))
            logger.warning(message)

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float:
        inventory = self.inventory
        batch, treebank = training_batch(examples, [eg.predicted for eg in examples], read)
        if not len(treebank.heads):
            return 0.0
        heads, names = projective_trees(treebank)
        set_dropout_rate(self.model, drop)
        return self._network().step(batch, batch.tokens.starts, heads, inventory.encode(names))

    def check_loaded(self, read: TokenReader) -> None:
        """The layers of this package are checked one by one, those of others by parsing a sentence."""
        from ..models.biaffine.network import check_model

        check_model(self.model, self.inventory)
        if any(isinstance(node, Tok2VecListener) for node in self.model.walk()):
            return
        doc = Doc(Vocab(), words=list("abc"), sent_starts=[True, False, False])
        if not numpy.isfinite(self.parse(read([doc]), fixed=None, decode="mbr").log_probs()).all():
            raise SpectralError(Errors.S002.format(what=self.name, reason="it can't parse"))

    @property
    def temperature(self) -> Temperature:
        return Temperature(*self.model.attrs["temperature"])

    def with_temperature(self, temperature: Temperature) -> "StepwiseLearner":
        """One that parses surer or less sure, with the same layers."""
        return StepwiseLearner(self.model, name=self.name, temperature=temperature)

    def keep_temperature(self, temperature: Temperature) -> None:
        self.model.attrs["temperature"] = list(temperature)

    def parses_at(self, batch: Batch, *, decode: str) -> Callable[[Temperature], Parses]:
        return lambda t: self.with_temperature(t).parse(batch, decode=decode)

    def _network(self) -> "Network":
        from ..models.biaffine.network import Network

        return Network(
            self.model.get_ref("encoder"),
            self.model.get_ref("arcs"),
            self.model.get_ref("labels"),
            self.inventory,
            self.model.attrs["max_length"],
            self._temperature or self.temperature,
        )

    def parse(
        self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        self._require_vectors(batch)
        return self._network().parse(batch, batch.tokens.starts, fixed=fixed, decode=decode)

    def _require_vectors(self, batch: Batch) -> None:
        """spaCy's listeners give zeros where no tok2vec has been: a parse of nothing."""
        for node in self.model.walk():
            if isinstance(node, Tok2VecListener) and any(
                len(doc) and not doc.tensor.size for doc in batch.docs
            ):
                raise SpectralError(Errors.S443.format(name=self.name, upstream=node.upstream_name))
