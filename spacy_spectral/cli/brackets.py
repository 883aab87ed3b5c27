"""`spacy spectral convert-brackets`, and bracketed trees for other commands."""

from collections import Counter
from pathlib import Path
from time import process_time
from typing import Annotated, Any

import spacy
import typer
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import write_atomically
from ._app import (
    output_option,
    percent,
    reported,
    spectral_cli,
)


@spectral_cli.command("convert-brackets", short_help="Constituency trees to other formats.")
def convert_brackets_cli(
    path: Annotated[
        Path,
        typer.Argument(help="A file of trees (.ptb, .mrg, .brackets, .export, .gold_conll)"),
    ],
    output: Annotated[
        Path, output_option("--output", "-o", help="The .spacy or .ptb file to write")
    ],
    n_sents: Annotated[int, typer.Option("--n-sents", min=1, help="Trees to a document")] = 1,
    lang: Annotated[str, typer.Option("--lang", help="The language of the documents")] = "en",
    penn: Annotated[
        bool, typer.Option("--penn", help="Brackets with words as in the Penn Treebank: -LRB-, ``")
    ] = False,
) -> None:
    """Convert constituency trees to spaCy's format: words, tags, sentences, and the trees for
    spectral_constituency. Function labels and empty elements are left out.

    An output of .ptb, .mrg or .brackets gets a tree a line.
    """
    from ..models.constituency.trees import clean
    from ..pipeline.constituents import gold_docs
    from ..treebank.brackets import BRACKET_SUFFIXES, read_trees, write_tree

    with reported():
        if output.suffix in BRACKET_SUFFIXES:
            trees = [tree for tree in map(clean, read_trees(path)) if tree is not None]
            lines = (f"{write_tree(tree, penn=penn)}\n" for tree in trees)
            write_atomically(output, "".join(lines).encode())
            msg.good(f"{len(trees):,} {'tree' if len(trees) == 1 else 'trees'} in {output}")
            return
        vocab = spacy.blank(lang).vocab
        docbin, n = DocBin(store_user_data=True), 0
        for doc in gold_docs(path, vocab, n_sents=n_sents):
            n += sum(1 for _ in doc.sents)
            docbin.add(doc)
        write_atomically(output, docbin.to_bytes())
    msg.good(f"{n:,} {'tree' if n == 1 else 'trees'} in {output}")


def evaluate_brackets(
    nlp: Language, references: list[Doc], model: str, *, raw: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score a pipeline on constituency trees, inside their sentences; print the tables, and give the scores
    of `pipeline.constituency.score_constituents`, `words_per_second` (of CPU time), `words` and
    `sentences`; and how far probabilities of "constituents" can be trusted.

    raw: Give the pipeline the texts and nothing else. Then there are also `token_f` and `sents_f`.
    """
    from ..pipeline.constituency import constituent_reliability, score_constituents
    from ..pipeline.constituents import NAME
    from ..readers import parsed_anew

    if not any(nlp.get_pipe_meta(name).factory == NAME for name in nlp.pipe_names):
        raise SpectralError(Errors.S708.format(model=model))
    if raw:
        start = process_time()
        parsed = list(nlp.pipe(doc.text for doc in references))
        seconds = process_time() - start
    else:
        parsed, seconds = parsed_anew(nlp, references)
    examples = [Example(doc, gold) for doc, gold in zip(parsed, references, strict=True)]
    n_words = sum(len(doc) for doc in references)
    n_sentences = sum(1 for doc in references for _ in doc.sents)
    scores = score_constituents(examples) | {
        "words": n_words,
        "sentences": n_sentences,
        "words_per_second": n_words / seconds if seconds else 0.0,
    }
    if raw:
        scores |= _raw_scores(examples)
        rows = [(name, percent(scores[key])) for name, key in _RAW.items()]
        msg.table(rows, header=("From raw text", "F1"), aligns=("l", "r"), divider=True)
    keys = {"Precision": "p", "Recall": "r", "F1": "f", "Exact match": "exact", "Tags": "tag_acc"}
    row = [percent(scores[f"bracket_{key}"]) for key in keys.values()]
    msg.table([row], header=list(keys), aligns=["r"] * len(keys), divider=True)
    per_type = scores["bracket_f_per_type"] or {}
    gold = _gold_counts(references)
    msg.table(
        [(label, gold.get(label, 0), percent(value)) for label, value in per_type.items()],
        header=("Label", "Gold", "F1"),
        aligns=("l", "r", "r"),
        divider=True,
    )
    speed = f"{scores['words_per_second']:,.0f} words per CPU second"
    print(f"{n_words:,} words in {n_sentences:,} trees · {speed}")
    found = constituent_reliability(examples)
    return scores, {} if found is None else {"constituents": found}


_RAW = {"Tokens": "token_f", "Sentences": "sents_f", "Constituents": "bracket_f"}


def _raw_scores(examples: list[Example]) -> dict[str, Any]:
    """F1 of tokens and sentences."""
    found = {"token_f": Scorer.score_tokenization(examples)["token_f"], "sents_f": None}
    if all(eg.predicted.has_annotation("SENT_START") for eg in examples):
        found["sents_f"] = Scorer.score_spans(examples, "sents")["sents_f"]
    return found


def _gold_counts(docs: list[Doc]) -> dict[str, int]:
    from ..pipeline.constituents import stored_trees

    labels = (
        node.label for doc in docs for tree in stored_trees(doc) for node in tree.parsed.nodes
    )
    return dict(Counter("ADVP" if label == "PRT" else label for label in labels))
