"""Tagger and log-linear parser trained in one run, from the config that is shipped."""

import logging
from pathlib import Path

import numpy
import pytest
import spacy
from spacy import util
from spacy.tokens import Doc
from spacy.training.initialize import init_nlp

from spacy_spectral.pipeline.documents import TokenReader, training_treebank
from spacy_spectral.pipeline.training_data import corpus_examples, jackknifed, with_gold_tags
from spacy_spectral.readers import Corpus

CONFIGS = Path(__file__).parents[2] / "configs"


def train(sample, name="pipeline.cfg", **overrides):
    paths = {"paths.train": str(sample["train"]), "paths.dev": str(sample["dev"])}
    overrides = {key.replace("__", "."): value for key, value in overrides.items()}
    return init_nlp(util.load_config(CONFIGS / name, overrides=paths | overrides))


@pytest.fixture(scope="module")
def nlp(sample):
    """The pipeline after `spacy train`: all training happens when it is initialized."""
    return train(sample)


def dev_examples(nlp, sample):
    """Sentences of the treebank, on its tokens."""
    return list(Corpus(sample["dev"], annotations=["sents"], n_sents=1)(nlp))


def parses(docs):
    return [[(t.tag_, t.head.i, t.dep_, t._.head_prob, t._.dep_prob) for t in doc] for doc in docs]


def test_one_run_trains_all_from_raw_text_to_trees(nlp, sample):
    corpus = Corpus(sample["test"], annotations=[], gold_tokens=False)
    scores = nlp.evaluate(list(corpus(nlp)))
    assert scores["token_f"] > 0.99
    assert scores["sents_f"] > 0.95
    assert scores["lemma_acc"] > 0.95
    assert scores["dep_las"] > 0.8


def test_one_run_trains_tagger_and_parser(nlp, sample):
    scores = nlp.evaluate(dev_examples(nlp, sample))
    assert scores["tag_acc"] > 0.9
    assert scores["dep_uas"] > 0.85
    assert scores["dep_las"] > 0.8


def test_training_again_gives_the_same_bytes(nlp, sample):
    again = train(sample, components__spectral_parser__model__n_threads=2)
    assert again.tokenizer.to_bytes() == nlp.tokenizer.to_bytes()
    for name in nlp.pipe_names:
        assert again.get_pipe(name).model.to_bytes() == nlp.get_pipe(name).model.to_bytes()


def test_any_batching_gives_the_same_parses(nlp, sample, tmp_path):
    docs = [eg.predicted for eg in dev_examples(nlp, sample)]
    expected = parses(nlp(doc.copy()) for doc in docs)
    for options in ({"batch_size": 1}, {"batch_size": 7}, {"n_process": 2}):
        assert parses(nlp.pipe([doc.copy() for doc in docs], **options)) == expected
    nlp.to_disk(tmp_path)
    assert parses(spacy.load(tmp_path).pipe(doc.copy() for doc in docs)) == expected


def test_epochs_are_reported_and_stop_by_the_development_corpus(few, caplog):
    util.logger.setLevel(logging.INFO)
    try:
        train(
            few,
            corpora__train__limit=100,
            components__spectral_parser__model__epochs=30,
            components__spectral_parser__model__patience=1,
        )
    finally:
        util.logger.setLevel(logging.WARNING)
    lines = [line for line in caplog.messages if line.startswith("spectral_parser: epoch")]
    assert 2 <= len(lines) < 30
    assert all("loss" in line and "dev UAS" in line for line in lines)
    assert any("jack-knifed" in line for line in caplog.messages)


def test_jackknifed_documents_carry_what_the_tagger_would_say(nlp, sample):
    examples = corpus_examples(nlp, "corpora.train", parser="p")
    reports = []
    docs = list(jackknifed("spectral_tagger", examples, nlp, parser="p", report=reports.append))
    read = TokenReader(["TAG"], name="p")
    guessed = training_treebank(examples, docs, read)
    gold = training_treebank(examples, list(with_gold_tags(examples)), read)
    assert guessed.tokens.words == gold.tokens.words
    assert (guessed.heads == gold.heads).all() and guessed.labels == gold.labels
    agreement = numpy.mean(numpy.array(guessed.tokens.symbols) == numpy.array(gold.tokens.symbols))
    assert 0.9 < agreement < 1
    assert f"{agreement:.2%}" in reports[0]
    # the tagger itself, having seen them, agrees more often with its training data
    seen = nlp.get_pipe("spectral_tagger").pipe(eg.predicted.copy() for eg in examples)
    tags = [token.tag_ for doc in seen for token in doc if not token.is_space]
    assert numpy.mean(numpy.array(tags) == numpy.array(gold.tokens.symbols)) > agreement
    rivals = [second for second in guessed.tokens.second if second is not None]
    assert rivals and {tag for tag, _ in rivals} <= set(gold.tokens.symbols)
    assert all(0 <= prob <= 0.5 for _, prob in rivals) and any(prob > 0.1 for _, prob in rivals)
    assert set(guessed.tokens.pos) <= set(gold.tokens.pos)
    morphs = numpy.array(guessed.tokens.morphs) == numpy.array(gold.tokens.morphs)
    assert any(gold.tokens.morphs) and 0.9 < morphs.mean() < 1
    assert not any(gold.tokens.second)
    # the examples are as they were
    assert not any(eg.predicted.has_annotation("TAG") for eg in examples)


def test_jackknifing_needs_a_spectral_tagger(examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    nlp.add_pipe("spectral_parser", config={"jackknife": "tagger"})
    with pytest.raises(ValueError, match=r"\[S121\]"):
        nlp.initialize(lambda: examples(nlp))
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser", config={"jackknife": "tagger"})
    with pytest.raises(ValueError, match=r"\[S118\]"):
        nlp.initialize(lambda: examples(nlp))


def test_unknown_corpora_are_named(examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser")
    for setting in ("dev_corpus", "silver_corpus"):
        nlp.config["initialize"]["components"]["spectral_parser"] = {setting: "corpora.none"}
        with pytest.raises(ValueError, match=rf"\[S122\].*setting '{setting}'"):
            nlp.initialize(lambda: examples(nlp))


def test_probabilities_given_a_fixed_head_follow_from_those_without(few):
    """P(tree | arc) = P(tree) / P(arc) for every tree with the arc, if nothing is pruned."""
    everything = {
        "components__spectral_parser__model__prune_threshold": 1e-30,
        "components__spectral_parser__model__parse_threshold": None,
        "components__spectral_parser__model__prune_most": 200,
    }
    nlp = train(few, **everything)
    parser, tagger = nlp.get_pipe("spectral_parser"), nlp.get_pipe("spectral_tagger")
    docs = [tagger(eg.predicted) for eg in dev_examples(nlp, few)]
    checked = 0
    for doc in [doc for doc in docs if 4 <= len(doc) <= 8][:5]:
        parser.constrain = False
        (free,) = parser.nbest(doc, 20)
        (marginals,) = parser.marginals(doc)
        head = free[1].heads[0]
        with_arc = {tuple(p.heads): (p.deps, p.logprob) for p in free if p.heads[0] == head}
        heads, deps = [None] * len(doc), [None] * len(doc)
        heads[0], deps[0] = head, "dep"
        fixed = Doc(
            nlp.vocab,
            words=[t.text for t in doc],
            heads=heads,
            deps=deps,
            sent_starts=[1] + [-1] * (len(doc) - 1),
        )
        parser.constrain = True
        (given,) = parser.nbest(tagger(fixed), 20)
        for parse in given:
            assert parse.heads[0] == head
            deps, logprob = with_arc.get(tuple(parse.heads), (None, 0.0))
            if deps == parse.deps:
                # marginals leave out arcs far below the best, probabilities of trees don't
                assert parse.logprob == pytest.approx(
                    logprob - numpy.log(marginals[0, head]), abs=1e-3
                )
                checked += 1
    assert checked >= 5


def test_labelled_trees_of_a_short_sentence_share_the_whole_probability(nlp):
    """With one label a tree at most, the k best trees can't have more than all of it."""
    words = ["Dogs", "barked", "."]
    doc = Doc(nlp.vocab, words=words, sent_starts=[1, -1, -1])
    doc = nlp.get_pipe("spectral_tagger")(doc)
    (found,) = nlp.get_pipe("spectral_parser").nbest(doc, 50)
    assert 0.5 < sum(numpy.exp(parse.logprob) for parse in found) <= 1 + 1e-6


def test_tags_without_probabilities_will_do(nlp, sample):
    """Gold tags, or those of another tagger: there is no second guess then."""
    doc = dev_examples(nlp, sample)[0].reference.copy()
    doc.user_data.clear()
    parsed = nlp.get_pipe("spectral_parser")(doc)
    assert sum(token.head == token for token in parsed) == 1


def test_clusters_are_kept_inside_the_model(examples):
    clusters_of = pytest.importorskip("spacy_spectral.models.eigenwords.clusters").WordClusters
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "spectral_parser", config={"model": {"@architectures": "spacy-spectral.LogLinear.v1"}}
    )
    train = examples(nlp)
    words = sorted({token.text for eg in train for token in eg.reference})
    expected = [[len(word) % 4, len(word)] for word in words]
    clusters = clusters_of(dict(zip(words, expected, strict=True)), {}, (4, 32))
    clusters.to_lookups(nlp.vocab.lookups)
    nlp.initialize(lambda: train)
    learnt = nlp.get_pipe("spectral_parser").grammar
    copy = type(learnt).from_bytes(learnt.to_bytes())
    for parser in (learnt, copy):
        assert parser.clusters.ids(words).tolist() == expected


def test_raw_text_is_split_and_given_sentences_are_kept(nlp):
    assert len(list(nlp("The dog barked. The cat slept.").sents)) == 2
    words = ["The", "dog", "barked", ".", "The", "cat", "slept", "."]
    doc = nlp(Doc(nlp.vocab, words=words, sent_starts=[1] + [-1] * 7))
    assert len(list(doc.sents)) == 1


def test_senter_config_parses_raw_text(few):
    nlp = train(few, "pipeline_senter.cfg", corpora__train__limit=100)
    assert nlp.pipe_names == ["senter", "spectral_tagger", "spectral_parser"]
    doc = nlp("The dog barked. The cat slept.")
    assert all(token.dep_ for token in doc)
    for sent in doc.sents:
        assert sum(token.head == token for token in sent) == 1
