# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Look-ups of `backoff.py`: contexts by hash, outcomes by binary search within a context."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy


cdef inline int64_t _find(const uint64_t[::1] slots, const int32_t[::1] rows, uint64_t key) noexcept nogil:
    """Row of a context or -1. The keys are hashes already."""
    cdef uint64_t mask = slots.shape[0] - 1
    cdef uint64_t slot = key & mask
    while slots[slot] != 0:
        if slots[slot] == key:
            return rows[slot]
        slot = (slot + 1) & mask
    return -1


cdef class Contexts:
    """What was learnt of all contexts, as `BackoffModel` has it; keys are hashes, none of them 0.
    `trust` says how much the shares of a context count against those of the next more general one."""
    # keys are found by open addressing, at most half full; 0 marks a free slot
    cdef uint64_t[::1] slots
    cdef int32_t[::1] rows
    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] outcomes
    cdef const double[::1] shares, trust
    cdef int n_outcomes

    def __init__(
        self,
        const uint64_t[::1] keys not None,
        const int64_t[::1] offsets not None,
        const int32_t[::1] outcomes not None,
        const double[::1] shares not None,
        const double[::1] trust not None,
        int n_outcomes,
    ):
        cdef uint64_t mask, slot
        cdef int64_t k
        size = 4
        while size < 2 * keys.shape[0]:
            size *= 2
        self.slots, self.rows = numpy.zeros(size, dtype="uint64"), numpy.zeros(size, dtype="int32")
        self.offsets, self.outcomes, self.shares, self.trust = offsets, outcomes, shares, trust
        self.n_outcomes = n_outcomes
        mask = size - 1
        for k in range(keys.shape[0]):
            slot = keys[k] & mask
            while self.slots[slot] != 0:
                slot = (slot + 1) & mask
            self.slots[slot] = keys[k]
            self.rows[slot] = <int32_t>k

    def probabilities(
        self, const uint64_t[:, ::1] contexts not None, const int32_t[::1] wanted not None
    ):
        """P(outcome | contexts) for every query; see `BackoffModel`."""
        cdef int64_t q, level, row, low, high, middle
        cdef double p, floor = 1.0 / self.n_outcomes
        # local, so that the compiler knows that nobody changes them
        cdef const uint64_t[::1] slots = self.slots
        cdef const int32_t[::1] rows = self.rows, outcomes = self.outcomes
        cdef const int64_t[::1] offsets = self.offsets
        cdef const double[::1] shares = self.shares, trust = self.trust
        result_array = numpy.zeros(wanted.shape[0])
        cdef double[::1] result = result_array
        with nogil:
            for q in range(wanted.shape[0]):
                p = floor
                for level in range(contexts.shape[1] - 1, -1, -1):
                    row = _find(slots, rows, contexts[q, level])
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

    def distributions(self, const uint64_t[:, ::1] contexts not None):
        """P(. | contexts) for every query, one row each; see `BackoffModel`."""
        cdef int64_t q, level, row, k, n_outcomes = self.n_outcomes
        cdef double keep
        # local, so that the compiler knows that nobody changes them
        cdef const uint64_t[::1] slots = self.slots
        cdef const int32_t[::1] rows = self.rows, outcomes = self.outcomes
        cdef const int64_t[::1] offsets = self.offsets
        cdef const double[::1] shares = self.shares, trust = self.trust
        result_array = numpy.full((contexts.shape[0], self.n_outcomes), 1.0 / self.n_outcomes)
        cdef double[:, ::1] result = result_array
        with nogil:
            for q in range(contexts.shape[0]):
                for level in range(contexts.shape[1] - 1, -1, -1):
                    row = _find(slots, rows, contexts[q, level])
                    if row < 0:
                        break
                    keep = 1.0 - trust[row]
                    for k in range(n_outcomes):
                        result[q, k] *= keep
                    for k in range(offsets[row], offsets[row + 1]):
                        result[q, outcomes[k]] += trust[row] * shares[k]
        return result_array
