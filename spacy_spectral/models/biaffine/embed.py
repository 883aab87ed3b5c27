"""What the network sees of tokens: numbers of strings, word vectors, and the first layers over them.

Everything that depends on the form of a word alone is found once for every distinct word.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy
from numpy.typing import NDArray
from thinc.api import Dropout, Model, chain, glorot_uniform_init
from thinc.types import Ragged

from ...base.cache import RowCache
from ...base.files import Bytes, Field, Record, Strings
from ...base.linalg import product
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Ints, Longs, Tokens, sentence_blocks
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from ..eigenwords.vectors import WordVectors
from ..eigenwords.vocabulary import signatures
from .layers import root_rows, run_scans, token_rows

_MAX_CACHED = 100_000
# In prediction, layers work on so many tokens at a time: what they compute of all would be new memory for
# every batch.
_TOKENS_AT_ONCE = 1024
# What is seen of a word, and the width of its embedding.
Describe = Callable[[str], str]
_OF_WORDS: dict[str, tuple[Describe, int]] = {
    "lower": (str.lower, 64),
    "suffix3": (lambda word: word.lower()[-3:], 32),
    "suffix2": (lambda word: word.lower()[-2:], 16),
    "prefix3": (lambda word: word.lower()[:3], 24),
    "shape": (lambda word: signatures(word)[-2], 8),
}
# What taggers have said of a token; and, if there are several treebanks, which one to parse like.
_OF_TOKENS = {"symbols": 32, "pos": 16, "morphs": 32, "sources": 16}
_CLUSTER_WIDTH = 24
_STRINGS: Any = Strings(unique=True)
_SOURCES: Any = Strings(unique=True, optional=True)
# Rarer strings are unknown, so that it is learnt what to make of unknown ones.
_MIN_COUNT = 2


@dataclass
class Inputs:
    """Tokens of some sentences, as the network sees them: the number of each string, 0 for one that is
    not known, by feature; and word vectors, without columns if there are none."""

    ids: Ints
    vectors: NDArray[numpy.float32]
    starts: Ints

    def select(self, tokens: Longs | slice, starts: NDArray) -> "Inputs":
        """Some of the tokens, as sentences that start at `starts`."""
        return Inputs(self.ids[tokens], self.vectors[tokens], starts)


class WordNumbers:
    """Numbers of strings that are read off words, and what is known of words: clusters and vectors."""

    def __init__(
        self,
        describe: Mapping[str, Describe],
        strings: Mapping[str, Sequence[str]],
        clusters: Clusters | None,
        vectors: Vectors | None,
    ):
        """Features of words are described, and the strings of every feature are numbered from 1."""
        self.strings = {name: list(known) for name, known in strings.items()}
        self.clusters, self.vectors = clusters, vectors
        self._describe = describe
        self._index = {
            name: {string: i for i, string in enumerate(known, 1)}
            for name, known in self.strings.items()
        }

    @property
    def n_vector(self) -> int:
        return 0 if self.vectors is None else self.vectors.size

    @property
    def granularities(self) -> tuple[int, ...]:
        return () if self.clusters is None else self.clusters.granularities

    def of_words(self, words: list[str]) -> tuple[NDArray, NDArray]:
        """Numbers of features and then of clusters, 0 for none, and vectors of words."""
        columns = [
            self.numbers(name, list(map(describe, words)))
            for name, describe in self._describe.items()
        ]
        if self.clusters is not None:
            ids = self.clusters.ids(words)
            # clusters of another file may be finer than those that were learnt with
            within = ids < numpy.array(self.clusters.granularities)
            columns += list(numpy.where(within, ids + 1, 0).T)
        found = (
            numpy.zeros((len(words), 0), dtype="float32")
            if self.vectors is None
            else self.vectors(words)
        )
        return numpy.stack(columns, axis=1).astype("int32"), found

    def numbers(self, name: str, strings: Sequence[str]) -> Ints:
        """The numbers of a feature's strings."""
        get = self._index[name].get
        return numpy.array([get(string, 0) for string in strings], dtype="int32")


class TokenNumbers(WordNumbers):
    """Numbers of strings of tokens: those of words, and what taggers have said."""

    # what files have of them
    FIELDS: ClassVar[dict[str, Field]] = {
        "strings": Record(
            **dict.fromkeys((*_OF_WORDS, *_OF_TOKENS), _STRINGS) | {"sources": _SOURCES}
        ),
        "clusters": Bytes(),
        "vectors": Bytes(),
    }

    def __init__(
        self,
        strings: Mapping[str, Sequence[str]],
        clusters: Clusters | None,
        vectors: Vectors | None,
    ):
        """strings: The strings of every feature, numbered from 1; "sources" only if there are several."""
        super().__init__(
            {name: own for name, (own, _) in _OF_WORDS.items()}, strings, clusters, vectors
        )
        self.sources = self.strings.get("sources", [])
        of_words = [*_OF_WORDS, *self._cluster_names()]
        self._of_tokens = [name for name in _OF_TOKENS if name in self.strings]
        self.names = [*of_words, *self._of_tokens]
        first = numpy.zeros((0, len(of_words)), dtype="int32")
        self._cache = RowCache(
            self.of_words,
            (first, numpy.zeros((0, self.n_vector), dtype="float32")),
            size=_MAX_CACHED,
        )

    @classmethod
    def fit(
        cls, tokens: Tokens, *, clusters: Clusters | None, vectors: Vectors | None
    ) -> "TokenNumbers":
        """The strings that are frequent enough in some sentences."""
        tags = {name: Counter(getattr(tokens, name)) for name in _OF_TOKENS}
        return cls.of_counts(Counter(tokens.words), tags, clusters=clusters, vectors=vectors)

    @classmethod
    def of_counts(
        cls,
        words: Mapping[str, int],
        tags: Mapping[str, Counter[str]],
        *,
        clusters: Clusters | None,
        vectors: Vectors | None,
        least: int = _MIN_COUNT,
    ) -> "TokenNumbers":
        """The strings that occur often enough.

        words: How often each word occurs.
        tags: How often each value of the other features occurs, by feature.
        """
        strings = {}
        for name, (describe, _) in _OF_WORDS.items():
            counts: Counter[str] = Counter()
            for word, n in words.items():
                counts[describe(word)] += n
            strings[name] = frequent(counts, least)
        strings |= {name: frequent(tags[name]) for name in _OF_TOKENS if name in tags}
        if not strings.get("sources"):
            strings.pop("sources", None)
        return cls(strings, clusters, vectors)

    def with_strings_of(self, other: "TokenNumbers") -> "TokenNumbers":
        """These strings, and behind them those that others know beside them. What is known of words stays."""
        strings = {name: list(known) for name, known in self.strings.items()}
        for name, known in other.strings.items():
            own = strings.setdefault(name, [])
            own += sorted({*known} - {*own})
        return TokenNumbers(strings, self.clusters, self.vectors)

    def to_payload(self) -> dict[str, Any]:
        """The fields of `FIELDS`."""
        return {
            "strings": self.strings,
            "clusters": clusters_to_bytes(self.clusters),
            "vectors": b"" if self.vectors is None else self.vectors.to_bytes(),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "TokenNumbers":
        """What `to_payload` gave."""
        vectors = WordVectors.from_bytes(read["vectors"]) if read["vectors"] else None
        strings = {name: known for name, known in read["strings"].items() if known is not None}
        return cls(strings, clusters_from_bytes(read["clusters"]), vectors)

    def columns(self) -> dict[str, Longs]:
        """The columns of embeddings side by side, by feature, and those of word vectors."""
        widths = [width for _, width in self.tables()]
        edges = numpy.cumsum([0, *widths, self.n_vector]).tolist()
        names = [*self.names, "vectors"]
        return {
            name: numpy.arange(a, b) for name, (a, b) in zip(names, pairwise(edges), strict=True)
        }

    def tables(self) -> list[tuple[int, int]]:
        """Numbers and width of every feature's embeddings."""
        widths = {name: width for name, (_, width) in _OF_WORDS.items()} | _OF_TOKENS
        sizes = {name: len(known) for name, known in self.strings.items()}
        sizes |= zip(self._cluster_names(), self.granularities, strict=True)
        return [(sizes[name] + 1, widths.get(name, _CLUSTER_WIDTH)) for name in self.names]

    def __call__(self, tokens: Tokens) -> Inputs:
        """What the network sees of sentences."""
        rows, (of_words, vectors) = self._cache(tokens.words)
        # without names, sentences are like none of the treebanks
        columns = {"sources": tokens.sources or [""] * len(tokens.words)}
        columns |= {name: getattr(tokens, name) for name in self._of_tokens if name != "sources"}
        of_tokens = [self.numbers(name, columns[name]) for name in self._of_tokens]
        ids = numpy.concatenate([of_words[rows], numpy.stack(of_tokens, axis=1)], axis=1)
        return Inputs(ids, vectors[rows], tokens.starts)

    def _cluster_names(self) -> list[str]:
        return [f"cluster{i}" for i in range(len(self.granularities))]


def frequent(counts: Mapping[str, int], least: int = _MIN_COUNT) -> list[str]:
    """Strings that are not rare, in order."""
    return sorted(string for string, n in counts.items() if string and n >= least)


def embeddings(tables: Sequence[tuple[int, int]], n_vector: int) -> Model[Inputs, Ragged]:
    """Embeddings of all features side by side, and word vectors; each sentence with its root in front.

    In training, features are left out at random: a word must be told by its suffix, too.
    """
    names = [f"E{i}" for i in range(len(tables))]
    width = sum(width for _, width in tables) + n_vector
    return Model(
        "embeddings",
        _embed_forward,
        init=_embed_init,
        dims={"nO": width},
        params=dict.fromkeys([*names, "root"]),
        attrs={"tables": list(tables), "n_vector": n_vector, "rate": 0.0},
    )


def _embed_init(model: Model, X: Inputs | None = None, Y: Ragged | None = None) -> None:
    for i, (size, width) in enumerate(model.attrs["tables"]):
        table = numpy.random.normal(0.0, 0.5, (size, width)).astype("float32")
        table[0] = 0.0
        model.set_param(f"E{i}", table)
    model.set_param("root", model.ops.alloc1f(model.get_dim("nO")))


def _embed_forward(model: Model, X: Inputs, is_train: bool):
    widths = [width for _, width in model.attrs["tables"]]
    edges = numpy.cumsum([0, *widths]).tolist()
    tokens, roots = token_rows(X.starts), root_rows(X.starts)
    ids = numpy.zeros((len(tokens) + len(roots), len(widths)), dtype="int32")
    ids[tokens] = X.ids
    data = numpy.empty((len(ids), model.get_dim("nO")), dtype="float32")
    for i, width in enumerate(widths):
        data[:, edges[i] : edges[i] + width] = model.get_param(f"E{i}")[ids[:, i]]
    # vectors of length 1 have entries as large as those of embeddings
    data[tokens, edges[-1] :] = X.vectors * numpy.sqrt(max(model.attrs["n_vector"], 1))
    keep = None
    if is_train and model.attrs["rate"] > 0:
        rate = model.attrs["rate"]
        parts = [*widths, model.attrs["n_vector"]]
        kept = numpy.random.random((len(tokens), len(parts))) >= rate
        keep = numpy.repeat((kept / (1.0 - rate)).astype("float32"), parts, axis=1)
        data[tokens] *= keep
    data[roots] = model.get_param("root")

    def backprop(dY: Ragged) -> None:
        d_own = dY.data[tokens] if keep is None else dY.data[tokens] * keep
        for i, width in enumerate(widths):
            gradient = numpy.zeros_like(model.get_param(f"E{i}"))
            part = numpy.ascontiguousarray(d_own[:, edges[i] : edges[i] + width])
            model.ops.scatter_add(gradient, X.ids[:, i], part)
            gradient[0] = 0.0
            model.inc_grad(f"E{i}", gradient)
        model.inc_grad("root", dY.data[roots].sum(axis=0))

    return Ragged(data, model.ops.asarray1i(numpy.diff(X.starts) + 1)), backprop


def mixture(width: int) -> Model[Ragged, Ragged]:
    """A maxout layer of two pieces with layer normalisation: features are combined before they are read in
    order, and what follows is narrower.
    """
    return Model(
        "mixture",
        _mixture_forward,
        init=_mixture_init,
        dims={"nO": width, "nI": None},
        params={"W": None, "b": None, "G": None, "c": None},
        layers=[Dropout()],
    )


def _mixture_init(model: Model, X: Ragged | None = None, Y: Ragged | None = None) -> None:
    if X is not None:
        model.set_dim("nI", X.data.shape[1])
    nO, nI = model.get_dim("nO"), model.get_dim("nI")
    pieces = [glorot_uniform_init(model.ops, (nO, nI)) for _ in range(2)]
    model.set_param("W", numpy.concatenate(pieces))
    model.set_param("b", model.ops.alloc1f(2 * nO))
    model.set_param("G", model.ops.alloc1f(nO) + 1.0)
    model.set_param("c", model.ops.alloc1f(nO))


def _mixture_forward(model: Model, X: Ragged, is_train: bool):
    n, W, G = model.get_dim("nO"), model.get_param("W"), model.get_param("G")
    pieces = product(X.data, W)
    pieces += model.get_param("b")
    first = pieces[:, :n] >= pieces[:, n:]
    centred = numpy.where(first, pieces[:, :n], pieces[:, n:])
    centred -= centred.mean(axis=1, keepdims=True)
    scale = 1.0 / numpy.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-8)
    normal = centred * scale
    Y, backprop_dropout = model.layers[0](normal * G + model.get_param("c"), is_train)

    def backprop(dY: Ragged) -> Ragged:
        d_output = backprop_dropout(dY.data)
        model.inc_grad("G", (d_output * normal).sum(axis=0))
        model.inc_grad("c", d_output.sum(axis=0))
        d_normal = d_output * G
        d_own = d_normal - d_normal.mean(axis=1, keepdims=True)
        d_own -= normal * (d_normal * normal).mean(axis=1, keepdims=True)
        d_own *= scale
        d_pieces = numpy.concatenate([d_own * first, d_own * ~first], axis=1)
        model.inc_grad("W", product(d_pieces.T, X.data.T))
        model.inc_grad("b", d_pieces.sum(axis=0))
        return Ragged(product(d_pieces, W.T), X.lengths)

    return Ragged(Y, X.lengths), backprop


def encoder(
    embedded: Model[Inputs, Ragged], scans: Sequence[Model[Ragged, Ragged]]
) -> Model[Inputs, Ragged]:
    """Recurrent layers, one on top of the other, over vectors of tokens. In prediction they work on some
    sentences at a time, so that all that is computed of these stays in the cache, and write their states
    where they are wanted."""
    layers = embedded
    for layer in scans:
        layers = chain(layers, layer)
    refs: dict[str, Model | None] = {f"scan{i}": layer for i, layer in enumerate(scans)}
    return Model(
        "encoder",
        _encode_forward,
        init=_encode_init,
        layers=[layers],
        refs=refs | {"embedded": embedded},
    )


def _encode_init(model: Model, X: Inputs | None = None, Y: Ragged | None = None) -> None:
    model.layers[0].initialize(X=X, Y=Y)


def _encode_forward(model: Model, X: Inputs, is_train: bool):
    if is_train:
        return model.layers[0](X, is_train)
    embedded = model.get_ref("embedded")
    scans = [model.get_ref(f"scan{i}") for i in range(len(model.ref_names) - 1)]
    lengths = numpy.diff(X.starts) + 1
    n = embedded.get_dim("nO")
    width = n + sum(layer.get_dim("units") for layer in scans)
    rows, first = numpy.empty((int(lengths.sum()), width), dtype="float32"), 0
    for tokens, starts in sentence_blocks(X.starts, _TOKENS_AT_ONCE):
        found = embedded.predict(X.select(tokens, starts))
        own = rows[first : first + len(found.data)]
        own[:, :n] = found.data
        run_scans(scans, own, n, found.lengths)
        first += len(own)
    return Ragged(rows, model.ops.asarray1i(lengths)), _no_gradient


def _no_gradient(dY: Ragged) -> None:
    raise NotImplementedError  # Thinc asks for it in training alone
