"""All problems of treebank files, and what is in the valid ones."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..trees.sentences import MISSING
from .brackets import is_bracketed, read_trees
from .conllu import TreebankError, is_projective
from .documents import scan_docs, treebank_files


@dataclass
class Summary:
    """What a treebank file holds. `problems` are all its errors, in order of the file."""

    path: Path
    problems: list[TreebankError] = field(default_factory=list)
    sentences: int = 0
    tokens: int = 0
    non_projective: int = 0
    missing_heads: int = 0
    longest: int = 0
    tags: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)

    @property
    def has_heads(self) -> bool:
        """Whether its trees are dependency trees."""
        return not is_bracketed(self.path)

    @property
    def non_projective_percent(self) -> float:
        """The percentage of sentences with crossing arcs."""
        return 100 * self.non_projective / max(self.sentences, 1)


def check_treebanks(paths: list[Path]) -> list[Summary]:
    """Check treebank files, each by itself; a path that stands for no file has only a problem."""
    summaries = []
    for path in paths:
        if is_bracketed(path):
            summaries.append(_check_brackets(path))
            continue
        try:
            files = treebank_files(path)
        except TreebankError as error:
            summaries.append(Summary(path, [error]))
            continue
        summaries += [_check_file(file) for file in files]
    return summaries


def only_in_one_split(summaries: list[Summary], kind: str) -> dict[Path, Counter[str]]:
    """For each file, what no other file has, e.g. a tag written differently elsewhere, with its
    frequency."""
    found = {}
    for summary in summaries:
        elsewhere = {
            value for other in summaries if other is not summary for value in getattr(other, kind)
        }
        alone = {v: n for v, n in getattr(summary, kind).items() if v not in elsewhere}
        if alone:
            found[summary.path] = Counter(alone)
    return found


def _check_file(path: Path) -> Summary:
    summary = Summary(path)
    vocab = Vocab()
    for item in scan_docs(path, vocab):
        if isinstance(item, TreebankError):
            summary.problems.append(item)
        else:
            _count(item, summary)
    return summary


def _check_brackets(path: Path) -> Summary:
    """Bracketed trees up to the first problem: what follows it can't be told apart from it."""
    summary = Summary(path)
    try:
        for tree in read_trees(path):
            leaves = list(tree.leaves())
            summary.sentences += 1
            summary.tokens += len(leaves)
            summary.longest = max(summary.longest, len(leaves))
            summary.tags.update(leaf.label for leaf in leaves)
            stack = [tree]
            while stack:
                node = stack.pop()
                if not node.word:
                    summary.labels[node.label] += 1
                    stack += node.children
    except TreebankError as error:
        summary.problems.append(error)
    return summary


def _count(doc: Doc, summary: Summary) -> None:
    for sent in doc.sents:
        heads = [token.head.i - sent.start if token.dep else MISSING for token in sent]
        # nobody annotates white space
        is_word = [not token.is_space for token in sent]
        summary.sentences += 1
        summary.non_projective += not is_projective(heads)
        summary.tokens += sum(is_word)
        summary.missing_heads += sum(
            word and head == MISSING for word, head in zip(is_word, heads, strict=True)
        )
        summary.longest = max(summary.longest, sum(is_word))
    summary.tags.update(token.tag_ for token in doc if token.tag)
    summary.labels.update(token.dep_ for token in doc if token.dep)
