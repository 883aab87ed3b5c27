"""`spacy spectral teach`: a pipeline learns from the trees of another."""

import json
import re
from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app
from spacy.cli.train import train
from typer.testing import CliRunner

from pipelines import from_raw_text
from spacy_spectral.cli import teach as teach_module
from spacy_spectral.treebank.documents import read_docs

ROOT = Path(__file__).parents[2]
# a student that is trained in a second or two
SMALL = {
    "components.spectral_tagger.model.epochs": 1,
    "components.spectral_lemmatizer.model.epochs": 1,
    "components.spectral_senter.model.epochs": 1,
    "components.spectral_parser.model.epochs": 1,
    "nlp.tokenizer.epochs": 1,
}


@pytest.fixture(scope="module")
def place(sample, tmp_path_factory):
    """A directory with a teacher, a text and a small treebank."""
    path = tmp_path_factory.mktemp("teach")
    own = {"spectral_parser": {"model": {"@architectures": "spacy-spectral.LogLinear.v1"}}}
    from_raw_text(sample["train"], limit=150, **own).to_disk(path / "teacher")
    sentences = sample["train"].read_text("utf8").split("\n\n")
    (path / "gold.conllu").write_text("\n\n".join(sentences[:60]) + "\n\n", "utf8")
    sentences = sample["dev"].read_text("utf8").split("\n\n")
    (path / "dev.conllu").write_text("\n\n".join(sentences[:30]) + "\n\n", "utf8")
    docs = read_docs(sample["test"], spacy.blank("en").vocab)
    (path / "text.txt").write_text("\n".join(doc.text for doc in docs), "utf8")
    return path


def command(
    *more, config=ROOT / "configs" / "pipeline.cfg", output="out", changed=SMALL, **options
):
    settings = {
        "gold": "gold.conllu",
        "dev": "dev.conllu",
        "config": config,
        "output": output,
    } | options
    arguments = ["teacher", "text.txt", "--lines"]
    for name, value in settings.items():
        arguments += [f"--{name}", str(value)]
    for name, value in changed.items():
        arguments += ["--set", f"{name}={value}"]
    return CliRunner().invoke(app, ["spectral", "teach", *arguments, *map(str, more)])


def taught(*more, **options):
    result = command(*more, **options)
    assert result.exit_code == 0, result.output
    return result.output


def failure(*more, **options):
    result = command(*more, **options)
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


def files(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "parse.jsonl"
    }


def test_killed_at_any_stage_it_goes_on_to_the_same_bytes(place, monkeypatch):
    monkeypatch.chdir(place)
    whole = taught()
    assert re.search(r"gained +[+-]\d", whole)
    # what to type next, with the path that the pipeline has in the end
    assert "draw out/model-best" in whole and "/new/model-best" not in whole
    expected = files(place / "out")
    names = set(expected)
    assert {"teach.json", "config.cfg", "silver/text.conllu"} <= names
    assert {"model-best/config.cfg", "untaught/model-best/config.cfg"} <= names
    record = json.loads(expected["teach.json"])
    assert record["stages"] == ["taught", "untaught"]
    assert set(record["scores"]) == {"taught", "untaught", "teacher"}
    blocks = [
        b"min_blocks = 10" in expected[name] for name in ("config.cfg", "untaught/config.cfg")
    ]
    assert blocks == [True, False]
    # the student has learnt from silver trees, and its tagger has not
    assert (
        expected["model-best/spectral_parser/model"]
        != expected["untaught/model-best/spectral_parser/model"]
    )
    assert (
        expected["model-best/spectral_tagger/model"]
        == expected["untaught/model-best/spectral_tagger/model"]
    )

    # the config trains the same again
    train(place / "out" / "config.cfg", place / "again")
    for name, content in expected.items():
        if name.startswith("model-best/"):
            assert (place / "again" / name).read_bytes() == content

    def killed(*arguments, **settings):
        raise KeyboardInterrupt

    # in another place, with the same names: first while texts are parsed, then in training, then in scoring
    other = place / "other"
    other.mkdir()
    for name in ("teacher", "text.txt", "gold.conllu", "dev.conllu"):
        (other / name).symlink_to(place / name)
    monkeypatch.chdir(other)
    for owner, name in (
        (teach_module, "parse_files"),
        (teach_module.Done, "train"),
        (teach_module.Done, "score"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            result = command()
            assert result.exit_code == 130 and "goes on" in result.output
        if name == "train":
            assert (other / "out" / "silver" / "text.conllu").exists()
            assert not (other / "out" / "model-best").exists()
    output = taught()
    assert "finished before" in output and output.count("Trained before") == 2
    assert files(other / "out") == expected
    # another student learns from the same trees
    assert "[S649]" in failure(changed=SMALL | {"corpora.silver.weight": 0.5})
    output = taught("--overwrite", changed=SMALL | {"corpora.silver.weight": 0.5})
    assert "finished before" in output and "Trained before" not in output
    changed = files(other / "out")
    assert changed["silver/text.conllu"] == expected["silver/text.conllu"]
    name = "model-best/spectral_parser/model"
    assert changed[name] != expected[name]
    assert taught("--overwrite").count("Trained before") == 0
    assert files(other / "out") == expected
    # once more, everything is there; what a pipeline is compared with can be another
    assert taught("--against", "teacher").count("Trained before") == 1
    assert files(other / "out") == expected


def test_other_inputs_and_settings_are_told(place, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    out = tmp_path / "out"
    out.mkdir()
    digests = dict.fromkeys(("teacher", "texts", "lines", "gold", "vectors", "student"), "other")
    record = {"inputs": digests, "stages": ["taught"], "scores": {}}
    (out / "teach.json").write_text(json.dumps(record), "utf8")
    assert "[S649]" in failure(output=out) and "gold, " in failure(output=out)
    (out / "teach.json").write_text("{", "utf8")
    assert "[S648]" in failure(output=out)
    (out / "teach.json").unlink()
    (out / "model-best").mkdir()
    assert "[S647]" in failure(output=out)
    for wrong in ("gold", "dev", "config"):
        assert "[S201]" in failure(output=tmp_path / "new", **{wrong: "nowhere.conllu"})
    # before the teacher parses
    for wrong, code in (("nowhere.bin", "S463"), ("gold.conllu", "S467")):
        given = {
            "config": ROOT / "configs" / "accurate.cfg",
            "changed": {"paths.pretrained": wrong},
        }
        assert f"[{code}]" in failure(output=tmp_path / "new", **given)
        assert not (tmp_path / "new").exists()
    for config, code in (("shag.cfg", "S640"), ("tagger.cfg", "S645")):
        path = ROOT / "configs" / config
        assert f"[{code}]" in failure(output=tmp_path / "new", config=path, changed={})
    text = (ROOT / "configs" / "pipeline.cfg").read_text("utf8")
    other = tmp_path / "other.cfg"
    other.write_text(text.replace("path = ${paths.dev}", 'path = "x.conllu"'), "utf8")
    assert "[S646]" in failure(output=tmp_path / "new", config=other)
    (tmp_path / "bad.conllu").write_text("1\tHi\thi\tINTJ\tUH\t_\t3\troot\t_\t_\n\n", "utf8")
    assert "[S021]" in failure(output=tmp_path / "new", dev=tmp_path / "bad.conllu")
    assert "Can't load" in failure("--against", "nowhere", output=tmp_path / "new")
    # before any work
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").iterdir())


def test_what_else_the_student_learns_from_is_an_input(place):
    """The text of a treebank that the config lists may have changed when the command is started again."""
    config = teach_module.student_config(
        ROOT / "configs" / "pipeline.cfg", place / "gold.conllu", place / "dev.conllu", None, {}
    )
    assert teach_module._other_corpora(config) == {}
    config["initialize"]["components"]["spectral_parser"]["silver_corpus"] = ["corpora.other"]
    config["corpora"]["other"] = {"path": str(place / "gold.conllu")}
    found = teach_module._other_corpora(config)
    assert found == {"corpora.other": teach_module.digest_of(place / "gold.conllu")}
    config["corpora"]["other"]["path"] = None
    assert teach_module._other_corpora(config) == {"corpora.other": None}


def test_experts_of_a_product_are_fitted_to_more_text(place):
    paths = (ROOT / "configs" / "accurate.cfg", place / "gold.conllu", place / "dev.conllu")
    experts = "components.spectral_parser.model.experts"
    own = {f"{experts}.loglinear.min_blocks": 3, f"{experts}.biaffine.epochs": 30}
    for silver, overrides, *wanted in (
        (place, {}, 10, 10),
        (None, {}, 2, 24),
        (place, own, 3, 30),
    ):
        config = teach_module.student_config(*paths, silver, overrides)
        found = config["components"]["spectral_parser"]["model"]["experts"]
        assert [found["loglinear"]["min_blocks"], found["biaffine"]["epochs"]] == wanted


def test_a_taught_parser_looks_at_fewer_arcs(place):
    paths = (ROOT / "configs" / "pipeline.cfg", place / "gold.conllu", place / "dev.conllu")
    name = "components.spectral_parser.model.parse_threshold"
    for silver, overrides, wanted in (
        (None, {}, 0.01),
        (place, {}, 0.03),
        (place, {name: 0.002}, 0.002),
        (place, {name: 0.05}, 0.05),
        (place, {name: None}, None),
    ):
        config = teach_module.student_config(*paths, silver, overrides)
        model = config.interpolate()["components"]["spectral_parser"]["model"]
        assert model["parse_threshold"] == wanted
    # in a product, what others think likely stays
    paths = (ROOT / "configs" / "accurate.cfg", *paths[1:])
    config = teach_module.student_config(*paths, place, {})
    experts = config["components"]["spectral_parser"]["model"]["experts"]
    assert experts["loglinear"]["parse_threshold"] is None


def test_other_silver_corpora_of_the_config_stay(tmp_path):
    """The teacher's trees come beside them."""
    text = (ROOT / "configs" / "pipeline.cfg").read_text("utf8")
    listed = 'silver_corpus = ["corpora.other"]\n'
    config = tmp_path / "two.cfg"
    config.write_text(text.replace('silver_corpus = "corpora.silver"\n', listed), "utf8")
    assert listed in config.read_text("utf8")
    for path in (gold := tmp_path / "gold.conllu", dev := tmp_path / "dev.conllu"):
        path.write_text("", "utf8")
    student = teach_module.student_config(config, gold, dev, tmp_path / "silver", {})
    corpora = student["initialize"]["components"]["spectral_parser"]["silver_corpus"]
    assert corpora == ["corpora.silver", "corpora.other"]


def test_settings_may_be_variables_of_the_config(place, tmp_path):
    text = (ROOT / "configs" / "accurate.cfg").read_text("utf8")
    epochs = next(line for line in text.splitlines() if line.startswith("epochs = 24"))
    config = tmp_path / "variables.cfg"
    config.write_text(
        "[vars]\nepochs = 24\n" + text.replace(epochs, "epochs = ${vars.epochs}"), "utf8"
    )
    paths = (config, place / "gold.conllu", place / "dev.conllu")
    for silver, wanted in ((place, 10), (None, 24)):
        student = teach_module.student_config(*paths, silver, {}).interpolate()
        model = student["components"]["spectral_parser"]["model"]
        assert model["experts"]["biaffine"]["epochs"] == wanted
