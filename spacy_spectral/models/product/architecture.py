"""The registered architecture `spacy-spectral.Product.v1`: experts in, a Thinc model out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thinc.api import Model

from ...base.errors import Errors, SpectralError
from ...base.learnt import learnt_model
from ...trees.interface import Recipe, Resources
from ...trees.sentences import Treebank
from .estimate import fit
from .parser import KINDS, ProductParser

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Any: spaCy checks types of what stands in a dict before it has made models of it
def build_product(experts: dict[str, Any], weights: dict[str, float] | None = None) -> Model:
    """Build the model of a parser that multiplies the distributions of others; it holds the recipe and,
    once trained, the parser.

    experts: Models that are trained when the pipeline is initialized, by names of your choice:
    `spacy-spectral.LogLinear.v1`, `spacy-spectral.Biaffine.v2`, `spacy-spectral.SHAG.v1`,
    `spacy-spectral.Refined.v1`.
    weights: How much each expert counts. By default this is learnt: from the development corpus, or from
    a part of the training data that copies of the experts have not seen.
    """
    if not experts:
        raise SpectralError(Errors.S454.format(choices=", ".join(KINDS)))
    recipes = expert_recipes(experts)
    if weights is not None:
        sound = set(weights) == set(experts) and min(weights.values()) >= 0
        if not sound or max(weights.values()) <= 0:
            raise SpectralError(Errors.S453.format(weights=weights))
    return learnt_model("product", ProductParser, ProductRecipe(recipes, weights))


def expert_recipes(experts: Mapping[str, Model]) -> dict[str, Recipe]:
    """How to train models of parsers that are trained in one go, by names."""
    for name, expert in experts.items():
        learnt = expert.attrs.get("learnt")
        if learnt is None or learnt.kind not in KINDS.values():
            raise SpectralError(Errors.S455.format(name=name, kind=expert.name))
    return {name: expert.attrs["recipe"] for name, expert in experts.items()}


class ProductRecipe:
    """Trains experts and their weights; see `trees.interface.Recipe`."""

    def __init__(self, recipes: dict[str, Recipe], weights: dict[str, float] | None):
        self.recipes = recipes
        self.weights = weights

    def like(self, product: ProductParser) -> "ProductRecipe":
        """The same with the weights of a trained product: nothing is held out for them."""
        return ProductRecipe(self.recipes, product.weights)

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> ProductParser:
        """RETURNS (ProductParser): The product; see `trees.interface.Recipe`."""
        return fit(self.recipes, self.weights, treebank, **given)
