"""Pictures of automata: DOT, and a layered SVG layout that needs no other program.

States stand in columns from left to right, and an edge to another state passes through all columns
between them. Labels have columns of their own between those of the
states, where each takes part in the layout like a node; so neither labels nor states can overlap,
and no edge runs over a label but its own (Sugiyama's method). All sums are done in a fixed order: the same
automaton gives the same bytes.
"""

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy

from .markup import INK, format_probability, svg_head

if TYPE_CHECKING:
    from .automaton import AutomatonEdge, AutomatonGraph

_RADIUS = 23.0
_FONT_SIZE = 12.0
_CHARACTER = 6.8  # width, on the safe side
_LINE = 15.0
_COLUMN_GAP = 30.0
_LOOP = 30.0  # height of a self loop over its state
_STOP_DROP = 48.0  # from the rim of a state to the lower edge of its STOP sign
_STOP_WIDTH = 72.0
_MARGIN = 16.0
_TITLE = 34.0
_LABELS_IN_LINE = 2
_MOST_LABELS = 6
_LEAST_STOP = 0.005  # smaller probabilities of STOP are not drawn
_GAP = 14.0  # between neighbours of a column
_SWEEPS = 60

_FORWARD = "#2f6690"
_BACK = "#b3541e"
_FILL = "#eaf2f8"
_FIRST = "#cfe3f1"
_STOP = "#7d8894"


def to_dot(graph: "AutomatonGraph") -> str:
    """The automaton in the language of Graphviz."""

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    lines = [
        "digraph automaton {",
        "    rankdir=LR;",
        f"    label={quoted(_title(graph))};",
        "    labelloc=t;",
        '    node [shape=circle, fontname="Helvetica"];',
        '    edge [fontname="Helvetica", fontsize=10];',
        "    START [shape=plaintext];",
        "    STOP [shape=doublecircle];",
        "    START -> 0;",
    ]
    for number, state in enumerate(graph.states):
        share = format_probability(state.probability)
        lines.append(f"    {number} [label={quoted(f'{number}')}, xlabel={quoted(share)}];")
        if state.stop >= _LEAST_STOP:
            lines.append(f"    {number} -> STOP [label={quoted(format_probability(state.stop))}];")
    for edge in graph.edges:
        label = ", ".join(_transition(name, p) for name, p in edge.symbols)
        lines.append(f"    {edge.source} -> {edge.target} [label={quoted(label)}];")
    return "\n".join([*lines, "}"]) + "\n"


@dataclass(eq=False)
class Item:
    """Something that has a place in a column: a state, a label, or a bend of an edge."""

    column: int
    above: float
    below: float
    width: float = 0.0
    neighbours: list[tuple["Item", float]] = field(default_factory=list)
    y: float = 0.0


@dataclass
class _Route:
    """An edge with the items it passes, in the direction of reading (left to right)."""

    edge: "AutomatonEdge"
    back: bool
    items: list[Item]
    label: Item
    lines: list[str]


def to_svg(graph: "AutomatonGraph") -> str:
    """Draw an automaton: states with their share of visits, START, STOP, transitions."""
    loops = {edge.source: edge for edge in graph.edges if edge.source == edge.target}
    ranks = _ranks(graph)
    states = [
        _state_item(2 * rank, loops.get(number), state.stop)
        for number, (rank, state) in enumerate(zip(ranks, graph.states, strict=True))
    ]
    routes = [_route(edge, states, ranks) for edge in graph.edges if edge.source != edge.target]
    columns: list[list[Item]] = [[] for _ in range(2 * max(ranks) + 1)]
    for item in [*states, *(item for route in routes for item in route.items[1:-1])]:
        columns[item.column].append(item)
    for route in routes:
        for left, right in pairwise(route.items):
            # bends of one edge pull at each other more: long edges become straight
            pull = 1.0 if left in states or right in states else 8.0
            left.neighbours.append((right, pull))
            right.neighbours.append((left, pull))
    place(columns)
    return _Picture(graph, columns, states, routes, loops).svg()


def _ranks(graph: "AutomatonGraph") -> list[int]:
    """Column of every state: connected states get different ones, by the longest path to each."""
    ranks = [0] * len(graph.states)
    pairs = {tuple(sorted((e.source, e.target))) for e in graph.edges if e.source != e.target}
    # sorted by the lower state, every path is complete before it is used
    for low, high in sorted(pairs):
        ranks[high] = max(ranks[high], ranks[low] + 1)
    return ranks


def _transition(name: str, probability: float) -> str:
    # a full stop or comma would be taken for part of the number or the list
    shown = name if any(character.isalnum() for character in name) else f"“{name}”"
    return f"{shown} {format_probability(probability)}"


def _label_lines(edge: "AutomatonEdge") -> list[str]:
    parts = [_transition(name, p) for name, p in edge.symbols]
    if len(parts) > _MOST_LABELS:
        rest = sum(p for _, p in edge.symbols[_MOST_LABELS - 1 :])
        more = f"{len(parts) - _MOST_LABELS + 1} more {format_probability(rest)}"
        parts = [*parts[: _MOST_LABELS - 1], more]
    rows = [parts[i : i + _LABELS_IN_LINE] for i in range(0, len(parts), _LABELS_IN_LINE)]
    return [", ".join(row) for row in rows]


def _text_width(lines: list[str]) -> float:
    return max(len(line) for line in lines) * _CHARACTER * _FONT_SIZE / 12.0


def _state_item(column: int, loop: "AutomatonEdge | None", stop: float) -> Item:
    item = Item(column, _RADIUS, _RADIUS, 2 * _RADIUS)
    if stop >= _LEAST_STOP:
        item.below += _STOP_DROP
        item.width = max(item.width, _STOP_WIDTH)
    if loop is not None:
        lines = _label_lines(loop)
        item.above += _LOOP + len(lines) * _LINE
        item.width = max(item.width, _text_width(lines))
    return item


def _route(edge: "AutomatonEdge", states: list[Item], ranks: list[int]) -> _Route:
    low, high = sorted((edge.source, edge.target), key=lambda state: ranks[state])
    first, last = states[low].column, states[high].column
    middle = (first + last) // 2
    label_column = middle if middle % 2 else middle - 1
    lines = _label_lines(edge)
    height = len(lines) * _LINE / 2
    label = Item(label_column, height, height, _text_width(lines) + 8)
    bends = [
        label if column == label_column else Item(column, 2.0, 2.0)
        for column in range(first + 1, last)
    ]
    return _Route(edge, edge.source == high, [states[low], *bends, states[high]], label, lines)


def place(columns: list[list[Item]]) -> None:
    """Sort the items of every column in place, from top to bottom, by where their neighbours are; then move
    them as near to these as order and size allow.
    """
    for column in columns:
        for position, item in enumerate(column):
            item.y = position - (len(column) - 1) / 2
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            wanted = {id(item): _centre(item, 1 if forward else -1) for item in column}
            column.sort(key=lambda item: wanted[id(item)])
            for position, item in enumerate(column):
                item.y = position - (len(column) - 1) / 2
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _settle(column, [_centre(item, 0) for item in column])


def _centre(item: Item, side: int) -> float:
    """Mean height of the neighbours: of those before (side 1), after (-1), or all (0)."""
    near = [
        (other.y, pull)
        for other, pull in item.neighbours
        if side == 0 or (item.column - other.column) * side > 0
    ]
    if not near:
        return item.y
    return sum(y * pull for y, pull in near) / sum(pull for _, pull in near)


def _settle(column: list[Item], wanted: list[float]) -> None:
    """The heights closest to the wanted ones (least squares) that keep order and distance. With the
    distances taken off this is isotonic regression: pool adjacent violators."""
    offsets = [0.0]
    for upper, lower in pairwise(column):
        offsets.append(offsets[-1] + upper.below + lower.above + _GAP)
    blocks: list[list[float]] = []  # mean, size
    for value, offset in zip(wanted, offsets, strict=True):
        blocks.append([value - offset, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, size = blocks.pop()
            blocks[-1][0] = (blocks[-1][0] * blocks[-1][1] + mean * size) / (blocks[-1][1] + size)
            blocks[-1][1] += size
    means = [mean for mean, size in blocks for _ in range(int(size))]
    for item, mean, offset in zip(column, means, offsets, strict=True):
        item.y = mean + offset


class _Picture:
    """Items with heights become shapes with coordinates."""

    def __init__(self, graph, columns, states, routes, loops) -> None:
        self.graph = graph
        self.states = states
        self.routes = routes
        self.loops = loops
        self.widths = [max(item.width for item in column) for column in columns]
        start = _MARGIN + 62.0  # room for START
        self.centres = []
        for width in self.widths:
            self.centres.append(start + width / 2)
            start += width + _COLUMN_GAP
        self.width = max(start - _COLUMN_GAP + _MARGIN, 2 * _MARGIN + 8.2 * len(_title(graph)))
        items = [item for column in columns for item in column]
        shift = _TITLE + _MARGIN - min(item.y - item.above for item in items)
        for item in items:
            item.y += shift
        self.height = max(item.y + item.below for item in items) + _MARGIN
        self.ports = self._ports()

    def _ports(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Where routes touch their two states: side by side on the rim, in order of arrival."""
        ports = {}
        for state in self.states:
            for end in (0, -1):
                touching = [r for r in self.routes if r.items[end] is state]
                touching.sort(key=lambda r: r.items[1 if end == 0 else -2].y)
                for i, route in enumerate(touching):
                    step = min(13.0, 1.5 * _RADIUS / len(touching))
                    dy = (i - (len(touching) - 1) / 2) * step
                    dx = (_RADIUS**2 - dy**2) ** 0.5 + 1.5
                    x = self.centres[state.column] + (dx if end == 0 else -dx)
                    ports[id(route), end] = (x, state.y + dy)
        return ports

    def svg(self) -> str:
        # lines first: labels and states cover them
        parts = [self._line(route) for route in self.routes]
        parts += [self._label(route) for route in self.routes]
        parts += [self._state(number) for number in range(len(self.states))]
        title = escape(_title(self.graph))
        more = f'fill="{INK}" role="img" aria-label="{title}"'
        return "\n".join(
            [
                svg_head("automaton", self.width, self.height, font_size=_FONT_SIZE, more=more),
                f"<title>{title}</title>",
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                f'<text x="{_MARGIN:g}" y="{_MARGIN + 10:g}" font-size="15" '
                f'font-weight="bold">{title}</text>',
                *parts,
                "</svg>\n",
            ]
        )

    def _line(self, route: _Route) -> str:
        """Straight through every column, curved between them; the arrow head lies level."""
        (x, y), (end_x, end_y) = self.ports[id(route), 0], self.ports[id(route), -1]
        head = 8.0
        tip, sign = ((x, y), 1.0) if route.back else ((end_x, end_y), -1.0)
        if route.back:
            x += head
        else:
            end_x -= head
        path = [f"M{x:.1f},{y:.1f}"]
        for item in route.items[1:-1]:
            centre, half = self.centres[item.column], self.widths[item.column] / 2
            path.append(_curve(x, y, centre - half, item.y))
            path.append(f"H{centre + half:.1f}")
            x, y = centre + half, item.y
        path.append(_curve(x, y, end_x, end_y))
        color = _BACK if route.back else _FORWARD
        probability = route.edge.probability
        return (
            f'<g opacity="{_opacity(probability):.2f}">'
            f'<path d="{" ".join(path)}" fill="none" stroke="{color}" '
            f'stroke-width="{_stroke(probability):.2f}"/>'
            f"{_arrow(*tip, sign * head, 0.0, color)}</g>"
        )

    def _label(self, route: _Route) -> str:
        x, y = self.centres[route.label.column], route.label.y
        width, height = route.label.width, 2 * route.label.above
        box = (
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="4" fill="#ffffff"/>'
        )
        return box + _text(route.lines, x, y - height / 2, _BACK if route.back else _FORWARD)

    def _state(self, number: int) -> str:
        item, state = self.states[number], self.graph.states[number]
        x, y = self.centres[item.column], item.y
        examples = "; ".join(" ".join(prefix) or "(none)" for prefix in state.prefixes)
        parts = [
            f"<g><title>{escape(f'after {examples}')}</title>",
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:g}" stroke="{INK}" '
            f'stroke-width="1.5" fill="{_FILL if number else _FIRST}"/>',
            f'<text x="{x:.1f}" y="{y + 1:.1f}" text-anchor="middle" font-size="15" '
            f'font-weight="bold">{number}</text>',
            f'<text x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle" font-size="10">'
            f"{_percent(state.probability)}</text></g>",
        ]
        if number in self.loops:
            parts.append(self._loop(self.loops[number], x, y))
        if number == 0:
            start = x - _RADIUS - 1.5
            parts.append(
                f'<text x="{start - 66:.1f}" y="{y + 4:.1f}" font-weight="bold">START</text>'
                f'<path d="M{start - 22:.1f},{y:.1f} H{start - 8:.1f}" stroke="{INK}" '
                f'stroke-width="2"/>{_arrow(start, y, -8.0, 0.0, INK)}'
            )
        if state.stop >= _LEAST_STOP:
            parts.append(self._stop(state.stop, x, y + _RADIUS))
        return "\n".join(parts)

    def _loop(self, edge: "AutomatonEdge", x: float, y: float) -> str:
        lines = _label_lines(edge)
        out, top = 0.6 * _RADIUS, y - 0.8 * _RADIUS
        peak = y - _RADIUS - _LOOP
        path = (
            f"M{x - out:.1f},{top:.1f} C{x - 1.9 * out:.1f},{peak:.1f} "
            f"{x + 1.9 * out:.1f},{peak:.1f} {x + out + 2:.1f},{top - 7:.1f}"
        )
        return (
            f'<g opacity="{_opacity(edge.probability):.2f}"><path d="{path}" fill="none" '
            f'stroke="{_FORWARD}" stroke-width="{_stroke(edge.probability):.2f}"/>'
            f"{_arrow(x + out, top, 2.4, -7.6, _FORWARD)}</g>"
            + _text(lines, x, peak - len(lines) * _LINE + 4, _FORWARD)
        )

    def _stop(self, probability: float, x: float, y: float) -> str:
        label = f"STOP {format_probability(probability)}"
        top = y + _STOP_DROP - 20
        return (
            f'<g><path d="M{x:.1f},{y:.1f} V{top - 8:.1f}" stroke="{_STOP}" '
            f'stroke-width="{_stroke(probability):.2f}" opacity="{_opacity(probability):.2f}"/>'
            f"{_arrow(x, top - 1, 0.0, -8.0, _STOP)}"
            f'<rect x="{x - _STOP_WIDTH / 2:.1f}" y="{top:.1f}" width="{_STOP_WIDTH:g}" '
            f'height="18" rx="9" fill="#f3f4f6" stroke="{_STOP}"/>'
            f'<text x="{x:.1f}" y="{top + 13:.1f}" text-anchor="middle" font-size="11">{label}'
            "</text></g>"
        )


def _title(graph: "AutomatonGraph") -> str:
    return f"{graph.head}: modifiers on the {graph.direction}"


def _percent(share: float) -> str:
    return escape("<1%" if 0 < share < 0.005 else f"{share:.0%}")


def _stroke(probability: float) -> float:
    return 1.2 + 3.0 * min(probability, 1.0)


def _opacity(probability: float) -> float:
    return 0.45 + 0.55 * min(probability, 1.0)


def _curve(x: float, y: float, end_x: float, end_y: float) -> str:
    middle = (x + end_x) / 2
    return f"C{middle:.1f},{y:.1f} {middle:.1f},{end_y:.1f} {end_x:.1f},{end_y:.1f}"


def _arrow(x: float, y: float, dx: float, dy: float, color: str) -> str:
    """An arrow head with its tip at (x, y) that comes from (x + dx, y + dy)."""
    wing = numpy.array([-dy, dx]) * 0.55
    a, b = (f"{x + dx + s * wing[0]:.1f},{y + dy + s * wing[1]:.1f}" for s in (1, -1))
    return f'<path d="M{x:.1f},{y:.1f} L{a} L{b} Z" fill="{color}"/>'


def _text(lines: list[str], x: float, top: float, color: str) -> str:
    spans = "".join(
        f'<tspan x="{x:.1f}" y="{top + _LINE * i + 11.5:.1f}">{escape(line)}</tspan>'
        for i, line in enumerate(lines)
    )
    return f'<text text-anchor="middle" fill="{color}">{spans}</text>'
