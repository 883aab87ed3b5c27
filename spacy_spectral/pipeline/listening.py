"""A parser, and a component that goes on with its parses: how they find each other, and what is handed over.

A component may be sourced into another pipeline, and stand in both from then on. It is not told, but spaCy
introduces components that others listen to (`spacy.ty.ListenedToComponent`) to all that come after them, in
whatever pipeline that is. So the parser learns of its listeners, and they of it.
"""

import warnings
from collections.abc import Iterable
from threading import local
from typing import Any
from weakref import ref

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from ..base.errors import Errors, Warnings
from ..trees.interface import Parses
from ..trees.sentences import Batch
from .component import SpectralPipe
from .documents import TokenReader


class _Latest(local):
    """The latest batch of this thread."""

    batch: tuple[Batch, Parses] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # charts do not travel to other processes
        return _Latest, ()


class ListenedTo(SpectralPipe):
    """A parser whose parses others go on with. Charts need not be computed twice: in `nlp` and `nlp.pipe`
    every component gets the batch that the one before it has just done, unless their batch sizes differ.

    read (TokenReader): What the parser reads documents with.
    """

    read: TokenReader
    # no layers of models listen, so that there is nothing to be replaced or frozen
    listeners: tuple[Model, ...] = ()
    listening_components: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.listener_map: dict[str, Any] = {}  # emptied by spaCy, before `find_listeners`
        self._latest = _Latest()

    def add_listener(self, listener: Model, component_name: str) -> None:
        """Part of spaCy's protocol."""

    def remove_listener(self, listener: Model, component_name: str) -> bool:
        """Part of spaCy's protocol."""
        return False

    def find_listeners(self, component: Any) -> None:
        """component (Any): A component that stands after the parser."""
        if isinstance(component, Listener) and component.base == self.name:
            component.listen_to(self)
            self.listener_map[component.name] = ()

    def keep_parses(self, batch: Batch, parses: Parses) -> None:
        """Keep the parses of a batch if somebody listens, and forget others.

        batch (Batch): The documents.
        parses (Parses): Their parses.
        """
        self._latest.batch = (batch, parses) if self.listener_map else None

    def has_just_parsed(self, docs: list[Doc]) -> bool:
        """RETURNS (bool): Whether these very documents are the latest that this thread had parsed."""
        known = [] if self._latest.batch is None else self._latest.batch[0].docs
        return len(known) == len(docs) and all(a is b for a, b in zip(known, docs, strict=True))

    def take_parses(self, docs: list[Doc]) -> tuple[Batch, Parses] | None:
        """RETURNS (Optional[Tuple[Batch, Parses]]): The parses of documents that were just parsed, unless
        something that they hang on was changed since. They are not kept any longer."""
        found = self._latest.batch if self.has_just_parsed(docs) else None
        self._latest.batch = None
        return found if found is not None and self.read.is_current(found[0]) else None


class Listener(SpectralPipe):
    """A component that goes on with what a parser before it has done.

    base (str): The parser's name in the pipeline.
    """

    def __init__(self, nlp: Language, model: Model, name: str, *, base: str, **settings: Any):
        """nlp (Language): The pipeline that the component is made for; it is not kept alive.
        model (Model), name (str), settings (Any): See `SpectralPipe`.
        base (str): The parser's name in the pipeline.
        """
        super().__init__(nlp.vocab, model, name, **settings)
        self.base = base
        self._home = _Home(nlp, base)
        self._attached: list[_Home] = []  # others that were told of, the latest last
        self._heard: list[_Reference] = []  # parsers, the latest last

    def listen_to(self, parser: ListenedTo) -> None:
        """parser (ListenedTo): The parser of a pipeline that this component stands in."""
        known = [heard for heard in self._heard if heard() is not None and heard() is not parser]
        self._heard = [*known, _Reference(parser)]

    def attach(self, nlp: Language) -> None:
        """Use the parser of a pipeline that this component was sourced into. Parsers of ours introduce
        themselves; spaCy's own do not.

        nlp (Language): The pipeline.
        """
        if self.base not in nlp.component_names:
            raise ValueError(Errors.S532.format(name=self.name, base=self.base))
        self._attached = [*self._attached, _Home(nlp, self.base)]

    @property
    def pipeline(self) -> Language | None:
        """The pipeline that the component was made for, if it is still there."""
        return self._home()

    def find_parser(self, docs: Iterable[Doc], nlp: Language | None = None) -> Any:
        """The parser of the pipeline that documents go through; an error says so if there is none.

        docs (Iterable[Doc]): The documents.
        nlp (Optional[Language]): The pipeline, if it is known.
        RETURNS (Any): The parser that has just parsed them; failing that, that of the pipeline the component
            was made for if they have its vocabulary, or of the one it was put into last. (A parser of
            spaCy's own introduces itself to nobody: then it is that of the first pipeline, with a warning,
            until `attach` is told about another.)
        """
        found = self._find(list(docs)) if nlp is None else _Home(nlp, self.base).find([])
        if found is None:
            raise ValueError(Errors.S532.format(name=self.name, base=self.base))
        return found

    @property
    def labels(self) -> tuple[str, ...]:
        """The relation labels that the parser can give."""
        return tuple(getattr(self._find([]), "labels", ()))

    def _find(self, docs: list[Doc]) -> Any:
        heard = [parser for reference in self._heard if (parser := reference()) is not None]
        for parser in heard:
            if docs and parser.has_just_parsed(docs):
                return parser
        homes = [*reversed(self._attached), self._home]
        found = next((own for home in homes if (own := home.find(docs)) is not None), None)
        found = found or (heard[-1] if heard else None)
        if found is None:
            found = self._home.find([])
            if docs and found is not None and not isinstance(found, ListenedTo):
                warnings.warn(Warnings.W501.format(name=self.name, base=self.base), stacklevel=2)
        return found


class _Reference:
    """An object that is not kept alive, but in another process, where it may have no other owner."""

    def __init__(self, target: Any):
        self._find = ref(target)

    def __call__(self) -> Any:
        return self._find()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, (self(),)


class _Home(_Reference):
    """The pipeline that a component was made for; in another process, the parser of it."""

    def __init__(self, nlp: Language, base: str):
        super().__init__(nlp)
        self._base = base

    def find(self, docs: list[Doc]) -> Any:
        """RETURNS (Any): The parser; None if there is none, or documents are of another vocabulary."""
        nlp = self()
        if nlp is None or self._base not in nlp.component_names:
            return None
        return nlp.get_pipe(self._base) if all(doc.vocab is nlp.vocab for doc in docs) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, (self.find([]),)


class _Kept(_Reference):
    def __init__(self, target: Any):
        self._target = target

    def __call__(self) -> Any:
        return self._target

    def find(self, docs: list[Doc]) -> Any:
        return self._target
