"""The command group that every command module adds itself to, and how commands fail."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from spacy.cli._util import app
from typer.core import TyperGroup

from ..base.errors import is_own


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


@contextmanager
def reported() -> Iterator[None]:
    """What is wrong with files, settings and data ends a command with a message and exit code 1."""
    from wasabi import msg

    try:
        yield
    except (OSError, ImportError) as error:
        msg.fail(str(error), exits=1)
    except ValueError as error:
        # spaCy's own have codes, too; what is none of ours or theirs is a fault of the program
        if not is_own(error) and not re.search(r"\[E\d{3,}\]", str(error)):
            raise
        msg.fail(str(error), exits=1)


def write_output(path: Path, data: bytes | str) -> None:
    """Write a file, or say why that does not work and end the command."""
    from ..base.files import write_atomically

    with reported():
        write_atomically(path, data)


def output_option(*names: str, help: str) -> Any:
    """An option for a file or directory to write to."""
    return typer.Option(*names, help=help, metavar="PATH", parser=_read_output)


def _read_output(name: str) -> Path:
    from ..base.files import output_path

    with reported():
        path = output_path(name)
    return path
