"""The registered reader `spacy-spectral.Corpus.v1`: training and evaluation on gold annotation.

spaCy's own corpus reader hands every component a document with nothing but words. A parser that is
to be learnt and measured on gold tags inside gold sentences (the usual setting of the literature)
needs them on the *predicted* document, where it looks for them at run time.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spacy.attrs import LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab

from .base.errors import Errors, SpectralError
from .pipeline.constituents import gold_docs, stored_trees, with_text
from .pipeline.words import fitted, merged, surface
from .treebank.brackets import is_bracketed
from .treebank.documents import MULTIWORD, read_docs

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
        """path (Optional[Union[str, Path]]): A `.spacy`, `.conllu` or `.conll` file, or a directory of such
            files; or a file of bracketed trees (`.ptb`, `.mrg`, `.brackets`).
        annotations (Sequence[str]): The gold annotation that predicted documents carry: any of "tag",
            "pos", "morph", "lemma", "sents".
        n_sents (int): How many sentences of CoNLL-U make a document. Defaults to 0, documents and paragraphs
            as the comments `newdoc` and `newpar` have them; a file without is one document. A bracketed
            tree is a document then.
        syntactic_words (bool): Whether documents have the words of CoNLL-U's multiword tokens, all with their
            own annotation. By default words are cut out of the token (do+n't), which stays whole, with the
            annotation of all of them, where that can't be (French du).
        gold_tokens (bool): Whether predicted documents have the treebank's tokens. Otherwise the pipeline's
            tokenizer makes them of the text (constituency trees get one that is guessed); then they can carry
            no other annotation, and with `syntactic_words` gold documents hold tokens or words as the
            predicted ones do.
        trees (bool): Whether documents without dependency trees are a problem.
        max_length (int): Documents of this many tokens or more are split into sentences, sentences of
            this many or more are left out. Defaults to 0, no limit.
        limit (int): The largest number of examples. Defaults to 0, no limit.
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
        YIELDS (Example): The examples.
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
    RETURNS (Doc): The new document.
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


def without_parses(references: Iterable[Doc], *, gold_tags: bool) -> list[Doc]:
    """Documents to run a pipeline on: the words and sentences of a treebank."""
    annotations = ("sents", *(_GOLD_TAGS if gold_tags else ()))
    return [copy_words(reference, annotations) for reference in references]


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
