"""Candidates of both kinds of parsers: complete, different, in order."""

import pickle
from typing import ClassVar

import numpy
import pytest
import spacy
import srsly
from spacy.tokens import Doc
from spacy.util import minibatch
from thinc.api import Adam, fix_random_seed

from pipelines import trained_reranker, with_reranker
from spacy_spectral.models.rerank.features import blocks
from spacy_spectral.pipeline.candidates import Plan, candidate_source
from spacy_spectral.pipeline.component import leave, take_off


def check(candidates, n):
    """Complete trees, none twice, likeliest first."""
    assert 1 <= len(candidates) <= n
    shape = candidates.heads.shape
    assert candidates.labels.shape == candidates.arc_probs.shape == shape
    assert candidates.log_probs.shape == shape[:1]
    assert (numpy.diff(candidates.log_probs) <= 0).all()
    assert len({(h.tobytes(), x.tobytes()) for h, x in rows(candidates)}) == len(candidates)
    assert candidates.labels.min() >= 0 and candidates.labels.max() < len(candidates.names)
    assert not any("||" in name for name in candidates.names)
    for heads in candidates.heads.tolist():
        assert heads.count(0) == 1
        for m in range(1, len(heads) + 1):
            steps = 0
            while m:
                m, steps = heads[m - 1], steps + 1
                assert steps <= len(heads)


def rows(candidates):
    return zip(candidates.heads, candidates.labels, strict=True)


def candidates_of(nlp, name="spectral_parser"):
    return candidate_source(nlp.get_pipe(name), name, None, name="reranker")


@pytest.fixture
def tagged(examples, trained):
    return [eg.predicted.copy() for eg in examples(trained, "dev")]


def test_spectral_candidates_are_the_n_best(trained, tagged):
    source = candidates_of(trained)
    batch, found = source(tagged, 20)
    assert len(found) == len(batch.tokens)
    for candidates in found:
        check(candidates, 20)
    assert max(map(len, found)) == 20
    parser = trained.get_pipe("spectral_parser")
    for doc, candidates in zip(tagged[:5], found, strict=False):
        for parse, (heads, labels) in zip(parser.nbest(doc, 20)[0], rows(candidates), strict=True):
            assert [m if h == 0 else h - 1 for m, h in enumerate(heads.tolist())] == parse.heads
            assert [candidates.names[label] for label in labels] == parse.deps


def test_candidates_have_the_probabilities_of_their_arcs(trained, tagged):
    words, tags = ["the", "dog", "sleeps"], ["DT", "NN", "VBZ"]
    short = Doc(trained.vocab, words=words, tags=tags, sent_starts=[1, -1, -1])
    parser = trained.get_pipe("spectral_parser")
    for doc in (short, *tagged[:3]):
        (candidates,) = candidates_of(trained)([doc], 30)[1]
        (marginals,) = parser.marginals(doc)
        modifiers = numpy.arange(len(doc))
        for heads, probs in zip(candidates.heads, candidates.arc_probs, strict=True):
            expected = marginals[modifiers, numpy.where(heads == 0, modifiers, heads - 1)]
            numpy.testing.assert_allclose(probs, expected, rtol=1e-5, atol=1e-8)


FOREST = {"@architectures": "spacy-spectral.ForestReranker.v1"}
LIST = {"@architectures": "spacy-spectral.Reranker.v1"}


@pytest.fixture(params=[FOREST, LIST], ids=["forest", "list"])
def listening(request, trained):
    """A parser and a reranker behind it, not trained."""
    nlp = with_reranker(trained, request.param, n=5)
    return nlp.get_pipe("spectral_parser"), nlp.get_pipe("spectral_reranker")


def test_what_is_wanted_is_left_on_documents(listening, tagged):
    parser, reranker = listening
    parsed = list(parser.pipe(tagged, batch_size=7))
    found = reranker.found(parsed)
    batch, parses = parser.parse([doc.copy() for doc in tagged])
    names = list(parser.grammar.label_names)
    expected = reranker.wish.of(batch, parses, names)
    assert found.names == names and found.store == parser.store
    assert found.batch.tokens.symbols == batch.tokens.symbols
    assert srsly.msgpack_dumps(found.values) == srsly.msgpack_dumps(expected)
    # plain values and arrays: they travel
    again = [Doc(doc.vocab).from_bytes(doc.to_bytes()) for doc in parsed]
    assert srsly.msgpack_dumps(reranker.found(again).values) == srsly.msgpack_dumps(expected)
    for doc in parsed:
        take_off(doc)
    assert reranker.found(parsed) is None
    assert reranker.find_parser(parsed) is parser


def test_documents_are_not_parsed_twice(trained, tagged, examples, monkeypatch):
    nlp = trained_reranker(trained, FOREST | {"folds": 2, "epochs": 1}, examples)
    parser = nlp.get_pipe("spectral_parser")
    calls = []
    parse = type(parser).parse
    monkeypatch.setattr(
        type(parser), "parse", lambda self, docs: calls.append(1) or parse(self, docs)
    )
    list(nlp.pipe(tagged, batch_size=len(tagged)))
    assert len(calls) == 1
    keys = [key for doc in tagged for key in doc.user_data]
    assert not any("found" in str(key) for key in keys)


def test_parses_are_left_only_if_wanted(trained, tagged):
    parser = spacy.blank("en").add_pipe("spectral_parser")
    parser.from_bytes(trained.get_pipe("spectral_parser").to_bytes())
    assert all(own.found is None for own in parser.predict(tagged))


def test_spectral_jackknife_covers_the_training_data(trained, examples):
    source = candidates_of(trained)
    told = []
    folds = list(source.jackknife(examples(trained)[:90], trained, Plan(5, 3, 1), told.append))
    sizes = [len(fold.candidates) for fold in folds]
    assert sum(sizes) == 90 and min(sizes) > 20
    words = [word for fold in folds for word in fold.held_out.tokens.words]
    assert words == [token.text for eg in examples(trained)[:90] for token in eg.reference]
    for fold in folds:
        assert len(fold.train.tokens) == 90 - len(fold.candidates)
        bounds = fold.held_out.tokens.bounds()
        for (begin, end), candidates in zip(bounds, fold.candidates, strict=True):
            check(candidates, 5)
            assert candidates.heads.shape[1] == end - begin


@pytest.fixture(scope="module")
def beam(examples):
    """A pipeline with a beam_parser, hardly trained."""
    nlp = spacy.blank("en")
    settings = {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 16,
                "depth": 1, "embed_size": 300, "window_size": 1, "maxout_pieces": 2,
                "subword_features": True}  # fmt: skip
    model = {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "parser",
             "extra_state_tokens": False, "hidden_width": 16, "maxout_pieces": 2, "use_upper": True,
             "tok2vec": settings}  # fmt: skip
    nlp.add_pipe("beam_parser", config={"model": model, "beam_update_prob": 0.5})
    train = examples(nlp, annotations=("tag",))[:120]
    fix_random_seed(0)
    nlp.initialize(lambda: train)
    sgd = Adam(0.01)
    for _ in range(4):
        for batch in minibatch(train, 30):
            nlp.update(batch, sgd=sgd)
    return nlp


def test_beam_candidates(beam, examples):
    source = candidates_of(beam, "beam_parser")
    docs = [eg.predicted.copy() for eg in examples(beam, "dev", annotations=("tag",))[:20]]
    batch, found = source(docs, 50)
    for candidates in found:
        check(candidates, 8)
    assert max(map(len, found)) > 2
    # the sentences of the best trees, which are those of a normal parse
    parsed = list(beam.pipe(doc.copy() for doc in docs))
    assert len(found) == sum(len(list(doc.sents)) for doc in parsed)
    starts = {
        sent.start + int(batch.offsets[i]) for i, doc in enumerate(parsed) for sent in doc.sents
    }
    assert {int(batch.places[start]) for start in batch.tokens.starts[:-1]} == starts


def test_beam_candidates_respect_given_sentences(beam, examples):
    """Several sentences in a document: each has candidates of its own, whatever the others have."""
    source = candidates_of(beam, "beam_parser")
    docs = [eg.predicted.copy() for eg in examples(beam, "dev")[:3]]
    joined = Doc.from_docs(docs)
    for token in joined:
        token.is_sent_start = token.i in {0, len(docs[0]), len(docs[0]) + len(docs[1])}
    _, found = source([joined, Doc(beam.vocab)], 50)
    assert [candidates.heads.shape[1] for candidates in found] == list(map(len, docs))
    for candidates in found:
        check(candidates, 8)


def test_beam_candidates_of_hard_documents(beam):
    source = candidate_source(beam.get_pipe("beam_parser"), "beam_parser", "ORTH", name="reranker")
    words = [["one"], ["\n"], ["The", " ", "dog", "\n", "barks"], []]
    batch, found = source([Doc(beam.vocab, words=own) for own in words], 50)
    for candidates in found:
        check(candidates, 8)
    assert found[0].heads.tolist() == [[0]]
    assert batch.tokens.words == ["one", "The", "dog", "barks"]
    assert sum(candidates.heads.shape[1] for candidates in found) == 4


def test_beam_jackknife(beam, examples):
    source = candidates_of(beam, "beam_parser")
    told = []
    train = examples(beam)[:30]
    before = [eg.predicted.to_bytes() for eg in train]
    nlp = spacy.blank("en", vocab=beam.vocab)
    tagger = nlp.add_pipe("spectral_tagger")
    tagger.initialize(lambda: train, nlp=nlp)
    nlp.add_pipe("beam_parser", source=beam)
    source = candidate_source(nlp.get_pipe("beam_parser"), "beam_parser", None, name="reranker")
    folds = list(source.jackknife(train, nlp, Plan(8, 2, 1), told.append))
    assert [eg.predicted.to_bytes() for eg in train] == before
    assert sum("epoch 1 of 1" in message for message in told) == 2
    words = [word for fold in folds for word in fold.held_out.tokens.words]
    assert words == [token.text for eg in train for token in eg.reference]
    found = [candidates for fold in folds for candidates in fold.candidates if len(candidates)]
    assert len(found) > 15
    for candidates in found:
        check(candidates, 8)


def test_parsers_without_candidates_are_refused(trained):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("parser")
    nlp.add_pipe("spectral_parser", config={"constrain": True})
    for base, code in (
        ("sentencizer", "S531"),
        ("nobody", "S532"),
        ("spectral_parser", "S533"),
        ("parser", "S535"),
    ):
        reranker = nlp.add_pipe("spectral_reranker", name=f"after_{base}", config={"base": base})
        with pytest.raises(ValueError, match=code):
            candidate_source(reranker.find_parser([]), base, None, name="reranker")


def test_shared_tok2vec_is_refused(examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    config = spacy.util.load_config_from_str(
        '[model]\n@architectures = "spacy.TransitionBasedParser.v2"\nstate_type = "parser"\n'
        "extra_state_tokens = false\nhidden_width = 16\nmaxout_pieces = 2\nuse_upper = true\n"
        '[model.tok2vec]\n@architectures = "spacy.Tok2VecListener.v1"\nwidth = 96\nupstream = "*"\n'
    )
    nlp.add_pipe("beam_parser", config=config)
    train = examples(nlp)[:10]
    nlp.initialize(lambda: train)
    source = candidate_source(nlp.get_pipe("beam_parser"), "beam_parser", None, name="reranker")
    with pytest.raises(ValueError, match="S534"):
        next(source.jackknife(train, nlp, Plan(5, 2, 1), print))


def test_blocks_are_contiguous_and_even():
    lengths = numpy.array([5, 1, 1, 1, 10, 3, 3, 3, 3])
    found = blocks(lengths, 3)
    assert (numpy.diff(found) >= 0).all()
    assert [int(lengths[found == i].sum()) for i in range(3)] == [8, 13, 9]
    assert len(blocks(numpy.zeros(0, dtype="int64"), 3)) == 0


def test_reranker_after_a_beam_parser(beam, examples, tmp_path):
    nlp = spacy.blank("en", vocab=beam.vocab)
    train = examples(nlp)[:60]
    nlp.add_pipe("spectral_tagger").initialize(lambda: train, nlp=nlp)
    nlp.add_pipe("beam_parser", source=beam)
    model = {"@architectures": "spacy-spectral.Reranker.v1", "folds": 2, "parser_epochs": 1}
    config = {"base": "beam_parser", "model": model, "store": ["parses"]}
    nlp.add_pipe("spectral_reranker", config=config).initialize(lambda: train, nlp=nlp)
    docs = [eg.predicted.copy() for eg in examples(nlp, "dev")[:10]]
    expected = [[(t.head.i, t.dep_) for t in nlp(doc.copy())] for doc in docs]
    nlp.to_disk(tmp_path)
    for loaded, size in ((nlp, 3), (spacy.load(tmp_path), 4)):
        found = list(loaded.pipe((doc.copy() for doc in docs), batch_size=size))
        assert [[(t.head.i, t.dep_) for t in doc] for doc in found] == expected
    assert max(len(sent._.parses) for doc in found for sent in doc.sents) > 1


def merge(doc):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])


def retag(doc):
    doc[1].tag_ = "VBZ" if doc[1].tag_ != "VBZ" else "NN"


def split(doc):
    doc[2].is_sent_start = True


@pytest.mark.parametrize("change", [merge, retag, split])
def test_changed_documents_are_parsed_anew(listening, tagged, change):
    """Between parser and reranker other components may merge tokens, or change tags or sentences."""
    parser, reranker = listening
    doc = max(tagged, key=len)
    (own,) = parser.predict([doc])
    leave(doc, own.found)  # without heads, so that sentences can still be changed
    assert reranker.found([doc]) is not None
    change(doc)
    assert reranker.found([doc]) is None
    assert reranker.find_parser([doc]) is parser


def test_the_wish_for_parses_survives_copying(listening, tagged):
    parser, reranker = listening
    copied = pickle.loads(pickle.dumps(parser))
    (own, *_) = copied.predict(tagged)
    assert own.found is not None and reranker.name in own.found["wishes"]


def test_beams_do_not_hang_on_other_documents(beam, examples):
    """spaCy's beams of a batch can differ from those of its documents alone, and be worse: seen with
    parsers that were trained longer than this one, so the sizes of batches are looked at, too."""

    class Recording:
        cfg, moves = beam.get_pipe("beam_parser").cfg, beam.get_pipe("beam_parser").moves
        sizes: ClassVar[list[int]] = []

        def beam_parse(self, docs, **settings):
            self.sizes.append(len(docs))
            return beam.get_pipe("beam_parser").beam_parse(docs, **settings)

    source = candidates_of(beam, "beam_parser")
    source.parser = Recording()
    docs = [eg.predicted.copy() for eg in examples(beam, "dev")]
    _, together = source([*docs, Doc(beam.vocab)], 50)
    assert Recording.sizes == [1] * len(docs)
    for doc, own in zip(docs, together, strict=True):
        _, (alone,) = source([doc], 50)
        assert own.heads.tolist() == alone.heads.tolist()
        # what the parser itself says of the document is among the candidates
        heads = [token.head.i for token in beam.get_pipe("beam_parser")(doc.copy())]
        trees = own.heads.tolist()
        assert heads in [[m if h == 0 else h - 1 for m, h in enumerate(tree)] for tree in trees]
