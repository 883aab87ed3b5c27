from libc.stdint cimport int32_t

from ...base._arena cimport Arena
from ...forest._hypergraph cimport Hypergraph


cdef enum Kind:
    ROOT = 0    # arc c is from the root
    FIRST = 1   # below arc a, c is the innermost on its side
    NEXT = 2    # below arc a, c comes after s
    STOP = 3    # below arc a, c is the outermost on its side
    EMPTY = 4   # below arc a there is nothing on a side


cdef struct Part:
    int32_t kind
    int32_t a       # the arc to the head, NOTHING for ROOT
    int32_t s       # the arc before; of EMPTY the side: 0 left, 1 right
    int32_t c       # the arc itself; NOTHING for EMPTY


cdef struct Arcs:
    int n
    int n_arcs
    const int32_t *head         # [n_arcs], by modifier
    const int32_t *mod
    int *in_start               # [n + 2]: the arcs to a token
    int *side_start             # [2 n + 3]: those from it, to the left and to the right
    int *side_arcs              # from the inside out
    int *rank                   # [n_arcs]: the place of an arc among these
    int *n_inner                # [n_arcs]: how many of these have a modifier nearer to the head
    int *pair_start             # [n_arcs + 1]: of pairs (arc to the head, arc)
    int *sibling_start          # [n_arcs + 1]: of pairs (nobody or the arc before, arc)


cdef struct Forest:
    Arcs arcs
    Hypergraph graph            # its slots are parts
    Part *parts


cdef enum:
    DONE = 0
    NO_MEMORY = -1
    NO_TREE = -2
    TOO_LARGE = -3


cdef int build_arcs(
    Arcs *arcs, int n, int n_arcs, const int32_t *head, const int32_t *mod, Arena *arena
) noexcept nogil

cdef int build_forest(Forest *forest, size_t max_edges, Arena *arena) noexcept nogil

cdef tuple read_forest(const Forest *forest)
