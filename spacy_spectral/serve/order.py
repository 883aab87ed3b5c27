"""Which sentences are worth a person's time: those in which most errors are expected.

    errors(sentence) = sum over tokens of 1 - P(head of the token) / length^power

With power 0 long sentences come first, with power 1 those whose arcs are doubtful on average. What is read
and what is corrected grow with the length, but not in the same way; between 0 and 1 both count.
"""

from collections.abc import Sequence

from spacy.tokens import Span

from ..pipeline.annotations import dep_prob, head_prob

POWER = 0.5


def expected_errors(probs: Sequence[float], power: float = POWER) -> float:
    """How many errors are expected in a sentence, divided by a power of its length.

    probs: The probability of every arc; with its label, if labels count.
    RETURNS: 0 for a sentence without words.
    """
    if not len(probs):
        return 0.0
    return float(sum(1.0 - prob for prob in probs) / len(probs) ** power)


def span_errors(span: Span, power: float = POWER) -> float:
    """How many wrong labelled arcs are expected in a parsed sentence, divided by a power of its length.

    span: A sentence by a parser that stores `head_prob`, and perhaps `dep_prob`. A token of which no
        probability is known counts as a certain error: nobody has parsed it.
    """
    probs = []
    for token in span:
        if not token.is_space:
            label = dep_prob(token)
            probs.append((head_prob(token) or 0.0) * (1.0 if label is None else label))
    return expected_errors(probs, power)
