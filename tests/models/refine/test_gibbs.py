"""The samplers: against the exact posterior of tiny trees, and counts against those counted anew."""

from collections import Counter
from functools import cache
from itertools import product

import numpy
import pytest
from scipy.special import gammaln

from brute_force import modifiers
from spacy_spectral.models.refine.architecture import RefinedRecipe
from spacy_spectral.models.refine.infinite import (
    CHILDREN,
    _most_frequent,
    infinite_labelling,
    make_sampler,
)
from spacy_spectral.models.refine.statistics import Trees

MODELS = pytest.mark.parametrize("children", CHILDREN)


def make_trees(sentences, tags=None):
    """From lists of heads, with words and tags by position."""
    heads = [h for own, _ in sentences for h in own]
    words = [w for _, own in sentences for w in own]
    starts = numpy.cumsum([0, *(len(own) for own, _ in sentences)]).astype("int32")
    tags = numpy.zeros(len(heads)) if tags is None else tags
    return Trees(starts, words, numpy.array(tags, "int32"), numpy.array(heads, "int32"))


def sampler(trees, children, *, alpha=2.0, gamma=1.5, rho=0.5, seed=0, most_states=12, start=3):
    return make_sampler(
        trees, trees.tags, children=children, alpha=alpha, gamma=gamma, rho=rho,
        most_states=most_states, start=start, seed=seed,
    )  # fmt: skip


def canonical(states):
    """A partition, whatever the numbers of its parts."""
    names = {}
    return tuple(names.setdefault(state, len(names)) for state in states)


def partitions(n, tags):
    """All ways to put tokens into states that do not mix tags."""
    found = set()
    for states in product(range(n), repeat=n):
        own = canonical(states)
        pairs = {(state, tag) for state, tag in zip(own, tags, strict=True)}
        if len(pairs) == len(set(own)):
            found.add(own)
    return sorted(found)


@cache
def stirling(n, m):
    """Unsigned Stirling numbers of the first kind: x (x + 1) .. (x + n - 1) = sum_m s(n, m) x^m."""
    if n == 0 or m == 0:
        return int(n == m)
    return stirling(n - 1, m - 1) + (n - 1) * stirling(n - 1, m)


def contexts(children, sentences, states):
    """What is generated where: for every context how often which outcomes, as tuples of states."""
    counts, begin = {}, 0
    for heads, _ in sentences:
        own = states[begin : begin + len(heads)]
        begin += len(heads)
        root = own[heads.index(0)]
        counts.setdefault("root", Counter())[(root,)] += 1
        for h in range(1, len(heads) + 1):
            for side, sequence in enumerate(modifiers(heads, h)):
                outcomes = [*(own[m - 1] for m in sequence), "stop"]
                head = own[h - 1]
                if children == "simultaneous":
                    counts.setdefault((side, head), Counter())[tuple(outcomes)] += 1
                    continue
                previous = "first"
                for outcome in outcomes:
                    key = (side, head, previous) if children == "markov" else (side, head)
                    counts.setdefault(key, Counter())[(outcome,)] += 1
                    previous = outcome
    return counts


def log_joint(children, sentences, states, tags, *, alpha, gamma, rho):
    """log P(partition, words) with contexts, shares and emissions summed out, by its tables.

    Gamma(a + n) / Gamma(a) = sum_m s(n, m) a^m, and the shares' moments are those of the Chinese
    restaurant process with parameter gamma. Parameters may be arrays.
    """
    counts = contexts(children, sentences, states)
    value = 0.0
    cells = []
    for outcomes in counts.values():
        total = sum(outcomes.values())
        value += gammaln(alpha) - gammaln(alpha + total)
        cells += list(outcomes.items())
    total = 0.0
    for tables in product(*(range(1, n + 1) for _, n in cells)):
        weight, draws = 1.0, Counter()
        for (outcome, n), m in zip(cells, tables, strict=True):
            weight = weight * stirling(n, m) * alpha**m
            for part in outcome:
                draws[part] += m
        in_all = sum(draws.values())
        log_weight = len(draws) * numpy.log(gamma) + gammaln(gamma) - gammaln(gamma + in_all)
        log_weight += sum(gammaln(m) for m in draws.values())
        total += weight * numpy.exp(log_weight)
    return value + numpy.log(total) + log_words(sentences, states, tags, rho)


def log_words(sentences, states, tags, rho):
    words = [word for _, own in sentences for word in own]
    vocabulary = {
        tag: len({w for w, t in zip(words, tags, strict=True) if t == tag}) for tag in tags
    }
    value = 0.0
    for state in set(states):
        own = [i for i, other in enumerate(states) if other == state]
        v = rho * vocabulary[tags[own[0]]]
        value += gammaln(v) - gammaln(v + len(own))
        for n in Counter(words[i] for i in own).values():
            value += gammaln(rho + n) - gammaln(rho)
    return value


TREES = {
    "chain of siblings": ([((2, 0, 2, 2), "abab")], [0, 0, 0, 0]),
    "chain of heads": ([((0, 1, 2, 3), "aaba")], [0, 0, 0, 0]),
    "both sides": ([((3, 3, 0, 3), "abba")], [0, 0, 0, 0]),
    "two trees": ([((2, 0), "ab"), ((2, 0), "ab")], [0, 0, 0, 0]),
    "two tags": ([((2, 0, 2, 3), "aaab")], [0, 0, 1, 0]),
}


@MODELS
@pytest.mark.parametrize("name", TREES)
def test_posterior_of_tiny_trees(children, name):
    sentences, tags = TREES[name]
    parameters = {"alpha": 2.0, "gamma": 1.5, "rho": 0.5}
    possible = partitions(len(tags), tags)
    logs = numpy.array(
        [log_joint(children, sentences, own, tags, **parameters) for own in possible]
    )
    expected = numpy.exp(logs - logs.max())
    expected /= expected.sum()
    chain = sampler(make_trees(sentences, tags), children, **parameters)
    counts = Counter()
    sweeps = 30000
    for _ in range(sweeps):
        chain.sweep()
        counts[canonical(chain.states.tolist())] += 1
    assert set(counts) <= set(possible)
    found = numpy.array([counts[own] / sweeps for own in possible])
    # half the sum of differences; a chain of so many sweeps has about 0.005
    assert numpy.abs(found - expected).sum() / 2 < 0.02, (found, expected)


def hidden(children_of, size, seed=0):
    """Trees drawn from a model of five states, and the states."""
    random = numpy.random.default_rng(seed)
    sentences, states = [], []
    for _ in range(size):
        heads, own = [], []

        def draw(state, heads=heads, own=own):
            """Lay out a token and what is below it; its position."""
            left, right = (
                [child for child in children_of[state][side] if random.random() < 0.8]
                for side in (0, 1)
            )
            before = [draw(child) for child in left]
            heads.append(0)
            own.append(state)
            me = len(heads)
            for child in before + [draw(child) for child in right]:
                heads[child - 1] = me
            return me

        draw(0)
        kinds = [state if random.random() < 0.67 else 9 for state in own]
        words = [f"{kind}x{random.integers(9)}".translate(_LETTERS) for kind in kinds]
        sentences.append((heads, words))
        states += own
    return make_trees(sentences), numpy.array(states)


# digits are all alike to the models
_LETTERS = str.maketrans("0123456789", "abcdefghij")
GRAMMAR = {0: ([1, 2], [3]), 1: ([], []), 2: ([1], []), 3: ([], [4]), 4: ([1, 1], [])}


@pytest.mark.parametrize("children", ["independent", "markov"])
def test_known_states_are_recovered(children):
    """A third of the words can be in any state; trees tell the rest."""
    trees, states = hidden(GRAMMAR, 300)
    labelling = infinite_labelling(
        trees, 1, children=children, sweeps=100, alpha=1.0, gamma=1.0, rho=1.0
    )
    pairs, counts = numpy.unique(
        numpy.stack([labelling.states, states]), axis=1, return_counts=True
    )
    right = sum(counts[pairs[0] == own].max() for own in numpy.unique(pairs[0]))
    assert right / len(states) > 0.9
    assert 5 <= labelling.n_states < 25  # of the 30 that it starts from


@MODELS
@pytest.mark.parametrize("bound", [False, True])
def test_counts_are_those_of_the_states(children, bound):
    trees, states = hidden(GRAMMAR, 60)
    trees.tags = (states > 1).astype("int32") if bound else trees.tags
    chain = sampler(trees, children, most_states=15, start=4)
    for sweep in range(6):
        chain.sweep()
        again = make_again(chain, trees, children)
        for name, array in chain.counts().items():
            numpy.testing.assert_array_equal(array, again[name], err_msg=f"{name} in sweep {sweep}")
        assert chain.n_states == len(set(chain.states.tolist())) <= 15
        if bound:
            pairs = set(zip(chain.states.tolist(), trees.tags.tolist(), strict=True))
            assert len(pairs) == chain.n_states


def make_again(chain, trees, children):
    """A fresh chain in the same states."""
    from spacy_spectral.models.refine import infinite
    from spacy_spectral.models.refine._gibbs import InfiniteTree

    made = {}

    def build(*arguments, **options):
        arguments = [*arguments[:8], chain.states.copy()]
        made["chain"] = InfiniteTree(*arguments, **options)
        return made["chain"]

    original, infinite.InfiniteTree = infinite.InfiniteTree, build
    try:
        sampler(trees, children, most_states=15, start=4)
    finally:
        infinite.InfiniteTree = original
    return made["chain"].counts()


@MODELS
def test_same_seed_same_states_whatever_the_capacity(children):
    trees, _ = hidden(GRAMMAR, 40)
    runs = []
    for most, seed in ((60, 3), (60, 3), (90, 3), (60, 4)):
        chain = sampler(trees, children, seed=seed, most_states=most)
        for _ in range(4):
            chain.sweep()
        runs.append(canonical(chain.states.tolist()))
    assert runs[0] == runs[1] == runs[2] != runs[3]


@MODELS
def test_states_are_capped(children):
    trees, _ = hidden(GRAMMAR, 30)
    chain = sampler(trees, children, most_states=6, gamma=500.0, alpha=100.0, start=2)
    for _ in range(5):
        chain.sweep()
    assert 4 <= chain.n_states <= 6 + 1


def test_tags_without_tokens_count_as_states():
    trees, states = hidden(GRAMMAR, 60)
    trees.tags = (3 * (states > 1)).astype("int32")
    labelling = infinite_labelling(trees, 6, sweeps=5, gamma=500.0, alpha=100.0, most_states=12)
    assert labelling.n_states <= 12
    assert set(labelling.tag_of.tolist()) == set(range(6))


def test_a_head_with_a_thousand_children():
    n = 1001
    heads = [0] + [1] * (n - 1)
    trees = make_trees([(heads, ["w"] * n)])
    for children in CHILDREN:
        chain = sampler(trees, children)
        chain.sweep()
        assert chain.states.min() >= 0 and chain.n_states >= 1


def test_votes():
    votes = [numpy.array(own, dtype="int32") for own in ([1, 2, 0], [3, 2, 5], [3, 2, 4])]
    assert _most_frequent(votes).tolist() == [3, 2, 0]


def test_parameters_are_not_drawn_any_more():
    with pytest.raises(ValueError, match="S809"):
        RefinedRecipe(labelling="infinite", resample=True)
