"""Documents as CoNLL-U, with the white space that they have: `documents.read_docs` gives them back."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spacy.tokens import Doc, Token

from .conllu import Sentence, misc_items
from .documents import multiword_tokens

_TEXT = re.compile(r"#\s*text\s*=")
_ESCAPES = {" ": "\\s", "\t": "\\t", "\r": "\\r", "\n": "\\n"}


def write_doc(
    doc: Doc,
    *,
    name: str = "",
    given: Sequence[Sentence] = (),
    enhanced: bool = False,
    misc: Mapping[int, Sequence[str]] | None = None,
) -> str:
    """A document as CoNLL-U, "" without words; what it does not have is unspecified (`_`).

    given: Its sentences, if they were read from CoNLL-U: comments, lines of multiword tokens and the column
    MISC stay as they are; with `enhanced` the column DEPS and empty nodes, too.
    misc: What else is known of tokens, for the column MISC.
    """
    has_comments = any(sentence.comments for sentence in given)
    before, after = _white_space(doc)
    multiword = multiword_tokens(doc)
    blocks: list[str] = []
    last = ""  # the white space after the sentence before
    for sent in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        words = [token for token in sent if token.i in after]
        if not words:
            continue
        number = len(blocks) + 1
        source = given[number - 1] if given else None
        if source is not None and has_comments:
            own = list(source.comments)
        else:
            own = []
            if not blocks:
                own.append(f"# newdoc id = {name}" if name else "# newdoc")
            elif last.count("\n") > 1:
                own.append("# newpar")
            own.append(f"# sent_id = {name}-{number}" if name else f"# sent_id = {number}")
        if not any(map(_TEXT.match, own)):
            own.append(f"# text = {_text(words, after, multiword)}")
        is_end = words[-1].i == max(after)
        first = before if not blocks else ""
        kept = _Kept.of(source, len(words), enhanced=enhanced)
        rows = _rows(words, after, multiword, first, misc or {}, kept, is_end=is_end)
        blocks.append("\n".join([*own, *rows]) + "\n\n")
        last = after[words[-1].i]
    return "".join(blocks)


def _white_space(doc: Doc) -> tuple[str, dict[int, str]]:
    """What is in front of the first word, and after each word by its token."""
    before, after, word = "", {}, -1
    for token in doc:
        if not token.text.isspace():
            word = token.i
            after[word] = token.whitespace_
        elif word >= 0:
            after[word] += token.text_with_ws
        else:
            before += token.text_with_ws
    return before, after


def _text(words: list[Token], after: dict[int, str], multiword: dict[int, tuple[int, str]]) -> str:
    """A sentence as it is written."""
    end, pieces, at = words[-1].i, [], -1
    for token in words:
        if token.i > at:
            at, form = multiword.get(token.i, (token.i, token.text))
            if at > end or at not in after:  # it goes on in the next sentence
                at, form = token.i, token.text
            pieces.append(_clean(form) + " " * bool(after[at]))
    return "".join(pieces).rstrip()


@dataclass
class _Kept:
    """What stays of the lines that a sentence had.

    misc, enhanced: By word.
    before: Lines of multiword tokens and empty nodes, by how many words are before them.
    """

    misc: list[str] | None = None
    enhanced: list[str] | None = None
    before: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Sentence | None, n_words: int, *, enhanced: bool) -> "_Kept":
        if source is None or len(source.misc) != n_words:
            return cls()
        kept = cls(source.misc, source.enhanced if enhanced and source.enhanced else None)
        for at, row in source.others:
            if enhanced or "-" in row.partition("\t")[0]:
                kept.before.setdefault(at, []).append(row)
        return kept


def _rows(
    words: list[Token],
    after: dict[int, str],
    multiword: dict[int, tuple[int, str]],
    before: str,
    known: Mapping[int, Sequence[str]],
    kept: _Kept,
    *,
    is_end: bool,
) -> list[str]:
    number = {token.i: i for i, token in enumerate(words, start=1)}
    heads = _heads(words, number)
    rows: list[str] = []
    inside = -1  # the last token of the multiword token at hand
    for i, (token, (head, dep)) in enumerate(zip(words, heads, strict=True)):
        misc = [f"SpacesBefore={_escape(before)}"] if before and not rows else []
        rows += kept.before.get(i, ())
        last, form = multiword.get(token.i, (-1, ""))
        if last in number and token.i > inside and not kept.before:
            inside = last
            own = misc + _space_after(after[last], last == words[-1].i, is_end=is_end)
            empty = ["_"] * 7
            id_ = f"{number[token.i]}-{number[last]}"
            rows.append("\t".join([id_, _clean(form), *empty, _join(own)]))
            misc = []
        if token.i > inside:
            misc += _space_after(after[token.i], token is words[-1], is_end=is_end)
        if kept.misc is not None:
            misc = _without_probs(misc_items(kept.misc[i]))
        columns = [
            str(number[token.i]),
            _clean(token.text),
            _clean(token.lemma_) or "_",
            token.pos_ or "_",
            _clean(token.tag_).replace(" ", "_") or "_",
            _features(token),
            head,
            dep,
            kept.enhanced[i] or "_" if kept.enhanced is not None else "_",
            _join([*misc, *known.get(token.i, ())]),
        ]
        rows.append("\t".join(columns))
    return rows + kept.before.get(len(words), [])


def _without_probs(misc: list[str]) -> list[str]:
    """Items of the column MISC without probabilities of an earlier parse."""
    if not any(item.startswith("HeadProb=") for item in misc):
        return misc
    return [item for item in misc if item.partition("=")[0] not in ("HeadProb", "DepProb", "Alt")]


def _features(token: Token) -> str:
    """Features in the order of Universal Dependencies, which knows no case."""
    return "|".join(sorted(str(token.morph).split("|"), key=str.lower)) or "_"


def _heads(words: list[Token], number: dict[int, int]) -> list[tuple[str, str]]:
    """Heads and labels as they are written: at most one root, white space is no head; a token without a
    label has no head."""
    heads = []
    for token in words:
        if not token.dep:
            heads.append(-1)
            continue
        head = token.head
        while head.i not in number and head.head.i != head.i:
            head = head.head
        heads.append(head.i if head.i in number else token.i)
    roots = [token.i for token, head in zip(words, heads, strict=True) if head == token.i]
    result = []
    for token, head in zip(words, heads, strict=True):
        if head < 0:
            result.append(("_", "_"))
        elif head != token.i:
            # a root is what is attached to nothing
            dep = token.dep_ if token.dep_.lower() != "root" else "parataxis"
            result.append((str(number[head]), dep))
        elif token.i == roots[0]:
            result.append(("0", "root"))
        else:
            result.append((str(number[roots[0]]), "parataxis"))
    return result


def _space_after(white: str, is_last: bool, *, is_end: bool) -> list[str]:
    """What is said of the white space after a word, perhaps the last of its sentence, which may be the last
    of the document."""
    is_end = is_end and is_last
    # an empty line between sentences is told by the paragraph that follows it
    if not is_end and (white == " " or (is_last and white == "\n\n")):
        return []
    if not white:
        return [] if is_end else ["SpaceAfter=No"]
    return [f"SpacesAfter={_escape(white)}"]


def _escape(white: str) -> str:
    return "".join(_ESCAPES.get(char, char) for char in white)


def _clean(text: str) -> str:
    """A value without tabs and line ends, which would end it."""
    return " ".join(text.split()) if not text.isprintable() else text


def _join(items: list[str]) -> str:
    return "|".join(items) or "_"
