"""The component spectral_reranker with a model over packed forests: contract, use, bad input."""

import threading

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import Doc
from spacy.training import Example
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from brute_force import compare_conditioned, meets
from pipelines import trained_reranker, with_reranker
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    RootIs,
    SentenceTrees,
    conditioned,
)
from spacy_spectral.models.forestrank.model import ForestReranker
from spacy_spectral.scorers import score_ud
from spacy_spectral.trees.pseudoprojective import plain

FOREST = {"@architectures": "spacy-spectral.ForestReranker.v1", "folds": 2, "epochs": 2}


def pipeline(trained, **config):
    return with_reranker(trained, config.pop("model", FOREST), **config)


@pytest.fixture(scope="module")
def forests(trained, examples):
    """A trained reranker. Tests must not change it."""
    return trained_reranker(trained, FOREST, examples)


def documents(nlp, examples, split="dev"):
    return [eg.predicted.copy() for eg in examples(nlp, split)]


def values(doc):
    """All that is written to a document."""
    return [(t.head.i, t.dep_, t._.head_prob, t._.dep_prob) for t in doc] + [
        sent._.parse_logprob for sent in doc.sents
    ]


def las(nlp, examples, **options):
    pairs = examples(nlp, "test")
    docs = nlp.pipe((eg.predicted.copy() for eg in pairs), **options)
    return score_ud([Example(d, eg.reference) for d, eg in zip(docs, pairs, strict=True)])["las"]


def test_accuracy_does_not_suffer(forests, examples):
    assert las(forests, examples) >= las(forests, examples, disable=["spectral_reranker"]) - 0.005


def test_changes_parses_and_their_probabilities(forests, examples):
    changed = 0
    with forests.select_pipes(disable=["spectral_reranker"]):
        before = [values(doc) for doc in forests.pipe(documents(forests, examples))]
    for doc, own in zip(forests.pipe(documents(forests, examples)), before, strict=True):
        changed += values(doc) != own
        for token in doc:
            assert 0 < token._.head_prob <= 1 + 1e-6 and 0 < token._.dep_prob <= 1 + 1e-6
        for sent in doc.sents:
            assert sent._.parse_logprob <= 1e-5
    assert changed > len(before) // 2


def test_parses_are_the_likeliest_trees(forests, examples):
    for doc in forests.pipe(documents(forests, examples)[:20]):
        for sent in doc.sents:
            parses = sent._.parses
            probs = [parse.probability for parse in parses]
            assert probs == sorted(probs, reverse=True) and sum(probs) <= 1 + 1e-9
            assert len({(*p.tree.heads, *p.tree.deps) for p in parses}) == len(parses) <= 10
            own = [token.head.i for token in sent], [token.dep_ for token in sent]
            for parse in parses:
                if (parse.tree.heads, parse.tree.deps) == own:
                    logprob = numpy.log(parse.probability)
                    assert logprob == pytest.approx(sent._.parse_logprob, abs=1e-4)


def test_probabilities_leave_room_for_other_arcs(forests, examples):
    """Of heads that are not in a forest, and of no more than all."""
    docs = documents(forests, examples)[:20]
    reranker = forests.get_pipe("spectral_reranker").reranker
    batch, base = forests.get_pipe("spectral_parser").parse(docs)
    names = forests.get_pipe("spectral_parser").grammar.label_names
    assert reranker.outside[0] > 0
    parses = reranker.parse(batch.tokens, base, names)
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        table = parses.marginals(s)
        assert table[:, 1:].sum(axis=0) == pytest.approx(numpy.ones(end - begin))
        inside = numpy.zeros(end - begin)
        arcs = parses.arcs(s, min_prob=0.0)
        numpy.add.at(inside, arcs.modifiers - 1, arcs.probs)
        assert (inside < 1).all() and (inside > 0.5).all()
        assert numpy.exp(parses.log_probs()[s]) <= inside.prod() + 1e-9
    # files of older versions know nothing of that, nor of experts
    fields = unpack("forest reranker", 1, reranker.to_bytes())
    del fields["outside"], fields["experts"]
    old = ForestReranker.from_bytes(pack("forest reranker", 1, fields))
    assert old.outside.tolist() == [0, 0]
    assert (old.parse(batch.tokens, base, names).heads == parses.heads).all()


def test_conditions(forests, examples):
    """By the distribution of the second stage, against that of all its trees."""
    nlp, n_found = forests, 0
    parser, reranker = (nlp.get_pipe(f"spectral_{name}") for name in ("parser", "reranker"))
    names = list(map(plain, parser.grammar.label_names))
    docs = [doc for doc in documents(nlp, examples) if 3 <= len(doc) <= 12]
    for doc in docs:
        batch, base = parser.parse([doc])
        own = reranker.reranker.parse(batch.tokens, base, parser.grammar.label_names)
        found = own.k_best(0, 3_000)
        if len(batch.tokens) > 1 or len(found) == 3_000:
            continue
        trees = {
            (tuple(tree.heads.tolist()), tuple(names[i] for i in tree.labels)): tree.log_prob
            for tree in found
        }
        if len(trees) < len(found):  # crossing arcs were restored
            continue
        total = sum(map(numpy.exp, trees.values()))
        trees = {tree: numpy.exp(log) / total for tree, log in trees.items()}
        label = names[int(found[0].labels[0])]
        head = int(found[-1].heads[1])
        other = HeadIs(2, head) if head else RootIs(2)
        for conditions in ([], [LabelIs(1, label)], [other], [HeadIsNot(1, 0), NoCrossing(1, 2)]):
            if not any(all(meets(c, *tree) for c in conditions) for tree in trees):
                continue
            result = conditioned(len(doc), SentenceTrees(own), conditions, names=names)
            compare_conditioned(result, trees, conditions, rel=1e-6)
            n_found += 1
    assert n_found >= 10
    (one,) = reranker.parse_with(docs[0], [RootIs(0)])[:1]
    assert one.tree.heads[0] == 0 and 0 < one.probability <= 1


def test_every_way_through_the_pipeline_gives_the_same(forests, examples):
    def docs():
        return documents(forests, examples)[:12]

    expected = [values(doc) for doc in map(forests, docs())]
    for options in ({"batch_size": 1}, {"batch_size": 5}, {"n_process": 2, "batch_size": 4}):
        assert [values(doc) for doc in forests.pipe(docs(), **options)] == expected
    # parsing once more changes nothing
    assert [
        values(forests.get_pipe("spectral_reranker")(forests(doc))) for doc in docs()
    ] == expected


def test_four_threads_give_what_one_gives(forests, examples):
    docs = documents(forests, examples)[:24]
    expected = [values(doc) for doc in forests.pipe([doc.copy() for doc in docs], batch_size=3)]
    found = {}

    def work(i):
        own = [doc.copy() for doc in docs]
        found[i] = [values(doc) for doc in forests.pipe(own, batch_size=3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == expected for i in range(4))


def test_survives_disk_and_another_vocabulary(forests, examples, tmp_path):
    forests.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    docs = documents(forests, examples)[:8]
    expected = [values(doc) for doc in forests.pipe([doc.copy() for doc in docs])]

    def moved(nlp):
        words = [
            Doc(
                nlp.vocab,
                [t.text for t in doc],
                [bool(t.whitespace_) for t in doc],
                tags=[t.tag_ for t in doc],
                sent_starts=[t.i == 0 for t in doc],
            )
            for doc in docs
        ]
        return [values(doc) for doc in nlp.pipe(words)]

    assert moved(loaded) == expected
    sourced = spacy.blank("en")
    for name in ("spectral_parser", "spectral_reranker"):
        sourced.add_pipe(name, source=loaded)
    assert moved(sourced) == expected
    one, other = (nlp.get_pipe("spectral_reranker").to_bytes() for nlp in (forests, loaded))
    assert one == other


def test_training_again_gives_the_same_bytes(forests, trained, examples):
    nlp = pipeline(trained)
    nlp.get_pipe("spectral_reranker").initialize(lambda: examples(nlp), nlp=nlp)
    one, other = (p.get_pipe("spectral_reranker").reranker for p in (forests, nlp))
    assert one.to_bytes() == other.to_bytes()


def test_experts_are_gone(forests):
    """Files and configs of earlier versions may have them: the error says what to do."""
    with pytest.raises(ValueError, match="S921"):
        pipeline(
            forests, model=FOREST | {"experts": {"a": {"@architectures": "spacy-spectral.SHAG.v1"}}}
        )
    reranker = forests.get_pipe("spectral_reranker").reranker
    fields = unpack("forest reranker", 1, reranker.to_bytes())
    fields["experts"] = [{"name": "a", "kind": "SHAG", "model": b""}]
    with pytest.raises(ValueError, match="S921"):
        ForestReranker.from_bytes(pack("forest reranker", 1, fields))
    fields |= {"experts": [], "dense": numpy.ones(2)}
    with pytest.raises(ValueError, match=r"S005.*dense"):
        ForestReranker.from_bytes(pack("forest reranker", 1, fields))


def test_unusual_documents(forests):
    nlp = forests
    for words in ([], ["\n"], ["Word"], ["word", " ", "word"], ["🙂", "ὕδωρ", "水"], ["a"] * 60):
        tags = ["" if word.isspace() else "unknown" for word in words]
        starts = [i == 0 for i in range(len(words))]
        doc = nlp(Doc(nlp.vocab, words, tags=tags, sent_starts=starts) if words else Doc(nlp.vocab))
        assert [t.text for t in doc] == words
        assert all(sent.root.head == sent.root for sent in doc.sents)


def test_merged_tokens(forests, examples):
    doc = forests(documents(forests, examples)[0])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    again = forests(doc)
    assert len(list(again.sents)) >= 1
    assert all(token.dep_ for token in again if not token.is_space)


def test_partial_annotation_teaches_what_it_can(trained, examples):
    nlp = pipeline(trained)
    some = examples(nlp)[:60]
    for eg in some[::2]:
        for token in eg.reference:
            token.dep = 0
    nlp.get_pipe("spectral_reranker").initialize(lambda: some, nlp=nlp)
    assert nlp.get_pipe("spectral_reranker").is_learnt


def test_bad_settings_and_data(trained, examples):
    for bad in (
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"folds": 1},
        {"epochs": 0},
        {"learn_rate": 0.0},
        {"l2": -1.0},
        {"min_count": 0},
        {"min_word_count": 0},
        {"seed": -1},
    ):
        with pytest.raises(ValueError, match="S912"):
            pipeline(trained, model=FOREST | bad)
    nlp = pipeline(trained)
    with pytest.raises(ValueError, match="S115"):
        nlp(documents(nlp, examples)[0])
    with pytest.raises(ValueError, match="S507"):
        trained_nlp = pipeline(trained)
        component = trained_nlp.get_pipe("spectral_reranker")
        component.initialize(lambda: examples(trained_nlp)[:40], nlp=trained_nlp)
        component.spectral_tree_score(trained(documents(trained_nlp, examples)[0]))


def test_a_beam_parser_has_no_forest(examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("beam_parser")
    component = nlp.add_pipe("spectral_reranker", config={"model": FOREST, "base": "beam_parser"})
    with pytest.raises(ValueError, match="S914"):
        component.initialize(lambda: examples(nlp)[:20], nlp=nlp)


@pytest.mark.parametrize("temperature", [1.6, 0.7])
def test_temperatures(forests, examples, temperature):
    """All trees of a forest, each with its probability to the power of 1 / temperature."""
    docs = documents(forests, examples)[:20]
    reranker = forests.get_pipe("spectral_reranker").reranker
    batch, base = forests.get_pipe("spectral_parser").parse(docs)
    names = forests.get_pipe("spectral_parser").grammar.label_names
    before = reranker.parse(batch.tokens, base, names)
    tempered = reranker.with_temperature(temperature)
    after = tempered.parse(batch.tokens, base, names)
    # the tree is as it was
    assert (after.heads == before.heads).all() and (after.labels == before.labels).all()
    n_compared = 0
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        trees = [own.k_best(s, 500) for own in (before, after)]
        if len(trees[0]) == 500:
            continue
        logs, found = (numpy.array([tree.log_prob for tree in own]) for own in trees)
        inside = numpy.exp(logs).sum()  # that all arcs are in the forest
        expected = numpy.exp(logs / temperature)
        expected *= inside / expected.sum()
        assert numpy.exp(found) == pytest.approx(expected, rel=1e-4)
        table = numpy.zeros((end - begin + 1, end - begin + 1))
        for tree, prob in zip(trees[1], expected, strict=True):
            table[tree.heads, numpy.arange(1, end - begin + 1)] += prob / inside
        arcs, own = after.arcs(s, min_prob=0.0), before.arcs(s, min_prob=0.0)
        room = numpy.bincount(own.modifiers, own.probs, minlength=end - begin + 1)
        crossing = any("||" in names[i] for i in after.arcs(s, labelled=True).labels)
        if not crossing:
            assert arcs.probs == pytest.approx(
                table[arcs.heads, arcs.modifiers] * room[arcs.modifiers], abs=1e-5
            )
        assert after.head_probs()[begin:end] == pytest.approx(
            after.marginals(s)[after.heads[begin:end], numpy.arange(1, end - begin + 1)], rel=1e-4
        )
        n_compared += 1
    assert n_compared > 5
    assert reranker.with_temperature(1.0).to_bytes() == reranker.to_bytes()
    # files: with it, of older versions, and damaged
    again = ForestReranker.from_bytes(tempered.to_bytes())
    assert again.temperature == temperature and again.to_bytes() == tempered.to_bytes()
    fields = unpack("forest reranker", 1, tempered.to_bytes())
    older = {name: value for name, value in fields.items() if name != "temperature"}
    assert ForestReranker.from_bytes(pack("forest reranker", 1, older)).temperature == 1.0
    for bad in (0.0, -1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(ValueError, match=r"\[S00.\].*temperature"):
            ForestReranker.from_bytes(pack("forest reranker", 1, {**fields, "temperature": bad}))


def test_a_development_corpus_says_how_sure_it_may_be(trained, examples, sample):
    nlp = pipeline(trained)
    dev = {
        "@readers": "spacy-spectral.Corpus.v1",
        "path": str(sample["dev"]),
        "annotations": ["tag", "sents"],
    }
    nlp.config["corpora"] = {"dev": dev}
    reranker = nlp.get_pipe("spectral_reranker")
    reranker.initialize(lambda: examples(nlp)[:120], nlp=nlp, dev_corpus="corpora.dev")
    assert reranker.reranker.temperature != 1


def test_calibrate_command(forests, sample, tmp_path):
    forests.to_disk(tmp_path / "model")
    arguments = [
        "spectral", "calibrate", str(tmp_path / "model"), str(sample["dev"]), "--gold-tags",
        "--component", "spectral_reranker", "--output", str(tmp_path / "calibrated"),
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    calibrated = spacy.load(tmp_path / "calibrated").get_pipe("spectral_reranker").reranker
    assert calibrated.temperature != 1
