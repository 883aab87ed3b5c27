"""Drawings of parses: displaCy's own, with the probabilities of the arcs."""

import re
from html import unescape
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
from spacy_spectral.pipeline.constituents import stored_trees
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.documents import read_docs
from spacy_spectral.treebank.sample.draw import write_sample
from spacy_spectral.viz.arcs import Arc, Word, arcs_svg
from spacy_spectral.viz.markup import format_probability

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


@pytest.fixture
def parsed(trained, examples):
    doc = next(eg.predicted for eg in examples(trained, "dev") if len(eg.predicted) == 9)
    return trained(doc)


def test_nbest_has_a_line_for_every_parse(trained, parsed):
    html = displacy.render(parsed, style="nbest", nlp=trained, jupyter=False)
    (parses,) = trained.get_pipe("spectral_parser").nbest(parsed, k=5)
    lines = re.findall(r"<li>.*?</li>", html)
    assert len(lines) == len(parses) == 5
    shares = re.findall(r'class="share"[^>]*>([^<]+)<', html)
    found = [0.0 if unescape(share) == "<.001" else float(share) for share in shares]
    assert found == pytest.approx([numpy.exp(parse.logprob) for parse in parses], abs=0.001)
    tree = [token.head.i for token in parsed]
    for line, parse in zip(lines, parses, strict=True):
        assert ("the tree above" in line) == (parse.heads == tree)
        differing = sum(a != b for a, b in zip(parse.heads, tree, strict=True))
        assert line.count("<del>") >= differing
    assert 'class="row"' in html and html._repr_html_() == html
    assert displacy.render(parsed, style="nbest", nlp=trained, page=True, jupyter=False).startswith(
        "<!D"
    )


def test_marginals_are_a_table(trained, parsed):
    html = displacy.render(parsed, style="marginals", nlp=trained, jupyter=False)
    (marginals,) = trained.get_pipe("spectral_parser").marginals(parsed)
    rows = re.findall(r"<tr>(.*?)</tr>", html)[1:]
    assert len(rows) == len(parsed)
    for m, row in enumerate(rows):
        probs = [float(prob) for prob in re.findall(r': ([.\d]+)"', row)]
        # the root first, which is on the diagonal
        expected = [marginals[m, m], *numpy.delete(marginals[m], m)]
        assert probs == pytest.approx(expected, abs=0.0006)
        (framed,) = re.findall(r'class="tree"[^>]*title="([^"]*): ', row)
        token = parsed[m]
        head = "root" if token.head == token else token.head.text
        assert unescape(framed) == f"{token.text} ← {head}"


@pytest.mark.parametrize("style", ["nbest", "marginals"])
def test_styles_that_ask_the_parser_say_so(parsed, style):
    with pytest.raises(ValueError, match=r"S159.*nlp=nlp"):
        displacy.render(parsed, style=style, jupyter=False)


def test_constituents_need_no_style_and_have_a_rival(constituency):
    doc = constituency("The dog saw a man with a telescope.")
    alone = displacy.render(doc, jupyter=False)
    assert alone.count("<svg xmlns") == 1 and 'class="rival"' not in alone
    html = displacy.render(doc, nlp=constituency, jupyter=False)
    (bracket,) = re.findall(r'<g class="rival">.*?<text[^>]*>([^<]*)<', html)
    label, prob = unescape(bracket).split(" ")
    (tree,) = stored_trees(doc)
    (trees,) = constituency.get_pipe("spectral_constituency").nbest_trees(doc, 16)
    own = {node[:3] for node in tree.parsed.nodes}
    mass = {}
    for other in trees:
        for key in {node[:3] for node in other.nodes} - own:
            mass[key] = mass.get(key, 0.0) + numpy.exp(other.log_prob)
    best = max(mass.values())
    assert prob == format_probability(best)
    assert label in [key[0] for key, value in mass.items() if value == best]


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


def drawn(page, kind):
    return re.findall(rf'<svg[^>]* class="{kind}".*?</svg>', page, re.DOTALL)


def words(drawing):
    shown = re.findall(r'<text x="[^"]*" y="[^"]*" font-size="1[45]">([^<]*)<', drawing)
    return list(map(unescape, shown))


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
    assert figures.count("svg", "column") == 6
    assert figures.count("svg", "automaton") == 2
    assert page.count("P(tree)") == 6
    every = read_docs(files / "sample-dev.conllu", spacy.blank("en").vocab)
    references = [doc for doc in every if 6 <= len(doc) <= 25][:6]
    # every word has an arc with a probability, the root one too; what is wrong is marked
    shown = [words(column) for column in drawn(page, "column")]
    assert shown == [[token.text for token in reference] for reference in references]
    for column in drawn(page, "column"):
        assert column.count('<tspan class="number">') == len(words(column))
    # long sentences have no row; those that have one show tags
    rows = [re.findall(r'class="tag"[^>]*>([^<]+)<', row) for row in drawn(page, "row")]
    assert rows and all(
        tags in [[token.tag_ for token in reference] for reference in references] for tags in rows
    )
    wrong = [int(n) if n != "no" else 0 for n in re.findall(r"(\d+|no) wrong arc", page)]
    assert len(wrong) == 6 and 0 < sum(wrong) < sum(map(len, shown))
    assert [own.count('class="word wrong"') for own in drawn(page, "column")] == wrong
    assert [own.count('class="gold"') for own in drawn(page, "column")] == wrong
    for row in drawn(page, "row"):
        assert row.count('class="word wrong"') == row.count('class="gold"')
    run(files, files / name, *options, output="again.html")
    assert (files / "again.html").read_text("utf8") == page


def test_draw_runs_the_pipelines_tagger_without_gold_tags(files):
    code, _ = run(files, files / "sample-dev.conllu", "--limit", 15)
    assert code == 0
    rows = "".join(drawn((files / "page.html").read_text("utf8"), "row"))
    assert set(re.findall(r'class="tag"[^>]*>([^<]+)<', rows)) == {"NN", "."}


def test_draw_a_text(files):
    code, text = run(files, "Cats <b>sleep</b>. Dogs run & bark.")
    assert code == 0, text
    page = (files / "page.html").read_text("utf8")
    assert Figures(page).count("svg", "row") == 2
    assert "wrong arc" not in page  # what is right is not known
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


def test_a_sentence_is_shown_as_it_was_written(files):
    """Its words are drawn, which do not stand in it."""
    lines = ["1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_", "1\tde\t_\t_\tIN\t_\t3\tcase\t_\t_"]
    lines += ["2\tle\t_\t_\tDT\t_\t3\tdet\t_\t_", "3\tchat\t_\t_\tNN\t_\t0\troot\t_\t_"]
    (files / "du.conllu").write_text("\n".join(lines) + "\n\n", encoding="utf8")
    code, text = run(files, files / "du.conllu")
    assert code == 0, text
    page = (files / "page.html").read_text("utf8")
    assert "</span>du chat</span>" in page
    assert [words(row) for row in drawn(page, "row")] == [["de", "le", "chat"]]


def test_draw_with_the_best_parses(files):
    code, text = run(files, "Cats sleep. Dogs run.", "--nbest", 2)
    assert code == 0, text
    page = (files / "page.html").read_text("utf8")
    assert page.count("of all probability") == 2 and page.count("the tree above") == 2


def test_draw_a_picture(files):
    code, text = run(files, "The old cats sleep in a house.", output="picture.svg")
    assert code == 0, text
    root = ElementTree.parse(files / "picture.svg").getroot()
    assert root.tag == f"{SVG}svg"
    shown = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert {"old", "cats", "house"} <= set(shown)
    others = [group for group in root.iter(f"{SVG}g") if group.get("class") == "rival"]
    assert others  # the second-best arcs, below the words
    height = float(root.get("height"))
    assert all(0 <= float(element.get("y")) <= height for element in root.iter(f"{SVG}text"))


def test_the_first_word_is_on_the_right_where_one_writes_so():
    words = [Word("one", arc=Arc(1, "det")), Word("two", arc=Arc(1, "root"))]
    places = {}
    for direction in ("ltr", "rtl"):
        root = ElementTree.fromstring(arcs_svg(words, direction=direction))
        shown = {element.text: float(element.get("x")) for element in root.iter(f"{SVG}text")}
        places[direction] = shown
    assert places["ltr"]["one"] < places["ltr"]["two"]
    assert places["rtl"]["one"] > places["rtl"]["two"]


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
    assert f">{long[:16]}" in page and f">{long[:17]}…<" in page  # whole but in columns
    drawings = drawn(page, "(?:row|column)")
    assert len(drawings) == 6
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        is_row = root.get("class") == "row"
        for element in root.iter(f"{SVG}text"):
            shown = "".join(element.itertext())
            columns = sum(2 if ord(letter) > 0x3000 else 1 for letter in shown)
            wide = 0.55 * float(element.get("font-size", 11)) * columns
            left = float(element.get("x")) - (wide / 2 if is_row else 0)
            assert left >= 0 and left + wide <= float(root.get("width")), shown


def test_draw_chooses_sentences_that_are_good_to_look_at(files):
    short, good, endless = ([("word", "NN")] * n for n in (1, 8, 60))
    path = files / "mixed.conllu"
    path.write_text(conllu(short, good, endless, short, good), encoding="utf8")

    def lengths(limit):
        code, text = run(files, path, "--gold-tags", "--limit", limit)
        assert code == 0, text
        page = (files / "page.html").read_text("utf8")
        return [len(words(column)) for column in drawn(page, "column")]

    assert lengths(2) == [8, 8]
    assert lengths(3) == [1, 8, 8]
    assert lengths(9) == [1, 8, 60, 1, 8]
