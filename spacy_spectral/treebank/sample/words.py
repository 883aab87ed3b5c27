"""Words for a drawn tree of the sample treebank: chosen to fit their relation, frame and number."""

from random import Random

from ..conllu import Sentence

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
    """The Penn tag that a tag of the sample treebank refines: "NN" of "NN-P"."""
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
        entry = random.choice(VERBS[frame].split())
        forms = verb_forms(entry)
        return forms[penn], forms["VB"]
    if tag == "NN-M":
        word = random.choice(COMPOUND_MODIFIERS)
        return word, word
    if penn in ("NN", "NNS"):
        lemma = random.choice(_noun_list(sentence, i, random))
        return (plural(lemma) if penn == "NNS" else lemma), lemma
    if penn == "NNP":
        word = random.choice(_name_list(sentence, children, i))
        return word, word
    if penn == "PRP":
        case = _number(sentence, head) if relation == "nsubj" else "object"
        word = random.choice(PRONOUNS[case])
        return word, PRONOUN_LEMMAS.get(word, word)
    if penn == "AUX":
        return random.choice(_be(sentence, children[head])), "be"
    if penn == "WDT":
        person = sentence.lemmas[sentence.heads[head]] in PEOPLE or (
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
        return PEOPLE if random.random() < 0.85 else ANIMALS
    if relation in ("obl", "nmod"):
        chance = random.random()
        if chance < 0.55:
            return PLACES
        return TIMES if chance < 0.65 else THINGS
    return THINGS if random.random() < 0.8 else ANIMALS


def _name_list(sentence: Sentence, children: list[list[int]], i: int) -> list[str]:
    if sentence.xpos[i] == "NNP-F":
        return FAMILY_NAMES
    has_family_name = any(sentence.deps[child] == "flat" for child in children[i])
    if sentence.xpos[i] == "NNP-P" and not has_family_name:
        return PLACE_NAMES
    return FIRST_NAMES


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
            return DETERMINERS_SINGULAR
        numbered = any(sentence.deps[child] == "nummod" for child in children[head])
        return DETERMINERS_NUMBERED if numbered else DETERMINERS_PLURAL
    if penn == "IN":
        if relation == "mark":
            clausal = head_relation == "ccomp"
            return COMPLEMENTISERS if clausal else SUBORDINATORS
        if sentence.xpos[sentence.heads[head]] == "VBN-A":
            return ["by", "by", "in", "near"]
        phrases = [c for c in children[sentence.heads[head]] if sentence.deps[c] == head_relation]
        phrases = [c for c in phrases if c > sentence.heads[head]]
        if len(phrases) > 1 and head in phrases:
            return ["to"] if phrases.index(head) % 2 else ["from"]
        return NOUN_PREPOSITIONS if head_relation == "nmod" else VERB_PREPOSITIONS
    if penn == "CC":
        verbal = sentence.xpos[head] == "VBD-C"
        return CLAUSE_CONJUNCTIONS if verbal else CONJUNCTIONS
    if tag == "RB":
        if i > head:
            return ADVERBS_AFTER
        fronted = any(
            i < child < head and sentence.deps[child] == "nsubj" for child in children[head]
        )
        return ADVERBS_FRONTED if fronted else ADVERBS_BEFORE
    return {
        "JJ": ADJECTIVES,
        "JJ-C": ADJECTIVES,
        "JJ-Z": PREDICATES,
        "CD": NUMBERS,
        "RB-D": DEGREES,
        "PRP$": POSSESSIVES,
        "TO": ["to"],
        "POS": ["'s"],
        "MD": MODALS,
        ",": [","],
        ".": ["."],
    }[tag]


# ruff: noqa: SIM905 (word lists read better as text)

# The words. Many are ambiguous: saw, flies, that, can, her, light...
PEOPLE = (
    "man woman child girl boy doctor teacher student farmer baker painter singer writer judge "
    "lawyer soldier sailor driver king queen nurse pilot guard guest neighbour friend cook tailor"
).split()
ANIMALS = "dog cat horse bird cow sheep fox rabbit duck mouse wolf goat fly bear".split()
THINGS = (
    "book letter picture table chair lamp window door box basket hammer saw can watch bottle cup "
    "plate knife spoon coat hat shoe ring key coin map clock mirror song story poem cake apple "
    "orange sandwich egg rope wheel boat car bicycle umbrella telescope camera plan answer light "
    "report idea machine engine present stamp drink cut play"
).split()
PLACES = (
    "garden house street school kitchen river forest market bridge village town station office "
    "church castle island hill field park library museum harbour valley tower"
).split()
TIMES = "party storm war meeting lesson concert dance race match dinner".split()
COMPOUND_MODIFIERS = (
    "stone kitchen summer winter school village garden paper gold iron silver city state family "
    "water glass oak night"
).split()
IRREGULAR_PLURALS = {
    "man": "men",
    "woman": "women",
    "child": "children",
    "sheep": "sheep",
    "mouse": "mice",
    "wolf": "wolves",
    "knife": "knives",
}

FIRST_NAMES = (
    "Anna Tom Mary Peter Lucy Henry Clara George Ruth Oscar Emma Walter Alice Hugo Nora Felix"
).split()
FAMILY_NAMES = "Smith Brown Taylor Baker Cook Fisher Hill Wood Young King Price Bell".split()
PLACE_NAMES = "London Paris Vienna Oslo Dublin Lisbon Prague Geneva Ghent Delft".split()

ADJECTIVES = (
    "old young big small red green blue white black happy sad tired clever quiet rich poor tall "
    "short heavy light new broken beautiful strange famous kind brave lazy hungry cold warm dark "
    "bright clean empty early open angry honest"
).split()
PREDICATES = (
    "happy sad tired ready eager afraid glad proud sorry hungry quiet angry free able".split()
)
NUMBERS = "two three four five six seven eight nine ten twelve twenty".split()
DEGREES = "very quite rather too so really".split()
ADVERBS_BEFORE = (
    "often never always quickly slowly finally suddenly quietly rarely gladly soon".split()
)
ADVERBS_AFTER = (
    "yesterday today there here again slowly quickly quietly early late well together outside now"
).split()
ADVERBS_FRONTED = "yesterday today now finally suddenly sometimes later here".split()

DETERMINERS_SINGULAR = ["the"] * 10 + ["a"] * 7 + ["this", "that", "every", "each", "another"]
DETERMINERS_PLURAL = ["the"] * 6 + ["some", "these", "those", "all", "many", "no"]
DETERMINERS_NUMBERED = ["the"] * 4 + ["these", "those", "all"]
POSSESSIVES = "my your his her its our their".split()
MODALS = "will can may must should could would might".split()
CONJUNCTIONS = ["and"] * 5 + ["or"]
CLAUSE_CONJUNCTIONS = ["and"] * 3 + ["but"]
COMPLEMENTISERS = ["that"] * 9 + ["whether"]
SUBORDINATORS = "because when if while although before after since until".split()
NOUN_PREPOSITIONS = ["of"] * 4 + "with from near in for about by on".split()
VERB_PREPOSITIONS = "in on near with behind at from for after before under by to into".split()

PRONOUNS = {
    "singular": ["he", "she", "it"],
    "plural": ["they", "we", "you", "I"],
    "object": ["him", "her", "it", "them", "us", "me", "you"],
}
PRONOUN_LEMMAS = {"him": "he", "her": "she", "them": "they", "us": "we", "me": "I"}

# frame -> verbs; an irregular verb is written lemma:past:participle
VERBS = {
    "intransitive": (
        "sleep:slept:slept walk run:ran:run fall:fell:fallen laugh sing:sang:sung dance wait "
        "smile arrive fly:flew:flown work play swim:swam:swum rest travel"
    ),
    "transitive": (
        "see:saw:seen find:found:found watch like carry open close break:broke:broken paint "
        "buy:bought:bought sell:sold:sold repair clean hide:hid:hidden follow love push lift need "
        "cut:cut:cut read:read:read book"
    ),
    "ditransitive": (
        "give:gave:given show:showed:shown send:sent:sent offer lend:lent:lent tell:told:told "
        "bring:brought:brought teach:taught:taught"
    ),
    "clausal": (
        "say:said:said think:thought:thought know:knew:known believe hope explain claim fear "
        "report doubt notice"
    ),
    "infinitive": "want try hope plan decide begin:began:begun refuse need promise learn agree",
}
_DOUBLED = {"run", "swim", "cut", "begin", "plan"}


def plural(noun: str) -> str:
    """Its plural."""
    return IRREGULAR_PLURALS.get(noun) or _add_s(noun)


def verb_forms(entry: str) -> dict[str, str]:
    """Inflect a verb.

    entry: A lemma, or lemma:past:participle.
    """
    lemma, *irregular = entry.split(":")
    stem = lemma + lemma[-1] if lemma in _DOUBLED else lemma
    if lemma.endswith("e"):
        past = lemma + "d"
    elif lemma.endswith("y") and lemma[-2] not in "aeiou":
        past = lemma[:-1] + "ied"
    else:
        past = stem + "ed"
    past, participle = irregular or (past, past)
    # "see" keeps its e, "hide" does not
    drops_e = lemma.endswith("e") and not lemma.endswith("ee")
    gerund = (lemma[:-1] if drops_e else stem) + "ing"
    return {
        "VB": lemma,
        "VBP": lemma,
        "VBZ": _add_s(lemma),
        "VBD": past,
        "VBN": participle,
        "VBG": gerund,
    }


def _add_s(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
