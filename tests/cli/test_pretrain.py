"""`spacy spectral pretrain`, and a pipeline that begins with what it has written."""

import gzip
from pathlib import Path

import pytest
import spacy
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from pipelines import from_raw_text, hash_embed
from spacy_spectral.models.biaffine.pretrain import PretrainedEncoder
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import read_docs

ROOT = Path(__file__).parents[2]
SIZES = {"mix_size": 16, "scan_size": 16, "scan_depth": 1}


@pytest.fixture(scope="module")
def place(few, tmp_path_factory):
    """A directory with a pipeline, eigenwords and a text."""
    path = tmp_path_factory.mktemp("pretrain")
    one = {"model": {"@architectures": "spacy-spectral.LogLinear.v1", "epochs": 1}}
    from_raw_text(few["train"], spectral_parser=one).to_disk(path / "model")
    docs = list(read_docs(few["train"], spacy.blank("en").vocab))
    (path / "text.txt").write_text("\n".join(doc.text for doc in docs), "utf8")
    options = ["-k", "8", "--clusters", "4,8", "--min-count", "2", "--output", path / "vectors"]
    spectral("eigenwords", path / "text.txt", *options)
    return path


def spectral(*arguments):
    result = CliRunner().invoke(app, ["spectral", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def command(*more, vectors="vectors", output="encoder.bin", text="text.txt"):
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    arguments = ["model", text, "--vectors", vectors, "--output", output, *sizes, *more]
    return CliRunner().invoke(app, ["spectral", "pretrain", *map(str, arguments)])


def failure(*more, **options):
    result = command(*more, **options)
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def encoder(place):
    """The path of an encoder."""
    path = place / "encoder.bin"
    spectral(
        "pretrain", place / "model", place / "text.txt", "--vectors", place / "vectors",
        "--output", path, *(f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()),
    )  # fmt: skip
    return path


def architecture(model):
    return {"@architectures": f"spacy-spectral.{model.pop('name')}", **model}


def with_parser(few, model, pretrained):
    """A pipeline of a parser alone, which is trained on gold tags."""
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser", config={"model": architecture(dict(model))})
    nlp.config["initialize"]["components"] = {"spectral_parser": {"pretrained": pretrained}}
    corpus = Corpus(few["train"], annotations=["sents", "tag"])
    nlp.initialize(lambda: corpus(nlp))
    return nlp


def network(**settings):
    return (
        {"name": "Biaffine.v2", "epochs": 5, "batch_size": 50, "arc_size": 16, "label_size": 16}
        | SIZES
        | settings
    )


def test_a_pipeline_begins_with_it(few, encoder):
    found = PretrainedEncoder.from_bytes(encoder.read_bytes())
    assert found.n_words > 500
    assert "the" in found.lexicon.strings["lower"] and "NN-P" in found.lexicon.strings["symbols"]
    nlp = with_parser(few, network(), str(encoder))
    known = nlp.get_pipe("spectral_parser").grammar.lexicon.strings["lower"]
    assert known[: len(found.lexicon.strings["lower"])] == found.lexicon.strings["lower"]
    assert with_parser(few, network(), str(encoder)).to_bytes() == nlp.to_bytes()
    assert with_parser(few, network(), None).to_bytes() != nlp.to_bytes()
    corpus = Corpus(few["dev"], annotations=["sents", "tag"])
    assert nlp.evaluate(list(corpus(nlp)))["dep_uas"] > 0.6
    again = spacy.blank("en")
    again.add_pipe("spectral_parser", config={"model": architecture(network())})
    again.from_bytes(nlp.to_bytes())
    docs = [own(next(iter(corpus(own))).predicted) for own in (nlp, again)]
    assert [token.head.i for token in docs[0]] == [token.head.i for token in docs[1]]


def test_an_expert_of_a_product_begins_with_it(few, encoder):
    experts = {
        "linear": {"@architectures": "spacy-spectral.LogLinear.v1", "epochs": 1},
        "network": architecture(network()),
    }
    product = {"name": "Product.v1", "experts": experts, "weights": {"linear": 1.0, "network": 1.0}}
    nlp = with_parser(few, dict(product), str(encoder))
    assert "network" in nlp.get_pipe("spectral_parser").grammar.experts
    other = with_parser(few, dict(product), None)
    assert other.to_bytes() != nlp.to_bytes()


def test_what_can_not_begin_with_it(few, encoder, tmp_path):
    with pytest.raises(ValueError, match=r"S462.*'spectral_parser'"):
        with_parser(few, {"name": "LogLinear.v1"}, str(encoder))
    with pytest.raises(ValueError, match=r"S463.*nothing.bin"):
        with_parser(few, network(), str(tmp_path / "nothing.bin"))
    with pytest.raises(ValueError, match=r"S461.*scan_depth = 1"):
        with_parser(few, network(scan_depth=2), str(encoder))
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(encoder.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"\[S467\].*damaged.bin.*\[S00"):
        with_parser(few, network(), str(damaged))
    step_by_step = {
        "name": "Biaffine.v1",
        "tok2vec": hash_embed(8),
    }
    with pytest.raises(ValueError, match=r"S444.*pretrained"):
        with_parser(few, step_by_step, str(encoder))


def test_the_same_text_in_other_files(place, encoder, tmp_path):
    """A directory of compressed lines; and no more words than asked for."""
    text = (place / "text.txt").read_text("utf8")
    (tmp_path / "texts").mkdir()
    with gzip.open(tmp_path / "texts" / "text.txt.gz", "wt", encoding="utf8") as file:
        file.write(text)
    output = tmp_path / "encoder.bin"
    given = [place / "model", tmp_path / "texts", "--vectors", place / "vectors", "--lines"]
    spectral("pretrain", *given, "--words", 200, "--scan-depth", 1, "--output", output)
    assert 150 < PretrainedEncoder.from_bytes(output.read_bytes()).n_words <= 200


def test_failures(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    assert "S201" in failure(text="nothing.txt")
    assert "S216" in failure(vectors="text.txt")
    assert "S460" in failure("--rate", 0)
    assert "S460" in failure("--scan-size", 15)
    (place / "empty.txt").write_text("\n", "utf8")
    assert "S205" in failure(text="empty.txt")
    result = command(output="text.txt/encoder.bin")
    assert result.exit_code == 1 and "S004" in result.output
    assert "S460" in failure("--seed", -1)
    (place / "tokens.jsonl").write_text('{"tokens": ["A", ""]}\n', "utf8")
    assert "S469" in failure(text="tokens.jsonl")
    assert "S468" in failure("--words", 1)
    assert "S466" in failure("--rate", 1e30, "--batch-size", 100)


def test_a_text_is_not_overwritten(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    (tmp_path / "one.txt").write_text("The dog barks .\n", "utf8")
    for text in ("one.txt", "."):
        assert "S465" in failure(text=tmp_path / text, output=tmp_path / "one.txt")
    assert (tmp_path / "one.txt").read_text("utf8") == "The dog barks .\n"
