"""The tagger in spaCy: training, annotation, serialisation, processes, errors."""

import pickle
from pathlib import Path

import numpy
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_spectral.pipeline.training_data import read_examples, tagged_sentences
from tagger_data import make_sentences

CONFIG = Path(__file__).parents[2] / "configs" / "tagger.cfg"


def make_examples(nlp, sentences):
    examples = []
    for s in sentences:
        reference = Doc(nlp.vocab, words=s.words, tags=s.tags, pos=s.pos, morphs=s.morphs)
        examples.append(Example(Doc(nlp.vocab, words=s.words), reference))
    return examples


def train(sentences, **settings):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger", config=settings)
    examples = make_examples(nlp, sentences)
    nlp.initialize(lambda: examples)
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return train(make_sentences(300, seed=1))


def annotation(doc):
    return [(t.tag_, t.pos_, str(t.morph), t._.tag_probs) for t in doc]


TEXTS = [" ".join(s.words) for s in make_sentences(40, seed=2)]


def test_scores(nlp):
    scores = nlp.evaluate(make_examples(nlp, make_sentences(100, seed=2)))
    for name in ("tag_acc", "pos_acc", "morph_acc", "morph_micro_f"):
        assert scores[name] > 0.98
    assert set(scores["morph_per_feat"]) == {"Case", "Number", "Degree", "VerbForm"}


def test_annotation(nlp):
    doc = nlp("the run run .")
    assert [t.tag_ for t in doc] == ["DT", "NN", "VBZ", "."]
    assert [t.pos_ for t in doc] == ["DET", "NOUN", "VERB", "PUNCT"]
    assert doc[1].morph.get("Number") == ["Sing"]
    # no features is an analysis too
    assert doc[0].has_morph() and not doc[0].morph
    for token in doc:
        probs = token._.tag_probs
        assert next(iter(probs)) == token.tag_
        assert list(probs.values()) == sorted(probs.values(), reverse=True)
        assert 0 < sum(probs.values()) <= 1 + 1e-6


def test_labels(nlp):
    tagger = nlp.get_pipe("spectral_tagger")
    assert set(tagger.labels) == {"DT", "NN", "NNS", "NNP", "JJ", "VBZ", "VBP", "."}
    assert nlp.pipe_labels["spectral_tagger"] == list(tagger.labels)
    examples = make_examples(nlp, make_sentences(20, seed=1))
    other = spacy.blank("en").add_pipe("spectral_tagger")
    other.initialize(lambda: examples, labels=["DT", "NN"])
    assert set(other.labels) == {"DT", "NN"}
    with pytest.raises(ValueError, match="S303"):
        tagger.add_label("X")


def test_empty_white_and_long_docs(nlp):
    assert len(nlp("")) == 0
    doc = nlp("the  run\n\nrun .")
    assert [t.tag_ for t in doc if t.is_space] == ["_SP", "_SP"]
    assert [t.pos_ for t in doc if t.is_space] == ["SPACE", "SPACE"]
    words = [annotation(nlp("the run run ."))[i] for i in range(4)]
    assert [a for a, t in zip(annotation(doc), doc, strict=True) if not t.is_space] == words
    assert doc[1]._.tag_probs == {}
    assert nlp(" ")[0].tag_ == "_SP"
    long = Doc(nlp.vocab, words=" ".join(TEXTS * 100).split())
    assert all(t.tag for t in nlp(long))


def test_sentences_are_tagged_apart(nlp):
    first, second = TEXTS[0].split(), TEXTS[1].split()
    starts = [i in (0, len(first)) for i in range(len(first) + len(second))]
    doc = nlp(Doc(nlp.vocab, words=first + second, sent_starts=starts))
    assert annotation(doc) == annotation(nlp(TEXTS[0])) + annotation(nlp(TEXTS[1]))


def test_overwrite():
    sentences = make_sentences(50, seed=1)
    words, tags = ["the", "run", "run", "."], ["", "XX", "", ""]
    for overwrite in (False, True):
        nlp = train(sentences, overwrite=overwrite)
        doc = nlp(Doc(nlp.vocab, words=words, tags=tags, morphs=["Foo=Bar", "", "", ""]))
        assert doc[1].tag_ == ("NN" if overwrite else "XX")
        assert doc[1].pos_ == "NOUN"
        assert str(doc[0].morph) == ("" if overwrite else "Foo=Bar")


def test_morphology_goes_with_a_given_tag():
    """A tag that is there already stays, and what is added to it is its own."""
    nlp = train(make_sentences(300, seed=1))
    own = nlp(Doc(nlp.vocab, words=["the", "run", "run", "."]))
    assert [t.tag_ for t in own] == ["DT", "NN", "VBZ", "."]
    doc = nlp(Doc(nlp.vocab, words=["the", "run", "run", "."], tags=["", "NNS", "NN", ""]))
    assert [t.tag_ for t in doc] == ["DT", "NNS", "NN", "."]
    assert [t.pos_ for t in doc] == ["DET", "NOUN", "NOUN", "PUNCT"]
    assert doc[1].morph.get("Number") == ["Plur"] and doc[2].morph.get("VerbForm") == []
    assert next(iter(doc[2]._.tag_probs)) != "NN"  # what the tagger thinks of it can be seen
    foreign = nlp(Doc(nlp.vocab, words=["the", "run", "run", "."], tags=["", "XX", "", ""]))
    assert foreign[1].tag_ == "XX" and not foreign[1].has_morph() and foreign[2].has_morph()


def test_tagging_twice_changes_nothing(nlp):
    doc = nlp(TEXTS[0])
    before = annotation(doc)
    assert annotation(nlp.get_pipe("spectral_tagger")(doc)) == before


def test_probabilities_can_be_left_out():
    nlp = train(make_sentences(50, seed=1), top_k=0)
    doc = nlp(TEXTS[0])
    assert not doc.user_data
    assert doc[0].tag_ and doc[0]._.tag_probs == {}


def test_probabilities_survive_serialisation(nlp):
    doc = nlp(TEXTS[0])
    restored = Doc(spacy.blank("en").vocab).from_bytes(doc.to_bytes())
    assert annotation(restored) == annotation(doc)
    data = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (restored,) = DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab)
    assert annotation(restored) == annotation(doc)


def test_component_survives_serialisation(nlp, tmp_path):
    nlp.to_disk(tmp_path / "a")
    nlp.to_disk(tmp_path / "b")
    model = Path("spectral_tagger") / "model"
    assert (tmp_path / "a" / model).read_bytes() == (tmp_path / "b" / model).read_bytes()
    blank = spacy.blank("en")
    blank.add_pipe("spectral_tagger")
    for copy in (
        spacy.load(tmp_path / "a"),
        blank.from_bytes(nlp.to_bytes()),
        pickle.loads(pickle.dumps(nlp)),
    ):
        for text in TEXTS[:5]:
            assert annotation(copy(text)) == annotation(nlp(text))
        assert copy.pipe_labels == nlp.pipe_labels
    tagger = nlp.get_pipe("spectral_tagger")
    assert tagger.model.copy().to_bytes() == tagger.model.to_bytes()
    with tagger.model.use_params({}):
        assert nlp(TEXTS[0])[0].tag_


def test_untrained_component_survives_serialisation():
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_tagger")
    other = spacy.blank("en")
    other.add_pipe("spectral_tagger")
    other.from_bytes(nlp.to_bytes())
    with pytest.raises(ValueError, match="S115"):
        other("the")


def test_damaged_model_file_is_a_clear_error(nlp, tmp_path):
    nlp.to_disk(tmp_path)
    path = tmp_path / "spectral_tagger" / "model"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(ValueError, match="S002"):
        spacy.load(tmp_path)


def test_training_twice_gives_equal_bytes(nlp):
    again = train(make_sentences(300, seed=1)).get_pipe("spectral_tagger")
    assert again.model.to_bytes() == nlp.get_pipe("spectral_tagger").model.to_bytes()


def test_update_changes_nothing(nlp):
    tagger = nlp.get_pipe("spectral_tagger")
    before = tagger.model.to_bytes()
    losses = nlp.update(make_examples(nlp, make_sentences(5, seed=3)), losses={})
    assert losses == {"spectral_tagger": 0.0}
    assert tagger.update([]) == {"spectral_tagger": 0.0}
    assert tagger.model.to_bytes() == before


def test_error_handler_sees_failures(nlp):
    tagger = spacy.blank("en").add_pipe("spectral_tagger")
    failed = []
    tagger.set_error_handler(lambda name, proc, docs, error: failed.extend(docs))
    docs = [nlp.make_doc(text) for text in TEXTS[:3]]
    assert list(tagger.pipe(docs, batch_size=2)) == []
    assert failed == docs


def test_errors_of_initialize():
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("spectral_tagger")
    with pytest.raises(ValueError, match="S301"):
        nlp.initialize()
    with pytest.raises(TypeError):
        tagger.initialize([])
    nlp.config["training"]["max_epochs"] = -1
    examples = make_examples(nlp, make_sentences(5, seed=1))
    with pytest.raises(ValueError, match="S116"):
        nlp.initialize(lambda: examples)


def test_examples_become_sentences():
    nlp = spacy.blank("en")
    tagger = nlp.add_pipe("spectral_tagger")
    words = ["Go", "on", ".", "You", "can", "not", "."]
    reference = Doc(
        nlp.vocab,
        words=words,
        tags=["VB", "", ".", "PRP", "MD", "RB", "."],
        morphs=["", "", "", "Case=Nom", "VerbForm=Fin", "Polarity=Neg", ""],
        sent_starts=[True, False, False, True, False, False, False],
    )
    # "cannot" is one token here and white space is one too: both are without gold tags
    predicted = Doc(nlp.vocab, words=["Go", "on", ".", "\n", "You", "cannot", "."])
    eg = Example(predicted, reference)
    (whole,) = tagged_sentences([eg], nlp, tagger.name)
    assert whole.words == ["Go", "on", ".", "You", "cannot", "."]
    assert whole.tags == ["VB", "", ".", "PRP", "", "."]
    assert whole.morphs == ["", "", "", "Case=Nom", None, ""]
    nlp.add_pipe("sentencizer", first=True)
    two = list(tagged_sentences([eg], nlp, tagger.name))
    assert [len(s.words) for s in two] == [3, 3]
    (eg,) = [Example(Doc(nlp.vocab, words=words), reference)]
    assert [s.tags for s in tagged_sentences([eg], nlp, tagger.name)] == [
        ["VB", "", "."],
        ["PRP", "MD", "RB", "."],
    ]


def test_spacy_train(tmp_path):
    """`spacy train configs/tagger.cfg` from files, evaluation and best model included."""
    from spacy.cli.train import train as spacy_train

    vocab = spacy.blank("en").vocab
    for name, seed in (("train", 1), ("dev", 2)):
        docs = [
            Doc(vocab, words=s.words, tags=s.tags, pos=s.pos, morphs=s.morphs)
            for s in make_sentences(150, seed=seed)
        ]
        DocBin(docs=docs).to_disk(tmp_path / f"{name}.spacy")
    overrides = {f"paths.{n}": str(tmp_path / f"{n}.spacy") for n in ("train", "dev")}
    spacy_train(CONFIG, tmp_path / "output", overrides=overrides)
    nlp = spacy.load(tmp_path / "output" / "model-best")
    assert nlp.meta["performance"]["tag_acc"] > 0.95
    assert [t.pos_ for t in nlp("the run run .")] == ["DET", "NOUN", "VERB", "PUNCT"]


def test_shipped_config_is_filled():
    config = spacy.util.load_config(CONFIG)
    nlp = spacy.util.load_model_from_config(config, auto_fill=False)
    assert nlp.pipe_names == ["spectral_tagger"]


def test_clusters_stay_in_the_model(tmp_path):
    clusters = pytest.importorskip("spacy_spectral.models.eigenwords.clusters")
    nlp = spacy.blank("en")
    words = {"the": [0, 1], "run": [1, 3], "newverb": [1, 2]}
    clusters.WordClusters(words, {}, (2, 4)).to_lookups(nlp.vocab.lookups)
    tagger = nlp.add_pipe("spectral_tagger")
    examples = make_examples(nlp, make_sentences(100, seed=1))
    nlp.initialize(lambda: examples)
    before = [annotation(nlp(text)) for text in TEXTS[:5]]
    blank = spacy.blank("en")
    blank.add_pipe("spectral_tagger").from_bytes(tagger.to_bytes(exclude=["vocab"]))
    assert not blank.vocab.lookups.has_table("eigenword_clusters")
    assert [annotation(blank(text)) for text in TEXTS[:5]] == before
    lexicon = blank.get_pipe("spectral_tagger").model.attrs["learnt"].value.lexicon
    numpy.testing.assert_array_equal(lexicon.clusters.ids(list(words)), list(words.values()))


@pytest.mark.parametrize("get_examples", [None, lambda: None, lambda: [], lambda: [1]])
def test_examples_are_checked_as_spacy_does(get_examples):
    with pytest.raises(TypeError, match=r"\[E9(30|78)\]"):
        read_examples(get_examples, "method")


def test_jackknifed_tags_are_remembered_with_their_clusters(saved):
    tagger, other = (spacy.load(saved("tagger")).get_pipe("spectral_tagger") for _ in range(2))
    sentences = make_sentences(10, seed=2)
    first = tagger.jackknife(sentences, folds=2)
    assert tagger.jackknife(sentences, folds=2) is first
    assert tagger.jackknife(sentences, folds=3) is not first
    again = tagger.jackknife(sentences, folds=2)
    tagger.learn(other.learnt)
    assert tagger.clusters is not None
    assert tagger.jackknife(sentences, folds=2) is not again
