"""What the log-linear parser looks at. Nothing here is about one language.

A composite is written "tag@-1+tag": columns of a token and of its neighbours, joined. Columns that a corpus
does not have (no clusters, no morphology) take their templates with them.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ._features import MAX_PARTS

COLUMNS = (
    "form",
    "lower",
    "prefix",
    "suffix2",
    "suffix",
    "shape",
    "tag",
    "",  # always 0: models of earlier versions looked here at second-best tags
    "pos",
    "morph",
    "cluster0",
    "cluster1",
    "cluster2",
    "cluster3",
    "left",
    "right",
)
# Filled in once the pruner has spoken.
GUESSED = ("left", "right")

# A token by itself: says something of its head's direction and distance and of labels.
UNARIES = """
lower
tag
lower+tag
tag@-1+tag
tag+tag@1
tag@-1+tag+tag@1
tag@-2+tag@-1+tag
tag+tag@1+tag@2
lower@-1+tag
tag+lower@1
lower@-1+lower
lower+lower@1
suffix+tag
suffix2+tag
prefix+tag
shape+tag
morph+tag
morph+tag@-1
morph+tag@1
lower+tag@1
lower+tag@-1
left+tag
left+lower
right+tag
left+right+tag
cluster0+tag@-1+tag@1
cluster1+tag
cluster1@-1+cluster1
cluster1+cluster1@1
cluster2
cluster2+tag@-1
cluster2+tag@1
cluster3
"""

# Head | modifier; "between" adds which separating tags stand between them.
# Half as many again were tried: on parts of the training data of UD_English-EWT, UD_Turkish-IMST and
# UD_Vietnamese-VTB that parsers had not seen, LAS was 83.23, 56.94 and 57.12 with them, 83.29, 57.06 and
# 57.51 without; five fewer still made it 83.08 on the first.
PAIRS = """
tag | tag
tag | tag | between
pos | pos | between
lower | tag | between
tag | lower | between
lower | tag
tag | lower
lower | lower
tag+tag@1 | tag+tag@1
tag@-1+tag | tag+tag@1
tag@-1+tag+tag@1 | tag
tag | tag@-1+tag+tag@1
lower | tag@-1+tag
tag@-1+tag | lower
tag+tag@1 | lower
tag | suffix+tag
morph | tag
tag | morph
morph | morph
tag | left+tag
lower | left+tag
left+tag | tag
left+tag | left+tag
cluster0+tag | cluster0+tag
cluster1 | cluster1
cluster3 | cluster3
tag | cluster2
cluster1 | lower
"""

# Head | previous modifier | modifier, all on one side of the head.
SIBLINGS = """
tag | tag | tag
pos | tag | tag
pos | lower | tag
pos | tag | lower
lower | tag | tag
tag | left+tag | left+tag
"""

# The pruner: d = with distance, b = with what is between.
PRUNER = """
tag | tag | d
tag | tag | b
pos | pos | db
lower | tag | d
tag | lower | d
lower | lower |
tag+tag@1 | tag@-1+tag |
tag@-1+tag | tag+tag@1 |
tag@-1+tag+tag@1 | tag | d
tag | tag@-1+tag+tag@1 | d
tag+tag@1 | tag | b
tag | tag+tag@1 | b
tag@-1+tag | tag | b
tag | tag@-1+tag | b
"""


@dataclass(frozen=True)
class Templates:
    """Templates as index arrays for the kernels.

    composites (int32[k, 4, 2]): Offset and column of each part; column -1 after the last.
    pairs (int32[p, 3]): Composites of head and modifier, and a flag.
    unaries (int32[u]), siblings (int32[s, 3]): Composites.
    """

    composites: NDArray[numpy.int32]
    pairs: NDArray[numpy.int32]
    unaries: NDArray[numpy.int32]
    siblings: NDArray[numpy.int32]


def compile_templates(
    missing: set[str], *, pairs: str = PAIRS, unaries: str = UNARIES, siblings: str = SIBLINGS
) -> Templates:
    """Compile templates, leaving out those that need a missing column.

    missing (Set[str]): Columns without any value in the training data.
    RETURNS (Templates): The index arrays.
    """
    index: dict[tuple, int] = {}

    def composite(text: str) -> int | None:
        parts = []
        for part in text.split("+"):
            column, _, offset = part.partition("@")
            if column in missing:
                return None
            parts.append((int(offset or 0), COLUMNS.index(column)))
        parts += [(0, -1)] * (MAX_PARTS - len(parts))
        return index.setdefault(tuple(parts), len(index))

    def rows(text: str, n_composites: int, flags: dict[str, int] | None = None) -> NDArray:
        result = []
        for line in text.strip().splitlines():
            fields = [field.strip() for field in line.split("|")]
            row = [composite(field) for field in fields[:n_composites]]
            if flags is not None:
                row.append(flags[fields[n_composites] if len(fields) > n_composites else ""])
            if None not in row:
                result.append(row)
        n_columns = n_composites + (flags is not None)
        return numpy.asarray(result, dtype=numpy.int32).reshape(len(result), n_columns)

    flags = {"": 0, "between": 1, "d": 1, "b": 2, "db": 3}
    compiled_pairs = rows(pairs, 2, flags)
    compiled_unaries = rows(unaries, 1)[:, 0].copy()
    compiled_siblings = rows(siblings, 3)
    composites = numpy.asarray(list(index), dtype=numpy.int32).reshape(len(index), MAX_PARTS, 2)
    return Templates(composites, compiled_pairs, compiled_unaries, compiled_siblings)
