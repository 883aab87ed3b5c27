"""`spacy spectral serve`: pipelines behind HTTP, for other tools and for visitors."""

from typing import Annotated

import typer

from ._app import reported, spectral_cli


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
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="0 for one that is free")
    ] = 8080,
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
