"""What all drawings share: pages, the head of a picture, widths of text, probabilities in short."""

from collections.abc import Iterable
from html import escape
from unicodedata import combining, east_asian_width

INK = "#22303c"
_LEAST_OPACITY = 0.15
_LIGHT = {
    "ink": INK, "soft": "#5b6874", "line": INK, "card": "#ffffff", "page": "#f5f7f9", "border": "#dde3e8",
    "wrong": "#c1272d", "right": "#1b7f3b", "other": "#7b3fa0", "first": "#1f5fa8", "second": "#b3541e",
}  # fmt: skip
_DARK = {
    "ink": "#e6ebf0", "soft": "#9aa7b3", "line": "#c9d2da", "card": "#1b232b", "page": "#12181e",
    "border": "#33404b", "wrong": "#ff7b72", "right": "#56d364", "other": "#c9a2ff", "first": "#6cb0f5",
    "second": "#f0a35e",
}  # fmt: skip


def colours(where: str, *, more: str = "") -> str:
    """The colours of drawings as variables of some elements, as the reader's system has them: light or dark.

    where: A selector. more: Other properties of these elements.
    """
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in own.items()) for own in (_LIGHT, _DARK)
    )
    return f"{where} {{ {more}{light} }}\n@media (prefers-color-scheme: dark) {{ {where} {{ {dark} }} }}\n"


_COLOURS = colours(":root", more="color-scheme: light dark; ")
_STYLE = """
body { margin: 0 auto; padding: 1.5rem 2rem 4rem; color: var(--ink); background: var(--page);
       font-family: Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0 0.25rem; overflow-wrap: anywhere; }
@media (max-width: 700px) { body { padding: 0.75rem 0.75rem 3rem; } }
@media print { body { background: none; padding: 0; } }
"""


def html_page(
    title: str, parts: Iterable[str], *, style: str, lang: str = "en", direction: str = "ltr"
) -> str:
    """Make a page."""
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(lang)}" dir="{direction}">\n<head>\n'
        '<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_COLOURS}{_STYLE}{style}</style>\n</head>\n<body>\n"
        + "\n".join([f"<h1>{escape(title)}</h1>", *parts])
        + "\n</body>\n</html>\n"
    )


def svg_head(kind: str, width: float, height: float, *, font_size: float, more: str) -> str:
    """The opening tag of a picture, with a class for the styles of pages and more attributes."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" '
        f'font-size="{font_size:g}" {more}>'
    )


def n_columns(text: str) -> int:
    """The width of a text in characters; Chinese, Japanese and Korean ones are two wide."""
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)


def text_width(text: str, column: float) -> float:
    """How wide a text is, on the safe side, given the width of a column; capitals are wider."""
    return column * (n_columns(text) + 0.3 * sum(letter.isupper() for letter in text))


def opacity(probability: float) -> float:
    """How opaque an arc of this probability is drawn; the least probable can still be seen."""
    return _LEAST_OPACITY + (1 - _LEAST_OPACITY) * min(max(probability, 0.0), 1.0)


def format_probability(value: float) -> str:
    """A probability in two digits, as short as can be: ".42", "1", "<.01"."""
    if 0 < value < 0.005:
        return "<.01"
    text = f"{value:.2f}"
    return "1" if text == "1.00" else text.removeprefix("0")
