"""configs/transformer.cfg, with a tiny transformer whose weights are random: nothing is downloaded.

Needs the extra "transformers", which brings PyTorch: without it these tests are skipped.
"""

import numpy
import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.cli.package import package
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.readers import Corpus
from tiny_transformer import train_tiny

pytest.importorskip("spacy_curated_transformers", reason="needs the extra transformers")

LAYERS = ("arc_size", "label_size")
TEXT = "The old dog sleeps. It saw a man with a telescope."


def sizes(network):
    """Small layers of a parser."""
    return {f"components.spectral_parser.{network}.{size}": 32 for size in LAYERS}


@pytest.fixture(scope="module")
def path(sample, tmp_path_factory):
    """A pipeline of configs/transformer.cfg."""
    output = tmp_path_factory.mktemp("transformer")
    return train_tiny("transformer.cfg", sample, output, words=sample["train"], **sizes("model"))


@pytest.fixture
def nlp(path):
    return spacy.load(path)


def test_trained_from_raw_text(path, nlp, sample):
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["dep_uas"] > 0.6
    assert scores["tag_acc"] > 0.6
    doc = nlp(TEXT)
    assert len(list(doc.sents)) == 2
    assert all(0 < token._.head_prob <= 1 for token in doc)
    result = CliRunner().invoke(app, ["spectral", "evaluate", str(path), str(sample["test"])])
    assert result.exit_code == 0, result.output


def test_gradients_reach_the_transformer(nlp, sample):
    """What the parser learns changes the shared transformer, and with it all that listens."""
    examples = list(Corpus(sample["train"], annotations=["sents"], n_sents=1)(nlp))[:8]
    trf = nlp.get_pipe("transformer")
    before = trf.model.to_bytes()
    optimizer = nlp.resume_training()
    losses = []
    for _ in range(3):
        own = nlp.update(examples, sgd=optimizer, losses={}, exclude=["spectral_senter", "tagger"])
        losses.append(own["spectral_parser"])
    assert losses == sorted(losses, reverse=True)
    assert trf.model.to_bytes() != before


def test_exact_probabilities(nlp):
    """Over a transformer as over anything: marginals are sums over n-best parses."""
    doc = nlp("The dog saw a man.")
    parser = nlp.get_pipe("spectral_parser")
    (marginals,) = parser.marginals(doc)
    (parses,) = parser.nbest(doc, k=5000)
    assert len(parses) < 5000
    summed = numpy.zeros_like(marginals)
    for parse in parses:
        summed[range(len(doc)), parse.heads] += numpy.exp(parse.logprob)
    numpy.testing.assert_allclose(marginals, summed, atol=1e-6)


def test_saved_and_packaged(path, nlp, tmp_path):
    again = tmp_path / "again"
    nlp.to_disk(again)
    expected = nlp(TEXT)
    texts = [TEXT, "A man sleeps.", ""]
    for other in (
        spacy.load(again),
        spacy.blank(nlp.lang, config=nlp.config).from_bytes(nlp.to_bytes()),
    ):
        for doc in (other(TEXT), next(other.pipe(texts))):
            assert [t.head.i for t in doc] == [t.head.i for t in expected]
            assert [t.tag_ for t in doc] == [t.tag_ for t in expected]
            probs = [[t._.head_prob for t in own] for own in (doc, expected)]
            numpy.testing.assert_allclose(*probs, atol=1e-4)
    package(path, tmp_path, name="tiny", version="0.0.1", create_sdist=False, silent=True)
    (meta,) = tmp_path.glob("*tiny-0.0.1/meta.json")
    required = srsly.read_json(meta)["requirements"]
    assert any(name.startswith("spacy-curated-transformers") for name in required)
    assert any(name.startswith("spacy-spectral") for name in required)


def test_without_its_transformer(nlp, sample):
    """Listeners give zeros then, and the parse would be of nothing."""
    with nlp.select_pipes(disable=["transformer"]), pytest.raises(ValueError, match=r"\[S443\]"):
        nlp("A dog sleeps.")
    examples = list(Corpus(sample["dev"], annotations=["sents"], n_sents=1)(nlp))
    nlp.remove_pipe("transformer")
    with pytest.raises(ValueError, match=r"\[S443\]"):
        nlp.get_pipe("spectral_parser").initialize(lambda: examples, nlp=nlp)


def test_product_with_a_log_linear_parser(sample, tmp_path):
    """configs/transformer_product.cfg: the network is trained step by step, the other expert as a whole; then
    development data say how much each of them counts."""
    path = train_tiny(
        "transformer_product.cfg", sample, tmp_path, words=sample["train"],
        **sizes("model.experts.network"), **{"components.spectral_parser.model.experts.loglinear.epochs": 1},
    )  # fmt: skip
    assert srsly.read_json(path / "meta.json")["performance"]["dep_uas"] > 0.7
    assert spacy.load(path).get_pipe("spectral_parser").grammar.product.weights["network"] == 0.5
    command = ["spectral", "calibrate", path, sample["dev"], "--output", tmp_path / "calibrated"]
    result = CliRunner().invoke(app, [str(argument) for argument in command])
    assert result.exit_code == 0, result.output
    nlp = spacy.load(tmp_path / "calibrated")
    product = nlp.get_pipe("spectral_parser").grammar.product
    assert product.weights["network"] not in (0, 0.5)
    assert sum(product.weights.values()) == pytest.approx(1)
    doc = nlp("The dog saw a man.")
    assert all(0 < token._.head_prob <= 1 for token in doc)
    (marginals,) = nlp.get_pipe("spectral_parser").marginals(doc)
    numpy.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-6)
    # both experts have a say: without the transformer there is an error
    with nlp.select_pipes(disable=["transformer"]), pytest.raises(ValueError, match=r"\[S443\]"):
        nlp("A dog sleeps.")
