# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Hashed features. A *composite* joins a few columns of a token and its neighbours into one 64-bit
number, once per token; the key of an arc is then one multiplication of two composites. 0 stands for
"does not apply" (no cluster, no morphology): every key made from it is 0 as well and never looked up.
"""
import numpy as np

from libc.stdint cimport int32_t, uint32_t, uint64_t

cpdef enum:
    MAX_PARTS = 4


def hash_strings(strings) -> np.ndarray:
    """Hash texts to 64 bits (FNV-1a over UTF-8, mixed), never to 0.

    strings (Sequence[str]): The texts.
    RETURNS (np.ndarray): One uint64 for each.
    """
    result = np.empty(len(strings), dtype=np.uint64)
    cdef uint64_t[::1] out = result
    cdef Py_ssize_t i
    cdef uint64_t value
    cdef bytes data
    cdef const unsigned char *text
    cdef Py_ssize_t position
    for i, string in enumerate(strings):
        data = string.encode("utf8", "surrogatepass")
        text = data
        value = <uint64_t>0xCBF29CE484222325
        for position in range(len(data)):
            value = (value ^ text[position]) * <uint64_t>0x100000001B3
        value = mix(mix(value))
        out[i] = value if value else 1
    return result


cdef void fill_composites(
    const Context *context, const uint64_t *columns, int length, uint64_t *out
) noexcept nogil:
    """Composites of positions 0 (the root) to `length` of one sentence."""
    cdef int position, k, part, at, column
    cdef uint64_t value, atom
    cdef const int32_t *parts
    for position in range(length + 1):
        for k in range(context.n_composites):
            parts = context.composites + k * MAX_PARTS * 2
            value = k + 1
            for part in range(MAX_PARTS):
                column = parts[2 * part + 1]
                if column < 0:
                    break
                at = position + parts[2 * part]
                if at <= 0:
                    atom = 11 - at  # the root and what would stand before it
                elif at > length:
                    atom = 101 + at - length
                else:
                    atom = columns[(at - 1) * context.n_columns + column]
                if atom == 0:
                    value = 0
                    break
                value = (value ^ atom) * <uint64_t>0x9FB21C651E98DF25
                value ^= value >> 29
            out[position * context.n_composites + k] = value


def build_slots(
    const uint64_t[::1] keys not None, const uint32_t[::1] row_starts not None,
    Slot[::1] slots not None,
):
    """Enter rows into an empty table with open addressing, whose size is a power of two.

    keys (uint64[n]): Distinct keys, none of them 0.
    row_starts (uint32[n]): Their rows, none of them 0.
    slots (structured array): Zeros, more than n of them.
    """
    cdef Py_ssize_t i
    cdef uint64_t at, mask = slots.shape[0] - 1
    with nogil:
        for i in range(keys.shape[0]):
            at = keys[i] & mask
            while slots[at].start:
                at = (at + 1) & mask
            slots[at].check = <uint32_t>(keys[i] >> 32)
            slots[at].start = row_starts[i]


def number_keys(const uint64_t[::1] keys not None, const int32_t[::1] blocks not None, int min_blocks):
    """Number the keys that occur in enough blocks.

    keys (uint64[n]): Keys in any order, 0 for none.
    blocks (int32[n]): The block of the text each comes from, ascending.
    min_blocks (int): In how many different blocks a key must occur.
    RETURNS (Tuple[ndarray, ndarray]): The kept keys in order of first occurrence, and for each place
        the number of its key (int32), -1 if it was not kept.
    """
    cdef Py_ssize_t n = keys.shape[0], i
    cdef uint64_t mask = 1, at
    while mask < 2 * <uint64_t>n + 2:
        mask *= 2
    cdef int32_t[::1] table = np.full(mask, -1, dtype=np.int32)
    mask -= 1
    numbers = np.full(n, -1, dtype=np.int32)
    cdef int32_t[::1] number = numbers
    cdef uint64_t[::1] distinct = np.empty(n, dtype=np.uint64)
    cdef int32_t[::1] last = np.empty(n, dtype=np.int32)
    cdef int32_t[::1] count = np.zeros(n + 1, dtype=np.int32)
    cdef int32_t n_distinct = 0, n_kept = 0
    with nogil:
        for i in range(n):
            if keys[i] == 0:
                continue
            at = keys[i] & mask
            while table[at] >= 0 and distinct[table[at]] != keys[i]:
                at = (at + 1) & mask
            if table[at] < 0:
                table[at] = n_distinct
                distinct[n_distinct] = keys[i]
                last[n_distinct] = -1
                n_distinct += 1
            number[i] = table[at]
            if last[table[at]] != blocks[i]:
                last[table[at]] = blocks[i]
                count[table[at]] += 1
        for i in range(n_distinct):  # `last` becomes the new number
            last[i] = -1
            if count[i] >= min_blocks:
                last[i] = n_kept
                distinct[n_kept] = distinct[i]
                n_kept += 1
        for i in range(n):
            if number[i] >= 0:
                number[i] = last[number[i]]
    return np.asarray(distinct)[:n_kept].copy(), numbers
