# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The feature table as it is read in parsing, made of the one that is learnt; see `_table.pxd`."""
import numpy

from libc.math cimport lrint
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from ...base._linear cimport Entry, Slot
from ...base.cache import zeros_in_large_pages

cdef enum:
    LINE = 16  # cells of a line of memory
    FILLED = 3  # entries of a bucket, on average
    MAX_STEPS = 1024  # of a search in the learnt table, which is half empty


cdef Py_ssize_t _write_row(const Entry* row, int width, double scale, Cell* cells) noexcept nogil:
    """Write a row as `_table.pxd` has it; only counts if `cells` is NULL. RETURNS (int): How many cells it has."""
    cdef Py_ssize_t i = 1, k, size = row.output, n = 1, place
    cdef int block, bits, n_sections = 0, n_small
    # outputs of a pair are all in the first block, and whoever reads them expects few
    cdef bint of_token = <int>(row[size].output) >= width
    while i <= size:
        block, bits, k = row[i].output // width, 0, i
        while k <= size and <int>(row[k].output // width) == block and row[k].output % width < N_SMALL:
            bits |= 1 << (row[k].output % width)
            k += 1
        n_small = count_of_bits(bits)
        while k <= size and <int>(row[k].output // width) == block:
            k += 1
        if of_token and 4 * (k - i) >= width:
            if cells != NULL:
                cells[n].weight, cells[n].output = 256 * block, DENSE
                memset(cells + n + 1, 0, (width + 1) // 2 * sizeof(Cell))
                for place in range(i, k):
                    (<int16_t*>(cells + n + 1))[row[place].output % width] = _rounded(
                        row[place].weight * scale)
            n += 1 + (width + 1) // 2
        else:
            if cells != NULL:
                cells[n].weight, cells[n].output = 256 * block + bits, k - i - n_small
                for place in range(k - i):
                    cells[n + 1 + place].weight = _rounded(row[i + place].weight * scale)
                    cells[n + 1 + place].output = row[i + place].output % width
            n += 1 + k - i
        i = k
        n_sections += 1
    if cells != NULL:
        cells[0].weight, cells[0].output = _rounded(row.weight * scale), n_sections
    return n


cdef inline int _rounded(double weight) noexcept nogil:
    return <int>lrint(min(max(weight, -32767.0), 32767.0))


cdef inline Py_ssize_t _place(Py_ssize_t n, Py_ssize_t size) noexcept nogil:
    """Where a row of `size` cells begins, if n cells are taken: not so that it needs one line of memory more."""
    return n + LINE - n % LINE if n % LINE + size > LINE >= size else n


def make_cells(
    const Slot[::1] slots not None, const Entry[::1] entries not None,
    const uint32_t[::1] used not None, int width, double scale,
):
    """The rows of the table as they are read in parsing, see `_table.pxd`: cells, and for every row what
    stands in a bucket: where it begins, or its weight.

    used: The slots that are used, in the order of their rows; width: outputs of a block.
    scale: What weights are multiplied by before they are rounded.
    """
    cdef Py_ssize_t i, n = 1, size
    cdef const Entry* row
    places = numpy.empty(used.shape[0], dtype=numpy.uint32)
    cdef uint32_t[::1] place = places
    for i in range(used.shape[0]):
        row = &entries[slots[used[i]].start]
        if row.output == 0:
            place[i] = ALONE | <uint16_t>_rounded(row.weight * scale)
            continue
        size = _write_row(row, width, scale, NULL)
        n = _place(n, size)
        place[i] = <uint32_t>n
        n += size
    if n >= ALONE:
        raise MemoryError
    result = zeros_in_large_pages((n,), [("weight", "<i2"), ("output", "<u2")])
    cdef Cell[::1] cells = result
    with nogil:
        for i in range(used.shape[0]):
            if not place[i] & ALONE:
                _write_row(&entries[slots[used[i]].start], width, scale, &cells[place[i]])
    return result, places


def make_buckets(
    const Slot[::1] slots not None, const uint32_t[::1] used not None,
    const uint32_t[::1] places not None,
):
    """Buckets by which rows are found in parsing, of slots in the order of their rows and the places
    from `make_cells`: uint32[buckets + 1, 16], checks, then what was found for them; and a power of two
    of bits of checks."""
    cdef CellTable table
    cdef Py_ssize_t i, step, n_entries = 0
    cdef uint64_t at, home, bucket, latest
    table.n_buckets = used.shape[0] // FILLED + 1
    table.mask, table.n_bits = slots.shape[0] - 1, (<object>slots.shape[0]).bit_length() - 1
    result = zeros_in_large_pages((table.n_buckets + 1, 2 * BUCKET), numpy.uint32)
    table.shift = 27
    while table.shift > 0 and 1 << (32 - table.shift) < 5 * used.shape[0]:
        table.shift -= 1
    all_bits = numpy.zeros(1 << (27 - table.shift), dtype=numpy.uint32)
    cdef uint32_t[::1] bits = all_bits
    cdef uint32_t bit
    cdef uint32_t[:, ::1] values = result
    cdef Bucket* buckets = <Bucket*>&values[0, 0]
    with nogil:
        for i in range(used.shape[0]):
            # A row that was not put where its search begins stands after others that were there before: its
            # search may begin at any of them.
            at = home = used[i]
            bit = slots[at].check >> table.shift
            bits[bit >> 5] |= <uint32_t>1 << (bit & 31)
            latest = table.n_buckets
            for step in range(MAX_STEPS):
                bucket = bucket_of(&table, home)
                if bucket != latest and n_entries < (BUCKET - 1) * <Py_ssize_t>table.n_buckets:
                    n_entries += _enter(
                        buckets, table.n_buckets, bucket, slots[at].check, places[i])
                latest = bucket
                home = (home - 1) & table.mask
                if slots[home].start == 0 or slots[home].start >= slots[at].start:
                    break
    return result, all_bits


cdef int _enter(
    Bucket* buckets, uint64_t n_buckets, uint64_t at, uint32_t check, uint32_t value
) noexcept nogil:
    """RETURNS (int): 1, or 0 if the check was there: whoever was first is found."""
    cdef int i
    while True:
        for i in range(BUCKET):
            if buckets[at].row[i] == 0:
                buckets[at].check[i], buckets[at].row[i] = check, value
                return 1
            if buckets[at].check[i] == check:
                return 0
        at = at + 1 if at + 1 < n_buckets else 0
