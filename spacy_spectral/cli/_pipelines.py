"""What several commands do with a pipeline: load it, run it on a treebank, get at its grammar."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

    from ..models.shag.grammar import Grammar

# what --gold-tags takes from the treebank, and the token attributes of components it replaces
_GOLD_TAGS = ("tag", "pos", "morph")
_TAG_ATTRIBUTES = {"token.tag", "token.pos", "token.morph"}


def load_pipeline(model: str) -> "Language":
    """Load a pipeline, or say why that does not work and end the command."""
    from spacy import util
    from wasabi import msg

    try:
        return util.load_model(model)
    except (OSError, ValueError) as error:
        msg.fail(f"Can't load the pipeline '{model}'", str(error), exits=1)


def load_vectors(model: str) -> "Language":
    """Load a pipeline that has word vectors; arguments as for `load_pipeline`."""
    from ..base.errors import Errors

    nlp = load_pipeline(model)
    if not nlp.vocab.vectors.size:
        raise ValueError(Errors.S222)
    return nlp


def parser_of(nlp: "Language", component: str) -> Any:
    """A pipeline's spectral parser."""
    from ..base.errors import Errors

    pipe = nlp.get_pipe(component) if component in nlp.component_names else None
    if not hasattr(pipe, "nbest"):
        known = ", ".join(nlp.component_names) or "none"
        raise ValueError(Errors.S154.format(name=component, known=known))
    return pipe


def grammar_of(nlp: "Language", component: str) -> "Grammar":
    """The grammar of a pipeline's parser; arguments as for `parser_of`."""
    from ..base.errors import Errors
    from ..models.shag.grammar import Grammar

    grammar = parser_of(nlp, component).grammar
    if not isinstance(grammar, Grammar):
        raise ValueError(Errors.S156.format(name=component))
    return grammar


def parse_text(nlp: "Language", text: str) -> "Doc":
    """Run a pipeline over a text.

    A text whose words all carry tags ("The_DT dog_NN barks_VBZ") is parsed on them; where it is known what
    tags there are, one of them must be among these ("snake_case" is a word). Where the pipeline sets no
    sentence boundaries before parsing, the text is one sentence.
    """
    from spacy.tokens import Doc

    from ..base.errors import Errors

    if not text.strip():
        raise ValueError(Errors.S158)
    pieces = [piece.rpartition("_") for piece in text.split()]
    known = _known_tags(nlp)
    tagged = all(word and tag for word, _, tag in pieces)
    if tagged and (not known or any(tag in known for _, _, tag in pieces)):
        doc = Doc(
            nlp.vocab,
            words=[word for word, _, _ in pieces],
            tags=[tag for _, _, tag in pieces],
            sent_starts=[1] + [-1] * (len(pieces) - 1),
        )
        disabled = superseded(nlp, gold_tags=True)
    else:
        doc = nlp.make_doc(text)
        disabled = []
        if not superseded(nlp, gold_tags=False):
            for token in doc:
                token.is_sent_start = token.i == 0
    with nlp.select_pipes(disable=disabled):
        return nlp(doc)


def _known_tags(nlp: "Language") -> set[str]:
    """The tags that taggers and grammars of a pipeline have learnt."""
    from ..models.shag.grammar import Grammar

    known: set[str] = set()
    for name, pipe in nlp.components:
        if "token.tag" in nlp.get_pipe_meta(name).assigns:
            known.update(getattr(pipe, "labels", ()))
        grammar = getattr(pipe, "grammar", None)
        if isinstance(grammar, Grammar):
            known.update(grammar.symbols.names)
    return known


def without_parses(references: Iterable["Doc"], *, gold_tags: bool) -> list["Doc"]:
    """Documents to run a pipeline on: the words and sentences of a treebank."""
    from ..readers import copy_words

    annotations = ("sents", *(_GOLD_TAGS if gold_tags else ()))
    return [copy_words(reference, annotations) for reference in references]


def superseded(nlp: "Language", *, gold_tags: bool) -> list[str]:
    """The components whose work the treebank has done: they assign nothing else of a parse."""
    names = []
    for name in nlp.pipe_names:
        assigned = set(nlp.get_pipe_meta(name).assigns)
        if "token.dep" in assigned or "token.head" in assigned:
            continue
        # an attribute ruler does not say what it assigns; it maps tags to parts of speech
        tags = assigned & _TAG_ATTRIBUTES or nlp.get_pipe_meta(name).factory == "attribute_ruler"
        if "token.is_sent_start" in assigned or (gold_tags and tags):
            names.append(name)
    return names
