"""What the trainable components of the package share; how a parser hands its parses to a reranker behind it,
and how the reranker finds the parser.

spaCy introduces components to all that stand behind them, in every pipeline
(`spacy.ty.ListenedToComponent`). So the parser learns what a reranker wants to know of its parses, and leaves
that on documents, as plain values and arrays in an entry (see `annotations`); the reranker takes it off.
Nothing is parsed twice, whatever the thread, the process or the size of batches, and a reranker that stands
in two pipelines goes on with the parser of each. An entry tells what the parser has read, too: if the
document was changed since, the reranker asks the parser again.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy
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
from ..trees.interface import Parses
from ..trees.sentences import Batch
from .annotations import entries, store_entry
from .documents import TokenReader
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
    def learns_in_steps(self) -> bool:
        """Whether the component is trained step by step, not as a whole."""
        return False

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
        """Learn from all training examples, whatever the labels; this is the whole training."""
        self.learn(self.fit(get_examples, nlp))

    def fit(self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None) -> Any:
        """What was learnt."""
        raise NotImplementedError

    def training_examples(
        self, get_examples: Callable[[], Iterable[Example]], nlp: Language | None
    ) -> list[Example]:
        """All examples that `initialize` is to learn from; settings of the pipeline must not keep any
        back."""
        return all_examples(get_examples, nlp, name=self.name, kind=type(self).__name__)

    def storable(self, store: Sequence[str], choices: Sequence[str]) -> list[str]:
        """The setting `store`: what is kept on documents beside the annotation."""
        unknown = [item for item in store if item not in choices]
        if unknown:
            message = Errors.S113.format(name=self.name, value=unknown, choices=", ".join(choices))
            raise SpectralError(message)
        return list(store)

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
        trained step by step. Without an optimizer, gradients are kept for `finish_update`."""
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
        """Add the gradients of a batch to the model's: the loss, None if the component does not learn
        like this."""
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


_NAME = "spectral_parser.found"


class Wish(ABC):
    """What a reranker wants to know of parses."""

    @abstractmethod
    def of(self, batch: Batch, parses: Parses, names: list[str]) -> list[dict[str, Any]]:
        """For every document plain values and arrays."""


class FirstStage(SpectralPipe):
    """A parser that hands its parses over. `read` is what it reads documents with."""

    read: TokenReader
    store: list[str]
    # no layers of models listen, so that there is nothing to be replaced or frozen
    listeners: tuple[Model, ...] = ()
    listening_components: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.listener_map: dict[str, Wish] = {}  # emptied by spaCy, before `find_listeners`

    def add_listener(self, listener: Model, component_name: str) -> None:
        """Part of spaCy's protocol."""

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        """Part of spaCy's protocol."""
        return False

    def find_listeners(self, component: Any) -> None:
        """Let a component that stands behind the parser tell its wishes."""
        if isinstance(component, SecondStage) and component.base == self.name:
            component.listen_to(self)
            self.listener_map[component.name] = component.wish

    def found(self, batch: Batch, parses: Parses, names: list[str]) -> list[dict[str, Any] | None]:
        """What is left on each document: None if nobody listens."""
        if not self.listener_map:
            return [None] * len(batch.docs)
        common = {"attributes": self.read.attributes, "names": names, "store": self.store}
        wishes = {name: wish.of(batch, parses, names) for name, wish in self.listener_map.items()}
        return [
            common
            | {"seen": batch.values[begin:end].copy()}
            | {"wishes": {name: own[i] for name, own in wishes.items()}}
            for i, (begin, end) in enumerate(pairwise(batch.offsets.tolist()))
        ]


class SecondStage(SpectralPipe):
    """A component that goes on with the parses of a parser before it, whose name is `base`."""

    wish: Wish

    def __init__(self, nlp: Language, model: Model, name: str, *, base: str, **settings: Any):
        super().__init__(nlp.vocab, model, name, **settings)
        self.base = base
        self._parser: FirstStage | None = None  # the latest that was introduced
        self._attached: list[tuple[Vocab, Any]] = []
        if base in nlp.component_names:
            parser = nlp.get_pipe(base)
            if isinstance(parser, FirstStage):
                self.listen_to(parser)
            else:
                self.attach(nlp)

    def listen_to(self, parser: FirstStage) -> None:
        """Use a parser that stands before this component for documents on which it has left nothing."""
        self._parser = parser

    def attach(self, nlp: Language) -> None:
        """Use the parser of a pipeline for its documents, those of its vocabulary. Parsers of ours introduce
        themselves and leave what they find on documents, so this is for spaCy's own, and for documents that
        do not come from the parser."""
        if self.base not in nlp.component_names:
            raise SpectralError(Errors.S532.format(name=self.name, base=self.base))
        self._attached = [*self._attached, (nlp.vocab, nlp.get_pipe(self.base))]

    def find_parser(self, docs: Iterable[Doc]) -> Any:
        """The parser to ask of documents; an error says so if there is none: that which was attached for
        their vocabulary; or the latest that introduced itself, if they have its vocabulary, or a parser
        of ours has parsed them. Parsers of spaCy's own do not introduce themselves: then it is the first
        that was attached, with a warning."""
        docs = list(docs)
        for vocab, parser in reversed(self._attached):
            if all(doc.vocab is vocab for doc in docs):
                return parser
        parser = self._parser
        if parser is not None and all(
            doc.vocab is parser.vocab or not len(doc) or _was_parsed(doc) for doc in docs
        ):
            return parser
        if not self._attached:
            raise SpectralError(Errors.S532.format(name=self.name, base=self.base))
        warnings.warn(Warnings.W501.format(name=self.name, base=self.base), stacklevel=2)
        return self._attached[0][1]

    def found(self, docs: Sequence[Doc]) -> "Found | None":
        """What the parser has left on documents; None if some have nothing, or were changed since."""
        found = [_entry(doc) for doc in docs if len(doc)]
        known = [own for own in found if own is not None and self.name in own["wishes"]]
        first = known[0] if known else {}
        common = ("attributes", "names", "store")
        if len(known) < max(len(found), 1) or any(
            own[key] != first[key] for own in known for key in common
        ):
            return None
        batch = TokenReader(first["attributes"], name=self.name, required=False)(docs)
        if not numpy.array_equal(numpy.concatenate([own["seen"] for own in known]), batch.values):
            return None
        own = [entry["wishes"][self.name] for entry in known]
        return Found(batch, own, list(first["names"]), list(first["store"]))

    @property
    def labels(self) -> tuple[str, ...]:
        """The relation labels that the parser can give."""
        known = [parser for _, parser in self._attached]
        parser = self._parser or (known[0] if known else None)
        return tuple(parser.labels) if parser is not None else ()


class Found(NamedTuple):
    """What a parser has left on documents, as it has read them: from `Wish.of`, by document without
    empty ones; its labels, and what it keeps on documents."""

    batch: Batch
    values: list[dict[str, Any]]
    names: list[str]
    store: list[str]


def leave(doc: Doc, found: dict[str, Any] | None) -> None:
    """Leave what a reranker wants on a document, in place of what is there; nothing if it is None."""
    take_off(doc)
    if found is not None and len(doc):
        store_entry(doc, _NAME, found)


def take_off(doc: Doc) -> None:
    """Take what a parser has left from a document."""
    for key, _ in entries(doc, _NAME):
        del doc.user_data[key]


def _entry(doc: Doc) -> dict[str, Any] | None:
    found = [entry for _, entry in entries(doc, _NAME)]
    return found[0] if len(found) == 1 else None


def _was_parsed(doc: Doc) -> bool:
    return any(entries(doc, name) for name in (_NAME, "spectral_parser"))
