"""AdaGrad, and the average of weights over all steps.

The average of a weight is weight - drift / (steps + 1): its changes are summed, each times the step it was made
in. The tagger, which does the same, keeps these numbers in one record with the weight and in single precision.
"""
from libc.math cimport sqrt
from libc.stdlib cimport calloc, free


cdef packed struct Slope:
    float squares  # sum of squared gradients
    float drift  # sum of step * change


cdef inline void climb(
    float* weight, Slope* slope, float gradient, double rate, long step
) noexcept nogil:
    """One step along a gradient."""
    cdef float change
    slope.squares += gradient * gradient
    change = rate * gradient / sqrt(slope.squares)
    weight[0] += change
    slope.drift += change * step


cdef inline Slope* new_slopes(Slope* old, size_t n, double initial_squares) except NULL:
    """Memory for n weights in the place of `old`; their sums of squares start at `initial_squares`."""
    cdef Slope* slopes = <Slope*>calloc(n + 1, sizeof(Slope))
    cdef size_t i
    if slopes == NULL:
        raise MemoryError
    for i in range(n):
        slopes[i].squares = initial_squares
    free(old)
    return slopes


cdef inline void average(
    const float* weights, const Slope* slopes, size_t n, long n_steps, float* out
) noexcept nogil:
    """The averages of weights over all steps."""
    cdef size_t i
    for i in range(n):
        out[i] = weights[i] - slopes[i].drift / (n_steps + 1)
