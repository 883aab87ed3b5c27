"""Rules of Universal Dependencies that relations alone decide, as the validator of Universal Dependencies has
them (its level 3): function words have no children of the wrong kind, a word has one subject and one object,
and some relations go from left to right.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
    """Find what breaks the rules in a tree.

    heads: Positions, 0 for the root.
    labels: Relations, with subtypes.
    pos, morphs: Parts of speech and features, if they are known: a negation may modify any function word,
        and possessive determiners may have more children.
    """
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
