"""The commands on bracketed trees."""

import json
import re

import pytest
import spacy
from spacy.cli._util import app
from spacy.tokens import DocBin
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.cli.parse import _has_constituents_only
from spacy_spectral.models.constituency.evalb import constituents as tree_constituents
from spacy_spectral.models.constituency.trees import clean
from spacy_spectral.pipeline.constituents import gold_docs, stored_trees, with_text
from spacy_spectral.readers import Corpus
from spacy_spectral.treebank.brackets import read_brackets, write_tree

TREE = "(ROOT (S (NP-SBJ-1 (DT The) (NN dog)) (VP (VBZ barks) (NP (-NONE- *))) (. .)))"


def run(*arguments):
    result = CliRunner().invoke(app, ["spectral", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.fixture(scope="module")
def model(constituency, tmp_path_factory):
    directory = tmp_path_factory.mktemp("constituency")
    constituency.to_disk(directory)
    return directory


def write(path, text):
    path.write_text(text, encoding="utf8")
    return path


def test_convert_brackets(tmp_path, brackets):
    code, output = run(
        "convert-brackets", brackets["dev"], "-o", tmp_path / "a.spacy", "--n-sents", 7
    )
    assert code == 0
    assert "60 trees" in output
    docs = list(DocBin().from_disk(tmp_path / "a.spacy").get_docs(spacy.blank("en").vocab))
    assert [sum(1 for _ in doc.sents) for doc in docs] == [7] * 8 + [4]
    expected = [write_tree(clean(tree)) for tree in read_brackets(brackets["dev"])]
    spacy.blank("en").add_pipe("spectral_constituency")
    assert [f"(ROOT {sent._.parse_string})" for doc in docs for sent in doc.sents] == expected
    first = next(read_brackets(brackets["dev"]))
    assert [token.tag_ for token in next(docs[0].sents)] == [leaf.label for leaf in first.leaves()]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "S012"),
        ("(S (NP (NN dog))", "S039"),
        (TREE + "\n(S (NP ))", "2"),
        (TREE + "\n) (S (A a))", "2"),
        ("(S (NP dog (NN cat)))", "1"),
    ],
)
def test_trees_that_are_damaged(tmp_path, text, place):
    path = write(tmp_path / "bad.ptb", text)
    for command in (("convert-brackets", path, "-o", tmp_path / "x.spacy"), ("check", path)):
        code, output = run(*command)
        assert code == 1
        assert "bad.ptb" in output
        assert place in output
    assert not (tmp_path / "x.spacy").exists()


def test_outputs_are_checked_first(tmp_path, model):
    place = write(tmp_path / "file", "") / "output"
    for command in (
        ("convert-brackets", tmp_path / "missing.ptb", "-o", place),
        ("evaluate", model, tmp_path / "missing.ptb", "--json", place),
        ("draw", model, tmp_path / "missing.ptb", "-o", place),
    ):
        code, output = run(*command)
        assert code == 1
        assert "S004" in output


def test_check(tmp_path, brackets):
    code, output = run("check", brackets["train"], brackets["dev"])
    assert code == 0
    assert "400" in output
    assert "60" in output
    # functions and empty elements are no labels of their own
    code, output = run("check", write(tmp_path / "one.ptb", TREE))
    assert code == 0
    # sentences, tokens, crossing arcs, tags, labels, longest, missing heads
    assert re.search(r"one\.ptb +1 +\d +- +\d +\d +\d +-", output)
    assert "SBJ" not in output
    assert "NONE" not in output


def test_evaluate(tmp_path, model, brackets):
    code, output = run("evaluate", model, brackets["test"], "--json", tmp_path / "scores.json")
    assert code == 0
    scores = json.loads((tmp_path / "scores.json").read_text("utf8"))
    assert 0.85 < scores["bracket_f"] < 1
    for name in ("p", "r", "f", "exact", "tag_acc"):
        assert f"{100 * scores[f'bracket_{name}']:.2f} %" in output
    for label, value in scores["bracket_f_per_type"].items():
        assert re.search(rf"{re.escape(label)} +\d+ +{100 * value:.2f} %", output)
    n_words = sum(1 for tree in read_brackets(brackets["test"]) for _ in clean(tree).leaves())
    assert scores["words"] == n_words
    assert scores["sentences"] == 60
    # precision and recall make F1
    p, r = scores["bracket_p"], scores["bracket_r"]
    assert scores["bracket_f"] == pytest.approx(2 * p * r / (p + r))


def test_evaluate_and_draw_what_convert_brackets_wrote(tmp_path, model, brackets):
    converted = tmp_path / "test.spacy"
    run("convert-brackets", brackets["test"], "-o", converted, "--n-sents", 4)
    found = []
    for path in (brackets["test"], converted):
        code, output = run("evaluate", model, path, "--json", tmp_path / "scores.json")
        assert code == 0, output
        scores = json.loads((tmp_path / "scores.json").read_text("utf8"))
        found.append({key: value for key, value in scores.items() if key != "words_per_second"})
    assert found[0] == found[1]
    code, output = run("draw", model, converted, "-o", tmp_path / "a.html", "--limit", 3)
    assert code == 0, output
    assert (tmp_path / "a.html").read_text("utf8").count("<svg xmlns") == 3


def test_a_pipeline_for_dependencies(tmp_path, trained, brackets):
    trained.to_disk(tmp_path / "model")
    code, output = run("evaluate", tmp_path / "model", brackets["test"])
    assert code == 1
    assert "S708" in output


def test_formats_that_can_be_read_are_named(tmp_path):
    for path, message in ((write(tmp_path / "x.txt", ""), "S028"), (tmp_path, "S029")):
        code, output = run("check", path)
        assert code == 1
        assert message in output
        for suffix in (".conllu", ".spacy", ".ptb", ".mrg", ".brackets"):
            assert suffix in output


def test_a_pipeline_that_finds_no_constituents(tmp_path, brackets):
    spacy.blank("en").to_disk(tmp_path / "blank")
    code, output = run("evaluate", tmp_path / "blank", brackets["test"])
    assert code == 1
    assert "S708" in output
    code, output = run("draw", tmp_path / "blank", brackets["test"], "-o", tmp_path / "x.html")
    assert code == 1
    assert not (tmp_path / "x.html").exists()


def test_draw(tmp_path, model, brackets):
    code, _ = run("draw", model, brackets["test"], "-o", tmp_path / "a.html", "--limit", 3)
    assert code == 0
    page = (tmp_path / "a.html").read_text("utf8")
    assert page.count("<svg xmlns") == 3
    assert "probability of a constituent" in page
    assert "probability of an arc" not in page
    code, _ = run("draw", model, "The <dog> sleeps .", "-o", tmp_path / "b.html")
    assert code == 0
    page = (tmp_path / "b.html").read_text("utf8")
    assert "<dog>" not in page
    assert page.count("<svg xmlns") == 1


def test_nbest(model):
    words = ["The", "dog", "saw", "a", "man", "in", "the", "park", "."]
    command = ("nbest", model, " ".join(words), "-k", 4)
    code, output = run(*command, "--component", "spectral_constituency")
    assert code == 0
    probs = [float(value) for value in re.findall(r"P = ([0-9.]+)  ", output)]
    assert 1 <= len(probs) <= 4
    assert probs == sorted(probs, reverse=True)
    assert sum(probs) <= 1.001
    shown = re.findall(r"^\(S.*$", output, re.M)
    assert len(set(shown)) == len(probs)
    for line in shown:
        assert re.findall(r" ([^() ]+)\)", line) == words


def test_parse_to_brackets(tmp_path, model, constituency, brackets):
    code, output = run("parse", model, brackets["test"], "--format", "brackets")
    assert code == 0
    lines = output.strip().split("\n")
    gold = [clean(tree) for tree in read_brackets(brackets["test"])]
    again = list(read_brackets(write(tmp_path / "out.ptb", "\n".join(lines))))
    assert [[leaf.word for leaf in tree.leaves()] for tree in again] == [
        [leaf.word for leaf in tree.leaves()] for tree in gold
    ]
    # a text: one that has brackets and a no-break space in its words can be read again
    text = write(tmp_path / "a.txt", "The dog (a man) sleeps.\n")
    code, output = run("parse", model, text, "--format", "brackets")
    assert code == 0
    tree = next(iter(read_brackets(write(tmp_path / "out.ptb", output))))
    doc = constituency("The dog (a man) sleeps.")
    assert [leaf.word for leaf in tree.leaves()] == [token.text for token in doc]


def test_merged_tokens_are_written_so_that_they_can_be_read(tmp_path, constituency):
    doc = constituency.make_doc("The New York dog sleeps .")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:3])
    string = constituency(doc)[:]._.parse_string
    assert "New_York" in string
    tree = next(iter(read_brackets(write(tmp_path / "out.ptb", string))))
    assert len(list(tree.leaves())) == len(doc)


def test_gold_trees_on_documents(brackets):
    doc = next(gold_docs(brackets["dev"], spacy.blank("en").vocab, n_sents=2))
    assert len(stored_trees(doc)) == 2


def test_parse_of_constituents_alone_is_no_conllu(tmp_path, model):
    text = write(tmp_path / "a.txt", "The dog barks.")
    code, output = run("parse", model, text)
    assert code == 1 and "S620" in output and "--format brackets" in " ".join(output.split())
    assert run("parse", model, text, "--format", "brackets")[0] == 0
    with_tags = spacy.load(model)
    with_tags.get_pipe("spectral_constituency").set_tags = True
    assert not _has_constituents_only(with_tags)


def test_files_of_other_formats(tmp_path, model):
    """What is read from columns and from brackets is the same; words are written as they were."""
    line = "(TOP (S (NP (`` ``) (DT The) (NN dog)) (VP (VBZ barks)) (-RRB- -RRB-)))"
    penn = write(tmp_path / "a.mrg", line.replace("NP (``", "NP-SBJ (``") + "\n")
    rows = [
        ("``", "``", "(TOP(S(NP*"),
        ("The", "DT", "*"),
        ("dog", "NN", "*)"),
        ("barks", "VBZ", "(VP*)"),
        ("-RRB-", "-RRB-", "*))"),
    ]
    columns = "\n".join(" ".join(["d", "0", str(i), *row]) for i, row in enumerate(rows))
    other = write(tmp_path / "a.gold_conll", f"#begin document\n{columns}\n\n#end document\n")
    for path in (penn, other):
        assert run("convert-brackets", path, "-o", tmp_path / "out.ptb", "--penn")[0] == 0
        assert (tmp_path / "out.ptb").read_text("utf8") == line + "\n"
        assert run("convert-brackets", path, "-o", tmp_path / "out.ptb")[0] == 0
        assert '(`` ")' in (tmp_path / "out.ptb").read_text("utf8")
        assert run("evaluate", model, path)[0] == 0
        code, output = run("parse", model, path, "--format", "penn")
        assert code == 0
        assert output.rstrip(")\n").endswith("-RRB-")
    (doc,) = gold_docs(other, spacy.blank("en").vocab)
    assert doc.text.split() == ['"', "The", "dog", "barks", ")"]


def test_a_treebank_of_another_language(tmp_path):
    """Trees in Negra's format, with gaps: a parser learns them, and finds its own labels."""
    rows = []
    for i, (noun, verb) in enumerate([("Hund", "ruft"), ("Mann", "sagt"), ("Kind", "ruft")] * 8):
        rows += [
            f"#BOS {i}",
            "Der ART -- NK 500",
            f"{noun} NN -- NK 500",
            f"{verb} VVFIN -- HD 501",
        ]
        rows += [", $, -- -- 0", "an PTKVZ -- SVP 501", ". $. -- -- 0"]
        rows += ["#500 NP -- SB 502", "#501 VP -- HD 502", "#502 S -- -- 0", f"#EOS {i}"]
    path = write(tmp_path / "a.export", "#FORMAT 3\n" + "\n".join(rows) + "\n")
    nlp = spacy.blank("de")
    nlp.add_pipe("spectral_constituency", config={"model": {"states": 2, "epochs": 1}})
    nlp.initialize(lambda: list(Corpus(path, ["sents"])(nlp)))
    doc = spacy.tokens.Doc(nlp.vocab, words=["Der", "Mann", "ruft", ",", "an", "."])
    assert nlp(doc)[:]._.parse_string is None  # the full stop stands beside S
    assert doc[0:5]._.parse_string == (
        "(S (NP (ART Der) (NN Mann)) (VP (VVFIN ruft) ($, ,) (PTKVZ an)))"
    )
    assert "NP" in nlp.get_pipe("spectral_constituency").labels


def test_evaluate_says_how_far_probabilities_are_true(tmp_path, model, brackets, constituency):
    outputs = ("--json", tmp_path / "scores.json", "--plot", tmp_path / "plot.svg")
    code, output = run("evaluate", model, brackets["test"], *outputs)
    assert code == 0
    found = json.loads((tmp_path / "scores.json").read_text("utf8"))["constituents"]
    assert f"{100 * found['calibration_error']:.2f} %" in output
    assert "Constituents" in (tmp_path / "plot.svg").read_text("utf8")
    # counted another way
    probs, right = [], []
    for tree in map(clean, read_brackets(brackets["test"])):
        words = [leaf.word for leaf in tree.leaves()]
        gold = {own for own in tree_constituents(tree)[0] if own.label != "ROOT"}
        doc = constituency(spacy.tokens.Doc(constituency.vocab, words=words))
        (own,) = stored_trees(doc)
        for node in own.parsed.nodes:
            if node.label != "ROOT":
                probs.append(node.prob)
                right.append(node[:3] in gold)
    assert found["expected"] == pytest.approx(sum(probs) / len(probs), abs=1e-6)
    assert found["right"] == pytest.approx(sum(right) / len(right))


def test_evaluate_from_raw_text(tmp_path, model, brackets):
    """Without a sentencizer, what is wrong are sentences, not tokens; with one, hardly anything."""
    scores = {}
    nlp = spacy.load(model)
    if "sentencizer" in nlp.pipe_names:
        nlp.remove_pipe("sentencizer")
    nlp.to_disk(tmp_path / "without")
    nlp.add_pipe("sentencizer", first=True)
    nlp.to_disk(tmp_path / "with")
    for name in ("with", "without"):
        path = tmp_path / f"{name}.json"
        code, output = run("evaluate", tmp_path / name, brackets["test"], "--raw", "--json", path)
        assert code == 0, output
        scores[name] = json.loads(path.read_text("utf8"))
        assert re.search(rf"Constituents +{100 * scores[name]['bracket_f']:.2f} %", output)
    run("evaluate", model, brackets["test"], "--json", tmp_path / "given.json")
    given = json.loads((tmp_path / "given.json").read_text("utf8"))
    assert scores["with"]["token_f"] > 0.99 and scores["with"]["sents_f"] > 0.9
    assert abs(scores["with"]["bracket_f"] - given["bracket_f"]) < 0.05
    assert scores["without"]["bracket_f"] < scores["with"]["bracket_f"] - 0.2


def test_texts_of_trees(tmp_path):
    lines = [
        "(ROOT (S (`` ``) (NP (PRP I)) (VP (MD ca) (RB n't)) (. .) ('' '')))",
        "(ROOT (NP (NP (NNP Ann) (POS 's)) (NN cat) (-LRB- -LRB-) (JJ well) (HYPH -) (VBN fed) (-RRB- -RRB-)"
        " ($ $) (CD 5) (, ,) (CD 50) (NN %)))",
        "(ROOT (S (MD can) (RB not) (VP (VB stay) (: --) (UH no) (. !))))",
        '(ROOT (FRAG (NN ") (UH Yes) (NN ") (, ,) (CC and) (CC or) (NN /) (: ;)))',
    ]
    path = write(tmp_path / "a.ptb", "\n".join(lines))
    vocab = spacy.blank("en").vocab
    texts = [
        '"I can\'t."',
        "Ann's cat (well-fed) $5, 50%",
        "cannot stay -- no!",
        '"Yes", and or/;',
    ]
    (doc,) = gold_docs(path, vocab, n_sents=4, has_text=True)
    assert doc.text.strip() == " ".join(texts)
    assert [sent.text for sent in doc.sents] == texts
    assert len(stored_trees(doc)) == 4
    # as a reader gives them, on the tokens of a pipeline
    nlp = spacy.blank("en")
    examples = list(Corpus(path, [], gold_tokens=False)(nlp))
    assert [eg.predicted.text for eg in examples] == [f"{text} " for text in texts]
    # documents without trees stay as they are
    known = spacy.tokens.Doc(vocab, words=["a", "b"], spaces=[True, False])
    assert with_text(known) is known


def test_calibrate(tmp_path, model, brackets):
    name = ("--component", "spectral_constituency")
    out = ("--output", tmp_path / "calibrated", "--json", tmp_path / "rows.json")
    code, output = run("calibrate", model, brackets["dev"], *name, *out)
    assert code == 0, output
    rows = json.loads((tmp_path / "rows.json").read_text("utf8"))
    assert [row["name"] for row in rows] == ["first half", "second half", "both"]
    assert f"{100 * rows[2]['error']:.2f} %" in output
    before, after = (
        spacy.load(path).get_pipe(name[1]).learnt for path in (model, tmp_path / "calibrated")
    )
    assert before.mixture.calibration == 1.0 != after.mixture.calibration
    # a treebank of another kind, and one that cannot be halved
    one = write(tmp_path / "one.ptb", TREE)
    assert "S457" in run("calibrate", model, one, *name)[1]
    conllu = write(tmp_path / "a.conllu", "1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n\n")
    assert "S703" in run("calibrate", model, conllu, *name)[1]


def test_probabilities_are_fitted_in_training(tmp_path, brackets):
    nlp = spacy.blank("en")
    small = {"@architectures": "spacy-spectral.SpanCRF.v1", "epochs": 1, "anchored_epochs": 1}
    pipe = nlp.add_pipe("spectral_constituency", config={"model": small})
    nlp.config["corpora"] = {
        "dev": {"@readers": "spacy-spectral.Corpus.v1", "path": str(brackets["dev"])}
        | {"annotations": ["sents"], "trees": False}
    }
    data = list(Corpus(brackets["train"], ["sents"], limit=60)(nlp))
    pipe.initialize(lambda: data, nlp=nlp, dev_corpus="corpora.dev")
    assert pipe.learnt.mixture.calibration != 1.0
    pipe.initialize(lambda: data, nlp=nlp)
    assert pipe.learnt.mixture.calibration == 1.0
