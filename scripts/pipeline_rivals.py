"""What benchmark_pipeline.py measures ours against: spaCy's own pipeline and UDPipe 1."""

import argparse
import logging
import os
import resource
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import spacy
from spacy import util
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab

from spacy_spectral.readers import Corpus
from spacy_spectral.scorers import score_ud

Curve = list[tuple[float, float]]  # CPU seconds of training, LAS on dev


def note(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def read(nlp: Language, path: Path) -> list[Example]:
    """Gold documents, and documents with their words and sentence boundaries."""
    return list(corpus(path)(nlp))


def corpus(path: Path) -> Corpus:
    return Corpus(path, annotations=["sents"], n_sents=1, syntactic_words=True)


def evaluate(nlp: Language, examples: list[Example]) -> dict[str, float | None]:
    return score(list(nlp.pipe(eg.predicted.copy() for eg in examples)), examples)


def score(docs: list[Doc], examples: list[Example]) -> dict[str, float | None]:
    """RETURNS (Dict[str, Optional[float]]): "tag", "pos" (None without any), "uas", "las"."""
    pairs = [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
    scores = score_ud(pairs)
    has_pos = any(doc.has_annotation("POS") for doc in docs)
    pos = Scorer.score_token_attr(pairs, "pos")["pos_acc"] if has_pos else None
    return {"tag": scores["tag_acc"], "pos": pos, "uas": scores["uas"], "las": scores["las"]}


def trained(curve: Curve, seconds: float, path: Path) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {
        "seconds": seconds,
        "curve": curve,
        "peak_mb": peak / (2**20 if sys.platform == "darwin" else 2**10),
        "size_mb": sum(file.stat().st_size for file in files) / 2**20,
    }


def spacy_config(options: argparse.Namespace) -> Any:
    """What `spacy init config --optimize efficiency` gives, on our corpora."""
    from spacy.cli.init_config import init_config

    config = init_config(lang="xx", pipeline=["tagger", "parser"], optimize="efficiency")
    config["nlp"]["lang"] = options.lang
    config["nlp"]["tokenizer"] = {"@tokenizers": "spacy.Tokenizer.v1"}
    for split in ("train", "dev"):
        config["corpora"][split] = {
            "@readers": "spacy-spectral.Corpus.v1",
            "path": str(getattr(options, split)),
            "annotations": ["sents"],
            "n_sents": 1,
            "syntactic_words": True,
        }
    # "!" marks negative annotation, unless told otherwise; treebanks have it as a tag
    config["components"]["tagger"]["neg_prefix"] = "\N{NOT SIGN}\N{NOT SIGN}"
    if options.fair_vectors:
        config["components"]["tok2vec"]["model"]["embed"]["include_static_vectors"] = True
        config["initialize"]["vectors"] = str(options.vectors)
    if options.quick:
        config["training"] |= {"max_steps": 4, "eval_frequency": 2}
    return config


def train_spacy(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    def score_dev(nlp: Language, weights: Any) -> Callable[[], tuple[float, dict[str, Any]]]:
        dev = read(nlp, options.dev)

        def dev_score() -> tuple[float, dict[str, Any]]:
            scores = evaluate(nlp, dev)
            return scores["las"], scores

        return dev_score

    train = corpus(options.train)
    return train_in_steps(spacy_config(options), train, score_dev, options, path)


def train_in_steps(
    config: Any,
    train: Corpus,
    score_dev: Callable[[Language, Any], Callable[[], tuple[float, dict[str, Any]]]],
    options: argparse.Namespace,
    path: Path,
) -> dict[str, Any]:
    """Train a pipeline of spaCy by its own loop until that stops by itself, or the time is over."""
    from spacy.schemas import ConfigSchemaTraining
    from spacy.training.loop import create_train_batches, train_while_improving

    started = process_time()
    util.logger.setLevel(logging.ERROR)
    nlp = init_nlp(config)
    settings = util.registry.resolve(
        nlp.config.interpolate()["training"], schema=ConfigSchemaTraining
    )
    curve: Curve = []
    best = 0.0
    for _, info, is_best in train_while_improving(
        nlp,
        settings["optimizer"],
        create_train_batches(nlp, train, settings["batcher"], settings["max_epochs"]),
        score_dev(nlp, settings["score_weights"]),
        exclude=[],
        **{
            name: settings[name]
            for name in (
                "dropout", "accumulate_gradient", "patience", "max_steps", "eval_frequency",
                "annotating_components", "before_update",
            )
        },
    ):  # fmt: skip
        seconds = process_time() - started
        if is_best is not None:
            curve.append((seconds, info["score"]))
            note(f"  {seconds:6.0f} s  step {info['step']}, dev score {info['score']:.2%}")
        if is_best:
            best = seconds
            with nlp.use_params(settings["optimizer"].averages):
                nlp.to_disk(path)
        if seconds > 60 * options.minutes:
            break
    if not curve:
        # stopped before it was scored: what there is has to do
        nlp.to_disk(path)
    limited = seconds > 60 * options.minutes
    return trained(curve, process_time() - started, path) | {
        "best_seconds": best,
        "limited": limited,
    }


def train_udpipe(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    from ufal import udpipe

    nlp = spacy.blank("xx")
    data = []
    for file in (options.train, options.dev):
        sentences = udpipe.Sentences()
        for eg in read(nlp, file):
            for sentence in udpipe_sentences(eg.reference, gold=True):
                sentences.append(sentence)
        data.append(sentences)
    if not sys.stderr.isatty():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # its progress goes to stderr
    started = process_time()
    error = udpipe.ProcessingError()
    tagger, parser = "", ""  # its own choice
    if options.quick:
        tagger, parser = "iterations=1", "iterations=1;hidden_layer=10"
    model = udpipe.Trainer.train(
        "morphodita_parsito", data[0], data[1], udpipe.Trainer.NONE, tagger, parser, error
    )
    if error.occurred():
        raise ValueError(f"UDPipe: {error.message}")
    path.write_bytes(model)
    return trained([], process_time() - started, path)


# What is measured: two kinds of systems with one face. `whole`, `parser_only` and `one_by_one` are timed, on
# inputs prepared by `whole_input`, `parser_input` and `text_input`; `documents` makes Docs of what they give.

BATCH_SIZES = (32, 128, 512)
# Everyone is asked for tags and trees: documents have tokens and sentences, and nobody else has lemmas.
TIMED = ("tok2vec", "tagger", "parser", "spectral_tagger", "spectral_parser")
# words, and whether each begins a sentence
Text = list[tuple[list[str], list[bool]]]


def running_text(path: Path, lang: str, *, n_lines: int) -> Text:
    """RETURNS (Text): The first lines of a file, cut into words and sentences in the same way for all."""
    nlp = spacy.blank(lang)
    nlp.add_pipe("sentencizer")
    with path.open(encoding="utf8") as file:
        lines = [line.strip() for line in islice(file, n_lines)]
    docs = nlp.pipe(line for line in lines if line)
    return [([t.text for t in doc], [bool(t.is_sent_start) for t in doc]) for doc in docs]


class SpacySystem:
    """A pipeline of spaCy whose last component is the parser."""

    def __init__(self, path: Path, dev: Path):
        self.nlp = spacy.load(path)
        for name in self.nlp.pipe_names:
            if self.nlp.get_pipe_meta(name).factory not in TIMED:
                self.nlp.disable_pipe(name)
        self.examples = read(self.nlp, dev)
        # taggers that a parser depends on have done their work; a tok2vec is part of the parser
        self.others = [name for name in self.nlp.pipe_names[:-1] if name != "tok2vec"]
        ours = "tok2vec" not in self.nlp.pipe_names
        docs = [eg.predicted.copy() for eg in self.examples]
        self.tagged = list(self.nlp.pipe(docs, disable=self.nlp.pipe_names[-1:])) if ours else docs
        self.batch_size = self._best_batch_size()

    def _best_batch_size(self) -> int:
        """RETURNS (int): The fastest one, of two rounds over a part of the documents."""
        seconds = dict.fromkeys(BATCH_SIZES, float("inf"))
        for _ in range(2):
            for size in BATCH_SIZES:
                self.batch_size = size
                docs = self.whole_input()[: 2 * max(BATCH_SIZES)]
                started = process_time()
                self.whole(docs)
                seconds[size] = min(seconds[size], process_time() - started)
        return min(seconds, key=seconds.__getitem__)

    def whole_input(self) -> list[Doc]:
        return [eg.predicted.copy() for eg in self.examples]

    def parser_input(self) -> list[Doc]:
        return [doc.copy() for doc in self.tagged]

    def text_input(self, text: Text) -> list[Doc]:
        return [Doc(self.nlp.vocab, words=words, sent_starts=starts) for words, starts in text]

    def whole(self, docs: list[Doc]) -> list[Doc]:
        return list(self.nlp.pipe(docs, batch_size=self.batch_size))

    def parser_only(self, docs: list[Doc]) -> list[Doc]:
        return list(self.nlp.pipe(docs, batch_size=self.batch_size, disable=self.others))

    def one_by_one(self, docs: list[Doc]) -> list[Doc]:
        return [self.nlp(doc) for doc in docs]

    def documents(self, docs: list[Doc]) -> list[Doc]:
        return docs


class UDPipeSystem:
    """A model of UDPipe 1."""

    def __init__(self, path: Path, dev: Path):
        from ufal.udpipe import Model

        self.model = Model.load(str(path))
        self.nlp = spacy.blank("xx")
        self.examples = read(self.nlp, dev)

    def whole_input(self) -> list[list[Any]]:
        return [list(udpipe_sentences(eg.reference)) for eg in self.examples]

    def parser_input(self) -> list[list[Any]]:
        return self._apply(self.whole_input(), self.model.tag)

    def text_input(self, text: Text) -> list[list[Any]]:
        docs = (Doc(self.nlp.vocab, words=words, sent_starts=starts) for words, starts in text)
        return [list(udpipe_sentences(doc)) for doc in docs]

    def whole(self, docs: list[list[Any]]) -> list[list[Any]]:
        return self._apply(docs, self.model.tag, self.model.parse)

    def parser_only(self, docs: list[list[Any]]) -> list[list[Any]]:
        return self._apply(docs, self.model.parse)

    def one_by_one(self, docs: list[list[Any]]) -> list[list[Any]]:
        return self.whole(docs)

    def documents(self, docs: list[list[Any]]) -> list[Doc]:
        return [udpipe_doc(sentences, self.nlp.vocab) for sentences in docs]

    def _apply(self, docs: list[list[Any]], *steps: Callable) -> list[list[Any]]:
        for doc in docs:
            for sentence in doc:
                for step in steps:
                    step(sentence, self.model.DEFAULT)
        return docs


def udpipe_sentences(doc: Doc, *, gold: bool = False) -> Iterator[Any]:
    from ufal.udpipe import Sentence

    for sent in doc.sents:
        sentence = Sentence()
        for token in sent:
            word = sentence.addWord(token.text)
            if gold:
                word.upostag, word.xpostag = token.pos_, token.tag_
                word.feats, word.lemma = str(token.morph), token.lemma_
        if gold:
            for i, token in enumerate(sent, start=1):
                root = token.head == token
                head = 0 if root else token.head.i - sent.start + 1
                sentence.setHead(i, head, "root" if root else token.dep_)
        yield sentence


def udpipe_doc(sentences: list[Any], vocab: Vocab) -> Doc:
    words, heads = [], []
    for sentence in sentences:
        start = len(words) - 1
        for word in islice(sentence.words, 1, None):
            heads.append(start + (word.head or word.id))
            words.append(word)
    return Doc(
        vocab,
        words=[word.form for word in words],
        tags=[word.xpostag for word in words],
        pos=[word.upostag for word in words],
        heads=heads,
        deps=["ROOT" if word.head == 0 else word.deprel for word in words],
    )
