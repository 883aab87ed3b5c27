"""A small artificial language: enough structure for every singular value to be distinct."""

import random

import pytest


def make_sentences(n_sentences=400, *, n_nouns=60, n_verbs=40, seed=0):
    """Noun verb noun, with determiners and adjectives; words of a class are used unevenly."""
    rng = random.Random(seed)
    nouns = [f"noun{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(n_nouns)]
    verbs = [f"verb{chr(97 + i % 26)}{chr(97 + i // 26)}s" for i in range(n_verbs)]

    def pick(words):
        return words[min(int(rng.expovariate(6.0 / len(words))), len(words) - 1)]

    def phrase():
        words = [rng.choice(["the", "a", "every"])]
        if rng.random() < 0.4:
            words.append(rng.choice(["red", "old", "small", "new"]))
        return [*words, pick(nouns)]

    sentences = []
    for _ in range(n_sentences):
        words = [*phrase(), pick(verbs), *phrase()]
        if rng.random() < 0.3:
            words += ["in", str(rng.randint(1000, 2999))]
        words[0] = words[0].title()
        sentences.append([*words, "."])
    return sentences


@pytest.fixture(scope="session")
def sentences():
    return make_sentences()


@pytest.fixture(scope="session")
def text_file(sentences, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf8")
    return path
