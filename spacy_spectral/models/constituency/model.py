"""Parsers for constituents: grammars with states, models of spans, a network of spans, and their product.
Knows nothing of spaCy.

The model of spans prunes, or the network in its place: the forest has the items that it thinks possible. The
model of anchored rules gives every edge of it a posterior, and what it thinks impossible is pruned once more,
before the tensors. The grammar with states gives a posterior to every edge that is left, and so does the
network, as a distribution over the trees of this forest. The tree with the greatest product of weighted
posteriors is chosen, p of anchored rules, q of the grammar, r of the network, s of what prunes:

    prod over edges  p(edge)^u q(edge)^v r(edge)^x s(parent)^w

Probabilities are told from

    P(tree) ~ prod over edges  (p(edge | parent)^u q(edge | parent)^v r(edge | parent)^x)^(1 / T)

for edges from the root downwards: exactly, by one more sum over the forest. The temperature T makes up for
models that have seen the same trees, and are too confident. With one of the models alone there is only one
factor, without weight and temperature: for anchored rules, P is just their conditional random field. In
both cases T is multiplied by a factor that fits trees of a development set, see `calibration`.

A network may also be outside of the parser: trained step by step, over the vectors of another component. It
is the only model then. What its encoder makes of sentences is given together with them (`neural.States`).

Anchored rules may look at arcs of a parser for dependencies (see `_anchored`). Arcs as one more factor, by
how many words of a span probably have their head outside and how many heads have modifiers outside, gave 0.1
to 0.2 F1 on GUM's development trees, and their labels as inputs of a network 0.2 on a fold: too little.
A second loss for the network's encoder, of the arcs that the head rule makes of gold trees, cost 0.2 there.

With a network that prunes, a product has 83.0 F1 on a fold of GUM where 2,000 trees were learnt from, with
the model of spans 81.9, and without a network 80.4. On another fold, one network alone has 81.0, two 81.2;
the product with one 82.5, with two 83.0 (82.4 and 82.8 without anchored rules).

Long sentences are parsed in pieces, see `cut`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import nan
from typing import Any

import numpy
from numpy.typing import NDArray

from ...base.files import Stored
from ._anchored import AnchoredTable
from ._forest import Forest
from ._span import items
from ._table import FeatureTable
from .latent import LatentGrammar
from .lexicon import PLAIN
from .neural import MAX_LENGTH, ReadSpans, SpanNetwork, States, tokens_of
from .packing import (
    FORMAT,
    Mixture,
    latent_payload,
    read_latent,
    read_network,
    read_spans,
    read_symbols,
    span_payload,
)
from .statistics import Items, RulePairs, Symbols
from .tokens import Arcs, Encoder
from .trees import PHRASE, Node, Parsed, Symbol, constituents

# what is known of words beside themselves: arcs, for a parser that uses them, or states of a network outside
Beside = Arcs | States
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


ALONE = Mixture(1.0, 1.0, 0.0, 1.0, 1.0)
ITEM, ITEM_AGAIN, EDGE_AGAIN = 1e-3, 1e-4, 1e-5
# items of at least this posterior may be joined by rules that the treebank does not have
STRONG = 0.03
_LEAST = 1e-30
_NO_ROWS = numpy.zeros(0, dtype="int32")
# sentences are parsed in batches of so many words, so that memory does not grow with a document
_BATCH = 4000


# a label, and the words that it covers
Place = tuple[str, int, int]
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
    neural (Optional[SpanNetwork]): The network of spans; it needs the encoder, too.
    latent (Optional[LatentGrammar]): The grammar with states.
    outside (bool): Whether there is a network outside. If not, there is at least one of `spans`, `neural` and
        `latent`.
    mixture (Mixture): How they are weighted, where there are several.
    typography (str): Characters that it reads as plain ones, see `lexicon.unseen_typography`.
    """

    FORMAT = FORMAT

    def __init__(
        self,
        grammar: Symbols,
        *,
        encoder: Encoder | None = None,
        spans: FeatureTable | None = None,
        anchored: AnchoredTable | None = None,
        neural: SpanNetwork | None = None,
        latent: LatentGrammar | None = None,
        outside: bool = False,
        mixture: Mixture | None = None,
        typography: str = "",
    ):
        self.grammar = grammar
        self.outside = outside
        self.encoder, self.spans, self.anchored, self.latent = encoder, spans, anchored, latent
        self.neural = neural
        self.pairs = RulePairs(grammar, possible=True)
        self.mixture = Mixture() if mixture is None else mixture
        self.typography = typography
        self._plain = str.maketrans({own: PLAIN[own] for own in typography if own in PLAIN})

    def to_payload(self) -> dict[str, Any]:
        grammar, spans, neural, latent = self.grammar, None, None, None
        if self.spans is not None and self.encoder is not None:
            spans = span_payload(self.encoder, self.spans, self.anchored)
        if self.neural is not None and self.encoder is not None:
            neural = self.neural.to_payload()
            if spans is None:
                neural["tagger"] = self.encoder.tagger.to_bytes()
        if self.latent is not None:
            latent = latent_payload(self.latent)
        return {
            "root": grammar.root,
            "chains": [list(symbol.labels) for symbol in grammar.symbols],
            "kinds": numpy.array([symbol.kind for symbol in grammar.symbols], dtype="uint8"),
            "rules": grammar.rules.astype("uint16"),
            "seen": grammar.seen,
            "backoff": grammar.backoff.astype("float32"),
            "mixture": self.mixture._asdict(),
            "typography": self.typography,
            "spans": spans,
            "neural": neural,
            "latent": latent,
            "outside": int(self.outside) or None,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ConstituencyModel":
        grammar, parts = read_symbols(read), {}
        if read["spans"] is not None:
            parts = read_spans(read["spans"], grammar)
        if read["neural"] is not None:
            parts |= read_network(read["neural"], grammar)
            FORMAT.require("encoder" in parts, "neural.tagger", "is missing")
        if read["latent"] is not None:
            parts["latent"] = read_latent(read["latent"], grammar)
        mixture = {name: value for name, value in read["mixture"].items() if value is not None}
        parts["outside"] = bool(read["outside"])
        parts["typography"] = read["typography"] or ""
        return cls(grammar, mixture=Mixture(**mixture), **parts)

    @property
    def labels(self) -> list[str]:
        """The labels of constituents."""
        return sorted(
            {label for symbol in self.grammar.symbols for label in constituents(symbol)}
            | ({self.grammar.root} if self.grammar.root else set())
        )

    @property
    def uses_arcs(self) -> bool:
        """Whether it has learnt from arcs of a parser for dependencies."""
        return self.anchored is not None and self.anchored.arcs

    def parse(
        self,
        words: Sequence[str],
        starts: NDArray[numpy.int64],
        *,
        beside: Beside | None = None,
        k: int = 0,
    ) -> tuple[list[Parsed], list[list[Parsed]]]:
        """Parse sentences.

        starts: Where sentences start, closed by the number of words.
        beside: Arcs of the words, for a parser that uses them; or their states, for one whose network is
            outside.
        k: How many of the most probable trees to find beside, 0 for none.
        RETURNS: The tree of every sentence, and its k most probable trees; fewer if there are fewer, and one
            alone for sentences that are too long.
        """
        pieces = cut(words, starts, self.max_length)
        piece_starts = numpy.array(pieces, dtype="int64")
        if beside is not None:
            beside = beside.cut(starts, piece_starts)
        parsed: list[Parsed] = []
        lists: list[list[Parsed]] = []
        for own in self.batches(words, piece_starts, beside):
            trees, best = self._parse(*own, k)
            parsed += trees
            lists += best
        return join(parsed, lists, pieces, starts.tolist(), self.grammar.root)

    @property
    def max_length(self) -> int:
        """Longer sentences are parsed in pieces."""
        return MAX_LENGTH_OF_GRAMMAR if self._is_grammar_alone() else MAX_LENGTH

    def _is_grammar_alone(self) -> bool:
        """Whether nothing prunes."""
        return self.encoder is None and not self.outside

    def batches(
        self, words: Sequence[str], starts: NDArray[numpy.int64], beside: Beside | None = None
    ) -> Iterator[tuple[Sequence[str], NDArray[numpy.int64], Beside | None]]:
        """Sentences in groups of bounded size, with where they start, and what is known beside."""
        batch = _BATCH // 16 if self._is_grammar_alone() else _BATCH
        if self.outside:
            # it may parse before it has learnt much, and prunes little then: 2,000 edges a word
            batch //= 4
        first, n = 0, len(starts) - 1
        while first < n:
            last = first + 1
            while last < n and starts[last + 1] - starts[first] <= batch:
                last += 1
            own = starts[first : last + 1]
            within = slice(own[0], own[-1])
            yield words[within], own - own[0], None if beside is None else beside.at(within)
            first = last

    def _parse(
        self, words: Sequence[str], starts: NDArray[numpy.int64], beside: Beside | None, k: int
    ) -> tuple[list[Parsed], list[list[Parsed]]]:
        scored, guess = self.score(words, starts, beside)
        forest = scored.forest
        chosen = self.chosen(scored)
        best = forest.k_best(*scored.scores, k) if k else [[] for _ in chosen]
        result, lists = [], []
        for s, tree in enumerate(chosen):
            if tree is None:
                result.append(guess(s))
                lists.append([result[-1]] if k else [])
                continue
            result.append(tree)
            probs = _label_probs(self.grammar, scored, s) if k else {}
            log_probs = [(own, score - scored.log_z[s]) for own, score in best[s]]
            lists.append([self._parsed(forest, own, probs, score) for own, score in log_probs])
        return result, lists

    def chosen(self, scored: Scored) -> list[Parsed | None]:
        """The tree of every sentence, None where its forest has none."""
        forest = scored.forest
        trees = forest.best(*scored.choice)
        scores = tree_scores(scored, trees)
        return [
            self._parsed(forest, tree, _label_probs(self.grammar, scored, s), scores[s])
            if tree
            else None
            for s, tree in enumerate(trees)
        ]

    def with_calibration(self, factor: float) -> "ConstituencyModel":
        """The same parser with another factor of the temperature."""
        return ConstituencyModel(
            self.grammar, encoder=self.encoder, spans=self.spans, anchored=self.anchored,
            neural=self.neural, latent=self.latent, outside=self.outside,
            mixture=self.mixture._replace(calibration=factor), typography=self.typography,
        )  # fmt: skip

    def score(
        self, words: Sequence[str], starts: NDArray[numpy.int64], beside: Beside | None = None
    ) -> tuple[Scored, Callable[[int], Parsed]]:
        """The forests of sentences with the model's distribution over their trees.

        RETURNS: The forests, and what gives a tree to a sentence that has none in its forest.
        """
        if self._plain:
            words = [word.translate(self._plain) for word in words]
        lengths = numpy.diff(starts).astype("int32")
        rows = self.latent.lexicon.rows(words, starts) if self.latent is not None else _NO_ROWS
        mixture = self.mixture if self._is_product() else ALONE
        # by model: posteriors of items and of edges
        experts: list[tuple[float, NDArray, NDArray]] = []
        of_spans = None
        if self._is_grammar_alone():
            assert self.latent is not None
            forest, guess = self.latent.forest(rows, starts), partial(self._flat_tree, rows, starts)
        else:
            tokens, read = self._read(words, starts, beside)
            if read is not None:
                *columns, probs, is_best = read.items(ITEM)
            else:
                assert self.spans is not None
                *columns, probs, is_best = items(self.spans, tokens, starts, ITEM)
            found = Items(*columns)
            strong = (probs >= STRONG).astype("uint8")
            forest = Forest.build(self.pairs, lengths, found, strong)
            guess = partial(self._span_tree, found, probs, is_best)
            weight = mixture.anchored
            if self.anchored is not None:
                scores = self.anchored.scores(tokens, starts, forest)
            elif read is not None:
                scores, weight = (
                    (read.scores(forest), numpy.zeros(len(forest.left))),
                    mixture.neural,
                )
            else:
                # spans alone: what they say of items, multiplied along trees
                scores = _log(_at_items(forest, found, probs)), numpy.zeros(len(forest.left))
            _, *own = forest.posteriors(*scores, numpy.zeros(len(forest.begin)))
            keep = (own[0] >= ITEM_AGAIN).astype("uint8"), (own[1] >= EDGE_AGAIN).astype("uint8")
            forest, kept, kept_edges = forest.pruned(*keep)
            experts.append((weight, own[0][kept], own[1][kept_edges]))
            if self.anchored is not None and read is not None:
                scores = read.scores(forest), numpy.zeros(len(forest.left))
                posteriors = forest.posteriors(*scores, numpy.zeros(len(forest.begin)))
                experts.append((mixture.neural, *posteriors[1:]))
            of_spans = mixture.spans * _log(_at_items(forest, found, probs))
        if self.latent is not None:
            _, item_posteriors, edge_posteriors = self.latent.posteriors(forest, rows, starts)
            experts.append((mixture.grammar, item_posteriors, edge_posteriors))
        n_items, n_edges = len(forest.begin), len(forest.left)
        log_items, log_edges = numpy.zeros(n_items), numpy.zeros(n_edges)
        for weight, item_posteriors, edge_posteriors in experts:
            log_items += weight * _log(item_posteriors)
            log_edges += weight * _log(edge_posteriors)
        temperature = mixture.temperature * self.mixture.calibration
        conditional = (log_edges - log_items[forest.parent]) / temperature
        roots, nothing = log_items / temperature, numpy.zeros(n_items)
        log_z, posteriors, _ = forest.posteriors(nothing, conditional, roots)
        if of_spans is not None:
            log_items = log_items + of_spans
            log_edges = log_edges + of_spans[forest.parent]
        choice = numpy.where(forest.is_word, log_items, 0.0), log_edges, log_items
        told = nothing, conditional, roots
        return Scored(forest, told, log_z, posteriors, choice), guess

    def _read(
        self, words: Sequence[str], starts: NDArray[numpy.int64], beside: Beside | None
    ) -> tuple[Any, ReadSpans | None]:
        """What the models of spans and of anchored rules look at, and what a network makes of sentences."""
        if self.outside:
            assert isinstance(beside, States)
            return None, beside.read()
        assert self.encoder is not None
        tokens = self.encoder(words, starts, beside if isinstance(beside, Arcs) else None)
        if self.neural is None:
            return tokens, None
        return tokens, self.neural.read(tokens_of(self.encoder, list(words), starts, tokens))

    def _is_product(self) -> bool:
        """Whether there are several experts; anchored rules with their model of spans are one."""
        return [self.spans, self.neural, self.latent].count(None) < 2

    def _flat_tree(self, rows: NDArray, starts: NDArray, sentence: int) -> Parsed:
        """The best symbol of each word: what a grammar without a tree still knows."""
        assert self.latent is not None
        found = []
        for i, row in enumerate(rows[starts[sentence] : starts[sentence + 1]].tolist()):
            symbols, scores = self.latent.lexicon.entries(row)
            best = symbols[int((scores * self.latent.prior[symbols]).argmax())]
            found.append((i, i + 1, self.grammar.symbols[best]))
        top = [Node(self.grammar.root or "S", 0, len(found), 0.0)]
        return _tree(top, found, {}, nan)

    def _span_tree(
        self, items: Items, probs: NDArray, is_best: NDArray[numpy.uint8], sentence: int
    ) -> Parsed:
        """The best tree of the model of spans alone."""
        first, last = items.starts[sentence : sentence + 2]
        own = first + numpy.flatnonzero(is_best[first:last])
        found = self._named(items, own)
        own_probs = {
            (label, begin, end): prob
            for (begin, end, symbol), prob in zip(found, probs[own].tolist(), strict=True)
            for label in constituents(symbol)
        }
        return _tree(self._top(found), found, own_probs, nan)

    def _parsed(
        self, forest: Forest, tree: list[int], probs: dict[Place, float], log_prob: float
    ) -> Parsed:
        """A tree of items as constituents."""
        *found, (begin, end, root) = self._named(forest.items, numpy.array(tree))
        found.append((begin, end, _whole(root)))
        return _tree(self._top(found), found, probs, log_prob)

    def _named(self, items: Items, own: NDArray) -> list[tuple[int, int, Symbol]]:
        columns = (column[own].tolist() for column in (items.begin, items.end, items.symbol))
        return [(i, j, self.grammar.symbols[s]) for i, j, s in zip(*columns, strict=True)]

    def _top(self, found: list[tuple[int, int, Symbol]]) -> list[Node]:
        n = found[-1][1] if found else 0
        return [Node(self.grammar.root, 0, n, 1.0)] if self.grammar.root else []


def _tree(
    top: list[Node],
    found: list[tuple[int, int, Symbol]],
    probs: dict[Place, float],
    log_prob: float,
) -> Parsed:
    """A tree of symbols as constituents."""
    nodes, tags = list(top), []
    for begin, end, symbol in sorted(found, key=lambda own: (own[0], -own[1])):
        nodes += [
            Node(label, begin, end, probs.get((label, begin, end), 0.0))
            for label in constituents(symbol)
        ]
        if end - begin == 1:
            tags.append(symbol.labels[-1])
    return Parsed(nodes, tags, float(log_prob))


def _whole(root: Symbol) -> Symbol:
    """What stands for a symbol over a whole sentence: there, a part of a constituent is one itself."""
    return root._replace(kind=PHRASE) if root.is_part else root


def constituents_of(grammar: Symbols, forest: Forest, item: int) -> tuple[str, ...]:
    """The labels of constituents that an item of a forest stands for."""
    symbol = grammar.symbols[forest.symbol[item]]
    return constituents(_whole(symbol) if forest.is_root[item] else symbol)


def _label_probs(grammar: Symbols, scored: Scored, sentence: int) -> dict[Place, float]:
    """The probability of every constituent that the forest of a sentence knows."""
    forest = scored.forest
    first, last = forest.starts[sentence], forest.starts[sentence + 1]
    result: dict[Place, float] = {}
    columns = forest.begin, forest.end, scored.posteriors
    own = (column[first:last].tolist() for column in columns)
    for item, (begin, end, prob) in enumerate(zip(*own, strict=True), start=int(first)):
        for label in set(constituents_of(grammar, forest, item)):
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
