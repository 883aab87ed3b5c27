"""`spacy spectral nbest`: the best parses of a text, with their probabilities."""

from math import exp, fsum
from typing import Annotated, Any

import typer
from wasabi import msg

from ._app import Pipeline, load_pipeline, parse_text, parser_of, reported, spectral_cli


@spectral_cli.command("nbest")
def nbest_cli(
    model: Pipeline,
    text: Annotated[str, typer.Argument(help="The text to parse")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many parses of each sentence")] = 5,
    labelled: Annotated[
        bool, typer.Option("--labelled", help="Parses may differ in labels alone")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Print all parses in full, not only the best one")
    ] = False,
    component: Annotated[str, typer.Option(help="The parser's name")] = "spectral_parser",
) -> None:
    """Print the k best parses of every sentence of a text.

    The best one is a table. Of each other one a line says how probable it is and what differs; a line below
    says how much of all probability the parses have together. They are trees with different heads, each with
    its likeliest labels; with --labelled, trees with different heads or labels.

    With --component spectral_constituency these are trees in brackets.

    A pipeline without components that set sentence boundaries takes the text as one sentence. Tags come
    from the pipeline, or are written behind the words: "The_DT dog_NN barks_VBZ ._."
    """
    from ..pipeline.constituency import SpectralConstituency
    from ..pipeline.words import with_words
    from ..viz.parses import differences, share

    nlp = load_pipeline(model)
    with reported():
        pipe = nlp.get_pipe(component) if component in nlp.component_names else None
        if isinstance(pipe, SpectralConstituency):
            _print_trees(pipe, parse_text(nlp, text), k)
            return
        parser = parser_of(nlp, component)
        doc = parse_text(nlp, text)
        sentences = parser.nbest(doc, k, labelled=labelled)
        doc = with_words(doc)  # which the parses are of
    over = "heads and labels" if labelled else "heads, each with its likeliest labels"
    for parses in sentences:
        tokens = [token for token in doc[parses[0].start :] if not token.is_space]
        for rank, parse in enumerate(parses, start=1):
            if rank == 1 or tables:
                _print_table(rank, parse, parses[0], tokens, doc)
            else:
                told = (
                    f"{token.text}: {new} (was {old})"
                    for token, new, old in differences(parse, parses[0], doc)
                )
                print(f"{rank}. {share(parse.logprob)} {'; '.join(told)}")
        _print_sum([parse.logprob for parse in parses], over)


def _print_table(rank: int, parse: Any, first: Any, tokens: list[Any], doc: Any) -> None:
    """A parse in full; heads and labels that the first one does not have are marked."""
    print(f"\n{_title(rank, parse.logprob)}")
    rows = []
    for token, head, dep, *other in zip(
        tokens, parse.heads, parse.deps, first.heads, first.deps, strict=False
    ):
        target = "" if head == token.i else doc[head].text
        rows.append((token.text, token.tag_, dep, target, "" if [head, dep] == other else "*"))
    msg.table(rows, header=("Word", "Tag", "Relation", "Head", ""), divider=True)


def _title(rank: int, log_prob: float) -> str:

    return f"{rank}. P = {exp(log_prob):.4f}  (log P = {log_prob:.2f})"


def _print_sum(log_probs: list[float], over: str) -> None:

    # a sentence without a tree has none
    total = min(fsum(exp(log_prob) for log_prob in log_probs if log_prob == log_prob), 1.0)
    print(f"Together {total:.3f} of all probability. The list is over {over}.")


def _print_trees(pipe: Any, doc: Any, k: int) -> None:
    from ..pipeline.constituents import stored_trees, to_tree
    from ..treebank.brackets import write_tree

    for sentence, trees in zip(stored_trees(doc), pipe.nbest_trees(doc, k), strict=True):
        words = [doc[i].text for i in sentence.tokens]
        for rank, parsed in enumerate(trees, start=1):
            tree = to_tree(parsed, words)
            shown = write_tree(tree) if tree is not None else "-"
            print(f"\n{_title(rank, parsed.log_prob)}\n{shown}")
        _print_sum([parsed.log_prob for parsed in trees], "brackets and their labels")
