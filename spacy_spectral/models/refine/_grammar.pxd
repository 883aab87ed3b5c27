# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Distributions of what heads generate: row_of[side, a, b] is the row of P(. | a, b), whose last entry is STOP;
the last b is FIRST."""


cdef struct Grammar:
    int n_states
    const float* rows       # [rows, n_states + 1]
    const int* row_of       # [2, n_states, n_states + 1]


cdef inline void bind_grammar(
    Grammar* g, const float[:, ::1] rows, const int[:, :, ::1] row_of
) noexcept nogil:
    g.n_states = <int>rows.shape[1] - 1
    g.rows = &rows[0, 0]
    g.row_of = &row_of[0, 0, 0]


cdef inline size_t context_of(int n_states, int side, int head, int previous) noexcept nogil:
    return (<size_t>side * n_states + head) * (n_states + 1) + previous


cdef inline const float* row_after(const Grammar* g, int side, int head, int previous) noexcept nogil:
    """The distribution of what comes next; `previous` is a state, or FIRST."""
    return g.rows + <size_t>g.row_of[context_of(g.n_states, side, head, previous)] * (g.n_states + 1)
