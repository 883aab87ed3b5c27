"""Constituency trees as binary trees, and back without loss.

Function labels and empty elements are taken off (`clean`). Then every chain of unary nodes becomes one
symbol (`S+VP`; over a word with its tag, `NP+NN`), and every node with more than two children is
binarised from its head outwards: first the right neighbours are joined to it, one by one, then the left
ones. What is joined on the way to a constituent A is `@A>` as long as it grows to the right and `@A<`
once it grows to the left. A sentence of n words has exactly 2n - 1 nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...treebank.brackets import EMPTY, Tree

LEFT, RIGHT = False, True

# each a step of a search: from which side, and for any of which labels
Steps = list[tuple[bool, set[str]]]

# by parent: the side that is searched where no label is found, and the steps before that
_RULES: dict[str, tuple[bool, Steps]] = {
    parent: (from_right, [(from_right, {label}) for label in labels.split()])
    for parent, from_right, labels in (
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

# Collins' search in noun phrases
_NOUN: Steps = [
    (RIGHT, {"NN", "NNP", "NNPS", "NNS", "NX", "NML", "POS", "JJR"}),
    (LEFT, {"NP"}),
    (RIGHT, {"$", "ADJP", "PRN"}),
    (RIGHT, {"CD"}),
    (RIGHT, {"JJ", "JJS", "RB", "QP"}),
]
_RULES |= dict.fromkeys(("NP", "NX", "NML"), (RIGHT, _NOUN))
_PUNCTUATION = frozenset(
    (",", ":", ".", "``", "''", "-LRB-", "-RRB-", "HYPH", "PUNCT", "$,", "$.", "$[")
)


def head_child(label: str, children: Sequence[str]) -> int:
    """Which of its children is the head of a constituent."""
    if len(children) == 1:
        return 0
    # in other treebanks, the child that bears the label of its parent
    from_right, steps = _RULES.get(label, (RIGHT, [(RIGHT, {label})]))
    order = range(len(children))
    if steps is _NOUN and children[-1] == "POS":
        return _first_conjunct(children, order[-1])
    for is_right, labels in steps:
        for i in reversed(order) if is_right else order:
            if children[i] in labels:
                return _first_conjunct(children, i)
    content = [i for i in order if children[i] not in _PUNCTUATION] or order[-1:]
    return _first_conjunct(children, content[-1 if from_right else 0])


def _first_conjunct(children: Sequence[str], found: int) -> int:
    """Collins: of a coordination, the first conjunct is the head."""
    if found >= 2 and children[found - 1] == "CC":
        before = found - 2
        while before > 0 and children[before] in _PUNCTUATION:
            before -= 1
        if children[before] not in _PUNCTUATION:
            return before
    return found


# what the whole of a tree is called in treebanks; not a constituent
ROOTS = frozenset(("", "ROOT", "TOP", "S1"))
WORD, PHRASE, GROWS_RIGHT, GROWS_LEFT = range(4)


class Symbol(NamedTuple):
    """What a node of a binary tree is called: a chain of labels, the outermost first (that of a word
    ends with its tag), of the kind WORD, PHRASE, or the part of a phrase that GROWS_RIGHT or GROWS_LEFT.
    """

    labels: tuple[str, ...]
    kind: int

    @property
    def name(self) -> str:
        chain = "+".join(self.labels)
        if self.kind == GROWS_RIGHT:
            return f"@{chain}>"
        return f"@{chain}<" if self.kind == GROWS_LEFT else chain

    @property
    def is_part(self) -> bool:
        """Whether this is no constituent, only a part of one."""
        return self.kind >= GROWS_RIGHT


@dataclass(slots=True)
class BinaryTree:
    """A binary tree: the children of nodes (-1 for a word) come before their parents, the root is the
    last; the words of each, and its head word; and the label around the tree, "" for none."""

    words: list[str]
    symbols: list[Symbol]
    left: list[int]
    right: list[int]
    begin: list[int]
    end: list[int]
    head: list[int]
    root: str


def bare(label: str) -> str:
    """A label without its functions and indices: `NP-SBJ-1`, `NP=2` -> `NP`; `-LRB-` stays."""
    for i in range(1, len(label)):
        if label[i] in "-=":
            return label if label[0] == "-" else label[:i]
    return label


def clean(tree: Tree) -> Tree | None:
    """A new tree without functions, empty elements, and constituents without words, or None."""
    root = Tree("")
    stack = [(tree, root, False)]
    while stack:
        node, parent, is_done = stack.pop()
        if is_done:
            if not parent.children[-1].children:
                parent.children.pop()
        elif node.word:
            if node.label != EMPTY:
                parent.children.append(Tree(bare(node.label), word=node.word))
        else:
            copy = Tree(bare(node.label))
            parent.children.append(copy)
            stack.append((node, parent, True))
            stack += [(child, copy, False) for child in reversed(node.children)]
    return root.children[0] if root.children else None


def binarize(tree: Tree) -> BinaryTree:
    """Make a binary tree."""
    result = BinaryTree([], [], [], [], [], [], [], "")
    if tree.label in ROOTS and len(tree.children) == 1:
        result.root, tree = tree.label, tree.children[0]
    # (constituent, its chain of labels, nodes of its children) from the outermost to the innermost
    stack: list[tuple[Tree, tuple[str, ...], list[int]]] = []
    node = tree
    while True:
        chain = [node.label]
        while len(node.children) == 1:
            node = node.children[0]
            chain.append(node.label)
        if not node.word:
            stack.append((node, tuple(chain), []))
            node = node.children[0]
            continue
        i = len(result.words)
        result.words.append(node.word)
        made = _add(result, Symbol(tuple(chain), WORD), -1, -1, i, i + 1, i)
        while stack:
            parent, labels, nodes = stack[-1]
            nodes.append(made)
            if len(nodes) < len(parent.children):
                node = parent.children[len(nodes)]
                break
            stack.pop()
            made = _join(result, parent, labels, nodes)
        else:
            return result


def _join(tree: BinaryTree, node: Tree, labels: tuple[str, ...], nodes: list[int]) -> int:
    at = head_child(node.label, [child.label for child in node.children])
    made, head = nodes[at], tree.head[nodes[at]]
    growing = Symbol(labels[-1:], GROWS_RIGHT)
    for right in nodes[at + 1 :]:
        made = _add(tree, growing, made, right, tree.begin[made], tree.end[right], head)
    growing = Symbol(labels[-1:], GROWS_LEFT)
    for left in reversed(nodes[:at]):
        made = _add(tree, growing, left, made, tree.begin[left], tree.end[made], head)
    tree.symbols[made] = Symbol(labels, PHRASE)
    return made


def _add(
    tree: BinaryTree, symbol: Symbol, left: int, right: int, begin: int, end: int, head: int
) -> int:
    tree.symbols.append(symbol)
    tree.left.append(left)
    tree.right.append(right)
    tree.begin.append(begin)
    tree.end.append(end)
    tree.head.append(head)
    return len(tree.symbols) - 1


class Node(NamedTuple):
    """A constituent: its label, its words (`end` exclusive), and the probability that it is there."""

    label: str
    begin: int
    end: int
    prob: float


class Parsed(NamedTuple):
    """The tree of a sentence: constituents, parents before children and left before right; tags; and log
    P(tree | sentence), nan if it is not known."""

    nodes: list[Node]
    tags: list[str]
    log_prob: float


def constituents(symbol: Symbol) -> tuple[str, ...]:
    """The labels of constituents that a symbol stands for."""
    if symbol.is_part:
        return ()
    return symbol.labels[:-1] if symbol.kind == 0 else symbol.labels
