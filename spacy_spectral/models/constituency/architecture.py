"""The registered architectures of parsers for constituents."""

from ...base.learnt import architecture
from .model import ConstituencyModel
from .training import ConstituencyRecipe

_OF_SPANS = ("epochs", "anchored_epochs", "rate", "min_count")
_OF_GRAMMARS = ("states", "em_iterations")
_OF_PRODUCTS = ("weights", "temperature")

# a grammar with hidden states
build_lpcfg = architecture(
    "lpcfg",
    ConstituencyModel,
    ConstituencyRecipe,
    hidden=(*_OF_SPANS, *_OF_PRODUCTS),
    spans=False,
    anchored=False,
)
# conditional random fields over spans and anchored rules
build_span_crf = architecture(
    "span_crf",
    ConstituencyModel,
    ConstituencyRecipe,
    hidden=("spans", *_OF_GRAMMARS, *_OF_PRODUCTS),
    estimator=None,
)
# the product of both
build_product = architecture(
    "constituency_product",
    ConstituencyModel,
    ConstituencyRecipe,
    hidden=("spans", "anchored"),
)
