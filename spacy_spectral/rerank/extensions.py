"""What `spectral_reranker` stores on documents, and how it is read."""

from typing import NamedTuple

import numpy
from spacy.tokens import Span

from ..parser.answers import SentenceParse

# One entry of doc.user_data holds everything stored, as plain values and arrays: they survive to_bytes,
# DocBin and n_process.
USER_DATA = "spectral_reranker"


class RankedParse(NamedTuple):
    """One candidate of a sentence.

    tree (SentenceParse): The tree; its `logprob` is the base parser's.
    score (float): The reranker's score, relative to that of the base parser's likeliest tree.
    probability (float): The probability of being the best of the candidates.
    """

    tree: SentenceParse
    score: float
    probability: float


# Getters must be found by name: processes that are spawned get them pickled.
def _parses(span: Span) -> list[RankedParse] | None:
    """The candidates of a sentence, best first; None if the span is none, or nothing was stored."""
    stored = span.doc.user_data.get(USER_DATA)
    if stored is None or span.start == span.end or span.start != span[0].sent.start:
        return None
    names, result = stored["names"], []
    for own in stored["sentences"]:
        tokens = own["tokens"]
        if span.start <= tokens[0] and tokens[-1] < span.end <= span[0].sent.end:
            for i in numpy.argsort(-own["probs"], kind="stable").tolist():
                deps = [names[label] for label in own["labels"][i].tolist()]
                tree = SentenceParse(
                    int(tokens[0]), own["heads"][i].tolist(), deps, float(own["log_probs"][i])
                )
                result.append(RankedParse(tree, float(own["scores"][i]), float(own["probs"][i])))
    return result or None


# on import, so that stored parses can be read where no reranker is in the pipeline
Span.set_extension("parses", getter=_parses, force=True)
