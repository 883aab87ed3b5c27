"""What the kernels share: the compiled model, a sentence on its way through it, and the keys of features: what a
template sees in a token, in an arc, in two neighbouring modifiers.

A row of the table is its header entry (the weight of the feature itself) and entries of outputs, ascending:

    of a pair of tokens     N_DISTANCES bins of distance, then the labels
    of a token              5 blocks (as modifier of a head to its right, to its left, of the root; as head of
                            a modifier to its left, to its right) of 1 (any arc), N_DISTANCES, the labels
    of two modifiers        none
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from ...base._arena cimport Arena
from ...base._linear cimport Entry, Slot, first_half, mix, pair_key, second_half
from ...trees._lengths cimport N_DISTANCES
from ._chart cimport Chart
from ._table cimport CellTable

cdef extern from *:
    """
    #define KEY_PAIR 0xA24BAED4963EE407ULL
    #define KEY_BETWEEN 0x9FB21C651E98DF25ULL
    #define KEY_UNARY 0xC2B2AE3D27D4EB4FULL
    #define KEY_SIBLING 0x165667B19E3779F9ULL
    #define KEY_NOBODY 0x27D4EB2F165667C5ULL  /* stands for START and STOP */
    """
    const uint64_t PAIR "KEY_PAIR"
    const uint64_t BETWEEN "KEY_BETWEEN"
    const uint64_t UNARY "KEY_UNARY"
    const uint64_t SIBLING "KEY_SIBLING"
    const uint64_t NOBODY "KEY_NOBODY"


cdef struct Context:
    # the compiled templates: composites as (position offset, column) pairs, -1 ends one
    int n_columns
    int n_composites
    const int32_t* composites  # n_composites x MAX_PARTS x 2


cdef struct Machine:
    # templates
    Context context
    int n_pairs
    const int32_t* pairs  # n_pairs x (composite of the head, of the modifier, with what is between?)
    int n_unaries
    const int32_t* unaries  # composites
    int n_siblings
    const int32_t* siblings  # n_siblings x (composite of the head, previous modifier, modifier)
    # weights
    const Slot* slots
    uint64_t mask
    const Entry* entries
    CellTable table  # in place of slots and entries, but in training
    const double* moves  # tags x 2 sides x (C+1) x (C+1), exponentiated
    const float* log_moves  # the same before; those of tag 0 are to be added to every other's
    int n_labels
    int n_states
    const int32_t* label_state
    const uint8_t* allowed  # 2 x labels: for arcs between tokens, for arcs from the root
    const uint8_t* between_bit  # of a tag
    # by what scores of trees, and of labels given their arcs, are multiplied: 1 in training
    double sharpness
    double label_sharpness
    double choice  # the tree is chosen by P^choice: 1 in training
    double share  # of P^choice in probabilities: 0 in training
    const double* choice_moves  # moves^choice, if that is not 1


cdef struct Scored:
    # one sentence with all its scores; rows are 0 where a feature is unknown
    int n
    int n_arcs
    const int32_t* tags  # of positions 1..n at 0..n-1
    uint64_t* composites
    uint32_t* unary_rows  # (n+1) x n_unaries
    uint32_t* pair_rows  # arcs x n_pairs
    uint32_t* sibling_rows  # neighbouring modifiers, as in the chart, x n_siblings
    int* origin  # which of the given arcs this is
    int* distance  # bin of an arc
    float* score  # arcs x labels
    double* potential  # arcs x labels: exp(score - shift of the modifier)
    double* sibling_score  # logarithms of the chart's potentials
    double shift  # sum of the shifts
    double log_z
    double sharp_log_z  # of the chart that the tree is chosen by; nan if it has no share
    Chart chart
    # gradients, after differentiation
    double* gradient  # arcs x labels
    double* sibling_gradient
    double* move_gradient  # (2n+2) x (C+1) x (C+1)
    double likelihood


cdef inline int block_width(int n_labels) noexcept nogil:
    return 1 + N_DISTANCES + n_labels


cdef inline int token_width(int n_labels) noexcept nogil:
    """Outputs of a token's own features: as modifier in 3 directions, as head in 2."""
    return 5 * block_width(n_labels)


cdef inline int move_size(const Machine* machine) noexcept nogil:
    """Moves of one tag, both sides."""
    return 2 * (machine.n_states + 1) * (machine.n_states + 1)


cdef inline int direction_of(int head, int mod) noexcept nogil:
    return 2 if head == 0 else (mod > head)


cdef void fill_composites(
    const Context* context, const uint64_t* columns, int length, uint64_t* out
) noexcept nogil


cdef inline uint64_t unary_key(int template, uint64_t composite) noexcept nogil:
    return pair_key(composite, NOBODY, UNARY * (template + 1)) if composite else 0


cdef inline uint64_t head_half(int template, int direction, uint64_t head) noexcept nogil:
    """What an arc's key has of its head; of its modifier it has `second_half`, of what is between them
    `between_half`. 0 stands for no key."""
    return first_half(head, PAIR * (4 * template + direction + 1)) if head else 0


cdef inline uint64_t between_half(int between) noexcept nogil:
    return first_half(0, BETWEEN * between)


cdef inline uint64_t arc_key(uint64_t head, uint64_t mod, uint64_t between) noexcept nogil:
    """The key of its parts."""
    return mix((head + between) ^ mod) if head and mod else 0


cdef inline int between_of(const Machine* machine, const int32_t* tags, int head, int mod) noexcept nogil:
    """Which of the tags that separate stand between the two (see `statistics.separators`)."""
    cdef int k, found = 0
    if head == 0:
        head = mod
    for k in range(min(head, mod) + 1, max(head, mod)):
        found |= machine.between_bit[tags[k - 1]]
    return found


cdef inline void sibling_halves(
    const Machine* machine, const uint64_t* composites, int side, int head, int mod, uint64_t* halves
) noexcept nogil:
    """What keys of two neighbouring modifiers have of the head and the second of them; 0 is nobody (the last)."""
    cdef int t
    cdef uint64_t of_head, of_mod
    for t in range(machine.n_siblings):
        of_head = composites[head * machine.context.n_composites + machine.siblings[3 * t]]
        of_mod = NOBODY
        if mod:
            of_mod = composites[mod * machine.context.n_composites + machine.siblings[3 * t + 2]]
        halves[t] = 0
        if of_head and of_mod:
            halves[t] = first_half(
                pair_key(of_head, of_mod, SIBLING * (2 * t + side + 1)), SIBLING)


cdef inline void previous_halves(
    const Machine* machine, const uint64_t* composites, int previous, uint64_t* halves
) noexcept nogil:
    """What such keys have of the first of them; 0 is nobody (before the first)."""
    cdef int t
    cdef const uint64_t* own = composites + previous * machine.context.n_composites
    for t in range(machine.n_siblings):
        halves[t] = second_half(own[machine.siblings[3 * t + 1]] if previous else NOBODY)


cdef inline uint64_t sibling_key(uint64_t half, uint64_t previous) noexcept nogil:
    """The key of its halves."""
    return mix(half ^ previous) if half and previous else 0


cdef int score_sentence(
    const Machine* machine, Scored* scored, Arena* arena, const uint64_t* columns,
    const int32_t* tags, int n, const int32_t* arc_start, const int32_t* arc_head,
    const float* extra, double margin,
) noexcept nogil
cdef void state_potentials(
    const Machine* machine, const double* potential, int n_arcs, double* phi) noexcept nogil
