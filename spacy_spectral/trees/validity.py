"""Rules of Universal Dependencies that relations alone decide, as the validator of Universal Dependencies has
them (its level 3): function words have no children of the wrong kind, a word has one subject and one object,
and some relations go from left to right.

`with_valid_trees` chooses trees that keep them: of all projective trees that do, the one with the largest
product of the marginals of its labelled arcs, exactly. It is found by branch and bound (Land and Doig, 1960).
The best tree of all breaks a rule between some words, so one of these must change: trees are split into those
in which the first does and those in which it stays and the others do. The best tree of a set is at least as
good as any valid one in it, so sets are split best first, until the best tree of one breaks nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ._eisner import best_tree
from .interface import ArcMask, ArcProbs, BestTree, Parse, Parses, TreeDistribution
from .pseudoprojective import Inventory, plain
from .sentences import Bools, Floats, Ints, Tokens

# How many sets of trees are split; then that with the fewest broken rules has to do.
_MAX_SPLITS = 200
# Longer sentences, and less likely arcs, are not looked at.
_MAX_LENGTH, _LEAST_PROB = 1_000, 1e-10
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
    rules = _Rules(pos, morphs)
    return sorted(
        Violation(
            breach.words[0] + 1 if breach.rule.startswith(_RIGHT) else breach.head, breach.rule
        )
        for breach in rules.breaches(heads, labels)
    )


_RIGHT = "right-to-left"
_LEAVES = {"case": "mark-case", "mark": "mark-case", "aux": "aux-cop", "cop": "aux-cop"}


class _Breach(NamedTuple):
    """A rule that is broken: by arcs to which words, from 0, and by the children of which word, from 1."""

    rule: str
    words: list[int]
    head: int


class _Rules(NamedTuple):
    """The rules for the words of a sentence, as far as it is known what these are."""

    pos: Sequence[str] | None
    morphs: Sequence[str] | None

    def breaches(self, heads: Sequence[int], labels: Sequence[str]) -> Iterator[_Breach]:
        relations = list(map(relation_of, labels))
        subjects: dict[int, list[int]] = {}
        objects: dict[int, list[int]] = {}
        for i, (head, relation) in enumerate(zip(heads, relations, strict=True)):
            if is_subject(labels[i]):
                subjects.setdefault(head, []).append(i)
            if relation == "obj":
                objects.setdefault(head, []).append(i)
            if head > i + 1 and relation in LEFT_TO_RIGHT:
                yield _Breach(f"{_RIGHT}-{relation}", [i], head)
            parent = relations[head - 1] if head > 0 else ""
            if not self.may_have(head - 1, parent, i, relation):
                yield _Breach(f"leaf-{_LEAVES.get(parent, parent)}", [head - 1, i], head)
        for found, name in ((subjects, "subjects"), (objects, "objects")):
            for head, words in found.items():
                if head and len(words) > 1:
                    yield _Breach(f"too-many-{name}", words, head)

    def may_have(self, parent: int, relation: str, child: int, of_child: str) -> bool:
        """Whether a word with some relation may have a child with another; words count from 0."""
        if relation not in CHILDREN or of_child in CHILDREN[relation]:
            return True
        if relation != "punct" and of_child == "advmod" and self._is_negation(child):
            return True
        possessive = self.morphs is not None and "Poss=Yes" in self.morphs[parent].split("|")
        return relation == "det" and possessive and of_child in _OF_POSSESSIVES

    def _is_negation(self, i: int) -> bool:
        if self.pos is None or self.morphs is None or self.pos[i] not in ("PART", "ADV"):
            return False
        return "Polarity=Neg" in self.morphs[i].split("|")


def relation_of(label: str) -> str:
    """A relation without its subtype."""
    return label.partition(":")[0].lower()


def is_subject(label: str) -> bool:
    """Whether a word has but one child with a label."""
    return relation_of(label) in ("nsubj", "csubj") and not label.endswith("subj:outer")


class ValidTree(NamedTuple):
    """The tree that was chosen for a sentence: crossing arcs restored, and the projective one behind it."""

    heads: Ints
    labels: Ints
    projective: BestTree


class ChosenParses:
    """Implements `interface.Parses`: the parses of a model, but for some sentences with other trees."""

    def __init__(
        self, parses: Parses, starts: Ints, chosen: Mapping[int, ValidTree], names: Sequence[str]
    ) -> None:
        """chosen: The other trees, by sentence."""
        self.labelled = parses.labelled
        self.heads, self.labels = parses.heads.copy(), parses.labels.copy()
        self._parses, self._starts, self._chosen, self._names = parses, starts, chosen, names
        for sentence, tree in chosen.items():
            own = self._own(sentence)
            self.heads[own], self.labels[own] = tree.heads, tree.labels

    def _own(self, sentence: int) -> slice:
        return slice(int(self._starts[sentence]), int(self._starts[sentence + 1]))

    def head_probs(self) -> NDArray[numpy.float32]:
        probs = self._parses.head_probs().copy()
        for sentence in self._chosen:
            probs[self._own(sentence)] = self._joint(sentence).sum(axis=1)
        return probs

    def label_probs(self) -> NDArray[numpy.float32]:
        probs = self._parses.label_probs().copy()
        for sentence, tree in self._chosen.items():
            given = self.label_distributions(sentence)
            probs[self._own(sentence)] = given[numpy.arange(len(given)), tree.labels]
        return probs

    def _joint(self, sentence: int) -> Floats:
        """[N, labels], P(arc and label) for the heads of a chosen tree. A lifted arc is that of the head that
        its label leads to; where the tree has no other arc with this label, it is taken for that."""
        tree = self._chosen[sentence]
        arcs = self._parses.arcs(sentence, labelled=True, min_prob=0.0)
        table = numpy.zeros((len(tree.heads), len(self._names)))
        words = arcs.modifiers - 1
        is_plain = numpy.array([plain(name) == name for name in self._names])[arcs.labels]
        own = is_plain & (arcs.heads == tree.heads[words])
        table[words[own], arcs.labels[own]] = arcs.probs[own]
        index = {name: i for i, name in enumerate(self._names)}
        for i in numpy.flatnonzero(table[numpy.arange(len(table)), tree.labels] == 0.0).tolist():
            for arc in numpy.flatnonzero(~is_plain & (words == i)).tolist():
                label = index[plain(self._names[arcs.labels[arc]])]
                table[i, label] += arcs.probs[arc] * (label == tree.labels[i])
        return table

    def log_probs(self) -> Floats:
        values = self._parses.log_probs().copy()
        for sentence, tree in self._chosen.items():
            heads, labels, _ = tree.projective
            n = len(heads)
            arcs = numpy.zeros((n + 1, n + 1), dtype=bool)
            arcs[heads, numpy.arange(1, n + 1)] = True
            own = {m: frozenset([label]) for m, label in enumerate(labels.tolist(), start=1)}
            trees = self._parses.distribution(sentence, labelled=self.labelled)
            every, _ = trees.total(numpy.ones_like(arcs), {})
            values[sentence] = min(trees.total(arcs, own if self.labelled else {})[0] - every, 0.0)
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


class _Search:
    """Looks for the best valid tree of a sentence. Sets of trees are the rows of its labelled arcs that may
    be in them."""

    def __init__(self, arcs: ArcProbs, n: int, inventory: Inventory, rules: _Rules):
        self._numbers = count()
        # the likeliest label of an arc is the last
        order = numpy.argsort(arcs.probs, kind="stable")
        self.n, self.inventory, self.rules = n, inventory, rules
        self.heads, self.modifiers, self.labels = (
            column[order].astype("int64") for column in (arcs.heads, arcs.modifiers, arcs.labels)
        )
        self.logs = numpy.log(arcs.probs[order])
        self.names = [plain(name) for name in inventory.names]
        self.relations = list(map(relation_of, self.names))
        self._is_plain = numpy.array([plain(name) == name for name in inventory.names])
        self._is_subject = numpy.array([is_subject(name) for name in self.names])
        self._is_object = numpy.array([relation == "obj" for relation in self.relations])

    def run(self, least: int) -> ValidTree | None:
        """The best tree that breaks no rule; of those that were met the one that breaks the fewest, and fewer
        than `least`."""
        right = numpy.array([relation in LEFT_TO_RIGHT for relation in self.relations])
        is_wrong = right[self.labels] & self._is_plain[self.labels] & (self.heads > self.modifiers)
        queue: list[tuple[float, int, Bools, Ints]] = []
        self._push(queue, ~is_wrong)
        found = None
        for _ in range(_MAX_SPLITS):
            if not queue:
                break
            score, _, allowed, rows = heappop(queue)
            tree = self._tree(rows, -score)
            names = [self.names[label] for label in tree.labels.tolist()]
            breaches = list(self.rules.breaches(tree.heads.tolist(), names))
            if len(breaches) < least:
                found, least = tree, len(breaches)
            if not breaches:
                break
            for own in self._split(allowed, rows, tree, breaches[0]):
                self._push(queue, own)
        return found

    def _push(self, queue: list, allowed: Bools) -> None:
        """Put a set of trees in line, if there is one in it."""
        rows = numpy.flatnonzero(allowed)
        scores = numpy.full((self.n + 1, self.n + 1), -numpy.inf)
        best = numpy.zeros((self.n + 1, self.n + 1), dtype="int64")
        places = self.heads[rows], self.modifiers[rows]
        scores[places] = self.logs[rows]
        best[places] = rows
        heads, score = best_tree(scores)
        if score > -numpy.inf:
            rows = best[heads, numpy.arange(1, self.n + 1)]
            heappush(queue, (-score, next(self._numbers), allowed, rows))

    def _tree(self, rows: Ints, score: float) -> ValidTree:
        heads, labels = (column[rows].astype("int32") for column in (self.heads, self.labels))
        starts = numpy.array([0, self.n], dtype="int32")
        restored = self.inventory.restored(starts, heads, labels)
        return ValidTree(*restored, BestTree(heads, labels, score))

    def _split(
        self, allowed: Bools, rows: Ints, tree: ValidTree, breach: _Breach
    ) -> Iterator[Bools]:
        """Sets that together have all trees of a set, but for those that break a rule where this one does."""
        if not self._is_plain[self.labels[rows[breach.words]]].all():
            # crossing arcs, which other arcs decide about: any of them may be another one
            for row in rows.tolist():
                own = allowed.copy()
                own[row] = False
                yield own
                allowed = allowed & (self.modifiers != self.modifiers[row])
                allowed[row] = True
            return
        if breach.rule.startswith("leaf"):
            parent, relation = breach.words[0], self.relations[tree.labels[breach.words[0]]]
            has_relation = numpy.array([own == relation for own in self.relations])[self.labels]
            of_parent = self.modifiers == parent + 1
            is_child = (self.heads == parent + 1) & self._is_plain[self.labels]
            for row in numpy.flatnonzero(is_child).tolist():
                child, label = int(self.modifiers[row]) - 1, int(self.labels[row])
                is_child[row] = not self.rules.may_have(
                    parent, relation, child, self.relations[label]
                )
            yield allowed & ~(of_parent & has_relation)
            yield allowed & ~(of_parent & ~has_relation) & ~is_child
            return
        kind = self._is_subject if breach.rule == "too-many-subjects" else self._is_object
        stays = kind[self.labels] & self._is_plain[self.labels] & (self.heads == breach.head)
        of_first = self.modifiers == breach.words[0] + 1
        yield allowed & ~(of_first & stays)
        yield allowed & ~(of_first & ~stays) & (of_first | ~stays)


def with_valid_trees(parses: Parses, tokens: Tokens, names: Sequence[str]) -> Parses:
    """Where a tree breaks rules, take the best tree that breaks none, or else fewer."""
    relations = [plain(name) for name in names]
    inventory = Inventory(names)
    chosen: dict[int, ValidTree] = {}
    for sentence, (begin, end) in enumerate(tokens.bounds()):
        own = slice(begin, end)
        rules = _Rules(list(tokens.pos[own]), list(tokens.morphs[own]))
        labels = [relations[label] for label in parses.labels[own].tolist()]
        least = sum(1 for _ in rules.breaches(parses.heads[own].tolist(), labels))
        if least and end - begin <= _MAX_LENGTH:
            arcs = parses.arcs(sentence, labelled=True, min_prob=_LEAST_PROB)
            found = _Search(arcs, end - begin, inventory, rules).run(least)
            if found is not None:
                chosen[sentence] = found
    return ChosenParses(parses, tokens.starts, chosen, names) if chosen else parses
