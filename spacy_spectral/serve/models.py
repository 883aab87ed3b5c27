"""The pipelines that a server has: by name, in several threads, and without growing.

A vocabulary keeps every word that it has seen. What requests bring is forgotten again: requests that run at
the same time share one memory zone, which ends when none of them is left.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Condition

from spacy import util
from spacy.language import Language
from spacy.tokens import Doc

from ..base.errors import Errors, SpectralError
from ..pipeline.constituency import SpectralConstituency
from ..pipeline.parser import SpectralParser, store_with_alternatives
from ..pipeline.tagger import SpectralTagger

SENTER, TAGGER, PARSER = "senter", "tagger", "parser"
_MOST_IN_ZONE = 256
_TOP_TAGS = 5
_TAGS = {"token.tag", "token.pos", "token.morph", "token.lemma"}


class Model:
    """A pipeline with a name. All methods can be called by several threads."""

    def __init__(self, name: str, nlp: Language) -> None:
        self.name = name
        self.nlp = nlp
        self.parser = next((p for _, p in nlp.pipeline if isinstance(p, SpectralParser)), None)
        self.stages = {name: _stage(nlp, name) for name in nlp.pipe_names}
        self.tag_classes = {
            (tag or pos, pos)
            for _, pipe in nlp.pipeline
            if isinstance(pipe, SpectralTagger)
            for tag, pos in pipe.learnt.tag_classes
        }
        self._zone = ExitStack()
        self._changed = Condition()
        self._inside = self._seen = 0

    @classmethod
    def load(cls, told: str) -> "Model":
        """Load a pipeline so that it stores probabilities.

        told: A directory or an installed package, perhaps with a name in front: NAME=MODEL.
        """
        name, equals, path = told.partition("=")
        if not equals or "/" in name:
            name, path = "", told
        nlp = util.load_model(path)
        more = store_with_alternatives(nlp)
        for store in more.values():
            store += ["parse_logprob"] if "parse_logprob" not in store else []
        for own, pipe in nlp.pipeline:
            if isinstance(pipe, SpectralTagger):
                top = max(_TOP_TAGS, nlp.get_pipe_config(own)["top_k"])
                more[f"components.{own}.top_k"] = top
        nlp = util.load_model(path, config=more) if more else nlp
        return cls(name or f"{nlp.lang}_{nlp.meta.get('name') or 'pipeline'}", nlp)

    @property
    def abilities(self) -> list[str]:
        """What it can do, by the names of UDPipe."""
        found = set(self.stages.values())
        return ["tokenizer", *(name for name in (TAGGER, PARSER) if name in found)]

    @property
    def acknowledgements(self) -> list[str]:
        """What it was made of, and who made it."""
        meta = self.nlp.meta
        found = [meta.get(name) for name in ("url", "license")]
        for source in meta.get("sources") or ():
            found.append(", ".join(str(value) for value in source.values() if value))
        return [str(value) for value in found if value]

    def run(self, doc: Doc, stages: Sequence[str]) -> Doc:
        """Run the components of some stages."""
        for name, pipe in self.nlp.pipeline:
            if self.stages[name] in stages:
                doc = pipe(doc)
        return doc

    @contextmanager
    def working(self) -> Iterator[None]:
        """What is done inside is forgotten by the vocabulary; no Doc may leave it."""
        with self._changed:
            # under load requests always overlap: now and then those that come wait for an end
            self._changed.wait_for(lambda: self._seen < _MOST_IN_ZONE)
            if not self._inside:
                self._zone.enter_context(self.nlp.memory_zone())
            self._inside += 1
            self._seen += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if not self._inside:
                    self._zone.close()
                    self._seen = 0
                    self._changed.notify_all()


def _stage(nlp: Language, name: str) -> str:
    meta = nlp.get_pipe_meta(name)
    assigned = set(meta.assigns)
    if {"token.dep", "token.head"} & assigned:
        return PARSER
    if "token.is_sent_start" in assigned:
        return SENTER
    # an attribute ruler does not say what it assigns
    if assigned & _TAGS or meta.factory == "attribute_ruler":
        return TAGGER
    return PARSER if isinstance(nlp.get_pipe(name), SpectralConstituency) else name


class Models:
    """Several of them; the first is that of requests that name none."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.by_name: dict[str, Model] = {}
        for model in models:
            if model.name in self.by_name:
                raise SpectralError(Errors.S676.format(name=model.name))
            self.by_name[model.name] = model
        self.default = models[0]

    def find(self, name: str) -> Model:
        """A model by its name, or by how that begins: `en` for `en_ewt`."""
        if not name:
            return self.default
        if name in self.by_name:
            return self.by_name[name]
        for own, model in self.by_name.items():
            if own.startswith((f"{name}-", f"{name}_")):
                return model
        known = ", ".join(self.by_name)
        raise SpectralError(Errors.S677.format(name=name[:100], known=known))
