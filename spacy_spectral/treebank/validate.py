"""What every treebank reader checks of a dependency tree, whatever file it came from."""

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import Errors
from ..trees.pseudoprojective import find_cycle
from ..trees.sentences import MISSING


class TreebankError(ValueError):
    """A problem in a treebank file: says where it is, what is wrong and what to do about it."""

    def __init__(self, path: str | Path, where: str | int, message: str) -> None:
        """where: A line number, a place like "doc 3, sentence 1", or ""."""
        super().__init__(f"{path}:{where}: {message}" if where else f"{path}: {message}")


def tree_problems(heads: Sequence[int]) -> list[tuple[int, str]]:
    """Check that the heads of a sentence form a tree with one root, as far as they are annotated.

    heads: 0-based heads; the root points to itself, `MISSING` is allowed.
    RETURNS: The position and message of every problem.
    """
    n_words = len(heads)
    problems = [
        (i, Errors.S021.format(word=i + 1, head=head + 1, n_words=n_words))
        for i, head in enumerate(heads)
        if head != MISSING and not 0 <= head < n_words
    ]
    if problems:
        return problems
    roots = [i for i, head in enumerate(heads) if head == i]
    if len(roots) > 1:
        problems.append((roots[1], Errors.S022.format(roots=", ".join(str(i + 1) for i in roots))))
    if all(head == MISSING for head in heads):
        problems.append((0, Errors.S024))
    cycle = find_cycle(
        [0 if head == i else head + (head != MISSING) for i, head in enumerate(heads)]
    )
    if cycle:
        problems.append((cycle[0] - 1, Errors.S026.format(words=" -> ".join(map(str, cycle)))))
    elif not roots and MISSING not in heads:
        problems.append((0, Errors.S027))
    return problems


def is_projective(heads: Sequence[int]) -> bool:
    """Say whether no arcs cross, the arc from the (left-hand) artificial root to the root included."""
    spans = sorted(
        ((i, head) if i < head else (head, i)) if head != i else (-1, i)
        for i, head in enumerate(heads)
        if head != MISSING
    )
    # longest first where spans begin together, so that an enclosing span is always opened earlier
    spans.sort(key=lambda span: (span[0], -span[1]))
    ends: list[int] = []
    for start, end in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and ends[-1] < end:
            return False
        ends.append(end)
    return True
