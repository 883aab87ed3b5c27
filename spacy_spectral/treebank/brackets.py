"""Bracketed constituency trees as in the Penn Treebank: `(S (NP (DT The) (NN dog)) ...)`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import Errors
from .validate import TreebankError

_TOKEN = re.compile(r"[()]|[^\s()]+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


@dataclass(slots=True)
class Tree:
    """A constituent. A preterminal has a `word` and no children, any other node only children."""

    label: str
    children: "list[Tree]" = field(default_factory=list)
    word: str = ""

    def leaves(self) -> "Iterator[Tree]":
        """YIELDS (Tree): The preterminals from left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            if node.word:
                yield node
            stack += reversed(node.children)


def write_tree(tree: Tree) -> str:
    """tree (Tree): A tree.
    RETURNS (str): The tree on one line, with brackets in words as -LRB- and -RRB-, and white space as _.
    """
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
    """Read bracketed trees. A tree may span several lines; an unlabelled outer bracket is removed.

    path (Union[str, Path]): The file.
    YIELDS (Tree): The trees in order.
    RAISES (TreebankError): At the first problem.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or error
        raise TreebankError(path, "", Errors.S010.format(reason=reason)) from error
    except UnicodeDecodeError as error:
        place = error.object.count(b"\n", 0, error.start) + 1
        message = Errors.S011.format(byte=error.object[error.start])
        raise TreebankError(path, place, message) from error
    stack: list[Tree] = []
    first_line = 0
    expects_label = False
    empty = True
    for number, line in enumerate(text.split("\n"), start=1):
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
