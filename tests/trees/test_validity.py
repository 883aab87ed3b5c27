"""Local rules of Universal Dependencies, beside the validator of Universal Dependencies."""

import io
import re
from collections import Counter
from itertools import product
from typing import NamedTuple

import numpy
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from udtools.validator import Validator

from spacy_spectral.treebank.conllu import is_projective, tree_problems
from spacy_spectral.trees.interface import ArcProbs
from spacy_spectral.trees.pseudoprojective import Inventory
from spacy_spectral.trees.sentences import Tokens
from spacy_spectral.trees.validity import CHILDREN, LEFT_TO_RIGHT, violations, with_valid_trees

OTHERS = [
    "nsubj",
    "nsubj:outer",
    "nsubj:pass",
    "csubj",
    "obj",
    "obl:tmod",
    "advmod",
    "nmod",
    "amod",
]
RELATIONS = [*CHILDREN, *LEFT_TO_RIGHT, *OTHERS, "acl:relcl"]
LOGLINEAR = "spacy-spectral.LogLinear.v1"
POS = ["NOUN", "ADV", "PART", "DET"]
MORPHS = ["", "Polarity=Neg", "Poss=Yes", "Number=Sing|Polarity=Neg"]


@st.composite
def trees(draw):
    """Projective or not, of any relations."""
    n = draw(st.integers(2, 8))
    order = draw(st.permutations(range(1, n + 1)))
    heads, labels = [0] * n, ["root"] * n
    for k, word in enumerate(order[1:], start=1):
        heads[word - 1] = draw(st.sampled_from(order[:k]))
        labels[word - 1] = draw(st.sampled_from(RELATIONS))
        # this may be, where arcs cross; that is looked at by the validator alone
        if labels[heads[word - 1] - 1] == "goeswith" and labels[word - 1] == "punct":
            labels[word - 1] = "amod"
    pos = draw(st.lists(st.sampled_from(POS), min_size=n, max_size=n))
    morphs = draw(st.lists(st.sampled_from(MORPHS), min_size=n, max_size=n))
    return heads, labels, pos, morphs


@pytest.fixture(scope="module")
def validator():
    """It reads all of its data when it is made."""
    return Validator(lang="ud", level=3, output=None)


def validated(validator, heads, labels, pos, morphs):
    """The rules that the validator finds broken; how often, by sentence."""
    rows = [
        f"{i}\tw\tw\t{p}\t_\t{m or '_'}\t{h}\t{dep}\t_\t_"
        for i, (h, dep, p, m) in enumerate(zip(heads, labels, pos, morphs, strict=True), start=1)
    ]
    text = "\n".join([f"# sent_id = 1\n# text = {' '.join('w' * len(heads))}", *rows]) + "\n\n"
    state = validator.validate_file_handle(io.StringIO(text))
    names = [incident.testid for incident in state.error_tracker]
    return Counter(n for n in names if re.match("leaf-|too-many-(subj|obj)|right-to-left-", n))


@given(trees())
def test_rules_are_those_of_the_validator(validator, tree):
    found = Counter(rule for _, rule in violations(*tree))
    assert found == validated(validator, *tree)


def test_what_is_broken_is_named():
    heads, labels = [2, 3, 0, 3, 3], ["amod", "case", "root", "obj", "obj"]
    assert violations(heads, labels) == [(2, "leaf-mark-case"), (3, "too-many-objects")]


class Arcs(NamedTuple):
    """Parses of one sentence, as far as valid trees look at them."""

    heads: numpy.ndarray
    labels: numpy.ndarray
    table: ArcProbs
    labelled: bool = True

    def arcs(self, sentence, *, labelled, min_prob):
        return self.table


def all_trees(n, labels):
    for heads in product(range(n + 1), repeat=n):
        if heads.count(0) == 1 and all(h != i for i, h in enumerate(heads, start=1)):
            own = [h - 1 if h else i for i, h in enumerate(heads)]
            if not tree_problems(own) and is_projective(own):
                for names in product(range(labels), repeat=n):
                    yield numpy.array(heads), numpy.array(names)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_valid_tree_is_found(seed):
    """Among all trees, by rules for parents, siblings and directions, and with crossing arcs."""
    rng = numpy.random.default_rng(seed)
    n = 3 if seed % 3 else 4
    names = ["case", "nsubj", "obj"] if n == 4 else ["conj", "case", "nsubj", "nsubj||case"]
    table = rng.dirichlet(numpy.ones((n + 1) * len(names)) / 3, size=n).reshape(n, n + 1, -1)
    table = numpy.maximum(table, 1e-6)
    rows = [
        (h, m + 1, x)
        for m in range(n)
        for h in range(n + 1)
        for x in range(len(names))
        if h != m + 1
    ]
    probs = numpy.array([table[m - 1, h, x] for h, m, x in rows])
    arcs = ArcProbs(*numpy.array(rows, dtype="int32").T, probs)
    inventory, every = Inventory(names), numpy.arange(n)
    ranked = []
    for heads, labels in all_trees(n, len(names)):
        starts = numpy.array([0, n], dtype="int32")
        tree = inventory.restored(starts, heads.astype("int32"), labels.astype("int32"))
        broken = len(violations(tree[0].tolist(), [names[label] for label in tree[1]]))
        ranked.append((-numpy.log(table[every, heads, labels]).sum(), broken, *tree))
    ranked.sort(key=lambda row: row[0])
    # the best of all that breaks a rule is the parse
    parse = next(row for row in ranked if row[1])
    tokens = Tokens(
        numpy.array([0, n], dtype="int32"), ["w"] * n, [""] * n, [None] * n, [""] * n, [""] * n
    )
    found = with_valid_trees(Arcs(*parse[2:], arcs), tokens, names)
    wanted = next(row for row in ranked if not row[1])
    assert (found.heads.tolist(), found.labels.tolist()) == tuple(
        own.tolist() for own in wanted[2:]
    )


def test_trees_that_break_rules_give_way(sample, examples):
    """Other trees have their own probabilities; other sentences are as they were."""
    nlp = spacy.blank("en")
    parser = nlp.add_pipe("spectral_parser", config={"model": {"@architectures": LOGLINEAR}})
    nlp.initialize(lambda: examples(nlp)[:40])  # so few that trees break rules
    docs = [eg.predicted for eg in examples(nlp, "dev")]
    batch, parses = parser.parse(docs)
    names = parser.grammar.label_names
    found = with_valid_trees(parses, batch.tokens, names)
    n_changed = 0
    for s, (begin, end) in enumerate(batch.tokens.bounds()):
        own = slice(begin, end)
        given = batch.tokens.pos[own], batch.tokens.morphs[own]

        def n_broken(heads, labels, given=given):
            return len(violations(heads.tolist(), [names[label] for label in labels], *given))

        before = parses.heads[own], parses.labels[own]
        after = found.heads[own], found.labels[own]
        assert not n_broken(*after)
        if not n_broken(*before):
            assert all(map(numpy.array_equal, before, after))
            continue
        n_changed += 1
        same = [
            tree.log_prob
            for tree in (parses.k_best(s, 8, labelled=True) if n_changed < 6 else [])
            if all(map(numpy.array_equal, tree[:2], after))
        ]
        assert not same or found.log_probs()[s] == pytest.approx(same[0])
        marginals = parses.marginals(s)
        wanted = marginals[after[0], numpy.arange(1, end - begin + 1)]
        numpy.testing.assert_allclose(found.head_probs()[own], wanted, atol=1e-5)
        labels = {(h, m, x): p for h, m, x, p in parses.arcs(s, labelled=True, min_prob=0).rows()}
        for i, (h, x, p) in enumerate(zip(*after, found.label_probs()[own], strict=True), start=1):
            assert p == pytest.approx(labels[h, i, x] / marginals[h, i], abs=1e-4)
    assert n_changed >= 3
    numpy.testing.assert_array_equal(
        with_valid_trees(found, batch.tokens, names).heads, found.heads
    )
    nlp = spacy.blank("en")
    config = {"model": {"@architectures": LOGLINEAR}, "valid_trees": True}
    nlp.add_pipe("spectral_parser", config=config).from_bytes(parser.to_bytes())
    heads = [t.head.i for doc in nlp.pipe(docs) for t in doc]
    wanted = [
        t.head.i for doc in map(nlp, [eg.predicted for eg in examples(nlp, "dev")]) for t in doc
    ]
    assert heads == wanted
