"""The spaCy face: similarity of Docs, Spans and Tokens by eigenwords, and clusters on tokens."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from spacy.language import Language
from spacy.lookups import Lookups
from spacy.tokens import Doc, Span, Token

from ..base.errors import Errors
from .annotations import register_extension

Text: TypeAlias = Doc | Span | Token


def compare(left: Text, right: Text) -> float:
    """s(a,b) of `spacy_spectral.models.eigenwords.similarity`, words weighted by minus log frequency.

    left (Union[Doc, Span, Token]): A text, or a word.
    right (Union[Doc, Span, Token]): Another.
    RETURNS (float): From -1 to 1; 0 if one of them has no word with a vector.
    """
    from ..models.eigenwords.similarity import sentence_similarity
    from ..models.eigenwords.vectors import word_vectors, word_weights

    vocab = left.vocab
    if not len(vocab.vectors):
        raise ValueError(Errors.S222)
    words = [_words(left), _words(right)]
    a, b = (word_vectors(vocab, forms) for forms in words)
    weights = [word_weights(vocab, forms) for forms in words]
    return sentence_similarity(a, b, left_weights=weights[0], right_weights=weights[1])


def _words(text: Text) -> list[str]:
    if isinstance(text, (Doc, Span)):
        return [token.text for token in text if not (token.is_space or token.is_punct)]
    return [text.text]


def clusters_of(token: Token) -> tuple[int, ...]:
    """RETURNS (Tuple[int, ...]): The token's cluster at every granularity; -1 where unknown."""
    from ..models.eigenwords.clusters import WordClusters

    return tuple(WordClusters.from_lookups(token.vocab.lookups).ids([token.text])[0].tolist())


class EigenwordSimilarity:
    """Makes `doc.similarity`, `span.similarity` and `token.similarity` use eigenwords.

    spaCy does not serialise hooks, so Docs that come from bytes, or from `nlp.pipe` with several
    processes, have lost them; `doc._.eigenword_similarity(other)` is the same and works always.
    """

    def __init__(self, name: str = "eigenwords"):
        """Register the extensions.

        name (str): The name of the component.
        """
        self.name = name
        for cls in (Doc, Span, Token):
            register_extension(cls, "eigenword_similarity", method=compare)
        register_extension(Token, "eigenword_cluster", getter=clusters_of)

    def __call__(self, doc: Doc) -> Doc:
        """Hook the measure into a Doc.

        doc (Doc): The Doc.
        RETURNS (Doc): The same Doc.
        """
        for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
            hooks["similarity"] = compare
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterable[Doc]:
        """YIELDS (Doc): The Docs of a stream, in order."""
        for doc in stream:
            yield self(doc)


@Language.factory(
    "eigenwords",
    assigns=["doc.user_hooks", "doc.user_span_hooks", "doc.user_token_hooks"],
    default_config={},
)
def make_eigenwords(nlp: Language, name: str) -> EigenwordSimilarity:
    """Make the component; vectors and clusters are those of the pipeline's vocabulary."""
    return EigenwordSimilarity(name)


def read_lookups(path: str | Path) -> Lookups:
    """Clusters and word weights for `initialize.lookups` in a config.

    path (Union[str, Path]): The directory that `spacy spectral eigenwords` wrote.
    RETURNS (Lookups): Its lookup tables.
    """
    if not (Path(path) / "vocab" / "lookups.bin").is_file():
        raise ValueError(Errors.S216.format(path=path))
    lookups: Any = Lookups()
    return lookups.from_disk(Path(path) / "vocab")
