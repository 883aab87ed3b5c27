"""The registered reader `spacy-spectral.Corpus.v1`: training and evaluation on gold annotation.

spaCy's own corpus reader hands every component a document with nothing but words. A parser that is
to be learnt and measured on gold tags inside gold sentences (the usual setting of the literature)
needs them on the *predicted* document, where it looks for them at run time.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spacy.attrs import LEMMA, MORPH, POS, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from .base.errors import Errors
from .treebank.documents import read_docs

ANNOTATIONS = {"tag": TAG, "pos": POS, "morph": MORPH, "lemma": LEMMA, "sents": SENT_START}


def create_corpus(
    path: Path | None,
    annotations: list[str] = list(ANNOTATIONS),  # noqa: B006 (spaCy shows it in filled configs)
    max_length: int = 0,
    limit: int = 0,
) -> Callable[[Language], Iterable[Example]]:
    """Make a corpus reader.

    path (Optional[Path]): A `.spacy`, `.conllu` or `.conll` file, or a directory of such files.
    annotations (List[str]): The gold annotation that predicted documents carry: any of "tag",
        "pos", "morph", "lemma", "sents".
    max_length (int): Documents of this many tokens or more are split into sentences, sentences of
        this many or more are left out. Defaults to 0, no limit.
    limit (int): The largest number of examples. Defaults to 0, no limit.
    RETURNS (Callable[[Language], Iterable[Example]]): The reader.
    """
    if path is None:
        raise ValueError(Errors.S033)
    unknown = [name for name in annotations if name not in ANNOTATIONS]
    if unknown:
        raise ValueError(Errors.S034.format(names=unknown, known=list(ANNOTATIONS)))
    return Corpus(path, annotations=annotations, max_length=max_length, limit=limit)


class Corpus:
    """Read Examples whose predicted documents carry gold annotation. See `create_corpus`."""

    def __init__(
        self, path: Path, *, annotations: Iterable[str], max_length: int = 0, limit: int = 0
    ) -> None:
        self.path = path
        self.annotations = tuple(annotations)
        self.max_length = max_length
        self.limit = limit

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """nlp (Language): The pipeline whose vocabulary the documents share.
        YIELDS (Example): The examples.
        """
        for i, reference in enumerate(self._references(nlp.vocab), start=1):
            yield Example(copy_words(reference, self.annotations), reference)
            if i == self.limit:
                break

    def _references(self, vocab: Vocab) -> Iterator[Doc]:
        for doc in read_docs(self.path, vocab):
            if not self.max_length or len(doc) < self.max_length:
                yield doc
            else:
                for sent in doc.sents:
                    if len(sent) < self.max_length:
                        yield sent.as_doc()


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
    return doc
