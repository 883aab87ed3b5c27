"""Sentences of any length, for every chart: a text without punctuation is one."""

from pathlib import Path

import pytest

from kinds import KINDS
from memory import peak_memory

# in a process of its own, for the sake of its memory
PARSE = """
    import sys
    import numpy
    import spacy
    from spacy_spectral.trees._eisner import is_projective_tree

    sys.path.insert(0, sys.argv[1])
    from fuzz import numbers

    nlp = spacy.load(sys.argv[2])
    words = "the dog saw a man with the telescope and ran".split()
    for n in map(int, sys.argv[3:]):
        own = [words[i] for i in numpy.random.default_rng(n).integers(0, len(words), n)]
        doc = nlp(" ".join(own))  # a text without punctuation
        assert len(list(doc.sents)) >= 1 and len(doc) == n
        if "sentencizer" not in nlp.pipe_names:
            continue
        assert len(list(doc.sents)) == 1
        known = [value for _, value in numbers(doc) if value is not None]
        assert numpy.isfinite(known).all()
        # of constituents there is a number for the whole tree, of all else for every token
        least = 1 if "spectral_constituency" in nlp.pipe_names else n
        assert len(known) >= least or not nlp.pipe_names[1:]
"""
# of parsers all that can be asked for
ASK = """
        parser = nlp.get_pipe("spectral_parser")
        _, parses = parser.parse([doc])
        assert is_projective_tree(parses.heads)
        assert numpy.isfinite(parses.log_probs()).all() and (parses.log_probs() < 0).all()
        arcs = parses.arcs(0, min_prob=1e-5)
        sums = numpy.bincount(arcs.modifiers, arcs.probs)[1:]
        assert len(sums) == n and 0.9 < sums.min() <= sums.max() < 1 + 1e-5
        labelled = parses.arcs(0, labelled=True, min_prob=1e-3)
        assert (numpy.bincount(labelled.modifiers, labelled.probs) < 1 + 1e-5).all()
        found = parses.k_best(0, 8)
        assert len({parse.heads.tobytes() for parse in found}) == 8
        logs = [parse.log_prob for parse in found]
        assert logs == sorted(logs, reverse=True) and numpy.isfinite(logs).all()
        assert all(is_projective_tree(parse.heads) for parse in found)
"""
SCRIPTS = str(Path(__file__).parents[2] / "scripts")


# kinds whose charts are all tried by others
ELSEWHERE = {
    "tagger": ["lemmatizer"],
    "neural tagger": ["product of taggers"],
    "Biaffine.v1": ["product"],
    "Biaffine": ["product"],
    "LogLinear": ["product", "forest reranker"],
    "refiner": ["SHAG", "refined"],
    "reranker": ["forest reranker"],
    "constituency": ["constituency with a network"],
    "spans": ["constituency with a network"],
    "neural spans": ["constituency with a network"],
}
# Sentences are cut into pieces: time grows with their number. These take the longest for one.
SLOW = (
    "SHAG",
    "product",
    "refined",
    "forest reranker",
    "grammar",
    "constituency with a network",
)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ELSEWHERE])
def test_finite_and_small(kind, saved):
    is_parser = KINDS[kind].components and KINDS[kind].last == "spectral_parser"
    code = PARSE + (ASK if is_parser else "")
    longest = "2500" if kind in SLOW else "10000"
    assert peak_memory(code, SCRIPTS, str(saved(kind)), "800", longest) < 500


def test_kinds_that_are_left_out_have_others():
    assert {
        other for others in ELSEWHERE.values() for other in others
    } <= KINDS.keys() - ELSEWHERE.keys()
