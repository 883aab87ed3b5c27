"""What commands say when they can't do what is asked: before the work, and with the right words."""

import re
from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app
from typer.main import get_command
from typer.testing import CliRunner

from spacy_spectral.base.files import require_writable
from spacy_spectral.cli import spectral_cli
from spacy_spectral.models.shag.tempered import TemperedParser


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


@pytest.fixture(scope="module")
def pipeline(trained, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pipeline")
    trained.to_disk(directory)
    return directory


@pytest.fixture
def blank(tmp_path):
    """A pipeline without parser and vectors."""
    spacy.blank("en").to_disk(tmp_path / "blank")
    return tmp_path / "blank"


@pytest.fixture
def unwritable(tmp_path):
    """No file can be made here, not even by root: what should be a directory is a file."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "output"


def test_require_writable(tmp_path, unwritable):
    require_writable(tmp_path / "new" / "file.json")
    assert not (tmp_path / "new").exists()
    for path in (unwritable, tmp_path):
        with pytest.raises(ValueError, match=r"\[S004\].*Choose another place"):
            require_writable(path)


def test_outputs_are_checked_before_the_work(pipeline, sample, unwritable):
    """The data do not exist: who complains of the output has not looked at them."""
    missing = sample["dev"].with_name("missing.conllu")
    for command in (
        ("evaluate", pipeline, missing, "--json", unwritable),
        ("evaluate", pipeline, missing, "--plot", unwritable),
        ("score", pipeline, missing, "--json", unwritable),
        ("calibrate", pipeline, missing, "--json", unwritable),
        ("calibrate", pipeline, missing, "--output", unwritable),
        ("eigenwords", missing, "--output", unwritable),
        ("word-map", pipeline, missing, "--output", unwritable),
        ("draw", pipeline, missing, "--output", unwritable),
        (
            "automaton",
            pipeline,
            *["--head", "XX", "--direction", "left", "--output"],
            f"{unwritable}.svg",
        ),
        ("similarity", "train", pipeline, missing, "--output", unwritable),
        ("similarity", "evaluate", missing, pipeline, missing, "--output", unwritable),
        ("sample", "--output", unwritable),
    ):
        code, text = run(*command)
        assert code == 1 and "[S004]" in text, (command, text)


def _outputs():
    """YIELDS (Tuple[List[str], Option]): Every option that names something to write, and its command."""

    def found(group, words):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from found(command, [*words, name])
            else:
                yield from (([*words, name], option) for option in command.params)

    for words, option in found(get_command(spectral_cli), []):
        if {"--output", "--json", "--plot"} & set(option.opts):
            yield words, option


def test_empty_names_are_no_outputs(tmp_path, monkeypatch):
    """Path("") is the current directory: a shell's unset variable would fill it."""
    monkeypatch.chdir(tmp_path)
    commands = list(_outputs())
    assert len(commands) >= 15 and any(words == ["parse"] for words, _ in commands)
    for words, option in commands:
        for empty in ("", " "):
            code, text = run(*words, "x", "x", "x", option.opts[0], empty)
            assert code == 1 and "[S004]" in text and "empty" in text, (words, option.opts, text)
    assert not list(tmp_path.iterdir())


def test_outputs_may_be_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("sample", "-o", ".", "--train", 1, "--dev", 1, "--test", 1)[0] == 0
    assert Path("sample-train.conllu").exists()


def test_evaluate_refuses_a_pipeline_without_parser(blank, sample):
    code, text = run("evaluate", blank, sample["dev"])
    assert code == 1
    assert "[S157]" in text and "UAS" not in text


def test_no_diagram_without_probabilities(pipeline, sample, tmp_path):
    config = {"components.spectral_parser.store": []}
    spacy.load(pipeline, config=config).to_disk(tmp_path / "quiet")
    plot = tmp_path / "plot.svg"
    code, text = run("evaluate", tmp_path / "quiet", sample["dev"], "--gold-tags", "--plot", plot)
    assert code == 1 and "[S450]" in text and not plot.exists()


def test_underscores_are_tags_only_where_a_tag_is_known(pipeline):
    code, text = run("nbest", pipeline, "the_DT dog_NN barks_VBZ", "-k", 1)
    assert code == 0 and "barks VBZ" in text
    # two words, which have no tags
    code, text = run("nbest", pipeline, "snake_case foo_bar")
    assert code == 1 and "[S112]" in text and "--gold-tags" in text and "The_DT" in text


def test_nothing_to_parse(pipeline):
    code, text = run("nbest", pipeline, " ")
    assert code == 1 and "[S158]" in text


def test_missing_parser_is_called_a_parser(blank):
    code, text = run("nbest", blank, "A text.")
    assert code == 1 and "[S154]" in text and "automat" not in text


def test_pipelines_without_vectors_are_not_the_words_fault(blank, sample, tmp_path):
    for command in (
        ("neighbors", blank, "dog"),
        ("word-map", blank, sample["dev"], "--output", tmp_path / "map.svg"),
    ):
        code, text = run(*command)
        assert code == 1 and "[S222]" in text, text


def test_calibrate_says_what_it_needs(pipeline, blank, sample, monkeypatch):
    assert run("calibrate", pipeline, sample["dev"])[0] == 1
    assert "[S112]" in run("calibrate", pipeline, sample["dev"])[1]
    code, text = run("calibrate", pipeline, sample["dev"], "--gold-tags")
    assert code == 0 and "T heads" in text
    assert "[S154]" in run("calibrate", blank, sample["dev"])[1]
    none = property(lambda self: None, lambda self, value: None)
    monkeypatch.setattr(TemperedParser, "temperature", none)
    assert "[S456]" in run("calibrate", pipeline, sample["dev"], "--gold-tags")[1]


def test_a_gpu_that_is_not_there(pipeline, sample, monkeypatch):
    monkeypatch.setattr("thinc.util.has_cupy", False)
    code, said = run("evaluate", pipeline, sample["dev"], "--gpu-id", 0)
    assert code == 1
    assert "S050" in said and "CuPy" in said and "--gpu-id" in said


def test_commands_are_listed_by_name_and_in_full():
    output = CliRunner().invoke(app, ["spectral", "--help"]).output
    _, _, listed = output.partition("Commands:")
    lines = [line for line in listed.splitlines() if line.strip()]
    names = [line.split()[0] for line in lines]
    assert names == sorted(get_command(spectral_cli).commands)
    assert all(len(line.split()) > 1 and not line.endswith("...") for line in lines)
