"""Anchored rules that look at arcs of a parser for dependencies."""

import numpy
import pytest

from spacy_spectral.models.constituency.architecture import ConstituencyRecipe, NeuralSpanRecipe
from spacy_spectral.models.constituency.calibration import Claims
from spacy_spectral.models.constituency.evalb import Constituent
from spacy_spectral.models.constituency.model import ConstituencyModel
from spacy_spectral.models.constituency.tokens import Arcs
from spacy_spectral.treebank.brackets import read_brackets

# the same words: only arcs tell who had the telescope
TREES = """
(ROOT (S (NP (PRP she)) (VP (VBD saw) (NP (NN man)) (PP (IN with) (NP (NN glass))))))
(ROOT (S (NP (PRP she)) (VP (VBD saw) (NP (NP (NN man)) (PP (IN with) (NP (NN glass)))))))
"""
WORDS = ["she", "saw", "man", "with", "glass"]
LABELS = ["nsubj", "root", "obj", "obl", "obl"]
BY_VERB, BY_NOUN = (Arcs(numpy.array([2, 0, 2, head, 4], dtype="int32"), LABELS) for head in (2, 3))


@pytest.fixture
def trees(tmp_path):
    (tmp_path / "trees.ptb").write_text(TREES * 10, "utf8")
    return list(read_brackets(tmp_path / "trees.ptb"))


def parse(model, arcs):
    starts = numpy.array([0, len(WORDS), 2 * len(WORDS)])
    parsed, _ = model.parse(WORDS * 2, starts, beside=arcs)
    return [Constituent("NP", 2, 5) in {node[:3] for node in tree.nodes} for tree in parsed]


def test_arcs_decide(trees):
    recipe = ConstituencyRecipe(estimator=None, min_count=1)
    model = recipe.fit(trees, arcs=Arcs.joined([BY_VERB, BY_NOUN] * 10))
    assert model.uses_arcs
    assert parse(model, Arcs.joined([BY_VERB, BY_NOUN])) == [False, True]
    assert parse(model, Arcs.joined([BY_NOUN, BY_VERB])) == [True, False]
    again = ConstituencyModel.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert parse(again, Arcs.joined([BY_NOUN, BY_VERB])) == [True, False]
    # as sure as they should be, by sentences with their arcs
    gold = [[Constituent("NP", 2, 5)], []]
    claims = Claims(model, [WORDS] * 2, gold, [BY_NOUN, BY_VERB])
    assert claims.right.sum() == 1
    # without arcs it still parses, and one that has not learnt from them does not mind
    assert len(parse(model, None)) == 2
    plain = recipe.fit(trees)
    assert not plain.uses_arcs
    assert parse(plain, Arcs.joined([BY_VERB, BY_NOUN])) == parse(plain, None)


def test_files_that_do_not_mention_arcs_have_none(trees):
    model = ConstituencyRecipe(estimator=None, min_count=1).fit(trees)
    payload = model.to_payload()
    del payload["spans"]["anchored"]["arcs"]
    older = ConstituencyModel.from_bytes(ConstituencyModel.FORMAT.pack(payload))
    assert older.to_bytes() == model.to_bytes()


def test_pieces_have_no_heads_in_others():
    arcs = Arcs(numpy.array([2, 0, 4, 3, 3, 1, 0], dtype="int32"), ["x"] * 7)
    cut = arcs.cut(numpy.array([0, 5, 7]), numpy.array([0, 2, 5, 7]))
    assert cut.heads.tolist() == [2, 0, 2, 1, 1, 1, 0]
    assert arcs.cut(numpy.array([0, 5, 7]), numpy.array([0, 3, 5, 7])).heads.tolist() == [
        2, 0, 0, 0, 0, 1, 0,
    ]  # fmt: skip


def test_models_without_anchored_rules_refuse(trees):
    with pytest.raises(ValueError, match="S712"):
        NeuralSpanRecipe(epochs=1).fit(trees, arcs=Arcs.joined([BY_VERB] * 20))
