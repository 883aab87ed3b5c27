"""The component spectral_reranker: contract, bad input, and that it can help."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from pipelines import trained_reranker, with_reranker
from spacy_spectral.models.rerank.features import GROUPS, KINDS
from spacy_spectral.models.rerank.learn import LEARNERS
from spacy_spectral.pipeline.reranker import find_vectors
from spacy_spectral.scorers import score_ud

QUICK = {"@architectures": "spacy-spectral.Reranker.v1", "states": 4}


def pipeline(trained, **config):
    return with_reranker(trained, config.pop("model", QUICK), **config)


@pytest.fixture(scope="module")
def reranking(trained, examples):
    """A trained reranker. Tests must not change it."""
    return trained_reranker(trained, QUICK, examples)


def documents(nlp, examples, split="dev"):
    return [eg.predicted.copy() for eg in examples(nlp, split)]


def trees(docs):
    return [[(token.head.i, token.dep_) for token in doc] for doc in docs]


def las(nlp, examples, split="test"):
    pairs = examples(nlp, split)
    docs = nlp.pipe(eg.predicted.copy() for eg in pairs)
    scored = [Example(doc, eg.reference) for doc, eg in zip(docs, pairs, strict=True)]
    return score_ud(scored)["las"]


def test_chooses_the_best_candidate(reranking, examples):
    changed = 0
    for doc in reranking.pipe(documents(reranking, examples)):
        (sent,) = doc.sents
        parses = sent._.parses
        assert len(parses) <= 10
        probs = [parse.probability for parse in parses]
        assert probs == sorted(probs, reverse=True)
        assert sum(probs) == pytest.approx(1)
        best = parses[0].tree
        assert best.heads == [token.head.i for token in doc]
        assert best.deps == [token.dep_ for token in doc]
        logprobs = [parse.tree.logprob for parse in parses]
        changed += logprobs[0] != max(logprobs)
    assert changed > 0


def test_accuracy_does_not_suffer(reranking, trained, examples):
    assert las(reranking, examples) >= las(trained, examples)


def test_every_way_through_the_pipeline_gives_the_same(reranking, examples):
    def docs():
        return documents(reranking, examples)[:12]

    expected = [doc.to_bytes() for doc in map(reranking, docs())]
    for options in ({"batch_size": 1}, {"batch_size": 5}, {"n_process": 2, "batch_size": 4}):
        found = list(reranking.pipe(docs(), **options))
        assert trees(found) == trees(Doc(reranking.vocab).from_bytes(own) for own in expected)
        stored = [[list(map(tuple, sent._.parses)) for sent in doc.sents] for doc in found]
        for doc, own in zip(map(reranking, docs()), stored, strict=True):
            for sent, parses in zip(doc.sents, own, strict=True):
                assert [p[0] for p in parses] == [p.tree for p in sent._.parses]
    # the component by itself, on documents parsed elsewhere, in batches of another size
    reranker = reranking.get_pipe("spectral_reranker")
    parsed = list(reranking.pipe(docs(), disable=["spectral_reranker"]))
    again = list(reranker.pipe((doc.copy() for doc in parsed), batch_size=7))
    assert trees(again) == trees(map(reranking, docs()))
    # what is not parsed is parsed; what is reranked stays
    assert trees(reranker.pipe(docs())) == trees(again)
    assert trees(reranker.pipe(doc.copy() for doc in again)) == trees(again)


def test_damaged_bytes_are_noticed(reranking):
    reranker = reranking.get_pipe("spectral_reranker")
    data = bytearray(reranker.to_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ValueError, match="S00"):
        pipeline(reranking).get_pipe("spectral_reranker").from_bytes(bytes(data))


@pytest.mark.parametrize("learner", LEARNERS)
def test_training_twice_gives_the_same_bytes(trained, examples, learner):
    found = set()
    for _ in range(2):
        nlp = pipeline(trained, model=QUICK | {"learner": learner, "folds": 2})
        reranker = nlp.get_pipe("spectral_reranker")
        reranker.initialize(lambda nlp=nlp: examples(nlp)[:100], nlp=nlp)
        found.add(reranker.to_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("group", GROUPS)
def test_groups_of_features_can_be_chosen(trained, examples, group):
    nlp = pipeline(trained, model=QUICK | {"features": [group], "folds": 2})
    reranker = nlp.get_pipe("spectral_reranker")
    reranker.initialize(lambda: examples(nlp)[:60], nlp=nlp)
    weights = reranker.reranker.weights
    assert weights.dense.any() != weights.sparse.any()
    assert set(reranker.reranker.models) == (set(KINDS) if group == "logp" else set())


def test_stored_parses_survive(reranking, examples):
    doc = reranking(documents(reranking, examples)[0])
    (expected,) = (sent._.parses for sent in doc.sents)
    (again,) = DocBin(store_user_data=True, docs=[doc]).get_docs(doc.vocab)
    for copy in (again, Doc(doc.vocab).from_bytes(doc.to_bytes())):
        assert next(copy.sents)._.parses == expected
        assert copy[:2]._.parses is None
    plain = spacy.blank("en")(doc.text)
    assert plain[:]._.parses is None


def test_nothing_is_stored_unasked(trained, examples):
    nlp = pipeline(trained)
    reranker = nlp.get_pipe("spectral_reranker")
    reranker.initialize(lambda: examples(nlp)[:60], nlp=nlp)
    doc = nlp(documents(nlp, examples)[0])
    assert {key[1] for key in doc.user_data} == {"spectral_parser"}
    assert doc[:]._.parses is None


def test_probabilities_of_the_parser_follow_the_tree(reranking, trained, examples):
    parser = trained.get_pipe("spectral_parser")
    seen = 0
    for doc in documents(reranking, examples):
        before = trained(doc.copy())
        after = reranking(doc.copy())
        (marginals,) = parser.marginals(doc)
        for old, new in zip(before, after, strict=True):
            if old.head.i != new.head.i:
                seen += 1
                assert new._.head_prob == pytest.approx(marginals[new.i, new.head.i], abs=1e-6)
                assert new._.dep_prob is None
            else:
                assert new._.head_prob == pytest.approx(old._.head_prob)
        best = next(after.sents)._.parses[0].tree
        assert next(after.sents)._.parse_logprob == pytest.approx(best.logprob, abs=1e-4)
    assert seen > 0


def test_hard_documents(reranking):
    vocab = reranking.vocab
    one = Doc(vocab, words=["Go"], tags=["VB"], sent_starts=[True])
    spaces = Doc(vocab, words=["\n", "The", " ", "dog", "\n"], tags=["_SP", "DT", "_SP", "NN", "_SP"],
                 sent_starts=[True, False, False, False, False])  # fmt: skip
    strange = Doc(vocab, words=["xq", "zz"], tags=["NO", "SUCH"], sent_starts=[True, False])
    docs = list(reranking.pipe([Doc(vocab), one, spaces, strange]))
    assert len(docs[0]) == 0
    assert docs[1][0].head.i == 0 and docs[1][0].dep_
    assert len(list(docs[2].sents)) == 1
    assert all(token.dep_ for doc in docs for token in doc)
    with pytest.raises(ValueError, match="S112"):
        reranking(Doc(vocab, words=["no", "tags"], sent_starts=[True, False]))
    with pytest.raises(ValueError, match="S110"):
        reranking(Doc(vocab, words=["no", "sentences"], tags=["DT", "NNS"]))


def test_bad_settings_and_data(trained, examples):
    for config, code in (
        ({"n": 1}, "S541"),
        ({"margin": 0.0}, "S541"),
        ({"store": ["colours"]}, "S113"),
        ({"model": QUICK | {"learner": "oracle"}}, "S538"),
        ({"model": QUICK | {"features": ["colour"]}}, "S536"),
        ({"model": QUICK | {"folds": 1}}, "S539"),
        ({"model": QUICK | {"sharpness": -1.0}}, "S539"),
        ({"model": QUICK | {"epochs": 0}}, "S539"),
        ({"model": QUICK | {"seed": -1}}, "S539"),
    ):
        with pytest.raises(ValueError, match=code):
            pipeline(trained, **config)
    nlp = pipeline(trained)
    reranker = nlp.get_pipe("spectral_reranker")
    with pytest.raises(ValueError, match="S115"):
        nlp(documents(nlp, examples)[0])
    bare = [Example(eg.predicted, eg.predicted.copy()) for eg in examples(nlp)[:5]]
    with pytest.raises(ValueError, match="S117"):
        reranker.initialize(lambda: bare, nlp=nlp)
    short = [eg for eg in examples(nlp) if len(eg.reference) > 3][:2]
    nlp.config["training"]["max_epochs"] = -1
    with pytest.raises(ValueError, match="S116"):
        reranker.initialize(lambda: short, nlp=nlp)
    with pytest.raises(ValueError, match="S532"):
        pipeline(trained, base="parser").get_pipe("spectral_reranker").initialize(
            lambda: short, nlp=None
        )


def test_sentences_without_a_choice_teach_nothing(trained, examples):
    nlp = pipeline(trained)
    one = Doc(nlp.vocab, words=["Go"], tags=["VB"], heads=[0], deps=["root"], sent_starts=[True])
    single = [Example(one.copy(), one) for _ in range(6)]
    with pytest.raises(ValueError, match="S537"):
        nlp.get_pipe("spectral_reranker").initialize(lambda: single, nlp=nlp)


def test_takes_part_in_training(reranking, examples):
    reranker = reranking.get_pipe("spectral_reranker")
    losses = reranker.update(examples(reranking)[:2], losses={"other": 1.0})
    assert losses == {"other": 1.0, "spectral_reranker": 0.0}
    assert reranker.labels == reranking.get_pipe("spectral_parser").labels
    assert reranker.label_data == list(reranker.labels)
    assert set(reranker.score(examples(reranking)[:2])) >= {"dep_uas", "dep_las"}


def test_vectors_must_be_there(tmp_path):
    assert find_vectors(None) is None
    with pytest.raises(ValueError, match="S216"):
        find_vectors(tmp_path)
    with pytest.raises(ValueError, match="S216"):
        find_vectors(tmp_path / "nowhere")


def test_finds_what_the_parser_can_not_see():
    """The word "to" or "by" at the end tells where the first word hangs, by its grandparent: the parser
    sees only tags, and those do not tell."""
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser")
    nlp.add_pipe("spectral_reranker", config={"model": QUICK | {"features": ["base", "words"]}})
    examples = []
    for i in range(120):
        early = (i * 7) % 5 < 2
        words = ["a", "b", "to" if early else "by"]
        heads = [2, 2, 2] if early else [1, 2, 2]
        doc = Doc(nlp.vocab, words=words, tags=["A", "B", "C"], heads=heads,
                  deps=["x", "x", "root"], sent_starts=[True, False, False])  # fmt: skip
        plain = Doc(nlp.vocab, words=words, tags=["A", "B", "C"], sent_starts=[True, False, False])
        examples.append(Example(plain, doc))
    nlp.initialize(lambda: examples)

    def right(**options):
        docs = list(nlp.pipe((eg.predicted.copy() for eg in examples), **options))
        pairs = zip(docs, examples, strict=True)
        return numpy.mean([doc[0].head.i == eg.y[0].head.i for doc, eg in pairs])

    assert right(disable=["spectral_reranker"]) == pytest.approx(0.6)
    assert right() == 1.0
