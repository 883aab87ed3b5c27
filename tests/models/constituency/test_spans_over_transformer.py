"""configs/transformer_constituency.cfg, with a tiny transformer of random weights: nothing is downloaded.

Needs the extra "transformers", which brings PyTorch: without it these tests are skipped.
"""

import numpy
import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.tokens import Doc
from spacy.util import load_config
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.readers import Corpus
from tiny_transformer import train_tiny

pytest.importorskip("spacy_curated_transformers", reason="needs the extra transformers")

TEXT = "The old dog sleeps. It saw a man with a telescope."


@pytest.fixture(scope="module")
def path(sample, brackets, tmp_path_factory):
    """A pipeline of the config."""
    output = tmp_path_factory.mktemp("transformer")
    size = {"components.spectral_constituency.model.span_size": 32}
    name = "transformer_constituency.cfg"
    return train_tiny(name, brackets, output, words=sample["train"], **size)


@pytest.fixture
def nlp(path):
    return spacy.load(path)


def test_trained_from_raw_text(path, nlp, brackets):
    scores = srsly.read_json(path / "meta.json")["performance"]
    assert scores["bracket_f"] > 0.6
    assert scores["sents_f"] > 0.8
    doc = nlp(TEXT)
    assert [sent._.parse_string.startswith("(S") for sent in doc.sents] == [True, True]
    assert all(0 < node.prob <= 1 for tree in stored_trees(doc) for node in tree.parsed.nodes)
    for options in ([], ["--raw"]):
        command = ["spectral", "evaluate", str(path), str(brackets["test"]), *options]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output


def test_gradients_reach_the_transformer(nlp, brackets):
    examples = list(Corpus(brackets["train"], annotations=["sents"], n_sents=4)(nlp))[:4]
    transformer = nlp.get_pipe("transformer").model
    before, optimizer = transformer.to_bytes(), nlp.resume_training()
    losses = []
    for _ in range(4):
        own = nlp.update(examples, sgd=optimizer, losses={}, exclude=["spectral_senter"])
        losses.append(own["spectral_constituency"])
    assert losses[-1] < losses[0]
    assert transformer.to_bytes() != before


def test_exact_probabilities(nlp):
    """Over a transformer as over anything: those of constituents are sums over the most probable trees."""
    doc = nlp("The dog saw a man.")
    (trees,) = nlp.get_pipe("spectral_constituency").nbest_trees(doc, 200_000)
    assert len(trees) < 200_000
    probs = numpy.exp([tree.log_prob for tree in trees])
    assert probs.sum() == pytest.approx(1.0, abs=1e-6)
    for node in stored_trees(doc)[0].parsed.nodes:
        has = [node[:3] in {own[:3] for own in tree.nodes} for tree in trees]
        assert node.prob == pytest.approx(probs[has].sum(), abs=1e-5)


def test_saved_and_loaded(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    expected = nlp(TEXT)
    texts = [TEXT, "A man sleeps.", ""]
    for other in (
        spacy.load(tmp_path),
        spacy.blank(nlp.lang, config=nlp.config).from_bytes(nlp.to_bytes()),
    ):
        for doc in (other(TEXT), next(other.pipe(texts))):
            for one, two in zip(doc.sents, expected.sents, strict=True):
                assert one._.parse_string == two._.parse_string
                probs = [[span._.prob or 0 for span in s._.constituents] for s in (one, two)]
                numpy.testing.assert_allclose(*probs, atol=1e-4)


def test_calibrated(path, brackets, tmp_path):
    options = ["--component", "spectral_constituency", "--output", str(tmp_path / "calibrated")]
    command = ["spectral", "calibrate", str(path), str(brackets["dev"]), *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    nlp = spacy.load(tmp_path / "calibrated")
    assert nlp.get_pipe("spectral_constituency").learnt.mixture.calibration != 1.0


def test_without_its_transformer(nlp):
    """Listeners give zeros then, and the tree would be of nothing."""
    with nlp.select_pipes(disable=["transformer"]), pytest.raises(ValueError, match=r"\[S443\]"):
        nlp("A dog sleeps.")


def test_a_parser_and_constituents_share_a_transformer(path, sample, brackets, tmp_path):
    """A second component that listens, trained on documents that have one kind of trees or the other."""
    one = spacy.load(path)
    config = load_config(path / "config.cfg", interpolate=True)["components"]
    listener = config["spectral_constituency"]["model"]["tok2vec"]
    parser = {"@architectures": "spacy-spectral.Biaffine.v1", "tok2vec": listener, "scan_depth": 0}
    one.add_pipe("spectral_parser", config={"model": parser | {"arc_size": 16, "label_size": 16}})
    arcs = list(Corpus(sample["train"], annotations=["sents"], n_sents=1)(one))[:12]
    trees = list(Corpus(brackets["train"], annotations=["sents"], n_sents=1)(one))[:12]
    one.get_pipe("spectral_parser").initialize(lambda: arcs, nlp=one)
    optimizer = one.resume_training()
    for batch in (arcs, trees, [*arcs[:6], *trees[:6]]):
        losses = one.update(batch, sgd=optimizer, losses={}, exclude=["spectral_senter"])
        assert (losses["spectral_parser"] > 0) == (batch is not trees)
        assert (losses["spectral_constituency"] > 0) == (batch is not arcs)
    doc = one(Doc(one.vocab, words=TEXT.split()))
    assert all(token.dep_ for token in doc) and stored_trees(doc)
