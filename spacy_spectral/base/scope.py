"""What is known while the fields of a file are read (see `fields`): names that stand for numbers."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy

from .errors import Errors

Size = int | str
Bound = int | float | str | None


@dataclass
class Scope:
    """What is known while fields are read.

    path: The field at hand, e.g. "automata.start".
    rows: Where rows end, by the field that tells.
    """

    what: str
    path: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, numpy.ndarray] = field(default_factory=dict)

    def fail(self, reason: str) -> NoReturn:
        raise ValueError(Errors.S005.format(what=self.what, field=self.path, reason=reason))

    def inside(self, name: str) -> "Scope":
        """That of a field in it, which knows the same names."""
        path = f"{self.path}.{name}" if self.path else name
        return Scope(self.what, path, self.numbers, self.rows)

    def record(self) -> "Scope":
        """That of a record, whose names do not leave it."""
        return Scope(self.what, self.path, dict(self.numbers))

    def number(self, bound: Bound) -> Any:
        """A bound as a number."""
        if not isinstance(bound, str):
            return bound
        return sum(int(part) if part.isdigit() else self.numbers[part] for part in bound.split("+"))

    def require_size(self, found: int, size: Size, axis: str, *, decides: bool = True) -> None:
        """The first to use a name decides what it stands for; all others must agree."""
        names = [] if isinstance(size, int) else size.split("+")
        new = [name for name in names if not name.isdigit() and name not in self.numbers]
        if new:
            if found and not decides:
                self.fail(f"has {found} {axis}, but no entry")
            self.numbers[new[0]] = 0
            self.numbers[new[0]] = found - self.number(size)
            if self.numbers[new[0]] < 0:
                self.fail(f"has {found} {axis}, fewer than {size!r}")
        elif found != self.number(size):
            named = f" ({size!r})" if isinstance(size, str) else ""
            self.fail(f"has {found} {axis}, not {self.number(size)}{named}")
