"""A map of words in two dimensions, as SVG: similar words are neighbours, tags have colours."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape

import numpy

from ..base.linalg import svd

# hues that are told apart on white; kindred tags have kindred colours
_COLOURS = {
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
_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 1200, 900, 30, 120
_FONT_SIZE = 12


def majority_tags(tagged: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The most frequent tag of every word form."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for form, tag in tagged:
        counts[form][tag] += 1
    return {form: min(tags, key=lambda t: (-tags[t], t)) for form, tags in counts.items()}


def place_words(
    vectors: numpy.ndarray, *, perplexity: float = 20.0, iterations: int = 500
) -> numpy.ndarray:
    """Exact t-SNE (van der Maaten and Hinton 2008) from the first two principal components.

    vectors: One row per word, at least 4 rows. Meant for some hundreds of words.
    RETURNS: float64, two coordinates per word; deterministic.
    """
    vectors = vectors.astype("float64")
    n_words = len(vectors)
    target = _neighbour_probabilities(vectors, min(perplexity, (n_words - 1) / 3))
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = svd(centred, 2)
    places = left * values
    places *= 1e-2 / max(places.std(), 1e-12)
    step, gains = numpy.zeros_like(places), numpy.ones_like(places)
    for iteration in range(iterations):
        early = iteration < iterations // 4
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
    size = numpy.array([_WIDTH - 2 * _MARGIN - _LEGEND, _HEIGHT - 3 * _MARGIN])
    scaled = (places - low) / numpy.maximum(high - low, 1e-12) * size + [_MARGIN, 2 * _MARGIN]
    taken = numpy.zeros((0, 4))
    dots, names = [], []
    for word, tag, (x, y) in zip(words, tags, scaled.round(1).tolist(), strict=True):
        colour = _COLOURS.get(tag, _OTHER)
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
    legend = []
    for i, tag in enumerate(sorted(present, key=lambda t: (-present[t], t))):
        y = 2 * _MARGIN + 20 * i
        colour = _COLOURS.get(tag, _OTHER)
        x = _WIDTH - _LEGEND
        legend.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{colour}"/>')
        legend.append(f'<text x="{x + 12}" y="{y + 4}" class="legend">{escape(tag)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'width="{_WIDTH}" height="{_HEIGHT}">',
            f"<style>text {{font: {_FONT_SIZE}px sans-serif; text-anchor: middle; "
            "paint-order: stroke; stroke: white; stroke-width: 3px} "
            ".legend {text-anchor: start; fill: #222} .title {font-size: 16px; fill: #222; "
            "text-anchor: start}</style>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            f'<text x="{_MARGIN}" y="{_MARGIN}" class="title">{escape(title)}</text>',
            *dots,
            *names,
            *legend,
            "</svg>",
            "",
        ]
    )
