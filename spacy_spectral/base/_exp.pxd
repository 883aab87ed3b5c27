"""Exponentials and powers of many numbers: what compilers make vectors of, the same everywhere. Where processors can have
longer vectors, there is one more version for these; no operation is another in it."""

cdef extern from "spacy_spectral/base/_exp.h" nogil:
    void power_doubles(double* out, const double* x, double power, int n)
    void exp_floats(double* out, const float* x, float shift, int n)
