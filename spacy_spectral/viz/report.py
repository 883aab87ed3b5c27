"""The blocks that pages of figures are made of: tiles, tables with bars, tables of confusions, sections."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from .arcs import STYLE as ARCS
from .markup import html_page

_STYLE = """
body { max-width: 78rem; font-size: 16px; line-height: 1.5; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 0.25rem; } h3 { font-size: 1rem; margin: 1.5rem 0 0.4rem; }
p { max-width: 46rem; margin: 0.3rem 0 0.9rem; } .soft { color: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 1rem 0; } a { color: var(--first); }
.tiles { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 1rem 0; }
.tile { background: var(--card); border: 1px solid var(--border); border-radius: 8px; padding: 0.6rem 1rem;
        min-width: 7.5rem; }
.tile b { display: block; font-size: 1.45rem; font-weight: 600; } .tile span { color: var(--soft);
        font-size: 0.85rem; display: block; }
.scroll { overflow-x: auto; max-width: 100%; } .side { display: flex; flex-wrap: wrap; gap: 0.5rem 2.5rem; }
.side > * { max-width: 100%; }
table { border-collapse: collapse; margin: 0.4rem 0 1rem; font-size: 0.92rem; }
th, td { padding: 0.22rem 0.75rem; text-align: right; border-bottom: 1px solid var(--border);
         vertical-align: top; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.text, th.text { text-align: left; white-space: normal; } td.text { min-width: 9rem; }
small { color: var(--soft); overflow-wrap: anywhere; }
td.bar { background: linear-gradient(var(--track), var(--track)) no-repeat left center / var(--share) 70%;
         --track: color-mix(in srgb, var(--first) 22%, transparent); }
.better { color: var(--right); } .worse { color: var(--wrong); }
mark { background: none; color: var(--wrong); font-weight: 600; }
.heat td { text-align: center; padding: 0.2rem 0.4rem; min-width: 2rem; }
.heat td:first-child { text-align: left; }
.heat th { padding: 0.2rem 0.4rem; } .heat .same { color: var(--soft); }
figure { margin: 0 0 1rem; padding: 0.8rem 1rem; background: var(--card); border-radius: 8px;
         border: 1px solid var(--border); }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0.2rem 2rem;
             margin-bottom: 0.5rem; overflow-wrap: anywhere; }
figcaption span:last-child { color: var(--soft); font-size: 0.9rem; }
@media (max-width: 700px) { table { font-size: 0.8rem; } th, td { padding: 0.2rem 0.3rem; }
  th { white-space: normal; } td.text { white-space: nowrap; }
  .tile { padding: 0.5rem 0.75rem; min-width: 6rem; } figure { padding: 0.6rem; } }
@media print { figure, table { break-inside: avoid; } }
"""


class Cell(NamedTuple):
    """A number in a table, perhaps with a bar behind it, or in a colour.

    share: How long the bar is, of 1; None for none.
    kind: "better", "worse" or nothing.
    """

    text: str
    share: float | None = None
    kind: str = ""


Row = Sequence[Cell | str]


def percent(value: float | None, *, bar: bool = False) -> Cell:
    """A share as a cell."""
    if value is None or value != value:
        return Cell("-")
    return Cell(f"{100 * value:.1f} %", value if bar else None)


def difference(value: float | None) -> Cell:
    """A difference of two shares as a cell, in points."""
    if value is None or value != value:
        return Cell("-")
    kind = "better" if value > 0.0005 else "worse" if value < -0.0005 else ""
    return Cell(f"{100 * value:+.1f}", kind=kind)


def table(header: Sequence[str], rows: Iterable[Row], *, text: Sequence[int] = ()) -> str:
    """A table; what is `str` is markup.

    text: Columns of words, which may have several lines.
    """

    def cell(i: int, value: Cell | str) -> str:
        if isinstance(value, str):
            return f'<td class="text">{value}</td>' if i in text else f"<td>{value}</td>"
        kinds = " ".join(filter(None, ["bar" if value.share is not None else "", value.kind]))
        bar = "" if value.share is None else f' style="--share: {100 * value.share:.1f}%"'
        return f"<td{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}{bar}>{escape(value.text)}</td>"

    head = "".join(
        f'<th class="text">{escape(name)}</th>' if i in text else f"<th>{escape(name)}</th>"
        for i, name in enumerate(header)
    )
    body = "".join(
        f"<tr>{''.join(cell(i, value) for i, value in enumerate(row))}</tr>\n" for row in rows
    )
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def confusions(names: Sequence[str], counts: Mapping[tuple[str, str], int]) -> str:
    """A table of how often each of some names was taken for each other, as shades."""
    most = max(
        (n for (a, b), n in counts.items() if a != b and a in names and b in names), default=1
    )

    def cell(gold: str, guess: str) -> str:
        n = counts.get((gold, guess), 0)
        if gold == guess:
            return f'<td class="same">{n:,}</td>'
        shade = f"color-mix(in srgb, var(--wrong) {75 * n / most:.0f}%, transparent)"
        told = f"{escape(gold)} as {escape(guess)}: {n}"
        return f'<td style="background: {shade}" title="{told}">{n or ""}</td>'

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><td>{escape(gold)}</td>{''.join(cell(gold, guess) for guess in names)}</tr>\n"
        for gold in names
    )
    head = f"<tr><th>right ↓ found →</th>{head}</tr>\n"
    return f'<div class="scroll"><table class="heat">\n{head}{rows}</table></div>'


def tiles(values: Iterable[tuple[str, str, str]]) -> str:
    """The most important numbers: title, number, and a remark."""
    shown = "".join(
        f'<div class="tile">{escape(title)}<b>{escape(number)}</b><span>{escape(remark)}</span></div>'
        for title, number, remark in values
    )
    return f'<div class="tiles">{shown}</div>'


def figure(name: str, text: str, remark: str, *drawings: str) -> str:
    """A drawn sentence with its name, its text and a remark."""
    return (
        f'<figure><figcaption><span><span class="soft">{escape(name)}</span> {escape(text)}</span>'
        f"<span>{escape(remark)}</span></figcaption>{''.join(drawings)}</figure>"
    )


class Section(NamedTuple):
    """A part of a page, with a heading and a few words on what is in it."""

    title: str
    intro: str
    parts: Sequence[str]


def report_page(title: str, subtitle: str, sections: Sequence[Section], *, direction: str) -> str:
    """Make the page, with links to its sections."""
    links = "".join(f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
    parts = [f'<p class="soft">{escape(subtitle)}</p>', f"<nav>{links}</nav>"]
    for i, own in enumerate(sections):
        intro = f"<p>{escape(own.intro)}</p>" if own.intro else ""
        parts.append(f'<section id="s{i}"><h2>{escape(own.title)}</h2>{intro}')
        parts += [*own.parts, "</section>"]
    return html_page(title, parts, style=_STYLE + ARCS, direction=direction)
