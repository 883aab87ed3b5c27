"""`spacy spectral draw`, `automaton` and `subtags`: parses and what parsers have learnt, as SVG and HTML."""

from collections.abc import Callable, Iterable
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..viz.markup import n_columns
from ._app import output_option, reported, spectral_cli, write_output

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Span

    from ..viz.automaton import AutomatonGraph

_OPTIONS = {
    "collapse_punct": False,
    "flat": True,
    "word_spacing": 26,
    "arrow_spacing": 14,
    "arrow_width": 7,
    "arrow_stroke": 1.6,
    "color": "#22303c",
    "font": "Helvetica, Arial, sans-serif",
}

_MOST_DISTANCE = 160.0
_CHARACTER, _AROUND = 8.6, 12.0  # width of a character and the room around a word, on the safe side

_STYLE = """
body { max-width: 110rem; font-size: 16px; line-height: 1.5; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 0.75rem; }
figure { margin: 0 0 1.25rem; padding: 0.9rem 1.2rem; background: #fff; border-radius: 8px;
         border: 1px solid #dde3e8; }
figcaption { display: flex; justify-content: space-between; gap: 2rem; margin-bottom: 0.4rem; }
figcaption .number { color: #7d8894; margin-inline-end: 0.6em; }
figcaption .tree { color: #5b6874; white-space: nowrap; font-size: 0.9rem; }
.scroll { overflow-x: auto; }
.scroll svg { display: block; }
.automaton { max-width: 100%; height: auto; }
.displacy-tag { fill: #5b6874; font-size: 0.8em; }
.legend { display: flex; flex-wrap: wrap; align-items: center; gap: 0.4rem 1.6rem;
          margin: 0.75rem 0 1.5rem; color: #5b6874; font-size: 0.9rem; }
@media print { figure { break-inside: avoid; }
  .scroll { overflow: visible; } .scroll svg { max-width: 100% !important; height: auto !important; } }
.legend svg { vertical-align: middle; margin-inline-end: 0.4em; }
"""


@spectral_cli.command("draw", short_help="Draw parses with the probability of every arc.")
def draw_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
    data: Annotated[
        str, typer.Argument(help="CoNLL-U, .spacy or bracketed file, or a text in quotes")
    ],
    output: Annotated[Path, output_option("--output", "-o", help="The HTML file to write")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Most sentences to draw")] = 10,
    gold_tags: Annotated[
        bool, typer.Option("--gold-tags", help="Parse on the treebank's tags, don't run taggers")
    ] = False,
    automaton: Annotated[
        list[str] | None,
        typer.Option("--automaton", help="Draw this automaton too, e.g. NN:left (repeatable)"),
    ] = None,
    component: Annotated[
        str, typer.Option("--component", help="The name of the parser with the automata")
    ] = "spectral_parser",
) -> None:
    """Draw parses to an HTML page; arcs show their probability as opacity and number.

    A treebank is parsed inside its own sentences; of a large one, those of 6 to 25 words are drawn first. A
    text is split into sentences by the pipeline.
    """
    from wasabi import msg

    from ..base.files import require_writable
    from ..viz.automaton import head_automaton
    from ._app import grammar_of, load_pipeline

    with reported():
        require_writable(output)
        nlp = load_pipeline(model)
        graphs = []
        for name in automaton or ():
            head, colon, direction = name.rpartition(":")
            if not colon:
                msg.fail(f"'{name}' is no automaton: write TAG:left or TAG:right", exits=1)
            graphs.append(head_automaton(grammar_of(nlp, component), head, direction))
        sentences = parsed_sentences(nlp, data, limit=limit, gold_tags=gold_tags)
    if not any(_has_parse(sentence) for sentence in sentences):
        reason = "does it have a parser?" if sentences else "the text has no words"
        msg.fail(f"The pipeline '{model}' gives no parses ({reason})", exits=1)
    name = nlp.meta.get("name") or "pipeline"
    write_output(output, page(sentences, graphs, title=f"{nlp.lang}_{name}"))
    drawn = f"{len(sentences)} sentence{'' if len(sentences) == 1 else 's'}"
    if graphs:
        drawn += f" and {len(graphs)} automat{'on' if len(graphs) == 1 else 'a'}"
    msg.good(f"{drawn} in {output}")


def parsed_sentences(
    nlp: "Language", data: str, *, limit: int, gold_tags: bool = False
) -> list["Span"]:
    """Parse a text, or the words of a treebank."""
    from ..readers import bracketed_docs, superseded, without_parses
    from ..treebank.brackets import is_bracketed
    from ..treebank.documents import SUFFIXES, read_docs
    from ._app import parse_text

    path = Path(data)
    # a text can be too long for a path to be looked up, and an empty one would be "."
    is_path = path.suffix in SUFFIXES or is_bracketed(path)
    if not is_path and not (0 < len(data) < 256 and path.exists()):
        return list(islice(parse_text(nlp, data).sents, limit))
    references: Iterable = bracketed_docs(path, nlp.vocab) or read_docs(path, nlp.vocab)
    chosen = _good_to_look_at(references, limit, lambda doc: any(map(_is_typical, doc.sents)))
    with nlp.select_pipes(disable=superseded(nlp, gold_tags=gold_tags)):
        docs = list(nlp.pipe(without_parses(chosen, gold_tags=gold_tags)))
    return _good_to_look_at((sent for doc in docs for sent in doc.sents), limit, _is_typical)


def _is_typical(sentence: "Span") -> bool:
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


def page(sentences: list["Span"], graphs: list["AutomatonGraph"], *, title: str) -> str:
    """Make the HTML page."""
    from ..viz.markup import html_page

    has_arcs = any(sentence.doc.has_annotation("DEP") for sentence in sentences)
    has_trees = any(_trees_of(sentence) for sentence in sentences)
    parts = [_legend(has_arcs, has_trees, bool(graphs))]
    for number, sentence in enumerate(sentences, start=1):
        if sentence.doc.has_annotation("DEP"):
            probability = _tree_probability(sentence)
            parts.append(_figure(number, sentence, _draw_arcs(sentence), probability))
        for tree in _trees_of(sentence):
            parts.append(_figure(number, sentence, _draw_tree(sentence, tree)))
    if graphs:
        parts.append("<h2>Head automata</h2>")
        parts += [f'<figure><div class="scroll">{g.to_svg()}</div></figure>' for g in graphs]
    doc = sentences[0].doc
    direction = doc.vocab.writing_system.get("direction", "ltr")
    return html_page(title, parts, style=_STYLE, lang=doc.lang_, direction=direction)


def _trees_of(sentence: "Span") -> list[Any]:
    from ..pipeline.constituents import stored_trees

    return [
        tree
        for tree in stored_trees(sentence.doc)
        if sentence.start <= tree.tokens[0] and tree.tokens[-1] < sentence.end
    ]


def _has_parse(sentence: "Span") -> bool:
    return sentence.doc.has_annotation("DEP") or bool(_trees_of(sentence))


def _figure(number: int, sentence: "Span", drawing: str, more: str = "") -> str:
    return (
        f'<figure><figcaption><span><span class="number">{number}</span>'
        f"{escape(sentence.text)}</span>{more}</figcaption>"
        f'<div class="scroll">{drawing}</div></figure>'
    )


def _draw_tree(sentence: "Span", tree: Any) -> str:
    from ..viz.constituents import tree_svg

    return tree_svg(tree.parsed, [sentence.doc[i].text for i in tree.tokens])


def _draw_arcs(sentence: "Span") -> str:
    from ..viz.displacy import parse_deps, render

    options: dict[str, Any] = _OPTIONS | {"fine_grained": sentence.doc.has_annotation("TAG")}
    parsed = parse_deps(sentence, options)
    # displaCy sets all words at the same distance: the longest word and the labels between
    # neighbours must fit, but one long word should not blow up everything (it is whole above)
    for word in parsed["words"]:
        word["text"] = _shortened(word["text"])
    needed = [
        max(
            _CHARACTER * n_columns(word["text"]),
            7.6 * n_columns(word["tag"]),
            6.2 * (n_columns(word["root"]["label"]) + 4) if "root" in word else 0,
        )
        + _AROUND
        for word in parsed["words"]
    ]
    beside = [
        6.2 * len(arc["label"]) + 48 for arc in parsed["arcs"] if arc["end"] - arc["start"] == 1
    ]
    distance = min(max(needed + beside), _MOST_DISTANCE)
    options |= {"distance": distance, "offset_x": max(distance, needed[0]) / 2}
    return render(parsed, options=options, jupyter=False, manual=True)


def _shortened(word: str) -> str:
    most = int((_MOST_DISTANCE - _AROUND) / _CHARACTER)
    if n_columns(word) <= most:
        return word
    while n_columns(word) > most - 1:
        word = word[:-1]
    return f"{word}…"


def _tree_probability(sentence: "Span") -> str:
    from math import exp

    from ..pipeline.annotations import parse_logprob

    logprob = parse_logprob(sentence)
    if logprob is None:
        return ""
    shown = f"{exp(logprob):.2g}"
    return f'<span class="tree" title="probability of the tree">P(tree) = {shown}</span>'


def _legend(arcs: bool, trees: bool, automata: bool) -> str:
    from ..viz.markup import opacity

    samples = "".join(
        f'<svg width="34" height="12"><path d="M2,6 H24" stroke="#22303c" stroke-width="2" '
        f'opacity="{opacity(value):.2f}"/><path d="M32,6 L22,1 L22,11 Z" fill="#22303c" '
        f'opacity="{opacity(value):.2f}"/></svg>{text}'
        for value, text in ((1.0, "certain &emsp;"), (0.5, ".50 &emsp;"), (0.1, ".10"))
    )
    notes = []
    if arcs:
        notes.append(f"<span>{samples}</span>")
        notes.append("<span>probability of an arc, given the sentence</span>")
    if trees:
        notes.append(
            "<span>number and shade of a label: probability of a constituent, given the sentence</span>"
        )
    if automata:
        notes.append(
            "<span>automata: modifiers from the head outwards; in a state, its share of all "
            "visits</span>"
        )
    return f'<div class="legend">{"".join(notes)}</div>'


_WRITERS = {".svg": "to_svg", ".dot": "to_dot"}


@spectral_cli.command("automaton", short_help="Draw what an automaton has learnt.")
def automaton_cli(
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
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
    from wasabi import msg

    from ..base.files import require_writable
    from ..viz.automaton import head_automaton
    from ._app import grammar_of, load_pipeline

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
    model: Annotated[str, typer.Argument(help="A pipeline: directory or installed package")],
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
    from wasabi import msg

    from ..base.errors import Errors, SpectralError
    from ..base.files import require_writable, write_atomically
    from ..models.refine.subtags import state_names
    from ..viz.subtags import collect_examples, count_sub_tags, render_sub_tags, shown_tags
    from ._app import load_pipeline

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


def _refined(nlp: "Language", component: str | None) -> tuple[Any, Any]:
    """The component with a refined grammar, and the grammar."""
    from ..base.errors import Errors, SpectralError
    from ..base.learnt import Learnt
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
