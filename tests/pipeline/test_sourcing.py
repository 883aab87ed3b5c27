"""Components in pipelines with another vocabulary than the one they were trained with.

spaCy puts the very same component into another pipeline, so that it stands in both.
"""

import gc
import warnings
import weakref

import pytest
import spacy
from spacy.tokens import Doc

LOGLINEAR = {"model": {"@architectures": "spacy-spectral.LogLinear.v1", "epochs": 1}}
RERANKER = {
    "model": {"@architectures": "spacy-spectral.Reranker.v1", "states": 4, "folds": 2},
    "n": 5,
    "store": ["parses"],
}
NAMES = ("spectral_tagger", "spectral_parser", "spectral_reranker")
NEW = "Zorp blifs the queezle and 1234 frabs glombly ."


def make(examples, n, **parser):
    """A pipeline of all components, trained on the first examples."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    few = examples(nlp)[:n]
    for factory, config in zip(NAMES, ({}, parser, RERANKER), strict=True):
        nlp.add_pipe(factory, config=config).initialize(lambda: few, nlp=nlp)
    return nlp


@pytest.fixture(scope="module")
def saved(examples, tmp_path_factory):
    """Where two pipelines are, whose parsers differ."""
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    make(examples, 80, **LOGLINEAR).to_disk(first)
    make(examples, 40).to_disk(second)
    return first, second


@pytest.fixture(scope="module")
def texts(examples):
    return [*(eg.reference.text for eg in examples(spacy.blank("xx"), "dev")[:8]), NEW]


def described(doc):
    tokens = [(t.text, t.tag_, t.pos_, str(t.morph), t.head.i, t.dep_) for t in doc]
    values = [(t._.tag_probs, t._.head_prob, t._.dep_prob) for t in doc]
    return tokens, values, [(s._.parse_logprob, s._.parses) for s in doc.sents]


def put_together(*sources):
    """A new pipeline, each component from another source."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    for name, source in zip(NAMES, sources, strict=True):
        if source is not None:
            nlp.add_pipe(name, source=source)
    return nlp


def test_all_components_in_another_pipeline(saved, texts, tmp_path):
    expected = [described(spacy.load(saved[0])(text)) for text in texts]
    source = spacy.load(saved[0])
    nlp = put_together(source, source, source)
    assert nlp.vocab is not source.vocab
    assert [described(nlp(text)) for text in texts] == expected
    assert [described(doc) for doc in nlp.pipe(texts, batch_size=4)] == expected
    nlp.to_disk(tmp_path)
    assert [described(spacy.load(tmp_path)(text)) for text in texts] == expected
    assert [described(source(text)) for text in texts] == expected


def test_documents_bring_their_own_vocabulary(saved):
    """All that is written on a document is in its vocabulary, or it could not be saved."""
    source = spacy.load(saved[0])
    doc = Doc(spacy.vocab.Vocab(), words=NEW.split(), sent_starts=[True] + [False] * 8)
    for name in NAMES:
        doc = source.get_pipe(name)(doc)
    tokens = described(doc)[0]
    assert {text for text, *_ in tokens} == set(NEW.split())
    assert all(tag and pos and dep for _, tag, pos, _, _, dep in tokens)
    assert any(morph for _, _, _, morph, _, _ in tokens)
    for token in doc:
        for string in (token.tag_, token.dep_, str(token.morph)):
            assert not string or string in doc.vocab.strings


def test_documents_of_several_vocabularies_in_a_batch(saved, texts):
    nlp = spacy.load(saved[0])
    expected = [described(nlp(text)) for text in texts]
    docs = [spacy.blank("xx")(text) for text in texts]
    for name in nlp.pipe_names:
        docs = list(nlp.get_pipe(name).pipe(docs))
    assert [described(doc) for doc in docs] == expected


def test_reranker_uses_the_parser_of_its_pipeline(saved, texts):
    first, second = map(spacy.load, saved)
    reranker = second.get_pipe("spectral_reranker")
    candidates = first.get_pipe("spectral_parser").nbest
    nlp = put_together(first, first, second)
    for text in texts:
        doc = nlp(text)
        for sentence, trees in zip(doc.sents, candidates(doc, 5), strict=True):
            # those of the other parser have other probabilities
            of = {tuple(tree.heads): tree.logprob for tree in trees}
            for parse in sentence._.parses:
                assert of[tuple(parse.tree.heads)] == pytest.approx(parse.tree.logprob)
    # the same component still does in its own pipeline what it did
    again = spacy.load(saved[1])
    assert nlp.get_pipe("spectral_reranker") is reranker
    for text in texts:
        assert described(second(text)) == described(again(text))
        assert nlp(text)[0].sent._.parse_logprob != second(text)[0].sent._.parse_logprob


def test_sourced_reranker_can_be_saved(saved, texts, tmp_path):
    first, second = map(spacy.load, saved)
    nlp = put_together(first, first, second)
    expected = [described(nlp(text)) for text in texts]
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert [described(loaded(text)) for text in texts] == expected
    data = nlp.to_bytes()
    same = spacy.util.load_model_from_config(nlp.config, auto_fill=True).from_bytes(data)
    assert [described(same(text)) for text in texts] == expected
    found = list(nlp.pipe(texts, n_process=2, batch_size=3))
    assert [described(doc) for doc in found] == expected


def test_source_of_a_reranker_is_not_kept_alive(saved, texts):
    first, second = map(spacy.load, saved)
    nlp = put_together(first, first, second)
    nlp(texts[0])
    gone = weakref.ref(second), weakref.ref(second.get_pipe("spectral_parser"))
    expected = [described(nlp(text)) for text in texts]
    del second
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert [described(nlp(text)) for text in texts] == expected


def test_sources_of_a_config(saved, texts):
    """As in `spacy assemble`: sources are loaded for a moment."""
    first, second = (spacy.load(path) for path in saved)
    expected = [described(put_together(first, first, second)(text)) for text in texts]
    components = {name: {"source": str(saved[name == NAMES[-1]])} for name in NAMES}
    components["sentencizer"] = {"factory": "sentencizer"}
    config = {"nlp": {"lang": "xx", "pipeline": ["sentencizer", *NAMES]}, "components": components}
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    gc.collect()
    assert [described(nlp(text)) for text in texts] == expected


def test_reranker_without_its_parser_says_so(saved):
    nlp = spacy.blank("xx")
    nlp.add_pipe("spectral_reranker", source=spacy.load(saved[0]))
    gc.collect()
    with pytest.raises(ValueError, match="S532"):
        nlp("No parser .")


def test_reranker_after_a_parser_of_spacys_own():
    """It introduces itself to nobody: a warning says so, and `attach` does it."""
    first, second = spacy.blank("xx"), spacy.blank("xx")
    for nlp in (first, second):
        nlp.add_pipe("beam_parser")
    reranker = first.add_pipe("spectral_reranker", config=RERANKER | {"base": "beam_parser"})
    second.add_pipe("spectral_reranker", source=first)
    here, there = Doc(first.vocab, ["a"]), Doc(second.vocab, ["a"])
    with pytest.warns(UserWarning, match="W501"):
        assert reranker.find_parser([there]) is first.get_pipe("beam_parser")
    reranker.attach(second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reranker.find_parser([there]) is second.get_pipe("beam_parser")
        assert reranker.find_parser([here]) is first.get_pipe("beam_parser")
    with pytest.raises(ValueError, match="S532"):
        reranker.attach(spacy.blank("xx"))
