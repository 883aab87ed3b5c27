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

All items that can be made become items of a hypergraph, from the inside out; those that no whole tree needs are
taken out at the end.
"""
import numpy

from libc.stdint cimport int32_t
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


cdef inline bint close_item(Building *b) noexcept nogil:
    """Whether the latest item has an edge; otherwise there is no such item."""
    if b.start[b.n_items - 1] == b.n_edges:
        b.n_items -= 1
        return False
    b.start[b.n_items] = b.n_edges
    return True


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
    # which items there are, NOTHING where no tree of some tokens can be made
    Py_ssize_t width
    int32_t *right      # [head, end]: the item of the first arc to the head
    int32_t *left
    int32_t *inner      # [arc]: I of the first arc to its head
    int32_t *stop       # [arc]: its slot likewise, NOTHING before it has one
    int32_t *join       # [pair of siblings]


cdef inline int32_t *_half(Numbers *numbers, int side, int h, int end) noexcept nogil:
    return (numbers.right if side == RIGHT else numbers.left) + h * numbers.width + end


cdef inline int _first_arc(const Arcs *arcs, int h, int m) noexcept nogil:
    """The first of the arcs from h to m, which are neighbours among those to m."""
    cdef int c
    for c in range(arcs.in_start[m], arcs.in_start[m + 1]):
        if arcs.head[c] == h:
            return c
    return NOTHING


cdef int _make_leaves(
    Building *b, const Arcs *arcs, Numbers *numbers, int h, int side
) noexcept nogil:
    cdef int a, item, slot
    _half(numbers, side, h, h)[0] = b.n_items
    for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
        item = open_item(b)
        slot = add_part(b, EMPTY, a, side, NOTHING)
        if item < 0 or slot < 0 or add_edge(b, NOTHING, NOTHING, slot):
            return NO_MEMORY
    return DONE


cdef int _make_join(Building *b, const Arcs *arcs, Numbers *numbers, int i, int j) noexcept nogil:
    """J of all arcs to i and j that siblings can have."""
    cdef int u, v, s, c, k, h, at, status
    cdef const int32_t *right = _half(numbers, RIGHT, i, 0)
    cdef const int32_t *left = _half(numbers, LEFT, j, 0)
    for u in range(arcs.in_start[i], arcs.in_start[i + 1]):
        h = arcs.head[u]
        if h == 0 or i < h <= j:
            continue
        for v in range(arcs.in_start[j], arcs.in_start[j + 1]):
            if arcs.head[v] != h:
                continue
            s, c = (u, v) if h < i else (v, u)
            at = open_item(b)
            if at < 0:
                return NO_MEMORY
            for k in range(i, j):
                if right[k] >= 0 and left[k + 1] >= 0:
                    status = add_edge(
                        b, right[k] + u - arcs.in_start[i], left[k + 1] + v - arcs.in_start[j], NOTHING)
                    if status:
                        return status
            if close_item(b):
                numbers.join[arcs.sibling_start[c] + 1 + arcs.rank[s]] = at
    return DONE


cdef int _make_link(Building *b, const Arcs *arcs, Numbers *numbers, int h, int m) noexcept nogil:
    """I_a[c] of all arcs c from h to m."""
    cdef int a, c = _first_arc(arcs, h, m), i, s, join, slot, status, side = 2 * h + (m > h)
    # the half of m that lies between it and its head, all the way
    cdef int half = _half(numbers, LEFT, m, h + 1)[0] if m > h else _half(numbers, RIGHT, m, h - 1)[0]
    cdef int first
    while 0 <= c < arcs.in_start[m + 1] and arcs.head[c] == h:
        first = b.n_items
        for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
            if open_item(b) < 0:
                return NO_MEMORY
            if half >= 0:
                slot = add_part(b, FIRST, a, NOTHING, c)
                if slot < 0:
                    return slot
                status = add_edge(b, half + c - arcs.in_start[m], NOTHING, slot)
                if status:
                    return status
            for i in range(arcs.n_inner[c]):
                s = arcs.side_arcs[arcs.side_start[side] + i]
                join = numbers.join[arcs.sibling_start[c] + 1 + i]
                if join < 0 or numbers.inner[s] < 0:
                    continue
                slot = add_part(b, NEXT, a, s, c)
                if slot < 0:
                    return slot
                status = add_edge(b, numbers.inner[s] + a - arcs.in_start[h], join, slot)
                if status:
                    return status
            if close_item(b):
                numbers.inner[c] = first
        c += 1
    return DONE


cdef int _make_half(
    Building *b, const Arcs *arcs, Numbers *numbers, int h, int side, int end
) noexcept nogil:
    """C_a[end] of all arcs a to h."""
    cdef int a, i, c, m, rest, place, status, n_in = arcs.in_start[h + 1] - arcs.in_start[h]
    cdef int first = b.n_items
    for place in range(n_in):
        if open_item(b) < 0:
            return NO_MEMORY
        for i in range(arcs.side_start[2 * h + side], arcs.side_start[2 * h + side + 1]):
            c = arcs.side_arcs[i]
            m = arcs.mod[c]
            if (m > end) if side == RIGHT else (m < end):
                break
            rest = _half(numbers, side, m, end)[0]
            if numbers.inner[c] < 0 or rest < 0:
                continue
            if numbers.stop[c] < 0:
                numbers.stop[c] = b.n_parts
                for a in range(arcs.in_start[h], arcs.in_start[h + 1]):
                    if add_part(b, STOP, a, NOTHING, c) < 0:
                        return NO_MEMORY
            status = add_edge(
                b, numbers.inner[c] + place, rest + c - arcs.in_start[m], numbers.stop[c] + place)
            if status:
                return status
        if close_item(b):
            _half(numbers, side, h, end)[0] = first
    return DONE


cdef int _make_goal(Building *b, const Arcs *arcs, Numbers *numbers) noexcept nogil:
    cdef int i, c, m, left, right, slot, status
    if open_item(b) < 0:
        return NO_MEMORY
    for i in range(arcs.side_start[1], arcs.side_start[2]):
        c = arcs.side_arcs[i]
        m = arcs.mod[c]
        left, right = _half(numbers, LEFT, m, 1)[0], _half(numbers, RIGHT, m, arcs.n)[0]
        if left < 0 or right < 0:
            continue
        slot = add_part(b, ROOT, NOTHING, NOTHING, c)
        if slot < 0:
            return slot
        status = add_edge(b, left + c - arcs.in_start[m], right + c - arcs.in_start[m], slot)
        if status:
            return status
    return DONE if close_item(b) else NO_TREE


cdef int _make_items(Building *b, const Arcs *arcs, Numbers *numbers) noexcept nogil:
    cdef int i, j, status
    for j in range(1, arcs.n + 1):
        status = _make_leaves(b, arcs, numbers, j, RIGHT) or _make_leaves(b, arcs, numbers, j, LEFT)
        if status:
            return status
        for i in range(j - 1, 0, -1):
            status = (
                _make_join(b, arcs, numbers, i, j)
                or _make_link(b, arcs, numbers, i, j)
                or _make_link(b, arcs, numbers, j, i)
                or _make_half(b, arcs, numbers, i, RIGHT, j)
                or _make_half(b, arcs, numbers, j, LEFT, i))
            if status:
                return status
    return _make_goal(b, arcs, numbers)


cdef int build_forest(Forest *forest, size_t max_edges, Arena *arena) noexcept nogil:
    """Pack the trees of `forest.arcs`. RETURNS (int): DONE, NO_MEMORY, NO_TREE or TOO_LARGE."""
    cdef const Arcs *arcs = &forest.arcs
    cdef Numbers numbers
    cdef Building b
    cdef size_t width = arcs.n + 2, n_arcs = arcs.n_arcs, n_joins = arcs.sibling_start[arcs.n_arcs]
    cdef size_t n_numbers = 2 * width * width + 2 * n_arcs + n_joins
    cdef int status
    numbers.width = width
    numbers.right = <int32_t *>take(arena, n_numbers * sizeof(int32_t))
    if numbers.right == NULL:
        return NO_MEMORY
    memset(numbers.right, 0xFF, n_numbers * sizeof(int32_t))  # NOTHING
    numbers.left = numbers.right + width * width
    numbers.inner = numbers.left + width * width
    numbers.stop = numbers.inner + n_arcs
    numbers.join = numbers.stop + n_arcs
    memset(&b, 0, sizeof(b))
    b.arena, b.max_edges = arena, max_edges
    status = _make_items(&b, arcs, &numbers) or compact(&b)
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
    """The projective trees, with one root, of the arcs of a sentence, which come by modifier; None if
    there is none. An error tells when the hypergraph needs more than some edges.

    RETURNS: The forest, and what its slots are: int32[slots, 4], the kind (0 root, 1 first, 2 next, 3
    stop, 4 empty), the arc to the head, the arc before (the side, if it is empty) and the arc.
    """
    cdef Arena arena
    cdef Forest forest
    cdef int status, n_arcs = heads.shape[0]
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
        return read_forest(&forest)
    finally:
        arena_free(&arena)


cdef tuple read_forest(const Forest *forest):
    """The hypergraph and the parts of a forest, in memory of their own."""
    cdef int i
    cdef const Part *part
    parts = numpy.empty((forest.graph.n_slots, 4), dtype=numpy.int32)
    cdef int32_t[:, ::1] out = parts
    for i in range(forest.graph.n_slots):
        part = forest.parts + i
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = part.kind, part.a, part.s, part.c
    graph = Graph(
        _copied(forest.graph.start, forest.graph.n_items + 1),
        _copied(forest.graph.first, forest.graph.n_edges),
        _copied(forest.graph.second, forest.graph.n_edges),
        _copied(forest.graph.slot, forest.graph.n_edges))
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
