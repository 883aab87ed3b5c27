"""Every kind of pipeline as people use it: in threads, batches and processes, sourced, saved, on any text."""

import random
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from textwrap import dedent
from threading import Thread

import numpy
import pytest
import spacy
from spacy.tokens import Doc

from kinds import KINDS, TOKENIZER
from memory import resident_memory
from spacy_spectral.models.eigenwords import clusters
from spacy_spectral.models.linear import tagger as tagger_model
from spacy_spectral.models.loglinear import encode
from spacy_spectral.pipeline.constituents import stored_trees

THREADS = 4
ODD_TEXTS = [
    "",
    " ",
    "\n\n",
    "Yes",
    "  two spaces  and\ttabs \n",
    "the old dog saw a man who sleeps in the park and she saw him",  # no punctuation
    "Zorp blifs the queezle and 1234 frabs glombly.",
    "Это предложение . ゆき が 降る 。 مرحبا بالعالم 🙂👩‍👩‍👧 ὕδωρ",
    "一二三四五",
    ". . . , ;",
    "x" * 300 + " y",
    "thog saw thman, thouse and aog .",  # as words of the kind "words" are written
]
TOKEN_VALUES = ("tag_probs", "head_prob", "dep_prob", "subtag", "subtag_prob", "sent_start_prob")
SPAN_VALUES = ("parse_logprob", "parses", "parse_string", "constituency_nbest", "prob")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def load(saved):
    """Loads the pipeline of a kind; tests must not change those that they have not asked for as new."""
    keep = cache(lambda kind: spacy.load(saved(kind)))
    return lambda kind, new=False: spacy.load(saved(kind)) if new else keep(kind)


@pytest.fixture(scope="module")
def expected_of(load, texts):
    """What a pipeline of a kind makes of every text, one after the other."""
    return cache(lambda kind: run(load(kind), texts))


@pytest.fixture(scope="module")
def texts(examples):
    """Sentences alone and together, and all that is odd."""
    own = [eg.reference.text for eg in examples(spacy.blank("en"), "dev")]
    return [*own[:8], " ".join(own[8:13]), *ODD_TEXTS, *own[13:16]]


def described(doc):
    """All that is written to a document."""
    tokens = [
        (t.text, t.whitespace_, t.is_sent_start, t.tag_, t.pos_, str(t.morph), t.lemma_, t.head.i, t.dep_)
        for t in doc
    ]  # fmt: skip
    values = [[t._.get(name) for name in TOKEN_VALUES if t.has_extension(name)] for t in doc]
    spans = {key: [(s.start, s.end, s.label_) for s in group] for key, group in doc.spans.items()}
    return tokens, values, sentence_values(doc), spans, repr(stored_trees(doc))


def sentence_values(doc):
    sents = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
    return [
        repr(sent._.get(name))
        for sent in sents
        for name in SPAN_VALUES
        if len(sent) and sent.has_extension(name)
    ]


def run(nlp, texts):
    return [described(nlp(text)) for text in texts]


@pytest.fixture
def hurried(monkeypatch):
    """Threads take turns all the time, and caches are full after a few words."""
    monkeypatch.setattr(tagger_model, "_CACHE_SIZE", 40)
    monkeypatch.setattr(encode, "_CACHE_SIZE", 40)
    monkeypatch.setattr(clusters, "_CACHE_SIZE", 40)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_give_what_one_gives(kind, load, texts, hurried):
    rng = random.Random(1)
    words = " ".join(texts).split()
    made = [f"{rng.choice(words)[:20]}{i}" for i in range(30)]
    many = [*texts, *(" ".join(rng.choices([*words[:80], *made], k=12)) + " ." for _ in range(10))]
    expected = dict(zip(many, run(load(kind), many), strict=True))
    nlp = load(kind, new=True)

    def work(seed):
        own = random.Random(seed).sample(many, len(many))
        found = run(nlp, own) if seed % 2 else list(map(described, nlp.pipe(own, batch_size=8)))
        return [text for text, result in zip(own, found, strict=True) if result != expected[text]]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [[]] * THREADS
    assert work(1) == []  # it is as good as new


def test_threads_that_ended_keep_no_memory(kind, load, texts):
    nlp = load(kind)
    text = " ".join(texts[:4]).replace(".", ",")
    # a chart that threads keep is 3 MB for as many words, and nothing beside other memory for a few
    text = " ".join(islice(cycle(text.split()), 150)) if kind == "SHAG" else text

    def run(n):
        for _ in range(n):
            thread = Thread(target=nlp, args=(text,))
            thread.start()
            thread.join()

    run(4)
    before = resident_memory()
    run(30)
    assert resident_memory() - before < 20


def test_batches_and_processes_give_what_a_call_gives(kind, load, expected_of, texts):
    nlp, expected = load(kind), expected_of(kind)
    for options in ({"batch_size": 1}, {"batch_size": 3}, {"batch_size": 100}):
        assert list(map(described, nlp.pipe(texts, **options))) == expected
    for _, pipe in nlp.pipeline[-1:]:  # the component by itself
        docs = [nlp.make_doc(text) for text in texts]
        for _, earlier in nlp.pipeline[:-1]:
            docs = list(map(earlier, docs))
        assert list(map(described, pipe.pipe(docs, batch_size=7))) == expected
    assert list(map(described, nlp.pipe(texts, n_process=2, batch_size=5))) == expected
    # once more over what is annotated already
    assert [described(nlp(nlp(text))) for text in texts] == expected


def other_pipeline(nlp, kind, tmp_path=None):
    """A blank pipeline with another vocabulary, and all components of a pipeline sourced into it."""
    other = spacy.blank(
        nlp.lang, config={"nlp": {"tokenizer": TOKENIZER}} if KINDS[kind].is_tokenizer else {}
    )
    if KINDS[kind].is_tokenizer:
        other.tokenizer.from_bytes(nlp.tokenizer.to_bytes())
    for word in ("something", "else", "X"):
        other.vocab.strings.add(word)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W113\]")  # eigenwords: it has no vectors
        for name in nlp.pipe_names:
            other.add_pipe(name, source=nlp)
    return other


def test_sourced_into_another_pipeline(kind, load, expected_of, texts, tmp_path):
    expected = expected_of(kind)
    source = load(kind, new=True)
    other = other_pipeline(source, kind)
    assert other.vocab is not source.vocab
    # words and tags that the source has not seen come first
    assert run(other, reversed(texts)) == expected[::-1]
    for doc in other.pipe(texts):
        again = Doc(other.vocab).from_bytes(doc.to_bytes())
        assert described(again)[0] == described(doc)[0]
    other.to_disk(tmp_path)
    assert run(spacy.load(tmp_path), texts) == expected
    assert run(source, texts) == expected
    # documents of several vocabularies in one batch
    docs = [(other, source)[i % 2].make_doc(text) for i, text in enumerate(texts)]
    for _, pipe in source.pipeline:
        docs = list(pipe.pipe(docs, batch_size=100))
    assert list(map(described, docs)) == expected


def test_files_and_bytes(kind, load, expected_of, texts, tmp_path):
    nlp, expected = load(kind), expected_of(kind)
    same = spacy.util.load_model_from_config(nlp.config, auto_fill=True).from_bytes(nlp.to_bytes())
    nlp.to_disk(tmp_path)

    def saved_bytes(nlp):
        pipe = nlp.get_pipe(KINDS[kind].last) if KINDS[kind].components else nlp.tokenizer
        return pipe.to_bytes(exclude=["vocab"])

    for other in (same, spacy.load(tmp_path)):
        assert run(other, texts) == expected
        assert saved_bytes(other) == saved_bytes(nlp)
    # nothing that it was asked for has changed it
    assert saved_bytes(load(kind, new=True)) == saved_bytes(nlp)


def retokenize(doc):
    """Merge the first two tokens of the second sentence, and split a token of the first."""
    first, second = list(doc.sents)[:2]
    token = max(first, key=len)
    head = (token, 1) if token.head == token else token.head
    with doc.retokenize() as retokenizer:
        retokenizer.split(token, [token.text[:1], token.text[1:]], heads=[(token, 1), head])
        retokenizer.merge(doc[second.start : second.start + 2])


def token_values(token):
    return {name: token._.get(name) for name in TOKEN_VALUES if token.has_extension(name)}


def span_values(span):
    return {name: span._.get(name) for name in SPAN_VALUES if span.has_extension(name)}


def test_merged_and_split_tokens(kind, load, texts):
    """Values are those of the very token, or nothing."""
    nlp = load(kind)
    doc = nlp(texts[8])
    if not doc.has_annotation("SENT_START"):
        doc = spacy.blank(nlp.lang, vocab=nlp.vocab).add_pipe("sentencizer")(doc)
    before = {(token.idx, token.text): token_values(token) for token in doc}
    sentences = {sent.text: span_values(sent) for sent in doc.sents}
    changed = list(sentences)[:2]
    trees = {tuple(doc[i].idx for i in tree.tokens): tree.parsed for tree in stored_trees(doc)}
    had_values = any(value for values in before.values() for value in values.values())
    retokenize(doc)
    kept = 0
    for token in doc:
        own = before.get((token.idx, token.text), {})
        for name, value in token_values(token).items():
            if value not in (None, {}):
                assert value == own[name]
                kept += 1
    assert (kept > 0) == had_values
    for sent in doc.sents:
        for name, value in span_values(sent).items():
            if sent.text in changed:
                assert not value
            elif name == "parses" and value is not None:  # they hold places, which have moved
                old = sentences[sent.text][name]
                assert [parse.probability for parse in value] == [p.probability for p in old]
            else:
                assert value == sentences[sent.text][name]
    for tree in stored_trees(doc):
        assert trees[tuple(doc[i].idx for i in tree.tokens)] == tree.parsed
    assert len(stored_trees(doc)) == max(0, len(trees) - 2)
    for _, pipe in nlp.pipeline[-1:]:  # and it goes on
        pipe(doc)


def test_annotation_without_gaps(kind, load, texts):
    """Whatever the text: every word gets what the component gives."""
    last = KINDS[kind].last if KINDS[kind].components else ""
    for doc in load(kind).pipe(texts):
        assert "".join(token.text_with_ws for token in doc) == doc.text
        words = [token for token in doc if not token.is_space]
        if not words:
            continue
        if "spectral_tagger" in KINDS[kind].components:
            assert all(token.tag_ for token in words)
            assert all(0 < sum(t._.tag_probs.values()) < 1 + 1e-5 for t in words)
        if last == "spectral_senter":
            assert all(0 <= token._.sent_start_prob <= 1 for token in words)
        if last == "spectral_lemmatizer":
            assert all(token.lemma_ for token in words)
        if "spectral_parser" in KINDS[kind].components:
            assert all(sum(t.head == t for t in sent) == 1 for sent in doc.sents)
            assert all(token.dep_ for token in words)
            known = [token._.head_prob for token in words if token._.head_prob is not None]
            assert all(0 <= prob < 1 + 1e-5 for prob in known)
            assert kind == "reranker" or len(known) == len(words)
            logs = [sent._.parse_logprob for sent in doc.sents if sent.text.strip()]
            assert numpy.isfinite(logs).all() and max(logs) < 1e-5
        if last == "spectral_refiner":
            assert all(token._.subtag and 0 < token._.subtag_prob < 1 + 1e-5 for token in words)
        if last == "spectral_reranker":
            assert all(s._.parses[0].tree.heads for s in doc.sents if s.text.strip())
        if last == "spectral_constituency":
            found = [i for tree in stored_trees(doc) for i in tree.tokens]
            assert found == [token.i for token in words]
            assert all(
                0 <= node.prob <= 1 for tree in stored_trees(doc) for node in tree.parsed.nodes
            )
        if last == "eigenwords":
            assert (
                numpy.isfinite(doc.similarity(doc[:1])) and len(words[0]._.eigenword_cluster) == 2
            )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].components])
def test_tags_that_nobody_has_seen(kind, load):
    nlp = load(kind)
    doc = Doc(
        nlp.vocab, words=["Qwx", "the", "dog"], tags=["??", "!!", "Ω"], sent_starts=[1, -1, -1]
    )
    again = nlp(doc.copy())
    assert [token.tag_ for token in again] == ["??", "!!", "Ω"]
    assert described(nlp(doc.copy())) == described(again)


OVERRIDDEN = {
    "spectral_senter": ({"threshold": 1.0}, lambda doc: len(list(doc.sents)) == 1),
    "spectral_tagger": ({"top_k": 1}, lambda doc: max(len(t._.tag_probs) for t in doc) == 1),
    "spectral_lemmatizer": ({"overwrite": True}, lambda doc: doc[0].lemma_ != "mine"),
    "spectral_parser": ({"store": ["marginals"]}, lambda doc: doc[0]._.head_prob is None),
    "spectral_reranker": ({"store": []}, lambda doc: next(doc.sents)._.parses is None),
    "spectral_refiner": ({"use_heads": False}, None),
    "spectral_constituency": (
        {"nbest": 0, "spans_key": None},
        lambda doc: not doc.spans and not any(tree.nbest for tree in stored_trees(doc)),
    ),
}


@pytest.mark.parametrize("kind", [k for k in KINDS if KINDS[k].components and k != "eigenwords"])
def test_settings_overridden_at_load_count(kind, saved, load, texts):
    settings, has_changed = OVERRIDDEN[KINDS[kind].last]
    config = {"components": {KINDS[kind].last: settings}}
    both = [load(kind), spacy.load(saved(kind), config=config)]
    for nlp, expected in zip(both, (False, True), strict=True):
        pipe = nlp.get_pipe(KINDS[kind].last)
        assert all((getattr(pipe, name) == value) == expected for name, value in settings.items())
        doc = nlp.make_doc(texts[8])
        doc[0].lemma_ = "mine"
        nlp(doc)
        assert has_changed is None or has_changed(doc) == expected


EVERYTHING = [
    "senter",
    "lemmatizer",
    "product",
    "forest reranker",
    "refiner",
    "constituency",
    "eigenwords",
]
SPAWN = """
    import multiprocessing, sys
    import spacy
    sys.path[:0] = sys.argv[2].split(":")
    from test_conditions_of_use import described

    if __name__ == "__main__":
        multiprocessing.set_start_method("spawn")
        nlp, texts = spacy.load(sys.argv[1]), sys.argv[3:]
        expected = [described(nlp(text)) for text in texts]
        assert [described(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=4)] == expected
        assert all(token._.subtag and token.lemma_ for token in nlp(texts[0]))
"""


def test_processes_that_are_spawned(saved, load, texts, tmp_path):
    """All components in one pipeline."""
    vocab = load("eigenwords", new=True).vocab
    nlp = spacy.blank(vocab.lang, config={"nlp": {"tokenizer": TOKENIZER}}, vocab=vocab)
    nlp.tokenizer.from_bytes(load("tokenizer").tokenizer.to_bytes())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W113\]")  # vectors
        for name in EVERYTHING:
            source = load(name)
            for component in source.pipe_names:
                if component not in nlp.pipe_names and component != "sentencizer":
                    nlp.add_pipe(component, source=source)
    assert len(nlp.pipe_names) == 8
    nlp.to_disk(tmp_path / "everything")
    script = tmp_path / "script.py"
    script.write_text(dedent(SPAWN))
    paths = ":".join(
        str(Path(__file__).parents[i] / name) for i, name in ((0, ""), (1, ""), (2, "scripts"))
    )
    command = [
        sys.executable,
        str(script),
        str(tmp_path / "everything"),
        paths,
        *filter(str.strip, texts),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
