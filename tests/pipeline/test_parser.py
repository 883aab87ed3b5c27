"""The component spectral_parser: spaCy's contract, and what it gives beyond heads."""

import pickle
import re

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from parse_checks import check_batches_and_processes, parse_of
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_spectral.pipeline.documents import write_parse
from spacy_spectral.pipeline.training_data import find_word_vectors
from spacy_spectral.trees.interface import NEUTRAL

ARCHITECTURES = ("spacy-spectral.SHAG.v1", "spacy-spectral.LogLinear.v1")
LOGLINEAR = {"@architectures": "spacy-spectral.LogLinear.v1"}


def make(**config):
    nlp = spacy.blank("xx")
    nlp.add_pipe("spectral_parser", config=config)
    return nlp


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request):
    """The settings of a model: what a test with this fixture says holds for every architecture."""
    return {"@architectures": request.param}


@pytest.fixture(scope="module")
def trained(model, examples):
    """A pipeline with a trained parser. Tests must not change it."""
    nlp = make(model=model)
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.fixture
def docs(trained, examples):
    return [eg.predicted for eg in examples(trained, "dev")]


def test_learns_to_parse(trained, examples):
    scores = trained.evaluate(examples(trained, "dev"))
    assert scores["dep_uas"] > 0.9
    assert scores["dep_las"] > 0.88
    # what `spacy init labels` writes
    parser = trained.get_pipe("spectral_parser")
    labels = {token.dep_ for eg in examples(trained) for token in eg.reference}
    assert parser.label_data == list(parser.labels) == sorted(labels)


def test_vectors_of_a_directory(tmp_path):
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "none")
    nlp.vocab.set_vector("dog", numpy.array([3.0, 4.0], dtype="float32"))
    nlp.to_disk(tmp_path / "some")
    found = find_word_vectors(tmp_path / "some", spacy.blank("en").vocab)
    numpy.testing.assert_allclose(found(["dog", "Ω"]), [[0.6, 0.8], [0.0, 0.0]], atol=1e-3)
    for name in ("none", "nowhere"):
        with pytest.raises(ValueError, match=r"\[S216\].*" + name):
            find_word_vectors(tmp_path / name, nlp.vocab)


def test_a_development_corpus_says_how_sure_head_automata_may_be(sample, examples):
    nlp = make(model={"@architectures": "spacy-spectral.SHAG.v1"})
    dev = {"@readers": "spacy-spectral.Corpus.v1", "path": str(sample["dev"])}
    nlp.config["corpora"] = {"dev": dev}
    nlp.config["initialize"]["components"]["spectral_parser"] = {"dev_corpus": "corpora.dev"}
    nlp.initialize(lambda: examples(nlp)[:50])
    assert nlp.get_pipe("spectral_parser").is_learnt
    assert nlp.get_pipe("spectral_parser").grammar.temperature != NEUTRAL


def test_every_sentence_is_a_projective_tree_with_one_root(trained, docs):
    for doc in trained.pipe(docs):
        for sent in doc.sents:
            assert sum(token.head == token for token in sent) == 1
            for token in sent:
                low, high = sorted((token.i, token.head.i))
                assert all(low <= doc[k].head.i <= high for k in range(low + 1, high))
                assert sent.start <= token.head.i < sent.end


def test_batches_and_processes_give_the_same_parses(trained, docs):
    check_batches_and_processes(trained, docs)


def test_parsing_again_changes_nothing(trained, docs):
    for doc in docs[:10]:
        first = parse_of(trained(doc))
        assert parse_of(trained(doc)) == first


def test_training_twice_gives_the_same_bytes(model, few_examples):
    first, second = make(model=model), make(model=model)
    for nlp in (first, second):
        nlp.initialize(lambda nlp=nlp: few_examples(nlp))
    assert (
        first.get_pipe("spectral_parser").model.to_bytes()
        == second.get_pipe("spectral_parser").model.to_bytes()
    )


def test_serialisation_keeps_parses(model, trained, docs, tmp_path):
    expected = [parse_of(trained(doc.copy())) for doc in docs[:10]]
    trained.to_disk(tmp_path)
    copies = [
        spacy.load(tmp_path),
        make(model=model).from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ]
    for nlp in copies:
        assert [parse_of(nlp(doc.copy())) for doc in docs[:10]] == expected
        assert nlp.get_pipe("spectral_parser").labels == trained.get_pipe("spectral_parser").labels


@pytest.fixture(scope="module")
def target(model):
    """A parser to load other parsers' data into."""
    return make(model=model).get_pipe("spectral_parser")


@pytest.fixture(scope="module")
def good(trained):
    """What a trained parser is written as."""
    return trained.get_pipe("spectral_parser").to_bytes(exclude=["vocab"])


@settings(max_examples=40)
@given(data=st.data())
def test_damaged_bytes_give_clear_errors(good, target, trained, examples, data):
    """Or the damage is where nothing is learnt (a name, a setting), and parses are the same."""
    position = data.draw(st.integers(0, len(good) - 1))
    bad = good[:position] + bytes([data.draw(st.integers(0, 255))]) + good[position + 1 :]
    try:
        target.from_bytes(bad)
    except ValueError as error:
        assert "[S0" in str(error)
    else:
        doc = examples(trained, "dev")[0].predicted
        [parsed] = target.pipe([doc.copy()])
        assert parse_of(parsed) == parse_of(trained(doc))


@given(data=st.binary(max_size=100))
def test_random_bytes_give_clear_errors(target, data):
    with pytest.raises(ValueError, match=r"\[S0"):
        target.from_bytes(data)


def test_damaged_directory_gives_a_clear_error(trained, tmp_path):
    trained.to_disk(tmp_path)
    (tmp_path / "spectral_parser" / "model").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"\[S002\]"):
        spacy.load(tmp_path)


def test_marginals_are_distributions_and_agree_with_the_parse(trained, docs):
    parser = trained.get_pipe("spectral_parser")
    for doc in docs[:10]:
        (rows,) = parser.marginals(doc)
        numpy.testing.assert_allclose(rows.sum(axis=1), 1.0)
        assert (rows >= 0).all()
        trained(doc)
        for token in doc:
            assert token._.head_prob == pytest.approx(rows[token.i, token.head.i], abs=1e-6)
            assert 0 < token._.dep_prob <= 1


def test_nbest_is_sorted_distinct_and_holds_the_parse(model, trained, docs):
    parser = trained.get_pipe("spectral_parser")
    for doc in docs[:10]:
        (parses,) = parser.nbest(doc, 5)
        logs = [parse.logprob for parse in parses]
        assert logs == sorted(logs, reverse=True)
        # values of projected automata are probabilities only nearly
        assert numpy.exp(logs).sum() <= 1 + (1e-2 if "SHAG" in model["@architectures"] else 1e-9)
        assert len({tuple(parse.heads) for parse in parses}) == len(parses)
        trained(doc)
        match = [p for p in parses if p.heads == [token.head.i for token in doc]]
        assert len(match) == 1
        assert match[0].deps == [token.dep_ for token in doc]
        (sent,) = doc.sents
        assert sent._.parse_logprob == pytest.approx(match[0].logprob, abs=1e-4)


def test_probabilities_of_all_trees_sum_to_one(examples):
    nlp = make(model={"@architectures": "spacy-spectral.SHAG.v1", "estimator": "em", "states": 3})
    nlp.initialize(lambda: examples(nlp))
    parser = nlp.get_pipe("spectral_parser")
    short = [eg.predicted for eg in examples(nlp, "dev") if len(eg.predicted) <= 6]
    for doc in short:
        (parses,) = parser.nbest(doc, 10000)
        assert numpy.exp([parse.logprob for parse in parses]).sum() == pytest.approx(1.0)
        marginals = numpy.zeros((len(doc), len(doc)))
        for parse in parses:
            marginals[range(len(doc)), parse.heads] += numpy.exp(parse.logprob)
        numpy.testing.assert_allclose(marginals, parser.marginals(doc)[0], atol=1e-9)
    assert short


def test_labelled_nbest(trained, docs):
    parser, n_labels_alone = trained.get_pipe("spectral_parser"), 0
    for doc in docs[:20]:
        (found,) = parser.nbest(doc, 8, labelled=True)
        logs = [parse.logprob for parse in found]
        assert logs == sorted(logs, reverse=True)
        assert sum(map(numpy.exp, logs)) <= 1 + 1e-6
        keys = {(*parse.heads, *parse.deps) for parse in found}
        assert len(keys) == len(found) > 1
        n_labels_alone += sum(parse.heads == found[0].heads for parse in found[1:])
        assert [p.logprob for p in parser.nbest(doc, 3, labelled=True)[0]] == pytest.approx(
            logs[:3]
        )
    assert n_labels_alone > 0


def test_nbest_refuses_k_below_one(trained, docs):
    with pytest.raises(ValueError, match=r"\[S120\]"):
        trained.get_pipe("spectral_parser").nbest(docs[0], 0)


def test_scored_parses_has_the_form_of_beam_parser(trained, docs):
    heads, labels = trained.get_pipe("spectral_parser").scored_parses(docs[:3])
    for doc, by_head, by_label in zip(docs, heads, labels, strict=False):
        for token in doc:
            own = [p for (i, _), p in by_head.items() if i == token.i]
            assert sum(own) == pytest.approx(1.0)
            own = [p for (i, _), p in by_label.items() if i == token.i]
            # a log-linear model tells the probability of the best label only
            assert sum(own) == pytest.approx(1.0) or (len(own) == 1 and 0 < own[0] < 1)


def test_stored_values_survive_bytes_and_docbin(model, few_examples):
    nlp = make(model=model, store=["head_prob", "parse_logprob", "marginals"])
    nlp.initialize(lambda: few_examples(nlp))
    doc = nlp(few_examples(nlp, "dev")[0].predicted)
    expected = [token._.head_prob for token in doc]
    logprob = next(iter(doc.sents))._.parse_logprob
    from_bytes = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    docbin = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (from_docbin,) = DocBin().from_bytes(docbin).get_docs(nlp.vocab)
    for copy in (from_bytes, from_docbin):
        assert [token._.head_prob for token in copy] == expected
        assert next(iter(copy.sents))._.parse_logprob == logprob
        assert next(iter(copy.sents))._.marginals.shape == (len(doc), len(doc))
        assert copy[0]._.dep_prob is None


def test_part_of_a_sentence_has_no_logprob(trained, docs):
    doc = trained(docs[0])
    assert doc[0 : len(doc) - 1]._.parse_logprob is None
    assert doc[0 : len(doc)]._.parse_logprob is not None


def test_whitespace_attaches_to_a_neighbour(trained, docs):
    words = ["\n", *[token.text for token in docs[0]], "  "]
    tags = ["_SP", *[token.tag_ for token in docs[0]], "_SP"]
    starts = [1] + [-1] * (len(words) - 1)
    doc = trained(Doc(trained.vocab, words=words, tags=tags, sent_starts=starts))
    plain = trained(docs[0])
    assert [token.head.i - 1 for token in doc[1:-1]] == [token.head.i for token in plain]
    assert doc[0].head.i == 1
    assert doc[len(doc) - 1].head.i == len(doc) - 2
    assert len(list(doc.sents)) == 1


def attached(words, starts, heads):
    """The heads of white space by its definition: the token before, else the first word of the sentence."""
    sentence = numpy.cumsum(starts)
    result = list(heads)
    for i in numpy.flatnonzero(heads < 0):
        own = [j for j in range(len(words)) if sentence[j] == sentence[i] and heads[j] >= 0]
        result[i] = i - 1 if not starts[i] else own[0] if own else i
    return result


def test_whitespace_is_attached_in_one_pass(monkeypatch):
    rng = numpy.random.default_rng(0)
    calls = []
    find = numpy.flatnonzero
    for n in (1, 2, 7, 30, 500):
        words = rng.choice(["a", "\n", " "], size=n).tolist()
        starts = rng.random(n) < 0.4
        starts[0] = True
        doc = Doc(spacy.blank("en").vocab, words=words, sent_starts=starts.tolist())
        is_word = numpy.array([word == "a" for word in words])
        first = {}
        for i in find(is_word).tolist():
            first.setdefault(int(numpy.cumsum(starts)[i]), i)
        heads = numpy.array(
            [
                first[s] if w else -1
                for s, w in zip(numpy.cumsum(starts).tolist(), is_word, strict=True)
            ]
        )
        expected = attached(words, starts, heads)
        with monkeypatch.context() as patch:
            patch.setattr(numpy, "flatnonzero", lambda values: calls.append(1) or find(values))
            write_parse(
                doc, heads.copy(), numpy.full(n, doc.vocab.strings.add("x"), dtype="uint64")
            )
        assert [token.head.i for token in doc] == expected
        assert [token.dep_ for token in doc] == ["x" if w else "dep" for w in is_word]
    assert len(calls) <= 10  # not one for each sentence


def test_empty_and_whitespace_documents(trained):
    assert len(trained(Doc(trained.vocab))) == 0
    doc = Doc(trained.vocab, words=[" ", "\n"], tags=["_SP", "_SP"], sent_starts=[1, -1])
    assert [token.head.i for token in trained(doc)] == [0, 0]


def test_sentences_are_kept(trained, docs):
    doc = Doc.from_docs([doc.copy() for doc in docs[:4]])
    before = [(sent.start, sent.end) for sent in doc.sents]
    trained(doc)
    assert [(sent.start, sent.end) for sent in doc.sents] == before
    single = [parse_of(trained(copy.copy())) for copy in docs[:4]]
    offsets = numpy.cumsum([0, *(len(copy) for copy in docs[:3])])
    together = [(h + int(o), d) for own, o in zip(single, offsets, strict=True) for h, d in own]
    assert parse_of(doc) == together


def test_missing_annotation_is_named(trained):
    with pytest.raises(ValueError, match="senter"):
        trained(Doc(trained.vocab, words=["a", "b"], tags=["DT", "NN"]))
    with pytest.raises(ValueError, match="tagger"):
        trained(Doc(trained.vocab, words=["a", "b"], sent_starts=[1, -1]))


def test_error_handler_keeps_the_pipe_going(model, trained, docs):
    bad = Doc(trained.vocab, words=["a", "b"])
    failed = []
    nlp = make(model=model).from_bytes(trained.to_bytes())
    nlp.set_error_handler(lambda name, proc, docs, error: failed.extend(docs))
    done = list(nlp.pipe([docs[0].copy(), bad, docs[1].copy()], batch_size=1))
    assert len(done) == 2
    assert failed == [bad]


def test_unseen_tag(trained):
    doc = Doc(
        trained.vocab, words=["x", "y", "z"], tags=["QQ", "NN", "WW"], sent_starts=[1, -1, -1]
    )
    assert sum(token.head == token for token in trained(doc)) == 1


@pytest.mark.parametrize("estimator", ["det", "det+f", "spectral", "em"])
def test_every_estimator(estimator, few_examples):
    model = {"@architectures": "spacy-spectral.SHAG.v1", "estimator": estimator, "states": 3}
    nlp = make(model=model)
    nlp.initialize(lambda: few_examples(nlp))
    assert nlp.evaluate(few_examples(nlp, "dev"))["dep_uas"] > 0.85


@pytest.mark.parametrize("lexical", ["LEX", "LEX+F", "LEX+FCP"])
def test_lexical_models(lexical, few_examples):
    model = {"@architectures": "spacy-spectral.SHAG.v1", "lexical": lexical}
    nlp = make(model=model)
    nlp.initialize(lambda: few_examples(nlp))
    assert nlp.evaluate(few_examples(nlp, "dev"))["dep_uas"] > 0.85
    copy = make(model=model).from_bytes(nlp.to_bytes())
    doc = few_examples(nlp, "dev")[0].predicted
    assert parse_of(copy(doc.copy())) == parse_of(nlp(doc.copy()))


def test_viterbi_is_refused(saved):
    with pytest.raises(ValueError, match=r"\[S114\] .*nothing has to be trained again"):
        make(decode="viterbi")
    with pytest.raises(ValueError, match=r"\[S114\]"):
        spacy.load(saved("SHAG"), config={"components.spectral_parser.decode": "viterbi"})


@pytest.mark.parametrize("label", ["||x", "a||b"])
@pytest.mark.parametrize("architecture", ["SHAG.v1", "LogLinear.v1", "Biaffine.v2", "Refined.v1"])
def test_labels_that_look_lifted_are_refused(architecture, label, few_examples):
    nlp = make(model={"@architectures": f"spacy-spectral.{architecture}"})
    read = few_examples(nlp)[:20]
    read[7].reference[1].dep_ = label
    expected = rf"\[S123\] '{read[7].reference[1].text}' in .*{re.escape(repr(label))}"
    with pytest.raises(ValueError, match=expected):
        nlp.initialize(lambda: read)


def test_symbols_from_several_attributes(few_examples):
    nlp = make(symbol=["TAG", "POS"])
    nlp.initialize(lambda: few_examples(nlp))
    assert "NN|NOUN" in nlp.get_pipe("spectral_parser").grammar.symbols
    assert nlp.evaluate(few_examples(nlp, "dev"))["dep_uas"] > 0.85


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"store": ["everything"]}, "S113"),
        ({"decode": "guess"}, "S114"),
        ({"symbol": ["NO_SUCH"]}, "S111"),
        ({"model": {"@architectures": "spacy-spectral.SHAG.v1", "estimator": "x"}}, "S101"),
        ({"model": {"@architectures": "spacy-spectral.SHAG.v1", "states": 0}}, "S102"),
        ({"model": {"@architectures": "spacy-spectral.SHAG.v1", "lexical": "LEX+X"}}, "S103"),
    ],
)
def test_bad_settings_are_named(config, code):
    with pytest.raises(ValueError, match=code):
        make(**config)


def test_initialize_without_annotation_is_refused(model, few_examples):
    with pytest.raises(ValueError, match=r"\[S117\]"):
        make(model=model).initialize()
    nlp = make(model=model)
    nlp.config["training"]["max_epochs"] = -1
    with pytest.raises(ValueError, match=r"\[S116\]"):
        nlp.initialize(lambda: few_examples(nlp))
    with pytest.raises(ValueError, match=r"\[S115\]"):
        make(model=model)(Doc(nlp.vocab, words=["a"], tags=["DT"], sent_starts=[1]))


def test_partial_annotation_is_used_as_far_as_it_goes(model, few_examples):
    nlp = make(model=model)
    partial = []
    for eg in few_examples(nlp):
        doc = eg.reference
        heads = [token.head.i for token in doc]
        deps = [token.dep_ for token in doc]
        middle = len(doc) // 2
        heads[middle], deps[middle] = None, None
        starts = [1] + [-1] * (len(doc) - 1)
        words, tags = [token.text for token in doc], [token.tag_ for token in doc]
        reference = Doc(
            nlp.vocab, words=words, tags=tags, heads=heads, deps=deps, sent_starts=starts
        )
        partial.append(Example(eg.predicted, reference))
    nlp.initialize(lambda: partial)
    assert nlp.evaluate(few_examples(nlp, "dev"))["dep_uas"] > 0.8


def test_update_takes_part_in_the_loop(trained, examples):
    losses = trained.update(examples(trained, "dev")[:2], losses={})
    assert losses["spectral_parser"] == 0.0


def test_fixed_heads_are_kept(model, few_examples):
    nlp = make(model=model, constrain=True)
    nlp.initialize(lambda: few_examples(nlp))
    given, parsed = [], []
    for eg in few_examples(nlp, "dev")[:10]:
        plain = nlp(eg.predicted.copy())
        n = len(plain)
        if n < 4:
            continue
        # hang the first token on every other one in turn
        for head in range(1, n):
            heads, deps = [None] * n, [None] * n
            heads[0], deps[0] = head, "dep"
            words, tags = [t.text for t in plain], [t.tag_ for t in plain]
            starts = [1] + [-1] * (n - 1)
            doc = Doc(nlp.vocab, words=words, tags=tags, heads=heads, deps=deps, sent_starts=starts)
            given.append(doc.copy())
            parsed.append([token.head.i for token in nlp(doc)])
            assert doc[0].head.i == head
            assert sum(token.head == token for token in doc) == 1
    # in their own document, whatever stands before it in a batch
    assert [[token.head.i for token in doc] for doc in nlp.pipe(given)] == parsed


def test_impossible_fixed_heads_are_reported_and_not_kept(model, few_examples, caplog):
    nlp = make(model=model, constrain=True)
    nlp.initialize(lambda: few_examples(nlp))
    doc = Doc(
        nlp.vocab,
        words=["a", "b", "c", "d"],
        tags=["DT", "NN", "DT", "NN"],
        heads=[2, 3, 3, 3],
        deps=["det", "nmod", "nsubj", "ROOT"],
        sent_starts=[1, -1, -1, -1],
    )
    nlp(doc)
    assert "W102" in caplog.text
    assert sum(token.head == token for token in doc) == 1


def test_annotate_with_learns_from_predicted_tags(model, few_examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger")
    nlp.initialize(lambda: few_examples(nlp))
    nlp.add_pipe("spectral_parser", config={"model": model, "annotate_with": ["tagger"]})
    with nlp.select_pipes(enable=["spectral_parser"]):
        parser = nlp.get_pipe("spectral_parser")
        parser.initialize(lambda: few_examples(nlp, annotations=("sents",)), nlp=nlp)
    # the untrained tagger gives few tags, and the model knows no others
    gold = {token.tag_ for eg in few_examples(nlp) for token in eg.reference}
    known = (
        parser.grammar.symbols if "SHAG" in model["@architectures"] else parser.grammar.model.tags
    )
    assert len(known) < len(gold)
    with pytest.raises(ValueError, match=r"\[S118\]"):
        make(model=model, annotate_with=["tagger"]).initialize(lambda: few_examples(nlp))


def test_different_tokenisation_is_aligned(model, few_examples):
    nlp = make(model=model)
    aligned = []
    for eg in few_examples(nlp):
        words = [token.text for token in eg.reference]
        if words[-1] != ".":
            continue
        merged = [*words[:-2], words[-2] + "."]
        spaces = [bool(token.whitespace_) for token in eg.reference][:-1]
        aligned.append(Example(Doc(nlp.vocab, words=merged, spaces=spaces), eg.reference))
    nlp.initialize(lambda: aligned)
    assert nlp.evaluate(few_examples(nlp, "dev"))["dep_uas"] > 0.5


def test_crossing_arcs_are_restored(model):
    """Free word order: a relative clause may stand behind the verb, away from its noun."""
    nlp = make(model=model)
    patterns = [
        (
            ["a", "dog", "came", "who", "barks"],
            [1, 2, 2, 4, 1],
            ["det", "nsubj", "ROOT", "nsubj", "acl"],
        ),
        (
            ["a", "dog", "who", "barks", "came"],
            [1, 4, 3, 1, 4],
            ["det", "nsubj", "nsubj", "acl", "ROOT"],
        ),
    ]
    tags = {"a": "DT", "dog": "NN", "came": "VBD", "who": "WP", "barks": "VBZ"}
    examples = []
    for words, heads, deps in patterns * 20:
        own = [tags[word] for word in words]
        reference = Doc(nlp.vocab, words=words, tags=own, heads=heads, deps=deps)
        starts = [1] + [-1] * 4
        predicted = Doc(nlp.vocab, words=words, tags=own, sent_starts=starts)
        examples.append(Example(predicted, reference))
    nlp.initialize(lambda: examples)
    assert "acl" in nlp.get_pipe("spectral_parser").labels
    assert not any("||" in label for label in nlp.get_pipe("spectral_parser").labels)
    for eg in examples[:2]:
        doc = nlp(eg.predicted)
        assert [token.head.i for token in doc] == [token.head.i for token in eg.reference]
        assert [token.dep_ for token in doc] == [token.dep_ for token in eg.reference]


def test_long_sentence(trained):
    tags = ["DT", "NN", "VBD", "IN", "DT", "NN"] * 100
    words = [f"w{i}" for i in range(600)]
    doc = Doc(trained.vocab, words=words, tags=tags, sent_starts=[1] + [-1] * 599)
    trained(doc)
    assert sum(token.head == token for token in doc) == 1
    assert len(list(doc.sents)) == 1
    for token in doc:
        low, high = sorted((token.i, token.head.i))
        assert all(low <= doc[k].head.i <= high for k in range(low + 1, high))


def test_the_second_best_arc(trained, examples):
    """Beside a search through all labelled arcs."""
    parser = trained.get_pipe("spectral_parser")
    nlp = make(
        model=trained.get_pipe_config("spectral_parser")["model"],
        store=["alternative", "head_prob"],
    )
    nlp.get_pipe("spectral_parser").from_bytes(parser.to_bytes())
    docs = list(nlp.pipe(eg.predicted for eg in examples(nlp, "dev")[:20]))
    n_found = 0
    for doc in docs:
        batch, parses = parser.parse([doc])
        best = {}
        for s, (begin, end) in enumerate(batch.tokens.bounds()):
            places = batch.places[begin:end].tolist()
            for h, m, label, prob in parses.arcs(s, labelled=True, min_prob=0.01).rows():
                token = doc[places[m - 1]]
                head = doc[places[h - 1]] if h else token
                name = parser.grammar.label_names[label]
                is_other = (head, name) != (token.head, token.dep_) and "||" not in name
                if is_other and prob > best.get(token.i, (None, None, 0.0))[2]:
                    best[token.i] = head.i, name, prob
        for token in doc:
            found = token._.alternative
            assert (found is None) == (token.i not in best)
            if found is not None:
                n_found += 1
                head, name, prob = best[token.i]
                assert (found.head.i, found.dep) == (head, name)
                assert found.prob == pytest.approx(prob, abs=1e-6)
    assert n_found > 20
    again = DocBin(docs=docs, store_user_data=True).to_bytes()
    doc = next(DocBin().from_bytes(again).get_docs(spacy.blank("en").vocab))
    assert [t._.alternative is None for t in doc] == [t._.alternative is None for t in docs[0]]
    doc = next(d for d in docs for t in d if t._.alternative and t._.alternative.head != t.head)
    token = next(t for t in doc if t._.alternative and t._.alternative.head != t.head)
    token.head = token._.alternative.head
    assert token._.alternative is None
