"""What a refined grammar has learnt, as one HTML page: for every sub-tag its words, heads and children."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy
from numpy.typing import NDArray

from ..models.refine.model import RefinedGrammar
from ..models.refine.statistics import LEFT, RIGHT
from ..models.refine.subtags import state_names
from .markup import html_page

_N_WORDS = 14
_N_NEIGHBOURS = 5
_N_EXAMPLES = 3
_N_HINTS = 6

_STYLE = """
body { max-width: 84rem; font-size: 15px; line-height: 1.45; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.2rem; }
.about, .count { color: #5b6874; }
.count { font-weight: normal; font-size: 0.9rem; margin-inline-start: 0.6em; }
.shares { display: flex; height: 0.7rem; margin: 0.35rem 0 0.8rem; border-radius: 4px; overflow: hidden; }
.shares span { border-inline-end: 1px solid #fff; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr));
         gap: 0.9rem; }
.card { background: #fff; border: 1px solid #dde3e8; border-radius: 8px; padding: 0.7rem 1rem;
        border-top: 4px solid; break-inside: avoid; }
.card h3 { margin: 0 0 0.3rem; font-size: 1rem; display: flex; justify-content: space-between; }
.card h3 span { color: #5b6874; font-weight: normal; }
.words { margin: 0 0 0.5rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.88rem; }
th { text-align: start; color: #7d8894; font-weight: normal; vertical-align: top; width: 5.4rem;
     padding: 0.1rem 0; }
td { padding: 0.1rem 0; }
.chip { display: inline-block; margin-inline-end: 0.75em; white-space: nowrap; }
.chip small { color: #5b6874; }
.chip a, .chip span { color: inherit; text-decoration: underline dotted #aab4be; text-underline-offset: 3px; }
.card:target { box-shadow: 0 0 0 3px #9db8d2; }
ul { margin: 0.5rem 0 0; padding: 0.4rem 0 0; list-style: none; border-top: 1px solid #eef1f4;
     font-size: 0.88rem; color: #5b6874; }
li { margin: 0.15rem 0; }
li b { color: #22303c; }
"""


@dataclass
class SubTag:
    """What is shown of one sub-tag.

    share: Its share of the tag's tokens.
    heads: Where it hangs: "left of VB.1", and how often.
    left, right: Its children on both sides, and how many of each it has on average.
    """

    name: str
    share: float
    count: int
    words: list[str]
    heads: list[tuple[str, float]]
    left: list[tuple[str, float]]
    right: list[tuple[str, float]]


def describe(grammar: RefinedGrammar) -> list[SubTag]:
    """Every sub-tag of a grammar, in the order of their numbers."""
    names, layer, lexicon = state_names(grammar), grammar.fine, grammar.lexicon
    k = len(names)
    side, head, _, child = layer.contexts.T
    is_child = child < k
    children = numpy.zeros((2, k, k))
    numpy.add.at(
        children, (side[is_child], head[is_child], child[is_child]), layer.counts[is_child]
    )
    words = _typical_words(grammar)
    result = []
    for state in range(k):
        total = max(float(lexicon.totals[state]), 1.0)
        heads = [(f"left of {names[h]}", n) for h, n in enumerate(children[LEFT, :, state])]
        heads += [(f"right of {names[h]}", n) for h, n in enumerate(children[RIGHT, :, state])]
        heads.append(("root", float(layer.roots[state])))
        left, right = (list(zip(names, children[s, state], strict=True)) for s in (LEFT, RIGHT))
        result.append(
            SubTag(
                name=names[state],
                share=float(lexicon.share[state]),
                count=int(lexicon.totals[state]),
                words=words[state],
                heads=_most_frequent(heads, total),
                left=_most_frequent(left, total),
                right=_most_frequent(right, total),
            )
        )
    return result


def _most_frequent(pairs: list[tuple[str, float]], total: float) -> list[tuple[str, float]]:
    """The most frequent names with their rates, rare ones left out."""
    best = sorted(pairs, key=lambda pair: -pair[1])[:_N_NEIGHBOURS]
    return [(name, float(n) / total) for name, n in best if n / total >= 0.01]


def _typical_words(grammar: RefinedGrammar) -> list[list[str]]:
    """The words of every state that are frequent in it and more so than in its tag."""
    lexicon = grammar.lexicon
    entries, counts = lexicon.entries()
    name, state = entries.astype("int64").T
    tag_of = lexicon.tag_states.tag_of
    is_word = numpy.array(
        [not (text.startswith("<") and text.endswith(">")) for text in lexicon.names], dtype=bool
    )[name]
    name, state, number = name[is_word], state[is_word], counts[is_word].astype("float64")
    # P(state | word, tag) against P(state | tag)
    pair = name * lexicon.tag_states.n_tags + tag_of[state]
    _, which = numpy.unique(pair, return_inverse=True)
    of_pair = numpy.bincount(which, number)[which]
    typical = number * numpy.log(number / of_pair / lexicon.share[state])
    # where a tag has one state nothing is more typical than what is frequent
    alone = lexicon.tag_states.size[tag_of[state]] == 1
    typical = numpy.where(alone, number, typical)
    order = numpy.lexsort((name, -typical, state))
    words: list[list[str]] = [[] for _ in tag_of]
    for i in order.tolist():
        own = words[state[i]]
        if len(own) < _N_WORDS and typical[i] > 0:
            own.append(lexicon.names[name[i]])
    return words


Example = tuple[Sequence[str], int]  # the words of a sentence, and which of them is meant


def collect_examples(
    names: Sequence[str], sentences: Sequence[tuple[Sequence[str], NDArray, NDArray]]
) -> dict[str, list[Example]]:
    """Sentences in which sub-tags are most certain."""
    found: dict[str, list[tuple[float, int, int, int]]] = {}
    for s, (words, states, probs) in enumerate(sentences):
        # certain to two digits is certain enough: then short ones are read more easily
        length = len(words) if len(words) > 4 else 100 + len(words)
        for i, (state, prob) in enumerate(zip(states.tolist(), probs.tolist(), strict=True)):
            found.setdefault(names[state], []).append((-round(prob, 2), length, s, i))
    result = {}
    for name, own in found.items():
        best: dict[str, Example] = {}
        for _, _, s, i in sorted(own):
            words = sentences[s][0]
            best.setdefault(words[i].lower(), (words, i))
        result[name] = list(best.values())[:_N_EXAMPLES]
    return result


def shown_tags(grammar: RefinedGrammar) -> list[str]:
    """The tags that the treebank had, the most frequent first."""
    order = numpy.argsort(-grammar.frequency, kind="stable").tolist()
    seen = numpy.bincount(grammar.fine.tag_states.tag_of, grammar.lexicon.totals) > 0
    return [grammar.symbols.names[tag] for tag in order if seen[tag]]


def count_sub_tags(grammar: RefinedGrammar, tags: Sequence[str]) -> int:
    """How many sub-tags some tags have."""
    numbers = [grammar.symbols.names.index(tag) for tag in tags]
    return int(grammar.fine.tag_states.size[numbers].sum())


def render_sub_tags(
    grammar: RefinedGrammar,
    *,
    tags: Sequence[str],
    examples: Mapping[str, Sequence[Example]] | None = None,
    title: str = "Sub-tags",
) -> str:
    """Show what was learnt."""
    described, first = describe(grammar), grammar.fine.tag_states.first.tolist()
    numbers = [grammar.symbols.names.index(tag) for tag in tags]
    by_tag = [described[first[tag] : first[tag + 1]] for tag in numbers]
    parts = [
        f'<p class="about">{count_sub_tags(grammar, tags):,} sub-tags of {_number(len(tags), "tag")}. Words: '
        "frequent in the sub-tag, and more so than in its tag. Hangs: on which side of which heads. Left and "
        "right: children for each token, on average. Point at the name of another sub-tag to see its "
        "words.</p>",
    ]
    shown = {sub_tag.name for own in by_tag for sub_tag in own}
    links = {sub_tag.name: _link(sub_tag, sub_tag.name in shown) for sub_tag in described}
    for tag, own in zip(tags, by_tag, strict=True):
        parts.append(_section(tag, own, examples or {}, links))
    return html_page(title, parts, style=_STYLE)


def _number(n: int, thing: str) -> str:
    return f"{n:,} {thing}" + ("" if n == 1 else "s")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0095 else f"{share:.1%}"


def _link(own: SubTag, is_shown: bool) -> str:
    """The name of a sub-tag with some of its words, which leads to its card if there is one."""
    hint = escape(", ".join(own.words[:_N_HINTS]))
    if is_shown:
        return f'<a href="#{escape(own.name)}" title="{hint}">{escape(own.name)}</a>'
    return f'<span title="{hint}">{escape(own.name)}</span>'


def _colour(i: int, n: int) -> str:
    return f"hsl({210 + round(300 * i / max(n, 1))}, 45%, 55%)"


def _section(
    tag: str,
    sub_tags: Sequence[SubTag],
    examples: Mapping[str, Sequence[Example]],
    links: Mapping[str, str],
) -> str:
    total, n = sum(own.count for own in sub_tags), len(sub_tags)
    bar = "".join(
        f'<span style="width:{own.share:.2%};background:{_colour(i, n)}" title="{escape(own.name)}"></span>'
        for i, own in enumerate(sub_tags)
    )
    cards = "\n".join(
        _card(own, _colour(i, n), examples.get(own.name, ()), links)
        for i, own in enumerate(sub_tags)
    )
    size = f"{_number(total, 'token')}, {_number(n, 'sub-tag')}"
    return (
        f'<h2>{escape(tag)}<span class="count">{size}</span></h2>\n'
        f'<div class="shares">{bar}</div>\n<div class="cards">\n{cards}\n</div>'
    )


def _card(own: SubTag, colour: str, examples: Sequence[Example], links: Mapping[str, str]) -> str:
    words = " ".join(f'<span class="chip">{escape(word)}</span>' for word in own.words)
    rows = "".join(
        f"<tr><th>{label}</th><td>{chips}</td></tr>"
        for label, chips in (
            ("hangs", _chips(own.heads, "{:.0%}", links)),
            ("left", _chips(own.left, "{:.2f}", links)),
            ("right", _chips(own.right, "{:.2f}", links)),
        )
        if chips
    )
    shown = "".join(f"<li>{_sentence(*example)}</li>" for example in examples)
    return (
        f'<div class="card" id="{escape(own.name)}" style="border-top-color:{colour}"><h3>{escape(own.name)}'
        f"<span>{_percent(own.share)}</span></h3>"
        f'<p class="words">{words}</p><table>{rows}</table>'
        + (f"<ul>{shown}</ul>" if shown else "")
        + "</div>"
    )


def _chips(pairs: Sequence[tuple[str, float]], form: str, links: Mapping[str, str]) -> str:
    chips = []
    for text, rate in pairs:
        place, _, name = text.rpartition(" ")
        shown = f"{escape(place)} {links.get(name, escape(name))}".lstrip()
        chips.append(f'<span class="chip">{shown} <small>{form.format(rate)}</small></span>')
    return " ".join(chips)


def _sentence(words: Sequence[str], at: int) -> str:
    """A sentence with one word in bold, cut around it."""
    begin, end = max(0, at - 8), at + 9
    shown = [
        f"<b>{escape(word)}</b>" if i == at else escape(word)
        for i, word in enumerate(words[begin:end], start=begin)
    ]
    return ("… " if begin else "") + " ".join(shown) + (" …" if end < len(words) else "")
