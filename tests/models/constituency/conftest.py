"""What the tests of constituency share."""

import pytest

from constituency_toy import read
from spacy_spectral.models.constituency import statistics


@pytest.fixture
def corpus(tmp_path):
    return statistics.encode(statistics.binary_trees(read(tmp_path)), min_count=1)
