"""What parsing much text costs: CPU seconds, memory, Dask's share, and what is lost when something dies.

    python scripts/benchmark_scale.py MODEL TEXT [--files 24] [--size 100000] [--dask 1 2 4]

The beginning of a text is cut into --files files of --size characters, and `spacy spectral parse` parses
them: in one process, in two, and on a Dask cluster of this machine with as many workers as --dask says. Then
a worker is killed (SIGKILL) when half of the files are there, and in another run the scheduler; after that
the cluster is started anew and the same command is given once more.

Times are CPU seconds of processes, with all that they load, because machines do other work, too. "Longest" is
the process that computes longest: so long the run takes if each process has a core of its own. Speed-up is
that of one process divided by it. The table of large texts leaves out what it takes to start. The exit
status is 1 if any run gives other bytes than one process does. Needs the extra dask. --json FILE keeps the
figures.
"""

import one_thread  # noqa: F401

# isort: split
import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import srsly
from wasabi import msg

from spacy_spectral.base.files import output_path, write_atomically

_COMMAND = [sys.executable, "-m", "spacy", "spectral", "parse"]
_SCALES = (10**6, 10**9, 10**12)


class Use(NamedTuple):
    """What a process and its children took."""

    cpu: float
    peak_mb: float


_NOTHING = Use(0.0, 0.0)


class Process:
    """A process that is not awaited by anybody else."""

    def __init__(self, command: Sequence[str | Path], log: Path):
        with log.open("ab") as stream:
            self._popen = subprocess.Popen(list(map(str, command)), stdout=stream, stderr=stream)
        self.log = log
        self.status: int | None = None

    def end(self, signal_: signal.Signals | None = None) -> Use:
        """Wait for its end, or end it."""
        if signal_ is not None:
            os.kill(self._popen.pid, signal_)  # `send_signal` would take what wait4 is to tell
        _, status, used = os.wait4(self._popen.pid, 0)
        self.status = self._popen.returncode = os.waitstatus_to_exitcode(status)
        scale = 2**20 if sys.platform == "darwin" else 2**10
        return Use(used.ru_utime + used.ru_stime, used.ru_maxrss / scale)

    @property
    def is_running(self) -> bool:
        return self.status is None


@dataclass
class Cluster:
    """A Dask cluster of processes on this machine."""

    n: int
    directory: Path
    scheduler: Process = field(init=False)
    workers: list[Process] = field(init=False)
    ended: list[Use] = field(default_factory=list)

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        start = [sys.executable, "-m"]
        own = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        log = self.directory / "dask.log"
        self.scheduler = Process([*start, "distributed.cli.dask_scheduler", *own], log)
        worker = [*start, "distributed.cli.dask_worker", self.address]
        worker += ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        worker += ["--local-directory", str(self.directory)]
        self.workers = [Process(worker, log) for _ in range(self.n)]
        self._await()

    def _await(self) -> None:
        from dask.distributed import Client

        with Client(self.address, timeout=120) as client:
            client.wait_for_workers(self.n, timeout=120)

    def kill_worker(self) -> None:
        self.ended.append(self.workers.pop().end(signal.SIGKILL))

    def kill_scheduler(self) -> None:
        self.scheduler.end(signal.SIGKILL)

    def stop(self) -> tuple[Use, list[Use]]:
        """What the scheduler and the workers took."""
        workers = [worker.end(signal.SIGTERM) for worker in self.workers]
        scheduler = _NOTHING
        if self.scheduler.is_running:
            scheduler = self.scheduler.end(signal.SIGTERM)
        return scheduler, workers + self.ended


@dataclass
class Run:
    """One way to parse all files."""

    name: str
    seconds: float
    main: Use
    workers: list[Use] = field(default_factory=list)
    scheduler: Use = _NOTHING
    note: str = ""

    @property
    def cpu(self) -> float:
        return sum(use.cpu for use in (self.main, self.scheduler, *self.workers))

    @property
    def longest(self) -> float:
        return max(use.cpu for use in (self.main, self.scheduler, *self.workers))

    @property
    def peak_mb(self) -> float:
        return max((use.peak_mb for use in self.workers), default=self.main.peak_mb)


def cut(text: Path, directory: Path, *, files: int, size: int) -> None:
    """Write files of whole lines."""
    directory.mkdir()
    with text.open(encoding="utf8") as stream:
        for i in range(files):
            lines = stream.readlines(size)
            if not lines:
                raise SystemExit(f"{text} has fewer than {files * size} characters")
            (directory / f"{i:03}.txt").write_text("".join(lines), encoding="utf8")


def written(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(output.glob("*.conllu"))}


def parse(
    model: str, texts: Path, output: Path, *options: str, meanwhile: Callable[[], Any] | None = None
) -> tuple[Process, Use, float]:
    """Run the command. When half of the files are there, something else may be done."""
    begin = time.perf_counter()
    log = output.with_name(f"{output.name}.log")
    process = Process([*_COMMAND, model, texts, "--output", output, *options], log)
    if meanwhile is not None:
        wanted = len(list(texts.iterdir())) // 2
        while not output.exists() or len(list(output.glob("*.conllu"))) < wanted:
            time.sleep(0.05)
        meanwhile()
    use = process.end()
    return process, use, time.perf_counter() - begin


def succeeded(process: Process) -> None:
    if process.status != 0:
        raise SystemExit(process.log.read_text(encoding="utf8"))


def on_dask(model: str, texts: Path, output: Path, *, n: int) -> Run:
    own = Cluster(n, output.parent)
    process, main, seconds = parse(model, texts, output, "--scheduler", own.address)
    scheduler, workers = own.stop()
    succeeded(process)
    return Run(f"Dask, {n} worker{'s' * (n > 1)}", seconds, main, workers, scheduler)


def with_killed_worker(model: str, texts: Path, output: Path) -> Run:
    own = Cluster(2, output.parent)
    options = ("--scheduler", own.address)
    process, main, seconds = parse(model, texts, output, *options, meanwhile=own.kill_worker)
    scheduler, workers = own.stop()
    succeeded(process)
    note = "the other worker did the rest"
    return Run("Dask, 2 workers, one killed", seconds, main, workers, scheduler, note)


def with_killed_scheduler(model: str, texts: Path, output: Path) -> Run:
    own = Cluster(2, output.parent)
    options = ("--scheduler", own.address)
    first = parse(model, texts, output, *options, meanwhile=own.kill_scheduler)
    _, lost = own.stop()
    if first[0].status == 0:
        raise SystemExit("The command did not notice that the scheduler is gone.")
    finished = len(written(output))
    own = Cluster(2, output.parent)
    process, main, seconds = parse(model, texts, output, "--scheduler", own.address)
    scheduler, workers = own.stop()
    succeeded(process)
    note = f"the command ended with an error; given again, it kept {finished} files"
    use = Use(main.cpu + first[1].cpu, max(main.peak_mb, first[1].peak_mb))
    workers = [
        Use(a.cpu + b.cpu, max(a.peak_mb, b.peak_mb)) for a, b in zip(workers, lost, strict=True)
    ]
    return Run(
        "Dask, 2 workers, scheduler killed", seconds + first[2], use, workers, scheduler, note
    )


def count_words(parses: dict[str, bytes]) -> int:
    lines = (line for data in parses.values() for line in data.split(b"\n"))
    return sum(line[:1].isdigit() and line.split(b"\t", 1)[0].isdigit() for line in lines)


def print_runs(runs: list[Run], words: int) -> None:
    header = (
        "",
        "seconds",
        "CPU s",
        "longest",
        "speed-up",
        "overhead",
        "scheduler",
        "command",
        "peak",
    )
    first = runs[0]
    rows = [
        (
            run.name,
            f"{run.seconds:.0f}",
            f"{run.cpu:.1f}",
            f"{run.longest:.1f}",
            f"{first.longest / run.longest:.2f}",
            f"{run.cpu / first.cpu - 1:+.0%}",
            f"{run.scheduler.cpu:.1f}",
            f"{run.main.cpu:.1f}" if run.workers else "",
            f"{run.peak_mb:.0f} MB",
        )
        for run in runs
    ]
    msg.table(rows, header=header, divider=True, aligns=("l",) + ("r",) * 8)
    for run in runs:
        if run.note:
            print(f"{run.name}: {run.note}.")


def print_scales(rate: float, bytes_a_word: float) -> None:
    rows = []
    for words in _SCALES:
        hours = words / rate / 3600
        cores = hours / 24
        rows.append(
            (
                f"10^{len(str(words)) - 1}",
                f"{hours:,.2f}",
                f"{cores:,.2f}",
                f"{words * bytes_a_word / 1e9:,.2f} GB",
            )
        )
    header = ("words", "core hours", "cores for one day", "CoNLL-U")
    msg.table(rows, header=header, divider=True, aligns=("r",) * 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", help="a pipeline: directory or installed package")
    parser.add_argument("text", type=Path, help="running text, a passage a line")
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--size", type=int, default=100_000, help="characters of a file")
    parser.add_argument("--dask", type=int, nargs="*", default=[1, 2, 4], help="numbers of workers")
    parser.add_argument("--json", type=output_path, help="write all figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(options, Path(name))
    if options.json:
        write_atomically(options.json, srsly.json_dumps(found, indent=2).encode("utf8"))
    if found["different"]:
        msg.fail(f"Other bytes than from one process: {', '.join(found['different'])}", exits=1)
    msg.good("All runs gave the same bytes")


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    model, texts = options.model, work / "texts"
    cut(options.text, texts, files=options.files, size=options.size)
    cut(options.text, work / "one", files=1, size=1)
    process, start, _ = parse(model, work / "one", work / "start")
    succeeded(process)
    process, use, seconds = parse(model, texts, work / "alone")
    succeeded(process)
    runs = [Run("one process", seconds, use)]
    expected = written(work / "alone")
    words, size = count_words(expected), sum(map(len, expected.values()))
    different = []

    def add(run: Run, output: Path) -> None:
        runs.append(run)
        if written(output) != expected:
            different.append(run.name)

    for n in options.dask:
        add(on_dask(model, texts, work / f"dask{n}", n=n), work / f"dask{n}")
    add(with_killed_worker(model, texts, work / "worker"), work / "worker")
    add(with_killed_scheduler(model, texts, work / "scheduler"), work / "scheduler")
    rate = words / (use.cpu - start.cpu)
    print_runs(runs, words)
    print(f"{words:,} words. Start: {start.cpu:.1f} CPU s, {start.peak_mb:.0f} MB.")
    print(
        f"Then {rate:,.0f} words per CPU second; peak {use.peak_mb:.0f} MB; {size / words:.0f} bytes a word."
    )
    if options.dask:
        # beside what it loads, the command reads, sends, receives and writes
        largest = runs[len(options.dask)]
        feeds = (use.cpu - start.cpu) / max(
            largest.main.cpu + largest.scheduler.cpu - start.cpu, 0.1
        )
        print(f"Command and scheduler take a CPU second while workers take {feeds:.0f}.")
    print_scales(rate, size / words)
    return {
        "words": words,
        "bytes": size,
        "start": start._asdict(),
        "rate": rate,
        "runs": [asdict(run) for run in runs],
        "different": different,
    }


if __name__ == "__main__":
    main()
