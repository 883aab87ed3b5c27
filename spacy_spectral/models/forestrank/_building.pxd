# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A forest while it is built: items, their edges and the parts of trees, in memory that grows with them."""
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from ...base._arena cimport Arena, take, take_zeros
from ...forest._hypergraph cimport NOTHING
from ._chart cimport DONE, NO_MEMORY, TOO_LARGE, Part


cdef struct Building:
    Arena *arena
    size_t max_edges
    int32_t *start
    int32_t *first
    int32_t *second
    int32_t *slot
    Part *parts
    int n_items, n_edges, n_parts
    int item_room, edge_room, part_room


cdef inline int _more(Arena *arena, void **buffer, int used, int *room, size_t size) noexcept nogil:
    cdef int wanted = 2 * room[0] + 256
    cdef void *grown = take(arena, wanted * size)
    if grown == NULL:
        return NO_MEMORY
    if used:
        memcpy(grown, buffer[0], used * size)
    buffer[0], room[0] = grown, wanted
    return DONE


cdef inline int open_item(Building *b) noexcept nogil:
    """RETURNS (int): The number of a new item, to which edges are added next; or an error."""
    if b.n_items + 1 >= b.item_room:
        if _more(b.arena, <void **>&b.start, b.n_items, &b.item_room, sizeof(int32_t)):
            return NO_MEMORY
    b.start[b.n_items] = b.n_edges
    b.n_items += 1
    return b.n_items - 1


cdef inline int add_edge(Building *b, int first, int second, int slot) noexcept nogil:
    cdef int room
    if b.n_edges == b.edge_room:
        if <size_t>b.n_edges >= b.max_edges:
            return TOO_LARGE
        room = b.edge_room
        if _more(b.arena, <void **>&b.first, b.n_edges, &room, sizeof(int32_t)):
            return NO_MEMORY
        room = b.edge_room
        if _more(b.arena, <void **>&b.second, b.n_edges, &room, sizeof(int32_t)):
            return NO_MEMORY
        if _more(b.arena, <void **>&b.slot, b.n_edges, &b.edge_room, sizeof(int32_t)):
            return NO_MEMORY
    b.first[b.n_edges], b.second[b.n_edges], b.slot[b.n_edges] = first, second, slot
    b.n_edges += 1
    return DONE


cdef inline int add_part(Building *b, int kind, int a, int s, int c) noexcept nogil:
    """RETURNS (int): The slot of a new part, or an error."""
    cdef Part *part
    if b.n_parts == b.part_room:
        if _more(b.arena, <void **>&b.parts, b.n_parts, &b.part_room, sizeof(Part)):
            return NO_MEMORY
    part = b.parts + b.n_parts
    part.kind, part.a, part.s, part.c = kind, a, s, c
    b.n_parts += 1
    return b.n_parts - 1


cdef inline int compact(Building *b) noexcept nogil:
    """Take out what does not lead to the goal. RETURNS (int): DONE or NO_MEMORY."""
    cdef int i, e, end, slot, n_items = 0, n_edges = 0, n_parts = 0
    cdef int32_t *items = <int32_t *>take_zeros(b.arena, b.n_items * sizeof(int32_t))
    cdef int32_t *slots = <int32_t *>take_zeros(b.arena, (b.n_parts + 1) * sizeof(int32_t))
    if items == NULL or slots == NULL:
        return NO_MEMORY
    items[b.n_items - 1] = 1
    for i in range(b.n_items - 1, -1, -1):
        if items[i]:
            for e in range(b.start[i], b.start[i + 1]):
                if b.first[e] >= 0:
                    items[b.first[e]] = 1
                if b.second[e] >= 0:
                    items[b.second[e]] = 1
                if b.slot[e] >= 0:
                    slots[b.slot[e]] = 1
    for i in range(b.n_parts):
        if slots[i]:
            slots[i] = n_parts
            b.parts[n_parts] = b.parts[i]
            n_parts += 1
    end = 0
    for i in range(b.n_items):
        e, end = end, b.start[i + 1]
        if not items[i]:
            continue
        items[i] = n_items
        b.start[n_items] = n_edges
        n_items += 1
        for e in range(e, end):
            b.first[n_edges] = items[b.first[e]] if b.first[e] >= 0 else NOTHING
            b.second[n_edges] = items[b.second[e]] if b.second[e] >= 0 else NOTHING
            b.slot[n_edges] = slots[b.slot[e]] if b.slot[e] >= 0 else NOTHING
            n_edges += 1
    b.start[n_items] = n_edges
    b.n_items, b.n_edges, b.n_parts = n_items, n_edges, n_parts
    return DONE
