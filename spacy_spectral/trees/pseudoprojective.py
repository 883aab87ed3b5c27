"""Pseudo-projective parsing (Nivre & Nilsson 2005): crossing arcs lifted, and put back by their labels."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from ..base.files import Scope, Strings, pack, unpack
from ._eisner import is_projective_tree
from .sentences import MISSING, Ints, Tree, Treebank

# The same mark as spaCy's: "nmod||obl" is an nmod whose head was the obl below its present head.
DELIMITER = "||"
_KIND, _VERSION = "label inventory", 1
# For models that must see a decorated label to learn it: rarer ones are left out, and their arcs stay
# lifted.
MIN_DECORATED = 10


def projectivize(
    heads: Sequence[int] | NDArray, labels: Sequence[str], *, words: Sequence[str] = ()
) -> tuple[Ints, list[str]]:
    """Lift crossing arcs until the tree is projective, and note in the labels where they came from. A cycle
    is a ValueError, with the words in its message."""
    cycle = find_cycle(heads)
    if cycle:
        names = (f"'{words[m - 1]}' ({m})" if words else str(m) for m in cycle)
        raise SpectralError(Errors.S410.format(words=" -> ".join(names)))
    lifted = [int(h) for h in heads]
    result = list(labels)
    original = list(lifted)
    while True:
        m = _shortest_crossing(lifted)
        if m is None:
            break
        lifted[m - 1] = lifted[lifted[m - 1] - 1]
    for m, (old, new) in enumerate(zip(original, lifted, strict=True)):
        if old != new and new != MISSING:
            result[m] = f"{labels[m]}{DELIMITER}{labels[old - 1]}"
        elif old != new:
            result[m] = ""
    return numpy.array(lifted, dtype="int32"), result


def find_cycle(heads: Sequence[int] | NDArray) -> list[int]:
    """The positions of the first cycle, the first of them repeated at the end; none if there is no cycle."""
    visited_from = [0] * (len(heads) + 1)
    for start in range(1, len(heads) + 1):
        m = start
        while m > 0 and not visited_from[m]:
            visited_from[m] = start
            m = int(heads[m - 1])
        if m > 0 and visited_from[m] == start:
            cycle = [m, int(heads[m - 1])]
            while cycle[-1] != m:
                cycle.append(int(heads[cycle[-1] - 1]))
            return cycle
    return []


def projective_tree(tree: Tree) -> Tree:
    """The tree, projectivized."""
    heads, labels = projectivize(tree.heads, tree.labels, words=tree.words)
    return Tree(tree.words, tree.symbols, heads, labels)


def _shortest_crossing(heads: list[int]) -> int | None:
    """The modifier of the shortest arc that covers a token not below its head; None if there is none. A
    token below a missing head may belong anywhere, so it never makes an arc crossing."""
    shortest, found = len(heads) + 1, None
    for m, h in enumerate(heads, start=1):
        if h <= 0:
            continue
        low, high = (h, m) if h < m else (m, h)
        if high - low >= shortest:
            continue
        for k in range(low + 1, high):
            # in a tree whose shorter arcs do not cross, looking at heads is enough only if they
            # stay inside; otherwise climb
            ancestor = heads[k - 1]
            while ancestor > 0 and ancestor != h:
                ancestor = heads[ancestor - 1]
            if ancestor == 0:
                shortest, found = high - low, m
                break
    return found


def deprojectivize(heads: Sequence[int] | NDArray, labels: Sequence[str]) -> tuple[Ints, list[str]]:
    """Undo `projectivize`: a decorated token moves to the nearest fitting descendant of its head."""
    restored = numpy.array(heads, dtype="int32")
    plain = [label.partition(DELIMITER)[0] for label in labels]
    if plain == list(labels):
        return restored, plain
    children: list[list[int]] = [[] for _ in range(len(restored) + 1)]
    for m, h in enumerate(restored, start=1):
        children[max(int(h), 0)].append(m)
    waiting = {
        m: label.partition(DELIMITER)[2]
        for m, label in enumerate(labels, start=1)
        if DELIMITER in label and restored[m - 1] > 0
    }
    moved = True
    # again after every move: a token's former head may itself have been lifted out of reach
    while moved:
        moved = False
        for m, wanted in list(waiting.items()):
            found = _nearest_below(int(restored[m - 1]), wanted, plain, children, skip=m)
            if found is not None:
                children[restored[m - 1]].remove(m)
                children[found].append(m)
                restored[m - 1] = found
                del waiting[m]
                moved = True
    return restored, plain


def _nearest_below(
    head: int, label: str, labels: list[str], children: list[list[int]], *, skip: int
) -> int | None:
    """The first token with a label, breadth first; never through `skip`, so no cycle can arise."""
    queue = list(children[head])
    while queue:
        candidate = queue.pop(0)
        if candidate == skip:
            continue
        if labels[candidate - 1] == label:
            return candidate
        queue.extend(children[candidate])
    return None


class Inventory:
    """Labels by number, some perhaps decorated (see `trees.pseudoprojective`)."""

    def __init__(self, names: Sequence[str]):
        """names: The labels; the plain form of every decorated one must be among them."""
        self.names = list(names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._decorated = numpy.array([DELIMITER in name for name in self.names], dtype=bool)

    @classmethod
    def from_labels(cls, labels: Iterable[str], *, min_decorated: int = 1) -> "Inventory":
        """Make an inventory of the labels of a treebank."""
        counts = Counter(label for label in labels if label)
        kept = {
            label for label, n in counts.items() if DELIMITER not in label or n >= min_decorated
        }
        return cls(sorted(kept | set(map(plain, counts))))

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, labels: Iterable[str]) -> Ints:
        """The number of every label, of its plain form if the decoration is not known; MISSING for labels
        that are not known at all."""
        get = self._ids.get
        return numpy.array(
            [get(label, get(plain(label), MISSING)) for label in labels], dtype="int32"
        )

    def restored(
        self, starts: Ints, heads: Ints, labels: Ints, fixed: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Restore crossing arcs of trees, but for heads that were given (not MISSING); see
        `deprojectivize`."""
        at = numpy.flatnonzero(self._decorated[labels])
        if not len(at):
            return heads, labels
        heads, labels = heads.copy(), labels.copy()
        if fixed is not None:
            kept = at[fixed[at] != MISSING]
            labels[kept] = [self._ids[plain(self.names[i])] for i in labels[kept]]
        for s in numpy.unique(numpy.searchsorted(starts, at, side="right") - 1):
            own = slice(int(starts[s]), int(starts[s + 1]))
            heads[own], names = deprojectivize(heads[own], [self.names[i] for i in labels[own]])
            labels[own] = [self._ids[name] for name in names]
        return heads, labels

    def to_bytes(self) -> bytes:
        return pack(_KIND, _VERSION, self.names)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Inventory":
        scope = Scope(_KIND, "names")
        names = Strings(least=1, unique=True).read(unpack(_KIND, _VERSION, data), scope)
        if not set(map(plain, names)) <= set(names):
            scope.fail("has decorated labels without their plain forms")
        return cls(names)


def projective_trees(treebank: Treebank) -> tuple[Ints, list[str]]:
    """The treebank's heads with crossing arcs lifted, and its labels with decorations that tell where they
    came from. A cycle is a ValueError."""
    heads, labels = treebank.heads.astype("int32"), list(treebank.labels)
    for a, b in treebank.tokens.bounds():
        if not is_projective_tree(heads[a:b]):
            words = treebank.tokens.words[a:b]
            heads[a:b], labels[a:b] = projectivize(heads[a:b], labels[a:b], words=words)
    return heads, labels


def plain(label: str) -> str:
    """A label without its decoration."""
    return label.partition(DELIMITER)[0]
