"""The words of the sample treebank. Many are ambiguous: saw, flies, that, can, her, light..."""

# ruff: noqa: SIM905 (word lists read better as text)

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
