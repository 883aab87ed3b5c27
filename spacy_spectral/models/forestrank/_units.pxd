# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the score of a tree is a sum of (see `_engine`), and what there is to see of it: columns of the tokens in four
roles, labels of three arcs, and how they lie."""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from ...trees._lengths cimport size_class
from ._chart cimport Arcs, Forest, Part

cdef enum:
    GRAND = 0       # roles
    HEAD = 1
    MODIFIER = 2
    SIBLING = 3
    N_COLUMNS = 7   # tag, coarse tag, word, two clusters, and the tags before and after

cdef enum:
    OWN_COLUMNS = 5
    TAG = 0
    BEFORE = 5
    AFTER = 6

cdef enum:
    GRAND_LABEL = 28
    LABEL = 29
    SIBLING_LABEL = 30
    SIDES = 31      # of the arc to the head and of the arc
    DISTANCE = 32   # from the head
    GAP = 33        # to the sibling
    GRAND_DISTANCE = 34
    N_ATOMS = 35

# Kinds of units.
cdef enum:
    ARC = 0
    PAIR = 1
    SIBLINGS = 2
    TRIPLE = 3
    ENDS = 4
    NONE = 5
    N_KINDS = 6

cdef enum:
    NOBODY = 0x5EED     # in the place of a token that is not there
    OUTSIDE = 0xE4D     # before and after the sentence
    MOST_TEMPLATES = 64


cdef struct Sentence:
    int n
    const uint32_t *tokens      # [n, OWN_COLUMNS]
    const uint32_t *labels      # [n_arcs]: hashes
    const double *dense         # [n_arcs, n_dense]


cdef struct Scored:
    Forest forest
    int n_units, n_found
    int pair_at, sibling_at, slot_at    # where units of a kind begin; those of arcs begin at 0
    uint8_t *used                       # [n_units]
    int32_t *start                      # [n_units + 1]
    uint32_t *found                     # hashes, then places in the table
    double *unit                        # [n_units]: scores
    double *scores                      # [n_slots]
    double *values                      # [n_items]
    double *shares                      # [n_edges]
    double *mu                          # [n_slots]
    double log_z


cdef inline int pair_unit(const Scored *scored, const Part *part) noexcept nogil:
    cdef const Arcs *arcs = &scored.forest.arcs
    return (scored.pair_at + arcs.pair_start[part.c]
            + part.a - arcs.in_start[arcs.head[part.c]])


cdef inline int sibling_unit(const Scored *scored, const Part *part) noexcept nogil:
    cdef const Arcs *arcs = &scored.forest.arcs
    cdef int place = 0 if part.s < 0 else 1 + arcs.rank[part.s]
    return scored.sibling_at + arcs.sibling_start[part.c] + place


cdef inline int use_unit(
    Scored *scored, int32_t *units, int unit, int kind, int a, int s, int c
) noexcept nogil:
    """RETURNS (int): 1 if the unit was not used before."""
    if scored.used[unit]:
        return 0
    scored.used[unit] = True
    units += 4 * unit
    units[0], units[1], units[2], units[3] = kind, a, s, c
    return 1


cdef inline void _token(const Sentence *sentence, int position, uint32_t *atoms) noexcept nogil:
    """What there is to see of a token; position 0 is the root."""
    cdef int i
    cdef const uint32_t *own = sentence.tokens + (position - 1) * OWN_COLUMNS
    if position == 0:
        for i in range(N_COLUMNS):
            atoms[i] = OUTSIDE
        return
    for i in range(OWN_COLUMNS):
        atoms[i] = own[i]
    atoms[BEFORE] = own[TAG - OWN_COLUMNS] if position > 1 else OUTSIDE
    atoms[AFTER] = own[TAG + OWN_COLUMNS] if position < sentence.n else OUTSIDE


cdef inline void _nobody(uint32_t *atoms) noexcept nogil:
    cdef int i
    for i in range(N_COLUMNS):
        atoms[i] = NOBODY


cdef inline void open_sentence(
    Sentence *sentence, int s, const int32_t[::1] starts, const uint32_t[:, ::1] tokens,
    const int32_t[::1] arc_starts, const uint32_t[::1] labels, const double[:, ::1] dense
) noexcept nogil:
    sentence.n = starts[s + 1] - starts[s]
    sentence.tokens = &tokens[starts[s], 0]
    sentence.labels = &labels[arc_starts[s]]
    sentence.dense = &dense[arc_starts[s], 0] if dense.shape[1] else NULL


cdef inline void look_at(
    const Sentence *sentence, const Arcs *arcs, int kind, int a, int s, int c,
    uint32_t *atoms
) noexcept nogil:
    """What a unit of arcs can look at. `s` is a side if it is of kind NONE."""
    cdef int h, m = 0
    if kind == NONE:
        h = arcs.mod[a]
        atoms[SIDES] = s + 2 * (h > arcs.head[a])
    else:
        h, m = arcs.head[c], arcs.mod[c]
        _token(sentence, m, atoms + MODIFIER * N_COLUMNS)
        atoms[LABEL] = sentence.labels[c]
        atoms[DISTANCE] = size_class(m - h)
        atoms[SIDES] = m > h
        if a >= 0:
            atoms[SIDES] += 2 * (h > arcs.head[a])
    _token(sentence, h, atoms + HEAD * N_COLUMNS)
    if a >= 0:
        _token(sentence, arcs.head[a], atoms + GRAND * N_COLUMNS)
        atoms[GRAND_LABEL] = sentence.labels[a]
        atoms[GRAND_DISTANCE] = size_class(h - arcs.head[a])
    if kind == SIBLINGS or kind == TRIPLE:
        if s >= 0:
            _token(sentence, arcs.mod[s], atoms + SIBLING * N_COLUMNS)
            atoms[SIBLING_LABEL] = sentence.labels[s]
            atoms[GAP] = size_class(m - arcs.mod[s])
        else:
            _nobody(atoms + SIBLING * N_COLUMNS)
            atoms[SIBLING_LABEL] = NOBODY
            atoms[GAP] = 0
