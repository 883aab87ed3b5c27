from ...base._arena cimport Arena


cdef struct Chart:
    # The kept arcs of one sentence, as potentials. Tokens are 1..n, position 0 is the root.
    int n
    int n_arcs
    int n_states  # C; the index C is START in rows and STOP in columns of `moves`
    int* head
    int* mod
    # arcs of a head by side (2 * head + side; side 0 = modifiers to the left), from the head outwards
    int* side_start
    int* side_arcs
    int* rank  # of an arc among those
    double* phi  # arcs x C: potential of the arc with a label of that class
    const double** moves  # 2 * head + side -> (C+1) x (C+1) potentials of going from state to state
    # potentials of neighbouring modifiers of a head: for every arc rank + 1 of them (after none, then outwards),
    # then for every arc that of being the last one on its side, then for 2 * head + side that of none on that side
    double* sibling
    int n_siblings
    int* pair_start  # arc -> first of its own
    int last_at
    int empty_at
    # inside; taken when first needed, NULL before that
    double* right  # C_R[i, j]: i with all its right modifiers, covering i..j
    double* left   # C_L[j, i]
    double* join   # G[i, j] = sum_k C_R[i, k] C_L[j, k + 1]
    double* inner  # arcs x C
    double* before  # arcs x (C+1): sum over the previous modifier, by its state
    double* outer  # arcs: inner summed with the STOP move
    int* n_right  # how many right arcs of a head are done
    double z
    # outside (adjoints); taken when first needed, NULL before that
    double* d_right
    double* d_left
    double* d_join
    double* d_inner
    double* d_outer
    # expected counts, after `outside`
    double* mu  # arcs x C
    double* mu_sibling


cdef int chart_layout(
    Chart* chart, Arena* arena, int n, int n_arcs, int n_states, int* head, int* mod
) noexcept nogil
cdef int chart_inside(Chart* chart, Arena* arena) noexcept nogil
cdef int chart_outside(Chart* chart, Arena* arena, double** d_moves) noexcept nogil
cdef int chart_local(Chart* chart, Arena* arena) noexcept nogil
