"""displaCy with probabilities: `spacy_spectral.displacy.render` in place of `spacy.displacy.render`.

An arc is the more opaque the more probable it is, and its label ends in the probability of the head,
`token._.head_prob`. Where that was not stored, arcs look as displaCy draws them.

Beside displaCy's styles there are those of `DRAWINGS`.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, TypeAlias

from spacy import displacy
from spacy.displacy.render import DependencyRenderer
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from ..base.errors import Errors, SpectralError
from ..pipeline.annotations import alternative, head_prob
from ..pipeline.constituents import stored_trees
from .arcs import arc_text
from .markup import format_probability, html_page, opacity
from .parses import DRAWINGS, STYLE, drawings, fragment

# of flat arcs
_LEVEL = 24.0
_FONT_SIZE = 11.5

Drawable: TypeAlias = Doc | Span | dict


class Markup(str):
    """Markup that notebooks show as what it is."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def render(
    docs: Iterable[Drawable] | Drawable,
    style: str = "dep",
    page: bool = False,
    minify: bool = False,
    jupyter: bool | None = None,
    options: dict[str, Any] = {},  # noqa: B006 (spaCy's signature)
    manual: bool = False,
    *,
    nlp: Language | None = None,
) -> str:
    """Draw parses with their probabilities.

    docs (Union[Iterable[Union[Doc, Span, dict]], Doc, Span, dict]): What to draw; dicts only if
        `manual` is set. Their arcs can have a key "prob".
    style (str): "dep" for arcs, or for constituents where there are no arcs; "constituents"; "nbest": the
        best parses, with what differs and their shares; "marginals": the probabilities of all heads.
        displaCy's other styles are passed on to it.
    page (bool): Whether to make a full HTML page.
    minify (bool): Whether to minify the markup.
    jupyter (Optional[bool]): Whether to show the result in Jupyter; found out if None.
    options (Dict[str, Any]): displaCy's options (compact, color, font, bg, distance...),
        "probabilities" (default True), "flat" (default False): arcs with a flat top, which are
        lower and keep labels straight, and "root" (default as "flat"): an arrow to the root, which
        displaCy does not draw.
    manual (bool): Whether `docs` are dicts as `parse_deps` makes them.
    nlp (Optional[Language]): The pipeline that parsed the documents: "nbest" asks its parser, and so does
        "marginals" where they are not stored.
    RETURNS (str): SVG or HTML markup.
    """
    if isinstance(docs, Doc | Span | dict):
        docs = [docs]
    docs = list(docs)
    if style == "dep" and not manual and docs and all(map(_has_constituents_only, docs)):
        style = "constituents"
    if style in DRAWINGS:
        if any(isinstance(doc, dict) for doc in docs):
            raise SpectralError(Errors.S711.format(style=style))
        parts = [part for doc in docs for part in drawings(doc, style, nlp)]
        html = html_page("displaCy", parts, style=STYLE) if page else fragment(parts)
    elif style == "dep":
        parsed = docs if manual else [parse_deps(doc, options) for doc in docs]
        html = ProbabilityRenderer(options).render(parsed, page=page, minify=minify).strip()
    else:
        return displacy.render(docs, style, page, minify, jupyter, options, manual)
    if displacy.RENDER_WRAPPER is not None:
        html = displacy.RENDER_WRAPPER(html)
    if jupyter or (jupyter is None and displacy.is_in_jupyter()):
        from IPython.display import HTML, display

        # the span keeps MathJax away, as in spaCy
        return display(HTML(f'<span class="tex2jax_ignore">{html}</span>'))
    return Markup(html)


def _has_constituents_only(doc: Drawable) -> bool:
    own = doc.doc if isinstance(doc, Span) else doc
    return isinstance(own, Doc) and not own.has_annotation("DEP") and bool(stored_trees(own))


def parse_deps(doc: Doc | Span, options: dict[str, Any] = {}) -> dict[str, Any]:  # noqa: B006
    """What `spacy.displacy.parse_deps` gives, with a key "prob" for every arc: words, the root among
    them with a key "root", and arcs. Tags and labels are escaped for XML."""
    parsed = displacy.parse_deps(doc, options)
    roots = list(_shown_tokens(doc, [word["text"] for word in parsed["words"]]))
    for word, token in zip(parsed["words"], roots, strict=True):
        if token.head == token and token.dep_:
            word["root"] = {"label": escape(token.dep_.lower()), "prob": head_prob(token)}
        word["tag"] = escape(word["tag"])
        word["lemma"] = word["lemma"] and escape(word["lemma"])
    for arc in parsed["arcs"]:
        modifier = roots[arc["start"] if arc["dir"] == "left" else arc["end"]]
        arc["prob"] = head_prob(modifier)
        if (other := alternative(modifier)) is not None:
            is_root = other.head.i == modifier.i
            name = arc_text(other.dep, None if is_root else other.head.text, other.prob)
            arc["other"] = f"second best: {name}"
        arc["label"] = escape(arc["label"])
    return parsed


def _shown_tokens(doc: Doc | Span, texts: list[str]) -> Iterator[Token]:
    """The token behind each word displaCy shows: several can be merged into one (collapse_punct)."""
    start = 0
    for text in texts:
        end = start + 1
        while len(doc[start:end].text) < len(text):
            end += 1
        yield doc[start:end].root
        start = end


class ProbabilityRenderer(DependencyRenderer):
    """displaCy's renderer, with arcs that show their probability."""

    def __init__(self, options: dict[str, Any] = {}) -> None:  # noqa: B006
        """options (Dict[str, Any]): displaCy's options, "probabilities", "flat" and "root"."""
        super().__init__(options)
        self.probabilities = options.get("probabilities", True)
        self.flat = options.get("flat", False)
        self.root = options.get("root", self.flat)
        self._options = repr(sorted(options.items()))

    def render_svg(self, render_id: int | str, words: list[dict], arcs: list[dict]) -> str:
        """Draw one parse."""
        self._arcs = arcs
        # displaCy numbers its drawings at random; the same parse should give the same markup
        content = repr((self._options, words, arcs)).encode("utf8")
        number = str(render_id).rpartition("-")[2]
        digest = hashlib.sha256(content).hexdigest()[:16]
        svg = super().render_svg(f"{digest}-{number}", words, arcs)
        if self.root:
            roots = (self._render_root(i, w["root"]) for i, w in enumerate(words) if "root" in w)
            svg = svg.replace("</svg>", "".join(roots) + "</svg>")
        if not self.flat:
            return svg
        # white space around its words pushes them aside
        svg = re.sub(r">\s+(<tspan|</text>)", r">\1", svg)
        # displaCy leaves room for round arcs; cut it off
        top = self._top() - _FONT_SIZE
        height = self.height - top - self.word_spacing / 2
        view = f'height="{height:g}" viewBox="0 {top:g} {self.width:g} {height:g}"'
        svg = svg.replace(f'height="{self.height}"', view, 1)
        return svg.replace(f"height: {self.height}px", f"height: {height:g}px", 1)

    def _top(self) -> float:
        """The height of what is drawn highest."""
        if not self.flat:
            return _FONT_SIZE
        return self.offset_y - (self.highest_level + bool(self.root)) * _LEVEL

    def _render_root(self, i: int, root: dict[str, Any]) -> str:
        """Draw the arrow to a root: straight from above, where no arc of a projective tree is."""
        x = self.offset_x + i * self.distance
        x = self.width - x if self.direction == "rtl" else x
        y, top, wide = self.offset_y, self._top(), self.arrow_width
        label, solid = self._with_probability(root["label"], root["prob"])
        return (
            f'<g class="displacy-root"><path class="displacy-arc"{solid} d="M{x:g},{y:g} V{top:g}" '
            f'stroke-width="{self.arrow_stroke}px" fill="none" stroke="currentColor"/>'
            f'<path class="displacy-arrowhead"{solid} d="M{x:g},{y + 2:g} L{x - wide + 2:g},{y - wide:g} '
            f'{x + wide - 2:g},{y - wide:g}" fill="currentColor"/>{self._label_at(x, top, label)}</g>'
        )

    def _with_probability(self, label: str, probability: float | None) -> tuple[str, str]:
        """A label that ends in a probability, and the attribute of paths that are as opaque as it says."""
        if probability is None or not self.probabilities:
            return label, ""
        number = escape(format_probability(probability))
        shown = f'{label} <tspan class="displacy-prob" fill-opacity="0.6">{number}</tspan>'
        return shown, f' opacity="{opacity(probability):.2f}"'

    def _label_at(self, x: float, y: float, label: str) -> str:
        return (
            f'<text class="displacy-label" x="{x:g}" y="{y:g}" dy="0.35em" fill="currentColor" '
            f'text-anchor="middle" stroke="{self.bg}" stroke-width="8" paint-order="stroke" '
            f'font-size="{_FONT_SIZE:g}">{label}</text>'
        )

    def render_arrow(self, label: str, start: int, end: int, direction: str, i: int) -> str:
        """Draw one arc."""
        markup = super().render_arrow(label, start, end, direction, i)
        shown, solid = self._with_probability(label, self._arcs[i].get("prob"))
        for part in ("displacy-arc", "displacy-arrowhead"):
            markup = markup.replace(f'class="{part}"', f'class="{part}"{solid}')
        if self.probabilities and (other := self._arcs[i].get("other")):
            markup = markup.replace(">", f"><title>{escape(other)}</title>", 1)
        if self.flat:
            text = self._label_at(*self._label_place, shown)
            return re.sub(r"<text .*</text>", lambda _: text, markup, flags=re.DOTALL)
        return markup.replace(f"{label}</textPath>", f"{shown}</textPath>")

    def get_arc(self, x_start: int, y: int, y_curve: int, x_end: int) -> str:
        """The path of an arc."""
        if not self.flat:
            return super().get_arc(x_start, y, y_curve, x_end)
        level = (y - y_curve) / (self.distance / (6 if self.compact else 2))
        top = y - _LEVEL * level
        corner = min(12.0, abs(x_end - x_start) / 2)
        inward = corner if x_end > x_start else -corner
        self._label_place = ((x_start + x_end) / 2, top)
        return (
            f"M{x_start:g},{y:g} V{top + corner:g} Q{x_start:g},{top:g} {x_start + inward:g},{top:g} "
            f"H{x_end - inward:g} Q{x_end:g},{top:g} {x_end:g},{top + corner:g} V{y:g}"
        )
