"""Points in a plane as SVG: reliability diagrams and maps of words."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy
from numpy.typing import NDArray

from ..base.linalg import svd
from ..trees.calibration import Reliability

STYLE = """
.plot { max-width: 100%; height: auto; } .plot text { font: 12px sans-serif; }
.plot text:not([fill]) { fill: #222; }
.plot .title { font-size: 15px; } .plot .grid { stroke: #ddd; } .plot .axis { stroke: #444; fill: none; }
@media (prefers-color-scheme: dark) { .plot .page { fill: #1b232b; } .plot text:not([fill]) { fill: #e6ebf0; }
  .plot .grid { stroke: #3a4650; } .plot .axis { stroke: #9aa7b3; }
  .plot .curve { filter: brightness(1.6); } }
"""


def _picture(
    width: int, height: int, style: str, at: tuple[int, int], title: str, parts: Iterable[str]
) -> str:
    """A picture with its title at a place, white, or dark where the reader's system is."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<style>{STYLE}{style}</style>",
            f'<rect class="page" width="{width}" height="{height}" fill="white"/>',
            f'<text x="{at[0]}" y="{at[1]}" class="title">{escape(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


# The reliability diagram: of what a parser says with some probability, how much is right.

_CURVES = ("#1f5fa8", "#c1272d", "#2e8b3d", "#7b3fa0")
_SIZE, _LEFT, _TOP, _GAP, _BARS, _BOTTOM, _RIGHT = 360, 62, 46, 26, 84, 50, 24
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def render_reliability(curves: Mapping[str, Reliability], *, title: str) -> str:
    """Draw reliability diagrams into one picture, and how many predictions they stand on below.

    A point on the diagonal says what it should; one below it is too sure. Areas of points are the shares of
    predictions.
    """
    width = _LEFT + _SIZE + _RIGHT
    height = _TOP + _SIZE + _GAP + _BARS + _BOTTOM
    parts = _axes(height)
    for i, (name, curve) in enumerate(curves.items()):
        colour = _CURVES[i % len(_CURVES)]
        parts += _curve(curve, colour)
        parts += _bars(curve, colour, i, len(curves))
        parts += _legend(name, curve, colour, i)
    return _picture(width, height, "", (_LEFT, 26), title, parts)


def render_coverage(curves: Mapping[str, tuple[NDArray, NDArray]], *, title: str) -> str:
    """Draw which part is right of the most probable predictions, by how many of all these are.

    curves: By name, the probabilities of predictions and whether they are right.
    """
    shown = {}
    for name, (probs, right) in curves.items():
        order = numpy.argsort(-probs, kind="stable")
        n = numpy.unique(numpy.linspace(1, len(order), min(len(order), 200)).astype("int64"))
        shown[name] = n / len(order), right[order].cumsum()[n - 1] / n
    # of a handful of predictions the share that is right says nothing
    lowest = min((float(y[x >= 0.02].min()) for x, y in shown.values()), default=0.0)
    low = min(numpy.floor(10 * lowest) / 10, 0.9)
    height = _TOP + _SIZE + _BOTTOM

    def y_of(share: float) -> float:
        return round(_TOP + _SIZE * (1.0 - max(share - low, 0.0) / (1.0 - low)), 1)

    parts = []
    for tick in _TICKS:
        x, at = _x(tick), low + (1.0 - low) * tick
        parts += [
            f'<path d="M{_LEFT} {y_of(at)}H{_x(1)}M{x} {_TOP}V{_TOP + _SIZE}" class="grid"/>',
            f'<text x="{_LEFT - 8}" y="{y_of(at) + 4}" text-anchor="end">{at:.0%}</text>',
            f'<text x="{x}" y="{_TOP + _SIZE + 18}" text-anchor="middle">{tick:.0%}</text>',
        ]
    parts += [
        f'<path d="M{_LEFT} {_TOP}V{_TOP + _SIZE}H{_x(1)}" class="axis"/>',
        f'<text x="{_x(0.5)}" y="{height - 12}" text-anchor="middle">'
        "share of all, the most probable first</text>",
        f'<text transform="translate(16 {_TOP + _SIZE / 2}) rotate(-90)" text-anchor="middle">'
        "right among them</text>",
    ]
    for i, (name, (xs, ys)) in enumerate(shown.items()):
        colour, y = _CURVES[i % len(_CURVES)], _TOP + _SIZE - 14 - 20 * (len(shown) - 1 - i)
        line = "L".join(
            f"{_x(x)} {y_of(share)}" for x, share in zip(xs.tolist(), ys.tolist(), strict=True)
        )
        parts += [
            f'<path class="curve" d="M{line}" stroke="{colour}" stroke-width="2" fill="none"/>',
            f'<circle class="curve" cx="{_LEFT + 16}" cy="{y - 4}" r="5" fill="{colour}"/>',
            f'<text x="{_LEFT + 28}" y="{y}">{escape(name)}</text>',
        ]
    return _picture(_LEFT + _SIZE + _RIGHT, height, "", (_LEFT, 26), title, parts)


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
            f'<path d="M{_LEFT} {y}H{_x(1)}M{x} {_TOP}V{_y(0)}M{x} {base}v4" class="grid"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:.0%}</text>',
            f'<text x="{x}" y="{base + 18}" text-anchor="middle">{tick:.0%}</text>',
        ]
    middle = _TOP + _SIZE / 2
    return [
        *parts,
        f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#888" stroke-dasharray="4 4"/>',
        f'<path d="M{_LEFT} {_TOP}V{_y(0)}H{_x(1)}M{_LEFT} {base}H{_x(1)}" class="axis"/>',
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
    parts = [f'<path class="curve" d="M{line}" stroke="{colour}" stroke-width="1.5" fill="none"/>']
    for (x, y), i, share in zip(places, filled.tolist(), shares.tolist(), strict=True):
        radius = 2.0 + 10.0 * share**0.5
        tip = f"{curve.counts[i]:,} at {curve.confidence[i]:.1%}: {curve.accuracy[i]:.1%} right"
        parts.append(
            f'<circle class="curve" cx="{x}" cy="{y}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.7">'
            f"<title>{tip}</title></circle>"
        )
    return parts


def _bars(curve: Reliability, colour: str, i: int, n: int) -> list[str]:
    base = _TOP + _SIZE + _GAP + _BARS
    shares = curve.counts / curve.counts.sum()
    step = _SIZE / len(shares)
    width = (step - 2) / n
    return [
        f'<rect class="curve" x="{_LEFT + b * step + 1 + i * width:.1f}" y="{base - _BARS * share:.1f}" '
        f'width="{width:.1f}" height="{_BARS * share:.1f}" fill="{colour}" fill-opacity="0.7"/>'
        for b, share in enumerate(shares.tolist())
    ]


def _legend(name: str, curve: Reliability, colour: str, i: int) -> list[str]:
    y = _TOP + 18 + 34 * i
    said, right = curve.mean_probability, curve.share_right
    return [
        f'<circle class="curve" cx="{_LEFT + 16}" cy="{y - 4}" r="5" fill="{colour}"/>',
        f'<text x="{_LEFT + 28}" y="{y}">{escape(name)}: calibration error {curve.error:.2%}</text>',
        f'<text x="{_LEFT + 28}" y="{y + 15}">{said:.1%} expected, {right:.1%} right</text>',
    ]


# A map of words in two dimensions: similar words are neighbours, tags have colours.

# hues that are told apart on white; kindred tags have kindred colours
_TAGS = {
    "NOUN": "#1f5fa8",
    "PROPN": "#3fa7d6",
    "PRON": "#0b7a75",
    "VERB": "#c1272d",
    "AUX": "#e8743b",
    "ADJ": "#2e8b3d",
    "ADV": "#8fae1b",
    "ADP": "#7b3fa0",
    "SCONJ": "#b565c4",
    "CCONJ": "#d94f9e",
    "PART": "#a0527a",
    "DET": "#8c6239",
    "NUM": "#b8960c",
    "PUNCT": "#777777",
}
_OTHER = "#444444"
_WIDTH, _HEIGHT, _MARGIN, _KEY = 1200, 900, 30, 120
_FONT_SIZE = 12
_PERPLEXITY, _ITERATIONS = 20.0, 500


def majority_tags(tagged: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The most frequent tag of every word form."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for form, tag in tagged:
        counts[form][tag] += 1
    return {form: min(tags, key=lambda t: (-tags[t], t)) for form, tags in counts.items()}


def place_words(vectors: numpy.ndarray) -> numpy.ndarray:
    """Exact t-SNE (van der Maaten and Hinton 2008) from the first two principal components.

    vectors: One row per word, at least 4 rows. Meant for some hundreds of words.
    RETURNS: float64, two coordinates per word; deterministic.
    """
    vectors = vectors.astype("float64")
    n_words = len(vectors)
    target = _neighbour_probabilities(vectors, min(_PERPLEXITY, (n_words - 1) / 3))
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = svd(centred, 2)
    places = left * values
    places *= 1e-2 / max(places.std(), 1e-12)
    step, gains = numpy.zeros_like(places), numpy.ones_like(places)
    for iteration in range(_ITERATIONS):
        early = iteration < _ITERATIONS // 4
        differences = places[:, None] - places[None]
        closeness = 1 / (1 + (differences**2).sum(axis=2))
        numpy.fill_diagonal(closeness, 0)
        pull = (target * (12 if early else 1) - closeness / closeness.sum()) * closeness
        gradient = 4 * (pull[:, :, None] * differences).sum(axis=1)
        # the usual adaptive rates: grow while the direction stays, shrink when it turns
        gains = numpy.where(gradient * step < 0, gains + 0.2, gains * 0.8).clip(0.01)
        step = (0.5 if early else 0.8) * step - (n_words / 6) * gains * gradient
        places = places + step
        places -= places.mean(axis=0)
    return places


def _neighbour_probabilities(vectors: numpy.ndarray, perplexity: float) -> numpy.ndarray:
    squares = (vectors**2).sum(axis=1)
    distances = numpy.maximum(squares[:, None] + squares[None] - 2 * vectors @ vectors.T, 0)
    low = numpy.zeros(len(vectors))
    high = numpy.full(len(vectors), 1e9)
    # bisect the precision of every row until its entropy is that of `perplexity` equal neighbours
    for _ in range(60):
        precision = numpy.where(high < 1e9, (low + high) / 2, numpy.maximum(low * 2, 1.0))
        exponents = -distances * precision[:, None]
        numpy.fill_diagonal(exponents, -numpy.inf)
        exponents -= exponents.max(axis=1, keepdims=True)
        rows = numpy.exp(exponents)
        rows /= rows.sum(axis=1, keepdims=True)
        entropy = -(rows * numpy.log(numpy.maximum(rows, 1e-300))).sum(axis=1)
        too_wide = entropy > numpy.log(perplexity)
        low = numpy.where(too_wide, precision, low)
        high = numpy.where(too_wide, high, precision)
    return (rows + rows.T) / (2 * len(rows))


def render_map(
    words: Sequence[str], tags: Sequence[str], places: numpy.ndarray, *, title: str
) -> str:
    """Draw words at their places; where names would overlap, the later ones are dots."""
    low, high = places.min(axis=0), places.max(axis=0)
    size = numpy.array([_WIDTH - 2 * _MARGIN - _KEY, _HEIGHT - 3 * _MARGIN])
    scaled = (places - low) / numpy.maximum(high - low, 1e-12) * size + [_MARGIN, 2 * _MARGIN]
    taken = numpy.zeros((0, 4))
    dots, names = [], []
    for word, tag, (x, y) in zip(words, tags, scaled.round(1).tolist(), strict=True):
        colour = _TAGS.get(tag, _OTHER)
        width = 0.6 * _FONT_SIZE * len(word)
        box = numpy.array([x - width / 2, y - _FONT_SIZE / 2, x + width / 2, y + _FONT_SIZE / 2])
        apart = (taken[:, 2:] < box[:2]) | (taken[:, :2] > box[2:])
        tip = f"<title>{escape(word)} ({escape(tag)})</title>"
        if apart.any(axis=1).all():
            taken = numpy.vstack([taken, box])
            label = f"{escape(word)}{tip}"
            names.append(f'<text x="{x}" y="{y + 4:.1f}" fill="{colour}">{label}</text>')
        else:
            dots.append(f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}">{tip}</circle>')
    present = Counter(tags)
    key = []
    for i, tag in enumerate(sorted(present, key=lambda t: (-present[t], t))):
        y = 2 * _MARGIN + 20 * i
        colour = _TAGS.get(tag, _OTHER)
        x = _WIDTH - _KEY
        key.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        key.append(f'<text x="{x + 12}" y="{y + 4}" class="legend">{escape(tag)}</text>')
    style = (
        f".plot text {{font: {_FONT_SIZE}px sans-serif; text-anchor: middle; "
        "paint-order: stroke; stroke: white; stroke-width: 3px} "
        ".plot .legend, .plot .title {text-anchor: start} .plot .title {font-size: 16px} "
        "@media (prefers-color-scheme: dark) {.plot text {stroke: #1b232b} "
        ".plot text[fill], .plot circle {filter: brightness(1.6)}}"
    )
    return _picture(_WIDTH, _HEIGHT, style, (_MARGIN, _MARGIN), title, [*dots, *names, *key])
