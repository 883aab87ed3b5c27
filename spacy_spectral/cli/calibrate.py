"""`spacy spectral calibrate`: how sure a parser should be, by a treebank that it was not trained on."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import output_option, reported, spectral_cli, write_json

_HEADER = (
    "Measured on",
    "T heads",
    "T labels",
    "Share",
    "UAS",
    "LAS",
    "Heads",
    "Chance",
    "Arcs",
    "Chance",
)
_OF_CONSTITUENTS = ("Measured on", "Factor", "Expected", "Right", "Error", "Chance")
_TEMPERATURES = ("temperature_heads", "temperature_labels", "share")
_PERCENT = ("uas", "las", "head_error", "head_chance", "arc_error", "arc_chance")


@spectral_cli.command("calibrate", short_help="Make a parser as confident as it should be.")
def calibrate_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    data: Annotated[Path, typer.Argument(help="CoNLL-U, .spacy, or constituency trees")],
    output: Annotated[
        Path | None,
        output_option(
            "--output", "-o", help="Write the calibrated pipeline here", first="config.cfg"
        ),
    ] = None,
    gold_tags: Annotated[
        bool, typer.Option("--gold-tags", help="Parse on the treebank's tags, don't run taggers")
    ] = False,
    component: Annotated[
        str, typer.Option(help="The parser's name, a reranker's or spectral_constituency")
    ] = "spectral_parser",
    json: Annotated[Path | None, output_option("--json", help="Write the figures here")] = None,
) -> None:
    """Fit the temperatures of a parser to one half of a treebank and measure its probabilities on the other,
    and the reverse. The treebank must not be the one that the parser was trained on.

    Printed are the calibration errors of heads and of labelled arcs, of each half and of both together,
    beside what true probabilities would have by chance: the fewer tokens, the more.

    Of spectral_constituency it is one factor of the temperature, and the calibration error of constituents.

    With --output the pipeline is written with temperatures from all of the treebank. `spacy train` does the
    same for parsers that are trained when the pipeline is initialized; Biaffine.v1 needs this command, and so
    do products with it, whose weights are learnt first, from all of the treebank.
    """
    from wasabi import msg

    from ..base.files import write_directory
    from ..pipeline.calibration import (
        fitted_temperature,
        halves,
        keep_temperature,
        learnt_weights,
    )
    from ..pipeline.constituency import SpectralConstituency
    from ..pipeline.reranker import SpectralReranker
    from ..readers import superseded, without_parses
    from ..treebank.documents import read_docs
    from ..trees.calibration import Judged
    from ._app import load_pipeline, parser_of

    with reported():
        nlp = load_pipeline(model)
        parser: Any = nlp.get_pipe(component) if component in nlp.component_names else None
        if isinstance(parser, SpectralConstituency):
            _of_constituents(nlp, parser, data, output, json)
            return
        if not isinstance(parser, SpectralReranker):
            parser = parser_of(nlp, component)
        references = list(read_docs(data, nlp.vocab))
        docs = without_parses(references, gold_tags=gold_tags)
        names = nlp.pipe_names
        after = names[names.index(component) :] if component in names else []
        with nlp.select_pipes(disable=[*superseded(nlp, gold_tags=gold_tags), *after]):
            docs = list(nlp.pipe(docs))
        weights = learnt_weights(parser, docs, references)
        found = halves(parser, docs, references)
    if weights is not None:
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        msg.info(f"Weights of experts: {shares}")
    rows = [_figures(half.judged) | _temperatures(half.temperature) for half in found]
    both = _figures(Judged.of_all([half.judged for half in found]))
    msg.table(
        [
            (
                name,
                *(f"{row[key]:.2f}" if key in row else "" for key in _TEMPERATURES),
                *(f"{100 * row[key]:.2f} %" for key in _PERCENT),
            )
            for name, row in zip(("first half", "second half", "both"), [*rows, both], strict=True)
        ],
        header=_HEADER,
        divider=True,
        aligns=("l", *"rrrrrrrrr"),
    )
    write_json(json, [*rows, both], "Figures")
    if output is not None:
        with reported():
            temperature = fitted_temperature(parser, docs, references)
            keep_temperature(parser, temperature)
            write_directory(output, nlp.to_disk)
        t = f"heads {temperature.heads:.2f}, labels {temperature.labels:.2f}"
        msg.good(f"Pipeline in {output}: temperatures of {t}, share {temperature.share:.2f}")


def _of_constituents(nlp: Any, parser: Any, data: Path, output: Path | None, json: Any) -> None:
    """The same of a parser for constituents."""
    import numpy
    from wasabi import msg

    from ..base.errors import Errors, SpectralError
    from ..base.files import write_directory
    from ..models.constituency.calibration import Claims, calibrated
    from ..readers import bracketed_docs
    from ..trees.calibration import Reliability

    references = bracketed_docs(data, nlp.vocab)
    if references is None:
        raise SpectralError(Errors.S703)
    if len(references) < 2:
        raise SpectralError(Errors.S457)
    model = parser.learnt
    probs: list[Any] = []
    right: list[Any] = []
    rows: list[dict[str, Any]] = []

    def figures(name: str, factor: float | None) -> dict[str, Any]:
        found = Reliability.of(probs[-1], right[-1])
        return {
            "name": name, "factor": factor, "expected": found.mean_probability,
            "right": found.share_right, "error": found.error, "chance": found.chance,
        }  # fmt: skip

    for own, name in ((0, "first half"), (1, "second half")):
        other = calibrated(model, *parser.gold(references[1 - own :: 2], nlp))
        claims = Claims(other, *parser.gold(references[own::2], nlp))
        probs.append(claims.probs())
        right.append(claims.right)
        rows.append(figures(name, other.mixture.calibration))
    probs.append(numpy.concatenate(probs))
    right.append(numpy.concatenate(right))
    rows.append(figures("both", None))
    msg.table(
        [
            (
                row["name"],
                "" if row["factor"] is None else f"{row['factor']:.2f}",
                *(f"{100 * row[key]:.2f} %" for key in ("expected", "right", "error", "chance")),
            )
            for row in rows
        ],
        header=_OF_CONSTITUENTS,
        divider=True,
        aligns=("l", *"rrrrr"),
    )
    write_json(json, rows, "Figures")
    if output is not None:
        parser.learn(calibrated(model, *parser.gold(references, nlp)))
        write_directory(output, nlp.to_disk)
        factor = parser.learnt.mixture.calibration
        msg.good(f"Pipeline in {output}: factor of the temperature {factor:.2f}")


def _temperatures(temperature: Any) -> dict[str, float]:
    numbers = temperature.heads, temperature.labels, temperature.share
    return dict(zip(_TEMPERATURES, numbers, strict=True))


def _figures(judged: Any) -> dict[str, float]:
    from ..trees.calibration import Reliability

    heads = Reliability.of(judged.heads, judged.head_right)
    arcs = Reliability.of(judged.arcs, judged.arc_right)
    return {
        "uas": judged.uas,
        "las": judged.las,
        "head_error": heads.error,
        "head_chance": heads.chance,
        "arc_error": arcs.error,
        "arc_chance": arcs.chance,
    }
