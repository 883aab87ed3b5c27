"""From a form to its lemma by an edit tree (Chrupala, 2006; Müller et al., 2015), after a change of case.

The longest part that form and lemma share stays; what is before it and what is after it is edited in the same
way, down to parts that share nothing and are replaced. Of "aufgemacht" and "aufmachen" "mach" stays, "aufge"
becomes "auf", "t" becomes "en":

    tree = Keep(characters before the part, characters after it, tree of these, tree of those)
         | Replace(old, new)
         | Put(new)

A tree does not name the part that stays, so that it fits other words of the same kind. `Put` does not even
name what it replaces: there are so many Turkish endings that most trees are met once. Trees are written as
nested lists: ["k", before, after, left, right], ["r", old, new] and ["p", new].
"""

from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import srsly

_DEEPEST = 40


class Keep(NamedTuple):
    """Keeps a part: all but the first `before` and the last `after` characters."""

    before: int
    after: int
    left: "Tree | None"
    right: "Tree | None"


class Replace(NamedTuple):
    """Replaces a part that must be `old`."""

    old: str
    new: str


class Put(NamedTuple):
    """Replaces whatever there is."""

    new: str


Tree = Keep | Replace | Put


def lower_case(form: str) -> str:
    """A form in small letters."""
    # Turkish: the dot that Python leaves over of a capital is part of the small letter
    return form.lower().replace("i\u0307", "i")


def _as_title(form: str) -> str:
    return form[:1].upper() + lower_case(form[1:])


# In the order of preference: most lemmas are written in small letters.
CASES: dict[str, Callable[[str], str]] = {"lower": lower_case, "same": str, "title": _as_title}


class Script(NamedTuple):
    """A change of case, then an edit tree; None keeps everything."""

    case: str
    tree: Tree | None

    def apply(self, form: str) -> str | None:
        """The lemma of a form; None if the tree does not fit it."""
        return _apply(self.tree, CASES[self.case](form)) or None

    def loosened(self) -> "Script":
        """The same without what it replaces, but how much that is; itself if nothing stays."""
        if isinstance(self.tree, Replace):
            return self
        return Script(self.case, _loosened(self.tree))

    def to_str(self) -> str:
        """How it is written to files."""
        return srsly.json_dumps([self.case, _to_list(self.tree)])

    @classmethod
    def from_str(cls, text: str) -> "Script":
        """Read what `to_str` wrote; a ValueError if it is something else."""
        case, tree = srsly.json_loads(text)
        if case not in CASES:
            raise ValueError(case)
        return cls(case, _from_list(tree, _DEEPEST))


def find_script(form: str, lemma: str) -> Script:
    """The script that makes a lemma of a form and replaces least: `script.apply(form) == lemma`."""
    best, least = Script("same", Replace(form, lemma)), None
    for case, change in CASES.items():
        tree = _find_tree(change(form), lemma, _DEEPEST)
        cost = _cost(tree)
        if least is None or cost < least:
            best, least = Script(case, tree), cost
    return best


def _find_tree(form: str, lemma: str, depth: int) -> Tree | None:
    if form == lemma:
        return None
    match = SequenceMatcher(None, form, lemma, autojunk=False).find_longest_match()
    if not match.size or not depth:
        return Replace(form, lemma)
    end, lemma_end = match.a + match.size, match.b + match.size
    left = _find_tree(form[: match.a], lemma[: match.b], depth - 1)
    right = _find_tree(form[end:], lemma[lemma_end:], depth - 1)
    return Keep(match.a, len(form) - end, left, right)


def _loosened(tree: Tree | None) -> Tree | None:
    if isinstance(tree, Keep):
        return tree._replace(left=_loosened(tree.left), right=_loosened(tree.right))
    return Put(tree.new) if isinstance(tree, Replace) else tree


def _cost(tree: Tree | None) -> int:
    if tree is None or isinstance(tree, Put):
        return 0
    if isinstance(tree, Replace):
        return len(tree.old) + len(tree.new)
    return _cost(tree.left) + _cost(tree.right)


def _apply(tree: Tree | None, text: str) -> str | None:
    if tree is None:
        return text
    if isinstance(tree, Replace):
        return tree.new if text == tree.old else None
    if isinstance(tree, Put):
        return tree.new
    end = len(text) - tree.after
    # something has to stay, or words that are too short would be made of nothing
    if tree.before >= end:
        return None
    left, right = _apply(tree.left, text[: tree.before]), _apply(tree.right, text[end:])
    return None if left is None or right is None else left + text[tree.before : end] + right


def _to_list(tree: Tree | None) -> list[Any] | None:
    if tree is None:
        return None
    if isinstance(tree, Replace):
        return ["r", tree.old, tree.new]
    if isinstance(tree, Put):
        return ["p", tree.new]
    return ["k", tree.before, tree.after, _to_list(tree.left), _to_list(tree.right)]


def _from_list(value: Any, depth: int) -> Tree | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or depth < 0:
        raise ValueError(value)
    if value[0] == "r" and len(value) == 3 and all(type(part) is str for part in value[1:]):
        return Replace(*value[1:])
    if value[0] == "p" and len(value) == 2 and type(value[1]) is str:
        return Put(value[1])
    if value[0] == "k" and len(value) == 5 and all(type(n) is int and n >= 0 for n in value[1:3]):
        trees = (_from_list(part, depth - 1) for part in value[3:])
        return Keep(value[1], value[2], *trees)
    raise ValueError(value)
