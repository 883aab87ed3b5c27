"""Gold spaCy Docs out of treebank files: CoNLL-U or `.spacy`, with the same errors for both."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, ORTH, POS, SENT_START, TAG
from spacy.parts_of_speech import NAMES as POS_NAMES
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..base.errors import Errors
from .conllu import Sentence, scan_conllu
from .validate import MISSING, TreebankError, tree_problems

CONLLU_SUFFIXES = (".conllu", ".conll")
SUFFIXES = (*CONLLU_SUFFIXES, ".spacy")


def read_docs(path: str | Path, vocab: Vocab, *, n_sents: int = 1) -> Iterator[Doc]:
    """Read gold documents with tags, parts of speech, morphology, lemmas, heads, labels, sentences.

    path (Union[str, Path]): A `.conllu`, `.conll` or `.spacy` file, or a directory of such files.
    vocab (Vocab): The vocabulary of the documents.
    n_sents (int): How many sentences of CoNLL-U make a document; 0 for one document per file.
    YIELDS (Doc): The documents in order. A token with a missing head has the label "".
    RAISES (TreebankError): At the first problem.
    """
    for file in treebank_files(path):
        for item in scan_docs(file, vocab, n_sents=n_sents):
            if isinstance(item, TreebankError):
                raise item
            yield item


def treebank_files(path: str | Path) -> list[Path]:
    """Find the treebank files that a path stands for.

    path (Union[str, Path]): A file, or a directory that is searched with its subdirectories.
    RETURNS (List[Path]): The files, sorted.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        if not files:
            raise TreebankError(path, "", Errors.S029)
        return files
    if path.suffix not in SUFFIXES:
        raise TreebankError(path, "", Errors.S028)
    return [path]


def scan_docs(path: Path, vocab: Vocab, *, n_sents: int = 1) -> Iterator[Doc | TreebankError]:
    """Read a treebank file to its end, whatever is wrong with it.

    path (Path): A `.conllu`, `.conll` or `.spacy` file.
    vocab (Vocab): The vocabulary of the documents.
    n_sents (int): How many sentences of CoNLL-U make a document; 0 for one document per file.
    YIELDS (Union[Doc, TreebankError]): The valid documents and all problems of the others.
    """
    if path.suffix in CONLLU_SUFFIXES:
        return _scan_conllu_docs(path, vocab, n_sents)
    return _scan_docbin(path, vocab)


def sentences_to_doc(sentences: list[Sentence], vocab: Vocab) -> Doc:
    """Make one gold document of sentences.

    sentences (List[Sentence]): The sentences.
    vocab (Vocab): The vocabulary of the document.
    RETURNS (Doc): The document. A word without XPOS has its UPOS as tag, as in `spacy convert`.
    """
    heads: list[int | None] = []
    deps: list[str] = []
    sent_starts: list[int] = []
    for sentence in sentences:
        offset = len(heads)
        sent_starts += [1] + [-1] * (len(sentence) - 1)
        for i, (head, dep) in enumerate(zip(sentence.heads, sentence.deps, strict=True)):
            heads.append(None if head == MISSING else head + offset)
            # spaCy writes the label of a root in capitals
            deps.append("ROOT" if head == i and dep == "root" else dep)
    doc = Doc(
        vocab,
        words=_concatenate(sentence.words for sentence in sentences),
        spaces=_concatenate(sentence.spaces for sentence in sentences),
        tags=[x or u for s in sentences for x, u in zip(s.xpos, s.upos, strict=True)],
        pos=_concatenate(sentence.upos for sentence in sentences),
        morphs=_concatenate(sentence.feats for sentence in sentences),
        lemmas=_concatenate(sentence.lemmas for sentence in sentences),
        heads=heads,
        deps=deps,
    )
    set_sentence_starts(doc, sent_starts)
    return doc


def set_sentence_starts(doc: Doc, sent_starts: list[int] | numpy.ndarray) -> None:
    """Write sentence boundaries that stay true where spaCy's own, guessed from the roots, are not:
    in front of a word without head, or in a sentence without root.

    doc (Doc): The document.
    sent_starts (List[int]): 1 for the first word of a sentence, -1 for any other.
    """
    doc.from_array([SENT_START], numpy.asarray(sent_starts, dtype="int64").astype("uint64"))


def _concatenate(lists) -> list:
    return [item for items in lists for item in items]


def _scan_conllu_docs(path: Path, vocab: Vocab, n_sents: int) -> Iterator[Doc | TreebankError]:
    items = scan_conllu(path)
    while group := list(islice(items, n_sents or None)):
        problems = [item for item in group if isinstance(item, TreebankError)]
        yield from problems
        if not problems:
            yield sentences_to_doc(group, vocab)


def _scan_docbin(path: Path, vocab: Vocab) -> Iterator[Doc | TreebankError]:
    try:
        data = path.read_bytes()
    except OSError as error:
        yield TreebankError(path, "", Errors.S010.format(reason=error.strerror or error))
        return
    try:
        docs = list(_docbin_arrays(data, vocab))
    except Exception as error:
        # spaCy does not check what it reads: damaged bytes show as any kind of exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        yield TreebankError(path, "", Errors.S030.format(reason=reason))
        return
    if not docs:
        yield TreebankError(path, "", Errors.S012)
    for index, (doc, heads, sent_starts) in enumerate(docs, start=1):
        problems = _doc_problems(heads, sent_starts)
        for where, message in problems:
            yield TreebankError(path, f"doc {index}{where}", message)
        if not problems:
            set_sentence_starts(doc, sent_starts)
            yield doc


def _docbin_arrays(data: bytes, vocab: Vocab) -> Iterator[tuple[Doc, list[int], list[int]]]:
    """The documents of a .spacy file with heads (absolute or `MISSING`) and sentence starts.

    Reading the heads off the Doc would not do: `Doc.sents` believes them, and loops do not show.
    """
    docbin = DocBin().from_bytes(data)
    columns = {attribute: column for column, attribute in enumerate(docbin.attrs)}
    if HEAD not in columns or DEP not in columns:
        raise ValueError("no heads and labels are stored")
    if len({len(docbin.tokens), len(docbin.spaces), len(docbin.flags)}) != 1:
        raise ValueError("the parts do not belong together")
    for tokens, doc in zip(docbin.tokens, docbin.get_docs(vocab), strict=True):
        for attribute in (ORTH, TAG, LEMMA, DEP, MORPH):
            if attribute in columns:
                for value in numpy.unique(tokens[:, columns[attribute]]):
                    vocab.strings[value]  # a KeyError if the string was lost
        if POS in columns and not all(int(pos) in POS_NAMES for pos in tokens[:, columns[POS]]):
            raise ValueError("unknown part of speech")
        heads = numpy.arange(len(doc)) + tokens[:, columns[HEAD]].astype("int32")
        heads[tokens[:, columns[DEP]] == 0] = MISSING
        if SENT_START in columns and tokens[1:, columns[SENT_START]].any():
            sent_starts = tokens[:, columns[SENT_START]].astype("int64")
        else:
            sent_starts = doc.to_array([SENT_START]).astype("int64")
        sent_starts = numpy.where(sent_starts == 1, 1, -1)
        sent_starts[:1] = 1
        yield doc, heads.tolist(), sent_starts.tolist()


def _doc_problems(heads: list[int], sent_starts: list[int]) -> list[tuple[str, str]]:
    """The place inside a document and the message of every problem."""
    if all(head == MISSING for head in heads):
        return [("", Errors.S031)]
    problems = []
    starts = [i for i, start in enumerate(sent_starts) if start == 1]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(heads)], strict=True), 1):
        where = f", sentence {number}"
        local = [head if head == MISSING else head - start for head in heads[start:end]]
        outside = [
            (where, Errors.S032.format(word=i + 1))
            for i, head in enumerate(local)
            if heads[start + i] != MISSING and not 0 <= head < end - start
        ]
        problems += outside or [
            (where, message)
            for _, message in tree_problems(local)
            # a sentence without any head is partial annotation as long as the document has some
            if message != Errors.S024
        ]
    return problems
