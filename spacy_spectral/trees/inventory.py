"""The labels that a parser can give, and crossing arcs, which are written into labels."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy
from numpy.typing import NDArray

from ..base.fields import Scope, Strings
from ..base.serialize import pack, unpack
from ._eisner import is_projective_tree
from .pseudoprojective import DELIMITER, deprojectivize, projectivize
from .sentences import MISSING, Treebank

_KIND, _VERSION = "label inventory", 1
# For models that must see a decorated label to learn it: rarer ones are left out, and their arcs stay
# lifted.
MIN_DECORATED = 10


class Inventory:
    """Labels by number, some perhaps decorated (see `trees.pseudoprojective`)."""

    def __init__(self, names: Sequence[str]):
        """names (Sequence[str]): The labels; the plain form of every decorated one must be among them."""
        self.names = list(names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        self._decorated = numpy.array([DELIMITER in name for name in self.names], dtype=bool)

    @classmethod
    def from_labels(cls, labels: Iterable[str], *, min_decorated: int = 1) -> "Inventory":
        """Make an inventory of the labels of a treebank.

        labels (Iterable[str]): The label of every token; "" where not annotated.
        min_decorated (int): Decorated labels that are rarer are left out.
        RETURNS (Inventory): All plain labels and the decorated ones, sorted.
        """
        counts = Counter(label for label in labels if label)
        kept = {
            label for label, n in counts.items() if DELIMITER not in label or n >= min_decorated
        }
        return cls(sorted(kept | set(map(plain, counts))))

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, labels: Iterable[str]) -> NDArray[numpy.int32]:
        """RETURNS (ndarray): The number of every label, of its plain form if the decoration is not known;
        MISSING for labels that are not known at all."""
        get = self._ids.get
        return numpy.array(
            [get(label, get(plain(label), MISSING)) for label in labels], dtype="int32"
        )

    def restored(
        self,
        starts: NDArray[numpy.int32],
        heads: NDArray[numpy.int32],
        labels: NDArray[numpy.int32],
        fixed: NDArray[numpy.int32] | None = None,
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32]]:
        """Restore crossing arcs of trees; see `trees.pseudoprojective.deprojectivize`.

        starts (ndarray): Where trees start, closed by the number of tokens.
        heads (ndarray): Heads, one tree after the other.
        labels (ndarray): Numbers of labels.
        fixed (Optional[ndarray]): Heads that were given, MISSING for others: they stay where they are.
        RETURNS (Tuple[ndarray, ndarray]): Final heads, and numbers of undecorated labels.
        """
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


def projective_trees(treebank: Treebank) -> tuple[NDArray[numpy.int32], list[str]]:
    """RETURNS (Tuple[ndarray, List[str]]): The treebank's heads with crossing arcs lifted, and its labels
    with decorations that tell where they came from. A cycle is a ValueError."""
    heads, labels = treebank.heads.astype("int32"), list(treebank.labels)
    for a, b in treebank.tokens.bounds():
        if not is_projective_tree(heads[a:b]):
            words = treebank.tokens.words[a:b]
            heads[a:b], labels[a:b] = projectivize(heads[a:b], labels[a:b], words=words)
    return heads, labels


def plain(label: str) -> str:
    """RETURNS (str): A label without its decoration."""
    return label.partition(DELIMITER)[0]
