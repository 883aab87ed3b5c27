"""From chunks of text to words: tokenised, normalised, and never unknown.

Decisions about a word (how it is tokenised, its case, its numerals, whether it is too rare) depend
on its form alone. They are taken here once per distinct chunk, in Python, and the compiled counting
only follows a table. So text can be tokenised by spaCy's own tokenizer at the speed of a lookup.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy

from ...base.errors import Errors, SpectralError

BOUNDARY = "<s>"
UNKNOWN = "<unk>"
Tokenize = Callable[[list[str]], list[list[str]]]
# words of some languages contain spaces; inside a line they are written with this byte instead
INNER_SPACE = "\x1f"
# a class of look-alikes has this many tokens, or is part of a wider one
LEAST_OF_CLASS = 100
_DIGITS = str.maketrans("123456789", "000000000")


def join_tokens(tokens: Iterable[str]) -> str:
    """One line of chunks from one list of tokens. Whitespace tokens are left out."""
    return " ".join(INNER_SPACE.join(token.split()) for token in tokens if not token.isspace())


def split_token(chunk: str) -> str:
    """The token that `join_tokens` wrote as this chunk."""
    return chunk.replace(INNER_SPACE, " ")


def normalize(form: str, *, lowercase: bool = False) -> str:
    """The form under which a word is counted: numerals differ by their shape only."""
    if not form.isalpha():
        form = form.translate(_DIGITS)
    return form.lower() if lowercase else form


def signatures(form: str) -> list[str]:
    """Classes of words that look alike, the narrowest first: ["<Xx-son>", "<Xx-on>", "<Xx>", "<unk>"]."""
    if form.isupper() and len(form) > 1:
        shape = "XX"
    elif form[:1].isupper():
        shape = "Xx"
    else:
        shape = "x"
    if not form.isalpha():
        if any(map(str.isdigit, form)):
            shape = "0x" if any(map(str.isalpha, form)) else "0"
        elif not any(map(str.isalpha, form)):
            shape = "."
        if "-" in form[1:-1]:
            shape += "-"
    classes = [f"<{shape}>", UNKNOWN]
    if len(form) >= 5 and form[-3:].isalpha():
        ending = form[-3:].lower()
        classes = [f"<{shape}-{ending}>", f"<{shape}-{ending[1:]}>", *classes]
    return classes


@dataclass
class Vocabulary:
    """The rows and columns of all counts: words, classes of rare words, the boundary of a line."""

    words: list[str]
    classes: list[str]
    counts: numpy.ndarray
    lowercase: bool

    def __len__(self) -> int:
        return len(self.words) + len(self.classes) + 1

    @property
    def names(self) -> list[str]:
        """The names of all rows, the boundary last."""
        return [*self.words, *self.classes, BOUNDARY]


def names_of(form: str) -> Iterator[str]:
    """Under which names to look for a word: the form, its normal form, that in lower case, its classes."""
    shape = normalize(form)
    yield from (form, shape, shape.lower())
    yield from signatures(form)


def find_name(form: str, words: Any, classes: Any, missing: Any) -> Any:
    """What one mapping has for a word, else another for its narrowest class of look-alikes."""
    for name in islice(names_of(form), 3):
        if name in words:
            return words[name]
    return next((classes[name] for name in signatures(form) if name in classes), missing)


@dataclass
class ChunkMap:
    """For the compiled counter: chunk i stands for the rows ids[starts[i] : starts[i + 1]]."""

    chunks: list[bytes]
    starts: numpy.ndarray
    ids: numpy.ndarray
    n_words: int


def build_vocabulary(
    chunk_counts: Mapping[bytes, int],
    *,
    tokenize: Tokenize | None = None,
    min_count: int = 5,
    max_words: int = 200_000,
    lowercase: bool = False,
) -> tuple[Vocabulary, ChunkMap]:
    """Decide for every chunk of a corpus which rows it stands for; rarer words are counted as their
    class of look-alikes."""
    chunks = sorted(chunk_counts)
    decoded = [chunk.decode("utf8") for chunk in chunks]
    tokens = tokenize(decoded) if tokenize else [[split_token(chunk)] for chunk in decoded]
    form_counts: Counter[str] = Counter()
    for forms, chunk in zip(tokens, chunks, strict=True):
        for form in forms:
            form_counts[form] += chunk_counts[chunk]
    if not form_counts:
        raise SpectralError(Errors.S205)
    normal_forms = {form: normalize(form, lowercase=lowercase) for form in form_counts}
    word_counts: Counter[str] = Counter()
    for form, word in normal_forms.items():
        word_counts[word] += form_counts[form]
    frequent = sorted((-count, word) for word, count in word_counts.items() if count >= min_count)
    words = [word for _, word in frequent[:max_words]]
    if len(words) < 2:
        raise SpectralError(
            Errors.S206.format(min_count=min_count, n=len(words), n_types=len(word_counts))
        )
    word_ids = {word: i for i, word in enumerate(words)}
    rows = {
        form: word_ids.get(normal, word_ids.get(normal.lower(), -1))
        for form, normal in normal_forms.items()
    }
    class_of = choose_classes({f: form_counts[f] for f, r in rows.items() if r < 0})
    classes = sorted(set(class_of.values()))
    class_ids = {name: i + len(words) for i, name in enumerate(classes)}
    rows.update((form, class_ids[name]) for form, name in class_of.items())
    counts = numpy.bincount(
        numpy.fromiter(rows.values(), dtype="int64", count=len(rows)),
        weights=numpy.fromiter(form_counts.values(), dtype="float64", count=len(rows)),
        minlength=len(words) + len(classes) + 1,
    ).astype("int64")
    vocabulary = Vocabulary(words, classes, counts, lowercase=lowercase)
    starts = numpy.zeros(len(chunks) + 1, dtype="int64")
    numpy.cumsum([len(forms) for forms in tokens], out=starts[1:])
    ids = numpy.array([rows[form] for forms in tokens for form in forms], dtype="int32")
    return vocabulary, ChunkMap(chunks, starts, ids, len(vocabulary))


def choose_classes(rare: dict[str, int]) -> dict[str, str]:
    """The narrowest class of each form that is frequent enough by what is not in a narrower one."""
    class_of: dict[str, str] = {}
    for n_wider in (3, 2, 1, 0):
        # short words have no narrow classes
        names = {
            form: own[-1 - n_wider]
            for form in rare
            if form not in class_of and len(own := signatures(form)) > n_wider
        }
        counts: Counter[str] = Counter()
        for form, name in names.items():
            counts[name] += rare[form]
        least = LEAST_OF_CLASS if n_wider else 1
        class_of |= {form: name for form, name in names.items() if counts[name] >= least}
    return class_of
