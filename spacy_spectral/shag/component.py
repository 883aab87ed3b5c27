"""The pipeline component `spectral_parser`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span, Token
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import logger
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from ..docs import SentenceView, SymbolReader, fixed_heads, sentences, training_trees, write_parse
from ..errors import Errors, Warnings
from ..learnt import Learnt
from ..progress import progress_bar
from ..treebank.dependency import DELIMITER, MISSING
from ._decode import best_tree
from .grammar import Grammar
from .posterior import Posterior

DEFAULT_MODEL = {"@architectures": "spacy-spectral.SHAG.v1"}
STORABLE = ("head_prob", "dep_prob", "parse_logprob", "marginals")
# One entry of doc.user_data holds everything stored, as plain arrays: they survive to_bytes, DocBin and
# n_process without further ado.
USER_DATA = "spectral_parser"


@dataclass
class SentenceParse:
    """One parse of one sentence, in terms of the document's tokens.

    start (int): Index of the sentence's first token.
    heads (List[int]): Head of every token of the sentence, as an index into the document; the root's
        head is itself.
    deps (List[str]): Labels.
    logprob (float): log P(tree | sentence).
    """

    start: int
    heads: list[int]
    deps: list[str]
    logprob: float


@dataclass
class _Prediction:
    """What `predict` hands to `set_annotations` for one document.

    heads (ndarray): Index of every token's head; -1 for whitespace.
    labels (ndarray): Index of every token's label in the grammar's labels.
    stored (Dict[str, Any]): What is kept on the document.
    """

    heads: NDArray[numpy.int64]
    labels: NDArray[numpy.int64]
    stored: dict[str, Any]


@Language.factory(
    "spectral_parser",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    default_config={
        "model": DEFAULT_MODEL,
        "symbol": "TAG",
        "decode": "mbr",
        "constrain": False,
        "store": ["head_prob", "dep_prob", "parse_logprob"],
        "annotate_with": [],
        "scorer": {"@scorers": "spacy-spectral.ud_scorer.v1"},
    },
    default_score_weights={
        "dep_uas": 0.5,
        "dep_las": 0.5,
        "dep_uas_no_punct": None,
        "dep_las_no_punct": None,
        "dep_las_per_type": None,
    },
)
def make_spectral_parser(
    nlp: Language,
    name: str,
    model: Model,
    symbol: str | list[str],
    decode: str,
    constrain: bool,
    store: list[str],
    annotate_with: list[str],
    scorer: Callable | None,
) -> "SpectralParser":
    """Make a parser by spectral head automata; see `SpectralParser`."""
    return SpectralParser(
        nlp.vocab,
        model,
        name,
        symbol=symbol,
        decode=decode,
        constrain=constrain,
        store=store,
        annotate_with=annotate_with,
        scorer=scorer,
    )


class SpectralParser(TrainablePipe):
    """Dependency parser by split head automata, with exact probabilities.

    It parses inside the sentences that a document has, so something before it must set boundaries, and
    it looks at the attributes named by `symbol` only (and at words, with a lexical model).
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
        store: Sequence[str] = (),
        annotate_with: Sequence[str] = (),
        scorer: Callable | None = None,
    ):
        """vocab (Vocab): The shared vocabulary.
        model (Model): From `spacy-spectral.SHAG.v1`.
        name (str): The component's name in the pipeline.
        symbol (Union[str, Sequence[str]]): The token attribute, or attributes, that the automata see.
        decode (str): "mbr" for the tree with the best arc marginals, "viterbi" for the best tree and
            hidden states (not with the estimator "spectral").
        constrain (bool): Whether heads that a document has already are kept.
        store (Sequence[str]): What is kept on documents beside the parse: any of "head_prob",
            "dep_prob", "parse_logprob", "marginals".
        annotate_with (Sequence[str]): Components to run over the training documents, so that the
            grammar is estimated on the symbols it will meet, e.g. ["tagger"]. Without, gold ones.
        scorer (Optional[Callable]): The scoring method.
        """
        super().__init__(vocab, model, name)
        unknown = [item for item in store if item not in STORABLE]
        if unknown:
            raise ValueError(
                Errors.S113.format(name=name, value=unknown, choices=", ".join(STORABLE))
            )
        if decode not in ("mbr", "viterbi"):
            raise ValueError(Errors.S114.format(name=name, value=decode))
        self.cfg = {}
        self.decode = decode
        self.constrain = constrain
        self.store = list(store)
        self.annotate_with = list(annotate_with)
        self.scorer = scorer
        self._read_symbols = SymbolReader(
            [symbol] if isinstance(symbol, str) else symbol, name=name
        )

    @property
    def grammar(self) -> Grammar:
        """The learnt grammar."""
        grammar = self.model.attrs["learnt"].value
        if grammar is None:
            raise ValueError(Errors.S115.format(name=self.name))
        return grammar

    @property
    def labels(self) -> tuple[str, ...]:
        """The relation labels that the parser can give."""
        learnt = self.model.attrs["learnt"].value
        if learnt is None:
            return ()
        return tuple(sorted({label.partition(DELIMITER)[0] for label in learnt.labels.labels}))

    @property
    def label_data(self) -> list[str]:
        """The labels as `spacy init labels` stores them."""
        return list(self.labels)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Learn the grammar from all training examples; this is the whole training.

        get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
        nlp (Optional[Language]): The pipeline, for `annotate_with`.
        labels (Optional[Sequence[str]]): Accepted for `spacy init labels`; the treebank decides.
        """
        validate_get_examples(get_examples, "SpectralParser.initialize")
        if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
            raise ValueError(Errors.S116.format(name=self.name))
        examples = list(get_examples())
        if not any(example.reference.has_annotation("DEP") for example in examples):
            raise ValueError(Errors.S117.format(name=self.name))
        trees = list(training_trees(examples, self._annotated(examples, nlp), self._read_symbols))
        tokens = sum(len(tree) for tree in trees)
        missing = sum(int((tree.heads == MISSING).sum()) for tree in trees)
        if missing:
            logger.warning(Warnings.W101.format(name=self.name, missing=missing, tokens=tokens))
        settings = self.model.attrs["settings"].value
        grammar = Grammar.fit(trees, settings, progress=progress_bar("Head automata"))
        self._check_decoding(grammar)
        self.model.attrs["learnt"] = Learnt(Grammar, grammar)
        self._symbol_ids = {}
        for label in self.labels:
            self.vocab.strings.add(label)

    def _annotated(self, examples: list[Example], nlp: Language | None) -> Iterator[Doc]:
        """One document per example with the symbols to learn from."""
        if not self.annotate_with:
            for example in examples:
                aligned = example.x is example.y or [t.orth for t in example.x] == [
                    t.orth for t in example.y
                ]
                yield example.y if aligned else _with_aligned_tags(example)
            return
        docs: Iterable[Doc] = (_with_gold_sentences(example) for example in examples)
        for name in self.annotate_with:
            if nlp is None or name not in nlp.component_names:
                raise ValueError(Errors.S118.format(name=self.name, missing=name))
            docs = nlp.get_pipe(name).pipe(docs)
        yield from docs

    def _check_decoding(self, grammar: Grammar) -> None:
        if self.decode == "viterbi" and not grammar.automata.non_negative:
            raise ValueError(Errors.S119.format(name=self.name))

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Nothing is left to learn after `initialize`; takes part in the training loop all the same."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "SpectralParser.update")
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """There are no gradients."""

    def predict(self, docs: Iterable[Doc]) -> list[_Prediction]:
        """Parse documents without changing them.

        docs (Iterable[Doc]): The documents.
        RETURNS (List[_Prediction]): One parse per document.
        """
        docs = list(docs)
        per_doc = [sentences(doc, name=self.name) for doc in docs]
        views = [view for own in per_doc for view in own]
        symbols = [
            ids for doc, own in zip(docs, per_doc, strict=True) for ids in self._symbols(doc, own)
        ]
        posteriors = [self._posterior(ids, view) for ids, view in zip(symbols, views, strict=True)]
        trees = [self._decode(posterior) for posterior in posteriors]
        distributions = self.grammar.label_distributions(
            symbols, [view.words for view in views], trees
        )
        predictions = []
        begin, done = 0, 0
        for doc, own in zip(docs, per_doc, strict=True):
            prediction = self._empty_prediction(len(doc))
            for view in own:
                end = begin + len(view)
                self._record(
                    prediction, view, posteriors[done], trees[done], distributions[begin:end]
                )
                begin, done = end, done + 1
            predictions.append(prediction)
        return predictions

    def _symbols(self, doc: Doc, views: list[SentenceView]) -> list[NDArray[numpy.int32]]:
        if not views:
            return []
        ids = self._read_symbols.encode(doc, self.grammar.symbols, self._symbol_ids)
        return [ids[view.tokens] for view in views]

    def _empty_prediction(self, n: int) -> _Prediction:
        stored: dict[str, Any] = {}
        for name in self.store:
            stored[name] = [] if name == "marginals" else numpy.full(n, numpy.nan, dtype="float32")
        return _Prediction(numpy.full(n, -1, dtype="int64"), numpy.zeros(n, dtype="int64"), stored)

    def _record(
        self,
        prediction: _Prediction,
        view: SentenceView,
        posterior: Posterior,
        heads: NDArray[numpy.int32],
        distributions: NDArray[numpy.float64],
    ) -> None:
        """Enter one sentence into the prediction for its document."""
        stored, tokens = prediction.stored, view.tokens
        labels = distributions.argmax(axis=1)
        if "head_prob" in stored:
            stored["head_prob"][tokens] = posterior.marginals[
                heads, numpy.arange(1, len(heads) + 1)
            ]
        if "dep_prob" in stored:
            stored["dep_prob"][tokens] = distributions[numpy.arange(len(labels)), labels]
        if "parse_logprob" in stored:
            stored["parse_logprob"][tokens[0]] = posterior.log_probability(heads)
        if "marginals" in stored:
            stored["marginals"].append(_by_modifier(posterior.marginals).astype("float32"))
        final, plain = self.grammar.labels.deprojectivized(heads, labels)
        prediction.heads[tokens] = _in_document(view, final)
        prediction.labels[tokens] = plain

    def _posterior(self, symbols: NDArray[numpy.int32], view: SentenceView) -> Posterior:
        allowed = self._allowed_arcs(view) if self.constrain else None
        return self.grammar.posterior(symbols, view.words, allowed=allowed)

    def _allowed_arcs(self, view: SentenceView) -> NDArray[numpy.bool_] | None:
        """Arcs that agree with the heads given beforehand; None if they cannot all be in one tree."""
        fixed = fixed_heads(view)
        known = numpy.flatnonzero(fixed != MISSING)
        if not len(known):
            return None
        n = len(view)
        allowed = numpy.ones((n + 1, n + 1), dtype=bool)
        allowed[:, known + 1] = False
        allowed[fixed[known], known + 1] = True
        if best_tree(numpy.where(allowed, 0.0, -numpy.inf))[1] == -numpy.inf:
            logger.warning(Warnings.W102.format(name=self.name, words=" ".join(view.words)[:80]))
            return None
        return allowed

    def _decode(self, posterior: Posterior) -> NDArray[numpy.int32]:
        return posterior.heads if self.decode == "mbr" else posterior.viterbi()

    def set_annotations(self, docs: Iterable[Doc], scores: list[_Prediction]) -> None:
        """Write parses to documents.

        docs (Iterable[Doc]): The documents.
        scores (List[_Prediction]): From `predict`.
        """
        add = self.vocab.strings.add
        hashes = numpy.array([add(label) for label in self.grammar.labels.labels], dtype="uint64")
        for doc, prediction in zip(docs, scores, strict=True):
            write_parse(doc, prediction.heads, hashes[prediction.labels])
            if self.store:
                doc.user_data[USER_DATA] = prediction.stored

    def marginals(self, doc: Doc) -> list[NDArray[numpy.float64]]:
        """Exact arc probabilities, whatever tree was or will be chosen.

        doc (Doc): A document with sentence boundaries and symbols.
        RETURNS (List[ndarray]): Per sentence [n, n]: row m holds the probability of every token of the
            sentence as head of its token m, the diagonal that of being the root. Rows sum to one.
            Whitespace tokens are left out.
        """
        return [_by_modifier(posterior.marginals) for _, _, posterior in self._posteriors(doc)]

    def nbest(self, doc: Doc, k: int = 5) -> list[list[SentenceParse]]:
        """The k best parses of every sentence.

        The k trees with the best products of arc marginals are found exactly and come in the order of
        their exact probabilities; labels and restored crossing arcs are as in a normal parse.

        doc (Doc): A document with sentence boundaries and symbols.
        k (int): How many parses per sentence at most.
        RETURNS (List[List[SentenceParse]]): Per sentence, most probable first.
        """
        if k < 1:
            raise ValueError(Errors.S120.format(name=self.name, k=k))
        result = []
        for view, symbols, posterior in self._posteriors(doc):
            parses = posterior.k_best(k)
            trees = [heads for heads, _ in parses]
            distributions = self.grammar.label_distributions(
                [symbols] * len(trees), [view.words] * len(trees), trees
            )
            labels = distributions.argmax(axis=1).reshape(len(trees), len(view))
            own = []
            for (heads, logprob), label_ids in zip(parses, labels, strict=True):
                final, plain = self.grammar.labels.deprojectivized(heads, label_ids)
                deps = [self.grammar.labels.labels[i] for i in plain]
                parse_heads = _in_document(view, final).tolist()
                own.append(SentenceParse(int(view.tokens[0]), parse_heads, deps, logprob))
            result.append(own)
        return result

    def scored_parses(
        self, docs: Iterable[Doc]
    ) -> tuple[list[dict[tuple[int, int], float]], list[dict[tuple[int, str], float]]]:
        """Probabilities of heads and labels, in the form of the method of spaCy's `beam_parser`.

        docs (Iterable[Doc]): Documents with sentence boundaries and symbols.
        RETURNS (Tuple[List[dict], List[dict]]): Per document, the probability of every (token, head)
            and of every (token, label), the latter for the chosen head.
        """
        head_scores, label_scores = [], []
        for doc in docs:
            by_head: dict[tuple[int, int], float] = {}
            by_label: dict[tuple[int, str], float] = {}
            for view, symbols, posterior in self._posteriors(doc):
                rows = _by_modifier(posterior.marginals)
                for m, i in enumerate(view.tokens.tolist()):
                    for h in numpy.flatnonzero(rows[m]):
                        by_head[i, int(view.tokens[h])] = float(rows[m, h])
                heads = self._decode(posterior)
                distributions = self.grammar.label_distributions([symbols], [view.words], [heads])
                for i, row in zip(view.tokens.tolist(), distributions, strict=True):
                    for label, value in zip(self.grammar.labels.labels, row.tolist(), strict=True):
                        key = (i, label.partition(DELIMITER)[0])
                        by_label[key] = by_label.get(key, 0.0) + value
            head_scores.append(by_head)
            label_scores.append(by_label)
        return head_scores, label_scores

    def _posteriors(self, doc: Doc) -> Iterator[tuple[SentenceView, NDArray, Posterior]]:
        views = sentences(doc, name=self.name)
        for view, symbols in zip(views, self._symbols(doc, views), strict=True):
            yield view, symbols, self._posterior(symbols, view)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SpectralParser":
        """Load the component from bytes, or raise a ValueError that says what is wrong with them."""
        self._symbol_ids = {}
        return _loading(super().from_bytes, self.name, bytes_data, exclude)

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "SpectralParser":
        """Load the component from a directory, or raise an error that says what is wrong with it."""
        self._symbol_ids = {}
        return _loading(super().from_disk, self.name, path, exclude)


def _loading(load: Callable, name: str, source: Any, exclude: Iterable[str]) -> Any:
    try:
        return load(source, exclude=tuple(exclude))
    except OSError:
        raise
    except ValueError as error:
        if str(error).startswith("[S"):
            raise
        raise ValueError(Errors.S002.format(what=name, reason=error)) from error
    except Exception as error:
        raise ValueError(Errors.S002.format(what=name, reason=error)) from error


def _by_modifier(marginals: NDArray) -> NDArray[numpy.float64]:
    """[N+1, N+1] by head and modifier with a root -> [N, N] by modifier and head, roots on the diagonal."""
    rows = marginals[1:, 1:].T.copy()
    numpy.fill_diagonal(rows, marginals[0, 1:])
    return rows


def _in_document(view: SentenceView, heads: NDArray[numpy.int32]) -> NDArray[numpy.int64]:
    return numpy.where(heads > 0, view.tokens[heads - 1], view.tokens)


def _with_gold_sentences(example: Example) -> Doc:
    doc = example.predicted.copy()
    for token, start in zip(doc, example.get_aligned_sent_starts(), strict=True):
        token.is_sent_start = start == 1 or token.i == 0
    return doc


def _with_aligned_tags(example: Example) -> Doc:
    """Gold annotation on predicted tokens, where the two are tokenised differently."""
    doc = example.predicted.copy()
    for attribute in ("TAG", "POS", "MORPH", "LEMMA"):
        values = example.get_aligned(attribute, as_string=True)
        for token, value in zip(doc, values, strict=True):
            if attribute == "MORPH":
                token.set_morph(value or "")
            else:
                setattr(token, f"{attribute.lower()}_", value or "")
    return doc


def _stored(doc: Doc, name: str) -> Any:
    return doc.user_data.get(USER_DATA, {}).get(name)


def _token_value(name: str) -> Callable[[Token], float | None]:
    def get(token: Token) -> float | None:
        values = _stored(token.doc, name)
        if values is None or numpy.isnan(values[token.i]):
            return None
        return float(values[token.i])

    return get


def _parse_logprob(span: Span) -> float | None:
    """Sum over the sentences that a span is made of; None if it is not made of whole sentences."""
    values = _stored(span.doc, "parse_logprob")
    whole = (
        span.start < span.end and span.start == span[0].sent.start and span.end == span[-1].sent.end
    )
    if values is None or not whole:
        return None
    return float(numpy.nansum(values[span.start : span.end]))


for _name in ("head_prob", "dep_prob"):
    Token.set_extension(_name, getter=_token_value(_name), force=True)
Span.set_extension("parse_logprob", getter=_parse_logprob, force=True)
