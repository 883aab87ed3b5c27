"""Lexical models: proper distributions, and their product with automata in the chart."""

import numpy
import pytest

from arc_data import random_treebank
from brute_force import automata_probability, marginals, modifiers, projective_trees
from spacy_spectral.models.shag.backoff import LEXICAL_MODELS, LexicalModel
from spacy_spectral.models.shag.estimate import LEFT, RIGHT, EstimatorSettings
from spacy_spectral.models.shag.grammar import Grammar, GrammarSettings

TAGS = ["C", "N", "P", "V"]
WORDS = {"C": ["and"], "N": ["Dog", "cat", "bird"], "P": [",", "."], "V": ["runs", "sees"]}
RELATION = {"C": "cc", "N": "nsubj", "P": "punct", "V": "conj"}


def treebank(seed=0, size=80):
    def describe(rng, tags, heads):
        return [str(rng.choice(WORDS[tag])) for tag in tags], [RELATION[tag] for tag in tags]

    return random_treebank(TAGS, describe, longest=5, seed=seed, size=size)


def fit(kind, trees):
    ids = [numpy.array([TAGS.index(tag) for tag in tree.symbols], dtype="int32") for tree in trees]
    return LexicalModel.fit(trees, ids, len(TAGS), kind=kind)


@pytest.mark.parametrize("kind", LEXICAL_MODELS)
def test_classes(kind):
    classes = dict(zip(TAGS, fit(kind, treebank()).symbol_class.tolist(), strict=True))
    expected = {
        "LEX": {"C": 0, "N": 0, "P": 0, "V": 0},
        "LEX+F": {"C": 1, "N": 1, "P": 1, "V": 1},
        "LEX+FCP": {"C": 1, "N": 3, "P": 2, "V": 3},
    }
    assert classes == expected[kind]


def weights_of_pair(model, head, modifier, direction):
    """Factors of one arc by previous class, of the head's stop, of the root arc of the modifier.

    Each of head and modifier is (tag, word).
    """
    pair = [head, modifier] if direction == RIGHT else [modifier, head]
    h = pair.index(head) if head != modifier else (0 if direction == RIGHT else 1)
    symbols = numpy.array([TAGS.index(tag) for tag, _ in pair], dtype="int32")
    arcs, stop, root = model.weights(symbols, [word for _, word in pair], root_symbol=len(TAGS))
    return arcs[h, 1 - h], stop[h, direction], root[1 - h]


def unigram(trees):
    """P(word | tag) as the model's most general level has it, over all words and one unknown."""
    words = {word.lower() for tree in trees for word in tree.words}
    result = {}
    for tag in TAGS:
        seen = [
            w.lower() for t in trees for w, s in zip(t.words, t.symbols, strict=True) if s == tag
        ]
        trust = len(seen) / (len(seen) + 5 * len(set(seen)))
        for word in [*words, "?"]:
            general = (1 - trust) / (len(words) + 1)
            result[tag, word] = trust * seen.count(word) / len(seen) + general
    return result


@pytest.mark.parametrize("kind", LEXICAL_MODELS)
@pytest.mark.parametrize("direction", [LEFT, RIGHT])
def test_modifiers_and_stop_sum_to_one(kind, direction):
    trees = treebank()
    model, base = fit(kind, trees), unigram(trees)
    for head in [("V", "runs"), ("N", "Dog"), ("N", "unseen"), ("C", "and")]:
        total, root_total = numpy.zeros(model.n_classes), 0.0
        for (tag, word), share in base.items():
            arc, stop, root = weights_of_pair(model, head, (tag, word), direction)
            total += arc * share
            root_total += root * share
        numpy.testing.assert_allclose(total + stop, 1.0, rtol=1e-9)
        assert root_total == pytest.approx(1.0, abs=0.02)  # the root never stops; back-off may


@pytest.mark.parametrize("kind", LEXICAL_MODELS)
@pytest.mark.parametrize("estimator", ["spectral", "em", None])
@pytest.mark.parametrize("lengths", [False, True])
def test_product_with_automata_equals_enumeration(kind, estimator, lengths):
    """P(tree) ~ product over halves of automaton times lexical model times lengths (eq. 21)."""
    trees = treebank()
    grammar = Grammar.fit(
        trees,
        GrammarSettings(
            automata=EstimatorSettings(estimator=estimator or "det", states=3),
            lengths=lengths,
            lexical=kind,
            only_lexical=estimator is None,
        ),
    )
    words, tags = ["the", "Dog", ",", "and", "runs"], ["X", "N", "P", "C", "V"]
    n = len(words)
    symbols = grammar.symbols.encode(tags)
    root = len(grammar.symbols)
    arcs, stop, root_arc = grammar.lexical.weights(symbols, words, root_symbol=root)
    bins = [0, 1, 2, 3, 4, 4]
    scores = []
    for heads in projective_trees(n):
        score = root_arc[heads.index(0)]
        if estimator is not None:
            score *= automata_probability(grammar.automata, symbols.tolist(), heads)
        for h in range(1, n + 1):
            for side, sequence in enumerate(modifiers(heads, h)):
                previous = 0
                for m in sequence:
                    score *= arcs[h - 1, m - 1, previous]
                    previous = grammar.lexical.symbol_class[symbols[m - 1]]
                    if lengths:
                        distance = bins[abs(h - m) - 1]
                        score *= grammar.lengths[symbols[h - 1], side, symbols[m - 1], distance]
                score *= stop[h - 1, side, previous]
        scores.append(score)
    expected = marginals(scores, projective_trees(n)) / sum(scores)
    found = grammar.posterior(symbols, words).marginals
    if (expected >= 0).all():
        numpy.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    else:
        assert estimator == "spectral"
        expected = numpy.maximum(expected, 0.0)
        expected[:, 1:] /= expected[:, 1:].sum(axis=0)
        numpy.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_words_matter_and_case_does_not():
    model = fit("LEX", treebank())
    symbols = numpy.array([1, 3], dtype="int32")
    weights = [model.weights(symbols, words, root_symbol=4)[0] for words in (
        ["Dog", "runs"], ["dog", "RUNS"], ["cat", "runs"],
    )]  # fmt: skip
    numpy.testing.assert_array_equal(weights[0], weights[1])
    assert (weights[0] != weights[2]).any()


def test_unknown_kind():
    with pytest.raises(ValueError, match="S103"):
        fit("LEX+XYZ", treebank())
    with pytest.raises(ValueError, match="S103"):
        GrammarSettings(lexical="LEX+XYZ")
