"""Lemmas: what was seen is looked up, and a linear classifier chooses the edit scripts of other forms.

A lemma depends on the form and on how it was tagged, not on what is around it. So each reading of a form is
learnt from once for every doubling of its count. The lemma of a reading is, in this order:

1. what a table of exceptions has for the reading (form, tag, part of speech and morphology);
2. the most frequent lemma of the form with this part of speech, or else the first one in the lexicon;
3. if the classifier gets this form wrong, the most frequent lemma of the form;
4. if the form is new, the lemma of the same form in small letters with this part of speech;
5. what the classifier says: of the lemmas that its best scripts make, the one with the highest probability,
   where those that are lemmas of this part of speech in training or in the lexicon count more, and those that
   a table has for the form.

Such a table may be large, and tells no parts of speech. A part of speech trusts it as far as it is right
about rare forms of the training data (q of n): what it says has a probability of `_LOOKED_UP` at least, which
counts q / (n - q) times as much, if that is more than 1. With the tables of PyPI's spacy-lookups-data, gold
tags, 2 blocks of 5 of the training sets (of UD_English-EWT 6,000 sentences), lemmas without and with it:
Turkish 97.4, 98.3, Italian 98.7, 99.1, French 98.7, 98.8, English 99.0, 99.0 (each form counted twice).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.cache import Memory
from ...base.errors import Errors, SpectralError
from ...base.files import Array, Float, Format, Record, Stored, Strings
from ...base.learnt import architecture
from ._strings import FORM_COLUMNS, form_attributes
from .analyses import Analysis, LemmaTable
from .classifier import (
    FORM,
    LOWER,
    PREFIX,
    SHAPE,
    SUFFIX,
    Cell,
    ClassScheme,
    Decisions,
    LinearClassifier,
    Progress,
    Templates,
    classifier_fields,
    numbered,
    train,
)
from .edits import Script, find_script, lower_case
from .stems import LONG_SUFFIXES, hashes, long_suffixes

LONG = range(FORM_COLUMNS, FORM_COLUMNS + len(LONG_SUFFIXES))
TAG, POS, MORPH = range(LONG.stop, LONG.stop + 3)
# The last column is for decisions, which none looks at: a lemma does not depend on others.
COLUMNS = MORPH + 2
# How many scripts are tried on a form: the best ones need not fit it, or not give a lemma that is known. Of
# Turkish 8 find 96.8 % of lemmas, 16 97.2, 32 97.3 (2 blocks of 5 of the training set, gold tags).
_TRIED = 32
# How much more probable a lemma is that training has. Lemmas with 100, 30, 1: Turkish 97.3, 97.1, 93.6,
# Italian 98.7, 98.7, 98.5, French 98.8, 98.8, 98.5, English 99.0, 99.0, 98.9 (the same blocks).
_KNOWN_FACTOR = 100.0
# Lemmas that are remembered, and the longest form that is.
_CACHE_SIZE = 50_000
_LONGEST = 64
# A script that fewer forms need is taken less literally; if that does not help, their lemma is an exception.
_LEAST_FORMS = 2
# A part of speech keeps capitals if this share of its capitalised forms does. Tags by a tagger count, too, so
# that some words are no proper nouns: there 78 % (Turkish) to 95 % (Italian) do, elsewhere 51 % at most.
_KEPT_CAPITALS = 2 / 3
_LOOKED_UP = 0.1
# Forms that are not learnt from more often are like those that are new. Most are learnt from twice: by gold
# and by predicted tags.
_RARE = 4
# As a part of speech: whichever it is.
_ANY = ""

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
    # files of older versions have none of these: forms with parts of speech, lemmas; who keeps capitals; how
    # much more probable lemmas of training are
    known_forms=Strings("known", optional=True),
    known_parts=Strings("known_parts", unique=True, optional=True),
    form_known_parts=Array("int32", "known", low=0, below="known_parts", optional=True),
    known_lemmas=Strings("known", optional=True),
    capitals=Strings(unique=True, optional=True),
    known_factor=Float(low=1.0, high=1e6, optional=True),
    # whether it is known from gold tags that the form is of this part of speech
    known_for_sure=Array("bool", "known", optional=True),
    # only of models with a table: which of its lemmas forms have, by key; how much parts of speech trust it
    table=Record(
        lemmas=Strings("table_lemmas"),
        keys=Array("uint64", "table", order="ascending"),
        rows=Array("int32", "table", low=0, below="table_lemmas"),
        parts=Strings("table_parts", unique=True),
        trust=Array("float64", "table_parts", low=1.0, high=1e9),
        optional=True,
    ),
)
# Where the files have known forms.
_KNOWN = ("known_forms", "known_parts", "form_known_parts", "known_lemmas")
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
        known: dict[tuple[str, str], str] | None = None,
        capitals: Collection[str] = (),
        known_factor: float = _KNOWN_FACTOR,
        table: LemmaTable | None = None,
        trust: dict[str, float] | None = None,
        unsure: Collection[tuple[str, str]] = (),
    ):
        """pos: Parts of speech; group i + 1 of the classifier has the scripts of the i-th, group 0 all.
        known_factor: How much more probable a lemma is that training has with its part of speech.
        table: Lemmas of forms; trust: how much more probable they are, by part of speech.
        unsure: Which known forms and parts of speech are of predicted tags alone; their lemmas need not be
            of this part of speech.
        """
        self.scripts = list(scripts)
        self._groups = {name: i + 1 for i, name in enumerate(pos)}
        self._classifier = classifier
        self._exceptions = exceptions
        self._known = known or {}
        self._known_forms = frozenset(form for form, _ in self._known)
        self._unsure = frozenset(unsure)
        self._known_lemmas = frozenset(
            (lemma, key[1]) for key, lemma in self._known.items() if key not in self._unsure
        )
        self._known_factor = known_factor
        self._capitals = frozenset(capitals)
        self._table, self._trust = table, trust or {}
        self._memory = Memory(_CACHE_SIZE)
        self._no_scores = classifier.word_scores(numpy.zeros((1, COLUMNS), dtype="uint32"))

    def _wrong(self, lemmas: dict[Reading, str]) -> dict[Reading, str]:
        """Those readings whose lemma is another one."""
        found = self.lemmatize(list(lemmas))
        return {r: lemmas[r] for r, lemma in zip(lemmas, found, strict=True) if lemma != lemmas[r]}

    def lemmatize(self, readings: Sequence[Reading]) -> list[str]:
        """The lemmas of tagged forms; white space, and a form that no script fits, is its own."""
        result = [self._look_up(reading) for reading in readings]
        rest = [i for i, lemma in enumerate(result) if not lemma]
        if rest:
            chosen = self._choose([readings[i] for i in rest])
            scripts, probs = chosen.labels.tolist(), chosen.probs.tolist()
            for i, own, own_probs in zip(rest, scripts, probs, strict=True):
                result[i] = self._best_that_fits(readings[i], own, own_probs)
        return result

    def _look_up(self, reading: Reading) -> str:
        """The lemma of a reading if no classifier is needed for it, else an empty string."""
        form, _, pos, _ = reading
        if form.isspace():
            return form
        if lemma := self._exceptions.get(reading):
            return lemma
        if form in self._known_forms:
            return self._known.get((form, pos)) or self._known.get((form, _ANY), "")
        return "" if pos in self._capitals else self._known.get((lower_case(form), pos), "")

    def recall(self, keys: Sequence[int], read: Callable[[list[int]], list[Reading]]) -> list[str]:
        """Give lemmas of readings, each with a number that is its own, most of which were met before:
        these need not even be read."""
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

    def _choose(self, readings: Sequence[Reading]) -> Decisions:
        """The best scripts of readings, -1 for none."""
        n = len(readings)
        groups = [self._groups.get(reading.pos, 0) for reading in readings]
        return self._classifier.decide(
            _attributes(readings), numpy.arange(n + 1, dtype="int32"),
            numpy.zeros(n, dtype="int32"), self._no_scores,
            numpy.array(groups, dtype="int32"), top=_TRIED,
        )  # fmt: skip

    def _best_that_fits(self, reading: Reading, scripts: list[int], probs: list[float]) -> str:
        """The most probable lemma that scripts make of a form, the form itself if none fits it."""
        form, pos = reading.form, reading.pos
        keeps_capital = form[:1].isupper() and pos in self._capitals
        trust = self._trust.get(pos, 1.0)
        looked_up = table_lemmas(self._table, reading, self._capitals)
        best, highest = form, 0.0
        for lemma in looked_up:
            if _LOOKED_UP * trust > highest:
                best, highest = lemma, _LOOKED_UP * trust
        for script, prob in zip(scripts, probs, strict=True):
            # they come in order: no later one can win
            if prob * self._known_factor * trust <= highest:
                break
            made = self.scripts[script].apply(form) if script >= 0 else None
            if made and not (keeps_capital and made[0].islower()):
                if (made, pos) in self._known_lemmas:
                    prob *= self._known_factor
                if made in looked_up:
                    prob = max(prob, _LOOKED_UP) * trust
                if prob > highest:
                    best, highest = made, prob
        return best

    def to_payload(self) -> dict[str, Any]:
        readings = list(self._exceptions)
        payload: dict[str, Any] = {
            "scripts": [script.to_str() for script in self.scripts],
            "pos": list(self._groups),
            "classifier": self._classifier.to_payload(),
            "forms": [reading.form for reading in readings],
            "lemmas": list(self._exceptions.values()),
            "known_forms": [form for form, _ in self._known],
            "known_lemmas": list(self._known.values()),
            "known_for_sure": numpy.array([key not in self._unsure for key in self._known], bool),
            "capitals": sorted(self._capitals),
            "known_factor": self._known_factor,
            "table": self._table
            and {
                "keys": self._table.keys,
                "rows": self._table.rows,
                "lemmas": self._table.lemmas,
                "parts": list(self._trust),
                "trust": numpy.array(list(self._trust.values()), dtype="float64"),
            },
        }
        parts = numbered([pos for _, pos in self._known])
        payload["known_parts"], payload["form_known_parts"] = parts
        for name, attribute in _INVENTORIES.items():
            values = [getattr(reading, attribute) for reading in readings]
            payload[name], payload[f"form_{name}"] = numbered(values)
        return payload

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "LemmaModel":
        scripts = []
        for text in read["scripts"]:
            try:
                scripts.append(Script.from_str(text))
            except (ValueError, TypeError, RecursionError):
                _FORMAT.require(False, "scripts", f"has {text[:80]!r}, which is no edit script")
        for name in ("lemmas", "known_lemmas"):
            _FORMAT.require(all(read[name] or ()), name, "has an empty lemma")
        columns = ([read[name][i] for i in read[f"form_{name}"].tolist()] for name in _INVENTORIES)
        exceptions = dict(zip(map(Reading, read["forms"], *columns), read["lemmas"], strict=True))
        classifier = LinearClassifier.from_payload(_FORMAT, "classifier", read, lemma_templates())
        fields = [read[name] for name in _KNOWN]
        are_missing = [field is None for field in fields]
        _FORMAT.require(all(are_missing) or not any(are_missing), "known_forms", "is incomplete")
        forms, parts, form_parts, lemmas = ([] if field is None else field for field in fields)
        pairs = [(form, parts[i]) for form, i in zip(forms, form_parts, strict=True)]
        known = dict(zip(pairs, lemmas, strict=True))
        sure = read["known_for_sure"]
        unsure = [] if sure is None else list(compress(pairs, ~sure))
        factor = read["known_factor"] or 1.0
        table, trust = None, None
        if own := read["table"]:
            _FORMAT.require(all(own["lemmas"]), "table.lemmas", "has an empty lemma")
            table = LemmaTable(own["keys"], own["rows"], own["lemmas"])
            trust = dict(zip(own["parts"], own["trust"].tolist(), strict=True))
        return cls(
            scripts, read["pos"], classifier, exceptions, known, read["capitals"] or (), factor,
            table, trust, unsure,
        )  # fmt: skip


@dataclass(frozen=True)
class LemmatizerRecipe:
    """The settings of a linear model that chooses edit scripts, with a table of exceptions."""

    epochs: int = 10
    seed: int = 0

    def fit(
        self,
        readings: Iterable[tuple[Reading, str]],
        *,
        predicted: Iterable[tuple[Reading, str]] = (),
        lexicon: Iterable[Analysis] = (),
        table: LemmaTable | None = None,
        progress: Progress | None = None,
    ) -> LemmaModel:
        """Train a lemmatizer on tagged forms with their lemmas, each as often as it occurs: with gold tags,
        and with predicted ones. A lexicon is looked up for forms that are not among them; what a table says
        of these is weighed."""
        counts = Counter(readings)
        sure = {(reading.form, reading.pos) for reading, _ in counts}
        counts.update(predicted)
        if not counts:
            raise SpectralError(Errors.S606)
        script_of = {
            (form, lemma): find_script(form, lemma)
            for form, lemma in dict.fromkeys((reading.form, lemma) for reading, lemma in counts)
        }
        used = Counter(script_of.values())
        least = _LEAST_FORMS if max(used.values()) >= _LEAST_FORMS else 1
        # what only one form needs may fit others if it is taken less literally
        script_of = {
            pair: script if used[script] >= least else script.loosened()
            for pair, script in script_of.items()
        }
        used = Counter(script_of.values())
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
        classifier = train(
            attributes, starts,
            numpy.array(gold, dtype="int32")[rows], numpy.array(own_groups, dtype="int32")[rows],
            lemma_templates(), scheme,
            epochs=self.epochs, seed=self.seed, stage="lemmas", progress=progress,
        )  # fmt: skip
        model = partial(LemmaModel, scripts, pos, classifier)
        best = _most_frequent(counts, lambda reading: reading)
        irregular = {reading.form for reading in model({})._wrong(best)}
        lexicon = list(lexicon)
        known: dict[tuple[str, str], str] = {}
        for form, lemma, name, _ in lexicon:
            known.setdefault((form, name), lemma)
        known |= _most_frequent(counts, lambda reading: (reading.form, reading.pos))
        of_form = _most_frequent(counts, lambda reading: reading.form)
        known |= {(form, _ANY): lemma for form, lemma in of_form.items() if form in irregular}
        sure |= {(form, name) for form, _, name, _ in lexicon}
        capitals = _with_capitals(counts)
        trust = _trust(table, counts, capitals) if table is not None else None
        model = partial(model, table=table, trust=trust, unsure=known.keys() - sure)
        exceptions = model({}, known, capitals)._wrong(best)
        return model(exceptions, known, capitals)


build_linear_lemmatizer = architecture("linear_lemmatizer", LemmaModel, LemmatizerRecipe)


def lemma_templates() -> Templates:
    """What is looked at to choose the lemma of a form: the form, its affixes, and how it was tagged."""
    cells: list[list[Cell]] = [
        [(0, c)] for c in (TAG, POS, MORPH, FORM, LOWER, SHAPE, *PREFIX[:3], *SUFFIX)
    ]
    cells += [
        [(0, a), (0, b)] for a in (TAG, POS, MORPH) for b in (LOWER, SHAPE, *PREFIX[:2], *SUFFIX)
    ]
    cells += [[(0, c)] for c in LONG] + [[(0, a), (0, c)] for a in (POS, MORPH) for c in LONG]
    cells += [[(0, TAG), (0, SHAPE), (0, s)] for s in SUFFIX[:3]]
    cells += [[(0, POS), (0, MORPH), (0, s)] for s in (LOWER, *SUFFIX)]
    cells += [[(0, TAG), (0, PREFIX[0]), (0, s)] for s in SUFFIX[:3]]
    return Templates.make(cells, out_column=MORPH + 1, type_columns=0)


def _most_frequent(
    counts: Counter[tuple[Reading, str]], part: Callable[[Reading], Any]
) -> dict[Any, str]:
    """The most frequent lemma by some part of readings, the first of several."""
    lemmas: defaultdict[Any, Counter[str]] = defaultdict(Counter)
    for (reading, lemma), count in counts.items():
        lemmas[part(reading)][lemma] += count
    return {key: found.most_common(1)[0][0] for key, found in lemmas.items()}


def _with_capitals(counts: Iterable[tuple[Reading, str]]) -> list[str]:
    """The parts of speech whose lemmas keep the capital that a form begins with."""
    pairs = {(reading.pos, reading.form, lemma) for reading, lemma in counts}
    is_kept: defaultdict[str, list[bool]] = defaultdict(list)
    for pos, form, lemma in pairs:
        if form[0].isupper():
            is_kept[pos].append(not lemma[0].islower())
    return sorted(pos for pos, kept in is_kept.items() if sum(kept) > _KEPT_CAPITALS * len(kept))


def table_lemmas(
    table: LemmaTable | None, reading: Reading, capitals: Collection[str]
) -> list[str]:
    """The lemmas that a table has for a form, or for the same form in small letters."""
    if table is None:
        return []
    found = table[reading.form]
    if not found and not (reading.form[:1].isupper() and reading.pos in capitals):
        found = table[lower_case(reading.form)]
    return found


def _trust(
    table: LemmaTable, counts: Counter[tuple[Reading, str]], capitals: Collection[str]
) -> dict[str, float]:
    """How much more probable a lemma is that a table has, by part of speech."""
    of_form: Counter[str] = Counter()
    for (reading, _), count in counts.items():
        of_form[reading.form] += count
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for reading, lemma in counts:
        if of_form[reading.form] <= _RARE:
            found = table_lemmas(table, reading, capitals)
            (right if lemma in found else wrong)[reading.pos] += bool(found)
    return {pos: max(1.0, (right[pos] + 1) / (wrong[pos] + 1)) for pos in sorted({*right, *wrong})}


def _attributes(readings: Sequence[Reading]) -> NDArray[numpy.uint32]:
    """What `lemma_templates` look at, one row a reading."""
    result = numpy.zeros((len(readings), COLUMNS), dtype="uint32")
    result[:, :FORM_COLUMNS] = form_attributes([reading.form for reading in readings])
    result[:, LONG] = long_suffixes([reading.form for reading in readings])
    columns: Any = ((TAG, "tag"), (POS, "pos"), (MORPH, "morph"))
    for column, name in columns:
        names, rows = numbered([getattr(reading, name) for reading in readings])
        result[:, column] = hashes(names)[rows]
    return result
