"""Why conditions can't hold together."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest_contradiction(
    conditions: Iterable[T], possible: Callable[[Sequence[T]], bool]
) -> list[T] | None:
    """Leave out one condition after the other, as long as the rest still contradicts itself.

    conditions (Iterable[T]): The conditions.
    possible (Callable[[Sequence[T]], bool]): Whether some of them can hold together.
    RETURNS (Optional[List[T]]): Some that can't, though they could without any one of them; None if all
        can.
    """
    kept = list(conditions)
    if possible(kept):
        return None
    for one in list(kept):
        rest = [other for other in kept if other is not one]
        if not possible(rest):
            kept = rest
    return kept
