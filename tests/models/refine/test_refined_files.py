"""Files of refined grammars."""

import tracemalloc
from contextlib import contextmanager

import numpy
import pytest

from refine_data import treebank
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.refine.architecture import LABELLINGS, RefinedRecipe
from spacy_spectral.models.refine.model import RefinedGrammar


@pytest.mark.parametrize("labelling", LABELLINGS)
def test_round_trip_and_repetition(labelling):
    settings = RefinedRecipe(labelling=labelling, states=20, cycles=1)
    first = settings.fit(treebank(size=400))
    data = first.to_bytes()
    assert settings.fit(treebank(size=400)).to_bytes() == data
    second = RefinedGrammar.from_bytes(data)
    assert second.to_bytes() == data
    tokens = treebank(seed=3, size=20).tokens
    a, b = first.parse(tokens), second.parse(tokens)
    assert a.heads.tolist() == b.heads.tolist() and a.labels.tolist() == b.labels.tolist()
    assert a.log_probs().tobytes() == b.log_probs().tobytes()
    # sentence by sentence as all at once
    for s in range(len(tokens)):
        only = numpy.arange(len(tokens)) == s
        alone = first.parse(tokens.select(only))
        assert alone.marginals(0).tobytes() == a.marginals(s).tobytes()
    if labelling != "none":
        assert first.fine.tag_states.n_states > len(first.symbols)


def damaged(read):
    """Files that somebody made: every one is wrong in one way."""
    changes = {
        "tag_of": lambda x: x[::-1].copy(),
        "totals": lambda x: x[:-1],
        "words": lambda x: x[:-1],
        "symbols": lambda x: x[1:],
        "entries": lambda x: x + 10**6,
        "entry_counts": lambda x: x * 0,
        "lengths": lambda x: x * 0,
    }
    for name, change in changes.items():
        yield {**read, name: change(read[name])}
    for layer in ("coarse", "fine"):
        for name, change in (
            ("contexts", lambda x: x + 500),
            ("contexts", lambda x: x[::-1].copy()),
            ("counts", lambda x: x.astype("float64")),
            ("roots", lambda x: x[1:]),
        ):
            yield {**read, layer: {**read[layer], name: change(read[layer][name])}}
    yield {**read, "tag_of": numpy.zeros_like(read["tag_of"])}
    yield {**read, "settings": {**read["settings"], "prune": float("nan")}}
    yield {**read, "labels": {**read["labels"], "labels": ["x"]}}


def test_crafted_files_are_refused(grammar):
    read = unpack("refined grammar", 1, grammar.to_bytes())
    RefinedGrammar.from_bytes(pack("refined grammar", 1, read))
    for payload in damaged(read):
        with pytest.raises(ValueError, match="S005"):
            RefinedGrammar.from_bytes(pack("refined grammar", 1, payload))


@contextmanager
def peak():
    """YIELDS (List[int]): Empty; afterwards it has the most bytes that were in use at a time."""
    found = []
    tracemalloc.start()
    yield found
    found.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()


def made_large(read, n_tags, n_states, n_words):
    """A small file with large tables: all is seen once, one tag has the states that others leave."""

    def layer(k):
        contexts = numpy.indices((2, k, k + 1)).reshape(3, -1).T
        contexts = numpy.append(contexts, numpy.full((len(contexts), 1), k), axis=1)
        return {
            "contexts": contexts.astype("uint16"),
            "counts": numpy.ones(len(contexts), "uint32"),
            "roots": numpy.ones(k, "uint32"),
        }

    words = numpy.arange(n_words)
    return {
        **read,
        "symbols": [f"T{i}" for i in range(n_tags - 1)],
        "tag_of": numpy.maximum(numpy.arange(n_states) - n_states + n_tags, 0).astype("int32"),
        "totals": numpy.ones(n_states, "uint32"),
        "coarse": layer(n_tags),
        "fine": layer(n_states),
        "words": words.astype("str").tolist(),
        "entries": numpy.stack([words, 0 * words], axis=1).astype("uint32"),
        "entry_counts": numpy.ones(n_words, "uint32"),
        "lengths": numpy.full((n_tags, 2, n_tags, read["lengths"].shape[-1]), 0.1),
    }


@pytest.mark.parametrize(
    "sizes",
    [(300, 300, 1), (299, 300, 1), (200, 300, 1), (2, 300, 350_000)],
    ids=["tags", "groups", "k-means", "words"],
)
def test_files_can_not_ask_for_large_tables(grammar, sizes):
    """At the most tags and states that files can have, of a file of 13 MB at most: refused before anything is
    made of it."""
    read = unpack("refined grammar", 1, grammar.to_bytes())
    data = pack("refined grammar", 1, made_large(read, *sizes))
    with (
        peak() as found,
        pytest.raises(ValueError, match=r"S005.*'tag_of' has too many"),
    ):
        RefinedGrammar.from_bytes(data)
    assert len(data) < 14 << 20 and found[0] < 150 << 20


def test_loading_makes_little_beside_the_tables(grammar):
    """Not a table of all counts beside that of all distributions."""
    read = unpack("refined grammar", 1, grammar.to_bytes())
    data = pack("refined grammar", 1, made_large(read, 120, 120, 1))
    with peak() as found:
        loaded = RefinedGrammar.from_bytes(data)
    layers = {id(layer): layer for layer in (loaded.fine, *(p.layer for p in loaded._passes))}
    tables = sum(layer.transitions.rows.nbytes for layer in layers.values())
    assert tables > 40 << 20 and found[0] < 1.5 * tables
    # what was never seen is as likely as the wider contexts say
    numpy.testing.assert_allclose(loaded.fine.transitions.rows.sum(axis=1), 1.0, rtol=1e-4)


def test_grammars_that_could_not_be_loaded_are_not_made(monkeypatch):
    monkeypatch.setattr("spacy_spectral.models.refine.model._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"S808.*max_symbols"):
        RefinedRecipe().fit(treebank(size=40))
