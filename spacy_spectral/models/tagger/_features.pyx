# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""From word forms to feature keys, and from keys to numbers.

A token is a row of attributes: 32-bit values, 0 for "has none", 1 beyond the ends of a sentence.
A template is up to three (offset, column) cells of that matrix, and its key at a token a 64-bit
hash of the template's number and the cells' values. Attributes are read off a word form once per
distinct form; keys are numbered, and their rows of weights laid out, once for all epochs.
"""

from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t

from ...base._hash cimport attribute, char_class, mix

import numpy

cdef enum:
    MAX_AFFIX = 5
    SHAPE_LENGTH = 6

# form, lower-cased form, collapsed shape, full shape, prefixes, suffixes
FORM_COLUMNS = 4 + 2 * MAX_AFFIX


def form_attributes(list words):
    """What can be read off word forms alone.

    words (List[str]): Word forms.
    RETURNS (ndarray): uint32, one row a word: form, lower-cased form, shape with runs collapsed,
        full shape, then prefixes and suffixes of 1..5 lower-cased characters (0 where the word is
        not longer than the affix).
    """
    result = numpy.zeros((len(words), FORM_COLUMNS), dtype="uint32")
    cdef uint32_t[:, ::1] out = result
    cdef Py_ssize_t i, j, n
    cdef str word, lower
    cdef Py_UCS4 char
    cdef uint64_t form, shape, collapsed
    cdef uint32_t kind, last
    for i in range(len(words)):
        word = words[i]
        lower = word.lower()
        form = shape = collapsed = 7
        last = 0
        n = 0
        for char in word:
            form = mix(form, char)
            kind = char_class(char)
            if kind != last:
                collapsed = mix(collapsed, kind)
            if n < SHAPE_LENGTH:
                shape = mix(shape, kind)
            last = kind
            n += 1
        out[i, 0] = attribute(form)
        out[i, 2] = attribute(collapsed)
        out[i, 3] = attribute(mix(shape, min(n, <Py_ssize_t>SHAPE_LENGTH)))
        form = 7
        n = len(lower)
        for j in range(n):
            form = mix(form, lower[j])
            if j < MAX_AFFIX and j + 1 < n:
                out[i, 4 + j] = attribute(form)
        out[i, 1] = attribute(form)
        form = 11
        for j in range(min(<Py_ssize_t>MAX_AFFIX, n - 1)):
            form = mix(form, lower[n - 1 - j])
            out[i, 4 + MAX_AFFIX + j] = attribute(form)
    return result


def feature_keys(
    const uint32_t[:, ::1] attributes not None, const int32_t[::1] starts not None,
    const int32_t[:, ::1] templates not None, const int32_t[::1] numbers not None,
):
    """Keys of templates at every token.

    attributes (ndarray): uint32, one row a token.
    starts (ndarray): int32, where sentences start, closed by the number of tokens.
    templates (ndarray): int32, rows of (offset, column) cells, column -1 where unused.
    numbers (ndarray): int32, the number of each template, part of its keys.
    RETURNS (ndarray): uint64, one row a token, one column a template; 0 means no feature.
    """
    cdef Py_ssize_t n_templates = templates.shape[0], width = attributes.shape[1], s, i, t
    result = numpy.zeros((attributes.shape[0], n_templates), dtype="uint64")
    cdef uint64_t[:, ::1] out = result
    if not attributes.shape[0] or not n_templates:
        return result
    with nogil:
        for s in range(starts.shape[0] - 1):
            for i in range(starts[s], starts[s + 1]):
                for t in range(n_templates):
                    out[i, t] = template_key(
                        &attributes[0, 0], width, &templates[t, 0], numbers[t],
                        i, starts[s], starts[s + 1],
                    )
    return result


def index_keys(const uint64_t[::1] keys not None):
    """Number the distinct keys in order of first occurrence.

    keys (ndarray): uint64, feature keys; 0 means none.
    RETURNS (Tuple[ndarray, ndarray]): int32, the number of every key (-1 for none), and uint64,
        the distinct keys.
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
        where = (keys[i] >> 7) & mask
        while slot[where] >= 0 and distinct[slot[where]] != keys[i]:
            where = (where + 1) & mask
        if slot[where] < 0:
            if count == capacity // 2:
                capacity *= 4
                found = numpy.concatenate([found, numpy.empty(capacity // 2 - count, "uint64")])
                slots = numpy.full(capacity, -1, dtype="int32")
                distinct, slot, mask = found, slots, capacity - 1
                for j in range(count):
                    where = (distinct[j] >> 7) & mask
                    while slot[where] >= 0:
                        where = (where + 1) & mask
                    slot[where] = <int32_t>j
                where = (keys[i] >> 7) & mask
                while slot[where] >= 0:
                    where = (where + 1) & mask
            slot[where] = <int32_t>count
            distinct[count] = keys[i]
            count += 1
        out[i] = slot[where]
    return ids, found[:count].copy()


SLOT = numpy.dtype([("key", "u8"), ("start", "i4"), ("end", "i4")])


def hash_table(
    const uint64_t[::1] keys not None, const int32_t[::1] row_starts not None,
    const int32_t[::1] row_ends not None,
):
    """An open-addressing table from key to row, at most half full.

    keys (ndarray): uint64, distinct keys, none of them 0.
    row_starts, row_ends (ndarray): int32, where the row of each key starts and ends.
    RETURNS (ndarray): The slots; key 0 is free.
    """
    cdef Py_ssize_t n = keys.shape[0], capacity = 16, i
    while capacity < 2 * n:
        capacity *= 2
    slots = numpy.zeros(capacity, dtype=SLOT)
    cdef Slot[::1] out = slots
    cdef uint64_t mask = capacity - 1, where
    with nogil:
        for i in range(n):
            where = (keys[i] >> 7) & mask
            while out[where].key != 0:
                where = (where + 1) & mask
            out[where].key = keys[i]
            out[where].start = row_starts[i]
            out[where].end = row_ends[i]
    return slots


def weight_rows(
    const int32_t[:, ::1] ids not None, const int32_t[::1] gold not None, Py_ssize_t n_features,
    int cutoff, const int32_t[::1] part_starts not None, const int32_t[::1] class_parts not None,
    Py_ssize_t n_parts,
):
    """The rows of weights: a feature seen often enough gets one for every part it was seen with.

    ids (ndarray): int32, features of tokens, -1 for none.
    gold (ndarray): int32, the class of each token, -1 where it is not known.
    n_features (int): The number of features.
    cutoff (int): Features of fewer tokens get no weights.
    part_starts (ndarray): int32, where the parts of each class start in `class_parts`.
    class_parts (ndarray): int32, the parts of the classes, one class after the other.
    n_parts (int): The number of parts.
    RETURNS (Tuple[ndarray, ndarray]): int32, where rows start, and uint16, the parts in them.
    """
    cdef Py_ssize_t n = ids.shape[0], width = ids.shape[1], i, j, k, f, total = 0
    cdef int32_t c
    # counting sort of the gold classes by feature
    begins = numpy.zeros(n_features + 1, dtype="int64")
    cdef Py_ssize_t[::1] begin = begins
    for i in range(n):
        if gold[i] >= 0:
            for j in range(width):
                if ids[i, j] >= 0:
                    begin[ids[i, j] + 1] += 1
    for f in range(n_features):
        begin[f + 1] += begin[f]
    cdef Py_ssize_t[::1] cursor = begins.copy()
    cdef uint16_t[::1] classes = numpy.empty(max(1, begin[n_features]), dtype="uint16")
    for i in range(n):
        if gold[i] >= 0:
            for j in range(width):
                f = ids[i, j]
                if f >= 0:
                    classes[cursor[f]] = <uint16_t>gold[i]
                    cursor[f] += 1
    starts = numpy.zeros(n_features + 1, dtype="int32")
    parts = numpy.empty(1024, dtype="uint16")
    cdef int32_t[::1] row_starts = starts
    cdef int32_t[::1] stamp = numpy.full(n_parts, -1, dtype="int32")
    cdef uint16_t[::1] out = parts
    for f in range(n_features):
        row_starts[f] = <int32_t>total
        if begin[f + 1] - begin[f] >= cutoff:
            for k in range(begin[f], begin[f + 1]):
                c = classes[k]
                for j in range(part_starts[c], part_starts[c + 1]):
                    if stamp[class_parts[j]] != f:
                        stamp[class_parts[j]] = <int32_t>f
                        if total == out.shape[0]:
                            parts = numpy.concatenate([parts, numpy.empty_like(parts)])
                            out = parts
                        out[total] = <uint16_t>class_parts[j]
                        total += 1
    row_starts[n_features] = <int32_t>total
    return starts, parts[:total].copy()


def kept_ids(
    const int32_t[:, ::1] ids not None, const int32_t[::1] columns not None,
    const int32_t[::1] new_ids not None,
):
    """The features that are left of each token, as rows under new numbers.

    ids (ndarray): int32, features of tokens, -1 for none.
    columns (ndarray): int32, which columns of `ids`.
    new_ids (ndarray): int32, the new number of each feature, -1 if it is left out.
    RETURNS (Tuple[ndarray, ndarray]): int32, where rows start, and the features in them.
    """
    cdef Py_ssize_t n = ids.shape[0], i, j, total = 0
    cdef int32_t f
    row_starts = numpy.zeros(n + 1, dtype="int32")
    kept = numpy.empty(n * columns.shape[0] + 1, dtype="int32")
    cdef int32_t[::1] starts = row_starts, out = kept
    with nogil:
        for i in range(n):
            for j in range(columns.shape[0]):
                f = ids[i, columns[j]]
                if f >= 0 and new_ids[f] >= 0:
                    out[total] = new_ids[f]
                    total += 1
            starts[i + 1] = <int32_t>total
    return row_starts, kept
