"""Toy grammars with states whose trees can all be written down, and a few trees."""

from itertools import product

import numpy

from spacy_spectral.models.constituency._forest import Forest
from spacy_spectral.models.constituency.statistics import Items, RulePairs, Symbols
from spacy_spectral.models.constituency.trees import PHRASE, WORD, Symbol
from spacy_spectral.treebank.brackets import read_brackets

TREES = """
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .)))
(ROOT (S (NP (DT the) (NN cat)) (VP (VBZ sleeps)) (. .)))
(ROOT (S (NP (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (DT the) (NN park))))) (. .)))
(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NN cat)) (PP (IN in) (NP (DT the) (NN park)))) (. .)))
(ROOT (NP (NN park)))
(ROOT (S (NP (DT a) (NN park)) (VP (VBZ sleeps) (PP (IN in) (NP (DT a) (NN dog)))) (. .)))
"""


def toy_symbols(n_words=2, n_phrases=2, keep=0.8, seed=0):
    """Random rules among a few symbols."""
    random = numpy.random.default_rng(seed)
    n = n_words + n_phrases
    symbols = [Symbol((f"w{i}",), WORD) for i in range(n_words)]
    symbols += [Symbol((f"P{i}",), PHRASE) for i in range(n_phrases)]
    triples = [
        (a, b, c)
        for a in range(n_words, n)
        for b in range(n)
        for c in range(n)
        if random.random() < keep
    ]
    rules = numpy.array(triples, dtype="int32")
    seen = numpy.full(len(rules), 2, dtype="uint8")
    return Symbols(symbols, n_words, rules, seen, numpy.zeros(len(rules)), "")


def full_forest(grammar, length):
    """All items of one sentence, connected."""
    items = []
    n = len(grammar)
    for width in range(1, length + 1):
        labels = range(grammar.n_words) if width == 1 else range(grammar.n_words, n)
        items += [(i, i + width, a) for i in range(length - width + 1) for a in labels]
    columns = numpy.array(items, dtype="int32").T.copy()
    return Forest.build(
        RulePairs(grammar),
        numpy.array([length], dtype="int32"),
        Items(numpy.array([0, len(items)]), *columns),
    )


def all_trees(forest, item):
    """Every tree below an item, as a list of (item, edge or -1)."""
    if forest.is_word[item]:
        return [[(item, -1)]]
    trees = []
    for edge in range(forest.edge_starts[item], forest.edge_starts[item + 1]):
        for left in all_trees(forest, int(forest.left[edge])):
            for right in all_trees(forest, int(forest.right[edge])):
                trees.append([(item, edge), *left, *right])
    return trees


def sentence_trees(forest, sentence=0):
    first, last = forest.starts[sentence], forest.starts[sentence + 1]
    roots = [item for item in range(first, last) if forest.is_root[item]]
    return [tree for root in roots for tree in all_trees(forest, root)]


def read(tmp_path, text=TREES):
    path = tmp_path / "trees.ptb"
    path.write_text(text, encoding="utf8")
    return list(read_brackets(path))


def binary_brackets(begin, end):
    """All ways to bracket some words, as lists of spans."""
    if end - begin == 1:
        return [[(begin, end)]]
    return [
        [(begin, end), *left, *right]
        for k in range(begin + 1, end)
        for left, right in product(binary_brackets(begin, k), binary_brackets(k, end))
    ]
