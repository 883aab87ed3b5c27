"""The feature table as it is read in parsing: smaller than the one that is learnt, and in the order of use.

Weights are whole multiples of a power of two, so that sums do not depend on their order. A row is

    weight of the feature | number of sections
    and for every section, a block of outputs (see `_features.pxd`):
        256 * block + bits of those of its first 8 outputs that have weights | number of other outputs
        their weights
        weight | number in the block, of every other output

Whoever needs one block skips the others, and weights of distances are found without a search. A section with
many outputs has the weights of all outputs of its block, two to a cell, after 256 * block | DENSE.

Rows are found through buckets, one line of memory each, all of whose checks are compared at once: nothing is
to be guessed by the processor. A feature without outputs has no row, its weight stands in its bucket. Which
bucket a key belongs to is told by the slot of the learnt table that its search would begin at. Most keys are in
no bucket: bits of checks, few enough to stay in the cache, tell of four in five of them.
"""
from libc.stdint cimport int16_t, int32_t, uint16_t, uint32_t, uint64_t

from ...base._prefetch cimport FETCH

cdef extern from "spacy_spectral/models/loglinear/_table.h" nogil:
    ctypedef struct Bucket:
        uint32_t[8] check
        uint32_t[8] row
    int count_of_bits(int byte)
    uint32_t row_in_bucket(const Bucket* bucket, uint32_t check)
    void add_dense(int32_t* out, const void* cells, int n)

cdef enum:
    N_SMALL = 8  # outputs of a block with a bit of their own: the arc and its distances
    BUCKET = 8  # rows that a bucket has room for
    DENSE = 0x8000  # in place of the number of other outputs


cdef enum:
    # in place of a row: a weight, 16 bits of it
    ALONE = 0x40000000


cdef packed struct Cell:
    int16_t weight
    uint16_t output


cdef struct CellTable:
    const Cell* cells  # NULL in training
    const Bucket* buckets  # one more, which is empty
    uint64_t n_buckets
    uint64_t mask  # of slots
    int n_bits  # of a slot's number
    const uint32_t* bits
    int shift  # of a check, to the number of its bit
    float step  # what weights are multiples of


cdef struct Query:
    uint32_t bucket
    uint32_t check


cdef inline uint32_t bucket_of(const CellTable* table, uint64_t key) noexcept nogil:
    return (key & table.mask) * table.n_buckets >> table.n_bits


cdef inline void fetch_bit(const CellTable* table, uint64_t key) noexcept nogil:
    """Have the bit of a key brought."""
    FETCH(table.bits + (<uint32_t>(key >> 32) >> table.shift >> 5))


cdef inline int ask_for(const CellTable* table, uint64_t key, Query* query) noexcept nogil:
    """Have the bucket of a key brought. RETURNS (int): 1, or 0 if no bucket has it: for key 0, and for one whose
    bit is not set. The query is to be written over then."""
    cdef uint32_t check = <uint32_t>(key >> 32), bit = check >> table.shift
    cdef uint32_t known = table.bits[bit >> 5] >> (bit & 31) & (key != 0)
    cdef uint32_t none = <uint32_t>table.n_buckets
    query.check = check
    query.bucket = none + ((bucket_of(table, key) - none) & -known)
    FETCH(table.buckets + query.bucket)
    return known


cdef inline uint32_t find_cells(const CellTable* table, const Query* query) noexcept nogil:
    """Where the row of a key is, 0 for none, ALONE | weight for a feature without outputs."""
    cdef uint64_t at = query.bucket
    cdef uint32_t row = row_in_bucket(table.buckets + at, query.check)
    # A full one goes on in the next. That is rare, and so is the branch: not two conditions.
    while row | (table.buckets[at].row[BUCKET - 1] == 0) == 0:
        at = at + 1 if at + 1 < table.n_buckets else 0
        row = row_in_bucket(table.buckets + at, query.check)
    return row
