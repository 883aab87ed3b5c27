"""Forests as text."""

import numpy
import pytest

from spacy_spectral.forest.learn import fit
from spacy_spectral.forest.text import read_forest

TEXT = """
# I read a book on the plane
variable attach = verb noun
variable read = past present   # a tense
variable plane = vehicle surface
nogood attach=noun plane=vehicle
feature high: attach=verb
feature low: attach=noun
feature low=0.5 far: attach=verb read!=present or plane=surface
feature always
"""


def test_reads_what_it_says():
    named = read_forest(TEXT)
    assert named.variables["read"] == ["past", "present"]
    assert named.properties == ["high", "low", "far", "always"]
    forest = named.forest
    assert forest.count() == pytest.approx(6)
    trees = {tuple(named.values(tree.values).values()) for tree in forest.best(numpy.zeros(4), k=9)}
    assert trees == {
        (attach, read, plane)
        for attach in ("verb", "noun")
        for read in ("past", "present")
        for plane in ("vehicle", "surface")
        if (attach, plane) != ("noun", "vehicle")
    }
    assert forest.properties([0, 0, 0]).tolist() == [1, 0.5, 1, 1]
    assert forest.properties([0, 1, 0]).tolist() == [1, 0, 0, 1]
    assert forest.properties([1, 1, 1]).tolist() == [0, 1.5, 1, 1]


def test_learns_from_what_is_observed():
    named = read_forest(TEXT)
    forest = named.forest
    theta = fit([(forest, forest.given({0: 0}))] * 3 + [(forest, forest.given({0: 1}))], l2=1e-6)
    # three of four readings are high: the maximum of likelihood says so, too
    assert forest.marginals(theta)[0] == pytest.approx([0.75, 0.25], abs=1e-4)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("variabel a = b", "begins with 'variabel'"),
        ("variable a", "needs values"),
        ("variable a = ", "needs values"),
        ("variable a = b b", "all different"),
        ("variable a = b:c", "without any of"),
        ("variable = b", "no name"),
        ("variable x = b", "given twice"),
        ("nogood", "condition is empty"),
        ("nogood x=1 or", "condition is empty"),
        ("nogood x", "no condition"),
        ("nogood x=3", r"no value \['3'\] of 'x'"),
        ("nogood y=1", "no variable 'y'"),
        ("feature", "needs a property"),
        ("feature a=b: x=1", "no property"),
        ("feature a: x=", "no condition"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(line, why):
    with pytest.raises(ValueError, match=rf"S907.*Line 2 .*{why}"):
        read_forest(f"variable x = 1 2\n{line}")


def test_no_goods_that_contradict_each_other_are_found_by_line():
    named = read_forest("variable x = 1 2\nnogood x=1\n\nvariable y = a b\nnogood y=a\nnogood x=2")
    assert [named.lines[i] for i in named.forest.contradiction()] == [2, 6]
