"""The component `spectral_constituency` under the conditions of use."""

import threading

import numpy
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_spectral.models.constituency.trees import clean
from spacy_spectral.pipeline.constituency import score_constituents
from spacy_spectral.pipeline.constituents import gold_docs, stored_trees
from spacy_spectral.treebank.brackets import read_brackets, write_tree

SMALL = {"model": {
    "@architectures": "spacy-spectral.ConstituencyProduct.v1", "states": 4, "epochs": 1, "anchored_epochs": 1,
}}  # fmt: skip
TEXT = "The old dog saw a man in the park . She sleeps ."


def bracket_examples(nlp, path, n_sents=5):
    references = list(gold_docs(path, nlp.vocab, n_sents=n_sents))
    return [Example(without_trees(doc), doc) for doc in references]


def without_trees(doc):
    starts = [token.is_sent_start for token in doc]
    spaces = [bool(token.whitespace_) for token in doc]
    return Doc(doc.vocab, words=[t.text for t in doc], spaces=spaces, sent_starts=starts)


def learn(brackets, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_constituency", config=SMALL | config)
    nlp.initialize(lambda: bracket_examples(nlp, brackets["train"]))
    return nlp


@pytest.fixture
def nlp(constituency):
    return constituency


def sentence_doc(nlp, text=TEXT):
    words = text.split()
    starts = [i == 0 or words[i - 1] == "." for i in range(len(words))]
    return Doc(nlp.vocab, words=words, sent_starts=starts)


def strings(doc):
    return [sent._.parse_string for sent in doc.sents]


def test_scores(nlp, brackets):
    examples = bracket_examples(nlp, brackets["dev"])
    scores = nlp.evaluate(examples)
    assert scores["bracket_f"] > 0.85
    assert scores["bracket_tag_acc"] > 0.9
    assert 0.3 < scores["bracket_exact"] <= 1
    assert set(scores["bracket_f_per_type"]) >= {"S", "NP", "VP", "PP"}


class Chains:
    """A parser that puts every word on the one before it."""

    def __call__(self, doc):
        for sent in doc.sents:
            for token in sent:
                token.head = token if token.i == sent.start else doc[token.i - 1]
                token.dep_ = "root" if token.i == sent.start else "dep"
        return doc

    def pipe(self, docs, **settings):
        return map(self, docs)


@Language.factory("chains")
def make_chains(nlp, name):
    return Chains()


def test_arcs_of_a_parser(brackets):
    nlp = spacy.blank("en")
    nlp.add_pipe("chains")
    config = SMALL | {"annotate_with": ["chains"]}
    pipe = nlp.add_pipe("spectral_constituency", config=config)
    nlp.initialize(lambda: bracket_examples(nlp, brackets["train"]))
    assert pipe.learnt.uses_arcs
    assert nlp.evaluate(bracket_examples(nlp, brackets["dev"]))["bracket_f"] > 0.8
    # white space is no head
    assert len(stored_trees(nlp(sentence_doc(nlp, "The old  dog sleeps .")))) == 1
    gold = pipe.gold([eg.reference for eg in bracket_examples(nlp, brackets["dev"])], nlp)
    assert [len(own.labels) for own in gold.beside] == [*map(len, gold.sentences)]
    assert gold.beside[0].heads.tolist() == [*range(len(gold.sentences[0]))]
    with pytest.raises(ValueError, match="S713"):
        pipe(sentence_doc(nlp))
    other = spacy.blank("en")
    other.add_pipe("spectral_constituency", config=config)
    with pytest.raises(ValueError, match="S118"):
        other.initialize(lambda: bracket_examples(other, brackets["train"]))


def test_gold_trees_come_back(brackets):
    vocab = spacy.blank("en").vocab
    expected = [write_tree(clean(tree)) for tree in read_brackets(brackets["dev"])]
    docs = list(gold_docs(brackets["dev"], vocab, n_sents=7))
    spacy.blank("en").add_pipe("spectral_constituency")
    found = [f"(ROOT {string})" for doc in docs for string in strings(doc)]
    assert found == expected


def test_what_spans_say(nlp):
    doc = nlp(sentence_doc(nlp))
    first, second = doc.sents
    assert first._.parse_string.startswith("(S (NP (DT The)")
    assert first._.labels[0] == "S"
    assert next(child.text for child in first._.children) == "The old dog"
    subject = doc[0:3]
    assert subject._.labels == ("NP",)
    assert subject._.parent == first
    assert subject._.parse_string == "(NP (DT The) (JJ old) (NN dog))"
    assert 0 < subject._.prob <= 1
    # words are children, too, but bear no label
    assert [child.text for child in subject._.children] == ["The", "old", "dog"]
    assert doc[1:2]._.labels == ()
    assert doc[1:2]._.prob is None
    assert doc[1:2]._.parent == subject
    # no constituent
    assert doc[1:4]._.labels == ()
    assert doc[1:4]._.parse_string is None
    assert first._.parent is None
    assert second._.parse_string.startswith("(S")


def test_names_of_benepar(nlp):
    """What benepar has on spans and tokens, as its source says: labels, parse_string, constituents, parent,
    children; of tokens the first two and the parent. It raises an error for what is no constituent."""
    doc = nlp(sentence_doc(nlp, "The ( old ) dog [ saw { a man in the park ."))
    (sent,) = doc.sents
    string = sent._.parse_string
    # as benepar writes brackets
    assert all(part in string for part in ("-LRB-)", "-RRB-)", "-LSB-)", "-LCB-)"))
    assert string.count("(") == string.count(")")
    for span in sent._.constituents:
        assert isinstance(span, Span) and isinstance(span._.labels, tuple)
        assert sum(map(len, span._.children)) == (len(span) if len(span) > 1 else 0)
        assert span._.parent is None or (
            span._.parent.start <= span.start and span.end <= span._.parent.end
        )
        assert span._.parse_string in string
    for token in doc:
        word = doc[token.i : token.i + 1]
        assert token._.labels == word._.labels
        assert token._.parse_string == word._.parse_string
        assert token._.parent == word._.parent
        assert token._.parse_string.endswith(")" * (len(token._.labels) + 1))
    assert spacy.blank("en").make_doc("a b")[0]._.parse_string is None


def test_trees_of_nltk(nlp):
    nltk = pytest.importorskip("nltk")
    doc = nlp(sentence_doc(nlp))
    for sent in doc.sents:
        tree = nltk.Tree.fromstring(sent._.parse_string)
        assert tree.leaves() == [token.text for token in sent]
        assert tree.label() == sent._.labels[0]
        spans = {(span.start, span.end) for span in sent._.constituents if len(span) > 1}
        assert len(
            {tuple(own.leaves()) for own in tree.subtrees() if len(own.leaves()) > 1}
        ) <= len(spans)


def test_constituents_are_nested(nlp):
    doc = nlp(sentence_doc(nlp))
    for sent in doc.sents:
        found = list(sent._.constituents)
        assert found[0] == sent
        assert len({(span.start, span.end) for span in found}) == len(found)
        for span in found:
            inside = list(span._.children)
            if len(span) > 1:
                assert [t.i for child in inside for t in child] == [t.i for t in span]
            for child in inside:
                assert child._.parent == span
        words = [span for span in found if len(span) == 1]
        assert len(words) == len(sent)


def test_spans_and_tags(brackets):
    nlp = learn(brackets, set_tags=True, spans_key="phrases", nbest=3)
    doc = nlp(sentence_doc(nlp))
    assert doc[0].tag_ == "DT"
    group = doc.spans["phrases"]
    assert {(span.label_, span.text) for span in group} >= {("NP", "The old dog")}
    assert "ROOT" not in {span.label_ for span in group}
    for sent in doc.sents:
        best = sent._.constituency_nbest
        assert 1 <= len(best) <= 3
        log_probs = [tree.log_prob for tree in best]
        assert log_probs == sorted(log_probs, reverse=True)
        assert numpy.exp(log_probs).sum() <= 1 + 1e-6
        assert len({tree.parse_string for tree in best}) == len(best)
    # tags that are there already stay
    doc = sentence_doc(nlp)
    doc[0].tag_ = "MINE"
    assert nlp(doc)[0].tag_ == "MINE"


def test_tags_are_not_written_unasked(nlp):
    assert not nlp(sentence_doc(nlp)).has_annotation("TAG")


def test_survives_bytes_docbin_and_processes(nlp):
    doc = nlp(sentence_doc(nlp))
    expected = strings(doc)
    assert strings(Doc(nlp.vocab).from_bytes(doc.to_bytes())) == expected
    docbin = DocBin(store_user_data=True)
    docbin.add(doc)
    read = next(iter(DocBin().from_bytes(docbin.to_bytes()).get_docs(nlp.vocab)))
    assert strings(read) == expected
    probs = [span._.prob for span in doc[0:10]._.constituents]
    assert [span._.prob for span in read[0:10]._.constituents] == probs


def test_processes(nlp):
    texts = [TEXT, "The dog sleeps .", ""]
    expected = [doc.text and doc[:]._.parse_string for doc in nlp.pipe(texts)]
    found = [doc.text and doc[:]._.parse_string for doc in nlp.pipe(texts, n_process=2)]
    assert found == expected


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_any_batch_size(nlp, brackets, batch_size):
    docs = [eg.predicted for eg in bracket_examples(nlp, brackets["test"], 2)][:12]
    single = [strings(nlp(without_trees(doc))) for doc in docs]
    batch = [
        strings(doc)
        for doc in nlp.pipe((without_trees(doc) for doc in docs), batch_size=batch_size)
    ]
    assert batch == single


def test_threads(nlp, brackets):
    docs = [eg.predicted for eg in bracket_examples(nlp, brackets["test"], 3)][:8]
    expected = [strings(nlp(without_trees(doc))) for doc in docs]
    found = {}

    def work(i):
        found[i] = [strings(nlp(without_trees(doc))) for doc in docs]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == expected for own in found.values())


def test_retokenized(nlp):
    doc = nlp(sentence_doc(nlp))
    second = strings(doc)[1]
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
    assert doc[0:2]._.labels == ()
    assert strings(doc)[1] == second
    assert doc[0:1].sent._.parse_string is None
    park = [span for span in doc[0:9]._.constituents if span.text == "the park"]
    assert not park or park[0]._.labels == ("NP",)
    place = next(i for i in range(len(doc)) if doc[i].text == "the")
    assert doc[place : place + 2]._.labels == ("NP",)


def test_split_tokens(nlp):
    doc = nlp(sentence_doc(nlp))
    second = strings(doc)[1]
    place = next(i for i in range(len(doc)) if doc[i].text == "park")
    with doc.retokenize() as retokenizer:
        heads = [doc[place], doc[place]]
        retokenizer.split(doc[place], ["pa", "rk"], heads=heads)
    assert strings(doc)[1] == second
    # what has the split token inside is gone, the rest is there
    assert doc[place : place + 2]._.labels == ()
    assert doc[0 : place + 2].sent._.parse_string is None
    assert doc[0:3]._.parse_string == "(NP (DT The) (JJ old) (NN dog))"
    assert len(stored_trees(doc)) == 1
    # and it can be parsed again
    assert strings(nlp(doc))[0].count("(") > 10


def test_documents_of_spans_and_joined_documents(nlp):
    doc = nlp(sentence_doc(nlp))
    expected = strings(doc)
    parts = [sent.as_doc(copy_user_data=True) for sent in doc.sents]
    assert [part[:]._.parse_string for part in parts] == expected
    joined = Doc.from_docs(parts)
    assert [sent._.parse_string for sent in joined.sents] == expected
    assert len(stored_trees(joined)) == 2


def test_another_vocabulary(nlp):
    other = spacy.blank("en")
    other.vocab.strings.add("something that shifts nothing")
    other.add_pipe("spectral_constituency", source=nlp)
    for text in (TEXT, "The glimmering zorb saw a Qu'appelle in the park .", "Ωμέγα sleeps ."):
        ours, theirs = other(sentence_doc(other, text)), nlp(sentence_doc(nlp, text))
        assert strings(ours) == strings(theirs)
        assert None not in strings(ours)
        # labels of spans are strings of the new vocabulary, too
        spans = [(span.label_, span.text) for span in ours.spans["constituents"]]
        assert spans == [(span.label_, span.text) for span in theirs.spans["constituents"]]
        read = Doc(other.vocab).from_bytes(ours.to_bytes())
        assert strings(read) == strings(ours)


def test_round_trips(nlp, tmp_path):
    nlp.to_disk(tmp_path / "model")
    loaded = spacy.load(tmp_path / "model")
    assert strings(loaded(sentence_doc(loaded))) == strings(nlp(sentence_doc(nlp)))
    assert (
        loaded.get_pipe("spectral_constituency").labels
        == nlp.get_pipe("spectral_constituency").labels
    )


def test_training_again_gives_the_same_bytes(nlp, brackets):
    again = learn(brackets)
    name = "spectral_constituency"
    assert again.get_pipe(name).model.to_bytes() == nlp.get_pipe(name).model.to_bytes()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\n",
        "Yes",
        "zxcvb qwrty",
        "Это предложение на другом языке .",
        "一 二 三",
        ". . .",
        "dog \n dog .",
    ],
)
def test_any_text(nlp, text):
    doc = nlp(text)
    words = [token for token in doc if not token.is_space]
    if words:
        string = doc[words[0].i : words[-1].i + 1]._.parse_string
        assert string.count("(") == string.count(")")
        for word in words:
            assert f" {word.text})" in string


def test_long_sentences(nlp):
    words = ["the", "dog", "saw", ",", "and"] * 200
    doc = nlp(Doc(nlp.vocab, words=words))
    string = doc[:]._.parse_string
    assert string is None or string.count(" the)") == 200
    trees = stored_trees(doc)
    assert len(trees) == 1
    assert len(trees[0].parsed.tags) == len(words)
    for node in trees[0].parsed.nodes:
        assert 0 <= node.begin < node.end <= len(words)


def test_whitespace_is_in_no_tree(nlp):
    doc = Doc(
        nlp.vocab,
        words=["The", "\n", "dog", "sleeps", "."],
        spaces=[False, False, True, False, False],
    )
    tree = stored_trees(nlp(doc))[0]
    assert tree.tokens == [0, 2, 3, 4]
    assert doc[:]._.parse_string.count("(") == doc[:]._.parse_string.count(")")


def test_parsing_again_changes_nothing(nlp):
    doc = nlp(sentence_doc(nlp))
    before = strings(doc)
    assert strings(nlp(doc)) == before
    assert len([key for key in doc.user_data if key[1] == "spectral_constituency"]) == 1


def test_tokens_that_differ_from_gold(nlp, brackets):
    reference = next(gold_docs(brackets["dev"], nlp.vocab, n_sents=3))
    text = reference.text
    example = Example(nlp(text), reference)
    scores = score_constituents([example])
    assert 0 <= scores["bracket_f"] <= 1
    # merged in the prediction: what ends inside a gold token is wrong, and nothing is left out
    doc = nlp(without_trees(reference))
    exact = score_constituents([Example(doc, reference)])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    merged = score_constituents([Example(nlp(doc), reference)])
    assert merged["bracket_r"] <= exact["bracket_r"]


def test_development_set_without_trees(nlp):
    doc = sentence_doc(nlp)
    scores = nlp.evaluate([Example(sentence_doc(nlp), doc)])
    assert scores["bracket_f"] is None


def test_trees_of_pieces_nest(nlp):
    words = ["the", "dog", "saw", "a", "zorb", ",", "and"] * 200
    doc = nlp(Doc(nlp.vocab, words=words))
    (tree,) = stored_trees(doc)
    assert len(tree.parsed.tags) == len(words)
    assert all(0 <= node.begin < node.end <= len(words) for node in tree.parsed.nodes)
    # brackets nest
    stack = []
    for node in tree.parsed.nodes:
        while stack and stack[-1] <= node.begin:
            stack.pop()
        assert not stack or node.end <= stack[-1]
        stack.append(node.end)


def test_labels_that_the_training_data_lack(nlp, tmp_path):
    path = tmp_path / "dev.ptb"
    path.write_text(
        "(ROOT (FRAG (XX the) (YP (ZZ dog))))\n(ROOT (S (NP (NN dog))))", encoding="utf8"
    )
    scores = nlp.evaluate(bracket_examples(nlp, path, 1))
    assert scores["bracket_f_per_type"]["YP"] == 0.0
    assert 0 <= scores["bracket_f"] < 1


def test_fifty_trees(brackets, tmp_path):
    lines = [write_tree(tree) for tree in read_brackets(brackets["train"])][:50]
    path = tmp_path / "fifty.ptb"
    path.write_text("\n".join(lines), encoding="utf8")
    nlp = learn({"train": path})
    assert nlp.evaluate(bracket_examples(nlp, brackets["dev"]))["bracket_f"] > 0.5


def test_an_empty_file(tmp_path):
    (tmp_path / "empty.ptb").write_text("", encoding="utf8")
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_constituency", config=SMALL)
    with pytest.raises(ValueError, match="S012"):
        nlp.initialize(lambda: bracket_examples(nlp, tmp_path / "empty.ptb"))


@pytest.mark.parametrize(
    "text",
    [
        "(ROOT (S (NP (NN dog)) (VP (VBZ barks))))",
        "(ROOT (NN dog))",
        # one label of phrases, and one of words
        "\n".join(["(X (X (X a) (X b)) (X (X c) (X d)))"] * 30),
        "(X (Y a) (Y b) (Y c) (Y d))",
        "\n".join(["(S (A a) (B b))"] * 60),
        "(S (-NONE- *) (NP (NN a)))",
    ],
)
def test_tiny_treebanks(tmp_path, text):
    path = tmp_path / "tiny.ptb"
    path.write_text(text, encoding="utf8")
    for architecture in ("ConstituencyProduct", "LPCFG", "SpanCRF"):
        nlp = spacy.blank("en")
        config = {"model": {"@architectures": f"spacy-spectral.{architecture}.v1"}}
        nlp.add_pipe("spectral_constituency", config=config)
        nlp.initialize(lambda nlp=nlp: bracket_examples(nlp, path))
        for sentence in ("dog", "dog barks", "a b c d e f"):
            doc = nlp(Doc(nlp.vocab, words=sentence.split()))
            trees = stored_trees(doc)
            assert len(trees) == 1
            assert len(trees[0].parsed.tags) == len(doc)


def test_nothing_to_learn():
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_constituency", config=SMALL)
    doc = nlp.make_doc("no tree")
    with pytest.raises(ValueError, match="S703"):
        nlp.initialize(lambda: [Example(doc, doc.copy())])
    with pytest.raises(ValueError, match="S115"):
        nlp("not trained")


def test_extensions_of_others_stay():
    Span.set_extension("prob", default="mine", force=True)
    try:
        nlp = spacy.blank("en")
        with pytest.warns(UserWarning, match="W110"):
            nlp.add_pipe("spectral_constituency")
        assert nlp.make_doc("a b")[:]._.prob == "mine"
    finally:
        Span.remove_extension("prob")
        spacy.blank("en").add_pipe("spectral_constituency")


def test_settings_are_checked():
    from spacy_spectral.models.constituency.architecture import ConstituencyRecipe

    with pytest.raises(ValueError, match="S701"):
        ConstituencyRecipe(estimator="magic")
    with pytest.raises(ValueError, match="S702"):
        ConstituencyRecipe(states=0)
    for model in ({"weights": [1.0, 1.0]}, {"weights": [1.0, -1.0, 0.0]}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match="S709"):
            spacy.blank("en").add_pipe(
                "spectral_constituency", config={"model": SMALL["model"] | model}
            )
