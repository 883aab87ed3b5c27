# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tables of features are made: keys are numbered, get their slots, and lose rows that are not worth keeping."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

import numpy

SLOT = numpy.dtype([("check", "u4"), ("start", "u4")])


def number_keys(const uint64_t[::1] keys not None):
    """Number the distinct keys in order of first occurrence; 0 is no key.

    RETURNS (Tuple[ndarray, ndarray]): int32, the number of every key (-1 for none), and uint64, the distinct keys.
    """
    cdef Py_ssize_t n = keys.shape[0], capacity = 1024, count = 0, i, j
    ids = numpy.empty(n, dtype="int32")
    found = numpy.empty(capacity // 2, dtype="uint64")
    slots = numpy.full(capacity, -1, dtype="int32")
    cdef int32_t[::1] out = ids, slot = slots
    cdef uint64_t[::1] distinct = found
    cdef uint64_t mask = capacity - 1, where
    for i in range(n):
        if keys[i] == 0:
            out[i] = -1
            continue
        where = keys[i] & mask
        while slot[where] >= 0 and distinct[slot[where]] != keys[i]:
            where = (where + 1) & mask
        if slot[where] < 0:
            if count == capacity // 2:
                capacity *= 4
                found = numpy.concatenate([found, numpy.empty(capacity // 2 - count, "uint64")])
                slots = numpy.full(capacity, -1, dtype="int32")
                distinct, slot, mask = found, slots, capacity - 1
                for j in range(count):
                    where = distinct[j] & mask
                    while slot[where] >= 0:
                        where = (where + 1) & mask
                    slot[where] = <int32_t>j
                where = keys[i] & mask
                while slot[where] >= 0:
                    where = (where + 1) & mask
            slot[where] = <int32_t>count
            distinct[count] = keys[i]
            count += 1
        out[i] = slot[where]
    return ids, found[:count].copy()


def build_slots(const uint64_t[::1] keys not None, const uint32_t[::1] rows not None):
    """A table with open addressing, at most half full.

    keys (uint64[n]): Distinct keys, none of them 0.
    rows (uint32[n]): Where their rows are, none at 0.
    RETURNS (ndarray): The slots, of type `SLOT`.
    """
    cdef Py_ssize_t n = keys.shape[0], capacity = 16, i
    while capacity < 2 * n:
        capacity *= 2
    slots = numpy.zeros(capacity, dtype=SLOT)
    cdef Slot[::1] out = slots
    cdef uint64_t mask = capacity - 1, at
    with nogil:
        for i in range(n):
            at = keys[i] & mask
            while out[at].start:
                at = (at + 1) & mask
            out[at].check = <uint32_t>(keys[i] >> 32)
            out[at].start = rows[i]
    return slots


def cut_rows(row_starts, is_kept):
    """Leave entries out of rows, and rows out that have none left.

    row_starts (int32[rows + 1]): Where rows start, closed by the number of entries.
    is_kept (bool[entries]): Which entries stay.
    RETURNS (Tuple[ndarray, ndarray]): bool, which rows stay, and int32, where they start then.
    """
    starts = numpy.concatenate([[0], numpy.cumsum(is_kept)])[row_starts]
    stays = numpy.diff(starts) > 0
    return stays, numpy.append(starts[:-1][stays], starts[-1]).astype("int32")
