"""Binary trees stand for trees without loss, and heads are where Collins' rules say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.models.constituency.statistics import binary_trees, encode
from spacy_spectral.models.constituency.trees import (
    GROWS_LEFT,
    GROWS_RIGHT,
    PHRASE,
    WORD,
    Symbol,
    bare,
    binarize,
    clean,
    head_child,
)
from spacy_spectral.treebank.brackets import Tree, read_brackets, write_tree

# labels that look like those of binary trees must not be mistaken for them
LABELS = st.sampled_from(["S", "NP", "VP", "@S>", "@NP<", "NP+NN", "+", "-LRB-", "X"])
WORDS = st.sampled_from(["a", "b", "(", ")", "'s", "x+y"])
TREES = st.recursive(
    st.builds(lambda label, word: Tree(label, word=word), LABELS, WORDS),
    lambda inner: st.builds(Tree, LABELS, st.lists(inner, min_size=1, max_size=5)),
    max_leaves=12,
)


def read(tmp_path, text):
    path = tmp_path / "trees.ptb"
    path.write_text(text, encoding="utf8")
    return list(read_brackets(path))


def restore(words, symbols, left, right, root=""):
    """The tree that a binary tree stands for, by definition: parts are opened.

    words, symbols, left, right: By node, the root last; -1 stands for the children of words. root: The label
    around the tree.
    """
    parts, words = [], iter(words)
    for node, (symbol, a, b) in enumerate(zip(symbols, left, right, strict=True)):
        children = parts[a] + parts[b] if a >= 0 else []
        if a >= 0 and symbol.is_part and node < len(symbols) - 1:
            parts.append(children)
            continue
        *outer, label = symbol.labels
        tree = Tree(label, children) if a >= 0 else Tree(label, word=next(words))
        for label in reversed(outer):
            tree = Tree(label, [tree])
        parts.append([tree])
    ((tree,),) = parts[-1:]
    return Tree(root, [tree]) if root else tree


def back(tree):
    binary = binarize(tree)
    n = len(binary.words)
    assert len(binary.symbols) == len(binary.left) == 2 * n - 1
    return restore(binary.words, binary.symbols, binary.left, binary.right, root=binary.root)


@given(TREES)
def test_round_trip(tree):
    before = write_tree(tree)
    assert write_tree(back(tree)) == before
    assert write_tree(back(Tree("ROOT", [tree]))) == f"(ROOT {before})"
    assert write_tree(tree) == before


@given(TREES)
def test_nodes_are_consistent(tree):
    binary = binarize(tree)
    for node, (a, b) in enumerate(zip(binary.left, binary.right, strict=True)):
        if a < 0:
            assert b < 0
            assert binary.symbols[node].kind == WORD
            assert (binary.begin[node], binary.end[node]) == (
                binary.head[node],
                binary.head[node] + 1,
            )
        else:
            assert max(a, b) < node
            assert binary.begin[node] == binary.begin[a]
            assert binary.end[a] == binary.begin[b]
            assert binary.end[node] == binary.end[b]
            assert binary.head[node] in (binary.head[a], binary.head[b])


def test_head_outward():
    # the verb is the head: first what follows it, then what precedes it
    children = [Tree(label, word=label.lower()) for label in ("RB", "VBD", "NP", "PP")]
    binary = binarize(Tree("VP", children))
    phrases = [
        (symbol, binary.begin[i], binary.end[i])
        for i, symbol in enumerate(binary.symbols)
        if symbol.kind != WORD
    ]
    assert phrases == [
        (Symbol(("VP",), GROWS_RIGHT), 1, 3),
        (Symbol(("VP",), GROWS_RIGHT), 1, 4),
        (Symbol(("VP",), PHRASE), 0, 4),
    ]
    assert {binary.head[i] for i, s in enumerate(binary.symbols) if s.kind != WORD} == {1}
    binary = binarize(Tree("VP", children[:2] + [Tree("RB", word="x")] * 0))
    assert binary.symbols[-1] == Symbol(("VP",), PHRASE)
    three = binarize(Tree("NP", [Tree(label, word="w") for label in ("DT", "JJ", "NN")]))
    assert three.symbols[-2] == Symbol(("NP",), GROWS_LEFT)


def test_chains_are_one_symbol(tmp_path):
    tree = read(tmp_path, "(ROOT (S (VP (VB Go) (NP (NN home)))))")[0]
    binary = binarize(tree)
    assert [symbol.name for symbol in binary.symbols] == ["VB", "NP+NN", "S+VP"]
    assert binary.root == "ROOT"


@pytest.mark.parametrize(
    "label, expected",
    [("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("-LRB-", "-LRB-"), ("PRP$", "PRP$"), ("-", "-")],
)
def test_bare(label, expected):
    assert bare(label) == expected


def test_clean(tmp_path):
    text = "(ROOT (S (NP-SBJ (-NONE- *)) (VP (VB Go) (NP-LOC (NN home) (NP (-NONE- *T*-1))))))"
    tree = read(tmp_path, text)[0]
    before = write_tree(tree)
    assert write_tree(clean(tree)) == "(ROOT (S (VP (VB Go) (NP (NN home)))))"
    assert write_tree(tree) == before
    assert clean(Tree("S", [Tree("-NONE-", word="*")])) is None


def test_any_binary_tree_gives_a_tree():
    # parts of other phrases, and a part as the root, are what a model may find
    symbols = [
        Symbol(("NN",), WORD),
        Symbol(("NP", "NN"), WORD),
        Symbol(("VP",), GROWS_LEFT),
        Symbol(("NN",), WORD),
        Symbol(("NP",), GROWS_RIGHT),
    ]
    tree = restore(["a", "b", "c"], symbols, [-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3])
    assert write_tree(tree) == "(NP (NN a) (NP (NN b)) (NN c))"


def test_deep_trees():
    deep = Tree("NN", word="w")
    wide = Tree("NP", [Tree("NN", word="w") for _ in range(5000)])
    for _ in range(5000):
        deep = Tree("NP", [Tree("NN", word="w"), deep])
    assert write_tree(back(deep)) == write_tree(deep)
    assert write_tree(back(wide)) == write_tree(wide)
    assert write_tree(clean(deep)) == write_tree(deep)


@pytest.mark.parametrize(
    "label, children, expected",
    [
        ("NP", ["DT", "JJ", "NN"], 2),
        ("NP", ["NP", "PP"], 0),
        ("NP", ["NNP", "POS"], 1),
        ("VP", ["MD", "VP"], 0),
        ("S", ["NP", "VP", "."], 1),
        ("PP", ["IN", "NP"], 0),
        ("SBAR", ["IN", "S"], 0),
        # coordination
        ("NP", ["NN", "CC", "NN"], 0),
        # labels of another treebank
        ("GROUP", ["A", "GROUP", "B"], 1),
        ("GROUP", ["A", "B", ","], 1),
        ("GROUP", [",", ","], 1),
    ],
)
def test_heads(label, children, expected):
    assert head_child(label, children) == expected


def test_rare_chains_are_cut_from_the_outside(tmp_path):
    lines = ["(S (NP (NN a)) (VP (VB b)))"] * 3 + ["(S (X (NP (NN a))) (Y (Z (VB b))))"]
    corpus = encode(binary_trees(read(tmp_path, "\n".join(lines))), min_count=3)
    names = [symbol.name for symbol in corpus.grammar.symbols]
    # X+NP+NN counts as NP+NN; of Y+Z+VB nothing but the tag is frequent
    assert names == ["NP+NN", "VB", "VP+VB", "S"]
    assert corpus.symbol.tolist()[-3:] == [0, 1, 3]
    assert corpus.grammar.rules.tolist() == [[3, 0, 1], [3, 0, 2]]
    assert corpus.grammar.n_words == 3


def test_corpus(tmp_path):
    text = "(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))\n(ROOT (UH Yes))"
    corpus = encode(binary_trees(read(tmp_path, text)), min_count=1)
    assert corpus.words == ["the", "dog", "barks", ".", "Yes"]
    assert corpus.starts.tolist() == [0, 4, 5]
    assert corpus.node_starts.tolist() == [0, 7, 8]
    names = [corpus.grammar.symbols[i].name for i in corpus.symbol]
    assert names == ["DT", "NN", "NP", "VP+VBZ", ".", "@S>", "S", "UH"]
    assert corpus.parent.tolist() == [2, 2, 6, 5, 5, 6, -1, -1]
    assert [corpus.words[i] for i in corpus.head] == [
        "the",
        "dog",
        "dog",
        "barks",
        ".",
        "barks",
        "barks",
        "Yes",
    ]
    assert corpus.roots.tolist() == [6, 7]
    assert corpus.grammar.root == "ROOT"
    for node in range(8):
        if corpus.rule[node] >= 0:
            children = [corpus.symbol[corpus.left[node]], corpus.symbol[corpus.right[node]]]
            assert corpus.grammar.rules[corpus.rule[node]].tolist() == [
                corpus.symbol[node],
                *children,
            ]
