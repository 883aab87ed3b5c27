"""The labels that a parser can give."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy
from numpy.typing import NDArray

from ..errors import Errors
from ..serialize import pack, unpack
from ..treebank.dependency import DELIMITER, MISSING, deprojectivize

_KIND, _VERSION = "label inventory", 1


class Inventory:
    """Labels by number, some perhaps decorated (see `treebank.dependency`)."""

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

    def deprojectivized(
        self, heads: NDArray[numpy.int32], labels: NDArray[numpy.int64]
    ) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64]]:
        """Restore crossing arcs of a tree; see `treebank.dependency.deprojectivize`.

        heads (ndarray): Heads of one sentence.
        labels (ndarray): Numbers of labels.
        RETURNS (Tuple[ndarray, ndarray]): Final heads, and numbers of undecorated labels.
        """
        if not self._decorated[labels].any():
            return heads, labels
        heads, names = deprojectivize(heads, [self.names[i] for i in labels])
        return heads, numpy.array([self._ids[name] for name in names])

    def to_bytes(self) -> bytes:
        return pack(_KIND, _VERSION, self.names)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Inventory":
        names = unpack(_KIND, _VERSION, data)
        sound = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not sound or not set(map(plain, names)) <= set(names):
            raise ValueError(Errors.S002.format(what=_KIND, reason="incomplete"))
        return cls(names)


def plain(label: str) -> str:
    """RETURNS (str): A label without its decoration."""
    return label.partition(DELIMITER)[0]
