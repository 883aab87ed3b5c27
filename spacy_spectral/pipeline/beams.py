"""The beams of spaCy's `beam_parser`: the trees of sentences in them, and training of copies."""

import random
from collections.abc import Callable

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import DependencyParser
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Adam, fix_random_seed

from ..models.rerank.interface import Candidates
from ..trees.pseudoprojective import deprojectivize
from ..trees.sentences import Batch

Report = Callable[[str], None]

# One document's beam: heads (token indices, roots their own) and labels of each tree, probabilities.
Beam = tuple[NDArray[numpy.int64], list[list[str]], NDArray[numpy.float64]]


def beam_trees(parser: DependencyParser, docs: list[Doc]) -> list[Beam]:
    """RETURNS (List[Beam]): The beam of every document."""
    width, density = parser.cfg["beam_width"], parser.cfg["beam_density"]
    result = []
    for doc in docs:
        parses = []
        if len(doc):
            # one by one: spaCy gives other, worse beams for documents of different lengths in a batch
            (beam,) = parser.beam_parse([doc], beam_width=width, beam_density=density)
            parses = parser.moves.get_beam_parses(beam)
        result.append(_beam(parses, doc))
    return result


def _beam(parses: list[tuple[float, list[tuple[int, int, str]]]], doc: Doc) -> Beam:
    n = len(doc)
    # spaCy leaves out the tree without arcs: all roots, or a single token
    rest = 1.0 - sum(prob for prob, _ in parses)
    if rest > 1e-6:
        parses = [*parses, (rest, [])]
    parses = sorted(parses, key=lambda parse: -parse[0])
    heads = numpy.tile(numpy.arange(n), (len(parses), 1))
    labels = [["ROOT"] * n for _ in parses]
    for tree, (_, arcs) in enumerate(parses):
        for head, child, label in arcs:
            heads[tree, child] = head
            labels[tree][child] = label
        _without_space(heads[tree], doc)
    return heads, labels, numpy.array([prob for prob, _ in parses])


def sentence_starts(heads: NDArray[numpy.int64], doc: Doc) -> NDArray[numpy.bool_]:
    """Where sentences of a projective tree start: where the root of words changes."""
    roots = heads
    while (heads[roots] != roots).any():
        roots = heads[roots]
    words = numpy.array([token.i for token in doc if not token.is_space], dtype="int64")
    starts = numpy.zeros(len(doc), dtype=bool)
    starts[words] = numpy.diff(roots[words], prepend=-1) != 0
    return starts


def in_sentences(batch: Batch, trees: list[Beam], n: int) -> list[Candidates]:
    """RETURNS (List[Candidates]): The n most probable trees that sentences have in the beams of documents."""
    names: dict[str, int] = {}
    result = []
    for begin, end in batch.tokens.bounds():
        places = batch.places[begin:end]
        doc = int(numpy.searchsorted(batch.offsets, places[0], side="right")) - 1
        result.append(_part(trees[doc], places - batch.offsets[doc], n, names))
    shared = list(names)
    for candidates in result:
        candidates.names = shared
    return result


def _part(beam: Beam, tokens: NDArray[numpy.int64], n: int, names: dict[str, int]) -> Candidates:
    """The different trees that a beam has of some tokens, without others between them (white space)."""
    parts: dict[tuple[bytes, bytes], float] = {}
    for heads, labels, prob in zip(*beam, strict=True):
        tree = _tree_of(heads, tokens)
        if tree is None:
            continue
        restored, plain = deprojectivize(tree, [labels[token] for token in tokens.tolist()])
        ids = numpy.array([names.setdefault(label, len(names)) for label in plain], dtype="int32")
        key = restored.tobytes(), ids.tobytes()
        parts[key] = parts.get(key, 0.0) + prob
    order = sorted(parts, key=lambda key: -parts[key])[:n]
    trees = numpy.array(
        [numpy.frombuffer(heads, dtype="int32") for heads, _ in order], dtype="int32"
    )
    ids = numpy.array(
        [numpy.frombuffer(labels, dtype="int32") for _, labels in order], dtype="int32"
    )
    probs = numpy.array([parts[key] for key in order])
    return Candidates(
        trees.reshape(-1, len(tokens)),
        ids.reshape(-1, len(tokens)),
        (),
        numpy.log(numpy.maximum(probs, 1e-300)),
        _shares(trees, probs).reshape(-1, len(tokens)),
    )


def _shares(trees: NDArray[numpy.int32], probs: NDArray) -> NDArray[numpy.float64]:
    """The part of a beam that has each arc."""
    shares = numpy.zeros(trees.shape)
    for tree, prob in zip(trees, probs, strict=True):
        shares += prob * (trees == tree)
    return shares / max(probs.sum(), 1e-300)


def _tree_of(
    heads: NDArray[numpy.int64], tokens: NDArray[numpy.int64]
) -> NDArray[numpy.int32] | None:
    """The part of a tree on some tokens (1-based, 0 for the root); None if it is not one tree there."""
    position = numpy.zeros(len(heads), dtype="int32")
    position[tokens] = numpy.arange(1, len(tokens) + 1)
    own = heads[tokens]
    is_root = own == tokens
    if is_root.sum() != 1 or (position[own] == 0).any():
        return None
    return numpy.where(is_root, 0, position[own]).astype("int32")


def _without_space(heads: NDArray[numpy.int64], doc: Doc) -> None:
    """White space has no place in a tree: what hangs on it moves up, in place. Below a root of white
    space the first word takes its place."""
    for token in doc:
        if token.is_space:
            below = numpy.flatnonzero(heads == token.i)
            below = below[below != token.i]
            if len(below):
                heads[below] = below[0] if heads[token.i] == token.i else heads[token.i]
            heads[token.i] = token.i


def trained_copy(
    nlp: Language, name: str, examples: list[Example], *, epochs: int, report: Report
) -> DependencyParser:
    """A parser with the same settings, trained from the beginning."""
    language = type(nlp)(vocab=nlp.vocab)
    config = {key: value for key, value in nlp.get_pipe_config(name).items() if key != "factory"}
    parser = language.add_pipe(nlp.get_pipe_meta(name).factory, config=config)
    train_beam_parser(parser, language, examples, epochs=epochs, report=report)
    return parser


def train_beam_parser(
    parser: DependencyParser,
    nlp: Language,
    examples: list[Example],
    *,
    epochs: int,
    report: Report,
) -> None:
    """Train a parser of spaCy's that has no settings of its own for that.

    parser (DependencyParser): The parser.
    nlp (Language): Its pipeline.
    examples (List[Example]): What to train on.
    epochs (int): Passes over the examples.
    report (Callable[[str], None]): Told about every pass.
    """
    fix_random_seed(0)
    order = random.Random(0)
    parser.initialize(lambda: examples, nlp=nlp)
    sgd = Adam(0.001)
    examples = list(examples)
    for epoch in range(1, epochs + 1):
        losses: dict[str, float] = {}
        order.shuffle(examples)
        for batch in minibatch(examples, 32):
            parser.update(batch, drop=0.1, sgd=sgd, losses=losses)
        report(f"epoch {epoch} of {epochs}: loss {sum(losses.values()):.1f}")
