"""The report on a pipeline: what it gets right and wrong on a treebank, and how far it can be believed."""

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from .base.errors import Errors, SpectralError
from .measure import (
    RESAMPLES,
    GoldSentence,
    Measured,
    confidence_range,
    measure,
    named_ranges,
    paired_bootstrap,
    range_start,
    read_sentences,
)
from .pipeline.constituency import count_brackets
from .pipeline.constituents import stored_trees
from .pipeline.words import surface
from .raw import MEASURES
from .trees.calibration import Reliability
from .viz.arcs import arcs_html
from .viz.constituents import tree_svg
from .viz.parses import tree_words
from .viz.plots import render_coverage, render_reliability
from .viz.report import (
    Cell,
    Row,
    Section,
    confusions,
    difference,
    figure,
    percent,
    report_page,
    table,
    tiles,
)

# sentences of this many words are drawn
_LEAST_WORDS, _MOST_WORDS = 6, 30
_DRAWN, _DOUBTS, _CONFUSIONS, _IN_TABLE = 8, 40, 20, 14
_LENGTHS = (5, 10, 20, 30, 50)
_DISTANCES = (1, 2, 3, 6, 10, 20)


def make_report(
    models: Sequence[tuple[Language, str]], data: Path, *, raw: bool = True, seed: int = 0
) -> str:
    """Make the page.

    models: The pipeline and its name; perhaps another one that it is compared with.
    data: The treebank.
    raw: Whether to measure from raw text, too.
    seed: Of the bootstrap.
    """
    (nlp, title), *_ = models
    read = [read_sentences(data, own.vocab) for own, _ in models]
    sentences = read[0]
    found = [
        measure(own, data, golds, title=name, raw=raw)
        for (own, name), golds in zip(models, read, strict=True)
    ]
    first = found[0]
    if not (first.has_arcs or first.has_tags or first.has_brackets):
        known = ", ".join(nlp.pipe_names) or "none"
        raise SpectralError(Errors.S051.format(model=title, known=known, path=data))
    subtitle = (
        f"{data.name}: {len(first.words):,} words in {len(sentences):,} sentences. Scores are too good if "
        "the treebank was used to train, stop or calibrate a pipeline."
    )
    sections = _Report(sentences, found, seed).sections()
    direction = nlp.vocab.writing_system.get("direction", "ltr")
    heading = f"{title} and {found[1].title}" if len(found) > 1 else title
    return report_page(heading, subtitle, sections, direction=direction)


class _Report:
    """The sections of a report."""

    def __init__(self, sentences: Sequence[GoldSentence], found: Sequence[Measured], seed: int):
        self.sentences = sentences
        self.found = found
        self.first = found[0]
        self.seed = seed
        self._drawn: set[str] = set()

    def sections(self) -> list[Section]:
        """All that there is something to say in."""
        first = self.first
        made = [self._overview()]
        if len(self.found) > 1:
            made.append(self._against())
        if first.has_arcs:
            made += [self._where(), self._labels()]
            if not numpy.isnan(first.heads).all():
                made.append(self._trust())
            made += [self._worst(), self._doubts()]
        if first.has_tags:
            made.append(self._tags())
        if first.has_brackets:
            made += [self._brackets(), self._worst_brackets()]
        return made

    def _overview(self) -> Section:
        first, scores = self.first, self.first.scores
        shown = []
        rows: list[Row]
        if first.has_arcs:
            shown += [
                ("LAS", _short(scores["las"]), "heads and labels"),
                ("UAS", _short(scores["uas"]), "heads"),
            ]
        if first.has_brackets:
            shown.append(("F1", _short(first.brackets.f1), "constituents"))
            shown.append(("Exact", _short(first.brackets.exact_match), "sentences without error"))
        if first.has_tags:
            shown.append(("Tags", _short(scores["tag_acc"]), "of all words"))
        if scores["lemma_acc"]:
            shown.append(("Lemmas", _short(scores["lemma_acc"]), "of all words"))
        if first.raw:
            shown.append(("LAS, raw text", _short(first.raw["las"]), "as in CoNLL 2018"))
        known = first.scored[~numpy.isnan(first.heads[first.scored])]
        if first.has_arcs and len(known):
            curve = Reliability.of(first.heads[known], first.head_right[known])
            shown.append(("Calibration error", _short(curve.error), "of heads"))
        how = "words a CPU second" + ("" if first.raw else ", second-best heads included")
        shown.append(("Speed", f"{first.words_per_second:,.0f}", how))
        parts = [tiles(shown)]
        names = ("", *(own.title for own in self.found))
        if first.has_arcs:
            rows = [
                (title, *(percent(own.scores[key]) for own in self.found))
                for title, key in (
                    ("UAS, all words", "uas"),
                    ("LAS, all words", "las"),
                    ("LAS, labels without subtypes", "las_universal"),
                    ("UAS without punctuation", "uas_no_punct"),
                    ("LAS without punctuation", "las_no_punct"),
                    ("Tags", "tag_acc"),
                    ("Lemmas", "lemma_acc"),
                )
            ]
            parts.append(f"<div><h3>The treebank's own words</h3>{table(names, rows)}</div>")
        if any(own.raw for own in self.found):
            rows = [
                (name, *(percent(own.raw.get(name.lower())) for own in self.found))
                for name in MEASURES
            ]
            parts.append(f"<div><h3>From raw text (F1)</h3>{table(names, rows)}</div>")
        side = [parts[0], f'<div class="side">{"".join(parts[1:])}</div>']
        for own in self.found:
            if own.why_not:
                side.append(
                    f'<p class="soft">{escape(f"{own.title}, from raw text: {own.why_not}")}</p>'
                )
        return Section("Scores", "", side)

    def _against(self) -> Section:
        first, second = self.found[:2]
        kinds: list[tuple[str, NDArray, NDArray, NDArray]] = []
        if first.has_arcs:
            kinds.append(("UAS", first.scored, first.head_right, second.head_right))
            kinds.append(("LAS", first.scored, first.arc_right, second.arc_right))
        if first.has_tags:
            kinds.append(("Tags", first.tagged, first.tag_right, second.tag_right))
        rows: list[Row] = []
        n = len(self.sentences)
        for name, own, right, other in kinds:
            of = first.sentence[own]
            total = numpy.bincount(of, minlength=n)
            counts = [numpy.bincount(of, which[own], minlength=n) for which in (right, other)]
            result = paired_bootstrap(counts[0], counts[1], total, seed=self.seed)
            better, worse = int((counts[1] > counts[0]).sum()), int((counts[1] < counts[0]).sum())
            rows.append(
                (
                    name,
                    *(percent(count.sum() / total.sum()) for count in counts),
                    difference(result.value),
                    Cell(f"{100 * result.low:+.1f} to {100 * result.high:+.1f}"),
                    Cell(f"{result.chance:.4f}"),
                    Cell(f"{better:,}"),
                    Cell(f"{worse:,}"),
                )
            )
        header = (
            "",
            first.title,
            second.title,
            "Difference",
            "95 % of samples",
            "p",
            "Better",
            "Worse",
        )
        parts = [table(header, rows)]
        if first.has_arcs:
            gain = second.arc_right.astype("int64") - first.arc_right
            of = numpy.bincount(first.sentence, gain, minlength=n)
            for name, order in (("better", -of), ("worse", of)):
                chosen = self._choose(order, _DRAWN // 2, need=lambda i, o=order: o[i] < 0)  # type: ignore[misc]
                if chosen:
                    parts.append(f"<h3>{escape(second.title)} is {name} here</h3>")
                for i in chosen:
                    drawings = [
                        f'<p class="soft">{escape(own.title)}</p>{self._drawing(own, i)}'
                        for own in (first, second)
                    ]
                    parts.append(self._figure(i, f"{of[i]:+.0f} arcs", *drawings))
        intro = (
            f"Sentences were drawn {RESAMPLES:,} times with replacement (paired bootstrap). The difference "
            "is between the two limits in 95 % of the samples; p says how often one this large would come "
            "about if there were none. Better and worse are numbers of sentences."
        )
        return Section("The two compared", intro, parts)

    def _where(self) -> Section:
        first = self.first
        own = first.scored
        sizes = numpy.bincount(first.sentence, minlength=len(self.sentences))
        words = first.words
        kinds: list[tuple[str, list[str], list[str]]] = []
        lengths = named_ranges(_LENGTHS, " words")
        kinds.append(
            ("Length of the sentence", [lengths(sizes[s]) for s in first.sentence[own]], [])
        )
        distances = named_ranges(_DISTANCES, "")
        away = [
            "the root" if words[i].is_root else distances(abs(words[i].head - words[i].place))
            for i in own
        ]
        kinds.append(("Distance to the head", away, ["the root"]))
        genres = [self.sentences[s].genre for s in first.sentence[own]]
        if any(genres):
            kinds.append(("Genre", [name or "-" for name in genres], []))
        if not numpy.isnan(first.arcs[own]).all():
            sure = [confidence_range(p) for p in first.arcs[own]]
            kinds.append(("Probability of the arc", sure, []))
        parts = []
        for name, keys, order in kinds:
            parts.append(f"<div><h3>{name}</h3>{self._by(keys, order)}</div>")
        intro = (
            "How many heads (UAS), and how many heads with their labels (LAS), are right. Expected: how many "
            "of the latter the model itself thinks are right."
        )
        return Section("Where it is right", intro, [f'<div class="side">{"".join(parts)}</div>'])

    def _by(self, keys: Sequence[str], order: Sequence[str]) -> str:
        """A table of scores by a key of every scored word."""
        first, own = self.first, self.first.scored
        names = Counter(keys)
        numbered = sorted(
            names, key=lambda name: (name not in order, range_start(name), -names[name], name)
        )
        array = numpy.array(keys, dtype=object)
        rows: list[Row] = []
        for name in numbered:
            at = own[array == name]
            probs = first.arcs[at]
            row: list[Cell | str] = [
                escape(name),
                Cell(f"{len(at):,}"),
                percent(first.head_right[at].mean()),
                percent(first.arc_right[at].mean(), bar=True),
                percent(numpy.nan if numpy.isnan(probs).all() else float(numpy.nanmean(probs))),
            ]
            for other in self.found[1:]:
                gain = other.arc_right[at].mean() - first.arc_right[at].mean()
                row.append(difference(float(gain)))
            rows.append(row)
        header = ["", "Words", "UAS", "LAS", "Expected", *("Second" for _ in self.found[1:])]
        return table(header, rows)

    def _labels(self) -> Section:
        first = self.first
        words = [first.words[i] for i in first.scored]
        gold, guessed = Counter(w.label for w in words), Counter(w.guess for w in words if w.guess)
        right = Counter(w.label for w in words if w.arc_right)
        heads = Counter(w.label for w in words if w.head_right)
        pairs = Counter((w.label, w.guess or "none") for w in words)
        rows: list[Row] = []
        for label in sorted(gold | guessed, key=lambda name: (-gold[name], name)):
            n, found, hits = gold[label], guessed[label], right[label]
            wrong = [(k, b) for (a, b), k in pairs.items() if a == label and b != label]
            most = ", ".join(f"{b} {k}" for k, b in sorted(wrong, key=lambda p: (-p[0], p[1]))[:3])
            rows.append(
                (
                    escape(label),
                    Cell(f"{n:,}"),
                    percent(hits / found if found else None),
                    percent(hits / n if n else None),
                    percent(2 * hits / (n + found), bar=True),
                    percent(heads[label] / n if n else None),
                    escape(most),
                )
            )
        header = (
            "Label",
            "Treebank",
            "Precision",
            "Recall",
            "F1",
            "Head right",
            "Most often taken for",
        )
        parts = [table(header, rows, text=[6])]
        parts.append(self._confused(pairs, "Confusion of labels"))
        return Section("Labels", "An arc is right if its head and its label are.", parts)

    def _confused(self, pairs: Counter[tuple[str, str]], title: str) -> str:
        wrong = Counter({pair: n for pair, n in pairs.items() if pair[0] != pair[1]})
        involved: Counter[str] = Counter()
        for (gold, guess), n in wrong.items():
            involved[gold] += n
            involved[guess] += n
        names = sorted(involved, key=lambda name: (-involved[name], name))[:_IN_TABLE]
        total = Counter[str]()
        for (name, _), n in pairs.items():
            total[name] += n
        most = sorted(wrong, key=lambda pair: (-wrong[pair], pair))[:_CONFUSIONS]
        rows: list[Row] = [
            (escape(a), escape(b), Cell(f"{wrong[a, b]:,}"), percent(wrong[a, b] / total[a]))
            for a, b in most
        ]
        listed = table(("Right", "Found", "Times", "Of all"), rows, text=[1])
        return (
            f"<h3>{title}</h3>"
            f'<div class="side"><div>{confusions(names, pairs)}</div><div>{listed}</div></div>'
        )

    def _trust(self) -> Section:
        curves, coverage = {}, {}
        for own in self.found:
            start = f"{own.title}, " if len(self.found) > 1 else ""
            for name, probs, right in (
                ("heads", own.heads, own.head_right),
                ("arcs", own.arcs, own.arc_right),
            ):
                known = own.scored[~numpy.isnan(probs[own.scored])]
                if len(known):
                    curves[f"{start}{name}"] = Reliability.of(probs[known], right[known])
                    coverage[f"{start}{name}"] = probs[known], right[known]
        rows: list[Row] = [
            (
                escape(name),
                percent(curve.mean_probability),
                percent(curve.share_right),
                percent(curve.error),
                Cell(f"{curve.brier:.4f}"),
                *(cell for row in curve.above for cell in (percent(row.share), percent(row.right))),
            )
            for name, curve in curves.items()
        ]
        above = next(iter(curves.values())).above
        header = [
            *("", "Expected", "Right", "Error", "Brier"),
            *(name for row in above for name in (f"≥ {row.threshold:g}", "right")),
        ]
        drawn = render_reliability(curves, title="Reliability")
        kept = render_coverage(coverage, title="Accuracy against coverage")
        intro = (
            "Reliability: how many predictions with some probability are right. On the diagonal, "
            "probabilities are true. Coverage: how many are right if only the most probable ones are kept. "
            "An arc is a head with its label."
        )
        return Section(
            "Probabilities", intro, [f'<div class="side">{drawn}{kept}</div>', table(header, rows)]
        )

    def _worst(self) -> Section:
        first, n = self.first, len(self.sentences)
        of = first.sentence[first.scored]
        wrong = numpy.bincount(of, ~first.arc_right[first.scored], minlength=n)
        sizes = numpy.maximum(numpy.bincount(of, minlength=n), 1)
        parts = ["<h3>Most errors</h3>"]
        for i in self._choose(-wrong / numpy.sqrt(sizes), _DRAWN, need=lambda i: wrong[i] > 0):
            remark = f"{wrong[i]:.0f} of {sizes[i]} arcs are wrong"
            parts.append(self._figure(i, remark, self._drawing(first, i)))
        known = ~numpy.isnan(first.arcs)
        if known.any():
            sums = numpy.bincount(first.sentence[known], first.arcs[known], minlength=n)
            counts = numpy.bincount(first.sentence[known], minlength=n)
            sure = numpy.where(counts, sums / numpy.maximum(counts, 1), 1.0)
            parts.append("<h3>Least confident</h3>")
            for i in self._choose(sure, _DRAWN, need=lambda i: counts[i] > 0):
                remark = f"{sure[i]:.0%} expected, {1 - wrong[i] / sizes[i]:.0%} right"
                parts.append(self._figure(i, remark, self._drawing(first, i)))
        intro = (
            f"Only sentences of {_LEAST_WORDS} to {_MOST_WORDS} words are drawn. Wrong arcs are red; what is "
            "right is green. Point at a word to see its second-best head."
        )
        return Section("Sentences", intro, parts)

    def _doubts(self) -> Section:
        first = self.first
        at = first.scored[~first.arc_right[first.scored] & ~numpy.isnan(first.arcs[first.scored])]
        at = at[numpy.argsort(-first.arcs[at], kind="stable")][:_DOUBTS]
        rows: list[Row] = []
        for i in at.tolist():
            word, sentence = first.words[i], self.sentences[first.sentence[i]]
            doc, parsed = sentence.doc, first.docs[first.sentence[i]]
            token = parsed[word.found]
            ours = _arc(parsed, token.i, token.head.i, word.guess)
            theirs = _arc(doc, word.place, word.head, word.label)
            rows.append(
                (
                    _context(doc, word.place),
                    escape(theirs),
                    escape(ours),
                    Cell(f"{first.arcs[i]:.3f}"),
                    f"<small>{escape(sentence.name)}</small>",
                )
            )
        header = ("Word", "Treebank", "Model", "P of the model's", "Sentence")
        intro = (
            "Arcs of the treebank that the model contradicts with the highest probability. Some of them are "
            "errors of the treebank; look at these first."
        )
        shown = table(header, rows, text=[0, 1, 2, 4]) if rows else "<p>There are none.</p>"
        return Section("Annotation that the model doubts", intro, [shown])

    def _tags(self) -> Section:
        first = self.first
        words = [first.words[i] for i in first.tagged]
        pairs = Counter((w.tag, w.guessed_tag or "none") for w in words)
        gold, right = Counter(w.tag for w in words), Counter(w.tag for w in words if w.tag_right)
        guessed = Counter(w.guessed_tag for w in words if w.guessed_tag)
        rows: list[Row] = [
            (
                escape(tag),
                Cell(f"{gold[tag]:,}"),
                percent(right[tag] / guessed[tag] if guessed[tag] else None),
                percent(right[tag] / gold[tag] if gold[tag] else None),
                percent(2 * right[tag] / (gold[tag] + guessed[tag]), bar=True),
            )
            for tag in sorted(gold | guessed, key=lambda name: (-gold[name], name))
        ]
        shown = table(("Tag", "Treebank", "Precision", "Recall", "F1"), rows)
        side = [f"<div>{shown}</div>"]
        known = first.tagged[~numpy.isnan(first.tags[first.tagged])]
        if len(known):
            curve = Reliability.of(first.tags[known], first.tag_right[known])
            side.append(render_reliability({"tags": curve}, title="Reliability of tags"))
        parts = [
            f'<div class="side">{"".join(side)}</div>',
            self._confused(pairs, "Confusion of tags"),
        ]
        wrong = known[~first.tag_right[known]]
        wrong = wrong[numpy.argsort(-first.tags[wrong], kind="stable")][: _DOUBTS // 2]
        if len(wrong):
            rows = [
                (
                    _context(self.sentences[first.sentence[i]].doc, first.words[i].place),
                    escape(first.words[i].tag),
                    escape(first.words[i].guessed_tag),
                    Cell(f"{first.tags[i]:.3f}"),
                    f"<small>{escape(self.sentences[first.sentence[i]].name)}</small>",
                )
                for i in wrong.tolist()
            ]
            parts.append("<h3>Tags that the model doubts</h3>")
            header = ("Word", "Treebank", "Model", "P of the model's", "Sentence")
            parts.append(table(header, rows, text=[0, 4]))
        return Section("Tags", "", parts)

    def _brackets(self) -> Section:
        counts = self.first.brackets
        rows: list[Row] = [
            (
                escape(label),
                Cell(f"{counts.gold[label]:,}"),
                percent(_ratio(counts.matched[label], counts.predicted[label])),
                percent(_ratio(counts.matched[label], counts.gold[label])),
                percent(
                    2 * counts.matched[label] / (counts.gold[label] + counts.predicted[label]),
                    bar=True,
                ),
            )
            for label in sorted(counts.gold | counts.predicted, key=lambda x: (-counts.gold[x], x))
        ]
        whole: list[Row] = [
            (own.title, *map(percent, (c.precision, c.recall, c.f1, c.exact_match, c.tag_accuracy)))
            for own in self.found
            for c in [own.brackets]
        ]
        header = ("", "Precision", "Recall", "F1", "Exact match", "Tags")
        side = [f"<div>{table(('Label', 'Treebank', 'Precision', 'Recall', 'F1'), rows)}</div>"]
        side.append(f"<div>{self._brackets_by_length()}</div>")
        probs, right = self._bracket_probs()
        if len(probs):
            curve = {"constituents": Reliability.of(probs, right)}
            side.append(render_reliability(curve, title="Reliability of constituents"))
        parts = [table(header, whole), f'<div class="side">{"".join(side)}</div>']
        return Section("Constituents", "Labelled brackets, counted as evalb does.", parts)

    def _brackets_by_length(self) -> str:
        groups: dict[str, list[Example]] = {}
        name = named_ranges(_LENGTHS, " words")
        for doc, sentence in zip(self.first.docs, self.sentences, strict=True):
            own = groups.setdefault(name(len(sentence.doc)), [])
            own.append(Example(doc, sentence.doc))
        rows: list[Row] = []
        for key in sorted(groups, key=range_start):
            counts = count_brackets(groups[key])
            n, f1 = Cell(f"{counts.sentences:,}"), percent(counts.f1, bar=True)
            rows.append((escape(key), n, f1, percent(counts.exact_match)))
        return table(("Length", "Sentences", "F1", "Exact match"), rows)

    def _bracket_probs(self) -> tuple[NDArray, NDArray]:
        found = []
        for doc, sentence in zip(self.first.docs, self.sentences, strict=True):
            gold = {
                (node.label, tree.tokens[node.begin], tree.tokens[node.end - 1])
                for tree in stored_trees(sentence.doc)
                for node in tree.parsed.nodes
            }
            found += [
                (
                    node.prob,
                    (node.label, tree.tokens[node.begin], tree.tokens[node.end - 1]) in gold,
                )
                for tree in stored_trees(doc)
                for node in tree.parsed.nodes
                if node.prob == node.prob
            ]
        values = numpy.array(found, dtype="float64").reshape(-1, 2)
        return values[:, 0], values[:, 1] > 0

    def _worst_brackets(self) -> Section:
        errors = numpy.zeros(len(self.sentences))
        for i, (doc, sentence) in enumerate(zip(self.first.docs, self.sentences, strict=True)):
            c = count_brackets([Example(doc, sentence.doc)])
            n = c.gold.total() + c.predicted.total()
            errors[i] = 1 - 2 * c.matched.total() / n if n else 0.0
        parts = []
        for i in self._choose(-errors, _DRAWN, need=lambda i: errors[i] > 0):
            gold, ours = (stored_trees(own) for own in (self.sentences[i].doc, self.first.docs[i]))
            if len(gold) == len(ours) == 1:
                words = [self.sentences[i].doc[k].text for k in gold[0].tokens]
                drawing = tree_svg(ours[0].parsed, words, gold=gold[0].parsed)
                parts.append(
                    self._figure(
                        i, f"F1 {1 - errors[i]:.0%}", f'<div class="scroll">{drawing}</div>'
                    )
                )
        intro = "Wrong brackets are red; missing ones are green and dashed, below the words."
        return Section("Sentences and their constituents", intro, parts)

    def _choose(self, order: NDArray, n: int, need: Callable[[int], Any]) -> list[int]:
        """The first sentences of an order that can be looked at and were not drawn yet."""
        chosen = []
        for i in numpy.argsort(order, kind="stable").tolist():
            doc = self.sentences[i].doc
            size = sum(not token.is_space for token in doc)
            if _LEAST_WORDS <= size <= _MOST_WORDS and doc.text not in self._drawn and need(i):
                chosen.append(i)
                self._drawn.add(doc.text)
                if len(chosen) == n:
                    break
        return chosen

    def _figure(self, i: int, remark: str, *drawings: str) -> str:
        sentence = self.sentences[i]
        return figure(sentence.name, surface(sentence.doc).text, remark, *drawings)

    def _drawing(self, measured: Measured, i: int) -> str:
        doc = measured.docs[i]
        gold = {
            word.found: (word.head_found, word.label)
            for word in (measured.words[k] for k in numpy.flatnonzero(measured.sentence == i))
            if word.label and word.found >= 0 and word.head_found >= 0
        }
        return arcs_html(tree_words(doc, gold))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _arc(doc: Doc, place: int, head: int, label: str) -> str:
    return label if place == head else f"{label} ← {doc[head].text}"


def _context(doc: Doc, place: int) -> str:
    """A word with some words to both sides, as markup."""
    before, after = doc[max(place - 5, 0) : place].text, doc[place + 1 : place + 6].text
    return f"{escape(before)} <mark>{escape(doc[place].text)}</mark> {escape(after)}"
