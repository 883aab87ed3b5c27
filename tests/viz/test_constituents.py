"""Drawings of constituency trees."""

import re
from xml.etree import ElementTree

import pytest

from spacy_spectral.models.constituency.nodes import Node, Parsed
from spacy_spectral.viz.constituents import tree_svg

WORDS = ["The", "<b>", "barks", "&"]
PARSED = Parsed(
    [
        Node("ROOT", 0, 4, 1.0),
        Node("S", 0, 4, 0.9),
        Node("NP", 0, 2, 0.25),
        Node("VP", 2, 3, float("nan")),
    ],
    ["DT", "NN", "VBZ", "."],
    -1.0,
)


def texts(svg):
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    return [
        (element.get("class"), element.text, float(element.get("x")), float(element.get("y")))
        for element in root.iter(f"{space}text")
    ]


def test_everything_is_drawn_once():
    svg = tree_svg(PARSED, WORDS)
    found = texts(svg)
    assert [text for kind, text, *_ in found if kind == "w"] == WORDS
    assert [text for kind, text, *_ in found if kind == "c"] == ["ROOT", "S", "NP", "VP"]
    assert [text for kind, text, *_ in found if kind == "t"] == PARSED.tags
    # an edge to every node but the root
    assert svg.count("<path") == len(PARSED.nodes) - 1 + len(WORDS)
    assert svg == tree_svg(PARSED, WORDS)


def test_places():
    place = {text: (x, y) for _, text, x, y in texts(tree_svg(PARSED, WORDS))}
    xs = [place[word][0] for word in WORDS]
    assert xs == sorted(xs)
    assert len({place[word][1] for word in WORDS}) == 1
    # parents above their children, in the middle of them
    assert place["ROOT"][1] < place["S"][1] < place["NP"][1] < place["DT"][1] < place["The"][1]
    assert place["NP"][0] == pytest.approx((place["The"][0] + place["<b>"][0]) / 2, abs=0.2)


def test_probabilities():
    svg = tree_svg(PARSED, WORDS)
    assert re.findall(r'class="p" dx="4">([^<]*)<', svg) == [".90", ".25"]
    shades = re.findall(r'class="c"[^>]*opacity="([0-9.]+)">([A-Z]+)', svg)
    by_label = {label: float(shade) for shade, label in shades}
    assert by_label["NP"] < by_label["S"] <= by_label["ROOT"] == 1.0
    assert by_label["VP"] == 1.0


@pytest.mark.parametrize("words", [["a"], ["a"] * 40, ["漢字", "مرحبا"]])
def test_flat_trees(words):
    parsed = Parsed([], ["X"] * len(words), float("nan"))
    assert [text for kind, text, *_ in texts(tree_svg(parsed, words)) if kind == "w"] == words
