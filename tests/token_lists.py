"""Counting of tokens that stand in lists."""

from pathlib import Path
from tempfile import TemporaryDirectory

from spacy_spectral.models.eigenwords.statistics import count_files
from spacy_spectral.models.eigenwords.vocabulary import find_name, join_tokens


def write_token_lists(token_lists, directory):
    """A file that has them, line by line."""
    path = directory / "tokens.txt"
    lines = [join_tokens(tokens) + "\n" for tokens in token_lists]
    path.write_text("".join(lines), encoding="utf8", newline="\n")
    return path


def count_token_lists(token_lists, **settings):
    with TemporaryDirectory() as directory:
        return count_files([write_token_lists(token_lists, Path(directory))], **settings)


def find(vocabulary, form):
    """The row of a form, its lower-cased form, or its narrowest class; -1 for none."""
    names = vocabulary.names
    n_words = len(vocabulary.words)
    words = {word: i for i, word in enumerate(names[:n_words])}
    classes = {name: i for i, name in enumerate(names[:-1]) if i >= n_words}
    return find_name(form, words, classes, -1)
