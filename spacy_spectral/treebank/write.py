"""Documents as CoNLL-U, with the white space that they have: `documents.read_docs` gives them back."""

from spacy.tokens import Doc, Token

from .documents import MULTIWORD

_ESCAPES = {" ": "\\s", "\t": "\\t", "\r": "\\r", "\n": "\\n"}


def write_doc(doc: Doc, *, name: str = "") -> str:
    """Write a document.

    doc (Doc): The document; what it does not have is unspecified (`_`).
    name (str): What it is called: sentences are numbered after it.
    RETURNS (str): CoNLL-U; "" for a document without words.
    """
    before, after = _white_space(doc)
    multiword = _multiword(doc)
    blocks: list[str] = []
    last = ""  # the white space after the sentence before
    for sent in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        words = [token for token in sent if token.i in after]
        if not words:
            continue
        comments = []
        if not blocks:
            comments.append(f"# newdoc id = {name}" if name else "# newdoc")
        elif last.count("\n") > 1:
            comments.append("# newpar")
        number = len(blocks) + 1
        comments.append(f"# sent_id = {name}-{number}" if name else f"# sent_id = {number}")
        text = "".join(_clean(token.text) + " " * bool(after[token.i]) for token in words)
        comments.append(f"# text = {text.rstrip()}")
        is_end = words[-1].i == max(after)
        rows = _rows(words, after, multiword, before if not blocks else "", is_end=is_end)
        blocks.append("\n".join([*comments, *rows]) + "\n\n")
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


def _multiword(doc: Doc) -> dict[int, int]:
    """First and last token of multiword tokens; spans know their characters whatever was merged or split."""
    starts = {token.idx: token for token in doc}
    ends = {token.idx + len(token): token for token in doc}
    found = {}
    for span in doc.spans.get(MULTIWORD, ()):
        first, last = starts.get(span.start_char), ends.get(span.end_char)
        if first is None or last is None or first.i >= last.i:
            continue
        if not any(token.whitespace_ for token in doc[first.i : last.i]):
            found[first.i] = last.i
    return found


def _rows(
    words: list[Token],
    after: dict[int, str],
    multiword: dict[int, int],
    before: str,
    *,
    is_end: bool,
) -> list[str]:
    number = {token.i: i for i, token in enumerate(words, start=1)}
    heads = _heads(words, number)
    rows: list[str] = []
    inside = -1  # the last token of the multiword token at hand
    for token, (head, dep) in zip(words, heads, strict=True):
        misc = [f"SpacesBefore={_escape(before)}"] if before and not rows else []
        last = multiword.get(token.i, -1)
        if last in number and token.i > inside:
            inside = last
            form = "".join(_clean(part.text) for part in token.doc[token.i : last + 1])
            own = misc + _space_after(after[last], is_end=is_end and last == words[-1].i)
            empty = ["_"] * 7
            rows.append("\t".join([f"{number[token.i]}-{number[last]}", form, *empty, _join(own)]))
            misc = []
        if token.i > inside:
            misc += _space_after(after[token.i], is_end=is_end and token is words[-1])
        columns = [
            str(number[token.i]),
            _clean(token.text),
            _clean(token.lemma_) or "_",
            token.pos_ or "_",
            _clean(token.tag_).replace(" ", "_") or "_",
            str(token.morph) or "_",
            head,
            dep,
            "_",
            _join(misc),
        ]
        rows.append("\t".join(columns))
    return rows


def _heads(words: list[Token], number: dict[int, int]) -> list[tuple[str, str]]:
    """Heads and labels as they are written: one root, white space is no head."""
    if not all(token.dep for token in words):
        return [("_", "_")] * len(words)
    heads = []
    for token in words:
        head = token.head
        while head.i not in number and head.head.i != head.i:
            head = head.head
        heads.append(head.i if head.i in number else token.i)
    roots = [token.i for token, head in zip(words, heads, strict=True) if head == token.i]
    result = []
    for token, head in zip(words, heads, strict=True):
        if head != token.i:
            result.append((str(number[head]), token.dep_))
        elif token.i == roots[0]:
            result.append(("0", "root"))
        else:
            result.append((str(number[roots[0]]), "parataxis"))
    return result


def _space_after(white: str, *, is_end: bool) -> list[str]:
    if white in (" ", "\n\n") and not is_end:
        # the empty line is told by the paragraph that follows it
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
