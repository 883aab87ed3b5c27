"""`spacy spectral calibrate`: how confident a parser should be, by a treebank that it was not trained on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import write_directory
from ._app import (
    GoldTags,
    Pipeline,
    load_pipeline,
    output_option,
    parser_of,
    reported,
    spectral_cli,
    write_json,
)

if TYPE_CHECKING:
    from ..pipeline.documents import TokenReader
    from ..trees.calibration import Judged
    from ..trees.interface import Parses, Temperature
    from ..trees.sentences import Batch, Treebank

_TEMPERATURES = ("temperature_heads", "temperature_labels", "share")
_PERCENT = ("uas", "las", "head_error", "head_chance", "arc_error", "arc_chance")
_HEADER = (
    *("T heads", "T labels", "Share"),
    *("UAS", "LAS", "Heads", "Chance", "Arcs", "Chance"),
)
_PARTS = ("first half", "second half", "both")


@spectral_cli.command("calibrate", short_help="Make a parser as confident as it should be.")
def calibrate_cli(
    model: Pipeline,
    data: Annotated[Path, typer.Argument(help="CoNLL-U, .spacy, or constituency trees")],
    output: Annotated[
        Path | None,
        output_option(
            "--output", "-o", help="Write the calibrated pipeline here", first="config.cfg"
        ),
    ] = None,
    gold_tags: GoldTags = False,
    component: Annotated[
        str, typer.Option(help="The parser's name, a reranker's or spectral_constituency")
    ] = "spectral_parser",
    json: Annotated[Path | None, output_option("--json", help="Write the figures here")] = None,
) -> None:
    """Fit the temperatures of a parser to one half of a treebank and measure its probabilities on the other,
    and the reverse. The treebank must not be the one that the parser was trained on.

    Printed are the calibration errors of heads and of labelled arcs, of each half and of both together,
    beside what true probabilities would have by chance: the fewer tokens, the more.

    Of spectral_constituency it is one factor of the temperature, and the calibration error of constituents;
    NeuralSpan.v2 needs this command.

    With --output the pipeline is written with temperatures from all of the treebank. `spacy train` does the
    same for parsers that are trained when the pipeline is initialized; Biaffine.v1 needs this command, and so
    do products with it, whose weights are learnt first, from all of the treebank.
    """
    from ..pipeline.constituency import SpectralConstituency
    from ..pipeline.reranker import SpectralReranker
    from ..readers import parsed_anew
    from ..treebank.documents import read_docs

    with reported():
        nlp = load_pipeline(model)
        parser: Any = nlp.get_pipe(component) if component in nlp.component_names else None
        if isinstance(parser, SpectralConstituency):
            _calibrate_constituents(nlp, parser, data, output, json)
            return
        if not isinstance(parser, SpectralReranker):
            parser = parser_of(nlp, component)
        references = list(read_docs(data, nlp.vocab))
        names = nlp.pipe_names
        after = names[names.index(component) :] if component in names else []
        docs, _ = parsed_anew(nlp, references, gold_tags=gold_tags, without=after)
        weights = _learnt_weights(parser, docs, references)
        rows = _halves(parser, docs, references)
    if weights is not None:
        shares = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        msg.info(f"Weights of experts: {shares}")
    _print(rows, _HEADER, _TEMPERATURES, _PERCENT)
    write_json(json, rows, "Figures")
    if output is not None:
        with reported():
            t = _Calibrated(parser, docs, references).keep()
            write_directory(output, nlp.to_disk)
        told = f"heads {t.heads:.2f}, labels {t.labels:.2f}"
        msg.good(f"Pipeline in {output}: temperatures of {told}, share {t.share:.2f}")


class _Calibrated:
    """A parser, or a second stage over forests, on documents that it was not trained on.

    at: Gives the parses at any temperature.
    """

    at: "Callable[[Temperature], Parses]"

    def __init__(self, component: Any, docs: Sequence[Doc], references: Sequence[Doc]) -> None:
        from ..pipeline.reranker import SpectralReranker

        self.component = component
        self.is_forest = isinstance(component, SpectralReranker)
        source = component.forest_source(docs) if self.is_forest else None
        parser = source.parser if source else component
        if not source and parser.grammar.temperature is None:
            raise SpectralError(Errors.S456.format(name=parser.name))
        batch, self.treebank = _gold(parser.read, docs, references)
        self.names = list(parser.grammar.label_names)
        if not source:
            self.at = parser.learner.parses_at(batch)
            return
        base, tokens, stage = parser.learner.parse(batch), batch.tokens, component.reranker
        if source.read is not parser.read:
            tokens = _gold(source.read, docs, references)[0].tokens
        self.at = lambda t: stage.with_temperature(t.heads).parse(tokens, base, self.names)

    def fit(self) -> "Temperature":
        """The temperature that fits best. How trees are chosen stays as it is."""
        from ..trees.calibration import fit_sharpness, fit_temperature
        from ..trees.interface import Temperature

        if self.is_forest:  # it has one temperature, and chooses trees at 1
            t = fit_sharpness(lambda t: self.at(Temperature(t, t, t)), self.treebank, self.names)
            return Temperature(t, t, t)
        now = self.component.grammar.temperature
        chosen_at = now.heads / now.choice
        return fit_temperature(self.at, self.treebank, self.names, chosen_at=chosen_at)

    def keep(self) -> "Temperature":
        """Give the component the temperature that fits best."""
        found = self.fit()
        if self.is_forest:
            self.component.learn(self.component.reranker.with_temperature(found.heads))
        else:
            self.component.learner.keep_temperature(found)
        return found


def _learnt_weights(
    component: Any, docs: Sequence[Doc], references: Sequence[Doc]
) -> dict[str, float] | None:
    """Let a product with an expert that is trained step by step learn how much each expert counts, from
    documents that none was trained on; None for other components, which learn that when they are trained."""
    from ..pipeline.parser import MixedLearner, SpectralParser

    if not (isinstance(component, SpectralParser) and isinstance(component.learner, MixedLearner)):
        return None
    batch, treebank = _gold(component.read, docs, references)
    return component.learner.learn_weights(batch, treebank)


def _gold(
    read: "TokenReader", docs: Sequence[Doc], references: Sequence[Doc]
) -> "tuple[Batch, Treebank]":
    """What a parser sees of documents, and their trees."""
    from ..pipeline.documents import training_batch

    examples = [Example(doc, gold) for doc, gold in zip(docs, references, strict=True)]
    batch, treebank = training_batch(examples, docs, read)
    if not (treebank.heads >= 0).any():
        raise SpectralError(Errors.S457)
    return batch, treebank


def _halves(
    component: Any, docs: Sequence[Doc], references: Sequence[Doc]
) -> list[dict[str, float]]:
    """Fit temperatures to each half of a treebank, and measure them on the other: on the sentences that they
    were fitted to, they would look too good. The halves take turns document by document, since parts of a
    treebank can be harder than others. The last row is of both."""
    from ..trees.calibration import Judged, judge

    if len(docs) < 2:
        raise SpectralError(Errors.S457)
    judged, rows = [], []
    for own in (0, 1):
        t = _Calibrated(component, docs[1 - own :: 2], references[1 - own :: 2]).fit()
        half = _Calibrated(component, docs[own::2], references[own::2])
        judged.append(judge(half.at(t), half.treebank, half.names))
        found = dict(zip(_TEMPERATURES, (t.heads, t.labels, t.share), strict=True))
        rows.append(_figures(judged[-1]) | found)
    return [*rows, _figures(Judged.of_all(judged))]


def _figures(judged: "Judged") -> dict[str, float]:
    from ..trees.calibration import Reliability

    heads = Reliability.of(judged.heads, judged.head_right)
    arcs = Reliability.of(judged.arcs, judged.arc_right)
    found = (judged.uas, judged.las, heads.error, heads.chance, arcs.error, arcs.chance)
    return dict(zip(_PERCENT, found, strict=True))


def _print(
    rows: Sequence[dict[str, Any]],
    header: Sequence[str],
    numbers: Sequence[str],
    shares: Sequence[str],
) -> None:
    """A line for each half, and one for both, which have no temperature of their own."""
    cells = [
        (
            name,
            *("" if row.get(key) is None else f"{row[key]:.2f}" for key in numbers),
            *(f"{100 * row[key]:.2f} %" for key in shares),
        )
        for name, row in zip(_PARTS, rows, strict=True)
    ]
    aligns = ("l", *"r" * len(header))
    msg.table(cells, header=("Measured on", *header), divider=True, aligns=aligns)


def _calibrate_constituents(
    nlp: Language, parser: Any, data: Path, output: Path | None, json: Path | None
) -> None:
    """The same of a parser for constituents."""
    from ..models.constituency.calibration import Claims, calibrated
    from ..readers import bracketed_docs
    from ..trees.calibration import Reliability

    references = bracketed_docs(data, nlp.vocab)
    if references is None:
        raise SpectralError(Errors.S703)
    if len(references) < 2:
        raise SpectralError(Errors.S457)
    model = parser.learnt
    factors: list[float | None] = []
    probs: list[Any] = []
    right: list[Any] = []
    for own in (0, 1):
        other = calibrated(model, *parser.gold(references[1 - own :: 2], nlp))
        claims = Claims(other, *parser.gold(references[own::2], nlp))
        factors.append(other.mixture.calibration)
        probs.append(claims.probs())
        right.append(claims.right)
    columns = (
        [*factors, None],
        [*probs, numpy.concatenate(probs)],
        [*right, numpy.concatenate(right)],
    )
    rows = []
    for name, factor, own_probs, own_right in zip(_PARTS, *columns, strict=True):
        found = Reliability.of(own_probs, own_right)
        rows.append(
            {
                "name": name, "factor": factor, "expected": found.mean_probability,
                "right": found.share_right, "error": found.error, "chance": found.chance,
            }
        )  # fmt: skip
    shares = ("expected", "right", "error", "chance")
    _print(rows, ("Factor", *map(str.capitalize, shares)), ("factor",), shares)
    write_json(json, rows, "Figures")
    if output is not None:
        parser.learn(calibrated(model, *parser.gold(references, nlp)))
        write_directory(output, nlp.to_disk)
        factor = parser.learnt.mixture.calibration
        msg.good(f"Pipeline in {output}: factor of the temperature {factor:.2f}")
