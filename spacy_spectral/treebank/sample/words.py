"""Words for a drawn tree of the sample treebank: chosen to fit their relation, number, and each other."""

from collections.abc import Sequence
from random import Random
from typing import Any

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


def penn_tag(tag: str) -> str:
    """The Penn tag that a tag of the sample treebank refines: "NN" of "NN-P"."""
    return tag.partition("-")[0]


def realise(sentence: Sentence, random: Random) -> None:
    """Give a drawn tree its words, lemmas, parts of speech, features and spaces."""
    n_words = len(sentence.heads)
    words = _Words(sentence, random)
    sentence.words, sentence.lemmas = words.forms, words.lemmas
    # heads first: what is read depends on the verb, and a pronoun on its noun
    todo = [i for i, head in enumerate(sentence.heads) if head == i]
    while todo:
        i = todo.pop()
        sentence.words[i], sentence.lemmas[i] = words.choose(i)
        todo += reversed(words.children[i])
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


class _Words:
    """The words of a sentence while they are chosen, so that those that belong together fit together."""

    def __init__(self, sentence: Sentence, random: Random) -> None:
        self.tags, self.deps, self.heads = sentence.xpos, sentence.deps, sentence.heads
        self.random = random
        n_words = len(sentence.heads)
        self.forms, self.lemmas = [""] * n_words, [""] * n_words
        self.kinds = [""] * n_words  # of nouns
        self.children: list[list[int]] = [[] for _ in range(n_words)]
        for i, head in enumerate(sentence.heads):
            if head != i:
                self.children[head].append(i)

    def choose(self, i: int) -> tuple[str, str]:
        """The form and lemma of word i, whose head has its word already."""
        tag = self.tags[i]
        penn = penn_tag(tag)
        if penn.startswith("VB"):
            forms = verb_forms(self._one_of(self._verbs(i)))
            return forms[penn], forms["VB"]
        if penn in ("NN", "NNS") and tag != "NN-M":
            self.kinds[i] = self._one_of(self._kinds(i))
            lemma = self._other_than(NOUNS[self.kinds[i]])
            return (plural(lemma) if penn == "NNS" else lemma), lemma
        if penn == "NNP":
            names = self._names(i)
            self.kinds[i] = "place" if names is PLACE_NAMES else "person"
            word = self._other_than(names)
            return word, word
        if penn == "PRP":
            word = self._one_of(self._pronouns(i))
            return word, PRONOUN_LEMMAS.get(word, word)
        if penn == "AUX":
            return self._one_of(self._be(self.heads[i])), "be"
        word = self._one_of(self._others(i))
        return word, word

    def _one_of(self, words: Sequence[str]) -> str:
        return self.random.choice(words)

    def _other_than(self, words: list[str]) -> str:
        """One that the sentence does not have yet, if there is one."""
        return self._one_of([word for word in words if word not in self.lemmas] or words)

    def _verbs(self, i: int) -> list[str]:
        """Verbs for the objects that they have, and for the noun that they say something about."""
        right = {self.deps[child]: child for child in self.children[i] if child > i}
        noun = self.kinds[self.heads[i]] if self.deps[i].startswith("acl") else ""
        if "iobj" in right or "obj" in right:
            verbs = GIVING if "iobj" in right else DOING
            person = "obj" in right and self._is_person(right["obj"])
            found = [verb for verb, kinds in verbs.items() if not person or "person" in kinds]
        elif self.tags[i] in ("VBD-O", "VBN-A"):
            return [verb for verb, kinds in DOING.items() if noun in kinds]
        elif "ccomp" in right:
            found = SAYING
        else:
            found = WANTING if "xcomp" in right else BEING
        return [v for v in found if v in OF_ANIMALS] or found if noun == "animal" else found

    def _is_person(self, i: int) -> bool:
        """Whether a noun must be somebody: a name, or someone who does something."""
        doing = (
            self.deps[child].startswith("acl") and self.tags[child] not in ("VBD-O", "VBN-A")
            for child in self.children[i]
        )
        return self.tags[i] == "NNP" or any(doing)

    def _kinds(self, i: int) -> list[str]:
        """Kinds of nouns for a place in the sentence; frequent ones more than once."""
        relation, head = self.deps[i], self.heads[i]
        if relation == "conj" and self.kinds[head]:
            return [self.kinds[head]]
        if relation == "nsubj":
            return ["person"] * 3 + ["animal"] if self._does_as_animals(head) else ["person"]
        if relation == "iobj":
            return ["person"]
        if relation == "obj":
            kinds = self._objects(head)
            people = [kind for kind in kinds if kind in ("person", "animal")]
            return people if people and self._is_person(i) else kinds
        if self._is_person(i):
            return ["person", "person", "animal"]
        if len(self._phrases(i)) > 1:
            return ["place"]
        return ["person", "place"] if self.tags[head] == "VBN-A" else WITH[self.kinds[head]]

    def _objects(self, verb: int) -> list[str]:
        """The kinds of objects of a transitive verb."""
        return next(k for v, k in (DOING | GIVING).items() if _lemma(v) == self.lemmas[verb])

    def _does_as_animals(self, verb: int) -> bool:
        return self.lemmas[verb] in map(_lemma, OF_ANIMALS)

    def _phrases(self, i: int) -> list[int]:
        """The phrases behind the head of a word with the same relation, if it is one of them."""
        head, relation = self.heads[i], self.deps[i]
        own = [c for c in self.children[head] if self.deps[c] == relation and c > head]
        return own if i in own else []

    def _names(self, i: int) -> list[str]:
        if self.tags[i] == "NNP-F":
            return FAMILY_NAMES
        of_people = {"flat", "acl:relcl"} & {self.deps[child] for child in self.children[i]}
        return PLACE_NAMES if self.tags[i] == "NNP-P" and not of_people else FIRST_NAMES

    def _pronouns(self, i: int) -> list[str]:
        head = self.heads[i]
        if self.deps[i] == "nsubj":
            if penn_tag(self.tags[head]) == "VBP":
                return ["they", "we", "you", "I"]
            return ["he", "she"] * 2 + ["it"] * self._does_as_animals(head)
        people = ["him", "her", "us", "me", "you"] if "person" in self._objects(head) else []
        return ["it", "them", *people]

    def _be(self, head: int) -> list[str]:
        subject = next(i for i in self.children[head] if self.deps[i] == "nsubj")
        return ["are", "were"] if self.tags[subject] == "NNS" else ["is", "was"]

    def _prepositions(self, noun: int) -> list[str]:
        phrases, head = self._phrases(noun), self.heads[noun]
        if len(phrases) > 1:
            return ["to"] if phrases.index(noun) % 2 else ["from"]
        kind = self.kinds[noun]
        if self.tags[head] == "VBN-A":
            return ["in", "near"] if kind == "place" else ["by"]
        return PREPOSITIONS.get((self.kinds[head], kind)) or PREPOSITIONS["", kind]

    def _others(self, i: int) -> list[str]:
        """Words of other parts of speech than verbs, nouns and pronouns."""
        tag, relation, head = self.tags[i], self.deps[i], self.heads[i]
        penn, kind = penn_tag(tag), self.kinds[head]
        if penn == "DT":
            if penn_tag(self.tags[head]) == "NN":
                return DETERMINERS_SINGULAR
            numbered = any(self.deps[child] == "nummod" for child in self.children[head])
            return DETERMINERS_NUMBERED if numbered else DETERMINERS_PLURAL
        if penn == "WDT":
            is_person = self.kinds[self.heads[head]] == "person"
            return ["who", "who", "that"] if is_person else ["that", "which"]
        if penn == "IN":
            if relation != "mark":
                return self._prepositions(head)
            return COMPLEMENTISERS if self.deps[head] == "ccomp" else SUBORDINATORS
        if penn == "CC":
            return CLAUSE_CONJUNCTIONS if self.tags[head] == "VBD-C" else CONJUNCTIONS
        if tag == "NN-M":
            return COMPOUND_MODIFIERS[kind]
        if tag in ("JJ", "JJ-C"):
            return [self._other_than(ADJECTIVES[kind or self.kinds[self.heads[head]]])]
        if tag == "RB":
            if i > head:
                return ADVERBS_AFTER
            subjects = (c for c in self.children[head] if self.deps[c] == "nsubj")
            return ADVERBS_FRONTED if any(i < c < head for c in subjects) else ADVERBS_BEFORE
        return {
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


def _lists(words: dict[Any, str]) -> dict[Any, list[str]]:
    return {name: own.split() for name, own in words.items()}


# The words. Many are ambiguous: saw, flies, that, can, her, light...
NOUNS = _lists(
    {
        "person": "man woman child girl boy doctor teacher student farmer baker painter singer writer "
        "judge lawyer soldier sailor driver king queen nurse pilot guard guest neighbour friend cook tailor",
        "animal": "dog cat horse bird cow sheep fox rabbit duck mouse wolf goat fly bear",
        "tool": "hammer saw knife rope key lamp camera telescope umbrella basket can light",
        "thing": "table chair box cup plate bottle mirror clock watch coat hat shoe ring coin stamp "
        "present picture wheel machine engine",
        "opening": "door window gate box bottle basket umbrella drawer",
        "text": "book letter story poem report song map plan answer play",
        "food": "cake apple orange sandwich egg drink soup",
        "vehicle": "car boat bicycle train bus ship",
        "place": "garden house street school kitchen river forest market bridge village town station "
        "office church castle island hill field park library museum harbour valley tower",
        "event": "party storm war meeting lesson concert dance race match dinner",
    }
)
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

# Adjectives and nouns that stand before a noun of a kind
_LOOKS, _COLOURS = "old big small strange beautiful", "red green blue white black"
ADJECTIVES = _lists(
    {
        "person": f"{_LOOKS} young happy sad tired clever quiet rich poor tall famous kind brave lazy "
        "hungry angry honest",
        "animal": f"{_LOOKS} young white black clever quiet lazy hungry brave tired",
        "tool": f"{_LOOKS} {_COLOURS} new heavy broken short light",
        "thing": f"{_LOOKS} {_COLOURS} new heavy broken empty clean light",
        "opening": f"{_LOOKS} {_COLOURS} new heavy broken",
        "text": f"{_LOOKS} new short famous sad clever honest early",
        "food": "big small cold warm red green strange early",
        "vehicle": f"{_LOOKS} {_COLOURS} new heavy broken empty light clean",
        "place": f"{_LOOKS} quiet dark bright clean empty cold warm famous poor rich open",
        "event": "big small quiet early strange famous beautiful happy sad",
    }
)
COMPOUND_MODIFIERS = _lists(
    {
        "person": "school village city family night",
        "animal": "garden village water",
        "tool": "iron gold silver kitchen garden",
        "thing": "stone iron gold silver glass kitchen",
        "opening": "oak glass iron kitchen garden",
        "text": "family school paper winter",
        "food": "summer winter school kitchen",
        "vehicle": "family city water night",
        "place": "stone summer winter city village family",
        "event": "summer winter school village family night",
    }
)
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
PRONOUN_LEMMAS = {"him": "he", "her": "she", "them": "they", "us": "we", "me": "I"}

# Kinds of nouns behind a preposition, by the kind of the noun in front of it; "" is a verb.
WITH = _lists(
    {
        "": "place place place event tool person",
        "person": "place place thing",
        "animal": "place place person",
        "tool": "person person place",
        "thing": "person person place",
        "opening": "place",
        "text": "person place animal event",
        "food": "person place",
        "vehicle": "person place",
        "place": "place place person",
        "event": "place person",
    }
)
# By the kinds of the nouns in front of them and behind them.
PREPOSITIONS = _lists(
    {
        ("", "place"): "in near behind at by",
        ("", "event"): "before after at",
        ("", "tool"): "with",
        ("", "person"): "with for near behind",
        ("", "animal"): "with near behind",
        ("person", "place"): "in from near",
        ("person", "thing"): "with",
        ("person", "person"): "with of",
        ("animal", "place"): "in near",
        ("animal", "person"): "of with near",
        ("tool", "person"): "of for from",
        ("tool", "place"): "in from",
        ("thing", "person"): "of for from",
        ("thing", "place"): "in from near",
        ("opening", "place"): "of in",
        ("text", "person"): "of about by for from",
        ("text", "place"): "about from",
        ("text", "animal"): "about",
        ("text", "event"): "about for",
        ("food", "person"): "of for from",
        ("food", "place"): "from in",
        ("vehicle", "person"): "of for",
        ("vehicle", "place"): "from in near to",
        ("place", "person"): "of",
        ("place", "place"): "near in by of",
        ("event", "place"): "in at near",
        ("event", "person"): "for with of",
    }
)

# An irregular verb is written lemma:past:participle. Transitive verbs have the kinds of their objects.
BEING = (
    "sleep:slept:slept walk run:ran:run fall:fell:fallen laugh sing:sang:sung dance wait "
    "smile arrive fly:flew:flown work play swim:swam:swum rest travel"
).split()
_ANY = " ".join(NOUNS)
DOING = _lists(
    {
        "see:saw:seen": _ANY,
        "find:found:found": "person animal tool thing opening text food vehicle place",
        "watch": "person animal event vehicle",
        "like": _ANY,
        "love": "person animal text food place",
        "follow": "person animal vehicle",
        "push": "person vehicle opening",
        "need": "person tool thing opening text food vehicle",
        "carry": "tool thing food text person",
        "lift": "person animal tool thing",
        "open": "opening",
        "close": "opening",
        "break:broke:broken": "tool thing opening",
        "paint": "person opening vehicle place",
        "buy:bought:bought": "tool thing text food vehicle animal",
        "sell:sold:sold": "tool thing text food vehicle animal",
        "repair": "tool thing opening vehicle",
        "clean": "tool thing opening vehicle place",
        "hide:hid:hidden": "person animal tool thing food text",
        "cut:cut:cut": "food",
        "read:read:read": "text",
        "book": "event",
    }
)
GIVING = _lists(
    {
        "give:gave:given": "tool thing text food animal",
        "show:showed:shown": "person animal tool thing text place",
        "send:sent:sent": "person thing text food",
        "offer": "thing food vehicle",
        "lend:lent:lent": "tool thing text vehicle",
        "tell:told:told": "text",
        "bring:brought:brought": "person tool thing text food",
        "teach:taught:taught": "text",
    }
)
SAYING = (
    "say:said:said think:thought:thought know:knew:known believe hope explain claim fear "
    "report doubt notice"
).split()
WANTING = "want try hope plan decide begin:began:begun refuse need promise learn agree".split()
# Of all these, what animals do
OF_ANIMALS = (
    "sleep:slept:slept walk run:ran:run fall:fell:fallen wait arrive fly:flew:flown play "
    "swim:swam:swum rest see:saw:seen find:found:found watch like follow push need carry "
    "hide:hid:hidden try begin:began:begun"
).split()
_DOUBLED = {"run", "swim", "cut", "begin", "plan"}


def _lemma(verb: str) -> str:
    return verb.partition(":")[0]


def plural(noun: str) -> str:
    """Its plural."""
    return IRREGULAR_PLURALS.get(noun) or _add_s(noun)


def verb_forms(entry: str) -> dict[str, str]:
    """Inflect a verb, given as lemma or lemma:past:participle."""
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
