# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The product of float32 rows with a matrix: the same bits for a row in every batch, thread and process."""
import numpy

from libc.stdlib cimport free, malloc


cdef extern from "_gemm.h" nogil:
    ctypedef struct gemm_kernel:
        Py_ssize_t rows, columns

    enum:
        GEMM_MOST_KERNELS

    int gemm_kernels(gemm_kernel* kernels)
    void gemm(
        gemm_kernel kernel, Py_ssize_t n, Py_ssize_t m, Py_ssize_t k,
        const float* x, Py_ssize_t x_step, Py_ssize_t x_apart,
        const float* w, Py_ssize_t w_step, Py_ssize_t w_apart,
        float* y, float* rows, Py_ssize_t at_once, float* panel,
    )


# The copy of so many rows at a time stays in the cache while all columns are multiplied with them.
cdef Py_ssize_t _ROWS_AT_ONCE = 960


def n_kernels() -> int:
    """RETURNS (int): How many kernels this processor has."""
    cdef gemm_kernel kernels[GEMM_MOST_KERNELS]
    return gemm_kernels(kernels)


def product(const float[:, :] rows not None, const float[:, :] matrix not None, *, int kernel=0):
    """float32[n, m], rows [n, k] times the transpose of a matrix [m, k], in a fixed order of additions
    (see `_gemm.h`), by one of the kernels, of which 0 is the fastest."""
    cdef Py_ssize_t n = rows.shape[0], k = rows.shape[1], m = matrix.shape[0], size = sizeof(float)
    cdef gemm_kernel kernels[GEMM_MOST_KERNELS]
    if not 0 <= kernel < gemm_kernels(kernels):
        raise IndexError(f"kernel {kernel}")
    if matrix.shape[1] != k:
        raise ValueError(f"rows of {k} numbers, a matrix of {matrix.shape[1]} columns")
    result = numpy.zeros((n, m), dtype="float32") if k == 0 else numpy.empty((n, m), dtype="float32")
    if n == 0 or m == 0 or k == 0:
        return result
    cdef float[:, ::1] y = result
    cdef gemm_kernel chosen = kernels[kernel]
    cdef Py_ssize_t at_once = min(n, _ROWS_AT_ONCE)
    at_once = (at_once + chosen.rows - 1) // chosen.rows * chosen.rows
    cdef float* room = <float*>malloc(k * (at_once + chosen.columns) * size)
    if room == NULL:
        raise MemoryError()
    with nogil:
        gemm(
            chosen, n, m, k,
            &rows[0, 0], rows.strides[0] // size, rows.strides[1] // size,
            &matrix[0, 0], matrix.strides[0] // size, matrix.strides[1] // size,
            &y[0, 0], room, at_once, room + k * at_once,
        )
        free(room)
    return result
