"""All messages of the package, each with a code, in the style of `spacy.errors`.

S0xx treebanks and files, S1xx head automata and the parser, S2xx eigenwords and similarity,
S3xx tagger, S4xx arc scorers, S5xx reranker.
"""


class _WithCodes(type):
    """Put the code of a message in front of it: `Errors.S001` -> "[S001] ..."."""

    def __getattribute__(cls, code: str) -> str:
        message = super().__getattribute__(code)
        return message if code.startswith("__") else f"[{code}] {message}"


class Errors(metaclass=_WithCodes):
    S001 = (
        "The compiled module '{name}' is missing. You are probably running from the source tree "
        "without having built it: run 'pip install -e .' there, or change to another directory."
    )
    S002 = (
        "Can't read {what}: the data is damaged or was not written by spacy-spectral ({reason}). "
        "Write it again, or train the model anew."
    )
    S003 = (
        "Can't read {what}: it was written by format version {found}, this spacy-spectral reads "
        "version {expected}. Train the model anew, or install the matching release."
    )
    S401 = (
        "There is nothing to train the parser on: no token has both a head and a label. Check that "
        "the training data contains dependency trees."
    )
    S402 = (
        "Sentence {sentence} (counted from 0) of the training data is not a tree: its heads must "
        "be positions in the sentence, with one root and no cycle. Correct the annotation, or mark "
        "heads you do not know as missing."
    )
    S403 = (
        "No projective tree with one root has the fixed heads of sentence {sentence} (counted from "
        "0). Fix fewer heads, and none that cross each other, form a cycle or make a second root."
    )
    S404 = (
        "This parser was trained with a pruner of its own that is not part of the model. Pass the "
        "arcs it keeps: parse(sentences, arcs=...)."
    )
    S405 = (
        "Can't fix the head of token {token} to {head}: a head is another position of the sentence "
        "(1 to {n}) or 0 for the root."
    )
    S406 = (
        "The sentences have tags that this parser does not know by number: encode them with "
        "model.encoder(), not with the encoder of another model."
    )
    S407 = (
        "Bad arcs from a pruner: every token needs at least one head, ascending positions of its "
        "own sentence (0 for the root), none of them the token itself, and a probability for each."
    )


class Warnings(metaclass=_WithCodes):
    pass
