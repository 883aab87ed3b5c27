"""`spacy spectral annotate` and `serve`: annotation in the browser, and pipelines behind HTTP."""

from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated

import typer
from wasabi import msg

from ._app import load_pipeline, output_option, reported, spectral_cli

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for one that is free")]


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
    port: Port = 0,
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


@spectral_cli.command("serve", short_help="Pipelines behind HTTP, for other tools.")
def serve_cli(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="Pipelines: directories or packages, perhaps NAME=MODEL"
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; 0.0.0.0 for all")
    ] = "127.0.0.1",
    port: Port = 8080,
    threads: Annotated[
        int, typer.Option("--threads", min=1, help="How many requests are parsed at the same time")
    ] = 2,
    characters: Annotated[
        int, typer.Option("--characters", min=1, help="The longest text of a request")
    ] = 100_000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="The longest time of an answer")
    ] = 60.0,
    public: Annotated[
        bool, typer.Option("--public", help="Answer under any name, and to pages of other servers")
    ] = False,
) -> None:
    """Serve pipelines to programs and to visitors, until Ctrl-C or SIGTERM.

    It speaks the protocols of UDPipe's web service and of INCEpTION's external recommenders, and JSON; its
    address has a page that parses sentences. By default only this computer can ask it. With another --host
    it is --public, too.
    """
    with reported():
        from ..serve import require_extra

        require_extra()
        from ..serve.http import LOOPBACK, listen, run
        from ..serve.models import Model, Models
        from ..serve.service import Bounds, service_app

        opened = listen(host, port)
        found = Models([Model.load(own) for own in models])
        shown = f"[{host}]" if ":" in host else host
        app = service_app(
            found,
            threads=threads,
            public=public or shown not in LOOPBACK,
            bounds=Bounds(characters, seconds),
        )
        print(
            f"Serving {', '.join(found.by_name)} at http://{shown}:{opened.getsockname()[1]}/",
            flush=True,
        )
        print("Ctrl-C ends it.", flush=True)
        run(app, opened)
