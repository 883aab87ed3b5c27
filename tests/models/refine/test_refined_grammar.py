"""The refined grammar as a parser: labellings, smoothing, charts, files, bad input."""

import tracemalloc
from contextlib import contextmanager
from itertools import pairwise, product

import numpy
import pytest

from brute_force import is_single_root_projective, marginals, modifiers, projective_trees
from spacy_spectral.base.serialize import pack, unpack
from spacy_spectral.models.refine.estimate import LABELLINGS, RefineSettings, fit
from spacy_spectral.models.refine.labelling import Labelling
from spacy_spectral.models.refine.lexicon import SeenWords, TagStates
from spacy_spectral.models.refine.model import ChartSettings, Layer, RefinedGrammar
from spacy_spectral.models.refine.spectral import spectral_labelling, states_by_tag
from spacy_spectral.models.refine.split_merge import SplitMerge
from spacy_spectral.models.refine.statistics import Trees
from spacy_spectral.models.refine.transitions import Transitions
from spacy_spectral.trees.interface import AskedArcs
from spacy_spectral.trees.posterior import Posterior
from spacy_spectral.trees.sentences import MISSING, Tokens, Treebank

TAGS = ["C", "N", "P", "V"]
EXACT = ChartSettings(prune=0.0)


def make_tokens(sentences):
    """From lists of (word, tag)."""
    rows = [row for sentence in sentences for row in sentence]
    starts = numpy.cumsum([0, *map(len, sentences)]).astype("int32")
    blank = [""] * len(rows)
    return Tokens(starts, [w for w, _ in rows], [t for _, t in rows], blank, blank, blank)


def treebank(seed=0, size=150, tags=TAGS):
    """Random trees in which the kind of a noun decides its place: a1 nouns are left, b1 nouns right."""
    random = numpy.random.default_rng(seed)
    sentences, heads, labels = [], [], []
    for _ in range(size):
        n = int(random.integers(1, 7))
        choices = projective_trees(n)
        own = choices[random.integers(len(choices))]
        tag = random.choice(tags, n).tolist()
        kind = ["a" if m < h else "b" for m, h in enumerate(own, start=1)]
        words = [f"{k}{t.lower()}{random.integers(3)}" for k, t in zip(kind, tag, strict=True)]
        sentences.append(list(zip(words, tag, strict=True)))
        heads += own
        labels += ["root" if h == 0 else "dep" for h in own]
    return Treebank(make_tokens(sentences), numpy.array(heads, dtype="int32"), labels)


@pytest.fixture(scope="module")
def grammar():
    return fit(treebank(), RefineSettings(states=16, dimensions=2, chart=EXACT))


SENTENCE = [("an0", "N"), ("bv1", "V"), ("ap2", "P"), ("bn1", "N")]


def test_labellings_are_numbered_by_tag_and_size():
    tags = numpy.array([1, 1, 1, 0, 1, 3], dtype="int32")
    labelling = Labelling.from_parts(tags, numpy.array([7, 2, 2, 5, 2, 0]), 5)
    assert labelling.tag_of.tolist() == [0, 1, 1, 2, 3, 4]
    assert labelling.states.tolist() == [2, 1, 1, 0, 1, 4]


def test_states_are_shared_out():
    sizes = states_by_tag(numpy.array([0, 1, 90, 10000, 40000]), 20, most=16, least_tokens=40)
    assert sizes[:2].tolist() == [1, 1] and sizes[2] <= 2
    assert sizes.sum() <= 20 and sizes[4] > sizes[3]
    many = states_by_tag(numpy.array([10**6] * 3), 300, most=16, least_tokens=40)
    assert many.tolist() == [16, 16, 16]


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
    plain = fit(bank, RefineSettings(labelling="none", chart=EXACT))
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
    found = scorer.log_marginals(arcs)
    numpy.testing.assert_array_equal(found, logs)
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
    pruned = fit(
        treebank(), RefineSettings(states=16, dimensions=2, chart=ChartSettings(prune=prune))
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
    grammar = fit(treebank(), RefineSettings(states=16, chart=ChartSettings(prune=1e-9)))
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
                    value *= factors.transitions.probability(side, chosen[h - 1], before, after)
        yield value


@pytest.mark.parametrize("labelling", LABELLINGS)
def test_round_trip_and_repetition(labelling):
    settings = RefineSettings(labelling=labelling, states=20, cycles=1)
    first = fit(treebank(size=400), settings)
    data = first.to_bytes()
    assert fit(treebank(size=400), settings).to_bytes() == data
    second = RefinedGrammar.from_bytes(data)
    assert second.to_bytes() == data
    tokens = treebank(seed=3, size=20).tokens
    a, b = first.parse(tokens), second.parse(tokens)
    assert a.heads.tolist() == b.heads.tolist() and a.labels.tolist() == b.labels.tolist()
    assert a.log_probs().tobytes() == b.log_probs().tobytes()
    # sentence by sentence as all at once
    for s in range(len(tokens)):
        only = numpy.arange(len(tokens)) == s
        alone = first.parse(tokens.select(only))
        assert alone.marginals(0).tobytes() == a.marginals(s).tobytes()
    if labelling != "none":
        assert first.fine.tag_states.n_states > len(first.symbols)


def damaged(read):
    """Files that somebody made: every one is wrong in one way."""
    changes = {
        "tag_of": lambda x: x[::-1].copy(),
        "totals": lambda x: x[:-1],
        "words": lambda x: x[:-1],
        "symbols": lambda x: x[1:],
        "entries": lambda x: x + 10**6,
        "entry_counts": lambda x: x * 0,
        "lengths": lambda x: x * 0,
    }
    for name, change in changes.items():
        yield {**read, name: change(read[name])}
    for layer in ("coarse", "fine"):
        for name, change in (
            ("contexts", lambda x: x + 500),
            ("contexts", lambda x: x[::-1].copy()),
            ("counts", lambda x: x.astype("float64")),
            ("roots", lambda x: x[1:]),
        ):
            yield {**read, layer: {**read[layer], name: change(read[layer][name])}}
    yield {**read, "tag_of": numpy.zeros_like(read["tag_of"])}
    yield {**read, "settings": {**read["settings"], "prune": float("nan")}}
    yield {**read, "labels": {**read["labels"], "labels": ["x"]}}


def test_crafted_files_are_refused(grammar):
    read = unpack("refined grammar", 1, grammar.to_bytes())
    RefinedGrammar.from_bytes(pack("refined grammar", 1, read))
    for payload in damaged(read):
        with pytest.raises(ValueError, match="S005"):
            RefinedGrammar.from_bytes(pack("refined grammar", 1, payload))


@contextmanager
def peak():
    """YIELDS (List[int]): Empty; afterwards it has the most bytes that were in use at a time."""
    found = []
    tracemalloc.start()
    yield found
    found.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()


def made_large(read, n_tags, n_states, n_words):
    """A small file with large tables: all is seen once, one tag has the states that others leave."""

    def layer(k):
        contexts = numpy.indices((2, k, k + 1)).reshape(3, -1).T
        contexts = numpy.append(contexts, numpy.full((len(contexts), 1), k), axis=1)
        return {
            "contexts": contexts.astype("uint16"),
            "counts": numpy.ones(len(contexts), "uint32"),
            "roots": numpy.ones(k, "uint32"),
        }

    words = numpy.arange(n_words)
    return {
        **read,
        "symbols": [f"T{i}" for i in range(n_tags - 1)],
        "tag_of": numpy.maximum(numpy.arange(n_states) - n_states + n_tags, 0).astype("int32"),
        "totals": numpy.ones(n_states, "uint32"),
        "coarse": layer(n_tags),
        "fine": layer(n_states),
        "words": words.astype("str").tolist(),
        "entries": numpy.stack([words, 0 * words], axis=1).astype("uint32"),
        "entry_counts": numpy.ones(n_words, "uint32"),
        "lengths": numpy.full((n_tags, 2, n_tags, read["lengths"].shape[-1]), 0.1),
    }


@pytest.mark.parametrize(
    "sizes",
    [(300, 300, 1), (299, 300, 1), (200, 300, 1), (2, 300, 350_000)],
    ids=["tags", "groups", "k-means", "words"],
)
def test_files_can_not_ask_for_large_tables(grammar, sizes):
    """At the most tags and states that files can have, of a file of 13 MB at most: refused before anything is
    made of it."""
    read = unpack("refined grammar", 1, grammar.to_bytes())
    data = pack("refined grammar", 1, made_large(read, *sizes))
    with (
        peak() as found,
        pytest.raises(ValueError, match=r"S005.*'tag_of' has too many"),
    ):
        RefinedGrammar.from_bytes(data)
    assert len(data) < 14 << 20 and found[0] < 150 << 20


def test_loading_makes_little_beside_the_tables(grammar):
    """Not a table of all counts beside that of all distributions."""
    read = unpack("refined grammar", 1, grammar.to_bytes())
    data = pack("refined grammar", 1, made_large(read, 120, 120, 1))
    with peak() as found:
        loaded = RefinedGrammar.from_bytes(data)
    layers = {id(layer): layer for layer in (loaded.fine, *(p.layer for p in loaded._passes))}
    tables = sum(layer.transitions.rows.nbytes for layer in layers.values())
    assert tables > 40 << 20 and found[0] < 1.5 * tables
    # what was never seen is as likely as the wider contexts say
    numpy.testing.assert_allclose(loaded.fine.transitions.rows.sum(axis=1), 1.0, rtol=1e-4)


def test_grammars_that_could_not_be_loaded_are_not_made(monkeypatch):
    monkeypatch.setattr("spacy_spectral.models.refine.format._MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"S808.*max_symbols"):
        fit(treebank(size=40), RefineSettings())


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
    grammar = fit(treebank(), RefineSettings(chart=ChartSettings(max_length=20)))
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
    grammar = fit(bank, RefineSettings(labelling=labelling, states=300, cycles=2))
    parses = grammar.parse(make_tokens([SENTENCE]))
    assert is_single_root_projective(parses.heads.tolist())


def test_nothing_to_learn_from():
    bank = treebank(size=3)
    bank.heads[:] = MISSING
    with pytest.raises(ValueError, match="S104"):
        fit(bank, RefineSettings())


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
        RefineSettings(**options)


# Labellings


def as_trees(bank):
    names = sorted(set(bank.tokens.symbols))
    tags = numpy.array([names.index(tag) for tag in bank.tokens.symbols], dtype="int32")
    return Trees(bank.tokens.starts, bank.tokens.words, tags, bank.heads), len(names)


def hidden_treebank(size=400, seed=0):
    """One tag N in three hidden kinds: roots, left modifiers that are leaves, right ones with a leaf."""
    random = numpy.random.default_rng(seed)
    sentences, heads, kinds = [], [], []
    for _ in range(size):
        left = int(random.integers(1, 4))
        own = [left + 1] * left + [0]
        kind = [1] * left + [0]
        for _ in range(int(random.integers(1, 3))):
            own += [left + 1, len(own) + 1]
            kind += [2, 1]
        heads += own
        kinds += kind
        sentences.append([(f"w{k}{random.integers(4)}", "N") for k in kind])
    bank = Treebank(make_tokens(sentences), numpy.array(heads, dtype="int32"), ["x"] * len(heads))
    return bank, numpy.array(kinds)


def purity(labels, kinds):
    pairs, counts = numpy.unique(numpy.stack([labels, kinds]), axis=1, return_counts=True)
    return sum(counts[pairs[0] == own].max() for own in numpy.unique(pairs[0])) / len(labels)


def test_spectral_labelling_finds_hidden_kinds():
    bank, kinds = hidden_treebank()
    trees, n_tags = as_trees(bank)
    labelling = spectral_labelling(trees, n_tags, states=3, dimensions=2)
    assert labelling.n_states == 3
    assert purity(labelling.states, kinds) > 0.95


def test_em_raises_the_likelihood_and_finds_hidden_kinds():
    bank, kinds = hidden_treebank()
    trees, n_tags = as_trees(bank)
    model = SplitMerge(trees, n_tags, most_states=4, seed=0)
    values = []
    for _ in range(2):
        pairs = model.split()
        for _ in range(15):
            model.iterate()
            values.append(model.log_likelihood)
        model.merge(pairs, share=0.0)
    assert values[14] > values[0] and values[29] > values[14]
    labelling = model.labelling()
    assert purity(labelling.states, kinds) > 0.95
    totals = model.expected.weights.sum(axis=1)
    numpy.testing.assert_allclose(totals, 1.0)
    # what was counted is what there is: one event for each child and each STOP
    assert model.expected.counts.sum() == pytest.approx(len(trees.events.child))


def test_merging_everything_undoes_a_split():
    trees, n_tags = as_trees(treebank(size=400))
    model = SplitMerge(trees, n_tags, most_states=30, seed=0)
    before = model.expected.counts
    pairs = model.split()
    assert len(pairs) == n_tags and model.expected.tag_states.n_states == 2 * n_tags
    model.iterate()
    model.merge(pairs, share=1.0)
    assert model.expected.tag_states.tag_of.tolist() == list(range(n_tags))
    numpy.testing.assert_allclose(model.expected.counts, before, atol=1e-6)


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
