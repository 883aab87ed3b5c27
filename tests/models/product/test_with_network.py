"""Products with an expert that is trained step by step, `Biaffine.v1`, beside experts trained as a whole."""

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.util import fix_random_seed
from thinc.api import Adam
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from pipelines import hash_embed
from spacy_spectral.base.learnt import Learnt
from spacy_spectral.models.product.parser import ProductParser

TOK2VEC = hash_embed(32)
NETWORK = {
    "@architectures": "spacy-spectral.Biaffine.v1",
    "tok2vec": TOK2VEC,
    "scan_depth": 0,
    "arc_size": 16,
    "label_size": 16,
}
# all arcs are kept, so that every tree can be compared
LINEAR = {
    "@architectures": "spacy-spectral.LogLinear.v1",
    "epochs": 1,
    "n_states": 1,
    "prune_threshold": 0.0,
    "prune_most": 99,
}
EXPERTS = {"linear": LINEAR, "network": NETWORK}


def product(**settings):
    return {"@architectures": "spacy-spectral.Product.v1", "experts": EXPERTS, **settings}


def make(**settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    tagger = {"@architectures": "spacy-spectral.LinearTagger.v1", "epochs": 1}
    nlp.add_pipe("spectral_tagger", config={"model": tagger})
    nlp.add_pipe(
        "spectral_parser", config={"model": product(**settings), "jackknife": "spectral_tagger"}
    )
    return nlp


@pytest.fixture(scope="module")
def trained(examples):
    """Tests must not change it."""
    # from some weights the first step goes too far
    fix_random_seed(2)
    nlp = make()
    few = examples(nlp, annotations=["sents"])[:150]
    nlp.initialize(lambda: few)
    optimizer, losses = Adam(0.01), []
    for _ in range(8):
        losses.append(nlp.update(few, sgd=optimizer, losses={})["spectral_parser"])
    assert losses == sorted(losses, reverse=True)
    return nlp


def with_weights(nlp, **weights):
    """A parser that parses with other weights."""
    learner = nlp.get_pipe("spectral_parser").learner
    return learner._with(learner.product.with_weights(weights))


def test_is_the_product(trained):
    """Of all labelled trees of a sentence: log P is the weighted sum of the experts', but for a constant."""
    parser = trained.get_pipe("spectral_parser")
    doc = trained("Dogs sleep")
    batch = parser.read([doc])

    def trees(**weights):
        found = with_weights(trained, **weights).parse(batch).k_best(0, 10_000, labelled=True)
        assert len(found) < 10_000
        return {(tuple(p.heads.tolist()), tuple(p.labels.tolist())): p.log_prob for p in found}

    linear, network = trees(linear=1, network=0), trees(linear=0, network=1)
    both = trees(linear=0.6, network=0.3)
    # each leaves out labels that are all but impossible to it
    common = both.keys() & linear.keys() & network.keys()
    assert len(common) > 20
    assert sum(numpy.exp(both[tree]) for tree in common) == pytest.approx(1, abs=1e-3)
    rest = [both[tree] - 0.6 * linear[tree] - 0.3 * network[tree] for tree in common]
    numpy.testing.assert_allclose(rest, rest[0], atol=1e-3)


def test_one_expert_alone(trained):
    parser = trained.get_pipe("spectral_parser")
    batch = parser.read([trained("The dog saw a man with a telescope.")])
    learner = parser.learner
    linear = learner.product.experts["linear"].parse(batch.tokens)
    network = learner._network().parse(batch, batch.tokens.starts)
    for alone, weights in ((linear, (1, 0)), (network, (0, 1))):
        parses = with_weights(trained, **dict(zip(EXPERTS, weights, strict=True))).parse(batch)
        numpy.testing.assert_allclose(parses.marginals(0), alone.marginals(0), atol=1e-5)
        assert parses.heads.tolist() == alone.heads.tolist()
        nothing = with_weights(trained, **dict(zip(EXPERTS, weights, strict=True)))
        assert nothing.parse(parser.read([trained.make_doc(" ")])).heads.tolist() == []


@pytest.mark.parametrize("given", [None, {"linear": 0.7, "network": 0.2}])
def test_weights_are_learnt_by_calibration(trained, given, examples, sample, tmp_path):
    nlp = trained
    if given is not None:
        nlp = make(weights=given)
        few = examples(nlp, annotations=["sents"])[:50]
        nlp.initialize(lambda: few)
    before = nlp.get_pipe("spectral_parser").grammar
    assert before.product.weights == (given or dict.fromkeys(EXPERTS, 0.5))
    nlp.to_disk(tmp_path / "model")
    command = ["spectral", "calibrate", str(tmp_path / "model"), str(sample["dev"])]
    result = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "calibrated")])
    assert result.exit_code == 0, result.output
    assert "Weights of experts" in result.output
    learnt = spacy.load(tmp_path / "calibrated").get_pipe("spectral_parser").grammar
    assert (learnt.product.weights == before.product.weights) == (given is not None)
    assert learnt.temperature != before.temperature


def test_what_fits_together():
    for experts in ({"network": NETWORK}, {"one": NETWORK, "two": NETWORK, "linear": LINEAR}):
        with pytest.raises(ValueError, match=r"\[S458\]"):
            spacy.blank("en").add_pipe(
                "spectral_parser", config={"model": product() | {"experts": experts}}
            )


def test_experts_that_are_not_there(trained, examples):
    """Files of products with an expert outside that the config does not have."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    few = examples(nlp)[:30]
    parser = nlp.add_pipe("spectral_parser", config={"model": product(experts={"linear": LINEAR})})
    nlp.initialize(lambda: few)
    learner = trained.get_pipe("spectral_parser").learner
    other = nlp.from_bytes(nlp.to_bytes()).get_pipe("spectral_parser")
    other.model.attrs["learnt"] = Learnt(ProductParser, learner.product)
    with pytest.raises(ValueError, match=r"\[S002\].*'network'"):
        parser.from_bytes(other.to_bytes())


@pytest.mark.parametrize("model", ["Reranker.v1", "ForestReranker.v1"])
def test_rerankers_refuse_it(trained, examples, model):
    """Copies of the network can't be trained on parts of the data."""
    nlp = spacy.blank("en")
    for name in trained.pipe_names:
        nlp.add_pipe(name, source=trained)
    config = {"model": {"@architectures": f"spacy-spectral.{model}"}}
    reranker = nlp.add_pipe("spectral_reranker", config=config)
    with pytest.raises(ValueError, match=r"\[S543\]"):
        reranker.initialize(lambda: examples(nlp)[:30], nlp=nlp)
