"""What a pipeline makes of one sentence when some of it is fixed: an analysis, with probabilities and other
choices.

Tags are fixed first; the parser then sums over all trees that have the fixed heads. Fixed heads whose arcs
cross are in none of the parser's trees: there the heads of other words are chosen one by one, the most
probable first, so that the whole is a tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..base.errors import Errors, SpectralError
from ..pipeline.annotations import dep_prob, head_prob, tag_probs
from ..pipeline.documents import RELATIONS
from ..pipeline.parser import SpectralParser
from ..pipeline.tagger import SpectralTagger
from ..treebank.conllu import UPOS
from ..trees.interface import Parses
from ..trees.posterior import possible
from ..trees.pseudoprojective import plain
from ..trees.sentences import MISSING, Batch

Values = Mapping[str, str]
_FREE = "_"
_TOP_TAGS = 12
_ROOT = "root"
# The exponent of the length in `expected_errors`.
POWER = 0.5


@dataclass
class Analysis:
    """An analysis of a sentence.

    words: The values of each word's columns; "_" where nothing is known.
    head_probs, label_probs: Of each word's head, and of its label given the head; 0 without a model.
    others: Of each word, the likeliest other heads with their probabilities.
    """

    words: list[dict[str, str]]
    head_probs: list[float]
    label_probs: list[float]
    others: list[list[tuple[int, float]]] = field(default_factory=list)


class Engine:
    """What parses sentences: one that knows nothing, if there is no pipeline."""

    def __init__(self, nlp: Language | None = None, *, number: int = 0, told: str = "") -> None:
        """number: Which model it is, counted from the first.
        told: What the page says that it is.
        """
        self.nlp = nlp
        self.number = number
        self.told = told
        self._before: list[Any] = []
        if nlp is None:
            return
        self._parser = parser_of(nlp)
        for name, pipe in nlp.pipeline:
            if pipe is self._parser:
                break
            assigned = set(nlp.get_pipe_meta(name).assigns)
            if not assigned & {"token.is_sent_start", "token.dep", "token.head"}:
                self._before.append(pipe)
        self._classes = {
            (tag or pos, pos)
            for pipe in self._before
            if isinstance(pipe, SpectralTagger)
            for tag, pos in pipe.learnt.tag_classes
        }

    @classmethod
    def load(cls, path: str | Path, *, number: int, told: str) -> "Engine":
        """Load a pipeline from a directory or package."""
        nlp = util.load_model(path)
        more = {
            f"components.{name}.top_k": _TOP_TAGS
            for name, pipe in nlp.pipeline
            if isinstance(pipe, SpectralTagger)
        }
        return cls(util.load_model(path, config=more) if more else nlp, number=number, told=told)

    def analyse(
        self, forms: Sequence[str], spaces: Sequence[bool], fixed: Sequence[Values]
    ) -> Analysis:
        """Analyse a sentence.

        fixed: What is known of every word, "_" for what is not.
        """
        if self.nlp is None:
            words = [dict(own) for own in fixed]
            for word in words:
                if word["head"] == "0":  # there is one label for it
                    word["deprel"] = _ROOT
            given = [float(own["head"] != _FREE) for own in fixed]
            return Analysis(words, given, list(given), [[] for _ in words])
        doc = self._tagged(forms, spaces, fixed)
        _, parses, heads = self._parse(doc, fixed)
        table = parses.marginals(0)
        table = table / numpy.maximum(table.sum(axis=0), 1e-12)
        chosen = numpy.array(heads)
        names = [plain(name) for name in self._parser.grammar.label_names]
        is_own = chosen == parses.heads
        distributions = parses.label_distributions(0)
        words, label_probs, head_probs, others = [], [], [], []
        kept = parses.head_probs()
        for i, own in enumerate(fixed):
            label = names[int(parses.labels[i])]
            if not is_own[i]:
                label = "dep"  # the parser had another head
            if own["deprel"] != _FREE and own["head"] != _FREE:
                label = own["deprel"]
            elif heads[i] == 0:
                label = _ROOT
            elif label.lower() == _ROOT:
                label = "dep"
            token = doc[i]
            found = {
                "lemma": token.lemma_,
                "upos": token.pos_,
                "xpos": token.tag_ if token.tag_ != token.pos_ else "",
                "feats": "|".join(sorted(str(token.morph).split("|"), key=str.lower)),
            }
            word = {
                name: own[name] if own[name] != _FREE else found[name] or _FREE for name in found
            }
            words.append(word | {"head": str(heads[i]), "deprel": label})
            share = sum(
                float(p) for p, name in zip(distributions[i], names, strict=True)
                if name.lower() == label.lower()
            )  # fmt: skip
            label_probs.append(min(share, 1.0) if is_own[i] else 0.0)
            by_head = float(kept[i]) if is_own[i] else float(table[heads[i], i + 1])
            head_probs.append(min(by_head, 1.0))
            order = numpy.argsort(-table[:, i + 1], kind="stable")[:4].tolist()
            rest = [(h, float(table[h, i + 1])) for h in order if h != heads[i]]
            others.append([pair for pair in rest if pair[1] > 0.005][:3])
        return Analysis(words, head_probs, label_probs, others)

    def best_trees(
        self, forms: Sequence[str], spaces: Sequence[bool], fixed: Sequence[Values], k: int
    ) -> list[tuple[list[int], list[str], float]]:
        """The k best trees with what is fixed: heads, labels and the logarithm of their probability."""
        if self.nlp is None:
            return []
        doc = self._tagged(forms, spaces, fixed)
        _, parses, heads = self._parse(doc, fixed)
        if any(heads[i] != int(h) for i, h in enumerate(parses.heads)):
            return []
        names = [plain(name) for name in self._parser.grammar.label_names]
        return [
            (
                tree.heads.tolist(),
                [
                    _ROOT if h == 0 else names[i]
                    for h, i in zip(tree.heads, tree.labels, strict=True)
                ],
                tree.log_prob,
            )
            for tree in parses.k_best(0, k)
        ]

    def choices(
        self, forms: Sequence[str], spaces: Sequence[bool], fixed: Sequence[Values], word: int
    ) -> dict[str, list[tuple[str, float]]]:
        """Values of a word's columns by probability, best first; 0 for those that no model has proposed."""
        found: dict[str, dict[str, float]] = {
            name: {} for name in ("upos", "xpos", "lemma", "feats")
        }
        labels: dict[str, float] = {}
        if self.nlp is not None:
            free: list[Values] = [dict(own) for own in fixed]
            free[word - 1] = {**fixed[word - 1], **dict.fromkeys(found, _FREE)}
            probs = tag_probs(self._tagged(forms, spaces, free)[word - 1])
            for tag, prob in list(probs.items())[:_TOP_TAGS]:
                again: list[Values] = list(free)
                again[word - 1] = {**free[word - 1], "xpos": tag}
                token = self._tagged(forms, spaces, again)[word - 1]
                own = {
                    "upos": token.pos_,
                    "xpos": tag,
                    "lemma": token.lemma_,
                    "feats": str(token.morph),
                }
                for name, value in own.items():
                    found[name][value or _FREE] = found[name].get(value or _FREE, 0.0) + prob
            doc = self._tagged(forms, spaces, fixed)
            _, parses, _ = self._parse(doc, fixed)
            row = parses.label_distributions(0)[word - 1]
            for prob, name in zip(row.tolist(), self._parser.grammar.label_names, strict=True):
                label = plain(name)
                label = _ROOT if label.lower() == _ROOT else label
                labels[label] = labels.get(label, 0.0) + prob
        result = {name: _ranked(own) for name, own in (found | {"deprel": labels}).items()}
        for name, known in (("upos", UPOS - {_FREE}), ("deprel", RELATIONS)):
            there = {value for value, _ in result[name]}
            result[name] += [(value, 0.0) for value in sorted(known - there)]
        for value in (forms[word - 1], forms[word - 1].lower()):
            if value not in {own for own, _ in result["lemma"]}:
                result["lemma"].append((value, 0.0))
        return result

    def _tagged(self, forms: Sequence[str], spaces: Sequence[bool], fixed: Sequence[Values]) -> Doc:
        """A document with tags, features and lemmas: what is fixed, and the likeliest of the rest."""
        doc = self._run_before(forms, spaces, fixed)
        # a part of speech without a tag: the likeliest tag of that part of speech
        narrowed = None
        for i, own in enumerate(fixed):
            if own["xpos"] != _FREE or own["upos"] == _FREE:
                continue
            likely = [tag for tag in tag_probs(doc[i]) if (tag, own["upos"]) in self._classes]
            known = sorted(tag for tag, pos in self._classes if pos == own["upos"])
            tag = [*likely, *known, doc[i].tag_][0]
            if tag != doc[i].tag_:
                narrowed = narrowed or [dict(values) for values in fixed]
                narrowed[i]["xpos"] = tag
        return doc if narrowed is None else self._run_before(forms, spaces, narrowed)

    def _run_before(
        self, forms: Sequence[str], spaces: Sequence[bool], fixed: Sequence[Values]
    ) -> Doc:
        assert self.nlp is not None
        # a word of white space is none for spaCy
        words = [form if not form.isspace() else _FREE for form in forms]
        starts = [True] + [False] * (len(words) - 1)
        doc = Doc(self.nlp.vocab, words=words, spaces=list(spaces), sent_starts=starts)  # type: ignore
        _set_values(doc, fixed)
        for pipe in self._before:
            doc = pipe(doc)
        _set_values(doc, fixed)  # of components that overwrite
        return doc

    def _parse(self, doc: Doc, fixed: Sequence[Values]) -> tuple[Batch, Parses, list[int]]:
        """A parse, and heads that go with what is fixed."""
        given = numpy.array(
            [int(own["head"]) if own["head"] != _FREE else MISSING for own in fixed], dtype="int32"
        )
        batch = self._parser.read([doc])
        some = given if (given != MISSING).any() else None
        if some is None or possible(given):
            parses = self._parser.learner.parse(batch, fixed=some)
            if (parses.heads == given)[given != MISSING].all():
                return batch, parses, parses.heads.tolist()
        parses = self._parser.learner.parse(batch, fixed=None)
        return batch, parses, complete_tree(given, parses.marginals(0))


def parser_of(nlp: Language) -> SpectralParser:
    """The parser of a pipeline."""
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, SpectralParser):
            return pipe
    raise SpectralError(Errors.S668.format(known=", ".join(nlp.component_names) or "none"))


def complete_tree(given: NDArray[numpy.int32], marginals: NDArray[numpy.float64]) -> list[int]:
    """Heads of the words that have none, so that all are a tree: one after the other, the most probable
    first. What is given must have no ring and one root at most.

    given: Heads from 1, 0 for the root, `MISSING` for none.
    marginals: [n+1, n+1] by head and modifier.
    """
    heads = given.tolist()
    n = len(heads)
    free = [i for i in range(n) if heads[i] == MISSING]
    if 0 not in heads and free:
        root = max(free, key=lambda i: marginals[0, i + 1])
        heads[root] = 0
        free.remove(root)
    for i in sorted(free, key=lambda i: -marginals[1:, i + 1].max()):
        for head in numpy.argsort(-marginals[1:, i + 1], kind="stable").tolist():
            at = head + 1
            while at > 0 and at != i + 1:
                at = heads[at - 1]
            if at != i + 1:
                heads[i] = head + 1
                break
    return heads


def _set_values(doc: Doc, fixed: Sequence[Values]) -> None:
    for token, own in zip(doc, fixed, strict=True):
        if own["xpos"] != _FREE or own["upos"] != _FREE:
            if own["xpos"] != _FREE:
                token.tag_ = own["xpos"]
            if own["upos"] != _FREE:
                token.pos_ = own["upos"]
        if own["feats"] != _FREE:
            token.set_morph(own["feats"])
        if own["lemma"] != _FREE:
            token.lemma_ = own["lemma"]


def _ranked(found: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(found.items(), key=lambda pair: -pair[1])


def expected_errors(probs: Sequence[float], power: float = POWER) -> float:
    """How many errors are expected in a sentence, divided by a power of its length: which sentences are worth
    a person's time.

        errors(sentence) = sum over tokens of (1 - P(head of the token)) / length^power

    With power 0 long sentences come first, with power 1 those whose arcs are doubtful on average. What is
    read and what is corrected grow with the length, but not in the same way; between 0 and 1 both count.

    probs: The probability of every arc; with its label, if labels count.
    RETURNS: 0 for a sentence without words.
    """
    if not len(probs):
        return 0.0
    return float(sum(1.0 - prob for prob in probs) / len(probs) ** power)


def span_errors(span: Span) -> float:
    """How many wrong labelled arcs are expected in a parsed sentence, see `expected_errors`. A token of which
    no probability is known counts as a certain error: nobody has parsed it."""
    probs = []
    for token in span:
        if not token.is_space:
            label = dep_prob(token)
            probs.append((head_prob(token) or 0.0) * (1.0 if label is None else label))
    return expected_errors(probs)
