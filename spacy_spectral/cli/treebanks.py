"""`spacy spectral check`: validate treebanks and show what they hold; `spacy spectral sample`: write one."""

from pathlib import Path
from typing import Annotated

import typer
from wasabi import msg

from ._app import output_option, reported, spectral_cli


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


@spectral_cli.command("sample", short_help="Write the sample treebank.")
def sample_cli(
    output: Annotated[
        Path,
        output_option(
            "--output", "-o", help="The directory to write to", first="sample-train.conllu"
        ),
    ],
    seed: Annotated[int, typer.Option(help="The same seed gives the same treebank")] = 0,
    train: Annotated[int, typer.Option(min=1, help="Sentences to train on")] = 4000,
    dev: Annotated[int, typer.Option(min=1, help="Sentences to develop on")] = 500,
    test: Annotated[int, typer.Option(min=1, help="Sentences to test on")] = 500,
) -> None:
    """Draw a treebank from this project's own grammar of English.

    Writes sample-train, sample-dev and sample-test as CoNLL-U (.conllu) and as bracketed trees
    (.ptb). The distribution is known, so the best possible accuracy can be computed.
    """
    from ..treebank.sample.draw import write_sample

    with reported():
        files = write_sample(output, seed=seed, train=train, dev=dev, test=test)
    for file in files:
        msg.good(f"{file}")
