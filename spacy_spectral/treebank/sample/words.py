"""Words for a drawn tree of the sample treebank: chosen to fit their relation, frame and number."""

from random import Random

from ..conllu import Sentence
from . import lexicon

_UPOS = {
    "NN": "NOUN",
    "NNS": "NOUN",
    "NNP": "PROPN",
    "PRP": "PRON",
    "PRP$": "PRON",
    "WDT": "PRON",
    "DT": "DET",
    "JJ": "ADJ",
    "CD": "NUM",
    "RB": "ADV",
    "IN": "ADP",
    "TO": "PART",
    "POS": "PART",
    "CC": "CCONJ",
    "MD": "AUX",
    "AUX": "AUX",
    ",": "PUNCT",
    ".": "PUNCT",
}
_FEATS = {
    "NN": "Number=Sing",
    "NNS": "Number=Plur",
    "NNP": "Number=Sing",
    "JJ": "Degree=Pos",
    "CD": "NumType=Card",
    "PRP": "PronType=Prs",
    "PRP$": "Poss=Yes|PronType=Prs",
    "WDT": "PronType=Rel",
    "VB": "VerbForm=Inf",
    "VBD": "Mood=Ind|Tense=Past|VerbForm=Fin",
    "VBP": "Mood=Ind|Tense=Pres|VerbForm=Fin",
    "VBZ": "Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin",
    "VBG": "Tense=Pres|VerbForm=Part",
    "VBN": "Tense=Past|VerbForm=Part",
}
_PEOPLE_RELATIONS = {"nsubj", "iobj"}


def penn_tag(tag: str) -> str:
    """tag: A tag of the sample treebank, e.g. "NN-P".
    RETURNS: The Penn tag that it refines, e.g. "NN".
    """
    return tag.partition("-")[0]


def realise(sentence: Sentence, random: Random) -> None:
    """Give a drawn tree its words, lemmas, parts of speech, features and spaces."""
    n_words = len(sentence.heads)
    children: list[list[int]] = [[] for _ in range(n_words)]
    for i, head in enumerate(sentence.heads):
        if head != i:
            children[head].append(i)
    sentence.words = [""] * n_words
    sentence.lemmas = [""] * n_words
    # heads first: a relative pronoun depends on its noun, a pronoun on its verb
    todo = [i for i, head in enumerate(sentence.heads) if head == i]
    while todo:
        i = todo.pop()
        sentence.words[i], sentence.lemmas[i] = _word(sentence, children, i, random)
        todo += reversed(children[i])
    for i in range(n_words - 1):
        if sentence.words[i] == "a" and sentence.words[i + 1][0] in "aeiou":
            sentence.words[i] = "an"
    sentence.words[0] = sentence.words[0][0].upper() + sentence.words[0][1:]
    penn = [penn_tag(tag) for tag in sentence.xpos]
    sentence.upos = ["VERB" if tag.startswith("VB") else _UPOS[tag] for tag in penn]
    for i, dep in enumerate(sentence.deps):
        if dep == "mark" and penn[i] == "IN":
            sentence.upos[i] = "SCONJ"
    sentence.feats = [_FEATS.get(tag, "") for tag in penn]
    sentence.after = ["" if tag in (",", ".", "POS") else " " for tag in [*penn[1:], ""]]


def _word(sentence: Sentence, children: list[list[int]], i: int, random: Random) -> tuple[str, str]:
    """The form and lemma of word i, whose head has its word already."""
    tag, relation, head = sentence.xpos[i], sentence.deps[i], sentence.heads[i]
    penn = penn_tag(tag)
    if penn.startswith("VB"):
        frame = _frame(tag, {sentence.deps[child] for child in children[i] if child > i})
        entry = random.choice(lexicon.VERBS[frame].split())
        forms = lexicon.verb_forms(entry)
        return forms[penn], forms["VB"]
    if tag == "NN-M":
        word = random.choice(lexicon.COMPOUND_MODIFIERS)
        return word, word
    if penn in ("NN", "NNS"):
        lemma = random.choice(_noun_list(sentence, i, random))
        return (lexicon.plural(lemma) if penn == "NNS" else lemma), lemma
    if penn == "NNP":
        word = random.choice(_name_list(sentence, children, i))
        return word, word
    if penn == "PRP":
        case = _number(sentence, head) if relation == "nsubj" else "object"
        word = random.choice(lexicon.PRONOUNS[case])
        return word, lexicon.PRONOUN_LEMMAS.get(word, word)
    if penn == "AUX":
        return random.choice(_be(sentence, children[head])), "be"
    if penn == "WDT":
        person = sentence.lemmas[sentence.heads[head]] in lexicon.PEOPLE or (
            penn_tag(sentence.xpos[sentence.heads[head]]) == "NNP"
        )
        word = random.choice(["who", "who", "that"] if person else ["that", "which"])
        return word, word
    word = random.choice(_closed_class(sentence, children, i))
    return word, word


def _frame(tag: str, right_relations: set[str]) -> str:
    if "iobj" in right_relations:
        return "ditransitive"
    if "obj" in right_relations or tag in ("VBD-O", "VBN-A"):
        return "transitive"
    if "ccomp" in right_relations:
        return "clausal"
    return "infinitive" if "xcomp" in right_relations else "intransitive"


def _noun_list(sentence: Sentence, i: int, random: Random) -> list[str]:
    relation = sentence.deps[i]
    while relation == "conj" and penn_tag(sentence.xpos[i]) in ("NN", "NNS"):
        i = sentence.heads[i]
        relation = sentence.deps[i]
    if relation in _PEOPLE_RELATIONS:
        return lexicon.PEOPLE if random.random() < 0.85 else lexicon.ANIMALS
    if relation in ("obl", "nmod"):
        chance = random.random()
        if chance < 0.55:
            return lexicon.PLACES
        return lexicon.TIMES if chance < 0.65 else lexicon.THINGS
    return lexicon.THINGS if random.random() < 0.8 else lexicon.ANIMALS


def _name_list(sentence: Sentence, children: list[list[int]], i: int) -> list[str]:
    if sentence.xpos[i] == "NNP-F":
        return lexicon.FAMILY_NAMES
    has_family_name = any(sentence.deps[child] == "flat" for child in children[i])
    if sentence.xpos[i] == "NNP-P" and not has_family_name:
        return lexicon.PLACE_NAMES
    return lexicon.FIRST_NAMES


def _number(sentence: Sentence, verb: int) -> str:
    """The number of the pronoun that is the subject of a verb."""
    return "plural" if penn_tag(sentence.xpos[verb]) == "VBP" else "singular"


def _be(sentence: Sentence, siblings: list[int]) -> list[str]:
    subject = next(i for i in siblings if sentence.deps[i] == "nsubj")
    return ["are", "were"] if sentence.xpos[subject] == "NNS" else ["is", "was"]


def _closed_class(sentence: Sentence, children: list[list[int]], i: int) -> list[str]:
    tag, relation, head = sentence.xpos[i], sentence.deps[i], sentence.heads[i]
    head_relation = sentence.deps[head]
    penn = penn_tag(tag)
    if penn == "DT":
        if penn_tag(sentence.xpos[head]) == "NN":
            return lexicon.DETERMINERS_SINGULAR
        numbered = any(sentence.deps[child] == "nummod" for child in children[head])
        return lexicon.DETERMINERS_NUMBERED if numbered else lexicon.DETERMINERS_PLURAL
    if penn == "IN":
        if relation == "mark":
            clausal = head_relation == "ccomp"
            return lexicon.COMPLEMENTISERS if clausal else lexicon.SUBORDINATORS
        if sentence.xpos[sentence.heads[head]] == "VBN-A":
            return ["by", "by", "in", "near"]
        phrases = [c for c in children[sentence.heads[head]] if sentence.deps[c] == head_relation]
        phrases = [c for c in phrases if c > sentence.heads[head]]
        if len(phrases) > 1 and head in phrases:
            return ["to"] if phrases.index(head) % 2 else ["from"]
        return lexicon.NOUN_PREPOSITIONS if head_relation == "nmod" else lexicon.VERB_PREPOSITIONS
    if penn == "CC":
        verbal = sentence.xpos[head] == "VBD-C"
        return lexicon.CLAUSE_CONJUNCTIONS if verbal else lexicon.CONJUNCTIONS
    if tag == "RB":
        if i > head:
            return lexicon.ADVERBS_AFTER
        fronted = any(
            i < child < head and sentence.deps[child] == "nsubj" for child in children[head]
        )
        return lexicon.ADVERBS_FRONTED if fronted else lexicon.ADVERBS_BEFORE
    return {
        "JJ": lexicon.ADJECTIVES,
        "JJ-C": lexicon.ADJECTIVES,
        "JJ-Z": lexicon.PREDICATES,
        "CD": lexicon.NUMBERS,
        "RB-D": lexicon.DEGREES,
        "PRP$": lexicon.POSSESSIVES,
        "TO": ["to"],
        "POS": ["'s"],
        "MD": lexicon.MODALS,
        ",": [","],
        ".": ["."],
    }[tag]
