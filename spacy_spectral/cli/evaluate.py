"""`spacy spectral evaluate`: UD-style scores of a pipeline on a treebank."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._app import reported, spectral_cli


@spectral_cli.command("evaluate")
def evaluate_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    data: Annotated[Path, typer.Argument(help="CoNLL-U or .spacy file, or a directory of them")],
    gold_tags: Annotated[
        bool, typer.Option("--gold-tags", help="Parse on the treebank's tags, don't run taggers")
    ] = False,
    sample_ceiling: Annotated[
        bool,
        typer.Option(
            "--sample-ceiling", help="For the sample treebank: also score its true grammar"
        ),
    ] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Write the scores here")] = None,
    gpu_id: Annotated[int, typer.Option("--gpu-id", "-g", help="GPU to use, -1 for CPU")] = -1,
) -> None:
    """Evaluate a pipeline on a treebank: all tokens count, and once more without punctuation.

    The pipeline gets the treebank's words and sentence boundaries. Components that would set
    boundaries of their own (senter, sentencizer) are not run.
    """
    import srsly
    from spacy.cli._util import setup_gpu
    from wasabi import msg

    from ..base.serialize import require_writable, write_atomically
    from ._pipelines import load_pipeline

    setup_gpu(gpu_id)
    with reported():
        if json is not None:
            require_writable(json)
        nlp = load_pipeline(model)
        scores = evaluate(nlp, data, gold_tags=gold_tags)
        if sample_ceiling:
            scores["ceiling_uas"] = ceiling(data)
    msg.table(
        [
            ("", "UAS", "LAS"),
            ("All tokens", _percent(scores["uas"]), _percent(scores["las"])),
            (
                "Without punctuation",
                _percent(scores["uas_no_punct"]),
                _percent(scores["las_no_punct"]),
            ),
        ],
        aligns=("l", "r", "r"),
    )
    if sample_ceiling:
        print(f"Best possible UAS on these tags (true grammar): {_percent(scores['ceiling_uas'])}")
    speed = f"{scores['words_per_second']:,.0f} words/s"
    print(f"Tags {_percent(scores['tag_acc'])} · {scores['tokens']:,} tokens", end="")
    print(f" in {scores['sentences']:,} sentences · {speed}")
    if json is not None:
        write_atomically(json, srsly.json_dumps(scores, indent=2) + "\n")
        msg.good(f"Scores in {json}")


def evaluate(nlp: Any, data: Path, *, gold_tags: bool = False) -> dict[str, Any]:
    """Score a pipeline on a treebank.

    nlp (Language): The pipeline.
    data (Path): CoNLL-U or .spacy file, or a directory of such files.
    gold_tags (bool): Give the pipeline the treebank's tags, parts of speech and morphology, and
        don't run the components that would assign them.
    RETURNS (Dict[str, Any]): The scores of `scorers.score_ud` and `words_per_second`.
    """
    from time import perf_counter

    from spacy.training import Example

    from ..base.errors import Errors
    from ..scorers import score_ud
    from ..treebank.documents import read_docs
    from ._pipelines import superseded, without_parses

    references = list(read_docs(data, nlp.vocab))
    docs = without_parses(references, gold_tags=gold_tags)
    with nlp.select_pipes(disable=superseded(nlp, gold_tags=gold_tags)):
        start = perf_counter()
        parsed = list(nlp.pipe(docs))
        seconds = perf_counter() - start
    if not any(doc.has_annotation("DEP") for doc in parsed):
        known = ", ".join(nlp.pipe_names) or "none"
        name = nlp.meta.get("name") or "pipeline"
        raise ValueError(Errors.S157.format(model=f"{nlp.lang}_{name}", known=known))
    scores = score_ud(
        Example(doc, reference) for doc, reference in zip(parsed, references, strict=True)
    )
    n_words = sum(len(doc) for doc in parsed)
    return scores | {"words_per_second": n_words / seconds if seconds else 0.0}


def ceiling(data: Path) -> float:
    """UAS of the grammar that the sample treebank was drawn from, on gold tags: nothing can beat it.

    data (Path): A file of the sample treebank.
    RETURNS (float): UAS over all tokens.
    """
    from spacy.vocab import Vocab

    from ..base.errors import Errors
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
                raise ValueError(Errors.S155.format(path=data, tag=strange[0]))
            heads = grammar.posterior(
                grammar.symbols.encode(tags), [t.text for t in sentence]
            ).heads
            gold = [0 if t.head == t else t.head.i - sentence.start + 1 for t in sentence]
            right += sum(int(head) == wanted for head, wanted in zip(heads, gold, strict=True))
            total += len(gold)
    return right / total


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"
