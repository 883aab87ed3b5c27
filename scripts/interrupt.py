"""Kill `spacy spectral parse` at random moments, and see whether it goes on as if nothing had happened.

    python scripts/interrupt.py --train TREEBANK [--kills 200] [--files 12] [--seed 0]

A small pipeline (see kinds.py) is trained on the first sentences of a treebank. Files of its text, some of
them large enough for several parts, are parsed again and again by two instances at once to one directory,
which is inside of that of the texts. They are killed (SIGKILL) at random moments, until that has happened
--kills times; before and meanwhile texts change, shrink, grow and are swapped. Parts have --part characters,
so that kills fall between and into many of them.

In the end two instances run to their ends at once. Printed is what was done, and how many files

    missing     were not written
    different   are not byte for byte what one run to another directory gives
    too many    should not be there
    invalid     are no CoNLL-U
    half        temporary files were left by those that were killed; an hour later they are removed

The exit status is 1 if there is one of the first four, or one of the last an hour later.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline_rivals import note
from wasabi import msg

from kinds import KINDS, Data, train
from spacy_spectral.treebank.check import check_treebanks

COLUMNS = (
    "kills",
    "parts written",
    "changes",
    "missing",
    "different",
    "too many",
    "invalid",
    "half",
)
# the command itself, but for the size of parts
_COMMAND = """
import sys
from spacy.cli import setup_cli
from spacy_spectral.treebank import texts
part = int(sys.argv[1])
texts.DOCUMENT, texts.PART = part // 4, part
sys.argv[:2] = "spacy", "spectral", "parse"
setup_cli()
"""


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        data = Data(directory, options.train, options.train, options.sentences)
        train(KINDS["SHAG"], data).to_disk(directory / "model")
        trial = Trial(directory, data.texts(), options)
        while trial.result["kills"] < options.kills:
            trial.change()
            trial.kill()
            note(f"{trial.result['kills']} kills")
        result = trial.finish()
    msg.table([tuple(result[column] for column in COLUMNS)], header=COLUMNS, divider=True)
    if any(result[column] for column in ("missing", "different", "too many", "invalid", "left")):
        sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", type=Path, required=True, help="a treebank, CoNLL-U or .spacy")
    parser.add_argument("--sentences", type=int, default=200, help="to train on")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--part", type=int, default=2000, help="characters of a part")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Trial:
    """A directory of texts, and what is done to it.

    directory (Path): A place for files, with the pipeline.
    lines (List[str]): What texts are made of.
    """

    def __init__(self, directory: Path, lines: list[str], options: argparse.Namespace) -> None:
        self.directory = directory
        self.texts, self.parsed = directory / "texts", directory / "texts" / "parsed"
        self.lines = lines
        self.random = random.Random(options.seed)
        self.part = options.part
        self.result = dict.fromkeys(("kills", "changes"), 0)
        # numbers like those of parts, so that some names come near each other
        names = [
            f"{'ab'[i % 2]}/text{i // 4}{('', '-00007')[i // 2 % 2]}.txt"
            for i in range(options.files)
        ]
        self.files = [self.texts / name for name in names]
        for path in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.write(path)
        self.result["changes"] = 0

    def write(self, path: Path) -> None:
        """Give a file another text. Those with short names have up to six parts."""
        most = 0.5 if "-" in path.name else 5.5
        size, words = int(self.random.uniform(0, most) * self.part), ""
        while len(words) < size:
            words += self.random.choice(self.lines) + self.random.choice("\n ")
        # as a good editor: by a new name, so that nobody reads half of it
        path.with_name(".new").write_text(words, encoding="utf8")
        os.replace(path.with_name(".new"), path)
        self.result["changes"] += 1

    def change(self) -> None:
        """Now and then a text changes, or two are swapped."""
        if self.random.random() < 0.5:
            self.write(self.random.choice(self.files))
        if self.random.random() < 0.1:
            one, other = self.random.sample([f for f in self.files if "-" not in f.name], 2)
            content = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(content)
            self.result["changes"] += 2

    def start(self, output: Path) -> subprocess.Popen:
        arguments = (self.part, self.directory / "model", self.texts, "-o", output)
        command = [sys.executable, "-c", _COMMAND, *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def kill(self) -> None:
        """Two begin at different moments, and are killed at different moments while files come to be."""
        before = self.n_records()
        both = [self.start(self.parsed)]
        time.sleep(self.random.uniform(0, 0.5))
        both.append(self.start(self.parsed))
        # the clock begins when the first file is recorded, as loading takes longest and changes nothing
        deadline = time.monotonic() + 60
        while self.n_records() == before and time.monotonic() < deadline:
            if all(process.poll() is not None for process in both):
                break
            time.sleep(0.005)
        for process in self.random.sample(both, 2):
            time.sleep(self.random.expovariate(5))
            if self.random.random() < 0.3:
                self.write(self.random.choice(self.files))
            self.result["kills"] += process.poll() is None
            process.send_signal(signal.SIGKILL)
            output = process.communicate()[0]
            # an end of its own is either a good one, or a text has changed while it ran
            if process.returncode not in (0, -signal.SIGKILL) and "S621" not in output:
                raise SystemExit(f"Exit status {process.returncode}: {output}")

    def n_records(self) -> int:
        path = self.parsed / "parse.jsonl"
        return path.stat().st_size if path.exists() else 0

    def finish(self) -> dict[str, int]:
        """RETURNS (Dict[str, int]): What was done, and what came out of it."""
        both = [self.start(self.parsed), self.start(self.parsed)]
        outputs = [process.communicate()[0] for process in both]
        if any(process.returncode for process in both):
            raise SystemExit("\n".join(outputs))
        half = [p for p in self.parsed.rglob(".*") if p.is_file()]
        alone = self.directory / "alone"
        # what was parsed is not among the texts of the other run
        shutil.move(self.parsed, self.directory / "parsed")
        process = self.start(alone)
        if process.wait():
            raise SystemExit(process.communicate()[0])
        shutil.move(self.directory / "parsed", self.parsed)
        found, expected = contents(self.parsed), contents(alone)
        problems = check_treebanks([self.parsed / name for name in found if found[name]])
        for path in half:
            os.utime(path, (0, 0))
        last = self.start(self.parsed)
        last.communicate()
        common = found.keys() & expected.keys()
        lines = (self.parsed / "parse.jsonl").read_text("utf8").splitlines()
        return self.result | {
            "parts written": len(lines) - 1,
            "missing": len(expected.keys() - found.keys()),
            "different": sum(found[name] != expected[name] for name in common),
            "too many": len(found.keys() - expected.keys()),
            "invalid": sum(bool(report.problems) for report in problems),
            "half": len(half),
            "left": sum(path.exists() for path in half),
        }


def contents(directory: Path) -> dict[str, bytes]:
    """RETURNS (Dict[str, bytes]): All visible files but the record."""
    paths = [p for p in directory.rglob("*") if p.is_file() and p.name != "parse.jsonl"]
    return {
        p.relative_to(directory).as_posix(): p.read_bytes()
        for p in paths
        if not p.name.startswith(".")
    }


if __name__ == "__main__":
    main()
