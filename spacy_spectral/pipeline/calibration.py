"""Temperatures of a parser that stands in a pipeline: fitted to a treebank, and put to the test."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
from spacy.tokens import Doc
from spacy.training import Example

from ..base.errors import Errors
from ..trees.calibration import Judged, fit_temperature, judge
from ..trees.interface import Temperature
from .documents import training_batch
from .parser import SpectralParser


class Half(NamedTuple):
    """What a parser says of one half of a treebank, as sure as the other half has taught it to be.

    temperature (Temperature): What the other half has taught.
    judged (Judged): How that fits this one.
    """

    temperature: Temperature
    judged: Judged


def fitted_temperature(
    parser: SpectralParser, docs: Sequence[Doc], references: Sequence[Doc]
) -> Temperature:
    """Find out how sure a parser should be.

    parser (SpectralParser): The parser; it is not changed.
    docs (Sequence[Doc]): Documents that it was not trained on, as it is to meet them.
    references (Sequence[Doc]): What is right.
    RETURNS (Temperature): The temperature; how trees are chosen stays as it is.
    """
    grammar = parser.grammar
    if not hasattr(grammar, "with_temperature"):
        raise ValueError(Errors.S456.format(name=parser.name))
    batch, treebank = _data(parser, docs, references)
    now = grammar.temperature
    return fit_temperature(
        parser.learner.parses_at(batch, decode=parser.decode),
        treebank,
        grammar.label_names,
        chosen_at=now.heads / now.choice,
    )


def halves(parser: SpectralParser, docs: Sequence[Doc], references: Sequence[Doc]) -> list[Half]:
    """Fit temperatures to each half of a treebank, and measure them on the other: what was fitted to some
    sentences says little of itself on the same ones.

    parser (SpectralParser), docs (Sequence[Doc]), references (Sequence[Doc]): As for `fitted_temperature`.
    RETURNS (List[Half]): Both halves, which take turns document by document: parts of a treebank that are
        harder than others tell of these, not of the parser.
    """
    is_odd = numpy.arange(len(docs)) % 2 == 1
    if not is_odd.any():
        raise ValueError(Errors.S457)
    result = []
    for inside in (~is_odd, is_odd):
        chosen = numpy.flatnonzero(inside).tolist(), numpy.flatnonzero(~inside).tolist()
        (own, gold), (others, others_gold) = (
            ([docs[i] for i in places], [references[i] for i in places]) for places in chosen
        )
        temperature = fitted_temperature(parser, others, others_gold)
        batch, treebank = _data(parser, own, gold)
        learner = parser.learner.with_temperature(temperature)
        parses = learner.parse(batch, fixed=None, decode=parser.decode)
        result.append(Half(temperature, judge(parses, treebank, parser.grammar.label_names)))
    return result


def _data(parser: SpectralParser, docs: Sequence[Doc], references: Sequence[Doc]):
    examples = [Example(doc, gold) for doc, gold in zip(docs, references, strict=True)]
    batch, treebank = training_batch(examples, docs, parser.read)
    if not (treebank.heads >= 0).any():
        raise ValueError(Errors.S457)
    return batch, treebank
