"""The tokenizer as spaCy uses it: config, files, processes, special cases."""

import pickle

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.attrs import NORM, ORTH
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from pipelines import TOKENIZER, initialized
from spacy_spectral.pipeline.tokenizer import SpectralTokenizer, create_tokenizer
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import MULTIWORD


def train(sample, **config):
    nlp = spacy.blank("en", config=TOKENIZER | config)
    return initialized(nlp, sample["train"], annotations=[])


@pytest.fixture(scope="module")
def nlp(sample):
    return train(sample)


def test_tokens_of_the_treebank(nlp, sample):
    corpus = Corpus(sample["dev"], annotations=[], gold_tokens=False)
    assert nlp.evaluate(list(corpus(nlp)))["token_f"] > 0.999


@given(text=st.text())
def test_nothing_is_lost(nlp, text):
    assert nlp(text).text == text


def test_call_and_pipe_and_processes(nlp, sample):
    texts = [eg.reference.text for eg in Corpus(sample["dev"], annotations=[])(nlp)]
    texts += ["", " ", "\n\n", "The dog's bone.\n"]
    expected = [[token.text for token in nlp(text)] for text in texts]
    for options in ({}, {"batch_size": 1}, {"n_process": 2, "batch_size": 3}):
        assert [[t.text for t in doc] for doc in nlp.pipe(texts, **options)] == expected
    assert [[t.text for t in doc] for doc in nlp.tokenizer.pipe(texts)] == expected
    copy = pickle.loads(pickle.dumps(nlp.tokenizer))  # what processes that are spawned get
    assert [[t.text for t in copy(text)] for text in texts] == expected


def test_files_and_retraining(nlp, sample, tmp_path):
    nlp.to_disk(tmp_path / "model")
    text = "The dog's bone, a man."
    expected = [token.text for token in nlp(text)]
    assert [t.text for t in spacy.load(tmp_path / "model")(text)] == expected
    assert [
        t.text for t in spacy.blank("en", config=TOKENIZER).from_bytes(nlp.to_bytes())(text)
    ] == expected
    assert train(sample).tokenizer.to_bytes() == nlp.tokenizer.to_bytes()
    path = tmp_path / "model" / "tokenizer"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="S002"):
        spacy.load(tmp_path / "model")


def test_special_cases(nlp):
    tokenizer = SpectralTokenizer(nlp.vocab).from_bytes(nlp.tokenizer.to_bytes())
    tokenizer.add_special_case("dog's", [{ORTH: "dog's", NORM: "dogs"}])
    tokenizer.add_special_case("gimme", [{"ORTH": "gim"}, {"ORTH": "me"}])
    for again in (tokenizer, SpectralTokenizer(nlp.vocab).from_bytes(tokenizer.to_bytes())):
        doc = again("The dog's bone: gimme! gimmes")
        assert doc.text == "The dog's bone: gimme! gimmes"
        words = [token.text for token in doc]
        assert "dog's" in words and words[words.index("gim") + 1] == "me"
        assert doc[1].norm_ == "dogs" and doc[0].norm_ == "the"
        assert again.rules == tokenizer.rules
    for bad in (
        [],
        [{ORTH: "gim"}],
        [{ORTH: "gimme", "TAG": "X"}],
        [{ORTH: "gimme"}, {ORTH: ""}],
        [{}],
    ):
        with pytest.raises(ValueError, match="S604"):
            tokenizer.add_special_case("gimme", bad)
    assert "dog's" not in [token.text for token in nlp("The dog's bone")]


def test_abbreviations_of_the_language_are_hints(nlp, sample):
    """They are part of what was learnt: another language has what it was trained with."""
    text = "The dog saw the Ph.D. man and the Prof. man. He ran."
    expected = [token.text for token in nlp(text)]
    assert "Ph.D." in expected and "Prof." in expected
    assert expected[-5:] == ["man", ".", "He", "ran", "."]
    other = spacy.blank("xx", config=TOKENIZER)
    other.tokenizer.from_bytes(nlp.tokenizer.to_bytes())
    assert [token.text for token in other(text)] == expected
    without = initialized(spacy.blank("xx", config=TOKENIZER), sample["train"], annotations=[])
    assert "Prof." not in [token.text for token in without(text)]


def test_grapheme_clusters_are_tokens(nlp):
    for cluster in ("👍🏽", "❤\ufe0f", "🇩🇪", "👩\u200d💻", "1\ufe0f\u20e3", "e\u0301"):
        assert [token.text for token in nlp(f"The dog {cluster} barks.")][2] == cluster


def test_multiword_tokens_come_back():
    vocab = Vocab()
    doc = Doc(vocab, words=["I", "do", "n't", "go", "."], spaces=[True, False, True, False, False])
    doc.spans[MULTIWORD] = [doc[1:3]]
    tokenizer = create_tokenizer()(spacy.blank("en"))
    tokenizer.initialize(lambda: [Example(doc, doc)] * 3)
    found = tokenizer("don't go.")
    assert [span.text for span in found.spans[MULTIWORD]] == ["don't"]
    assert MULTIWORD not in tokenizer("go.").spans


def test_clear_errors(sample):
    nlp = spacy.blank("en", config=TOKENIZER)
    with pytest.raises(ValueError, match="S603"):
        nlp("text")
    with pytest.raises(ValueError, match="S602"):
        nlp.initialize()
    nlp.config["training"]["max_epochs"] = -1
    with pytest.raises(ValueError, match="S116"):
        nlp.initialize(lambda: Corpus(sample["dev"], annotations=[])(nlp))
    with pytest.raises(ValueError, match=r"S00[25]"):
        nlp.tokenizer.from_bytes(b"x")


def test_a_trained_tokenizer_can_be_kept(nlp, sample):
    config = {"initialize": {"tokenizer": {"keep": True}}}
    other = spacy.blank("en", config=TOKENIZER | config)
    other.tokenizer.from_bytes(nlp.tokenizer.to_bytes(exclude=["vocab"]))
    other.initialize()
    assert other.tokenizer.to_bytes() == nlp.tokenizer.to_bytes()
