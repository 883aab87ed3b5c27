"""Scratch memory of one thread: taken piece by piece for a sentence, given back all at once."""
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef struct Block:
    Block *older  # blocks of this sentence that are full
    size_t size


cdef struct Arena:
    Block *block
    size_t used  # of the block, its header included
    size_t total  # of all blocks


cdef inline void arena_free(Arena *arena) noexcept nogil:
    cdef Block *older
    while arena.block != NULL:
        older = arena.block.older
        free(arena.block)
        arena.block = older
    arena.used = arena.total = 0


cdef inline int _add_block(Arena *arena, size_t size) noexcept nogil:
    cdef Block *block = <Block *>malloc(size)
    if block == NULL:
        return -1
    block.older = arena.block
    block.size = size
    arena.block = block
    arena.used = 64
    arena.total += size
    return 0


cdef inline void arena_reset(Arena *arena) noexcept nogil:
    """Give everything back. What took several blocks will fit into one the next time."""
    cdef size_t total = arena.total
    if arena.block != NULL and arena.block.older != NULL:
        arena_free(arena)
        _add_block(arena, total)  # if it fails, so will `take`, and say it
    arena.used = 64


cdef inline void *take(Arena *arena, size_t n_bytes) noexcept nogil:
    """Uninitialised memory for this sentence, or NULL."""
    cdef char *result
    n_bytes = (n_bytes + 64) & ~<size_t>63  # never none: NULL means failure
    if arena.block == NULL or arena.used + n_bytes > arena.block.size:
        if _add_block(arena, n_bytes + max(arena.total, <size_t>65536)):
            return NULL
    result = <char *>arena.block + arena.used
    arena.used += n_bytes
    return result


cdef inline void *take_zeros(Arena *arena, size_t n_bytes) noexcept nogil:
    cdef void *result = take(arena, n_bytes)
    if result != NULL:
        memset(result, 0, n_bytes)
    return result
