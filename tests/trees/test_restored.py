"""Probabilities of crossing arcs that were restored, against all labelled trees with theirs restored."""

import numpy
import pytest

from spacy_spectral.models.loglinear.architecture import build_loglinear
from spacy_spectral.models.refine.architecture import build_refined
from spacy_spectral.models.shag.architecture import build_shag
from spacy_spectral.trees.interface import Temperature
from spacy_spectral.trees.sentences import Tokens, Treebank

MODELS = {
    "SHAG": build_shag(states=2, lexical="LEX"),
    "LogLinear": build_loglinear(epochs=12, prune_threshold=0.0, prune_most=99, min_blocks=1),
    "Refined": build_refined(states=8, dimensions=2, cycles=1),
}


def crossing_treebank(n):
    """Sentences in which two arcs cross, from "we" to "now"; and as many without "what"."""
    words, symbols, heads, labels, starts = [], [], [], [], [0]
    for _ in range(n):
        for size in (4, 3):
            words += ["what", "we", "want", "now"][-size:]
            symbols += ["W", "P", "V", "R"][-size:]
            heads += [3, 4, 0, 3] if size == 4 else [2, 0, 2]
            labels += (
                ["obj", "mark", "root", "advmod"] if size == 4 else ["nsubj", "root", "advmod"]
            )
            starts.append(len(words))
    nothing = [""] * len(words)
    columns = words, symbols, [None] * len(words), nothing, nothing
    tokens = Tokens(numpy.array(starts, dtype="int32"), *columns)
    return Treebank(tokens, numpy.array(heads, dtype="int32"), labels)


@pytest.mark.parametrize("kind", MODELS)
def test_probabilities_are_those_of_restored_trees(kind):
    treebank = crossing_treebank(30)
    parser = (
        MODELS[kind]
        .attrs["recipe"]
        .fit(treebank, dev=None, clusters=None, vectors=None, report=lambda message: None)
    )
    parser = parser.with_temperature(Temperature(1.5, 1.0))
    parses = parser.parse(treebank.tokens.select(numpy.arange(len(treebank.tokens)) < 1))
    assert parses.heads.tolist() == [3, 4, 0, 3]  # the second arc crosses that from the root
    names = list(parser.label_names)
    assert [names[i] for i in parses.labels] == ["obj", "mark", "root", "advmod"]
    total, heads, arcs = 0.0, numpy.zeros(4), numpy.zeros(4)
    for tree in parses.k_best(0, 100_000, labelled=True):
        prob = numpy.exp(tree.log_prob)
        same = tree.heads == parses.heads
        total += prob
        heads += prob * same
        arcs += prob * (same & (tree.labels == parses.labels))
    # decorations of other tokens, which can lead to other heads, are unlikely
    found = parses.head_probs(), parses.label_probs()
    numpy.testing.assert_allclose(found[0], heads / total, atol=0.03)
    numpy.testing.assert_allclose(found[0] * found[1], arcs / total, atol=0.03)
    joint = {row[:3]: row[3] for row in parses.arcs(0, labelled=True, min_prob=0.0).rows()}
    lifted = joint[3, 2, names.index("mark||advmod")]
    marginals = parses.marginals(0)
    assert found[0][1] == pytest.approx(lifted + marginals[4, 2], rel=1e-5)
    assert found[0][1] * found[1][1] == pytest.approx(
        lifted + joint.get((4, 2, names.index("mark")), 0.0), rel=1e-5
    )
    others = [0, 2, 3]
    assert found[0][others] == pytest.approx(marginals[parses.heads, range(1, 5)][others], rel=1e-5)
