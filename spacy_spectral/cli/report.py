"""`spacy spectral report`: what a pipeline gets right and wrong on a treebank, as one page."""

from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from ..base.files import require_writable
from ._app import Pipeline, load_pipeline, output_option, reported, spectral_cli, write_output


@spectral_cli.command("report", short_help="Show what is right and wrong, as a page.")
def report_cli(
    model: Pipeline,
    data: Annotated[Path, typer.Argument(help="CoNLL-U, .spacy or bracketed file, or a directory")],
    output: Annotated[Path, output_option("--output", "-o", help="The HTML file to write")],
    against: Annotated[
        str | None, typer.Option("--against", help="Another pipeline to compare with")
    ] = None,
    no_raw: Annotated[
        bool, typer.Option("--no-raw", help="Leave out the scores from raw text")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="For the comparison of two pipelines")] = 0,
) -> None:
    """Write a page on what a pipeline gets right and wrong on a treebank, and how far it can be believed.

    Scores from raw text and on the treebank's own words; by label, length, distance, genre and confidence;
    confusions; a reliability diagram; sentences with their errors; annotation that the model doubts most.
    With --against two pipelines are compared by a paired bootstrap.

    The page needs no other file, and looks for nothing on the network.
    """
    from ..measure import load_for_report
    from ..report import make_report

    with reported():
        require_writable(output)
        names = [model] if against is None else [model, against]
        models = [(load_pipeline(name, load=load_for_report), _short(name)) for name in names]
        write_output(output, make_report(models, data, raw=not no_raw, seed=seed))
    msg.good(f"Report in {output}")


def _short(name: str) -> str:
    """What a pipeline is called: of a directory the last two names."""
    return "/".join(Path(name).resolve().parts[-2:]) if Path(name).exists() else name
