"""What the trainable components of the package share."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from ..base.errors import Errors, SpectralError, Warnings
from ..base.files import loading
from ..base.learnt import Learnt
from ..base.progress import report
from .training_data import all_examples
from .words import with_words, word_examples, write_back


class SpectralPipe(TrainablePipe):
    """A component that is trained, as a whole, when the pipeline is initialized.

    Its Thinc model has the attribute "learnt" (see `base.learnt`), which is all that is saved. Settings are
    attributes of the component and stand in the config alone, so that what a user overrides when a
    pipeline is loaded counts.

    A subclass has `fit`, or an `initialize` of its own that ends in `learn`; and `predict` and
    `set_annotations`, which ask `learnt`. One that learns step by step has `step`, too.

    Tokens may be made of several words (see `words`). `predict` and `set_annotations` get documents of words,
    unless `is_about_words` is False.
    """

    is_about_words = True

    def __init__(
        self, vocab: Vocab, model: Model, name: str, *, scorer: Callable | None = None
    ) -> None:
        """vocab: The shared vocabulary; strings of a document are looked up in the document's."""
        super().__init__(vocab, model, name)
        # spaCy's commands write settings to it that they try; those that count are in the config
        self.cfg: dict[str, Any] = {}
        self.scorer = scorer
        # an update of what was trained before teaches nothing, which users have to be told once
        self._was_loaded = False

    @property
    def learnt(self) -> Any:
        """What was learnt; an error says so if nothing was."""
        if not self.is_learnt:
            raise SpectralError(Errors.S115.format(name=self.name))
        return self.model.attrs["learnt"].value

    @property
    def is_learnt(self) -> bool:
        """Whether the component was trained."""
        return self.model.attrs["learnt"].value is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the component can give."""
        return ()

    @property
    def label_data(self) -> list[str]:
        """The labels as `spacy init labels` stores them and `initialize` takes them."""
        return list(self.labels)

    @property
    def recipe(self) -> Any:
        """How the model is trained, as the config has it."""
        return self.model.attrs["recipe"]

    def __call__(self, doc: Doc) -> Doc:
        """Annotate a document: its words, if its tokens are made of several."""
        words = with_words(doc, mark=False) if self.is_about_words else doc
        if super().__call__(words) is not None and words is not doc:
            write_back(doc, words)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate documents, as `__call__` does it, in batches."""
        for docs in minibatch(stream, size=batch_size):
            all_words = docs
            if self.is_about_words:
                all_words = [with_words(doc, mark=False) for doc in docs]
            # a batch that fails, and whose error is handled, is left out
            if len(list(super().pipe(all_words, batch_size=batch_size))) == len(docs):
                for doc, words in zip(docs, all_words, strict=True):
                    if words is not doc:
                        write_back(doc, words)
                yield from docs

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Learn from all training examples; this is the whole training.

        get_examples: Gives the training examples.
        nlp: The pipeline.
        labels: From `spacy init labels`; the examples decide.
        """
        self.learn(self.fit(get_examples, nlp))

    def fit(self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None) -> Any:
        """What was learnt."""
        raise NotImplementedError

    def training_examples(
        self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None
    ) -> list[Example]:
        """All examples that `initialize` is to learn from.

        nlp: The pipeline, whose settings must not keep any back.
        """
        return all_examples(get_examples, nlp, name=self.name, kind=type(self).__name__)

    def learn(self, value: Any) -> None:
        self.model.attrs["learnt"] = Learnt(type(value), value)
        self._was_loaded = False

    def report(self, message: str) -> None:
        report(self.name, message)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch. There is nothing left to learn after `initialize`, but for models that are
        trained step by step.

        examples: The batch.
        drop: The dropout rate.
        sgd: The optimizer; without, gradients are kept for `finish_update`.
        losses: Losses by component.
        RETURNS: The losses.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        examples = word_examples(examples)
        loss = self.step(examples, drop=drop)
        if loss is not None:
            losses[self.name] += loss
            if sgd not in (None, False):
                self.finish_update(sgd)
        elif self._was_loaded:
            self._was_loaded = False
            warnings.warn(Warnings.W111.format(name=self.name), stacklevel=2)
        return losses

    def step(self, examples: Sequence[Example], *, drop: float) -> float | None:
        """Add the gradients of a batch to the model's.

        RETURNS: The loss; None if the component does not learn like this.
        """
        return None

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """What was learnt."""
        return super().to_bytes(exclude=(*exclude, "cfg"))

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save what was learnt to a directory."""
        super().to_disk(path, exclude=(*exclude, "cfg"))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SpectralPipe":
        """Load the component from bytes, or raise a ValueError that says what is wrong with them."""
        return loading(partial(self._load, super().from_bytes), self.name, bytes_data, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SpectralPipe":
        """Load the component from a directory, or raise an error that says what is wrong with it."""
        return loading(partial(self._load, super().from_disk), self.name, path, exclude)

    def _load(self, load: Callable, source: Any, *, exclude: Iterable[str]) -> "SpectralPipe":
        load(source, exclude=(*exclude, "cfg"))
        self.check_loaded()
        self._was_loaded = True
        return self

    def check_loaded(self) -> None:
        """Raise an error if what was loaded does not fit together. What is `Learnt` checks itself."""
