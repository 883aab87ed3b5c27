"""AdaGrad, and the average of weights over all steps.

The average of a weight is weight - drift / (steps + 1): its changes are summed, each times the step it was made
in. The tagger, which does the same, keeps these numbers in one record with the weight and in single precision.
"""
from libc.math cimport sqrt


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
