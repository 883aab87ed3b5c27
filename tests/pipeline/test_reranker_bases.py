"""The component spectral_reranker on top of every kind of parser: jack-knifing takes any recipe."""

import pytest
import spacy

from spacy_spectral.models.product.architecture import ProductRecipe
from spacy_spectral.trees.interface import NEUTRAL, Temperature

SMALL = {"mix_size": 16, "scan_size": 16, "scan_depth": 1, "arc_size": 16, "label_size": 16}
BIAFFINE = {"@architectures": "spacy-spectral.Biaffine.v2", "epochs": 3, **SMALL}
LOGLINEAR = {"@architectures": "spacy-spectral.LogLinear.v1", "epochs": 1}
BASES = {
    "biaffine": BIAFFINE,
    "product": {
        "@architectures": "spacy-spectral.Product.v1",
        "experts": {"loglinear": LOGLINEAR, "biaffine": BIAFFINE},
        "weights": {"loglinear": 0.6, "biaffine": 0.4},
    },
}
RERANKERS = {
    "forests": {"@architectures": "spacy-spectral.ForestReranker.v1", "folds": 2, "epochs": 1},
    "lists": {"@architectures": "spacy-spectral.Reranker.v1", "folds": 2},
}


@pytest.fixture(scope="module", params=list(BASES))
def base(request, few_examples):
    nlp = spacy.blank("en")
    parser = nlp.add_pipe("spectral_parser", config={"model": BASES[request.param]})
    nlp.initialize(lambda: few_examples(nlp)[:80])
    parser.learner.keep_temperature(Temperature(1.3, 1.1, 1.7))
    return nlp


@pytest.mark.parametrize("kind", list(RERANKERS))
def test_reranker_on_any_base(base, few_examples, kind, monkeypatch):
    parser = base.get_pipe("spectral_parser")
    fitted = []
    recipe = type(parser.model.attrs["recipe"])
    fit = recipe.fit

    def watched(self, *arguments, **options):
        fitted.append(fit(self, *arguments, **options))
        return fitted[-1]

    monkeypatch.setattr(recipe, "fit", watched)
    nlp = spacy.blank("en", vocab=base.vocab)
    nlp.add_pipe("spectral_parser", source=base)
    reranker = nlp.add_pipe("spectral_reranker", config={"model": RERANKERS[kind], "n": 5})
    reranker.initialize(lambda: few_examples(nlp)[:80], nlp=nlp)
    assert len(fitted) == 2  # one copy for each block
    if recipe is ProductRecipe:
        # nothing is held out of blocks for weights, which are those of the base
        assert all(copy.weights == {"loglinear": 0.6, "biaffine": 0.4} for copy in fitted)
    assert all(copy.temperature == NEUTRAL for copy in fitted)  # and get the base's afterwards
    docs = list(nlp.pipe(eg.predicted.copy() for eg in few_examples(nlp, "dev")[:20]))
    for doc in docs:
        assert doc.has_annotation("DEP")
        assert all(sum(token.head == token for token in sent) == 1 for sent in doc.sents)
