"""The report: its numbers against the commands that print them, what it says of odd data, how large it is."""

import re
from html.parser import HTMLParser

import numpy
import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.cli.evaluate import evaluate
from spacy_spectral.measure import measure, paired_bootstrap, read_sentences


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", "report", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(re.sub(r"\x1b\[[0-9;]*m", "", result.output).split())


class Page(HTMLParser):
    """Tables and headings of a page; complains of elements that are not closed."""

    EMPTY = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.rows, self.cells = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in self.EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def row(self, name):
        return next(row for row in self.rows if row[:1] == [name])


@pytest.fixture(scope="module")
def pipeline(trained, tmp_path_factory):
    directory = tmp_path_factory.mktemp("pipeline")
    trained.to_disk(directory)
    return directory


@pytest.fixture(scope="module")
def tagged(sample, tmp_path_factory):
    """A treebank that a pipeline without tagger can parse: .spacy files keep tags for `annotations`."""
    return sample["dev"]


def report(output, *arguments):
    code, shown = run(*arguments, "-o", output)
    assert code == 0, shown
    text = output.read_text("utf8")
    return text, Page(text)


def shown_percent(value):
    return f"{100 * value:.1f} %"


@pytest.fixture(scope="module")
def raw_model(few, tmp_path_factory):
    """The pipeline from raw text, of the sample."""
    from spacy.training.initialize import init_nlp
    from spacy.util import load_config

    config = load_config(
        "configs/pipeline.cfg",
        overrides={"paths.train": str(few["train"]), "paths.dev": str(few["dev"])},
        interpolate=False,
    )
    directory = tmp_path_factory.mktemp("raw") / "model"
    init_nlp(config).to_disk(directory)
    return directory


def test_numbers_are_those_of_evaluate(raw_model, few, tmp_path):
    text, page = report(tmp_path / "report.html", raw_model, few["test"])
    nlp = spacy.load(raw_model)
    scores, curves = evaluate(nlp, few["test"])
    assert page.row("UAS, all words")[1] == shown_percent(scores["uas"])
    assert page.row("LAS without punctuation")[1] == shown_percent(scores["las_no_punct"])
    assert page.row("Lemmas")[1] == shown_percent(scores["lemma_acc"])
    assert page.row("arcs")[1:4] == [
        shown_percent(value)
        for value in (
            curves["arcs"].mean_probability,
            curves["arcs"].share_right,
            curves["arcs"].error,
        )
    ]
    words = [int(row[1].replace(",", "")) for row in page.rows if row[0] in ("the root", "1", "2")]
    assert len(words) == 3 and sum(words) <= scores["tokens"]
    assert page.headings == [
        *("Scores", "Where it is right", "Labels", "Probabilities", "Sentences"),
        *("Annotation that the model doubts", "Tags"),
    ]
    # nothing is looked for elsewhere, and nothing that a script would do is needed
    assert not re.search(r"<script|<link|<img|url\(|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "prefers-color-scheme: dark" in text


def test_by_label_against_counts_by_hand(raw_model, few, tmp_path):
    _, page = report(tmp_path / "report.html", raw_model, few["test"], "--no-raw")
    nlp = spacy.load(raw_model)
    found = measure(nlp, few["test"], read_sentences(few["test"], nlp.vocab), title="", raw=False)
    own = [word for word in found.words if word.label == "nsubj"]
    right = sum(word.arc_right for word in own)
    row = page.row("nsubj")
    assert row[1] == str(len(own))
    assert row[3] == shown_percent(right / len(own))
    # every scored word is in one of the ranges of every table
    for name in ("1-5 words", "6-10 words", "11-20 words"):
        assert page.row(name)
    assert found.has_arcs and found.has_tags and not found.has_brackets


def test_errors_are_marked_where_they_are(raw_model, few, tmp_path):
    text, _ = report(tmp_path / "report.html", raw_model, few["test"], "--no-raw")
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert figures
    for figure in figures:
        said = re.search(r"(\d+) of \d+ arcs are wrong", figure)
        if said:
            drawings = re.findall(r"<svg.*?</svg>", figure, re.S)
            assert len(drawings) == 1 if 'class="arcs long"' in figure else 2
            for drawing in drawings:
                assert drawing.count('class="word wrong"') == int(said[1])
                assert drawing.count('class="gold"') == int(said[1])
                assert "second best: " in drawing


def test_two_pipelines(raw_model, pipeline, few, tmp_path):
    first, _ = report(
        tmp_path / "a.html", raw_model, few["test"], "--against", raw_model, "--no-raw"
    )
    page = Page(first)
    (row,) = [row for row in page.rows if row[0] == "LAS" and len(row) == 8]
    assert row[3:] == ["+0.0", "+0.0 to +0.0", "1.0000", "0", "0"]
    second, _ = report(
        tmp_path / "b.html", raw_model, few["test"], "--against", raw_model, "--no-raw"
    )
    speed = re.compile(r"Speed<b>[\d,]+</b>")
    assert speed.sub("", first) == speed.sub("", second)


def test_paired_bootstrap():
    random = numpy.random.default_rng(5)
    total = random.integers(1, 30, 400)
    base = random.binomial(total, 0.8)
    same = paired_bootstrap(base, base, total)
    assert same == (0.0, 0.0, 0.0, 1.0)
    worse = random.binomial(base, 0.95)
    found = paired_bootstrap(base, worse, total, seed=3)
    assert found.low < found.value < found.high < 0
    assert found.value == pytest.approx((worse - base).sum() / total.sum())
    assert found.chance < 0.01
    assert found == paired_bootstrap(base, worse, total, seed=3)
    # pure noise: the interval has the deviation that the central limit theorem says, and zero in it
    noise = random.permutation(numpy.repeat([-1, 1], 200))
    found = paired_bootstrap(base, base + noise, total, n=4000)
    mean = noise.sum() / total.sum()
    deviation = numpy.sqrt(((noise - mean * total) ** 2).sum()) / total.sum()
    assert found.high - found.low == pytest.approx(2 * 1.96 * deviation, rel=0.1)
    assert found.chance > 0.5


@pytest.mark.parametrize(
    ("ids", "genres"),
    [
        (
            ["weblog-a-1", "email-b-2", "email-c-3", "weblog-d"],
            ["weblog", "email", "email", "weblog"],
        ),
        (["GUM_news_x", "GUM_bio_y", "GUM_news_z", "GUM_bio_w"], ["news", "bio", "news", "bio"]),
        (["d1", "d2", "d3", "d4"], [""] * 4),
    ],
)
def test_genres(tmp_path, ids, genres):
    path = tmp_path / "x.conllu"
    line = "1\tx\tx\tX\tX\t_\t0\troot\t_\t_\n\n"
    path.write_text("".join(f"# newdoc id = {name}\n{line}{line}" for name in ids))
    found = [sentence.genre for sentence in read_sentences(path, spacy.blank("en").vocab)]
    assert found == [genre for genre in genres for _ in range(2)]


def test_genre_of_a_comment(tmp_path):
    path = tmp_path / "x.conllu"
    line = "1\tx\tx\tX\tX\t_\t0\troot\t_\t_\n\n"
    path.write_text(f"# newdoc id = a\n# meta::genre = bio\n{line}{line}# newdoc id = b\n{line}")
    found = [sentence.genre for sentence in read_sentences(path, spacy.blank("en").vocab)]
    assert found == ["bio", "bio", ""]


def test_constituents(constituency, brackets, tmp_path):
    constituency.to_disk(tmp_path / "model")
    text, page = report(tmp_path / "report.html", tmp_path / "model", brackets["test"])
    assert page.headings[0] == "Scores" and "Constituents" in page.headings
    assert "Labels" not in page.headings
    assert page.row("NP")
    if "Sentences and their constituents" in page.headings:
        assert 'class="c wrong"' in text


def test_partly_annotated_and_odd_treebanks(raw_model, tmp_path):
    """Words without heads are left out; a sentence of white space or of one word does no harm."""
    vocab = spacy.blank("en").vocab
    partial = Doc(vocab, words=["The", "goat", "sleeps"], heads=[1, 2, 2], deps=["det", "", "ROOT"])
    one = Doc(vocab, words=["<b>"], heads=[0], deps=["ROOT"], tags=["NN"])
    docbin = DocBin(docs=[partial, one])
    docbin.to_disk(tmp_path / "x.spacy")
    text, page = report(tmp_path / "report.html", raw_model, tmp_path / "x.spacy", "--no-raw")
    assert "4 words in" in text
    assert page.row("the root")[1] == "2"


def test_clear_errors(raw_model, pipeline, few, tmp_path):
    spacy.blank("en").to_disk(tmp_path / "blank")
    output = tmp_path / "report.html"
    code, shown = run(tmp_path / "blank", few["dev"], "-o", output)
    assert code == 1 and "S051" in shown
    # only tags: there is something to say all the same
    words = tmp_path / "words.conllu"
    words.write_text("1\tgoat\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    code, shown = run(raw_model, words, "-o", output)
    assert code == 1 and "S051" in shown
    broken = tmp_path / "broken.conllu"
    broken.write_text("1\tgoat\tgoat\tNOUN\tNN\t_\t7\troot\t_\t_\n\n")
    code, shown = run(raw_model, broken, "-o", output)
    assert code == 1 and "broken.conllu" in shown
    code, shown = run(raw_model, tmp_path / "missing.conllu", "-o", output)
    assert code == 1 and "missing.conllu" in shown
    (tmp_path / "file").write_text("")
    code, shown = run(raw_model, tmp_path / "missing.conllu", "-o", tmp_path / "file" / "x.html")
    assert code == 1 and "S004" in shown
    assert not output.exists()


def test_without_sentences_of_its_own(pipeline, few, tmp_path):
    """A parser alone has nothing to say of raw text."""
    with_tags = tmp_path / "model"
    nlp = spacy.load(pipeline)
    nlp.add_pipe("spectral_tagger", first=True)
    tagger = nlp.get_pipe("spectral_tagger")
    from spacy_spectral.readers import Corpus

    tagger.initialize(lambda: Corpus(few["train"])(nlp), nlp=nlp)
    nlp.to_disk(with_tags)
    text, _ = report(tmp_path / "report.html", with_tags, few["dev"])
    assert "the pipeline finds no sentences" in text
