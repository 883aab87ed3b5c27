"""`spacy-spectral.Logger.v1`: what `spacy train` shows.

Most components learn everything when the pipeline is initialized, and tell how far they are
(`base.progress`). A row of spaCy's table would say nothing of them: their losses are 0. So there is one
summary at the end. If components learn step by step, the table has their rows, too.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import IO, Any

from spacy.language import Language
from spacy.training.loggers import console_logger_v3

from .base.errors import Errors, SpectralError
from .base.files import destination, require_writable, write_atomically
from .pipeline.component import SpectralPipe

# scores as spaCy and our scorers name them, in the order of a pipeline
_SCORES = {
    "token_f": "Tokens (F1)",
    "sents_f": "Sentences (F1)",
    "tag_acc": "Tags",
    "pos_acc": "Parts of speech",
    "morph_acc": "Morphology",
    "lemma_acc": "Lemmas",
    "dep_uas": "Heads (UAS)",
    "dep_las": "Heads and labels (LAS)",
    "bracket_f": "Constituents (F1)",
    "bracket_exact": "Sentences without a wrong constituent",
    "ents_f": "Entities (F1)",
    "cats_score": "Categories",
}
_LINE = 78

LogStep = Callable[[dict[str, Any] | None], None]
Setup = Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]


def make_logger(progress_bar: bool = False, report: str | None = None) -> Setup:
    """The registered logger `spacy-spectral.Logger.v1`.

    progress_bar: Whether a bar shows the steps up to the next evaluation, of components that learn
        step by step.
    report: Where to write the report on the trained pipeline and the development corpus, as
        `spacy spectral report` does; None for none.
    RETURNS: Sets the logger up for a pipeline.
    """

    if report is not None:
        require_writable(report)

    def setup(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        log = _Log(nlp, stdout, stderr, progress_bar=progress_bar, report=report)
        return log.step, log.finish

    return setup


class _Log:
    """The log of one training."""

    def __init__(
        self, nlp: Language, stdout: IO, stderr: IO, *, progress_bar: bool, report: str | None
    ) -> None:
        self.nlp = nlp
        self.stdout = stdout
        self.report = report
        if report is not None and _corpus(nlp)[1] is None:
            name = nlp.config["training"]["dev_corpus"]
            raise SpectralError(Errors.S052.format(path=report, corpus=name))
        self._best: dict[str, Any] | None = None
        self._rows: tuple[LogStep, Callable[[], None]] | None = None
        learners = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        whole = [
            name
            for name, pipe in nlp.pipeline
            if isinstance(pipe, SpectralPipe) and not pipe.learns_in_steps
        ]
        if set(learners) - set(whole):
            rows = console_logger_v3("eval" if progress_bar else None)
            with nlp.select_pipes(disable=whole):
                self._rows = rows(nlp, stdout, stderr)

    def step(self, info: dict[str, Any] | None) -> None:
        """Be told of a step, with what an evaluation gave if there was one."""
        if self._rows is not None:
            self._rows[0](info)
        if info is not None and (self._best is None or info["score"] > self._best["score"]):
            self._best = {key: info[key] for key in ("score", "other_scores", "epoch", "step")}
            self._best["output"] = info.get("output_path")

    def finish(self) -> None:
        """Print the summary of the best evaluation."""
        if self._rows is not None:
            self._rows[1]()
        if self._best is not None:
            self.stdout.write(self._summary(self._best) + "\n")
            # not where an error, or somebody, has ended the training
            if self.report is not None and sys.exc_info()[0] is None:
                self.stdout.write(self._write_report(self.report, self._best["output"]) + "\n")
            self.stdout.flush()

    def _write_report(self, path: str, output: str | None) -> str:
        """Write the report on the best pipeline, or say why not: the training is not lost."""
        from .measure import load_for_report
        from .report import make_report

        try:
            nlp, name = self.nlp, "the pipeline"
            if output is not None:
                name = str(Path(output).with_name("model-best"))
                nlp = load_for_report(name)
            write_atomically(
                Path(path), make_report([(nlp, name)], Path(_corpus(self.nlp)[1] or ""))
            )
        except (SpectralError, OSError) as error:
            return f"\nThere is no report in {path}: {error}"
        return f"\nWhat is right and wrong, as a page: {path}"

    def _summary(self, best: dict[str, Any]) -> str:
        scores = best["other_scores"]
        name, path, from_text = _corpus(self.nlp)
        corpus = f"the corpus {name}" if path is None else Path(path).name
        rows = [
            (title, f"{100 * scores[key]:.2f} %")
            for key, title in _SCORES.items()
            # given tokens are right in any case
            if isinstance(scores.get(key), float | int) and (from_text or key != "token_f")
        ]
        for name, found in (scores.get("dep_calibration") or {}).items():
            said = f"{found['expected']:.1%} expected, {found['right']:.1%} right"
            rows.append((f"Calibration error, {name}", f"{100 * found['error']:.2f} %   {said}"))
        width = max((len(title) for title, _ in rows), default=0) + 3
        given = "from raw text" if from_text else "on its own tokens"
        lines = ["", " Trained ".center(_LINE, "="), ""]
        if rows:
            lines += [f"On {corpus}, {given}:", ""]
            lines += [f"  {title:{width}}{value}" for title, value in rows]
        else:
            lines.append(f"Nothing could be scored on {corpus}.")
        if self._rows is not None:
            lines += ["", f"The best of all evaluations: after step {best['step']:,}."]
        lines += ["", f"{process_time():,.0f} CPU seconds, with reading and scoring"]
        if best["output"] is not None:
            model = Path(best["output"]).with_name("model-best")
            size = _size(model) / 1e6
            model = destination(model)
            lines[-1] += f" · {size:,.1f} MB in {model}"
            lines += ["", "What you can do next:", ""]
            lines += [f"  python -m spacy spectral {line}" for line in _next(self.nlp, model)]
        return "\n".join(lines)


def _corpus(nlp: Language) -> tuple[str, str | None, bool]:
    """The corpus that a pipeline is scored on: its name, its path, and whether raw text is made of it."""
    name = str(nlp.config["training"]["dev_corpus"])
    settings = nlp.config.interpolate()["corpora"].get(name.removeprefix("corpora."), {})
    path = settings.get("path")
    is_path = isinstance(path, str | Path)
    return name, str(path) if is_path else None, settings.get("gold_tokens") is False


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _next(nlp: Language, model: Path) -> list[str]:
    """Commands to try on a pipeline, without those that it has no component for."""
    # spaCy imports loggers whenever it reads a config
    from .pipeline.constituents import NAME
    from .readers import superseded

    metas = [nlp.get_pipe_meta(name) for name in nlp.pipe_names]
    has_arcs = any("token.dep" in meta.assigns for meta in metas)
    finds_sentences = bool(superseded(nlp, gold_tags=False))
    found = []
    if has_arcs or any(meta.factory == NAME for meta in metas):
        drawn = "'A sentence of your own.'" if finds_sentences else "TREEBANK"
        found.append(f"draw {model} {drawn} -o parses.html")
    if has_arcs and finds_sentences:
        found.append(f"parse {model} TEXT.txt --output PARSED")
    return [*found, f"report {model} TREEBANK -o report.html"]
