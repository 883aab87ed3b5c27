"""Which child of a constituent is its head: Collins' rules for Penn labels, and a rule for any others.

A rule is a side to start from and labels in order of priority; each label is looked for from that side.
Collins' tables (his thesis, 1999, appendix A), with the labels of later treebanks (HYPH, AFX, NML, ...).
"""

from collections.abc import Sequence

LEFT, RIGHT = False, True

# parent: (whether to search from the right, labels); the first label that a child has wins
_RULES: dict[str, tuple[bool, list[str]]] = {
    label: (from_right, labels.split())
    for label, from_right, labels in (
        ("ADJP", LEFT, "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
        ("ADVP", RIGHT, "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
        ("CONJP", RIGHT, "CC RB IN"),
        ("FRAG", RIGHT, ""),
        ("INTJ", LEFT, ""),
        ("LST", RIGHT, "LS :"),
        ("NAC", LEFT, "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
        ("PP", RIGHT, "IN TO VBG VBN RP FW"),
        ("PRN", LEFT, ""),
        ("PRT", RIGHT, "RP"),
        ("QP", LEFT, "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
        ("RRC", RIGHT, "VP NP ADVP ADJP PP"),
        ("S", LEFT, "TO IN VP S SBAR ADJP UCP NP"),
        ("SBAR", LEFT, "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
        ("SBARQ", LEFT, "SQ S SINV SBARQ FRAG"),
        ("SINV", LEFT, "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
        ("SQ", LEFT, "VBZ VBD VBP VB MD VP SQ"),
        ("UCP", RIGHT, ""),
        ("VP", LEFT, "TO VBD VBN MD VBZ VB VBG VBP AUX VP ADJP NN NNS NP"),
        ("WHADJP", LEFT, "CC WRB JJ ADJP"),
        ("WHADVP", RIGHT, "CC WRB"),
        ("WHNP", LEFT, "WDT WP WP$ WHADJP WHPP WHNP"),
        ("WHPP", RIGHT, "IN TO FW"),
    )
}

_NOMINAL = ("NP", "NX", "NML")
# each a step of Collins' search in noun phrases: from which side, and for any of which labels
_NOUN_STEPS: tuple[tuple[bool, set[str]], ...] = (
    (RIGHT, {"NN", "NNP", "NNPS", "NNS", "NX", "NML", "POS", "JJR"}),
    (LEFT, {"NP"}),
    (RIGHT, {"$", "ADJP", "PRN"}),
    (RIGHT, {"CD"}),
    (RIGHT, {"JJ", "JJS", "RB", "QP"}),
)
_PUNCTUATION = frozenset((",", ":", ".", "``", "''", "-LRB-", "-RRB-", "HYPH", "PUNCT", "$,", "$."))


def head_child(label: str, children: Sequence[str]) -> int:
    """Find the head of a constituent.

    label (str): Its label.
    children (Sequence[str]): The labels of its children.
    RETURNS (int): Which of the children is the head.
    """
    if len(children) == 1:
        return 0
    if label in _NOMINAL:
        found = _noun_head(children)
    elif label in _RULES:
        found = _search(children, *_RULES[label])
    else:
        # other treebanks: the child that bears the label of its parent, or else the last that is a word or
        # phrase of some content
        found = _last(children, lambda child: child == label)
        if found < 0:
            found = _last(children, lambda child: child not in _PUNCTUATION)
    if found < 0:
        found = len(children) - 1
    return _first_conjunct(children, found)


def _noun_head(children: Sequence[str]) -> int:
    if children[-1] == "POS":
        return len(children) - 1
    for from_right, labels in _NOUN_STEPS:
        order = range(len(children))
        for i in reversed(order) if from_right else order:
            if children[i] in labels:
                return i
    return _last(children, lambda child: child not in _PUNCTUATION)


def _search(children: Sequence[str], from_right: bool, labels: list[str]) -> int:
    order = range(len(children) - 1, -1, -1) if from_right else range(len(children))
    for label in labels:
        for i in order:
            if children[i] == label:
                return i
    return next((i for i in order if children[i] not in _PUNCTUATION), -1)


def _last(children: Sequence[str], accept) -> int:
    return next((i for i in range(len(children) - 1, -1, -1) if accept(children[i])), -1)


def _first_conjunct(children: Sequence[str], found: int) -> int:
    """Collins: of a coordination, the first conjunct is the head."""
    if found >= 2 and children[found - 1] == "CC":
        before = found - 2
        while before > 0 and children[before] in _PUNCTUATION:
            before -= 1
        if children[before] not in _PUNCTUATION:
            return before
    return found
