"""How a parser hands what it has found to a reranker behind it, and how the reranker finds the parser.

spaCy introduces components to all that stand behind them, in every pipeline
(`spacy.ty.ListenedToComponent`). So the parser learns what a reranker wants to know of its parses, and leaves
that on documents, as plain values and arrays in an entry (see `annotations`); the reranker takes it off.
Nothing is parsed twice, whatever the thread, the process or the size of batches, and a reranker that stands
in two pipelines goes on with the parser of each. An entry tells what the parser has read, too: if the
document was changed since, the reranker asks the parser again.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError, Warnings
from ..trees.interface import Parses
from ..trees.sentences import Batch
from .annotations import entries, store_entry
from .component import SpectralPipe
from .documents import TokenReader

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
        """Part of spaCy's protocol: what stands behind the parser."""
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
        """The parser to ask of documents; an error says so if there is none.

        RETURNS: That which was attached for their vocabulary; or the latest that introduced itself, if
            they have its vocabulary, or a parser of ours has parsed them. Parsers of spaCy's own do not
            introduce themselves: then it is the first that was attached, with a warning.
        """
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
    """What a parser has left on documents.

    batch: The documents, as the parser has read them.
    values: From `Wish.of`, by document; empty documents are left out.
    store: What the parser keeps on documents.
    """

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
    for key in [key for key, _ in entries(doc, _NAME)]:
        del doc.user_data[key]


def _entry(doc: Doc) -> dict[str, Any] | None:
    found = [entry for _, entry in entries(doc, _NAME)]
    return found[0] if len(found) == 1 else None


def _was_parsed(doc: Doc) -> bool:
    return any(True for name in (_NAME, "spectral_parser") for _ in entries(doc, name))
