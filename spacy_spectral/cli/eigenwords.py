"""`spacy spectral eigenwords`: vectors and clusters from raw text."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument, Option
from wasabi import msg

from ._app import output_option, reported, spectral_cli

if TYPE_CHECKING:
    from ..models.eigenwords.model import Context


@spectral_cli.command("eigenwords", short_help="Word vectors and clusters from raw text.")
def eigenwords_cli(
    texts: Annotated[
        list[Path], Argument(help="Text files: plain, .jsonl, either of them .gz, .spacy (DocBin)")
    ],
    output: Annotated[Path, output_option("--output", "-o", help="Directory to write to")],
    k: Annotated[int, Option("--dimensions", "-k", help="Number of dimensions", min=1)] = 100,
    window: Annotated[
        int, Option("--window", "-w", help="Words of context on either side", min=1, max=5)
    ] = 2,
    context: Annotated[
        str, Option("--context", "-c", help="'list' keeps positions apart, 'bag' adds them up")
    ] = "list",
    two_step: Annotated[
        bool, Option("--two-step", help="Reduce left and right contexts first (LR-MVL)")
    ] = False,
    min_count: Annotated[
        int,
        Option(
            "--min-count", "-m", help="Rarer words share a vector with their look-alikes", min=1
        ),
    ] = 5,
    max_words: Annotated[
        int, Option("--max-words", help="Size of the vocabulary", min=2)
    ] = 200_000,
    lowercase: Annotated[bool, Option("--lowercase", help="Ignore case")] = False,
    lang: Annotated[
        str, Option("--lang", "-l", help="Language, whose tokenizer splits the text")
    ] = "en",
    tokenized: Annotated[
        bool, Option("--tokenized", "-t", help="Tokens are separated by whitespace already")
    ] = False,
    clusters: Annotated[
        str, Option("--clusters", help="Numbers of clusters, separated by commas")
    ] = "32,128,512,1024",
    workers: Annotated[int, Option("--workers", "-j", help="Processes that count", min=1)] = 1,
    scheduler: Annotated[
        str | None, Option("--scheduler", help="Address of a Dask scheduler, or 'local'")
    ] = None,
    seed: Annotated[int, Option("--seed", "-s", help="Seed of solver and clusters", min=0)] = 0,
) -> None:
    """Learn word vectors and clusters from raw text, by canonical correlation analysis.

    The directory can be loaded with spacy.load and be used as initialize.vectors in a config.
    """
    import spacy

    from ..base.serialize import require_writable, write_directory
    from ..models.eigenwords.model import Eigenwords
    from ..models.eigenwords.statistics import count_files
    from ..models.eigenwords.vectors import make_pipeline, spacy_tokenizer

    try:
        granularities = [int(size) for size in clusters.split(",")]
    except ValueError:
        granularities = []
    if not granularities or min(granularities) < 1:
        msg.fail(f"--clusters takes whole numbers separated by commas, not '{clusters}'", exits=1)
    if context not in ("list", "bag"):
        msg.fail(f"--context is 'list' or 'bag', not '{context}'", exits=1)
    with reported():
        require_writable(output / "meta.json")
        started = time.perf_counter()
        counts = count_files(
            texts,
            tokenize=None if tokenized else spacy_tokenizer(spacy.blank(lang)),
            window=2 * window if two_step else window,
            min_count=min_count,
            max_words=max_words,
            lowercase=lowercase,
            workers=workers,
            scheduler=scheduler,
            progress=sys.stderr.isatty(),
        )
        n_words, n_classes = len(counts.vocabulary.words), len(counts.vocabulary.classes)
        seconds = time.perf_counter() - started
        msg.good(
            f"Counted {counts.pairs.n_tokens:,} tokens in {seconds:.1f} s: {n_words:,} words, "
            f"{n_classes:,} classes of rare words, {len(counts.pairs.keys):,} pairs"
        )
        started = time.perf_counter()
        model = Eigenwords.estimate(
            counts,
            k=k,
            window=window,
            context=cast("Context", context),
            two_step=two_step,
            granularities=granularities,
            seed=seed,
        )
        seconds = time.perf_counter() - started
        msg.good(f"Learnt {k} dimensions and {len(granularities)} clusterings in {seconds:.1f} s")
        meta = {
            "k": k,
            "window": window,
            "context": context,
            "two_step": two_step,
            "min_count": min_count,
            "n_tokens": counts.pairs.n_tokens,
            "singular_values": model.singular_values.tolist(),
        }
        write_directory(output, make_pipeline(model, lang=lang, meta=meta).to_disk)
    values = model.singular_values
    at = sorted({i for i in (1, 2, 5, 10, 20, 50, 100, 200, 500, k) if i <= k})
    msg.text("Singular values (a flat tail adds little: choose k before it):")
    msg.text("  " + "  ".join(f"{i}: {values[i - 1]:.3f}" for i in at))
    msg.good(f"Wrote vectors and clusters to {output}")
