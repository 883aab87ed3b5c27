"""The neural tagger: what a network makes of words and their sentences. Knows nothing of spaCy.

    x_w = maxout([sum of the embeddings of w's features; vector of w])       once for every distinct word
    h   = x of the sentence, and recurrent layers over it, beside it (see `models.biaffine.layers`)

    P(class | token) = softmax of W h,  and so P(value | token) for the values of each attribute of morphology
    P(analysis | class, token) ~ product of P(value | token) over its attributes

among the analyses that were seen with the class.

The loss is the sum of the negative logarithms of class and values, where they are annotated. An attribute
that an analysis lacks has the value "".

Embeddings that are summed can be many, and are learnt from faster than narrow ones side by side: on a fifth
of UD_Turkish-IMST's training data UPOS was 92.0 % and features 83.6 %, with those side by side 90.2 and 81.2.
A layer that reads the letters of words one by one gained nothing in the product.

A network learns by steps, not by tokens: a small treebank makes smaller batches, so that an epoch has at
least `_LEAST_BATCHES`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy
from numpy.typing import NDArray
from thinc.api import Model, chain, noop, use_ops
from thinc.types import Ragged

from ...base.cache import Arrays, RowCache
from ...base.errors import Errors, require_settings
from ...base.files import Array, Bytes, Float, Format, Int, List, Record, Strings
from ...base.learnt import architecture
from ...base.linalg import product
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Bools, Ints, Longs
from ..biaffine.embed import Describe, WordNumbers, frequent, mixture
from ..biaffine.estimate import SEED, flat_weights, seeded, set_weights, train
from ..biaffine.layers import gated_scan, output_scores
from ..eigenwords.clusters import clusters_from_bytes, clusters_to_bytes
from ..eigenwords.vectors import WordVectors
from ..eigenwords.vocabulary import signatures
from ..linear.analyses import Analysis
from ..linear.classifier import Epoch, Progress
from ..linear.tagger import is_analysis, sources_payload
from ..linear.tagger_training import Corpus, TaggedSentence
from .interface import DistributionTagger, Logs, log_softmax, seen_in


def _suffix(n: int, word: str) -> str:
    return word.lower()[-n:]


def _prefix(n: int, word: str) -> str:
    return word.lower()[:n]


def _shape(word: str) -> str:
    return signatures(word)[-2]


# What is seen of a word.
_FEATURES: dict[str, Describe] = {
    "lower": str.lower,
    "shape": _shape,
    **{f"suffix{n}": partial(_suffix, n) for n in range(1, 7)},
    **{f"prefix{n}": partial(_prefix, n) for n in range(1, 5)},
}
_EMBEDDING_SCALE = 0.15
_LEAST_BATCHES = 64
_MAX_CACHED = 50_000


@dataclass(frozen=True)
class NeuralTaggerRecipe:
    """The settings of a neural tagger with an embedding of its own: of words, their affixes, word clusters
    and word vectors. It is trained when the pipeline is initialized.

    embed_size (int): Width of the embeddings of features, which are summed.
    mix_size (int): Width of the layer over embeddings.
    scan_size (int): Units of each recurrent layer in both directions together.
    scan_depth (int): How many recurrent layers.
    epochs (int): Passes over the treebank; the rate falls to zero over them.
    rate (float): The highest learning rate.
    batch_size (int): Tokens of a batch, about; fewer if the treebank is small.
    dropout (float): Part of the units that are left out in training.
    word_dropout (float): Part of the features of words that are left out in training.
    seed (int): Seed of weights, batches and dropout.
    """

    embed_size: int = 64
    mix_size: int = 128
    scan_size: int = 128
    scan_depth: int = 2
    epochs: int = 12
    rate: float = 0.004
    batch_size: int = 1000
    dropout: float = 0.33
    word_dropout: float = 0.15
    seed: int = 0

    def __post_init__(self) -> None:
        names = ("embed_size", "mix_size", "epochs", "batch_size")
        rates = {"rate": "> 0", "dropout": ">= 0, < 1", "word_dropout": ">= 0, < 1"}
        sizes = {"scan_size": "even, >= 2", "scan_depth": ">= 0", **dict.fromkeys(names, ">= 1")}
        require_settings(Errors.S308, self, **sizes, **rates, **SEED)

    @property
    def n_epochs(self) -> int:
        """How many epochs are reported."""
        return self.epochs

    def fit(
        self,
        sentences: Sequence[TaggedSentence],
        *,
        clusters: Clusters | None = None,
        vectors: Vectors | None = None,
        dev: Sequence[TaggedSentence] = (),
        labels: Collection[str] | None = None,
        lexicon: Iterable[Analysis] | None = None,
        progress: Progress | None = None,
    ) -> "NeuralTagger":
        """Train a tagger; see `models.linear.tagger.TaggerRecipe`."""
        return fit(self, Corpus.encode(sentences, labels=labels), clusters, vectors, progress)


class WordInputs(NamedTuple):
    """Words as the network sees them: the rows of their features in the table of embeddings, and word
    vectors, without columns if there are none."""

    ids: Ints
    vectors: NDArray[numpy.float32]


class Lexicon(WordNumbers):
    """Numbers of the features of words: each feature has rows of its own, the first for what is unknown."""

    def __init__(
        self,
        strings: dict[str, list[str]],
        clusters: Clusters | None,
        vectors: Vectors | None,
        sources: Sequence[str] = (),
        source: str = "",
    ):
        """sources: The names of treebanks, if they have some; source: the one to tag like, "" for none."""
        super().__init__(_FEATURES, strings, clusters, vectors)
        self.sources, self.source = list(sources), source
        sizes = [len(self.strings[name]) + 1 for name in _FEATURES]
        sizes += [size + 1 for size in self.granularities]
        sizes += [len(self.sources) + 1] if self.sources else []
        self.n_rows = sum(sizes)
        self.firsts = numpy.append(0, numpy.cumsum(sizes[:-1])).astype("int32")

    @classmethod
    def fit(cls, corpus: Corpus, clusters: Clusters | None, vectors: Vectors | None) -> "Lexicon":
        """The strings that are frequent enough in a corpus."""
        tokens = numpy.bincount(corpus.words, minlength=len(corpus.types)).tolist()
        strings = {}
        for name, describe in _FEATURES.items():
            counts: Counter[str] = Counter()
            for word, n in zip(corpus.types, tokens, strict=True):
                counts[describe(word)] += n
            strings[name] = frequent(counts)
        return cls(strings, clusters, vectors, corpus.sources)

    def like(self, source: str) -> "Lexicon":
        """The same for tagging like another treebank."""
        return Lexicon(self.strings, self.clusters, self.vectors, self.sources, source)

    def __call__(self, words: list[str]) -> WordInputs:
        """What the network sees of words."""
        ids, vectors = self.of_words(words)
        if self.sources:
            number = self.sources.index(self.source) + 1 if self.source else 0
            ids = numpy.pad(ids, ((0, 0), (0, 1)), constant_values=number)
        return WordInputs(ids + self.firsts, vectors)

    def in_treebanks(self, words: WordInputs, numbers: Ints) -> WordInputs:
        """The same words, each in a treebank, counted from 1, 0 for one without a name."""
        if not self.sources:
            return words
        ids = words.ids.copy()
        ids[:, -1] = self.firsts[-1] + numbers
        return words._replace(ids=ids)


# ---------------------------------------------------------------- layers


def summed_embeddings(
    firsts: Ints, n_rows: int, width: int, n_vector: int
) -> Model[WordInputs, Ragged]:
    """The sum of the embeddings of all features, and word vectors beside it. In training, features are
    left out at random: a word must be told by its suffix, too. The row that stands for what is unknown,
    the first of each feature, stays 0."""
    return Model(
        "summed_embeddings",
        _embed_forward,
        init=_embed_init,
        dims={"nO": width + n_vector},
        params={"E": None},
        attrs={"firsts": firsts, "shape": (n_rows, width), "n_vector": n_vector, "rate": 0.0},
    )


def _embed_init(model: Model, X: WordInputs | None = None, Y: Ragged | None = None) -> None:
    table = numpy.random.normal(0.0, _EMBEDDING_SCALE, model.attrs["shape"]).astype("float32")
    table[model.attrs["firsts"]] = 0.0
    model.set_param("E", table)


def _embed_forward(model: Model, X: WordInputs, is_train: bool):
    E, rate, n_vector = model.get_param("E"), model.attrs["rate"], model.attrs["n_vector"]
    n, width = X.ids.shape[1], E.shape[1]
    kept = numpy.ones((len(X.ids), n + 1), dtype="float32")
    if is_train and rate > 0:
        kept = ((numpy.random.random(kept.shape) >= rate) / (1.0 - rate)).astype("float32")
    output = numpy.zeros((len(X.ids), width + n_vector), dtype="float32")
    for i in range(n):
        output[:, :width] += E[X.ids[:, i]] * kept[:, i : i + 1]
    # vectors of length 1 have entries as large as those of embeddings
    output[:, width:] = X.vectors * kept[:, n:] * numpy.sqrt(max(n_vector, 1))

    def backprop(dY: Ragged) -> None:
        d_sum, gradient = dY.data[:, :width], numpy.zeros_like(E)
        for i in range(n):
            model.ops.scatter_add(gradient, X.ids[:, i], d_sum * kept[:, i : i + 1])
        gradient[model.attrs["firsts"]] = 0.0
        model.inc_grad("E", gradient)

    return Ragged(output, model.ops.asarray1i([len(output)])), backprop


# ---------------------------------------------------------------- network


class Outputs:
    """What the network's outputs stand for: classes, then the values of each attribute.

    edges: Where the outputs of each question start, closed by their number.
    parts: [analyses, attributes], the output of the value that each analysis has.
    values: [analyses, values], 1 where an analysis has a value.
    """

    def __init__(self, n_classes: int, morphs: Sequence[str]):
        read = [dict(part.split("=", 1) for part in text.split("|") if part) for text in morphs]
        names = sorted({name for own in read for name in own})
        self.parts = numpy.zeros((len(morphs), len(names)), dtype="int32")
        self.edges = [0, n_classes]
        for i, name in enumerate(names):
            values, found = numpy.unique(
                ["", *(own.get(name, "") for own in read)], return_inverse=True
            )
            self.parts[:, i] = found[1:] + self.edges[-1]
            self.edges.append(self.edges[-1] + len(values))
        self.values = numpy.zeros((len(morphs), self.edges[-1] - n_classes), dtype="float32")
        numpy.put_along_axis(self.values, self.parts - n_classes, 1.0, axis=1)

    def __len__(self) -> int:
        return self.edges[-1]

    def log_probs(self, scores: NDArray) -> NDArray:
        """Logarithms of the probabilities of the answers to each question."""
        logs = [
            log_softmax(scores[:, a:b]) for a, b in zip(self.edges, self.edges[1:], strict=False)
        ]
        return numpy.concatenate(logs, axis=1)

    def wanted(self, classes: Ints, analyses: Ints) -> Ints:
        """[tokens, questions], the right outputs, -1 where there is no annotation."""
        values = numpy.full((len(classes), self.parts.shape[1]), -1, dtype="int32")
        values[analyses >= 0] = self.parts[analyses[analyses >= 0]]
        return numpy.concatenate([classes[:, None], values], axis=1)


@dataclass
class TagNetwork:
    """The layers of a tagger: vectors of words, of tokens in their sentences, and scores of outputs."""

    of_words: Model
    encoder: Model
    scores: Model
    outputs: Outputs

    @property
    def layers(self) -> tuple[Model, ...]:
        """All layers, in the order in which files have their weights."""
        return self.of_words, self.encoder, self.scores

    @classmethod
    def make(cls, recipe: NeuralTaggerRecipe, lexicon: Lexicon, outputs: Outputs) -> "TagNetwork":
        """A network with all layers made; its weights are random, or to be replaced."""
        with use_ops("numpy"):
            embeddings = summed_embeddings(
                lexicon.firsts, lexicon.n_rows, recipe.embed_size, lexicon.n_vector
            )
            of_words = chain(embeddings, mixture(recipe.mix_size))
            encoder: Model = noop()
            for _ in range(recipe.scan_depth):
                encoder = chain(encoder, gated_scan(recipe.scan_size))
            scores = output_scores(len(outputs))
            of_words.initialize(
                X=WordInputs(lexicon.firsts[None], numpy.zeros((1, lexicon.n_vector), "float32"))
            )
            vectors = Ragged(
                numpy.zeros((1, recipe.mix_size), "float32"), encoder.ops.asarray1i([1])
            )
            encoder.initialize(X=vectors)
            scores.initialize(X=encoder.predict(vectors))
        return cls(of_words, encoder, scores, outputs)

    def step(
        self,
        words: WordInputs,
        rows: Longs,
        starts: Ints,
        wanted: Ints,
        weights: NDArray[numpy.float32] | None = None,
    ) -> tuple[float, int]:
        """Add the gradients of some sentences, given the word of each token, `Outputs.wanted`, and how much
        each token counts, to those of the layers. Gives the loss, and how many classes the network would
        have got right."""
        of_words, backprop_words = self.of_words.begin_update(words)
        lengths = self.encoder.ops.asarray1i(numpy.diff(starts))
        vectors, backprop = self.encoder.begin_update(Ragged(of_words.data[rows], lengths))
        scores, backprop_scores = self.scores.begin_update(vectors)
        logs = self.outputs.log_probs(scores)
        n, gradient, every = self.outputs.edges[1], numpy.exp(logs), numpy.arange(len(rows))
        loss, right = 0.0, int((scores[:, :n].argmax(axis=1) == wanted[:, 0]).sum())
        for question in range(wanted.shape[1]):
            known = wanted[:, question] >= 0
            chosen = every[known], wanted[known, question]
            right_logs = logs[chosen] if weights is None else logs[chosen] * weights[known]
            loss -= float(right_logs.sum())
            gradient[chosen] -= 1.0
            gradient[~known, self.outputs.edges[question] : self.outputs.edges[question + 1]] = 0.0
        if weights is not None:
            gradient *= weights[:, None]
        d_tokens = backprop(backprop_scores(gradient)).data
        d_words = numpy.zeros_like(of_words.data)
        self.of_words.ops.scatter_add(d_words, rows.astype("int32"), d_tokens)
        backprop_words(Ragged(d_words, of_words.lengths))
        return loss, right

    def predict(self, of_words: NDArray, starts: Ints) -> NDArray[numpy.float32]:
        """[tokens, outputs], the scores of outputs, given the vectors of the tokens' words."""
        lengths = numpy.diff(starts).astype("int32")
        return self.scores.predict(self.encoder.predict(Ragged(of_words, lengths)))


def fit(
    recipe: NeuralTaggerRecipe,
    corpus: Corpus,
    clusters: Clusters | None,
    vectors: Vectors | None,
    progress: Progress | None,
) -> "NeuralTagger":
    """Train a tagger."""
    lexicon = Lexicon.fit(corpus, clusters, vectors)
    seen = seen_in(corpus)
    outputs = Outputs(len(corpus.tag_classes), corpus.morphs)
    wanted = outputs.wanted(corpus.tag_gold, corpus.morph_gold)
    inputs, n_tokens, right = lexicon(corpus.types), len(corpus.words), [0]
    # a word is another one in each treebank
    words = corpus.words + corpus.per_token(corpus.source_of.astype("int64")) * len(corpus.types)
    weights = corpus.per_token(corpus.weights) if (corpus.weights != 1).any() else None
    with seeded(recipe.seed), use_ops("numpy"):
        network = TagNetwork.make(recipe, lexicon, outputs)
        network.of_words.layers[0].attrs["rate"] = recipe.word_dropout

        def step(tokens: Longs, starts: Ints) -> float:
            found, rows = numpy.unique(words[tokens], return_inverse=True)
            source_of, types = numpy.divmod(found, len(corpus.types))
            own = WordInputs(inputs.ids[types], inputs.vectors[types])
            own = lexicon.in_treebanks(own, source_of)
            counts = None if weights is None else weights[tokens]
            loss, n = network.step(own, rows, starts, wanted[tokens], counts)
            right[0] += n
            return loss

        def report(epoch: int, loss: float) -> None:
            if progress is not None:
                progress(
                    Epoch("network", epoch, recipe.epochs, loss / n_tokens, right[0] / n_tokens)
                )
            right[0] = 0

        size = max(1, min(recipe.batch_size, n_tokens // _LEAST_BATCHES))
        train(network.layers, corpus.starts, replace(recipe, batch_size=size), step, report)
    return NeuralTagger(lexicon, network, recipe, corpus.tag_classes, corpus.morphs, seen)


# ---------------------------------------------------------------- the tagger

_SIZE = Int(low=1, high=1 << 14)
_RATE = Float(low=0.0, below=1.0)
_FORMAT = Format(
    "neural tagger",
    1,
    settings=Record(
        embed_size=_SIZE,
        mix_size=_SIZE,
        scan_size=_SIZE,
        scan_depth=Int(low=0, high=64),
        epochs=Int(low=1),
        rate=Float(above=0.0),
        batch_size=Int(low=1),
        dropout=_RATE,
        word_dropout=_RATE,
        seed=Int(),
    ),
    strings=Record(
        lower=Strings(unique=True),
        shape=Strings(unique=True),
        suffix1=Strings(unique=True),
        suffix2=Strings(unique=True),
        suffix3=Strings(unique=True),
        suffix4=Strings(unique=True),
        suffix5=Strings(unique=True),
        suffix6=Strings(unique=True),
        prefix1=Strings(unique=True),
        prefix2=Strings(unique=True),
        prefix3=Strings(unique=True),
        prefix4=Strings(unique=True),
    ),
    clusters=Bytes(),
    vectors=Bytes(),
    tag_classes=List(Strings(2), "tags", least=1, unique=True),
    morphs=Strings("morphs", unique=True),
    seen=Array("bool", "tags", "morphs"),
    # only of models that have learnt from treebanks with names
    sources=Strings(unique=True, optional=True),
    # so far from 0 that sums of products of several layers are finite
    weights=Array("float32", "weights", low=-1e6, high=1e6),
)


class NeuralWords(NamedTuple):
    """Words with the network's vectors of them, and where each word is in the array."""

    rows: Ints
    vectors: NDArray[numpy.float32]

    def at(self, places: NDArray) -> "NeuralWords":
        """The words of tokens, given which word each token is."""
        return self._replace(rows=self.rows[places])


class NeuralTagger(DistributionTagger):
    """A trained tagger."""

    FORMAT = _FORMAT

    def __init__(
        self,
        lexicon: Lexicon,
        network: TagNetwork,
        recipe: NeuralTaggerRecipe,
        tag_classes: list[tuple[str, str]],
        morphs: list[str],
        seen: Bools,
    ):
        super().__init__(tag_classes, morphs, seen)
        self.lexicon, self.network, self.recipe = lexicon, network, recipe
        self.sources, self.source = lexicon.sources, lexicon.source
        self.clusters, self.vectors = lexicon.clusters, lexicon.vectors
        first = numpy.zeros((0, recipe.mix_size), dtype="float32")
        self._cache = RowCache(partial(_vectors, lexicon, network), (first,), size=_MAX_CACHED)

    def _like(self, source: str) -> "NeuralTagger":
        lexicon = self.lexicon.like(source)
        return NeuralTagger(
            lexicon, self.network, self.recipe, self.tag_classes, self.morphs, self.seen
        )

    def words(self, words: Sequence[str]) -> NeuralWords:
        """What is known of words, whether they were seen in training or not."""
        rows, (vectors,) = self._cache(words)
        return NeuralWords(rows, vectors)

    def opinion(self, words: NeuralWords, starts: Ints) -> "NeuralOpinion":
        """What the network says of sentences."""
        scores = self.network.predict(words.vectors[words.rows], starts)
        return NeuralOpinion(scores, self.network.outputs)

    def to_payload(self) -> dict[str, Any]:
        vectors = self.vectors
        return {
            "settings": asdict(self.recipe),
            "strings": self.lexicon.strings,
            "clusters": clusters_to_bytes(self.clusters),
            "vectors": b"" if vectors is None else vectors.to_bytes(),
            "tag_classes": [list(pair) for pair in self.tag_classes],
            "morphs": self.morphs,
            "seen": self.seen,
            "weights": flat_weights(self.network.layers),
            **sources_payload(self.sources),
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "NeuralTagger":
        settings = read["settings"]
        _FORMAT.require(settings["scan_size"] % 2 == 0, "settings.scan_size", "is not even")
        sound = all(map(is_analysis, read["morphs"]))
        _FORMAT.require(sound, "morphs", "has an entry that is not Name=Value|Name=Value")
        recipe = NeuralTaggerRecipe(**settings)
        vectors = WordVectors.from_bytes(read["vectors"]) if read["vectors"] else None
        clusters, sources = clusters_from_bytes(read["clusters"]), read["sources"] or []
        lexicon = Lexicon(read["strings"], clusters, vectors, sources)
        outputs = Outputs(len(read["tag_classes"]), read["morphs"])
        # before anything is as large as the settings say
        found, wanted = len(read["weights"]), n_weights(recipe, lexicon, len(outputs))
        _FORMAT.require(found == wanted, "weights", f"has {found}, not {wanted}")
        network = TagNetwork.make(recipe, lexicon, outputs)
        set_weights(network.layers, read["weights"])
        classes = [(tag, pos) for tag, pos in read["tag_classes"]]
        return cls(lexicon, network, recipe, classes, read["morphs"], read["seen"])


def n_weights(recipe: NeuralTaggerRecipe, lexicon: Lexicon, n_outputs: int) -> int:
    """How many weights `TagNetwork.make` makes: to be compared with a file before it does."""
    width, units = recipe.mix_size, recipe.scan_size
    n_inputs = recipe.embed_size + lexicon.n_vector
    total = lexicon.n_rows * recipe.embed_size + 2 * width * (n_inputs + 1) + 2 * width
    for _ in range(recipe.scan_depth):
        total += 3 * units * (width + 1)
        width += units
    return total + n_outputs * (width + 1)


def _vectors(lexicon: Lexicon, network: TagNetwork, words: list[str]) -> Arrays:
    return (network.of_words.predict(lexicon(words)).data,)


class NeuralOpinion(NamedTuple):
    """What a network says of some tokens [tokens, outputs]; see `interface.Opinion`. Scores are not
    normalised: every analysis has a value of every attribute, so that all would lose the same."""

    scores: NDArray[numpy.float32]
    outputs: Outputs

    def classes(self) -> Logs:
        return self.scores[:, : self.outputs.edges[1]]

    def analyses(self, classes: Ints) -> Logs:
        return product(self.scores[:, self.outputs.edges[1] :], self.outputs.values)


build_neural_tagger = architecture("neural_tagger", NeuralTagger, NeuralTaggerRecipe)
