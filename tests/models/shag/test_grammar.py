"""The grammar as a whole: files, odd input, long sentences, determinism."""

import copy

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_data import random_treebank
from brute_force import (
    automata_probability,
    is_single_root_projective,
    marginals,
    projective_trees,
)
from spacy_spectral.base.files import pack, unpack
from spacy_spectral.models.shag.estimate import ESTIMATORS, EstimatorSettings
from spacy_spectral.models.shag.grammar import Grammar, GrammarSettings
from spacy_spectral.models.shag.model import SymbolTable
from spacy_spectral.trees.sentences import MISSING, Tokens, Tree

TAGS = ["C", "N", "P", "V"]
SENTENCE = ["N", "V", "P", "N", "C", "N", "V"]


def treebank(seed=0, size=80):
    def describe(rng, tags, heads):
        words = [tag.lower() + str(rng.integers(3)) for tag in tags]
        return words, [f"{t}-of" if h else "root" for t, h in zip(tags, heads, strict=True)]

    return random_treebank(TAGS, describe, longest=6, seed=seed, size=size)


def fit(*, trees=None, lexical=None, max_length=250, min_symbol_count=1, lengths=True, **automata):
    return Grammar.fit(
        trees or treebank(),
        GrammarSettings(
            automata=EstimatorSettings(**{"states": 4, **automata}),
            lexical=lexical,
            lengths=lengths,
            max_length=max_length,
            min_symbol_count=min_symbol_count,
        ),
    )


@pytest.fixture(scope="module")
def grammar():
    return fit(lexical="LEX+FCP")


def parse(grammar, tags, **options):
    return grammar.posterior(grammar.symbols.encode(tags), [tag.lower() for tag in tags], **options)


def assert_sound(posterior, n):
    assert posterior.marginals.shape == (n + 1, n + 1)
    assert numpy.isfinite(posterior.marginals).all() and (posterior.marginals >= 0).all()
    numpy.testing.assert_allclose(posterior.marginals[:, 1:].sum(axis=0), 1.0)
    assert is_single_root_projective(posterior.heads.tolist())
    assert posterior.log_probability(posterior.heads) <= 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("lexical", [None, "LEX+F"])
def test_round_trip_and_repetition(estimator, lexical):
    first = fit(estimator=estimator, lexical=lexical)
    data = first.to_bytes()
    assert fit(estimator=estimator, lexical=lexical).to_bytes() == data
    second = Grammar.from_bytes(data)
    assert second.to_bytes() == data
    assert second.settings == first.settings and second.symbols.names == first.symbols.names
    posteriors = [parse(own, [*SENTENCE, "new"]) for own in (first, second)]
    assert posteriors[0].marginals.tobytes() == posteriors[1].marginals.tobytes()
    assert posteriors[0].heads.tolist() == posteriors[1].heads.tolist()
    symbols, words = first.symbols.encode(SENTENCE), [tag.lower() for tag in SENTENCE]
    labels = [
        own.labels.distributions(
            [symbols], [words], [parse(own, SENTENCE).heads], root_symbol=len(own.symbols)
        )
        for own in (first, second)
    ]
    assert labels[0].tobytes() == labels[1].tobytes()
    numpy.testing.assert_allclose(labels[0].sum(axis=1), 1.0)


@pytest.mark.parametrize("estimator", ["det", "det+f", "em"])
def test_marginals_by_enumeration(estimator):
    grammar = fit(estimator=estimator, lengths=False)
    tags = SENTENCE[:5]
    symbols = grammar.symbols.encode(tags).tolist()
    scores = [
        automata_probability(grammar.automata, symbols, heads) for heads in projective_trees(5)
    ]
    expected = marginals(scores, projective_trees(5)) / sum(scores)
    posterior = parse(grammar, tags)
    numpy.testing.assert_allclose(posterior.marginals, expected, rtol=1e-9, atol=1e-12)
    best = projective_trees(5)[int(numpy.argmax(scores))]
    log_probability = posterior.log_probability(numpy.array(best))
    assert log_probability == pytest.approx(numpy.log(max(scores) / sum(scores)))
    assert posterior.k_best(143)[0][0].tolist() == list(best)
    assert_sound(posterior, 5)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from([*TAGS, "?", "", "<unk>"]), min_size=1, max_size=12))
def test_any_symbols(grammar, tags):
    assert_sound(parse(grammar, tags), len(tags))


def test_no_tokens(grammar):
    posterior = parse(grammar, [])
    assert posterior.heads.tolist() == [] and posterior.marginals.shape == (1, 1)


def test_rare_symbols_are_unknown():
    trees = [*treebank(), Tree(["x"], ["rare"], numpy.array([0], "int32"), ["root"])]
    grammar = fit(trees=trees, min_symbol_count=2)
    assert "rare" not in grammar.symbols
    tags = ["N", "rare", "V"]
    other = ["N", "never", "V"]
    assert parse(grammar, tags).marginals.tobytes() == parse(grammar, other).marginals.tobytes()
    assert "rare" in fit(trees=trees).symbols


def test_rare_symbols_of_several_parts_are_the_next_wider_one():
    counts = {
        "NOUN|Case=Acc|Number=Plur": 3,
        "NOUN|Case=Acc|Number=Sing": 4,
        "NOUN|Case=Dat|Number=Sing": 9,
        "NOUN|Case=Gen|Number=Sing": 2,
        "NOUN|": 1,
        "VERB|Tense=Past": 2,
        "X": 1,
        "Y|": 1,
    }
    table = SymbolTable.from_counts(counts, min_count=3)
    # "Y" has no wider symbol and is too rare; NOUN| and NOUN|Case=Gen make NOUN together
    expected = ["NOUN", "NOUN|Case=Acc|Number=Plur", "NOUN|Case=Acc|Number=Sing"]
    assert table.names == [*expected, "NOUN|Case=Dat|Number=Sing", "<unk>"]
    table = SymbolTable.from_counts(counts, min_count=5)
    assert table.names == ["NOUN|Case=Acc", "NOUN|Case=Dat|Number=Sing", "<unk>"]
    encoded = {
        "NOUN|Case=Acc|Number=Sing": "NOUN|Case=Acc",
        "NOUN|Case=Acc|New=Yes|Number=Plur": "NOUN|Case=Acc",
        "NOUN|Case=Dat|Number=Sing": "NOUN|Case=Dat|Number=Sing",
        "NOUN|Case=Dat": "<unk>",
        "X": "<unk>",
        "|": "<unk>",
        "": "<unk>",
    }
    assert [table.names[i] for i in table.encode(encoded)] == list(encoded.values())


def test_number_of_symbols_is_bounded():
    counts = {f"{tag}|{i}|{j}": i + 1 for tag in "AB" for i in range(9) for j in range(9)}
    assert len(SymbolTable.from_counts(counts, max_symbols=162)) == 163
    for most in (161, 60, 20, 2):
        table = SymbolTable.from_counts(counts, max_symbols=most)
        assert len(table) <= most + 1
        # none of them loses its part of speech
        assert table.unknown not in table.encode(counts)
    plain = {f"T{i:02}": i + 1 for i in range(50)} | {"same": 50}
    table = SymbolTable.from_counts(plain, max_symbols=3)
    assert table.names == ["T48", "T49", "same", "<unk>"]


def test_many_symbols_of_several_parts():
    """As many as parts of speech with morphology make; new ones can be parsed."""
    rng = numpy.random.default_rng(0)
    trees = [
        Tree(
            tree.words,
            [f"{tag}|Case={rng.integers(9)}|Person={rng.integers(9)}" for tag in tree.symbols],
            tree.heads,
            tree.labels,
        )
        for tree in treebank()
    ]
    grammar = Grammar.fit(
        trees, GrammarSettings(automata=EstimatorSettings(states=4), max_symbols=20)
    )
    assert len(grammar.symbols) <= 21
    tags = ["N|Case=3|Person=11", "V|Mood=Imp", "N|", "N", "unheard|of"]
    assert grammar.symbols.unknown not in grammar.symbols.encode(tags)[:4]
    assert_sound(parse(grammar, tags), len(tags))


def without_some_heads(trees, seed=1):
    rng = numpy.random.default_rng(seed)
    partial = []
    for tree in trees:
        gone = rng.random(len(tree)) < 0.2
        heads = numpy.where(gone, MISSING, tree.heads).astype("int32")
        labels = ["" if g else label for g, label in zip(gone, tree.labels, strict=True)]
        partial.append(Tree(tree.words, tree.symbols, heads, labels))
    return partial


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_partial_annotation(estimator):
    grammar = fit(trees=without_some_heads(treebank()), estimator=estimator, lexical="LEX")
    assert_sound(parse(grammar, SENTENCE), len(SENTENCE))


def test_nothing_annotated():
    trees = [Tree(["a"], ["A"], numpy.array([MISSING], "int32"), [""])]
    for bad in ([], trees):
        with pytest.raises(ValueError, match="S104"):
            Grammar.fit(bad, GrammarSettings())


@pytest.mark.parametrize(
    "options",
    [{"max_length": 1}, {"min_symbol_count": 0}, {"max_symbols": 0}, {"only_lexical": True}],
)
def test_bad_settings(options):
    with pytest.raises(ValueError, match="S105"):
        GrammarSettings(**options)


@pytest.mark.parametrize("estimator", ["spectral", "em"])
def test_one_tree_is_enough(estimator):
    trees = [Tree(["a", "b"], ["A", "B"], numpy.array([2, 0], "int32"), ["x", "root"])]
    grammar = fit(trees=trees, estimator=estimator, lexical="LEX+FCP")
    assert parse(grammar, ["A", "B"]).heads.tolist() == [2, 0]


def test_fallback_when_automata_fail():
    """Automata that make every total negative: lower ranks fail too, DET+F takes over."""
    broken = fit(estimator="spectral")
    broken.automata.start[:-1] *= -1
    broken.automata.start[:-1, 1] *= -1  # one direction: a negative factor for every token
    tags = SENTENCE[:5]
    assert_sound(parse(broken, tags), 5)
    sound = fit(estimator="det+f")
    numpy.testing.assert_allclose(
        parse(broken, tags).marginals, parse(sound, tags).marginals, rtol=1e-10
    )


# Long sentences


def parse_tokens(grammar, tags, fixed=None):
    columns = [[tag.lower() for tag in tags], tags, *([""] * len(tags) for _ in range(3))]
    tokens = Tokens(numpy.array([0, len(tags)], dtype="int32"), *columns)
    return grammar.parse(tokens, fixed=fixed)


@pytest.mark.parametrize("max_length", [2, 3, 5])
@pytest.mark.parametrize("n", [6, 17])
@pytest.mark.parametrize("estimator", ["spectral", "em"])
def test_many_small_pieces(max_length, n, estimator):
    grammar = fit(max_length=max_length, estimator=estimator)
    tags = numpy.random.default_rng(n).choice(TAGS, n).tolist()
    parses = parse_tokens(grammar, tags)
    assert is_single_root_projective(parses.heads.tolist())
    numpy.testing.assert_allclose(parses.marginals(0)[:, 1:].sum(axis=0), 1.0)
    assert len({found.heads.tobytes() for found in parses.k_best(0, 7)}) == 7
    assert parses.log_probs()[0] <= 0


def test_a_sentence_in_one_piece_is_that_of_the_posterior():
    # values of projected automata are made probabilities: see test_tempered
    grammar = fit(lexical="LEX+FCP", estimator="em")
    parses, posterior = parse_tokens(grammar, SENTENCE), parse(grammar, SENTENCE)
    assert parses.marginals(0).tolist() == posterior.marginals.tolist()
    assert parses.heads.tolist() == posterior.heads.tolist()


def test_labels_of_all_arcs(grammar):
    """One arc after the other in the tree that was chosen."""
    parses = parse_tokens(grammar, SENTENCE)
    symbols, words = grammar.symbols.encode(SENTENCE), [tag.lower() for tag in SENTENCE]
    arcs = parses.arcs(0, labelled=True, min_prob=0.0)
    marginals = parses.marginals(0)
    found = numpy.zeros((*marginals.shape, len(grammar.label_names)))
    found[arcs.heads, arcs.modifiers, arcs.labels] = arcs.probs
    for m in range(1, len(SENTENCE) + 1):
        for h in range(len(SENTENCE) + 1):
            if h != m:
                heads = parses.heads.copy()
                heads[m - 1] = h
                (row,) = grammar.labels.distributions(
                    [symbols],
                    [words],
                    [heads],
                    trees=[parses.heads],
                    root_symbol=len(grammar.symbols),
                )[m - 1 : m]
                numpy.testing.assert_allclose(found[h, m], row * marginals[h, m], rtol=1e-9)
    numpy.testing.assert_allclose(found[:, 1:].sum(axis=(0, 2)), 1.0)
    few = parses.arcs(0, labelled=True, min_prob=0.1)
    assert len(few.probs) == (found >= 0.1).sum()


# Damaged files


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_mutated_bytes(grammar, data):
    original = grammar.to_bytes()
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "random"]))
    position = data.draw(st.integers(0, len(original) - 1))
    if kind == "flip":
        damaged = bytearray(original)
        damaged[position] ^= data.draw(st.integers(1, 255))
        damaged = bytes(damaged)
    elif kind == "cut":
        damaged = original[:position]
    elif kind == "insert":
        extra = data.draw(st.binary(min_size=1, max_size=4))
        damaged = original[:position] + extra + original[position:]
    else:
        damaged = data.draw(st.binary(max_size=60))
    with pytest.raises(ValueError, match=r"S00[23]"):
        Grammar.from_bytes(damaged)


def places(payload, path=()):
    """Every entry of nested dicts."""
    for key, value in payload.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


damage = st.sampled_from(
    [None, 0, -1, 10**9, 1.5, "x", [], {}, ["a", "b"], numpy.zeros(3), numpy.zeros((2, 2), "int32")]
)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_valid_files_with_wrong_contents(grammar, data):
    """A checksum keeps accidents away, not other programs: no other error, and no crash in kernels."""
    payload = unpack("shag grammar", 1, grammar.to_bytes())
    payload = copy.deepcopy(payload)
    *path, last = data.draw(st.sampled_from(sorted(places(payload), key=str)))
    inner = payload
    for key in path:
        inner = inner[key]
    action = data.draw(st.sampled_from(["delete", "replace", "shorten", "nan", "huge"]))
    value = inner[last]
    if action == "delete":
        del inner[last]
    elif action == "replace" or not isinstance(value, numpy.ndarray) or not value.size:
        inner[last] = data.draw(damage)
    elif action == "shorten":
        inner[last] = value[:-1]
    else:
        changed = value.copy()
        filler = numpy.iinfo(value.dtype).max if value.dtype.kind in "iu" else numpy.nan
        changed.flat[data.draw(st.integers(0, value.size - 1))] = filler
        inner[last] = changed
    try:
        loaded = Grammar.from_bytes(pack("shag grammar", 1, payload))
    except ValueError as error:
        assert str(error).startswith("[S")
    else:
        assert_sound(parse(loaded, SENTENCE), len(SENTENCE))
