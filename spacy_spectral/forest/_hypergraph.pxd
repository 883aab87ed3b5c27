from libc.stdint cimport int32_t

from ..base._arena cimport Arena


cdef struct Hypergraph:
    int n_items             # parts before wholes; the last is the goal
    int n_edges
    int n_slots
    const int32_t *start    # [n_items + 1]: the edges that make an item
    const int32_t *first    # [n_edges]: their parts, NOTHING for none
    const int32_t *second
    const int32_t *slot     # [n_edges]: which score an edge has, NOTHING for 0


cdef enum:
    NOTHING = -1


cdef double graph_inside(
    const Hypergraph *graph, const double *scores, double *values, double *shares
) noexcept nogil

cdef void graph_outside(
    const Hypergraph *graph, const double *shares, double *mu_items, double *mu_slots
) noexcept nogil

cdef int graph_k_best(
    const Hypergraph *graph, const double *scores, int k, double *found, int32_t **edges,
    int *n_edges, Arena *arena
) noexcept nogil
