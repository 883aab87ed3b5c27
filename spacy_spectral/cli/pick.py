"""`spacy spectral pick`: the sentences that are worth annotating first."""

import heapq
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from spacy.language import Language
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ._app import Pipeline, load_pipeline, output_option, reported, spectral_cli, write_output
from .parse import Way, parsed_docs, pipeline_for, sources_for

ORDERS = ("errors", "document", "random")
_OF_PLACE = ("# newdoc", "# newpar", "# expected_errors")


@spectral_cli.command("pick", short_help="The sentences that are worth annotating first.")
def pick_cli(
    model: Pipeline,
    files: Annotated[list[Path], typer.Argument(help="Text, .jsonl or CoNLL-U (.gz, too)")],
    n: Annotated[int, typer.Option("-n", min=0, help="How many sentences; 0 for all")] = 100,
    order: Annotated[str, typer.Option("--order", help=f"One of {', '.join(ORDERS)}")] = "errors",
    output: Annotated[
        Path | None,
        output_option("--output", "-o", help="CoNLL-U file to write; printed if there is none"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the random order")] = 0,
) -> None:
    """Write the sentences in which the parser expects most errors, as CoNLL-U with probabilities.

    The order is that of the page of `annotate`: the sum of 1 - P(arc and label), divided by the square root
    of the length. A comment has this number. CoNLL-U keeps its words and comments, and is parsed anew.
    """
    from ..pipeline.parser import SpectralParser

    with reported():
        if order not in ORDERS:
            raise SpectralError(
                Errors.S678.format(name="--order", value=f"'{order}'", allowed=", ".join(ORDERS))
            )
        nlp = load_pipeline(model, load=partial(pipeline_for, way=Way("conllu", probs=True)))
        if not any(isinstance(pipe, SpectralParser) for _, pipe in nlp.pipeline):
            known = ", ".join(nlp.component_names) or "none"
            raise SpectralError(Errors.S688.format(model=model, known=known))
        random = Random(seed)
        total = 0

        def ranked() -> Iterator[tuple[float, int, str]]:
            nonlocal total
            for score, block in scored_blocks(nlp, files):
                total += 1
                rank = {"errors": score, "document": 0.0, "random": random.random()}[order]
                yield rank, -total, block

        found = heapq.nlargest(n, ranked()) if n else sorted(ranked(), reverse=True)
    text = "".join(block for _, _, block in found)
    if output is None:
        print(text, end="", flush=True)
    else:
        write_output(output, text)
        msg.good(f"{len(found):,} of {total:,} sentences in {output}")


def scored_blocks(nlp: Language, files: list[Path]) -> Iterator[tuple[float, str]]:
    """The sentences of files as CoNLL-U with probabilities, and how many errors are expected in each."""
    from ..pipeline.table import arc_probs
    from ..pipeline.words import with_words
    from ..serve.blocks import split_blocks
    from ..serve.engine import span_errors
    from ..treebank.texts import read_parts
    from ..treebank.write import write_doc

    for path in files:
        for part in read_parts(path):
            with nlp.memory_zone():
                sources = sources_for(nlp, part.sources)
                docs = map(with_words, parsed_docs(nlp, sources, keep=False))
                for doc, source in zip(docs, sources, strict=True):
                    own = source.sentences
                    text = write_doc(doc, name=source.name, given=own, misc=arc_probs(doc))
                    sents = doc.sents if doc.has_annotation("SENT_START") else [doc[:]]
                    spans = [sent for sent in sents if not all(w.is_space for w in sent)]
                    for span, block in zip(spans, split_blocks(text), strict=True):
                        score = span_errors(span)
                        lines = [
                            line for line in block.split("\n") if not line.startswith(_OF_PLACE)
                        ]
                        lines.insert(1, f"# expected_errors = {score:.4f}")
                        yield score, "\n".join(lines)
