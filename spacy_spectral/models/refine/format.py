"""The file of a refined grammar. The kernels do not check bounds: all that they rely on is declared here.

Counts are stored, and distributions made of them when the file is read: they are a tenth of the size.
"""

from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.fields import Array, Bool, Float, Format, Int, Record, Strings
from ...trees.interface import TEMPERATURE
from ...trees.pseudoprojective import plain
from ...trees.sentences import N_BINS
from ..shag.backoff import LABELS

# Tables grow with the square of the states, those of EM with their third power
MAX_STATES = 300
_MOST = 1 << 31
# What is made of a file may be many times its size: so many bytes at most
_MOST_BYTES = 800 << 20


def _layer(states: str) -> Record:
    return Record(
        contexts=Array("uint16", "contexts", 4),
        counts=Array("uint32", "contexts", low=1, high=_MOST),
        roots=Array("uint32", states, high=_MOST),
    )


FORMAT = Format(
    "refined grammar",
    1,
    settings=Record(
        lengths=Bool(),
        prune=Float(low=0.0, below=1.0),
        max_length=Int(low=2, high=1 << 30),
    ),
    symbols=Strings("names", unique=True, most=MAX_STATES - 1),
    tag_of=Array("int32", "states", low=0, below="names+1", order="ascending", most=MAX_STATES),
    totals=Array("uint32", "states", high=_MOST),
    coarse=_layer("names+1"),
    fine=_layer("states"),
    words=Strings("words", unique=True),
    entries=Array("uint32", "entries", 2),
    entry_counts=Array("uint32", "entries", low=1, high=_MOST),
    # probabilities that are multiplied with
    lengths=Array("float64", "names+1", 2, "names+1", N_BINS, low=1e-100, high=1.0),
    labels=LABELS,
    temperature=TEMPERATURE,
)


def require_sound(read: dict[str, Any]) -> None:
    """What kernels and the parts of a grammar take for granted of each other."""
    n_tags, n_states = len(read["symbols"]) + 1, len(read["tag_of"])
    every = numpy.array_equal(numpy.unique(read["tag_of"]), numpy.arange(n_tags))
    FORMAT.require(every, "tag_of", "leaves a tag without a state")
    for name, size in (("coarse", n_tags), ("fine", n_states)):
        contexts = read[name]["contexts"].astype("int64")
        sound = (contexts < [2, size, size + 1, size + 1]).all()
        FORMAT.require(sound, f"{name}.contexts", "has unknown states")
        _require_order(contexts, f"{name}.contexts")
    entries = read["entries"].astype("int64")
    sound = (entries < [len(read["words"]), n_states]).all()
    FORMAT.require(sound, "entries", "has unknown words or states")
    _require_order(entries, "entries")
    pairs = numpy.unique(entries[:, 0] * n_tags + read["tag_of"][entries[:, 1]])
    sound = is_small(
        read["tag_of"], read["coarse"]["contexts"], read["fine"]["contexts"], len(pairs)
    )
    FORMAT.require(sound, "tag_of", "has too many tags and states for what they are seen with")
    labels = read["labels"]
    n_labels = max(len(labels["labels"]), 1)
    sound = labels["model"]["n_outcomes"] == n_labels
    FORMAT.require(sound, "labels.model.n_outcomes", f"is not {n_labels}")
    whole = set(map(plain, labels["labels"])) <= set(labels["labels"])
    FORMAT.require(whole, "labels.labels", "has decorated labels without their plain forms")


def is_small(tag_of: NDArray, coarse: NDArray, fine: NDArray, n_pairs: int) -> bool:
    """Whether the tables of a grammar have room, known before any of them is made.

    tag_of (ndarray): [states], the tag of every state.
    coarse, fine (ndarray): [n, 4], what tags and states are seen with; see `Transitions.fit`.
    n_pairs (int): How many words are seen with how many tags.
    RETURNS (bool): Whether it can be trained, saved and loaded.
    """
    sizes = numpy.bincount(tag_of)
    n_tags, n_states, width = len(sizes), len(tag_of), int(sizes.max())
    n_groups = int(numpy.ceil(numpy.sqrt(sizes)).sum())

    def rows(contexts: NDArray, k: int, most: int) -> int:
        """float32; see `transitions`."""
        side, head, previous, _ = contexts.astype("int64").T
        n = len(numpy.unique((side * (most + 1) + head) * (most + 1) + previous))
        return 4 * (k + 1) * (2 * k * (n_tags + 1) + min(n, 2 * k * (k + 1)))

    grammars = rows(coarse, n_tags, n_tags) + rows(fine, n_states, n_states)
    if n_groups > n_tags:
        # k-means of the states of a tag, with its copies; afterwards the grammar of the groups
        grammars += max(4 * 8 * width * 4 * (n_tags + 1) ** 2, rows(fine, n_groups, n_states))
    # words with their tags have a row as wide as the tag with the most states
    words = 8 * n_pairs * width
    columns = 150 * (len(coarse) + len(fine))
    return grammars + words + columns <= _MOST_BYTES


def _require_order(rows: numpy.ndarray, name: str) -> None:
    """Rows that differ, in order."""
    step = numpy.diff(rows, axis=0)
    first = (step != 0).argmax(axis=1)
    sound = (step[numpy.arange(len(step)), first] > 0).all()
    FORMAT.require(sound, name, "is not in order")
