"""`spacy spectral evaluate`: UD-style scores of a pipeline on a treebank; with `--raw` the measures of the
CoNLL 2018 shared task, from raw text. `spacy spectral report`: what it gets right and wrong, as one page."""

from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from spacy.training import Example
from spacy.vocab import Vocab
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import require_writable
from ..raw import MEASURES, evaluate_raw
from ._app import (
    GoldTags,
    Pipeline,
    load_pipeline,
    output_option,
    percent,
    reported,
    spectral_cli,
    write_output,
)

_CURVES = {"heads": "Heads", "arcs": "Labelled arcs", "constituents": "Constituents"}


@spectral_cli.command("evaluate", short_help="Score a pipeline.")
def evaluate_cli(
    model: Pipeline,
    data: Annotated[
        Path, typer.Argument(help="CoNLL-U, .spacy or constituency trees, or a directory")
    ],
    gold_tags: GoldTags = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Start from raw text: the measures of CoNLL 2018")
    ] = False,
    sample_ceiling: Annotated[
        bool,
        typer.Option(
            "--sample-ceiling", help="For the sample treebank: also score its true grammar"
        ),
    ] = False,
    plot: Annotated[
        Path | None, output_option("--plot", help="Draw the reliability diagram (SVG) here")
    ] = None,
    json: Annotated[Path | None, output_option("--json", help="Write the scores here")] = None,
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for CPU")] = -1,
) -> None:
    """Evaluate a pipeline on a treebank: all tokens count, and once more without punctuation.

    Constituency trees (.ptb, .mrg, .brackets, .export, .gold_conll, or a .spacy file by convert-brackets) are
    scored as evalb does it: labelled F1, exact match, tags. With --raw words are put together to texts, and
    constituents are compared by the characters that they cover.

    With --raw the pipeline gets the text of the treebank's documents and nothing else; tokens, sentences,
    tags, lemmas and trees are scored by udtools as in the CoNLL 2018 shared task.

    Where the parser leaves probabilities on documents, these are compared with what is right.

    The pipeline gets the treebank's words and sentence boundaries. Components that would set
    boundaries of their own (senter, sentencizer) are not run.
    """
    from spacy.cli._util import setup_gpu

    from ..readers import bracketed_docs
    from .brackets import evaluate_brackets

    with reported():
        try:
            setup_gpu(gpu_id)
        except ValueError as error:
            raise SpectralError(Errors.S050.format(gpu=gpu_id, reason=error)) from error
        for output in (json, plot):
            if output is not None:
                require_writable(output)
        nlp = load_pipeline(model)
        brackets = bracketed_docs(data, nlp.vocab, raw=raw)
        if brackets is not None:
            scores, curves = evaluate_brackets(nlp, brackets, model, raw=raw)
            _require_curves(plot, curves, model)
            print_curves(curves)
            scores |= {name: _summary(curve) for name, curve in curves.items()}
            _write(scores, curves, title=f"{model} on {data.name}", json=json, plot=plot)
            return
        if raw:
            scores = evaluate_raw(nlp, data)
            print_raw(scores)
            _write(scores, {}, title="", json=json, plot=None)
            return
        scores, curves = evaluate(nlp, data, gold_tags=gold_tags)
        _require_curves(plot, curves, model)
        if sample_ceiling:
            scores["ceiling_uas"] = ceiling(data)
    msg.table(
        [
            ("", "UAS", "LAS", "LAS, universal labels"),
            *(
                (
                    title,
                    *(percent(scores[f"{key}{of}"]) for key in ("uas", "las", "las_universal")),
                )
                for title, of in (("All tokens", ""), ("Without punctuation", "_no_punct"))
            ),
        ],
        aligns=("l", "r", "r", "r"),
    )
    print_curves(curves)
    if sample_ceiling:
        print(f"Best possible UAS on these tags (true grammar): {percent(scores['ceiling_uas'])}")
    broken, in_gold = scores["broken_rules"], scores["broken_rules_gold"]["sentences"]
    if broken["sentences"]:
        rules = ", ".join(f"{rule} {n}" for rule, n in broken.items() if rule != "sentences")
        print(f"Rules of UD are broken in {broken['sentences']:,} sentences", end="")
        print(f" ({in_gold:,} of the treebank's own): {rules}")
    speed = f"{scores['words_per_second']:,.0f} words per CPU second"
    lemmas = f" · lemmas {percent(scores['lemma_acc'])}" if scores["lemma_acc"] else ""
    print(f"Tags {percent(scores['tag_acc'])}{lemmas} · {scores['tokens']:,} tokens", end="")
    print(f" in {scores['sentences']:,} sentences · {speed}")
    _write(scores, curves, title=f"{model} on {data.name}", json=json, plot=plot)


def _require_curves(plot: Path | None, curves: dict[str, Any], model: str) -> None:

    if plot is not None and not curves:
        raise SpectralError(Errors.S450.format(model=model))


def print_curves(curves: dict[str, Any]) -> None:
    """Print how far probabilities can be trusted, by what they are of."""
    from ..trees.calibration import THRESHOLDS

    if not curves:
        return
    msg.table(
        [("", "Expected", "Right", "Calibration error", "Brier", "Log-likelihood")]
        + [
            (
                _CURVES[name],
                percent(curve.mean_probability),
                percent(curve.share_right),
                percent(curve.error),
                f"{curve.brier:.4f}",
                f"{curve.log_likelihood:.4f}",
            )
            for name, curve in curves.items()
        ],
        aligns=("l", *"rrrrr"),
    )
    msg.table(
        [("Probability at least", *(f"{t:g}" for t in THRESHOLDS))]
        + [
            (f"{_CURVES[name]}, {what}", *(percent(getattr(row, key)) for row in curve.above))
            for name, curve in curves.items()
            for what, key in (("share", "share"), ("of them right", "right"))
        ],
        aligns=("l", *"r" * len(THRESHOLDS)),
    )


def _write(
    scores: dict[str, Any],
    curves: dict[str, Any],
    *,
    title: str,
    json: Path | None,
    plot: Path | None,
) -> None:
    """Write the files that were asked for."""
    from ..viz.plots import render_reliability

    if plot is not None:
        named = {_CURVES[name]: curve for name, curve in curves.items()}
        write_output(plot, render_reliability(named, title=title))
        msg.good(f"Reliability diagram in {plot}")
    if json is not None:
        write_output(json, srsly.json_dumps(scores, indent=2) + "\n")
        msg.good(f"Scores in {json}")


def evaluate(
    nlp: Any, data: Path, *, gold_tags: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score a pipeline on a treebank.

    gold_tags: Give the pipeline the treebank's tags, parts of speech and morphology, and don't run the
        components that would assign them.
    RETURNS: The scores of `scorers.score_ud`, `words_per_second` (of CPU time) and by "heads" and "arcs"
        how far probabilities can be trusted; and what `scorers.score_calibration` says of these.
    """
    from ..readers import parsed_anew
    from ..scorers import score_calibration, score_ud, score_validity
    from ..treebank.documents import read_docs

    references = list(read_docs(data, nlp.vocab))
    parsed, seconds = parsed_anew(nlp, references, gold_tags=gold_tags)
    if not any(doc.has_annotation("DEP") for doc in parsed):
        known = ", ".join(nlp.pipe_names) or "none"
        name = nlp.meta.get("name") or "pipeline"
        raise SpectralError(Errors.S157.format(model=f"{nlp.lang}_{name}", known=known))
    examples = [Example(doc, gold) for doc, gold in zip(parsed, references, strict=True)]
    curves = score_calibration(examples)
    n_words = sum(len(doc) for doc in parsed)
    scores = score_ud(examples) | {"words_per_second": n_words / seconds if seconds else 0.0}
    scores |= {"broken_rules": score_validity(parsed)}
    scores |= {"broken_rules_gold": score_validity(references)}
    return scores | {name: _summary(curve) for name, curve in curves.items()}, curves


def _summary(curve: Any) -> dict[str, Any]:
    return {
        "expected": curve.mean_probability,
        "right": curve.share_right,
        "calibration_error": curve.error,
        "brier": curve.brier,
        "log_likelihood": curve.log_likelihood,
        "above": [row._asdict() for row in curve.above],
    }


def ceiling(data: Path) -> float:
    """UAS of the grammar that the sample treebank was drawn from, on gold tags: nothing can beat it."""
    from ..models.shag.grammar import Grammar
    from ..treebank.documents import read_docs
    from ..treebank.sample.grammar import true_model

    grammar = Grammar.from_automata(*true_model())
    right = total = 0
    for doc in read_docs(data, Vocab()):
        for sentence in doc.sents:
            tags = [token.tag_ for token in sentence]
            strange = [tag for tag in tags if tag not in grammar.symbols]
            if strange:
                raise SpectralError(Errors.S155.format(path=data, tag=strange[0]))
            heads = grammar.posterior(
                grammar.symbols.encode(tags), [t.text for t in sentence]
            ).heads
            gold = [0 if t.head == t else t.head.i - sentence.start + 1 for t in sentence]
            right += sum(int(head) == wanted for head, wanted in zip(heads, gold, strict=True))
            total += len(gold)
    return right / total


def print_raw(scores: dict[str, Any]) -> None:
    """Print what `evaluate_raw` gave."""
    rows = [(name, f"{100 * scores[name.lower()]:.2f} %") for name in MEASURES]
    msg.table(rows, header=("From raw text", "F1"), divider=True, aligns=("l", "r"))
    print(f"{scores['words_per_second']:,.0f} words per CPU second")


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
