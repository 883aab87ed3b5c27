"""From annotated sentences to a log-linear model: what `fit` does, in order.

Count what the templates need and choose features (`statistics`), train the pruner, then
climb the conditional log-likelihood with AdaGrad and average the weights.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

from ...base.errors import Errors, SpectralError, Warnings
from ...trees._eisner import is_projective_tree
from ...trees.pseudoprojective import Inventory
from ...trees.sentences import MISSING
from ._learn import Learner
from ._pruner import train_pruner
from .encode import COLUMNS, GUESSED, PRUNER, SIBLINGS, UNARIES, Sentences, compile_templates
from .model import MAX_HEADS, MAX_LABELS, MAX_STATES, N_FAR, REACH, ArcPruner, Arcs, LogLinearModel
from .statistics import (
    build_table,
    drop_small_weights,
    function_tags,
    label_classes,
    label_successions,
    separators,
)

# Of the pruner: how many weights it has, and in how many parts it goes over the text.
_SIZE = 1 << 21
_PARTS = 4


@dataclass
class Annotated:
    """Sentences with their trees.

    heads: int32, positions in the sentence, 0 for the root, -1 where not annotated.
    labels: int32, indices into the labels, -1 where not annotated.
    trust: How far trees are to be believed that are not gold.
    """

    sentences: Sentences
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]
    trust: "Believed | None" = None


class Believed(NamedTuple):
    """What `trees.sentences.Trust` is, with indices of labels."""

    weights: NDArray[numpy.float32]
    shares: NDArray[numpy.float32]
    heads: NDArray[numpy.int32]
    labels: NDArray[numpy.int32]


# Kernels rely on some of these.
_RANGES = {
    "epochs": (1, 1000),
    "rate": (0.0, 10.0),
    "decay": (0.0, 10.0),
    "batch_size": (1, 10_000),
    "n_states": (1, MAX_STATES),
    "min_blocks": (1, 100),
    "n_between": (0, 8),
    "prune_threshold": (0.0, 1.0),
    "parse_threshold": (0.0, 1.0),
    "prune_most": (1, MAX_HEADS),
    "prune_epochs": (1, 1000),
    "patience": (0, 1000),
    "n_threads": (1, 1000),
}


@dataclass
class Settings:
    """How to train.

    epochs (int): Passes over the sentences.
    rate (float): Learning rate of AdaGrad.
    decay (float): L2 penalty.
    batch_size (int): Sentences per step.
    n_states (int): Classes of labels, the states of the automata.
    siblings (bool): Look at neighbouring modifiers together.
    second_tag (bool): Look at second-best tags.
    windows (bool): Look at a token in its context by itself, which says much of its label.
    n_blocks, min_blocks (int): A feature is kept if it occurs in `min_blocks` of `n_blocks` equal
        parts of the text, or in as many as there are sentences.
    n_between (int): How many separating tags to look for between head and modifier, at most 8.
    prune_threshold (float): Drop heads less likely than this relative to the token's best.
    parse_threshold (Optional[float]): The same in parsing; None for that of training. Unlikely heads are
        worth learning from even if parsing passes them over.
    prune_most (int): Keep at most so many heads of a token.
    prune_epochs (int), prune_rate (float): Training of the pruner.
    smallest (float): Weights nearer to 0 than this are dropped in the end.
    patience (int): Stop after so many epochs without a gain on the development data.
    seed (int): Seed of the order of sentences.
    n_threads (int): Threads; the result does not depend on it.
    """

    epochs: int = 4
    rate: float = 0.05
    decay: float = 0.01
    batch_size: int = 16
    n_states: int = 12
    siblings: bool = True
    second_tag: bool = True
    windows: bool = True
    n_blocks: int = 100
    min_blocks: int = 2
    n_between: int = 6
    prune_threshold: float = 5e-3
    parse_threshold: float | None = None
    prune_most: int = 10
    prune_epochs: int = 2
    prune_rate: float = 0.1
    smallest: float = 0.005
    patience: int = 2
    seed: int = 0
    n_threads: int = 1

    def __post_init__(self) -> None:
        for setting, (low, high) in _RANGES.items():
            value = getattr(self, setting)
            if value is not None and not low <= value <= high:
                raise SpectralError(
                    Errors.S408.format(setting=setting, low=low, high=high, value=value)
                )


class Epoch(NamedTuple):
    """Progress of training: the epoch (from 1), the loss per token, and scores on the development data (0..1)
    if there is any.
    """

    epoch: int
    n_epochs: int
    loss: float
    uas: float | None
    las: float | None


def fit(
    train: Annotated,
    *,
    tags: Sequence[str],
    labels: Sequence[str],
    dev: Annotated | None = None,
    settings: Settings | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> LogLinearModel:
    """Train a parser.

    Heads and labels that are not annotated are summed out.

    train: The training sentences, encoded by an `Encoder` of the same tags; trees are
        projective.
    dev: Sentences to choose the best epoch by, with the trees as a user wants them: crossing
        arcs and plain labels. Without any head they choose nothing.
    """
    settings = settings or Settings()
    data, n_tags, n_labels = train.sentences, len(tags) + 1, len(labels)
    heads = _checked_heads(train)
    gold_labels = numpy.ascontiguousarray(train.labels, dtype="int32")
    if not len(heads) or not ((heads >= 0) & (gold_labels >= 0)).any():
        raise SpectralError(Errors.S401)
    if n_labels > MAX_LABELS:
        counted = {"setting": "the number of labels", "low": 1, "high": MAX_LABELS}
        raise SpectralError(Errors.S408.format(**counted, value=n_labels))
    missing = {
        name
        for i, name in enumerate(COLUMNS)
        if name not in GUESSED and not data.columns[:, i].any()
    }
    if not settings.second_tag:
        missing.add("second")
    between_bit = separators(data, heads, n_tags=n_tags, n_bits=settings.n_between)
    pruner, arcs = fit_pruner(
        data,
        heads,
        between_bit=between_bit,
        missing=missing,
        threshold=settings.prune_threshold,
        parse_threshold=settings.parse_threshold,
        most=settings.prune_most,
        epochs=settings.prune_epochs,
        rate=settings.prune_rate,
        seed=settings.seed,
        weights=None if train.trust is None else train.trust.weights,
    )
    templates = compile_templates(
        missing,
        unaries=UNARIES if settings.windows else "",
        siblings=SIBLINGS if settings.siblings else "",
    )
    allowed = numpy.zeros((2, n_labels), dtype="uint8")
    for from_root in (0, 1):
        seen = gold_labels[((heads == 0) == from_root) & (heads >= 0) & (gold_labels >= 0)]
        allowed[from_root, seen] = 1
        if not len(seen):
            allowed[from_root] = 1
    classes = label_classes(
        label_successions(data.starts, heads, gold_labels, n_labels), settings.n_states
    )
    n_states = int(classes.max()) + 1
    nothing = numpy.zeros(0)  # until the pruner has filled all columns
    model = LogLinearModel(
        tags=list(tags),
        labels=list(labels),
        templates=templates,
        slots=nothing,
        entries=nothing,
        moves=numpy.zeros((n_tags, 2, n_states + 1, n_states + 1), dtype="float32"),
        label_classes=classes,
        allowed=allowed,
        between_bit=between_bit,
        function_tags=function_tags(data, heads, n_tags=n_tags),
        pruner=pruner,
    )
    data = model.with_children(data, arcs)
    keys, row_starts, model.slots, model.entries = build_table(
        data,
        heads,
        gold_labels,
        templates=templates,
        between_bit=between_bit,
        n_labels=n_labels,
        n_blocks=settings.n_blocks,
        min_blocks=min(settings.min_blocks, len(data)),
    )
    if dev is not None and not (dev.heads >= 0).any():
        dev = None
    gold = Annotated(data, heads, gold_labels, train.trust)
    return _climb(model, keys, row_starts, gold, arcs, settings, dev, progress)


def fit_pruner(
    data: Sentences,
    heads: NDArray[numpy.int32],
    *,
    between_bit: NDArray[numpy.uint8],
    missing: set[str],
    threshold: float,
    parse_threshold: float | None = None,
    most: int,
    epochs: int,
    rate: float,
    seed: int,
    weights: NDArray[numpy.float32] | None = None,
) -> tuple[ArcPruner, Arcs]:
    """Train a pruner, and prune its training data as if it had never seen it.

    The pruner is trained on either half of the text. Training sentences are then pruned by the half they do
    not belong to: a pruner knows its own training data too well, and what is trained on such arcs would meet
    harder ones later (this costs more than a point of UAS). Everything else is pruned by the mean of the two.

    missing: Columns the data does not have.
    threshold, parse_threshold, most: See `Settings`.
    epochs: Passes over either half; the first does not count for the average unless it is the
        only one.
    weights: Of sentences.
    """
    templates = compile_templates(missing, pairs=PRUNER, unaries="", siblings="")
    rng = numpy.random.default_rng(seed)
    middle = len(data) // 2
    sentences = numpy.arange(len(data), dtype="int32")

    def train(half: NDArray[numpy.int32]) -> NDArray[numpy.float32]:
        current, squares, total = (numpy.full(_SIZE, x, dtype="float32") for x in (0, 1, 0))
        for epoch in range(epochs):
            for part in numpy.array_split(rng.permutation(half), _PARTS):
                train_pruner(
                    data.columns, data.starts, data.tags, heads, templates.composites,
                    templates.pairs, between_bit, current, squares, part, rate, REACH, N_FAR, weights,
                )  # fmt: skip
                if epoch or epochs == 1:
                    total += current
        return (total / (_PARTS * max(epochs - 1, 1))).astype("float32")

    def pruner(learnt: NDArray[numpy.float32]) -> ArcPruner:
        return ArcPruner(templates, learnt, between_bit, threshold, most)

    first = train(sentences[:middle] if middle else sentences)
    second = train(sentences[middle:])
    cut = int(data.starts[middle])
    of_first = pruner(second)(data.part(0, middle), heads[:cut])
    of_second = pruner(first)(data.part(middle, len(data)), heads[cut:])
    starts = [of_first.starts[:-1], of_first.starts[-1] + of_second.starts]
    arcs = Arcs(
        numpy.concatenate(starts).astype("int32"),
        numpy.concatenate([of_first.heads, of_second.heads]),
        numpy.concatenate([of_first.probs, of_second.probs]),
    )
    result = pruner(((first + second) / 2).astype("float32"))
    return result if parse_threshold is None else replace(result, threshold=parse_threshold), arcs


def _checked_heads(train: Annotated) -> NDArray[numpy.int32]:
    """The heads; sentences whose heads are all known are projective trees."""
    heads = numpy.ascontiguousarray(train.heads, dtype="int32")
    for sentence, (first, last) in enumerate(pairwise(train.sentences.starts.tolist())):
        own = heads[first:last]
        whole = (own >= 0).all()
        if (
            own.max(initial=0) > last - first
            or own.min(initial=0) < MISSING
            or (whole and last > first and not is_projective_tree(own))
        ):
            raise SpectralError(Errors.S402.format(sentence=sentence))
    return heads


def _climb(
    model: LogLinearModel,
    keys: NDArray[numpy.uint64],
    row_starts: NDArray[numpy.int64],
    gold: Annotated,
    arcs: Arcs,
    settings: Settings,
    dev: Annotated | None,
    progress: Callable[[Epoch], None] | None,
) -> LogLinearModel:
    """Maximise the conditional likelihood. RETURNS (LogLinearModel): The averaged model."""
    learner = Learner(model.engine(), 1.0, settings.n_threads)
    data = gold.sentences
    rng = numpy.random.default_rng(settings.seed)
    best, best_las, best_epoch = model, -1.0, 0
    warned = False
    with ThreadPoolExecutor(settings.n_threads) as pool:
        run = pool.map if settings.n_threads > 1 else map
        for epoch in range(1, settings.epochs + 1):
            loss, skipped = 0.0, 0
            order = rng.permutation(len(data)).astype("int32")
            for start in range(0, len(order), settings.batch_size):
                batch_loss, batch_skipped = learner.gradient(
                    data.columns,
                    data.starts,
                    data.tags,
                    arcs.starts,
                    arcs.heads,
                    gold.heads,
                    gold.labels,
                    order[start : start + settings.batch_size],
                    run,
                    *(gold.trust or ()),
                )
                learner.step(settings.rate, settings.decay)
                loss += batch_loss
                skipped += batch_skipped
            if skipped and not warned:
                warned = True
                message = Warnings.W401.format(skipped=skipped, sentences=len(data))
                warnings.warn(message, stacklevel=2)
            weights, moves = learner.averaged()
            slots, entries = drop_small_weights(
                keys, row_starts, model.entries, weights, smallest=settings.smallest
            )
            averaged = replace(model, slots=slots, entries=entries, moves=moves)
            uas, las = (None, None) if dev is None else score(averaged, dev)
            if progress is not None:
                progress(Epoch(epoch, settings.epochs, loss / len(gold.heads), uas, las))
            if las is None or las > best_las:
                best, best_las, best_epoch = averaged, las or 0.0, epoch
            elif epoch - best_epoch >= settings.patience:
                break
    return best


def score(model: LogLinearModel, gold: Annotated) -> tuple[float, float]:
    """UAS and LAS over all tokens whose head is annotated, of trees as users get them: crossing
    arcs restored, labels plain."""
    parses = model.parse(gold.sentences)
    inventory = Inventory(model.labels)
    heads, labels = inventory.restored(parses.starts, parses.heads, parses.labels)
    known = gold.heads >= 0
    right = (heads == gold.heads)[known]
    return float(right.mean()), float((right & (labels == gold.labels)[known]).mean())
