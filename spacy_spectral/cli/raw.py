"""`spacy spectral evaluate --raw`: the measures of the CoNLL 2018 shared task, from raw text."""

import io
from pathlib import Path
from typing import Any

MEASURES = (
    *("Tokens", "Words", "Sentences", "UPOS", "XPOS", "UFeats", "Lemmas"),
    *("UAS", "LAS", "CLAS", "MLAS"),
)


def evaluate_raw(nlp: Any, data: Path) -> dict[str, Any]:
    """Score a pipeline from raw text, put together again from a treebank.

    nlp (Language): The pipeline.
    data (Path): CoNLL-U or .spacy file, or a directory of such files.
    RETURNS (Dict[str, Any]): F1 by measure, between 0 and 1, and `words_per_second`. Labels are
        compared without subtypes, as the shared task does it.
    """
    from time import perf_counter

    from ..base.errors import Errors
    from ..treebank.documents import CONLLU_SUFFIXES, read_docs, treebank_files
    from ..treebank.write import write_doc

    try:
        from udtools import udeval
    except ImportError as error:
        raise ValueError(Errors.S607) from error
    texts: list[str] = []
    gold: list[str] = []
    for file in treebank_files(data):
        docs = list(read_docs(file, nlp.vocab, n_sents=0, syntactic_words=False))
        texts += [doc.text for doc in docs]
        if file.suffix in CONLLU_SUFFIXES:
            # the treebank itself, whose syntactic words need not stand in the text
            gold.append(file.read_text("utf-8-sig").rstrip("\n") + "\n\n")
        else:
            gold += map(write_doc, docs)
    start = perf_counter()
    parsed = list(nlp.pipe(texts))
    seconds = perf_counter() - start
    system = "".join(map(write_doc, parsed))
    try:
        scores = udeval.evaluate(
            udeval.load_conllu(io.StringIO("".join(gold)), str(data), {}),
            udeval.load_conllu(io.StringIO(system), "the parsed text", {}),
        )
    except udeval.UDError as error:
        raise ValueError(Errors.S608.format(path=data, reason=error)) from error
    n_words = sum(len(doc) for doc in parsed)
    result: dict[str, Any] = {name.lower(): scores[name].f1 for name in MEASURES}
    return result | {"words_per_second": n_words / seconds if seconds else 0.0}


def print_raw(scores: dict[str, Any]) -> None:
    """Print what `evaluate_raw` gave.

    scores (Dict[str, Any]): The scores.
    """
    from wasabi import msg

    rows = [(name, f"{100 * scores[name.lower()]:.2f} %") for name in MEASURES]
    msg.table(rows, header=("From raw text", "F1"), divider=True, aligns=("l", "r"))
    print(f"{scores['words_per_second']:,.0f} tokens/s")
