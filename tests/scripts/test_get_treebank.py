"""scripts/get_treebank.py, and what project.yml makes of it, with a repository on this machine for GitHub."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from weasel.cli.run import project_run

ROOT = Path(__file__).parents[2]
GITHUB = "https://github.com/UniversalDependencies/"
NAME = "UD_Turkish-IMST"


@pytest.fixture
def project(few, tmp_path, monkeypatch):
    """A project beside a repository of a treebank without a test set."""
    repository = tmp_path / "github" / NAME
    repository.mkdir(parents=True)
    for split in ("train", "dev"):
        shutil.copy(few[split], repository / f"tr_imst-ud-{split}.conllu")
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@y.z"]
    subprocess.run([*git, "init", "--quiet", "--initial-branch", "master"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "x"], check=True)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{repository.parent.as_uri()}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", GITHUB)
    path = tmp_path / "project"
    (path / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "project.yml", path)
    shutil.copy(ROOT / "scripts" / "get_treebank.py", path / "scripts")
    return path


def test_the_project_fetches_the_treebank_that_is_asked_for(project, few, capfd):
    pytest.importorskip("udtools.udeval")
    project_run(project, "ud-get", overrides={"vars.treebank": NAME, "vars.lang": "tr"})
    for split, source in {"train": "train", "dev": "dev", "test": "dev"}.items():
        assert (project / "assets/ud" / f"{split}.conllu").read_bytes() == few[source].read_bytes()
    assert "has no test set" in capfd.readouterr().out


def test_a_treebank_that_does_not_exist(script, project, monkeypatch, capsys):
    pytest.importorskip("udtools.udeval")
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["get_treebank.py", "", "UD_Klingon", "assets/ud"])
    with pytest.raises(SystemExit) as stop:
        script.main()
    assert stop.value.code == 1
    assert "Can't fetch the treebank UD_Klingon" in capsys.readouterr().out
    assert not (project / "assets" / "UD_Klingon").exists()


def test_what_the_scores_need_is_asked_for_first(script, project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    monkeypatch.setitem(sys.modules, "udtools", None)
    monkeypatch.setattr(sys, "argv", ["get_treebank.py", "", NAME, "assets/ud"])
    with pytest.raises(SystemExit) as stop:
        script.main()
    assert stop.value.code == 1
    assert "S607" in capsys.readouterr().out
    assert not (project / "assets").exists()
