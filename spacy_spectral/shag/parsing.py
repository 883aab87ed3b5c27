"""A grammar's parses of a batch of sentences."""

from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from ..parser.constraints import allowed_arcs
from ..parser.interface import Parse, Tokens
from ..treebank.dependency import MISSING
from .posterior import Posterior

if TYPE_CHECKING:
    from .grammar import Grammar


class GrammarParses:
    """Implements `parser.interface.Parses`: one posterior a sentence, and labels given the trees."""

    def __init__(
        self,
        grammar: "Grammar",
        tokens: Tokens,
        *,
        fixed: NDArray[numpy.int32] | None,
        decode: str,
    ):
        self._grammar = grammar
        self._bounds = tokens.bounds()
        symbols = grammar.symbols.encode(tokens.symbols)
        self._symbols = [symbols[a:b] for a, b in self._bounds]
        self._words = [tokens.words[a:b] for a, b in self._bounds]
        self._posteriors = [
            self._posterior(s, None if fixed is None else fixed[a:b])
            for s, (a, b) in enumerate(self._bounds)
        ]
        self._trees = [
            posterior.heads if decode == "mbr" else posterior.viterbi()
            for posterior in self._posteriors
        ]
        self._distributions = grammar.label_distributions(self._symbols, self._words, self._trees)
        self._best = self._distributions.argmax(axis=1)
        final = [
            grammar.labels.deprojectivized(tree, self._best[a:b])
            for tree, (a, b) in zip(self._trees, self._bounds, strict=True)
        ]
        nothing = numpy.zeros(0, dtype="int32")
        self.heads = numpy.concatenate([nothing, *(heads for heads, _ in final)])
        self.labels = numpy.concatenate([nothing, *(labels for _, labels in final)])

    def _posterior(self, sentence: int, fixed: NDArray[numpy.int32] | None) -> Posterior:
        free = fixed is None or (fixed == MISSING).all()
        return self._grammar.posterior(
            self._symbols[sentence],
            self._words[sentence],
            allowed=None if free else allowed_arcs(fixed),
        )

    def head_probs(self) -> NDArray[numpy.float32]:
        values = [
            posterior.marginals[tree, numpy.arange(1, len(tree) + 1)]
            for posterior, tree in zip(self._posteriors, self._trees, strict=True)
        ]
        return numpy.concatenate([numpy.zeros(0), *values]).astype("float32")

    def label_probs(self) -> NDArray[numpy.float32]:
        chosen = numpy.arange(len(self._best)), self._best
        return self._distributions[chosen].astype("float32")

    def log_probs(self) -> NDArray[numpy.float64]:
        pairs = zip(self._posteriors, self._trees, strict=True)
        return numpy.array([posterior.log_probability(tree) for posterior, tree in pairs])

    def marginals(self, sentence: int) -> NDArray[numpy.float64]:
        return self._posteriors[sentence].marginals

    def label_distributions(self, sentence: int) -> NDArray[numpy.float64]:
        return self._distributions[slice(*self._bounds[sentence])]

    def k_best(self, sentence: int, k: int) -> list[Parse]:
        found = self._posteriors[sentence].k_best(k)
        trees = [heads for heads, _ in found]
        distributions = self._grammar.label_distributions(
            [self._symbols[sentence]] * len(trees), [self._words[sentence]] * len(trees), trees
        )
        labels = distributions.argmax(axis=1).reshape(len(trees), -1)
        return [
            Parse(*self._grammar.labels.deprojectivized(heads, own), log_prob)
            for (heads, log_prob), own in zip(found, labels, strict=True)
        ]
