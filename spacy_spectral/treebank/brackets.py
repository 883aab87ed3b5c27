"""Constituency trees in files: brackets as in the Penn Treebank, `(S (NP (DT The) (NN dog)) ...)`, the export
format of Negra, and the columns of CoNLL-2012.

Words are those of the text. The Penn Treebank writes some in its own way: brackets as -LRB-, quotes as `` and
'', and a backslash before / and *. `plain_word` takes this off, and `penn_word` puts it on again.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..base.errors import Errors, reason_of
from ..base.text_files import LONGEST, opened
from .conllu import TreebankError

# the tag of what a sentence lacks
EMPTY = "-NONE-"
_TOKEN = re.compile(r"[()]|[^\s()]+")
_ESCAPES = {
    "(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-",
}  # fmt: skip
_PLAIN = {escape: bracket for bracket, escape in _ESCAPES.items()}
_ESCAPED = re.compile("|".join(_PLAIN) + r"|\\(?=[/*])")
# quotes of the Penn Treebank, by their tag and the word of the text; and the other way
_QUOTES = {
    "``": {'"': "``", "“": "``", "„": "``", "«": "``", "'": "`", "‘": "`", "‹": "`"},
    "''": {'"': "''", "”": "''", "“": "''", "»": "''", "’": "'", "›": "'"},
}
_PLAIN_QUOTES = {"``": '"', "''": '"', "`": "'"}
_PENN = str.maketrans({**_ESCAPES, "/": "\\/", "*": "\\*", "’": "'"})
_PENN_WORDS = {"…": "...", "—": "--", "–": "--"}


@dataclass(slots=True)
class Tree:
    """A constituent. A preterminal has a `word` and no children, any other node only children."""

    label: str
    children: "list[Tree]" = field(default_factory=list)
    word: str = ""

    def leaves(self) -> "Iterator[Tree]":
        """The preterminals from left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            if node.word:
                yield node
            stack += reversed(node.children)


def plain_word(word: str) -> str:
    """A word of the Penn Treebank as texts have it."""
    return _PLAIN_QUOTES.get(word) or _ESCAPED.sub(lambda found: _PLAIN.get(found[0], ""), word)


def penn_word(word: str, tag: str) -> str:
    """A word as the Penn Treebank has it. The tag tells quotes that open from those that close."""
    found = _QUOTES.get(tag, {}).get(word) or _PENN_WORDS.get(word)
    return re.sub(r"\s", "_", found or word.translate(_PENN))


# Words that stand right after what is before them, right before what follows, or both. Tags: of the Penn
# Treebank, and of German treebanks.
_AFTER = frozenset(
    (".", ",", ";", ":", "!", "?", "...", "…", ")", "]", "}", "”", "»", "%", "’", "›")
)
_BEFORE = frozenset(("(", "[", "{", "“", "„", "«", "‘", "‹", "$", "£", "€", "¥", "#"))
_BETWEEN = frozenset(("/",))
_BETWEEN_TAGS = frozenset(("HYPH", "AFX"))
_CONTRACTED = re.compile(r"(n['’]t|['’](s|re|ve|ll|d|m|em))", re.IGNORECASE)
# words that are written as one, by their first part
_AS_ONE = {
    "can": "not", "gon": "na", "wan": "na", "got": "ta", "gim": "me", "lem": "me", "d'": "ye", "'t": "is",
}  # fmt: skip


def spaces(words: Sequence[str], tags: Sequence[str]) -> list[bool]:
    """Whether a space follows each word of a sentence, which trees don't say: a guess by the rules of English
    and by punctuation. One follows the last word."""
    result = [True] * len(words)
    is_open = dict.fromkeys(("'", '"'), False)
    for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
        after, before = word in _AFTER and tag != "``", word in _BEFORE and tag != "''"
        if word in is_open and tag != "POS":
            # where tags don't tell, quotes open and close in turn
            is_open[word] = tag == "``" or (tag != "''" and not is_open[word])
            after, before = not is_open[word], is_open[word]
        if word in _BETWEEN or tag in _BETWEEN_TAGS:
            after = before = True
        if tag == "POS" or _CONTRACTED.fullmatch(word) is not None:
            after = True
        if i and (after or _AS_ONE.get(words[i - 1].lower()) == word.lower()):
            result[i - 1] = False
        if before and i + 1 < len(words):
            result[i] = False
    return result


def write_tree(tree: Tree, *, penn: bool = False) -> str:
    """The tree on one line, with brackets in words as -LRB-, -RSB- and so on, and white space as _.

    penn: Write all words as the Penn Treebank has them, see `penn_word`.
    """
    pieces: list[str] = []
    stack: list[Tree | str] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.word:
            word = re.sub(r"[][(){}\s]", lambda m: _ESCAPES.get(m[0], "_"), node.word)
            pieces.append(f" ({node.label} {penn_word(node.word, node.label) if penn else word})")
        else:
            pieces.append(f" ({node.label}")
            stack.append(")")
            stack += reversed(node.children)
    return "".join(pieces).strip()


def read_brackets(path: str | Path) -> Iterator[Tree]:
    """Read bracketed trees from a file, which is not held in memory as a whole. A tree may span several
    lines; an unlabelled outer bracket is removed."""
    stack: list[Tree] = []
    first_line = 0
    size = 0
    expects_label = False
    empty = True
    for number, line in enumerate(_lines(path), start=1):
        size = size + len(line) if stack else len(line)
        if size >= LONGEST:
            raise TreebankError(path, number, Errors.S040.format(most=LONGEST >> 20))
        for token in _TOKEN.findall(line):
            if token == "(":
                if stack and stack[-1].word:
                    raise TreebankError(path, number, Errors.S035.format(label=stack[-1].label))
                first_line = first_line if stack else number
                stack.append(Tree(""))
                expects_label = True
                continue
            if not stack:
                raise TreebankError(path, number, Errors.S036.format(token=token))
            node = stack[-1]
            if token != ")":
                if expects_label:
                    node.label = token
                elif node.children or node.word:
                    raise TreebankError(path, number, Errors.S035.format(label=node.label))
                else:
                    node.word = plain_word(token)
                expects_label = False
                continue
            expects_label = False
            if not node.children and not node.word:
                raise TreebankError(path, number, Errors.S037.format(label=node.label))
            stack.pop()
            if stack:
                if not node.label:
                    raise TreebankError(path, number, Errors.S038)
                stack[-1].children.append(node)
            else:
                yield _without_outer_bracket(node, path, first_line)
                empty = False
        # a label stands on the line of its bracket, so that `(` at the end of a line is unlabelled
        expects_label = False
    if stack:
        raise TreebankError(path, first_line, Errors.S039.format(open=len(stack)))
    if empty:
        raise TreebankError(path, "", Errors.S012)


def _lines(path: str | Path) -> Iterator[str]:
    """The lines of a file."""
    try:
        with opened(path) as (file, _):
            lines = iter(partial(file.readline, LONGEST), b"")
            for number, data in enumerate(lines, start=1):
                if len(data) == LONGEST:
                    raise TreebankError(path, number, Errors.S040.format(most=LONGEST >> 20))
                try:
                    yield data.decode("utf-8-sig" if number == 1 else "utf8")
                except UnicodeDecodeError as error:
                    message = Errors.S011.format(byte=data[error.start])
                    raise TreebankError(path, number, message) from error
    except (OSError, EOFError, zlib.error) as error:
        raise TreebankError(path, "", Errors.S010.format(reason=reason_of(error))) from error


def _without_outer_bracket(tree: Tree, path: str | Path, line: int) -> Tree:
    if tree.label:
        return tree
    if len(tree.children) != 1:
        raise TreebankError(path, line, Errors.S038)
    return tree.children[0]


_WORD = re.compile(r"((?:\([^()*\s]+)*)\*(\)*)")


def read_columns(path: str | Path) -> Iterator[Tree]:
    """Read trees out of the columns of CoNLL-2012: document, part, number of the word, word, tag, and what of
    the tree begins and ends there, `(NP(NP*` or `*))`. Further columns are left out."""
    stack: list[Tree] = []
    first_line = n_words = size = 0
    tree, empty = None, True
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split()
        if not columns or columns[0] in ("#begin", "#end"):
            if stack:
                raise TreebankError(path, first_line, Errors.S039.format(open=len(stack)))
            if tree is not None:
                yield tree
                empty = False
            tree, n_words, size = None, 0, 0
            continue
        first_line = first_line if n_words else number
        size += len(line)
        if size >= LONGEST:
            raise TreebankError(path, number, Errors.S040.format(most=LONGEST >> 20))
        if len(columns) < 6:
            raise TreebankError(path, number, Errors.S041.format(found=len(columns)))
        if columns[2] != str(n_words):
            raise TreebankError(path, number, Errors.S014.format(id=columns[2], expected=n_words))
        word, tag, part = columns[3:6]
        match = _WORD.fullmatch(part)
        if match is None:
            raise TreebankError(path, number, Errors.S042.format(part=part))
        for label in match[1].split("(")[1:]:
            stack.append(Tree(label))
            if len(stack) > 1:
                stack[-2].children.append(stack[-1])
        if not stack or (n_words and len(stack) == len(match[1].split("(")) - 1):
            raise TreebankError(path, number, Errors.S036.format(token=word))
        stack[-1].children.append(Tree(_tag(tag), word=plain_word(word)))
        n_words += 1
        for _ in match[2]:
            if not stack:
                raise TreebankError(path, number, Errors.S036.format(token=")"))
            tree = stack.pop()
    if stack:
        raise TreebankError(path, first_line, Errors.S039.format(open=len(stack)))
    if tree is not None:
        yield tree
    elif empty:
        raise TreebankError(path, "", Errors.S012)


def _tag(tag: str) -> str:
    """A tag without brackets, which could not be written: `$(` of German treebanks is `$[`."""
    return tag.replace("(", "[").replace(")", "]")


class _Line(NamedTuple):
    """A word or constituent of the export format, on a line of the file."""

    line: int
    label: str
    word: str
    edge: str
    parent: int


class _Piece(NamedTuple):
    """Words side by side that are a tree or a part of one, and whether it is the head of what it is in."""

    begin: int
    end: int
    tree: Tree
    is_head: bool


_NODE = re.compile(r"#(\d{3,})")
_VIRTUAL = 0


def read_export(path: str | Path) -> Iterator[Tree]:
    """Read trees in the export format of Negra, with lemmas (format 4) or without (format 3). Constituents
    with gaps are made continuous, see `_continuous`."""
    n_columns, table, sentence = 0, "", ""
    begin = size = 0
    words: list[_Line] = []
    nodes: dict[int, _Line] = {}
    empty = True
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split()
        name, value = columns[0] if columns else "", columns[1] if len(columns) > 1 else ""
        if not columns or name.startswith("%%") or table:
            table = "" if name == "#EOT" else table
        elif name == "#FORMAT":
            if value not in ("3", "4"):
                raise TreebankError(path, number, Errors.S043.format(value=value))
            n_columns = int(value) + 2
        elif name == "#BOT":
            table = value
        elif name == "#BOS":
            if sentence:
                raise TreebankError(path, begin, Errors.S044.format(name=sentence))
            sentence, begin, size = value or "?", number, 0
            words, nodes = [], {}
        elif name == "#EOS":
            if not sentence or value != sentence:
                raise TreebankError(path, number, Errors.S045.format(found=value, name=sentence))
            if not words:
                raise TreebankError(path, begin, Errors.S037.format(label=f"#BOS {sentence}"))
            yield _continuous(words, nodes, path)
            sentence, empty = "", False
        elif not sentence:
            raise TreebankError(path, number, Errors.S036.format(token=name))
        else:
            size += len(line)
            if size >= LONGEST:
                raise TreebankError(path, number, Errors.S040.format(most=LONGEST >> 20))
            own = _export_line(columns, n_columns, path, number)
            node = _NODE.fullmatch(name)
            if node is None:
                words.append(own._replace(word=plain_word(name)))
            elif int(node[1]) == _VIRTUAL or int(node[1]) in nodes:
                raise TreebankError(path, number, Errors.S046.format(id=name))
            else:
                nodes[int(node[1])] = own
    if sentence:
        raise TreebankError(path, begin, Errors.S044.format(name=sentence))
    if empty:
        raise TreebankError(path, "", Errors.S012)


def _export_line(columns: list[str], n_columns: int, path: str | Path, number: int) -> _Line:
    """Without `n_columns`, their number tells whether there are lemmas: further ones come in pairs."""
    comment = next((i for i, value in enumerate(columns) if i and value.startswith("%%")), None)
    columns = columns[:comment]
    n = n_columns or 5 + (len(columns) + 1) % 2
    if len(columns) < n:
        raise TreebankError(path, number, Errors.S047.format(found=len(columns), expected=n))
    label, _, edge, parent = columns[n - 4 : n]
    if not parent.isascii() or not parent.isdigit():
        raise TreebankError(path, number, Errors.S048.format(id=parent))
    return _Line(number, _tag(label), "", edge, int(parent))


def _continuous(words: list[_Line], nodes: dict[int, _Line], path: str | Path) -> Tree:
    """A tree whose constituents are words side by side.

    Words at the root, mostly punctuation, are put into the smallest constituent that has the words to both
    sides of them. Then from the leaves to the root: a constituent with gaps keeps the words around its head
    (else the most words), and all others are given to its parent.
    """
    depth = {_VIRTUAL: 0}
    for own in (*words, *nodes.values()):
        chain: dict[int, None] = {}
        line = own
        parent = own.parent
        while parent not in depth:
            if parent not in nodes:
                raise TreebankError(path, line.line, Errors.S048.format(id=parent))
            if parent in chain:
                raise TreebankError(path, nodes[parent].line, Errors.S049.format(id=parent))
            chain[parent] = None
            line = nodes[parent]
            parent = line.parent
        for child in reversed(chain):
            depth[child] = depth[nodes[child].parent] + 1
    # one without children has no depth, and is found below
    order = sorted(nodes, key=lambda node: -depth.get(node, len(nodes)))
    filled = {word.parent for word in words}
    for node in order:
        if node not in filled:
            raise TreebankError(path, nodes[node].line, Errors.S037.format(label=nodes[node].label))
        filled.add(nodes[node].parent)

    def common(one: int, other: int) -> int:
        """The smallest constituent around two."""
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            one = nodes[one].parent
        return one

    parents = [word.parent for word in words]
    placed = [i for i, parent in enumerate(parents) if parent != _VIRTUAL]
    for left, right in pairwise(placed):
        if right > left + 1:
            around = common(parents[left], parents[right])
            parents[left + 1 : right] = [around] * (right - left - 1)
    own_pieces: dict[int, list[_Piece]] = {node: [] for node in (*nodes, _VIRTUAL)}
    for i, (word, parent) in enumerate(zip(words, parents, strict=True)):
        piece = _Piece(i, i + 1, Tree(word.label, word=word.word), word.edge == "HD")
        own_pieces[parent].append(piece)
    for node in order:
        line, above = nodes[node], own_pieces[nodes[node].parent]
        runs: list[list[_Piece]] = []
        for piece in sorted(own_pieces[node]):
            if not runs or runs[-1][-1].end != piece.begin:
                runs.append([])
            runs[-1].append(piece)
        kept = max(runs, key=lambda run: (any(p.is_head for p in run), run[-1].end - run[0].begin))
        tree = Tree(line.label, [piece.tree for piece in kept])
        above.append(_Piece(kept[0].begin, kept[-1].end, tree, line.edge == "HD"))
        above += [piece._replace(is_head=False) for run in runs if run is not kept for piece in run]
    return Tree("ROOT", [piece.tree for piece in sorted(own_pieces[_VIRTUAL])])


BRACKET_SUFFIXES = (".ptb", ".mrg", ".brackets")
_READERS: dict[str, Callable[[str | Path], Iterator[Tree]]] = {
    **dict.fromkeys(BRACKET_SUFFIXES, read_brackets),
    ".export": read_export,
    **dict.fromkeys(
        (".gold_conll", ".v4_gold_conll", ".auto_conll", ".v4_auto_conll"), read_columns
    ),
}
TREE_SUFFIXES = tuple(_READERS)


def _ending(path: str | Path) -> str:
    return Path(str(path).lower().removesuffix(".gz")).suffix


def is_bracketed(path: str | Path) -> bool:
    """Whether a file has constituency trees, by its name."""
    return _ending(path) in _READERS


def read_trees(path: str | Path) -> Iterator[Tree]:
    """Read the trees of a file, whose name tells the format; brackets if it doesn't."""
    return _READERS.get(_ending(path), read_brackets)(path)


def bracket_docs(
    trees: Iterable[Tree], vocab: Vocab, *, n_sents: int = 1
) -> Iterator[tuple[Doc, list[Tree]]]:
    """Documents of bracketed trees without empty elements, with their words, tags and sentences, and
    these trees. Brackets say nothing of white space, so that spaces are unknown: spaCy then trains and
    evaluates on the treebank's tokens."""
    trees = iter(trees)
    while group := list(islice(trees, max(n_sents, 1))):
        leaves = [list(tree.leaves()) for tree in group]
        words = [[leaf.word for leaf in own] for own in leaves]
        doc = Doc(
            vocab,
            words=[word for own in words for word in own],
            tags=[leaf.label for own in leaves for leaf in own],
            sent_starts=[i == 0 for own in words for i in range(len(own))],
        )
        yield doc, group
