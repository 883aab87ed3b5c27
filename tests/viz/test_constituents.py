"""Drawings of constituency trees."""

import re
from itertools import combinations, pairwise
from random import Random
from xml.etree import ElementTree

import pytest
from spacy.tokens import Doc

from spacy_spectral import displacy
from spacy_spectral.models.constituency.trees import Node, Parsed
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


def segments(svg):
    """The straight parts of all edges."""
    result = []
    for x1, y1, x2, y2, down in re.findall(
        r'd="M([0-9.]+),([0-9.]+) L([0-9.]+),([0-9.]+)(?: V([0-9.]+))?"', svg
    ):
        result.append(((float(x1), float(y1)), (float(x2), float(y2))))
        if down and float(down) > float(y2):
            result.append(((float(x2), float(y2)), (float(x2), float(down))))
    return result


def crosses(one, other):
    def side(p, q, r):
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    (a, b), (c, d) = one, other
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


@pytest.mark.parametrize("seed", range(8))
def test_no_edge_crosses_another(seed):
    random = Random(seed)
    n, nodes = 9, []

    def grow(begin, end):
        nodes.append(Node("X", begin, end, random.random()))
        if end - begin > 1:
            cuts = sorted(
                random.sample(range(begin + 1, end), min(random.randint(1, 3), end - begin - 1))
            )
            for a, b in pairwise([begin, *cuts, end]):
                if random.random() < 0.6:
                    grow(a, b)

    grow(0, n)
    edges = segments(tree_svg(Parsed(nodes, ["T"] * n, 0.0), ["word"] * n))
    assert len(edges) >= len(nodes) - 1 + n
    assert not [pair for pair in combinations(edges, 2) if crosses(*pair)]


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


def test_a_tree_has_a_background():
    shapes = [
        part.tag.rpartition("}")[2] for part in ElementTree.fromstring(tree_svg(PARSED, WORDS))
    ]
    assert shapes[shapes.index("style") + 1] == "rect"


def test_labels_are_not_cut_off():
    """By the widths of wide letters: a label can be wider than the words below it."""
    label = "A-VERY-LONG-LABEL"
    parsed = Parsed(
        [Node(label, 0, 3, 0.5), Node(label, 0, 1, 0.5), Node(label, 2, 3, 0.5)], ["X"] * 3, -1.0
    )
    svg = tree_svg(parsed, ["I", "漢字漢字", "I"])
    width = float(ElementTree.fromstring(svg).get("width"))
    half = 4 * (len(label) + 3)
    xs = [x for kind, _, x, _ in texts(svg) if kind == "c"]
    assert half < min(xs) and max(xs) < width - half
    # nor over each other
    assert xs[2] - xs[1] > 2 * half
    words = [x for kind, _, x, _ in texts(svg) if kind == "w"]
    assert words[1] - words[0] > half


def test_displacy_draws_constituents(constituency, monkeypatch):
    words = ["The", "dog", "<b>", "barks", ".", "She", "sleeps", "."]
    starts = [i in (0, 5) for i in range(len(words))]
    doc = constituency(Doc(constituency.vocab, words=words, sent_starts=starts))
    sents = list(doc.sents)
    html = displacy.render(doc, style="constituents", jupyter=False)
    assert html.count("<svg") == len(sents) == 2
    assert displacy.render(sents, style="constituents", jupyter=False) == html
    assert displacy.render(sents[1], style="constituents", jupyter=False).count("<svg") == 1
    # no whole sentence
    assert "<svg" not in displacy.render(doc[0:2], style="constituents", jupyter=False)
    page = displacy.render(doc, style="constituents", jupyter=False, page=True, minify=True)
    assert page.lower().startswith("<!doctype html>")
    assert page.count("<svg") == 2
    monkeypatch.setattr("spacy.displacy.RENDER_WRAPPER", lambda html: f"<b>{html}</b>")
    assert displacy.render(doc, style="constituents", jupyter=False) == f"<b>{html}</b>"
    with pytest.raises(ValueError, match="S711"):
        displacy.render({"words": [], "arcs": []}, style="constituents", manual=True, jupyter=False)
