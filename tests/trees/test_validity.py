"""Local rules of Universal Dependencies, beside the validator of Universal Dependencies."""

import io
import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from udtools.validator import Validator

from spacy_spectral.trees.validity import CHILDREN, LEFT_TO_RIGHT, violations

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


def validated(heads, labels, pos, morphs):
    """The rules that the validator finds broken; how often, by sentence."""
    rows = [
        f"{i}\tw\tw\t{p}\t_\t{m or '_'}\t{h}\t{dep}\t_\t_"
        for i, (h, dep, p, m) in enumerate(zip(heads, labels, pos, morphs, strict=True), start=1)
    ]
    text = "\n".join([f"# sent_id = 1\n# text = {' '.join('w' * len(heads))}", *rows]) + "\n\n"
    state = Validator(lang="ud", level=3, output=None).validate_file_handle(io.StringIO(text))
    names = [incident.testid for incident in state.error_tracker]
    return Counter(n for n in names if re.match("leaf-|too-many-(subj|obj)|right-to-left-", n))


@given(trees())
def test_rules_are_those_of_the_validator(tree):
    found = Counter(rule for _, rule in violations(*tree))
    assert found == validated(*tree)


def test_what_is_broken_is_named():
    heads, labels = [2, 3, 0, 3, 3], ["amod", "case", "root", "obj", "obj"]
    assert violations(heads, labels) == [(2, "leaf-mark-case"), (3, "too-many-objects")]
