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
    S301 = (
        "There is nothing to train the tagger on: no token of the training data has a tag. Check "
        "that the corpus is annotated ([paths] train), and call initialize with real examples."
    )
    S302 = (
        "The tagger '{name}' is not trained. Train it with 'spacy train' or "
        "nlp.initialize(get_examples), or load a trained pipeline."
    )
    S303 = (
        "Can't add the label '{label}' to '{name}': its labels are those of the training data. Add "
        "examples with that tag and train again."
    )
    S304 = (
        "Words, tags, coarse tags and morphology of the sentences differ in number. Give one "
        'entry a word in each list, "" (or None for morphology) where it is missing.'
    )
    S305 = (
        "Can't jack-knife {sentences} sentences in {folds} folds. Take at least 2 folds and "
        "at least as many sentences."
    )
    S306 = (
        "'{name}' is trained on the whole corpus at once, but with [training] max_epochs = -1 "
        "spaCy shows it the first 100 examples only. Set max_epochs = 1."
    )


class Warnings(metaclass=_WithCodes):
    pass
