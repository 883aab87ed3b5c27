"""Models that are trained step by step, by gradients, in spaCy's training loop.

What is asked of the Thinc model:

    refs["encoder"]      Model[Batch, Ragged]: vectors of the sentences' tokens, each with its root in front
    refs["arcs"]         Model[Ragged, List[ndarray]]: the scores of all arcs of every sentence
    refs["labels"]       Model[Arcs, Floats2d]: the scores of all labels of given arcs
    attrs["inventory"]   Learnt[Inventory]: the labels
    attrs["max_length"]  longer sentences are parsed in pieces, and their arcs are not trained on

P(tree) comes from the chart over arc scores, P(label | arc) from label scores; the loss is the negative
logarithm of both.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice, pairwise
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model, set_dropout_rate
from thinc.types import Ragged

from ..base.errors import Errors, Warnings
from ..base.learnt import Learnt
from ..models.biaffine.arc_posterior import arc_posterior, tree_loss
from ..models.biaffine.format import check_model
from ..models.biaffine.layers import Arcs, rows_of_pieces
from ..trees._eisner import is_projective_tree
from ..trees.constraints import possible
from ..trees.interface import Clusters, Parses, Vectors
from ..trees.inventory import MIN_DECORATED, Inventory, plain, projective_trees
from ..trees.parsing import PosteriorParses, sentence_constraints
from ..trees.pieces import parse_in_pieces
from ..trees.sentences import MISSING, Batch, Treebank
from .documents import TokenReader, training_batch
from .training_data import ParserData, warn_of_missing

_N_SAMPLE = 10


class StepwiseLearner:
    """Trains and parses with such a model; see `learners.Learner`."""

    needs_tags = False
    decoders = ("mbr", "viterbi")

    def __init__(self, model: Model, *, name: str):
        """model (Model): The model.
        name (str): The component's name, for messages.
        """
        self.model = model
        self.name = name

    @property
    def is_learnt(self) -> bool:
        return self.model.attrs["inventory"].value is not None

    @property
    def grammar(self) -> "StepwiseLearner":
        return self

    @property
    def label_data(self) -> list[str]:
        # decorated ones, too: with them `initialize` need not look at the examples
        return list(self.label_names)

    @property
    def inventory(self) -> Inventory:
        inventory = self.model.attrs["inventory"].value
        if inventory is None:
            raise ValueError(Errors.S115.format(name=self.name))
        return inventory

    @property
    def label_names(self) -> list[str]:
        return self.inventory.names

    def check(self, **settings: Any) -> None:
        for setting, value in settings.items():
            if value:
                raise ValueError(Errors.S444.format(name=self.name, setting=setting))

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        data: ParserData,
        *,
        labels: Sequence[str] | None,
        clusters: Clusters | None,
        vectors: Vectors | None,
        decode: str,
    ) -> None:
        """Collect labels and make the model ready for training."""
        nlp, read = data.nlp, data.read
        self._require_upstream(nlp)
        validate_get_examples(get_examples, "SpectralParser.initialize")
        examples = get_examples()
        if labels is not None:
            examples = list(islice(examples, _N_SAMPLE))
            inventory = Inventory(sorted({*labels, *map(plain, labels)}))
        else:
            if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
                raise ValueError(Errors.S442.format(name=self.name))
            examples = list(examples)
            _, treebank = training_batch(examples, (eg.predicted for eg in examples), read)
            heads, names = projective_trees(treebank)
            inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
            self._warn(treebank, heads)
        words = (eg for eg in examples if eg.predicted.text.strip())
        sample = list(islice(words, _N_SAMPLE))
        if not sample or not len(inventory):
            raise ValueError(Errors.S117.format(name=self.name))
        self.model.attrs["inventory"] = Learnt(Inventory, inventory)
        batch, _ = training_batch(sample, [eg.predicted for eg in sample], read)
        self.model.initialize(X=batch)

    def _require_upstream(self, nlp: Language | None) -> None:
        """Listeners must have somebody to listen to."""
        if nlp is None:
            return
        heard = [
            listener for _, pipe in nlp.components for listener in getattr(pipe, "listeners", [])
        ]
        for node in self.model.walk():
            upstream = getattr(node, "upstream_name", None)
            if upstream is not None and not any(node is listener for listener in heard):
                raise ValueError(Errors.S443.format(name=self.name, upstream=upstream))

    def _warn(self, treebank: Treebank, heads: NDArray[numpy.int32]) -> None:
        warn_of_missing(treebank, self.name)
        bounds = treebank.tokens.bounds()
        unused = sum(
            b - a > self.model.attrs["max_length"]
            or not (is_projective_tree(heads[a:b]) or possible(heads[a:b]))
            for a, b in bounds
        )
        if unused:
            message = Warnings.W440.format(name=self.name, unused=unused, sentences=len(bounds))
            logger.warning(message)

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float:
        inventory = self.inventory
        batch, treebank = training_batch(examples, [eg.predicted for eg in examples], read)
        if not len(treebank.heads):
            return 0.0
        heads, names = projective_trees(treebank)
        labels = inventory.encode(names)
        set_dropout_rate(self.model, drop)
        encoder, arcs, labeller = self._layers()
        vectors, backprop_vectors = encoder.begin_update(batch)
        loss, d_vectors = self._arc_loss(arcs, vectors, batch.tokens.starts, heads)
        known = (heads != MISSING) & (labels != MISSING)
        trees = [numpy.maximum(heads[a:b], 0) for a, b in batch.tokens.bounds()]
        wanted = Arcs.of_trees(vectors, batch.tokens.starts, range(len(trees)), trees).only(known)
        label_scores, backprop_labels = labeller.begin_update(wanted)
        label_loss, d_label_scores = _label_loss(labeller, label_scores, labels[known])
        d_vectors.data += backprop_labels(d_label_scores).data
        backprop_vectors(d_vectors)
        return loss + label_loss

    def check_loaded(self, read: TokenReader) -> None:
        """The layers of this package are checked one by one, those of others by parsing a sentence."""
        check_model(self.model, self.inventory)
        if any(isinstance(node, Tok2VecListener) for node in self.model.walk()):
            return
        doc = Doc(Vocab(), words=list("abc"), sent_starts=[True, False, False])
        if not numpy.isfinite(self.parse(read([doc]), fixed=None, decode="mbr").log_probs()).all():
            raise ValueError(Errors.S002.format(what=self.name, reason="it can't parse"))

    def _layers(self) -> list[Model]:
        return [self.model.get_ref(name) for name in ("encoder", "arcs", "labels")]

    def _arc_loss(
        self, layer: Model, vectors: Ragged, starts: NDArray, heads: NDArray[numpy.int32]
    ) -> tuple[float, Ragged]:
        """RETURNS (Tuple[float, Ragged]): The loss of the arcs of short sentences, and the gradient of all
        vectors."""
        ops, lengths = layer.ops, numpy.diff(starts)
        short = lengths <= self.model.attrs["max_length"]
        rows = ops.asarray(numpy.flatnonzero(numpy.repeat(short, lengths + 1)))
        chosen = Ragged(vectors.data[rows], ops.asarray1i(lengths[short] + 1))
        scores, backprop = layer.begin_update(chosen)
        total, gradients = 0.0, []
        trees = numpy.split(heads, starts[1:-1])
        for own, tree in zip(scores, compress(trees, short.tolist()), strict=True):
            loss, gradient = tree_loss(own, tree) or (0.0, numpy.zeros_like(own))
            total += loss
            gradients.append(gradient)
        data = ops.xp.zeros_like(vectors.data)
        data[rows] = backprop(gradients).data
        return total, Ragged(data, vectors.lengths)

    def parse(
        self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None, decode: str = "mbr"
    ) -> Parses:
        self._require_vectors(batch)
        encoder, _, _ = self._layers()
        if not len(batch.tokens):
            return self._parses(None, batch.tokens.starts, fixed, decode)
        vectors = encoder.predict(batch)

        def parse(
            tokens: NDArray[numpy.int64] | slice,
            starts: NDArray[numpy.int32],
            fixed: NDArray[numpy.int32] | None,
        ) -> PosteriorParses:
            own = vectors
            if len(starts) != len(batch.tokens.starts) or not isinstance(tokens, slice):
                chosen = numpy.arange(len(batch.places))[tokens]
                rows = encoder.ops.asarray(rows_of_pieces(batch.tokens.starts, chosen, starts))
                lengths = encoder.ops.asarray1i(numpy.diff(starts) + 1)
                own = Ragged(vectors.data[rows], lengths)
            return self._parses(own, starts, fixed, decode)

        max_length = self.model.attrs["max_length"]
        return parse_in_pieces(parse, batch.tokens.starts, max_length=max_length, fixed=fixed)

    def _parses(
        self,
        vectors: Ragged | None,
        starts: NDArray[numpy.int32],
        fixed: NDArray[numpy.int32] | None,
        decode: str,
    ) -> PosteriorParses:
        """Parses of sentences, given their vectors."""
        _, arcs, labeller = self._layers()
        constraints = sentence_constraints(list(pairwise(starts.tolist())), fixed)
        scores = [] if vectors is None else arcs.predict(vectors)
        posteriors = [
            arc_posterior(own, allowed=allowed)
            for own, allowed in zip(scores, constraints, strict=True)
        ]

        def distributions(
            sentences: Sequence[int], heads: Sequence[NDArray], trees: Sequence[NDArray]
        ) -> NDArray[numpy.float64]:
            if not heads:
                return numpy.zeros((0, len(self.inventory)))
            scores = labeller.predict(Arcs.of_trees(vectors, starts, sentences, heads))
            return labeller.ops.to_numpy(labeller.ops.softmax(scores)).astype("float64")

        return PosteriorParses(
            starts,
            posteriors,
            inventory=self.inventory,
            label_distributions=distributions,
            fixed=fixed,
            decode=decode,
        )

    def _require_vectors(self, batch: Batch) -> None:
        """spaCy's listeners give zeros where no tok2vec has been: a parse of nothing."""
        for node in self.model.walk():
            if isinstance(node, Tok2VecListener) and any(
                len(doc) and not doc.tensor.size for doc in batch.docs
            ):
                raise ValueError(Errors.S443.format(name=self.name, upstream=node.upstream_name))


def _label_loss(layer: Model, scores, labels: NDArray[numpy.int32]) -> tuple[float, NDArray]:
    """RETURNS (Tuple[float, ndarray]): Negative log-likelihood of labels, and the gradient of scores."""
    gradient = layer.ops.softmax(scores)
    chosen = layer.ops.xp.arange(len(labels)), layer.ops.asarray(labels)
    loss = -float(layer.ops.xp.log(gradient[chosen] + 1e-20).sum())
    gradient[chosen] -= 1.0
    return loss, gradient
