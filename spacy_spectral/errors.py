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

    S101 = "Unknown estimator '{value}'. Choose one of: {choices}."
    S102 = "Estimation needs states >= 1, smoothing > 0 and em_iterations >= 1."
    S103 = "Unknown lexical model '{value}'. Choose one of: {choices}; or null for none."
    S104 = (
        "There is nothing to learn a parser from: no training sentence has heads. Check the training "
        "data with 'python -m spacy spectral check FILE'."
    )


class Warnings(metaclass=_WithCodes):
    pass
