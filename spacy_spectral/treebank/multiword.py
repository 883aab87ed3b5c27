"""Multiword tokens as tokens of a text: cut where their words can be cut out of them, else one token.

Syntactic words need not stand in the text: of "du" the words are "de" and "le". A pipeline that starts from
text has tokens that do, so it can learn "do" and "n't", but "du" must stay whole.
"""

from dataclasses import replace
from itertools import chain

from .conllu import Sentence
from .validate import MISSING


def as_tokens(sentence: Sentence) -> Sentence:
    """Make the words of a sentence those of its text.

    RETURNS: The same if its words stand in the text; else one whose multiword tokens are cut
        where that is possible (these are left in `multiword`), and single words where it is not. Such a
        word has all tags, lemmas and features of its parts, like those of `spacy convert
        --merge-subtokens`, and the head, relation and part of speech of the part highest in the tree.
    """
    if not sentence.multiword:
        return sentence
    words = list(sentence.words)
    cut, whole = [], []
    for first, last, form in sentence.multiword:
        pieces = _cut(form, words[first : last + 1])
        if pieces is None:
            whole.append((first, last, form))
        else:
            words[first : last + 1] = pieces
            cut.append((first, last, form))
    sentence = replace(sentence, words=words, multiword=cut)
    return _merge(sentence, whole) if whole else sentence


def _cut(form: str, words: list[str]) -> list[str] | None:
    """The pieces of a form that are the words, but for case."""
    if form.lower() != "".join(words).lower() or len(form) != sum(map(len, words)):
        return None
    pieces, end = [], 0
    for word in words:
        end += len(word)
        pieces.append(form[end - len(word) : end])
    return pieces


def _merge(sentence: Sentence, spans: list[tuple[int, int, str]]) -> Sentence:
    groups = []  # the words of every token
    end = 0
    for first, last, _ in spans:
        groups += [[i] for i in range(end, first)] + [list(range(first, last + 1))]
        end = last + 1
    groups += [[i] for i in range(end, len(sentence))]
    token_of = [token for token, group in enumerate(groups) for _ in group]
    forms = {first: form for first, _, form in spans}
    depths = _depths(sentence.heads)
    merged = Sentence(
        multiword=[(token_of[first], token_of[last], form) for first, last, form in sentence.multiword],
        comments=sentence.comments,
        before=sentence.before,
        line=sentence.line,
    )  # fmt: skip
    for token, group in enumerate(groups):
        # the head of the highest part hangs on no part: heads of tokens are a tree, too
        top = min(group, key=depths.__getitem__)
        head = sentence.heads[top]
        merged.words.append(forms.get(group[0], sentence.words[group[0]]))
        merged.after.append(sentence.after[group[-1]])
        merged.lemmas.append(" ".join(filter(None, (sentence.lemmas[i] for i in group))))
        merged.upos.append(sentence.upos[top])
        merged.xpos.append("_".join(filter(None, (sentence.xpos[i] for i in group))))
        merged.feats.append(_all_features([sentence.feats[i] for i in group]))
        merged.heads.append(
            MISSING if head == MISSING else token if head == top else token_of[head]
        )
        merged.deps.append(sentence.deps[top])
    return merged


def _depths(heads: list[int]) -> list[int]:
    """How far words are from the root; those that hang on nothing known count as roots."""
    depths = [-1] * len(heads)
    for i in range(len(heads)):
        path = []
        while depths[i] < 0:
            path.append(i)
            if heads[i] in (i, MISSING):
                depths[i] = 0
            else:
                i = heads[i]
        for depth, j in enumerate(reversed(path), start=depths[i] + (path[-1:] != [i])):
            depths[j] = depth
    return depths


def _all_features(parts: list[str]) -> str:
    """Every feature of the parts, with all its values: "Case=Acc" and "Case=Nom" are "Case=Acc,Nom"."""
    values: dict[str, set[str]] = {}
    for feature in chain.from_iterable(part.split("|") for part in parts if part):
        name, _, value = feature.partition("=")
        values.setdefault(name, set()).update(value.split(","))
    return "|".join(f"{name}={','.join(sorted(values[name]))}" for name in sorted(values))
