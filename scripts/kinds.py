"""A small pipeline of every kind that the package makes, for scripts and tests that try them all.

A new factory, architecture or tokenizer joins by a line in `KINDS`; a test fails for one that has none.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_spectral.models.eigenwords.model import Eigenwords
from spacy_spectral.models.eigenwords.statistics import count_files
from spacy_spectral.models.eigenwords.vectors import make_pipeline, spacy_tokenizer
from spacy_spectral.pipeline.annotations import Origin, store_origin
from spacy_spectral.pipeline.constituents import gold_docs
from spacy_spectral.treebank.documents import MULTIWORD, read_docs


class Kind(NamedTuple):
    """What a pipeline is made of.

    components (Dict[str, Dict]): Factories and their settings, in order. The last is what it is about.
    eigenwords (Dict[str, List[str]]): By factory, settings of `initialize` that take their directory.
    steps (int): How often it is updated.
    n_sents (int): How many sentences make a document.
    is_split (bool): Whether spaCy splits sentences before.
    is_tokenizer (bool): Whether it is about the tokenizer.
    has_vectors (bool): Whether its vocabulary is that of the eigenwords.
    has_brackets (bool): Whether it learns from bracketed trees.
    has_contractions (bool): Whether some words are written as one token, in which they do not stand.
    has_sources (bool): Whether every second document is of another treebank than the first one.
    """

    components: dict[str, dict[str, Any]]
    eigenwords: dict[str, list[str]] = {}  # noqa: RUF012 (nobody changes it)
    steps: int = 0
    n_sents: int = 1
    is_split: bool = True
    is_tokenizer: bool = False
    has_vectors: bool = False
    has_brackets: bool = False
    has_contractions: bool = False
    has_sources: bool = False

    @property
    def last(self) -> str:
        """The name of the component that it is about."""
        return list(self.components)[-1]


def _model(architecture: str, **settings: Any) -> dict[str, Any]:
    return {"@architectures": f"spacy-spectral.{architecture}", **settings}


TOKENIZER = {"@tokenizers": "spacy-spectral.Tokenizer.v1", "epochs": 1}
_TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 8, "depth": 1,
    "embed_size": 100, "window_size": 1, "maxout_pieces": 2, "subword_features": True,
}  # fmt: skip
_LENGTH = {"max_length": 100}
_SIZES = {"scan_size": 4, "scan_depth": 1, "arc_size": 4, "label_size": 4, **_LENGTH}
_SHAG = _model("SHAG.v1", states=4, lexical="LEX+FCP", **_LENGTH)
_LOGLINEAR = _model("LogLinear.v1", epochs=1, n_states=3, **_LENGTH)
_BIAFFINE = _model("Biaffine.v2", mix_size=8, epochs=1, **_SIZES)
_REFINED = _model("Refined.v1", states=12, dimensions=2, cycles=1, **_LENGTH)
_RERANKER = _model("Reranker.v1", folds=2, states=2, max_iterations=5, parser_epochs=1)
_FORESTS = _model("ForestReranker.v1", threshold=0.02, folds=2, epochs=1)
_GRAMMAR = {"states": 2, "em_iterations": 1}
_SPANS = {"epochs": 1, "anchored_epochs": 1}
_SPAN_SIZES = {"mix_size": 8, "scan_size": 4, "scan_depth": 1, "span_size": 8}
_NEURAL_SPAN = _model("NeuralSpan.v1", epochs=2, networks=2, **_SPAN_SIZES)
_LINEAR_TAGGER = _model("LinearTagger.v1", epochs=1)
_NEURAL_TAGGER = _model("NeuralTagger.v1", embed_size=8, mix_size=8, scan_size=4, epochs=2)
_TAGGER = {"spectral_tagger": {"model": _LINEAR_TAGGER}}
_CLUSTERS = {"spectral_tagger": ["clusters"], "spectral_parser": ["clusters"]}


def _parser(model: dict[str, Any], **more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {**_TAGGER, "spectral_parser": {"model": model}, **more}


def _constituents(model: dict[str, Any], **more: Any) -> Kind:
    own = {"model": model, "nbest": 2}
    return Kind({"spectral_constituency": own}, has_brackets=True, **more)


KINDS: dict[str, Kind] = {
    "tokenizer": Kind({}, is_tokenizer=True),
    "words": Kind(
        _parser(_LOGLINEAR), is_tokenizer=True, has_contractions=True
    ),
    "senter": Kind(
        {"spectral_senter": {"model": _model("LinearSenter.v1", epochs=2)}},
        n_sents=5,
        is_split=False,
    ),
    "tagger": Kind(_TAGGER, _CLUSTERS),
    "neural tagger": Kind(
        {"spectral_tagger": {"model": _NEURAL_TAGGER}},
        {"spectral_tagger": ["clusters", "vectors"]},
    ),
    "product of taggers": Kind(
        {
            "spectral_tagger": {
                "model": _model(
                    "ProductTagger.v1", experts={"linear": _LINEAR_TAGGER, "neural": _NEURAL_TAGGER}
                )
            }
        },
        _CLUSTERS,
    ),
    "tagger of two treebanks": Kind(
        {
            "spectral_tagger": {
                "source": "one",
                "model": _model(
                    "ProductTagger.v1", experts={"linear": _LINEAR_TAGGER, "neural": _NEURAL_TAGGER}
                ),
            }
        },
        has_sources=True,
    ),
    "lemmatizer": Kind(
        {**_TAGGER, "spectral_lemmatizer": {"model": _model("LinearLemmatizer.v1", epochs=2)}}
    ),
    "SHAG": Kind(_parser(_SHAG)),
    "LogLinear": Kind(_parser(_LOGLINEAR), _CLUSTERS),
    "Biaffine.v1": Kind(
        {"spectral_parser": {"model": _model("Biaffine.v1", tok2vec=_TOK2VEC, **_SIZES)}}, steps=2
    ),
    "Biaffine": Kind(_parser(_BIAFFINE), {"spectral_parser": ["clusters", "vectors"]}),
    "product": Kind(
        _parser(
            _model(
                "Product.v1", experts={"one": _LOGLINEAR, "two": _BIAFFINE, "three": _SHAG},
                weights={"one": 0.5, "two": 0.4, "three": 0.1},
            )
        )
    ),
    "product with Biaffine.v1": Kind(
        _parser(
            _model(
                "Product.v1",
                experts={
                    "one": _LOGLINEAR, "two": _model("Biaffine.v1", tok2vec=_TOK2VEC, **_SIZES)
                },
            )
        ),
        steps=2,
    ),
    "refined": Kind(_parser(_REFINED)),
    "refiner": Kind(_parser(_SHAG, spectral_refiner={"model": _REFINED})),
    "reranker": Kind(
        _parser(_LOGLINEAR, spectral_reranker={"model": _RERANKER, "n": 5, "store": ["parses"]})
    ),
    # a parser that is not sure of anything has large forests
    "forest reranker": Kind(
        _parser(
            _LOGLINEAR | {"epochs": 4},
            spectral_reranker={"model": _FORESTS, "n": 5, "store": ["parses"]},
        )
    ),
    "constituency": _constituents(_model("ConstituencyProduct.v1", **_GRAMMAR, **_SPANS)),
    "grammar": _constituents(_model("LPCFG.v1", **_GRAMMAR)),
    "spans": _constituents(_model("SpanCRF.v1", **_SPANS)),
    "neural spans": _constituents(_NEURAL_SPAN),
    "spans over tok2vec": _constituents(
        _model("NeuralSpan.v2", tok2vec=_TOK2VEC, scan_size=4, scan_depth=1, span_size=8), steps=4
    ),
    "constituency with a network": _constituents(
        _model("ConstituencyProduct.v1", neural=_NEURAL_SPAN, **_GRAMMAR, **_SPANS)
    ),
    "eigenwords": Kind({**_TAGGER, "eigenwords": {}}, has_vectors=True),
}  # fmt: skip


def registered_names() -> Iterator[str]:
    """YIELDS (str): All factories, architectures and tokenizers that pipelines of these kinds use."""
    settings: list[Any] = [TOKENIZER]
    for kind in KINDS.values():
        yield from kind.components
        settings += kind.components.values()
    while settings:
        own = settings.pop()
        for key, value in own.items():
            if isinstance(value, dict):
                settings.append(value)
            elif key.startswith("@"):
                yield value


class Data:
    """What pipelines are trained on.

    directory (Path): A place for files.
    treebank (Path): CoNLL-U or .spacy.
    brackets (Path): Bracketed trees.
    sentences (int): How many sentences of each are trained on.
    lang (str): The language of pipelines whose tokens are spaCy's. "xx" (any) loads three times as fast.
    """

    def __init__(
        self, directory: Path, treebank: Path, brackets: Path, sentences: int, lang: str = "en"
    ):
        self.directory = directory
        self.treebank = treebank
        self.brackets = brackets
        self.sentences = sentences
        self.lang = lang

    def examples(self, kind: Kind, nlp: Language) -> list[Example]:
        """RETURNS (List[Example]): The first sentences, to be annotated from their words."""
        read: Any = gold_docs if kind.has_brackets else read_docs
        path = self.brackets if kind.has_brackets else self.treebank
        docs = read(path, nlp.vocab, n_sents=kind.n_sents)
        few = islice(docs, -(-self.sentences // kind.n_sents))
        if kind.has_contractions:
            few = map(contracted, few)
        gold = list(few)
        for doc in gold[1::2] if kind.has_sources else ():
            store_origin(doc, Origin(0.5, "other"))
        return [Example(bare(doc), doc) for doc in gold]

    def texts(self) -> list[str]:
        """RETURNS (List[str]): All sentences of the treebank, as texts."""
        return [doc.text for doc in read_docs(self.treebank, spacy.blank("en").vocab)]

    def eigenwords(self) -> Path:
        """RETURNS (Path): A directory with eigenwords of the texts."""
        # not the name of a kind, as pipelines of kinds are kept beside it
        path, text = self.directory / "vectors", self.directory / "text.txt"
        if not path.exists():
            text.write_text("\n".join(self.texts()), encoding="utf8")
            tokenize = spacy_tokenizer(spacy.blank("en"))
            counts = count_files([text], min_count=2, window=2, tokenize=tokenize)
            model = Eigenwords.estimate(counts, k=8, granularities=(4, 8))
            make_pipeline(model, lang=self.lang, meta={}).to_disk(path)
        return path


def contracted(doc: Doc) -> Doc:
    """RETURNS (Doc): The same words, but that a determiner and the word after it are written as one token: of
    "the" and "dog" the token is "thog"."""
    pairs = [t.i for t in doc[:-1] if t.pos_ == "DET" and doc[t.i + 1].text.isalpha()]
    spaces = [bool(token.whitespace_) and token.i not in pairs for token in doc]
    new = Doc(doc.vocab, words=[token.text for token in doc], spaces=spaces)
    attributes = [TAG, POS, MORPH, LEMMA, HEAD, DEP]
    new.from_array(attributes, doc.to_array(attributes))
    new.spans[MULTIWORD] = [
        Span(new, i, i + 2, label=doc[i].text[:2] + doc[i + 1].text[1:]) for i in pairs
    ]
    return new


def bare(doc: Doc) -> Doc:
    """RETURNS (Doc): The same words in the same sentences."""
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    starts = [bool(token.is_sent_start) for token in doc]
    return Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts)


def blank(kind: Kind, data: Data) -> Language:
    """RETURNS (Language): A pipeline of a kind that is not trained."""
    config = {"nlp": {"tokenizer": TOKENIZER}} if kind.is_tokenizer else {}
    vocab = spacy.load(data.eigenwords()).vocab if kind.has_vectors else True
    # our tokenizer has rules of the language among its features
    nlp = spacy.blank("en" if kind.is_tokenizer else data.lang, config=config, vocab=vocab)
    if kind.is_split:
        nlp.add_pipe("sentencizer")
    for factory, settings in kind.components.items():
        nlp.add_pipe(factory, config=settings)
    return nlp


def train(kind: Kind, data: Data) -> Language:
    """RETURNS (Language): A trained pipeline of a kind."""
    nlp = blank(kind, data)
    examples = data.examples(kind, nlp)
    nlp.config["initialize"]["components"] = {
        factory: dict.fromkeys(settings, str(data.eigenwords()))
        for factory, settings in kind.eigenwords.items()
        if factory in kind.components
    }
    # one after the other, as a reranker needs a parser that can parse
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(kind.steps):
        nlp.update(examples[:50], sgd=optimizer)
    nlp.config["initialize"]["components"] = {}
    return nlp
