"""What words tell about states: P(state | word, tag), smoothed by how words look.

Every word backs off to its signatures (`vocabulary.signatures`), which are counted on rare words, from the
narrowest to the widest, and at last to P(state | tag). In the grammar a state weighs
P(state | word, tag) / P(state | tag), which is P(word | state) up to what all states have in common.

The states of a tag have numbers in a row, so a distribution over them is a row of a table whose columns are
counted from the first state of the tag.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from ..eigenwords.vocabulary import normalize, signatures

# Signatures are counted on words that are seen at most this often
_RARE = 3
# How many observations the wider class is worth: for words, for signatures
_WORD_STRENGTH, _SIGNATURE_STRENGTH = 2.0, 4.0
# A word and its signatures, of which short words have fewer
_LEVELS = 5
# Tokens of every state before anything was seen
_UNSEEN = 0.5
# The lattice of a token: states within this factor of its likeliest, at most so many
_LEAST_SHARE = 0.003
_MOST_STATES = 16


@dataclass
class Lattice:
    """The states that some tokens can have; offsets tell where those of each token start, closed by
    their number."""

    offsets: NDArray[numpy.int32]
    states: NDArray[numpy.int32]
    emissions: NDArray[numpy.float64]

    @classmethod
    def of_single(cls, states: NDArray[numpy.int32]) -> "Lattice":
        """One state for every token."""
        n = len(states)
        return cls(numpy.arange(n + 1, dtype="int32"), states, numpy.ones(n))

    def part(self, tokens: NDArray[numpy.int64]) -> "Lattice":
        """That of some tokens."""
        counts = self.offsets[tokens + 1] - self.offsets[tokens]
        offsets = numpy.concatenate([[0], numpy.cumsum(counts)]).astype("int32")
        own = numpy.arange(offsets[-1]) + numpy.repeat(self.offsets[tokens] - offsets[:-1], counts)
        return Lattice(offsets, self.states[own], self.emissions[own])

    def repeated(self, times: int) -> "Lattice":
        """The same tokens again and again."""
        return self.part(numpy.tile(numpy.arange(len(self.offsets) - 1), times))

    def only(self, kept: NDArray[numpy.bool_]) -> "Lattice":
        """Some of the states; every token must keep one."""
        before = numpy.concatenate([[0], numpy.cumsum(kept)])
        return Lattice(
            before[self.offsets].astype("int32"), self.states[kept], self.emissions[kept]
        )


@dataclass
class TagStates:
    """Which states refine which tag: the tag of every state, ascending; every tag has one at least."""

    tag_of: NDArray[numpy.int32]

    def __post_init__(self) -> None:
        self.n_tags = int(self.tag_of[-1]) + 1
        self.n_states = len(self.tag_of)
        self.first = numpy.searchsorted(self.tag_of, numpy.arange(self.n_tags + 1))
        self.size = numpy.diff(self.first)
        self.width = int(self.size.max())
        self.local = numpy.arange(self.n_states) - self.first[self.tag_of]

    def table(self, values: NDArray) -> NDArray:
        """[tags, width], values of states by tag; 0 where a tag has fewer states."""
        result = numpy.zeros((self.n_tags, self.width))
        result[self.tag_of, self.local] = values
        return result


def word_key(form: str) -> str:
    """The form under which a word is counted."""
    return normalize(form, lowercase=True)


def word_names(form: str) -> list[str]:
    """What a word is counted as, from the widest signature to the word itself."""
    return [*reversed(signatures(form)), word_key(form)]


def _numbers(forms: Sequence[str], number: Callable[[str], int]) -> NDArray[numpy.int64]:
    """[levels, n], the numbers of `word_names` from the widest to the narrowest, -1 for none."""
    numbers = numpy.full((_LEVELS, len(forms)), -1)
    for i, form in enumerate(forms):
        names = word_names(form)
        numbers[_LEVELS - len(names) :, i] = [number(name) for name in names]
    return numbers


def _rows(pairs: NDArray, names: NDArray, tags: NDArray, n_tags: int) -> NDArray[numpy.int64]:
    """Where names with tags are among sorted pairs, -1 for nowhere."""
    keys = names * n_tags + tags
    place = numpy.searchsorted(pairs, keys)
    return numpy.where((names >= 0) & (numpy.append(pairs, -1)[place] == keys), place, -1)


class Lexicon:
    """P(state | word, tag)."""

    def __init__(
        self,
        tag_states: TagStates,
        names: Sequence[str],
        pairs: NDArray[numpy.int64],
        counts: NDArray[numpy.float64],
        totals: NDArray[numpy.float64],
    ):
        """pairs: int64, [n], name * tags + tag for each of both that was seen.
        counts: [n, width], how often in which state of the tag; totals: [K], how many tokens are in each
        state."""
        self.tag_states = tag_states
        self.names = list(names)
        self.pairs, self.counts, self.totals = pairs, counts, totals
        # P(state | tag)
        smoothed = totals + _UNSEEN
        self.share = smoothed / numpy.bincount(tag_states.tag_of, smoothed)[tag_states.tag_of]
        self._ids = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def fit(
        cls, words: Sequence[str], states: NDArray[numpy.int32], tag_states: TagStates
    ) -> "Lexicon":
        """Count words."""
        seen = SeenWords(words, tag_states.tag_of[states], tag_states.n_tags)
        return seen.lexicon(numpy.arange(len(states)), states, numpy.ones(len(states)), tag_states)

    def entries(self) -> tuple[NDArray[numpy.uint32], NDArray[numpy.uint32]]:
        """[n, 2], every name and state that it was seen in, in order, and how often: what
        `from_entries` takes. Of whole counts only."""
        row, local = numpy.nonzero(self.counts)
        name, tag = numpy.divmod(self.pairs[row], self.tag_states.n_tags)
        rows = numpy.stack([name, self.tag_states.first[tag] + local], axis=1)
        return rows.astype("uint32"), self.counts[row, local].astype("uint32")

    @classmethod
    def from_entries(
        cls,
        tag_states: TagStates,
        names: Sequence[str],
        entries: NDArray[numpy.uint32],
        counts: NDArray[numpy.uint32],
        totals: NDArray[numpy.uint32],
    ) -> "Lexicon":
        """The lexicon of entries; see `entries`."""
        name, state = entries.astype("int64").T
        keys = name * tag_states.n_tags + tag_states.tag_of[state]
        pairs, row = numpy.unique(keys, return_inverse=True)
        table = numpy.zeros((len(pairs), tag_states.width))
        table[row, tag_states.local[state]] = counts
        return cls(tag_states, names, pairs, table, totals.astype("float64"))

    def distributions(
        self, words: Sequence[str], tags: NDArray[numpy.int32]
    ) -> NDArray[numpy.float64]:
        """[tokens, width], P(state | word, tag) for the states of each token's tag."""
        known: dict[tuple[str, int], int] = {}
        pairs = zip(words, tags.tolist(), strict=True)
        which = [known.setdefault(pair, len(known)) for pair in pairs]
        names = _numbers([word for word, _ in known], lambda name: self._ids.get(name, -1))
        own = numpy.array([tag for _, tag in known], dtype="int64")
        levels = _rows(self.pairs, names, own, self.tag_states.n_tags)
        return self.mixed(levels, own)[numpy.array(which, dtype="int64")]

    def mixed(self, levels: NDArray, tags: NDArray) -> NDArray[numpy.float64]:
        """[n, width], distributions smoothed from the widest class to the word. Levels [levels, n] are
        rows of `counts` from the widest to the narrowest, -1 for none."""
        found = self.tag_states.table(self.share)[tags]
        for level, own in enumerate(levels):
            seen = numpy.flatnonzero(own >= 0)
            strength = _WORD_STRENGTH if level == _LEVELS - 1 else _SIGNATURE_STRENGTH
            counts = self.counts[own[seen]]
            total = counts.sum(axis=1, keepdims=True) + strength
            found[seen] = (counts + strength * found[seen]) / total
        return found

    def lattice(self, words: Sequence[str], tags: NDArray[numpy.int32]) -> Lattice:
        """The states that tokens can have, but for unlikely ones."""
        found = self.distributions(words, tags)
        keep = found > 0
        keep &= found >= _LEAST_SHARE * found.max(axis=1, keepdims=True, initial=0.0)
        if found.shape[1] > _MOST_STATES:
            # stable, so that of equals the first are kept
            order = numpy.argsort(-found, axis=1, kind="stable")[:, _MOST_STATES:]
            numpy.put_along_axis(keep, order, False, axis=1)
        token, local = numpy.nonzero(keep)
        states = self.tag_states.first[tags[token]] + local
        offsets = numpy.concatenate([[0], numpy.cumsum(keep.sum(axis=1))]).astype("int32")
        emissions = found[token, local] / self.share[states]
        return Lattice(offsets, states.astype("int32"), emissions)


class SeenWords:
    """The words of a treebank, ready to be counted in any states."""

    def __init__(self, words: Sequence[str], tags: NDArray[numpy.int32], n_tags: int):
        # everything is the same for equal words with equal tags
        forms, form_of = numpy.unique(numpy.array(words, dtype=object), return_inverse=True)
        kinds, self._kind = numpy.unique(form_of * n_tags + tags, return_inverse=True)
        form, self._tags = kinds // n_tags, kinds % n_tags
        ids: dict[str, int] = {}
        names = _numbers(forms.tolist(), lambda name: ids.setdefault(name, len(ids)))
        self.names = list(ids)
        frequency = numpy.bincount(names[-1][form_of], minlength=len(ids))
        keys = numpy.where(names[:, form] >= 0, names[:, form] * n_tags + self._tags, -1)
        # a frequent word is smoothed by signatures, but not counted in them
        counted = keys >= 0
        counted[:-1] &= frequency[names[-1][form]] <= _RARE
        self.pairs = numpy.unique(keys[counted])
        self._levels = _rows(self.pairs, names[:, form], self._tags, n_tags)
        self._counted = numpy.where(counted, self._levels, -1)

    def lexicon(
        self, tokens: NDArray, states: NDArray, weights: NDArray, tag_states: TagStates
    ) -> Lexicon:
        """Count words in states."""
        width = tag_states.width
        cells = self._kind[tokens] * width + tag_states.local[states]
        flat = numpy.bincount(cells, weights, minlength=len(self._tags) * width)
        by_kind = flat.reshape(-1, width)
        counts = numpy.zeros((len(self.pairs), width))
        for level in self._counted:
            seen = level >= 0
            numpy.add.at(counts, level[seen], by_kind[seen])
        totals = numpy.bincount(states, weights, minlength=tag_states.n_states)
        return Lexicon(tag_states, self.names, self.pairs, counts, totals.astype("float64"))

    def weights(self, lexicon: Lexicon) -> NDArray[numpy.float64]:
        """[tokens, width], P(state | word, tag) / P(state | tag) by states of tokens."""
        found = lexicon.mixed(self._levels, self._tags)
        share = lexicon.tag_states.table(lexicon.share)[self._tags]
        return (found / numpy.where(share > 0, share, 1.0))[self._kind]
