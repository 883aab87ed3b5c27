"""The sample treebank: valid, repeatable, drawn from the distribution that it says."""

from collections import Counter
from random import Random

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_spectral.cli  # noqa: F401 (adds the commands)
from spacy_spectral.treebank.brackets import Tree, read_brackets, write_tree
from spacy_spectral.treebank.check import check_treebanks
from spacy_spectral.treebank.conllu import TreebankError, read_conllu
from spacy_spectral.treebank.sample.draw import (
    MAX_LENGTH,
    draw_modifiers,
    draw_sentence,
    draw_tree,
    write_sample,
)
from spacy_spectral.treebank.sample.grammar import LEFT, RIGHT, symbols, true_model

PARTS = {"train": 300, "dev": 60, "test": 40}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("sample"), seed=3, **PARTS)


def test_files_are_valid_and_projective(files):
    summaries = check_treebanks(files[::2])
    assert [s.sentences for s in summaries] == list(PARTS.values())
    for summary in summaries:
        assert not summary.problems
        assert summary.non_projective == 0
        assert summary.longest <= MAX_LENGTH
        assert set(summary.tags) <= set(symbols())


def test_sentences_end_in_punctuation_on_the_root(files):
    for sentence in read_conllu(files[0]):
        root = next(i for i, head in enumerate(sentence.heads) if head == i)
        assert (sentence.words[-1], sentence.deps[-1], sentence.heads[-1]) == (".", "punct", root)
        assert sentence.text.endswith(".") and " ." not in sentence.text
        assert sentence.text[0].isupper()
        assert f"# text = {sentence.text}" in sentence.comments


def test_the_same_seed_gives_the_same_bytes(files, tmp_path):
    def contents(paths):
        return [path.read_bytes() for path in paths]

    assert contents(write_sample(tmp_path / "again", seed=3, **PARTS)) == contents(files)
    assert contents(write_sample(tmp_path / "other", seed=4, **PARTS)) != contents(files)
    # a part does not depend on the size of another
    smaller = write_sample(tmp_path / "smaller", seed=3, **(PARTS | {"train": 1}))
    assert contents(smaller)[2:] == contents(files)[2:]


def test_sample_command(files, tmp_path):
    sizes = [f"--{part}={size}" for part, size in PARTS.items()]
    command = ["spectral", "sample", "--output", str(tmp_path), "--seed", "3", *sizes]
    assert CliRunner().invoke(app, command).exit_code == 0
    for file in files:
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_bracketed_trees_match_the_words(files):
    for conllu, brackets in zip(files[::2], files[1::2], strict=True):
        sentences, trees = list(read_conllu(conllu)), list(read_brackets(brackets))
        for sentence, tree in zip(sentences, trees, strict=True):
            leaves = list(tree.leaves())
            assert [leaf.word for leaf in leaves] == sentence.words
            assert [leaf.label for leaf in leaves] == [x.split("-")[0] for x in sentence.xpos]
            assert tree.label == "ROOT" and tree.children[0].label == "S"


def test_true_model_is_a_distribution():
    names, start, stop, ops = true_model()
    n_heads, n_states = len(names) + 1, start.shape[2]
    assert stop.shape == (n_heads, 2, n_states)
    assert ops.shape == (n_heads, 2, len(names), n_states, n_states)
    numpy.testing.assert_allclose(start.sum(axis=2), 1)
    leaving = ops.sum(axis=(2, 3)) + stop  # of every state; padding leads nowhere
    used = leaving > 0
    numpy.testing.assert_allclose(leaving[used], 1)
    assert not start[~used].any() and not ops.sum(axis=(2, 4))[~used].any()
    # the root has exactly one child, on its right
    one_child = sum(
        stop[-1, RIGHT] @ ops[-1, RIGHT, x] @ start[-1, RIGHT] for x in range(len(names))
    )
    assert one_child == pytest.approx(1)
    assert stop[-1, LEFT] @ start[-1, LEFT] == 1


def sequence_probability(model, head, direction, sequence):
    names, start, stop, ops = model
    state = start[head, direction]
    for tag in sequence:
        state = ops[head, direction, names.index(tag)] @ state
    return stop[head, direction] @ state


@pytest.mark.parametrize("head", ["VBD", "NN", "NNS-P", "VB-I", "JJ-Z", "RB"])
@pytest.mark.parametrize("direction", [LEFT, RIGHT])
def test_drawn_modifiers_follow_the_true_model(head, direction):
    """The frequency of whole sequences is within 5 standard deviations of f(x1..xm)."""
    model = true_model()
    n_draws = 4000
    random = Random(0)
    drawn = Counter(
        tuple(tag for tag, _ in draw_modifiers(head, direction, random)) for _ in range(n_draws)
    )
    for sequence, count in drawn.most_common(40):
        p = sequence_probability(model, model[0].index(head), direction, sequence)
        assert p > 0
        assert abs(count - n_draws * p) < 5 * numpy.sqrt(n_draws * p * (1 - p)) + 1


def expected_sizes(model):
    """The mean size of the tree under each head: size = 1 + E(children) size."""
    names, start, _, ops = model
    children = numpy.zeros((len(names) + 1, len(names)))
    for head in range(len(names) + 1):
        for direction in (LEFT, RIGHT):
            step = ops[head, direction].sum(axis=0)
            visits = numpy.linalg.solve(numpy.eye(len(step)) - step, start[head, direction])
            children[head] += ops[head, direction].sum(axis=1) @ visits
    assert max(abs(numpy.linalg.eigvals(children[:-1]))) < 0.9  # subcritical: sentences end
    sizes = numpy.linalg.solve(numpy.eye(len(names)) - children[:-1], numpy.ones(len(names)))
    return children[-1] @ sizes


def test_mean_length_without_rejection_is_that_of_the_model():
    random = Random(1)
    lengths = numpy.array([len(draw_tree(random).heads) for _ in range(3000)])
    error = lengths.std() / numpy.sqrt(len(lengths))
    assert abs(lengths.mean() - expected_sizes(true_model())) < 5 * error


def inside(tags, model):
    """P(tags) by the plain recursion over spans with explicit lists of modifiers' spans."""
    names, start, stop, ops = model
    ids = [names.index(tag) for tag in tags]
    n_words = len(ids)
    cache = {}

    def subtree(head, i, j):  # all trees over words i..j-1 with this head
        return side(head, i, LEFT) * side(head, j, RIGHT)

    def side(head, edge, direction):
        return stop[ids[head], direction] @ states(head, edge, direction)

    def states(head, edge, direction):
        """The state vector after the modifiers between the head and the edge."""
        if edge == (head if direction == LEFT else head + 1):
            return start[ids[head], direction]
        key = (head, edge, direction)
        if key not in cache:
            total = 0
            inner = range(edge + 1, head + 1) if direction == LEFT else range(head + 1, edge)
            for other in inner:
                low, high = sorted((edge, other))
                before = states(head, other, direction)
                for modifier in range(low, high):
                    operator = ops[ids[head], direction, ids[modifier]]
                    total = total + operator @ before * subtree(modifier, low, high)
            cache[key] = total
        return cache[key]

    top = [stop[-1, RIGHT] @ ops[-1, RIGHT, x] @ start[-1, RIGHT] for x in ids]
    return sum(top[i] * subtree(i, 0, n_words) for i in range(n_words))


def test_frequencies_of_short_tag_sequences_are_inside_probabilities():
    model = true_model()
    random = Random(2)
    n_draws = 20000
    drawn = Counter(tuple(draw_tree(random).xpos) for _ in range(n_draws))
    frequent = [(tags, count) for tags, count in drawn.most_common(30) if len(tags) <= 7]
    assert len(frequent) >= 10
    for tags, count in frequent:
        p = inside(tags, model)
        assert abs(count - n_draws * p) < 5 * numpy.sqrt(n_draws * p)


def test_words_are_english_enough():
    random = Random(5)
    for _ in range(500):
        sentence = draw_sentence(random)
        words = [word.lower() for word in sentence.words]
        for i, word in enumerate(words[:-1]):
            if word in ("a", "an"):
                assert (word == "an") == (words[i + 1][0] in "aeiou")
        for i, (tag, head) in enumerate(zip(sentence.xpos, sentence.heads, strict=True)):
            if sentence.deps[i] == "nsubj" and tag in ("NN", "NNS"):
                assert sentence.xpos[head] not in (("VBP",) if tag == "NN" else ("VBZ", "VBZ-S"))


BAD_BRACKETS = {
    "(S (NN dog)": "1.*S039",
    "(S (NN dog))\n)": "2.*S036",
    "dog": "1.*S036",
    "(S (NN dog) word)": "1.*S035",
    "(S (NN dog cat))": "1.*S035",
    "(S (NN dog (X y)))": "1.*S035",
    "(S ())": "1.*S037",
    "(S (NN))": "1.*S037",
    "(S ((NN dog)))": "1.*S038",
    "((S (NN dog)) (S (NN cat)))": "1.*S038",
    "": ".*S012",
}


@pytest.mark.parametrize("text", BAD_BRACKETS)
def test_bracket_errors(tmp_path, text):
    path = tmp_path / "bad.ptb"
    path.write_text(text)
    with pytest.raises(TreebankError, match=rf"bad\.ptb:? ?{BAD_BRACKETS[text]}"):
        list(read_brackets(path))


words = st.text("ab()-é", min_size=1, max_size=4).filter(lambda w: "RB" not in w)
trees = st.recursive(
    st.builds(lambda label, word: Tree(label, [], word), st.sampled_from(["NN", ","]), words),
    lambda inner: st.builds(Tree, st.sampled_from(["S", "NP"]), st.lists(inner, min_size=1)),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(trees, min_size=1, max_size=3))
def test_brackets_round_trip(tmp_path, forest):
    path = tmp_path / "trees.ptb"
    path.write_text("\n".join(map(write_tree, forest)), encoding="utf8")
    assert list(read_brackets(path)) == forest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text("()S \nx", max_size=30) | st.binary(max_size=20))
def test_random_brackets_give_clear_errors_only(tmp_path, data):
    path = tmp_path / "random.ptb"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf8"))
    try:
        assert all(next(tree.leaves()).word for tree in read_brackets(path))
    except TreebankError as error:
        assert "random.ptb" in str(error)
