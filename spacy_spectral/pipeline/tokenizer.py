"""The trainable tokenizer `spacy-spectral.Tokenizer.v1`.

It learns from documents of words (see `words`): how the text that they were made of is to be cut, and the
words of tokens that can't be cut. Documents that it makes hold tokens or words, as `multiword` has it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from spacy.attrs import NORM, ORTH, intify_attrs
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from ..base.errors import Errors, SpectralError, require_choice
from ..base.files import Bytes, Format, List, Record, Str, Strings, write_atomically
from ..base.progress import EpochBar
from ..models.linear.chunks import PiecedText, piece_words, split_chunks
from ..models.linear.multiword import Analysed, MultiwordModel, MultiwordRecipe
from ..models.linear.tokenizer import (
    SpecialCases,
    SpecialToken,
    TokenizerModel,
    TokenizerRecipe,
    is_special,
)
from ..treebank.documents import MULTIWORD, units
from .training_data import read_examples
from .words import keep_offsets, register_words, set_words, with_words

_FORMAT = Format(
    "tokenizer with special cases",
    1,
    model=Bytes(optional=True),
    special=List(
        Record(text=Str(), orths=Strings("tokens"), norms=List(Str(optional=True), "tokens"))
    ),
    # files of older versions have none
    multiword=Bytes(optional=True),
)
# What tokens of several words are in documents.
MERGE, EXPAND = CHOICES = ("merge", "expand")


def create_tokenizer(
    epochs: int = 10, seed: int = 0, multiword: str = MERGE
) -> Callable[[Language], "SpectralTokenizer"]:
    """The registered function behind `[nlp.tokenizer]`, which makes the tokenizer of a pipeline; see
    `SpectralTokenizer`."""

    def make_tokenizer(nlp: Language) -> "SpectralTokenizer":
        return SpectralTokenizer(nlp.vocab, epochs=epochs, seed=seed, multiword=multiword)

    return make_tokenizer


def has_words(nlp: Language) -> bool:
    """Whether the components of a pipeline have learnt syntactic words, not tokens."""
    tokenizer = nlp.tokenizer
    return isinstance(tokenizer, SpectralTokenizer) and tokenizer.multiword_model is not None


class SpectralTokenizer:
    """Splits texts to tokens as the training data does. Tokens and spaces are the text, whatever it is.

    Multiword tokens of the training data whose words stand in the text are found again: they are the spans
    `doc.spans["multiword_tokens"]`. Others are tokens whose words are kept beside ("merge"), or their words
    are the tokens of the document ("expand"); see `words`.
    """

    def __init__(self, vocab: Vocab, *, epochs: int = 10, seed: int = 0, multiword: str = MERGE):
        """epochs, seed: Passes over the training data, and the seed of its order.
        multiword: "merge" if documents hold the tokens of the text, "expand" if they hold words."""
        require_choice(Errors.S625, multiword, CHOICES)
        self.vocab = vocab
        self.epochs = epochs
        self.seed = seed
        self.multiword = multiword
        self.model: TokenizerModel | None = None
        self.multiword_model: MultiwordModel | None = None
        self._special = SpecialCases({})
        register_words()

    def __reduce__(self) -> tuple[Any, ...]:
        settings = self.vocab, self.epochs, self.seed, self.multiword
        return _unpickle, (*settings, self.to_bytes())

    def __call__(self, text: str) -> Doc:
        """Tokenize a text; `doc.text` is the text, unless words are expanded."""
        if self.model is None:
            raise SpectralError(Errors.S603)
        if not text:
            return Doc(self.vocab)
        if self._special:
            marked = self._special.mark(text)
            norms = marked.norms
            tokens = self.model.split(marked.chunks, marked.whites, marked.special)
        else:
            norms = {}
            tokens = self.model.split(*split_chunks(text))
        doc = Doc(self.vocab, words=tokens.words, spaces=tokens.spaces)
        if tokens.multiword:
            doc.spans[MULTIWORD] = [doc[start:end] for start, end in tokens.multiword]
        if norms:
            for token in doc:
                if token.idx in norms:
                    token.norm_ = norms[token.idx]
        if self.multiword_model is not None:
            set_words(doc, self._words(tokens.words, self.multiword_model))
            if self.multiword == EXPAND:
                expanded = with_words(doc)
                if expanded is not doc:
                    keep_offsets(expanded)
                return expanded
        return doc

    def _words(self, tokens: list[str], model: MultiwordModel) -> dict[int, tuple[str, ...]]:
        """The words of those tokens that are several, and no tokens of special cases."""
        places = [i for i, token in enumerate(tokens) if not token.isspace()]
        special = {token.orth for case in self._special.cases.values() for token in case}
        found = model.find([tokens[i] for i in places])
        return {places[i]: own for i, own in found.items() if tokens[places[i]] not in special}

    def pipe(self, texts: Iterable[str], batch_size: int = 1000) -> Iterator[Doc]:
        """Tokenize a stream of texts."""
        yield from map(self, texts)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        keep: bool = False,
    ) -> None:
        """Train the tokenizer on the reference documents. This is the whole training.

        keep: Whether a tokenizer that is trained already, e.g. one that "spacy.copy_from_base_model.v1"
        has copied, is kept as it is.
        """
        if keep and self.model is not None:
            return
        if nlp is not None and nlp.config.get("training", {}).get("max_epochs") == -1:
            raise SpectralError(Errors.S116.format(name="tokenizer"))
        examples = read_examples(get_examples, "SpectralTokenizer.initialize")
        surfaces = [_Surface.of(with_words(eg.reference)) for eg in examples]
        texts = [text for own in surfaces if (text := own.pieces()) is not None]
        with EpochBar("tokenizer", self.epochs) as progress:
            abbreviations = [] if nlp is None else _abbreviations(nlp)
            recipe = TokenizerRecipe(self.epochs, self.seed)
            self.model = recipe.fit(texts, abbreviations=abbreviations, progress=progress)
        analysed = [Analysed(own.tokens, own.words) for own in surfaces]
        self.multiword_model = MultiwordRecipe(seed=self.seed).fit(analysed)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """ "token_acc", "token_p", "token_r" and "token_f" of predicted and gold documents."""
        return Scorer.score_tokenization(examples, **kwargs)

    @property
    def rules(self) -> dict[str, list[dict[int, str]]]:
        """The special cases, as spaCy's tokenizer has them."""
        return {
            text: [
                {ORTH: token.orth} | ({} if token.norm is None else {NORM: token.norm})
                for token in tokens
            ]
            for text, tokens in self._special.cases.items()
        }

    def add_special_case(self, string: str, substrings: Iterable[dict[Any, str]]) -> None:
        """Decide how a string is split, whatever was learnt. It is found where it stands alone: not
        inside of a longer run of letters and digits. It may contain spaces; its tokens are given by
        attributes, ORTH and perhaps NORM."""
        tokens = []
        for attributes in substrings:
            values = intify_attrs(attributes)
            if values.keys() - {ORTH, NORM} or not isinstance(values.get(ORTH), str):
                raise SpectralError(Errors.S604.format(text=string, found=attributes))
            tokens.append(SpecialToken(values[ORTH], values.get(NORM)))
        if not is_special(string, tuple(tokens)):
            found = [token.orth for token in tokens]
            raise SpectralError(Errors.S604.format(text=string, found=found))
        self._special = SpecialCases(self._special.cases | {string: tuple(tokens)})

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The serialised form, never with the vocabulary; equal tokenizers give equal bytes."""
        special = [
            {
                "text": text,
                "orths": [token.orth for token in tokens],
                "norms": [token.norm for token in tokens],
            }
            for text, tokens in sorted(self._special.cases.items())
        ]
        model = self.model.to_bytes() if self.model is not None else None
        words = self.multiword_model
        multiword = words.to_bytes() if words is not None else None
        return _FORMAT.pack({"model": model, "special": special, "multiword": multiword})

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "SpectralTokenizer":
        """Load what `to_bytes` gave, or raise a ValueError that says what is wrong."""
        read = _FORMAT.unpack(data)
        model = TokenizerModel.from_bytes(read["model"]) if read["model"] is not None else None
        special = {
            case["text"]: tuple(map(SpecialToken, case["orths"], case["norms"]))
            for case in read["special"]
        }
        for text, tokens in special.items():
            _FORMAT.require(is_special(text, tokens), "special", "has tokens that are not the text")
        words = read["multiword"]
        self.multiword_model = MultiwordModel.from_bytes(words) if words is not None else None
        self.model, self._special = model, SpecialCases(special)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tokenizer to a file."""
        write_atomically(path, self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SpectralTokenizer":
        """Load what `to_disk` wrote, or raise an error that says what is wrong."""
        return self.from_bytes(Path(path).read_bytes())


def _abbreviations(nlp: Language) -> list[str]:
    """The abbreviations that spaCy's rules for a language keep whole."""
    rules = nlp.Defaults.tokenizer_exceptions or {}
    return [text for text, tokens in rules.items() if text.endswith(".") and len(tokens) == 1]


def _unpickle(
    vocab: Vocab, epochs: int, seed: int, multiword: str, data: bytes
) -> SpectralTokenizer:
    tokenizer = SpectralTokenizer(vocab, epochs=epochs, seed=seed, multiword=multiword)
    return tokenizer.from_bytes(data)


class _Surface(NamedTuple):
    """The tokens of a text, without white space.

    whites: The white space after each.
    is_inner: Whether they follow another word of the same multiword token, one whose words stand in the text.
    words: What the others are made of, None for one word.
    """

    tokens: list[str]
    whites: list[str]
    is_inner: list[bool]
    words: list[tuple[str, ...] | None]

    @classmethod
    def of(cls, doc: Doc) -> "_Surface":
        """What is to be learnt from a document of words."""
        own = cls([], [], [], [])
        for unit in units(doc):
            pieces, white = unit.pieces or [unit.form], doc[unit.last].whitespace_
            if unit.form.isspace():
                if own.whites:
                    own.whites[-1] += unit.form + white
                continue
            own.tokens.extend(pieces)
            own.whites.extend([*repeat("", len(pieces) - 1), white])
            own.is_inner.extend([False, *repeat(True, len(pieces) - 1)])
            whole = len(unit.words) <= len(pieces)
            own.words.extend(repeat(None, len(pieces)) if whole else [tuple(unit.words)])
        return own

    def pieces(self) -> PiecedText | None:
        """What a tokenizer learns from; None if words have white space that none could learn to keep."""
        return piece_words(self.tokens, self.whites, self.is_inner)
