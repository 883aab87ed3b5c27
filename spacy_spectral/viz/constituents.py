"""Pictures of constituency trees: SVG, with the probability of every constituent as shade and number.

Words stand in a row at the bottom, as wide as they are. A constituent stands in the middle of its children,
one level above them; what reaches down to a word from higher up does so straight above the word. So no edge
crosses another one, nor a label. The same tree gives the same bytes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import isnan, nan

from ..models.constituency.trees import Node, Parsed
from .markup import INK, format_probability, n_columns, svg_head

_STYLE = """
.tree .p { font-size: 10px; fill: #5b6874; } .tree .t { font-size: 12px; fill: #5b6874; }
.tree .c { font-weight: bold; } .tree .wrong { fill: #c1272d; }
.tree polyline { fill: none; stroke-dasharray: 5 3; stroke-width: 1.3; }
.tree .missing polyline { stroke: #1b7f3b; } .tree .rival polyline { stroke: #7b3fa0; }
.tree .missing text { fill: #1b7f3b; } .tree .rival text { fill: #7b3fa0; }
.tree g text { font-size: 11px; paint-order: stroke; stroke: #ffffff; stroke-width: 7; }
@media (prefers-color-scheme: dark) { .tree .page { fill: #1b232b; } .tree text { fill: #e6ebf0; }
  .tree .p, .tree .t { fill: #9aa7b3; } .tree .lines { stroke: #c9d2da; } .tree .wrong { fill: #ff7b72; }
  .tree .missing polyline { stroke: #56d364; } .tree .rival polyline { stroke: #c9a2ff; }
  .tree .missing text { fill: #56d364; } .tree .rival text { fill: #c9a2ff; }
  .tree g text { stroke: #1b232b; } }
"""
_BELOW = 22.0
_CHARACTER = 8.2  # width, on the safe side
_BOLD = 1.15
_GAP = 14.0
_LEVEL = 46.0
_MARGIN = 14.0
_LEAST_SHADE = 0.18


@dataclass
class _Placed:
    label: str
    begin: int
    end: int
    prob: float
    children: "list[_Placed]" = field(default_factory=list)
    x: float = 0.0
    depth: int = 0
    is_wrong: bool = False

    @property
    def number(self) -> str:
        """The probability as it is shown; nothing for words and for what is certain."""
        is_shown = self.children and not isnan(self.prob) and self.prob < 0.995
        return f"{self.prob:.2f}".lstrip("0") if is_shown else ""

    @property
    def shade(self) -> float:
        return 1.0 if isnan(self.prob) else _LEAST_SHADE + (1 - _LEAST_SHADE) * self.prob

    @property
    def width(self) -> float:
        return _CHARACTER * (n_columns(self.label) + len(self.number)) * _BOLD


def tree_svg(
    parsed: Parsed,
    words: Sequence[str],
    *,
    gold: Parsed | None = None,
    rivals: Sequence[Node] = (),
) -> str:
    """Draw the constituents of a sentence as SVG.

    gold: What is right: other constituents are marked, and those that are missing stand below the words.
    rivals: Constituents that are not in the tree; they stand below the words, too.
    """
    order = _nested(parsed.nodes, parsed.tags)
    missing: list[Node] = []
    if gold is not None:
        right = Counter((node.label, node.begin, node.end) for node in gold.nodes)
        for node in order:
            if node.children and node.label:
                key = node.label, node.begin, node.end
                node.is_wrong = not right[key]
                right[key] -= right[key] > 0
        for own in gold.nodes:
            if right[own.label, own.begin, own.end] > 0:
                right[own.label, own.begin, own.end] -= 1
                missing.append(own._replace(prob=nan))
    widths = [
        _CHARACTER * max(n_columns(word), n_columns(tag), 2) + _GAP
        for word, tag in zip(words, parsed.tags, strict=True)
    ]
    for node in order:
        if node.children and node.end - node.begin == 1:
            widths[node.begin] = max(widths[node.begin], node.width + _GAP)
    centres, edge = [], _MARGIN
    for width in widths:
        centres.append(edge + width / 2)
        edge += width
    # children come after their parents
    for node in order:
        for child in node.children:
            child.depth = node.depth + 1
    for node in reversed(order):
        below = node.children
        node.x = (below[0].x + below[-1].x) / 2 if below else centres[node.begin]
    # a label can reach beyond the words below it
    shift = max(0.0, _MARGIN - min(node.x - node.width / 2 for node in order))
    for node in order:
        node.x += shift
    centres = [x + shift for x in centres]
    edge = max(edge + shift, *(node.x + node.width / 2 for node in order))
    deepest = max(node.depth for node in order)
    height = _MARGIN * 2 + _LEVEL * (deepest + 1)

    def y(depth: int) -> float:
        return height - _MARGIN - _LEVEL * (deepest - depth + 0.75)

    def level(node: _Placed) -> float:
        return y(node.depth if node.children else deepest)

    lines, texts = [], []
    for node in order:
        for child in node.children:
            down = "" if child.children else f" V{level(child) - 14:.1f}"
            lines.append(
                f'<path d="M{node.x:.1f},{level(node) + 6:.1f} '
                f'L{child.x:.1f},{y(child.depth) - 14:.1f}{down}" opacity="{child.shade:.2f}"/>'
            )
        title = "" if isnan(node.prob) else f"<title>P = {node.prob:.3f}</title>"
        if node.children or node.label:
            number = f'<tspan class="p" dx="4">{node.number}</tspan>' if node.number else ""
            kind = "t" if not node.children else "c wrong" if node.is_wrong else "c"
            texts.append(
                f'<text class="{kind}" x="{node.x:.1f}" y="{level(node):.1f}" opacity="{node.shade:.2f}">'
                f"{escape(node.label)}{number}{title}</text>"
            )
    for word, x in zip(words, centres, strict=True):
        texts.append(
            f'<text class="w" x="{x:.1f}" y="{height - _MARGIN:.1f}">{escape(word)}</text>'
        )
    width = edge + _MARGIN
    ends = [(x - w / 2 + 3, x + w / 2 - 3) for x, w in zip(centres, widths, strict=True)]
    spans = [("missing", node) for node in missing] + [("rival", node) for node in rivals]
    spans.sort(key=lambda span: (span[1].end - span[1].begin, span[1].begin))
    brackets: list[str] = []
    for i, (kind, other) in enumerate(spans):
        left, stop, at = ends[other.begin][0], ends[other.end - 1][1], height + _BELOW * i
        number = "" if isnan(other.prob) else f" {format_probability(other.prob)}"
        brackets.append(
            f'<g class="{kind}"><polyline points="{left:.1f},{at:.1f} {left:.1f},{at + 7:.1f} '
            f'{stop:.1f},{at + 7:.1f} {stop:.1f},{at:.1f}"/><text x="{(left + stop) / 2:.1f}" '
            f'y="{at + 12:.1f}">{escape(other.label + number)}</text></g>'
        )
    height += _BELOW * len(brackets) + (4 if brackets else 0)
    return (
        svg_head("tree", width, height, font_size=14, more=f'text-anchor="middle" fill="{INK}"')
        # dark ink can't be read on a dark page
        + f"<style>{_STYLE}</style>"
        '<rect class="page" width="100%" height="100%" fill="#ffffff"/>'
        f'<g class="lines" stroke="{INK}" stroke-width="1.2" fill="none">{"".join(lines)}</g>'
        f"{''.join(texts)}{''.join(brackets)}</svg>"
    )


def _nested(nodes: list[Node], tags: list[str]) -> list[_Placed]:
    """All nodes, tags included, parents before children."""
    n = len(tags)
    root = _Placed("", 0, n, float("nan"))
    order, stack, done = [root], [root], 0

    def add_words(until: int) -> None:
        nonlocal done
        while done < until:
            while stack[-1].end <= done:
                stack.pop()
            leaf = _Placed(tags[done], done, done + 1, float("nan"))
            stack[-1].children.append(leaf)
            order.append(leaf)
            done += 1

    for node in nodes:
        add_words(node.begin)
        while stack[-1].end <= node.begin:
            stack.pop()
        placed = _Placed(node.label, node.begin, node.end, node.prob)
        stack[-1].children.append(placed)
        order.append(placed)
        stack.append(placed)
    add_words(n)
    return order[1:] if len(root.children) == 1 else order
