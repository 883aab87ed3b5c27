"""UD-style scores of dependency parses: every gold token counts once, punctuation too.

Beside `spacy.scorer.Scorer.score_deps`, which leaves out what the *parser* calls punctuation, the
choice of tokens here depends on the gold annotation alone, so two parsers are scored on the same
tokens. Left out are white space and tokens whose gold head is missing. A gold token that no single
predicted token corresponds to is an error. Labels are compared whole (`nmod:poss` is not `nmod`)
and in lower case, as spaCy does.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy
from spacy.attrs import DEP, HEAD, LEMMA, ORTH, TAG
from spacy.scorer import PRFScore
from spacy.tokens import Doc
from spacy.training import Example

from .pipeline.annotations import parse_values
from .trees.calibration import Reliability
from .trees.validity import violations


@dataclass
class Counts:
    """What is counted: `[all tokens, tokens that are not punctuation]`, labels and tags; and for every token
    whose head has a probability that and the label's, whether the head is right, and the arc."""

    tokens: numpy.ndarray = field(default_factory=lambda: numpy.zeros(2, dtype="int64"))
    heads: numpy.ndarray = field(default_factory=lambda: numpy.zeros(2, dtype="int64"))
    arcs: numpy.ndarray = field(default_factory=lambda: numpy.zeros(2, dtype="int64"))
    universal_arcs: numpy.ndarray = field(default_factory=lambda: numpy.zeros(2, dtype="int64"))
    gold_labels: Counter[str] = field(default_factory=Counter)
    predicted_labels: Counter[str] = field(default_factory=Counter)
    correct_labels: Counter[str] = field(default_factory=Counter)
    tagged: int = 0
    correct_tags: int = 0
    lemmatized: int = 0
    correct_lemmas: int = 0
    sentences: int = 0
    certainty: list[tuple[float, float, bool, bool]] = field(default_factory=list)


def score_ud(examples: Iterable[Example]) -> dict[str, Any]:
    """Score parses and tags of predicted and gold documents.

    RETURNS: The keys `uas`, `las`, `las_universal` (labels without what is behind the colon), the same
    with `_no_punct`, `tag_acc` and `lemma_acc` (between 0 and 1, or None where the gold has nothing to
    compare with), `tokens` (with a gold head) and `sentences`.
    """
    counts = count(examples)
    right = counts.heads, counts.arcs, counts.universal_arcs
    uas, las, universal = (_ratios(number, counts.tokens) for number in right)
    lemmas = counts.correct_lemmas / counts.lemmatized if counts.lemmatized else None
    return {
        "uas": uas[0],
        "las": las[0],
        "las_universal": universal[0],
        "uas_no_punct": uas[1],
        "las_no_punct": las[1],
        "las_universal_no_punct": universal[1],
        "lemma_acc": lemmas,
        "tag_acc": counts.correct_tags / counts.tagged if counts.tagged else None,
        "tokens": int(counts.tokens[0]),
        "sentences": counts.sentences,
    }


def score_deps_ud(examples: Iterable[Example], **cfg: Any) -> dict[str, Any]:
    """Score parses under the names that spaCy's training loop shows: `dep_uas`, `dep_las`,
    `dep_uas_no_punct`, `dep_las_no_punct`, `dep_las_per_type`, and `dep_calibration`: how far
    probabilities are true, None if there are none."""
    counts = count(examples, with_probabilities=True)
    uas, las = (_ratios(right, counts.tokens) for right in (counts.heads, counts.arcs))
    per_type = {}
    for label in sorted(counts.gold_labels | counts.predicted_labels):
        correct = counts.correct_labels[label]
        per_type[label] = PRFScore(
            tp=correct,
            fp=counts.predicted_labels[label] - correct,
            fn=counts.gold_labels[label] - correct,
        ).to_dict()
    return {
        "dep_uas": uas[0],
        "dep_las": las[0],
        "dep_uas_no_punct": uas[1],
        "dep_las_no_punct": las[1],
        "dep_las_per_type": per_type or None,
        "dep_calibration": {
            name: {"expected": c.mean_probability, "right": c.share_right, "error": c.error}
            for name, c in _reliability(counts).items()
        }
        or None,
    }


def score_calibration(examples: Iterable[Example]) -> dict[str, Reliability]:
    """Compare the probabilities that parsers have left on documents with what is right: by "heads"
    (`token._.head_prob`) and "arcs", labels included (`token._.head_prob * token._.dep_prob`); without
    those that no token has."""
    return _reliability(count(examples, with_probabilities=True))


def _reliability(counts: Counts) -> dict[str, Reliability]:
    values = numpy.array(counts.certainty, dtype="float64").reshape(-1, 4)
    heads, labels, head_right, arc_right = values.T
    result = {}
    for name, probs, right in (("heads", heads, head_right), ("arcs", heads * labels, arc_right)):
        known = ~numpy.isnan(probs)
        if known.any():
            result[name] = Reliability.of(probs[known], right[known] > 0)
    return result


def score_validity(docs: Iterable[Doc]) -> dict[str, int]:
    """How often each rule of Universal Dependencies is broken, most often first, and how many
    "sentences" break any; see `trees.validity`."""
    rules: Counter[str] = Counter()
    n_sentences = 0
    for sent in (sent for doc in docs for sent in doc.sents):
        words = [token for token in sent if not token.is_space and token.dep]
        place = {token.i: i for i, token in enumerate(words, start=1)}
        heads = [0 if t.head == t else place.get(t.head.i, 0) for t in words]
        pos, morphs = [token.pos_ for token in words], [str(token.morph) for token in words]
        found = violations(heads, [token.dep_ for token in words], pos, morphs)
        rules.update(rule for _, rule in found)
        n_sentences += bool(found)
    return {"sentences": n_sentences, **dict(rules.most_common())}


def make_ud_scorer() -> Callable[..., dict[str, Any]]:
    """The registered scorer `spacy-spectral.ud_scorer.v1`, of a parser component."""
    return score_deps_ud


def count(examples: Iterable[Example], *, with_probabilities: bool = False) -> Counts:
    """Compare predicted and gold documents token by token, perhaps by the probabilities of predictions."""
    counts = Counts()
    for eg in examples:
        probs = probabilities(eg.predicted) if with_probabilities else None
        if eg.reference.has_annotation("SENT_START"):
            counts.sentences += sum(1 for _ in eg.reference.sents)
        for word in compare(eg):
            if word.tag:
                counts.tagged += 1
                counts.correct_tags += word.tag_right
            if word.lemma_right is not None:
                counts.lemmatized += 1
                counts.correct_lemmas += word.lemma_right
            if not word.label:
                continue
            relation = word.label.partition(":")[0]
            universal = word.head_right and word.guess.partition(":")[0] == relation
            weight = numpy.array([1, relation != "punct"])
            counts.tokens += weight
            counts.heads += word.head_right * weight
            counts.arcs += word.arc_right * weight
            counts.universal_arcs += universal * weight
            counts.gold_labels[word.label] += 1
            counts.correct_labels[word.label] += word.arc_right
            if word.guess:
                counts.predicted_labels[word.guess] += 1
                if probs is not None:
                    counts.certainty.append((*probs[word.found], word.head_right, word.arc_right))
    return counts


class Compared(NamedTuple):
    """A word of a gold document, and what was made of it.

    place: Its token in the gold document.
    found: The token of the predicted document that is the same, -1 if there is not one.
    head, label: What is right; a label of "" is that of a word without head.
    head_found: The token of the predicted document that is the right head, -1 for none.
    guess: The predicted label, "" for none.
    tag, guessed_tag: "" for none.
    lemma_right: None if the right one is not known.
    """

    place: int
    found: int
    head: int
    head_found: int
    label: str
    guess: str
    head_right: bool
    arc_right: bool
    tag: str
    guessed_tag: str
    lemma_right: bool | None

    @property
    def is_root(self) -> bool:
        return self.head == self.place

    @property
    def tag_right(self) -> bool:
        return self.tag == self.guessed_tag


def compare(eg: Example) -> Iterator[Compared]:
    """Compare a predicted and a gold document word by word.

    YIELDS (Compared): Every token of the gold document but white space.
    """
    gold, predicted = _Columns(eg.reference), _Columns(eg.predicted)
    to_predicted, to_gold = _one_to_one(eg)
    for i, is_space in enumerate(gold.is_space):
        if is_space:
            continue
        j, label, head = to_predicted[i], gold.labels[i], gold.heads[i]
        # a predicted label of "" is spaCy's sign of a missing head, not of a root
        guess = predicted.labels[j] if j >= 0 else ""
        head_right = bool(label and guess) and to_gold[predicted.heads[j]] == head
        lemma = gold.lemmas[i]
        yield Compared(
            i, j, head, to_predicted[head], label, guess, head_right, head_right and guess == label,
            gold.tags[i], predicted.tags[j] if j >= 0 else "",
            (j >= 0 and predicted.lemmas[j] == lemma) if lemma else None,
        )  # fmt: skip


class _Columns:
    """A document as plain lists: fast to read token by token."""

    def __init__(self, doc: Doc) -> None:
        array = doc.to_array([HEAD, DEP, TAG, ORTH, LEMMA])
        strings = doc.vocab.strings
        self.heads = (numpy.arange(len(doc)) + array[:, 0].astype("int64")).tolist()
        self.labels = [strings[dep].lower() if dep else "" for dep in array[:, 1].tolist()]
        self.tags = [strings[tag] if tag else "" for tag in array[:, 2].tolist()]
        self.lemmas = array[:, 4].tolist()
        self.is_space = [strings[orth].isspace() for orth in array[:, 3].tolist()]


def probabilities(doc: Doc) -> list[tuple[float, float]] | None:
    """The probabilities of every token's head and label, nan for none; None if there are none at all."""
    values = parse_values(doc)
    if values is None or values.head_prob is None:
        return None
    labels = values.dep_prob if values.dep_prob is not None else numpy.full(len(doc), numpy.nan)
    return list(zip(values.head_prob.tolist(), labels.tolist(), strict=True))


def _one_to_one(eg: Example) -> tuple[list[int], list[int]]:
    """Gold to predicted and predicted to gold positions; -1 where it is not one token to one."""
    x2y, y2x = eg.alignment.x2y, eg.alignment.y2x
    to_predicted = _single(y2x.lengths, y2x.data)
    to_gold = _single(x2y.lengths, x2y.data)
    return (
        [j if j >= 0 and to_gold[j] == i else -1 for i, j in enumerate(to_predicted)],
        [i if i >= 0 and to_predicted[i] == j else -1 for j, i in enumerate(to_gold)],
    )


def _single(lengths: numpy.ndarray, data: numpy.ndarray) -> list[int]:
    starts = numpy.cumsum(lengths) - lengths
    return [
        int(data[start]) if length == 1 else -1
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]


def _ratios(right: numpy.ndarray, total: numpy.ndarray) -> list[float | None]:
    return [int(r) / int(t) if t else None for r, t in zip(right, total, strict=True)]
