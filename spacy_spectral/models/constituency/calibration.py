"""How confident a parser for constituents may be, by trees that it was not trained on.

Its distribution over trees is made flatter or sharper as a whole, by one factor of the temperature (see
`model`). So probabilities of trees and of constituents stay those of one distribution. The trees that are
chosen, and the order of the most probable ones, stay as they are. The factor maximises the logarithmic score
of the constituents that the parser chooses.
"""

from collections.abc import Collection, Sequence

import numpy
from numpy.typing import NDArray

from ...trees.calibration import PRIOR, log_scores, minimum
from ...trees.sentences import Bools, Floats
from .evalb import Constituent
from .model import Beside, ConstituencyModel, Scored, constituents_of
from .trees import ROOTS

_BOUNDS = (numpy.log(0.2), numpy.log(20.0))
# more sentences than these tell little more about one number
_MAX_SENTENCES = 1200


class Claims:
    """The constituents of the trees that a parser chooses, and which of them are right."""

    def __init__(
        self,
        model: ConstituencyModel,
        sentences: Sequence[Sequence[str]],
        gold: Sequence[Collection[Constituent]],
        beside: Sequence[Beside] | None = None,
    ):
        """gold: The constituents of every sentence.
        beside: Likewise, what is known beside the words, for a parser that uses it."""
        # of a batch: its forest; by item that is a constituent of a chosen tree, which one, and the item
        self._parts: list[tuple[Scored, NDArray, NDArray]] = []
        right: list[bool] = []
        short = [i for i, words in enumerate(sentences) if 0 < len(words) <= model.max_length]
        words = [word for i in short for word in sentences[i]]
        starts = numpy.cumsum([0, *(len(sentences[i]) for i in short)])
        known = [beside[i] for i in short] if beside is not None else []
        joined: Beside | None = type(known[0]).joined(known) if known else None  # type: ignore[arg-type]
        done = 0
        for own in model.batches(words, starts, joined):
            scored, _ = model.score(*own)
            trees = model.chosen(scored)
            places: list[int] = []
            items: list[int] = []
            for s, tree in enumerate(trees):
                is_gold = set(gold[short[done + s]])
                nodes = [] if tree is None else tree.nodes
                own_items = _items(model, scored, s)
                for node in nodes:
                    if node.label not in ROOTS:
                        place = Constituent(node.label, node.begin, node.end)
                        found = own_items.get(place, [])
                        places += [len(right)] * len(found)
                        items += found
                        right.append(place in is_gold)
            done += len(trees)
            self._parts.append((scored, numpy.array(places, "int64"), numpy.array(items, "int64")))
        self.right: Bools = numpy.array(right, dtype=bool)

    def probs(self, factor: float = 1.0) -> Floats:
        """Their probabilities, if the temperature is multiplied by a factor."""
        result = numpy.zeros(len(self.right))
        for scored, places, items in self._parts:
            _, posteriors, _ = scored.forest.posteriors(*(own / factor for own in scored.scores))
            result += numpy.bincount(places, posteriors[items], minlength=len(result))
        return numpy.minimum(result, 1.0)

    def factor(self) -> float:
        """The factor that makes them most true."""
        if not len(self.right):
            return 1.0

        def loss(logs: Floats) -> float:
            probs = self.probs(float(numpy.exp(logs[0])))
            return float(PRIOR * logs[0] ** 2 - log_scores(probs, self.right).sum())

        # where probabilities are all but 0 or 1 there is no slope
        starts = [numpy.array([log]) for log in (0.0, *numpy.linspace(*_BOUNDS, 5))]
        return float(numpy.exp(minimum(loss, min(starts, key=loss), [_BOUNDS])[0]))


def _items(model: ConstituencyModel, scored: Scored, sentence: int) -> dict[Constituent, list[int]]:
    """The items of a sentence's forest by the constituents that they stand for."""
    forest = scored.forest
    first, last = forest.starts[sentence : sentence + 2]
    result: dict[Constituent, list[int]] = {}
    columns = (own[first:last].tolist() for own in (forest.begin, forest.end))
    for item, (begin, end) in enumerate(zip(*columns, strict=True), start=int(first)):
        for label in set(constituents_of(model.grammar, forest, item)):
            result.setdefault(Constituent(label, begin, end), []).append(item)
    return result


def calibrated(
    model: ConstituencyModel,
    sentences: Sequence[Sequence[str]],
    gold: Sequence[Collection[Constituent]],
    beside: Sequence[Beside] | None = None,
) -> ConstituencyModel:
    """The same parser, as confident as trees that it was not trained on say it should be; see `Claims`."""
    n = len(sentences)
    chosen = numpy.unique(numpy.linspace(0, n - 1, min(n, _MAX_SENTENCES)).astype(int)).tolist()
    own = None if beside is None else [beside[i] for i in chosen]
    claims = Claims(model, [sentences[i] for i in chosen], [gold[i] for i in chosen], own)
    return model.with_calibration(model.mixture.calibration * claims.factor())
