"""What is counted: tagged sentences as arrays, and the tag dictionary."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy

from ...base.errors import Errors

# The dictionary entry of a training token is counted without the block of text it stands in, so
# that training meets unknown words and unknown tags about as often as new text does.
N_BLOCKS = 20
_RANKS = 3


class TaggedSentence(NamedTuple):
    """A sentence with its annotation, all lists of one length.

    words (Sequence[str]): The word forms.
    tags (Sequence[str]): Fine-grained tags, "" where missing.
    pos (Sequence[str]): Coarse tags, "" where missing.
    morphs (Sequence[Optional[str]]): FEATS strings, "" for no features, None where missing.
    """

    words: Sequence[str]
    tags: Sequence[str]
    pos: Sequence[str]
    morphs: Sequence[str | None]


@dataclass
class Corpus:
    """Sentences as arrays.

    types (List[str]): The distinct word forms, in order of first occurrence.
    words (ndarray): int32, the type of each token.
    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    tag_classes (List[Tuple[str, str]]): The pairs of fine and coarse tag.
    morphs (List[str]): The morphological analyses.
    tag_gold, morph_gold (ndarray): int32, the class of each token, -1 where missing.
    """

    types: list[str]
    words: numpy.ndarray
    starts: numpy.ndarray
    tag_classes: list[tuple[str, str]]
    morphs: list[str]
    tag_gold: numpy.ndarray
    morph_gold: numpy.ndarray

    @classmethod
    def encode(
        cls, sentences: Sequence[TaggedSentence], *, labels: Collection[str] | None = None
    ) -> "Corpus":
        """Number words and classes.

        sentences (Sequence[TaggedSentence]): The sentences.
        labels (Optional[Collection[str]]): If given, other tags count as missing.
        RETURNS (Corpus): The arrays.
        """
        types: dict[str, int] = {}
        words = [types.setdefault(word, len(types)) for s in sentences for word in s.words]
        tags = [tag for s in sentences for tag in s.tags]
        pos = [coarse for s in sentences for coarse in s.pos]
        morphs = [morph for s in sentences for morph in s.morphs]
        if not len(words) == len(tags) == len(pos) == len(morphs):
            raise ValueError(Errors.S304)
        if labels is not None:
            allowed = {"", *labels}
            tags = [tag if tag in allowed else "" for tag in tags]
        # a token teaches tags if it has every layer of them that the corpus has at all
        layers = any(tags), any(pos)
        pairs = list(zip(tags, pos, strict=True))
        classes = {
            pair for pair in set(pairs) if any(pair) and (bool(pair[0]), bool(pair[1])) == layers
        }
        tag_classes = sorted(classes)
        tag_ids = {pair: i for i, pair in enumerate(tag_classes)}
        morph_names = sorted({morph for morph in set(morphs) if morph is not None})
        morph_ids: dict[str | None, int] = {morph: i for i, morph in enumerate(morph_names)}
        return cls(
            types=list(types),
            words=numpy.array(words, dtype="int32"),
            starts=numpy.cumsum([0, *(len(s.words) for s in sentences)], dtype="int32"),
            tag_classes=tag_classes,
            morphs=morph_names,
            tag_gold=numpy.array([tag_ids.get(pair, -1) for pair in pairs], dtype="int32"),
            morph_gold=numpy.array([morph_ids.get(m, -1) for m in morphs], dtype="int32"),
        )

    def sentence_blocks(self, n_blocks: int) -> numpy.ndarray:
        """RETURNS (ndarray): The contiguous block of each sentence, blocks of about equal size."""
        n_tokens = max(1, len(self.words))
        return (self.starts[:-1].astype("int64") * n_blocks // n_tokens).astype("int32")

    def per_token(self, per_sentence: numpy.ndarray) -> numpy.ndarray:
        """RETURNS (ndarray): Values of sentences repeated for their tokens."""
        return numpy.repeat(per_sentence, numpy.diff(self.starts))


def dictionary_attributes(
    keys: numpy.ndarray, gold: numpy.ndarray, n_keys: int, n_classes: int
) -> numpy.ndarray:
    """The tag dictionary, from the tokens whose class is known.

    keys (ndarray): The dictionary key of each token.
    gold (ndarray): The class of each token, -1 where missing.
    n_keys (int): The number of keys.
    n_classes (int): The number of classes.
    RETURNS (ndarray): uint32, one row a key: its tags, and its most frequent tag with certainty;
        0 where it was never seen.
    """
    pairs, counts = _count(keys, gold, n_classes)
    return _summarise(pairs // n_classes, pairs % n_classes, counts, n_keys)


def held_out_attributes(
    keys: numpy.ndarray, gold: numpy.ndarray, blocks: numpy.ndarray, n_classes: int
) -> numpy.ndarray:
    """What the tag dictionary says of each token when the token's own block is left out of it.

    keys, gold, n_classes: As for `dictionary_attributes`.
    blocks (ndarray): The block of each token.
    RETURNS (ndarray): uint32, one row a token.
    """
    pairs, counts = _count(keys, gold, n_classes)
    views, view_of = numpy.unique(
        keys.astype("int64") * (int(blocks.max(initial=0)) + 1) + blocks, return_inverse=True
    )
    view_keys = views // (int(blocks.max(initial=0)) + 1)
    # one row for every view and class of its key, with the view's own block subtracted
    first = numpy.searchsorted(pairs // n_classes, view_keys, side="left")
    sizes = numpy.searchsorted(pairs // n_classes, view_keys, side="right") - first
    view = numpy.repeat(numpy.arange(len(views)), sizes)
    row = numpy.arange(len(view)) - numpy.repeat(numpy.cumsum(sizes) - sizes, sizes) + first[view]
    own_pairs, own_counts = _count(view_of, gold, n_classes)
    left = counts[row].copy()
    wanted = view * n_classes + pairs[row] % n_classes
    where = numpy.searchsorted(own_pairs, wanted)
    found = where < len(own_pairs)
    found[found] = own_pairs[where[found]] == wanted[found]
    left[found] -= own_counts[where[found]]
    return _summarise(view, pairs[row] % n_classes, left, len(views))[view_of]


def _count(keys: numpy.ndarray, gold: numpy.ndarray, n_classes: int):
    seen = gold >= 0
    return numpy.unique(keys[seen].astype("int64") * n_classes + gold[seen], return_counts=True)


def _summarise(
    keys: numpy.ndarray, classes: numpy.ndarray, counts: numpy.ndarray, n_keys: int
) -> numpy.ndarray:
    seen = counts > 0
    keys, classes, counts = keys[seen], classes[seen], counts[seen]
    order = numpy.lexsort((classes, -counts, keys))
    keys, classes = keys[order], classes[order].astype("uint64")
    totals = numpy.bincount(keys, counts[order], n_keys)
    starts = numpy.searchsorted(keys, keys, side="left")
    rank = numpy.arange(len(keys)) - starts
    ambiguity = numpy.zeros(n_keys, dtype="uint64")
    for r in range(_RANKS):
        at = rank == r
        ambiguity[keys[at]] = ambiguity[keys[at]] * numpy.uint64(1_000_003) + classes[at] + 2
    known = ambiguity > 0
    result = numpy.zeros((n_keys, 2), dtype="uint32")
    hashed = (ambiguity * numpy.uint64(0x9E3779B97F4A7C15)) >> numpy.uint64(32)
    # 0 and 1 are taken by "unknown" and "beyond the sentence"
    result[known, 0] = numpy.maximum(hashed[known], 2)
    certainty = numpy.digitize(totals, (2, 5, 21)).astype("uint32")
    top = rank == 0
    result[keys[top], 1] = (classes[top].astype("uint32") + 1) * 4 + certainty[keys[top]]
    return result
