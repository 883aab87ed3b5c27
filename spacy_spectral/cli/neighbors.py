"""`spacy spectral neighbors`: the words nearest to a word."""

from typing import Annotated

from typer import Argument, Exit, Option
from wasabi import msg

from ._app import reported, spectral_cli


@spectral_cli.command("neighbors", short_help="Print the nearest words.")
def neighbors_cli(
    vectors: Annotated[str, Argument(help="A pipeline with vectors: a directory or a package")],
    words: Annotated[list[str], Argument(help="Words to look up")],
    n: Annotated[int, Option("--number", "-n", help="How many neighbors", min=1)] = 10,
) -> None:
    """Print the nearest words, with the cosine of the angle between their vectors."""
    from ..base.errors import Errors
    from ..models.eigenwords.vectors import nearest_words
    from ._app import load_vectors

    with reported():
        nlp = load_vectors(vectors)
    failed = False
    for word in words:
        found = nearest_words(nlp.vocab, word, n=n) if word.strip() else []
        if not found:
            msg.fail(Errors.S217.format(word=word))
            failed = True
            continue
        msg.divider(word)
        msg.table([(name, f"{cosine:.3f}") for name, cosine in found], aligns=("l", "r"))
    if failed:
        raise Exit(1)
