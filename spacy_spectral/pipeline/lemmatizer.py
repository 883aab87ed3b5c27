"""The pipeline component `spectral_lemmatizer`."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy
import srsly
from numpy.typing import NDArray
from spacy.attrs import LEMMA, MORPH, ORTH, POS, TAG
from spacy.language import Language
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.symbols import IDS
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..base.errors import Errors, SpectralError, reason_of
from ..base.progress import EpochBar
from ..models.linear.analyses import LemmaTable, read_analyses
from ..models.linear.lemmatizer import Reading
from .component import SpectralPipe
from .documents import string_finder, string_values
from .training_data import aligned, annotated_by, jackknifed, with_gold_tags

# The table of spaCy's lookups that has lemmas, and files that have such tables.
_TABLE = "lemma_lookup"
_JSON = re.compile(r"\.json(\.gz)?$", re.IGNORECASE)
_SYMBOLS = {key: name for name, key in IDS.items()}
# How an analysis without features is written in the string store.
_NO_FEATURES = "_"
_COLUMNS = [ORTH, TAG, POS, MORPH]
# Multipliers that make one number of the values of a token.
_MIX = numpy.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53],
    dtype="uint64",
)


class SpectralLemmatizer(SpectralPipe):
    """Assigns lemmas, by forms and how they were tagged: something before it should set tags."""

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_lemmatizer",
        *,
        overwrite: bool = False,
        annotate_with: Sequence[str] = (),
        jackknife: str | None = None,
        scorer: Callable | None = None,
    ):
        """overwrite: Whether to replace lemmas that are already there.
        annotate_with: Components to run over the training documents, so that lemmas are learnt on tags
        like those they will meet, too: components that were trained before.
        jackknife: A `spectral_tagger` that is trained in the same run, whose tags of text that it has
        not seen lemmas are learnt on, too."""
        super().__init__(vocab, model, name, scorer=scorer)
        self.overwrite = overwrite
        self.annotate_with = list(annotate_with)
        self.jackknife = jackknife

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        lexicon: str | Path | None = None,
    ) -> None:
        """Learn from the lemmas of all training examples; this is the whole training.

        lexicon: A file with tabs between form, lemma, part of speech and features, or JSON with the lemmas
            of forms (.json, .json.gz): lemmas of more forms. By default the table "lemma_lookup" of the
            vocabulary's lookups, if there is one.
        """
        is_table = lexicon is None or _JSON.search(str(lexicon))
        analyses = [] if lexicon is None or is_table else read_analyses(lexicon)
        lemmas = lookup_lemmas(self.vocab, lexicon) if is_table else None
        table = LemmaTable.of(lemmas) if lemmas is not None else None
        examples = self.training_examples(get_examples, nlp)
        tagged: Iterable[Doc] | None = None
        if any(eg.reference.has_annotation("LEMMA") for eg in examples):
            if self.jackknife is not None:
                tagged = jackknifed(
                    self.jackknife, examples, nlp, parser=self.name, report=self.report
                )
            elif self.annotate_with:
                tagged = annotated_by(self.annotate_with, examples, nlp, parser=self.name)
        readings, predicted = (
            [] if docs is None else list(_gold_readings(examples, docs))
            for docs in (with_gold_tags(examples), tagged)
        )
        given = {"predicted": predicted, "lexicon": analyses, "table": table}
        with EpochBar(self.name, self.recipe.epochs) as progress:
            self.learn(self.recipe.fit(readings, **given, progress=progress))

    def predict(self, docs: Iterable[Doc]) -> list[NDArray[numpy.uint64]]:
        """The lemma of each token, as hashes, without changing documents; that of white space is itself."""
        docs = list(docs)
        read = _Readings(docs)
        lemmas = self.learnt.recall(read.keys, read)
        values = string_values(docs, lemmas)[read.which]
        offsets = numpy.cumsum([0, *map(len, docs)]).tolist()
        return [values[begin:end] for begin, end in pairwise(offsets)]

    def set_annotations(self, docs: Iterable[Doc], scores: list[NDArray[numpy.uint64]]) -> None:
        """Write lemmas, from `predict`."""
        for doc, values in zip(docs, scores, strict=True):
            if len(doc):
                if not self.overwrite:
                    given = doc.to_array([LEMMA]).ravel()
                    values = numpy.where(given != 0, given, values)
                doc.from_array([LEMMA], values)


def lookup_lemmas(vocab: Vocab, path: str | Path | None) -> dict[int, list[str]] | None:
    """The lemmas of forms, by the hash of the form, that a JSON file has, or else spaCy's lookups; None if
    there are none."""
    if path is None:
        if not vocab.lookups.has_table(_TABLE):
            return None
        table = vocab.lookups.get_table(_TABLE)
        # the keys of tables are hashes, but for words that are names of symbols, as "case" is
        found = {_SYMBOLS.get(key, key): lemma for key, lemma in table.items()}
        path = _TABLE
    else:
        try:
            found = (
                srsly.read_gzip_json(path) if str(path).endswith(".gz") else srsly.read_json(path)
            )
        except (OSError, ValueError, EOFError, zlib.error) as error:
            reason = reason_of(error)
            raise SpectralError(Errors.S307.format(path=path, reason=reason)) from error
        if not isinstance(found, dict):
            raise SpectralError(Errors.S311.format(path=path, value=found))
    lemmas = {}
    for form, own in found.items():
        listed = [own] if isinstance(own, str) else own
        if not isinstance(listed, list | tuple) or not all(
            isinstance(lemma, str) and lemma for lemma in listed
        ):
            raise SpectralError(Errors.S311.format(path=path, value={form: own}))
        lemmas[hash_string(form) if isinstance(form, str) else int(form)] = list(listed)
    return lemmas


class _Readings:
    """The distinct readings of documents: a number for each of them (`keys`), and which of them each
    token has."""

    def __init__(self, docs: list[Doc]):
        arrays = [doc.to_array(_COLUMNS).reshape(-1, 4) for doc in docs]
        array = numpy.concatenate([numpy.zeros((0, 4), dtype="uint64"), *arrays])
        # one number a token: sorting rows of four would take longer than all the rest
        keys = array * _MIX
        mixed = (keys ^ (keys >> numpy.uint64(31))).sum(axis=1, dtype="uint64")
        distinct, first, which = numpy.unique(mixed, return_index=True, return_inverse=True)
        self.keys: list[int] = distinct.tolist()
        self.which = which.ravel()
        self._values = array[first]
        self._find = string_finder(docs)

    def __call__(self, places: list[int]) -> list[Reading]:
        """Some of the readings."""
        return [_reading(*map(self._find, row)) for row in self._values[places].tolist()]


def _reading(form: str, tag: str, pos: str, morph: str) -> Reading:
    return Reading(form, tag, pos, "" if morph == _NO_FEATURES else morph)


def _gold_readings(
    examples: Iterable[Example], docs: Iterable[Doc]
) -> Iterator[tuple[Reading, str]]:
    """Forms as they are tagged in documents, with their gold lemmas."""
    for example, doc in zip(examples, docs, strict=True):
        if len(doc):
            read = _Readings([doc])
            readings = read(list(range(len(read.keys))))
            for i, lemma in zip(read.which.tolist(), aligned(example, LEMMA), strict=True):
                if lemma and not readings[i].form.isspace():
                    yield readings[i], lemma
