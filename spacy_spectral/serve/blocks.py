"""Sentences of a CoNLL-U file as they are written: what is not changed stays as it is, byte for byte.

A block is the text of one sentence, with its comments and the empty lines behind it; all blocks of a file
joined are the file. Functions here make new blocks of blocks. Words are counted from 1.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..base.errors import Errors, SpectralError
from ..treebank.conllu import Sentence, read_rows

COLUMNS = {"lemma": 2, "upos": 3, "xpos": 4, "feats": 5, "head": 6, "deprel": 7}
MISSING = "_"
_LINE = re.compile(r"(?<=\n)")
_ID = re.compile(r"([0-9]+)(-[0-9]+|\.[0-9]+)?")
_TEXT = re.compile(r"#\s*text\s*=")
_SENT_ID = re.compile(r"(#\s*sent_id\s*=\s*)(.*)")
_OF_PLACE = re.compile(r"#\s*(newdoc|newpar)\b")
_NOTE = "# note = "
_MARK = "\ufeff"
# Where a word is now: its number; None if it is not here any more.
Renumbered = Callable[[int], int | None]


def split_blocks(text: str) -> list[str]:
    """Cut the text of a file into blocks."""
    blocks: list[str] = []
    lines: list[str] = []
    has_rows = ended = False
    for line in _lines(text):
        is_empty = not line.strip("\r\n")
        if ended and not is_empty:
            blocks.append("".join(lines))
            lines, has_rows, ended = [], False, False
        lines.append(line)
        if is_empty:
            ended = has_rows
        else:
            has_rows = has_rows or _is_row(line)
    if lines and not has_rows and blocks:
        blocks[-1] += "".join(lines)  # comments behind the last sentence
    elif lines:
        blocks.append("".join(lines))
    return blocks


def read_block(block: str) -> tuple[Sentence, list[tuple[int, str]]]:
    """Read a block.

    RETURNS: The sentence, and problems: the word (0 for the sentence) and the message of each.
    """
    lines = [line.rstrip("\r\n") for line in _lines(block.removeprefix(_MARK))]
    comments = [line for line in lines if line.startswith("#")]
    rows = [line for line in lines if line and not line.startswith("#")]
    sentence = Sentence(comments=comments, line=1)
    found = read_rows(sentence, rows, trees=False)
    ids = [_ID.match(row) for row in rows]
    words = [int(match[1]) if match and not match[2] else 0 for match in ids]
    return sentence, [(words[number - 1] if rows else 0, message) for number, message in found]


def values(block: str) -> list[dict[str, str]]:
    """The values of words that can be changed, as they are written."""
    rows = (line.rstrip("\r\n").split("\t") for line in _lines(block) if _word_of(line))
    return [{name: row[column] for name, column in COLUMNS.items()} for row in rows]


def with_values(block: str, changes: Mapping[int, Mapping[str, str]]) -> str:
    """Replace values of words.

    changes: By word and the name of a column.
    """
    result = []
    for line in _lines(block):
        own = changes.get(_word_of(line))
        if own:
            cells, end = _cells(line)
            for name, value in own.items():
                cells[COLUMNS[name]] = value
            line = "\t".join(cells) + end
        result.append(line)
    return "".join(result)


def note_of(block: str) -> str:
    """What an annotator has said about a sentence; "" for nothing."""
    notes = [line for line in _lines(block) if line.startswith(_NOTE)]
    return notes[0].removeprefix(_NOTE).strip() if notes else ""


def with_note(block: str, note: str) -> str:
    """Say something about a sentence in a comment, in place of what was said before."""
    lines = _lines(block)
    note = " ".join(note.split())
    own = [f"{_NOTE}{note}{_end_of(lines)}"] if note else []
    first = next(i for i, line in enumerate(lines) if _is_row(line))
    kept = [line for line in lines[:first] if not line.startswith(_NOTE)]
    return "".join([*kept, *own, *lines[first:]])


def split_sentence(block: str, word: int) -> tuple[str, str]:
    """Begin a new sentence with a word. Heads in the other sentence are missing then."""
    sentence, _ = read_block(block)
    inside = any(first + 1 < word <= last + 1 for first, last, _ in sentence.multiword)
    if not 1 < word <= len(sentence) or inside:
        raise SpectralError(Errors.S660.format(word=word))
    comments, rows = _parts(block)
    end = _end_of(rows)
    at = next(i for i, line in enumerate(rows) if _number(line) == word)
    first = _renumbered(rows[:at], lambda n: n if n < word else None)
    second = _renumbered(rows[at:], lambda n: n - word + 1 if n >= word else None)
    own = [m[1] + _second_id(m[2].strip()) + end for c in comments if (m := _SENT_ID.match(c))]
    blank = end if first[-1].strip() else ""
    # a sentence that is the last of a file without an empty line gets one
    return (
        "".join(_with_text(comments, [*first, blank])),
        "".join(_with_text(own, second, like=comments)),
    )


def join_sentences(first: str, second: str) -> str:
    """Make one sentence of two. The root of the second is missing then."""
    comments, rows = _parts(first)
    more, others = _parts(second)
    n = max(_number(line) for line in rows)
    ends = [line for line in rows if not line.strip()]
    words = [line for line in rows if line.strip()]
    roots = {_word_of(line): {"head": MISSING, "deprel": MISSING} for line in others
             if _word_of(line) and _cells(line)[0][COLUMNS["head"]] == "0"}  # fmt: skip
    others = _lines(with_values("".join(others), roots))
    moved = _renumbered(others, lambda i: i + n)
    kept = [
        line
        for line in more
        if not (_TEXT.match(line) or _SENT_ID.match(line) or _OF_PLACE.match(line))
    ]
    has_text = any(_TEXT.match(line) for line in comments)
    rows = [*words, *moved] if any(not line.strip() for line in moved) else [*words, *moved, *ends]
    return "".join(_with_text([*comments, *kept], rows) if has_text else [*comments, *kept, *rows])


def split_token(block: str, word: int, at: int) -> str:
    """Make two words of one, cut in front of a character of its form. What is known of it but its head is
    missing then."""
    comments, rows = _parts(block)
    place = next((i for i, line in enumerate(rows) if _word_of(line) == word), None)
    if place is None or not 0 < at < len(_cells(rows[place])[0][1]):
        raise SpectralError(Errors.S661.format(word=word))
    sentence, _ = read_block(block)
    inside = any(first < word <= last + 1 for first, last, _ in sentence.multiword)

    def moved(n: int) -> int:
        return n + (n > word)

    result = []
    for i, line in enumerate(rows):
        cells, end = _cells(line)
        if i == place:
            form, lemma = cells[1], [MISSING] * 4
            misc = MISSING if inside else "SpaceAfter=No"
            one = [str(word), form[:at], *lemma, *_moved_head(cells[6:9], moved), misc]
            other = [str(word + 1), form[at:], *lemma, *[MISSING] * 3, cells[9]]
            result += ["\t".join(one) + _end_of(rows), "\t".join(other) + end]
        elif (match := _ID.match(cells[0])) and (match[2] or "").startswith("-"):
            # a range that ends with the word has both parts of it
            last = int(match[2][1:])
            cells[0] = f"{moved(int(match[1]))}-{last + (last >= word)}"
            result.append("\t".join(cells) + end)
        elif match and match[2] and int(match[1]) == word:
            cells[0] = f"{word + 1}{match[2]}"
            cells[6:9] = _moved_head(cells[6:9], moved)
            result.append("\t".join(cells) + end)
        else:
            result += _renumbered([line], moved)
    return "".join([*comments, *result])


def join_tokens(block: str, word: int) -> str:
    """Make one word of a word and the next one, that is not parted from it by white space. Its head is that
    of the part that has its head outside."""
    comments, rows = _parts(block)
    places = [i for i, line in enumerate(rows) if _word_of(line) in (word, word + 1)]
    sentence, _ = read_block(block)
    ranges = [(first + 1, last + 1) for first, last, _ in sentence.multiword]
    cut = any(first == word + 1 or last == word for first, last in ranges)
    if len(places) < 2 or places[1] != places[0] + 1 or sentence.after[word - 1] or cut:
        raise SpectralError(Errors.S662.format(word=word))
    (one, _), (other, end) = _cells(rows[places[0]]), _cells(rows[places[1]])
    # the part whose head is not the other one
    top = other if one[6] == str(word + 1) else one

    def moved(n: int) -> int:
        return n - (n > word)

    joined = [str(word), one[1] + other[1], *[MISSING] * 4, *_moved_head(top[6:9], moved), other[9]]
    result = []
    for i, line in enumerate(rows):
        cells, line_end = _cells(line)
        match = _ID.match(cells[0])
        if i == places[1]:
            result.append("\t".join(joined) + end)
        elif i == places[0]:
            continue
        elif match and (match[2] or "").startswith("-"):
            first, last = int(match[1]), int(match[2][1:])
            if (first, last) == (word, word + 1):
                joined[1], joined[9] = cells[1], cells[9]  # a range of one word is none
                continue
            cells[0] = f"{moved(first)}-{moved(last)}"
            result.append("\t".join(cells) + line_end)
        else:
            result += _renumbered([line], moved)
    return "".join([*comments, *result])


def _lines(text: str) -> list[str]:
    """The lines of a text, with their ends; a mark in front of the first counts as one."""
    mark = [_MARK] if text.startswith(_MARK) else []
    return mark + [line for line in _LINE.split(text.removeprefix(_MARK)) if line]


def _is_row(line: str) -> bool:
    return not line.startswith(("#", _MARK)) and bool(line.strip("\r\n"))


def _parts(block: str) -> tuple[list[str], list[str]]:
    """The lines in front of the first row, and the others."""
    lines = _lines(block)
    first = next(i for i, line in enumerate(lines) if _is_row(line))
    return lines[:first], lines[first:]


def _cells(line: str) -> tuple[list[str], str]:
    content = line.rstrip("\r\n")
    return content.split("\t"), line[len(content) :]


def _end_of(lines: Iterable[str]) -> str:
    """How lines end here."""
    return "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"


def _word_of(line: str) -> int:
    """The number of a word's row; 0 for other lines."""
    id_ = line.partition("\t")[0]
    return int(id_) if id_.isascii() and id_.isdigit() else 0


def _number(line: str) -> int:
    """The number that a row begins with, also that of a range or an empty node."""
    match = _ID.match(line) if _is_row(line) else None
    return int(match[1]) if match else 0


def _renumbered(rows: Sequence[str], moved: Renumbered) -> list[str]:
    """Rows with other numbers of words, also where they are heads."""
    result = []
    for line in rows:
        cells, end = _cells(line)
        match = _ID.fullmatch(cells[0])
        if match and len(cells) == 10:
            rest = match[2] or ""
            if rest.startswith("-"):
                rest = f"-{moved(int(rest[1:]))}"
            # an empty node in front of all words stays there
            number = moved(int(match[1])) if match[1] != "0" else 0
            cells[0] = f"{number}{rest}"
            cells[6:9] = _moved_head(cells[6:9], moved)
            line = "\t".join(cells) + end
        result.append(line)
    return result


def _moved_head(cells: Sequence[str], moved: Renumbered) -> list[str]:
    """Head, label and enhanced heads."""
    head, dep, deps = cells
    if head.isdigit() and head != "0":
        number = moved(int(head))
        head, dep = (str(number), dep) if number else (MISSING, MISSING)
    if deps != MISSING:
        kept = []
        for item in deps.split("|"):
            match = _ID.match(item)
            if match is None or match[1] == "0":
                kept.append(item)
            elif number := moved(int(match[1])):
                kept.append(f"{number}{item[match.end(1) :]}")
        deps = "|".join(kept) or MISSING
    return [head, dep, deps]


def _with_text(comments: list[str], rows: list[str], like: Sequence[str] = ()) -> list[str]:
    """Lines of a sentence, with its text in a comment if it had one."""
    if not any(_TEXT.match(line) for line in [*comments, *like]):
        return [*comments, *rows]
    text = read_block("".join(rows))[0].text
    line = f"# text = {text}{_end_of(rows)}"
    if not any(_TEXT.match(own) for own in comments):
        return [*comments, line, *rows]
    return [*(line if _TEXT.match(own) else own for own in comments), *rows]


def _second_id(name: str) -> str:
    """A name for the second part of a sentence."""
    match = re.fullmatch(r"(.*)-part([0-9]+)", name)
    return f"{match[1]}-part{int(match[2]) + 1}" if match else f"{name}-part2"
