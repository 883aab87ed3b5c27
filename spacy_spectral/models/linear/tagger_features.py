"""Which properties of which words the tagger looks at.

Columns of the attribute matrix: what can be read off the form, what the tag dictionary says, one
column a cluster granularity, and last the decisions: the tag, and for morphology the analysis.
Nothing here knows a language: which affixes, shapes and words matter is left to the data.
"""

from ._strings import FORM_COLUMNS
from .classifier import FORM, FULL_SHAPE, LOWER, PREFIX, SHAPE, SUFFIX, Bools, Cell, Templates

# the dictionary's tags of the word, most frequent first; and its most frequent tag with how well
# that is known
AMBIGUITY = FORM_COLUMNS
FREQUENT = FORM_COLUMNS + 1
CLUSTERS = FORM_COLUMNS + 2


def about_dictionary(templates: Templates) -> Bools:
    """Which templates look at the tag dictionary."""
    return ((templates.columns == AMBIGUITY) | (templates.columns == FREQUENT)).any(axis=1)


def tag_templates(n_granularities: int) -> Templates:
    """Templates for tags; the decided tag stands right after the columns of clusters."""
    clusters = range(CLUSTERS, CLUSTERS + n_granularities)
    tag = CLUSTERS + n_granularities
    word: list[list[Cell]] = [[(0, c)] for c in range(FORM_COLUMNS)]
    word += [[(0, SHAPE), (0, SUFFIX[1])], [(0, SHAPE), (0, SUFFIX[2])]]
    word += [[(0, FULL_SHAPE), (0, SUFFIX[0])]]
    around: list[list[Cell]] = [[(o, LOWER)] for o in (-2, -1, 1, 2)]
    around += [[(o, c)] for o in (-1, 1) for c in (SUFFIX[1], SUFFIX[2], SHAPE)]
    around += [[(0, SHAPE), (-1, SHAPE)], [(0, SUFFIX[2]), (-1, LOWER)]]
    around += [[(a, LOWER), (b, LOWER)] for a, b in ((-1, 0), (0, 1), (-1, 1), (-2, -1), (1, 2))]
    known: list[list[Cell]] = [[(o, AMBIGUITY)] for o in (-1, 0, 1, 2)]
    known += [[(o, FREQUENT)] for o in (-1, 0, 1, 2)]
    known += [[(a, AMBIGUITY), (b, AMBIGUITY)] for a, b in ((0, 1), (1, 2), (-1, 0))]
    known += [[(a, FREQUENT), (b, FREQUENT)] for a, b in ((0, 1), (-1, 0))]
    known += [[(0, AMBIGUITY), (1, AMBIGUITY), (2, AMBIGUITY)]]
    known += [[(0, AMBIGUITY), (o, LOWER)] for o in (-1, 1)]
    known += [[(0, FREQUENT), (0, SHAPE)], [(0, FREQUENT), (0, SUFFIX[1])]]
    known += [[(0, SUFFIX[1]), (1, AMBIGUITY)], [(0, LOWER), (1, AMBIGUITY)]]
    decided: list[list[Cell]] = [[(-1, tag)], [(-2, tag)], [(-1, tag), (-2, tag)]]
    decided += [[(-1, tag), (0, c)] for c in (LOWER, AMBIGUITY, SUFFIX[1], SUFFIX[2])]
    decided += [[(-1, tag), (1, AMBIGUITY)], [(-1, tag), (1, LOWER)]]
    decided += [[(-1, tag), (0, AMBIGUITY), (1, AMBIGUITY)], [(-1, tag), (-2, tag), (0, AMBIGUITY)]]
    decided += [[(-1, tag), (-2, tag), (0, LOWER)]]
    if n_granularities:
        fine, middle = clusters[-1], clusters[min(1, n_granularities - 1)]
        word += [[(0, c)] for c in clusters] + [[(0, fine), (0, SUFFIX[1])]]
        word += [[(0, clusters[n_granularities // 2]), (0, SHAPE)]]
        around += [[(o, c)] for o in (-1, 1) for c in clusters] + [[(o, middle)] for o in (-2, 2)]
        around += [[(a, middle), (b, middle)] for a, b in ((0, 1), (-1, 0), (-1, 1))]
        around += [[(0, fine), (-1, LOWER)]]
        known += [[(0, fine), (1, AMBIGUITY)]]
        decided += [[(-1, tag), (0, fine)], [(-1, tag), (0, middle)], [(-1, tag), (1, middle)]]
    return Templates.make(word + around + known + decided, out_column=tag, type_columns=tag)


def morph_templates(n_granularities: int) -> Templates:
    """Templates for morphological analyses, which are decided when all tags are known; the decided
    analysis stands right after the tag."""
    clusters = range(CLUSTERS, CLUSTERS + n_granularities)
    tag = CLUSTERS + n_granularities
    morph = tag + 1
    word: list[list[Cell]] = [[(0, c)] for c in (FORM, LOWER, SHAPE, *PREFIX[:3], *SUFFIX)]
    word += [[(0, tag)]] + [[(0, tag), (0, c)] for c in (LOWER, *SUFFIX[1:4])]
    around: list[list[Cell]] = [[(-1, tag)], [(1, tag)], [(-1, tag), (1, tag)]]
    around += [[(0, tag), (-1, tag)], [(0, tag), (1, tag)], [(1, tag), (2, tag)]]
    around += [[(-2, tag), (-1, tag)]]
    around += [[(o, c)] for o in (-1, 1) for c in (LOWER, SUFFIX[2])] + [[(1, SUFFIX[1])]]
    around += [[(-1, LOWER), (0, LOWER)], [(0, LOWER), (1, LOWER)], [(-1, LOWER), (0, SUFFIX[2])]]
    around += [[(0, SUFFIX[2]), (1, tag)], [(0, SUFFIX[2]), (-1, tag)]]
    around += [[(o, c)] for o in (-1, 0, 1) for c in clusters]
    decided: list[list[Cell]] = [[(-1, morph)]]
    decided += [[(-1, morph), (0, c)] for c in (SUFFIX[1], LOWER, tag)]
    return Templates.make(word + around + decided, out_column=morph, type_columns=tag)
