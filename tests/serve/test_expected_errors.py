"""The order by expected errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_spectral.serve.engine import expected_errors

probs = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_errors_are_what_the_formula_says():
    assert expected_errors([]) == 0
    assert expected_errors([0.5, 1.0, 0.7, 0.8], 0) == pytest.approx(1.0)
    assert expected_errors([0.5, 1.0, 0.7, 0.8], 1) == pytest.approx(0.25)
    assert expected_errors([0.5, 1.0, 0.7, 0.8]) == pytest.approx(0.5)


@given(probs, st.floats(0, 1))
def test_doubt_brings_a_sentence_to_the_front(own, power):
    assert 0 <= expected_errors(own, power) <= len(own)
    assert expected_errors([0.0, *own[1:]], power) >= expected_errors(own, power)


@given(probs)
def test_the_power_decides_about_length(own):
    assert expected_errors(own * 2, 0) == pytest.approx(2 * expected_errors(own, 0))
    assert expected_errors(own * 2, 1) == pytest.approx(expected_errors(own, 1))
