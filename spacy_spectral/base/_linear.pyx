# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tables of features are made: keys are numbered, get their slots, and rows are laid out."""

from libc.stdint cimport int32_t, uint32_t, uint64_t

import numpy

SLOT = numpy.dtype([("check", "u4"), ("start", "u4")])
ENTRY = numpy.dtype([("weight", "f4"), ("output", "u4")])


def number_keys(const uint64_t[::1] keys not None, const int32_t[::1] blocks=None, int min_blocks=1):
    """The number of every key (-1 for none), and the keys that have one, in order of first occurrence. 0
    is no key; those that occur in fewer than `min_blocks` blocks of the text (ascending) get none."""
    cdef Py_ssize_t n = keys.shape[0], capacity = 1024, i, j
    cdef int32_t count = 0, n_kept = 0
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
            slot[where] = count
            distinct[count] = keys[i]
            count += 1
        out[i] = slot[where]
    if blocks is None:
        return ids, found[:count].copy()
    cdef int32_t[::1] last = numpy.full(count, -1, dtype="int32")
    cdef int32_t[::1] n_blocks = numpy.zeros(count, dtype="int32")
    for i in range(n):
        if out[i] >= 0 and last[out[i]] != blocks[i]:
            last[out[i]] = blocks[i]
            n_blocks[out[i]] += 1
    for i in range(count):  # `last` becomes the new number
        last[i] = -1
        if n_blocks[i] >= min_blocks:
            last[i] = n_kept
            distinct[n_kept] = distinct[i]
            n_kept += 1
    for i in range(n):
        if out[i] >= 0:
            out[i] = last[out[i]]
    return ids, found[:n_kept].copy()


def build_slots(const uint64_t[::1] keys not None, const uint32_t[::1] rows not None):
    """A table (of `SLOT`) with open addressing, at most half full, of distinct keys, none 0, to rows,
    none at 0."""
    cdef Py_ssize_t n = keys.shape[0], capacity = 16, i
    while capacity < 2 * n:
        capacity *= 2
    slots = empty_slots(capacity)
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


def empty_slots(n):
    # not `zeros`: only memory numpy fills itself gets the large pages that random access needs
    slots = numpy.empty(n, dtype=SLOT)
    slots[:] = 0
    return slots


def lay_out(sizes, outputs, kind=ENTRY):
    """Rows as kernels read them: each is a header, which has its size, then its entries. Row 0 is empty.

    sizes, outputs: How many outputs each row has, and which.
    RETURNS: Where rows start; the entries, of type `kind`, all but their outputs 0; which of them have
    an output.
    """
    sizes = numpy.asarray(sizes, dtype="int64")
    starts = numpy.cumsum(sizes + 1) - sizes
    entries = numpy.empty(1 + len(sizes) + sizes.sum(), dtype=kind)
    entries[:] = numpy.zeros((), dtype=kind)
    has_output = numpy.ones(len(entries), dtype=bool)
    has_output[0] = False
    has_output[starts] = False
    entries["output"][starts] = sizes
    entries["output"][has_output] = outputs
    return starts.astype("uint32"), entries, has_output


def cut_rows(row_starts, is_kept):
    """Leave entries out of rows, and rows out that have none left: which rows stay, and where they start
    then."""
    starts = numpy.concatenate([[0], numpy.cumsum(is_kept)])[row_starts]
    stays = numpy.diff(starts) > 0
    return stays, numpy.append(starts[:-1][stays], starts[-1:]).astype("int32")
