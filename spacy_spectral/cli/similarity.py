"""`spacy spectral similarity train/evaluate`: how alike are two sentences, as people judge."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option
from wasabi import msg

from ._app import output_option, reported, spectral_cli

if TYPE_CHECKING:
    from spacy.language import Language

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
    from ..base.serialize import require_writable, write_atomically
    from ..models.eigenwords.similarity import SimilarityModel
    from ._pipelines import load_pipeline

    with reported():
        require_writable(output)
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
        Path | None, output_option("--output", "-o", help="Directory for the predictions")
    ] = None,
) -> None:
    """Print Pearson's correlation per file, and ALL, ALLnrm and Mean of SemEval-2012 task 6."""
    from ..base.serialize import require_writable, write_atomically
    from ..models.eigenwords.similarity import SimilarityModel, score_datasets
    from ._pipelines import load_pipeline

    with reported():
        if output is not None:
            require_writable(output / "predictions.txt")
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
    nlp: "Language", pairs: list[Path], features: list[Path], *, eigenwords: bool
) -> dict[str, tuple[list[dict[str, float]], list[float]]]:
    from ..base.errors import Errors
    from ..models.eigenwords.similarity import pair_features, read_extra_columns, read_pairs

    if features and len(features) != len(pairs):
        raise ValueError(Errors.S223.format(n_features=len(features), n_pairs=len(pairs)))
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
