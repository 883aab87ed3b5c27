"""Make installable pipelines of treebanks: train, score, pack as wheels, and try the wheels.

    python scripts/release.py LIST.yml [--output output/release] [--table docs/models.md]

LIST.yml has an entry for each treebank (see `Entry`; examples are configs/releases_sample.yml and
configs/releases_ud.yml). Each gives a pipeline for each of its gears: "fast" is configs/pipeline.cfg,
"accurate" is configs/accurate.cfg.

What is finished is not made again, as long as the data, the settings and the version stay the same. Every
wheel is tried in a fresh environment without a compiler: it parses a sentence and draws it. --plugin is a
wheel of spacy-spectral for that; without it, one is built. The table of all pipelines is in the output
directory, too.
"""

# ruff: noqa: I001
import one_thread  # noqa: F401  # figures are per core

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import spacy
import srsly
from get_treebank import fetch, splits_of
from release_card import forbids_commerce, write_card, write_table
from thinc.api import Config
from wasabi import msg

import spacy_spectral
from spacy_spectral.base.files import output_path, require_writable, write_atomically
from spacy_spectral.cli.evaluate import evaluate
from spacy_spectral.raw import evaluate_raw, udeval
from spacy_spectral.treebank.documents import read_docs

ROOT = Path(__file__).parents[1]
GEARS = {"fast": "configs/pipeline.cfg", "accurate": "configs/accurate.cfg"}
_NO_LICENCE = "Its README has no line 'License: ...'. Set `licence` in its entry."
# words of the sentence that a wheel is tried on
_TYPED = range(5, 16)


@dataclass
class Entry:
    """A treebank to make pipelines of.

    treebank: A directory, or the name of a repository of Universal Dependencies.
    lang, name: Of the pipeline; by default from the names of the files: en_ewt-ud-train.conllu.
    licence: Of the treebank; by default from its README.
    url, author: Of the treebank.
    text: Plain text to learn eigenwords from, with `text_licence`.
    settings: What is different from the config, e.g. {corpora.train.limit: 60}.
    """

    treebank: str
    lang: str = ""
    name: str = ""
    licence: str = ""
    url: str = ""
    author: str = ""
    text: list[str] = field(default_factory=list)
    text_licence: str = ""
    gears: list[str] = field(default_factory=lambda: list(GEARS))
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0


@dataclass
class Release:
    """One pipeline of one treebank."""

    entry: Entry
    gear: str
    splits: dict[str, Path]
    work: Path

    @property
    def package(self) -> str:
        return f"{self.entry.lang}_{self.entry.name}_{self.gear}"

    @property
    def directory(self) -> Path:
        return self.work / self.package

    @property
    def wheel(self) -> str:
        return f"{self.package}-{spacy_spectral.__version__}-py3-none-any.whl"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("list", type=Path, help="the treebanks")
    parser.add_argument("--output", type=output_path, default=Path("output/release"))
    parser.add_argument("--work", type=output_path, default=Path("training/release"))
    parser.add_argument("--table", type=output_path, help="write the table of pipelines here, too")
    parser.add_argument("--url", default="", help="where the wheels will be, for the table")
    parser.add_argument("--plugin", type=Path, help="a wheel of spacy-spectral")
    parser.add_argument("--no-try", action="store_true", help="don't try the wheels")
    options = parser.parse_args()
    entries = read_list(options.list)
    try:
        udeval()
        for path in (options.output / "x", options.work / "x", options.table):
            if path is not None:
                require_writable(path)
    except ValueError as error:
        msg.fail(str(error), exits=1)
    failed = [entry.treebank for entry in entries if not release_all(entry, options)]
    table = write_table(
        [srsly.read_json(path) for path in sorted(options.output.glob("*.json"))], options.url
    )
    for path in filter(None, (options.output / "models.md", options.table)):
        write_atomically(path, table)
        msg.good(f"The table of all pipelines is in {path}")
    if failed:
        msg.fail(f"Not finished: {', '.join(failed)}", "Run it again to go on.", exits=1)


def read_list(path: Path) -> list[Entry]:
    """Read the treebanks of a list, or say what is wrong with it and end."""
    try:
        items = srsly.read_yaml(path)
        if not isinstance(items, list) or not items:
            raise ValueError("it is no list of treebanks")
        entries = [_entry(item) for item in items]
    except (OSError, ValueError) as error:
        msg.fail(f"Can't read {path}", str(error), exits=1)
    return entries


def _entry(item: Any) -> Entry:
    known = {option.name: option.default for option in fields(Entry)}
    unknown = set(item) - set(known) if isinstance(item, dict) else {str(item)}
    if unknown or not isinstance(item["treebank"], str):
        raise ValueError(f"{', '.join(unknown)}: known are {', '.join(known)}")
    entry = Entry(**item)
    wrong = [gear for gear in entry.gears if gear not in GEARS]
    if wrong:
        raise ValueError(f"{entry.treebank} has a gear {wrong[0]!r}, not one of {list(GEARS)}")
    return entry


def release_all(entry: Entry, options: argparse.Namespace) -> bool:
    """Make the pipelines of a treebank.

    RETURNS: Whether all are there.
    """
    try:
        source = Path(entry.treebank)
        if not source.exists():
            source = Path("assets") / entry.treebank
            if not source.exists():
                fetch(entry.treebank, source)
        splits = splits_of(source)
        complete(entry, source, splits["train"])
        for gear in entry.gears:
            make(Release(entry, gear, splits, options.work), options)
    except (OSError, ValueError, subprocess.CalledProcessError, SystemExit) as error:
        msg.fail(f"{entry.treebank}: {error}")
        return False
    return True


def complete(entry: Entry, source: Path, train: Path) -> None:
    """Fill in what an entry leaves open."""
    lang, _, rest = train.name.partition("_")
    entry.lang = entry.lang or lang
    entry.name = entry.name or re.sub(r"\W", "_", rest.partition("-")[0])
    readme = next(iter(sorted(source.glob("README*"))), None)
    if not entry.licence and readme is not None:
        found = re.search(r"^License:\s*(\S.*)$", readme.read_text("utf8"), flags=re.MULTILINE)
        entry.licence = found.group(1).strip() if found else ""
    if not entry.licence:
        raise ValueError(_NO_LICENCE)
    if entry.text and not entry.text_licence:
        raise ValueError("Set `text_licence` in its entry: the licence of the text.")
    if not re.fullmatch(r"[a-z]{2,3}", entry.lang) or not re.fullmatch(r"\w+", entry.name):
        raise ValueError(f"Set `lang` and `name` in its entry: {train.name} does not tell them.")


def make(release: Release, options: argparse.Namespace) -> None:
    """Make one wheel, unless it is there already."""
    print_of_data = fingerprint(release)
    wheel = options.output / release.wheel
    record = wheel.with_suffix(".json")
    if wheel.exists() and record.exists():
        if srsly.read_json(record)["spacy_spectral"]["inputs"] == print_of_data:
            msg.info(f"{wheel} is there already")
            return
        record.unlink()
    msg.divider(release.package)
    trained = train(release, print_of_data)
    with tempfile.TemporaryDirectory() as temporary:
        stage = Path(temporary) / "model"
        meta = describe(release, trained, stage)
        built = pack(stage, Path(temporary), release)
        meta["spacy_spectral"]["wheel_bytes"] = built.stat().st_size
        if not options.no_try:
            try_wheel(built, release, options)
        write_atomically(wheel, built.read_bytes())
    # written last: with it the pipeline is finished
    write_atomically(record, srsly.json_dumps(meta, indent=2) + "\n")
    msg.good(f"{wheel} ({meta['spacy_spectral']['wheel_bytes'] / 1e6:.1f} MB)")


def fingerprint(release: Release) -> str:
    """What a pipeline is made of, as a checksum."""
    entry = release.entry
    # where files are, and what else is made, changes nothing
    own = {**asdict(entry), "treebank": Path(entry.treebank).name, "text": [], "gears": []}
    total = hashlib.sha256(srsly.json_dumps(own, sort_keys=True).encode())
    total.update(f"{release.gear} {spacy_spectral.__version__}".encode())
    files = [*release.splits.values(), ROOT / GEARS[release.gear], *map(Path, entry.text)]
    for path in files:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def train(release: Release, inputs: str) -> dict[str, Any]:
    """Train a pipeline, unless it is there already.

    RETURNS: What is to be known about its training; "model" is where it is.
    """
    record = release.directory / "trained.json"
    if record.exists():
        trained = srsly.read_json(record)
        if trained["inputs"] == inputs:
            msg.info(f"{release.package} is trained already")
            return trained
    entry, splits = release.entry, release.splits
    settings: dict[str, Any] = {
        "nlp.lang": entry.lang,
        "paths.train": splits["train"],
        "paths.dev": splits["dev"],
        "system.seed": entry.seed,
    }
    words = 0
    if entry.text:
        vectors, words = learn_vectors(release)
        settings["paths.vectors"] = vectors
    part = release.directory / "part"
    command = ["train", GEARS[release.gear], "--output", part]
    for name, value in (settings | entry.settings).items():
        command += [f"--{name}", value]
    start = _cpu_seconds()
    _spacy(*command, cwd=ROOT)
    seconds = _cpu_seconds() - start
    model = release.directory / "model"
    shutil.rmtree(model, ignore_errors=True)
    (part / "model-best").rename(model)
    shutil.rmtree(part)
    trained = {"inputs": inputs, "cpu_seconds": seconds, "model": str(model), "text_words": words}
    write_atomically(record, srsly.json_dumps(trained))
    return trained


def learn_vectors(release: Release) -> tuple[Path, int]:
    """Learn eigenwords from the text of an entry, once for all gears.

    RETURNS: Where they are, and from how many pieces between spaces.
    """
    entry = release.entry
    total = hashlib.sha256(f"{spacy_spectral.__version__} {entry.lang} {entry.seed}".encode())
    n_words = 0
    for path in entry.text:
        data = Path(path).read_bytes()
        total.update(data)
        n_words += len(data.split()) if not path.endswith(".gz") else 0
    vectors = (release.work / f"vectors-{total.hexdigest()[:16]}").absolute()
    if not vectors.exists():
        part = vectors.with_suffix(".part")
        options = ["--output", part, "--lang", entry.lang, "--seed", entry.seed]
        _spacy("spectral", "eigenwords", *(Path(path).absolute() for path in entry.text), *options)
        part.rename(vectors)
    return vectors, n_words


def _spacy(*arguments: Any, cwd: Path | None = None, silent: bool = False) -> None:
    """Run a command of spaCy in a process of its own; if silent, it speaks only when it fails."""
    # paths are of where we are, configs are named from the root of the project
    shown = [str(a.absolute()) if isinstance(a, Path) else str(a) for a in arguments]
    command = [sys.executable, "-m", "spacy", *shown]
    done = subprocess.run(command, cwd=cwd, capture_output=silent, text=True)
    if done.returncode:
        print(done.stdout or "", done.stderr or "", sep="\n")
        raise ValueError(f"'spacy {' '.join(shown[:2])} ...' failed")


def _cpu_seconds() -> float:
    """The CPU time of all commands so far."""
    times = os.times()
    return times.children_user + times.children_system


def describe(release: Release, trained: dict[str, Any], stage: Path) -> dict[str, Any]:
    """Make the directory that is packed: the pipeline without paths of this machine, its scores, its card.

    RETURNS: The content of meta.json.
    """
    entry, splits = release.entry, release.splits
    shutil.copytree(trained["model"], stage)
    config = Config().from_disk(stage / "config.cfg", interpolate=False)
    config["paths"] = dict.fromkeys(config["paths"])
    config.to_disk(stage / "config.cfg")
    meta = srsly.read_json(stage / "meta.json")
    (stage / "meta.json").unlink()
    bytes_of_model = digest(stage)
    write_atomically(stage / "meta.json", srsly.json_dumps(meta, indent=2))
    nlp = spacy.load(stage)
    msg.info(f"Scoring {release.package} on {splits['test'].name}")
    raw = evaluate_raw(nlp, splits["test"])
    gold, _ = evaluate(nlp, splits["test"])
    title = Path(entry.treebank).name
    sources = [{"name": title, "url": entry.url, "author": entry.author, "license": entry.licence}]
    if entry.text:
        names = ", ".join(Path(path).name for path in entry.text)
        sources.append({"name": f"Text: {names}", "license": entry.text_licence})
    licences = list(dict.fromkeys(source["license"] for source in sources))
    meta |= {
        "lang": entry.lang,
        "name": f"{entry.name}_{release.gear}",
        "version": spacy_spectral.__version__,
        "description": "From raw text to dependency trees with calibrated probabilities, "
        f"trained on {title}.",
        "author": "spacy-spectral",
        "license": " and ".join(licences),
        "sources": [{key: value for key, value in s.items() if value} for s in sources],
        "performance": {f"raw_{name}": value for name, value in raw.items()}
        | {f"gold_{name}": value for name, value in gold.items()}
        | {"speed": raw["words_per_second"]},
        "spacy_spectral": {
            "config": GEARS[release.gear],
            "gear": release.gear,
            "treebank": title,
            "commercial": not any(map(forbids_commerce, licences)),
            "seed": entry.seed,
            "settings": entry.settings,
            "text_words": trained["text_words"],
            "scored_on": "dev" if splits["test"] == splits["dev"] else "test",
            "training_cpu_seconds": trained["cpu_seconds"],
            "model_bytes": sum(path.stat().st_size for path in stage.rglob("*") if path.is_file()),
            "sha256": bytes_of_model,
            "inputs": trained["inputs"],
        },
    }
    write_atomically(stage / "meta.json", srsly.json_dumps(meta, indent=2))
    write_atomically(stage / "README.md", write_card(meta, asdict(entry), typed_sentence(release)))
    return meta


def digest(directory: Path) -> str:
    """The checksum of all files of a directory: two trainings on the same data give the same."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            total.update(path.relative_to(directory).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def typed_sentence(release: Release) -> str:
    """A short sentence of the development set, to try a pipeline on."""
    docs = read_docs(
        release.splits["dev"], spacy.blank(release.entry.lang).vocab, syntactic_words=False
    )
    found = [doc.text.strip() for doc in docs if len(doc) in _TYPED and '"' not in doc.text]
    return found[0] if found else "?"


def pack(stage: Path, directory: Path, release: Release) -> Path:
    """Pack a pipeline as a wheel."""
    packages = directory / "packages"
    packages.mkdir()
    with _the_same_time():
        _spacy("package", stage, packages, "--build", "wheel", silent=True)
    (wheel,) = packages.glob("*/dist/*.whl")
    if wheel.name != release.wheel:
        raise ValueError(f"the wheel is called {wheel.name}, not {release.wheel}")
    return wheel


@contextmanager
def _the_same_time() -> Iterator[None]:
    """Give the files in wheels the same time stamp: the same content gives the same wheel."""
    known = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = known or "315532800"
    try:
        yield
    finally:
        if known is None:
            del os.environ["SOURCE_DATE_EPOCH"]


def try_wheel(wheel: Path, release: Release, options: argparse.Namespace) -> None:
    """Install a pipeline in a fresh environment without a compiler, parse a sentence, draw it."""
    plugin = options.plugin or plugin_wheel(options.work.absolute())
    with tempfile.TemporaryDirectory() as temporary:
        python = fresh_environment(Path(temporary))
        run = _without_compiler(python, Path(temporary))
        run("pip", "install", "--quiet", str(plugin.absolute()), str(wheel))
        sentence, drawn = typed_sentence(release), Path(temporary) / "parse.html"
        run("spacy", "spectral", "nbest", release.package, sentence, "-k", "2")
        run("spacy", "spectral", "draw", release.package, sentence, "--output", str(drawn))
        if "<svg" not in drawn.read_text("utf8"):
            raise ValueError(f"{release.wheel} draws nothing")


def fresh_environment(directory: Path) -> Path:
    """RETURNS: Python of a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    windows = directory / "Scripts" / "python.exe"
    return windows if windows.exists() else directory / "bin" / "python"


def _without_compiler(python: Path, directory: Path) -> Callable[..., Any]:
    """RETURNS: Runs a module of an environment that sees nothing but itself."""
    hidden = ("CC", "CXX", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = str(python.parent)

    def run(*arguments: str) -> None:
        subprocess.run([str(python), "-m", *arguments], check=True, env=environment, cwd=directory)

    return run


@cache
def plugin_wheel(work: Path) -> Path:
    """Build a wheel of spacy-spectral, once."""
    directory = work / "plugin"
    shutil.rmtree(directory, ignore_errors=True)
    command = [
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(directory),
        str(ROOT),
    ]
    subprocess.run([sys.executable, *command], check=True)
    (wheel,) = directory.glob("*.whl")
    return wheel


if __name__ == "__main__":
    main()
