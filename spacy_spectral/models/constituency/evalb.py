"""Labelled precision, recall and F1 of constituents, counted as `evalb` does with COLLINS.prm.

Brackets around words that are deleted, or labelled as the root, do not count; ADVP and PRT are the same;
labels are compared without functions; equal brackets are matched one to one. Words are deleted whose
*gold* tag is punctuation, on both sides: `evalb` goes by each side's own tags and leaves out sentences
where they differ ("Length unmatch"). Here no sentence is left out. One whose words are all deleted has
no brackets, so that it counts neither for nor against exact match.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...treebank.brackets import Tree
from .trees import ROOTS, bare

DELETED_TAGS = frozenset((",", ":", "``", "''", ".", "-NONE-"))
_SAME = {"PRT": "ADVP"}


class Constituent(NamedTuple):
    """A labelled span of tokens, `end` exclusive."""

    label: str
    begin: int
    end: int


@dataclass
class Counts:
    """What has been counted so far: brackets by label that match, gold and predicted ones; sentences
    without any error, and all that have a bracket; right tags, and all words that are not deleted."""

    matched: Counter[str] = field(default_factory=Counter)
    gold: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    exact: int = 0
    sentences: int = 0
    tags: int = 0
    words: int = 0

    @property
    def precision(self) -> float | None:
        return _ratio(self.matched.total(), self.predicted.total())

    @property
    def recall(self) -> float | None:
        return _ratio(self.matched.total(), self.gold.total())

    @property
    def f1(self) -> float | None:
        if not self.gold.total():
            return None
        return 2 * self.matched.total() / (self.gold.total() + self.predicted.total())

    @property
    def exact_match(self) -> float | None:
        return _ratio(self.exact, self.sentences)

    @property
    def tag_accuracy(self) -> float | None:
        return _ratio(self.tags, self.words)

    def add(
        self,
        gold: Iterable[Constituent],
        predicted: Iterable[Constituent],
        gold_tags: Sequence[str],
        predicted_tags: Sequence[str],
    ) -> None:
        """Count a sentence: constituents above the tags, on the same tokens. A predicted one may reach
        to where the gold has no token boundary; it is wrong then: `begin` is -1."""
        # places[i]: how many words are kept among the first i
        places = [0]
        for gold_tag, tag in zip(gold_tags, predicted_tags, strict=True):
            is_kept = gold_tag not in DELETED_TAGS
            places.append(places[-1] + is_kept)
            self.words += is_kept
            self.tags += is_kept and _same(gold_tag) == _same(tag)
        if not places[-1]:
            return
        ours, theirs = _brackets(gold, places), _brackets(predicted, places)
        common = ours & theirs
        counters = (self.gold, ours), (self.predicted, theirs), (self.matched, common)
        for counter, brackets in counters:
            for bracket, n in brackets.items():
                counter[bracket.label] += n
        self.sentences += 1
        self.exact += ours == theirs


def score_trees(gold: Iterable[Tree], predicted: Iterable[Tree]) -> Counts:
    """Compare trees over the same words."""
    counts = Counts()
    for ours, theirs in zip(gold, predicted, strict=True):
        (brackets, tags), (other_brackets, other_tags) = constituents(ours), constituents(theirs)
        counts.add(brackets, other_brackets, tags, other_tags)
    return counts


def constituents(tree: Tree) -> tuple[list[Constituent], list[str]]:
    """The constituents of a tree, parents before their children, and the tags of its words."""
    found: list[Constituent] = []
    tags: list[str] = []
    stack: list[tuple[Tree, int]] = [(tree, -1)]
    while stack:
        node, index = stack.pop()
        if index >= 0:
            found[index] = Constituent(node.label, found[index].begin, len(tags))
        elif node.word:
            tags.append(node.label)
        else:
            found.append(Constituent(node.label, len(tags), -1))
            stack.append((node, len(found) - 1))
            stack += [(child, -1) for child in reversed(node.children)]
    return found, tags


def _brackets(constituents: Iterable[Constituent], places: list[int]) -> Counter[Constituent]:
    brackets: Counter[Constituent] = Counter()
    for label, begin, end in constituents:
        label = _same(bare(label))
        if label in ROOTS:
            continue
        if begin < 0:
            brackets[Constituent(label, -1, -1)] += 1
        elif places[begin] < places[end]:
            brackets[Constituent(label, places[begin], places[end])] += 1
    return brackets


def _same(label: str) -> str:
    return _SAME.get(label, label)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
