"""`spacy spectral sample`: write the sample treebank."""

from pathlib import Path
from typing import Annotated

import typer

from ._app import output_option, reported, spectral_cli


@spectral_cli.command("sample", short_help="Write the sample treebank.")
def sample_cli(
    output: Annotated[Path, output_option("--output", "-o", help="The directory to write to")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same treebank")] = 0,
    train: Annotated[int, typer.Option(min=1, help="Sentences to train on")] = 4000,
    dev: Annotated[int, typer.Option(min=1, help="Sentences to develop on")] = 500,
    test: Annotated[int, typer.Option(min=1, help="Sentences to test on")] = 500,
) -> None:
    """Draw a treebank from this project's own grammar of English.

    Writes sample-train, sample-dev and sample-test as CoNLL-U (.conllu) and as bracketed trees
    (.ptb). The distribution is known, so the best possible accuracy can be computed.
    """
    from wasabi import msg

    from ..base.files import require_writable
    from ..treebank.sample.draw import write_sample

    with reported():
        require_writable(output / "sample-train.conllu")
        files = write_sample(output, seed=seed, train=train, dev=dev, test=test)
    for file in files:
        msg.good(f"{file}")
