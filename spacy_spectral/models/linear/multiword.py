"""Multiword tokens: which tokens of a text are several words, and what the words are.

French "du" is "de" and "le": the words do not stand in the text, so that nothing can be cut out of it. (What
stands in the text, as in "don't", the tokenizer cuts.) The words are made of a token by an edit script (see
`edits`), which writes them one behind the other with a separator between them: "du" -> "de|le".

A form that training had is looked up: it has the scripts it was seen with there, perhaps none. If there are
several, or the form was seen as one word, too (French "des": "de les", or the plural of "un"), a linear
classifier chooses by what is around. A form that is new has the scripts that fit it, of those that at least
two forms share: they edit beginnings or endings, and most of them fit few forms. The classifier learns to
choose among them, and one word, from forms that are rare.

Forms are looked up in small letters. Whether the first word begins with a capital where the token does
("Au" -> "À le", or "à le") is the treebank's custom.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.cache import Memory
from ...base.files import Array, Bool, Format, Stored, Strings
from ._strings import FORM_COLUMNS
from .classifier import (
    FORM,
    LOWER,
    PREFIX,
    SHAPE,
    SUFFIX,
    Cell,
    ClassScheme,
    Forms,
    LinearClassifier,
    Progress,
    Templates,
    classifier_fields,
    train,
)
from .edits import Script, find_script, lower_case

# Between the words that a script writes; no word of CoNLL-U has one.
_SEPARATOR = "\t"
# Class 0 is one word, class i + 1 the i-th script.
_ONE_WORD = 0
# Groups of candidates: one word, and those of new forms; then those of known forms.
_FIXED, _NEW = range(2)
# A script that only one form has is an exception.
_LEAST_FORMS = 2
# Forms that are seen so often or less are like new ones.
_RARE = 5
# What is seen in fewer than one of so many cases is a slip.
_SLIPS = 50
# Tokens on each side that are looked at.
_AROUND = 2
# How many scripts are tried on a form: the best ones need not fit it.
_TRIED = 8
# Forms whose group is remembered, and the longest that is.
_CACHE_SIZE = 50_000
_LONGEST = 64

_FORMAT = Format(
    "multiword tokens",
    1,
    scripts=Strings("scripts", unique=True, least=1),
    classifier=classifier_fields("scripts+1", "groups"),
    forms=Strings("forms", unique=True),
    form_groups=Array("int32", "forms", low=0),
    capitals=Bool(),
)

Words = tuple[str, ...]


class Analysed(NamedTuple):
    """A text to learn from, with the words of each token, None for a token that is one word."""

    tokens: Sequence[str]
    words: Sequence[Words | None]


class MultiwordModel(Stored):
    """Finds the words of multiword tokens."""

    FORMAT = _FORMAT

    def __init__(
        self,
        scripts: Sequence[Script],
        classifier: LinearClassifier,
        groups: dict[str, int],
        capitals: bool,
    ):
        """groups: The groups of candidates of forms in small letters; those of new forms are in no group.
        capitals: Whether the words of a token with a capital begin with one, too.
        """
        self.scripts = list(scripts)
        self._classifier = classifier
        self._groups = groups
        self._capitals = capitals
        self._memory = Memory(_CACHE_SIZE)
        self._no_scores = classifier.word_scores(numpy.zeros((1, FORM_COLUMNS + 1), dtype="uint32"))

    @cached_property
    def _members(self) -> list[list[int]]:
        """The candidates of groups."""
        scheme = self._classifier.scheme
        bounds = scheme.group_starts.tolist()
        members = scheme.members.tolist()
        return [members[a:b] for a, b in pairwise(bounds)]

    def find(self, tokens: Sequence[str]) -> dict[int, Words]:
        """The words of those tokens of a text that are several."""
        found: dict[int, Words] = {}
        groups = self._groups_of(tokens)
        open_places = []
        for place, group in groups.items():
            members = self._members[group]
            if len(members) > 1:
                open_places.append(place)
            elif members and (words := self._apply(members[0], tokens[place])):
                found[place] = words
        if open_places:
            own = [groups[place] for place in open_places]
            chosen = self._choose(tokens, open_places, own).tolist()
            for place, classes in zip(open_places, chosen, strict=True):
                for number in classes:
                    if number == _ONE_WORD:
                        break
                    if number > 0 and (words := self._apply(number, tokens[place])):
                        found[place] = words
                        break
        return found

    def _groups_of(self, tokens: Sequence[str]) -> dict[int, int]:
        """The groups of tokens that can be several words."""
        known = self._memory.known
        new: dict[str, int] = {}
        groups: dict[int, int] = {}
        for place, token in enumerate(tokens):
            group = known.get(token)
            if group is None:
                group = new.get(token)
                if group is None:
                    group = new[token] = self._group(token)
            if group != _FIXED:
                groups[place] = group
        if new:
            self._memory.add({form: g for form, g in new.items() if len(form) <= _LONGEST})
        return groups

    def _group(self, form: str) -> int:
        lower = lower_case(form)
        group = self._groups.get(lower)
        if group is None:
            fits = any(i and _split(self.scripts[i - 1], lower) for i in self._members[_NEW])
            group = _NEW if fits else _FIXED
        return group

    def _choose(
        self, tokens: Sequence[str], places: list[int], groups: list[int]
    ) -> NDArray[numpy.int32]:
        """The best classes at some places, -1 for none."""
        attributes, starts, own = _windows([tokens], [places])
        all_groups = numpy.full(len(attributes), _FIXED, dtype="int32")
        all_groups[own] = groups
        decided = self._classifier.decide(
            attributes, starts, numpy.zeros(len(attributes), dtype="int32"), self._no_scores,
            all_groups, top=_TRIED,
        )  # fmt: skip
        return decided.labels[own]

    def _apply(self, number: int, form: str) -> Words | None:
        """The words that a class makes of a form; None for one word, or if the script does not fit."""
        words = _split(self.scripts[number - 1], lower_case(form)) if number else None
        if words is None or not self._capitals:
            return words
        if len(form) > 1 and form.isupper():
            return tuple(word.upper() for word in words)
        first = words[0]
        return (first[:1].upper() + first[1:], *words[1:]) if form[:1].isupper() else words

    def to_payload(self) -> dict[str, Any]:
        return {
            "scripts": [script.to_str() for script in self.scripts],
            "classifier": self._classifier.to_payload(),
            "forms": list(self._groups),
            "form_groups": numpy.array(list(self._groups.values()), dtype="int32"),
            "capitals": self._capitals,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "MultiwordModel":
        scripts = []
        for text in read["scripts"]:
            try:
                scripts.append(Script.from_str(text))
            except (ValueError, TypeError, RecursionError):
                _FORMAT.require(False, "scripts", f"has {text[:80]!r}, which is no edit script")
        classifier = LinearClassifier.from_payload(
            _FORMAT, "classifier", read, multiword_templates()
        )
        scheme = classifier.scheme
        # what a class does is told by its number
        is_own = scheme.labels == numpy.arange(len(scripts) + 1)
        _FORMAT.require(is_own.all(), "classifier.labels", "has others than the classes")
        n_groups = len(scheme.group_starts) - 1
        _FORMAT.require(n_groups > _NEW, "classifier.group_starts", "is too short")
        sound = read["form_groups"].max(initial=0) < n_groups
        _FORMAT.require(sound, "form_groups", "has unknown groups")
        groups = dict(zip(read["forms"], read["form_groups"].tolist(), strict=True))
        return cls(scripts, classifier, groups, read["capitals"])


@dataclass(frozen=True)
class MultiwordRecipe:
    """The settings of a model of multiword tokens."""

    epochs: int = 5
    seed: int = 0

    def fit(
        self, texts: Sequence[Analysed], *, progress: Progress | None = None
    ) -> MultiwordModel | None:
        """Learn from texts; `progress` is called after every epoch. None if no token is several words."""
        counts = _count(texts)
        several = {form: found for form, found in counts.items() if any(found)}
        if not several:
            return None
        capitals = _custom(texts)
        numbers: dict[Script, int] = {}
        of_form: dict[str, dict[Words | None, int]] = {}
        forms_of: Counter[int] = Counter()
        for form, found in several.items():
            least = sum(found.values()) / _SLIPS
            of_form[form] = {}
            for words, count in found.items():
                if count < least:
                    continue
                number = _ONE_WORD
                if words is not None:
                    script = find_script(form, _SEPARATOR.join(words))
                    number = numbers.setdefault(script, len(numbers) + 1)
                    forms_of[number] += 1
                of_form[form][words] = number
        scripts = list(numbers)
        rare = {form: found for form, found in counts.items() if sum(found.values()) <= _RARE}
        shared = [
            number
            for script, number in numbers.items()
            if forms_of[number] >= _LEAST_FORMS and _is_worth_it(script, number, rare, of_form)
        ]

        def is_open(form: str) -> bool:
            return any(_split(scripts[number - 1], form) for number in shared)

        members: list[list[int]] = [[_ONE_WORD], [_ONE_WORD, *shared]]
        group_of: dict[tuple[int, ...], int] = {(_ONE_WORD,): _FIXED}
        groups: dict[str, int] = {}
        for form in counts:
            if form in of_form:
                own = tuple(sorted(of_form[form].values()))
                if own not in group_of:
                    group_of[own] = len(members)
                    members.append(list(own))
                groups[form] = group_of[own]
            elif is_open(form):
                groups[form] = _FIXED
        open_forms = set(filter(is_open, rare))
        classifier = self._train(texts, scripts, members, groups, of_form, open_forms, progress)
        return MultiwordModel(scripts, classifier, groups, capitals)

    def _train(
        self,
        texts: Sequence[Analysed],
        scripts: Sequence[Script],
        members: list[list[int]],
        groups: dict[str, int],
        of_form: dict[str, dict[Words | None, int]],
        open_forms: set[str],
        progress: Progress | None,
    ) -> LinearClassifier:
        places: list[list[int]] = []
        own_groups: list[int] = []
        gold: list[int] = []
        for text in texts:
            places.append([])
            for place, (token, words) in enumerate(zip(*text, strict=True)):
                form = lower_case(token)
                group = _NEW if form in open_forms else groups.get(form, _FIXED)
                if len(members[group]) < 2:
                    continue
                number = of_form.get(form, {None: _ONE_WORD}).get(_plain(token, words), -1)
                places[-1].append(place)
                own_groups.append(group)
                gold.append(number if number in members[group] else -1)
        attributes, starts, own = _windows([text.tokens for text in texts], places)
        all_gold = numpy.full(len(attributes), -1, dtype="int32")
        all_groups = numpy.full(len(attributes), _FIXED, dtype="int32")
        all_gold[own], all_groups[own] = gold, own_groups
        classes = list(range(len(scripts) + 1))
        # all scripts have in common that there are several words
        parts: list[list[Any]] = [["one"], *(["several", number] for number in classes[1:])]
        scheme = ClassScheme.make(parts, members, classes)
        return train(
            attributes, starts, all_gold, all_groups, multiword_templates(), scheme,
            epochs=self.epochs, seed=self.seed, stage="multiword tokens", progress=progress,
        )  # fmt: skip


def multiword_templates() -> Templates:
    """What is looked at: the form and its affixes, and the tokens around it."""
    cells: list[list[Cell]] = [[(0, c)] for c in (FORM, LOWER, SHAPE, *PREFIX, *SUFFIX)]
    cells += [[(o, LOWER)] for o in (-2, -1, 1, 2)]
    cells += [[(o, c)] for o in (-1, 1) for c in (SHAPE, *SUFFIX[:4], *PREFIX[:3])]
    cells += [[(0, LOWER), (o, LOWER)] for o in (-2, -1, 1, 2)]
    cells += [[(0, LOWER), (o, c)] for o in (-1, 1) for c in (SHAPE, *SUFFIX[:4])]
    cells += [[(0, s), (o, t)] for o in (-1, 1) for s in SUFFIX[:3] for t in SUFFIX[:3]]
    cells += [[(0, LOWER), (-1, s), (1, s)] for s in SUFFIX[1:3]]
    cells += [[(-1, LOWER), (0, LOWER), (1, LOWER)]]
    cells += [[(0, LOWER), (-2, LOWER), (-1, LOWER)], [(0, LOWER), (1, LOWER), (2, LOWER)]]
    return Templates.make(cells, out_column=FORM_COLUMNS, type_columns=0)


def _split(script: Script, form: str) -> Words | None:
    """The words that a script makes of a form, if it fits and they are several."""
    text = script.apply(form)
    words = tuple(text.split(_SEPARATOR)) if text else ()
    return words if len(words) > 1 and all(map(str.strip, words)) else None


def _windows(
    texts: Sequence[Sequence[str]], places: Sequence[Sequence[int]]
) -> tuple[NDArray[numpy.uint32], NDArray[numpy.int32], NDArray[numpy.int64]]:
    """The tokens around places, each place with its own: what templates look at, where windows start
    (closed by their end), and where the places are."""
    tokens: list[str] = []
    starts, own = [0], []
    for text, of_text in zip(texts, places, strict=True):
        for place in of_text:
            first = max(place - _AROUND, 0)
            own.append(len(tokens) + place - first)
            tokens += text[first : place + _AROUND + 1]
            starts.append(len(tokens))
    attributes = Forms.of(tokens).with_columns(1)
    return attributes, numpy.array(starts, dtype="int32"), numpy.array(own, dtype="int64")


def _plain(token: str, words: Words | None) -> Words | None:
    """Words without the capitals that they have from the token."""
    if words is None or token == lower_case(token):
        return words
    if len(token) > 1 and token.isupper():
        return tuple(map(lower_case, words))
    return (lower_case(words[0][:1]) + words[0][1:], *words[1:])


def _count(texts: Iterable[Analysed]) -> dict[str, Counter[Words | None]]:
    """What forms, in small letters, are seen as."""
    counts: defaultdict[str, Counter[Words | None]] = defaultdict(Counter)
    for text in texts:
        for token, words in zip(*text, strict=True):
            counts[lower_case(token)][_plain(token, words)] += 1
    return counts


def _is_worth_it(
    script: Script,
    number: int,
    rare: dict[str, Counter[Words | None]],
    of_form: dict[str, dict[Words | None, int]],
) -> bool:
    """Whether a script is right for some share of the rare forms that it fits: nearly all forms are open to
    one that adds something in front, as few of them are several words."""
    fitting = [form for form in rare if _split(script, form)]
    right = sum(number in of_form.get(form, {}).values() for form in fitting)
    return 0 < len(fitting) <= _SLIPS * right


def _custom(texts: Iterable[Analysed]) -> bool:
    """Whether words of tokens with capitals mostly begin with a capital, too."""
    kept = [
        words[0][:1].isupper()
        for text in texts
        for token, words in zip(*text, strict=True)
        if words is not None and token[:1].isupper()
    ]
    return sum(kept) * 2 > len(kept)
