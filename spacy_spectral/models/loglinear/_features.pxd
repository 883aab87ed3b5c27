from libc.stdint cimport int32_t, uint64_t


cdef struct Context:
    # the compiled templates: composites as (position offset, column) pairs, -1 ends one
    int n_columns
    int n_composites
    const int32_t* composites  # n_composites x MAX_PARTS x 2


cdef void fill_composites(
    const Context* context, const uint64_t* columns, int length, uint64_t* out
) noexcept nogil
