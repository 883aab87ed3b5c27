"""What is looked at to choose the lemma of a form: the form, its affixes, and how it was tagged."""

from ..tagger._features import FORM_COLUMNS
from ..tagger.features import FORM, LOWER, PREFIX, SHAPE, SUFFIX, Cell, Templates

# Endings longer than those of taggers: of languages that glue many of them to a stem.
LONG_SUFFIXES = (6, 7, 8)
LONG = range(FORM_COLUMNS, FORM_COLUMNS + len(LONG_SUFFIXES))
TAG, POS, MORPH = range(LONG.stop, LONG.stop + 3)
# The last column is for decisions, which none looks at: a lemma does not depend on others.
COLUMNS = MORPH + 2


def lemma_templates() -> Templates:
    """RETURNS (Templates): The templates."""
    cells: list[list[Cell]] = [
        [(0, c)] for c in (TAG, POS, MORPH, FORM, LOWER, SHAPE, *PREFIX[:3], *SUFFIX)
    ]
    cells += [
        [(0, a), (0, b)] for a in (TAG, POS, MORPH) for b in (LOWER, SHAPE, *PREFIX[:2], *SUFFIX)
    ]
    cells += [[(0, c)] for c in LONG] + [[(0, a), (0, c)] for a in (POS, MORPH) for c in LONG]
    cells += [[(0, TAG), (0, SHAPE), (0, s)] for s in SUFFIX[:3]]
    cells += [[(0, POS), (0, MORPH), (0, s)] for s in (LOWER, *SUFFIX)]
    cells += [[(0, TAG), (0, PREFIX[0]), (0, s)] for s in SUFFIX[:3]]
    return Templates.make(cells, out_column=MORPH + 1, type_columns=0)
