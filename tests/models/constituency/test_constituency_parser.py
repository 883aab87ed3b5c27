"""The parser for constituents as a whole: files, probabilities, rules and words that are new."""

import numpy
import pytest

from constituency_toy import read
from spacy_spectral.models.constituency import statistics
from spacy_spectral.models.constituency.architecture import (
    ConstituencyRecipe,
    NeuralSpanRecipe,
    learn_encoder,
)
from spacy_spectral.models.constituency.calibration import Claims, calibrated
from spacy_spectral.models.constituency.evalb import constituents
from spacy_spectral.models.constituency.latent import (
    DENSE,
    MEANS,
    VECTORS,
    grow,
    row_sizes,
    shrink,
)
from spacy_spectral.models.constituency.model import ConstituencyModel, Mixture
from spacy_spectral.models.constituency.tokens import Encoder
from spacy_spectral.trees.calibration import log_scores


def test_files(tmp_path):
    trees = read(tmp_path)
    for recipe in (
        ConstituencyRecipe(states=2),
        ConstituencyRecipe(spans=False, states=2),
        ConstituencyRecipe(estimator=None, anchored=False),
    ):
        model = recipe.fit(trees)
        data = model.to_bytes()
        assert ConstituencyModel.from_bytes(data).to_bytes() == data
        words, starts = ["a", "dog", "sees", "Rome", "."], numpy.array([0, 3, 5])
        ours, theirs = (
            own.parse(words, starts) for own in (model, ConstituencyModel.from_bytes(data))
        )
        # as text: a tree that is no more than a guess has nan for its probability
        assert str(ours) == str(theirs)
        for damaged in (b"", data[:-5], data[:60] + b"x" + data[61:], data + b"x"):
            with pytest.raises(ValueError, match=r"S00[234]"):
                ConstituencyModel.from_bytes(damaged)


NETWORK = NeuralSpanRecipe(mix_size=8, scan_size=4, scan_depth=1, span_size=8, epochs=2)


@pytest.mark.parametrize("calibration", [1.0, 3.0])
@pytest.mark.parametrize(
    "recipe",
    [
        ConstituencyRecipe(states=2),
        ConstituencyRecipe(estimator=None),
        ConstituencyRecipe(states=2, neural=NETWORK),
    ],
    ids=["product", "spans", "network"],
)
def test_probabilities_add_up(tmp_path, recipe, calibration):
    model = recipe.fit(read(tmp_path)).with_calibration(calibration)
    words = ["the", "dog", "sees", "a", "cat", "in", "the", "park", "."]
    starts = numpy.array([0, len(words)])
    (parsed,), (best,) = model.parse(words, starts, k=5000)
    probs = numpy.exp([tree.log_prob for tree in best])
    assert probs.sum() == pytest.approx(1.0, abs=1e-4)
    # a constituent is as probable as the trees that have it
    for node in parsed.nodes:
        key = (node.label, node.begin, node.end)
        total = sum(
            prob
            for prob, tree in zip(probs, best, strict=True)
            if any((n.label, n.begin, n.end) == key for n in tree.nodes)
        )
        assert node.prob == pytest.approx(total, abs=1e-3)
    own = [
        tree.log_prob
        for tree in best
        if [n[:3] for n in tree.nodes] == [n[:3] for n in parsed.nodes]
    ]
    assert parsed.log_prob == pytest.approx(max(own), abs=1e-6)


@pytest.mark.parametrize(
    "recipe", [ConstituencyRecipe(states=2), ConstituencyRecipe(spans=False, states=2)]
)
def test_calibration(tmp_path, recipe):
    trees = read(tmp_path)
    model = recipe.fit(trees)
    sentences = [[leaf.word for leaf in tree.leaves()] for tree in trees]
    gold = [constituents(tree)[0] for tree in trees]
    words, starts = (
        [word for own in sentences for word in own],
        numpy.cumsum([0, *map(len, sentences)]),
    )
    claims = Claims(model, sentences, gold)
    # what is told of them, and what comes true
    parsed, _ = model.parse(words, starts)
    nodes = [
        (i, node) for i, own in enumerate(parsed) for node in own.nodes if node.label != "ROOT"
    ]
    assert claims.probs() == pytest.approx([node.prob for _, node in nodes], abs=1e-9)
    assert claims.right.tolist() == [node[:3] in set(gold[i]) for i, node in nodes]
    # none of the trees is right: less is promised, of the same trees
    wrong = calibrated(model, sentences, [[] for _ in sentences])
    assert wrong.mixture.calibration > 2
    others, lists = wrong.parse(words, starts, k=3)
    for own, other, best, before in zip(
        parsed, others, lists, model.parse(words, starts, k=3)[1], strict=True
    ):
        assert [node[:3] for node in own.nodes] == [node[:3] for node in other.nodes]
        assert [tree.tags for tree in best] == [tree.tags for tree in before]
    factor = calibrated(model, sentences, gold).mixture.calibration
    at = {
        t: log_scores(claims.probs(t), claims.right).sum()
        for t in (factor, 1.0, wrong.mixture.calibration)
    }
    assert at[factor] == max(at.values())
    read_again = ConstituencyModel.from_bytes(wrong.to_bytes())
    assert read_again.mixture.calibration == wrong.mixture.calibration
    assert str(read_again.parse(words, starts)) == str(wrong.parse(words, starts))
    # nothing to learn from
    assert calibrated(model, [], []).mixture.calibration == 1.0


def test_quotes_and_dashes_that_the_treebank_lacks(tmp_path):
    """They are read as the plain ones that it has; those that it has are not."""
    plain = "(S (`` \") (NP (NN x)) ('' \") (: --) (VP (VB y) (NP (POS 's) (NN z))))\n"
    for text, expected in (
        (plain, "“”„«»‘’‚‹›—–"),
        (plain.replace("--", "—") + plain, "“”„«»‘’‚‹›–"),
    ):
        model = ConstituencyRecipe(states=1, spans=False).fit(read(tmp_path, text * 3))
        assert model.typography == expected
        starts = numpy.array([0, 7])
        found = model.parse(["“", "x", "”", "–", "y", "’s", "z"], starts)
        assert str(found) == str(model.parse(['"', "x", '"', "--", "y", "'s", "z"], starts))
        again = ConstituencyModel.from_bytes(model.to_bytes())
        assert str(again.parse(["“", "x", "”", "–", "y", "’s", "z"], starts)) == str(found)
        assert model.with_calibration(2.0).typography == expected
    assert ConstituencyRecipe(states=1, spans=False).fit(read(tmp_path)).typography == ""


def test_rules_that_were_not_seen(tmp_path):
    # prepositional phrases follow nouns, and verbs have objects: so they may follow verbs
    lines = ["(S (NP (NN a) (PP (IN in) (NN b))) (VP (VBZ c) (NP (DT the) (NN d))))"] * 30
    trees = read(tmp_path, "\n".join(lines))
    corpus = statistics.encode(statistics.binary_trees(trees), min_count=1)
    grammar = corpus.grammar
    possible = grammar.rules[grammar.seen == 0]
    assert len(possible)
    keys = {tuple(rule) for rule in grammar.rules[grammar.seen > 0].tolist()}
    assert not keys & {tuple(rule) for rule in possible.tolist()}
    assert (grammar.backoff[grammar.seen == 0] > 0).all()
    assert (grammar.backoff[grammar.seen > 0] == 0).all()
    by_parent = numpy.bincount(grammar.rules[:, 0], weights=grammar.backoff)
    assert by_parent.max() < 0.5
    names = [symbol.name for symbol in grammar.symbols]
    shown = {tuple(names[i] for i in rule) for rule in possible.tolist()}
    assert ("VP", "VBZ", "PP") in shown
    assert ("NP", "NN", "NP") in shown
    # what was never a head does not become one
    assert not any(right == "IN" and parent != "PP" for parent, _, right in shown)


def test_encoder_tells_known_words_apart(corpus):
    encoder, rows = learn_encoder(corpus, None, 0)
    assert isinstance(encoder, Encoder)
    assert rows.shape == (len(corpus.words), rows.shape[1])
    dog, cat, unknown, same = encoder.words(["dog", "cat", "xyzzy", "plugzzy"])[:, 0]
    assert dog != cat
    assert unknown == same


def test_tensors_as_bytes():
    random = numpy.random.default_rng(0)
    kind = numpy.array([DENSE, VECTORS, MEANS, DENSE], dtype="uint8")
    states = numpy.array([[3, 2, 4], [2, 3, 1], [5, 5, 5], [1, 1, 2]])
    sizes = row_sizes(kind, states)
    assert sizes.tolist() == [3] * 8 + [2, 3, 1] + [1] * 2
    scales = 10.0 ** random.uniform(-20, 3, size=len(sizes))
    values = (random.normal(size=sizes.sum()) * numpy.repeat(scales, sizes)).astype("float32")
    values[:3] = 0
    small, found = shrink(values, sizes)
    again = grow(small, found, sizes)
    # no number is off by more than half a step of its row
    assert (numpy.abs(again - values) <= numpy.repeat(found, sizes) * 0.5001).all()
    rows = numpy.split(values, numpy.cumsum(sizes)[:-1])
    largest = numpy.array([numpy.abs(row).max() for row in rows])
    assert (found <= largest / 127 * 1.002).all()
    # and what was rounded stays as it is
    twice = shrink(again, sizes)
    assert (twice[0] == small).all()
    assert (twice[1] == found).all()


def test_weights_of_the_product(tmp_path):
    """A model whose weight is 0 says nothing."""
    model = ConstituencyRecipe(states=2).fit(read(tmp_path))
    parts = {"encoder": model.encoder, "spans": model.spans, "anchored": model.anchored}
    words, starts = ["the", "dog", "sees", "a", "park", "."], numpy.array([0, 6])
    alone = ConstituencyModel(model.grammar, **parts).score(words, starts)[0]
    both = ConstituencyModel(
        model.grammar, **parts, latent=model.latent, mixture=Mixture(1.0, 0.0, 0.0, 1.0)
    ).score(words, starts)[0]
    numpy.testing.assert_allclose(both.posteriors, alone.posteriors, atol=1e-12)
    # a temperature makes probabilities of trees flatter and keeps their order
    probs = []
    for temperature in (1.0, 4.0):
        mixture = Mixture(1.0, 1.0, 0.0, temperature)
        own = ConstituencyModel(model.grammar, **parts, latent=model.latent, mixture=mixture)
        _, (best,) = own.parse(words, starts, k=200)
        probs.append(numpy.array([tree.log_prob for tree in best]))
    ratio = (probs[0][1:] - probs[0][0]) / (probs[1][1:] - probs[1][0])
    numpy.testing.assert_allclose(ratio, 4.0, rtol=1e-6)
    data = own.to_bytes()
    assert ConstituencyModel.from_bytes(data).mixture == mixture
