"""`spacy spectral teach`: a fast pipeline learns from a better one, by texts that the better one has parsed.

The directory keeps what is done: the parsed texts with their own record (see `parse_record`), the pipelines,
and `teach.json`, which says what they were made of and is written after each of them. So the command can be
killed at any moment; started again it does what is left.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import load_pipeline, output_option, reported, spectral_cli
from .parse import Way, interruptible, parse_files

if TYPE_CHECKING:
    from thinc.api import Config

RECORD = "teach.json"
CORPUS = "corpora.silver"
# With so much more text, features must occur in more of its parts. Of a parser that was trained on 77 k gold
# and 200 k silver tokens, LAS on other parts of UD_English-EWT was 81.80, 81.80 and 81.66 with 2 (the default
# of the model), 5 and 10; the table had 4.8, 2.9 and 2.0 million weights, as many as without silver tokens.
_MIN_BLOCKS = 10
# Its table is larger, but it is more confident: fewer arcs are enough. On other genres than its treebank's
# (the development set of UD_English-GUM), LAS was 83.23, 83.12, 83.00 and 82.95 with 0.01, 0.02, 0.025 and
# 0.03, at 4.18, 4.01, 4.48 and 4.54 times spaCy's speed, in another run 3.39, 3.72, - and 3.84; untaught
# with 0.01 it was 80.06, at 4.44 and 3.74. A taught pipeline is not to be slower.
_PARSE_THRESHOLD = 0.03
# A network needs fewer passes over more text: with four times as many silver as gold tokens, 10 passes take
# twice as long as 24 over the gold ones alone, and LAS on UD_English-EWT is 0.8 points higher.
_EPOCHS = 10
# Models that can learn from silver trees.
_LEARNERS = ("LogLinear.v1", "Biaffine.v2", "Product.v1")
_SCORES = {"UAS": "uas", "LAS": "las", "Tags": "tag_acc"}


@spectral_cli.command("teach", short_help="Let a fast pipeline learn from a better one.")
def teach_cli(
    teacher: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    texts: Annotated[
        list[Path], typer.Argument(help="Text, .jsonl, CoNLL-U (.gz, too), directories")
    ],
    gold: Annotated[Path, typer.Option("--gold", help="The training treebank")],
    dev: Annotated[Path, typer.Option("--dev", help="The development treebank")],
    config: Annotated[Path, typer.Option("--config", "-c", help="The config of the student")],
    output: Annotated[
        Path, output_option("--output", "-o", help="Directory to write to", first=RECORD)
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", help="What to compare with; else a student is trained untaught"),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another value in the config, e.g. corpora.silver.weight=0.5"),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line of a text is a document of its own")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", "-j", help="Processes", min=1)] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Train anew, whatever is in the directory")
    ] = False,
) -> None:
    """Let a fast pipeline learn from a better one.

    The teacher parses the texts. The student is trained on the gold treebank, and its parser on the
    teacher's trees, too. In the end both are scored on the development treebank, beside a student that was
    not taught.

    What is finished when the command is started again is not done again.
    """
    from spacy.cli._util import parse_config_overrides
    from wasabi import msg

    from ..pipeline.training_data import find_pretrained

    with reported(), interruptible(True, overwrite):
        overrides = parse_config_overrides([f"--{setting}" for setting in changed or ()])
        student = student_config(config, gold, dev, output / "silver", overrides)
        # not when the teacher has parsed everything
        find_pretrained(student.interpolate()["paths"].get("pretrained"))
        inputs = {
            "teacher": _pipeline_digest(teacher),
            "texts": [digest_of(path) for path in texts],
            "lines": lines,
            "gold": digest_of(gold),
            "dev": digest_of(dev),
            **{
                name: _digest_or_none(student.interpolate()["paths"].get(name))
                for name in ("vectors", "pretrained")
            },
            "student": _without_paths(student),
            **_other_corpora(student),
        }
        if against is not None:
            load_pipeline(against)
        for path in (gold, dev):
            require_sound(path)
        done = Done.begin(output, inputs, overwrite=overwrite)
        msg.divider("Texts parsed by the teacher")
        way = Way("conllu", probs=True)
        total = parse_files(
            teacher,
            texts,
            output / "silver",
            way,
            lines=lines,
            workers=workers,
            # what this teacher has parsed is good for other students, too
            overwrite=overwrite and done.has_other_trees,
        )
        msg.good(f"{total}: {output / 'silver'}")
        done.train("taught", student, output)
        pipelines = {"taught": str(output / "model-best")}
        if against is None:
            untaught = student_config(config, gold, dev, None, overrides)
            done.train("untaught", untaught, output / "untaught")
            pipelines["untaught"] = str(output / "untaught" / "model-best")
        else:
            pipelines[against] = against
        pipelines["teacher"] = teacher
        msg.divider(f"Scores on {dev.name}")
        print_scores({name: done.score(name, model, dev) for name, model in pipelines.items()})
    msg.good(f"Pipeline in {output / 'model-best'}")


def student_config(
    path: Path, gold: Path, dev: Path, silver: Path | None, overrides: dict[str, Any]
) -> "Config":
    """The config of a student, which is all that `spacy train` needs; without silver trees that of one that
    is not taught."""
    from spacy.util import load_config

    from ..base.errors import Errors, SpectralError

    for given in (path, gold, dev):
        if not given.exists():
            raise SpectralError(Errors.S201.format(path=given))
    config = load_config(path, overrides=overrides, interpolate=False)
    config.setdefault("paths", {}).update(train=str(gold), dev=str(dev))
    config["paths"]["silver"] = None if silver is None else str(silver)
    section, _, name = CORPUS.partition(".")
    reader = config.setdefault(section, {}).setdefault(name, {})
    reader.setdefault("@readers", "spacy-spectral.Silver.v1")
    reader["path"] = "${paths.silver}"
    parsers = {
        name: block
        for name, block in config["components"].items()
        if block.get("factory") == "spectral_parser"
    }
    if not parsers:
        raise SpectralError(Errors.S645.format(path=path))
    read = config.interpolate()
    for name, block in parsers.items():
        settings = read["components"][name].get("model", {})
        model = settings.get("@architectures", "spacy-spectral.SHAG.v1")
        model = model.removeprefix("spacy-spectral.")
        if model not in _LEARNERS:
            raise SpectralError(Errors.S640.format(model=model))
        own = config["initialize"].setdefault("components", {}).setdefault(name, {})
        # those of the config stay
        others = [name for name in listed_corpora(own) if name != CORPUS]
        own["silver_corpus"] = [CORPUS, *others]
        if silver is not None:
            _fit_to_more_text(block["model"], settings, f"components.{name}.model", overrides)
    read = config.interpolate()
    for name, wanted in (("train", gold), ("dev", dev)):
        if read["corpora"].get(name, {}).get("path") != str(wanted):
            raise SpectralError(Errors.S646.format(path=path, name=name))
    return config


def _fit_to_more_text(
    model: dict[str, Any], read: dict[str, Any], path: str, overrides: dict[str, Any]
) -> None:
    """Change settings of a model, and of the experts of a product, for several times as much text, but for
    those that the user has changed.

    read: The same with the values that variables of the config stand for.
    """
    name = str(read.get("@architectures", "")).removeprefix("spacy-spectral.")
    if name == "LogLinear.v1" and f"{path}.min_blocks" not in overrides:
        model["min_blocks"] = max(read.get("min_blocks", 0), _MIN_BLOCKS)
    # experts of products have none: others are to have their say
    threshold = read.get("parse_threshold")
    if (
        name == "LogLinear.v1"
        and threshold is not None
        and f"{path}.parse_threshold" not in overrides
    ):
        model["parse_threshold"] = max(threshold, _PARSE_THRESHOLD)
    if name == "Biaffine.v2" and f"{path}.epochs" not in overrides:
        model["epochs"] = min(read.get("epochs", _EPOCHS), _EPOCHS)
    for own, expert in read.get("experts", {}).items():
        # an expert may be a variable, too
        if not isinstance(model["experts"][own], dict):
            model["experts"][own] = deepcopy(expert)
        _fit_to_more_text(model["experts"][own], expert, f"{path}.experts.{own}", overrides)


def require_sound(path: Path) -> None:
    """Raise the first problem of a treebank before the long work, not after it."""
    from spacy.vocab import Vocab

    from ..treebank.documents import read_docs

    for _ in read_docs(path, Vocab(), n_sents=0):
        pass


@dataclass
class Done:
    """What was done in a directory before, and is done now. Whether the parsed text there may be another
    teacher's: `has_other_trees`."""

    directory: Path
    inputs: dict[str, Any]
    stages: list[str] = field(default_factory=list)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    has_other_trees: bool = False

    @classmethod
    def begin(cls, directory: Path, inputs: dict[str, Any], *, overwrite: bool) -> "Done":
        """Read what was done of the same inputs."""
        import srsly

        from ..base.errors import Errors, SpectralError

        path = directory / RECORD
        if path.exists():
            try:
                found = srsly.read_json(path)
                read = cls(directory, dict(found["inputs"]), found["stages"], found["scores"])
            except (ValueError, KeyError, TypeError) as error:
                if not overwrite:
                    raise SpectralError(Errors.S648.format(path=path)) from error
                read = cls(directory, {})
            other = [name for name in inputs if read.inputs.get(name) != inputs[name]]
            if not other and not overwrite:
                return read
            if not overwrite:
                raise SpectralError(Errors.S649.format(path=directory, names=", ".join(other)))
            has_other_trees = not {"teacher", "lines"}.isdisjoint(other)
        else:
            there = any((directory / name).exists() for name in ("model-best", "untaught"))
            if there and not overwrite:
                raise SpectralError(Errors.S647.format(path=directory))
            has_other_trees = True
        done = cls(directory, inputs, has_other_trees=has_other_trees)
        done.write()
        return done

    def write(self) -> None:
        import srsly

        from ..base.files import write_atomically

        known = {"inputs": self.inputs, "stages": self.stages, "scores": self.scores}
        write_atomically(self.directory / RECORD, srsly.json_dumps(known, indent=2) + "\n")

    def train(self, stage: str, config: "Config", directory: Path) -> None:
        """Train a pipeline by `spacy train`, unless that is done, and write it, with its config, when it is
        whole."""
        from spacy.cli.train import train
        from wasabi import msg

        from ..base.files import write_directory

        if stage in self.stages and (directory / "model-best").is_dir():
            msg.good(f"Trained before: {directory / 'model-best'}")
            return

        def write(new: Path) -> None:
            config.to_disk(new / "config.cfg")
            train(new / "config.cfg", new)
            rmtree(new / "model-last", ignore_errors=True)

        msg.divider(f"The {stage} student")
        write_directory(directory, write)
        self.stages = sorted({*self.stages, stage})
        self.write()

    def score(self, name: str, model: str, dev: Path) -> dict[str, float]:
        """Scores on the treebank's words and sentences. Those of pipelines of this directory are
        remembered."""
        from .evaluate import evaluate

        if name not in self.scores:
            scores, _ = evaluate(load_pipeline(model), dev)
            found = {key: scores[key] for key in _SCORES.values() if scores[key] is not None}
            if name not in ("taught", "untaught", "teacher"):
                return found
            self.scores[name] = found
            self.write()
        return self.scores[name]


def print_scores(scores: dict[str, dict[str, float]]) -> None:
    """Scores of pipelines, and what the first has gained over the second."""
    from wasabi import msg

    rows = [
        (name, *(f"{100 * own[key]:.2f} %" if key in own else "-" for key in _SCORES.values()))
        for name, own in scores.items()
    ]
    taught, other = list(scores.values())[:2]
    gained = (
        f"{100 * (taught[key] - other[key]):+.2f}" if key in taught and key in other else "-"
        for key in _SCORES.values()
    )
    rows.insert(2, ("gained", *gained))
    msg.table(rows, header=("", *_SCORES), divider=True, aligns=("l", "r", "r", "r"))


def digest_of(path: Path) -> str:
    """What tells the contents of a file, or of the files of a directory, from others."""
    from ..base.errors import Errors, SpectralError

    if not path.exists():
        raise SpectralError(Errors.S201.format(path=path))
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    digest = blake2b(digest_size=16)
    for file in files:
        if path.is_dir():
            digest.update(file.relative_to(path).as_posix().encode() + b"\0")
        digest.update(_file_digest(file))
    return digest.hexdigest()


def _file_digest(path: Path) -> bytes:
    digest = blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _digest_or_none(path: str | None) -> str | None:
    return None if path is None else digest_of(Path(path))


def _pipeline_digest(name: str) -> str:
    from .parse_record import fingerprint

    return fingerprint(load_pipeline(name))


def _other_corpora(config: "Config") -> dict[str, str | None]:
    """What tells the contents of further silver corpora from others, by their names in the config."""
    read = config.interpolate()
    components = read["initialize"].get("components", {}).values()
    listed = {name for own in components for name in listed_corpora(own)} - {CORPUS}
    paths = {name: read["corpora"].get(name.partition(".")[2], {}).get("path") for name in listed}
    return {name: _digest_or_none(path) for name, path in sorted(paths.items())}


def listed_corpora(settings: Mapping[str, Any]) -> list[str]:
    """The corpora of the setting `silver_corpus`, which is a name, a list of names, or nothing."""
    listed = settings.get("silver_corpus") or []
    return [listed] if isinstance(listed, str) else list(listed)


def _without_paths(config: "Config") -> str:
    """The config as text, the same wherever files are."""
    other = config.copy()
    other["paths"] = dict.fromkeys(sorted(config["paths"]))
    return blake2b(other.to_str(interpolate=False).encode(), digest_size=16).hexdigest()
