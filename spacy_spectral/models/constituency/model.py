"""Parsers for constituents: grammars with states, models of spans, and their product. Knows nothing of
spaCy.

The model of spans prunes: its forest has the items that it thinks possible. The model of anchored rules
gives every edge of it a posterior, and what it thinks impossible is pruned once more, before the
tensors. The grammar with states gives a posterior to every edge that is left. The tree with the greatest
product of weighted posteriors is chosen, p of anchored rules, q of the grammar, s of the model of spans:

    prod over edges  p(edge)^u q(edge)^v s(parent)^w

Probabilities are told from

    P(tree) ~ prod over edges  (p(edge | parent)^u q(edge | parent)^v)^(1 / T)

for edges from the root downwards: exactly, by one more sum over the forest. The temperature T makes up for
models that have seen the same trees, and are too confident. With one of the two models alone there is only
one factor, without weight and temperature: for anchored rules, P is just their conditional random field.

Long sentences are parsed in pieces, see `cut`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.files import Stored
from ._anchored import AnchoredTable
from ._forest import Forest
from ._span import items
from ._table import FeatureTable
from .latent import LatentGrammar
from .packing import ALONE, FORMAT, Mixture, parts_payload, read_parts
from .statistics import Items, RulePairs, Symbols
from .tokens import Encoder
from .trees import Node, Parsed, constituents

MAX_LENGTH = 300
# without a model of spans, all symbols stand on all spans of a grammar's chart: time and memory are ten times
# as large (10,000 words in pieces of 300: 160 CPU s and 1.4 GB)
MAX_LENGTH_OF_GRAMMAR = 100
# of the longest piece, how much of it may be given up to cut at punctuation
_SLACK = 0.5
_CUTS = frozenset(".!?;:,)]}»”…—–-")


def cut(words: Sequence[str], starts: NDArray[numpy.int64], max_length: int) -> list[int]:
    """Where pieces start that are not too long: sentences, cut after punctuation where they must be."""
    result = [0]
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        while end - begin > max_length:
            cut = begin + max_length
            for place in range(cut, begin + int(_SLACK * max_length), -1):
                if words[place - 1] in _CUTS:
                    cut = place
                    break
            result.append(cut)
            begin = cut
        result.append(end)
    return result


def join(
    parsed: list[Parsed], lists: list[list[Parsed]], pieces: list[int], starts: list[int], root: str
) -> tuple[list[Parsed], list[list[Parsed]]]:
    """Sentences out of pieces."""
    at = 0
    result, best = [], []
    for begin, end in pairwise(starts):
        own = []
        first = at
        while at < len(parsed) and pieces[at] < end:
            own.append((pieces[at] - begin, parsed[at]))
            at += 1
        if len(own) == 1:
            result.append(own[0][1])
            best.append(lists[first] if lists else [])
            continue
        nodes = [Node(root, 0, end - begin, 1.0)] if root and own else []
        for shift, tree in own:
            inner = tree.nodes[1:] if root else tree.nodes
            nodes += [Node(n.label, n.begin + shift, n.end + shift, n.prob) for n in inner]
        tags = [tag for _, tree in own for tag in tree.tags]
        result.append(Parsed(nodes, tags, sum(tree.log_prob for _, tree in own)))
        best.append(result[-1:] if lists and own else [])
    return result, best


ITEM, ITEM_AGAIN, EDGE_AGAIN = 1e-3, 1e-4, 1e-5
# items of at least this posterior may be joined by rules that the treebank does not have
STRONG = 0.03
_LEAST = 1e-30
_NO_ROWS = numpy.zeros(0, dtype="int32")
# sentences are parsed in batches of so many words, so that memory does not grow with a document
_BATCH = 4000


Scores = tuple[NDArray[numpy.float64], NDArray[numpy.float64], NDArray[numpy.float64]]


@dataclass
class Scored:
    """A forest with a distribution over its trees.

    scores (Tuple[ndarray, ndarray, ndarray]): What items, edges, and items as roots, add to
        log P(tree) + log Z.
    log_z (ndarray): float64, by sentence.
    posteriors (ndarray): float64, by item.
    choice (Tuple[ndarray, ndarray, ndarray]): Likewise, what is to be maximised.
    """

    forest: Forest
    scores: Scores
    log_z: NDArray[numpy.float64]
    posteriors: NDArray[numpy.float64]
    choice: Scores


def _log(values: NDArray) -> NDArray[numpy.float64]:
    return numpy.log(numpy.maximum(numpy.abs(values.astype("float64")), _LEAST))


class ConstituencyModel(Stored):
    """A trained parser.

    grammar (Symbols): Symbols and rules.
    encoder (Optional[Encoder]), spans (Optional[FeatureTable]): The model of spans, and how it sees words.
    anchored (Optional[AnchoredTable]): The model of anchored rules.
    latent (Optional[LatentGrammar]): The grammar with states. There is at least one of `spans` and
        `latent`.
    mixture (Mixture): How they are weighted, where there are both.
    """

    FORMAT = FORMAT

    def __init__(
        self,
        grammar: Symbols,
        *,
        encoder: Encoder | None = None,
        spans: FeatureTable | None = None,
        anchored: AnchoredTable | None = None,
        latent: LatentGrammar | None = None,
        mixture: Mixture | None = None,
    ):
        self.grammar = grammar
        self.encoder, self.spans, self.anchored, self.latent = encoder, spans, anchored, latent
        self.pairs = RulePairs(grammar, possible=True)
        self.mixture = Mixture() if mixture is None else mixture

    def to_payload(self) -> dict[str, Any]:
        parts = self.grammar, self.encoder, self.spans, self.anchored, self.latent, self.mixture
        return parts_payload(*parts)

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ConstituencyModel":
        return cls(**read_parts(read))

    @property
    def labels(self) -> list[str]:
        """The labels of constituents."""
        return sorted(
            {label for symbol in self.grammar.symbols for label in constituents(symbol)}
            | ({self.grammar.root} if self.grammar.root else set())
        )

    def parse(
        self, words: Sequence[str], starts: NDArray[numpy.int64], *, k: int = 0
    ) -> tuple[list[Parsed], list[list[Parsed]]]:
        """Parse sentences.

        starts (ndarray): int64, where sentences start, closed by the number of words.
        k (int): How many of the most probable trees to find beside, 0 for none.
        RETURNS (Tuple[List[Parsed], List[List[Parsed]]]): The tree of every sentence, and its k most
            probable trees; fewer if there are fewer, and one alone for sentences that are too long.
        """
        longest, batch = (
            (MAX_LENGTH_OF_GRAMMAR, _BATCH // 16) if self.spans is None else (MAX_LENGTH, _BATCH)
        )
        pieces = cut(words, starts, longest)
        parsed: list[Parsed] = []
        lists: list[list[Parsed]] = []
        first = 0
        while first < len(pieces) - 1:
            last = first + 1
            while last < len(pieces) - 1 and pieces[last + 1] - pieces[first] <= batch:
                last += 1
            own = numpy.array(pieces[first : last + 1], dtype="int64")
            trees, best = self._parse(words[own[0] : own[-1]], own - own[0], k)
            parsed += trees
            lists += best
            first = last
        return join(parsed, lists, pieces, starts.tolist(), self.grammar.root)

    def _parse(
        self, words: Sequence[str], starts: NDArray[numpy.int64], k: int
    ) -> tuple[list[Parsed], list[list[Parsed]]]:
        scored, fallback = self.score(words, starts)
        forest = scored.forest
        chosen = forest.best(*scored.choice)
        scores = tree_scores(scored, chosen)
        best = forest.k_best(*scored.scores, k) if k else [[] for _ in chosen]
        result, lists = [], []
        for s, tree in enumerate(chosen):
            if not tree:
                result.append(fallback[s])
                lists.append([fallback[s]] if k else [])
                continue
            probs = _label_probs(self.grammar, scored, s)
            result.append(self._parsed(scored, tree, probs, scores[s]))
            log_probs = [(own, score - scored.log_z[s]) for own, score in best[s]]
            lists.append([self._parsed(scored, own, probs, score) for own, score in log_probs])
        return result, lists

    def score(
        self, words: Sequence[str], starts: NDArray[numpy.int64]
    ) -> tuple[Scored, list[Parsed]]:
        """The forests of sentences with the model's distribution over their trees.

        RETURNS (Tuple[Scored, List[Parsed]]): The forests, and trees for sentences that have none in them.
        """
        lengths = numpy.diff(starts).astype("int32")
        rows = self.latent.lexicon.rows(words, starts) if self.latent is not None else _NO_ROWS
        is_product = self.spans is not None and self.latent is not None
        mixture = self.mixture if is_product else ALONE
        # by model: posteriors of items and of edges
        experts: list[tuple[float, NDArray, NDArray]] = []
        of_spans = None
        if self.spans is None:
            forest, fallback = self._coarse(rows, starts)
        else:
            assert self.encoder is not None
            tokens = self.encoder(words, starts)
            *columns, probs, is_best = items(self.spans, tokens, starts, ITEM)
            found = Items(*columns)
            strong = (probs >= STRONG).astype("uint8")
            forest = Forest.build(self.pairs, lengths, found, strong)
            fallback = self._span_trees(found, probs, is_best)
            if self.anchored is not None:
                scores = self.anchored.scores(tokens, starts, forest)
            else:
                # spans alone: what they say of items, multiplied along trees
                scores = _log(_at_items(forest, found, probs)), numpy.zeros(len(forest.left))
            _, *own = forest.posteriors(*scores, numpy.zeros(len(forest.begin)))
            keep = (own[0] >= ITEM_AGAIN).astype("uint8"), (own[1] >= EDGE_AGAIN).astype("uint8")
            forest, kept, kept_edges = forest.pruned(*keep)
            experts.append((mixture.anchored, own[0][kept], own[1][kept_edges]))
            of_spans = mixture.spans * _log(_at_items(forest, found, probs))
        if self.latent is not None:
            _, item_posteriors, edge_posteriors = self.latent.posteriors(forest, rows, starts)
            experts.append((mixture.grammar, item_posteriors, edge_posteriors))
        n_items, n_edges = len(forest.begin), len(forest.left)
        log_items, log_edges = numpy.zeros(n_items), numpy.zeros(n_edges)
        for weight, item_posteriors, edge_posteriors in experts:
            log_items += weight * _log(item_posteriors)
            log_edges += weight * _log(edge_posteriors)
        conditional = (log_edges - log_items[forest.parent]) / mixture.temperature
        roots, nothing = log_items / mixture.temperature, numpy.zeros(n_items)
        log_z, posteriors, _ = forest.posteriors(nothing, conditional, roots)
        if of_spans is not None:
            log_items = log_items + of_spans
            log_edges = log_edges + of_spans[forest.parent]
        choice = numpy.where(forest.is_word, log_items, 0.0), log_edges, log_items
        told = nothing, conditional, roots
        return Scored(forest, told, log_z, posteriors, choice), fallback

    def _coarse(
        self, rows: NDArray[numpy.int32], starts: NDArray[numpy.int64]
    ) -> tuple[Forest, list[Parsed]]:
        assert self.latent is not None
        forest = self.latent.forest(rows, starts)
        lexicon, fallback = self.latent.lexicon, []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            # no tree at all: a flat one, of the best symbol of each word
            nodes = [Node(self.grammar.root or "S", 0, end - begin, 0.0)]
            tags = []
            for i, row in enumerate(rows[begin:end].tolist()):
                own = slice(lexicon.starts[row], lexicon.starts[row + 1])
                weights = lexicon.scores[own] * self.latent.prior[lexicon.symbols[own]]
                symbol = self.grammar.symbols[lexicon.symbols[own][int(weights.argmax())]]
                nodes += [Node(label, i, i + 1, 0.0) for label in constituents(symbol)]
                tags.append(symbol.labels[-1])
            fallback.append(Parsed(nodes, tags, float("nan")))
        return forest, fallback

    def _span_trees(
        self, found: Items, probs: NDArray, is_best: NDArray[numpy.uint8]
    ) -> list[Parsed]:
        """The best trees of the model of spans alone."""
        starts, begin, end, symbol = found
        result = []
        for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            own = first + numpy.flatnonzero(is_best[first:last])
            # parents first
            own = own[numpy.lexsort((-(end[own] - begin[own]), begin[own]))]
            width = int(end[own].max(initial=0))
            nodes = [Node(self.grammar.root, 0, width, 1.0)] if self.grammar.root else []
            tags = []
            for item in own.tolist():
                name = self.grammar.symbols[symbol[item]]
                prob = float(probs[item])
                span = int(begin[item]), int(end[item])
                nodes += [Node(label, *span, prob) for label in constituents(name)]
                if end[item] - begin[item] == 1:
                    tags.append(name.labels[-1])
            result.append(Parsed(nodes, tags, float("nan")))
        return result

    def _parsed(
        self,
        scored: Scored,
        tree: list[int],
        probs: dict[tuple[str, int, int], float],
        log_prob: float,
    ) -> Parsed:
        """A tree of items as constituents."""
        forest, grammar = scored.forest, self.grammar
        n = int(forest.end[tree[-1]])
        nodes = [Node(grammar.root, 0, n, 1.0)] if grammar.root else []
        tags = []
        # items are in postorder: from the end it is parents first, right before left
        order = sorted(tree, key=lambda x: (int(forest.begin[x]), -int(forest.end[x])))
        for item in order:
            symbol = grammar.symbols[forest.symbol[item]]
            begin, end = int(forest.begin[item]), int(forest.end[item])
            labels = symbol.labels if item == tree[-1] and symbol.is_part else constituents(symbol)
            nodes += [
                Node(label, begin, end, probs.get((label, begin, end), 0.0)) for label in labels
            ]
            if end - begin == 1:
                tags.append(symbol.labels[-1])
        return Parsed(nodes, tags, float(log_prob))


def _label_probs(
    grammar: Symbols, scored: Scored, sentence: int
) -> dict[tuple[str, int, int], float]:
    """The probability of every constituent that the forest of a sentence knows."""
    forest = scored.forest
    first, last = forest.starts[sentence], forest.starts[sentence + 1]
    result: dict[tuple[str, int, int], float] = {}
    columns = forest.begin, forest.end, forest.symbol, scored.posteriors
    own = (column[first:last].tolist() for column in columns)
    for begin, end, symbol, prob in zip(*own, strict=True):
        for label in set(constituents(grammar.symbols[symbol])):
            key = label, begin, end
            result[key] = min(1.0, result.get(key, 0.0) + prob)
    return result


def tree_scores(scored: Scored, trees: list[list[int]]) -> NDArray[numpy.float64]:
    """log P(tree | sentence) of a tree of each sentence; nan where there is none."""
    forest, (_, edges, roots) = scored.forest, scored.scores
    result = numpy.full(len(trees), numpy.nan)
    for s, tree in enumerate(trees):
        if not tree:
            continue
        total = roots[tree[-1]] - scored.log_z[s]
        stack: list[int] = []
        for item in tree:
            if not forest.is_word[item]:
                right, left = stack.pop(), stack.pop()
                own = slice(forest.edge_starts[item], forest.edge_starts[item + 1])
                match = (forest.left[own] == left) & (forest.right[own] == right)
                total += edges[own][match][0]
            stack.append(item)
        result[s] = total
    return result


def _at_items(forest: Forest, found: Items, probs: NDArray) -> NDArray:
    """The posteriors of a forest's items, out of those of a larger list in the same order."""
    return probs[numpy.searchsorted(found.keys(), forest.items.keys())]
