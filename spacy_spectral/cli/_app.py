"""The command group that every command module adds itself to."""

import typer
from spacy.cli._util import app

spectral_cli = typer.Typer(
    name="spectral",
    help="Spectral learning for spaCy: treebanks, parsers, automata.",
    no_args_is_help=True,
)
app.add_typer(spectral_cli)
