"""The reliability diagram: what is drawn where."""

from xml.etree import ElementTree

import numpy
import pytest

from spacy_spectral.trees.calibration import Reliability
from spacy_spectral.viz.plots import render_reliability

SVG = "{http://www.w3.org/2000/svg}"


def test_points_are_where_probability_and_truth_are():
    probs = numpy.array([0.1, 0.1, 0.1, 0.1, 0.9, 0.9])
    right = numpy.array([True, False, False, False, True, True])
    root = ElementTree.fromstring(
        render_reliability({"a < b": Reliability.of(probs, right)}, title="x & y")
    )
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "x & y" in texts
    assert any(text.startswith("a < b: calibration error 13.33%") for text in texts)
    points = {c.find(f"{SVG}title").text: c for c in root.iter(f"{SVG}circle") if len(c)}
    assert set(points) == {"4 at 10.0%: 25.0% right", "2 at 90.0%: 100.0% right"}
    low, high = (points[tip] for tip in sorted(points, reverse=True))
    assert float(high.get("cx")) - float(low.get("cx")) == pytest.approx(0.8 * 360)
    assert float(low.get("cy")) - float(high.get("cy")) == pytest.approx(0.75 * 360)
    assert float(low.get("r")) > float(high.get("r"))
    bars = [float(bar.get("height")) for bar in root.iter(f"{SVG}rect") if bar.get("x")]
    assert len(bars) == 15
    assert bars[1] == pytest.approx(2 * bars[13], abs=0.1)
    assert sum(bars) == pytest.approx(84, abs=0.1)


def test_nothing_of_no_predictions():
    curve = Reliability.of(numpy.array([0.5]), numpy.array([True]))
    assert "nan" not in render_reliability({"one": curve, "two": curve}, title="")
