"""The registered architecture `spacy-spectral.Product.v1`: experts in, a Thinc model out."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from thinc.api import Model

from ...base.errors import Errors, SpectralError
from ...base.learnt import Learnt, learnt_model
from ...trees.interface import Recipe, Resources
from ...trees.sentences import Treebank
from .estimate import fit, fit_experts
from .parser import KINDS, ProductParser

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Any: spaCy checks types of what stands in a dict before it has made models of it
def build_product(experts: dict[str, Any], weights: dict[str, float] | None = None) -> Model:
    """Build the model of a parser that multiplies the distributions of others; it holds the recipe and,
    once trained, the parser.

    experts: Models that are trained when the pipeline is initialized, by names of your choice:
    `spacy-spectral.LogLinear.v1`, `spacy-spectral.Biaffine.v2`, `spacy-spectral.SHAG.v1`,
    `spacy-spectral.Refined.v1`. Beside these one that is trained step by step, by gradients:
    `spacy-spectral.Biaffine.v1`.
    weights: How much each expert counts. By default this is learnt: from the development corpus, or from
    a part of the training data that copies of the experts have not seen. With an expert that is trained
    step by step they count the same, until `spacy spectral calibrate` learns their weights.
    """
    if not experts:
        raise SpectralError(Errors.S454.format(choices=", ".join(KINDS)))
    stepwise = {name: expert for name, expert in experts.items() if "inventory" in expert.attrs}
    recipes = expert_recipes({n: e for n, e in experts.items() if n not in stepwise})
    if weights is not None:
        sound = set(weights) == set(experts) and min(weights.values()) >= 0
        if not sound or max(weights.values()) <= 0:
            raise SpectralError(Errors.S453.format(weights=weights))
    if not stepwise:
        return learnt_model("product", ProductParser, ProductRecipe(recipes, weights))
    if len(stepwise) > 1 or not recipes:
        raise SpectralError(Errors.S458.format(names=", ".join(stepwise)))
    ((name, network),) = stepwise.items()
    return Model(
        "product_with_network",
        forward,
        layers=[network],
        refs={"network": network},
        attrs={
            "network_name": name,
            "others": OthersRecipe(recipes, weights, name),
            "learnt": Learnt(ProductParser),
        },
    )


def forward(model: Model, inputs: Any, is_train: bool) -> tuple[list, Callable]:
    """Gives nothing: see `base.learnt.learnt_model`."""
    return [], lambda gradient: []


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

    @property
    def can_be_pretrained(self) -> bool:
        return any(recipe.can_be_pretrained for recipe in self.recipes.values())

    def like(self, product: ProductParser) -> "ProductRecipe":
        """The same with the weights of a trained product: nothing is held out for them."""
        return ProductRecipe(self.recipes, product.weights)

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> ProductParser:
        """RETURNS (ProductParser): The product; see `trees.interface.Recipe`."""
        return fit(self.recipes, self.weights, treebank, **given)


class OthersRecipe:
    """Trains the experts of a product but for one, which is trained step by step and stands outside of it;
    see `trees.interface.Recipe`."""

    def __init__(self, recipes: dict[str, Recipe], weights: dict[str, float] | None, outside: str):
        self.recipes = recipes
        self.weights = weights
        self.outside = outside

    @property
    def can_be_pretrained(self) -> bool:
        return any(recipe.can_be_pretrained for recipe in self.recipes.values())

    def fit(self, treebank: Treebank, **given: "Unpack[Resources]") -> ProductParser:
        """RETURNS (ProductParser): The product, with given weights or equal ones."""
        experts = fit_experts(self.recipes, treebank, given.get("dev"), given)
        names = [*experts, self.outside]
        return ProductParser(experts, self.weights or dict.fromkeys(names, 1 / len(names)))
