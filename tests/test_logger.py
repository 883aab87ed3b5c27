"""What `spacy train` shows."""

import io
import re
from pathlib import Path

import pytest
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from spacy.util import load_config, registry

CONFIGS = Path(__file__).parents[1] / "configs"


def train(name, paths, output, logger=None, **overrides):
    """What `spacy train` writes with a config."""
    given = {"paths.train": str(paths["train"]), "paths.dev": str(paths["dev"]), **overrides}
    config = load_config(CONFIGS / name, overrides=given, interpolate=False)
    if logger is not None:
        config["training"]["logger"] = logger
    nlp = init_nlp(config)
    shown = io.StringIO()
    output.mkdir()
    train_nlp(nlp, output, stdout=shown, stderr=io.StringIO())
    return nlp, shown.getvalue()


@pytest.fixture(scope="module")
def whole(few, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole") / "model"
    return (*train("pipeline.cfg", few, output), output)


def test_one_summary_in_place_of_losses(whole, few):
    nlp, shown, output = whole
    assert "LOSS" not in shown.upper()
    assert shown.count(" Trained ") == 1
    assert f"On {few['dev'].name}, from raw text:" in shown
    performance = nlp.meta["performance"]
    for title, key in (("Tags", "tag_acc"), ("Heads and labels (LAS)", "dep_las")):
        (value,) = re.findall(rf"^  {re.escape(title)} +([\d.]+) %$", shown, re.M)
        assert float(value) == pytest.approx(100 * performance[key], abs=0.006)
    assert re.search(r"Calibration error, heads +\d+\.\d\d % ", shown)
    assert "spectral parse" in shown
    size = sum(p.stat().st_size for p in (output / "model-best").rglob("*") if p.is_file())
    assert f"{size / 1e6:.1f} MB in {output / 'model-best'}" in shown


def test_progress_where_nobody_watches_a_terminal(few, tmp_path, capfd):
    """Lines, no bars."""
    train("pipeline.cfg", few, tmp_path / "model")
    lines = capfd.readouterr().err.splitlines()
    assert any(line.startswith("spectral_tagger: 5 epochs, tags: loss ") for line in lines)
    assert any(line.startswith("spectral_parser: epoch 1 of 4: loss ") for line in lines)
    assert len(lines) < 20
    assert not any("\r" in line for line in lines)


def test_rows_of_components_that_learn_in_steps(few, tmp_path):
    steps = {"training.max_steps": 4, "training.eval_frequency": 2}
    nlp, shown = train("tok2vec.cfg", few, tmp_path / "model", **steps)
    assert nlp.get_pipe("spectral_parser").learns_in_steps
    header = next(line for line in shown.splitlines() if line.startswith("E "))
    assert "LOSS TOK2VEC" in header
    assert "LOSS SPECT..." in header
    assert len(re.findall(r"^ +\d+ +\d+ ", shown, re.M)) == 3
    assert "The best of all evaluations: after step 4." in shown


def test_the_best_evaluation_counts(whole):
    nlp, *_ = whole
    shown = io.StringIO()
    setup = registry.loggers.get("spacy-spectral.Logger.v1")()
    step, finish = setup(nlp, shown, shown)
    for number, score in enumerate((0.2, 0.9, 0.4)):
        step(None)
        info = {"score": score, "other_scores": {"tag_acc": score, "dep_las": None}}
        step({**info, "epoch": 0, "step": number, "losses": {}})
    finish()
    assert "90.00 %" in shown.getvalue()
    assert "LAS" not in shown.getvalue()


def test_nothing_is_said_of_a_training_without_evaluation(whole):
    nlp, *_ = whole
    shown = io.StringIO()
    _, finish = registry.loggers.get("spacy-spectral.Logger.v1")()(nlp, shown, shown)
    finish()
    assert shown.getvalue() == ""


def test_configs_with_the_logger_of_spacy_work(few, tmp_path):
    logger = {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": False}
    _, shown = train("shag.cfg", few, tmp_path / "model", logger=logger)
    assert "LOSS SPECT..." in shown
    assert " Trained " not in shown


def test_the_report_is_written(few, tmp_path):
    path = tmp_path / "report.html"
    _, shown = train(
        "pipeline.cfg", few, tmp_path / "model", **{"training.logger.report": str(path)}
    )
    assert f"What is right and wrong, as a page: {path}" in shown
    page = path.read_text("utf8")
    (value,) = re.findall(r"Heads and labels \(LAS\) +([\d.]+) %", shown)
    assert "Annotation that the model doubts" in page
    assert float(value) > 50


def test_a_report_that_cant_be_written_is_told_before_the_training(few, tmp_path):
    (tmp_path / "file").write_text("")
    logger = {"training.logger.report": str(tmp_path / "file" / "report.html")}
    with pytest.raises(ValueError, match="S004"):
        train("pipeline.cfg", few, tmp_path / "model", **logger)


def test_a_report_that_fails_does_not_lose_the_training(few, tmp_path):
    """Afterwards the disk, or the corpus, is not what it was."""
    nlp, _ = train("shag.cfg", few, tmp_path / "model")
    nlp.config["corpora"]["dev"]["path"] = str(tmp_path / "gone.conllu")
    shown = io.StringIO()
    setup = registry.loggers.get("spacy-spectral.Logger.v1")(report=str(tmp_path / "report.html"))
    step, finish = setup(nlp, shown, shown)
    info = {"score": 1.0, "other_scores": {}, "epoch": 0, "step": 0, "losses": {}}
    step({**info, "output_path": str(tmp_path / "model" / "model-last")})
    finish()
    assert "There is no report in" in shown.getvalue()
    assert "gone.conllu" in shown.getvalue()


def test_a_report_on_a_corpus_without_path(whole, tmp_path):
    nlp, *_ = whole
    nlp = type(nlp).from_config(nlp.config.copy().merge({"corpora": {"dev": {"path": None}}}))
    setup = registry.loggers.get("spacy-spectral.Logger.v1")(report=str(tmp_path / "report.html"))
    with pytest.raises(ValueError, match="S052"):
        setup(nlp, io.StringIO(), io.StringIO())
