"""HTML pages that need nothing else to be shown."""

from collections.abc import Iterable
from html import escape

_STYLE = """
body { margin: 0 auto; padding: 1.5rem 2rem 4rem; color: #22303c; background: #f5f7f9;
       font-family: Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0 0.25rem; }
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
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n<body>\n"
        + "\n".join([f"<h1>{escape(title)}</h1>", *parts])
        + "\n</body>\n</html>\n"
    )
