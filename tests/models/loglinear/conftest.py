"""What the tests of the log-linear parser share."""

import pytest

from loglinear_data import LABELS, SMALL, TAGS, toy_corpus
from spacy_spectral.models.loglinear.estimate import fit


@pytest.fixture(scope="session")
def toy_model():
    """A model of a language that can be learnt. Tests must not change it."""
    return fit(toy_corpus(0, 200), tags=TAGS, labels=LABELS, settings=SMALL)
