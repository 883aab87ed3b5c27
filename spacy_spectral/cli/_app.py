"""The command group that every command module adds itself to, and how commands fail."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from spacy.cli._util import app

spectral_cli = typer.Typer(
    name="spectral",
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
    except (ValueError, OSError, ImportError) as error:
        msg.fail(str(error), exits=1)
