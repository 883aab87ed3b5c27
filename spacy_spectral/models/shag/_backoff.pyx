# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Look-ups of `backoff.py`: contexts by hash, outcomes by binary search within a context."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy


cdef inline int64_t _find(const uint64_t[::1] slots, const int32_t[::1] rows, uint64_t key) noexcept nogil:
    """Row of a context or -1. Open addressing; the keys are hashes already. 0 marks a free slot."""
    cdef uint64_t mask = slots.shape[0] - 1
    cdef uint64_t slot = key & mask
    while slots[slot] != 0:
        if slots[slot] == key:
            return rows[slot]
        slot = (slot + 1) & mask
    return -1


def build_index(const uint64_t[::1] keys not None):
    """Hash table from context keys to their positions, at most half full.

    RETURNS (Tuple[ndarray, ndarray]): The slots' keys and their rows.
    """
    size = 4
    while size < 2 * keys.shape[0]:
        size *= 2
    slot_array = numpy.zeros(size, dtype="uint64")
    row_array = numpy.zeros(size, dtype="int32")
    cdef uint64_t[::1] slots = slot_array
    cdef int32_t[::1] rows = row_array
    cdef uint64_t mask = size - 1, slot
    cdef int64_t k
    for k in range(keys.shape[0]):
        slot = keys[k] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = keys[k]
        rows[slot] = <int32_t>k
    return slot_array, row_array


def probabilities(
    const uint64_t[::1] slots not None,
    const int32_t[::1] slot_rows not None,
    const int64_t[::1] offsets not None,
    const int32_t[::1] outcomes not None,
    const double[::1] shares not None,
    const double[::1] trust not None,
    double floor,
    const uint64_t[:, ::1] contexts not None,
    const int32_t[::1] wanted not None,
):
    """P(outcome | contexts) for every query; see `BackoffModel`."""
    cdef int64_t q, level, row, low, high, middle
    cdef double p
    result_array = numpy.zeros(wanted.shape[0])
    cdef double[::1] result = result_array
    with nogil:
        for q in range(wanted.shape[0]):
            p = floor
            for level in range(contexts.shape[1] - 1, -1, -1):
                row = _find(slots, slot_rows, contexts[q, level])
                if row < 0:
                    # a context is only known if all more general ones are
                    break
                low = offsets[row]
                high = offsets[row + 1]
                while low < high:
                    middle = (low + high) // 2
                    if outcomes[middle] < wanted[q]:
                        low = middle + 1
                    else:
                        high = middle
                p *= 1.0 - trust[row]
                if low < offsets[row + 1] and outcomes[low] == wanted[q]:
                    p += trust[row] * shares[low]
            result[q] = p
    return result_array


def distributions(
    const uint64_t[::1] slots not None,
    const int32_t[::1] slot_rows not None,
    const int64_t[::1] offsets not None,
    const int32_t[::1] outcomes not None,
    const double[::1] shares not None,
    const double[::1] trust not None,
    double floor,
    const uint64_t[:, ::1] contexts not None,
    int n_outcomes,
):
    """P(. | contexts) for every query, one row each; see `BackoffModel`."""
    cdef int64_t q, level, row, k
    cdef double keep
    result_array = numpy.full((contexts.shape[0], n_outcomes), floor)
    cdef double[:, ::1] result = result_array
    with nogil:
        for q in range(contexts.shape[0]):
            for level in range(contexts.shape[1] - 1, -1, -1):
                row = _find(slots, slot_rows, contexts[q, level])
                if row < 0:
                    break
                keep = 1.0 - trust[row]
                for k in range(n_outcomes):
                    result[q, k] *= keep
                for k in range(offsets[row], offsets[row + 1]):
                    result[q, outcomes[k]] += trust[row] * shares[k]
    return result_array
