"""displaCy with probabilities: `spacy_spectral.displacy.render` in place of `spacy.displacy.render`.

An arc is the more opaque the more probable it is, and its label ends in the probability of the head,
`token._.head_prob`. Where that was not stored, arcs look as displaCy draws them.
"""

import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from spacy import displacy
from spacy.displacy.render import DependencyRenderer
from spacy.tokens import Doc, Span, Token

from .shag.drawing import format_probability

_LEAST_OPACITY = 0.15

Drawable = Doc | Span | dict


def render(
    docs: Iterable[Drawable] | Drawable,
    style: str = "dep",
    page: bool = False,
    minify: bool = False,
    jupyter: bool | None = None,
    options: dict[str, Any] = {},  # noqa: B006 (spaCy's signature)
    manual: bool = False,
) -> str:
    """Draw dependency parses with the probabilities of their arcs.

    docs (Union[Iterable[Union[Doc, Span, dict]], Doc, Span, dict]): What to draw; dicts only if
        `manual` is set. Their arcs can have a key "prob".
    style (str): "dep". displaCy's other styles are passed on to it.
    page (bool): Whether to make a full HTML page.
    minify (bool): Whether to minify the markup.
    jupyter (Optional[bool]): Whether to show the result in Jupyter; found out if None.
    options (Dict[str, Any]): displaCy's options (compact, color, font, bg, distance...), and
        "probabilities" (default True).
    manual (bool): Whether `docs` are dicts as `parse_deps` makes them.
    RETURNS (str): SVG or HTML markup.
    """
    if style != "dep":
        return displacy.render(docs, style, page, minify, jupyter, options, manual)
    if isinstance(docs, Doc | Span | dict):
        docs = [docs]
    parsed = list(docs) if manual else [parse_deps(doc, options) for doc in docs]
    html = ProbabilityRenderer(options).render(parsed, page=page, minify=minify).strip()
    if displacy.RENDER_WRAPPER is not None:
        html = displacy.RENDER_WRAPPER(html)
    if jupyter or (jupyter is None and displacy.is_in_jupyter()):
        from IPython.display import HTML, display

        # the span keeps MathJax away, as in spaCy
        return display(HTML(f'<span class="tex2jax_ignore">{html}</span>'))
    return html


def parse_deps(doc: Doc | Span, options: dict[str, Any] = {}) -> dict[str, Any]:  # noqa: B006
    """What `spacy.displacy.parse_deps` gives, with a key "prob" for every arc.

    doc (Union[Doc, Span]): The document.
    options (Dict[str, Any]): displaCy's options.
    RETURNS (Dict[str, Any]): Words and arcs. Tags and labels are escaped for XML.
    """
    parsed = displacy.parse_deps(doc, options)
    roots = list(_shown_tokens(doc, [word["text"] for word in parsed["words"]]))
    for word in parsed["words"]:
        word["tag"] = escape(word["tag"])
        word["lemma"] = word["lemma"] and escape(word["lemma"])
    stored = Token.has_extension("head_prob")
    for arc in parsed["arcs"]:
        modifier = roots[arc["start"] if arc["dir"] == "left" else arc["end"]]
        arc["prob"] = modifier._.head_prob if stored else None
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
        """options (Dict[str, Any]): displaCy's options and "probabilities"."""
        super().__init__(options)
        self.probabilities = options.get("probabilities", True)
        self._options = repr(sorted(options.items()))

    def render_svg(self, render_id: int | str, words: list[dict], arcs: list[dict]) -> str:
        """Draw one parse."""
        self._arcs = arcs
        # displaCy numbers its drawings at random; the same parse should give the same markup
        content = repr((self._options, words, arcs)).encode("utf8")
        number = str(render_id).rpartition("-")[2]
        digest = hashlib.sha256(content).hexdigest()[:16]
        return super().render_svg(f"{digest}-{number}", words, arcs)

    def render_arrow(self, label: str, start: int, end: int, direction: str, i: int) -> str:
        """Draw one arc."""
        markup = super().render_arrow(label, start, end, direction, i)
        probability = self._arcs[i].get("prob")
        if probability is None or not self.probabilities:
            return markup
        for part in ("displacy-arc", "displacy-arrowhead"):
            shown = f'class="{part}" opacity="{opacity(probability):.2f}"'
            markup = markup.replace(f'class="{part}"', shown)
        number = escape(format_probability(probability))
        shown = f'<tspan class="displacy-prob" fill-opacity="0.6">{number}</tspan>'
        return markup.replace("</textPath>", f" {shown}</textPath>")


def opacity(probability: float) -> float:
    """How opaque an arc of this probability is drawn; the least probable can still be seen."""
    return _LEAST_OPACITY + (1 - _LEAST_OPACITY) * min(max(probability, 0.0), 1.0)
