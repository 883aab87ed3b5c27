"""What is looked at to tell where tokens, words and sentences start.

Nothing here knows a language: which characters, endings and words matter is left to the data.
"""

from ..tagger._features import FORM_COLUMNS
from ..tagger.features import FORM, FULL_SHAPE, LOWER, SHAPE, SUFFIX, Cell, Templates
from ._characters import COLUMNS as CHARACTER_COLUMNS
from ._characters import GRAM_COLUMNS
from .stops import AFTER, LENGTH, WORD

# columns of places beside those of characters, see `stops`
STOPS = CHARACTER_COLUMNS + 1
# columns of tokens beside those of forms, see `layout`
GAP, SINCE, LOOK, MARK = range(FORM_COLUMNS, FORM_COLUMNS + 4)


def cut_templates() -> Templates:
    """Templates for places inside of chunks; the decision stands after the columns of characters.

    RETURNS (Templates): The templates.
    """

    def grams(group: int) -> list[Cell]:
        return [(0, group * GRAM_COLUMNS + i) for i in range(GRAM_COLUMNS)]

    # n-grams of characters and of their classes, on the left and on the right
    left, right, left_kinds, right_kinds = map(grams, range(4))
    rest = range(4 * GRAM_COLUMNS, CHARACTER_COLUMNS)
    before, after, run_before, run_after, chunk, shape, start, end = ((0, c) for c in rest)
    last = (-1, CHARACTER_COLUMNS)
    cells: list[list[Cell]] = [[c] for c in (*left, *right, *left_kinds[2:], *right_kinds[2:])]
    cells += [[c] for c in (before, after, run_before, run_after, chunk, shape, start, end)]
    cells += [
        [left[i], right[j]] for i, j in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (2, 0), (0, 2))
    ]
    cells += [[left_kinds[i], right_kinds[i]] for i in range(GRAM_COLUMNS)]
    cells += [[left_kinds[0], right_kinds[1]], [left_kinds[1], right_kinds[0]]]
    cells += [[left_kinds[i], right[0]] for i in (2, 3)] + [
        [left[0], right_kinds[i]] for i in (2, 3)
    ]
    cells += [[run_before, c] for c in (run_after, after, right[0], right[1], right_kinds[1])]
    cells += [[run_after, c] for c in (before, left[0], left[1], left_kinds[1])]
    cells += [[before, c] for c in (right[0], right_kinds[1], right_kinds[3])]
    cells += [[after, c] for c in (left[0], left_kinds[1], left_kinds[3])]
    cells += [[start, c] for c in (right[0], left_kinds[1])]
    cells += [[end, c] for c in (left[0], right[0], right_kinds[1])] + [[shape, right[0]]]
    cells += [[last, right[0]], [last, left[0]], [last, left[0], right[0]]]
    # new templates come last, so that those of older files keep their numbers:
    # words beside the next and the last character, then full stops at the end
    next_run, last_run = (1, run_after[1]), (-1, run_before[1])
    cells += [[right[0], next_run], [left[0], last_run], [right[0], run_before, next_run]]
    goes_on, word, length = ((0, STOPS + c) for c in (AFTER, WORD, LENGTH))
    cells += [[goes_on], [word], [goes_on, word], [goes_on, run_before], [word, length]]
    cells += [[goes_on, word, length], [goes_on, word, left_kinds[1]]]
    return Templates.make(cells, out_column=CHARACTER_COLUMNS, type_columns=0)


def join_templates() -> Templates:
    """Templates for pieces of words that contain spaces; the last column is the decision.

    RETURNS (Templates): The templates.
    """
    joined = FORM_COLUMNS
    cells: list[list[Cell]] = [[(o, LOWER)] for o in range(-3, 3)] + [[(o, SHAPE)] for o in (-1, 0)]
    pairs = ((-1, 0), (-2, -1), (0, 1), (-2, 0), (-1, 1))
    cells += [[(a, LOWER), (b, LOWER)] for a, b in pairs]
    cells += [[(o, c) for o in (-2, -1, 0)] for c in (LOWER, SHAPE)]
    cells += [[(o, c) for o in (-1, 0, 1)] for c in (LOWER, SHAPE)]
    cells += [[(-1, a), (0, b)] for a, b in ((SHAPE, SHAPE), (FORM, SHAPE), (SHAPE, FORM))]
    cells += [[(-1, joined)], [(-1, joined), (-1, LOWER)], [(-1, joined), (0, LOWER)]]
    cells += [[(-1, joined), (-1, c), (0, c)] for c in (LOWER, SHAPE)]
    return Templates.make(cells, out_column=joined, type_columns=FORM_COLUMNS)


def start_templates() -> Templates:
    """Templates for tokens that may start a sentence; the last column is the decision, which none looks at:
    a document can be read in parts.

    RETURNS (Templates): The templates.
    """
    cells: list[list[Cell]] = [[(o, LOWER)] for o in range(-3, 3)]
    cells += [[(o, FORM)] for o in (-1, 0, 1)] + [[(o, SHAPE)] for o in (-2, -1, 0, 1)]
    cells += [[(o, GAP)] for o in (-1, 0, 1)] + [[(0, SINCE)], [(0, SINCE), (0, LOOK)]]
    cells += [[(0, SINCE), (0, GAP), (0, LOOK)], [(0, SINCE), (0, MARK), (0, LOOK)]]
    cells += [[(a, LOWER), (b, LOWER)] for a, b in ((-1, 0), (-2, -1), (0, 1))]
    cells += [[(-1, FORM), (0, c)] for c in (SHAPE, GAP, SINCE)]
    cells += [[(0, FORM), c] for c in ((-1, SHAPE), (0, GAP))] + [[(0, LOWER), (0, SINCE)]]
    cells += [[(-1, FORM), (0, SHAPE), (0, GAP)], [(-1, SHAPE), (0, SHAPE), (0, GAP)]]
    cells += [[(-1, SHAPE), (0, SHAPE), (1, SHAPE)], [(-2, SHAPE), (-1, SHAPE), (0, SHAPE)]]
    cells += [[(-1, FORM), (0, LOOK), (1, LOOK)], [(-1, LOOK), (0, LOOK), (1, LOOK)]]
    cells += [[(-2, c), (-1, FORM), (0, LOOK)] for c in (LOOK, LOWER)]
    cells += [[(-2, FULL_SHAPE), (-1, FORM), (0, GAP)], [(-1, GAP), (-1, FORM), (0, GAP)]]
    cells += [[(0, LOOK), (0, SUFFIX[2])], [(-1, SUFFIX[2]), (0, LOOK)]]
    return Templates.make(cells, out_column=MARK + 1, type_columns=FORM_COLUMNS)
