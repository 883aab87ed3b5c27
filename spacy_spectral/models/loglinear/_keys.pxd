"""Keys of features: what a template sees in a token, in an arc, in two neighbouring modifiers."""
from libc.stdint cimport int32_t, uint64_t

from ...base._linear cimport first_half, mix, pair_key, second_half
from ._layout cimport Machine

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


cdef inline uint64_t unary_key(int template, uint64_t composite) noexcept nogil:
    return pair_key(composite, NOBODY, UNARY * (template + 1)) if composite else 0


cdef inline uint64_t arc_key(
    int template, int direction, uint64_t head, uint64_t mod, int between
) noexcept nogil:
    if head == 0 or mod == 0:
        return 0
    return pair_key(head, mod, PAIR * (4 * template + direction + 1) + BETWEEN * between)


cdef inline uint64_t head_half(int template, int direction, uint64_t head) noexcept nogil:
    """What an arc's key has of its head; `between_half` is to be added, and 0 stands for no key."""
    return first_half(head, PAIR * (4 * template + direction + 1)) if head else 0


cdef inline uint64_t between_half(int between) noexcept nogil:
    return first_half(0, BETWEEN * between)


cdef inline uint64_t sibling_half(int template, int side, uint64_t head, uint64_t mod) noexcept nogil:
    """What the key of two neighbouring modifiers has of the head and the second of them."""
    if head == 0 or mod == 0:
        return 0
    return first_half(pair_key(head, mod, SIBLING * (2 * template + side + 1)), SIBLING)


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
    cdef int t, k = machine.context.n_composites
    cdef const int32_t* parts
    for t in range(machine.n_siblings):
        parts = machine.siblings + 3 * t
        halves[t] = sibling_half(
            t, side, composites[head * k + parts[0]],
            composites[mod * k + parts[2]] if mod else NOBODY)


cdef inline uint64_t previous_half(
    const Machine* machine, const uint64_t* composites, int template, int previous
) noexcept nogil:
    """What such a key has of the first of them; 0 is nobody (before the first)."""
    cdef int k = machine.context.n_composites
    return second_half(
        composites[previous * k + machine.siblings[3 * template + 1]] if previous else NOBODY)


cdef inline uint64_t sibling_key(uint64_t half, uint64_t previous) noexcept nogil:
    """The key of its halves."""
    return mix(half ^ previous) if half and previous else 0


cdef inline void sibling_keys(
    const Machine* machine, const uint64_t* composites, int side, int head, int previous, int mod,
    uint64_t* keys
) noexcept nogil:
    """Keys of two neighbouring modifiers of a head; 0 is nobody (the first, the last)."""
    cdef int t
    sibling_halves(machine, composites, side, head, mod, keys)
    for t in range(machine.n_siblings):
        keys[t] = sibling_key(keys[t], previous_half(machine, composites, t, previous))
