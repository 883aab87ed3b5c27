# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""All projective trees of some labelled arcs, packed so that grandparents and siblings are local.

Half-constituents carry the labelled arc a to their head h, so that its head, label and side are known where
h's modifiers are chosen; these chain from the inside out. For arcs s, c from h to the right,

    I_a[c] = sum of   FIRST(a, c)    C_c<[h + 1]                          c is the innermost
                      NEXT(a, s, c)  I_a[s] J[s, c]                       c comes after s
    J[s,c] = sum_k    C_s>[k] C_c<[k + 1]
    C_a>[e] = sum_c   STOP(a, c)     I_a[c] C_c>[e]                       c is the outermost
    C_a>[h] =         EMPTY(a, right)
    goal   = sum_c    ROOT(c)        C_c<[1] C_c>[n]                      for arcs c from the root

and in mirror image to the left (< and > are the halves). Two labels of one arc are two arcs: what comes
before c must have another modifier. What is written in capitals is a part of a tree; its score is a sum over
features of up to three arcs and what they link.

Whether an item can be made does not depend on arcs to heads or on labels, so that first spans are marked by
what can be made of tokens, then by what a whole tree needs, and only these become items of a hypergraph. What
is left there that no tree has (a modifier whose own modifier is its head) is taken out at the end.
"""
import numpy

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcpy, memset

from ...base._arena cimport Arena, arena_free, take, take_zeros
from ...forest._hypergraph cimport NOTHING
from ...trees._sides cimport LEFT, RIGHT

from ...base.errors import Errors, SpectralError
from ...forest._hypergraph import Graph

# A forest while it is built: items, their edges and the parts of trees, in memory that grows with them.

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


# Which spans trees can have: what can be made of tokens, from the inside out, then what a whole tree needs, from the
# outside in. It does not depend on arcs to heads or on labels (see `_chart`).

# Marks of spans and arcs.
cdef enum:
    POSSIBLE = 1
    NEEDED = 2
    KNOWN = 4   # of joins, which are looked at when they are asked for


cdef struct Marks:
    Py_ssize_t width
    uint8_t *right      # [head, end]
    uint8_t *left       # [head, end]
    uint8_t *join       # [i, j]: C>[k] of an arc to i next to C<[k + 1] of one to j
    uint8_t *inner      # [arc]


cdef inline bint can_join(Marks *marks, int i, int j) noexcept nogil:
    cdef uint8_t *mark = marks.join + i * marks.width + j
    cdef int k
    if not mark[0] & KNOWN:
        mark[0] |= KNOWN
        for k in range(i, j):
            if marks.right[i * marks.width + k] and marks.left[j * marks.width + k + 1]:
                mark[0] |= POSSIBLE
                break
    return mark[0] & POSSIBLE


cdef inline bint joins(Marks *marks, int m, int before) noexcept nogil:
    """Whether a modifier can come after another of the same head."""
    return can_join(marks, before, m) if before < m else can_join(marks, m, before)


cdef inline uint8_t *half_mark(Marks *marks, int side, int h, int end) noexcept nogil:
    return (marks.right if side == RIGHT else marks.left) + h * marks.width + end


cdef inline uint8_t *inner_half(Marks *marks, int h, int m) noexcept nogil:
    """The half of m that lies between it and its head, all the way."""
    return half_mark(marks, LEFT, m, h + 1) if m > h else half_mark(marks, RIGHT, m, h - 1)


cdef inline bint _can_link(const Arcs *arcs, Marks *marks, int c) noexcept nogil:
    """Whether I[c] can be made."""
    cdef int h = arcs.head[c], m = arcs.mod[c], side = 2 * h + (m > h), i, s
    if inner_half(marks, h, m)[0]:
        return True
    for i in range(arcs.side_start[side], arcs.side_start[side] + arcs.n_inner[c]):
        s = arcs.side_arcs[i]
        if marks.inner[s] and joins(marks, m, arcs.mod[s]):
            return True
    return False


cdef inline bint _can_end(const Arcs *arcs, Marks *marks, int h, int side, int end) noexcept nogil:
    """Whether the half of a head can reach to an end."""
    cdef int i, c
    for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
        c = arcs.side_arcs[i]
        if (arcs.mod[c] > end) if side == RIGHT else (arcs.mod[c] < end):
            break
        if marks.inner[c] and half_mark(marks, side, arcs.mod[c], end)[0]:
            return True
    return False


cdef inline void mark_possible(const Arcs *arcs, Marks *marks) noexcept nogil:
    """From the inside out: by right ends, then left ends."""
    cdef int i, j
    for j in range(1, arcs.n + 1):
        half_mark(marks, RIGHT, j, j)[0] = POSSIBLE
        half_mark(marks, LEFT, j, j)[0] = POSSIBLE
        for i in range(j - 1, 0, -1):
            _link(arcs, marks, i, j)
            _link(arcs, marks, j, i)
            half_mark(marks, RIGHT, i, j)[0] = _can_end(arcs, marks, i, RIGHT, j)
            half_mark(marks, LEFT, j, i)[0] = _can_end(arcs, marks, j, LEFT, i)


cdef inline void _link(const Arcs *arcs, Marks *marks, int h, int m) noexcept nogil:
    """Mark the arcs from h to m, which are neighbours among those to m."""
    cdef int c, first = first_arc(arcs, h, m)
    cdef bint possible
    if first < 0:
        return
    possible = _can_link(arcs, marks, first)
    c = first
    while c < arcs.in_start[m + 1] and arcs.head[c] == h:
        marks.inner[c] = possible
        c += 1


cdef inline int first_arc(const Arcs *arcs, int h, int m) noexcept nogil:
    cdef int c
    for c in range(arcs.in_start[m], arcs.in_start[m + 1]):
        if arcs.head[c] == h:
            return c
    return NOTHING


cdef inline bint mark_needed(const Arcs *arcs, Marks *marks) noexcept nogil:
    """From the outside in. RETURNS (bool): Whether there is a tree at all."""
    cdef int i, j, k, c, m, n = arcs.n
    cdef bint found = False
    cdef Py_ssize_t width = marks.width
    for i in range(arcs.side_start[1], arcs.side_start[2]):
        c = arcs.side_arcs[i]
        m = arcs.mod[c]
        if half_mark(marks, LEFT, m, 1)[0] and half_mark(marks, RIGHT, m, n)[0]:
            half_mark(marks, LEFT, m, 1)[0] |= NEEDED
            half_mark(marks, RIGHT, m, n)[0] |= NEEDED
            marks.inner[c] = POSSIBLE | NEEDED
            found = True
    for j in range(n, 0, -1):
        for i in range(1, j):
            _need_end(arcs, marks, i, RIGHT, j)
            _need_end(arcs, marks, j, LEFT, i)
            _need_link(arcs, marks, i, j)
            _need_link(arcs, marks, j, i)
            if marks.join[i * width + j] & NEEDED:
                for k in range(i, j):
                    if marks.right[i * width + k] and marks.left[j * width + k + 1]:
                        marks.right[i * width + k] |= NEEDED
                        marks.left[j * width + k + 1] |= NEEDED
    return found


cdef inline void _need_end(const Arcs *arcs, Marks *marks, int h, int side, int end) noexcept nogil:
    cdef int i, c
    cdef uint8_t *rest
    if not half_mark(marks, side, h, end)[0] & NEEDED:
        return
    for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
        c = arcs.side_arcs[i]
        if (arcs.mod[c] > end) if side == RIGHT else (arcs.mod[c] < end):
            break
        rest = half_mark(marks, side, arcs.mod[c], end)
        if marks.inner[c] and rest[0]:
            marks.inner[c] |= NEEDED
            rest[0] |= NEEDED


cdef inline void _need_link(const Arcs *arcs, Marks *marks, int h, int m) noexcept nogil:
    cdef int i, s, side = 2 * h + (m > h), c = first_arc(arcs, h, m), before
    cdef uint8_t *half
    if c < 0 or not marks.inner[c] & NEEDED:
        return
    half = inner_half(marks, h, m)
    if half[0]:
        half[0] |= NEEDED
    for i in range(arcs.side_start[side], arcs.side_start[side] + arcs.n_inner[c]):
        s = arcs.side_arcs[i]
        before = arcs.mod[s]
        if marks.inner[s] and joins(marks, m, before):
            marks.inner[s] |= NEEDED
            marks.join[min(m, before) * marks.width + max(m, before)] |= NEEDED


# A sentence has n^2 spans, so that very long ones are out of reach whatever their arcs.
MAX_LENGTH = 2_000
MAX_EDGES = 2_000_000


cdef int build_arcs(
    Arcs *arcs, int n, int n_arcs, const int32_t *head, const int32_t *mod, Arena *arena
) noexcept nogil:
    """Sort arcs by heads. They are grouped by modifier, modifiers ascending; every token has one at least.
    RETURNS (int): DONE or NO_MEMORY."""
    cdef int a, i, k, side, at, n_pairs = 0, n_siblings = 0
    cdef int *fill = <int *>take(arena, (2 * n + 3) * sizeof(int))
    arcs.n, arcs.n_arcs, arcs.head, arcs.mod = n, n_arcs, head, mod
    arcs.in_start = <int *>take_zeros(arena, (n + 2) * sizeof(int))
    arcs.side_start = <int *>take_zeros(arena, (2 * n + 3) * sizeof(int))
    arcs.side_arcs = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    arcs.rank = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    arcs.n_inner = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    arcs.pair_start = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    arcs.sibling_start = <int *>take(arena, (n_arcs + 1) * sizeof(int))
    if fill == NULL or arcs.in_start == NULL or arcs.side_start == NULL or arcs.side_arcs == NULL:
        return NO_MEMORY
    if arcs.rank == NULL or arcs.n_inner == NULL or arcs.pair_start == NULL:
        return NO_MEMORY
    if arcs.sibling_start == NULL:
        return NO_MEMORY
    for a in range(n_arcs):
        arcs.in_start[mod[a] + 1] += 1
        arcs.side_start[2 * head[a] + (mod[a] > head[a]) + 1] += 1
    for i in range(n + 1):
        arcs.in_start[i + 1] += arcs.in_start[i]
    for i in range(2 * n + 2):
        arcs.side_start[i + 1] += arcs.side_start[i]
        fill[i] = arcs.side_start[i + 1] if i % 2 == LEFT else arcs.side_start[i]
    for a in range(n_arcs):  # modifiers ascend: outward to the right, inward to the left
        side = 2 * head[a] + (mod[a] > head[a])
        if side % 2 == LEFT:
            fill[side] -= 1
            arcs.side_arcs[fill[side]] = a
        else:
            arcs.side_arcs[fill[side]] = a
            fill[side] += 1
    for side in range(2 * n + 2):
        at = 0
        for i in range(arcs.side_start[side], arcs.side_start[side + 1]):
            a, k = arcs.side_arcs[i], i - arcs.side_start[side]
            if k and mod[a] != mod[arcs.side_arcs[i - 1]]:
                at = k
            arcs.rank[a], arcs.n_inner[a] = k, at
    for a in range(n_arcs):
        arcs.pair_start[a], arcs.sibling_start[a] = n_pairs, n_siblings
        if head[a]:
            n_pairs += arcs.in_start[head[a] + 1] - arcs.in_start[head[a]]
            n_siblings += arcs.n_inner[a] + 1
    arcs.pair_start[n_arcs], arcs.sibling_start[n_arcs] = n_pairs, n_siblings
    return DONE


cdef struct Numbers:
    int32_t *right      # [head, end]: the item of the first arc to the head
    int32_t *left
    int32_t *inner      # [arc]: I of the first arc to its head
    int32_t *stop       # [arc]: its slot likewise, NOTHING before it has one
    int32_t *join       # [pair of siblings]


cdef inline int32_t *_number(Numbers *numbers, const Marks *marks, int side, int h, int end) noexcept nogil:
    return (numbers.right if side == RIGHT else numbers.left) + h * marks.width + end


cdef int _leaves(
    Building *b, const Arcs *arcs, Marks *marks, Numbers *numbers, int h, int side
) noexcept nogil:
    cdef int a, item, slot
    if not half_mark(marks, side, h, h)[0] & NEEDED:
        return DONE
    _number(numbers, marks, side, h, h)[0] = b.n_items
    for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
        item = open_item(b)
        slot = add_part(b, EMPTY, a, side, NOTHING)
        if item < 0 or slot < 0 or add_edge(b, NOTHING, NOTHING, slot):
            return NO_MEMORY
    return DONE


cdef int _make_join(
    Building *b, const Arcs *arcs, Marks *marks, Numbers *numbers, int i, int j
) noexcept nogil:
    """J of all arcs to i and j that siblings can have."""
    cdef int u, v, s, c, k, h, at, status
    cdef Py_ssize_t width = marks.width
    if not marks.join[i * width + j] & NEEDED:
        return DONE
    for u in range(arcs.in_start[i], arcs.in_start[i + 1]):
        h = arcs.head[u]
        if h == 0 or i < h < j or h == j:
            continue
        for v in range(arcs.in_start[j], arcs.in_start[j + 1]):
            if arcs.head[v] != h:
                continue
            s, c = (u, v) if h < i else (v, u)
            if not (marks.inner[s] & NEEDED and marks.inner[c] & NEEDED):
                continue
            at = open_item(b)
            if at < 0:
                return NO_MEMORY
            numbers.join[arcs.sibling_start[c] + 1 + arcs.rank[s]] = at
            for k in range(i, j):
                if marks.right[i * width + k] and marks.left[j * width + k + 1]:
                    status = add_edge(
                        b, numbers.right[i * width + k] + u - arcs.in_start[i],
                        numbers.left[j * width + k + 1] + v - arcs.in_start[j], NOTHING)
                    if status:
                        return status
    return DONE


cdef int _make_link(
    Building *b, const Arcs *arcs, Marks *marks, Numbers *numbers, int h, int m
) noexcept nogil:
    """I_a[c] of all arcs c from h to m."""
    cdef int a, c = first_arc(arcs, h, m), i, s, join, slot, status, side = 2 * h + (m > h)
    cdef int end = h + 1 if m > h else h - 1
    if c < 0 or not marks.inner[c] & NEEDED:
        return DONE
    while c < arcs.in_start[m + 1] and arcs.head[c] == h:
        numbers.inner[c] = b.n_items
        for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
            if open_item(b) < 0:
                return NO_MEMORY
            if inner_half(marks, h, m)[0]:
                slot = add_part(b, FIRST, a, NOTHING, c)
                if slot < 0:
                    return slot
                status = add_edge(
                    b, _number(numbers, marks, LEFT if m > h else RIGHT, m, end)[0]
                    + c - arcs.in_start[m], NOTHING, slot)
                if status:
                    return status
            for i in range(arcs.n_inner[c]):
                join = numbers.join[arcs.sibling_start[c] + 1 + i]
                if join < 0:
                    continue
                s = arcs.side_arcs[arcs.side_start[side] + i]
                slot = add_part(b, NEXT, a, s, c)
                if slot < 0:
                    return slot
                status = add_edge(
                    b, numbers.inner[s] + a - arcs.in_start[h], join, slot)
                if status:
                    return status
        c += 1
    return DONE


cdef int _make_half(
    Building *b, const Arcs *arcs, Marks *marks, Numbers *numbers, int h, int side, int end
) noexcept nogil:
    """C_a[end] of all arcs a to h."""
    cdef int a, i, c, place, status, n_in = arcs.in_start[h + 1] - arcs.in_start[h]
    if not half_mark(marks, side, h, end)[0] & NEEDED:
        return DONE
    _number(numbers, marks, side, h, end)[0] = b.n_items
    for place in range(n_in):
        if open_item(b) < 0:
            return NO_MEMORY
        for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
            c = arcs.side_arcs[i]
            if (arcs.mod[c] > end) if side == RIGHT else (arcs.mod[c] < end):
                break
            if not (marks.inner[c] and half_mark(marks, side, arcs.mod[c], end)[0]):
                continue
            if numbers.stop[c] < 0:
                numbers.stop[c] = b.n_parts
                for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
                    if add_part(b, STOP, a, NOTHING, c) < 0:
                        return NO_MEMORY
            status = add_edge(
                b, numbers.inner[c] + place,
                _number(numbers, marks, side, arcs.mod[c], end)[0] + c - arcs.in_start[arcs.mod[c]],
                numbers.stop[c] + place)
            if status:
                return status
    return DONE


cdef int _make_items(Building *b, const Arcs *arcs, Marks *marks, Numbers *numbers) noexcept nogil:
    cdef int i, j, c, m, slot, status, n = arcs.n
    for j in range(1, n + 1):
        status = _leaves(b, arcs, marks, numbers, j, RIGHT) or _leaves(
            b, arcs, marks, numbers, j, LEFT)
        if status:
            return status
        for i in range(j - 1, 0, -1):
            status = (
                _make_join(b, arcs, marks, numbers, i, j)
                or _make_link(b, arcs, marks, numbers, i, j)
                or _make_link(b, arcs, marks, numbers, j, i)
                or _make_half(b, arcs, marks, numbers, i, RIGHT, j)
                or _make_half(b, arcs, marks, numbers, j, LEFT, i))
            if status:
                return status
    if open_item(b) < 0:
        return NO_MEMORY
    for i in range(arcs.side_start[1], arcs.side_start[2]):
        c = arcs.side_arcs[i]
        m = arcs.mod[c]
        if marks.inner[c] & NEEDED:
            slot = add_part(b, ROOT, NOTHING, NOTHING, c)
            if slot < 0:
                return slot
            status = add_edge(
                b, _number(numbers, marks, LEFT, m, 1)[0] + c - arcs.in_start[m],
                _number(numbers, marks, RIGHT, m, n)[0] + c - arcs.in_start[m], slot)
            if status:
                return status
    b.start[b.n_items] = b.n_edges
    return DONE


cdef int build_forest(Forest *forest, size_t max_edges, Arena *arena) noexcept nogil:
    """Pack the trees of `forest.arcs`. RETURNS (int): DONE, NO_MEMORY, NO_TREE or TOO_LARGE."""
    cdef const Arcs *arcs = &forest.arcs
    cdef Marks marks
    cdef Numbers numbers
    cdef Building b
    cdef size_t cells = <size_t>(arcs.n + 2) * (arcs.n + 2)
    cdef int i, status, n_siblings = arcs.sibling_start[arcs.n_arcs]
    marks.width = arcs.n + 2
    marks.right = <uint8_t *>take_zeros(arena, 3 * cells + arcs.n_arcs)
    numbers.right = <int32_t *>take(arena, 2 * cells * sizeof(int32_t))
    numbers.inner = <int32_t *>take(arena, (2 * arcs.n_arcs + 1) * sizeof(int32_t))
    numbers.join = <int32_t *>take(arena, (n_siblings + 1) * sizeof(int32_t))
    if marks.right == NULL or numbers.right == NULL or numbers.inner == NULL or numbers.join == NULL:
        return NO_MEMORY
    marks.left, marks.join = marks.right + cells, marks.right + 2 * cells
    marks.inner = marks.right + 3 * cells
    numbers.left, numbers.stop = numbers.right + cells, numbers.inner + arcs.n_arcs
    for i in range(arcs.n_arcs):
        numbers.stop[i] = NOTHING
    for i in range(n_siblings):
        numbers.join[i] = NOTHING
    mark_possible(arcs, &marks)
    if not mark_needed(arcs, &marks):
        return NO_TREE
    memset(&b, 0, sizeof(b))
    b.arena, b.max_edges = arena, max_edges
    status = _make_items(&b, arcs, &marks, &numbers) or compact(&b)
    forest.graph.n_items, forest.graph.n_edges = b.n_items, b.n_edges
    forest.graph.n_slots = b.n_parts
    forest.graph.start, forest.graph.first = b.start, b.first
    forest.graph.second, forest.graph.slot = b.second, b.slot
    forest.parts = b.parts
    return status


def forest_of_arcs(
    int n, const int32_t[::1] heads not None, const int32_t[::1] modifiers not None,
    size_t max_edges=MAX_EDGES
):
    """The projective trees, with one root, of the arcs of a sentence.

    n (int): How many tokens there are.
    heads, modifiers (ndarray): int32, positions from 1, 0 is the root; by modifier.
    max_edges (int): An error tells when the hypergraph needs more.
    RETURNS (Optional[Tuple[Graph, ndarray]]): The forest, and what its slots are: int32[slots, 4], the kind
        (0 root, 1 first, 2 next, 3 stop, 4 empty), the arc to the head, the arc before (the side, if it is
        empty) and the arc. None if there is no tree.
    """
    cdef Arena arena
    cdef Forest forest
    cdef int i, status, n_arcs = heads.shape[0]
    cdef const Part *part
    check_arcs(n, numpy.asarray(heads), numpy.asarray(modifiers))
    memset(&arena, 0, sizeof(arena))
    try:
        with nogil:
            status = build_arcs(&forest.arcs, n, n_arcs, &heads[0], &modifiers[0], &arena)
            if not status:
                status = build_forest(&forest, max_edges, &arena)
        if status == NO_MEMORY:
            raise MemoryError
        if status == TOO_LARGE:
            raise SpectralError(Errors.S901.format(cells=f"more than {max_edges}", most=max_edges))
        if status == NO_TREE:
            return None
        graph = Graph(
            _copied(forest.graph.start, forest.graph.n_items + 1),
            _copied(forest.graph.first, forest.graph.n_edges),
            _copied(forest.graph.second, forest.graph.n_edges),
            _copied(forest.graph.slot, forest.graph.n_edges))
        parts = numpy.empty((forest.graph.n_slots, 4), dtype=numpy.int32)
        for i in range(forest.graph.n_slots):
            part = forest.parts + i
            parts[i] = part.kind, part.a, part.s, part.c
    finally:
        arena_free(&arena)
    return graph, parts


cdef _copied(const int32_t *values, int n):
    result = numpy.empty(n, dtype=numpy.int32)
    cdef int32_t[::1] out = result
    memcpy(&out[0], values, n * sizeof(int32_t))
    return result


def check_arcs(int n, heads, modifiers):
    """Raise a ValueError if arcs are not such as `forest_of_arcs` takes."""
    sound = n >= 1 and len(heads) == len(modifiers) and n <= MAX_LENGTH
    sound = sound and bool((numpy.bincount(modifiers.clip(0, n + 1), minlength=n + 2)[1:n + 1] > 0).all())
    sound = sound and bool(((modifiers >= 1) & (modifiers <= n)).all())
    sound = sound and bool(((heads >= 0) & (heads <= n) & (heads != modifiers)).all())
    order = modifiers.astype(numpy.int64) * (n + 1) + heads
    if not sound or not (numpy.diff(order) >= 0).all():
        raise SpectralError(Errors.S910.format(n=n, most=MAX_LENGTH))
