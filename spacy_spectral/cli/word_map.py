"""`spacy spectral word-map`: a map of frequent words, coloured by tag."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from typer import Argument, Option
from wasabi import msg

from ._app import (
    load_vectors,
    output_option,
    reported,
    spectral_cli,
)


@spectral_cli.command("word-map", short_help="Draw a map of words.")
def word_map_cli(
    vectors: Annotated[str, Argument(help="A pipeline with vectors: a directory or a package")],
    tagged: Annotated[Path, Argument(help="Tagged text: .conllu, or .spacy (DocBin)")],
    output: Annotated[Path, output_option("--output", "-o", help="SVG file to write")],
    n_words: Annotated[int, Option("--words", "-n", help="How many words", min=4)] = 400,
) -> None:
    """Draw the most frequent words of tagged text; similar words are near each other."""
    from ..base.errors import Errors
    from ..base.serialize import require_writable, write_atomically
    from ..models.eigenwords.vectors import row_names, word_vectors
    from ..viz.wordmap import majority_tags, place_words, render_map

    with reported():
        require_writable(output)
        vocab = load_vectors(vectors).vocab
        tags = majority_tags(_tagged_words(tagged))
        # the rows of the table are in order of frequency
        words = [name for _, name in sorted(row_names(vocab).items()) if name in tags][:n_words]
        if len(words) < 4:
            raise ValueError(Errors.S224.format(n=len(words)))
        places = place_words(word_vectors(vocab, words))
        title = f"{len(words)} frequent words, by their most frequent tag"
        svg = render_map(words, [tags[word] for word in words], places, title=title)
        write_atomically(output, svg)
    msg.good(f"Wrote a map of {len(words)} words to {output}")


def _tagged_words(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".spacy":
        from spacy.tokens import DocBin
        from spacy.vocab import Vocab

        for doc in DocBin().from_disk(path).get_docs(Vocab()):
            yield from ((token.text, token.pos_ or token.tag_) for token in doc)
        return
    from ..base.text_files import decoded_blocks

    for line in "".join(decoded_blocks(path, lambda n_bytes: None)).splitlines():
        columns = line.split("\t")
        if len(columns) == 10 and columns[0].isdigit():
            yield columns[1], columns[3]
