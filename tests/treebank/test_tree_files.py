"""Constituency trees in files: Negra's export format, CoNLL-2012's columns, words of the Penn Treebank."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.treebank.brackets import (
    Tree,
    is_bracketed,
    penn_word,
    plain_word,
    read_brackets,
    read_trees,
    write_tree,
)
from spacy_spectral.treebank.conllu import TreebankError

# of two sentences: in the first, the particle is apart from its verb, and a comma is at the root
EXPORT = """%% made up for tests
#FORMAT 3
#BOT ORIGIN
0 -- nobody
#EOT ORIGIN
#BOS 1 0 1098266456 1 %% a comment
Er\tPPER\t3.Sg\tSB\t502
rief\tVVFIN\t3.Sg\tHD\t501
,\t$,\t--\t--\t0
sagt\tVVFIN\t--\tHD\t500
sie\tPPER\t--\tSB\t500
,\t$,\t--\t--\t0
an\tPTKVZ\t--\tSVP\t501
(\t$(\t--\t--\t0
#500\tS\t--\tPAR\t502
#501\tVP\t--\tHD\t502
#502\tS\t--\t--\t0
#EOS 1
#BOS 2 0 0 1
Ja\tPTKANT\t--\t--\t0
#EOS 2
"""
LEMMAS = """#BOS 7
Die die ART -- NK 500 OA 501 %% secondary edges are left out
Hunde Hund NN -- NK 500
bellen bellen VVFIN -- HD 501
#500 -- NP -- SB 501
#501 -- S -- -- 0
#EOS 7
"""
COLUMNS = """#begin document (bc/a/00/a_0001); part 000
bc/a/00/a_0001 0 0 The   DT  (TOP(S(NP*  - - - Speaker#1 * -
bc/a/00/a_0001 0 1 dog   NN         *)  - - - Speaker#1 * -
bc/a/00/a_0001 0 2 barks VBZ     (VP*)  bark - - Speaker#1 * -
bc/a/00/a_0001 0 3 -RRB- -RRB-      *))  - - - Speaker#1 * -

bc/a/00/a_0001 0 0 Yes UH (TOP(INTJ*))  - - - Speaker#1 * -
#end document
"""


def write(path, text):
    path.write_text(text, encoding="utf8")
    return path


def lines(path):
    return [write_tree(tree) for tree in read_trees(path)]


def test_export(tmp_path):
    assert lines(write(tmp_path / "a.export", EXPORT)) == [
        # the verb is the head of VP, so the particle is given to S; commas are put where they stand
        "(ROOT (S (PPER Er) (VP (VVFIN rief)) ($, ,) (S (VVFIN sagt) (PPER sie)) ($, ,) (PTKVZ an)) "
        "($[ -LRB-))",
        "(ROOT (PTKANT Ja))",
    ]
    expected = "(ROOT (S (NP (ART Die) (NN Hunde)) (VVFIN bellen)))"
    # without a header, the number of columns tells the format
    assert lines(write(tmp_path / "b.export", LEMMAS)) == [expected]
    assert lines(write(tmp_path / "c.export", f"#FORMAT 4\n{LEMMAS}")) == [expected]


def test_columns(tmp_path):
    for name in ("a.gold_conll", "a.v4_gold_conll", "a.V4_AUTO_CONLL"):
        assert lines(write(tmp_path / name, COLUMNS)) == [
            "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (-RRB- -RRB-)))",
            "(TOP (INTJ (UH Yes)))",
        ]
    with gzip.open(tmp_path / "a.gold_conll.gz", "wt", encoding="utf8") as file:
        file.write(COLUMNS)
    assert len(lines(tmp_path / "a.gold_conll.gz")) == 2
    assert is_bracketed("a.export") and is_bracketed("a.mrg.gz")
    assert not is_bracketed("a.conll") and not is_bracketed("a.conllu.gz")


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("name", "text", "where", "code"),
    [
        ("a.export", "", "", "S012"),
        ("a.export", "%% nothing\n#FORMAT 3\n", "", "S012"),
        ("a.export", "#FORMAT 5\n", ":1", "S043"),
        ("a.export", EXPORT.rpartition("#EOS")[0], ":19", "S044"),
        ("a.export", replaced(EXPORT, "#EOS 1\n", ""), ":6", "S044"),
        ("a.export", replaced(EXPORT, "#EOS 1\n", "#EOS 3\n"), ":18", "S045"),
        ("a.export", "#EOS 1\n", ":1", "S045"),
        ("a.export", replaced(EXPORT, "#BOS 2", "word NN -- -- 0\n#BOS 2"), ":19", "S036"),
        ("a.export", replaced(EXPORT, "Ja\tPTKANT\t--\t--\t0\n", ""), ":19", "S037"),
        ("a.export", replaced(EXPORT, "\tSB\t502", "\t502"), ":7", "S047"),
        ("a.export", replaced(LEMMAS, "-- NK 500\n", "500\n"), ":3", "S047"),
        ("a.export", replaced(EXPORT, "SB\t502", "SB\t777"), ":7", "S048"),
        ("a.export", replaced(EXPORT, "SB\t502", "SB\t-1"), ":7", "S048"),
        ("a.export", replaced(EXPORT, "PAR\t502", "PAR\t600"), ":15", "S048"),
        ("a.export", replaced(EXPORT, "#500\tS", "#501\tS"), ":16", "S046"),
        ("a.export", replaced(EXPORT, "#502\tS\t--\t--\t0", "#502\tS\t--\t--\t501"), ":1[67]", "S049"),
        ("a.export", replaced(EXPORT, "#EOS 1", "#503\tNP\t--\t--\t0\n#EOS 1"), ":18", "S037"),
        ("a.gold_conll", "#begin document (a);\n#end document\n", "", "S012"),
        ("a.gold_conll", replaced(COLUMNS, "VBZ ", ""), ":4", "S042"),
        ("a.gold_conll", "a 0 0 The DT\n", ":1", "S041"),
        ("a.gold_conll", replaced(COLUMNS, "0 2 barks", "0 3 barks"), ":4", "S014"),
        ("a.gold_conll", replaced(COLUMNS, "(VP*)", "(VP)"), ":4", "S042"),
        ("a.gold_conll", replaced(COLUMNS, "(VP*)", "-"), ":4", "S042"),
        ("a.gold_conll", replaced(COLUMNS, "*))", "*)"), ":2", "S039"),
        ("a.gold_conll", replaced(COLUMNS, "*))", "*)))"), ":5", "S036"),
        ("a.gold_conll", replaced(COLUMNS, "(VP*)", "(VP*))))"), ":4", "S036"),
        ("a.gold_conll", replaced(COLUMNS, "(VP*)", "(VP*)))"), ":5", "S036"),
        ("a.gold_conll", replaced(COLUMNS, "(TOP(S(NP*", "*"), ":2", "S036"),
        ("a.gold_conll", replaced(COLUMNS, "\n\n", "\n"), ":6", "S014"),
    ],
)  # fmt: skip
def test_damaged_files(tmp_path, name, text, where, code):
    path = write(tmp_path / name, text)
    with pytest.raises(TreebankError, match=rf"{name}{where}: .*{code}"):
        list(read_trees(path))


@given(
    st.sampled_from([("a.export", EXPORT), ("a.export", LEMMAS), ("a.gold_conll", COLUMNS)]),
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 12),
            st.sampled_from(["", "(", ")", "*", "#", "500", "0", "\n", "\t", "%%", "#EOS 1"]),
        ),
        max_size=4,
    ),
)
def test_any_damage_is_an_error_of_the_treebank(tmp_path_factory, file, changes):
    name, text = file
    for where, n, new in changes:
        at = int(where * len(text))
        text = text[:at] + new + text[at + n :]
    path = write(tmp_path_factory.mktemp("damage") / name, text)
    try:
        found = list(read_trees(path))
    except TreebankError:
        return
    assert found and all(leaf.word for tree in found for leaf in tree.leaves())


words = st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1, max_size=5)
plain_words = words.filter(
    lambda word: plain_word(word) == word and "%%" not in word and word[0] != "#"
)
labels = st.sampled_from(["S", "NP", "VP", "CNP"])
leaves = st.builds(
    lambda tag, word: Tree(tag, word=word), st.sampled_from(["NN", "VVFIN", "$,"]), plain_words
)
trees = st.recursive(
    leaves,
    lambda children: st.builds(Tree, labels, st.lists(children, min_size=1, max_size=3)),
    max_leaves=8,
).map(lambda tree: Tree("ROOT", [tree]))


def as_columns(tree):
    rows = []

    def visit(node, opened):
        if node.word:
            rows.append([node.word, node.label, opened + "*"])
            return
        for i, child in enumerate(node.children):
            visit(child, opened + f"({node.label}" if not i else "")
        rows[-1][2] += ")"

    visit(tree, "")
    numbered = (" ".join(["d", "0", str(i), *row, "-"]) for i, row in enumerate(rows))
    return "\n".join(numbered) + "\n\n"


def as_export(tree, name):
    rows: list[str] = []
    nodes: list[str] = []

    def visit(node, parent):
        if node.word:
            rows.append(f"{node.word}\t{node.label}\t--\t--\t{parent}")
            return
        number = 500 + len(nodes)
        nodes.append(f"#{number}\t{node.label}\t--\t--\t{parent}")
        for child in node.children:
            visit(child, number)

    for child in tree.children:
        visit(child, 0)
    return "\n".join([f"#BOS {name}", *rows, *nodes, f"#EOS {name}"]) + "\n"


@given(st.lists(trees, min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, forest):
    path = tmp_path_factory.mktemp("trees")
    columns = write(path / "a.gold_conll", "".join(map(as_columns, forest)))
    assert list(read_trees(columns)) == forest
    export = write(path / "a.export", "".join(as_export(t, i) for i, t in enumerate(forest)))
    assert list(read_trees(export)) == forest
    brackets = write(path / "a.ptb", "\n".join(map(write_tree, forest)))
    assert list(read_trees(brackets)) == forest


@st.composite
def any_export(draw):
    """Words and nodes with any parents, as long as every node has words in the end."""
    n = draw(st.integers(1, 7))
    n_nodes = draw(st.integers(1, 4))
    rows = [
        (f"w{i}", draw(st.sampled_from(["HD", "--"])), draw(st.integers(0, n_nodes)))
        for i in range(n)
    ]
    nodes = [(i, draw(st.integers(0, i - 1))) for i in range(1, n_nodes + 1)]
    return rows, nodes


@given(any_export())
def test_gaps_are_closed(tmp_path_factory, drawn):
    rows, nodes = drawn
    number = {0: 0} | {i: 499 + i for i, _ in nodes}
    text = [f"{word}\tT\t--\t{edge}\t{number[parent]}" for word, edge, parent in rows]
    text += [f"#{number[i]}\tN{i}\t--\t--\t{number[parent]}" for i, parent in nodes]
    path = tmp_path_factory.mktemp("export") / "a.export"
    write(path, "\n".join(["#BOS 1", *text, "#EOS 1"]))
    parents = dict(nodes)
    filled = {0}
    for _, _, parent in rows:
        while parent:
            filled.add(parent)
            parent = parents[parent]
    if len(filled) <= len(nodes):
        with pytest.raises(TreebankError, match="S037"):
            list(read_trees(path))
        return
    (tree,) = read_trees(path)
    # all words are there in their order, and all constituents with some of their words
    assert [leaf.word for leaf in tree.leaves()] == [word for word, *_ in rows]
    stack, found = list(tree.children), []
    while stack:
        node = stack.pop()
        if not node.word:
            assert node.children
            found.append(node.label)
            stack += node.children
    assert sorted(found) == sorted(f"N{i}" for i, _ in nodes)


PENN = [
    ("``", "``", '"'), ("''", "''", '"'), ("``", "`", "'"), ("-LRB-", "-LRB-", "("), ("-RRB-", "-RCB-", "}"),
    ("-LRB-", "-LSB-", "["), ("CD", r"1\/2", "1/2"), ("SYM", r"\*", "*"), ("POS", "'", "'"),
    ("RB", "n't", "n't"), ("NN", ":-RRB-", ":)"), ("''", "'", "'"), ("NN", "a_b", "a_b"),
]  # fmt: skip


@pytest.mark.parametrize(("tag", "penn", "plain"), PENN)
def test_words_of_the_penn_treebank(tmp_path, tag, penn, plain):
    assert plain_word(penn) == plain
    assert penn_word(plain, tag) == penn
    line = f"(S ({tag} {penn}) (NN a))"
    (tree,) = read_brackets(write(tmp_path / "a.mrg", line))
    assert next(tree.leaves()).word == plain
    assert write_tree(tree, penn=True) == line


def test_words_of_texts_in_the_penn_treebank():
    found = [
        penn_word(*own)
        for own in (("“", "``"), ("”", "''"), ("don’t", "VB"), ("…", ":"), ("—", ":"))
    ]
    assert found == ["``", "''", "don't", "...", "--"]
    assert penn_word("a b", "NN") == "a_b"


@given(words, st.sampled_from(["NN", "``", "''", "POS"]))
def test_penn_words_are_stable(word, tag):
    """What was written once is written again as it was."""
    once = penn_word(plain_word(word), tag)
    assert penn_word(plain_word(once), tag) == once
    assert not set(once) & set("()[]{}")
