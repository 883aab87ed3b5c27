"""A strict reader of CoNLL-U, the format of Universal Dependencies.

One scan serves all: `read_conllu` raises the first problem, `spacy spectral check` shows every one.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.parts_of_speech import IDS

from ..base.errors import Errors, SpectralError, reason_of
from ..base.text_files import LONGEST, opened
from ..trees.pseudoprojective import DELIMITER, find_cycle
from ..trees.sentences import MISSING


class TreebankError(SpectralError):
    """A problem in a treebank file: says where it is, what is wrong and what to do about it."""

    def __init__(self, path: str | Path, where: str | int, message: str) -> None:
        """where: A line number, a place like "doc 3, sentence 1", or ""."""
        super().__init__(f"{path}:{where}: {message}" if where else f"{path}: {message}")


def tree_problems(heads: Sequence[int]) -> list[tuple[int, str]]:
    """The position and message of every problem of heads (0-based, the root points to itself, or
    `MISSING`) that should form a tree with one root."""
    n_words = len(heads)
    problems = [
        (i, Errors.S021.format(word=i + 1, head=head + 1, n_words=n_words))
        for i, head in enumerate(heads)
        if head != MISSING and not 0 <= head < n_words
    ]
    if problems:
        return problems
    roots = [i for i, head in enumerate(heads) if head == i]
    if len(roots) > 1:
        problems.append((roots[1], Errors.S022.format(roots=", ".join(str(i + 1) for i in roots))))
    if all(head == MISSING for head in heads):
        problems.append((0, Errors.S024))
    cycle = find_cycle(
        [0 if head == i else head + (head != MISSING) for i, head in enumerate(heads)]
    )
    if cycle:
        problems.append((cycle[0] - 1, Errors.S026.format(words=" -> ".join(map(str, cycle)))))
    elif not roots and MISSING not in heads:
        problems.append((0, Errors.S027))
    return problems


def is_projective(heads: Sequence[int]) -> bool:
    """Say whether no arcs cross, the arc from the (left-hand) artificial root to the root included."""
    spans = sorted(
        ((i, head) if i < head else (head, i)) if head != i else (-1, i)
        for i, head in enumerate(heads)
        if head != MISSING
    )
    # longest first where spans begin together, so that an enclosing span is always opened earlier
    spans.sort(key=lambda span: (span[0], -span[1]))
    ends: list[int] = []
    for start, end in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and ends[-1] < end:
            return False
        ends.append(end)
    return True


# The universal parts of speech, and "_" for none.
UPOS = frozenset(IDS) - {"", "CONJ", "EOL", "SPACE"} | {"_"}
_COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
FEATS = re.compile(r"[^=|\s]+=[^=|\s]+(\|[^=|\s]+=[^=|\s]+)*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"s": " ", "t": "\t", "r": "\r", "n": "\n", "p": "|", "\\": "\\"}
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")


@dataclass(slots=True)
class Sentence:
    """A sentence of syntactic words. Unspecified values (`_`) are empty strings.

    after: The white space after each word: " ", "" (`SpaceAfter=No`, and inside a multiword token), or
    what `SpacesAfter` has.
    heads: 0-based; the root points to itself, a missing head is `MISSING`.
    multiword: First word, last word (both 0-based), form.
    misc, enhanced: The columns MISC and DEPS of the words.
    others: The lines of multiword tokens and empty nodes, each with how many words are before it.
    line: The line of the first token, 1-based.
    """

    words: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    deps: list[str] = field(default_factory=list)
    multiword: list[tuple[int, int, str]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    misc: list[str] = field(default_factory=list)
    enhanced: list[str] = field(default_factory=list)
    others: list[tuple[int, str]] = field(default_factory=list)
    before: str = ""
    line: int = 0

    @classmethod
    def of_words(cls, words: list[str], after: list[str]) -> "Sentence":
        """Words without annotation."""
        n = len(words)
        empty: Any = {name: [""] * n for name in ("lemmas", "upos", "xpos", "feats", "deps")}
        return cls(words, after, heads=[MISSING] * n, **empty)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def n_other_chars(self) -> int:
        """How many characters there are beside words and their annotation."""
        rows = (row for _, row in self.others)
        return sum(map(len, chain(self.comments, self.misc, self.enhanced, rows)))

    @property
    def spaces(self) -> list[bool]:
        """Whether white space follows the words."""
        return [bool(after) for after in self.after]

    @property
    def sent_id(self) -> str:
        """The value of the comment `# sent_id = ...`, or an empty string."""
        return self.comment("sent_id") or ""

    @property
    def starts_document(self) -> bool:
        """Whether there is a comment `# newdoc`."""
        return self.comment("newdoc") is not None

    @property
    def starts_paragraph(self) -> bool:
        """Whether there is a comment `# newpar`."""
        return self.comment("newpar") is not None

    def comment(self, name: str) -> str | None:
        """What is behind `# name =` or `# name id =`, "" for a comment that is the name alone; None
        without it."""
        for comment in self.comments:
            key, _, value = comment[1:].partition("=")
            if key.split() in ([name], [name, "id"]):
                return value.strip()
        return None

    @property
    def text(self) -> str:
        """The text as it is written: multiword tokens by their surface form."""
        surface = {first: (last, form) for first, last, form in self.multiword}
        pieces, i = [], 0
        while i < len(self):
            last, form = surface.get(i, (i, self.words[i]))
            pieces.append(form + self.after[last])
            i = last + 1
        return "".join(pieces).rstrip()


def read_conllu(path: str | Path) -> Iterator[Sentence]:
    """Read a CoNLL-U file."""
    for item in scan_conllu(path):
        if isinstance(item, TreebankError):
            raise item
        yield item


def scan_conllu(
    path: str | Path, *, trees: bool = True, report: Callable[[int], Any] = lambda n: None
) -> Iterator[Sentence | TreebankError]:
    """Read a CoNLL-U file, perhaps compressed (.gz), to its end, whatever is wrong with it, without
    holding it in memory: the valid sentences and, in place of an invalid sentence, all its problems.
    `trees`: Every sentence must have a tree, at least some of it."""
    path = Path(path)
    try:
        with opened(path) as (file, n_read):
            done = 0
            for item in _scan_lines(path, file, trees):
                done, before = n_read(), done
                report(done - before)
                yield item
    except (OSError, EOFError, zlib.error) as error:
        yield TreebankError(path, "", Errors.S010.format(reason=reason_of(error)))


def _scan_lines(path: Path, file: Any, trees: bool) -> Iterator[Sentence | TreebankError]:
    empty = True
    size = 0
    lines = iter(partial(file.readline, LONGEST), b"")
    comments: list[str] = []
    rows: list[str] = []
    number = 0
    # one more, so that the last sentence ends even where its blank line is missing
    for number, data in enumerate(chain(lines, [b"\n"]), start=1):
        size += len(data)
        if size >= LONGEST:
            yield TreebankError(path, number, Errors.S040.format(most=LONGEST >> 20))
            return
        try:
            line = data.decode("utf-8-sig" if number == 1 else "utf8").rstrip("\n")
        except UnicodeDecodeError as error:
            yield TreebankError(path, number, Errors.S011.format(byte=data[error.start]))
            return
        line = line.removesuffix("\r")
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            rows.append(line)
        elif rows:
            empty = False
            sentence = Sentence(comments=comments, line=number - len(rows))
            problems = read_rows(sentence, rows, trees)
            if problems:
                yield from (TreebankError(path, *problem) for problem in problems)
            else:
                yield sentence
            comments, rows, size = [], [], 0
    if empty:
        yield TreebankError(path, "", Errors.S012)


def _white_space(misc: str, name: str, default: str) -> str:
    """White space as UDPipe writes it: `SpacesAfter=\\s\\n`. What is no white space counts as nothing."""
    if name not in misc:
        return default
    for item in misc.split("|"):
        key, equals, value = item.partition("=")
        if equals and key == name:
            text = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), value)
            return text if text.isspace() else default
    return default


def read_rows(sentence: Sentence, rows: list[str], trees: bool) -> list[tuple[int, str]]:
    """Read the token lines of one sentence into it; returns (line number, message) of every problem."""
    problems: list[tuple[int, str]] = []
    line_of_word: list[int] = []
    n_words = 0
    n_empty_nodes = 0
    multiword_end = 0
    after_multiword = " "
    for number, row in enumerate(rows, start=sentence.line):
        columns = row.split("\t")
        if len(columns) != 10 or not all(map(str.strip, columns)):
            if len(columns) != 10:
                problems.append((number, Errors.S013.format(found=len(columns))))
            else:
                blank = [not column.strip() for column in columns].index(True)
                problems.append((number, Errors.S015.format(column=_COLUMNS[blank])))
            n_words += columns[0] == str(n_words + 1)  # so that the ids after it are not blamed
            continue
        id_, form, lemma, upos, xpos, feats, head, dep, enhanced, misc = columns
        after = _white_space(misc, "SpacesAfter", "" if "SpaceAfter=No" in misc.split("|") else " ")
        if number == sentence.line:
            sentence.before = _white_space(misc, "SpacesBefore", "")
        if id_ == str(n_words + 1):
            n_words += 1
            line_of_word.append(number)
            n_empty_nodes = 0
            sentence.words.append(form)
            if n_words < multiword_end:
                after = ""
            elif n_words == multiword_end:
                after = after_multiword
            sentence.after.append(after)
            # `_` is a lemma only where the word itself is an underscore
            sentence.lemmas.append("" if lemma == "_" and form != "_" else lemma)
            sentence.upos.append("" if upos == "_" else upos)
            sentence.xpos.append("" if xpos == "_" else xpos)
            sentence.feats.append("" if feats == "_" else feats)
            sentence.deps.append("" if dep == "_" else dep)
            sentence.enhanced.append("" if enhanced == "_" else enhanced)
            sentence.misc.append("" if misc == "_" else misc)
            if upos not in UPOS:
                problems.append((number, Errors.S016.format(upos=upos)))
            if feats != "_" and not FEATS.fullmatch(feats):
                problems.append((number, Errors.S017.format(feats=feats)))
            if head == "_":
                sentence.heads.append(MISSING)
            elif _NUMBER.fullmatch(head):
                sentence.heads.append(int(head) - 1 if head != "0" else n_words - 1)
                if head == id_:
                    problems.append((number, Errors.S019.format(id=id_)))
            else:
                problems.append((number, Errors.S018.format(head=head)))
            if (head == "_") != (dep == "_"):
                problems.append((number, Errors.S023))
            if DELIMITER in dep:
                problems.append((number, Errors.S411.format(label=dep)))
        elif match := _RANGE.fullmatch(id_):
            first, last = int(match[1]), int(match[2])
            if first != n_words + 1 or first <= multiword_end or last <= first:
                problems.append((number, Errors.S014.format(id=id_, expected=n_words + 1)))
                continue
            multiword_end, after_multiword = last, after
            sentence.multiword.append((first - 1, last - 1, form))
            sentence.others.append((n_words, row))
        elif (match := _EMPTY_NODE.fullmatch(id_)) and int(match[1]) == n_words:
            n_empty_nodes += 1
            sentence.others.append((n_words, row))
            if int(match[2]) != n_empty_nodes:
                expected = f"{n_words}.{n_empty_nodes}"
                problems.append((number, Errors.S014.format(id=id_, expected=expected)))
        else:
            problems.append((number, Errors.S014.format(id=id_, expected=n_words + 1)))
    if problems:
        return problems
    if n_words == 0:
        return [(sentence.line, Errors.S025)]
    if multiword_end > n_words:
        return [(line_of_word[-1], Errors.S020.format(last=multiword_end, n_words=n_words))]
    if not trees and all(head == MISSING for head in sentence.heads):
        return []
    return [(line_of_word[word], message) for word, message in tree_problems(sentence.heads)]


def misc_items(misc: str) -> list[str]:
    """What the column MISC has."""
    return [item for item in misc.split("|") if item and item != "_"]


def is_white_space(item: str) -> bool:
    """Whether an item of the column MISC is about white space."""
    return item.partition("=")[0] in ("SpaceAfter", "SpacesAfter", "SpacesBefore")


def _is_range(row: str) -> bool:
    return _RANGE.fullmatch(row.partition("\t")[0]) is not None


# Multiword tokens as tokens of a text: cut where their words can be cut out of them, else one token.
# Syntactic words need not stand in the text: of "du" the words are "de" and "le". A pipeline that starts
# from text has tokens that do, so it can learn "do" and "n't", but "du" must stay whole.
def as_tokens(sentence: Sentence) -> Sentence:
    """A sentence whose words are those of its text: itself if its words stand there; else one whose
    multiword tokens are cut where that is possible (these are left in `multiword`), and single words
    where it is not. Such a word has all tags, lemmas and features of its parts, like those of `spacy
    convert --merge-subtokens`, and the head, relation and part of speech of the part highest in the
    tree."""
    if not sentence.multiword:
        return sentence
    words = list(sentence.words)
    cut, whole = [], []
    for first, last, form in sentence.multiword:
        pieces = cut_form(form, words[first : last + 1])
        if pieces is None:
            whole.append((first, last, form))
        else:
            words[first : last + 1] = pieces
            cut.append((first, last, form))
    sentence = replace(sentence, words=words, multiword=cut)
    return _merge(sentence, whole) if whole else sentence


def cut_form(form: str, words: Sequence[str]) -> list[str] | None:
    """The pieces of a form that are the words, but for case; None if it has no such."""
    if form.lower() != "".join(words).lower() or len(form) != sum(map(len, words)):
        return None
    pieces, end = [], 0
    for word in words:
        end += len(word)
        pieces.append(form[end - len(word) : end])
    return pieces


def _merge(sentence: Sentence, spans: list[tuple[int, int, str]]) -> Sentence:
    groups = []  # the words of every token
    end = 0
    for first, last, _ in spans:
        groups += [[i] for i in range(end, first)] + [list(range(first, last + 1))]
        end = last + 1
    groups += [[i] for i in range(end, len(sentence))]
    token_of = [token for token, group in enumerate(groups) for _ in group]
    forms = {first: form for first, _, form in spans}
    own_misc = {first: row.split("\t")[9] for first, row in sentence.others if _is_range(row)}
    depths = _depths(sentence.heads)
    merged = Sentence(
        multiword=[(token_of[first], token_of[last], form) for first, last, form in sentence.multiword],
        comments=sentence.comments,
        before=sentence.before,
        line=sentence.line,
    )  # fmt: skip
    for token, group in enumerate(groups):
        # the head of the highest part is in no part: heads of tokens are a tree, too
        top = min(group, key=depths.__getitem__)
        head = sentence.heads[top]
        merged.words.append(forms.get(group[0], sentence.words[group[0]]))
        merged.after.append(sentence.after[group[-1]])
        merged.lemmas.append(" ".join(filter(None, (sentence.lemmas[i] for i in group))))
        merged.upos.append(sentence.upos[top])
        merged.xpos.append("_".join(filter(None, (sentence.xpos[i] for i in group))))
        merged.feats.append(_all_features([sentence.feats[i] for i in group]))
        merged.heads.append(
            MISSING if head == MISSING else token if head == top else token_of[head]
        )
        merged.deps.append(sentence.deps[top])
        if not sentence.misc:
            continue
        of_words = [item for i in group for item in misc_items(sentence.misc[i])]
        if group[0] in forms:
            own = misc_items(own_misc.get(group[0], ""))
            of_words = own + [item for item in of_words if not is_white_space(item)]
        merged.misc.append("|".join(dict.fromkeys(of_words)))
    return merged


def _depths(heads: list[int]) -> list[int]:
    """How far words are from the root; those without a known head count as roots."""
    depths = [-1] * len(heads)
    for i in range(len(heads)):
        path = []
        while depths[i] < 0:
            path.append(i)
            if heads[i] in (i, MISSING):
                depths[i] = 0
            else:
                i = heads[i]
        for depth, j in enumerate(reversed(path), start=depths[i] + (path[-1:] != [i])):
            depths[j] = depth
    return depths


def _all_features(parts: list[str]) -> str:
    """Every feature of the parts, with all its values: "Case=Acc" and "Case=Nom" are "Case=Acc,Nom"."""
    values: dict[str, set[str]] = {}
    for feature in chain.from_iterable(part.split("|") for part in parts if part):
        name, _, value = feature.partition("=")
        values.setdefault(name, set()).update(value.split(","))
    return "|".join(f"{name}={','.join(sorted(values[name]))}" for name in sorted(values))
