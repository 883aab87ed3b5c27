"""`spacy spectral draw`, `automaton` and `subtags`: parses and what parsers have learnt, as SVG and HTML."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import load_model
from wasabi import msg

from ..base.errors import Errors, SpectralError
from ..base.files import require_writable, write_atomically
from ..base.learnt import Learnt
from ._app import (
    GoldTags,
    Pipeline,
    grammar_of,
    load_pipeline,
    output_option,
    parse_text,
    reported,
    spectral_cli,
    write_output,
)

if TYPE_CHECKING:
    from ..viz.automaton import AutomatonGraph

_STYLE = """
body { max-width: 78rem; font-size: 16px; line-height: 1.5; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 0.75rem; }
figure { margin: 0 0 1.25rem; padding: 0.9rem 1.2rem; background: var(--card); border-radius: 8px;
         border: 1px solid var(--border); }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0.2rem 2rem;
             margin-bottom: 0.4rem; overflow-wrap: anywhere; }
figcaption .number { color: var(--soft); margin-inline-end: 0.6em; }
figcaption .told { color: var(--soft); font-size: 0.9rem; }
.scroll { overflow-x: auto; } .scroll svg { display: block; }
.automaton { max-width: 100%; height: auto; }
.legend { display: flex; flex-wrap: wrap; align-items: center; gap: 0.4rem 1.6rem;
          margin: 0.75rem 0 1.5rem; color: var(--soft); font-size: 0.9rem; }
.legend svg { vertical-align: middle; margin-inline-end: 0.4em; } .legend path { stroke: var(--line); }
.legend .right { stroke: var(--right); stroke-dasharray: 5 3; } .legend .tip { fill: var(--line); }
.legend .other { stroke: var(--other); stroke-dasharray: 2 3; } .legend .wrong { stroke: var(--wrong); }
@media (max-width: 700px) { figure { padding: 0.6rem; } }
@media print { figure { break-inside: avoid; }
  .scroll { overflow: visible; } .scroll svg { max-width: 100% !important; height: auto !important; } }
"""


@spectral_cli.command("draw", short_help="Draw parses with the probability of every arc.")
def draw_cli(
    model: Pipeline,
    data: Annotated[
        str, typer.Argument(help="CoNLL-U, .spacy or bracketed file, or a text in quotes")
    ],
    output: Annotated[
        Path,
        output_option("--output", "-o", help="The HTML file to write, or .svg for one sentence"),
    ],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most sentences to draw")] = 10,
    gold_tags: GoldTags = False,
    nbest: Annotated[
        int, typer.Option("--nbest", min=0, help="Also the best parses, so many, with what differs")
    ] = 0,
    automaton: Annotated[
        list[str] | None,
        typer.Option("--automaton", help="Draw this automaton too, e.g. NN:left (repeatable)"),
    ] = None,
    component: Annotated[
        str, typer.Option("--component", help="The name of the parser with the automata")
    ] = "spectral_parser",
) -> None:
    """Draw parses to an HTML page; arcs show their probability as opacity and number.

    A treebank is parsed inside its own sentences, and what is wrong is marked; of a large one, sentences of 6
    to 25 words are drawn first. A text is split into sentences by the pipeline.

    A file that ends in .svg gets the arcs of the first sentence, with the likeliest other ones below.
    """
    from ..viz.automaton import head_automaton

    with reported():
        require_writable(output)
        nlp = load_pipeline(model, load=_with_alternatives)
        graphs = []
        for name in automaton or ():
            head, colon, direction = name.rpartition(":")
            if not colon:
                msg.fail(f"'{name}' is no automaton: write TAG:left or TAG:right", exits=1)
            graphs.append(head_automaton(grammar_of(nlp, component), head, direction))
        drawable = parsed_sentences(nlp, data, limit=limit, gold_tags=gold_tags)
        if not any(own.is_parsed for own in drawable):
            reason = "does it have a parser?" if drawable else "the text has no words"
            msg.fail(f"The pipeline '{model}' gives no parses ({reason})", exits=1)
        if output.suffix == ".svg":
            write_output(output, drawable[0].picture(nlp))
            msg.good(f"1 sentence in {output}")
            return
        for own in drawable:
            own.draw(nlp, nbest)
    title = f"{nlp.lang}_{nlp.meta.get('name') or 'pipeline'}"
    write_output(output, page(drawable, graphs, title=title, has_nbest=nbest > 0))
    drawn = f"{len(drawable)} sentence{'' if len(drawable) == 1 else 's'}"
    if graphs:
        drawn += f" and {len(graphs)} automat{'on' if len(graphs) == 1 else 'a'}"
    msg.good(f"{drawn} in {output}")


def _with_alternatives(model: str) -> Language:

    from ..pipeline.parser import store_with_alternatives

    nlp = load_model(model)
    overrides = store_with_alternatives(nlp)
    return load_model(model, config=overrides) if overrides else nlp


@dataclass
class Drawable:
    """A parsed sentence, perhaps with what is right: a document with the same tokens."""

    sentence: Span
    gold: "Doc | None" = None
    drawings: list[str] = field(default_factory=list)

    @property
    def has_arcs(self) -> bool:
        return self.sentence.doc.has_annotation("DEP")

    @property
    def has_tree(self) -> bool:
        from ..pipeline.constituents import stored_trees

        own = self.sentence
        trees = stored_trees(own.doc)
        return any(own.start <= t.tokens[0] and t.tokens[-1] < own.end for t in trees)

    @property
    def is_parsed(self) -> bool:
        return self.has_arcs or self.has_tree

    @property
    def has_gold(self) -> bool:
        return self.gold is not None

    @property
    def text(self) -> str:
        """The sentence as it was written, where words are not its tokens."""
        from ..pipeline.words import surface

        own = surface(self.sentence.doc)
        return own.text[own.starts[self.sentence.start] : own.ends[self.sentence.end - 1]]

    def words(self) -> list[Any]:
        from ..viz.parses import tree_words

        gold = {}
        if self.gold is not None and self.gold.has_annotation("DEP"):
            own = self.gold[self.sentence.start : self.sentence.end]
            gold = {token.i: (token.head.i, token.dep_) for token in own if token.dep_}
        return tree_words(self.sentence, gold)

    @property
    def told(self) -> str:
        """How probable the tree is, and how much of it is wrong."""
        from ..pipeline.annotations import parse_logprob

        parts = []
        if self.has_arcs and (logprob := parse_logprob(self.sentence)) is not None:
            parts.append(f"P(tree) = {exp(logprob):.2g}")
        if self.has_arcs and self.has_gold:
            n = sum(word.is_wrong for word in self.words())
            parts.append(f"{n or 'no'} wrong arc{'' if n == 1 else 's'}")
        return ", ".join(parts)

    def draw(self, nlp: Language, nbest: int) -> None:
        """Make all drawings of the sentence."""
        from ..viz.arcs import arcs_html
        from ..viz.parses import constituents_svg, drawings

        if self.has_arcs:
            self.drawings.append(arcs_html(self.words(), direction=_direction(self.sentence.doc)))
        if self.has_arcs and nbest:
            self.drawings += drawings(self.sentence, "nbest", nlp, k=nbest, with_tree=False)
        for svg in constituents_svg(self.sentence, nlp, gold=self.gold):
            self.drawings.append(f'<div class="scroll">{svg}</div>')

    def picture(self, nlp: Language) -> str:
        """The arcs, or the constituents, as a file of its own."""
        from ..viz.arcs import arcs_svg
        from ..viz.parses import constituents_svg

        if self.has_arcs:
            return arcs_svg(self.words(), direction=_direction(self.sentence.doc))
        return constituents_svg(self.sentence, nlp)[0]


def _direction(doc: Doc) -> str:
    return doc.vocab.writing_system.get("direction", "ltr")


def parsed_sentences(
    nlp: Language, data: str, *, limit: int, gold_tags: bool = False
) -> list[Drawable]:
    """Parse a text, or the words of a treebank."""
    from ..pipeline.words import with_words
    from ..readers import bracketed_docs, parsed_anew
    from ..treebank.brackets import is_bracketed
    from ..treebank.documents import SUFFIXES, read_docs

    path = Path(data)
    # a text can be too long for a path to be looked up, and an empty one would be "."
    is_path = path.suffix in SUFFIXES or is_bracketed(path)
    if not is_path and not (0 < len(data) < 256 and path.exists()):
        doc = with_words(parse_text(nlp, data))
        return list(islice(map(Drawable, doc.sents), limit))
    references: Iterable = bracketed_docs(path, nlp.vocab) or read_docs(path, nlp.vocab)
    chosen = _good_to_look_at(references, limit, lambda doc: any(map(_is_typical, doc.sents)))
    docs, _ = parsed_anew(nlp, chosen, gold_tags=gold_tags)
    pairs = zip(docs, chosen, strict=True)
    found = (Drawable(sent, gold) for doc, gold in pairs for sent in doc.sents)
    return _good_to_look_at(found, limit, lambda own: _is_typical(own.sentence))


def _is_typical(sentence: Span) -> bool:
    return 6 <= sum(not token.is_space for token in sentence) <= 25


def _good_to_look_at(items: Iterable[Any], limit: int, is_good: Callable[[Any], bool]) -> list[Any]:
    """The first good ones, in their order; others only where there are too few."""
    good: list[tuple[int, Any]] = []
    others: list[tuple[int, Any]] = []
    for place, item in enumerate(items):
        (good if is_good(item) else others).append((place, item))
        if len(good) == limit:
            break
    chosen = good + others[: limit - len(good)]
    return [item for _, item in sorted(chosen, key=lambda pair: pair[0])]


def page(
    drawable: list[Drawable], graphs: list["AutomatonGraph"], *, title: str, has_nbest: bool = False
) -> str:
    """Make the HTML page."""
    from ..viz.markup import html_page
    from ..viz.parses import STYLE

    parts = [_legend(drawable, has_nbest, bool(graphs))]
    for number, own in enumerate(drawable, start=1):
        told = f'<span class="told">{escape(own.told)}</span>' if own.told else ""
        parts.append(
            f'<figure><figcaption><span><span class="number">{number}</span>'
            f"{escape(own.text)}</span>{told}</figcaption>{''.join(own.drawings)}</figure>"
        )
    if graphs:
        parts.append("<h2>Head automata</h2>")
        parts += [f'<figure><div class="scroll">{g.to_svg()}</div></figure>' for g in graphs]
    doc = drawable[0].sentence.doc
    return html_page(title, parts, style=STYLE + _STYLE, lang=doc.lang_, direction=_direction(doc))


def _legend(drawable: list[Drawable], nbest: bool, automata: bool) -> str:
    from ..viz.markup import opacity

    def sample(kind: str, text: str, solid: float = 1.0) -> str:
        tip = (
            f'<path class="tip" d="M32,6 L22,1 L22,11 Z" opacity="{solid:.2f}"/>'
            if not kind
            else ""
        )
        line = f'<path class="{kind}" d="M2,6 H24" fill="none" stroke-width="2" opacity="{solid:.2f}"/>'
        return f'<span><svg width="34" height="12">{line}{tip}</svg>{text}</span>'

    notes = []
    if any(own.has_arcs for own in drawable):
        values = ((1.0, "certain"), (0.5, ".50"), (0.1, ".10"))
        notes += [sample("", text, opacity(value)) for value, text in values]
        notes.append("<span>probability of an arc, given the sentence</span>")
        notes.append("<span>hover over a word: its second-best head</span>")
    if any(own.has_gold for own in drawable):
        notes += [sample("wrong", "wrong"), sample("right", "right, below the words")]
    if any(own.has_tree for own in drawable):
        notes.append(
            "<span>number and shade of a label: probability of a constituent, given the sentence</span>"
        )
        notes.append(sample("other", "the likeliest other bracket"))
    if nbest:
        notes.append("<span>list: the best parses, their probabilities, and what differs</span>")
    if automata:
        notes.append(
            "<span>automata: modifiers from the head outwards; in a state, its share of all "
            "visits</span>"
        )
    return f'<div class="legend">{"".join(notes)}</div>'


_WRITERS = {".svg": "to_svg", ".dot": "to_dot"}


@spectral_cli.command("automaton", short_help="Draw what an automaton has learnt.")
def automaton_cli(
    model: Pipeline,
    head: Annotated[str, typer.Option("--head", help="Symbol of the head, e.g. NN")],
    direction: Annotated[
        str, typer.Option("--direction", help="Side of its modifiers: left or right")
    ],
    output: Annotated[Path, output_option("--output", "-o", help="The .svg or .dot file to write")],
    component: Annotated[
        str, typer.Option("--component", help="The parser's name in the pipeline")
    ] = "spectral_parser",
    states: Annotated[int, typer.Option("--states", min=1, help="Most states to draw")] = 6,
    threshold: Annotated[
        float,
        typer.Option("--threshold", min=0.0, max=1.0, help="Leave out less probable transitions"),
    ] = 0.05,
) -> None:
    """Draw which modifiers a head takes, nearest first, as a small deterministic automaton.

    Its states are clusters of histories after which the parser expects much the same. A state shows
    its number and its share of all visits.
    """
    from ..viz.automaton import head_automaton

    if output.suffix not in _WRITERS:
        known = " or ".join(_WRITERS)
        msg.fail(
            f"Can't tell the format from '{output.name}': its name must end in {known}", exits=1
        )
    with reported():
        require_writable(output)
        nlp = load_pipeline(model)
        graph = head_automaton(
            grammar_of(nlp, component), head, direction, states=states, threshold=threshold
        )
    write_output(output, getattr(graph, _WRITERS[output.suffix])())
    msg.good(f"Automaton of {head}, {direction}, with {len(graph.states)} states in {output}")


# so many sentences are looked at for examples
_MOST_DOCUMENTS = 2000


@spectral_cli.command("subtags", short_help="Show what a refined grammar has learnt.")
def subtags_cli(
    model: Pipeline,
    output: Annotated[Path, output_option("--output", "-o", help="The HTML file to write")],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Show this tag only; can be repeated")
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", help="CoNLL-U or .spacy file to take example sentences from"),
    ] = None,
    component: Annotated[
        str | None,
        typer.Option("--component", help="Name of the refiner or parser; the first by default"),
    ] = None,
) -> None:
    """Show every sub-tag of a refined grammar: its share, typical words, heads and children."""
    from ..models.refine.subtags import state_names
    from ..viz.subtags import collect_examples, count_sub_tags, render_sub_tags, shown_tags

    with reported():
        require_writable(output)
        nlp = load_pipeline(model)
        pipe, grammar = _refined(nlp, component)
        names = state_names(grammar)
        known = grammar.symbols.names[:-1]
        for own in tag or ():
            if own not in known:
                raise SpectralError(Errors.S806.format(tag=own, known=", ".join(known)))
        found = None
        if examples is not None:
            found = collect_examples(names, _sentences(pipe, grammar, examples))
        tags = tag or shown_tags(grammar)
        page = render_sub_tags(
            grammar, tags=tags, examples=found, title=f"Sub-tags of {nlp.meta['name']}"
        )
        write_atomically(output, page)
    msg.good(f"{count_sub_tags(grammar, tags):,} sub-tags in {output}")


def _refined(nlp: Language, component: str | None) -> tuple[Any, Any]:
    """The component with a refined grammar, and the grammar."""
    from ..models.refine.model import RefinedGrammar
    from ..pipeline.component import SpectralPipe

    names = nlp.component_names if component is None else [component]
    for name in names:
        pipe = nlp.get_pipe(name) if name in nlp.component_names else None
        learnt = pipe.model.attrs.get("learnt") if isinstance(pipe, SpectralPipe) else None
        if isinstance(learnt, Learnt) and isinstance(learnt.value, RefinedGrammar):
            return pipe, learnt.value
    raise SpectralError(Errors.S805.format(known=", ".join(nlp.component_names) or "none"))


def _sentences(pipe: Any, grammar: Any, path: Path) -> list[tuple[list[str], Any, Any]]:
    """The sentences of a treebank with their sub-tags in its trees."""
    from ..models.refine.subtags import sub_tags
    from ..pipeline.documents import fixed_heads
    from ..treebank.documents import read_docs

    batch = pipe.read(islice(read_docs(path, pipe.vocab), _MOST_DOCUMENTS))
    found = sub_tags(grammar, batch.tokens, fixed_heads(batch))
    return [
        (batch.tokens.words[a:b], found.states[a:b], found.probs[a:b])
        for a, b in batch.tokens.bounds()
    ]
