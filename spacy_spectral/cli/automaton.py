"""`spacy spectral automaton`: draw the head automaton of a tag."""

from pathlib import Path
from typing import Annotated

import typer

from ._app import output_option, reported, spectral_cli, write_output

_WRITERS = {".svg": "to_svg", ".dot": "to_dot"}


@spectral_cli.command("automaton", short_help="Draw what an automaton has learnt.")
def automaton_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    head: Annotated[str, typer.Option("--head", help="Symbol of the head, e.g. NN")],
    direction: Annotated[
        str, typer.Option("--direction", help="Side of its modifiers: left or right")
    ],
    output: Annotated[Path, output_option("--output", "-o", help="The .svg or .dot file to write")],
    component: Annotated[
        str, typer.Option("--component", help="The parser's name in the pipeline")
    ] = "spectral_parser",
    states: Annotated[int, typer.Option("--states", min=1, help="Most states to draw")] = 6,
    threshold: Annotated[
        float,
        typer.Option("--threshold", min=0.0, max=1.0, help="Leave out less probable transitions"),
    ] = 0.05,
) -> None:
    """Draw which modifiers a head takes, nearest first, as a small deterministic automaton.

    Its states are clusters of histories after which the parser expects much the same. A state shows
    its number and its share of all visits.
    """
    from wasabi import msg

    from ..base.serialize import require_writable
    from ..viz.automaton import head_automaton
    from ._app import grammar_of, load_pipeline

    if output.suffix not in _WRITERS:
        known = " or ".join(_WRITERS)
        msg.fail(
            f"Can't tell the format from '{output.name}': its name must end in {known}", exits=1
        )
    with reported():
        require_writable(output)
        nlp = load_pipeline(model)
        graph = head_automaton(
            grammar_of(nlp, component), head, direction, states=states, threshold=threshold
        )
    write_output(output, getattr(graph, _WRITERS[output.suffix])())
    msg.good(f"Automaton of {head}, {direction}, with {len(graph.states)} states in {output}")
