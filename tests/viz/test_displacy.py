"""Drawings of parses: displaCy's own, with the probabilities of the arcs."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import Doc, DocBin, Span
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral import displacy
from spacy_spectral.pipeline.annotations import ParseValues, store_parse
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample

SVG = "{http://www.w3.org/2000/svg}"
PROBABILITIES = [0.98, 0.5, 0.004, 1.0, 0.25, 0.731]


@pytest.fixture
def doc():
    nlp = spacy.blank("en")
    words = ["The", "cat", "<sat", ",", "down", "."]
    return Doc(
        nlp.vocab,
        words=words,
        heads=[1, 2, 2, 2, 2, 2],
        deps=["det", "nsubj", "ROOT", "punct", "a&b", "punct"],
        pos=["DET", "NOUN", "VERB", "PUNCT", "ADV", "PUNCT"],
        tags=["DT", "NN", "V<", ",", "RB", "."],
        spaces=[True, True, False, True, False, False],
    )


def with_probabilities(doc, values=PROBABILITIES):
    sents = numpy.array([*(sent.start for sent in doc.sents), len(doc)], dtype="int32")
    store_parse(doc, ParseValues(sents, numpy.array(values[: len(doc)], dtype="float32")))
    return doc


def drawn_arcs(markup):
    """Text of the label and opacity of every arc, in the order of drawing."""
    root = ElementTree.fromstring(markup)
    arcs = []
    for group in root.iter(f"{SVG}g"):
        paths = group.findall(f"{SVG}path")
        label = " ".join("".join(group.find(f"{SVG}text").itertext()).split())
        opacities = {path.get("opacity") for path in paths}
        assert len(paths) == 2 and len(opacities) == 1
        arcs.append((label, opacities.pop()))
    return arcs


def without_ids(markup):
    return re.sub(r"[0-9a-f]{16,32}-", "ID-", markup)


OPTIONS = [
    {},
    {"compact": True, "color": "#fff", "bg": "#000", "font": "Georgia", "distance": 99},
    {"collapse_phrases": False, "collapse_punct": False, "add_lemma": True},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("stored", [True, False])
def test_without_probabilities_it_is_displacys_own(doc, options, stored):
    for token in doc:
        token.tag_, token.dep_, token.lemma_ = "T", "d", "l"  # displaCy escapes none of them
    expected = spacy.displacy.render(doc, options=options, jupyter=False)
    if stored:
        options = options | {"probabilities": False}
        with_probabilities(doc)
    found = displacy.render(doc, options=options, jupyter=False)
    assert without_ids(found) == without_ids(expected)


@pytest.mark.parametrize("style", [{}, {"compact": True}, {"flat": True}])
def test_every_arc_shows_its_probability(doc, style):
    markup = displacy.render(
        with_probabilities(doc), options={"collapse_punct": False} | style, jupyter=False
    )
    root = [("root <.01", "0.15")] if style.get("flat") else []
    assert drawn_arcs(markup) == [
        ("det .98", "0.98"),
        ("nsubj .50", "0.57"),
        ("punct 1", "1.00"),
        ("a&b .25", "0.36"),
        ("punct .73", "0.77"),
        *root,
    ]


def test_where_none_is_stored_arcs_are_left_alone(doc):
    values = [numpy.nan, 0.5, numpy.nan, 1.0, numpy.nan, 0.7]
    markup = displacy.render(
        with_probabilities(doc, values), options={"collapse_punct": False}, jupyter=False
    )
    assert drawn_arcs(markup)[:2] == [("det", None), ("nsubj .50", "0.57")]


def test_merged_tokens_show_the_probability_of_their_root(doc):
    markup = displacy.render(with_probabilities(doc), jupyter=False)
    # "<sat," and "down." are one word each
    words = [word.text for word in ElementTree.fromstring(markup).iter(f"{SVG}tspan")]
    assert "<sat," in words and "down." in words
    assert drawn_arcs(markup) == [
        ("det .98", "0.98"),
        ("nsubj .50", "0.57"),
        ("a&b .25", "0.36"),
    ]


def test_collapsed_phrases():
    nlp = spacy.blank("en")
    doc = Doc(
        nlp.vocab,
        words=["Big", "cats", "see", "a", "dog"],
        heads=[1, 2, 2, 4, 2],
        deps=["amod", "nsubj", "ROOT", "det", "dobj"],
        pos=["ADJ", "NOUN", "VERB", "DET", "NOUN"],
    )
    markup = displacy.render(
        with_probabilities(doc, [0.1, 0.2, 0.3, 0.4, 0.5]),
        options={"collapse_phrases": True},
        jupyter=False,
    )
    assert [label for label, _ in drawn_arcs(markup)] == ["nsubj .20", "dobj .50"]


def test_spans_use_the_tokens_of_their_document():
    nlp = spacy.blank("en")
    doc = Doc(
        nlp.vocab,
        words=["Go", "!", "We", "left"],
        heads=[0, 0, 3, 3],
        deps=["ROOT", "punct", "nsubj", "ROOT"],
    )
    second = list(with_probabilities(doc, [0.1, 0.2, 0.3, 0.4]).sents)[1]
    assert drawn_arcs(displacy.render(second, jupyter=False)) == [("nsubj .30", "0.41")]


def test_same_parse_same_markup_and_several_have_own_ids(doc):
    with_probabilities(doc)
    one = displacy.render([doc, doc], jupyter=False, page=True)
    assert one == displacy.render([doc, doc], jupyter=False, page=True)
    ids = re.findall(r'<path class="displacy-arc" [^>]*id="([^"]+)"', one)
    assert len(ids) == len(set(ids)) == 6
    assert set(re.findall(r'xlink:href="#([^"]+)"', one)) == set(ids)


def test_manual_and_other_styles_and_minify(doc):
    manual = {
        "words": [{"text": "a", "tag": "X"}, {"text": "b", "tag": "Y"}],
        "arcs": [{"start": 0, "end": 1, "label": "l", "dir": "right", "prob": 0.75}],
    }
    markup = displacy.render(manual, manual=True, jupyter=False, minify=True)
    assert drawn_arcs(markup) == [("l .75", "0.79")]
    doc.ents = [Span(doc, 0, 2, label="ANIMAL")]
    assert 'class="entity"' in displacy.render(doc, style="ent", jupyter=False)
    with pytest.raises(ValueError, match="E087"):
        displacy.render(doc, style="nonsense", jupyter=False)


def test_flat_arcs_stay_inside_the_picture(doc):
    root = ElementTree.fromstring(
        displacy.render(with_probabilities(doc), options={"flat": True}, jupyter=False)
    )
    _, top, _, height = map(float, root.get("viewBox").split())
    assert height == float(root.get("height"))
    for element in root.iter(f"{SVG}text"):
        assert top <= float(element.get("y")) <= top + height


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model that splits sentences and has tags of its own, and a treebank."""
    path = tmp_path_factory.mktemp("draw")
    write_sample(path, train=300, dev=15, test=1)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    nlp.add_pipe("spectral_parser")
    corpus = Corpus(path / "sample-train.conllu")
    nlp.initialize(lambda: corpus(nlp))
    ruler.add([[{"IS_PUNCT": True}]], {"TAG": "."})
    ruler.add([[{"IS_PUNCT": False}]], {"TAG": "NN"})
    nlp.to_disk(path / "model")
    docs = list(read_docs(path / "sample-dev.conllu", nlp.vocab, n_sents=4))
    DocBin(docs=docs).to_disk(path / "dev.spacy")
    return path


class Figures(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def count(self, name, css=None):
        return sum(
            tag == name and (css is None or attributes.get("class") == css)
            for tag, attributes in self.tags
        )


def run(files, *arguments, output="page.html"):
    command = ["spectral", "draw", str(files / "model"), *map(str, arguments)]
    result = CliRunner().invoke(app, [*command, "--output", str(files / output)])
    return result.exit_code, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


@pytest.mark.parametrize("name", ["sample-dev.conllu", "dev.spacy"])
def test_draw_a_treebank_inside_its_sentences(files, name):
    options = ("--gold-tags", "--limit", 6, "--automaton", "NN:left", "--automaton", "VBD:right")
    code, text = run(files, files / name, *options, output=f"{name}.html")
    assert code == 0, text
    assert "6 sentences and 2 automata" in text
    page = (files / f"{name}.html").read_text("utf8")
    figures = Figures(page)
    assert figures.count("svg", "displacy") == 6
    assert figures.count("svg", "automaton") == 2
    assert page.count("P(tree)") == 6
    every = read_docs(files / "sample-dev.conllu", spacy.blank("en").vocab)
    references = [doc for doc in every if 6 <= len(doc) <= 25][:6]
    # every word has an arc with a probability, the root one from above
    assert figures.count("tspan", "displacy-prob") == sum(map(len, references))
    assert figures.count("g", "displacy-root") == len(references)
    tags = re.findall(r'displacy-tag"[^>]*>([^<]+)<', page)
    assert tags == [token.tag_ for reference in references for token in reference]
    run(files, files / name, *options, output="again.html")
    assert (files / "again.html").read_text("utf8") == page


def test_draw_runs_the_pipelines_tagger_without_gold_tags(files):
    code, _ = run(files, files / "sample-dev.conllu", "--limit", 2)
    assert code == 0
    tags = set(re.findall(r'displacy-tag"[^>]*>([^<]+)<', (files / "page.html").read_text()))
    assert tags == {"NN", "."}


def test_draw_a_text(files):
    code, text = run(files, "Cats <b>sleep</b>. Dogs run & bark.")
    assert code == 0, text
    page = (files / "page.html").read_text("utf8")
    assert Figures(page).count("svg", "displacy") == 2
    assert "Dogs run &amp; bark." in page and "<b>" not in page
    # on paper nothing can be scrolled: long sentences shrink into their card
    printed = page.partition("@media print")[2].partition("</style>")[0]
    assert re.search(r"\.scroll svg \{[^}]*max-width: 100% !important", printed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.conllu",), "S010"),
        (("A text.", "--automaton", "QQ:left"), r"S150.*QQ"),
        (("A text.", "--automaton", "NN"), "'NN'.*TAG:left"),
        (("A text.", "--automaton", "NN:up"), "S151"),
        (("A text.", "--automaton", "NN:left", "--component", "x"), "S154"),
        (("",), "S158"),
    ],
)
def test_draw_errors(files, arguments, message):
    code, text = run(files, *arguments, output="none.html")
    assert code == 1
    assert re.search(message, text)
    assert not (files / "none.html").exists()


def test_draw_needs_a_parser(files, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "model")
    code, text = run(tmp_path, "A text.")
    assert code == 1 and "parser" in text


def conllu(*sentences):
    lines = [
        f"{i}\t{word}\t_\t_\t{tag}\t_\t{i - 1}\t{'dep' if i > 1 else 'root'}\t_\t_"
        for words in sentences
        for i, (word, tag) in enumerate(words, start=1)
    ]
    return "\n".join("\n" + line if line.startswith("1\t") else line for line in lines) + "\n\n"


def test_nothing_is_cut_off_at_the_edges(files):
    """Words, tags and the root's label, by the widths of wide letters."""
    long = "Donaudampfschifffahrtsgesellschaftskapitaensmuetze"
    one, two = [(".", "Punc-of-the-end")], [(long, "NN"), (long, "NN")]
    path = files / "short.conllu"
    path.write_text(conllu(one, two, [("漢字漢字漢字漢字", "NN")]), encoding="utf8")
    code, text = run(files, path, "--gold-tags")
    assert code == 0, text
    page = (files / "page.html").read_text("utf8")
    assert page.count(long) == 2 and f">{long[:16]}…<" in page  # whole above the picture
    drawings = re.findall(r'<svg[^>]* class="displacy".*?</svg>', page, re.DOTALL)
    assert len(drawings) == 3
    sizes = {"displacy-word": 8.6, "displacy-tag": 7.6, "displacy-label": 6.2}
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        for element in root.iter():
            if element.get("class") in sizes and element.get("x"):
                shown = "".join(element.itertext())
                wide = sum(2 if ord(letter) > 0x3000 else 1 for letter in shown)
                half = sizes[element.get("class")] * wide / 2
                x = float(element.get("x"))
                assert half <= x <= float(root.get("width")) - half, shown


def test_draw_chooses_sentences_that_are_good_to_look_at(files):
    short, good, endless = ([("word", "NN")] * n for n in (1, 8, 60))
    path = files / "mixed.conllu"
    path.write_text(conllu(short, good, endless, short, good), encoding="utf8")

    def lengths(limit):
        code, text = run(files, path, "--gold-tags", "--limit", limit)
        assert code == 0, text
        page = (files / "page.html").read_text("utf8")
        return [part.count('class="displacy-word"') for part in page.split("<figure>")[1:]]

    assert lengths(2) == [8, 8]
    assert lengths(3) == [1, 8, 8]
    assert lengths(9) == [1, 8, 60, 1, 8]
