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
    S201 = "Can't find the text file '{path}'."
    S202 = (
        "Can't read '{path}': the file is truncated or damaged ({reason}). Copy or compress it "
        "again; 'gzip -t' tells whether a .gz file is whole."
    )
    S203 = (
        "Can't read '{path}': it is not valid UTF-8 ({reason}) in the line {line!r}. Convert the "
        "file, e.g. with 'iconv -f latin1 -t utf8'."
    )
    S204 = (
        "Can't read '{path}': in the line {line!r}: {reason}. Each line of a .jsonl file must be "
        'an object with "text" (a string) or "tokens" (a list of strings).'
    )
    S205 = "There are no words in the text: the files are empty or contain whitespace only."
    S206 = (
        "Only {n} of {n_types} distinct words occur at least {min_count} times; at least 2 are "
        "needed. Give more text or lower the minimum count (--min-count)."
    )
    S207 = "The file '{path}' changed while it was counted. Count it again when it rests."
    S208 = "The window must be between 1 and {largest}, not {window}."
    S209 = (
        'Some files are tokenised (DocBin, or JSONL with "tokens") and others are raw text. Count '
        "one kind at a time, or say that the text is tokenised too (--tokenized)."
    )
    S210 = "The number of workers must be at least 1, not {workers}."
    S211 = (
        "A scheduler was given, but Dask is not installed. Install it with "
        "'pip install spacy-spectral[dask]', or leave out --scheduler."
    )
    S212 = "Can't reach the Dask scheduler '{scheduler}': {reason}."
    S213 = (
        "A window of {window} needs counts of words up to {needed} apart, but they were counted "
        "up to {counted} apart. Count again with a larger window."
    )
    S214 = (
        "Can't make vectors of {k} dimensions: the counts have rank {rank}. Choose a smaller k "
        "(-k) or give more text."
    )
    S215 = (
        "There are no eigenword clusters here: the lookups have no table '{name}'. Make them with "
        "'python -m spacy spectral eigenwords TEXT --output DIR' and load the pipeline from DIR."
    )
    S216 = (
        "There are no eigenwords in '{path}'. Give the directory that 'python -m spacy spectral "
        "eigenwords TEXT --output DIR' wrote."
    )
    S217 = "The word '{word}' has no vector: neither it nor a word that looks like it was counted."
    S218 = "Can't read the sentence pairs in '{path}', line {line}: {reason}."
    S219 = (
        "The extra columns in '{path}' do not fit: {reason}. Give a TSV file with a header line "
        "and one line of numbers per sentence pair."
    )
    S220 = (
        "The similarity model was trained with the extra columns {expected}, but got {found}. Give "
        "the same columns (--features)."
    )
    S221 = (
        "There are too few sentence pairs to train on: {n}. At least {least} are needed for "
        "cross-validation."
    )
    S222 = (
        "The pipeline has no word vectors. Make some with 'python -m spacy spectral eigenwords "
        "TEXT --output DIR', then load DIR or set initialize.vectors to it."
    )
    S223 = (
        "There are {n_features} files of features (--features) for {n_pairs} files of pairs. Give "
        "one for each."
    )
    S224 = "Can't draw a map: only {n} of the words have a vector. Give more words (--words)."


class Warnings(metaclass=_WithCodes):
    pass
