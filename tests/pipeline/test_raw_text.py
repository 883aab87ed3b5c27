"""Raw text of any kind and size: nothing is lost, work grows with the text and no faster."""

import multiprocessing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import FROM_RAW_TEXT, from_raw_text
from spacy_spectral.models.linear import tokenizer as tokenizer_module
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.write import write_doc


def train(path):
    return from_raw_text(path, limit=120, spectral_lemmatizer={"jackknife": "spectral_tagger"})


@pytest.fixture(scope="module")
def nlp(sample):
    return train(sample["train"])


def values(doc):
    return [
        (t.text, t.whitespace_, t.is_sent_start, t.tag_, t.lemma_, t.dep_, t.head.i) for t in doc
    ]


@settings(max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_nothing_of_a_text_is_lost(nlp, tmp_path_factory, text):
    doc = nlp(text)
    assert doc.text == text
    if not text.strip() or any(not t.text.isprintable() for t in doc if not t.is_space):
        return
    path = tmp_path_factory.getbasetemp() / "any.conllu"
    path.write_text(write_doc(doc), "utf8", newline="")
    (again,) = read_docs(path, nlp.vocab, n_sents=0, syntactic_words=False)
    assert again.text == text


@settings(max_examples=15)
@given(
    texts=st.lists(st.text("The dog saw. \n!'sx", max_size=40), max_size=6), size=st.integers(1, 4)
)
def test_batches_change_nothing(nlp, texts, size):
    expected = [values(nlp(text)) for text in texts]
    assert [values(doc) for doc in nlp.pipe(texts, batch_size=size)] == expected


@pytest.mark.parametrize(
    "method", [m for m in multiprocessing.get_all_start_methods() if m != "forkserver"]
)
def test_processes_change_nothing(nlp, method):
    texts = ["The dog sees the man. It runs.", "", "\n \n", "x" * 300, "A dog's life!\n\nNo"]
    expected = [values(nlp(text)) for text in texts]
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(method, force=True)
    try:
        found = [values(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=2)]
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert found == expected


def test_training_again_gives_the_same_bytes(nlp, sample):
    again = train(sample["train"])
    assert again.tokenizer.to_bytes() == nlp.tokenizer.to_bytes()
    for name in FROM_RAW_TEXT:
        own, other = nlp.get_pipe(name).model, again.get_pipe(name).model
        assert own.to_bytes() == other.to_bytes()


def test_work_grows_with_the_text(nlp, monkeypatch):
    """Counted, not timed: places that are looked at, and those in memory at a time."""
    sizes = []
    real = tokenizer_module.character_attributes

    def counted(chunks):
        starts, attributes = real(chunks)
        sizes.append(len(attributes))
        return starts, attributes

    monkeypatch.setattr(tokenizer_module, "character_attributes", counted)
    work = []
    for n in (100_000, 400_000):
        sizes.clear()
        nlp.tokenizer("ab,c." * (n // 5))
        work.append(sum(sizes))
        # windows overlap a little; a batch is closed by the window that fills it
        assert max(sizes) <= tokenizer_module._BATCH + tokenizer_module._WINDOW + 64
    assert work[1] / work[0] == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("text", ["\n" * 20_000, "word\n" * 5_000, "x" * 50_000, "a. " * 5_000])
def test_long_texts(nlp, text):
    doc = nlp.make_doc(text)
    for name in FROM_RAW_TEXT[:3]:
        doc = nlp.get_pipe(name)(doc)
    assert doc.text == text
    assert doc.has_annotation("SENT_START") and doc.has_annotation("LEMMA")
