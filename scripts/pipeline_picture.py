"""The picture of benchmark_pipeline.py: LAS against words per CPU second, every system a point."""

from collections.abc import Mapping
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 560, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 52, 52
_COLOURS = ("#1f5fa8", "#c1272d", "#2e8b3d", "#7b3fa0", "#b3541e")
_CHARACTER = 6.6  # width, on the safe side


def render(points: Mapping[str, tuple[float, float]], *, title: str) -> str:
    """Draw the picture. Speeds are drawn on a logarithmic scale: equal ratios are equal distances.

    points (Mapping[str, Tuple[float, float]]): Words per CPU second and LAS (0..1), by name.
    title (str): The heading.
    RETURNS (str): SVG.
    """
    speeds = [log10(speed) for speed, _ in points.values()]
    scores = [100 * las for _, las in points.values()]
    x_low, x_high = _widened(min(speeds), max(speeds), 0.35)
    y_low, y_high = _widened(min(scores), max(scores), 1.0)

    def x_of(speed: float) -> float:
        part = (log10(speed) - x_low) / (x_high - x_low)
        return round(_LEFT + part * (_WIDTH - _LEFT - _RIGHT), 1)

    def y_of(score: float) -> float:
        part = (score - y_low) / (y_high - y_low)
        return round(_HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM), 1)

    base, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}">',
        "<style>text {font: 12px sans-serif; fill: #222} .title {font-size: 15px}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="28" class="title">{escape(title)}</text>',
    ]
    for speed in _speed_ticks(10**x_low, 10**x_high):
        x = x_of(speed)
        parts += [
            f'<path d="M{x} {_TOP}V{base}" stroke="#ddd"/>',
            f'<text x="{x}" y="{base + 18}" text-anchor="middle">{speed:,.0f}</text>',
        ]
    for score in _score_ticks(y_low, y_high):
        y = y_of(score)
        parts += [
            f'<path d="M{_LEFT} {y}H{right}" stroke="#ddd"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{score:g}</text>',
        ]
    parts += [
        f'<path d="M{_LEFT} {_TOP}V{base}H{right}" stroke="#444" fill="none"/>',
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">'
        "words per CPU second</text>",
        f'<text transform="translate(18 {(_TOP + base) / 2}) rotate(-90)" '
        'text-anchor="middle">LAS</text>',
    ]
    for i, (name, (speed, las)) in enumerate(points.items()):
        x, y, colour = x_of(speed), y_of(100 * las), _COLOURS[i % len(_COLOURS)]
        label = f"{name} {100 * las:.2f}"
        # to the left of the point where there is no room to its right
        before = x + 12 + _CHARACTER * len(label) > right
        at, anchor = (x - 10, "end") if before else (x + 10, "start")
        parts += [
            f'<circle cx="{x}" cy="{y}" r="6" fill="{colour}">'
            f"<title>{escape(name)}: {speed:,.0f} words per CPU second, LAS {100 * las:.2f}</title>"
            "</circle>",
            f'<text x="{at}" y="{y - 8}" text-anchor="{anchor}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def _widened(low: float, high: float, least: float) -> tuple[float, float]:
    """RETURNS (Tuple[float, float]): A range with some room on both sides, and never empty."""
    room = max(0.2 * (high - low), (least - (high - low)) / 2, 0.1 * least)
    return low - room, high + room


def _speed_ticks(low: float, high: float) -> list[float]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [factor * 10.0**decade for decade in decades for factor in (1, 1.5, 2, 3, 5, 7)]
    return [tick for tick in ticks if low <= tick <= high]


def _score_ticks(low: float, high: float) -> list[float]:
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if (high - low) / s <= 8 or s == 20)
    return [round(k * step, 6) for k in range(ceil(low / step), floor(high / step) + 1)]
