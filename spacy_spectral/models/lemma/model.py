"""Lemmas: a linear classifier chooses the edit script of a form, and what it gets wrong is looked up.

A lemma depends on the form and on how it was tagged, not on what is around it. So each reading of a form is
learnt from once for every doubling of its count, and all that was seen in training and would be lemmatized
otherwise is kept in a table of exceptions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.cache import Memory
from ...base.errors import Errors
from ...base.fields import Array, Format, Strings
from ...base.stored import Stored
from ..tagger._features import FORM_COLUMNS, form_attributes
from ..tagger.classifier import ClassScheme, LinearClassifier, classifier_fields, require_parts
from ..tagger.estimate import FeatureIndex, Progress, train
from .edits import Script, find_script
from .features import COLUMNS, LONG, LONG_SUFFIXES, MORPH, POS, TAG, lemma_templates

_CUTOFF = 2
# How many scripts are tried on a form: the best ones need not fit it.
_TRIED = 8
# Lemmas that are remembered, and the longest form that is.
_CACHE_SIZE = 50_000
_LONGEST = 64
# A script that only one form needs is an exception.
_LEAST_FORMS = 2

_FORMAT = Format(
    "lemmatizer",
    1,
    scripts=Strings("scripts", unique=True, least=1),
    pos=Strings("pos", unique=True),
    classifier=classifier_fields("scripts", "pos+1"),
    # exceptions: forms, what they were tagged as, lemmas
    forms=Strings("exceptions"),
    tags=Strings("tags", unique=True),
    form_tags=Array("int32", "exceptions", low=0, below="tags"),
    parts=Strings("parts", unique=True),
    form_parts=Array("int32", "exceptions", low=0, below="parts"),
    morphs=Strings("morphs", unique=True),
    form_morphs=Array("int32", "exceptions", low=0, below="morphs"),
    lemmas=Strings("exceptions"),
)
# Where the files have how exceptions were tagged.
_INVENTORIES = {"tags": "tag", "parts": "pos", "morphs": "morph"}


class Reading(NamedTuple):
    """A form as it was tagged."""

    form: str
    tag: str
    pos: str
    morph: str


class LemmaModel(Stored):
    """A trained lemmatizer."""

    FORMAT = _FORMAT

    def __init__(
        self,
        scripts: Sequence[Script],
        pos: Sequence[str],
        classifier: LinearClassifier,
        exceptions: dict[Reading, str],
    ):
        """scripts (Sequence[Script]): The edit scripts.
        pos (Sequence[str]): Parts of speech; group i + 1 of the classifier has the scripts of the i-th,
            group 0 all.
        classifier (LinearClassifier): Chooses scripts.
        exceptions (Dict[Reading, str]): Lemmas that are looked up.
        """
        self.scripts = list(scripts)
        self._groups = {name: i + 1 for i, name in enumerate(pos)}
        self._classifier = classifier
        self._exceptions = exceptions
        self._memory = Memory(_CACHE_SIZE)
        self._no_scores = classifier.word_scores(numpy.zeros((1, COLUMNS), dtype="uint32"))

    @classmethod
    def fit(
        cls,
        readings: Iterable[tuple[Reading, str]],
        *,
        epochs: int = 10,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> "LemmaModel":
        """Train a lemmatizer.

        readings (Iterable[Tuple[Reading, str]]): Tagged forms with their lemmas, each as often as it occurs.
        epochs (int): Passes over them.
        seed (int): Seed of their order.
        progress (Optional[Callable[[Epoch], None]]): Called after every epoch.
        RETURNS (LemmaModel): The trained lemmatizer.
        """
        counts = Counter(readings)
        if not counts:
            raise ValueError(Errors.S606)
        script_of = {
            (form, lemma): find_script(form, lemma)
            for form, lemma in dict.fromkeys((reading.form, lemma) for reading, lemma in counts)
        }
        used = Counter(script_of.values())
        least = _LEAST_FORMS if max(used.values()) >= _LEAST_FORMS else 1
        scripts = [script for script, n in used.items() if n >= least]
        numbers = {script: i for i, script in enumerate(scripts)}
        gold = [numbers.get(script_of[reading.form, lemma], -1) for reading, lemma in counts]

        groups: defaultdict[str, set[int]] = defaultdict(set)
        for (reading, _), script in zip(counts, gold, strict=True):
            if script >= 0:
                groups[reading.pos].add(script)
        pos = sorted(groups)
        # a script scores as itself and as what it does to case
        parts = [[("script", i), ("case", script.case)] for i, script in enumerate(scripts)]
        everything = list(range(len(scripts)))
        members = [everything, *(sorted(groups[name]) for name in pos)]
        scheme = ClassScheme.make(parts, members, everything)

        repeats = numpy.array([count.bit_length() for count in counts.values()])
        rows = numpy.repeat(numpy.arange(len(counts)), repeats)
        attributes = _attributes([reading for reading, _ in counts])[rows]
        group_of = {name: i + 1 for i, name in enumerate(pos)}
        own_groups = [group_of.get(reading.pos, 0) for reading, _ in counts]
        # every form is a sequence of its own: the order is random
        starts = numpy.arange(len(rows) + 1, dtype="int32")
        templates = lemma_templates()
        index = FeatureIndex.make(
            attributes, starts, templates, numpy.ones(len(templates.cells), bool)
        )
        classifier = train(
            attributes, starts,
            numpy.array(gold, dtype="int32")[rows], numpy.array(own_groups, dtype="int32")[rows],
            index=index, templates=templates, scheme=scheme, epochs=epochs, cutoff=_CUTOFF,
            seed=seed, stage="lemmas", progress=progress,
        )  # fmt: skip
        model = cls(scripts, pos, classifier, {})
        return cls(scripts, pos, classifier, model._wrong(counts))

    def _wrong(self, counts: Counter[tuple[Reading, str]]) -> dict[Reading, str]:
        """The readings of training that the classifier gets wrong, with their most frequent lemmas."""
        lemmas: defaultdict[Reading, list[tuple[int, str]]] = defaultdict(list)
        for (reading, lemma), count in counts.items():
            lemmas[reading].append((count, lemma))
        best = {reading: max(found, key=lambda x: x[0])[1] for reading, found in lemmas.items()}
        found = self.lemmatize(list(best))
        return {r: best[r] for r, lemma in zip(best, found, strict=True) if lemma != best[r]}

    def lemmatize(self, readings: Sequence[Reading]) -> list[str]:
        """Give lemmas.

        readings (Sequence[Reading]): Tagged forms.
        RETURNS (List[str]): Their lemmas; white space, and a form that no script fits, is its own.
        """
        result = [
            reading.form if reading.form.isspace() else self._exceptions.get(reading, "")
            for reading in readings
        ]
        rest = [i for i, lemma in enumerate(result) if not lemma]
        if rest:
            chosen = self._choose([readings[i] for i in rest]).tolist()
            for i, scripts in zip(rest, chosen, strict=True):
                result[i] = self._first_that_fits(readings[i].form, scripts)
        return result

    def recall(self, keys: Sequence[int], read: Callable[[list[int]], list[Reading]]) -> list[str]:
        """Give lemmas of readings most of which were met before: these need not even be read.

        keys (Sequence[int]): A number for each reading, the same one for the same reading.
        read (Callable[[List[int]], List[Reading]]): Gives those at some places.
        RETURNS (List[str]): Their lemmas.
        """
        get = self._memory.known.get
        result: list[str] = [get(key, "") for key in keys]
        rest = [i for i, lemma in enumerate(result) if not lemma]
        if rest:
            readings = read(rest)
            found = self.lemmatize(readings)
            for i, lemma in zip(rest, found, strict=True):
                result[i] = lemma
            rows = zip(rest, readings, found, strict=True)
            self._memory.add({keys[i]: lemma for i, r, lemma in rows if len(r.form) <= _LONGEST})
        return result

    def _choose(self, readings: Sequence[Reading]) -> NDArray[numpy.int32]:
        """The best scripts of readings, -1 for none."""
        n = len(readings)
        groups = [self._groups.get(reading.pos, 0) for reading in readings]
        return self._classifier.decide(
            _attributes(readings), numpy.arange(n + 1, dtype="int32"),
            numpy.zeros(n, dtype="int32"), self._no_scores,
            numpy.array(groups, dtype="int32"), top=_TRIED,
        ).labels  # fmt: skip

    def _first_that_fits(self, form: str, scripts: list[int]) -> str:
        for script in scripts:
            lemma = self.scripts[script].apply(form) if script >= 0 else None
            if lemma:
                return lemma
        return form

    def to_payload(self) -> dict[str, Any]:
        readings = list(self._exceptions)
        payload: dict[str, Any] = {
            "scripts": [script.to_str() for script in self.scripts],
            "pos": list(self._groups),
            "classifier": self._classifier.to_payload(),
            "forms": [reading.form for reading in readings],
            "lemmas": list(self._exceptions.values()),
        }
        for name, attribute in _INVENTORIES.items():
            values = [getattr(reading, attribute) for reading in readings]
            payload[name], payload[f"form_{name}"] = _numbered(values)
        return payload

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LemmaModel":
        require_parts(_FORMAT, "classifier", read["classifier"])
        scripts = []
        for text in read["scripts"]:
            try:
                scripts.append(Script.from_str(text))
            except (ValueError, TypeError, RecursionError):
                _FORMAT.require(False, "scripts", f"has {text[:80]!r}, which is no edit script")
        _FORMAT.require(all(read["lemmas"]), "lemmas", "has an empty lemma")
        columns = ([read[name][i] for i in read[f"form_{name}"].tolist()] for name in _INVENTORIES)
        exceptions = dict(zip(map(Reading, read["forms"], *columns), read["lemmas"], strict=True))
        classifier = LinearClassifier.from_payload(read["classifier"], lemma_templates())
        return cls(scripts, read["pos"], classifier, exceptions)


def _attributes(readings: Sequence[Reading]) -> NDArray[numpy.uint32]:
    """What `lemma_templates` look at, one row a reading."""
    result = numpy.zeros((len(readings), COLUMNS), dtype="uint32")
    result[:, :FORM_COLUMNS] = form_attributes([reading.form for reading in readings])
    for column, length in zip(LONG, LONG_SUFFIXES, strict=True):
        longer = [i for i, reading in enumerate(readings) if len(reading.form) > length]
        endings = [readings[i].form[-length:].lower() for i in longer]
        result[longer, column] = form_attributes(endings)[:, 0]
    columns: Any = ((TAG, "tag"), (POS, "pos"), (MORPH, "morph"))
    for column, name in columns:
        names, rows = _numbered([getattr(reading, name) for reading in readings])
        result[:, column] = form_attributes(names)[rows, 0]
    return result


def _numbered(values: Sequence[str]) -> tuple[list[str], NDArray[numpy.int32]]:
    numbers: dict[str, int] = {}
    rows = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), numpy.array(rows, dtype="int32")
