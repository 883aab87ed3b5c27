"""Constituency trees as binary trees, and back without loss.

Function labels and empty elements are taken off (`clean`). Then every chain of unary nodes becomes one
symbol (`S+VP`; over a word with its tag, `NP+NN`), and every node with more than two children is
binarised from its head outwards: first the right neighbours are joined to it, one by one, then the left
ones. What is joined on the way to a constituent A is `@A>` as long as it grows to the right and `@A<`
once it grows to the left. A sentence of n words has exactly 2n - 1 nodes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ...treebank.brackets import Tree
from .heads import head_child

# what the whole of a tree is called in treebanks; not a constituent
ROOTS = frozenset(("", "ROOT", "TOP", "S1"))
_EMPTY = "-NONE-"
WORD, PHRASE, GROWS_RIGHT, GROWS_LEFT = range(4)


class Symbol(NamedTuple):
    """What a node of a binary tree is called.

    labels (Tuple[str, ...]): A chain of labels, the outermost first; that of a word ends with its tag.
    kind (int): WORD, PHRASE, or the part of a phrase that GROWS_RIGHT or GROWS_LEFT.
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
        """RETURNS (bool): Whether this is no constituent, only a part of one."""
        return self.kind >= GROWS_RIGHT


@dataclass(slots=True)
class BinaryTree:
    """A binary tree; children come before their parents, the root is the last node.

    words (List[str]): The words.
    symbols (List[Symbol]): By node.
    left, right (List[int]): The children of a node, -1 for a word.
    begin, end (List[int]): The words of a node.
    head (List[int]): The head word of a node.
    root (str): The label around the tree, "" for none.
    """

    words: list[str]
    symbols: list[Symbol]
    left: list[int]
    right: list[int]
    begin: list[int]
    end: list[int]
    head: list[int]
    root: str


def bare(label: str) -> str:
    """RETURNS (str): A label without its functions and indices: `NP-SBJ-1`, `NP=2` -> `NP`; `-LRB-` stays."""
    for i in range(1, len(label)):
        if label[i] in "-=":
            return label if label[0] == "-" else label[:i]
    return label


def clean(tree: Tree) -> Tree | None:
    """A tree without functions, empty elements, and constituents that have no words.

    tree (Tree): The tree, which stays as it is.
    RETURNS (Optional[Tree]): A new tree; None if there are no words in it.
    """
    root = Tree("")
    stack = [(tree, root, False)]
    while stack:
        node, parent, is_done = stack.pop()
        if is_done:
            if not parent.children[-1].children:
                parent.children.pop()
        elif node.word:
            if node.label != _EMPTY:
                parent.children.append(Tree(bare(node.label), word=node.word))
        else:
            copy = Tree(bare(node.label))
            parent.children.append(copy)
            stack.append((node, parent, True))
            stack += [(child, copy, False) for child in reversed(node.children)]
    return root.children[0] if root.children else None


def binarize(tree: Tree) -> BinaryTree:
    """Make a binary tree.

    tree (Tree): A tree as `clean` gives it.
    RETURNS (BinaryTree): Its words and nodes.
    """
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
        made = _add_word(result, node.word, Symbol(tuple(chain), WORD))
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


def _add_word(tree: BinaryTree, word: str, symbol: Symbol) -> int:
    i = len(tree.words)
    tree.words.append(word)
    return _add(tree, symbol, -1, -1, i, i + 1, i)


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
