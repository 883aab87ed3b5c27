"""Small treebanks for refined grammars."""

import numpy

from brute_force import projective_trees
from spacy_spectral.models.refine.model import ChartSettings
from spacy_spectral.trees.sentences import Tokens, Treebank

TAGS = ["C", "N", "P", "V"]
EXACT = ChartSettings(prune=0.0)


def make_tokens(sentences):
    """From lists of (word, tag)."""
    rows = [row for sentence in sentences for row in sentence]
    starts = numpy.cumsum([0, *map(len, sentences)]).astype("int32")
    blank = [""] * len(rows)
    return Tokens(starts, [w for w, _ in rows], [t for _, t in rows], blank, blank, blank)


def treebank(seed=0, size=150, tags=TAGS):
    """Random trees in which the kind of a noun decides its place: a1 nouns are left, b1 nouns right."""
    random = numpy.random.default_rng(seed)
    sentences, heads, labels = [], [], []
    for _ in range(size):
        n = int(random.integers(1, 7))
        choices = projective_trees(n)
        own = choices[random.integers(len(choices))]
        tag = random.choice(tags, n).tolist()
        kind = ["a" if m < h else "b" for m, h in enumerate(own, start=1)]
        words = [f"{k}{t.lower()}{random.integers(3)}" for k, t in zip(kind, tag, strict=True)]
        sentences.append(list(zip(words, tag, strict=True)))
        heads += own
        labels += ["root" if h == 0 else "dep" for h in own]
    return Treebank(make_tokens(sentences), numpy.array(heads, dtype="int32"), labels)


SENTENCE = [("an0", "N"), ("bv1", "V"), ("ap2", "P"), ("bn1", "N")]
