"""Rules of Universal Dependencies that relations alone decide, as the validator of Universal Dependencies has
them (its level 3): function words have no children of the wrong kind, a word has one subject and one object,
and some relations go from left to right.

`with_valid_trees` chooses trees that keep them: the likeliest of the n best that breaks none. Lists of n best
labelled trees are exact for models that score trees by their parts, and so is the choice, as far as they go.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from .interface import ArcMask, ArcProbs, Parse, Parses, TreeDistribution
from .pseudoprojective import plain
from .sentences import Floats, Ints, Tokens

# Of how many trees a valid one is chosen, and how many are looked at first: short lists take less time.
N_BEST, FIRST = 32, 4
_SPECIAL = {"goeswith", "fixed", "reparandum", "conj", "punct"}
_MODIFIED = _SPECIAL | {"cc", "advmod", "obl"}
# Which children a word may have, by its relation; any, where there is no entry.
CHILDREN = {
    "case": _MODIFIED,
    "mark": _MODIFIED,
    "clf": _MODIFIED,
    "aux": _SPECIAL | {"cc"},
    "cop": _SPECIAL | {"cc"},
    "det": _MODIFIED | {"det", "case", "clf", "flat", "compound", "discourse", "parataxis"},
    "cc": _SPECIAL,
    "fixed": _SPECIAL - {"fixed"},
    "goeswith": set(),
    "punct": {"punct"},
}
_OF_POSSESSIVES = {"appos", "acl", "nmod"}
LEFT_TO_RIGHT = {"conj", "fixed", "flat", "goeswith", "appos"}


class Violation(NamedTuple):
    """A rule that a word breaks: its position, counted from 1, and the name that the validator has for it."""

    position: int
    rule: str


def violations(
    heads: Sequence[int],
    labels: Sequence[str],
    pos: Sequence[str] | None = None,
    morphs: Sequence[str] | None = None,
) -> list[Violation]:
    """Find what breaks the rules in a tree of positions (0 for the root) and relations with subtypes. If
    parts of speech and features are known, a negation may modify any function word, and possessive
    determiners may have more children."""
    found = []
    relations = [label.partition(":")[0].lower() for label in labels]
    subjects, objects = [0] * (len(heads) + 1), [0] * (len(heads) + 1)
    for i, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        subjects[head] += relation in ("nsubj", "csubj") and not labels[i].endswith("subj:outer")
        objects[head] += relation == "obj"
        if head > i + 1 and relation in LEFT_TO_RIGHT:
            found.append(Violation(i + 1, f"right-to-left-{relation}"))
        parent = relations[head - 1] if head > 0 else ""
        if parent not in CHILDREN or relation in CHILDREN[parent]:
            continue
        if parent != "punct" and relation == "advmod" and _is_negation(i, pos, morphs):
            continue
        possessive = morphs is not None and "Poss=Yes" in morphs[head - 1].split("|")
        if parent == "det" and possessive and relation in _OF_POSSESSIVES:
            continue
        kind = {"case": "mark-case", "mark": "mark-case", "aux": "aux-cop", "cop": "aux-cop"}
        found.append(Violation(head, f"leaf-{kind.get(parent, parent)}"))
    for counts, name in ((subjects, "subjects"), (objects, "objects")):
        found += [Violation(i, f"too-many-{name}") for i, n in enumerate(counts) if i and n > 1]
    return sorted(found)


def _is_negation(i: int, pos: Sequence[str] | None, morphs: Sequence[str] | None) -> bool:
    if pos is None or morphs is None or pos[i] not in ("PART", "ADV"):
        return False
    return "Polarity=Neg" in morphs[i].split("|")


class ChosenParses:
    """Implements `interface.Parses`: the parses of a model, but for some sentences with other trees."""

    def __init__(
        self, parses: Parses, starts: Ints, chosen: Mapping[int, Parse], names: Sequence[str]
    ) -> None:
        """chosen: The other trees, by sentence; labels without decoration."""
        self.labelled = parses.labelled
        self.heads, self.labels = parses.heads.copy(), parses.labels.copy()
        self._parses, self._starts, self._chosen, self._names = parses, starts, chosen, names
        for sentence, parse in chosen.items():
            own = self._own(sentence)
            self.heads[own], self.labels[own] = parse.heads, parse.labels

    def _own(self, sentence: int) -> slice:
        return slice(int(self._starts[sentence]), int(self._starts[sentence + 1]))

    def head_probs(self) -> NDArray[numpy.float32]:
        probs = self._parses.head_probs().copy()
        for sentence in self._chosen:
            probs[self._own(sentence)] = self._joint(sentence).sum(axis=1)
        return probs

    def label_probs(self) -> NDArray[numpy.float32]:
        probs = self._parses.label_probs().copy()
        for sentence, parse in self._chosen.items():
            given = self.label_distributions(sentence)
            probs[self._own(sentence)] = given[numpy.arange(len(given)), parse.labels]
        return probs

    def _joint(self, sentence: int) -> Floats:
        """[N, labels], P(arc and label) for the heads of a chosen tree. A lifted arc is that of the head that
        its label leads to; where the tree has no other arc with this label, it is taken for that."""
        parse, arcs = (
            self._chosen[sentence],
            self._parses.arcs(sentence, labelled=True, min_prob=0.0),
        )
        table = numpy.zeros((len(parse.heads), len(self._names)))
        words = arcs.modifiers - 1
        is_plain = numpy.array([plain(name) == name for name in self._names])[arcs.labels]
        own = is_plain & (arcs.heads == parse.heads[words])
        table[words[own], arcs.labels[own]] = arcs.probs[own]
        index = {name: i for i, name in enumerate(self._names)}
        for i in numpy.flatnonzero(table[numpy.arange(len(table)), parse.labels] == 0.0).tolist():
            for arc in numpy.flatnonzero(~is_plain & (words == i)).tolist():
                label = index[plain(self._names[arcs.labels[arc]])]
                table[i, label] += arcs.probs[arc] * (label == parse.labels[i])
        return table

    def log_probs(self) -> Floats:
        values = self._parses.log_probs().copy()
        for sentence, parse in self._chosen.items():
            given = self.label_distributions(sentence)
            own = given[numpy.arange(len(given)), parse.labels]
            # without its labels, where the model is about trees without
            labels = 0.0 if self.labelled else float(numpy.log(numpy.maximum(own, 1e-300)).sum())
            values[sentence] = parse.log_prob - labels
        return values

    def label_distributions(self, sentence: int) -> Floats:
        if sentence not in self._chosen:
            return self._parses.label_distributions(sentence)
        table = self._joint(sentence)
        totals = table.sum(axis=1, keepdims=True)
        return table / numpy.where(totals > 0, totals, 1.0)

    def marginals(self, sentence: int) -> Floats:
        return self._parses.marginals(sentence)

    def arcs(self, sentence: int, *, labelled: bool = False, min_prob: float = 1e-6) -> ArcProbs:
        return self._parses.arcs(sentence, labelled=labelled, min_prob=min_prob)

    def k_best(self, sentence: int, k: int, *, labelled: bool = False) -> list[Parse]:
        return self._parses.k_best(sentence, k, labelled=labelled)

    def distribution(
        self, sentence: int, *, more: ArcMask | None = None, labelled: bool = False
    ) -> TreeDistribution:
        return self._parses.distribution(sentence, more=more, labelled=labelled)


class _Rules(NamedTuple):
    """What tells how many rules a tree of a sentence breaks."""

    tokens: Tokens
    relations: list[str]

    def broken(self, own: slice, heads: Ints, labels: Ints) -> int:
        relations = [self.relations[label] for label in labels.tolist()]
        pos, morphs = list(self.tokens.pos[own]), list(self.tokens.morphs[own])
        return len(violations(heads.tolist(), relations, pos, morphs))


def with_valid_trees(parses: Parses, tokens: Tokens, names: Sequence[str]) -> Parses:
    """Where a tree breaks rules, take the likeliest of the `N_BEST` labelled trees that breaks none, or
    else the fewest."""
    rules = _Rules(tokens, [plain(name) for name in names])
    chosen: dict[int, Parse] = {}
    for sentence, (begin, end) in enumerate(tokens.bounds()):
        own = slice(begin, end)
        least = rules.broken(own, parses.heads[own], parses.labels[own])
        for k in (FIRST, N_BEST):
            if not least:
                break
            for parse in parses.k_best(sentence, k, labelled=True):
                n_broken = rules.broken(own, parse.heads, parse.labels)
                if n_broken < least:
                    chosen[sentence], least = parse, n_broken
    return ChosenParses(parses, tokens.starts, chosen, names) if chosen else parses
