"""Heads that are fixed before parsing."""

import numpy
from numpy.typing import NDArray

from ._eisner import is_part_of_tree
from .sentences import MISSING


def allowed_arcs(fixed: NDArray[numpy.int32]) -> NDArray[numpy.bool_]:
    """Arcs that agree with the fixed heads of one sentence.

    fixed (ndarray): The head of every token (1-based, 0 for the root), MISSING for free tokens.
    RETURNS (ndarray): [N+1, N+1], whether each arc (head, modifier) agrees.
    """
    known = numpy.flatnonzero(fixed != MISSING)
    allowed = numpy.ones((len(fixed) + 1, len(fixed) + 1), dtype=bool)
    allowed[:, known + 1] = False
    allowed[fixed[known], known + 1] = True
    return allowed


def possible(fixed: NDArray[numpy.int32]) -> bool:
    """RETURNS (bool): Whether some projective tree with one root has the fixed heads of a sentence."""
    return is_part_of_tree(numpy.ascontiguousarray(fixed, dtype="int32"))
