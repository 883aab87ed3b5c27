"""The regression system and the measures of the task, against numpy and by hand."""

import numpy
import pytest
import spacy
from typer.testing import CliRunner

from spacy_spectral.cli import spectral_cli
from spacy_spectral.models.eigenwords.similarity import (
    Pair,
    Sentence,
    SimilarityModel,
    SimilarityRegression,
    eigenword_features,
    expand,
    pair_features,
    read_extra_columns,
    read_pairs,
    score_datasets,
    surface_features,
)

run = CliRunner().invoke


def test_measures_of_the_task():
    random = numpy.random.default_rng(0)
    gold = {"a": random.uniform(0, 5, 40), "b": random.uniform(0, 5, 10)}
    # dataset b is predicted on another scale, and upside down a bit
    predicted = {"a": gold["a"] + random.normal(size=40), "b": 100 - 3 * gold["b"]}
    scores = score_datasets(predicted, gold)
    correlations = {n: numpy.corrcoef(predicted[n], gold[n])[0, 1] for n in gold}
    assert scores["a"] == pytest.approx(correlations["a"])
    assert scores["b"] == pytest.approx(-1.0)
    everything = [numpy.concatenate([x["a"], x["b"]]) for x in (predicted, gold)]
    assert scores["ALL"] == pytest.approx(numpy.corrcoef(*everything)[0, 1])
    assert scores["Mean"] == pytest.approx((40 * correlations["a"] - 10) / 50)
    slope, intercept = numpy.polyfit(predicted["a"], gold["a"], 1)
    # least squares turns b around: it is a perfect fit
    fitted = numpy.concatenate([slope * predicted["a"] + intercept, gold["b"]])
    assert scores["ALLnrm"] == pytest.approx(numpy.corrcoef(fitted, everything[1])[0, 1])


def test_constant_predictions_score_zero():
    assert score_datasets({"a": [1.0, 1.0, 1.0]}, {"a": [1.0, 2.0, 3.0]})["a"] == 0.0


def test_surface_features_by_hand():
    a = Sentence(
        ["The", "3", "dogs", "barked"], ["the", "3", "dog", "bark"], [False, True, True, True]
    )
    b = Sentence(["3", "dogs", "bark"], ["3", "dog", "bark"], [True, True, True])
    features = surface_features(a, b)
    assert features == surface_features(b, a)
    assert features["length_difference"] == 1 and features["length"] == 3.5
    assert features["shared_words"] == pytest.approx(2 * 2 / 7)
    assert features["shared_content_words"] == pytest.approx(2 * 2 / 6)
    assert features["shared_base_forms"] == 1.0
    assert features["shared_numerals"] == 1.0 and features["has_numerals"] == 1.0


def test_eigenword_features_are_symmetric_and_bounded():
    random = numpy.random.default_rng(1)

    def sentence(n):
        vectors = random.normal(size=(n, 5))
        vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
        return Sentence(["w"] * n, ["w"] * n, [True] * n, vectors, random.uniform(1, 5, n))

    a, b = sentence(4), sentence(6)
    features = eigenword_features(a, b)
    assert features == pytest.approx(eigenword_features(b, a))
    assert all(-1 <= value <= 1 for value in features.values())
    assert list(eigenword_features(a, a).values()) == pytest.approx([1.0] * 3)
    empty = Sentence([], [], [], numpy.zeros((0, 5)), numpy.zeros(0))
    assert set(eigenword_features(a, empty).values()) == {0.0}


def test_expansion():
    columns = expand(numpy.array([[4.0, -9.0]]))
    assert columns.tolist() == [[4.0, -9.0, 16.0, 81.0, 2.0, -3.0, -36.0]]


def test_ridge_equals_sklearn_style_solution_and_clips():
    random = numpy.random.default_rng(2)
    table = random.uniform(0, 1, size=(60, 3))
    gold = 5 * table[:, 0] + random.normal(scale=0.1, size=60)
    features = [dict(zip("abc", row, strict=True)) for row in table.tolist()]
    model = SimilarityRegression.train(features, gold, penalties=[0.5])
    # an augmented least-squares problem is another way to write ridge
    columns = expand(table)
    standard = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    design = numpy.vstack([standard, numpy.sqrt(0.5) * numpy.eye(standard.shape[1])])
    target = numpy.concatenate([gold - gold.mean(), numpy.zeros(standard.shape[1])])
    expected = standard @ numpy.linalg.lstsq(design, target, rcond=None)[0] + gold.mean()
    numpy.testing.assert_allclose(model.predict(features), expected.clip(0, 5), atol=1e-8)
    far = model.predict([{"a": 50.0, "b": 0.0, "c": 0.0}, {"a": -50.0, "b": 0.0, "c": 0.0}])
    assert ((far >= 0) & (far <= 5)).all()
    with pytest.raises(ValueError, match="S220"):
        model.predict([{"a": 1.0}])
    with pytest.raises(ValueError, match="S221"):
        SimilarityRegression.train(features[:3], gold[:3])


def test_cross_validation_shrinks_noise():
    random = numpy.random.default_rng(3)
    features = [dict(zip("abc", row, strict=True)) for row in random.uniform(size=(80, 3)).tolist()]
    noise = SimilarityRegression.train(features, random.uniform(0, 5, 80))
    signal = SimilarityRegression.train(features, [5 * row["a"] for row in features])
    assert noise.penalty > signal.penalty


def write_pairs(path, n, seed):
    random = numpy.random.default_rng(seed)
    words = [f"word{c}" for c in "abcdefghijklmnop"]
    with open(path, "w") as file:
        for _ in range(n):
            left = random.choice(words, 6, replace=False)
            shared = int(random.integers(0, 7))
            others = [w for w in words if w not in left]
            right = [*left[:shared], *random.choice(others, 6 - shared, replace=False)]
            score = 5 * shared / 6
            file.write(f"{score:.2f}\t{' '.join(left)}\t{' '.join(right)}\n")


def test_train_and_evaluate_commands(tmp_path):
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "nlp")
    for name, seed in (("one.train", 0), ("one.test", 1), ("two.test", 2)):
        write_pairs(tmp_path / f"{name}.tsv", 40, seed)
    model = tmp_path / "model.bin"
    vectors, train = str(tmp_path / "nlp"), str(tmp_path / "one.train.tsv")
    result = run(spectral_cli, ["similarity", "train", vectors, train, "-o", str(model)])
    assert result.exit_code == 1 and "S222" in result.output
    arguments = ["similarity", "train", vectors, train, "-o", str(model), "--surface-only"]
    result = run(spectral_cli, arguments)
    assert result.exit_code == 0, result.output
    tests = [str(tmp_path / "one.test.tsv"), str(tmp_path / "two.test.tsv")]
    arguments = ["similarity", "evaluate", str(model), vectors, *tests, "-o", str(tmp_path)]
    result = run(spectral_cli, arguments)
    assert result.exit_code == 0, result.output
    predicted = {n: numpy.loadtxt(tmp_path / f"{n}.txt") for n in ("one", "two")}
    gold = {n: [p.score for p in read_pairs(tmp_path / f"{n}.test.tsv")] for n in predicted}
    for name, score in score_datasets(predicted, gold).items():
        assert f"{score:.3f}"[:-1] in result.output, name
    assert score_datasets(predicted, gold)["ALL"] > 0.95
    data = model.read_bytes()
    assert SimilarityModel.from_bytes(data).to_bytes() == data


def test_extra_columns(tmp_path):
    pairs = [Pair("a b", "a c", 1.0), Pair("d", "d", 5.0)]
    path = tmp_path / "extra.tsv"
    path.write_text("wordnet\tneural\n0.5\t1\n0.25\t2\n")
    extra = read_extra_columns(path, 2)
    features = pair_features(spacy.blank("en"), pairs, eigenwords=False, extra=extra)
    assert [row["extra:wordnet"] for row in features] == [0.5, 0.25]
    with pytest.raises(ValueError, match="S219"):
        read_extra_columns(path, 3)
    path.write_text("wordnet\nmuch\n0.1\n")
    with pytest.raises(ValueError, match="S219"):
        read_extra_columns(path, 2)


@pytest.mark.parametrize("text", ["", "1.0\tonly one\n", "high\ta\tb\n"])
def test_bad_pairs(tmp_path, text):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(ValueError, match=r"S218.*line 1"):
        read_pairs(tmp_path / "pairs.tsv")
