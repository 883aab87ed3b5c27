"""The refined grammar as a parser: labellings, smoothing, charts, files, bad input."""

from itertools import pairwise, product

import numpy
import pytest

from brute_force import is_single_root_projective, marginals, modifiers, projective_trees
from refine_data import EXACT, SENTENCE, TAGS, make_tokens, treebank
from spacy_spectral.models.refine.architecture import LABELLINGS, RefinedRecipe
from spacy_spectral.models.refine.lexicon import SeenWords, TagStates
from spacy_spectral.models.refine.model import ChartSettings, Layer
from spacy_spectral.models.refine.statistics import Trees
from spacy_spectral.models.refine.transitions import Transitions
from spacy_spectral.trees.interface import AskedArcs
from spacy_spectral.trees.posterior import Posterior
from spacy_spectral.trees.sentences import MISSING


@pytest.mark.parametrize("partly", [False, True])
def test_events_are_those_of_the_trees(partly):
    """Against the children of every head, one by one."""
    bank = treebank(size=40)
    heads = bank.heads.copy()
    if partly:
        heads[::7] = MISSING
    trees = Trees(
        bank.tokens.starts, bank.tokens.words, numpy.zeros(len(heads), dtype="int32"), heads
    )
    expected = []
    for begin, end in bank.tokens.bounds():
        own = heads[begin:end].tolist()
        missing = [m for m, h in enumerate(own, start=1) if h == MISSING]
        for h in range(1, len(own) + 1):
            for side, sequence in enumerate(modifiers(own, h)):
                seen = range(1, h) if side == 0 else range(h + 1, len(own) + 1)
                if any(m in seen for m in missing):
                    continue
                chain = [-1, *(begin + m - 1 for m in sequence), -1]
                expected += [(side, begin + h - 1, a, b) for a, b in pairwise(chain)]
    events = trees.events
    columns = (events.side, events.head, events.previous, events.child)
    assert sorted(zip(*(column.tolist() for column in columns), strict=True)) == sorted(expected)


def test_back_off_by_the_formula():
    """P_k = (n + s P_k+1) / (N + s), written out for single contexts."""
    random = numpy.random.default_rng(0)
    tag_states = TagStates(numpy.array([0, 0, 1, 2, 2], dtype="int32"))
    k, tags = 5, [0, 0, 1, 2, 2, 3]
    table = random.integers(0, 4, (2, k, k + 1, k + 1)) * (
        random.random((2, k, k + 1, k + 1)) < 0.3
    )
    table[:, 3] = 0  # a head that was never seen
    table[:, 1, 2] = 0  # a context that was never seen
    contexts = numpy.argwhere(table).astype("int32")
    counts = table[tuple(contexts.T)].astype("float64")
    found = Transitions.fit(contexts, counts, tag_states)
    dense = Transitions.from_table(table.astype("float64"), tag_states)

    def mix(own, wider, strength):
        return (own + strength * wider) / (own.sum() + strength)

    everything = table.sum(axis=(0, 1, 2)) + 0.5
    everything = everything / everything.sum()
    for side in (0, 1):
        for a in range(k):
            for b in range(k + 1):
                first = [5] if b == 5 else [0, 1, 2, 3, 4]
                same_a = [i for i in range(k) if tags[i] == tags[a]]
                same_b = [i for i in range(k + 1) if tags[i] == tags[b]]
                own = table[side]
                p = mix(own[:, first].sum(axis=(0, 1)), everything, 5)
                tag_alone = mix(own[numpy.ix_(same_a, first)].sum(axis=(0, 1)), p, 5)
                head_alone = mix(own[a, first].sum(axis=0), tag_alone, 3)
                both = mix(own[numpy.ix_(same_a, same_b)].sum(axis=(0, 1)), tag_alone, 3)
                p = mix(own[a, same_b].sum(axis=0), 0.5 * both + 0.5 * head_alone, 3)
                p = mix(own[a, b], p, 3)
                for transitions in (found, dense):
                    row = transitions.rows[transitions.row_of[side, a, b]]
                    numpy.testing.assert_allclose(row, p, rtol=1e-5)
    assert len(found.rows) < len(dense.rows) + 2 * k * 4


def test_one_state_a_tag_is_the_grammar_of_tags():
    bank = treebank()
    plain = RefinedRecipe(labelling="none", chart=EXACT).fit(bank)
    assert plain.fine.tag_states.n_states == len(plain.symbols)
    tokens = make_tokens([SENTENCE])
    tags = plain.symbols.encode(tokens.symbols)
    lattice = plain.lexicon.lattice(tokens.words, tags)
    fine, coarse = plain.factors(tags, lattice)
    numpy.testing.assert_allclose(lattice.emissions, 1.0)
    numpy.testing.assert_allclose(fine.inside_outside()[0], coarse.inside_outside()[0])
    numpy.testing.assert_allclose(fine.inside_outside()[1], coarse.inside_outside()[1])


def test_posterior_is_that_of_all_trees_and_states(grammar):
    """P(tree | sentence) of every tree, from the definition of the model."""
    tokens = make_tokens([SENTENCE])
    tags = grammar.symbols.encode(tokens.symbols)
    lattice = grammar.lexicon.lattice(tokens.words, tags)
    assert numpy.diff(lattice.offsets).max() > 1
    (factors, _) = grammar.factors(tags, lattice)
    parses = grammar.parse(tokens)
    trees = projective_trees(len(tags))
    logs, _ = factors.tree_scores(numpy.array(trees, dtype="int32"))
    probabilities = numpy.exp(logs - logs.max())
    probabilities /= probabilities.sum()
    expected = marginals(probabilities, trees)
    numpy.testing.assert_allclose(parses.marginals(0), expected, atol=1e-10)
    best = parses.k_best(0, len(trees))
    found = {tuple(parse.heads.tolist()): parse.log_prob for parse in best}
    assert len(found) == len(trees)
    for p, heads in zip(probabilities, trees, strict=True):
        assert found[heads] == pytest.approx(numpy.log(p))
    assert [p.log_prob for p in best] == sorted((p.log_prob for p in best), reverse=True)
    own = parses.heads, numpy.arange(1, 5)
    numpy.testing.assert_allclose(parses.head_probs(), expected[own], rtol=1e-5)
    assert parses.log_probs()[0] == pytest.approx(found[tuple(parses.heads.tolist())])
    numpy.testing.assert_allclose(parses.label_distributions(0).sum(axis=1), 1.0)


def test_fixed_heads_are_kept(grammar):
    fixed = numpy.array([MISSING, MISSING, 1, MISSING], dtype="int32")
    parses = grammar.parse(make_tokens([SENTENCE]), fixed=fixed)
    assert parses.heads[2] == 1 and parses.marginals(0)[1, 3] == pytest.approx(1.0)
    assert all(parse.heads[2] == 1 for parse in parses.k_best(0, 9))


def test_scores_of_given_arcs(grammar):
    """Marginals given that the tree has no other arcs, for sentences of any part of a batch."""
    random = numpy.random.default_rng(0)
    tokens = make_tokens([SENTENCE, SENTENCE[::-1], SENTENCE[:1]])
    asked = []
    for n in (4, 4, 1):
        # the arcs of one tree and some more
        trees = projective_trees(n)
        allowed = random.random((n + 1, n + 1)) < 0.5
        allowed[list(trees[random.integers(len(trees))]), numpy.arange(1, n + 1)] = True
        allowed[:, 0] = False
        asked.append(allowed & ~numpy.eye(n + 1, dtype=bool))
    columns = [numpy.flatnonzero(own[:, m]) for own in asked for m in range(1, len(own))]
    heads = numpy.concatenate(columns).astype("int32")
    starts = numpy.cumsum([0, *map(len, columns)]).astype("int32")
    scorer = grammar.scorer(tokens)
    arcs = AskedArcs(slice(None), tokens.starts, starts, heads)
    logs, labels = scorer(arcs)
    numpy.testing.assert_allclose(numpy.exp(labels).sum(axis=1), 1.0, atol=1e-4)
    whole = grammar.parse(tokens)
    at = 0
    for s, own in enumerate(asked):
        n = len(own) - 1
        place = numpy.arange(1, n + 1)
        every = {tuple(p.heads.tolist()): p.log_prob for p in whole.k_best(s, 1000)}
        trees = [tree for tree in every if own[list(tree), place].all()]
        shares = numpy.exp([every[tree] for tree in trees])
        expected = marginals(shares / shares.sum(), trees).T[own.T]
        n_arcs = len(expected)
        numpy.testing.assert_allclose(
            logs[at : at + n_arcs], numpy.log(numpy.maximum(expected, 1e-5)), atol=1e-9
        )
        # one sentence out of a batch
        a, b = tokens.bounds()[s]
        alone = scorer(AskedArcs(
            numpy.arange(a, b), numpy.array([0, n], dtype="int32"),
            starts[a : b + 1] - starts[a], heads[at : at + n_arcs],
        ))  # fmt: skip
        numpy.testing.assert_array_equal(alone[0], logs[at : at + n_arcs])
        numpy.testing.assert_array_equal(alone[1], labels[at : at + n_arcs])
        at += n_arcs


def test_words_tell_states_apart(grammar):
    """The a nouns are left of their heads, the b nouns right: spectral labelling must see it."""
    tags = grammar.symbols.encode(["N", "N"])
    left, right = grammar.lexicon.distributions(["an0", "bn0"], tags)
    assert numpy.abs(left - right).sum() > 0.2
    left = grammar.parse(make_tokens([[("an0", "N"), ("bv1", "V")]])).marginals(0)[2, 1]
    right = grammar.parse(make_tokens([[("bn0", "N"), ("bv1", "V")]])).marginals(0)[2, 1]
    assert left > right


@pytest.mark.parametrize("prune", [0.001, 0.05])
def test_pruning_leaves_out_hopeless_arcs_and_states_alone(grammar, prune):
    """What is left is the exact distribution given that no other arc and no other state is used; and what is
    left is what the coarser grammars say."""
    pruned = RefinedRecipe(states=16, dimensions=2, chart=ChartSettings(prune=prune)).fit(
        treebank()
    )
    tokens = make_tokens([SENTENCE])
    tags = grammar.symbols.encode(tokens.symbols)
    lattice = grammar.lexicon.lattice(tokens.words, tags)
    exact, coarse = grammar.factors(tags, lattice)
    left, _ = pruned.factors(tags, lattice)
    first = Posterior.from_factors([coarse], None)
    kept = first.marginals >= prune
    kept[first.heads, numpy.arange(1, 5)] = True
    # the grammar of groups leaves out more, but no token's only states or heads
    arcs = left.weights != 0
    assert not (arcs & ~kept[1:, 1:]).any() and not kept[:, 1:].all()
    sizes, every = numpy.diff(left.lattice.offsets), numpy.diff(lattice.offsets)
    assert (sizes >= 1).all() and sizes.sum() < every.sum()
    total, shares = {}, {}
    trees = projective_trees(4)
    for heads in trees:
        own = [(h, m) for m, h in enumerate(heads, start=1) if h]
        (root,) = [m for m, h in enumerate(heads) if h == 0]
        sound = all(arcs[h - 1, m - 1] for h, m in own)
        span = slice(left.lattice.offsets[root], left.lattice.offsets[root + 1])
        if sound and left.root[span].any():
            total[heads] = sum(_products(exact, left.lattice, heads))
    shares = numpy.array([total.get(heads, 0.0) for heads in trees])
    expected = marginals(shares / shares.sum(), trees)
    found = pruned.parse(tokens)
    numpy.testing.assert_allclose(found.marginals(0), expected, atol=1e-9)
    assert found.log_probs()[0] == pytest.approx(
        numpy.log(total[tuple(found.heads.tolist())] / shares.sum())
    )


def test_at_most_sixteen_heads_are_left():
    """However alike all words are: otherwise one odd text of 250 words takes seconds."""
    grammar = RefinedRecipe(states=16, chart=ChartSettings(prune=1e-9)).fit(treebank())
    tokens = make_tokens([[("wug", "N")] * 60])
    tags = grammar.symbols.encode(tokens.symbols)
    factors = next(grammar.factors(tags, grammar.lexicon.lattice(tokens.words, tags)))
    # one more where the best tree has another
    assert 2 < (factors.weights != 0).sum(axis=0).max() <= 17
    parses = grammar.parse(tokens)
    assert is_single_root_projective(parses.heads.tolist())
    numpy.testing.assert_allclose(parses.marginals(0)[:, 1:].sum(axis=0), 1.0, rtol=1e-6)


def _products(factors, lattice, heads):
    """The weights of a tree with every choice of states that a lattice has."""
    k = factors.transitions.row_of.shape[1]
    full, n = factors.lattice, len(heads)
    emission, root = {}, {}
    for i in range(n):
        for at in range(full.offsets[i], full.offsets[i + 1]):
            emission[i, full.states[at]] = full.emissions[at]
            root[i, full.states[at]] = factors.root[at]
    own = [lattice.states[lattice.offsets[i] : lattice.offsets[i + 1]] for i in range(n)]
    for chosen in product(*own):
        value = 1.0
        for m, head in enumerate(heads):
            value *= emission[m, chosen[m]]
            value *= root[m, chosen[m]] if head == 0 else factors.weights[head - 1, m]
        for h in range(1, n + 1):
            for side, sequence in enumerate(modifiers(heads, h)):
                chain = [k, *(chosen[m - 1] for m in sequence), k]
                for before, after in pairwise(chain):
                    row = factors.transitions.row_of[side, chosen[h - 1], before]
                    value *= float(factors.transitions.rows[row, after])
        yield value


@pytest.mark.parametrize(
    "sentences",
    [
        [[]],
        [[("one", "N")]],
        [[("new", "NEW"), ("words", "ODD"), ("ゆき", "N"), ("", "")]],
        [[("an0", "N")] * 130],
    ],
)
def test_odd_sentences(grammar, sentences):
    tokens = make_tokens([own for own in sentences if own])
    parses = grammar.parse(tokens)
    for s, (a, b) in enumerate(tokens.bounds()):
        assert is_single_root_projective(parses.heads[a:b].tolist())
        numpy.testing.assert_allclose(parses.marginals(s)[:, 1:].sum(axis=0), 1.0, rtol=1e-6)
    assert numpy.isfinite(parses.log_probs()).all()


def test_long_sentences_are_parsed_in_pieces():
    grammar = RefinedRecipe(chart=ChartSettings(max_length=20)).fit(treebank())
    tokens = make_tokens([SENTENCE * 30])
    parses = grammar.parse(tokens)
    heads = parses.heads
    assert len(heads) == 120 and (heads == 0).sum() == 1
    numpy.testing.assert_allclose(parses.marginals(0)[:, 1:].sum(axis=0), 1.0, rtol=1e-6)


@pytest.mark.parametrize("labelling", LABELLINGS)
@pytest.mark.parametrize("case", ["one tag", "one sentence", "one token", "partial"])
def test_small_and_partial_treebanks(labelling, case):
    bank = treebank(size=60, tags=["N"] if case == "one tag" else TAGS)
    if case in ("one sentence", "one token"):
        lengths = numpy.diff(bank.tokens.starts)
        wanted = 1 if case == "one token" else lengths.max()
        chosen = numpy.arange(len(lengths)) == numpy.flatnonzero(lengths == wanted)[0]
        bank = bank.select(chosen)
    if case == "partial":
        bank.heads[::3] = MISSING
        bank.labels[::3] = [""] * len(bank.labels[::3])
    grammar = RefinedRecipe(labelling=labelling, states=300, cycles=2).fit(bank)
    parses = grammar.parse(make_tokens([SENTENCE]))
    assert is_single_root_projective(parses.heads.tolist())


def test_nothing_to_learn_from():
    bank = treebank(size=3)
    bank.heads[:] = MISSING
    with pytest.raises(ValueError, match="S104"):
        RefinedRecipe().fit(bank)


@pytest.mark.parametrize(
    "options",
    [
        {"labelling": "magic"},
        {"states": 301},
        {"states": 0},
        {"max_symbols": 300},
        {"dimensions": 0},
        {"cycles": 0},
        {"seed": -1},
        {"chart": ChartSettings(prune=1.0)},
        {"chart": ChartSettings(max_length=1)},
    ],
)
def test_bad_settings(options):
    with pytest.raises(ValueError, match=r"S80[12]"):
        RefinedRecipe(**options)


def test_words_are_counted_once_and_smoothed():
    words = ["Dog", "dog", "dog", "dog", "dog", "barking", "walking"]
    states = numpy.array([0, 0, 0, 0, 1, 2, 2], dtype="int32")
    tag_states = TagStates(numpy.array([0, 0, 1, 1], dtype="int32"))
    seen = SeenWords(words, tag_states.tag_of[states], 2)
    lexicon = seen.lexicon(numpy.arange(7), states, numpy.ones(7), tag_states)
    share = numpy.array([4.5, 1.5]) / 6
    expected = (numpy.array([4, 1]) + 2 * share) / 7  # a frequent word: no signatures
    found = lexicon.distributions(["DOG"], numpy.array([0], dtype="int32"))
    numpy.testing.assert_allclose(found[0], expected)
    general = numpy.array([2.5, 0.5]) / 3
    for _ in ("<unk>", "<x>", "<x-ng>", "<x-ing>"):
        general = (numpy.array([2, 0]) + 4 * general) / 6
    found = lexicon.distributions(["seeing"], numpy.array([1], dtype="int32"))
    numpy.testing.assert_allclose(found[0], general)
    weights = seen.weights(lexicon)
    numpy.testing.assert_allclose(weights[0], expected / share)
    layer = Layer(
        tag_states, numpy.zeros((0, 4), dtype="int32"), numpy.zeros(0), numpy.array([2.0, 0, 0, 1])
    )
    assert layer.root.sum() == pytest.approx(1.0) and layer.root.argmax() == 0
