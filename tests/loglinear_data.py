"""Small corpora for the log-linear parser: random ones, and those of a language that can be learnt."""

import numpy as np

from brute_force import is_single_root_projective
from spacy_spectral.models.loglinear.encode import Encoder
from spacy_spectral.models.loglinear.estimate import Annotated, Settings
from spacy_spectral.models.loglinear.model import Arcs

TAGS = ["D", "N", "V", "P"]
LABELS = ["root", "det", "arg", "mod"]
WORDS = {"D": ["the", "a"], "N": ["dog", "Cat", "man", "x1"], "V": ["saw", "ran"], "P": ["of", ","]}


def random_tree(rng, n):
    while True:
        heads = [int(rng.integers(0, n + 1)) for _ in range(n)]
        heads[int(rng.integers(0, n))] = 0
        if is_single_root_projective(heads):
            return heads


def random_corpus(rng, lengths):
    tags = [[TAGS[rng.integers(len(TAGS))] for _ in range(n)] for n in lengths]
    words = [[WORDS[t][rng.integers(len(WORDS[t]))] for t in sentence] for sentence in tags]
    clusters = rng.integers(-1, 3, size=(sum(lengths), 4))
    pos = [["X" if t in "DP" else "Y" for t in sentence] for sentence in tags]
    second = [[TAGS[rng.integers(4)] if rng.random() < 0.3 else "" for _ in s] for s in tags]
    data = Encoder(TAGS)(words, tags, second=second, pos=pos, morphs=pos, clusters=clusters)
    heads = [h for n in lengths for h in random_tree(rng, n)]
    labels = [0 if h == 0 else int(rng.integers(1, len(LABELS))) for h in heads]
    return data, np.asarray(heads, dtype=np.int32), np.asarray(labels, dtype=np.int32)


def all_arcs(starts):
    heads, counts = [], []
    for n in np.diff(starts):
        for m in range(1, n + 1):
            heads += [h for h in range(n + 1) if h != m]
            counts.append(int(n))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    probs = np.full(len(heads), 0.5, dtype=np.float32)
    return Arcs(ends, np.asarray(heads, dtype=np.int32), probs)


def pruned_arcs(rng, data, heads):
    """Some arcs at random, those of a given tree among them."""
    full = all_arcs(data.starts)
    mods = np.repeat(np.arange(len(heads)), np.diff(full.starts))
    keep = (rng.random(len(mods)) < 0.6) | (full.heads == heads[mods])
    counts = np.bincount(mods[keep], minlength=len(heads))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return Arcs(starts, full.heads[keep], full.probs[keep])


def toy_sentence(rng):
    """Subject, verb, object, with determiners: a language that can be learnt."""
    words, tags, heads, labels = [], [], [], []

    def add(word, tag):
        words.append(word)
        tags.append(tag)
        heads.append(-1)
        labels.append("")
        return len(words)

    def noun_phrase():
        determiner = add(str(rng.choice(WORDS["D"])), "D") if rng.random() < 0.6 else None
        noun = add(str(rng.choice(WORDS["N"])), "N")
        if determiner:
            heads[determiner - 1], labels[determiner - 1] = noun, "det"
        if rng.random() < 0.3:
            of = add("of", "P")
            inner = noun_phrase()
            heads[of - 1], labels[of - 1] = inner, "det"
            heads[inner - 1], labels[inner - 1] = noun, "mod"
        return noun

    subject = noun_phrase()
    verb = add(str(rng.choice(WORDS["V"])), "V")
    heads[verb - 1], labels[verb - 1] = 0, "root"
    heads[subject - 1], labels[subject - 1] = verb, "arg"
    if words[verb - 1] == "saw":
        thing = noun_phrase()
        heads[thing - 1], labels[thing - 1] = verb, "arg"
    return words, tags, heads, labels


def toy_corpus(seed, n):
    rng = np.random.default_rng(seed)
    words, tags, heads, labels = zip(*(toy_sentence(rng) for _ in range(n)), strict=True)
    flat = [h for sentence in heads for h in sentence]
    index = [LABELS.index(label) for sentence in labels for label in sentence]
    data = Encoder(TAGS)(words, tags)
    return Annotated(data, np.asarray(flat, dtype=np.int32), np.asarray(index, dtype=np.int32))


SMALL = Settings(epochs=2, n_states=3, n_blocks=20, prune_most=8)


def long_sentence(n, same):
    rng = np.random.default_rng(5)
    tags = ["N"] * n if same else [TAGS[i] for i in rng.integers(0, 4, n)]
    return Encoder(TAGS)([[WORDS[tag][0] for tag in tags]], [tags])


def hide(rng, heads, labels):
    """Annotation with holes."""
    heads = np.where(rng.random(len(heads)) < 0.4, -1, heads).astype(np.int32)
    labels = np.where(rng.random(len(labels)) < 0.4, -1, labels).astype(np.int32)
    return heads, labels
