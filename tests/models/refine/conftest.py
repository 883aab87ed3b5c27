"""What the tests of refined grammars share."""

import pytest

from refine_data import EXACT, treebank
from spacy_spectral.models.refine.architecture import RefinedRecipe


@pytest.fixture(scope="module")
def grammar():
    return RefinedRecipe(states=16, dimensions=2, chart=EXACT).fit(treebank())
