"""The product of taggers that see different things: of a linear one, which looks at affixes, neighbours and
the tags to the left, and a neural one, which reads whole sentences.

    P(class | token) ~ prod_i P_i(class | token)^(a_i)
    P(analysis | class, token) ~ prod_i P_i(analysis | class, token)^(b_i)

The exponents a and b are weights and temperatures in one. They maximise the likelihood of sentences that no
expert was trained on, so the product is as confident as it should be.

The linear expert's probabilities of a token depend on the tags that it has decided on to the left. Its
analyses are asked for when the product has chosen all classes.

Parsers are trained on tags of jack-knifed copies of a linear tagger alone: trained on 1,100 sentences of
UD_Turkish-IMST, the log-linear parser had 64.6 UAS and 53.9 LAS on the tags of a linear tagger, 65.8 and 55.2
on those of a product; trained on tags of jack-knifed products, 65.2 and 54.8.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy
from thinc.api import Model

from ...base.errors import Errors, SpectralError
from ...base.files import Array, Bytes, Format, List, Record, Str
from ...base.learnt import learnt_model
from ...trees.calibration import PRIOR, held_out_blocks, minimum
from ...trees.interface import Clusters, Vectors
from ...trees.sentences import Bools, Floats, Ints
from ..linear.analyses import Analysis
from ..linear.classifier import Decisions, Progress
from ..linear.tagger import TaggerModel, Words
from ..linear.tagger_training import Corpus, TaggedSentence
from .interface import DistributionTagger, Logs, Opinion, log_softmax, seen_in
from .neural import NeuralTagger

# What can be an expert, by the names in files.
KINDS: dict[str, Any] = {"linear": TaggerModel, "neural": NeuralTagger}
# How many answers of the linear expert are looked at; what else it thinks possible is as unlikely as this.
_TOP = 8
_SMALLEST = 1e-6
_MOST = 3.0  # no exponent is larger
_OUT = -100.0  # what is added to the logarithm of something impossible
_MAX_SENTENCES = 1200  # more of them tell little more about a few numbers
_FORMAT = Format(
    "product of taggers",
    1,
    experts=List(
        Record(name=Str(), kind=Str(choices=tuple(KINDS)), model=Bytes()), "experts", least=1
    ),
    class_weights=Array("float64", "experts", low=0.0, high=10.0),
    morph_weights=Array("float64", "experts", low=0.0, high=10.0),
    seen=Array("bool", "tags", "morphs"),
)


class LinearOpinion:
    """What a linear tagger says of some tokens; see `interface.Opinion`."""

    def __init__(self, model: TaggerModel, words: Words, starts: Ints):
        self._model, self._words, self._starts = model, words, starts

    def classes(self) -> Logs:
        found = self._model.likely_classes(self._words, self._starts, top=_TOP)
        return _spread(found, len(self._model.tag_classes))

    def analyses(self, classes: Ints) -> Logs:
        found = self._model.likely_analyses(self._words, self._starts, classes, top=_TOP)
        return _spread(found, len(self._model.morphs))


def _spread(found: Decisions, n: int) -> Logs:
    """[tokens, n], logarithms of the probabilities of all labels."""
    # -1, none, is the surplus last one
    probs = numpy.full((len(found.labels), n + 1), _SMALLEST, dtype="float32")
    numpy.put_along_axis(probs, found.labels, numpy.maximum(found.probs, _SMALLEST), axis=1)
    return numpy.log(probs[:, :-1])


class ProductOpinion(NamedTuple):
    """What several taggers say of some tokens together; see `interface.Opinion`."""

    opinions: Sequence[Opinion]
    class_weights: Floats
    morph_weights: Floats

    def classes(self) -> Logs:
        logs = [opinion.classes() for opinion in self.opinions]
        return weighted(self.class_weights, logs)

    def analyses(self, classes: Ints) -> Logs:
        logs = [opinion.analyses(classes) for opinion in self.opinions]
        return weighted(self.morph_weights, logs)


def weighted(weights: Floats, logs: Sequence[Logs]) -> Logs:
    """The weighted sum of what each expert says."""
    total = numpy.zeros_like(logs[0])
    for weight, own in zip(weights, logs, strict=True):
        total += numpy.float32(weight) * own
    return total


class ProductWords(NamedTuple):
    """What each expert knows of words."""

    experts: list[Any]

    def at(self, places: numpy.ndarray) -> "ProductWords":
        """The words of tokens, given which word each token is."""
        return ProductWords([own.at(places) for own in self.experts])


class ProductTagger(DistributionTagger):
    """A product of trained taggers of the same classes and analyses."""

    FORMAT = _FORMAT

    def __init__(
        self,
        experts: Mapping[str, Any],
        class_weights: Floats,
        morph_weights: Floats,
        seen: Bools,
    ):
        first = next(iter(experts.values()))
        super().__init__(first.tag_classes, first.morphs, seen)
        self.experts = dict(experts)
        self.sources, self.source = first.sources, first.source
        self.class_weights, self.morph_weights = class_weights, morph_weights
        found = [expert.clusters for expert in experts.values()]
        self.clusters = next((own for own in found if own is not None), None)
        forms = [expert.known for expert in experts.values()]
        self.known = next((own for own in forms if own is not None), None)

    def with_weights(self, class_weights: Floats, morph_weights: Floats) -> "ProductTagger":
        """The same experts with other exponents."""
        return ProductTagger(self.experts, class_weights, morph_weights, self.seen)

    def _like(self, source: str) -> "ProductTagger":
        experts = {name: expert.like(source) for name, expert in self.experts.items()}
        return ProductTagger(experts, self.class_weights, self.morph_weights, self.seen)

    def words(self, words: Sequence[str]) -> ProductWords:
        """What is known of words, whether they were seen in training or not."""
        return ProductWords([expert.words(words) for expert in self.experts.values()])

    def opinion(self, words: ProductWords, starts: Ints) -> ProductOpinion:
        """What the experts say of sentences."""
        opinions = [
            LinearOpinion(expert, own, starts)
            if isinstance(expert, TaggerModel)
            else expert.opinion(own, starts)
            for expert, own in zip(self.experts.values(), words.experts, strict=True)
        ]
        return ProductOpinion(opinions, self.class_weights, self.morph_weights)

    def to_payload(self) -> dict[str, Any]:
        kinds = {kind: name for name, kind in KINDS.items()}
        return {
            "experts": [
                {"name": name, "kind": kinds[type(expert)], "model": expert.to_bytes()}
                for name, expert in self.experts.items()
            ],
            "class_weights": self.class_weights,
            "morph_weights": self.morph_weights,
            "seen": self.seen,
        }

    @classmethod
    def from_payload(cls, read: dict[str, Any]) -> "ProductTagger":
        experts = {
            own["name"]: KINDS[own["kind"]].from_bytes(own["model"]) for own in read["experts"]
        }
        _FORMAT.require(len(experts) == len(read["experts"]), "experts", "has a name twice")
        first, *others = experts.values()
        same = all(
            (own.tag_classes, own.morphs, own.sources)
            == (first.tag_classes, first.morphs, first.sources)
            for own in others
        )
        _FORMAT.require(same, "experts", "have different tags, analyses or treebanks")
        sizes = len(first.tag_classes), len(first.morphs)
        _FORMAT.require(read["seen"].shape == sizes, "seen", "does not fit the tags")
        return cls(experts, read["class_weights"], read["morph_weights"], read["seen"])


class ProductTaggerRecipe:
    """Trains experts, and then the exponents of the product; see `models.linear.tagger.TaggerRecipe`."""

    def __init__(self, recipes: Mapping[str, Any]):
        self.recipes = recipes

    @property
    def n_epochs(self) -> int:
        """How many epochs are reported, if there is a development set."""
        return sum(recipe.n_epochs for recipe in self.recipes.values())

    @property
    def seed(self) -> int:
        """That of the first expert."""
        return next(iter(self.recipes.values())).seed

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
    ) -> ProductTagger:
        """Train a product; exponents are learnt from `dev`, or without from copies of the experts that
        are trained without a part of the sentences."""
        given: dict[str, Any] = {"clusters": clusters, "vectors": vectors, "labels": labels}
        given |= {"lexicon": None if lexicon is None else list(lexicon), "progress": progress}
        product = self._train(sentences, given)
        judges, held_out = product, dev
        # the product is judged by gold annotation
        is_gold = numpy.array([sentence.corpus == 0 for sentence in sentences], dtype=bool)
        inside = numpy.zeros(len(sentences), dtype=bool)
        inside[is_gold] = held_out_blocks(int(is_gold.sum()))
        if not dev and inside.any() and not inside.all() and len(self.recipes) > 1:
            held_out = list(compress(sentences, inside))
            judges = self._train(list(compress(sentences, ~inside)), given)
        if held_out:
            judges = judges.like(held_out[0].source)
            product = product.with_weights(*fit_weights(judges, held_out))
        return product

    def _train(self, sentences: Sequence[TaggedSentence], given: dict[str, Any]) -> ProductTagger:
        experts = {name: own.fit(sentences, **given) for name, own in self.recipes.items()}
        seen = seen_in(Corpus.encode(sentences, labels=given["labels"]))
        equal = numpy.full(len(experts), 1.0 / len(experts))
        return ProductTagger(experts, equal, equal, seen)


def fit_weights(
    tagger: ProductTagger, sentences: Sequence[TaggedSentence]
) -> tuple[Floats, Floats]:
    """The exponents that make the annotation of sentences likeliest: of classes, and of analyses."""
    sentences = sentences[:: -(-len(sentences) // _MAX_SENTENCES)]
    words = tagger.words([word for sentence in sentences for word in sentence.words])
    starts = numpy.cumsum([0, *(len(own.words) for own in sentences)], dtype="int32")
    numbers = {pair: i for i, pair in enumerate(tagger.tag_classes)}
    analyses = {morph: i for i, morph in enumerate(tagger.morphs)}
    pairs = [pair for own in sentences for pair in zip(own.tags, own.pos, strict=True)]
    gold = numpy.array([numbers.get(pair, -1) for pair in pairs], dtype="int32")
    morphs = [morph for own in sentences for morph in own.morphs]
    wanted = numpy.array([-1 if m is None else analyses.get(m, -1) for m in morphs], dtype="int32")

    opinion = tagger.opinion(words, starts)
    logs = [own.classes() for own in opinion.opinions]
    known = numpy.flatnonzero(gold >= 0)
    class_loss = _loss([own[known] for own in logs], gold[known])

    # an analysis is chosen among those of the right class, if there are several
    classes = numpy.where(gold >= 0, gold, opinion.classes().argmax(axis=1)).astype("int32")
    possible = (gold >= 0) & (wanted >= 0) & (tagger.seen[classes].sum(axis=1) > 1)
    possible[possible] = tagger.seen[classes[possible], wanted[possible]]
    asked = numpy.flatnonzero(possible)
    out = numpy.where(tagger.seen[classes[asked]], 0.0, _OUT).astype("float32")
    scores = [own.analyses(classes)[asked] + out for own in opinion.opinions]
    morph_loss = _loss(scores, wanted[asked])
    return _fitted(class_loss, len(logs)), _fitted(morph_loss, len(logs))


def _loss(logs: Sequence[Logs], gold: Ints) -> Callable[[Floats], float]:
    """The negative logarithm of the probability of what is right, as a function of exponents."""
    chosen = numpy.arange(len(gold)), gold

    def loss(weights: Floats) -> float:
        if not len(gold):
            return 0.0
        return -float(log_softmax(weighted(weights, logs))[chosen].sum(dtype="float64"))

    return loss


def _fitted(loss: Callable[[Floats], float], n: int) -> Floats:
    """Where a loss of n exponents is least. A few sentences say little: it should be near to equal shares."""
    equal = numpy.full(n, 1.0 / n)

    def judged(weights: Floats) -> float:
        return loss(weights) + PRIOR * float(((weights - equal) ** 2).sum())

    found = minimum(judged, equal, [(0.0, _MOST)] * n)
    # not to the last bits, which depend on the processor
    return numpy.round(found, 3) if found.any() else equal


# Any: spaCy checks types of what stands in a dict before it has made models of it
def build_product_tagger(experts: dict[str, Any]) -> Model:
    """Build the model of a tagger that multiplies the distributions of others, by names of your choice:
    `spacy-spectral.LinearTagger.v1`, `spacy-spectral.NeuralTagger.v1`. It holds the recipe and, once
    trained, the tagger."""
    for name, expert in experts.items():
        learnt = expert.attrs.get("learnt")
        if learnt is None or learnt.kind not in KINDS.values():
            raise SpectralError(Errors.S309.format(name=name, kind=expert.name))
    if not experts:
        raise SpectralError(Errors.S310)
    recipe = ProductTaggerRecipe({name: own.attrs["recipe"] for name, own in experts.items()})
    return learnt_model("product_tagger", ProductTagger, recipe)
