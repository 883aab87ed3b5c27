"""`spacy spectral check`: validate treebanks and show what they hold."""

from pathlib import Path
from typing import Annotated

import typer

from ._app import spectral_cli


@spectral_cli.command("check", short_help="Validate treebanks.")
def check_cli(
    paths: Annotated[
        list[Path], typer.Argument(help="CoNLL-U, .spacy or bracketed files, or directories")
    ],
    max_problems: Annotated[
        int, typer.Option(help="How many problems of a file to print (0: all)")
    ] = 100,
) -> None:
    """Check treebanks: print every problem with file, line and remedy, then a summary.

    Files given together count as the splits of one treebank: tags and labels that occur in one of
    them only are reported. Exits with 1 if there is a problem.
    """
    from wasabi import msg

    from ..treebank.check import check_treebanks, only_in_one_split

    summaries = check_treebanks(paths)
    for summary in summaries:
        shown = summary.problems[: max_problems or None]
        for problem in shown:
            print(problem)
        if len(summary.problems) > len(shown):
            print(f"{summary.path}: {len(summary.problems) - len(shown)} more problems")
    valid = [summary for summary in summaries if not summary.problems]
    if valid:
        msg.table(
            [
                (
                    summary.path.name,
                    f"{summary.sentences:,}",
                    f"{summary.tokens:,}",
                    f"{summary.non_projective_percent:.2f} %" if summary.has_heads else "-",
                    len(summary.tags),
                    len(summary.labels),
                    summary.longest,
                    f"{summary.missing_heads:,}" if summary.has_heads else "-",
                )
                for summary in valid
            ],
            header=(
                *("File", "Sentences", "Tokens", "Non-projective", "Tags", "Labels"),
                *("Longest", "No head"),
            ),
            aligns=("l", *"rrrrrrr"),
            divider=True,
        )
    if len(valid) > 1:
        for kind in ("tags", "labels"):
            for path, counts in only_in_one_split(valid, kind).items():
                values = ", ".join(f"{value} ({n})" for value, n in counts.most_common())
                msg.warn(f"{kind.capitalize()} only in {path.name}: {values}")
    n_problems = sum(len(summary.problems) for summary in summaries)
    if n_problems:
        n_bad = len(summaries) - len(valid)
        problems = "problem" if n_problems == 1 else "problems"
        msg.fail(f"{n_problems} {problems} in {n_bad} of {len(summaries)} files", exits=1)
    msg.good(f"{len(valid)} valid {'file' if len(valid) == 1 else 'files'}")
