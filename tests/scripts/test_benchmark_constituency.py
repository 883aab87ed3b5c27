"""The benchmark of constituents: annotated trees, and its rows on the sample."""

import sys

import pytest
import spacy
from spacy.language import Language

from spacy_spectral.models.constituency.evalb import constituents, score_trees
from spacy_spectral.models.constituency.trees import Node, Parsed, clean
from spacy_spectral.treebank.brackets import read_brackets, write_tree


def test_annotated_trees(script, tmp_path):
    path = tmp_path / "a.ptb"
    path.write_text("(ROOT (S (NP (DT a) (JJ b) (NN c)) (VP (VBZ d)) (. .)))", encoding="utf8")
    tree = clean(next(read_brackets(path)))
    assert write_tree(script.annotated(tree)) == (
        "(ROOT^ROOT (S^ROOT (NP^S (DT a) (@NP^S<JJ (JJ b) (NN c))) "
        "(@S^ROOT>. (VP^S (VBZ d)) (. .))))"
    )


def test_annotation_is_taken_off(script, brackets):
    """Gold trees that were annotated are counted as what they were."""
    gold = script.Gold(brackets["dev"])
    parsed = []
    for tree in gold.trees:
        found, tags = constituents(script.annotated(tree))
        parsed.append(Parsed([Node(*own, 1.0) for own in found], tags, 0.0))
    counts = gold.count(parsed)
    assert counts.f1 == 1.0
    assert counts.exact_match == 1.0


def test_rows_on_the_sample(script, brackets, monkeypatch, capsys):
    monkeypatch.setattr(script, "ALONE", [("spectral", 1), ("spectral", 4)])
    command = ["benchmark", str(brackets["train"]), str(brackets["dev"]), "--limit", "150"]
    monkeypatch.setattr(sys, "argv", [*command, "--rows", "alone"])
    script.main()
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines() if "|" in line]
    scores = {name.strip(): float(f1) for name, f1 in rows[2:]}
    assert list(scores) == [
        "plain grammar, v=2 h=1",
        "plain grammar, v=1 h=0",
        "spectral, 4 states",
    ]
    assert all(score > 50 for score in scores.values())


class Chains:
    """A parser that puts every word on the one before it."""

    def __call__(self, doc):
        for token in doc:
            token.head, token.dep_ = doc[max(token.i - 1, 0)], "dep" if token.i else "root"
        return doc


@Language.factory("chains_of_benchmark")
def make_chains(nlp, name):
    return Chains()


def test_arcs_of_a_base(script, brackets, monkeypatch, tmp_path, capsys):
    base = spacy.blank("en")
    base.add_pipe("sentencizer", name="spectral_tagger", config={"overwrite": False})
    base.add_pipe("chains_of_benchmark", name="spectral_parser")
    base.to_disk(tmp_path / "base")
    trees = script.Gold(brackets["dev"]).trees
    arcs = script.find_arcs(base, trees)
    assert [own.heads.tolist() for own in arcs] == [[*range(len(own.labels))] for own in arcs]
    assert sum(len(own.labels) for own in arcs) == len(script.Gold(brackets["dev"]).words)
    command = ["benchmark", str(brackets["train"]), str(brackets["dev"]), "--limit", "100"]
    options = ["--rows", "product", "--states", "2", "--base", str(tmp_path / "base")]
    monkeypatch.setattr(sys, "argv", [*command, *options])
    script.main()
    assert float(capsys.readouterr().out.splitlines()[-1].split("|")[2]) > 50


JAVA = """#!{python}
import sys
# a parser that knows one tree: it learns nothing, and gives the gold tree of every second sentence
arguments = sys.argv[1:]
if "-path" in arguments:
    path = arguments[arguments.index("-path") + 1]
    assert open(path).readline().startswith("( (ROOT")
    open(arguments[arguments.index("-out") + 1], "w").write("grammar")
else:
    assert open(arguments[arguments.index("-gr") + 1]).read() == "grammar"
    words = open(arguments[arguments.index("-inputFile") + 1]).read().splitlines()
    gold = open({gold!r}).read().splitlines()
    assert len(words) == len(gold)
    lines = [line if i % 2 else "(())" for i, line in enumerate(gold)]
    open(arguments[arguments.index("-outputFile") + 1], "w").write("\\n".join(lines))
"""


def test_berkeley(script, brackets, monkeypatch, tmp_path, capsys):
    gold = script.Gold(brackets["dev"])
    (tmp_path / "gold").write_text("\n".join(map(write_tree, gold.trees)), encoding="utf8")
    java = tmp_path / "java"
    java.write_text(JAVA.format(python=sys.executable, gold=str(tmp_path / "gold")))
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    script.berkeley(tmp_path / "parser.jar", list(read_brackets(brackets["train"]))[:5], gold)
    shown = float(capsys.readouterr().out.splitlines()[-1].split("|")[2])
    # as if every other tree had no more than one constituent that gold trees lack
    expected = score_trees(gold.trees[1::2], gold.trees[1::2]).matched.total()
    total = score_trees(gold.trees, gold.trees).gold.total()
    predicted = expected + (len(gold.trees) + 1) // 2
    assert shown == pytest.approx(100 * 2 * expected / (total + predicted), abs=0.006)
    java.write_text("#!/bin/sh\necho no memory >&2\nexit 3\n")
    with pytest.raises(SystemExit, match="no memory"):
        script.berkeley(tmp_path / "parser.jar", [], gold)
