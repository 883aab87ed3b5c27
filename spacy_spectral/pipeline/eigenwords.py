"""The spaCy face: similarity of Docs, Spans and Tokens by eigenwords, and clusters on tokens."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from spacy.lookups import Lookups
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

from ..base.errors import Errors, SpectralError
from .annotations import register_extension

Text: TypeAlias = Doc | Span | Token


def compare(left: Text, right: Text) -> float:
    """s(a,b) of `spacy_spectral.models.eigenwords.similarity`, words weighted by minus log frequency:
    from -1 to 1; 0 if one of the texts has no word with a vector."""
    from ..models.eigenwords.similarity import sentence_similarity
    from ..models.eigenwords.vectors import word_vectors, word_weights

    vocab = left.vocab
    if not len(vocab.vectors):
        raise SpectralError(Errors.S222)
    words = [_words(left), _words(right)]
    a, b = (word_vectors(vocab, forms) for forms in words)
    weights = [word_weights(vocab, forms) for forms in words]
    return sentence_similarity(a, b, *weights)


def _words(text: Text) -> list[str]:
    if isinstance(text, (Doc, Span)):
        return [token.text for token in text if not (token.is_space or token.is_punct)]
    return [text.text]


def clusters_of(token: Token) -> tuple[int, ...]:
    """The token's cluster at every granularity; -1 where unknown."""
    from ..models.eigenwords.clusters import WordClusters

    return tuple(WordClusters.from_lookups(token.vocab.lookups).ids([token.text])[0].tolist())


class EigenwordSimilarity:
    """Makes `doc.similarity`, `span.similarity` and `token.similarity` use eigenwords.

    spaCy does not serialise hooks, so Docs that come from bytes, or from `nlp.pipe` with several
    processes, have lost them; `doc._.eigenword_similarity(other)` is the same and works always.
    """

    def __init__(self, name: str = "eigenwords", *, vocab: Vocab | None = None):
        """Register the extensions. The vocabulary is that of the pipeline; its vectors are checked when
        it is loaded."""
        self.name = name
        self._vocab = vocab
        for cls in (Doc, Span, Token):
            register_extension(cls, "eigenword_similarity", method=compare)
        register_extension(Token, "eigenword_cluster", getter=clusters_of)

    def __call__(self, doc: Doc) -> Doc:
        """Hook the measure into a Doc."""
        for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
            hooks["similarity"] = compare
        return doc

    def from_bytes(self, bytes_data: bytes, **options: Any) -> "EigenwordSimilarity":
        """Check the vocabulary of a pipeline that is loaded: it has all that the component knows."""
        from ..models.eigenwords.vectors import check_vocab

        if self._vocab is not None:
            check_vocab(self._vocab, self.name)
        return self

    def from_disk(self, path: str | Path, **options: Any) -> "EigenwordSimilarity":
        """Check the vocabulary of a pipeline that is loaded; see `from_bytes`."""
        return self.from_bytes(b"")

    def __reduce__(self) -> tuple[Any, ...]:
        return EigenwordSimilarity, (self.name,)

    def to_bytes(self, **options: Any) -> bytes:
        """Nothing; spaCy loads only components that were saved."""
        return b""

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterable[Doc]:
        """The Docs of a stream, in order."""
        for doc in stream:
            yield self(doc)


def read_lookups(path: str | Path) -> Lookups:
    """Clusters and word weights for `initialize.lookups` in a config, from the directory that `spacy
    spectral eigenwords` wrote."""
    from ..models.eigenwords.clusters import WordClusters, read_lookups

    lookups = read_lookups(path)
    WordClusters.from_lookups(lookups).checked()
    return lookups
