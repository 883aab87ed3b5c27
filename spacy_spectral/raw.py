"""Scores from raw text: the measures of the CoNLL 2018 shared task, by the package udtools."""

import io
from pathlib import Path
from typing import Any, NamedTuple

MEASURES = (
    *("Tokens", "Words", "Sentences", "UPOS", "XPOS", "UFeats", "Lemmas"),
    *("UAS", "LAS", "CLAS", "MLAS"),
)


class RawTreebank(NamedTuple):
    """A treebank and its raw text.

    texts: The text of each document, put together again.
    """

    path: Path
    texts: list[str]
    gold: str


def read_raw(vocab: Any, data: Path) -> RawTreebank:
    """Read a treebank and its raw text."""
    from .treebank.documents import CONLLU_SUFFIXES, read_docs, treebank_files
    from .treebank.write import write_doc

    texts: list[str] = []
    gold: list[str] = []
    for file in treebank_files(data):
        docs = list(read_docs(file, vocab, n_sents=0, syntactic_words=False))
        texts += [doc.text for doc in docs]
        if file.suffix in CONLLU_SUFFIXES:
            # the treebank itself, whose syntactic words need not stand in the text
            gold.append(file.read_text("utf-8-sig").rstrip("\n") + "\n\n")
        else:
            gold += map(write_doc, docs)
    return RawTreebank(data, texts, "".join(gold))


def udeval() -> Any:
    """The measures, of the package udtools; an error says how to install it."""
    from .base.errors import Errors, SpectralError

    try:
        from udtools import udeval
    except ImportError as error:
        raise SpectralError(Errors.S607) from error
    return udeval


def score_raw(treebank: RawTreebank, parsed: str) -> dict[str, float]:
    """Score what was made of raw text.

    RETURNS: F1 by measure, between 0 and 1. Labels are compared without subtypes, as the CoNLL 2018
        shared task does it.
    """
    from .base.errors import Errors, SpectralError

    measures = udeval()
    try:
        scores = measures.evaluate(
            measures.load_conllu(io.StringIO(treebank.gold), str(treebank.path), {}),
            measures.load_conllu(io.StringIO(parsed), "the parsed text", {}),
        )
    except measures.UDError as error:
        raise SpectralError(Errors.S608.format(path=treebank.path, reason=error)) from error
    return {name.lower(): scores[name].f1 for name in MEASURES}


def evaluate_raw(nlp: Any, data: Path) -> dict[str, Any]:
    """Score a pipeline from raw text, put together again from a treebank.

    RETURNS: What `score_raw` gives, and `words_per_second` (of CPU time).
    """
    from time import process_time

    from .pipeline.words import with_words
    from .treebank.write import write_doc

    udeval()  # before the work
    treebank = read_raw(nlp.vocab, data)
    start = process_time()
    parsed = list(nlp.pipe(treebank.texts))
    seconds = process_time() - start
    parsed = list(map(with_words, parsed))
    scores = score_raw(treebank, "".join(map(write_doc, parsed)))
    n_words = sum(not token.is_space for doc in parsed for token in doc)
    return scores | {"words_per_second": n_words / seconds if seconds else 0.0}
