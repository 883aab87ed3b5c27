"""Learning while somebody annotates: pipelines are trained in a process of their own, and swapped in.

    python -m spacy_spectral.serve.learner JOB.json

trains on what was annotated, writes a pipeline, and how many errors it expects in each sentence that is left.
Pipelines are in `FILE.conllu.models`, named by their number and how many accepted sentences they know. A
directory gets its name when it is complete, so what has one can be used after any crash.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread
from typing import Any

import spacy
from spacy import util
from spacy.language import Language
from spacy.training.initialize import init_nlp

from ..base.errors import Errors, SpectralError
from ..base.files import remove_leftovers, write_atomically
from ..pipeline.parser import SpectralParser, WholeLearner
from ..treebank.conllu import Sentence, read_conllu, scan_conllu
from ..trees.sentences import MISSING
from .blocks import COLUMNS
from .blocks import MISSING as MISSING_VALUE
from .engine import Engine, expected_errors, parser_of
from .session import Session

# Fewer sentences are not divided for tags that taggers have not seen.
_JACKKNIFE_FROM = 100
_FILE = "learnt.conllu"


def train(annotated: Path, *, lang: str, model: str | None = None) -> Language:
    """Train a pipeline on annotated sentences.

    annotated: CoNLL-U, perhaps with partial trees.
    model: A pipeline whose settings are used; by default tagger, lemmatizer and log-linear parser as they are
        in configs/pipeline.cfg.
    """
    if model is not None:
        return _train_like(model, annotated)
    sentences = list(read_conllu(annotated))
    n_trees = sum(any(head != MISSING for head in sentence.heads) for sentence in sentences)
    jackknife = "spectral_tagger" if n_trees >= _JACKKNIFE_FROM else None
    nlp = spacy.blank(lang)
    nlp.add_pipe("spectral_tagger")
    nlp.add_pipe("spectral_lemmatizer", config={"jackknife": jackknife})
    nlp.add_pipe(
        "spectral_parser",
        config={
            "model": {"@architectures": "spacy-spectral.LogLinear.v1"},
            "store": ["head_prob", "dep_prob"],
            "jackknife": jackknife,
        },
    )
    config = nlp.config.copy()
    config["corpora"]["train"] = _corpus(annotated)
    config["corpora"]["dev"] = _corpus(annotated)
    return init_nlp(config)


def _corpus(path: Path) -> dict[str, Any]:
    return {
        "@readers": "spacy-spectral.Corpus.v1",
        "path": str(path),
        "annotations": ["sents"],
        "n_sents": 1,
        "syntactic_words": True,
        "trees": False,
    }


def _train_like(model: str, annotated: Path) -> Language:
    """Train a pipeline with the settings of another one."""
    nlp = util.load_model(model)
    require_whole(nlp)
    config = nlp.config.copy()
    for split in ("train", "dev"):
        config["corpora"][split] = _corpus(annotated)
    # files of the first training need not be here any more
    for name, own in config["initialize"]["components"].items():
        config["initialize"]["components"][name] = {
            key: None if key == "dev_corpus" or _is_lost(value) else value
            for key, value in own.items()
        }
    for key in ("vectors", "init_tok2vec", "vocab_data", "lookups"):
        if _is_lost(config["initialize"].get(key)):
            config["initialize"][key] = None
    return init_nlp(config)


def _is_lost(value: Any) -> bool:
    """Whether a setting is a path to nothing."""
    return isinstance(value, str) and os.sep in value and not Path(value).exists()


def require_whole(nlp: Language) -> None:
    """Find out before the work whether a pipeline can be trained here."""
    parser_of(nlp)
    for name, pipe in nlp.pipeline:
        if isinstance(pipe, SpectralParser) and not isinstance(pipe.learner, WholeLearner):
            raise SpectralError(Errors.S669.format(name=name))


def expected(nlp: Language, path: Path) -> list[float]:
    """How many errors a pipeline expects in each sentence of a file, see `engine.expected_errors`."""
    engine = Engine(nlp)
    free = dict.fromkeys(COLUMNS, MISSING_VALUE)
    result = []
    for sentence in scan_conllu(path, trees=False):
        if not isinstance(sentence, Sentence):
            continue
        found = engine.analyse(sentence.words, sentence.spaces, [free] * len(sentence))
        pairs = zip(found.head_probs, found.label_probs, strict=True)
        result.append(expected_errors([head * label for head, label in pairs]))
    return result


def run_job(job: Mapping[str, Any]) -> None:
    """Train, or load, a pipeline; write it, and what it expects."""
    if job["annotated"]:
        nlp = train(Path(job["annotated"]), lang=job["lang"], model=job["model"])
        nlp.to_disk(job["trained"])
    else:
        nlp = util.load_model(job["model"])
    scores = expected(nlp, Path(job["unfinished"]))
    write_atomically(job["scores"], json.dumps(scores))


class Learner:
    """Trains pipelines for a session, one at a time.

    every: After how many accepted sentences; the first one, if there was no pipeline, after `first`.
    """

    def __init__(
        self,
        session: Session,
        directory: Path,
        *,
        lang: str,
        model: str | None,
        more: str,
        every: int,
        first: int,
    ) -> None:
        """directory: For pipelines.
        model: The pipeline at the beginning.
        more: Annotated sentences beside those that were accepted, as CoNLL-U; "" for none.
        every: 0 for never.
        """
        self.session = session
        self.directory = directory
        self.lang, self.model, self.more = lang, model, more
        self.every, self.first = every, first
        self._known = 0  # accepted sentences in the last training
        self._thread: Thread | None = None
        self._process: subprocess.Popen | None = None
        self._stopped = Event()

    def begin(self) -> None:
        """Take the last pipeline that was trained, and look at all sentences."""
        done = self._models()
        if done:
            number, self._known, path = done[-1]
            self.session.swap(
                Engine.load(path, number=number, told=self._told(number, self._known)), {}
            )
        if self.session.engine.nlp is not None:
            self._start(training=False)

    def consider(self) -> None:
        """Begin to train if it is time."""
        if not self.every or (self._thread is not None and self._thread.is_alive()):
            return
        _, n = self.session.annotated()
        wanted = self.every if self.session.engine.nlp is not None else min(self.first, self.every)
        if n - self._known >= wanted:
            self._start(training=True)

    def stop(self) -> None:
        """Stop training."""
        self._stopped.set()
        process, thread = self._process, self._thread
        if process is not None and process.poll() is None:
            process.terminate()
        if thread is not None:
            thread.join(timeout=10)

    def wait(self) -> None:
        """Wait until what was begun has ended."""
        if self._thread is not None:
            self._thread.join()

    def _told(self, number: int, n: int) -> str:
        return f"model {number}, {n} accepted sentences"

    def _models(self) -> list[tuple[int, int, Path]]:
        """Pipelines that are complete: number, accepted sentences, directory."""
        found = []
        for path in self.directory.glob("*-*"):
            number, _, n = path.name.partition("-")
            if number.isdigit() and n.isdigit() and (path / "config.cfg").exists():
                found.append((int(number), int(n), path))
        return sorted(found)

    def _start(self, *, training: bool) -> None:
        self._thread = Thread(target=self._run, args=(training,), daemon=True)
        self._thread.start()

    def _run(self, training: bool) -> None:
        """A job, from beginning to end."""
        annotated, n = self.session.annotated()
        unfinished, ids = self.session.unfinished()
        self.session.learning = (
            f"learning from {n} sentences" if training else "looking at all sentences"
        )
        work = self.directory / f".{os.getpid()}.spectral-tmp"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.directory)
            rmtree(work, ignore_errors=True)
            work.mkdir()
            known = self._models()
            number = known[-1][0] + 1 if known else 1
            model = self.model
            if not training and known:
                model = str(known[-1][2])
            if training:
                (work / _FILE).write_text(self.more + annotated, encoding="utf8")
            (work / "left.conllu").write_text(unfinished, encoding="utf8")
            job = {
                "annotated": str(work / _FILE) if training else "",
                "unfinished": str(work / "left.conllu"),
                "lang": self.lang,
                "model": model,
                "trained": str(work / "trained"),
                "scores": str(work / "scores.json"),
            }
            write_atomically(work / "job.json", json.dumps(job))
            failure = self._work(work / "job.json")
            if self._stopped.is_set():
                return
            if failure:
                self.session.learning = f"learning failed: {failure}"
                self._known = n if training else self._known
                return
            scores = dict(zip(ids, json.loads((work / "scores.json").read_text()), strict=True))
            engine = None
            if training:
                path = self.directory / f"{number}-{n}"
                rmtree(path, ignore_errors=True)
                os.replace(work / "trained", path)
                engine = Engine.load(path, number=number, told=self._told(number, n))
                self._known = n
                for _, _, old in known:
                    rmtree(old, ignore_errors=True)
            self.session.swap(engine, scores)
            self.session.learning = ""
        except (OSError, ValueError) as error:
            self.session.learning = f"learning failed: {error}"
        finally:
            rmtree(work, ignore_errors=True)

    def _work(self, job: Path) -> str:
        """RETURNS: What went wrong, "" for nothing."""
        command = [sys.executable, "-m", __name__, str(job)]
        with open(job.with_name("log.txt"), "w+b") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            if self._process.wait() == 0:
                return ""
            log.seek(0)
            lines = log.read().decode("utf8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else f"exit status {self._process.returncode}"


def main() -> None:
    if os.name == "posix":
        os.nice(10)
    run_job(json.loads(Path(sys.argv[1]).read_text(encoding="utf8")))


if __name__ == "__main__":
    main()
