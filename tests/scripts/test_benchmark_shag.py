"""The benchmark script, and what it must show on the sample treebank."""

import json
import sys

import pytest

from spacy_spectral.treebank.sample.draw import write_sample


@pytest.fixture(scope="module")
def sample(script, tmp_path_factory):
    import spacy

    files = write_sample(tmp_path_factory.mktemp("sample"))[::2]
    vocab = spacy.blank("xx").vocab
    return [script.to_trees(list(script.read_docs(file, vocab)), "TAG") for file in files]


def test_spectral_comes_close_to_the_ceiling(script, sample):
    """Within one point of the true grammar, and clearly above two observed states."""
    train, *parts = sample
    grammars = {
        name: script.Grammar.fit(train, script.settings(name, 8)) for name in ("det+f", "spectral")
    }
    ceiling = script.Grammar.from_automata(*script.true_model())
    for trees in parts:
        plain = {
            name: script.attachment(script.without_lengths(grammar), trees)
            for name, grammar in grammars.items()
        }
        best = script.attachment(ceiling, trees)
        assert best - 1.0 < plain["spectral"] < best
        assert plain["spectral"] > plain["det+f"] + 0.5


def test_accuracy_tables(script, tmp_path, monkeypatch, capsys):
    train, dev, _ = write_sample(tmp_path, train=100, dev=8, test=1)[::2]
    output = tmp_path / "figures.json"
    options = ["--states", "2", "--quick", "--json", str(output)]
    monkeypatch.setattr(sys, "argv", ["benchmark_shag.py", str(train), str(dev), *options])
    script.main()
    tables = json.loads(output.read_text())
    shown = capsys.readouterr().out
    single = ["DET", "DET+F", "SPECTRAL", "EM", "LEX", "LEX+F", "LEX+FCP"]
    products = [f"{name} x SPECTRAL" for name in single[-3:]]
    assert [name for name, *_ in tables["accuracy dev"]] == single + products
    assert set(tables) == {"words", "accuracy dev"}  # with --quick
    for _, plain, with_lengths in tables["accuracy dev"]:
        assert 50 < plain <= 100 and 50 < with_lengths <= 100
        assert f"{plain:.2f}" in shown and f"{with_lengths:.2f}" in shown


def test_times(script, tmp_path):
    import spacy

    file = write_sample(tmp_path, train=30, dev=1, test=1)[0]
    docs = list(script.read_docs(file, spacy.blank("xx").vocab))
    assert all(seconds > 0 for _, seconds in script.learning_table(script.to_trees(docs, "TAG"), 2))
    speeds = script.speed_table(docs, docs, "TAG", 2)
    assert [row[0] for row in speeds] == ["spectral_parser", "parser"]
    assert all(words > 0 for _, words, _ in speeds)


def test_bad_files(script, tmp_path, monkeypatch):
    (tmp_path / "bad.conllu").write_text("nothing\n")
    monkeypatch.setattr(sys, "argv", ["benchmark_shag.py", *[str(tmp_path / "bad.conllu")] * 2])
    with pytest.raises(SystemExit):
        script.main()
