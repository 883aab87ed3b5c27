"""`spacy spectral subtags`: a page that shows what was learnt, with the numbers of the grammar."""

import re
from html.parser import HTMLParser

import pytest
import spacy
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.viz.subtags import collect_examples, describe

REFINED = {"@architectures": "spacy-spectral.Refined.v1", "states": 50}


@pytest.fixture(scope="module")
def nlp(examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("spectral_parser", config={"model": REFINED})
    nlp.add_pipe("spectral_refiner", config={"model": REFINED, "parser": "spectral_parser"})
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.fixture(scope="module")
def path(nlp, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    nlp.to_disk(path)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", "subtags", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


class Balanced(HTMLParser):
    """Fails if elements are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_refiner_uses_the_grammar_of_the_parser(nlp):
    assert nlp.get_pipe("spectral_refiner").learnt is nlp.get_pipe("spectral_parser").grammar
    for parser, code in (("sentencizer", "S807"), ("spectral_parser", "S115"), ("nobody", "S118")):
        other = spacy.blank("en")
        other.add_pipe("sentencizer")
        other.add_pipe("spectral_parser")
        refiner = other.add_pipe("spectral_refiner", config={"parser": parser})
        with pytest.raises(ValueError, match=code):
            refiner.initialize(lambda: [], nlp=other)


def test_page(path, nlp, sample, tmp_path):
    output = tmp_path / "page.html"
    code, said = run(path, "--output", output, "--examples", sample["dev"])
    names = nlp.get_pipe("spectral_refiner").labels
    page = output.read_text(encoding="utf8")
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    shown = re.findall(r"<h3>(.*?)<span>", page)
    assert set(shown) == {name for name in names if not name.startswith("<unk>")}
    assert code == 0 and f" {len(shown)} sub-tags in " in said
    assert f">{len(shown)} sub-tags of " in page
    # cards are no wider than the screen of a telephone
    assert "minmax(min(" in page
    assert "<li>" in page and "<b>" in page
    # names of other sub-tags lead to their cards and tell their words
    targets = set(re.findall(r'<a href="#(.*?)" title=', page))
    assert targets and targets <= set(re.findall(r'<div class="card" id="(.*?)"', page))
    assert not re.search(r"<span>0%</span>", page)
    assert run(path, "-o", output, "--tag", "NN", "--tag", "VBZ")[0] == 0
    shown = re.findall(r"<h3>(.*?)<span>", output.read_text(encoding="utf8"))
    assert {name.rpartition(".")[0] for name in shown} == {"NN", "VBZ"}
    assert " of 2 tags" in output.read_text(encoding="utf8")
    assert run(path, "-o", output, "--tag", "NN")[0] == 0
    page = output.read_text(encoding="utf8")
    assert " of 1 tag." in page and re.search(r'left of <span title=".+?">VB', page)


def test_numbers_are_those_of_the_treebank(nlp, examples):
    """Heads and children of all tokens of a sub-tag, counted one by one."""
    grammar, refiner = nlp.get_pipe("spectral_parser").grammar, nlp.get_pipe("spectral_refiner")
    described = {own.name: own for own in describe(grammar)}
    assert sum(own.count for own in described.values()) == sum(
        len(example.reference) for example in examples(nlp)
    )
    for tag in ("NN", "VBZ"):
        own = [d for name, d in described.items() if name.rpartition(".")[0] == tag]
        assert sum(d.share for d in own) == pytest.approx(1.0)
    for own in described.values():
        assert sum(rate for _, rate in own.heads) <= 1 + 1e-9
        assert [rate for _, rate in own.heads] == sorted((r for _, r in own.heads), reverse=True)
    assert set(described) == set(refiner.labels)
    # a tag of one sub-tag: its children are those of the tag
    single = next(d for d in described.values() if d.name == "DT.1" or d.name == "TO.1")
    assert single.words


def test_examples_are_the_most_certain():
    sentences = [
        (["a", "b", "c", "d", "e", "f"], *as_arrays([0, 0, 1, 1, 1, 1], [0.5] * 6)),
        (["x", "b", "c", "d", "e"], *as_arrays([0, 1, 1, 1, 1], [0.9] * 5)),
    ]
    found = collect_examples(["A.1", "B.1"], sentences)
    assert found["A.1"][0] == (sentences[1][0], 0)
    assert len(found["B.1"]) == 3 and len({words[i] for words, i in found["B.1"]}) == 3


def as_arrays(states, probs):
    import numpy

    return numpy.array(states, dtype="int32"), numpy.array(probs, dtype="float32")


def test_failures(path, tmp_path):
    code, said = run(path, "-o", tmp_path / "x.html", "--tag", "NOPE")
    assert code == 1 and "S806" in said
    spacy.blank("en").to_disk(tmp_path / "blank")
    code, said = run(tmp_path / "blank", "-o", tmp_path / "x.html")
    assert code == 1 and "S805" in said
    code, said = run(path, "-o", tmp_path / "x.html", "--component", "nobody")
    assert code == 1 and "S805" in said
    (tmp_path / "file").write_text("")
    code, said = run(path, "-o", tmp_path / "file" / "x.html")
    assert code == 1 and "S004" in said
