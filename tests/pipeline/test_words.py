"""Tokens that are several words: in documents of tokens, in documents of words, and in what both become."""

import itertools
import pickle

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.training import Example

import spacy_spectral
from spacy_spectral.pipeline.tokenizer import SpectralTokenizer
from spacy_spectral.pipeline.words import fitted, merged, surface, with_words
from spacy_spectral.raw import evaluate_raw
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.conllu import Sentence
from spacy_spectral.treebank.documents import MULTIWORD, sentences_to_doc
from spacy_spectral.treebank.write import write_doc

# form, words, tags: the words of "du" do not stand in the text, those of "vas-tu" do
NOUNS = ["chat", "roi", "chien", "parc", "lac", "bord"]
CONFIG = {
    "spectral_tagger": {"model": {"@architectures": "spacy-spectral.LinearTagger.v1", "epochs": 3}},
    "spectral_parser": {
        "model": {
            "@architectures": "spacy-spectral.LogLinear.v1",
            "epochs": 2,
            "n_states": 3,
            "max_length": 100,
        },
        "store": ["head_prob", "dep_prob", "parse_logprob", "marginals"],
    },
}
TEXT = "Le chat du roi dort au parc, vas-tu.  Le chien du lac dort \n au bord, vas-tu. Du lac"


def sentence(one, two, three):
    """Le ONE du TWO dort au THREE, vas-tu."""
    rows = [
        ("Le", "le", "DET", 2, "det"), (one, one, "NOUN", 6, "nsubj"), ("de", "de", "ADP", 5, "case"),
        ("le", "le", "DET", 5, "det"), (two, two, "NOUN", 2, "nmod"), ("dort", "dormir", "VERB", 0, "root"),
        ("à", "à", "ADP", 9, "case"), ("le", "le", "DET", 9, "det"), (three, three, "NOUN", 6, "obl"),
        (",", ",", "PUNCT", 11, "punct"), ("vas", "aller", "VERB", 6, "parataxis"),
        ("-tu", "tu", "PRON", 11, "nsubj"), (".", ".", "PUNCT", 6, "punct"),
    ]  # fmt: skip
    ranges = {3: "3-4\tdu", 7: "7-8\tau", 11: "11-12\tvas-tu"}
    glued = {9, 12}
    lines = []
    for i, (form, lemma, pos, head, dep) in enumerate(rows, start=1):
        if i in ranges:
            misc = "SpaceAfter=No" if i == 11 else "_"
            lines.append(f"{ranges[i]}" + "\t_" * 7 + f"\t{misc}")
        misc = "SpaceAfter=No" if i in glued else "_"
        lines.append(f"{i}\t{form}\t{lemma}\t{pos}\t{pos[0]}\t_\t{head}\t{dep}\t_\t{misc}")
    return "\n".join(lines) + "\n\n"


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "toy.conllu"
    triples = list(itertools.permutations(NOUNS, 3))
    path.write_text("".join(sentence(*triple) for triple in triples), "utf8")
    return path


def pipeline(treebank, multiword="merge"):
    tokenizer = {"@tokenizers": "spacy-spectral.Tokenizer.v1", "multiword": multiword}
    nlp = spacy.blank("fr", config={"nlp": {"tokenizer": tokenizer}})
    for name in ("spectral_senter", "spectral_tagger", "spectral_lemmatizer", "spectral_parser"):
        nlp.add_pipe(name, config=CONFIG.get(name, {}))
    corpus = Corpus(treebank, annotations=["sents"], n_sents=4, syntactic_words=True)
    nlp.initialize(lambda: corpus(nlp))
    return nlp


@pytest.fixture(scope="module")
def nlp(treebank):
    return pipeline(treebank)


@pytest.fixture(scope="module")
def expanding(nlp, tmp_path_factory):
    """The same pipeline, whose documents hold words."""
    path = tmp_path_factory.mktemp("model")
    nlp.to_disk(path)
    return spacy.load(path, config={"nlp": {"tokenizer": {"multiword": "expand"}}})


def described(doc):
    tokens = [
        (t.text, t.whitespace_, t.is_sent_start, t.tag_, t.pos_, t.lemma_, t.head.i, t.dep_, t._.words)
        for t in doc
    ]  # fmt: skip
    values = [(t._.head_prob, t._.dep_prob, t._.tag_probs, t._.sent_start_prob) for t in doc]
    return tokens, values, [sent._.parse_logprob for sent in doc.sents]


def test_tokens_have_the_analysis_of_their_head_words(nlp):
    doc = nlp(TEXT)
    assert doc.text == TEXT
    du, au = doc[2], doc[5]
    assert (du.text, du.tag_, du.pos_, du.lemma_, du.dep_) == ("du", "A", "ADP", "de", "case")
    assert du.head.text == "roi" and au.head.text == "parc"
    de, le = du._.words
    assert (de.text, de.lemma, de.pos, de.dep, de.head) == ("de", "de", "ADP", "case", (3, 0))
    assert (le.text, le.lemma, le.pos, le.dep, le.head) == ("le", "le", "DET", "det", (3, 0))
    (chat,) = doc[1]._.words
    assert (chat.text, chat.lemma, chat.head) == ("chat", "chat", (doc[1].head.i, 0))
    assert [w.text for w in doc[-2]._.words] == ["de", "le"]
    assert [span.text for span in doc.spans[MULTIWORD]] == ["vas-tu", "vas-tu"]
    assert du._.head_prob > 0.5 and "A" in du._.tag_probs
    for token in doc:
        assert TEXT[token._.start_char : token._.end_char] == token.text


def test_documents_of_words_have_places_in_the_text(nlp, expanding):
    doc = expanding(TEXT)
    assert [t.text for t in doc][:9] == ["Le", "chat", "de", "le", "roi", "dort", "à", "le", "parc"]
    marked = [(doc[s.start : s.end].text, s.label_) for s in doc.spans[MULTIWORD]]
    assert marked[:3] == [("dele", "du"), ("àle", "au"), ("vas-tu", "")]
    spans = [(t._.start_char, t._.end_char) for t in doc]
    assert [TEXT[a:b] for a, b in spans][:5] == ["Le", "chat", "du", "du", "roi"]
    assert surface(doc).text == TEXT
    assert [word.text for word in doc[2]._.words] == ["de"]
    # and what is found is the same
    assert write_doc(doc) == write_doc(with_words(nlp(TEXT)))
    one, two = ([s._.parse_logprob for s in d.sents] for d in (doc, nlp(TEXT)))
    assert one == two and None not in one
    for sent, other in zip(doc.sents, nlp(TEXT).sents, strict=True):
        assert numpy.array_equal(sent._.marginals, other._.marginals)


def test_ranges_in_conllu_and_raw_measures(nlp, expanding, treebank):
    pytest.importorskip("udtools.udeval")
    text = write_doc(with_words(nlp(TEXT)))
    assert "\n3-4\tdu\t_\t" in text and "\n3\tde\tde\tADP\t" in text
    assert "# text = Le chat du roi dort au parc, vas-tu.\n" in text
    for pipe in (nlp, expanding):
        scores = evaluate_raw(pipe, treebank)
        assert scores["words"] > 0.99 and scores["las"] > 0.9


def test_call_and_pipe_and_processes(nlp, expanding):
    texts = [TEXT, "", " ", "du", "Le lac.", "\n au \n", TEXT[:20]] * 2
    for pipe in (nlp, expanding):
        expected = [described(pipe(text)) for text in texts]
        for options in ({}, {"batch_size": 1}, {"n_process": 2, "batch_size": 3}):
            assert [described(doc) for doc in pipe.pipe(texts, **options)] == expected
        pairs = pipe.pipe(zip(texts, range(99), strict=False), as_tuples=True)
        assert [(described(doc), i) for doc, i in pairs] == list(
            zip(expected, range(len(texts)), strict=True)
        )
        # once more over what is annotated already, in place
        docs = [pipe(text) for text in texts]
        for doc in docs:
            assert pipe(doc) is doc
        assert list(map(described, docs)) == expected
        copy = pickle.loads(pickle.dumps(pipe.tokenizer))
        assert [t.text for t in copy(TEXT)] == [t.text for t in pipe(TEXT)]


def test_saved_documents(nlp, expanding):
    spacy_spectral.register_extensions()
    for pipe in (nlp, expanding):
        doc = pipe(TEXT)
        data = DocBin(docs=[doc], store_user_data=True).to_bytes()
        (again,) = DocBin().from_bytes(data).get_docs(spacy.blank("fr").vocab)
        other = Doc(spacy.blank("fr").vocab).from_bytes(doc.to_bytes())
        for own in (again, other, pickle.loads(pickle.dumps(doc)), doc.copy()):
            assert described(own) == described(doc)
            assert write_doc(with_words(own)) == write_doc(with_words(doc))
            assert [t._.start_char for t in own] == [t._.start_char for t in doc]


def test_parts_and_joined_documents(nlp):
    doc = nlp(TEXT)
    for sent in doc.sents:
        part = sent.as_doc(copy_user_data=True)
        expected = [
            [w._replace(head=w.head and (w.head[0] - sent.start, w.head[1])) for w in t._.words]
            for t in sent
        ]
        assert [t._.words for t in part] == expected
        words = with_words(part)
        assert [t.text for t in words] == [w.text for own in expected for w in own]
    joined = Doc.from_docs([doc, nlp("Le lac du roi")])
    texts = [word.text for token in joined for word in token._.words]
    assert texts[2:4] == ["de", "le"] and texts[-4:] == ["lac", "de", "le", "roi"]
    assert [t.text for t in with_words(joined)] == texts


def test_merged_and_split_tokens(nlp):
    doc = nlp(TEXT)
    before = {token.idx: token._.words for token in doc}
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
        retokenizer.split(doc[4], ["d", "ort"], heads=[(doc[4], 1), doc[3]])
    assert doc[1].text == "chat du" and len(doc[1]._.words) == 1
    (au,) = [token for token in doc[:8] if token.text == "au"]
    assert [w.text for w in au._.words] == ["à", "le"]
    for token in doc:
        for word in token._.words:
            if len(token._.words) > 1:
                known = before[token.idx]
                assert word._replace(head=None) in [own._replace(head=None) for own in known]
                assert word.head is None or doc[word.head[0]].text in NOUNS
    nlp(doc)  # and it goes on
    assert [t.text for t in with_words(doc)][:2] == ["Le", "chat du"]


def test_what_users_set_is_kept(nlp):
    doc = nlp.make_doc("Le chat du roi dort")
    doc[2].lemma_, doc[1].tag_ = "mine", "MINE"
    for token in doc:
        token.is_sent_start = token.i in (0, 4)
    nlp(doc)
    assert doc[2].lemma_ == "mine" and doc[1].tag_ == "MINE"
    assert [sent.text for sent in doc.sents] == ["Le chat du roi", "dort"]
    assert [w.lemma for w in doc[2]._.words] == ["mine", "le"]


def test_other_pipelines(nlp):
    other = spacy.blank("xx", config={"nlp": {"tokenizer": nlp.config["nlp"]["tokenizer"]}})
    other.tokenizer.from_bytes(nlp.tokenizer.to_bytes())
    for name in nlp.pipe_names:
        other.add_pipe(name, source=nlp)
    assert described(other(TEXT)) == described(nlp(TEXT))
    # with spaCy's own tokens, there is nothing to be expanded
    plain = spacy.blank("xx")
    for name in nlp.pipe_names:
        plain.add_pipe(name, source=nlp)
    assert [len(t._.words) for t in plain("Le chat du roi.")] == [1] * 5


def test_the_parser_is_asked_about_words(nlp):
    doc = nlp("Le chat du roi dort au lac")
    parser = nlp.get_pipe("spectral_parser")
    (marginals,) = parser.marginals(doc)
    assert marginals.shape == (9, 9)
    assert len(parser.nbest(doc, k=2)[0][0].heads) == 9
    assert len(parser.parse_with(doc, [])[0].tree.heads) == 9


def test_special_cases_come_first(nlp):
    tokenizer = SpectralTokenizer(nlp.vocab).from_bytes(nlp.tokenizer.to_bytes())
    tokenizer.add_special_case("du", [{"ORTH": "du"}])
    doc = tokenizer("du au")
    assert [len(token._.words) for token in doc] == [1, 2]


def test_files(nlp, treebank, tmp_path):
    again = SpectralTokenizer(nlp.vocab).from_bytes(nlp.tokenizer.to_bytes())
    assert again.to_bytes() == nlp.tokenizer.to_bytes()
    assert pipeline(treebank).tokenizer.to_bytes() == nlp.tokenizer.to_bytes()
    with pytest.raises(ValueError, match="S625"):
        spacy.blank(
            "fr",
            config={
                "nlp": {
                    "tokenizer": {"@tokenizers": "spacy-spectral.Tokenizer.v1", "multiword": "x"}
                }
            },
        )


@pytest.mark.parametrize("multiword", ["merge", "expand"])
def test_scores_while_training(nlp, expanding, treebank, multiword):
    pipe = nlp if multiword == "merge" else expanding
    corpus = Corpus(treebank, annotations=[], gold_tokens=False, syntactic_words=True)
    examples = list(corpus(pipe))
    scores = pipe.evaluate(examples)
    assert min(scores[name] for name in ("token_f", "tag_acc", "lemma_acc")) > 0.95
    assert scores["dep_las"] > 0.9
    # what the parser stops by
    dev = {
        "@readers": "spacy-spectral.Corpus.v1", "path": str(treebank), "annotations": [],
        "gold_tokens": False, "syntactic_words": True, "n_sents": 3,
    }  # fmt: skip
    pipe.config["corpora"] = {"dev": dev}
    dev = pipe.get_pipe("spectral_parser").development_treebank(pipe, "corpora.dev")
    assert (dev.heads >= 0).mean() > 0.99
    assert "de" in dev.tokens.words and "du" not in dev.tokens.words


def test_training_on_documents_of_the_tokenizer(nlp, treebank):
    """Examples that are aligned with text are learnt from by words, too."""
    corpus = Corpus(treebank, annotations=[], gold_tokens=False, syntactic_words=True, n_sents=8)
    tagger = nlp.get_pipe("spectral_tagger")
    seen = {t.text for eg in tagger.training_examples(lambda: corpus(nlp), None) for t in eg.x}
    assert "de" in seen and "du" not in seen


@st.composite
def sentences(draw):
    """Any tree; some words are written together, and differently."""
    n = draw(st.integers(1, 8))
    order = draw(st.permutations(range(n)))
    heads = [0] * n
    heads[order[0]] = order[0]
    for i in range(1, n):
        heads[order[i]] = order[draw(st.integers(0, i - 1))]
    words = draw(st.lists(st.sampled_from(["a", "b", "ab", "C"]), min_size=n, max_size=n))
    after = draw(st.lists(st.sampled_from([" ", "", "\n", "  "]), min_size=n, max_size=n))
    spans, end = [], 0
    while end < n - 1:
        first = draw(st.integers(end, n - 2))
        last = draw(st.integers(first + 1, n - 1))
        if draw(st.booleans()):
            form = draw(st.sampled_from(["x", "ab", "".join(words[first : last + 1])]))
            spans.append((first, last, form))
            after[first:last] = [""] * (last - first)
        end = last + 1
    values = [str(i) for i in range(n)]
    return Sentence(
        words=words, after=after, lemmas=values, upos=["X"] * n, xpos=values,
        feats=["Case=Nom"] * n, heads=heads, deps=values, multiword=spans,
    )  # fmt: skip


VOCAB = spacy.blank("xx").vocab


@given(st.lists(sentences(), min_size=1, max_size=3))
def test_merged_documents_hold_all_of_their_words(own):
    words = sentences_to_doc(own, VOCAB)
    text = "".join(s.before + _text(s) for s in own)
    assert surface(words).text == text
    doc = merged(words)
    assert doc.text == text
    again = with_words(doc)

    def rows(doc):
        return [(t.text.lower(), t.whitespace_, t.tag_, t.pos_, str(t.morph), t.lemma_, t.dep_,
                 t.head.i, t.is_sent_start) for t in doc]  # fmt: skip

    assert rows(again) == rows(words)
    assert fitted(words, words) is words or rows(fitted(words, words)) == rows(words)


def _text(s):
    inside = {first: (last, form) for first, last, form in s.multiword}
    pieces, i = [], 0
    while i < len(s):
        last, form = inside.get(i, (i, s.words[i]))
        pieces.append(form + s.after[last])
        i = last + 1
    return "".join(pieces)


@given(sentences(), sentences(), st.data())
def test_gold_documents_fit_whatever_was_found(one, other, data):
    gold = sentences_to_doc([one], VOCAB)
    text = surface(gold).text
    # other words and other tokens of the same text
    found = sentences_to_doc([_cut(text, data.draw)], VOCAB)
    assert surface(found).text == text
    example = Example(found, fitted(gold, found))
    heads, labels = example.get_aligned_parse(projectivize=False)
    assert len(heads) == len(labels) == len(found)
    if [t.text for t in found] == [t.text for t in gold]:
        assert [t.tag_ for t in example.y] == [t.tag_ for t in gold]


def _cut(text, draw):
    """Some analysis of a text."""
    s = Sentence(before="")
    at = 0
    while at < len(text):
        end = draw(st.integers(at + 1, len(text)))
        piece = text[at:end].split()
        if text[at].isspace():
            end = at + len(text[at:]) - len(text[at:].lstrip())
            if s.words:
                s.after[-1] += text[at:end]
            else:
                s.before += text[at:end]
            at = end
            continue
        form = piece[0]
        at += len(form)
        words = draw(st.sampled_from([[form], [form], ["a", "b"], ["q", form]]))
        if len(words) > 1:
            s.multiword.append((len(s), len(s) + len(words) - 1, form))
        s.words += words
        s.after += [""] * len(words)
    n = len(s.words)
    for column in (s.lemmas, s.upos, s.xpos, s.feats, s.deps):
        column += [""] * n
    s.heads += [-1] * n
    return s


@given(text=st.text())
@settings(max_examples=60)
def test_nothing_is_lost(nlp, expanding, text):
    for own in (text, f"{text} du {text}au", f"du{text}"):
        assert nlp.tokenizer(own).text == own
        assert nlp(own).text == own
        doc = expanding(own)
        assert surface(doc).text == own
        covered = set()
        for token in doc:
            assert own[token._.start_char : token._.end_char] or not token.text
            covered.update(range(token._.start_char, token._.end_char))
        # what no token has is one space after a word
        assert all(own[i] == " " for i in set(range(len(own))) - covered)
        spans = {(s.start, s.end): s.label_ for s in doc.spans.get(MULTIWORD, ())}
        for (start, end), label in spans.items():
            a, b = doc[start]._.start_char, doc[end - 1]._.end_char
            assert own[a:b] == (label or doc[start:end].text)
