"""The reliability diagram as SVG: of what a parser says with some probability, how much is right."""

from collections.abc import Mapping
from html import escape

import numpy

from ..trees.calibration import Reliability

_COLOURS = ("#1f5fa8", "#c1272d", "#2e8b3d", "#7b3fa0")
_SIZE, _LEFT, _TOP, _GAP, _BARS, _BOTTOM, _RIGHT = 360, 62, 46, 26, 84, 50, 24
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def render_reliability(curves: Mapping[str, Reliability], *, title: str) -> str:
    """Draw reliability diagrams into one picture, and how many predictions they stand on below.

    A point on the diagonal says what it should; one below it is too sure. Areas of points are the shares of
    predictions.
    """
    width = _LEFT + _SIZE + _RIGHT
    height = _TOP + _SIZE + _GAP + _BARS + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        "<style>text {font: 12px sans-serif; fill: #222} .title {font-size: 15px}</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="26" class="title">{escape(title)}</text>',
        *_axes(height),
    ]
    for i, (name, curve) in enumerate(curves.items()):
        parts += _curve(curve, _COLOURS[i % len(_COLOURS)])
        parts += _bars(curve, _COLOURS[i % len(_COLOURS)], i, len(curves))
        parts += _legend(name, curve, _COLOURS[i % len(_COLOURS)], i)
    return "\n".join([*parts, "</svg>", ""])


def _x(probability: float) -> float:
    return round(_LEFT + _SIZE * probability, 1)


def _y(share: float) -> float:
    return round(_TOP + _SIZE * (1.0 - share), 1)


def _axes(height: int) -> list[str]:
    base = _TOP + _SIZE + _GAP + _BARS
    parts = []
    for tick in _TICKS:
        x, y = _x(tick), _y(tick)
        parts += [
            f'<path d="M{_LEFT} {y}H{_x(1)}M{x} {_TOP}V{_y(0)}M{x} {base}v4" stroke="#ddd"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:.0%}</text>',
            f'<text x="{x}" y="{base + 18}" text-anchor="middle">{tick:.0%}</text>',
        ]
    middle = _TOP + _SIZE / 2
    return [
        *parts,
        f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#888" stroke-dasharray="4 4"/>',
        f'<path d="M{_LEFT} {_TOP}V{_y(0)}H{_x(1)}M{_LEFT} {base}H{_x(1)}" '
        'stroke="#444" fill="none"/>',
        f'<text x="{_x(0.5)}" y="{height - 12}" text-anchor="middle">probability</text>',
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">right</text>',
        f'<text transform="translate(16 {base - _BARS / 2}) rotate(-90)" '
        'text-anchor="middle">share</text>',
    ]


def _curve(curve: Reliability, colour: str) -> list[str]:
    filled = numpy.flatnonzero(curve.counts)
    places = [(_x(curve.confidence[i]), _y(curve.accuracy[i])) for i in filled.tolist()]
    line = "L".join(f"{x} {y}" for x, y in places)
    shares = curve.counts[filled] / curve.counts.sum()
    parts = [f'<path d="M{line}" stroke="{colour}" stroke-width="1.5" fill="none"/>']
    for (x, y), i, share in zip(places, filled.tolist(), shares.tolist(), strict=True):
        radius = 2.0 + 10.0 * share**0.5
        tip = f"{curve.counts[i]:,} at {curve.confidence[i]:.1%}: {curve.accuracy[i]:.1%} right"
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.7">'
            f"<title>{tip}</title></circle>"
        )
    return parts


def _bars(curve: Reliability, colour: str, i: int, n: int) -> list[str]:
    base = _TOP + _SIZE + _GAP + _BARS
    shares = curve.counts / curve.counts.sum()
    step = _SIZE / len(shares)
    width = (step - 2) / n
    return [
        f'<rect x="{_LEFT + b * step + 1 + i * width:.1f}" y="{base - _BARS * share:.1f}" '
        f'width="{width:.1f}" height="{_BARS * share:.1f}" fill="{colour}" fill-opacity="0.7"/>'
        for b, share in enumerate(shares.tolist())
    ]


def _legend(name: str, curve: Reliability, colour: str, i: int) -> list[str]:
    y = _TOP + 18 + 34 * i
    said, right = curve.mean_probability, curve.share_right
    return [
        f'<circle cx="{_LEFT + 16}" cy="{y - 4}" r="5" fill="{colour}"/>',
        f'<text x="{_LEFT + 28}" y="{y}">{escape(name)}: calibration error {curve.error:.2%}</text>',
        f'<text x="{_LEFT + 28}" y="{y + 15}">{said:.1%} expected, {right:.1%} right</text>',
    ]
