"""What parsers say of a sentence beside the tree: its n best parses, all marginals, rivals of constituents.

Drawings are HTML with classes of `STYLE`, which a page or a `fragment` has once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import exp, fsum, isfinite, nan
from typing import Any

from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from ..base.errors import Errors, SpectralError
from ..models.constituency.trees import Node, Parsed
from ..pipeline.annotations import SentenceParse, alternative, head_prob
from ..pipeline.annotations import marginals as stored_marginals
from ..pipeline.constituency import SpectralConstituency
from ..pipeline.constituents import stored_trees
from ..pipeline.parser import SpectralParser
from ..pipeline.words import with_words
from . import arcs
from .arcs import Arc, Word, arcs_html
from .constituents import tree_svg
from .markup import colours, format_probability

# what can be drawn of a document beside its arcs
DRAWINGS = ("constituents", "nbest", "marginals")
STYLE = (
    arcs.STYLE
    + """
.parses ol { list-style: none; margin: 0.4rem 0 0; padding: 0; font-size: 0.92rem; }
.parses li { display: grid; grid-template-columns: 2rem 3.2rem 1fr; gap: 0.4rem; align-items: center;
             padding: 0.2rem 0; border-top: 1px solid var(--border); }
.parses li > :first-child { color: var(--soft); }
.parses .share { --full: color-mix(in srgb, var(--first) 30%, transparent); padding: 0 0.3rem;
                 background: linear-gradient(var(--full), var(--full)) no-repeat left / var(--part) 100%; }
.parses del { color: var(--soft); text-decoration: none; }
.parses p { color: var(--soft); margin: 0.4rem 0 0; font-size: 0.85rem; }
.marginals { overflow-x: auto; max-width: 100%; }
.marginals table { border-collapse: collapse; font-size: 0.82rem; color: inherit; }
.marginals th, .marginals td { padding: 0.15rem 0.35rem; text-align: center; min-width: 1.9rem;
                               white-space: nowrap; background: none; }
.marginals th { color: var(--soft); font-weight: normal; }
.marginals tr > :first-child { text-align: right; color: var(--ink); }
.marginals td.tree { outline: 1.5px solid var(--line); outline-offset: -2px; }
"""
)
# smaller probabilities are left out of the table of marginals
_LEAST = 0.005
# so many parses are looked at for the best rival of a constituent
_RIVALS = 16
_N_BEST = 5


def tree_words(tokens: Doc | Span, gold: Mapping[int, tuple[int, str]] | None = None) -> list[Word]:
    """The words of a sentence with their arcs, to be drawn by `arcs.arcs_html`; white space is left out.

    gold: By token, its right head and label, as tokens of the document; others are not known.
    """
    shown = [token for token in tokens if not token.is_space]
    places = {token.i: place for place, token in enumerate(shown)}
    gold = gold or {}
    words = []
    for token in shown:
        word = Word(token.text, token.tag_ or token.pos_)
        if token.dep_ and token.head.i in places:
            word.arc = Arc(
                places[token.head.i], _label(token.i, token.head.i, token.dep_), head_prob(token)
            )
        if token.i in gold and gold[token.i][0] in places:
            head, label = gold[token.i]
            word.gold = Arc(places[head], _label(token.i, head, label))
        other = alternative(token)
        if other is not None and other.head.i in places:
            word.other = Arc(
                places[other.head.i], _label(token.i, other.head.i, other.dep), other.prob
            )
        words.append(word)
    return words


def _label(token: int, head: int, label: str) -> str:
    return "root" if head == token else label


def share(log_prob: float) -> str:
    """The probability of a tree in three digits."""
    shown = f"{exp(log_prob):.3f}"
    return "<.001" if shown == "0.000" else shown.removeprefix("0")


def differences(
    parse: SentenceParse, first: SentenceParse, doc: Doc
) -> Iterator[tuple[Token, str, str]]:
    """What a parse has and the first one of its list has not: the word, its arc, and that in the first."""
    tokens = (token for token in doc[first.start :] if not token.is_space)
    for token, head, dep, old_head, old_dep in zip(
        tokens, parse.heads, parse.deps, first.heads, first.deps, strict=False
    ):
        # spaCy writes the root's label in capitals
        is_root = head == old_head == token.i
        if (head, dep) != (old_head, old_dep) and not is_root:
            new, old = (
                label if to == token.i else f"{label} <- {doc[to].text}"
                for label, to in ((dep, head), (old_dep, old_head))
            )
            yield token, new, old


def nbest_html(
    tokens: Span, parses: Sequence[SentenceParse], *, direction: str = "ltr", with_tree: bool = True
) -> str:
    """The tree of a sentence as a drawing, and a line for each of its best parses: its share of all
    probability, and what differs from the tree."""
    shown = [token for token in tokens if not token.is_space]
    heads, deps = [token.head.i for token in shown], [token.dep_ for token in shown]
    own = SentenceParse(shown[0].i, heads, deps, nan)
    lines = []
    for rank, parse in enumerate(parses, start=1):
        told = "; ".join(
            f"{escape(token.text)}: {_arrow(new)} <del>(was {_arrow(old)})</del>"
            for token, new, old in differences(parse, own, tokens.doc)
        )
        part = f"{100 * exp(parse.logprob):.1f}%" if isfinite(parse.logprob) else "0"
        lines.append(
            f'<li><span>{rank}.</span><span class="share" style="--part: {part}">'
            f"{escape(share(parse.logprob))}</span><span>{told or 'the tree above'}</span></li>"
        )
    total = min(fsum(exp(parse.logprob) for parse in parses if isfinite(parse.logprob)), 1.0)
    tree = arcs_html(tree_words(tokens), direction=direction) if with_tree else ""
    return (
        f'<div class="parses">{tree}<ol>{"".join(lines)}</ol>'
        f"<p>Together {total:.3f} of all probability.</p></div>"
    )


def _arrow(arc: str) -> str:
    return escape(arc.replace(" <- ", " ← "))


def marginals_html(tokens: Doc | Span, marginals: NDArray) -> str:
    """A table of the probabilities of all heads of the words of a sentence; the tree is framed."""
    words = [token for token in tokens if not token.is_space]
    head = "".join(f"<th>{escape(token.text)}</th>" for token in words)
    rows = []
    for m, (token, probs) in enumerate(zip(words, marginals.tolist(), strict=True)):
        cells: list[str] = []
        for h, prob in [(m, probs[m]), *enumerate(probs)]:
            # the first column is that of the root, which stands on the diagonal
            is_root = len(cells) == 0
            if h == m and not is_root:
                cells.append("<td></td>")
                continue
            kind = ' class="tree"' if token.dep_ and token.head.i == words[h].i else ""
            shown = escape(format_probability(prob)) if prob >= _LEAST else ""
            shade = f"color-mix(in srgb, var(--first) {60 * prob:.0f}%, transparent)"
            told = escape(f"{token.text} ← {'root' if is_root else words[h].text}: {prob:.3f}")
            cells.append(f'<td{kind} style="background: {shade}" title="{told}">{shown}</td>')
        rows.append(f"<tr><th>{escape(token.text)}</th>{''.join(cells)}</tr>\n")
    return (
        f'<div class="marginals"><table><tr><th>word ↓ head →</th><th>root</th>{head}</tr>\n'
        f"{''.join(rows)}</table></div>"
    )


def rivals(parsed: Parsed, trees: Sequence[Parsed]) -> list[Node]:
    """The likeliest constituent that is not in a tree. Its probability is that of those among the best
    trees which have it: it may be a little more probable."""
    own = {(node.label, node.begin, node.end) for node in parsed.nodes}
    mass: defaultdict[tuple[str, int, int], float] = defaultdict(float)
    for tree in trees:
        for key in {(node.label, node.begin, node.end) for node in tree.nodes} - own:
            mass[key] += exp(tree.log_prob)
    if not mass:
        return []
    best = max(mass, key=lambda key: (mass[key], key))
    return [Node(*best, mass[best])]


def constituents_svg(
    tokens: Doc | Span, nlp: Language | None = None, *, gold: Doc | None = None
) -> list[str]:
    """The trees of sentences, each with its likeliest rival bracket.

    nlp: The pipeline, to be asked for the best trees; without it, those that are stored are looked at.
    gold: A document with the same tokens, and the right trees.
    """
    doc, begin, end = _extent(tokens)
    trees = stored_trees(doc)
    pipe = _component(nlp, SpectralConstituency)
    found = pipe.nbest_trees(doc, _RIVALS) if pipe is not None else [tree.nbest for tree in trees]
    right = {tree.tokens[0]: tree.parsed for tree in stored_trees(gold)} if gold is not None else {}
    return [
        tree_svg(
            tree.parsed,
            [doc[i].text for i in tree.tokens],
            gold=right.get(tree.tokens[0]),
            rivals=rivals(tree.parsed, own),
        )
        for tree, own in zip(trees, found, strict=True)
        if begin <= tree.tokens[0] and tree.tokens[-1] < end
    ]


def _extent(tokens: Doc | Span) -> tuple[Doc, int, int]:
    if isinstance(tokens, Span):
        return tokens.doc, tokens.start, tokens.end
    return tokens, 0, len(tokens)


def _component(nlp: Language | None, kind: type) -> Any:
    return next((pipe for _, pipe in nlp.pipeline if isinstance(pipe, kind)), None) if nlp else None


def drawings(
    tokens: Doc | Span,
    style: str,
    nlp: Language | None,
    *,
    k: int = _N_BEST,
    with_tree: bool = True,
) -> list[str]:
    """Draw all sentences of a document, or those of a span.

    style: One of `DRAWINGS`. k: How many parses. with_tree: Whether the tree is drawn above them.
    """
    if style == "constituents":
        return [f'<div class="scroll">{svg}</div>' for svg in constituents_svg(tokens, nlp)]
    doc, begin, end = _extent(tokens)
    parser = _component(nlp, SpectralParser)
    sents = _sentences(with_words(doc))  # which parses are of
    if style == "marginals":
        tables: list[Any] = [stored_marginals(sent) for sent in sents]
        if any(table is None for table in tables):
            tables = list(_asked(parser, style).marginals(doc))
        shown = [marginals_html(*pair) for pair in zip(sents, tables, strict=True)]
    else:
        parses = _asked(parser, style).nbest(doc, k)
        direction = doc.vocab.writing_system.get("direction", "ltr")
        shown = [
            nbest_html(sent, own, direction=direction, with_tree=with_tree)
            for sent, own in zip(sents, parses, strict=True)
        ]
    return [
        html
        for sent, html in zip(_sentences(doc), shown, strict=True)
        if begin <= sent.start and sent.end <= end
    ]


def _sentences(doc: Doc) -> list[Span]:
    return [sent for sent in doc.sents if any(not token.is_space for token in sent)]


def _asked(parser: Any, style: str) -> SpectralParser:
    if parser is None:
        raise SpectralError(Errors.S159.format(style=style))
    return parser


def fragment(parts: Sequence[str]) -> str:
    """Drawings with their styles, for a page of others: a notebook."""
    own = "background: var(--card); color: var(--ink); padding: 0.6rem; overflow-x: auto; "
    own += "font-family: Helvetica, Arial, sans-serif; "
    style = colours(".spectral", more=own) + STYLE
    return f'<div class="spectral"><style>{style}</style>{"".join(parts)}</div>'
