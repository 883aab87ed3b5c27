"""The registered readers `spacy-spectral.Corpus.v1`: training and evaluation on gold annotation; and
`spacy-spectral.Silver.v1`: trees that another parser has made.

spaCy's own corpus reader hands every component a document with nothing but words. A parser that is
to be learnt and measured on gold tags inside gold sentences (the usual setting of the literature)
needs them on the *predicted* document, where it looks for them at run time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import exp, log, nan
from pathlib import Path
from time import process_time

import numpy
from spacy.attrs import LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from .base.errors import Errors, SpectralError
from .pipeline.annotations import Origin, OtherArcs, ParseValues, store_origin, store_parse
from .pipeline.constituents import gold_docs, stored_trees, with_text
from .pipeline.table import ReadArcs, read_arc_probs
from .pipeline.words import fitted, merged, surface
from .treebank.brackets import is_bracketed
from .treebank.conllu import Sentence, TreebankError, scan_conllu
from .treebank.documents import CONLLU_SUFFIXES, MULTIWORD, read_docs, sentences_to_doc

ANNOTATIONS = {"tag": TAG, "pos": POS, "morph": MORPH, "lemma": LEMMA, "sents": SENT_START}


class Corpus:
    """Reads Examples whose predicted documents carry gold annotation."""

    def __init__(
        self,
        path: str | Path | None,
        annotations: Sequence[str] = list(ANNOTATIONS),
        n_sents: int = 0,
        syntactic_words: bool = False,
        gold_tokens: bool = True,
        trees: bool = True,
        max_length: int = 0,
        limit: int = 0,
    ) -> None:
        """path: A `.spacy`, `.conllu` or `.conll` file, or a directory of such
            files; or a file of bracketed trees (`.ptb`, `.mrg`, `.brackets`).
        annotations: The gold annotation that predicted documents carry: any of "tag",
            "pos", "morph", "lemma", "sents".
        n_sents: How many sentences of CoNLL-U make a document. Defaults to 0, documents and paragraphs
            as the comments `newdoc` and `newpar` have them; a file without is one document. A bracketed
            tree is a document then.
        syntactic_words: Whether documents have the words of CoNLL-U's multiword tokens, all with their
            own annotation. By default words are cut out of the token (do+n't), which stays whole, with the
            annotation of all of them, where that can't be (French du).
        gold_tokens: Whether predicted documents have the treebank's tokens. Otherwise the pipeline's
            tokenizer makes them of the text (constituency trees get one that is guessed); then they can carry
            no other annotation, and with `syntactic_words` gold documents hold tokens or words as the
            predicted ones do.
        trees: Whether documents without dependency trees are a problem.
        max_length: Documents of this many tokens or more are split into sentences, sentences of
            this many or more are left out. Defaults to 0, no limit.
        limit: The largest number of examples. Defaults to 0, no limit.
        """
        if path is None:
            raise SpectralError(Errors.S033)
        unknown = [name for name in annotations if name not in ANNOTATIONS]
        if unknown:
            raise SpectralError(Errors.S034.format(names=unknown, known=list(ANNOTATIONS)))
        if annotations and not gold_tokens:
            raise SpectralError(Errors.S601.format(names=list(annotations)))
        self.path = path
        self.annotations = tuple(annotations)
        self.n_sents = n_sents
        self.syntactic_words = syntactic_words
        self.gold_tokens = gold_tokens
        self.trees = trees
        self.max_length = max_length
        self.limit = limit

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """nlp (Language): The pipeline whose vocabulary the documents share.
        YIELDS: The examples.
        """
        for i, reference in enumerate(self._references(nlp.vocab), start=1):
            if self.gold_tokens:
                yield Example(copy_words(reference, self.annotations), reference)
            elif self.syntactic_words:
                yield predicted_example(nlp, reference)
            else:
                yield Example(nlp.make_doc(reference.text), reference)
            if i == self.limit:
                break

    def _references(self, vocab: Vocab) -> Iterator[Doc]:
        for doc in self._documents(vocab):
            if not self.max_length or len(doc) < self.max_length:
                yield doc
            else:
                for sent in doc.sents:
                    if len(sent) < self.max_length:
                        yield sentence_doc(sent)

    def _documents(self, vocab: Vocab) -> Iterator[Doc]:
        if is_bracketed(self.path):
            has_text = not self.gold_tokens
            return gold_docs(self.path, vocab, n_sents=self.n_sents, has_text=has_text)
        return read_docs(
            self.path,
            vocab,
            n_sents=self.n_sents,
            syntactic_words=self.syntactic_words,
            trees=self.trees,
        )


class SilverCorpus:
    """Reads trees that a parser has made, as `spacy spectral parse` writes them (CoNLL-U), or another
    treebank, for the setting `silver_corpus` of parsers and taggers."""

    def __init__(
        self,
        path: str | Path | None,
        weight: float = 1.0,
        source: str | None = None,
        soft: bool = True,
        min_prob: float = 0.0,
        min_length: int = 3,
        max_length: int = 100,
        limit: int = 0,
    ) -> None:
        """path: A CoNLL-U file, perhaps compressed (.gz), or a directory of such
            files; there are no silver trees without.
        weight: How much a sentence counts; a gold one counts 1.
        source: What the treebank is called that trees and tags are like; None if they are like the
            gold ones. See the setting `source` of parsers and taggers.
        soft: Whether to learn from the probabilities of arcs that `parse --probs` has written, where
            there are some: from the tree and the likeliest other arcs, each as far as it is likely. Otherwise
            from the tree alone.
        min_prob: Leave out sentences whose arcs are less likely than this: the geometric mean of the
            probabilities of their arcs with labels.
        min_length, max_length: Leave out shorter and longer sentences.
        limit: The largest number of tokens. Defaults to 0, no limit.
        """
        bounds = {
            "weight": (0 < weight <= 100, "more than 0 and at most 100", weight),
            "min_prob": (0 <= min_prob <= 1, "from 0 to 1", min_prob),
            "min_length": (min_length >= 1, "1 or more", min_length),
            "max_length": (max_length >= min_length, "no less than 'min_length'", max_length),
            "limit": (limit >= 0, "0 or more", limit),
        }
        for setting, (is_sound, range_, value) in bounds.items():
            if not is_sound:
                error = Errors.S643.format(setting=setting, bounds=range_, value=value)
                raise SpectralError(error)
        self.path = Path(path) if path is not None else None
        self.weight = weight
        self.source = source
        self.soft = soft
        self.min_prob = min_prob
        self.min_length = min_length
        self.max_length = max_length
        self.limit = limit

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """nlp (Language): The pipeline whose vocabulary the documents share.
        YIELDS: Some sentences each. Predicted documents have no tags, which a tagger would keep.
        """
        sentences = ((sentence, arcs) for _, sentence, arcs in self.sentences())
        while group := list(islice(sentences, _SILVER_SENTENCES)):
            doc = sentences_to_doc([sentence for sentence, _ in group], nlp.vocab)
            store_origin(doc, Origin(self.weight, self.source))
            if self.soft:
                _store_arcs(doc, group)
            yield Example(copy_words(doc, ["sents"]), doc)

    def sentences(self) -> Iterator[tuple[Path, Sentence, list[ReadArcs | None]]]:
        """The sentences to learn from: their file, and what is known of their arcs."""
        n_tokens = 0
        for path in self._files():
            for item in scan_conllu(path):
                if isinstance(item, TreebankError):
                    raise item
                if not self.min_length <= len(item) <= self.max_length:
                    continue
                arcs = _read_arcs(path, item) if self.soft or self.min_prob else []
                if self.min_prob and self.mean_prob(path, item, arcs) < self.min_prob:
                    continue
                if self.limit and n_tokens + len(item) > self.limit:
                    return
                n_tokens += len(item)
                # words and single spaces: this is for parsers and taggers, which see nothing else
                after = [" "] * (len(item) - 1) + [""]
                yield path, replace(item, multiword=[], before="", after=after), arcs

    @staticmethod
    def mean_prob(path: Path, sentence: Sentence, arcs: Sequence[ReadArcs | None]) -> float:
        """The geometric mean of the probabilities of a sentence's arcs with labels."""
        total = 0.0
        for i, arc in enumerate(arcs, start=1):
            if arc is None:
                raise SpectralError(Errors.S642.format(path=path, line=sentence.line, word=i))
            # they are written with three digits
            total += log(max(arc.head_prob, 1e-3)) + log(max(arc.dep_prob, 1e-3))
        return exp(total / len(arcs))

    def _files(self) -> list[Path]:
        if self.path is None:
            return []
        endings = (*CONLLU_SUFFIXES, *(f"{suffix}.gz" for suffix in CONLLU_SUFFIXES))
        if not self.path.is_dir():
            return [self.path]
        files = sorted(file for file in self.path.rglob("*") if file.name.endswith(endings))
        if not files:
            raise TreebankError(self.path, "", Errors.S029)
        return files


# How many silver sentences are one document.
_SILVER_SENTENCES = 64


def _read_arcs(path: Path, sentence: Sentence) -> list[ReadArcs | None]:
    arcs = []
    for i, misc in enumerate(sentence.misc, start=1):
        try:
            read = read_arc_probs(misc)
        except ValueError as error:
            found = Errors.S641.format(path=path, line=sentence.line, misc=misc, word=i)
            raise SpectralError(found) from error
        if read is not None and read.other is not None and read.other[0] > len(sentence):
            raise SpectralError(
                Errors.S641.format(path=path, line=sentence.line, misc=misc, word=i)
            )
        arcs.append(read)
    return arcs


def _store_arcs(doc: Doc, group: Sequence[tuple[Sentence, list[ReadArcs | None]]]) -> None:
    """Keep the probabilities of arcs on a document of some sentences, as a parser does."""
    arcs = [arc for _, own in group for arc in own]
    names: dict[str, int] = {}
    heads, labels = (numpy.full(len(doc), value, dtype="int32") for value in (0, -1))
    probs = numpy.zeros(len(doc), dtype="float32")
    place, starts = 0, [0]
    for sentence, own in group:
        for i, arc in enumerate(own):
            if arc is not None and arc.other is not None:
                head, dep, probs[place + i] = arc.other
                heads[place + i] = head - 1 - i if head else 0
                labels[place + i] = names.setdefault(dep, len(names))
        place += len(sentence)
        starts.append(place)
    pairs = [(arc.head_prob, arc.dep_prob) if arc is not None else (nan, nan) for arc in arcs]
    head_prob, dep_prob = numpy.array(pairs, dtype="float32").T
    others = OtherArcs(list(names), heads, labels, probs)
    sents = numpy.array(starts, dtype="int32")
    store_parse(doc, ParseValues(sents, head_prob, dep_prob, alternative=others))


def predicted_example(nlp: Language, gold: Doc) -> Example:
    """An example of a gold document of words whose predicted document the tokenizer has made of the text.

    The gold document has the tokens of the text, each with the annotation of its head word, if the predicted
    one has; or else words, and no annotation for those that the tokenizer did not find.
    """
    text = surface(gold).text
    predicted = nlp.make_doc(text)
    return Example(predicted, merged(gold) if predicted.text == text else fitted(gold, predicted))


def sentence_doc(sent: Span) -> Doc:
    """A sentence as a document, with its multiword tokens."""
    doc = sent.as_doc(copy_user_data=True)
    own = [
        Span(doc, span.start - sent.start, span.end - sent.start, label=span.label)
        for span in sent.doc.spans.get(MULTIWORD, ())
        if sent.start <= span.start and span.end <= sent.end
    ]
    if own:
        doc.spans[MULTIWORD] = own
    return doc


def copy_words(reference: Doc, annotations: Iterable[str] = ()) -> Doc:
    """Make a document with the words of another, and only the annotation that is asked for.

    reference (Doc): The gold document.
    annotations (Iterable[str]): What to copy: any of "tag", "pos", "morph", "lemma", "sents".
    RETURNS: The new document.
    """
    doc = Doc(
        reference.vocab,
        words=[token.text for token in reference],
        spaces=[bool(token.whitespace_) for token in reference],
    )
    attributes = [ANNOTATIONS[name] for name in annotations]
    if attributes and len(doc):
        array = reference.to_array(attributes)
        doc.from_array(attributes, array)
    if MULTIWORD in reference.spans:
        doc.spans[MULTIWORD] = [
            Span(doc, span.start, span.end, label=span.label) for span in reference.spans[MULTIWORD]
        ]
    return doc


# what --gold-tags takes from the treebank, and the token attributes of components it replaces
_GOLD_TAGS = ("tag", "pos", "morph")
_TAG_ATTRIBUTES = {"token.tag", "token.pos", "token.morph"}


def superseded(nlp: Language, *, gold_tags: bool) -> list[str]:
    """The components whose work the treebank has done: they assign nothing else of a parse."""
    names = []
    for name in nlp.pipe_names:
        assigned = set(nlp.get_pipe_meta(name).assigns)
        if "token.dep" in assigned or "token.head" in assigned:
            continue
        # an attribute ruler does not say what it assigns; it maps tags to parts of speech
        tags = assigned & _TAG_ATTRIBUTES or nlp.get_pipe_meta(name).factory == "attribute_ruler"
        if "token.is_sent_start" in assigned or (gold_tags and tags):
            names.append(name)
    return names


def parsed_anew(
    nlp: Language,
    references: Iterable[Doc],
    *,
    gold_tags: bool = False,
    without: Sequence[str] = (),
) -> tuple[list[Doc], float]:
    """A treebank's words and sentences as a pipeline parses them, without some of its components; and how
    many CPU seconds that takes."""
    annotations = ("sents", *(_GOLD_TAGS if gold_tags else ()))
    docs = [copy_words(reference, annotations) for reference in references]
    with nlp.select_pipes(disable=[*superseded(nlp, gold_tags=gold_tags), *without]):
        start = process_time()
        return list(nlp.pipe(docs)), process_time() - start


# so many trees of a file make a text
_PARAGRAPH = 10


def bracketed_docs(path: Path, vocab: Vocab, *, raw: bool = False) -> list[Doc] | None:
    """The gold documents of a file of constituency trees, or of a .spacy file that was made of them; None for
    treebanks of another kind.

    raw: With texts, see `pipeline.constituents.with_text`. Ten trees of a file are a document then.
    """
    if is_bracketed(path):
        n_sents = _PARAGRAPH if raw else 1
        return list(gold_docs(path, vocab, n_sents=n_sents, has_text=raw))
    if path.suffix != ".spacy":
        return None
    docs = list(read_docs(path, vocab, trees=False))
    has_heads = any(doc.has_annotation("DEP") for doc in docs)
    if has_heads or not any(map(stored_trees, docs)):
        return None
    return list(map(with_text, docs)) if raw else docs
