"""`spacy spectral annotate`: annotate sentences in the browser."""

from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated

import typer
from wasabi import msg

from ._app import load_pipeline, output_option, reported, spectral_cli


@spectral_cli.command("annotate", short_help="Annotate sentences in the browser.")
def annotate_cli(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Text or CoNLL-U")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A pipeline: directory or installed package")
    ] = None,
    output: Annotated[
        Path | None,
        output_option(
            "--output", "-o", help="CoNLL-U file to write; by default NAME.annotated.conllu"
        ),
    ] = None,
    lang: Annotated[
        str, typer.Option("--lang", help="The language, if there is no pipeline")
    ] = "en",
    train: Annotated[
        Path | None,
        typer.Option("--train", help="CoNLL-U to learn from beside what is accepted"),
    ] = None,
    every: Annotated[
        int, typer.Option("--every", min=0, help="Learn after so many accepted sentences; 0: never")
    ] = 20,
    first: Annotated[
        int, typer.Option("--first", min=1, help="Without a model, learn first after so many")
    ] = 5,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 for one that is free")
    ] = 0,
    open_: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser")
    ] = True,
) -> None:
    """Annotate sentences in the browser, with a parser that learns from what is accepted.

    Every fix is kept, and the rest of the sentence is parsed anew around it. What is accepted is on disk
    at once; the same command goes on where it was stopped.

    Without --model it starts from nothing. A model learns if --train has what it was trained on.
    """
    with reported():
        from ..serve import require_extra

        require_extra()
        from ..serve.annotate import annotation_app, open_work
        from ..serve.http import listen, run

        if model is not None:
            load_pipeline(model)
        opened = listen("127.0.0.1", port)
        work = open_work(
            source, output, model=model, lang=lang, train=train, every=every, first=first
        )
        token = token_urlsafe(16)
        address = f"http://127.0.0.1:{opened.getsockname()[1]}/{token}/"
        msg.info(f"Writing to {work.journal.output}")
        if model is not None and train is None and every:
            msg.info("The model does not learn: name what it was trained on (--train).")
        print(f"Annotate at {address}", flush=True)
        print("Ctrl-C ends it; the same command goes on.", flush=True)
        if open_:
            typer.launch(address)
        try:
            run(annotation_app(work, token), opened)
        finally:
            work.close()
