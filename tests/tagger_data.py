"""A small language with what makes tagging hard: endings, agreement, ambiguous words."""

import random

from spacy_spectral.models.linear.tagger_training import TaggedSentence

STEMS = ["kal", "mor", "tive", "sun", "pel", "dra", "vok", "lim", "gor", "hask", "bren", "yul"]
NAMES = ["Anku", "Belo", "Cirm", "Doth"]


def make_sentences(n: int, *, seed: int) -> list[TaggedSentence]:
    """Determiner, noun, verb, perhaps an object.

    "run" is a noun after a determiner, else a verb; the case of nouns shows in the context only.
    """
    rng = random.Random(seed)

    def stem() -> str:
        return rng.choice(STEMS) + rng.choice(["", "a", "in", "ost", "ek"])

    def noun_phrase(case: str) -> tuple[list[tuple[str, str, str, str]], str]:
        if rng.random() < 0.2:
            return [(rng.choice(NAMES), "NNP", "PROPN", f"Case={case}|Number=Sing")], "Sing"
        number = rng.choice(["Sing", "Plur"])
        ending = {"Sing": "u", "Plur": "ub"}[number]
        phrase = [("the", "DT", "DET", "")]
        if rng.random() < 0.4:
            phrase.append((stem() + "ish", "JJ", "ADJ", "Degree=Pos"))
        word = "run" if rng.random() < 0.15 and number == "Sing" else stem() + ending
        tag = "NN" if number == "Sing" else "NNS"
        return [*phrase, (word, tag, "NOUN", f"Case={case}|Number={number}")], number

    sentences = []
    for _ in range(n):
        tokens, number = noun_phrase("Nom")
        ending = {"Sing": "ate", "Plur": "aten"}[number]
        word = "run" if rng.random() < 0.15 else stem() + ending
        tag = "VBZ" if number == "Sing" else "VBP"
        tokens.append((word, tag, "VERB", f"Number={number}|VerbForm=Fin"))
        if rng.random() < 0.6:
            tokens += noun_phrase("Acc")[0]
        tokens.append((".", ".", "PUNCT", ""))
        sentences.append(TaggedSentence(*(list(column) for column in zip(*tokens, strict=True))))
    return sentences
