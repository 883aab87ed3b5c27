"""What the kernels share: the compiled model, and a sentence on its way through it.

A row of the table is its header entry (the weight of the feature itself) and entries of outputs, ascending:

    of a pair of tokens     N_DISTANCES bins of distance, then the labels
    of a token              5 blocks (as modifier of a head to its right, to its left, of the root; as head of
                            a modifier to its left, to its right) of 1 (any arc), N_DISTANCES, the labels
    of two modifiers        none
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from ...base._linear cimport Entry, Slot
from ...trees._lengths cimport N_DISTANCES
from ._cells cimport CellTable
from ._chart cimport Chart
from ._features cimport Context


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
    uint32_t* sibling_rows  # pairs of the chart x n_siblings
    uint32_t* last_rows  # arcs x n_siblings
    uint32_t* empty_rows  # (2n+2) x n_siblings
    int* origin  # which of the given arcs this is
    int* distance  # bin of an arc
    float* score  # arcs x labels
    double* potential  # arcs x labels: exp(score - shift of the modifier)
    double* sibling_score  # logarithms of the chart's potentials
    double* last_score
    double* empty_score
    double shift  # sum of the shifts
    double log_z
    double sharp_log_z  # of the chart that the tree is chosen by; nan if it has no share
    Chart chart
    # gradients, after differentiation
    double* gradient  # arcs x labels
    double* sibling_gradient
    double* last_gradient
    double* empty_gradient
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
