"""scripts/release.py: from a treebank to a wheel, on the sample treebank."""

import shutil
import sys
import zipfile
from dataclasses import asdict

import pytest
import spacy
import srsly

pytest.importorskip("udtools.udeval")
pytest.importorskip("build")

README = """=== Machine-readable metadata ===
License: CC BY-NC-SA 4.0
Genre: grammar
"""


@pytest.fixture(scope="module")
def treebank(few, tmp_path_factory):
    """A treebank without a test set, with a licence."""
    path = tmp_path_factory.mktemp("UD") / "UD_English-Few"
    path.mkdir()
    for split in ("train", "dev"):
        shutil.copy(few[split], path / f"en_few-ud-{split}.conllu")
    (path / "README.md").write_text(README, encoding="utf8")
    return path


def released(script, monkeypatch, treebank, root, **entry):
    """Run the command. RETURNS: Where wheels are, and where models are."""
    settings = {"corpora.train.limit": 40, "components.spectral_parser.model.epochs": 1}
    item = {"treebank": str(treebank), "gears": ["fast"], "settings": settings} | entry
    root.mkdir(exist_ok=True)
    srsly.write_yaml(root / "list.yml", [item])
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", ["release.py", "list.yml", "--no-try", "--table", "t.md"])
    script.main()
    return root / "output" / "release", root / "training" / "release"


@pytest.fixture(scope="module")
def made(script, treebank, tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as monkeypatch:
        return released(script, monkeypatch, treebank, root)


WHEEL = "en_few_fast-0.1.0-py3-none-any.whl"


def test_a_treebank_becomes_a_wheel(made, tmp_path):
    output, _ = made
    assert {path.name for path in output.iterdir()} == {
        WHEEL,
        WHEEL.replace(".whl", ".json"),
        "models.md",
    }
    with zipfile.ZipFile(output / WHEEL) as wheel:
        wheel.extractall(tmp_path)
    model = tmp_path / "en_few_fast" / "en_few_fast-0.1.0"
    config = (model / "config.cfg").read_text("utf8")
    assert "UD_English-Few" not in config and "train = null" in config
    meta = srsly.read_json(model / "meta.json")
    assert meta["license"] == "CC BY-NC-SA 4.0"
    assert meta["sources"][0]["name"] == "UD_English-Few"
    assert meta["spacy_spectral"]["scored_on"] == "dev"
    assert 0 < meta["performance"]["raw_las"] <= meta["performance"]["gold_uas"] <= 1
    assert any(r.startswith("spacy-spectral") for r in meta["requirements"])
    card = (model / "README.md").read_text("utf8")
    assert "**Not for commercial use.** It was made from UD_English-Few: CC BY-NC-SA 4.0." in card
    assert "no test set" in card and meta["spacy_spectral"]["sha256"] in card
    assert str(tmp_path.parent.parent) not in card
    doc = spacy.load(model)("The dog saw a man.")
    assert doc[0]._.head_prob


def test_the_card_says_how_to_make_it_again(script, made, treebank, tmp_path):
    output, _ = made
    with zipfile.ZipFile(output / WHEEL) as wheel:
        card = wheel.read("en_few_fast/en_few_fast-0.1.0/README.md").decode()
    _, _, rest = card.partition("```yaml\n")
    path = tmp_path / "list.yml"
    path.write_text(rest.partition("```")[0], encoding="utf8")
    (entry,) = script.read_list(path)
    assert entry.treebank == "UD_English-Few" and entry.settings["corpora.train.limit"] == 40
    assert asdict(entry)["gears"] == ["fast"]


def test_two_trainings_give_the_same_bytes(script, made, treebank, tmp_path, monkeypatch):
    # wheels are made of what is compared
    monkeypatch.setattr(script, "pack", lambda stage, *_: stage / "meta.json")
    first = srsly.read_json(made[0] / WHEEL.replace(".whl", ".json"))["spacy_spectral"]
    output, _ = released(script, monkeypatch, treebank, tmp_path / "again")
    second = srsly.read_json(output / WHEEL.replace(".whl", ".json"))["spacy_spectral"]
    assert first["sha256"] == second["sha256"]
    other, _ = released(script, monkeypatch, treebank, tmp_path / "again", seed=1)
    third = srsly.read_json(other / WHEEL.replace(".whl", ".json"))["spacy_spectral"]
    assert third["sha256"] != second["sha256"]


def test_what_is_finished_is_not_made_again(script, made, treebank, monkeypatch, capsys):
    output, _ = made
    before = {path: path.stat().st_mtime_ns for path in output.glob("en_*")}
    monkeypatch.setattr(script, "train", None)
    released(script, monkeypatch, treebank, output.parents[1])
    assert "is there already" in " ".join(capsys.readouterr().out.split())
    assert before == {path: path.stat().st_mtime_ns for path in output.glob("en_*")}


def test_a_model_that_is_trained_is_only_packed(script, made, treebank, tmp_path, monkeypatch):
    shutil.copytree(made[0].parents[1], tmp_path / "copy", dirs_exist_ok=True)
    output = tmp_path / "copy" / "output" / "release"
    digest = srsly.read_json(output / WHEEL.replace(".whl", ".json"))["spacy_spectral"]["sha256"]
    (output / WHEEL).unlink()
    real = script._spacy
    called = []
    monkeypatch.setattr(
        script,
        "_spacy",
        lambda name, *rest, **options: (called.append(name), real(name, *rest, **options)),
    )
    released(script, monkeypatch, treebank, tmp_path / "copy")
    assert called == ["package"]
    again = srsly.read_json(output / WHEEL.replace(".whl", ".json"))
    assert again["spacy_spectral"]["sha256"] == digest


def test_the_table_has_what_was_measured(made):
    output, _ = made
    table = (output / "models.md").read_text("utf8")
    assert table == (output.parents[1] / "t.md").read_text("utf8")
    meta = srsly.read_json(output / WHEEL.replace(".whl", ".json"))
    assert f"{100 * meta['performance']['raw_las']:.2f}" in table
    assert "| CC BY-NC-SA 4.0 | no |" in table


@pytest.mark.parametrize(
    ("licence", "forbids"),
    [
        ("CC BY-SA 4.0", False),
        ("CC BY-NC-SA 4.0", True),
        ("LGPL-LR", False),
        ("research use (texts of others)", True),
        ("Non-commercial", True),
    ],
)
def test_licences(script, licence, forbids):
    assert script.forbids_commerce(licence) is forbids


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"licence": ""}, "Set `licence`"),
        ({"licence": "MIT", "text": ["a.txt"]}, "Set `text_licence`"),
        ({"licence": "MIT", "lang": "English"}, "Set `lang` and `name`"),
    ],
)
def test_what_is_missing_is_said(script, few, tmp_path, monkeypatch, capsys, entry, problem):
    for split in ("train", "dev"):
        shutil.copy(few[split], tmp_path / f"en_few-ud-{split}.conllu")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as stop:
        released(script, monkeypatch, tmp_path, tmp_path / "empty", **entry)
    assert stop.value.code == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert problem in printed and "Run it again to go on" in printed


@pytest.mark.parametrize(
    "text", ["", "- treebank: 1", "- colour: red", "- treebank: x\n  gears: [slow]"]
)
def test_lists_that_are_none(script, tmp_path, capsys, text):
    (tmp_path / "list.yml").write_text(text)
    with pytest.raises(SystemExit) as stop:
        script.read_list(tmp_path / "list.yml")
    assert stop.value.code == 1
    assert "Can't read" in capsys.readouterr().out
