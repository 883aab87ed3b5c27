"""Scores, marginals and gradients against enumeration: features are looked up by a hash written out here."""

import numpy
import pytest

from arc_data import labelled_trees, random_arcs
from brute_force import modifiers
from spacy_spectral.models.forestrank._learn import Learner
from spacy_spectral.models.forestrank.templates import ATOMS, TEMPLATES

ARC, PAIR, SIBLINGS, TRIPLE, STOP, EMPTY = range(6)
NOBODY, OUTSIDE = 0x5EED, 0xE4D
WORD = 2**64 - 1
EXTRA = {28: "g.label", 29: "label", 30: "s.label"}


class Sentence:
    """A sentence with random tokens, labels and numbers, and several trees."""

    def __init__(self, seed, n, density=0.5):
        rng = numpy.random.default_rng(seed)
        self.n, self.trees = n, []
        while len(self.trees) < min(n, 2):
            self.heads, self.mods = random_arcs(int(rng.integers(10_000)), n, density)
            self.trees = labelled_trees(n, self.heads, self.mods)
        self.tokens = rng.integers(1, 6, size=(n, 5)).astype("uint32")
        self.labels = rng.integers(1, 4, size=len(self.heads)).astype("uint32")
        self.dense = rng.normal(size=(len(self.heads), 2))

    def arguments(self):
        starts = numpy.array([0, self.n], dtype="int32")
        arc_starts = numpy.array([0, len(self.heads)], dtype="int32")
        return starts, self.tokens, arc_starts, self.heads, self.mods, self.labels, self.dense

    def only(self, tree):
        """The sentence with the arcs of one tree alone."""
        other = object.__new__(Sentence)
        chosen = list(tree)
        other.n, other.tokens, other.dense = self.n, self.tokens, self.dense[chosen]
        other.heads, other.mods, other.labels = (
            column[chosen] for column in (self.heads, self.mods, self.labels)
        )
        return other


def size_class(n):
    return next((i for i, end in enumerate((0, 1, 2, 3, 4, 6, 10, 20)) if abs(n) <= end), 8)


def columns(sentence, position):
    if position == 0:
        return [OUTSIDE] * 7
    tags = [OUTSIDE, *sentence.tokens[:, 0].tolist(), OUTSIDE]
    return [*sentence.tokens[position - 1].tolist(), tags[position - 1], tags[position + 1]]


def atoms_of(sentence, kind, a, s, c):
    """By name, as `templates` has them."""
    heads, mods, labels = sentence.heads, sentence.mods, sentence.labels
    found = {}

    def put(role, position):
        names = [name for name in ATOMS if name.startswith(f"{role}.")][:7]
        own = [NOBODY] * 7 if position is None else columns(sentence, position)
        found.update(zip(names, own, strict=True))

    h = int(mods[a] if kind == EMPTY else heads[c])
    put("h", h)
    if kind == EMPTY:
        found["sides"] = s + 2 * (h > heads[a])
    else:
        m = int(mods[c])
        put("m", m)
        found["label"] = labels[c]
        found["distance"] = size_class(m - h)
        found["sides"] = int(m > h) + (2 * (h > heads[a]) if a is not None else 0)
    if a is not None:
        put("g", int(heads[a]))
        found["g.label"], found["g.distance"] = labels[a], size_class(h - heads[a])
    if kind in (SIBLINGS, TRIPLE):
        put("s", None if s is None else int(mods[s]))
        found["s.label"] = NOBODY if s is None else labels[s]
        found["gap"] = 0 if s is None else size_class(m - mods[s])
    return found


def hashes_of(sentence, tree):
    """The features of a tree, each as often as it has it."""
    tokens = [int(sentence.heads[arc]) for arc in tree]
    units = []
    for h in range(1, sentence.n + 1):
        a = tree[h - 1]
        units.append((ARC, None, None, a))
        for side, outward in enumerate(modifiers(tokens, h)):
            before = None
            for m in outward:
                c = tree[m - 1]
                units += [(PAIR, a, None, c), (SIBLINGS, None, before, c), (TRIPLE, a, before, c)]
                before = c
            units.append((EMPTY, a, side, None) if before is None else (STOP, a, None, before))
    names = {number: name for name, number in ATOMS.items()}
    first = numpy.cumsum([0, *map(len, TEMPLATES)]).tolist()
    result = []
    for kind, a, s, c in units:
        atoms = atoms_of(sentence, kind, a, s, c)
        for t, template in enumerate(TEMPLATES[kind], start=first[kind] + 1):
            h = 0x9E3779B97F4A7C15 * t & WORD
            for number in template:
                h = (h ^ int(atoms[names[number]])) * 0xD6E8FEB86659FD93 & WORD
                h ^= h >> 32
            result.append(max((h * 0xD6E8FEB86659FD93 & WORD) >> 32, 1))
    return result


def random_engine(seed, sentence, share=0.6):
    """Some of the features of some trees, with random weights."""
    rng = numpy.random.default_rng(seed)
    known = {key for tree in sentence.trees[:20] for key in hashes_of(sentence, tree)}
    keys = numpy.array(sorted(key for key in known if rng.random() < share), dtype="uint32")
    weights = rng.normal(scale=0.3, size=len(keys)).astype("float32")
    dense = rng.normal(size=2)
    return Learner(keys, weights, dense, TEMPLATES), keys, weights, dense


def score_of(sentence, tree, keys, weights, dense):
    table = dict(zip(keys.tolist(), weights.astype("float64").tolist(), strict=True))
    total = sum(table.get(key, 0.0) for key in hashes_of(sentence, tree))
    return total + float(sentence.dense[list(tree)].sum(axis=0) @ dense)


CASES = [(seed, n) for n in (1, 2, 3, 4, 5) for seed in range(4)]


@pytest.mark.parametrize(("seed", "n"), CASES)
def test_marginals(seed, n):
    sentence = Sentence(seed, n, density=0.6 if n < 4 else 0.4)
    engine, *parameters = random_engine(seed, sentence)
    scores = numpy.array([score_of(sentence, tree, *parameters) for tree in sentence.trees])
    mu, (log_z,) = engine.marginals(*sentence.arguments())
    weights = numpy.exp(scores - scores.max())
    assert log_z == pytest.approx(numpy.log(weights.sum()) + scores.max(), abs=1e-11)
    expected = numpy.zeros(len(mu))
    for tree, weight in zip(sentence.trees, weights / weights.sum(), strict=True):
        expected[list(tree)] += weight
    numpy.testing.assert_allclose(mu, expected, atol=1e-11)
    # a forest of one tree: its score
    tree = sentence.trees[-1]
    alone = engine.marginals(*sentence.only(tree).arguments())
    assert alone[1][0] == pytest.approx(scores[-1], abs=1e-11)
    numpy.testing.assert_allclose(alone[0], 1.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_hashes_of_trees(seed):
    sentence = Sentence(seed, 5, density=0.4)
    engine = random_engine(seed, sentence)[0]
    tree = sentence.trees[seed % len(sentence.trees)]
    found = engine.hashes(*sentence.arguments(), numpy.array(tree, dtype="int32"))
    assert sorted(found.tolist()) == sorted(hashes_of(sentence, tree))


@pytest.mark.parametrize("seed", range(6))
def test_gradient_by_differences(seed):
    """One step with an accumulator so large that the change is the gradient."""
    sentence = Sentence(seed, 4, density=0.5)
    _, keys, weights, dense = random_engine(seed, sentence)
    tree = sentence.trees[0]
    target = numpy.array(tree, dtype="int32")
    order = numpy.zeros(1, "int64")

    def loss(weights, dense):
        scores = numpy.array([score_of(sentence, t, keys, weights, dense) for t in sentence.trees])
        top = scores.max()
        return top + numpy.log(numpy.exp(scores - top).sum()) - scores[0]

    engine = Learner(keys, weights, dense, TEMPLATES)
    engine.begin_learning(1e16)
    value, taught = engine.learn(*sentence.arguments(), target, order, 1e8, 0.0)
    assert taught == 1 and value == pytest.approx(loss(weights, dense), abs=1e-10)
    # the average of before and after is half a step
    after, dense_after = engine.averaged(keys)
    moved, dense_moved = 2 * (after - weights), 2 * (dense_after - dense)
    for j in range(2):
        step = 1e-5 * (numpy.arange(2) == j)
        slope = (loss(weights, dense - step) - loss(weights, dense + step)) / 2e-5
        assert dense_moved[j] == pytest.approx(slope, abs=1e-6)
    for j in numpy.random.default_rng(1).permutation(len(keys))[:25]:
        step = (1e-3 * (numpy.arange(len(keys)) == j)).astype("float32")
        down, up = weights - step, weights + step
        slope = (loss(down, dense) - loss(up, dense)) / float(up[j] - down[j])
        assert moved[j] == pytest.approx(slope, abs=2e-5)


def test_learns_the_target():
    sentence = Sentence(1, 5, density=0.5)
    tree = sentence.trees[len(sentence.trees) // 2]
    keys = numpy.unique(numpy.array(hashes_of(sentence, tree), dtype="uint32"))
    engine = Learner(keys, numpy.zeros(len(keys), "float32"), numpy.zeros(2), TEMPLATES)
    engine.begin_learning(1.0)
    target, order = numpy.array(tree, dtype="int32"), numpy.zeros(1, "int64")
    losses = [engine.learn(*sentence.arguments(), target, order, 0.1, 1e-3)[0] for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]
    mu, _ = engine.marginals(*sentence.arguments())
    assert (mu[list(tree)] > 0.7).all()


def test_arcs_without_a_tree():
    sentence = Sentence(0, 2)
    engine = random_engine(0, sentence)[0]
    sentence.heads, sentence.mods = numpy.array([[2, 1], [1, 2]], dtype="int32")
    sentence.labels, sentence.dense = sentence.labels[:2], sentence.dense[:2]
    mu, log_z = engine.marginals(*sentence.arguments())
    assert numpy.isnan(log_z).all() and not mu.any()


def test_sentences_of_a_batch_do_not_touch_each_other():
    parts = [Sentence(seed, n, density=0.5) for seed, n in ((0, 3), (1, 1), (2, 5), (4, 4))]
    engine = random_engine(0, parts[0])[0]
    alone = [engine.marginals(*part.arguments()) for part in parts]
    starts = numpy.cumsum([0, *(part.n for part in parts)]).astype("int32")
    arc_starts = numpy.cumsum([0, *(len(part.heads) for part in parts)]).astype("int32")
    together = engine.marginals(
        starts,
        numpy.concatenate([part.tokens for part in parts]),
        arc_starts,
        *(
            numpy.concatenate([getattr(part, name) for part in parts])
            for name in ("heads", "mods", "labels", "dense")
        ),
    )
    assert together[0].tobytes() == numpy.concatenate([mu for mu, _ in alone]).tobytes()
    assert together[1].tobytes() == numpy.concatenate([log_z for _, log_z in alone]).tobytes()
