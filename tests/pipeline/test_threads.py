"""One pipeline in several threads at a time, as web servers use it: what one thread gives, all give."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
import spacy

from memory import resident_memory
from spacy_spectral.models.eigenwords import clusters
from spacy_spectral.models.loglinear import encode
from spacy_spectral.models.tagger import model as tagger_model

TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 16,
    "depth": 1,
    "embed_size": 200,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}
LOGLINEAR = {"@architectures": "spacy-spectral.LogLinear.v1", "epochs": 1}
BIAFFINE = {"@architectures": "spacy-spectral.Biaffine.v1", "scan_size": 8, "tok2vec": TOK2VEC}
REFINED = {"@architectures": "spacy-spectral.Refined.v1", "states": 60}
RERANKER = {"@architectures": "spacy-spectral.Reranker.v1", "states": 4, "folds": 2}
PIPELINES = {
    "shag": {"spectral_tagger": {}, "spectral_parser": {}},
    "loglinear": {"spectral_tagger": {}, "spectral_parser": {"model": LOGLINEAR}},
    "biaffine": {"spectral_parser": {"model": BIAFFINE}},
    "refined": {
        "spectral_tagger": {},
        "spectral_parser": {"model": REFINED},
        "spectral_refiner": {"model": REFINED},
    },
    "reranker": {
        "spectral_tagger": {},
        "spectral_parser": {"model": LOGLINEAR},
        "spectral_reranker": {"model": RERANKER, "n": 5, "store": ["parses"]},
    },
}
THREADS = 4


@pytest.fixture(scope="module", params=PIPELINES)
def path(request, examples, tmp_path_factory):
    """Where a trained pipeline is saved that parses raw text."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    few = examples(nlp)[:80]
    for factory, config in PIPELINES[request.param].items():
        nlp.add_pipe(factory, config=config)
    parser_first = [name for name in nlp.component_names if name != "spectral_reranker"]
    with nlp.select_pipes(enable=parser_first):
        nlp.initialize(lambda: few)
    if "spectral_reranker" in nlp.component_names:
        nlp.get_pipe("spectral_reranker").initialize(lambda: few, nlp=nlp)
    path = tmp_path_factory.mktemp(request.param)
    nlp.to_disk(path)
    return path


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


def make_texts(sample, n, *, seed):
    """Sentences of the sample with words that nobody has seen."""
    words = [line.split("\t")[1] for line in sample["dev"].read_text().splitlines() if "\t" in line]
    rng = random.Random(seed)
    made = [f"{rng.choice(words)}{i}" for i in range(n)]
    return [" ".join(rng.choices([*words, *made], k=12)) + " ." for _ in range(n)]


def described(doc):
    tokens = [(t.tag_, t.pos_, str(t.morph), t.head.i, t.dep_, t._.head_prob) for t in doc]
    probs = [t._.tag_probs for t in doc] if doc[0].has_extension("tag_probs") else None
    parses = [s._.parses for s in doc.sents] if doc[:1].has_extension("parses") else None
    subtags = [t._.subtag for t in doc] if doc[0].has_extension("subtag") else None
    return tokens, probs, [s._.parse_logprob for s in doc.sents], parses, subtags


def test_threads_give_what_one_gives(path, sample, hurried):
    texts = make_texts(sample, 60, seed=1)
    one = spacy.load(path)
    expected = {text: described(one(text)) for text in texts}
    nlp = spacy.load(path)

    def work(seed):
        own = random.Random(seed).sample(texts, len(texts))
        return [(text, described(nlp(text))) for text in own]

    with ThreadPoolExecutor(THREADS) as pool:
        found = [pair for pairs in pool.map(work, range(THREADS)) for pair in pairs]
    assert len(found) == THREADS * len(texts)
    for text, result in found:
        assert result == expected[text]
    for text in texts:  # it is as good as new
        assert described(nlp(text)) == expected[text]


def test_batches_in_threads(path, sample, hurried):
    texts = make_texts(sample, 40, seed=2)
    nlp = spacy.load(path)
    expected = [described(doc) for doc in nlp.pipe(texts, batch_size=8)]

    def work(seed):
        return [described(doc) for doc in nlp.pipe(texts, batch_size=8)]

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(found == expected for found in pool.map(work, range(THREADS)))


def test_threads_that_ended_keep_no_memory(path, sample):
    nlp = spacy.load(path)
    words = " ".join(make_texts(sample, 12, seed=3)).replace(".", ",")

    def run(n):
        for _ in range(n):
            thread = Thread(target=nlp, args=(words,))
            thread.start()
            thread.join()

    run(4)
    before = resident_memory()
    run(40)
    assert resident_memory() - before < 20
