"""Products of parsers against enumeration of all labelled trees."""

from itertools import product as combinations

import numpy
import pytest

from brute_force import compare_conditioned, projective_trees
from spacy_spectral.forest.conditions import (
    HeadIs,
    HeadIsNot,
    LabelIs,
    NoCrossing,
    SameHead,
    SentenceTrees,
    conditioned,
)
from spacy_spectral.models.biaffine.architecture import build_biaffine_v2
from spacy_spectral.models.loglinear.architecture import build_loglinear
from spacy_spectral.models.loglinear.model import read_table
from spacy_spectral.models.product.architecture import build_product
from spacy_spectral.models.product.parser import ProductParser
from spacy_spectral.models.refine.architecture import build_refined
from spacy_spectral.models.shag.architecture import build_shag
from spacy_spectral.trees.calibration import calibrated, judge, log_scores
from spacy_spectral.trees.interface import NEUTRAL, AskedArcs, Temperature
from spacy_spectral.trees.sentences import MISSING, Tokens, Treebank

LABELS = ("a", "b", "root")
WORDS = {"N": ["cat", "dog", "tree"], "V": ["see", "runs"], "D": ["the", "a"], "P": ["of", "in"]}


def sentences(lengths, seed=0):
    """Random sentences with trees that are easy to learn: everything hangs on its right neighbour or on the
    last word, determiners as "a"."""
    rng = numpy.random.default_rng(seed)
    words, tags, heads, labels = [], [], [], []
    for n in lengths:
        own = rng.choice(list(WORDS), n).tolist()
        tags += own
        words += [str(rng.choice(WORDS[tag])) for tag in own]
        tree = [i + 2 if own[i] in "DP" or rng.random() < 0.5 else n for i in range(n)]
        tree[-1] = 0
        heads += tree
        labels += ["a" if tag == "D" else "b" for tag in own[:-1]] + ["root"]
    starts = numpy.append(0, numpy.cumsum(lengths)).astype("int32")
    nothing = [None] * len(words)
    tokens = Tokens(starts, words, tags, nothing, [""] * len(words), [""] * len(words))
    return Treebank(tokens, numpy.array(heads, dtype="int32"), labels)


def quiet(message):
    pass


def fit(model, treebank, dev=None):
    return model.attrs["recipe"].fit(treebank, dev=dev, clusters=None, vectors=None, report=quiet)


@pytest.fixture(scope="module")
def experts():
    treebank = sentences(numpy.random.default_rng(1).integers(1, 7, 150))
    # all arcs are kept, so that every tree can be compared
    loglinear = build_loglinear(
        epochs=2, n_states=1, prune_threshold=0.0, prune_most=99, min_blocks=1
    )
    biaffine = build_biaffine_v2(
        mix_size=8, scan_size=8, scan_depth=1, arc_size=8, label_size=8, epochs=2, batch_size=100
    )
    return {"loglinear": fit(loglinear, treebank), "biaffine": fit(biaffine, treebank)}


@pytest.fixture(scope="module")
def shag():
    return fit(build_shag(states=2), sentences(numpy.random.default_rng(1).integers(1, 7, 150)))


@pytest.fixture(scope="module")
def refined():
    bank = sentences(numpy.random.default_rng(1).integers(1, 7, 150))
    return fit(build_refined(states=12, dimensions=2, prune=0.0), bank)


def labelled_trees(n, *, any_label=False):
    """Heads and labels of all projective trees that the models think possible."""
    found = []
    for heads in projective_trees(n):
        choices = [[0, 1, 2] if any_label else [2] if head == 0 else [0, 1] for head in heads]
        found += [(heads, labels) for labels in combinations(*choices)]
    heads, labels = zip(*found, strict=True)
    return numpy.array(heads, dtype="int32"), numpy.array(labels, dtype="int32")


def loglinear_scores(parser, tokens, heads, labels):
    """log P of labelled trees, from those of trees with their best labels: with one state labels are
    independent given their arcs."""
    parses = parser.parse(tokens)
    n = heads.shape[1]
    joint = numpy.zeros((n + 1, n + 1, len(parser.label_names)))
    arcs = parses.arcs(0, labelled=True, min_prob=0.0)
    joint[arcs.heads, arcs.modifiers, arcs.labels] = arcs.probs
    columns = numpy.arange(1, n + 1)

    def log_labels(tree, own):
        return numpy.log(joint[tree, columns, own]).sum()

    best = {
        tuple(parse.heads.tolist()): parse.log_prob - log_labels(parse.heads, parse.labels)
        for parse in parses.k_best(0, 10_000)
    }
    return numpy.array(
        [
            best[tuple(tree.tolist())] + log_labels(tree, own)
            for tree, own in zip(heads, labels, strict=True)
        ]
    )


def biaffine_scores(parser, tokens, heads, labels, temperature=NEUTRAL):
    """By definition, up to a constant: arcs, and labels given arcs."""
    n = heads.shape[1]
    edges = numpy.arange(0, n * (n + 1) + 1, n + 1, dtype="int32")
    all_heads = numpy.tile(numpy.arange(n + 1, dtype="int32"), n)
    arcs, log_labels = parser.scorer(tokens)(
        AskedArcs(slice(None), tokens.starts, edges, all_heads)
    )
    at = edges[:-1] + heads
    log_labels = log_labels / temperature.labels
    log_labels = log_labels - numpy.log(numpy.exp(log_labels).sum(axis=1, keepdims=True))
    return (arcs[at] / temperature.heads + log_labels[at, labels]).sum(axis=1)


def normalised(scores):
    probs = numpy.exp(scores - scores.max())
    return probs / probs.sum()


def marginals_of(heads, probs):
    n = heads.shape[1]
    result = numpy.zeros((n + 1, n + 1))
    for tree, prob in zip(heads, probs, strict=True):
        result[tree, numpy.arange(1, n + 1)] += prob
    return result


def compare(parses, heads, labels, probs, *, rel=1e-4):
    """Everything that can be asked of parses of one sentence, against probabilities of all its trees."""
    n = heads.shape[1]
    expected = marginals_of(heads, probs)
    assert parses.marginals(0) == pytest.approx(expected, abs=1e-5)
    assert parses.head_probs() == pytest.approx(
        expected[parses.heads, numpy.arange(1, n + 1)], rel=rel
    )
    for m in range(n):
        inside = heads[:, m] == parses.heads[m]
        with_label = inside & (labels[:, m] == parses.labels[m])
        given = probs[with_label].sum() / probs[inside].sum()
        assert parses.label_probs()[m] == pytest.approx(given, rel=rel)
    known = {
        (tuple(h), tuple(lab)): prob
        for h, lab, prob in zip(heads.tolist(), labels.tolist(), probs.tolist(), strict=True)
    }
    by_tree = {}
    for h, prob in zip(map(tuple, heads.tolist()), probs.tolist(), strict=True):
        by_tree[h] = by_tree.get(h, 0.0) + prob
    found = parses.k_best(0, 8)
    for tree in found:
        key = tuple(tree.heads.tolist())
        wanted = known[key, tuple(tree.labels.tolist())] if parses.labelled else by_tree[key]
        assert numpy.exp(tree.log_prob) == pytest.approx(wanted, rel=rel)
    logs = [tree.log_prob for tree in found]
    assert logs == sorted(logs, reverse=True)
    assert len({tuple(tree.heads.tolist()) for tree in found}) == len(found)
    for k in (1, 12):
        found = parses.k_best(0, k, labelled=True)
        keys = [(tuple(tree.heads.tolist()), tuple(tree.labels.tolist())) for tree in found]
        assert len(set(keys)) == len(keys) == min(k, len(known))
        own = numpy.exp([tree.log_prob for tree in found])
        assert own == pytest.approx([known[key] for key in keys], rel=rel)
        assert own == pytest.approx(sorted(known.values(), reverse=True)[:k], rel=rel)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.3, 0.9)])
def test_product_is_the_product_of_distributions(experts, n, weights):
    tokens = sentences([n], seed=n).tokens
    heads, labels = labelled_trees(n)
    scores = weights[0] * loglinear_scores(experts["loglinear"], tokens, heads, labels)
    scores += weights[1] * biaffine_scores(experts["biaffine"], tokens, heads, labels)
    found = ProductParser(experts, dict(zip(experts, weights, strict=True))).parse(tokens)
    compare(found, heads, labels, normalised(scores))


def test_temperature_of_a_product(experts):
    tokens = sentences([4], seed=3).tokens
    heads, labels = labelled_trees(4)
    scores = 0.5 * loglinear_scores(experts["loglinear"], tokens, heads, labels)
    scores += 0.5 * biaffine_scores(experts["biaffine"], tokens, heads, labels)
    weights = dict.fromkeys(experts, 0.5)
    cool = ProductParser(experts, weights, temperature=Temperature(1.7, 1.7))
    compare(cool.parse(tokens), heads, labels, normalised(scores / 1.7))


@pytest.mark.parametrize("kind", ["loglinear", "biaffine", "product", "arcs", "shag", "refined"])
@pytest.mark.parametrize("temperature", [NEUTRAL, Temperature(1.7, 1.4, 1.7, 0.35)])
def test_labelled_lists(experts, shag, refined, kind, temperature):
    """All labelled trees of a sentence, whatever the distribution is mixed of; and the best of them."""
    arcs = {"biaffine": experts["biaffine"], "shag": shag}
    model = {
        **experts,
        "product": ProductParser(experts, dict.fromkeys(experts, 0.5)),
        "arcs": ProductParser(arcs, dict.fromkeys(arcs, 0.5)),
        "shag": shag,
        "refined": refined,
    }[kind].with_temperature(temperature)
    parses = model.parse(sentences([4], seed=6).tokens)
    every = parses.k_best(0, 10_000, labelled=True)
    logs = [tree.log_prob for tree in every]
    assert logs == sorted(logs, reverse=True) and logs[0] <= 0
    assert numpy.exp(logs).sum() == pytest.approx(1.0, rel=1e-5)
    known, by_heads = {}, {}
    for tree in every:
        heads = tuple(tree.heads.tolist())
        known[heads, tuple(tree.labels.tolist())] = tree.log_prob
        by_heads[heads] = by_heads.get(heads, 0.0) + numpy.exp(tree.log_prob)
    assert len(known) == len(every)
    # the list of heads has the likeliest labels of each tree, and the probability of all or of these
    for tree in parses.k_best(0, 10_000):
        heads = tuple(tree.heads.tolist())
        own = known[heads, tuple(tree.labels.tolist())]
        expected = own if parses.labelled else numpy.log(by_heads[heads])
        assert tree.log_prob == pytest.approx(expected, abs=1e-4)
    exact = kind not in ("shag", "refined")  # others look among the best trees
    for k in (1, 2, 7, 40):
        found = [tree.log_prob for tree in parses.k_best(0, k, labelled=True)]
        assert len(found) == k
        if exact:
            assert found == pytest.approx(logs[:k], abs=1e-6)


def test_tables_are_packed_once(experts, monkeypatch):
    """They are as large as the model: to make them again with every call would take longer than to parse."""
    packed = []

    def count(*arguments, **settings):
        packed.append(1)
        return read_table(*arguments, **settings)

    monkeypatch.setattr("spacy_spectral.models.loglinear.model.read_table", count)
    loaded = ProductParser.from_bytes(
        ProductParser(experts, dict.fromkeys(experts, 0.5)).to_bytes()
    )
    alone = loaded.with_weights({"loglinear": 0.7, "biaffine": 0.0})
    for parser in (loaded, loaded, loaded.with_temperature(Temperature(2.0, 2.0)), alone):
        parser.parse(sentences([3, 4]).tokens)
    assert len(packed) == 1


def best_by_marginals(heads, probs):
    """The tree with the best product of arc probabilities."""
    table = numpy.log(marginals_of(heads, probs) + 1e-300)
    columns = numpy.arange(1, heads.shape[1] + 1)
    return heads[numpy.argmax([table[tree, columns].sum() for tree in heads])]


@pytest.mark.parametrize("chart", ["loglinear", "first order"])
def test_trees_are_chosen_by_a_sharper_distribution(experts, shag, chart):
    """The tree is that of P^choice, its probabilities are those of P."""
    everyone = experts if chart == "loglinear" else {"biaffine": experts["biaffine"], "shag": shag}
    weights, n_other = dict.fromkeys(everyone, 0.5), 0
    for seed in range(30):
        tokens = sentences([5], seed=seed).tokens
        flat = ProductParser(everyone, weights, temperature=Temperature(4.0, 4.0))
        sharp = flat.with_temperature(Temperature(4.0, 4.0, 20.0))
        parses, found = flat.parse(tokens), sharp.parse(tokens)
        trees = numpy.array(projective_trees(5), dtype="int32")
        known = {tuple(p.heads.tolist()): p.log_prob for p in parses.k_best(0, 10_000)}
        if parses.labelled:  # of the tree with its best labels; of all labels together:
            joint = numpy.zeros((6, 6, len(flat.label_names)))
            arcs = parses.arcs(0, labelled=True, min_prob=0.0)
            joint[arcs.heads, arcs.modifiers, arcs.labels] = arcs.probs
            own = numpy.log(joint.max(axis=2) / numpy.maximum(joint.sum(axis=2), 1e-300) + 1e-300)
            columns = numpy.arange(1, 6)
            known = {
                tree: log_prob - own[numpy.array(tree), columns].sum()
                for tree, log_prob in known.items()
            }
        logs = numpy.array([known.get(tuple(tree.tolist()), -numpy.inf) for tree in trees])
        assert (found.heads == best_by_marginals(trees, normalised(20 * logs))).all()
        assert (parses.heads == best_by_marginals(trees, normalised(logs))).all()
        n_other += (found.heads != parses.heads).any()
        assert found.marginals(0) == pytest.approx(parses.marginals(0))
        columns = numpy.arange(1, 6)
        assert found.head_probs() == pytest.approx(
            parses.marginals(0)[found.heads, columns], rel=1e-5
        )
    assert n_other > 0


def test_calibration_changes_how_sure_a_parser_is_and_not_at_what_it_chooses(experts):
    unseen = sentences([5] * 60, seed=11)
    for expert in experts.values():
        sure = calibrated(expert, unseen)
        t = sure.temperature
        assert abs(t.heads - 1) > 0.05
        assert t.heads / t.choice == pytest.approx(1.0)
        before, after = (
            judge(parser.parse(unseen.tokens), unseen, parser.label_names)
            for parser in (expert, sure)
        )
        scores = [log_scores(own.arcs, own.arc_right).sum() for own in (before, after)]
        assert scores[1] > scores[0]


def test_fixed_heads(experts):
    tokens = sentences([5], seed=5).tokens
    heads, labels = labelled_trees(5)
    fixed = numpy.array([MISSING, 4, MISSING, MISSING, MISSING], dtype="int32")
    scores = 0.5 * loglinear_scores(experts["loglinear"], tokens, heads, labels)
    scores += 0.5 * biaffine_scores(experts["biaffine"], tokens, heads, labels)
    inside = heads[:, 1] == 4
    found = ProductParser(experts, dict.fromkeys(experts, 0.5)).parse(tokens, fixed=fixed)
    compare(found, heads[inside], labels[inside], normalised(scores[inside]))


CONDITIONS = [
    [],
    [HeadIs(2, 4)],
    [LabelIs(3, "a")],
    [SameHead(1, 4)],
    [NoCrossing(2, 3), HeadIsNot(1, 0)],
]


@pytest.mark.parametrize("conditions", CONDITIONS)
@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)])
def test_conditions(experts, weights, conditions):
    """Trees under conditions, by the distribution of the product itself."""
    tokens = sentences([4], seed=5).tokens
    # a neural parser alone thinks all labels possible
    heads, labels = labelled_trees(4, any_label=not weights[0])
    scores = weights[1] * biaffine_scores(experts["biaffine"], tokens, heads, labels)
    if weights[0]:
        scores += weights[0] * loglinear_scores(experts["loglinear"], tokens, heads, labels)
    product = ProductParser(experts, dict(zip(experts, weights, strict=True)))
    names = list(product.label_names)
    trees = {
        (tuple(tree), tuple(names[i] for i in own)): p
        for tree, own, p in zip(
            heads.tolist(), labels.tolist(), normalised(scores).tolist(), strict=True
        )
    }
    parses = product.parse(tokens)
    found = conditioned(4, SentenceTrees(parses, labelled=True), conditions, names=names)
    compare_conditioned(found, trees, conditions, rel=1e-4, labelled=parses.labelled)


@pytest.mark.parametrize("conditions", [own for own in CONDITIONS if LabelIs(3, "a") not in own])
def test_conditions_of_a_model_with_hidden_states(shag, conditions):
    parses = shag.parse(sentences([4], seed=5).tokens)
    trees = {
        (tuple(tree.heads.tolist()), None): numpy.exp(tree.log_prob)
        for tree in parses.k_best(0, 10_000)
    }
    found = conditioned(4, SentenceTrees(parses), conditions)
    own = trees[tuple(found.heads.tolist()), None] / found.probability
    assert numpy.exp(found.log_prob) == pytest.approx(own, rel=1e-6)
    # the tree is that with the best product of probabilities, which need not be the likeliest
    found = found._replace(log_prob=None)
    compare_conditioned(found, trees, conditions, rel=1e-6, labelled=None)


def same(one, other, n_sentences):
    assert (one.heads == other.heads).all() and (one.labels == other.labels).all()
    assert (one.head_probs() == other.head_probs()).all()
    assert (one.label_probs() == other.label_probs()).all()
    assert (one.log_probs() == other.log_probs()).all()
    for s in range(n_sentences):
        assert (one.marginals(s) == other.marginals(s)).all()
        for a, b in zip(one.k_best(s, 4), other.k_best(s, 4), strict=True):
            assert (a.heads == b.heads).all() and a.log_prob == b.log_prob


def test_an_expert_alone_is_itself(experts, shag, refined):
    tokens = sentences([3, 6, 1, 5]).tokens
    everyone = experts | {"shag": shag, "refined": refined}
    for name, expert in everyone.items():
        weights = {other: float(other == name) for other in everyone}
        same(ProductParser(everyone, weights).parse(tokens), expert.parse(tokens), len(tokens))


@pytest.mark.parametrize("n", [2, 4, 6])
def test_without_a_log_linear_expert_arcs_are_all_there_is(experts, shag, n):
    """SHAG takes part by its probabilities of labelled arcs; labels are independent given arcs."""
    tokens = sentences([n], seed=2).tokens
    edges = numpy.arange(0, n * (n + 1) + 1, n + 1, dtype="int32")
    all_heads = numpy.tile(numpy.arange(n + 1, dtype="int32"), n)
    biaffine = experts["biaffine"]
    arcs, labels = biaffine.scorer(tokens)(AskedArcs(slice(None), tokens.starts, edges, all_heads))
    scores = 0.6 * (arcs[:, None] + labels).reshape(n, n + 1, -1)
    smallest = 1e-6 / len(shag.label_names)  # what is less likely is as likely as that
    found = shag.parse(tokens).arcs(0, labelled=True, min_prob=smallest)
    joint = numpy.full((n, n + 1, len(shag.label_names)), smallest)
    joint[found.modifiers - 1, found.heads, found.labels] += found.probs
    places = [list(shag.label_names).index(name) for name in biaffine.label_names]
    scores = scores + 0.4 * numpy.log(joint)[:, :, places]
    total = numpy.log(numpy.exp(scores).sum(axis=2))
    trees = numpy.array(list(projective_trees(n)), dtype="int32")
    probs = normalised(total[numpy.arange(n), trees].sum(axis=1))
    both = {"biaffine": biaffine, "shag": shag}
    parses = ProductParser(both, {"biaffine": 0.6, "shag": 0.4}).parse(tokens)
    assert parses.marginals(0) == pytest.approx(marginals_of(trees, probs), abs=1e-5)
    known = {tuple(tree): prob for tree, prob in zip(trees.tolist(), probs.tolist(), strict=True)}
    for tree in parses.k_best(0, 8):
        wanted = known[tuple(tree.heads.tolist())]
        assert numpy.exp(tree.log_prob) == pytest.approx(wanted, rel=1e-4)
    given = scores - total[..., None]
    chosen = given[numpy.arange(n), parses.heads]
    assert parses.label_probs() == pytest.approx(numpy.exp(chosen.max(axis=1)), rel=1e-4)


def refined_scores(grammar, tokens, heads, labels):
    """Logarithms of marginals of arcs and of labels in the best tree, by enumeration of all trees."""
    (n,) = numpy.diff(tokens.starts)
    parses = grammar.parse(tokens)
    known = {tuple(p.heads.tolist()): numpy.exp(p.log_prob) for p in parses.k_best(0, 10_000)}
    trees = numpy.array(list(known), dtype="int32")
    arcs = marginals_of(trees, numpy.array(list(known.values())))
    joint = parses.arcs(0, labelled=True, min_prob=0.0)
    given = numpy.zeros((n + 1, n + 1, len(grammar.label_names)))
    given[joint.heads, joint.modifiers, joint.labels] = joint.probs
    given /= numpy.maximum(given.sum(axis=2, keepdims=True), 1e-300)
    columns = numpy.arange(1, n + 1)
    own = numpy.log(numpy.maximum(arcs, 1e-5))[heads, columns]
    return (own + numpy.log(numpy.maximum(given, 1e-5))[heads, columns, labels]).sum(axis=1)


@pytest.mark.parametrize("n", [1, 2, 4, 5])
@pytest.mark.parametrize("weights", [(0.8, 0.2), (1.1, 0.4)])
def test_a_refined_grammar_is_an_expert(experts, refined, n, weights):
    """It takes part by its marginals of arcs."""
    tokens = sentences([n], seed=n).tokens
    heads, labels = labelled_trees(n)
    loglinear = experts["loglinear"]
    assert loglinear.label_names == refined.label_names
    scores = weights[0] * loglinear_scores(loglinear, tokens, heads, labels)
    scores += weights[1] * refined_scores(refined, tokens, heads, labels)
    both = {"loglinear": loglinear, "refined": refined}
    found = ProductParser(both, dict(zip(both, weights, strict=True))).parse(tokens)
    compare(found, heads, labels, normalised(scores))


def test_at_one_temperature_after_the_other(experts, shag):
    """What experts have said once is the same at any temperature; also of long sentences, in pieces."""
    tokens = sentences([5, 3, 1, 260], seed=4).tokens
    product = ProductParser(
        experts | {"shag": shag}, {"loglinear": 0.5, "biaffine": 0.4, "shag": 0.2}
    )
    again = product.parses_at(tokens)
    for t in (NEUTRAL, Temperature(1.7, 1.2, 1.7, 0.3), NEUTRAL, Temperature(0.8)):
        found, expected = again(t), product.with_temperature(t).parse(tokens)
        assert found.heads.tolist() == expected.heads.tolist()
        assert found.head_probs().tobytes() == expected.head_probs().tobytes()
        assert found.log_probs().tobytes() == expected.log_probs().tobytes()


def test_long_sentences_in_pieces(experts, refined):
    tokens = sentences([600, 3]).tokens
    everyone = experts | {"refined": refined}
    parses = ProductParser(everyone, dict.fromkeys(everyone, 0.5)).parse(tokens)
    for own in (parses.heads[:600], parses.heads[600:]):
        assert (own == 0).sum() == 1
        assert own.min() >= 0 and own.max() <= len(own)
    assert ((parses.head_probs() > 0) & (parses.head_probs() <= 1 + 1e-6)).all()


def test_any_batch_and_nothing(experts):
    treebank = sentences([4, 2, 6, 3, 5, 1])
    product = ProductParser(experts, dict.fromkeys(experts, 0.5))
    together = product.parse(treebank.tokens)
    for s, (a, b) in enumerate(treebank.tokens.bounds()):
        chosen = numpy.arange(6) == s
        alone = product.parse(treebank.tokens.select(chosen))
        assert (alone.heads == together.heads[a:b]).all()
        assert alone.head_probs() == pytest.approx(together.head_probs()[a:b], abs=1e-5)
    nothing = treebank.tokens.select(numpy.zeros(6, dtype=bool))
    assert len(product.parse(nothing).heads) == 0


def test_bytes(experts, shag, refined):
    everyone = experts | {"shag": shag, "refined": refined}
    weights = {"loglinear": 0.5, "biaffine": 0.2, "shag": 0.2, "refined": 0.1}
    product = ProductParser(everyone, weights, temperature=Temperature(1.5, 0.9, 1.2))
    data = product.to_bytes()
    loaded = ProductParser.from_bytes(data)
    assert loaded.to_bytes() == data
    assert loaded.weights == weights and loaded.temperature == Temperature(1.5, 0.9, 1.2)
    tokens = sentences([3, 6]).tokens
    same(loaded.parse(tokens), product.parse(tokens), 2)
    for damaged in (data[:-1], data[:40], b"", bytes([data[0] ^ 1]) + data[1:]):
        with pytest.raises(ValueError, match=r"\[S00"):
            ProductParser.from_bytes(damaged)


def test_training_learns_weights_and_is_repeatable():
    train, dev = sentences([5] * 60), sentences([5] * 40, seed=9)
    small = {"mix_size": 8, "scan_size": 8, "scan_depth": 1, "arc_size": 8, "label_size": 8}

    def build(**options):
        experts = {
            "loglinear": build_loglinear(epochs=1),
            "biaffine": build_biaffine_v2(epochs=1, batch_size=100, **small),
        }
        return build_product(experts, **options)

    product = fit(build(), train, dev)
    assert sum(product.weights.values()) == pytest.approx(1.0)
    assert product.weights != dict.fromkeys(product.weights, 0.5)
    assert fit(build(), train, dev).to_bytes() == product.to_bytes()
    without_dev = fit(build(), train)
    assert without_dev.weights != dict.fromkeys(without_dev.weights, 0.5)
    given = fit(build(weights={"loglinear": 0.2, "biaffine": 0.4}), train, dev)
    assert given.weights == {"loglinear": 0.2, "biaffine": 0.4}
    judged = judge(product.parse(dev.tokens), dev, product.label_names)
    assert judged.uas > 0.5


@pytest.mark.parametrize(
    "weights", [{}, {"x": 1.0}, {"loglinear": -1.0}, {"loglinear": 0.0}, {"loglinear": 1, "y": 1}]
)
def test_bad_weights(weights):
    with pytest.raises(ValueError, match=r"\[S453\]"):
        build_product({"loglinear": build_loglinear()}, weights=weights)


def test_bad_experts():
    from thinc.api import Linear

    with pytest.raises(ValueError, match=r"\[S454\]"):
        build_product({})
    with pytest.raises(ValueError, match=r"\[S455\].*'other'"):
        build_product({"other": Linear()})
