"""What the units of a tree look at; see `_engine`.

A template is a list of values: of a token its tag, coarse tag, word (or how it ends, for a rare one), a
coarse and a fine cluster, and the tags beside it; of an arc its label; and how tokens lie.
"""

# Tokens, by their role: g is the head's head, h the head, m the modifier, s the modifier before it.
_COLUMNS = ("tag", "pos", "word", "coarse", "fine", "before", "after")
ATOMS = {
    f"{role}.{column}": 7 * i + j
    for i, role in enumerate("ghms")
    for j, column in enumerate(_COLUMNS)
} | {
    "g.label": 28,  # of the arc to the head
    "label": 29,
    "s.label": 30,
    "sides": 31,
    "distance": 32,
    "gap": 33,  # between m and s
    "g.distance": 34,
}

_ARC = """
label h.tag m.tag sides
label h.word m.word
label h.word m.tag sides
label h.tag m.word sides
label sides distance
label h.tag m.tag sides distance
label h.coarse m.coarse sides
label m.tag m.before m.after h.tag
label h.tag h.before h.after m.tag
"""
_PAIR = """
g.label label sides
g.label label sides h.tag
g.label label sides m.tag
g.label label sides g.tag
g.tag h.tag m.tag sides
g.tag h.tag m.tag g.label label
g.label label h.word
g.label label m.word
g.label label g.word
g.word m.tag label sides
g.tag m.word label sides
g.word m.word label
g.word h.tag m.tag sides
g.tag h.word m.tag sides
g.tag h.tag m.word sides
g.coarse h.coarse m.coarse sides
g.coarse m.coarse label sides
g.fine m.fine label
g.label label distance g.distance sides
"""
_SIBLINGS = """
s.label label sides
s.label label sides h.tag
s.label label s.tag m.tag
h.tag s.tag m.tag sides
s.label label h.word
s.label label s.word
s.label label m.word
s.word m.tag label sides
s.tag m.word label sides
s.word m.word label
h.word s.tag m.tag sides
h.coarse s.label label sides
s.coarse m.coarse label sides
s.fine m.fine label
s.label label gap sides
s.tag m.tag h.tag s.label label
h.coarse s.coarse m.coarse sides
"""
_TRIPLE = """
g.label s.label label sides
g.label s.label label h.tag
g.tag h.tag s.tag m.tag sides
g.label s.label label h.word
g.label s.label label m.tag
g.label s.label label h.coarse
"""
_STOP = """
g.label label sides
g.label label h.tag sides
label h.tag m.tag sides
label h.word sides
g.label label h.word
g.tag h.tag m.tag sides
label h.coarse sides
"""
_EMPTY = """
g.label sides
g.label h.tag sides
g.label h.word sides
g.tag h.tag sides
h.word sides
h.coarse g.label sides
g.label h.tag h.before h.after sides
"""


def _read(text: str) -> list[list[int]]:
    return [[ATOMS[name] for name in line.split()] for line in text.strip().splitlines()]


# In the order of the kinds of units.
TEMPLATES = [_read(text) for text in (_ARC, _PAIR, _SIBLINGS, _TRIPLE, _STOP, _EMPTY)]
