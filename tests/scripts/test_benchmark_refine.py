"""The benchmark of refinement: its measures against scikit-learn's, and its figures on the sample."""

import numpy
import pytest


def test_agreement_equals_another_library(script):
    from sklearn.metrics import mutual_info_score, v_measure_score

    random = numpy.random.default_rng(0)
    tags = random.integers(0, 6, 400)
    classes = numpy.where(random.random(400) < 0.6, tags, random.integers(0, 9, 400))
    found = script.agreement(classes, tags)
    assert found["information"] == pytest.approx(mutual_info_score(tags, classes))
    assert found["v"] == pytest.approx(v_measure_score(tags, classes))
    assert found["one_to_one"] <= found["many_to_one"]
    same = script.agreement(tags + 3, tags)
    for name in ("many_to_one", "one_to_one", "v", "f1"):
        assert same[name] == pytest.approx(1.0)
    assert script.agreement(tags * 0, tags)["v"] == pytest.approx(0.0, abs=1e-12)


def test_figures_of_the_sample(script, sample):
    """Its true grammar knows tags alone: sub-tags can't help there, and must not hurt."""
    train, dev = (script.to_treebank(sample[split], "TAG") for split in ("train", "dev"))
    plain = script.one_parser(train, dev, {"labelling": "none"}, 0)
    refined = script.one_parser(train, dev, {"labelling": "spectral", "states": 80}, 0)
    assert refined["uas"] > plain["uas"] - 1 and refined["states"] > plain["states"]
    assert refined["las"] <= refined["uas"] <= 100
