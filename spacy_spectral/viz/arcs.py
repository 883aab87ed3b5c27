"""Dependency trees with what is wrong with them: words in a row with arcs above, or in a column.

A row is as wide as its words and labels need. A column is for narrow screens and long sentences: every word
has a line of its own with its label, so it is never too wide. A page has both, and shows the one that fits.

Arcs are as opaque as they are probable. Wrong ones are marked, and what is right is drawn below the words.
The second-best head of a word is shown when the pointer is on the word or its arc; in a file of its own,
where there is no pointer, below the words. Colours are those of the page, light or dark (`markup.colours`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import NamedTuple

from .markup import colours, format_probability, n_columns, opacity, svg_head, text_width

# beyond this, words are in a column
MOST_WIDTH = 1140.0
_WORD, _LABEL, _TAG = 8.3, 6.3, 6.8  # widths of characters, on the safe side
_GAP, _MARGIN, _LEVEL, _PORT = 16.0, 12.0, 24.0, 5.0
_LINE, _INDENT, _BRANCH = 20.0, 14.0, 11.0


class Arc(NamedTuple):
    """An arc to a word.

    head: The place of its head; its own for the root.
    """

    head: int
    label: str
    prob: float | None = None


@dataclass
class Word:
    """A word, and the arcs to it.

    arc: That of the tree; None if there is none.
    gold: What is right; None if that is not known.
    other: The likeliest arc that is not in the tree.
    """

    text: str
    tag: str = ""
    arc: Arc | None = None
    gold: Arc | None = None
    other: Arc | None = None

    @property
    def is_wrong(self) -> bool:
        return self.gold is not None and not (
            self.arc is not None
            and self.arc.head == self.gold.head
            and self.arc.label.lower() == self.gold.label.lower()
        )


STYLE = """
.arcs svg { display: block; max-width: 100%; height: auto; direction: ltr; }
.arcs text { fill: var(--ink); } .arcs .tag, .arcs .number { fill: var(--soft); }
.arcs path { fill: none; } .arcs .line { stroke: var(--line); } .arcs .tip { fill: var(--line); }
.arcs .hit { stroke: transparent; stroke-width: 12; }
.arcs .label { paint-order: stroke; stroke: var(--card); stroke-width: 7; }
.arcs .wrong .line { stroke: var(--wrong); } .arcs .wrong .label { fill: var(--wrong); }
.arcs .wrong .tip { fill: var(--wrong); }
.arcs .gold .line { stroke: var(--right); stroke-dasharray: 5 3; } .arcs .gold .tip { fill: var(--right); }
.arcs .gold text, .arcs text.gold { fill: var(--right); }
.arcs .rival .line { stroke: var(--other); stroke-dasharray: 2 3; } .arcs .rival .tip { fill: var(--other); }
.arcs .rival text { fill: var(--other); }
.arcs .other { visibility: hidden; } .arcs .other .hit { display: none; }
.arcs .other .line { stroke: var(--other); stroke-dasharray: 2 3; } .arcs .other .tip { fill: var(--other); }
.arcs .word .other .label { fill: var(--other); }
.arcs .word:hover .other { visibility: visible; } .arcs .word:hover .line { stroke-width: 2.6; }
.arcs .column { display: none; } .arcs.long .row { display: none; } .arcs.long .column { display: block; }
@media (max-width: 700px) { .arcs .row { display: none; } .arcs .column { display: block; } }
"""


def arcs_html(words: Sequence[Word], *, direction: str = "ltr") -> str:
    """Draw a tree in both layouts; it needs `STYLE`.

    direction: "rtl" if the first word is to be on the right.
    """
    row, width = _Row(words, direction).svg()
    if width > MOST_WIDTH:
        return f'<div class="arcs long">{_column(words)}</div>'
    return f'<div class="arcs">{row}{_column(words)}</div>'


def arcs_svg(words: Sequence[Word], *, direction: str = "ltr", least: float = 0.05) -> str:
    """Draw a tree as a file of its own, with the second-best arcs that are at least so probable."""
    return _Row(words, direction, least).svg()[0]


def arc_name(words: Sequence[Word], arc: Arc, place: int) -> str:
    """An arc in words: "obl <- saw .74"."""
    return arc_text(arc.label, None if arc.head == place else words[arc.head].text, arc.prob)


def arc_text(label: str, head: str | None, prob: float | None) -> str:
    """See `arc_name`; the root has no head."""
    number = "" if prob is None else f" {format_probability(prob)}"
    return f"{label}{'' if head is None else f' ← {head}'}{number}"


def _title(words: Sequence[Word], place: int) -> str:
    word = words[place]
    parts = [f"{word.text}: {arc_name(words, word.arc, place)}" if word.arc else word.text]
    if word.other is not None:
        parts.append(f"second best: {arc_name(words, word.other, place)}")
    if word.is_wrong and word.gold is not None:
        parts.append(f"right: {arc_name(words, word.gold, place)}")
    return f"<title>{escape(chr(10).join(parts))}</title>"


def _shown_label(arc: Arc) -> str:
    return arc.label if arc.prob is None else f"{arc.label} {format_probability(arc.prob)}"


def _label_markup(arc: Arc) -> str:
    number = "" if arc.prob is None else format_probability(arc.prob)
    tail = f' <tspan class="number">{escape(number)}</tspan>' if number else ""
    return escape(arc.label) + tail


def _solid(arc: Arc) -> str:
    return "" if arc.prob is None else f' opacity="{opacity(arc.prob):.2f}"'


def _levels(arcs: Sequence[tuple[int, int]]) -> list[int]:
    """How high arcs are, so that none runs through another one's top: 1 for the lowest."""
    levels = [0] * len(arcs)
    spans = [(min(arc), max(arc)) for arc in arcs]
    done: list[int] = []
    for i in sorted(range(len(arcs)), key=lambda i: (spans[i][1] - spans[i][0], spans[i])):
        (start, end) = spans[i]
        inside = [levels[j] for j in done if max(start, spans[j][0]) < min(end, spans[j][1])]
        levels[i] = 1 + max(inside, default=0)
        done.append(i)
    return levels


@dataclass
class _Row:
    """Words in a row.

    least: Second-best arcs of this probability stand below the words; None if the pointer shows them.
    """

    words: Sequence[Word]
    direction: str = "ltr"
    least: float | None = None
    centres: list[float] = field(default_factory=list)

    def svg(self) -> tuple[str, float]:
        """RETURNS: The drawing, and how wide it is."""
        words = self.words
        arcs = [(i, w.arc) for i, w in enumerate(words) if w.arc is not None]
        others = self._others()
        width = self._place([*arcs, *((i, arc) for _, i, arc in others)])
        ends = [(i, arc.head) for i, arc in arcs]
        levels = _levels([pair for pair in ends if pair[0] != pair[1]])
        numbers = iter(levels)
        heights = [next(numbers) if i != head else 0 for i, head in ends]
        top = max(heights, default=0) + 1
        heights = [height or top for height in heights]
        y: float = _MARGIN + _LEVEL * top + 6
        own = dict(zip((i for i, _ in arcs), heights, strict=True))
        below = self._below(others, y + 50)
        parts = []
        for i, word in enumerate(words):
            drawn = []
            if word.arc is not None:
                drawn.append(self._arc(i, word.arc, y, own[i], top, up=True))
            x = self.centres[i]
            if word.other is not None and self.least is None:
                height = self._height_of(i, word.other, own)
                other = self._arc(i, word.other, y, min(height, top), top, up=True)
                drawn.append(f'<g class="other">{other}</g>')
            drawn.append(
                f'<text x="{x:.1f}" y="{y + 20:.1f}" font-size="15">{escape(word.text)}</text>'
            )
            if word.tag:
                drawn.append(
                    f'<text class="tag" x="{x:.1f}" y="{y + 36:.1f}" font-size="11">{escape(word.tag)}</text>'
                )
            kind = "word wrong" if word.is_wrong else "word"
            parts.append(f'<g class="{kind}">{_title(words, i)}{"".join(drawn)}</g>')
        bottom = y + 50 + (_LEVEL * (below[1] + 0.6) if others else 0)
        head = svg_head("row", width, bottom, font_size=11, more='text-anchor="middle"')
        drawn_all = f"{''.join(parts)}{below[0]}"
        if self.least is None:
            return f"{head}{drawn_all}</svg>", width
        page = '<rect class="page" width="100%" height="100%" fill="#ffffff"/>'
        style = f"<style>{colours('.row')}.row .page {{ fill: var(--card); }}{STYLE}</style>"
        return f'{head}{style}{page}<g class="arcs">{drawn_all}</g></svg>', width

    def _others(self) -> list[tuple[str, int, Arc]]:
        """Arcs that are drawn below the words: what they are, and the places of their words."""
        found = []
        for i, word in enumerate(self.words):
            if word.is_wrong and word.gold is not None:
                found.append(("gold", i, word.gold))
            other = word.other
            if other is not None and self.least is not None and (other.prob or 0.0) >= self.least:
                found.append(("rival", i, other))
        return found

    def _height_of(self, i: int, other: Arc, own: dict[int, int]) -> int:
        low, high = sorted((i, other.head))
        inside = [
            height
            for j, height in own.items()
            if (arc := self.words[j].arc) is not None
            and low <= min(j, arc.head)
            and max(j, arc.head) <= high
        ]
        return 1 + max(inside, default=0) if low != high else 10**6

    def _place(self, arcs: Sequence[tuple[int, Arc]]) -> float:
        """Find the centres of words: words must not touch, and labels must fit below their arcs."""
        widths = [
            max(text_width(word.text, _WORD), text_width(word.tag, _TAG), 10.0) + _GAP
            for word in self.words
        ]
        for i, arc in arcs:
            if arc.head == i:
                widths[i] = max(widths[i], text_width(_shown_label(arc), _LABEL) + 6)
        gaps = [(a + b) / 2 for a, b in pairwise(widths)]
        for i, arc in sorted(arcs, key=lambda pair: abs(pair[0] - pair[1].head)):
            low, high = sorted((i, arc.head))
            needed = text_width(_shown_label(arc), _LABEL) + 12 + 2 * _PORT
            lacking = needed - sum(gaps[low:high])
            if high > low and lacking > 0:
                for between in range(low, high):
                    gaps[between] += lacking / (high - low)
        self.centres = [_MARGIN + widths[0] / 2] if self.words else []
        for gap in gaps:
            self.centres.append(self.centres[-1] + gap)
        width = (self.centres[-1] + widths[-1] / 2 if self.words else 0.0) + _MARGIN
        if self.direction == "rtl":
            self.centres = [width - centre for centre in self.centres]
        return width

    def _port(self, i: int, arc: Arc) -> float:
        """Where an arc leaves its head: beside the arc to that, towards the word."""
        own = self.centres
        return own[arc.head] + (_PORT if own[i] > own[arc.head] else -_PORT)

    def _arc(self, i: int, arc: Arc, y: float, level: int, top: int, *, up: bool) -> str:
        side = -1 if up else 1
        x, peak = self.centres[i], y + side * _LEVEL * level
        tip = f"M{x:.1f},{y:.1f} l-4,{side * 8} h8 Z"
        if arc.head == i:
            peak = y + side * _LEVEL * top
            path, middle = f"M{x:.1f},{y + side * 7:.1f} V{peak:.1f}", x
        else:
            start = self._port(i, arc)
            away = 1 if x > start else -1
            bend = min(10.0, abs(x - start) / 2)
            path = (
                f"M{start:.1f},{y:.1f} V{peak - side * bend:.1f} "
                f"Q{start:.1f},{peak:.1f} {start + away * bend:.1f},{peak:.1f} H{x - away * bend:.1f} "
                f"Q{x:.1f},{peak:.1f} {x:.1f},{peak - side * bend:.1f} V{y + side * 7:.1f}"
            )
            middle = (start + x) / 2
        solid = _solid(arc) if up else ""  # below the words are few, which must be seen
        return (
            f'<path class="hit" d="{path}"/><path class="line" stroke-width="1.6" d="{path}"{solid}/>'
            f'<path class="tip" d="{tip}"{solid}/>'
            f'<text class="label" x="{middle:.1f}" y="{peak + 4:.1f}">{_label_markup(arc)}</text>'
        )

    def _below(self, others: Sequence[tuple[str, int, Arc]], y: float) -> tuple[str, int]:
        """Arcs below the words, and how many levels they take."""
        ends = [(i, arc.head) for _, i, arc in others]
        numbers = iter(_levels([pair for pair in ends if pair[0] != pair[1]]))
        heights = [next(numbers) if i != head else 0 for i, head in ends]
        top = max(heights, default=0) + any(not height for height in heights)
        drawn = [
            f'<g class="{kind}">{self._arc(i, arc, y - 8, height or top, top, up=False)}</g>'
            for (kind, i, arc), height in zip(others, heights, strict=True)
        ]
        return "".join(drawn), top


def _column(words: Sequence[Word]) -> str:
    """Words from top to bottom, each with its label; what is right stands in a line below a wrong one."""
    arcs = [(i, w.arc) for i, w in enumerate(words) if w.arc is not None]
    pairs = [(i, arc.head) for i, arc in arcs if arc.head != i]
    levels = dict(zip((i for i, _ in pairs), _levels(pairs), strict=True))
    branch = min(_BRANCH, 110.0 / max(levels.values(), default=1))
    base = _MARGIN + branch * max(levels.values(), default=0) + 8
    at, y = [], _MARGIN + 6
    for word in words:
        at.append(y)
        y += _LINE * (1.85 if word.is_wrong else 1.0)
    texts = [_shortened(word.text) for word in words]
    labels = base + _INDENT + max((text_width(text, _WORD) for text in texts), default=0.0) + 12
    width = labels + 40
    parts = []
    for i, word in enumerate(words):
        drawn, x, middle = [], base, at[i]
        if word.arc is not None:
            if word.arc.head != i:
                left = base - branch * levels[i]
                begin = at[word.arc.head] + (3 if i > word.arc.head else -3)
                near, bend = left + 5, 5 if middle > begin else -5
                path = (
                    f"M{x:.1f},{begin:.1f} H{near:.1f} Q{left:.1f},{begin:.1f} {left:.1f},{begin + bend:.1f} "
                    f"V{middle - bend:.1f} Q{left:.1f},{middle:.1f} {near:.1f},{middle:.1f} H{x:.1f}"
                )
            else:
                path = f"M{_MARGIN / 2:.1f},{middle:.1f} H{x:.1f}"
            solid = _solid(word.arc)
            drawn.append(f'<path class="line" stroke-width="1.5" d="{path}"{solid}/>')
            drawn.append(f'<path class="tip" d="M{x + 7:.1f},{middle:.1f} l-8,-4 v8 Z"{solid}/>')
            shown = _label_markup(word.arc)
            drawn.append(
                f'<text class="label" x="{labels:.1f}" y="{middle + 4:.1f}">{shown}</text>'
            )
            end = labels + text_width(_shown_label(word.arc), _LABEL) + 12
            if word.other is not None and (word.arc.prob or 0) < 0.9:
                name = _shortened(f"or {arc_name(words, word.other, i)}", 30)
                place = f'x="{end:.1f}" y="{middle + 4:.1f}"'
                drawn.append(f'<text class="tag" {place} font-size="10">{escape(name)}</text>')
                end += text_width(name, 5.6) + 8
            width = max(width, end)
        text = escape(texts[i])
        drawn.append(
            f'<text x="{base + _INDENT:.1f}" y="{middle + 5:.1f}" font-size="14">{text}</text>'
        )
        if word.is_wrong and word.gold is not None:
            name = f"right: {arc_name(words, word.gold, i)}"
            drawn.append(
                f'<text class="gold" x="{base + _INDENT:.1f}" y="{middle + 20:.1f}">{escape(name)}</text>'
            )
            width = max(width, base + _INDENT + text_width(name, _LABEL) + _MARGIN)
        kind = "word wrong" if word.is_wrong else "word"
        parts.append(f'<g class="{kind}">{_title(words, i)}{"".join(drawn)}</g>')
    head = svg_head("column", width, y + _MARGIN, font_size=11, more="")
    return f"{head}{''.join(parts)}</svg>"


def _shortened(text: str, most: int = 18) -> str:
    if n_columns(text) <= most:
        return text
    while n_columns(text) > most - 1:
        text = text[:-1]
    return f"{text}…"
