"""Bracketed constituency trees as in the Penn Treebank: `(S (NP (DT The) (NN dog)) ...)`."""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..base.errors import Errors
from ..base.text_files import LONGEST, opened
from .conllu import TreebankError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


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


def write_tree(tree: Tree) -> str:
    """The tree on one line, with brackets in words as -LRB- and -RRB-, and white space as _."""
    pieces: list[str] = []
    stack: list[Tree | str] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.word:
            word = re.sub(r"[()\s]", lambda m: _ESCAPES.get(m[0], "_"), node.word)
            pieces.append(f" ({node.label} {word})")
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
                    node.word = _unescape(token)
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
        reason = getattr(error, "strerror", None) or error
        raise TreebankError(path, "", Errors.S010.format(reason=reason)) from error


def _without_outer_bracket(tree: Tree, path: str | Path, line: int) -> Tree:
    if tree.label:
        return tree
    if len(tree.children) != 1:
        raise TreebankError(path, line, Errors.S038)
    return tree.children[0]


def _unescape(word: str) -> str:
    for bracket, escape in _ESCAPES.items():
        word = word.replace(escape, bracket)
    return word


# As spaCy's documents; `pipeline.constituents` keeps the trees on them.
BRACKET_SUFFIXES = (".ptb", ".mrg", ".brackets")


def is_bracketed(path: str | Path) -> bool:
    """Whether a file has bracketed trees, by its name."""
    return Path(path).suffix.lower() in BRACKET_SUFFIXES


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
