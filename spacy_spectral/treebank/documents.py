"""Gold spaCy Docs out of treebank files: CoNLL-U or `.spacy`, with the same errors for both."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, ORTH, POS, SENT_START, TAG
from spacy.parts_of_speech import NAMES as POS_NAMES
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from ..base.errors import Errors, reason_of
from ..trees.pseudoprojective import DELIMITER
from ..trees.sentences import MISSING
from .conllu import Sentence, TreebankError, as_tokens, cut_form, scan_conllu, tree_problems

CONLLU_SUFFIXES = (".conllu", ".conll")
SUFFIXES = (*CONLLU_SUFFIXES, ".spacy")
# The key in `doc.spans` of multiword tokens, by their words. Where these do not stand in the text, as "de"
# and "le" of "du" do not, the label is the form that does.
MULTIWORD = "multiword_tokens"
# How many characters of comments and the like are as much as one word of a document.
_COMMENTS = 512

Item = Sentence | TreebankError


def read_docs(
    path: str | Path,
    vocab: Vocab,
    *,
    n_sents: int = 1,
    syntactic_words: bool = True,
    trees: bool = True,
) -> Iterator[Doc]:
    """Read gold documents with tags, parts of speech, morphology, lemmas, heads, labels, sentences.

    path: A `.conllu`, `.conll` or `.spacy` file, or a directory of such files.
    n_sents: How many sentences of CoNLL-U make a document. 0 for documents as they were written: from one
        `newdoc` to the next, with an empty line in front of every `newpar`.
    syntactic_words: Whether the words of multiword tokens are tokens as they are. Otherwise tokens are
        those of the text, see `conllu.as_tokens`.
    trees: Whether documents without any head are a problem.
    YIELDS: The documents in order. A token with a missing head has the label "". Multiword tokens are the
        spans `doc.spans["multiword_tokens"]`; see `multiword_tokens`.
    RAISES: At the first problem.
    """
    options: Any = {"n_sents": n_sents, "syntactic_words": syntactic_words, "trees": trees}
    for file in treebank_files(path):
        for item in scan_docs(file, vocab, **options):
            if isinstance(item, TreebankError):
                raise item
            yield item


def treebank_files(path: str | Path) -> list[Path]:
    """Find the treebank files that a path stands for."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
        if not files:
            raise TreebankError(path, "", Errors.S029)
        return files
    if path.suffix not in SUFFIXES:
        raise TreebankError(path, "", Errors.S028)
    return [path]


def scan_docs(
    path: Path,
    vocab: Vocab,
    *,
    n_sents: int = 1,
    syntactic_words: bool = True,
    trees: bool = True,
) -> Iterator[Doc | TreebankError]:
    """The valid documents of a treebank file and all problems of the others."""
    if path.suffix in CONLLU_SUFFIXES:
        return _scan_conllu_docs(path, vocab, n_sents, syntactic_words, trees)
    return _scan_docbin(path, vocab, trees)


def sentences_to_doc(sentences: list[Sentence], vocab: Vocab) -> Doc:
    """Make one gold document of sentences. A word without XPOS has its UPOS as tag, as in `spacy
    convert`. White space other than single spaces is made tokens, as spaCy's tokenizers do it."""
    rows: list[tuple[Any, ...]] = []  # word, space, tag, part of speech, features, lemma, start
    heads: dict[int, int | None] = {}
    deps: dict[int, str] = {}
    multiword = []

    def add_space(text: str) -> None:
        """White space has no annotation, and belongs to the sentence before it."""
        if text:
            rows.append((text, False, "", "", "", "", -1 if rows else 1))

    for sentence in sentences:
        add_space(sentence.before)
        # white space in front of a document is in its first sentence
        start = -1 if len(rows) == 1 and sentence.before else 1
        places: list[int] = []
        for i, (word, after) in enumerate(zip(sentence.words, sentence.after, strict=True)):
            places.append(len(rows))
            upos = sentence.upos[i]
            own = (sentence.xpos[i] or upos, upos, sentence.feats[i], sentence.lemmas[i])
            rows.append((word, after.startswith(" "), *own, -1 if i else start))
            add_space(after.removeprefix(" "))
        for i, (head, dep) in enumerate(zip(sentence.heads, sentence.deps, strict=True)):
            heads[places[i]] = None if head == MISSING else places[head]
            # spaCy writes the label of a root in capitals
            deps[places[i]] = "ROOT" if head == i and dep == "root" else dep
        for first, last, form in sentence.multiword:
            if not any(sentence.after[first:last]):
                label = "" if form == "".join(sentence.words[first : last + 1]) else form
                multiword.append((places[first], places[last] + 1, label))
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(7)]
    words, spaces, tags, pos, morphs, lemmas, starts = columns
    doc = Doc(
        vocab,
        words=words,
        spaces=spaces,
        tags=tags,
        pos=pos,
        morphs=morphs,
        lemmas=lemmas,
        heads=[heads.get(i) for i in range(len(rows))],
        deps=[deps.get(i, "") for i in range(len(rows))],
    )
    set_sentence_starts(doc, starts)
    for i, word in enumerate(words):
        if word.isspace():
            doc[i].set_morph(None)
    if multiword:
        doc.spans[MULTIWORD] = [Span(doc, a, b, label=label) for a, b, label in multiword]
    return doc


def multiword_tokens(doc: Doc) -> dict[int, tuple[int, str]]:
    """The multiword tokens of a document that are marked as such: by the place of the first word that of the
    last one, and the form that stands in the text. Spans know their characters, whatever was merged or
    split."""
    marked = doc.spans.get(MULTIWORD, ())
    if not marked:
        return {}
    starts = {token.idx: token for token in doc}
    ends = {token.idx + len(token): token for token in doc}
    found = {}
    for span in marked:
        first, last = starts.get(span.start_char), ends.get(span.end_char)
        if first is None or last is None or first.i >= last.i:
            continue
        if not any(token.whitespace_ for token in doc[first.i : last.i]):
            form = span.label_ or doc.text[span.start_char : span.end_char]
            found[first.i] = last.i, form
    return found


class Unit(NamedTuple):
    """A word or a multiword token: its first and last word, its form in the text, its words, and the pieces
    of the form that these are; None if they do not stand in it."""

    first: int
    last: int
    form: str
    words: list[str]
    pieces: list[str] | None


def units(doc: Doc) -> Iterator[Unit]:
    """The words of a document, those of a multiword token together."""
    marked, at = multiword_tokens(doc), 0
    while at < len(doc):
        last, form = marked.get(at, (at, doc[at].text))
        words = [token.text for token in doc[at : last + 1]]
        yield Unit(at, last, form, words, [form] if last == at else cut_form(form, words))
        at = last + 1


def set_sentence_starts(doc: Doc, sent_starts: list[int] | numpy.ndarray) -> None:
    """Write sentence boundaries (1 for the first word of a sentence, -1 for others) that stay true where
    spaCy's own, guessed from the roots, are not: in front of a word without head, or in a sentence
    without root."""
    doc.from_array([SENT_START], numpy.asarray(sent_starts, dtype="int64").astype("uint64"))


def _scan_conllu_docs(
    path: Path, vocab: Vocab, n_sents: int, syntactic_words: bool, trees: bool
) -> Iterator[Doc | TreebankError]:
    items = scan_conllu(path, trees=trees)
    groups = written_documents(items) if n_sents == 0 else _groups(items, n_sents)
    for group in groups:
        problems = [item for item in group if isinstance(item, TreebankError)]
        yield from problems
        if not problems:
            own = [item for item in group if isinstance(item, Sentence)]
            sentences = own if syntactic_words else list(map(as_tokens, own))
            yield sentences_to_doc(sentences, vocab)


def _groups(items: Iterator[Item], n: int) -> Iterator[list[Item]]:
    while group := list(islice(items, n)):
        yield group


def written_documents(items: Iterable[Item], *, most_words: int = 0) -> Iterator[list[Item]]:
    """Put sentences together to documents as they were written, of so many words at most (0 for no
    limit), with the white space that is between and around them in raw text."""
    group: list[Item] = []
    last: Sentence | None = None
    n_words = 0
    for item in items:
        if isinstance(item, Sentence):
            if group and (item.starts_document or 0 < most_words <= n_words):
                yield _without_last_space(group, last)
                group, last, n_words = [], None, 0
            if last is not None and item.starts_paragraph and "\n" not in last.after[-1]:
                last.after[-1] = "\n\n"
            last = item
            # comments count where they are most of it
            n_words += max(len(item), item.n_other_chars // _COMMENTS)
        group.append(item)
    if group:
        yield _without_last_space(group, last)


def _without_last_space(group: list[Item], last: Sentence | None) -> list[Item]:
    if last is not None and last.after[-1] == " ":
        last.after[-1] = ""
    return group


def _scan_docbin(path: Path, vocab: Vocab, trees: bool) -> Iterator[Doc | TreebankError]:
    try:
        data = path.read_bytes()
    except OSError as error:
        yield TreebankError(path, "", Errors.S010.format(reason=reason_of(error)))
        return
    try:
        docs = list(_docbin_arrays(data, vocab, trees))
    except Exception as error:
        # spaCy does not check what it reads: damaged bytes show as any kind of exception
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        yield TreebankError(path, "", Errors.S030.format(reason=reason))
        return
    if not docs:
        yield TreebankError(path, "", Errors.S012)
    for index, (doc, heads, sent_starts) in enumerate(docs, start=1):
        problems = _doc_problems(doc, heads, sent_starts, trees)
        for where, message in problems:
            yield TreebankError(path, f"doc {index}{where}", message)
        if not problems:
            set_sentence_starts(doc, sent_starts)
            yield doc


def _docbin_arrays(
    data: bytes, vocab: Vocab, trees: bool
) -> Iterator[tuple[Doc, list[int], list[int]]]:
    """The documents of a .spacy file with heads (absolute or `MISSING`) and sentence starts. Reading the
    heads off the Doc would not do: `Doc.sents` believes them, and loops do not show."""
    docbin = DocBin().from_bytes(data)
    columns = {attribute: column for column, attribute in enumerate(docbin.attrs)}
    has_heads = HEAD in columns and DEP in columns
    if trees and not has_heads:
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
        heads = numpy.full(len(doc), MISSING)
        if has_heads:
            places = numpy.arange(len(doc)) + tokens[:, columns[HEAD]].astype("int32")
            heads = numpy.where(tokens[:, columns[DEP]] == 0, MISSING, places)
        if SENT_START in columns and tokens[1:, columns[SENT_START]].any():
            sent_starts = tokens[:, columns[SENT_START]].astype("int64")
        else:
            sent_starts = doc.to_array([SENT_START]).astype("int64")
        sent_starts = numpy.where(sent_starts == 1, 1, -1)
        sent_starts[:1] = 1
        yield doc, heads.tolist(), sent_starts.tolist()


def _doc_problems(
    doc: Doc, heads: list[int], sent_starts: list[int], trees: bool
) -> list[tuple[str, str]]:
    """The place inside a document and the message of every problem."""
    if all(head == MISSING for head in heads):
        return [("", Errors.S031)] if trees else []
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
        problems += [
            (where, Errors.S411.format(label=token.dep_))
            for token in doc[start:end]
            if DELIMITER in token.dep_
        ]
    return problems
