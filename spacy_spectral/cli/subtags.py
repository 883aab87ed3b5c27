"""`spacy spectral subtags`: one HTML page that shows what a refined grammar has learnt."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._app import (
    load_pipeline,
    output_option,
    reported,
    spectral_cli,
)

if TYPE_CHECKING:
    from spacy.language import Language

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

    from ..base.errors import Errors
    from ..base.serialize import require_writable, write_atomically
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
                raise ValueError(Errors.S806.format(tag=own, known=", ".join(known)))
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
    from ..base.errors import Errors
    from ..base.learnt import Learnt
    from ..models.refine.model import RefinedGrammar
    from ..pipeline.component import SpectralPipe

    names = nlp.component_names if component is None else [component]
    for name in names:
        pipe = nlp.get_pipe(name) if name in nlp.component_names else None
        learnt = pipe.model.attrs.get("learnt") if isinstance(pipe, SpectralPipe) else None
        if isinstance(learnt, Learnt) and isinstance(learnt.value, RefinedGrammar):
            return pipe, learnt.value
    raise ValueError(Errors.S805.format(known=", ".join(nlp.component_names) or "none"))


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
