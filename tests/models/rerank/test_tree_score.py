"""Scores of given trees: corrupted arcs come out as the least likely."""

import numpy
import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.models.rerank.tree_estimate import TreeSettings, estimate_tree_model
from spacy_spectral.models.rerank.tree_model import tree_scores
from spacy_spectral.treebank.conllu import read_conllu
from spacy_spectral.trees.sentences import Tokens


@pytest.fixture(scope="module")
def reranking(trained, examples):
    """A trained reranker. Tests must not change it."""
    nlp = spacy.blank("en", vocab=trained.vocab)
    nlp.add_pipe("spectral_parser", source=trained)
    model = {"@architectures": "spacy-spectral.Reranker.v1", "states": 4}
    reranker = nlp.add_pipe("spectral_reranker", config={"model": model, "n": 5})
    reranker.initialize(lambda: examples(nlp), nlp=nlp)
    return nlp


def sentences(path):
    for sentence in read_conllu(path):
        heads = [0 if head == i else head + 1 for i, head in enumerate(sentence.heads)]
        yield sentence, numpy.array(heads, dtype="int32")


def test_corrupted_arcs_are_found(sample):
    settings = TreeSettings(states=6)
    train = list(sentences(sample["train"]))
    models = {
        kind: estimate_tree_model(
            ((getattr(sentence, column), heads) for sentence, heads in train),
            words=kind == "words",
            settings=settings,
        )
        for kind, column in (("words", "words"), ("tags", "xpos"), ("labels", "deps"))
    }
    random = numpy.random.default_rng(0)
    found = []
    for sentence, heads in sentences(sample["dev"]):
        n = len(heads)
        # a leaf can hang anywhere
        leaves = [i for i in range(n) if i + 1 not in heads and heads[i]]
        corrupted = -1
        if len(leaves) > 2 and random.random() < 0.5:
            corrupted = random.choice(leaves)
            heads[corrupted] = random.choice(
                [h for h in range(1, n + 1) if h not in (corrupted + 1, heads[corrupted])]
            )
        none = [""] * n
        tokens = Tokens(
            numpy.array([0, n], "int32"), sentence.words, sentence.xpos, none, none, none
        )
        (score,) = tree_scores(models, tokens, heads, sentence.deps)
        assert numpy.isnan(score.head_probs).tolist() == (heads == 0).tolist()
        arcs = score.head_probs[heads > 0]
        assert ((arcs >= 0) & (arcs <= 1)).all()
        found += [(prob, i == corrupted) for i, prob in enumerate(score.head_probs) if prob == prob]
    found.sort()
    n_corrupted = sum(is_corrupted for _, is_corrupted in found)
    assert n_corrupted >= 15
    # by chance 1 in 20 would be
    first = [is_corrupted for _, is_corrupted in found[:n_corrupted]]
    assert sum(first) > 0.5 * n_corrupted


def test_score_of_a_doc(reranking, examples):
    reranker = reranking.get_pipe("spectral_reranker")
    for eg in examples(reranking, "dev")[:10]:
        doc = eg.reference
        before = doc.to_bytes()
        (score,) = reranker.spectral_tree_score(doc)
        assert doc.to_bytes() == before
        assert len(score.head_probs) == len(doc)
        assert score.log_prob < 0
        moved = doc.copy()
        for token in moved:
            if token.head.i == token.i:
                continue
            if not list(token.children):
                token.head = next(t for t in moved if t.i not in (token.i, token.head.i))
        (worse,) = reranker.spectral_tree_score(moved)
        assert worse.gain < score.gain


def test_missing_heads_have_no_score(reranking, examples):
    doc = examples(reranking, "dev")[0].predicted
    assert not doc.has_annotation("DEP")
    assert reranking.get_pipe("spectral_reranker").spectral_tree_score(doc) == [None]


def test_sentences_of_white_space(reranking, tmp_path):
    doc = Doc(
        reranking.vocab,
        words=["\n", "The", "dog", " ", "barks", ".", "\n", "\n"],
        tags=["_SP", "DT", "NN", "_SP", "VBZ", ".", "_SP", "_SP"],
        heads=[0, 2, 4, 2, 4, 4, 6, 6],
        deps=["dep", "det", "nsubj", "dep", "ROOT", "punct", "dep", "dep"],
    )
    first, score, last = reranking.get_pipe("spectral_reranker").spectral_tree_score(doc)
    assert len(list(doc.sents)) == 3
    assert first is None and last is None
    assert len(score.head_probs) == 4 and numpy.isnan(score.head_probs[2])
    DocBin(docs=[doc]).to_disk(tmp_path / "spaces.spacy")
    reranking.to_disk(tmp_path / "model")
    result = run(tmp_path / "model", tmp_path / "spaces.spacy", "--json", tmp_path / "all.json")
    assert result.exit_code == 0, result.output
    assert "1 trees, 4 tokens" in result.output
    assert "missing" not in result.output
    (row,) = srsly.read_json(tmp_path / "all.json")
    assert row["sentence"] == 2  # counted from 1


def run(*arguments):
    return CliRunner().invoke(app, ["spectral", "score", *map(str, arguments)])


def test_tree_models_are_needed(trained, examples):
    nlp = spacy.blank("en", vocab=trained.vocab)
    nlp.add_pipe("spectral_parser", source=trained)
    model = {"@architectures": "spacy-spectral.Reranker.v1", "features": ["base"]}
    reranker = nlp.add_pipe("spectral_reranker", config={"model": model, "n": 5})
    reranker.initialize(lambda: examples(nlp), nlp=nlp)
    with pytest.raises(ValueError, match="S507"):
        reranker.spectral_tree_score(examples(nlp, "dev")[0].reference)


def test_command(reranking, sample, tmp_path):
    reranking.to_disk(tmp_path / "model")
    result = run(tmp_path / "model", sample["dev"], "--arcs", 3, "--json", tmp_path / "all.json")
    assert result.exit_code == 0, result.output
    assert "60 trees" in result.output
    scores = srsly.read_json(tmp_path / "all.json")
    assert [own["sentence"] for own in scores] == list(range(1, 61))
    assert scores[0]["head_probs"].count(None) == 1

    result = run(tmp_path / "model", sample["dev"], "--component", "spectral_parser")
    assert result.exit_code == 1
    assert "S508" in result.output
    (tmp_path / "bad.conllu").write_text("1\tno\n\n")
    result = run(tmp_path / "model", tmp_path / "bad.conllu")
    assert result.exit_code == 1
    assert "bad.conllu" in result.output
