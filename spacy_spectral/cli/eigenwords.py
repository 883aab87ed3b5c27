"""`spacy spectral eigenwords`, `neighbors`, `word-map`, `similarity`: word vectors and what they say."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import spacy
import typer
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from typer import Argument, Exit, Option
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import write_atomically, write_directory
from ..base.text_files import decoded_blocks
from ._app import load_pipeline, load_vectors, output_option, reported, spectral_cli

if TYPE_CHECKING:
    from ..models.eigenwords.model import Context

similarity_cli = typer.Typer(
    name="similarity", help="Train and evaluate sentence similarity.", no_args_is_help=True
)
spectral_cli.add_typer(similarity_cli)

Features = Annotated[
    list[Path] | None,
    Option("--features", "-f", help="TSV with more columns, one file per file of pairs"),
]
Pairs = Annotated[list[Path], Argument(help="TSV files: score, sentence, sentence")]
Vectors = Annotated[str, Argument(help="A pipeline with vectors: a directory or a package")]


@spectral_cli.command("eigenwords", short_help="Word vectors and clusters from raw text.")
def eigenwords_cli(
    texts: Annotated[
        list[Path], Argument(help="Text files: plain, .jsonl, either of them .gz, .spacy (DocBin)")
    ],
    output: Annotated[
        Path, output_option("--output", "-o", help="Directory to write to", first="meta.json")
    ],
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


@spectral_cli.command("neighbors", short_help="Print the nearest words.")
def neighbors_cli(
    vectors: Vectors,
    words: Annotated[list[str], Argument(help="Words to look up")],
    n: Annotated[int, Option("--number", "-n", help="How many neighbors", min=1)] = 10,
) -> None:
    """Print the nearest words, with the cosine of the angle between their vectors."""
    from ..models.eigenwords.vectors import nearest_words

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


@spectral_cli.command("word-map", short_help="Draw a map of words.")
def word_map_cli(
    vectors: Vectors,
    tagged: Annotated[Path, Argument(help="Tagged text: .conllu, or .spacy (DocBin)")],
    output: Annotated[Path, output_option("--output", "-o", help="SVG file to write")],
    n_words: Annotated[int, Option("--words", "-n", help="How many words", min=4)] = 400,
) -> None:
    """Draw the most frequent words of tagged text; similar words are near each other."""
    from ..models.eigenwords.vectors import row_names, word_vectors
    from ..viz.plots import majority_tags, place_words, render_map

    with reported():
        vocab = load_vectors(vectors).vocab
        tags = majority_tags(_tagged_words(tagged))
        # the rows of the table are in order of frequency
        words = [name for _, name in sorted(row_names(vocab).items()) if name in tags][:n_words]
        if len(words) < 4:
            raise SpectralError(Errors.S224.format(n=len(words)))
        places = place_words(word_vectors(vocab, words))
        title = f"{len(words)} frequent words, by their most frequent tag"
        svg = render_map(words, [tags[word] for word in words], places, title=title)
        write_atomically(output, svg)
    msg.good(f"Wrote a map of {len(words)} words to {output}")


def _tagged_words(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".spacy":
        for doc in DocBin().from_disk(path).get_docs(Vocab()):
            yield from ((token.text, token.pos_ or token.tag_) for token in doc)
        return

    for line in "".join(decoded_blocks(path, lambda n_bytes: None)).splitlines():
        columns = line.split("\t")
        if len(columns) == 10 and columns[0].isdigit():
            yield columns[1], columns[3]


@similarity_cli.command("train")
def train_cli(
    vectors: Vectors,
    pairs: Pairs,
    output: Annotated[Path, output_option("--output", "-o", help="File to write the model to")],
    features: Features = None,
    surface_only: Annotated[
        bool, Option("--surface-only", help="Leave the word vectors out")
    ] = False,
    highest: Annotated[float, Option("--highest", help="The highest score")] = 5.0,
) -> None:
    """Fit a ridge regression for every file of pairs, and one for all of them together."""
    from ..models.eigenwords.similarity import SimilarityModel

    with reported():
        nlp = load_pipeline(vectors)
        datasets = _read(nlp, pairs, features or [], eigenwords=not surface_only)
        model = SimilarityModel.train(datasets, eigenwords=not surface_only, highest=highest)
        write_atomically(output, model.to_bytes())
    for name, regression in model.regressions.items():
        msg.text(f"{name}: {len(regression.weights)} columns, penalty {regression.penalty:g}")
    msg.good(f"Wrote the model to {output}")


@similarity_cli.command("evaluate")
def evaluate_cli(
    model_path: Annotated[Path, Argument(metavar="MODEL", help="What 'train' wrote")],
    vectors: Vectors,
    pairs: Pairs,
    features: Features = None,
    output: Annotated[
        Path | None,
        output_option(
            "--output", "-o", help="Directory for the predictions", first="predictions.txt"
        ),
    ] = None,
) -> None:
    """Print Pearson's correlation per file, and ALL, ALLnrm and Mean of SemEval-2012 task 6."""
    from ..models.eigenwords.similarity import SimilarityModel, score_datasets

    with reported():
        model = SimilarityModel.from_bytes(model_path.read_bytes())
        nlp = load_pipeline(vectors)
        datasets = _read(nlp, pairs, features or [], eigenwords=model.eigenwords)
        predicted = {name: model.predict(name, rows) for name, (rows, _) in datasets.items()}
        scores = score_datasets(predicted, {name: gold for name, (_, gold) in datasets.items()})
        if output is not None:
            for name, values in predicted.items():
                lines = "".join(f"{value:.4f}\n" for value in values)
                write_atomically(output / f"{name}.txt", lines)
    msg.table(
        [(name, f"{score:.4f}") for name, score in scores.items()],
        header=("Dataset", "Pearson"),
        divider=True,
        aligns=("l", "r"),
    )


def _read(
    nlp: Language, pairs: list[Path], features: list[Path], *, eigenwords: bool
) -> dict[str, tuple[list[dict[str, float]], list[float]]]:
    from ..models.eigenwords.similarity import pair_features, read_extra_columns, read_pairs

    if features and len(features) != len(pairs):
        raise SpectralError(Errors.S223.format(n_features=len(features), n_pairs=len(pairs)))
    datasets: dict[str, tuple[list[dict[str, float]], list[float]]] = {}
    for i, path in enumerate(pairs):
        read = read_pairs(path)
        extra = read_extra_columns(features[i], len(read)) if features else None
        rows = pair_features(nlp, read, eigenwords=eigenwords, extra=extra)
        # MSRpar.train.tsv and MSRpar.test.tsv are the same dataset
        all_rows, scores = datasets.setdefault(path.name.split(".")[0], ([], []))
        all_rows.extend(rows)
        scores.extend(pair.score for pair in read)
    return datasets
