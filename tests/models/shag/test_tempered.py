"""Temperatures of models that sum over hidden states, against products of doubts over every tree."""

import numpy
import pytest

from brute_force import compare_conditioned, marginals, projective_trees
from refine_data import SENTENCE, make_tokens, treebank
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    SameHead,
    SentenceTrees,
    conditioned,
)
from spacy_spectral.models.product.parser import ProductParser
from spacy_spectral.models.refine.architecture import RefinedRecipe
from spacy_spectral.models.refine.model import RefinedGrammar
from spacy_spectral.models.shag.estimate import EstimatorSettings
from spacy_spectral.models.shag.grammar import Grammar, GrammarSettings
from spacy_spectral.trees.calibration import calibrated, judge, log_scores
from spacy_spectral.trees.interface import NEUTRAL, Temperature
from spacy_spectral.trees.posterior import allowed_arcs
from spacy_spectral.trees.sentences import MISSING

LESS_SURE = Temperature(1.7, 1.4, 1.7)
MIXED = Temperature(1.7, 1.4, 1.7, 0.35)


def fit_shag(**settings):
    automata = EstimatorSettings(states=4, estimator="em")
    return Grammar.fit(
        list(treebank(size=300).trees()),
        GrammarSettings(automata=automata, lexical="LEX", **settings),
    )


@pytest.fixture(scope="module")
def models():
    return {
        "shag": fit_shag(),
        "projected": Grammar.fit(
            list(treebank(size=300).trees()),
            GrammarSettings(automata=EstimatorSettings(states=4, estimator="spectral")),
        ),
        "refined": RefinedRecipe(states=12, cycles=1).fit(treebank(size=300)),
    }


@pytest.fixture(params=["shag", "projected", "refined"])
def model(request, models):
    return models[request.param]


def values(model, tokens, fixed=None):
    """The marginals that the chart of a sentence gives."""
    places = numpy.arange(len(tokens.words))
    allowed = None if fixed is None else allowed_arcs(fixed)
    return model.posteriors(tokens, model.symbols.encode(tokens.symbols))(places, allowed).marginals


def oracle(mu, temperature, *, keep=lambda heads: True):
    """Trees and their probabilities, from the marginals of the model itself."""
    trees = [tree for tree in projective_trees(len(mu) - 1) if keep(tree)]
    columns = numpy.arange(1, len(mu))
    doubts = numpy.maximum(1 - mu, 1e-6) ** (-1 / temperature)
    weights = numpy.array([doubts[list(t), columns].prod() for t in trees])
    return trees, 0.85 * weights / weights.sum() + 0.15 / len(trees)


def test_everything_is_that_of_products_of_doubts(model):
    tokens = make_tokens([SENTENCE])
    own = model.parse(tokens)
    trees, probs = oracle(values(model, tokens), LESS_SURE.heads)
    found = model.with_temperature(LESS_SURE).parse(tokens)
    expected = marginals(probs, trees)
    numpy.testing.assert_allclose(found.marginals(0)[:, 1:], expected[:, 1:], atol=1e-9)
    columns = numpy.arange(1, 5)
    assert found.head_probs() == pytest.approx(expected[found.heads, columns], rel=1e-5)
    # the tree and its labels are those that the model chooses as it is
    assert found.heads.tolist() == own.heads.tolist()
    assert found.labels.tolist() == own.labels.tolist()
    by_tree = dict(zip(trees, numpy.log(numpy.maximum(probs, 1e-300)), strict=True))
    assert found.log_probs()[0] == pytest.approx(by_tree[tuple(found.heads.tolist())])
    best = found.k_best(0, 5)
    top = sorted(by_tree.values(), reverse=True)[0]
    assert best[0].log_prob == pytest.approx(max(top, best[0].log_prob))
    for parse in best:
        assert parse.log_prob == pytest.approx(by_tree[tuple(parse.heads.tolist())])
    arcs = found.arcs(0, min_prob=0.0)
    numpy.testing.assert_allclose(arcs.probs, expected[arcs.heads, arcs.modifiers], atol=1e-9)


def test_a_share_of_the_model_as_it_is(model):
    """Mixed with what it says at a temperature of 1."""
    tokens = make_tokens([SENTENCE])
    own = model.parse(tokens)
    trees, probs = oracle(values(model, tokens), MIXED.heads)
    found = model.with_temperature(MIXED).parse(tokens)
    expected = 0.35 * own.marginals(0) + 0.65 * marginals(probs, trees)
    numpy.testing.assert_allclose(found.marginals(0)[:, 1:], expected[:, 1:], atol=1e-9)
    assert found.heads.tolist() == own.heads.tolist()
    first = {tuple(p.heads.tolist()): numpy.exp(p.log_prob) for p in own.k_best(0, 1000)}
    second = dict(zip(trees, probs, strict=True))
    for parse in found.k_best(0, 1000):
        tree = tuple(parse.heads.tolist())
        assert numpy.exp(parse.log_prob) == pytest.approx(0.35 * first[tree] + 0.65 * second[tree])
    tree = tuple(found.heads.tolist())
    assert numpy.exp(found.log_probs()[0]) == pytest.approx(
        0.35 * first[tree] + 0.65 * second[tree]
    )


@pytest.mark.parametrize(
    "conditions", [[], [HeadIs(1, 2)], [SameHead(1, 4), HeadIsNot(3, 0)], [HeadIsNot(2, 0)]]
)
@pytest.mark.parametrize("name", ["shag", "projected", "refined"])
def test_conditions_on_a_mixture(models, name, conditions):
    tokens = make_tokens([SENTENCE])
    parses = models[name].with_temperature(MIXED).parse(tokens)
    trees = {(tuple(p.heads.tolist()), None): numpy.exp(p.log_prob) for p in parses.k_best(0, 1000)}
    found = conditioned(4, SentenceTrees(parses), conditions)
    compare_conditioned(found, trees, conditions, rel=1e-6, labelled=None)
    own = trees[tuple(found.heads.tolist()), None] / found.probability
    assert numpy.exp(found.log_prob) == pytest.approx(own, rel=1e-6)


def test_values_of_projected_automata_are_made_probabilities(models):
    """Of single arcs, with nearly the same marginals; the tree is the chart's."""
    tokens = make_tokens([SENTENCE])
    mu = values(models["projected"], tokens)
    parses = models["projected"].parse(tokens)
    found = {tuple(p.heads.tolist()): numpy.exp(p.log_prob) for p in parses.k_best(0, 1000)}
    trees, columns = projective_trees(4), numpy.arange(1, 5)
    assert set(found) == set(trees)
    probs = numpy.array([found[tree] for tree in trees])
    assert probs.sum() == pytest.approx(1.0)
    numpy.testing.assert_allclose(parses.marginals(0), marginals(probs, trees), atol=1e-9)
    numpy.testing.assert_allclose(parses.marginals(0)[:, 1:], mu[:, 1:], atol=0.03)
    # the logarithms are sums over arcs: as many numbers as there are arcs, less one head of each token
    arcs = numpy.zeros((len(trees), 5, 5))
    for row, tree in zip(arcs, trees, strict=True):
        row[list(tree), columns] = 1.0
    logs, own = numpy.log(probs), arcs.reshape(len(trees), -1)
    fitted = own @ numpy.linalg.lstsq(own, logs)[0]
    numpy.testing.assert_allclose(fitted, logs, atol=1e-8)
    best = max(trees, key=lambda t: mu[list(t), columns].prod())
    assert tuple(parses.heads.tolist()) == best
    assert numpy.exp(parses.log_probs()[0]) == pytest.approx(found[best])


def test_labels_are_sharpened_given_their_arcs(model):
    tokens = make_tokens([SENTENCE])
    before = model.parse(tokens).label_distributions(0)
    found = model.with_temperature(LESS_SURE).parse(tokens)
    expected = before ** (1 / LESS_SURE.labels)
    expected /= expected.sum(axis=1, keepdims=True)
    numpy.testing.assert_allclose(found.label_distributions(0), expected)
    numpy.testing.assert_allclose(
        found.label_probs(), expected[numpy.arange(4), found.labels], rtol=1e-6
    )
    joint = found.arcs(0, labelled=True, min_prob=0.0)
    chosen = joint.heads == found.heads[joint.modifiers - 1]
    total = numpy.zeros_like(expected)
    total[joint.modifiers[chosen] - 1, joint.labels[chosen]] = joint.probs[chosen]
    numpy.testing.assert_allclose(total, expected * found.head_probs()[:, None], rtol=1e-5)


def test_at_a_temperature_of_one_nothing_changes(model):
    tokens = treebank(seed=5, size=30).tokens
    before, after = model.parse(tokens), model.with_temperature(NEUTRAL).parse(tokens)
    for ask in ("head_probs", "label_probs", "log_probs"):
        assert getattr(before, ask)().tobytes() == getattr(after, ask)().tobytes()
    # neither does asking again and again
    again = model.parses_at(tokens)
    for t in (LESS_SURE, NEUTRAL, LESS_SURE, MIXED, Temperature(0.7, 1.0, 2.0)):
        expected = model.with_temperature(t).parse(tokens)
        found = again(t)
        assert found.heads.tolist() == expected.heads.tolist()
        assert found.head_probs().tobytes() == expected.head_probs().tobytes()
        assert found.log_probs().tobytes() == expected.log_probs().tobytes()


def test_fixed_heads(model):
    fixed = numpy.array([MISSING, 0, MISSING, 2], dtype="int32")
    tokens = make_tokens([SENTENCE])
    mu = values(model, tokens, fixed)
    trees, probs = oracle(mu, 1.7, keep=lambda heads: heads[1] == 0 and heads[3] == 2)
    found = model.with_temperature(LESS_SURE).parse(tokens, fixed=fixed)
    assert found.heads[[1, 3]].tolist() == [0, 2]
    numpy.testing.assert_allclose(found.marginals(0), marginals(probs, trees), atol=1e-9)


@pytest.mark.parametrize(
    "conditions", [[], [HeadIs(1, 2)], [LabelIs(3, "dep")], [SameHead(1, 4), HeadIsNot(3, 0)]]
)
def test_conditions(model, conditions):
    tokens = make_tokens([SENTENCE])
    trees, probs = oracle(values(model, tokens), 1.7)
    parses = model.with_temperature(LESS_SURE).parse(tokens)
    names = model.label_names
    labelled = any(isinstance(own, LabelIs) for own in conditions)
    given = {
        (h, m, names[label]): prob / parses.marginals(0)[h, m]
        for h, m, label, prob in parses.arcs(0, labelled=True, min_prob=0.0).rows()
    }
    everything = {}
    for tree, prob in zip(trees, probs, strict=True):
        for root_is in ("root", "dep"):
            for three in ("root", "dep"):
                labels = ["root" if h == 0 else "dep" for h in tree]
                labels[2] = three
                share = given.get((tree[2], 3, three), 0.0) if labelled else 0.5
                everything[tree, (*labels, root_is)] = prob * share * 0.5
    found = conditioned(
        4,
        SentenceTrees(parses, labelled=labelled),
        conditions,
        names=names,
        told=conditions,
    )
    compare_conditioned(found, everything, conditions, rel=1e-6, labelled=None)


def test_arcs_that_were_left_out_are_hardly_impossible(models):
    model = models["refined"].with_temperature(LESS_SURE)
    parses = model.parse(make_tokens([SENTENCE]))
    more = numpy.ones((5, 5), dtype=bool)
    assert (parses.distribution(0, more=more).arcs({})[:, 1:].sum(axis=0) == 4).all()


def test_long_sentences_are_parsed_in_pieces():
    model = fit_shag(max_length=6).with_temperature(MIXED)
    long = [SENTENCE[i % 4] for i in range(29)]
    parses = model.parse(make_tokens([long, SENTENCE]))
    table = parses.marginals(0)
    numpy.testing.assert_allclose(table[:, 1:].sum(axis=0), 1.0)
    assert parses.head_probs()[:29] == pytest.approx(
        table[parses.heads[:29], numpy.arange(1, 30)], rel=1e-5
    )
    assert (
        parses.heads.tolist()
        == model.with_temperature(NEUTRAL).parse(make_tokens([long, SENTENCE])).heads.tolist()
    )
    alone = model.parse(make_tokens([SENTENCE]))
    assert parses.marginals(1).tobytes() == alone.marginals(0).tobytes()


def test_calibration_makes_a_model_truer_and_changes_no_tree(model):
    unseen = treebank(seed=9, size=200)
    sure = calibrated(model, unseen)
    assert sure.temperature.heads != 1
    before, after = (
        judge(parser.parse(unseen.tokens), unseen, parser.label_names) for parser in (model, sure)
    )
    assert before.uas == after.uas and before.las == after.las
    scores = [log_scores(own.heads, own.head_right).sum() for own in (before, after)]
    assert scores[1] > scores[0]


def test_files(model):
    sure = model.with_temperature(MIXED)
    data = sure.to_bytes()
    kind = type(model)
    again = kind.from_bytes(data)
    assert again.temperature == MIXED and again.to_bytes() == data
    tokens = treebank(seed=5, size=10).tokens
    assert again.parse(tokens).log_probs().tobytes() == sure.parse(tokens).log_probs().tobytes()
    name, version = kind.FORMAT.kind, kind.FORMAT.version
    payload = unpack(name, version, data)
    # older files have none
    older = {key: value for key, value in payload.items() if key != "temperature"}
    assert kind.from_bytes(pack(name, version, older)).temperature == NEUTRAL
    before = {key: payload["temperature"][key] for key in ("heads", "labels", "choice")}
    older = {**payload, "temperature": before}
    assert kind.from_bytes(pack(name, version, older)).temperature == LESS_SURE
    for field in ("heads", "labels", "choice", "share"):
        for bad in (0.0, -1.0, 1e9, float("nan"), float("inf"), "1", None):
            if (bad is None and field in ("choice", "share")) or (bad == 0 and field == "share"):
                continue
            damaged = {**payload, "temperature": {**payload["temperature"], field: bad}}
            with pytest.raises(ValueError, match=r"\[S00.\].*temperature"):
                kind.from_bytes(pack(name, version, damaged))


def test_a_product_asks_experts_as_they_are(models):
    tokens = treebank(seed=5, size=10).tokens
    weights = {"shag": 0.5, "refined": 0.5}
    experts = {name: models[name] for name in weights}
    tempered = {name: own.with_temperature(LESS_SURE) for name, own in experts.items()}
    a, b = (ProductParser(own, weights).parse(tokens) for own in (experts, tempered))
    assert a.head_probs().tobytes() == b.head_probs().tobytes()
    # alone, an expert is as sure as the product
    alone = ProductParser({"refined": tempered["refined"]}, {"refined": 1.0})
    expected = models["refined"].parse(tokens).head_probs()
    assert alone.parse(tokens).head_probs().tobytes() == expected.tobytes()
    assert isinstance(models["refined"], RefinedGrammar)
