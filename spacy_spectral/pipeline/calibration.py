"""Temperatures of a parser that stands in a pipeline: fitted to a treebank, and put to the test."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy
from spacy.tokens import Doc
from spacy.training import Example

from ..base.errors import Errors, SpectralError
from ..trees.calibration import Judged, fit_sharpness, fit_temperature, judge
from ..trees.interface import Parses, Temperature
from ..trees.sentences import Batch, Treebank
from .documents import TokenReader, training_batch
from .parser import MixedLearner, SpectralParser
from .reranker import SpectralReranker


class Half(NamedTuple):
    """How a parser's probabilities fit one half of a treebank, at the other half's temperature."""

    temperature: Temperature
    judged: Judged


class _Data(NamedTuple):
    """The parses at any temperature, gold trees, and the labels of parses."""

    at: Callable[[Temperature], Parses]
    treebank: Treebank
    names: list[str]


def fitted_temperature(
    component: SpectralParser | SpectralReranker, docs: Sequence[Doc], references: Sequence[Doc]
) -> Temperature:
    """The temperature that fits a parser, or a second stage over forests, best to documents that it was not
    trained on. How trees are chosen stays as it is."""
    data = _data(component, docs, references)
    if isinstance(component, SpectralReranker):
        return _of_forests(
            fit_sharpness(lambda t: data.at(_of_forests(t)), data.treebank, data.names)
        )
    now = component.grammar.temperature
    return fit_temperature(data.at, data.treebank, data.names, chosen_at=now.heads / now.choice)


def learnt_weights(
    component: SpectralParser | SpectralReranker, docs: Sequence[Doc], references: Sequence[Doc]
) -> dict[str, float] | None:
    """Let a product with an expert that is trained step by step learn how much each expert counts, from
    documents that none was trained on; None for other components, which learn that when they are trained."""
    if not (isinstance(component, SpectralParser) and isinstance(component.learner, MixedLearner)):
        return None
    batch, treebank = _gold(component.read, docs, references)
    return component.learner.learn_weights(batch, treebank)


def keep_temperature(
    component: SpectralParser | SpectralReranker, temperature: Temperature
) -> None:
    """Give a parser, or a second stage, another temperature."""
    if isinstance(component, SpectralReranker):
        component.learn(component.reranker.with_temperature(temperature.heads))
    else:
        component.learner.keep_temperature(temperature)


def _of_forests(temperature: float) -> Temperature:
    """A second stage has one temperature, and chooses trees at 1."""
    return Temperature(temperature, temperature, temperature)


def halves(
    component: SpectralParser | SpectralReranker, docs: Sequence[Doc], references: Sequence[Doc]
) -> list[Half]:
    """Fit temperatures to each half of a treebank, and measure them on the other: on the sentences that they
    were fitted to, they would look too good. The halves take turns document by document, since parts of a
    treebank can be harder than others."""
    is_odd = numpy.arange(len(docs)) % 2 == 1
    if not is_odd.any():
        raise SpectralError(Errors.S457)
    result = []
    for inside in (~is_odd, is_odd):
        chosen = numpy.flatnonzero(inside).tolist(), numpy.flatnonzero(~inside).tolist()
        (own, gold), (others, others_gold) = (
            ([docs[i] for i in places], [references[i] for i in places]) for places in chosen
        )
        temperature = fitted_temperature(component, others, others_gold)
        data = _data(component, own, gold)
        result.append(Half(temperature, judge(data.at(temperature), data.treebank, data.names)))
    return result


def _gold(
    read: TokenReader, docs: Sequence[Doc], references: Sequence[Doc]
) -> tuple[Batch, Treebank]:
    """What a parser sees of documents, and their trees."""
    examples = [Example(doc, gold) for doc, gold in zip(docs, references, strict=True)]
    batch, treebank = training_batch(examples, docs, read)
    if not (treebank.heads >= 0).any():
        raise SpectralError(Errors.S457)
    return batch, treebank


def _data(
    component: SpectralParser | SpectralReranker, docs: Sequence[Doc], references: Sequence[Doc]
) -> _Data:
    parser: SpectralParser
    if isinstance(component, SpectralReranker):
        source = component.forest_source(docs)
        parser, read = source.parser, source.read
    else:
        parser, read = component, component.read
        if parser.grammar.temperature is None:
            raise SpectralError(Errors.S456.format(name=parser.name))
    batch, treebank = _gold(parser.read, docs, references)
    names = list(parser.grammar.label_names)
    if not isinstance(component, SpectralReranker):
        return _Data(parser.learner.parses_at(batch), treebank, names)
    base = parser.learner.parse(batch)
    tokens = batch.tokens if read is parser.read else _gold(read, docs, references)[0].tokens
    stage = component.reranker

    def at(temperature: Temperature) -> Parses:
        return stage.with_temperature(temperature.heads).parse(tokens, base, names)

    return _Data(at, treebank, names)
