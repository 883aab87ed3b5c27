"""How the models of a product are weighted."""

from typing import NamedTuple


class Mixture(NamedTuple):
    """Exponents and temperature; see `model.py`. Those given here were chosen on folds of training data.

    anchored, grammar, spans (float): Exponents of the posteriors of anchored rules, of the grammar with
        states and of the model of spans.
    temperature (float): Of the distribution over trees.
    """

    anchored: float = 1.0
    grammar: float = 1.5
    spans: float = 1.0
    temperature: float = 4.5


ALONE = Mixture(1.0, 1.0, 0.0, 1.0)
