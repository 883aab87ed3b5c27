"""What is shipped beside the package: configs, the project file, commands on a trained pipeline."""

import re
from pathlib import Path

import numpy
import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_nlp
from spacy.util import load_config
from spacy.vocab import Vocab
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.treebank.documents import read_docs

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.cfg"))
TWO_FOLDS = {"components.spectral_reranker.model.folds": 2}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def train(name, sample, output, **overrides):
    """What `spacy train` does with a config."""
    overrides = {"paths.train": str(sample["train"]), "paths.dev": str(sample["dev"]), **overrides}
    config = load_config(ROOT / "configs" / name, overrides=overrides, interpolate=False)
    output.mkdir(exist_ok=True)
    nlp = init_nlp(config)
    train_nlp(nlp, output)
    return output / "model-best"


def run_snippets(page, model):
    """The Python of a page of docs/, with a pipeline in place of the one that it loads."""
    names = {}
    for snippet in re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf8"), re.S
    ):
        exec(re.sub(r"training/(refine/)?model-best", model.as_posix(), snippet), names)
    return names


@pytest.fixture(scope="module")
def model(sample, tmp_path_factory):
    return train("shag.cfg", sample, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_configs_are_filled(path, tmp_path):
    if re.search(r"^source = (?!null)", path.read_text(encoding="utf8"), re.M):
        pytest.skip("needs a trained tagger to be filled")
    if path.name.startswith("transformer"):
        pytest.importorskip("spacy_curated_transformers", reason="needs the extra transformers")
    result = run("init", "fill-config", path, tmp_path / "filled.cfg")
    assert result.exit_code == 0, result.output
    filled = load_config(tmp_path / "filled.cfg", interpolate=False)
    assert filled == load_config(path, interpolate=False)


def test_project_names_existing_commands_and_configs():
    project = srsly.read_yaml(ROOT / "project.yml")
    names = {command["name"] for command in project["commands"]}
    for workflow in project["workflows"].values():
        assert set(workflow) <= names
    for command in project["commands"]:
        for dep in command.get("deps", []):
            if dep.startswith("configs/"):
                assert (ROOT / dep).exists()


def test_evaluate_beside_the_ceiling(model, sample, tmp_path):
    scores, plot = tmp_path / "scores.json", tmp_path / "plot.svg"
    options = ["--gold-tags", "--sample-ceiling", "--json", scores, "--plot", plot]
    result = run("spectral", "evaluate", model, sample["test"], *options)
    assert result.exit_code == 0, result.output
    found = srsly.read_json(scores)
    assert 0.9 < found["uas"] < found["ceiling_uas"] <= 1
    assert found["tag_acc"] == 1.0
    assert found["las"] <= found["uas"]
    assert "Calibration error" in result.output
    assert found["heads"]["right"] == found["uas"]
    assert found["arcs"]["right"] == found["las"]
    assert abs(found["heads"]["expected"] - found["uas"]) <= found["heads"]["calibration_error"]
    assert f"{found['arcs']['calibration_error']:.2%}" in plot.read_text(encoding="utf8")


def test_ceiling_of_another_treebank_is_refused(model, tmp_path):
    other = tmp_path / "other.conllu"
    columns = ["1", "x", "x", "X", "STRANGE", "_", "0", "root", "_", "_"]
    other.write_text("\t".join(columns) + "\n\n", encoding="utf8")
    result = run("spectral", "evaluate", model, other, "--gold-tags", "--sample-ceiling")
    assert result.exit_code == 1
    assert "S155" in result.output.replace("\n", "")


def test_nbest(model):
    text = "The_DT dog_NN saw_VBD a_DT man_NN in_IN the_DT park_NN-P ._."
    result = run("spectral", "nbest", model, text, "-k", 3, "--tables")
    assert result.exit_code == 0, result.output
    assert result.output.count("log P") == 3
    first, second = result.output.split("log P")[1:3]
    assert "*" not in first
    assert "*" in second


@pytest.mark.parametrize("labelled", [False, True])
def test_nbest_prints_what_differs(model, labelled):
    text = "The_DT dog_NN saw_VBD a_DT man_NN in_IN the_DT park_NN-P ._."
    options = ["--labelled"] if labelled else []
    result = run("spectral", "nbest", model, text, "-k", 4, *options)
    assert result.exit_code == 0, result.output
    assert result.output.count("log P") == result.output.count("Relation") == 1
    lines = result.output.strip().split("\n")
    shares = []
    for rank, line in enumerate(lines[-4:-1], start=2):
        number, share, differences = line.split(" ", 2)
        assert number == f"{rank}."
        shares.append(0.0 if share == "<.001" else float(share))
        arc = r"\w+( <- [\w.]+)?"
        for part in differences.split("; "):
            assert re.fullmatch(rf"[\w.]+: {arc} \(was {arc}\)", part), part
    assert shares == sorted(shares, reverse=True)
    first = float(re.search(r"1\. P = ([0-9.]+)", result.output)[1])
    total = float(
        re.fullmatch(r"Together ([0-9.]+) of all probability\. .* over heads.*", lines[-1])[1]
    )
    assert total == pytest.approx(first + sum(shares), abs=0.004)
    assert total <= 1
    assert ("over heads and labels" in lines[-1]) == labelled


def test_nbest_says_what_is_missing(model):
    result = run("spectral", "nbest", model, "no tags here")
    assert result.exit_code == 1
    assert "S112" in result.output
    result = run("spectral", "nbest", model, "a_DT", "--component", "parser")
    assert result.exit_code == 1
    assert "S154" in result.output


@pytest.mark.parametrize("name", ["shag.cfg", "tok2vec.cfg", "tok2vec_constituency.cfg"])
def test_spacy_debugs_models(name, few):
    is_about_trees = name == "tok2vec_constituency.cfg"
    component = "spectral_constituency" if is_about_trees else "spectral_parser"
    train, dev = (
        few[split].with_suffix(".ptb") if is_about_trees else few[split]
        for split in ("train", "dev")
    )
    paths = ("--paths.train", train, "--paths.dev", dev)
    options = ("-P0", "-P1", "-P2", "-P3", "-ATTR")
    result = run("debug", "model", ROOT / "configs" / name, component, *paths, *options)
    assert result.exit_code == 0, result.output
    assert "STEP 3" in result.output


@pytest.mark.parametrize(
    "overrides",
    [
        {"components.spectral_parser.model.estimator": "em"},
        {"components.spectral_parser.model.states": 7},
        {"components.spectral_parser.model.lexical": "LEX+FCP"},
        {"components.spectral_parser.symbol": "POS"},
    ],
    ids=lambda overrides: "-".join(map(str, overrides.values())),
)
def test_overrides(sample, tmp_path, overrides):
    path = train("shag.cfg", sample, tmp_path, **overrides)
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["dep_uas"] > 0.6


def test_tagger_then_parser(sample, tmp_path):
    converted = {}
    for split, path in sample.items():
        converted[split] = tmp_path / f"{split}.spacy"
        DocBin(docs=read_docs(path, Vocab()), store_user_data=False).to_disk(converted[split])
    tagger = train("tagger.cfg", converted, tmp_path / "tagger")
    overrides = {"paths.tagger": str(tagger)}
    path = train("shag_tagged.cfg", converted, tmp_path / "parser", **overrides)
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["dep_uas"] > 0.7
    result = run("spectral", "evaluate", path, sample["test"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["constituency.cfg", "constituency_accurate.cfg"])
def test_constituency_reads_brackets_and_sets_sentences(few, tmp_path, name):
    brackets = {split: path.with_suffix(".ptb") for split, path in few.items()}
    model = "components.spectral_constituency.model"
    overrides = {f"{model}.states": 2, f"{model}.epochs": 1, f"{model}.anchored_epochs": 1}
    if name == "constituency_accurate.cfg":
        overrides |= {f"{model}.neural.epochs": 4}
    path = train(name, brackets, tmp_path, **overrides)
    nlp = spacy.load(path)
    assert nlp.meta["performance"]["bracket_f"] > 0.5
    doc = nlp("The old dog sleeps. It saw a man.")
    assert [sent._.parse_string.count("(S ") > 0 for sent in doc.sents] == [True, True]
    run_snippets("constituency.md", path)


def test_refined(few, tmp_path):
    path = train("refined.cfg", few, tmp_path, **{"components.spectral_parser.model.states": 60})
    names = run_snippets("refinement.md", path)
    assert names["logs"].shape == (9, 9)
    assert numpy.exp(names["logs"]).sum(axis=1) == pytest.approx(numpy.ones(9), abs=0.01)


def test_tok2vec(sample, tmp_path):
    overrides = {"training.max_epochs": 4, "training.eval_frequency": 10}
    path = train("tok2vec.cfg", sample, tmp_path, **overrides)
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["dep_uas"] > 0.6
    assert scores["tag_acc"] > 0.5
    assert scores["spectral_parser_loss"] > 0
    result = run("spectral", "evaluate", path, sample["test"])
    assert result.exit_code == 0, result.output


def test_constituents_over_tok2vec(sample, tmp_path):
    brackets = {split: path.with_suffix(".ptb") for split, path in sample.items()}
    overrides = {
        "training.max_epochs": 6,
        "training.eval_frequency": 30,
        "training.batcher.size": 200,
    }
    path = train("tok2vec_constituency.cfg", brackets, tmp_path, **overrides)
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["bracket_f"] > 0.7
    assert scores["spectral_constituency_loss"] > 0
    result = run("spectral", "evaluate", path, brackets["test"])
    assert result.exit_code == 0, result.output
    doc = spacy.load(path)("The old dog sleeps. It saw a man.")
    assert all(sent._.parse_string.startswith("(S ") for sent in doc.sents)


@pytest.fixture(scope="module")
def whole(few, tmp_path_factory):
    """From raw text to trees."""
    return train("pipeline.cfg", few, tmp_path_factory.mktemp("whole"))


def test_pipeline_then_reranker(whole, few, tmp_path):
    path = train("rerank.cfg", few, tmp_path / "rerank", **{"paths.base": str(whole)} | TWO_FOLDS)
    before, after = (srsly.read_json(own / "meta.json")["performance"] for own in (whole, path))
    assert after["dep_las"] > 0.9 * before["dep_las"]
    result = run("spectral", "evaluate", path, few["test"])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def accurate(few, tmp_path_factory):
    """The whole pipeline with the product of experts, small ones."""
    config = load_config(ROOT / "configs" / "accurate.cfg", interpolate=False)
    small = {"mix_size": 16, "scan_size": 16, "scan_depth": 1, "arc_size": 16, "label_size": 16}
    overrides = {
        f"components.{component}.model.experts.{name}.{setting}": value
        for component in ("spectral_tagger", "spectral_parser")
        for name, expert in config["components"][component]["model"]["experts"].items()
        for setting, value in (small | {"epochs": 2, "averaged": 1}).items()
        if setting in expert
    }
    return train("accurate.cfg", few, tmp_path_factory.mktemp("accurate"), **overrides)


def test_two_gears_of_one_pipeline():
    """The fast and the accurate pipeline differ in the models of tagger and parser, and in nothing else."""
    fast, accurate = (
        load_config(ROOT / "configs" / f"{name}.cfg", interpolate=False)
        for name in ("pipeline", "accurate")
    )
    for config in (fast, accurate):
        for name in ("spectral_tagger", "spectral_parser"):
            del config["components"][name]["model"]
    # word vectors for the neural experts, and what the exponents of the taggers are learnt from
    given = accurate["initialize"]["components"]
    assert given["spectral_parser"].pop("vectors") and given["spectral_tagger"].pop("vectors")
    # a network that has learnt from raw text
    assert given["spectral_parser"].pop("pretrained") == "${paths.pretrained}"
    del accurate["paths"]["pretrained"]
    assert given["spectral_tagger"].pop("dev_corpus")
    assert accurate == fast


def test_the_accurate_gear_starts_from_raw_text(accurate):
    doc = spacy.load(accurate)("The dog saw a man. She sleeps.")
    assert [sent.text for sent in doc.sents] == ["The dog saw a man.", "She sleeps."]
    assert all(token.lemma_ and token.tag_ and token.dep_ for token in doc)


@pytest.mark.parametrize(
    ("kind", "config"),
    [("accurate", "rerank.cfg"), ("accurate", "rerank_list.cfg"), ("model", "rerank.cfg")],
)
def test_reranker_on_any_pipeline(kind, config, few, tmp_path, request):
    """One config for bases of different components: all of them stand before the reranker, as they were."""
    base = request.getfixturevalue(kind)
    path = train(config, few, tmp_path, **{"paths.base": str(base)} | TWO_FOLDS)
    before, after = spacy.load(base), spacy.load(path)
    assert after.pipe_names == [*before.pipe_names, "spectral_reranker"]
    assert after.tokenizer.to_bytes() == before.tokenizer.to_bytes()
    assert after.config["nlp"]["tokenizer"] == before.config["nlp"]["tokenizer"]
    assert after.config["nlp"]["after_pipeline_creation"] is None  # it needs the base no longer
    for name in before.pipe_names:
        one, other = (nlp.get_pipe(name).to_bytes(exclude=["vocab"]) for nlp in (after, before))
        assert one == other
    assert after.meta["performance"]["dep_uas"] > 0.8 * before.meta["performance"]["dep_uas"]
    result = run("spectral", "evaluate", path, few["test"], "--gold-tags")
    assert result.exit_code == 0, result.output


def test_reranker_without_a_base_says_so(few, tmp_path):
    with pytest.raises(ValueError, match="S532"):
        train("rerank.cfg", few, tmp_path)


def test_constituents_on_a_whole_pipeline(whole, few, tmp_path):
    """One pipeline from raw text to lemmas, dependencies and constituents."""
    brackets = {split: path.with_suffix(".ptb") for split, path in few.items()}
    path = train("constituency.cfg", brackets, tmp_path / "both", **{"paths.base": str(whole)})
    before, after = spacy.load(whole), spacy.load(path)
    assert after.pipe_names == [*before.pipe_names, "sentencizer", "spectral_constituency"]
    text = "The dog saw a man. She sleeps."
    doc, other = after(text), before(text)
    assert [(t.text, t.tag_, t.lemma_, t.head.i, t.dep_) for t in doc] == [
        (t.text, t.tag_, t.lemma_, t.head.i, t.dep_) for t in other
    ]
    assert [sent.text for sent in doc.sents] == ["The dog saw a man.", "She sleeps."]
    assert all(sent._.parse_string.startswith("(S") for sent in doc.sents)
    performance = after.meta["performance"]
    assert performance["bracket_f"] > 0.6
    # its probabilities were fitted to the development trees
    assert after.get_pipe("spectral_constituency").learnt.mixture.calibration != 1.0
    texts = [text, "A man sleeps.", ""]
    expected = [doc.to_bytes() for doc in after.pipe(texts)]
    assert [doc.to_bytes() for doc in after.pipe(texts, n_process=2, batch_size=1)] == expected
