"""The pipeline component `spectral_parser`, and how its model is trained and asked.

Models with a recipe are trained as a whole when the pipeline is initialized, others step by step, by
gradients, in spaCy's training loop. What is asked of the Thinc model of the latter:

    refs["encoder"]      Model[Batch, Ragged]: vectors of the sentences' tokens, each with its root in front
    refs["arcs"]         Model[Ragged, List[ndarray]]: the scores of all arcs of every sentence
    refs["labels"]       Model[Arcs, Floats2d]: the scores of all labels of given arcs
    attrs["inventory"]   Learnt[Inventory]: the labels
    attrs["max_length"]  longer sentences are parsed in pieces, and their arcs are not trained on
    attrs["temperature"] how confident it is, see `trees.interface.Temperature`: numbers in its order

What is learnt and computed is that of `models.biaffine.network`, which is imported when it is needed.

A product may have one expert of the second kind beside others of the first. Then its model has

    refs["network"]      the model of that expert
    attrs["network_name"]  its name among the experts
    attrs["others"]      the `trees.interface.Recipe` of the others
    attrs["learnt"]      Learnt[ProductParser]: the others, and all weights
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model, set_dropout_rate

from ..base.errors import Errors, SpectralError, Warnings
from ..base.learnt import Learnt
from ..forest.conditions import Condition
from ..trees._eisner import is_projective_tree
from ..trees.calibration import calibrated, judge
from ..trees.interface import NEUTRAL, ArcScorer, ParserModel, Parses, Recipe, Temperature
from ..trees.posterior import possible
from ..trees.pseudoprojective import MIN_DECORATED, Inventory, plain, projective_trees
from ..trees.sentences import MISSING, Batch, Treebank
from ..trees.validity import with_valid_trees
from .annotations import SentenceParse, register, store_parse
from .component import FirstStage, leave
from .conditions import ConditionedParse, parse_under
from .documents import (
    STORABLE,
    Prediction,
    TokenReader,
    by_modifier,
    fixed_heads,
    head_and_label_probs,
    predictions,
    sentence_parses,
    string_values,
    training_batch,
    use_ud_noun_chunks,
    write_parse,
)
from .listeners import listens, refuse_settings, require_upstream, require_vectors
from .training_data import (
    ParserData,
    all_examples,
    find_clusters,
    find_pretrained,
    find_word_vectors,
    warn_of_missing,
)

if TYPE_CHECKING:
    from ..models.biaffine.network import Network
    from ..models.product.parser import ProductParser

_N_SAMPLE = 10
# Documents of so many tokens are parsed at a time. configs/accurate.cfg, 2,000 lines of English (44,761
# tokens), 1,000 lines a batch: all at once 19,762 page faults and 0.47 to 0.80 seconds of the system, in
# parts none of either. Parts of 2,048 take 5 % more time, as each looks up its own words.
_TOKENS_AT_ONCE = 4096


class SpectralParser(FirstStage):
    """Dependency parser with exact probabilities, by one of several models.

    It parses inside the sentences that a document has, so something before it must set boundaries and,
    for models that look at tags, the attributes named by `symbol`. Models with a recipe are trained when
    the pipeline is initialized; others step by step.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "spectral_parser",
        *,
        symbol: str | Sequence[str] = "TAG",
        decode: str = "mbr",
        constrain: bool = False,
        valid_trees: bool = False,
        store: Sequence[str] = (),
        annotate_with: Sequence[str] = (),
        jackknife: str | None = None,
        source: str | None = None,
        scorer: Callable | None = None,
    ):
        """model: From `spacy-spectral.SHAG.v1`, `spacy-spectral.LogLinear.v1`,
        `spacy-spectral.Biaffine.v1`, `spacy-spectral.Biaffine.v2`, `spacy-spectral.Refined.v1` or
        `spacy-spectral.Product.v1`.
        symbol: The token attribute, or attributes, that make a tag.
        decode: "mbr", for the tree with the best arc marginals: there is no other way any more.
        constrain: Whether heads that a document has already are kept.
        valid_trees: Whether trees that break rules of Universal Dependencies (see `trees.validity`) give
        way to less likely ones.
        store: What is kept on documents beside the parse: any of "head_prob", "dep_prob",
        "parse_logprob", "marginals", "alternative".
        annotate_with: Components to run over the training documents, so that the parser is trained on
        tags like those it will meet, e.g. ["tagger"]: components that were trained before. Without, on
        gold tags.
        jackknife: A `spectral_tagger` that is trained in the same run. The training documents are tagged
        by five taggers with its settings but for `epochs`, which is 2: each is trained without the
        documents it tags.
        source: What the gold treebank is called, if the parser learns from several. A trained parser parses
        like the one that is named here."""
        super().__init__(vocab, model, name, scorer=scorer)
        if decode != "mbr":
            raise SpectralError(Errors.S114.format(name=name, value=decode))
        self.constrain = constrain
        self.valid_trees = valid_trees
        self.store = self.storable(store, STORABLE)
        self.annotate_with = list(annotate_with)
        self.jackknife = jackknife
        self.learner = _learner(model, name)
        self.learner.check(annotate_with=annotate_with, jackknife=jackknife)
        symbols = [symbol] if isinstance(symbol, str) else symbol
        needs_tags = self.learner.needs_tags
        self.read = TokenReader(symbols, name=name, required=needs_tags, source=source)
        register("spectral_parser")
        use_ud_noun_chunks(vocab)

    @property
    def grammar(self) -> Any:
        """What was learnt: a `Grammar` or another model, as the architecture has it."""
        if not self.is_learnt:
            raise SpectralError(Errors.S115.format(name=self.name))
        return self.learner.grammar

    @property
    def is_learnt(self) -> bool:
        return self.learner.is_learnt

    @property
    def learns_in_steps(self) -> bool:
        return isinstance(self.learner, StepwiseLearner)

    @property
    def labels(self) -> tuple[str, ...]:
        """The relation labels that the parser can give."""
        names = self.grammar.label_names if self.is_learnt else ()
        return tuple(sorted(set(map(plain, names))))

    @property
    def label_data(self) -> list[str]:
        """The labels as `spacy init labels` stores them: all that `initialize` wants to know."""
        return self.learner.label_data

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        clusters: str | Path | None = None,
        vectors: str | Path | None = None,
        dev_corpus: str | None = None,
        silver_corpus: str | Sequence[str] | None = None,
        pretrained: str | Path | None = None,
    ) -> None:
        """Learn from all training examples; this is the whole training of models with a recipe.

        labels: From `spacy init labels`, for models that are trained step by step; else the treebank
        decides.
        clusters, vectors: Directories with eigenword clusters, and with word vectors, for models that
        look at them; vectors are copied. By default those of the vocabulary are used if there are some.
        dev_corpus: The corpus of the config to stop training by, e.g. "corpora.dev", for models that are
        trained in epochs; and to learn from how confident the parser may be.
        silver_corpus: A corpus of the config with trees that another parser has made, e.g. "corpora.silver",
        or several, by the reader `spacy-spectral.Silver.v1`, for models that can learn from such. Nothing
        else in the pipeline learns from them.
        pretrained: A file that `spacy spectral pretrain` has made: networks with embeddings of their own
        begin with it.
        """
        self.learner.check(
            clusters=clusters,
            vectors=vectors,
            dev_corpus=dev_corpus,
            silver_corpus=silver_corpus,
            pretrained=pretrained,
        )
        data = replace(
            self._data(nlp, dev_corpus),
            silver_corpus=silver_corpus,
            labels=labels,
            clusters=find_clusters(clusters, self.vocab),
            vectors=find_word_vectors(vectors, self.vocab),
            pretrained=find_pretrained(pretrained),
        )
        self.learner.initialize(get_examples, data)
        self._was_loaded = False
        for label in self.labels:
            self.vocab.strings.add(label)

    def training_treebank(self, examples: list[Example], nlp: Language | None) -> Treebank:
        """What the parser is trained on: gold trees on tags as the settings have them."""
        return self._data(nlp, None).treebank(examples)

    def development_treebank(self, nlp: Language | None, corpus: str) -> Treebank | None:
        """The trees of a corpus of the config, on tags as the parser is to meet them; None if it has none."""
        return self._data(nlp, corpus).dev()

    def _data(self, nlp: Language | None, dev_corpus: str | None) -> ParserData:
        return ParserData(
            nlp=nlp,
            read=self.read,
            name=self.name,
            annotate_with=self.annotate_with,
            jackknife=self.jackknife,
            dev_corpus=dev_corpus,
            report=self.report,
        )

    def step(self, examples: Sequence[Example], *, drop: float) -> float | None:
        """The negative log-likelihood of the trees and their labels; None if the model was trained when
        the pipeline was initialized."""
        return self.learner.step(examples, self.read, drop=drop)

    def check_loaded(self) -> None:
        """Raise an error if what was loaded does not fit together."""
        if self.is_learnt:
            self.learner.check_loaded(self.read)

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Parse documents without changing them, some at a time: what is computed of them takes memory that
        is there from those before."""
        return [found for part in _parts(docs) for found in self._predict(part)]

    def _predict(self, docs: list[Doc]) -> list[Prediction]:
        batch, parses = self.parse(docs)
        if self.valid_trees:
            parses = with_valid_trees(parses, batch.tokens, self.grammar.label_names)
        result = predictions(batch, parses, self.store, self.grammar.label_names)
        if not self.constrain:  # a reranker could not tell given heads from others
            found = self.found(batch, parses, list(self.grammar.label_names))
            for prediction, own in zip(result, found, strict=True):
                prediction.found = own
        return result

    def parse(self, docs: Iterable[Doc]) -> tuple[Batch, Parses]:
        """Parse documents with sentence boundaries and tags, without changing them; everything can be asked
        of the result."""
        if not self.is_learnt:
            raise SpectralError(Errors.S115.format(name=self.name))
        batch = self.read(docs)
        fixed = self._fixed_heads(batch) if self.constrain else None
        return batch, self.learner.parse(batch, fixed=fixed)

    def _fixed_heads(self, batch: Batch) -> NDArray[numpy.int32] | None:
        """Heads given beforehand, but for sentences in which they can't all be in one tree."""
        fixed = fixed_heads(batch)
        for begin, end in batch.tokens.bounds():
            own = fixed[begin:end]
            if (own != MISSING).any() and not possible(own):
                words = " ".join(batch.tokens.words[begin:end])[:80]
                logger.warning(Warnings.W102.format(name=self.name, words=words))
                own[:] = MISSING
        return fixed if (fixed != MISSING).any() else None

    def set_annotations(self, docs: Iterable[Doc], scores: list[Prediction]) -> None:
        """Write parses to documents."""
        docs = list(docs)
        hashes = string_values(docs, self.grammar.label_names)
        for doc, prediction in zip(docs, scores, strict=True):
            # the vocabulary of another pipeline, which the parser was sourced into
            use_ud_noun_chunks(doc.vocab)
            doc.noun_chunks_iterator = doc.vocab.get_noun_chunks
            write_parse(doc, prediction.heads, hashes[prediction.labels])
            if self.store and len(doc):
                store_parse(doc, prediction.values)
            leave(doc, prediction.found)

    def marginals(self, doc: Doc) -> list[NDArray[numpy.float64]]:
        """Exact arc probabilities, whatever tree was or will be chosen: per sentence [n, n], without
        whitespace tokens. Row m holds the probability of every token of the sentence as head of its
        token m, the diagonal that of being the root. Rows sum to one."""
        batch, parses = self.parse([doc])
        return [by_modifier(parses.marginals(s)) for s in range(len(batch.tokens))]

    def nbest(self, doc: Doc, k: int = 5, *, labelled: bool = False) -> list[list[SentenceParse]]:
        """The k best parses of every sentence at most, most probable first.

        By default the list is over heads: no two trees have the same, punctuation counts, and each tree
        has its likeliest labels. The k trees with the best products of arc marginals are found exactly
        and come in the order of their exact probabilities. With `labelled` it is over heads and labels:
        the k likeliest labelled trees, exactly, by LogLinear, Biaffine and products of these; by SHAG
        and Refined, which sum over hidden states, those of the trees with the best products of
        probabilities of labelled arcs. Crossing arcs are restored as in a normal parse; probabilities
        are those of the trees without.
        """
        if k < 1:
            raise SpectralError(Errors.S120.format(name=self.name, k=k))
        batch, parses = self.parse([doc])
        names = self.grammar.label_names
        return sentence_parses(batch, parses, k, names, labelled=labelled)

    def parse_with(self, doc: Doc, constraints: Sequence[Condition]) -> list[ConditionedParse]:
        """Parse a document under conditions, without changing it: per sentence the best tree, the
        probabilities of its heads, and that of the conditions. Conditions are `HeadIs`, `HeadIsNot`,
        `RootIs`, `LabelIs`, `SameHead` and `NoCrossing` from `spacy_spectral.forest.conditions`, on
        indices of the document's tokens.

        The distribution is that of the model, over projective trees (crossing arcs are not restored).
        The probabilities of heads and of the conditions are exact, and so is the likeliest tree, of
        models that score trees by their parts: LogLinear, Biaffine and their products. Of those that sum
        over hidden states (SHAG, Refined) the tree is that with the best product of probabilities, and
        labels are judged by the probabilities of arcs alone. If no tree meets all conditions, an error
        names some that contradict each other.
        """
        batch, parses = self.parse([doc])
        return parse_under(batch, parses, self.grammar.label_names, constraints)

    def scored_parses(
        self, docs: Iterable[Doc]
    ) -> tuple[list[dict[tuple[int, int], float]], list[dict[tuple[int, str], float]]]:
        """Probabilities of heads and labels, in the form of the method of spaCy's `beam_parser`: per
        document, of every likely (token, head) and, for the chosen head, of every (token, label)."""
        names = self.grammar.label_names
        pairs = [head_and_label_probs(*self.parse([doc]), names) for doc in docs]
        return [heads for heads, _ in pairs], [labels for _, labels in pairs]


def _parts(docs: Iterable[Doc]) -> list[list[Doc]]:
    """Documents in order, about so many tokens at a time; one part at least."""
    docs = list(docs)
    starts = numpy.cumsum([0, *map(len, docs)])
    firsts = numpy.flatnonzero(numpy.diff(starts[:-1] // _TOKENS_AT_ONCE, prepend=-1))
    return [docs[a:b] for a, b in pairwise([*firsts.tolist(), len(docs)])] or [docs]


def store_with_alternatives(nlp: Language) -> dict[str, Any]:
    """The settings under which the parsers of a pipeline keep probabilities, and the likeliest other arcs."""
    return {
        f"components.{name}.store": list(
            dict.fromkeys([*pipe.store, "head_prob", "dep_prob", "alternative"])
        )
        for name, pipe in nlp.components
        if isinstance(pipe, SpectralParser)
    }


def _learner(model: Model, name: str) -> "WholeLearner | StepwiseLearner":
    if "recipe" in model.attrs:
        return WholeLearner(model, name=name)
    if "others" in model.attrs:
        return MixedLearner(model, name=name)
    return StepwiseLearner(model, name=name)


class WholeLearner:
    """Trains models with `attrs["recipe"]`, a `trees.interface.Recipe`, and `attrs["learnt"]`, and
    parses with them. Whether documents must have the attributes that are a token's symbol is
    `needs_tags`."""

    needs_tags = True

    def __init__(self, model: Model, *, name: str, other: ParserModel | None = None):
        """other: Parses in place of what the model has learnt."""
        self.model = model
        self.name = name
        self._other = other

    @property
    def is_learnt(self) -> bool:
        return self.model.attrs["learnt"].value is not None

    @property
    def grammar(self) -> Any:
        return self._other or self.model.attrs["learnt"].value

    @property
    def label_data(self) -> list[str]:
        """The labels as `spacy init labels` stores them."""
        # the treebank decides: this is for those who want to know
        return sorted(set(map(plain, self.grammar.label_names))) if self.is_learnt else []

    def check(self, **settings: Any) -> None:
        """Raise an error if there are settings that are not for such models."""
        _check_pretrained(self.model.attrs["recipe"], settings, self.name)

    def initialize(self, get_examples: Callable[[], Iterable[Example]], data: ParserData) -> None:
        examples = all_examples(get_examples, data.nlp, name=self.name, kind="SpectralParser")
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise SpectralError(Errors.S117.format(name=self.name))
        treebank = data.treebank(examples)
        warn_of_missing(treebank, self.name)
        dev = data.dev()
        learnt = self.model.attrs["recipe"].fit(
            treebank,
            dev=dev,
            clusters=data.clusters,
            vectors=data.vectors,
            pretrained=data.pretrained,
            report=data.report,
        )
        if dev is not None:
            if learnt.temperature == NEUTRAL:
                learnt = calibrated(learnt, dev)
            if learnt.temperature is not None:
                t = learnt.temperature
                judged = judge(learnt.parse(dev.tokens), dev, learnt.label_names)
                data.report(
                    f"temperature of heads {t.heads:.2f}, of labels {t.labels:.2f}, "
                    f"share {t.share:.2f}: "
                    f"dev UAS {judged.uas:.2%}, LAS {judged.las:.2%}"
                )
        self.model.attrs["learnt"] = Learnt(type(learnt), learnt)

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float | None:
        """Add the gradients of a batch to the model's: the loss, summed over all tokens; None if nothing
        is learnt like this."""
        return None

    def check_loaded(self, read: TokenReader) -> None:
        """Raise an error if what was loaded does not fit together. What is `Learnt` checks itself."""
        if self.grammar.outside:
            reason = f"its expert '{self.grammar.outside[0]}' is not there"
            raise SpectralError(Errors.S002.format(what=self.name, reason=reason))

    def with_temperature(self, temperature: Temperature) -> "WholeLearner":
        other = self.grammar.with_temperature(temperature)
        return WholeLearner(self.model, name=self.name, other=other)

    def keep_temperature(self, temperature: Temperature) -> None:
        learnt = self.grammar.with_temperature(temperature)
        self.model.attrs["learnt"] = Learnt(type(learnt), learnt)

    def parses_at(self, batch: Batch) -> Callable[[Temperature], Parses]:
        return self.grammar.parses_at(batch.tokens)

    def parse(self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None) -> Parses:
        return self.grammar.parse(batch.tokens, fixed=fixed)


class StepwiseLearner:
    """What `WholeLearner` is, of models that are trained step by step."""

    needs_tags = False

    def __init__(self, model: Model, *, name: str, temperature: Temperature | None = None):
        self.model = model
        self.name = name
        self._temperature = temperature

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
            raise SpectralError(Errors.S115.format(name=self.name))
        return inventory

    @property
    def label_names(self) -> list[str]:
        return self.inventory.names

    def check(self, **settings: Any) -> None:
        refuse_settings(self.name, **settings)

    def initialize(self, get_examples: Callable[[], Iterable[Example]], data: ParserData) -> None:
        """Collect labels and make the model ready for training."""
        nlp, read, labels = data.nlp, data.read, data.labels
        require_upstream(self.model, nlp, name=self.name)
        validate_get_examples(get_examples, "SpectralParser.initialize")
        examples = get_examples()
        if labels is not None:
            examples = list(islice(examples, _N_SAMPLE))
            inventory = Inventory(sorted({*labels, *map(plain, labels)}))
        else:
            if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
                raise SpectralError(Errors.S442.format(name=self.name))
            examples = list(examples)
            _, treebank = training_batch(examples, (eg.predicted for eg in examples), read)
            heads, names = projective_trees(treebank)
            inventory = Inventory.from_labels(names, min_decorated=MIN_DECORATED)
            self._warn(treebank, heads)
        words = (eg for eg in examples if eg.predicted.text.strip())
        sample = list(islice(words, _N_SAMPLE))
        if not sample or not len(inventory):
            raise SpectralError(Errors.S117.format(name=self.name))
        self.model.attrs["inventory"] = Learnt(Inventory, inventory)
        batch, _ = training_batch(sample, [eg.predicted for eg in sample], read)
        self.model.initialize(X=batch)

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
        set_dropout_rate(self.model, drop)
        return self._network().step(batch, batch.tokens.starts, heads, inventory.encode(names))

    def check_loaded(self, read: TokenReader) -> None:
        """The layers of this package are checked one by one, those of others by parsing a sentence."""
        from ..models.biaffine.network import check_model

        check_model(self.model, self.inventory)
        if listens(self.model):
            return
        doc = Doc(Vocab(), words=list("abc"), sent_starts=[True, False, False])
        if not numpy.isfinite(self.parse(read([doc])).log_probs()).all():
            raise SpectralError(Errors.S002.format(what=self.name, reason="it can't parse"))

    @property
    def temperature(self) -> Temperature:
        return Temperature(*self.model.attrs["temperature"])

    def with_temperature(self, temperature: Temperature) -> "StepwiseLearner":
        """The same layers at another temperature."""
        return StepwiseLearner(self.model, name=self.name, temperature=temperature)

    def keep_temperature(self, temperature: Temperature) -> None:
        self.model.attrs["temperature"] = list(temperature)

    def parses_at(self, batch: Batch) -> Callable[[Temperature], Parses]:
        return lambda t: self.with_temperature(t).parse(batch)

    def _network(self) -> "Network":
        from ..models.biaffine.network import Network

        return Network(
            self.model.get_ref("encoder"),
            self.model.get_ref("arcs"),
            self.model.get_ref("labels"),
            self.inventory,
            self.model.attrs["max_length"],
            self._temperature or self.temperature,
        )

    def parse(self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None) -> Parses:
        require_vectors(self.model, batch.docs, name=self.name)
        return self._network().parse(batch, batch.tokens.starts, fixed=fixed)


class MixedLearner(StepwiseLearner):
    """Trains products of which one expert is trained step by step, and the others as a whole, when the
    pipeline is initialized; and parses with them. The temperature is that of the product."""

    needs_tags = True

    def __init__(self, model: Model, *, name: str, other: "ProductParser | None" = None):
        """other: Parses in place of what the model has learnt."""
        super().__init__(model.get_ref("network"), name=name)
        self._whole = model
        self._other = other

    @property
    def is_learnt(self) -> bool:
        return super().is_learnt and self._whole.attrs["learnt"].value is not None

    @property
    def product(self) -> "ProductParser":
        """The experts that are trained as a whole, and the weights of all."""
        learnt = self._other or self._whole.attrs["learnt"].value
        if learnt is None:
            raise SpectralError(Errors.S115.format(name=self.name))
        return learnt

    @property
    def label_names(self) -> list[str]:
        return list(self.product.label_names)

    @property
    def label_data(self) -> list[str]:
        return sorted(set(map(plain, self.label_names))) if self.is_learnt else []

    def check(self, **settings: Any) -> None:
        _check_pretrained(self._whole.attrs["others"], settings, self.name)

    def initialize(self, get_examples: Callable[[], Iterable[Example]], data: ParserData) -> None:
        """Train the experts that are trained as a whole, and make the other ready for training."""
        examples = all_examples(get_examples, data.nlp, name=self.name, kind="SpectralParser")
        super().initialize(
            lambda: examples, replace(data, read=data.read.without_tags(), labels=None)
        )
        learnt = self._whole.attrs["others"].fit(
            data.treebank(examples),
            dev=data.dev(),
            clusters=data.clusters,
            vectors=data.vectors,
            pretrained=data.pretrained,
            report=data.report,
        )
        self._whole.attrs["learnt"] = Learnt(type(learnt), learnt)

    def step(self, examples: Sequence[Example], read: TokenReader, *, drop: float) -> float:
        return super().step(examples, read.without_tags(), drop=drop)

    def check_loaded(self, read: TokenReader) -> None:
        name = self._whole.attrs["network_name"]
        if self.product.outside != [name]:
            reason = f"it has no weight of '{name}' alone"
            raise SpectralError(Errors.S002.format(what=self.name, reason=reason))
        super().check_loaded(read.without_tags())

    @property
    def temperature(self) -> Temperature:
        return self.product.temperature

    def with_temperature(self, temperature: Temperature) -> "MixedLearner":
        return self._with(self.product.with_temperature(temperature))

    def _with(self, product: "ProductParser") -> "MixedLearner":
        return MixedLearner(self._whole, name=self.name, other=product)

    def keep_temperature(self, temperature: Temperature) -> None:
        self._keep(self.product.with_temperature(temperature))

    def _keep(self, product: "ProductParser") -> None:
        self._whole.attrs["learnt"] = Learnt(type(product), product)

    def learn_weights(self, batch: Batch, treebank: Treebank) -> dict[str, float]:
        """Learn how much each expert counts from sentences that none was trained on, unless the config says
        it: the weights."""
        from ..models.product.estimate import fit_weights

        if self._whole.attrs["others"].weights is None:
            self._keep(fit_weights(self.product, treebank, self._scorers(batch)))
            self.keep_temperature(NEUTRAL)
        return self.product.weights

    def parses_at(self, batch: Batch) -> Callable[[Temperature], Parses]:
        scorers = self._scorers(batch)
        return lambda t: self.product.with_temperature(t).parse_scored(scorers, batch.tokens)

    def parse(self, batch: Batch, *, fixed: NDArray[numpy.int32] | None = None) -> Parses:
        return self.product.parse_scored(self._scorers(batch), batch.tokens, fixed=fixed)

    def _scorers(self, batch: Batch) -> dict[str, ArcScorer]:
        """What experts say of arcs, that which is trained step by step included."""
        from ..models.product.parser import ExpertScores

        require_vectors(self.model, batch.docs, name=self.name)
        scorers = self.product.scorers(batch.tokens)
        if len(batch.tokens):
            own = self._network().scorer(batch, batch.tokens.starts)
            name = self._whole.attrs["network_name"]
            scorers[name] = ExpertScores(own, self.inventory.names, self.product.label_names)
        return scorers


def _check_pretrained(recipe: Recipe, settings: dict[str, Any], name: str) -> None:
    if settings.get("pretrained") and not recipe.can_be_pretrained:
        raise SpectralError(Errors.S462.format(name=name))
