"""What is kept on documents: it stays with its tokens, whatever is done to others."""

import itertools
import json
import subprocess
import sys

import numpy
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.vocab import Vocab

import spacy_spectral
from spacy_spectral.pipeline import annotations
from spacy_spectral.pipeline.annotations import ParseValues, SentenceCandidates, TagGuesses

VOCAB = Vocab()
LABELS = ["a", "b", "c"]
# few and short, so that different tokens look alike
WORDS = ["aa", "ab", "aab", "b", "bb"]


def make_doc(words, spaces, lengths, seed=0):
    """A document with sentences of some lengths, and values that differ everywhere."""
    rng = numpy.random.default_rng(seed)
    n, bounds = len(words), numpy.cumsum([0, *lengths])
    heads = numpy.zeros(n, dtype=int)
    for a, b in itertools.pairwise(bounds):
        root = rng.integers(a, b)
        heads[a:b] = root
    deps = [LABELS[i] for i in rng.integers(len(LABELS), size=n)]
    doc = Doc(VOCAB, words=words, spaces=spaces, heads=heads.tolist(), deps=deps)
    annotations.store_tags(
        doc,
        TagGuesses(
            [f"t{i}" for i in range(n)],
            numpy.arange(n, dtype="int32").reshape(-1, 1),
            numpy.full((n, 1), 0.5, dtype="float32"),
        ),
    )
    values = numpy.arange(1, n + 1, dtype="float32")
    annotations.store_parse(
        doc,
        ParseValues(
            bounds.astype("int32"),
            head_prob=values,
            dep_prob=-values,
            parse_logprob=-numpy.arange(1, len(lengths) + 1, dtype="float32"),
            marginals=[numpy.full((b, b), i, dtype="float32") for i, b in enumerate(lengths)],
        ),
    )
    annotations.store_candidates(
        doc,
        LABELS,
        [
            SentenceCandidates(
                numpy.arange(a, b),
                heads[None, a:b].astype("int32"),
                numpy.zeros((1, b - a), dtype="int32"),
                numpy.array([-float(i + 1)]),
                numpy.zeros(1),
                numpy.ones(1),
            )
            for i, (a, b) in enumerate(itertools.pairwise(bounds))
        ],
    )
    return doc


def sample_doc():
    words = ["He", "lives", "in", "NewYork", "now", ".", "She", "does", "not", "."]
    return make_doc(words, [True] * len(words), [6, 4])


def check(doc, original, shift=0):
    """All values are None or those of the token of `original` at the same place; those of tokens, arcs
    and sentences that are still there are kept. Returns how many values there are."""
    there = {token.idx: token for token in original}
    whole = {(sent.start_char, sent.end_char): i for i, sent in enumerate(original.sents)}
    found = 0

    def same(token):
        own = there.get(token.idx + shift)
        return own if own is not None and own.text == token.text else None

    for token in doc:
        own = same(token)
        assert annotations.tag_probs(token) == ({} if own is None else {f"t{own.i}": 0.5})
        kept = own is not None and same(token.head) == own.head
        assert annotations.head_prob(token) == (own.i + 1 if kept else None)
        kept = kept and token.dep == own.dep
        assert annotations.dep_prob(token) == (-own.i - 1 if kept else None)
        found += kept
    for a in range(len(doc)):
        for b in range(a + 1, len(doc) + 1):
            span = doc[a:b]
            i = whole.get((span.start_char + shift, span.end_char + shift))
            if i is not None and all(map(same, span)):
                kept = all(same(t.head) == same(t).head and same(t).dep == t.dep for t in span)
                assert annotations.parse_logprob(span) == (-i - 1 if kept else None)
                assert annotations.marginals(span)[0, 0] == i
                (parse,) = annotations.parses(span)
                root = next(t for t in span if same(t).head == same(t))
                assert parse.tree.heads == [root.i] * len(span)
                assert (parse.tree.start, parse.tree.logprob) == (a, -i - 1)
                found += kept
            else:
                assert annotations.marginals(span) is None
                assert annotations.parses(span) is None
                if len(whole) == 1:
                    assert annotations.parse_logprob(span) is None
    return found


@st.composite
def documents(draw):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    n = sum(lengths)
    words = draw(st.lists(st.sampled_from(WORDS), min_size=n, max_size=n))
    spaces = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return make_doc(words, spaces, lengths, seed=draw(st.integers(0, 99)))


def merge(doc, data):
    start = data.draw(st.integers(0, len(doc) - 1))
    end = data.draw(st.integers(start + 1, min(len(doc), start + 3)))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[start:end])


def split(doc, data):
    token = doc[data.draw(st.integers(0, len(doc) - 1))]
    if len(token) < 2:
        return
    cut = data.draw(st.integers(1, len(token) - 1))
    head = (token, 1) if token.head == token else token.head
    with doc.retokenize() as retokenizer:
        orths = [token.text[:cut], token.text[cut:]]
        retokenizer.split(token, orths, heads=[(token, 1), head])


@given(documents(), st.lists(st.sampled_from([merge, split]), max_size=5), st.data())
def test_values_are_the_tokens_own_or_none(doc, steps, data):
    original = doc.copy()
    for step in steps:
        step(doc, data)
    check(doc, original)
    start = data.draw(st.integers(0, len(doc) - 1))
    span = doc[start : data.draw(st.integers(start + 1, len(doc)))]
    check(span.as_doc(copy_user_data=True), original, span.start_char)
    check(Doc(VOCAB).from_bytes(doc.to_bytes()), original)


def test_untouched_documents_keep_everything():
    doc = sample_doc()
    assert check(doc, doc) == len(doc) + 2
    assert annotations.parse_logprob(doc[:]) == -3
    assert annotations.parse_logprob(doc[0:5]) is None
    assert annotations.parse_logprob(doc[0:0]) is None
    (restored,) = DocBin(store_user_data=True, docs=[doc]).get_docs(Vocab())
    for copy in (doc.copy(), Doc(Vocab()).from_bytes(doc.to_bytes()), restored):
        assert check(copy, doc) == len(doc) + 2


def test_merging_and_splitting_to_the_same_length():
    doc = sample_doc()
    original = doc.copy()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
        retokenizer.split(doc[3], ["New", "York"], heads=[(doc[3], 1), doc[2]])
    assert len(doc) == len(original)
    assert check(doc, original) >= 4 + 1
    assert [annotations.tag_probs(token) for token in doc][:4] == [{}, {"t2": 0.5}, {}, {}]


def test_a_changed_arc_has_no_probability():
    doc = sample_doc()
    token = next(token for token in doc if token.head != token)
    token.dep_ = "other"
    assert annotations.head_prob(token) == token.i + 1
    assert annotations.dep_prob(token) is None
    assert annotations.parse_logprob(token.sent) is None
    assert annotations.parses(token.sent) is not None
    token.head = next(t for t in token.sent if t not in (token, token.head))
    assert annotations.head_prob(token) is None


def test_joined_documents(recwarn):
    docs = [sample_doc(), make_doc(["ab", "b"], [True, False], [2]), sample_doc()]
    joined = Doc.from_docs([docs[0], spacy.blank("en", vocab=VOCAB)("ab b"), *docs[1:]])
    assert not recwarn
    begin = 0
    for doc in docs:
        if doc is docs[1]:
            for token in joined[begin : begin + 2]:  # the document without values
                assert annotations.head_prob(token) is None
            begin += 2
        own = joined[begin : begin + len(doc)]
        assert check(own.as_doc(copy_user_data=True), doc) == check(doc, doc)
        for token, expected in zip(own, doc, strict=True):
            assert annotations.head_prob(token) == expected.i + 1
            assert annotations.tag_probs(token) == {f"t{expected.i}": 0.5}
        begin += len(doc)


def test_storing_anew_replaces_what_was_moved():
    doc = sample_doc()[6:].as_doc(copy_user_data=True)
    assert annotations.head_prob(doc[0]) == 7
    values = numpy.array([9, numpy.nan, 9, 9], dtype="float32")
    annotations.store_parse(doc, ParseValues(numpy.array([0, 4], dtype="int32"), values))
    assert [annotations.head_prob(token) for token in doc] == [9, None, 9, 9]
    assert annotations.parse_logprob(doc[:]) is None
    assert annotations.tag_probs(doc[0]) == {"t6": 0.5}


def test_guesses_for_the_parser_follow_tokens():
    doc = sample_doc()
    ((where, guesses),) = annotations.tag_guesses(doc)
    assert where == slice(None) and len(guesses.tags) == len(doc)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    found = {
        i: guesses.labels[guesses.tags[0, 0]] for (i,), guesses in annotations.tag_guesses(doc)
    }
    assert found == {i: f"t{i + 1}" for i in range(1, len(doc))}


def test_values_of_a_parse_after_another_was_written():
    doc = sample_doc()
    doc[0].dep_ = "other"
    values = annotations.parse_values(doc)
    assert numpy.isnan(values.dep_prob).tolist() == [True] + [False] * 9
    assert values.head_prob.tolist() == list(range(1, 11))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert annotations.parse_values(doc) is None


def test_merged_tokens_of_a_parsed_document(trained, examples):
    doc = trained(examples(trained, "dev")[0].predicted)
    before = {token.idx: (token.text, token._.head_prob, token.head.idx) for token in doc}
    logprob = doc[:]._.parse_logprob
    assert logprob is not None
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert doc[0]._.head_prob is None and doc[:]._.parse_logprob is None
    merged = {0, doc[0].idx + len(doc[0])}
    for token in doc[1:]:
        text, prob, head = before[token.idx]
        kept = head == token.head.idx and head not in merged and token.head.i != 0
        assert token.text == text
        assert token._.head_prob == (prob if kept else None)
    assert any(token._.head_prob is not None for token in doc)


def run(code):
    """Run code in a new process, where no extension is defined yet."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_importing_claims_no_names():
    code = (
        "import json, spacy, spacy_spectral.pipeline.parser, spacy_spectral.pipeline.reranker\n"
        "import spacy_spectral.pipeline.tagger, spacy_spectral.pipeline.eigenwords\n"
        "from spacy.tokens.underscore import Underscore\n"
        "def claimed(): return [name for names in Underscore.get_state() for name in names]\n"
        "nlp = spacy.blank('en')\n"
        "found = [claimed()]\n"
        "nlp.add_pipe('spectral_tagger')\n"
        "doc = nlp.make_doc('a')\n"
        "found += [doc[0]._.sent_start_prob, doc[:]._.parse_logprob]\n"
        "nlp.add_pipe('spectral_parser')\n"
        "print(json.dumps([*found, claimed()], separators=',:'))\n"
    )
    (line,) = run(code)
    imported, start, logprob, claimed = json.loads(line)
    assert imported == []
    probabilities = {"head_prob", "dep_prob", "parse_logprob", "marginals", "tag_probs"}
    probabilities |= {"alternative", "parse_confidence"}
    # those of the senter, and of a parser before there is one, can be asked for
    assert (start, logprob) == (None, None)
    assert set(claimed) == probabilities | {"sent_start_prob"}


def test_values_can_be_read_without_a_component(tmp_path):
    DocBin(store_user_data=True, docs=[sample_doc()]).to_disk(tmp_path / "docs.spacy")
    code = (
        "import spacy, spacy_spectral\n"
        "from spacy.tokens import DocBin\n"
        f"path = {str(tmp_path / 'docs.spacy')!r}\n"
        "(doc,) = DocBin().from_disk(path).get_docs(spacy.blank('en').vocab)\n"
        "spacy_spectral.register_extensions()\n"
        "spacy_spectral.register_extensions()\n"
        "print(doc[2]._.head_prob, *doc[2]._.tag_probs, doc[:]._.parse_logprob, len(doc[:6]._.parses))"
    )
    assert run(code) == ["3.0", "t2", "-3.0", "1"]


@pytest.fixture
def own_extension():
    saved = Span.get_extension("parses") if Span.has_extension("parses") else None
    Span.set_extension("parses", default="mine", force=True)
    yield
    Span.remove_extension("parses")
    if saved is not None:
        Span.set_extension("parses", getter=saved[2])


def test_extensions_of_others_are_left_alone(own_extension):
    doc = sample_doc()
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser")
    with pytest.warns(UserWarning, match="W110"):
        nlp.add_pipe("spectral_reranker")
    assert doc[:6]._.parses == "mine"
    with pytest.warns(UserWarning, match=r"W110.*span\._\.parses"):
        spacy_spectral.register_extensions()
    Span.remove_extension("parses")
    spacy_spectral.register_extensions()
    assert len(doc[:6]._.parses) == 1
    assert Token.has_extension("head_prob")
