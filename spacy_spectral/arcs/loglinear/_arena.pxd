"""Scratch memory of one thread: taken piece by piece for a sentence, given back all at once."""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset


cdef struct Arena:
    char *block
    size_t size
    size_t used
    char **extra  # blocks of a sentence that did not fit into the first
    int n_extra
    size_t extra_size


cdef inline void arena_reset(Arena *arena) noexcept nogil:
    cdef int i
    cdef size_t wanted = arena.size + arena.extra_size
    if arena.n_extra:
        for i in range(arena.n_extra):
            free(arena.extra[i])
        free(arena.extra)
        free(arena.block)
        arena.block = <char *>malloc(wanted)
        arena.size = wanted if arena.block != NULL else 0
        arena.extra = NULL
        arena.n_extra = 0
        arena.extra_size = 0
    arena.used = 0


cdef inline void *take(Arena *arena, size_t n_bytes) noexcept nogil:
    """Uninitialised memory for this sentence, or NULL."""
    cdef char *result
    cdef char **longer
    cdef int i
    n_bytes = (n_bytes + 64) & ~<size_t>63  # never none: NULL means failure
    if arena.used + n_bytes <= arena.size:
        result = arena.block + arena.used
        arena.used += n_bytes
        return result
    longer = <char **>malloc((arena.n_extra + 1) * sizeof(char *))
    result = <char *>malloc(n_bytes)
    if longer == NULL or result == NULL:
        free(longer)
        free(result)
        return NULL
    for i in range(arena.n_extra):
        longer[i] = arena.extra[i]
    free(arena.extra)
    longer[arena.n_extra] = result
    arena.extra = longer
    arena.n_extra += 1
    arena.extra_size += n_bytes
    return result


cdef inline void *take_zeros(Arena *arena, size_t n_bytes) noexcept nogil:
    cdef void *result = take(arena, n_bytes)
    if result != NULL:
        memset(result, 0, n_bytes)
    return result


cdef inline void arena_free(Arena *arena) noexcept nogil:
    cdef int i
    for i in range(arena.n_extra):
        free(arena.extra[i])
    free(arena.extra)
    free(arena.block)
    arena.block = NULL
    arena.extra = NULL
    arena.n_extra = 0
    arena.size = arena.used = arena.extra_size = 0
