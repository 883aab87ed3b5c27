"""Packed forests as text, for grammars that are made by hand.

    # what there is to choose
    variable attach = verb noun
    variable number = singular plural
    # what must not be
    nogood attach=noun number=plural
    # what counts, where; a value other than 1 with its name
    feature low: attach=noun
    feature low=0.5 agree: attach=verb number!=plural or number=singular

A line is a variable, a no-good or a feature. A condition is a list of `variable=value` or `variable!=value`,
all of which must hold, with several values as `value|value`; "or" stands between conditions of which one
must. A feature without a condition always holds. Everything after # is a comment.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy
from numpy.typing import NDArray

from ..base.errors import Errors, SpectralError
from .packed import Feature, PackedForest

_NAME = r"[^\s=|:!#]+"
_TEST = re.compile(rf"({_NAME})(!?=)({_NAME}(?:\|{_NAME})*)")
_PROPERTY = re.compile(rf"({_NAME})(?:=(\S+))?")


@dataclass
class NamedForest:
    """A packed forest with names: of every variable's values, and of properties. The factors of `forest`
    are the no-goods, in their order; `lines` has the line of each."""

    variables: dict[str, list[str]]
    properties: list[str]
    forest: PackedForest
    lines: list[int]

    def values(self, tree: NDArray[numpy.int64]) -> dict[str, str]:
        named = zip(self.variables.items(), tree.tolist(), strict=True)
        return {name: values[i] for (name, values), i in named}


@dataclass
class _Reader:
    variables: dict[str, list[str]] = field(default_factory=dict)
    properties: dict[str, int] = field(default_factory=dict)
    factors: list[tuple[tuple[int, ...], NDArray]] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    line: int = 0

    def fail(self, reason: str) -> ValueError:
        return SpectralError(Errors.S907.format(line=self.line, reason=reason))

    def read(self, text: str) -> NamedForest:
        for self.line, whole in enumerate(text.splitlines(), start=1):
            kind, _, rest = whole.partition("#")[0].strip().partition(" ")
            if kind == "variable":
                self.add_variable(rest)
            elif kind == "nogood":
                scope, holds = self.condition(rest)
                self.factors.append((scope, ~holds))
                self.lines.append(self.line)
            elif kind == "feature":
                self.add_feature(rest)
            elif kind:
                raise self.fail(f"it begins with '{kind}', not with variable, nogood or feature")
        domains = [len(values) for values in self.variables.values()]
        forest = PackedForest(domains, self.factors, self.features)
        return NamedForest(self.variables, list(self.properties), forest, self.lines)

    def add_variable(self, rest: str) -> None:
        name, _, values = (part.strip() for part in rest.partition("="))
        listed = values.split()
        if not re.fullmatch(_NAME, name) or name in self.variables:
            raise self.fail(f"'{name}' is no name, or a name given twice")
        if not listed or len(set(listed)) < len(listed) or not re.fullmatch(_NAME, "".join(listed)):
            raise self.fail("a variable needs values, all different, without any of = | : ! #")
        self.variables[name] = listed

    def add_feature(self, rest: str) -> None:
        names, _, condition = rest.partition(":")
        properties: dict[int, float] = {}
        for part in names.split():
            match = _PROPERTY.fullmatch(part)
            try:
                name, value = match.group(1), float(match.group(2) or 1.0)  # type: ignore[union-attr]
            except (AttributeError, ValueError):
                raise self.fail(f"'{part}' is no property such as low or low=0.5") from None
            properties[self.properties.setdefault(name, len(self.properties))] = value
        if not properties:
            raise self.fail("a feature needs a property")
        if condition.strip():
            self.features.append(Feature(*self.condition(condition), properties))
        else:
            self.features.append(Feature((), True, properties))

    def condition(self, text: str) -> tuple[tuple[int, ...], NDArray[numpy.bool_]]:
        """The variables of a condition, and where it holds."""
        either = [list(self.tests(part)) for part in re.split(r"(?:^|\s)or(?:\s|$)", text)]
        scope = tuple(sorted({variable for both in either for variable, _ in both}))
        domains = [len(values) for values in self.variables.values()]
        shape = tuple(domains[variable] for variable in scope)
        holds = numpy.zeros(shape, dtype=bool)
        for both in either:
            own = numpy.ones(shape, dtype=bool)
            for variable, allowed in both:
                lengths = [1] * len(scope)
                lengths[scope.index(variable)] = -1
                own &= allowed.reshape(lengths)
            holds |= own
        return scope, holds

    def tests(self, text: str) -> Iterator[tuple[int, NDArray[numpy.bool_]]]:
        if not text.split():
            raise self.fail("a condition is empty")
        for part in text.split():
            match = _TEST.fullmatch(part)
            if match is None:
                raise self.fail(
                    f"'{part}' is no condition such as attach=noun or attach!=noun|verb"
                )
            name, relation, chosen = match.groups()
            values = self.variables.get(name)
            unknown = set(chosen.split("|")) - set(values or ())
            if values is None or unknown:
                missing = f"value {sorted(unknown)} of" if values is not None else "variable"
                raise self.fail(f"there is no {missing} '{name}' above")
            inside = numpy.array([value in chosen.split("|") for value in values])
            yield [*self.variables].index(name), inside if relation == "=" else ~inside


def read_forest(text: str) -> NamedForest:
    """Read a packed forest."""
    return _Reader().read(text)
