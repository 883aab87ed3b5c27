"""`spacy spectral nbest`: the best parses of a text, with their probabilities."""

from typing import Annotated, Any

import typer

from ._app import reported, spectral_cli


@spectral_cli.command("nbest")
def nbest_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    text: Annotated[str, typer.Argument(help="The text to parse")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many parses of each sentence")] = 5,
    component: Annotated[str, typer.Option(help="The parser's name")] = "spectral_parser",
) -> None:
    """Print the k best parses of every sentence of a text.

    With --component spectral_constituency these are trees in brackets.

    A pipeline without components that set sentence boundaries takes the text as one sentence. Tags come
    from the pipeline, or are written behind the words: "The_DT dog_NN barks_VBZ ._."
    """
    from math import exp

    from wasabi import msg

    from ._pipelines import load_pipeline, parse_text, parser_of

    nlp = load_pipeline(model)
    with reported():
        pipe = nlp.get_pipe(component) if component in nlp.component_names else None
        if hasattr(pipe, "nbest_trees"):
            _print_trees(pipe, parse_text(nlp, text), k)
            return
        parser = parser_of(nlp, component)
        doc = parse_text(nlp, text)
        sentences = parser.nbest(doc, k)
    for parses in sentences:
        for rank, parse in enumerate(parses, start=1):
            print(f"\n{rank}. P = {exp(parse.logprob):.4f}  (log P = {parse.logprob:.2f})")
            rows = []
            for i, (head, dep) in enumerate(zip(parse.heads, parse.deps, strict=True), parse.start):
                target = "" if head == i else doc[head].text
                changed = "" if head == parses[0].heads[i - parse.start] else "*"
                rows.append((doc[i].text, doc[i].tag_, dep, target, changed))
            msg.table(rows, header=("Word", "Tag", "Relation", "Head", ""), divider=True)


def _print_trees(pipe: Any, doc: Any, k: int) -> None:
    from math import exp

    from ..pipeline.constituents import stored_trees, to_tree
    from ..treebank.brackets import write_tree

    for sentence, trees in zip(stored_trees(doc), pipe.nbest_trees(doc, k), strict=True):
        words = [doc[i].text for i in sentence.tokens]
        for rank, parsed in enumerate(trees, start=1):
            tree = to_tree(parsed, words)
            shown = write_tree(tree) if tree is not None else "-"
            print(
                f"\n{rank}. P = {exp(parsed.log_prob):.4f}  (log P = {parsed.log_prob:.2f})\n{shown}"
            )
