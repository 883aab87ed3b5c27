"""`spectral_refiner` and `spectral_parser` by a refined grammar, as spaCy uses them."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_spectral.models.refine.subtags import state_names, sub_tags
from spacy_spectral.pipeline.annotations import register
from spacy_spectral.trees.sentences import MISSING

REFINED = {"@architectures": "spacy-spectral.Refined.v1", "states": 60}


@pytest.fixture(scope="module")
def nlp(examples):
    """Tagger, parser by sub-tags and refiner. Tests must not change it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("spectral_tagger")
    nlp.add_pipe("spectral_parser", config={"model": REFINED, "jackknife": "spectral_tagger"})
    nlp.add_pipe("spectral_refiner", config={"model": REFINED})
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.fixture(scope="module")
def texts(sample):
    lines = sample["dev"].read_text(encoding="utf8").splitlines()
    return [line[9:] for line in lines if line.startswith("# text = ")][:12]


def without_tree(doc):
    """A document with the words, tags and sentences of another."""
    words, tags = [t.text for t in doc], [t.tag_ for t in doc]
    starts = [token.i == token.sent.start for token in doc]
    return Doc(doc.vocab, words=words, tags=tags, sent_starts=starts)


def found(doc):
    return [(t.text, t.head.i, t.dep_, t._.subtag, t._.subtag_prob) for t in doc]


def test_sub_tags_refine_tags(nlp, texts):
    refiner = nlp.get_pipe("spectral_refiner")
    assert "NN.1" in refiner.labels and "NN.2" in refiner.labels
    for doc in nlp.pipe(texts):
        for token in doc:
            assert token._.subtag.rpartition(".")[0] == token.tag_
            assert token._.subtag in refiner.labels
            assert 0 < token._.subtag_prob <= 1


def test_accuracy_on_gold_tags(nlp, examples):
    parser, refiner = nlp.get_pipe("spectral_parser"), nlp.get_pipe("spectral_refiner")
    dev = examples(nlp, "dev")
    for example in dev:
        refiner(parser(example.predicted))
    assert parser.score(dev)["dep_uas"] > 0.9
    assert 0.8 < refiner.score(dev)["subtag_acc"] <= 1
    # in gold trees they are what they are compared with
    for example in dev:
        example.predicted = refiner(example.reference.copy())
    assert refiner.score(dev)["subtag_acc"] == 1.0


def test_batches_and_single_documents(nlp, texts):
    one_by_one = [found(nlp(text)) for text in texts]
    for size in (1, 3, 100):
        assert [found(doc) for doc in nlp.pipe(texts, batch_size=size)] == one_by_one


@pytest.mark.parametrize("n_process", [2])
def test_processes(nlp, texts, n_process):
    docs = list(nlp.pipe(texts, n_process=n_process, batch_size=4))
    assert [found(doc) for doc in docs] == [found(nlp(text)) for text in texts]


def test_damaged_files(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    for name in ("spectral_refiner", "spectral_parser"):
        path = tmp_path / name / "model"
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 255
        for data in (bytes(changed), whole[: len(whole) // 2], b""):
            path.write_bytes(data)
            with pytest.raises(ValueError, match=r"\[S\d+\]"):
                spacy.load(tmp_path)
        path.write_bytes(whole)
    spacy.load(tmp_path)


def test_saved_pipelines_and_documents(nlp, texts, tmp_path):
    nlp.to_disk(tmp_path / "model")
    again = spacy.load(tmp_path / "model")
    docs = list(nlp.pipe(texts))
    assert [found(doc) for doc in again.pipe(texts)] == [found(doc) for doc in docs]
    assert (
        again.get_pipe("spectral_refiner").to_bytes() == nlp.get_pipe("spectral_refiner").to_bytes()
    )
    saved = DocBin(docs=docs, store_user_data=True).to_bytes()
    register("spectral_refiner")
    read = list(DocBin().from_bytes(saved).get_docs(spacy.blank("en").vocab))
    assert [found(doc) for doc in read] == [found(doc) for doc in docs]


def test_training_again_gives_the_same_bytes(nlp, examples):
    other = spacy.blank("en")
    refiner = other.add_pipe("spectral_refiner", config={"model": REFINED})
    other.initialize(lambda: examples(other))
    assert refiner.learnt.to_bytes() == nlp.get_pipe("spectral_refiner").learnt.to_bytes()


def test_another_vocabulary(nlp, texts):
    other = spacy.blank("en")
    # other words have the numbers that words have in the first vocabulary
    for word in ("Zwölf", "Boxkämpfer", "jagen", "NN.1"):
        other.vocab.strings.add(word)
    for name in nlp.component_names:
        other.add_pipe(name, source=nlp)
    texts = [*texts, "A glorpish wug saw the blick .", "Zwölf Boxkämpfer"]
    assert [found(doc) for doc in other.pipe(texts)] == [found(doc) for doc in nlp.pipe(texts)]
    copies = [
        pipeline.get_pipe("spectral_refiner").refined(pipeline(texts[-2]))
        for pipeline in (nlp, other)
    ]
    assert [t.tag_ for t in copies[0]] == [t.tag_ for t in copies[1]]


def test_merged_and_split_tokens(nlp, texts):
    doc = nlp(texts[0])
    before = found(doc)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert doc[0]._.subtag is None and doc[0]._.subtag_prob is None
    assert [row[3:] for row in found(doc)[1:]] == [row[3:] for row in before[2:]]
    doc = nlp(texts[0])
    word = max(doc, key=len)
    i, half = word.i, len(word) // 2
    with doc.retokenize() as retokenizer:
        retokenizer.split(word, [word.text[:half], word.text[half:]], heads=[(word, 1), word.head])
    after = [row[3:] for row in found(doc)]
    assert after[i : i + 2] == [(None, None)] * 2
    assert after[:i] + after[i + 2 :] == [row[3:] for row in before[:i] + before[i + 1 :]]
    span = nlp(texts[0])[2:5].as_doc()
    assert [token._.subtag for token in span] in ([row[3] for row in before[2:5]], [None] * 3)


def test_unseen_and_missing_tags(nlp):
    refiner = nlp.get_pipe("spectral_refiner")
    doc = Doc(
        nlp.vocab, words=["wug", "blick", "the"], tags=["XYZ", "NN", "DT"],
        sent_starts=[True, False, False],
    )  # fmt: skip
    refiner(doc)
    assert doc[0]._.subtag in refiner.labels and doc[1]._.subtag.startswith("NN.")
    assert nlp.get_pipe("spectral_parser")(doc).has_annotation("DEP")


@pytest.mark.parametrize("labelling", ["spectral", "split-merge", "infinite"])
@pytest.mark.parametrize("case", ["one tag", "few tokens", "partial"])
def test_little_to_learn_from(examples, labelling, case):
    """One tag, more sub-tags than tokens, trees known in part: sub-tags for all tokens in any case."""
    nlp = spacy.blank("en")
    model = {**REFINED, "labelling": labelling, "states": 300, "cycles": 2, "sweeps": 3}
    nlp.add_pipe("spectral_parser", config={"model": model})
    refiner = nlp.add_pipe("spectral_refiner", config={"model": model})
    some = examples(nlp)[: 2 if case == "few tokens" else 30]
    for example in some:
        gold = example.reference
        if case == "one tag":
            for doc in (gold, example.predicted):
                for token in doc:
                    token.tag_ = "X"
        if case == "partial":
            # what is unknown has no label
            deps = [(t.dep_ if t.i % 3 else "") for t in gold]
            example.reference = Doc(
                nlp.vocab, words=[t.text for t in gold], tags=[t.tag_ for t in gold], deps=deps,
                heads=[t.head.i if dep else t.i for t, dep in zip(gold, deps, strict=True)],
                sent_starts=[t.is_sent_start for t in gold],
            )  # fmt: skip
    nlp.initialize(lambda: some)
    names = refiner.labels
    if case == "one tag":
        assert all(name.startswith(("X.", "<")) for name in names), names
    for example in some[-2:]:
        doc = nlp(example.predicted)
        assert all(token._.subtag in names and token._.subtag_prob > 0 for token in doc)


def test_with_and_without_trees(nlp, examples):
    """Over all trees the sub-tags are those of the marginals that the grammar gives; in a tree its own."""
    refiner = nlp.get_pipe("spectral_refiner")
    gold = max((example.reference for example in examples(nlp, "dev")), key=len)
    bare = without_tree(gold)
    in_tree, over_trees = (refiner.predict([doc])[0] for doc in (gold, bare))
    grammar, batch = refiner.learnt, refiner.read([bare])
    tags = grammar.symbols.encode(batch.tokens.symbols)
    lattice = grammar.lexicon.lattice(batch.tokens.words, tags)
    factors = next(iter(grammar.factors(tags, lattice)))
    marginals = factors.state_marginals()
    begins = factors.lattice.offsets[:-1]
    numpy.testing.assert_allclose(numpy.add.reduceat(marginals, begins), 1.0)
    best = numpy.maximum.reduceat(marginals, begins)
    numpy.testing.assert_allclose(over_trees.probs, best, rtol=1e-5)
    assert (in_tree.probs != over_trees.probs).any()
    blind = spacy.blank("en").add_pipe(
        "spectral_refiner", config={"model": REFINED, "use_heads": False}
    )
    blind.from_bytes(refiner.to_bytes())
    assert blind.predict([gold])[0].probs.tobytes() == over_trees.probs.tobytes()


def test_refined_copies(nlp, texts):
    doc = nlp(texts[0] + "  ")
    tags = [token.tag_ for token in doc]
    copy = nlp.get_pipe("spectral_refiner").refined(doc)
    assert [token.tag_ for token in doc] == tags
    for token, other in zip(doc, copy, strict=True):
        expected = token.tag_ if token.text.isspace() else token._.subtag
        assert other.tag_ == expected and other.head.i == token.head.i


@pytest.mark.parametrize(
    "text", ["", "   ", "ゆき が 降る", "Zyx", pytest.param("a " * 300, id="long")]
)
def test_odd_texts(nlp, text):
    doc = nlp(text)
    assert all(token._.subtag or token.text.isspace() for token in doc)


def test_sentences_that_are_too_long_are_seen_in_pieces(nlp):
    grammar = nlp.get_pipe("spectral_refiner").learnt
    doc = nlp("the dog barks " * 100)
    batch = nlp.get_pipe("spectral_refiner").read([doc])
    heads = numpy.full(len(doc), MISSING, dtype="int32")
    result = sub_tags(grammar, batch.tokens, heads)
    assert numpy.isfinite(result.probs).all() and len(state_names(grammar)) > result.states.max()


def test_examples_without_trees(nlp, examples):
    refiner = nlp.get_pipe("spectral_refiner")
    bare = without_tree(examples(nlp, "dev")[0].reference)
    assert refiner.score([Example(refiner(bare.copy()), bare)]) == {"subtag_acc": None}
    fresh = spacy.blank("en")
    fresh.add_pipe("spectral_refiner", config={"model": REFINED})
    with pytest.raises(ValueError, match="S117"):
        fresh.initialize(lambda: [Example(bare.copy(), bare)])
    with pytest.raises(ValueError, match="S115"):
        fresh.get_pipe("spectral_refiner")(bare)


def test_one_example_is_enough(examples):
    fresh = spacy.blank("en")
    refiner = fresh.add_pipe("spectral_refiner", config={"model": REFINED})
    few = examples(fresh)[:1]
    fresh.initialize(lambda: few)
    doc = refiner(few[0].reference.copy())
    assert all(token._.subtag for token in doc)


def test_another_model_is_refused():
    with pytest.raises(ValueError, match="S803"):
        spacy.blank("en").add_pipe(
            "spectral_refiner", config={"model": {"@architectures": "spacy-spectral.SHAG.v1"}}
        )


def test_no_sentences_and_no_tags(nlp):
    refiner = nlp.get_pipe("spectral_refiner")
    with pytest.raises(ValueError, match="S110"):
        refiner(Doc(nlp.vocab, words=["a", "b"], tags=["DT", "NN"]))
    with pytest.raises(ValueError, match="S112"):
        refiner(Doc(nlp.vocab, words=["a", "b"], sent_starts=[True, False]))
