"""The command group that every command module adds itself to, how commands fail, and what several of them
do with a pipeline: load it, run it on a treebank, get at its grammar."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import srsly
import typer
from spacy import util
from spacy.cli._util import app
from spacy.language import Language
from spacy.tokens import Doc
from typer.core import TyperGroup
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import output_path, require_writable, write_atomically

if TYPE_CHECKING:
    from ..models.shag.grammar import Grammar


class _Sorted(TyperGroup):
    """A group whose commands are listed by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx))


spectral_cli = typer.Typer(
    name="spectral",
    cls=_Sorted,
    help="Spectral learning for spaCy: treebanks, parsers, automata.",
    no_args_is_help=True,
)
app.add_typer(spectral_cli)


# What several commands are given.
Pipeline = Annotated[str, typer.Argument(help="A pipeline: directory or installed package")]
GoldTags = Annotated[
    bool, typer.Option("--gold-tags", help="Parse on the treebank's tags, don't run taggers")
]


@contextmanager
def reported() -> Iterator[None]:
    """What is wrong with files, settings and data ends a command with a message and exit code 1."""
    try:
        yield
    except (OSError, ImportError) as error:
        msg.fail(str(error), exits=1)
    except ValueError as error:
        # spaCy's own have codes, too; what is none of ours or theirs is a fault of the program
        if not isinstance(error, SpectralError) and not re.search(r"\[E\d{3,}\]", str(error)):
            raise
        msg.fail(str(error), exits=1)


def write_output(path: Path, data: bytes | str) -> None:
    """Write a file, or say why that does not work and end the command."""
    with reported():
        write_atomically(path, data)


def write_json(path: Path | None, value: Any, what: str) -> None:
    """Write what a command has found, if there is a file to write it to, and say so."""
    if path is not None:
        write_output(path, srsly.json_dumps(value, indent=2) + "\n")
        msg.good(f"{what} in {path}")


def percent(share: float | None) -> str:
    """A share as tables have it."""
    return "-" if share is None else f"{100 * share:.2f} %"


def output_option(*names: str, help: str, first: str | None = "") -> Any:
    """An option for a file to write to, or for a directory, by the first file in it. Whether it can be
    written is found out before the command begins, unless `first` is None."""

    def read(name: str) -> Path:

        with reported():
            path = output_path(name)
            if first is not None:
                require_writable(path / first if first else path)
        return path

    return typer.Option(*names, help=help, metavar="PATH", parser=read)


def load_pipeline(model: str, load: Callable[[str], Language] | None = None) -> Language:
    """Load a pipeline, by spaCy or by another function, or say why that fails and end the command."""
    try:
        return (load or util.load_model)(model)
    except (OSError, ValueError) as error:
        msg.fail(f"Can't load the pipeline '{model}'", str(error), exits=1)


def load_vectors(model: str) -> Language:
    """Load a pipeline that has word vectors."""
    nlp = load_pipeline(model)
    if not nlp.vocab.vectors.size:
        raise SpectralError(Errors.S222)
    return nlp


def parser_of(nlp: Language, component: str) -> Any:
    """A pipeline's spectral parser."""
    from ..pipeline.parser import SpectralParser

    pipe = nlp.get_pipe(component) if component in nlp.component_names else None
    if not isinstance(pipe, SpectralParser):
        known = ", ".join(nlp.component_names) or "none"
        raise SpectralError(Errors.S154.format(name=component, known=known))
    return pipe


def grammar_of(nlp: Language, component: str) -> "Grammar":
    """The grammar of a pipeline's parser."""
    from ..models.shag.grammar import Grammar

    grammar = parser_of(nlp, component).grammar
    if not isinstance(grammar, Grammar):
        raise SpectralError(Errors.S156.format(name=component))
    return grammar


def parse_text(nlp: Language, text: str) -> Doc:
    """Run a pipeline over a text.

    A text whose words all carry tags ("The_DT dog_NN barks_VBZ") is parsed on them; where it is known what
    tags there are, one of them must be among these ("snake_case" is a word). Where the pipeline sets no
    sentence boundaries before parsing, the text is one sentence.
    """
    from ..readers import superseded

    if not text.strip():
        raise SpectralError(Errors.S158)
    pieces = [piece.rpartition("_") for piece in text.split()]
    known = known_tags(nlp)
    tagged = all(word and tag for word, _, tag in pieces)
    if tagged and (not known or any(tag in known for _, _, tag in pieces)):
        doc = Doc(
            nlp.vocab,
            words=[word for word, _, _ in pieces],
            tags=[tag for _, _, tag in pieces],
            sent_starts=[1] + [-1] * (len(pieces) - 1),
        )
        disabled = superseded(nlp, gold_tags=True)
    else:
        doc = nlp.make_doc(text)
        disabled = []
        if not superseded(nlp, gold_tags=False):
            for token in doc:
                token.is_sent_start = token.i == 0
    with nlp.select_pipes(disable=disabled):
        return nlp(doc)


def known_tags(nlp: Language) -> set[str]:
    """The tags that taggers and grammars of a pipeline have learnt."""
    from ..models.shag.grammar import Grammar
    from ..pipeline.parser import SpectralParser

    known: set[str] = set()
    for name, pipe in nlp.components:
        if "token.tag" in nlp.get_pipe_meta(name).assigns:
            known.update(getattr(pipe, "labels", ()))
        is_parser = isinstance(pipe, SpectralParser) and pipe.is_learnt
        if is_parser and isinstance(pipe.grammar, Grammar):
            known.update(pipe.grammar.symbols.names)
    return known
