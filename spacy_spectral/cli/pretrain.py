"""`spacy spectral pretrain`: a network's encoder learns from raw text, before there is a tree."""

import sys
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.language import Language
from tqdm import tqdm
from wasabi import msg

from ._app import Pipeline, load_pipeline, output_option, reported, spectral_cli

if TYPE_CHECKING:
    from ..models.biaffine.pretrain import TaggedText
    from ..pipeline.documents import TokenReader
    from .parse import Job

_AS_IN_NETWORK = "As the network's setting of that name"


@spectral_cli.command("pretrain", short_help="Let a network learn from raw text.")
def pretrain_cli(
    model: Pipeline,
    texts: Annotated[
        list[Path], typer.Argument(help="Text, .jsonl, CoNLL-U (.gz, too), directories")
    ],
    vectors: Annotated[
        str, typer.Option("--vectors", help="Word clusters and vectors, by 'eigenwords'")
    ],
    output: Annotated[Path, output_option("--output", "-o", help="File to write to")],
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line of a text is a document of its own")
    ] = False,
    words: Annotated[
        int | None, typer.Option("--words", "-n", help="Read no more words than this", min=1)
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over the text")] = 1,
    rate: Annotated[float, typer.Option("--rate", help="The highest learning rate")] = 0.003,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Words of a batch, about")] = 2000,
    mix_size: Annotated[int, typer.Option("--mix-size", help=_AS_IN_NETWORK)] = 128,
    scan_size: Annotated[int, typer.Option("--scan-size", help=_AS_IN_NETWORK)] = 128,
    scan_depth: Annotated[int, typer.Option("--scan-depth", help=_AS_IN_NETWORK)] = 4,
    seed: Annotated[int, typer.Option("--seed", "-s", help="Seed of all that is random")] = 0,
) -> None:
    """Let the network of a parser learn from raw text, before there is a tree.

    Words of the text are hidden, and the network learns to guess which word cluster they are of. MODEL
    tags the text as the parser's own pipeline will: a pipeline by configs/pipeline.cfg on the same treebank.
    The parser's network then begins with what is written here: --paths.pretrained FILE with
    configs/accurate.cfg.
    """
    from ..base.errors import Errors, SpectralError
    from ..base.files import write_atomically
    from ..models.biaffine.pretrain import PretrainingSettings, pretrain
    from ..pipeline.training_data import find_clusters, find_word_vectors
    from .parse import find_jobs

    with reported():
        settings = PretrainingSettings(
            mix_size=mix_size, scan_size=scan_size, scan_depth=scan_depth, epochs=epochs,
            rate=rate, batch_size=batch_size, seed=seed,
        )  # fmt: skip
        jobs = find_jobs(texts, None, "")
        if output.resolve() in {job.path.resolve() for job in jobs}:
            raise SpectralError(Errors.S465.format(path=output))
        nlp = load_pipeline(model)
        clusters, known = find_clusters(vectors, nlp.vocab), find_word_vectors(vectors, nlp.vocab)
        # a directory without clusters is an error, not None
        assert clusters is not None
        text = read_text(nlp, jobs, lines=lines, most=words)
        began = process_time()
        total = text.n_words * epochs
        bar = tqdm(total=total, desc="Pre-training", unit="word", unit_scale=True, disable=None)

        def report(n: int, loss: float) -> None:
            bar.set_postfix_str(f"loss {loss:.3f}")
            bar.update(n)

        with bar:
            encoder = pretrain(text, settings, clusters=clusters, vectors=known, report=report)
        write_atomically(output, encoder.to_bytes())
    msg.good(
        f"Learnt from {text.n_words:,} words in {process_time() - began:,.0f} CPU seconds: loss "
        f"{encoder.loss:.3f} a hidden word at the end",
        f"{output}: give it to configs/accurate.cfg by --paths.pretrained",
    )


def read_text(nlp: Language, jobs: list["Job"], *, lines: bool, most: int | None) -> "TaggedText":
    """Words and tags of texts, as the pipeline's parser would see them."""
    from ..base.errors import Errors, SpectralError
    from ..models.biaffine.pretrain import TaggedText
    from ..treebank.texts import read_parts
    from .parse import parsed_docs, sources_for

    text = TaggedText()
    read, others = _reader(nlp)
    size = sum(job.path.stat().st_size for job in jobs if job.path.is_file())
    show = sys.stderr.isatty()
    with (
        nlp.select_pipes(disable=others),
        tqdm(
            total=size, desc="Tagging", unit="B", unit_scale=True, leave=False, disable=not show
        ) as bar,
    ):
        for job in jobs:
            for part in read_parts(job.path, lines=lines):
                try:
                    with nlp.memory_zone():
                        docs = parsed_docs(nlp, sources_for(nlp, part.sources), keep=False)
                        has_room = text.add(read(docs).tokens, most=most)
                except ValueError as error:
                    if not part.sources:
                        raise
                    first, last = part.sources[0].name, part.sources[-1].name
                    reason = Errors.S469.format(path=job.path, first=first, last=last, reason=error)
                    raise SpectralError(reason) from error
                bar.update(part.size)
                if not has_room:
                    if not text.n_words:
                        raise SpectralError(Errors.S468.format(most=most))
                    return text
    return text


def _reader(nlp: Language) -> tuple["TokenReader", list[str]]:
    """Reads what the first parser of a pipeline sees of documents; and the components that add nothing to it:
    those from the parser on, and lemmatizers."""
    from ..pipeline.documents import TokenReader
    from ..pipeline.parser import SpectralParser

    found: SpectralParser | None = None
    others = []
    for name, pipe in nlp.pipeline:
        if found is None and isinstance(pipe, SpectralParser):
            found = pipe
        if found is not None or nlp.get_pipe_meta(name).assigns == ["token.lemma"]:
            others.append(name)
    return TokenReader(["TAG"], name="pretrain") if found is None else found.read, others
