"""The infinite tree: states of tokens by Gibbs sampling, as many as the data ask for (see `_gibbs`).

Bound to tags, the states are sub-tags; bound to none, they are word classes found in bare trees.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import numpy
from numpy.typing import NDArray

from ._gibbs import InfiniteTree
from .lexicon import word_key
from .statistics import NONE, Labelling, Trees

CHILDREN = ("independent", "markov", "simultaneous")
# Over how many of the last sweeps a token's state is decided
_VOTES = 10
# States to start from: bound to no tags, and for each tag
_START, _START_BY_TAG = 30, 4


def make_sampler(
    trees: Trees,
    tags: NDArray[numpy.int32],
    *,
    children: str,
    alpha: float,
    gamma: float,
    rho: float,
    most_states: int,
    start: int,
    seed: int,
) -> InfiniteTree:
    """Make a chain that starts from random states. alpha, gamma and rho tell how readily contexts
    differ, states come up, words get more states."""
    inner, _, following = trees.sequences
    words = numpy.array([word_key(word) for word in trees.words], dtype=object)
    # of tokens without a head: -1 for the root, -2 where it is not known
    none = numpy.where(trees.heads == 0, -1, -2)
    head = numpy.where(trees.head_tokens == NONE, none, trees.head_tokens)
    n_tags = int(tags.max(initial=0)) + 1
    start = max(1, min(start, most_states // n_tags))
    first = numpy.random.default_rng(seed).integers(0, start, len(trees)) + tags * start
    # numbers without gaps
    first = numpy.unique(first, return_inverse=True)[1]
    return InfiniteTree(
        children,
        head.astype("int32"),
        trees.previous.astype("int32"),
        following.astype("int32"),
        numpy.ascontiguousarray(inner, "int32"),
        trees.counted,
        numpy.unique(words, return_inverse=True)[1].astype("int32"),
        numpy.ascontiguousarray(tags, "int32"),
        first.astype("int32"),
        capacity=most_states + 1,
        alpha=alpha,
        gamma=gamma,
        rho=rho,
        seed=seed,
    )


def infinite_labelling(
    trees: Trees,
    n_tags: int,
    *,
    children: str = "independent",
    sweeps: int = 60,
    alpha: float = 10.0,
    gamma: float = 10.0,
    rho: float = 0.3,
    most_states: int = 300,
    seed: int = 0,
    progress: Callable[[Iterable], Iterable] = iter,
    report: Callable[[str], None] = lambda message: None,
) -> Labelling:
    """Give every token a state. With one tag the states are word classes."""
    tags = trees.tags if n_tags > 1 else numpy.zeros(len(trees), dtype="int32")
    # tags without tokens have a state, too
    n_seen = len(numpy.unique(tags))
    chain = make_sampler(
        trees,
        tags,
        children=children,
        alpha=alpha,
        gamma=gamma,
        rho=rho,
        most_states=max(most_states - (n_tags - n_seen), n_seen),
        start=_START_BY_TAG if n_tags > 1 else _START,
        seed=seed,
    )
    votes: deque[NDArray[numpy.int32]] = deque(maxlen=_VOTES)
    for _ in progress(range(sweeps)):
        chain.sweep()
        votes.append(chain.states.copy())
    report(f"{chain.n_states} states after {sweeps} sweeps")
    return Labelling.from_parts(tags, _most_frequent(votes), n_tags)


def _most_frequent(votes: Sequence[NDArray[numpy.int32]]) -> NDArray[numpy.int32]:
    """The most frequent of the last states of every token; of equals the smallest number."""
    ballots = numpy.sort(numpy.stack(votes), axis=0)
    counts = (ballots[:, None] == ballots).sum(axis=1)
    return numpy.take_along_axis(ballots, counts.argmax(axis=0)[None], axis=0)[0]
