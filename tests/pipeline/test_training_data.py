"""Training data as users have it: tiny, partly annotated, without what is needed."""

from collections import Counter
from dataclasses import replace

import numpy
import pytest
import spacy
from spacy import util
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp

from kinds import KINDS, Data, blank
from spacy_spectral.models.loglinear.architecture import LogLinearRecipe
from spacy_spectral.pipeline.training_data import JackknifedTags, sentences_of_corpus
from spacy_spectral.readers import Corpus
from spacy_spectral.trees.sentences import Tokens, Treebank

TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 16,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}
MODELS = {
    "shag": {"@architectures": "spacy-spectral.SHAG.v1"},
    "loglinear": {"@architectures": "spacy-spectral.LogLinear.v1"},
    "biaffine": {"@architectures": "spacy-spectral.Biaffine.v1", "tok2vec": TOK2VEC},
}
NLP = spacy.blank("xx")


def example(words, heads=None, deps=None, tags=None):
    starts = None if heads is not None else [i == 0 for i in range(len(words))]
    gold = Doc(NLP.vocab, words=words, heads=heads, deps=deps, tags=tags, sent_starts=starts)
    starts = [i == 0 for i in range(len(words))]
    return Example(Doc(NLP.vocab, words=words, tags=tags, sent_starts=starts), gold)


def one_token():
    return example(["Hi"], [0], ["ROOT"], ["UH"])


def whole():
    return example(["He", "runs", "."], [1, 1, 1], ["nsubj", "ROOT", "punct"], ["PRP", "VBZ", "."])


def without_heads():
    return example(["He", "runs", "."], tags=["PRP", "VBZ", "."])


def partial():
    return example(["He", "runs", "."], [1, 1, 2], ["nsubj", "", ""], ["PRP", "VBZ", "."])


def unlike():
    return example(["Go"], [0], ["root"], ["VB"])


CASES = {
    "one token": [one_token],
    "one token twice": [one_token] * 2,
    "two tokens": [one_token, unlike],
    "one example": [whole],
    "partial": [partial],
    "some without heads": [whole, without_heads, one_token],
    "white space": [lambda: example([" "]), one_token],
    "empty": [lambda: example([], [], []), whole],
}
LACKING = {
    "no heads": [without_heads],
    "circles": [
        whole,
        lambda: example(list("abcdef"), [2, 3, 0, 1, 4, 0], list("xyzurv"), list("ABCDEF")),
    ],
    "only white space": [lambda: example([" "])],
    "only empty": [lambda: example([], [], [])],
}


def parser(model, **config):
    nlp = spacy.blank("xx", vocab=NLP.vocab)
    nlp.add_pipe("spectral_parser", config={"model": MODELS[model], **config})
    return nlp


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", MODELS)
def test_parsers_train_on_little(model, case):
    examples = [make() for make in CASES[case]]
    nlp = parser(model)
    sgd = nlp.initialize(lambda: examples)
    losses = nlp.update(examples, sgd=sgd)
    assert numpy.isfinite(losses["spectral_parser"])
    docs = [example(["He", "runs", "and", "sits"], tags=["PRP", "VBZ", "CC", "X"]), one_token()]
    again = parser(model).from_bytes(nlp.to_bytes())
    for doc in [eg.predicted for eg in docs]:
        found = nlp(doc.copy())
        assert [t.head.i for t in again(doc)] == [t.head.i for t in found]
        assert all(0 <= token._.head_prob <= 1 + 1e-5 for token in found)
        assert len(list(found.sents)) == 1


@pytest.mark.parametrize("model", ["shag", "loglinear"])
def test_one_example_is_learnt(model):
    nlp = parser(model)
    nlp.initialize(lambda: [whole()])
    doc = nlp(whole().predicted)
    assert [(t.head.i, t.dep_) for t in doc] == [(1, "nsubj"), (1, "ROOT"), (1, "punct")]


@pytest.mark.parametrize("case", LACKING)
@pytest.mark.parametrize("model", MODELS)
def test_parsers_say_what_is_lacking(model, case):
    with pytest.raises(ValueError, match=r"\[S\d+\]"):
        parser(model).initialize(lambda: [make() for make in LACKING[case]])


@pytest.mark.parametrize("model", MODELS)
def test_circles_of_heads_are_named(model):
    with pytest.raises(ValueError, match=r"S410.*'a' \(1\) -> 'c' \(3\) -> 'a' \(1\)"):
        parser(model).initialize(lambda: [make() for make in LACKING["circles"]])


@pytest.mark.parametrize("case", [*CASES, *LACKING])
def test_tagger_trains_on_little(case):
    examples = [make() for make in {**CASES, **LACKING}[case]]
    nlp = spacy.blank("xx", vocab=NLP.vocab)
    tagger = nlp.add_pipe("spectral_tagger")
    if not any(token.tag for eg in examples for token in eg.reference):
        with pytest.raises(ValueError, match="S301"):
            nlp.initialize(lambda: examples)
        return
    nlp.initialize(lambda: examples)
    assert {token.tag_ for token in nlp("He sits")} <= set(tagger.labels)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", ["shag", "loglinear"])
def test_reranker_and_jackknife_train_or_say_why_not(model, case):
    examples = [make() for make in CASES[case]]
    nlp = parser(model)
    nlp.initialize(lambda: examples)
    reranker = nlp.add_pipe("spectral_reranker")
    with pytest.raises(ValueError, match=r"\[S\d+\]"):
        reranker.initialize(lambda: examples, nlp=nlp)
    nlp = spacy.blank("xx", vocab=NLP.vocab)
    nlp.add_pipe("spectral_tagger")
    config = {"model": MODELS[model], "jackknife": "spectral_tagger"}
    nlp.add_pipe("spectral_parser", config=config)
    if sum(bool(eg.predicted.text.strip()) for eg in examples) == 1:
        with pytest.raises(ValueError, match="S305"):
            nlp.initialize(lambda: examples)
    else:
        nlp.initialize(lambda: examples)
        assert nlp.get_pipe("spectral_parser").labels


def crossing_treebank(n):
    """Sentences in which two arcs cross: the second token's head is the fourth."""
    words = [word for i in range(n) for word in ("what", f"we{i % 3}", "want", "now")]
    symbols = ["W", "P", "V", "R"] * n
    nothing = [""] * len(words)
    tokens = Tokens(
        numpy.arange(0, 4 * n + 1, 4, dtype="int32"), words, symbols, nothing, nothing, nothing
    )
    heads = numpy.array([3, 4, 0, 3] * n, dtype="int32")
    return Treebank(tokens, heads, ["obj", "mark", "root", "advmod"] * n)


def test_development_scores_are_what_users_get():
    treebank, lines = crossing_treebank(40), []
    recipe = LogLinearRecipe(epochs=2, max_length=100)
    model = recipe.fit(treebank, dev=treebank, report=lines.append)
    parses = model.parse(treebank.tokens)
    assert (parses.heads == treebank.heads).all()
    assert "mark||advmod" in model.label_names
    assert "dev UAS 100.00%, LAS 100.00%" in lines[-1]


def test_a_development_corpus_without_heads_is_as_good_as_none(sample, tmp_path, caplog):
    docs = [
        Doc(NLP.vocab, words=["the", "dog"], tags=["DT", "NN"], sent_starts=[True, False])
        for _ in range(3)
    ]
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    model = MODELS["loglinear"] | {"epochs": 3, "patience": 1}
    nlp = parser("loglinear")
    # spaCy's reader of the development corpus: ours refuses what is not annotated
    readers = {
        "train": {"@readers": "spacy-spectral.Corpus.v1", "path": str(sample["train"])},
        "dev": {"@readers": "spacy.Corpus.v1", "path": str(tmp_path / "dev.spacy")},
    }
    config = {
        "corpora": readers,
        "components": {"spectral_parser": {"model": model}},
        "training": {"max_epochs": 1},
    }
    config = util.load_config_from_str(nlp.config.merge(config).to_str())
    learnt = {}
    for dev_corpus in (None, "corpora.dev"):
        settings = {"spectral_parser": {"dev_corpus": dev_corpus}}
        caplog.clear()
        with caplog.at_level("INFO", logger="spacy"):
            trained = init_nlp(config.merge({"initialize": {"components": settings}}))
        assert ("W103" in caplog.text) == (dev_corpus is not None)
        assert "epoch 3 of 3" in caplog.text and "nan" not in caplog.text
        learnt[dev_corpus] = trained.get_pipe("spectral_parser").model.to_bytes()
    assert learnt[None] == learnt["corpora.dev"]


def unannotated(nlp):
    words = ["the", "dog", "sleeps", "."]
    return [Example(*(Doc(nlp.vocab, words=words) for _ in range(2)))]


@pytest.fixture
def data(sample, tmp_path):
    return Data(tmp_path, sample["train"], sample["train"].with_suffix(".ptb"), 1, lang="xx")


TRAINABLE = [kind for kind in KINDS if kind != "eigenwords"]
# copies of a parser must not have seen the sentence
NOT_OF_ONE = {"reranker": "S544", "forest reranker": "S544"}


@pytest.mark.parametrize("kind", TRAINABLE)
def test_one_training_example(kind, data):
    nlp = blank(KINDS[kind], data)
    few = data.examples(KINDS[kind]._replace(n_sents=1), nlp)
    assert len(few) == 1
    if kind in NOT_OF_ONE:
        with pytest.raises(ValueError, match=NOT_OF_ONE[kind]):
            nlp.initialize(lambda: few)
        return
    optimizer = nlp.initialize(lambda: few)
    for _ in range(KINDS[kind].steps):
        nlp.update(few, sgd=optimizer)
    for text in (few[0].reference.text, "", " ", "Zorp blifs 一二三 , and"):
        assert nlp(text).text == text


@pytest.mark.parametrize("kind", TRAINABLE)
def test_training_examples_without_annotation(kind, data):
    nlp = blank(KINDS[kind], data)
    white = [Example(*(Doc(nlp.vocab, words=[" "]) for _ in range(2)))]
    # words are all that a tokenizer needs
    for examples in (white, white if KINDS[kind].is_tokenizer else unannotated(nlp)):
        with pytest.raises(ValueError, match=r"\[S\d+\]"):
            nlp.initialize(lambda examples=examples: examples)


@pytest.mark.parametrize("kind", KINDS)
def test_a_development_set_without_annotation(kind, saved):
    nlp = spacy.load(saved(kind))
    own = [
        unannotated(nlp),
        [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in ("", " ")],
    ]
    for examples in own:
        scores = nlp.evaluate(examples)
        numbers = [value for value in scores.values() if isinstance(value, float)]
        assert numpy.isfinite(numbers).all()
        for name in ("tag_acc", "lemma_acc", "dep_uas", "dep_las", "bracket_f", "subtag_acc"):
            assert scores.get(name) is None


_LINEAR = MODELS["loglinear"] | {"epochs": 2}
_SIZES = dict.fromkeys(("mix_size", "scan_size", "arc_size", "label_size"), 64)
_NEURAL = {"@architectures": "spacy-spectral.Biaffine.v2", "scan_depth": 1, **_SIZES}
_NEURAL |= {"epochs": 16, "batch_size": 100, "rate": 0.01, "dropout": 0.1}
LEARN_FROM_SEVERAL = {
    "loglinear": _LINEAR,
    "neural": _NEURAL,
    "product": {
        "@architectures": "spacy-spectral.Product.v1",
        "experts": {"linear": _LINEAR, "neural": _NEURAL},
        "weights": {"linear": 0.5, "neural": 0.5},
    },
}


@pytest.fixture(scope="module", params=LEARN_FROM_SEVERAL)
def two_treebanks(request, few, tmp_path_factory):
    """A pipeline whose parser has learnt from the sample, and from a part of it with other labels."""
    path = tmp_path_factory.mktemp("silver")
    gold = few["train"].read_text("utf8")
    other = gold.replace("\tnsubj\t", "\tsubject\t").replace("\tobj\t", "\tobject\t")
    (path / "other.conllu").write_text(other, "utf8")
    (path / "more.conllu").write_text(gold, "utf8")
    silver = {"@readers": "spacy-spectral.Silver.v1", "weight": 1.0, "min_length": 1}
    config = {
        "nlp": {"pipeline": ["spectral_tagger", "spectral_parser"]},
        "components": {
            "spectral_tagger": {"factory": "spectral_tagger"},
            "spectral_parser": {
                "factory": "spectral_parser",
                "model": LEARN_FROM_SEVERAL[request.param],
                "jackknife": "spectral_tagger",
                "source": "sample",
            },
        },
        "corpora": {
            "train": {"@readers": "spacy-spectral.Corpus.v1", "path": str(few["train"])},
            "dev": {"@readers": "spacy-spectral.Corpus.v1", "path": str(few["dev"])},
            "other": silver | {"path": str(path / "other.conllu"), "source": "other"},
            "more": silver | {"path": str(path / "more.conllu")},
        },
        "initialize": {
            "components": {"spectral_parser": {"silver_corpus": ["corpora.other", "corpora.more"]}}
        },
    }
    base = spacy.blank("en").config.merge(config)
    nlp = init_nlp(util.load_config_from_str(base.to_str()))
    nlp.to_disk(path / "model")
    return nlp, path


def deps(nlp, path):
    corpus = Corpus(path, annotations=["sents"])
    return Counter(t.dep_ for eg in corpus(nlp) for t in nlp(eg.x))


def test_the_treebank_to_parse_like_is_a_setting(two_treebanks, few):
    nlp, path = two_treebanks
    parser = nlp.get_pipe("spectral_parser")
    assert parser.grammar.sources == ["other", "sample"]
    assert {"nsubj", "obj", "subject", "object"} <= set(parser.labels)
    key = "components.spectral_parser.source"
    found = deps(nlp, few["dev"])
    loaded = spacy.load(path / "model", config={key: "other"})
    other = deps(loaded, few["dev"])
    for label, renamed in (("nsubj", "subject"), ("obj", "object")):
        assert found[label] > 10 * found[renamed]
        assert other[renamed] > 3 * other[label]
    again = spacy.load(path / "model")
    assert deps(again, few["dev"]) == deps(nlp, few["dev"])
    with pytest.raises(ValueError, match=r"S644.*'third'.*other, sample"):
        deps(spacy.load(path / "model", config={key: "third"}), few["dev"])


def test_silver_trees_are_learnt_on_the_tags_of_the_tagger(two_treebanks, few):
    nlp, _ = two_treebanks
    parser = nlp.get_pipe("spectral_parser")
    data = replace(parser._data(nlp, None), silver_corpus=["corpora.other", "corpora.more"])
    lines = []
    data.report = lines.append
    examples = list(Corpus(few["train"], annotations=["sents"])(nlp))
    treebank, gold = data.treebank(examples), replace(data, silver_corpus=[]).treebank(examples)
    assert gold.trust is None and len(treebank.heads) == 3 * len(gold.heads)
    assert any("silver tokens" in line for line in lines)
    assert (treebank.trust.weights == 1).all()
    # either half has a half of each
    starts, half = treebank.tokens.starts, len(gold.tokens) // 2
    sources = [treebank.tokens.sources[start] for start in starts[:-1]]
    assert sources[: 3 * half] == ["sample"] * half + ["other"] * half + ["sample"] * half
    assert sorted(sources[3 * half :]) == ["other"] * (len(gold.tokens) - half) + ["sample"] * 2 * (
        len(gold.tokens) - half
    )
    assert treebank.tokens.words[: starts[half]] == gold.tokens.words[: starts[half]]
    silver = treebank.select(numpy.array(sources) == "other")
    tagger = nlp.get_pipe("spectral_tagger")
    tagged = [t.tag_ for eg in examples for t in tagger(eg.x) if not t.is_space]
    assert list(silver.tokens.symbols) == tagged
    assert any(silver.tokens.second)


# ---------------------------------------------------------------- taggers


def tagger_config(few, path, **corpora):
    """A tagger that learns from the sample, which is called so, and from silver corpora; and a parser."""
    silver = {"@readers": "spacy-spectral.Silver.v1", "min_length": 1}
    config = {
        "nlp": {"pipeline": ["spectral_tagger", "spectral_parser"]},
        "components": {
            "spectral_tagger": {"factory": "spectral_tagger", "source": "sample"},
            "spectral_parser": {
                "factory": "spectral_parser",
                "model": _LINEAR,
                "jackknife": "spectral_tagger",
                "source": "sample",
            },
        },
        "corpora": {
            "train": {"@readers": "spacy-spectral.Corpus.v1", "path": str(few["train"])},
            "dev": {"@readers": "spacy-spectral.Corpus.v1", "path": str(few["dev"])},
            **{name: silver | own for name, own in corpora.items()},
        },
        "initialize": {
            "components": {
                "spectral_tagger": {"silver_corpus": [f"corpora.{name}" for name in corpora]}
            }
        },
    }
    base = spacy.blank("en").config.merge(config)
    return util.load_config_from_str(base.to_str())


@pytest.fixture(scope="module")
def other_tags(few, tmp_path_factory):
    """The sample with other tags of nouns; and without fine tags."""
    path = tmp_path_factory.mktemp("tags")
    gold = few["train"].read_text("utf8")
    (path / "other.conllu").write_text(gold.replace("\tNOUN\tNN", "\tNOUN\tTHING"), "utf8")
    return path / "other.conllu"


@pytest.fixture(scope="module")
def tagger_of_two(few, other_tags, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    own = {"path": str(other_tags), "source": "other", "weight": 0.5}
    config = tagger_config(few, path, other=own)
    # the parser learns from the same sentences by another reader
    config["corpora"]["trees"] = config["corpora"]["other"] | {"weight": 1.0, "soft": False}
    config["initialize"]["components"]["spectral_parser"] = {"silver_corpus": "corpora.trees"}
    nlp = init_nlp(config)
    nlp.to_disk(path)
    return nlp, path


def fine_tags(nlp, path):
    corpus = Corpus(path, annotations=["sents"])
    return Counter(t.tag_ for eg in corpus(nlp) for t in nlp(eg.x))


def test_the_treebank_to_tag_like_is_a_setting(tagger_of_two, few):
    nlp, path = tagger_of_two
    key = "components.spectral_tagger.source"
    found = fine_tags(nlp, few["dev"])
    assert not any(tag.startswith("THING") for tag in found) and found["NN"]
    assert fine_tags(spacy.load(path), few["dev"]) == found
    other = fine_tags(spacy.load(path, config={key: "other"}), few["dev"])
    assert not other["NN"] and other["THING"]
    assert sum(fine_tags(spacy.load(path, config={key: None}), few["dev"]).values())
    with pytest.raises(ValueError, match=r"S644.*spectral_tagger.*'third'.*other, sample"):
        fine_tags(spacy.load(path, config={key: "third"}), few["dev"])


def test_silver_sentences_are_not_tagged_by_a_tagger_that_learnt_from_them(tagger_of_two, few):
    nlp, _ = tagger_of_two
    examples = list(Corpus(few["train"], annotations=["sents"])(nlp))
    name, parser = "spectral_tagger", nlp.get_pipe("spectral_parser")
    lines = []
    tags = JackknifedTags.of(name, examples, nlp, parser="spectral_parser", report=lines.append)
    corpus = sentences_of_corpus(nlp, "corpora.other")
    assert corpus == sentences_of_corpus(nlp, "corpora.trees") and set(tags.parts) == {None, corpus}
    gold, silver = tags.parts[None], tags.parts[corpus]
    assert (
        len(gold.classes)
        == len(silver.classes)
        == sum(not t.is_space for eg in examples for t in eg.x)
    )
    # all are tagged like the gold treebank, by taggers of five blocks
    assert not any("THING" in silver.tag_classes[c][0] for c in silver.classes)
    tagger = nlp.get_pipe(name)
    own = [t.tag_ for eg in examples for t in tagger(eg.x) if not t.is_space]
    jackknifed = [silver.tag_classes[c][0] for c in silver.classes]
    assert own != jackknifed
    data = replace(parser._data(nlp, None), silver_corpus="corpora.trees")
    treebank = data.treebank(examples)
    of_silver = numpy.array(
        [treebank.tokens.sources[i] == "other" for i in treebank.tokens.starts[:-1]]
    )
    assert treebank.select(of_silver).tokens.symbols == jackknifed


def test_an_empty_silver_corpus_changes_nothing(few, tmp_path):
    config = tagger_config(few, tmp_path, none={"path": None, "source": "other"})
    config["nlp"]["pipeline"] = ["spectral_tagger"]
    del config["components"]["spectral_parser"]
    empty = init_nlp(config).get_pipe("spectral_tagger")
    config["initialize"]["components"] = {}
    alone = init_nlp(config).get_pipe("spectral_tagger")
    assert empty.learnt.to_bytes() == alone.learnt.to_bytes()


def test_silver_sentences_may_lack_fine_tags(few, tmp_path):
    """A word without one has its part of speech, as in all treebanks."""
    lines = [line.split("\t") for line in few["train"].read_text("utf8").splitlines()]
    for line in lines:
        line[4:5] = "_" if len(line) == 10 else line[4:5]
    (tmp_path / "coarse.conllu").write_text("\n".join(map("\t".join, lines)) + "\n", "utf8")
    own = {"path": str(tmp_path / "coarse.conllu"), "source": "coarse"}
    config = tagger_config(few, tmp_path, coarse=own)
    config["nlp"]["pipeline"] = ["spectral_tagger"]
    del config["components"]["spectral_parser"]
    nlp = init_nlp(config)
    found = fine_tags(nlp, few["dev"])
    assert found["NN"] and not found["NOUN"]
    nlp.get_pipe("spectral_tagger").source = "coarse"
    assert fine_tags(nlp, few["dev"])["NOUN"]
