"""The senter as spaCy uses it."""

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.cli.find_threshold import find_threshold
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from pipelines import initialized
from spacy_spectral.readers import Corpus


def train(sample):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_senter")
    return initialized(nlp, sample["train"], annotations=[])


@pytest.fixture(scope="module")
def nlp(sample):
    return train(sample)


def test_sentences_of_the_treebank(nlp, sample):
    examples = list(Corpus(sample["dev"], annotations=[])(nlp))
    assert nlp.evaluate(examples)["sents_f"] > 0.98


def test_retraining_gives_the_same_bytes(nlp, sample):
    again, first = (own.get_pipe("spectral_senter").model for own in (train(sample), nlp))
    assert again.to_bytes() == first.to_bytes()


def test_boundaries_that_are_set_are_kept(nlp):
    text = "The dog barks. A cat sleeps. A man sees it."
    doc = nlp.make_doc(text)
    second, third = (i for i, token in enumerate(doc) if token.text == "A")
    doc[second].is_sent_start = False
    doc[1].is_sent_start = True
    nlp(doc)
    assert doc[1].is_sent_start and not doc[second].is_sent_start and doc[third].is_sent_start


def test_white_space_starts_no_sentence_but_the_first(nlp):
    doc = nlp(" \n The dog barks. \n\n A cat sleeps. \n")
    starts = [token.text for token in doc if token.is_sent_start]
    assert starts == [doc[0].text, "A"]
    assert all(token._.sent_start_prob is None for token in doc if token.is_space)


@settings(max_examples=60)
@given(text=st.text())
def test_any_text(nlp, text):
    doc = nlp(text)
    assert "".join(sent.text_with_ws for sent in doc.sents) == text


def test_threshold_and_store(sample):
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("spectral_senter", config={"store": False, "threshold": 1.0})
    initialized(nlp, sample["train"], annotations=[])
    doc = nlp("The dog barks. A cat sleeps.")
    assert len(list(doc.sents)) == 1 and not doc.user_data
    pipe.threshold = 0.0
    assert len(list(nlp("The dog barks. A cat sleeps.").sents)) > 1


def test_long_documents(nlp):
    words = ["word", ".", "Word"] * 4000
    doc = nlp(Doc(nlp.vocab, words=words))
    assert len(list(doc.sents)) > 1000
    assert numpy.isfinite([t._.sent_start_prob for t in doc]).all()


def test_clear_errors(sample):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_senter")
    with pytest.raises(ValueError, match="S115"):
        nlp("text")
    with pytest.raises(ValueError, match="S605"):
        nlp.initialize()
    one = Doc(nlp.vocab, words=["a", "b"], sent_starts=[1, 0])
    with pytest.raises(ValueError, match="S605"):
        nlp.initialize(lambda: [Example(one, one)])
    nlp.config["training"]["max_epochs"] = -1
    with pytest.raises(ValueError, match="S116"):
        nlp.initialize(lambda: Corpus(sample["dev"], annotations=[])(nlp))


def test_spacy_finds_the_threshold(nlp, sample, tmp_path, capsys):
    nlp.to_disk(tmp_path / "model")
    docs = [eg.reference for eg in Corpus(sample["dev"], annotations=[])(nlp)]
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    arguments = ("spectral_senter", "threshold", "sents_f")
    best, score, scores = find_threshold(
        str(tmp_path / "model"), tmp_path / "dev.spacy", *arguments, n_trials=3
    )
    # below 0 every token starts a sentence, above 1 none does
    assert best == 0.5 and score > 0.98 and max(scores[0.0], scores[1.0]) < 0.6
    # nothing of it is saved
    assert not (tmp_path / "model" / "spectral_senter" / "cfg").exists()
