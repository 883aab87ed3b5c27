"""The grammar of English behind the sample treebank: split head automata with hidden states.

A split head automaton knows its head by the tag alone. So that what it generates is English, the
Penn tags are refined where they leave open what the word does in its sentence:

    -P  noun in a prepositional phrase     -R  verb of a relative clause about its subject
    -C  last conjunct, after "and"         -O  verb of a relative clause about its object
    -L  conjunct after a comma             -S  verb of a clause with "that", "because", "if"...
    -G  genitive                           -I  infinitive with "to"
    -M  noun before a noun                 -A  participle after a noun or as an adjunct
    -F  family name                        -Z  predicate of "be"
    -D  adverb of degree

Verbs without a letter (and JJ-Z) are roots, and end their sentence with the full stop.

Each automaton is written as lines `state = weight TAG/relation next | weight stop | ...`, its
modifiers from the head outwards. `weight next` without a tag means "go on as in that state", and a
name of `TAG_SETS` stands for several tags. `start` is the distribution over the hidden first
states. Several states give the same modifier and differ in what follows: the automata are not
deterministic.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy

LEFT, RIGHT = 0, 1
ROOT = "ROOT"
STOP = "stop"

# what a name stands for; a name can mean something else for some heads ("SUBJ:VBZ")
TAG_SETS = {
    "SUBJ": {"NN": 0.45, "NNS": 0.2, "NNP": 0.2, "PRP": 0.15},
    "SUBJ:VBZ": {"NN": 0.6, "NNP": 0.22, "PRP": 0.18},
    "SUBJ:VBZ-S": {"NN": 0.6, "NNP": 0.22, "PRP": 0.18},
    "SUBJ:VBP": {"NNS": 0.75, "PRP": 0.25},
    "OBJ": {"NN": 0.55, "NNS": 0.28, "NNP": 0.1, "PRP": 0.07},
    "PP": {"NN-P": 0.62, "NNS-P": 0.2, "NNP-P": 0.18},
    "CLAUSE": {"VBD-S": 0.6, "VBZ-S": 0.4},
    "POSS": {"PRP$": 0.6, "NNP-G": 0.4},
    "RELCL": {"VBD-R": 0.5, "VBZ-R": 0.25, "VBD-O": 0.25},
    "RELCL:NNS": {"VBD-R": 0.65, "VBD-O": 0.35},
    "RELCL:NNS-P": {"VBD-R": 0.65, "VBD-O": 0.35},
}

_SINGULAR_LEFT = """
    start = 0.82 plain | 0.18 rich
    plain = 0.08 NN-M/compound named | 0.17 JJ/amod det | 0.75 det
    named = 0.2 JJ/amod det | 0.8 det
    rich = 0.6 JJ/amod richer | 0.4 NN-M/compound modified
    modified = 1 JJ/amod det
    richer = 0.5 JJ/amod det | 0.5 det
    det = 0.75 DT/det outer | 0.25 POSS/nmod:poss outer
"""
_PLURAL_LEFT = """
    start = 0.65 plain | 0.35 counted
    plain = 0.12 NN-M/compound bare | 0.28 JJ/amod bare | 0.6 bare
    bare = 0.3 DT/det outer | 0.2 POSS/nmod:poss outer | 0.5 outer
    counted = 0.3 JJ/amod number | 0.7 number
    number = 1 CD/nummod numbered
    numbered = 0.25 DT/det outer | 0.1 POSS/nmod:poss outer | 0.65 outer
"""
_NOUN_RIGHT = """
    start = 0.72 thing | 0.11 place | 0.11 route | 0.06 list
    thing = 0.9 stop | 0.06 RELCL/acl:relcl end | 0.02 VBG-A/acl end | 0.02 VBN-A/acl end
    place = 1 PP/nmod placed
    placed = 0.85 stop | 0.15 list
    route = 1 PP/nmod goal
    goal = 1 PP/nmod routed
    routed = 0.85 stop | 0.15 route
    list = 0.5 NN-C/conj end | 0.5 NN-L/conj listed
    listed = 0.3 NN-L/conj listed | 0.7 NN-C/conj end
    end = 1 stop
"""
_NAME_RIGHT = """
    start = 0.35 full | 0.65 short
    full = 1 NNP-F/flat short
    short = 0.95 outer | 0.05 VBD-R/acl:relcl outer
"""
_VERB_RIGHT = """
    start = 0.22 alone | 0.14 moving | 0.27 doing | 0.11 placing | 0.08 taking | 0.05 giving
          | 0.07 saying | 0.06 wanting
    alone = 0.25 RB/advmod end | 0.35 PP/obl end | 0.4 adjuncts
    moving = 1 PP/obl moved
    moved = 1 PP/obl adjuncts
    doing = 1 OBJ/obj adjuncts
    placing = 1 OBJ/obj placed
    placed = 1 PP/obl end
    taking = 1 OBJ/obj taken
    taken = 1 PP/obl placed
    giving = 1 OBJ/iobj given
    given = 1 OBJ/obj adjuncts
    saying = 1 CLAUSE/ccomp end
    wanting = 1 VB-I/xcomp end
    adjuncts = 0.8 end | 0.1 RB/advmod end | 0.06 CLAUSE/advcl end | 0.04 VBG-A/advcl end
"""
_FRONTED = """
    comma = 1 ,/punct fronted
    fronted = 0.6 PP/obl outer | 0.2 RB/advmod outer | 0.2 CLAUSE/advcl outer
    outer = 1 stop
"""
_FINITE_LEFT = (
    """
    start = 0.82 basic | 0.18 topic
    basic = 0.12 RB/advmod clause | 0.88 clause
    clause = 1 SUBJ/nsubj outer
    topic = 0.2 RB/advmod topical | 0.8 topical
    topical = 1 SUBJ/nsubj comma
"""
    + _FRONTED
)
_AUXILIARY_LEFT = (
    """
    start = 0.82 basic | 0.18 topic
    basic = 0.2 ADVERB/advmod clause | 0.8 clause
    clause = 1 AUXILIARY subject
    subject = 1 SUBJ/nsubj outer
    topic = 0.1 ADVERB/advmod topical | 0.9 topical
    topical = 1 AUXILIARY topicalised
    topicalised = 1 SUBJ/nsubj comma
"""
    + _FRONTED
)
_OUTER_STOP = "outer = 1 stop\n"
_OUTER_CASE = "outer = 1 IN/case done\ndone = 1 stop\n"
_OUTER_COMMA = "outer = 1 ,/punct done\ndone = 1 stop\n"
_OUTER_CC = "outer = 1 CC/cc done\ndone = 1 stop\n"
_FULL_STOP = "end = 1 ./punct done\ndone = 1 stop\n"
_CONJUNCTS = """
    end = 0.08 VBD-C/conj close | 0.05 VBD-L/conj listed | 0.87 close
    listed = 0.25 VBD-L/conj listed | 0.75 VBD-C/conj close
    done = 1 stop
"""
_END = "end = 1 stop\n"


def _auxiliary(tag_and_relation: str, adverb: str = "RB") -> str:
    return _AUXILIARY_LEFT.replace("AUXILIARY", tag_and_relation).replace("ADVERB", adverb)


def _optional(probability: float, modifier: str) -> str:
    once = f"once = {probability} {modifier} done | {1 - probability} stop"
    return f"start = 1 once\n{once}\ndone = 1 stop\n"


# By head tags and direction.
RULES = {
    (ROOT, RIGHT): """
    start = 1 sentence
    sentence = 0.38 VBD/root done | 0.18 VBZ/root done | 0.12 VBP/root done | 0.12 VB/root done
             | 0.1 VBG/root done | 0.1 JJ-Z/root done
    done = 1 stop
""",
    ("VBD VBZ VBP", LEFT): _FINITE_LEFT,
    ("VB", LEFT): _auxiliary("MD/aux"),
    ("VBG", LEFT): _auxiliary("AUX/aux"),
    ("JJ-Z", LEFT): _auxiliary("AUX/cop", "RB-D"),
    ("VBZ-S VBD-S", LEFT): """
    start = 1 basic
    basic = 0.1 RB/advmod clause | 0.9 clause
    clause = 1 SUBJ/nsubj marker
    marker = 1 IN/mark done
    done = 1 stop
""",
    ("VBZ-R VBD-R", LEFT): """
    start = 1 basic
    basic = 0.15 RB/advmod clause | 0.85 clause
    clause = 1 WDT/nsubj done
    done = 1 stop
""",
    ("VBD-O", LEFT): """
    start = 1 clause
    clause = 1 SUBJ/nsubj relative
    relative = 0.75 WDT/obj done | 0.25 stop
    done = 1 stop
""",
    ("VBD-C", LEFT): """
    start = 0.55 shared | 0.45 own
    shared = 0.15 RB/advmod conjunction | 0.85 conjunction
    conjunction = 1 CC/cc done
    own = 1 SUBJ/nsubj linked
    linked = 1 CC/cc separated
    separated = 1 ,/punct done
    done = 1 stop
""",
    ("VBD-L", LEFT): "start = 1 outer\n" + _OUTER_COMMA,
    ("VB-I", LEFT): "start = 1 marker\nmarker = 1 TO/mark done\ndone = 1 stop\n",
    (
        "VBG-A VBN-A",
        LEFT,
    ): "start = 0.12 adverb | 0.88 done\nadverb = 1 RB/advmod done\ndone = 1 stop",
    ("VBD", RIGHT): _VERB_RIGHT + _CONJUNCTS + "close = 1 ./punct done\n",
    ("VBD-S VBD-R", RIGHT): _VERB_RIGHT + _CONJUNCTS + "close = 1 stop\n",
    ("VBZ VBP VB VBG", RIGHT): _VERB_RIGHT + _FULL_STOP,
    ("VBZ-S VBZ-R VB-I VBG-A VBD-C VBD-L", RIGHT): _VERB_RIGHT + _END,
    ("VBD-O VBN-A", RIGHT): """
    start = 0.5 alone | 0.5 placed
    alone = 0.75 stop | 0.25 RB/advmod done
    placed = 1 PP/obl done
    done = 1 stop
""",
    ("JJ-Z", RIGHT): """
    start = 0.55 alone | 0.25 placed | 0.2 eager
    alone = 0.85 end | 0.15 CLAUSE/advcl end
    placed = 1 PP/obl end
    eager = 1 VB-I/xcomp end
"""
    + _FULL_STOP,
    ("NN", LEFT): _SINGULAR_LEFT + _OUTER_STOP,
    ("NN-P", LEFT): _SINGULAR_LEFT + _OUTER_CASE,
    ("NN-C", LEFT): _SINGULAR_LEFT + _OUTER_CC,
    ("NN-L", LEFT): _SINGULAR_LEFT + _OUTER_COMMA,
    ("NNS", LEFT): _PLURAL_LEFT + _OUTER_STOP,
    ("NNS-P", LEFT): _PLURAL_LEFT + _OUTER_CASE,
    ("NN NNS NN-P NNS-P NN-C NN-L", RIGHT): _NOUN_RIGHT,
    ("NNP-P", LEFT): "start = 1 outer\n" + _OUTER_CASE,
    ("NNP NNP-P", RIGHT): _NAME_RIGHT + _OUTER_STOP,
    ("NNP-G", RIGHT): """
    start = 0.2 full | 0.8 outer
    full = 1 NNP-F/flat outer
    outer = 1 POS/case done
    done = 1 stop
""",
    ("JJ RB", LEFT): _optional(0.12, "RB-D/advmod"),
    ("JJ", RIGHT): _optional(0.07, "JJ-C/conj"),
    ("JJ-C", LEFT): "start = 1 outer\n" + _OUTER_CC,
}


@dataclass(frozen=True)
class Automaton:
    """A probabilistic automaton over (tag, relation): it starts in a state with a probability, and each
    state has (probability, tag, relation, next state); the tag is "stop" where it stops."""

    start: tuple[tuple[float, str], ...]
    states: dict[str, tuple[tuple[float, str, str, str], ...]]


_EMPTY = Automaton(((1.0, "done"),), {"done": ((1.0, STOP, "", ""),)})


@lru_cache(maxsize=1)
def automata() -> dict[tuple[str, int], Automaton]:
    """The automaton of every head tag and direction."""
    compiled = {
        (head, direction): _compile(text, head)
        for (heads, direction), text in RULES.items()
        for head in heads.split()
    }
    generated = {
        tag
        for automaton in compiled.values()
        for alternatives in automaton.states.values()
        for _, tag, _, _ in alternatives
        if tag != STOP
    }
    for tag in generated:
        for direction in (LEFT, RIGHT):
            compiled.setdefault((tag, direction), _EMPTY)
    return dict(sorted(compiled.items()))


def symbols() -> list[str]:
    """The tags, sorted."""
    return sorted({head for head, _ in automata()} - {ROOT})


def true_model() -> tuple[list[str], numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """The distribution that the sample treebank is drawn from, relations summed out.

    A sequence x1..xm of modifiers, nearest first, has the probability
    f(x1..xm) = stop' A_xm ... A_x1 start with A_x = ops[h, d, x].

    RETURNS: The X tags; start (H, 2, n), stop (H, 2, n) and ops (H, 2, X, n, n) with H = X + 1 heads (the
        last is the root), directions 0 = left and 1 = right, padded with zeros to n states.
    """
    names = symbols()
    index = {name: i for i, name in enumerate([*names, ROOT])}
    n_states = max(len(automaton.states) for automaton in automata().values())
    start = numpy.zeros((len(index), 2, n_states))
    stop = numpy.zeros((len(index), 2, n_states))
    ops = numpy.zeros((len(index), 2, len(names), n_states, n_states))
    for (head, direction), automaton in automata().items():
        h = index[head]
        number = {state: i for i, state in enumerate(automaton.states)}
        for weight, state in automaton.start:
            start[h, direction, number[state]] += weight
        for state, alternatives in automaton.states.items():
            for weight, tag, _, following in alternatives:
                if tag == STOP:
                    stop[h, direction, number[state]] += weight
                else:
                    ops[h, direction, index[tag], number[following], number[state]] += weight
    # the root has no left side: the empty sequence is certain there
    start[index[ROOT], LEFT, 0] = stop[index[ROOT], LEFT, 0] = 1.0
    return names, start, stop, ops


def _compile(text: str, head: str) -> Automaton:
    """Read the lines of one automaton: expand names of tag sets and `weight next` alternatives."""
    lines: dict[str, list[list[str]]] = {}
    state = ""
    for line in filter(str.strip, text.splitlines()):
        name, equals, alternatives = line.partition("=")
        if equals:
            state = name.strip()
            lines[state] = []
        else:  # a continuation line, which begins with "|"
            alternatives = line.strip().removeprefix("|")
        lines[state] += [alternative.split() for alternative in alternatives.split("|")]
    start = tuple((float(weight), name) for weight, name in lines.pop("start"))

    def expand(state: str, factor: float) -> list[tuple[float, str, str, str]]:
        expanded = []
        for weight, *rest in lines[state]:
            probability = factor * float(weight)
            if rest == [STOP]:
                expanded.append((probability, STOP, "", ""))
            elif len(rest) == 1:
                expanded += expand(rest[0], probability)
            else:
                name, _, relation = rest[0].rpartition("/")
                tags = TAG_SETS.get(f"{name}:{head}", TAG_SETS.get(name, {name: 1.0}))
                expanded += [
                    (probability * share, tag, relation, rest[1]) for tag, share in tags.items()
                ]
        return expanded

    states: dict[str, tuple[tuple[float, str, str, str], ...]] = {}
    todo = [name for _, name in start]
    while todo:  # only what can be reached: a state that is always passed by is no hidden state
        name = todo.pop()
        if name not in states:
            states[name] = tuple(expand(name, 1.0))
            todo += [following for _, tag, _, following in states[name] if tag != STOP]
    return Automaton(start, dict(sorted(states.items())))
