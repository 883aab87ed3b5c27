"""`spacy spectral score`: how likely the trees of a treebank are, to find annotation errors."""

from pathlib import Path
from typing import Annotated, Any

import typer
from wasabi import msg

from ..base.errors import Errors
from ..base.progress import progress_bar
from ._app import load_pipeline, output_option, reported, spectral_cli, write_json


@spectral_cli.command("score", short_help="Find annotation errors.")
def score_cli(
    model: Annotated[str, typer.Argument(help="A pipeline with a trained spectral_reranker")],
    data: Annotated[Path, typer.Argument(help="Trees: CoNLL-U or .spacy, or a directory")],
    arcs: Annotated[int, typer.Option(min=0, help="How many unlikely arcs to list")] = 20,
    trees: Annotated[int, typer.Option(min=0, help="How many unlikely trees to list")] = 10,
    component: Annotated[str, typer.Option(help="The reranker's name")] = "spectral_reranker",
    json: Annotated[
        Path | None, output_option("--json", help="Write the scores of all trees here")
    ] = None,
) -> None:
    """List the least likely arcs and trees of a treebank.

    The latent tree models of the reranker say how well the words, tags and labels of every tree fit
    together. The probability of an arc is that of the head, given the rest of the tree. Sentences are
    counted from 1.
    """
    from ..pipeline.reranker import SpectralReranker
    from ..treebank.documents import read_docs

    nlp = load_pipeline(model)
    reranker: Any = nlp.get_pipe(component) if component in nlp.component_names else None
    if not isinstance(reranker, SpectralReranker):
        known = ", ".join(nlp.component_names) or "none"
        msg.fail(Errors.S508.format(name=component, known=known), exits=1)
    rows = []
    number = incomplete = 0
    with reported():
        for doc in progress_bar("score")(list(read_docs(data, nlp.vocab))):
            for sent, score in zip(doc.sents, reranker.spectral_tree_score(doc), strict=True):
                number += 1
                if score is not None:
                    rows.append((number, sent, score))
                elif _words(sent):
                    incomplete += 1
    if not rows:
        msg.fail(Errors.S509.format(path=data), exits=1)
    n_tokens = sum(len(score.head_probs) for _, _, score in rows)
    total = sum(score.log_prob for _, _, score in rows)
    gain = sum(score.gain * len(score.head_probs) for _, _, score in rows)
    msg.good(
        f"{len(rows):,} trees, {n_tokens:,} tokens: log p {total / n_tokens:.3f} per token, "
        f"{gain / n_tokens:+.3f} above chance"
    )
    if incomplete:
        msg.info(f"{incomplete:,} trees with missing heads are left out")
    if arcs:
        _print_arcs(rows, arcs)
    if trees:
        _print_trees(rows, trees)
    result = [
        {
            "sentence": number,
            "text": sent.text,
            "log_prob": score.log_prob,
            "gain": score.gain,
            "head_probs": [None if p != p else p for p in score.head_probs.tolist()],
        }
        for number, sent, score in rows
    ]
    write_json(json, result, "Scores")


def _print_arcs(rows: list, n: int) -> None:

    found = [
        (float(prob), number, token)
        for number, sent, score in rows
        for prob, token in zip(score.head_probs, _words(sent), strict=True)
        if prob == prob  # not the root
    ]
    found.sort(key=lambda row: row[:2])
    cells = [
        (
            f"{prob:.1e}",
            number,
            token.text,
            token.dep_,
            token.head.text,
            _shortened(_around(token), 50),
        )
        for prob, number, token in found[:n]
    ]
    print("\nThe least likely arcs: P(head | rest of the tree)")
    header = ("P", "Sentence", "Word", "Relation", "Head", "Text")
    msg.table(cells, header=header, divider=True, max_col=50, aligns=("r", "r", *"llll"))


def _print_trees(rows: list, n: int) -> None:

    # a word and a full stop: hardly anything can be wrong
    found = sorted(
        ((score.gain, number, sent) for number, sent, score in rows if len(score.head_probs) > 2),
        key=lambda row: row[:2],
    )
    cells = [
        (f"{gain:+.2f}", number, _shortened(sent.text, 80)) for gain, number, sent in found[:n]
    ]
    print("\nThe least likely trees: log p per token, above chance")
    header = ("Gain", "Sentence", "Text")
    msg.table(cells, header=header, divider=True, max_col=80, aligns=("r", "r", "l"))


def _words(sent) -> list:
    return [token for token in sent if not token.is_space]


def _around(token) -> str:
    """The text between a token and its head, with a word on either side."""
    first, last = sorted((token.i, token.head.i))
    sent = token.sent
    return token.doc[max(first - 1, sent.start) : min(last + 2, sent.end)].text


def _shortened(text: str, n: int) -> str:
    """A text on one line, without its middle if it has more than n characters."""
    text = " ".join(text.split())
    half = (n - 3) // 2
    return text if len(text) <= n else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"
