"""The corpus reader (gold annotation on predicted documents) and `spectral evaluate` on it."""

import pytest
import spacy
import srsly
from spacy.cli._util import app
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_spectral.base.errors import SpectralError
from spacy_spectral.cli.evaluate import evaluate
from spacy_spectral.pipeline.annotations import alternative, dep_prob, head_prob, origin_of
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.pipeline.documents import TokenReader, training_treebank
from spacy_spectral.readers import Corpus, SilverCorpus
from spacy_spectral.treebank.conllu import TreebankError
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample")
    write_sample(path, train=20, dev=5, test=5)
    docs = list(read_docs(path / "sample-train.conllu", spacy.blank("en").vocab, n_sents=4))
    DocBin(docs=docs).to_disk(path / "train.spacy")
    return path


@pytest.mark.parametrize("name", ["sample-train.conllu", "train.spacy"])
def test_predicted_documents_carry_what_was_asked_for(treebank, name):
    nlp = spacy.blank("en")
    reader = spacy.registry.readers.get("spacy-spectral.Corpus.v1")
    for eg in reader(treebank / name)(nlp):
        assert [t.tag_ for t in eg.x] == [t.tag_ for t in eg.y]
        assert [t.pos_ for t in eg.x] == [t.pos_ for t in eg.y]
        assert [str(t.morph) for t in eg.x] == [str(t.morph) for t in eg.y]
        assert [t.lemma_ for t in eg.x] == [t.lemma_ for t in eg.y]
        assert [s.text for s in eg.x.sents] == [s.text for s in eg.y.sents]
        assert eg.x.text == eg.y.text
        assert eg.y.has_annotation("DEP") and not eg.x.has_annotation("DEP")
    bare = next(Corpus(treebank / name, annotations=[])(nlp)).x
    for attribute in ("TAG", "POS", "LEMMA", "DEP", "SENT_START"):
        assert not bare.has_annotation(attribute)


def test_bracketed_trees(treebank):
    nlp = spacy.blank("en")
    for n_sents, n_docs in ((0, 20), (1, 20), (8, 3)):
        found = list(Corpus(treebank / "sample-train.ptb", ["sents"], n_sents=n_sents)(nlp))
        assert len(found) == n_docs
        for eg in found:
            assert len(stored_trees(eg.y)) == len(list(eg.y.sents)) == len(list(eg.x.sents))
            assert not stored_trees(eg.x)
            assert [t.text for t in eg.x] == [t.text for t in eg.y]
    short = Corpus(treebank / "sample-train.ptb", ["sents"], n_sents=8, max_length=12)
    assert all(len(stored_trees(eg.y)) == 1 for eg in short(nlp))


def test_length_and_limit(treebank):
    nlp = spacy.blank("en")
    sentences = Corpus(treebank / "sample-train.conllu", n_sents=1)
    lengths = [len(eg.x) for eg in sentences(nlp)]
    short = [len(eg.x) for eg in Corpus(treebank / "train.spacy", max_length=12)(nlp)]
    assert short == [n for n in lengths if n < 12]
    assert len(list(Corpus(treebank / "train.spacy", limit=3)(nlp))) == 3
    everything = list(Corpus(treebank, n_sents=1)(nlp))
    assert len(everything) == 20 + 5 + 5 + 5


def test_clear_errors(tmp_path):
    with pytest.raises(ValueError, match="S033"):
        Corpus(None)
    with pytest.raises(ValueError, match="S034"):
        Corpus(tmp_path, annotations=["tags"])
    with pytest.raises(TreebankError, match=r"none\.spacy.*S010"):
        list(Corpus(tmp_path / "none.spacy")(spacy.blank("en")))


def test_resolves_from_a_config():
    config = {"corpus": {"@readers": "spacy-spectral.Corpus.v1", "path": "x.conllu"}}
    resolved = spacy.registry.resolve(config)["corpus"]
    assert resolved.annotations == ("tag", "pos", "morph", "lemma", "sents")


@pytest.fixture(scope="module")
def pipeline():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": ["the"]})
    nlp.add_pipe("tagger").add_label("WRONG")
    nlp.add_pipe("parser").add_label("dep")
    nlp.initialize()
    return nlp


def test_evaluate_uses_gold_sentences_and_tags(pipeline, treebank):
    docs = treebank / "train.spacy"
    gold, curves = evaluate(pipeline, docs, gold_tags=True)
    assert curves == {}  # spaCy's parser has no probabilities
    assert gold["tag_acc"] == 1.0
    assert gold["sentences"] == 20
    assert gold["words_per_second"] > 0
    assert evaluate(pipeline, docs)[0]["tag_acc"] == 0.0
    assert pipeline.pipe_names == ["sentencizer", "tagger", "parser"]


def test_evaluate_command_writes_json(pipeline, treebank, tmp_path):
    pipeline.to_disk(tmp_path / "model")
    output = tmp_path / "scores.json"
    arguments = [str(tmp_path / "model"), str(treebank / "sample-dev.conllu")]
    command = ["spectral", "evaluate", *arguments, "--gold-tags", "--json", str(output)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = srsly.read_json(output)
    parts = ["uas", "las", "las_universal"]
    keys = [*parts, *(f"{key}_no_punct" for key in parts), "tag_acc", "lemma_acc"]
    keys += ["tokens", "sentences", "words_per_second", "broken_rules", "broken_rules_gold"]
    assert sorted(found) == sorted(keys)
    result = CliRunner().invoke(app, ["spectral", "evaluate", str(tmp_path / "model"), "no.conllu"])
    assert result.exit_code == 1
    assert "S010" in result.output


def test_check_command(treebank, tmp_path):
    assert CliRunner().invoke(app, ["spectral", "check", str(treebank)]).exit_code == 0
    bad = tmp_path / "bad.conllu"
    bad.write_text("1\tword\n\n")
    result = CliRunner().invoke(app, ["spectral", "check", str(treebank), str(bad)])
    assert result.exit_code == 1
    assert f"{bad}:1: [S013]" in result.output.replace("\n", "")


SILVER = """# text = A dog
1	A	a	DET	DT	_	2	det	_	SpaceAfter=No|HeadProb=0.900|DepProb=1.000|Alt=0:root:0.100
2	dog	dog	NOUN	NN	_	0	root	_	HeadProb=0.800|DepProb=0.500|Alt=1:nmod:poss:0.100

1-2	du	_	_	_	_	_	_	_	SpacesAfter=\\n
1	de	de	ADP	IN	_	3	case	_	HeadProb=1.000|DepProb=1.000
2	le	le	DET	DT	_	3	det	_	HeadProb=1.000|DepProb=0.990
3	Vin	vin	NOUN	NN	_	0	root	_	HeadProb=0.990|DepProb=1.000

"""


def test_silver_trees_carry_what_their_parser_has_written(tmp_path):
    (tmp_path / "parsed").mkdir()
    (tmp_path / "parsed" / "a.conllu").write_text(SILVER, "utf8")
    nlp = spacy.blank("en")
    reader = spacy.registry.readers.get("spacy-spectral.Silver.v1")
    (eg,) = reader(tmp_path / "parsed", weight=0.25, source="x", min_length=1)(nlp)
    assert [token.text for token in eg.y] == ["A", "dog", "de", "le", "Vin"]
    assert [sent.text for sent in eg.y.sents] == ["A dog", "de le Vin"]
    assert [token.tag_ for token in eg.y] == ["DT", "NN", "IN", "DT", "NN"]
    assert not eg.x.has_annotation("TAG")
    assert origin_of(eg.y) == (0.25, "x") and origin_of(eg.x) is None
    # as on a document that was parsed
    assert [head_prob(token) for token in eg.y] == pytest.approx([0.9, 0.8, 1, 1, 0.99])
    assert dep_prob(eg.y[1]) == pytest.approx(0.5)
    other = alternative(eg.y[1])
    assert (other.head.i, other.dep) == (0, "nmod:poss") and other.prob == pytest.approx(0.1)
    assert alternative(eg.y[0]).dep == "ROOT" and alternative(eg.y[2]) is None
    # and as a parser learns from it
    treebank = training_treebank([eg], [eg.y], TokenReader(["TAG"], name="parser"))
    trust = treebank.trust
    assert treebank.heads.tolist() == [2, 0, 3, 3, 0] and trust.weights.tolist() == [0.25, 0.25]
    assert trust.heads.tolist() == [0, 1, -1, -1, -1]
    assert list(treebank.tokens.sources) == ["x"] * 5
    assert trust.labels == ["ROOT", "nmod:poss", "", "", ""]
    assert trust.shares.tolist() == pytest.approx([0.9, 0.8, 1, 1, 1])
    (eg,) = SilverCorpus(tmp_path / "parsed", soft=False)(nlp)
    hard = training_treebank([eg], [eg.y], TokenReader(["TAG"], name="parser"))
    assert len(hard.tokens.sources) == 0
    assert hard.trust.heads.tolist() == [-1] * 3 and hard.trust.shares.tolist() == [1] * 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_length": 1}, ["A dog", "de le Vin"]),
        ({}, ["de le Vin"]),
        ({"min_length": 1, "max_length": 2}, ["A dog"]),
        ({"min_length": 1, "min_prob": 0.599}, ["A dog", "de le Vin"]),
        ({"min_length": 1, "min_prob": 0.601}, ["de le Vin"]),
        ({"min_length": 1, "min_prob": 0.601, "soft": False}, ["de le Vin"]),
        ({"min_length": 1, "limit": 4}, ["A dog"]),
    ],
)
def test_silver_trees_are_chosen(tmp_path, settings, words):
    """Of the first sentence the mean is sqrt(0.9 x 0.8 x 0.5) = 0.6."""
    path = tmp_path / "a.conllu"
    path.write_text(SILVER, "utf8")
    docs = [eg.y for eg in SilverCorpus(path, **settings)(spacy.blank("en"))]
    assert [sent.text for doc in docs for sent in doc.sents] == words


def test_bad_silver_trees_are_told(tmp_path):
    nlp = spacy.blank("en")
    assert list(SilverCorpus(None)(nlp)) == []
    with pytest.raises(TreebankError, match="S029"):
        list(SilverCorpus(tmp_path)(nlp))
    path = tmp_path / "a.conllu"
    for old, new, code in (
        ("HeadProb=0.800", "HeadProb=high", "S641"),
        ("HeadProb=0.800", "HeadProb=1.800", "S641"),
        ("Alt=1:", "Alt=3:", "S641"),
        ("Alt=1:nmod:poss:", "Alt=1:", "S641"),
        ("HeadProb=0.800|", "", "S642"),
        ("\t2\tdet", "\t5\tdet", "S021"),
    ):
        path.write_text(SILVER.replace(old, new), "utf8")
        with pytest.raises(ValueError, match=rf"a\.conllu.*{code}|{code}.*a\.conllu"):
            list(SilverCorpus(path, min_length=1, min_prob=0.1)(nlp))
    for setting, value in (
        ("weight", 0),
        ("min_prob", 1.5),
        ("min_length", 0),
        ("max_length", 2),
        ("limit", -1),
    ):
        with pytest.raises(SpectralError, match=rf"S643.*{setting}"):
            SilverCorpus(path, **{setting: value})
