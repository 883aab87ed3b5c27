# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What can be seen of strings: of word forms, and of places inside of chunks.

Both are rows of attributes: 32-bit values, 0 for "has none", 1 beyond the ends of a sentence.
"""

from libc.stdint cimport int32_t, uint32_t, uint64_t

from ...base._linear cimport attribute, extend

import numpy

cdef extern from "Python.h":
    Py_UCS4 lower_case "Py_UNICODE_TOLOWER" (Py_UCS4) noexcept nogil  # one character for one

cdef enum:
    MAX_AFFIX = 5
    SHAPE_LENGTH = 6
    GRAMS = 4  # characters on each side that are looked at one by one
    FAR = 8  # places farther from an end than this are all alike

# form, lower-cased form, collapsed shape, full shape, prefixes, suffixes
FORM_COLUMNS = 4 + 2 * MAX_AFFIX
# left and right: n-grams, n-grams of classes, everything, run of one class; then chunk, shape, distances
GRAM_COLUMNS = GRAMS
CHARACTER_COLUMNS = 4 * GRAMS + 8


cdef inline uint32_t char_class(Py_UCS4 char) noexcept:
    """Upper case, other letter, number; any other character is a class of its own."""
    if char.isupper() or char.istitle():
        return 1
    if char.isalpha():
        return 2
    if char.isnumeric():
        return 3
    return <uint32_t>char + 8


def form_attributes(list words):
    """What can be read off word forms alone, one row a word: form, lower-cased form, shape with runs
    collapsed, full shape, then prefixes and suffixes of 1..5 lower-cased characters (0 where the word is
    not longer than the affix)."""
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
            form = extend(form, char)
            kind = char_class(char)
            if kind != last:
                collapsed = extend(collapsed, kind)
            if n < SHAPE_LENGTH:
                shape = extend(shape, kind)
            last = kind
            n += 1
        out[i, 0] = attribute(form)
        out[i, 2] = attribute(collapsed)
        out[i, 3] = attribute(extend(shape, min(n, <Py_ssize_t>SHAPE_LENGTH)))
        form = 7
        n = len(lower)
        for j in range(n):
            form = extend(form, lower[j])
            if j < MAX_AFFIX and j + 1 < n:
                out[i, 4 + j] = attribute(form)
        out[i, 1] = attribute(form)
        form = 11
        for j in range(min(<Py_ssize_t>MAX_AFFIX, n - 1)):
            form = extend(form, lower[n - 1 - j])
            out[i, 4 + MAX_AFFIX + j] = attribute(form)
    return result


cdef inline uint32_t _run_class(uint32_t kind) noexcept nogil:
    """What makes a run: letters of either case."""
    return 2 if kind == 1 else kind


def character_attributes(list chunks):
    """Describe every place between two characters inside of chunks, maximal runs without white space:
    where the rows of chunks start, and the rows, with a last column for decisions. A chunk of n
    characters has n - 1 places.

    The hash of all that is to the left grows by one character from place to place, that of all to the
    right from the end, so a chunk takes time in proportion to its length.
    """
    cdef Py_ssize_t total = 0, longest = 0, n, i, row = 0, c, g, at
    cdef str text
    for text in chunks:
        total += max(len(text) - 1, 0)
        longest = max(longest, len(text))
    starts_array = numpy.zeros(len(chunks) + 1, dtype="int32")
    result = numpy.zeros((total, CHARACTER_COLUMNS + 1), dtype="uint32")
    cdef int32_t[::1] starts = starts_array
    cdef uint32_t[:, ::1] out = result
    # the characters with what is beyond the ends: 0, which is in no chunk, and a class of its own
    cdef uint32_t[::1] chars = numpy.zeros(longest + 2 * GRAMS, dtype="uint32")
    cdef uint32_t[::1] kinds = numpy.full(longest + 2 * GRAMS, 4, dtype="uint32")
    # hashes of everything after a place, and of the run of one class after it
    cdef uint64_t[::1] after = numpy.zeros(longest + 1, dtype="uint64")
    cdef uint64_t[::1] run_after = numpy.zeros(longest + 1, dtype="uint64")
    cdef uint64_t h, k, before, run_before, whole, shape
    for c in range(len(chunks)):
        starts[c] = <int32_t>row
        text = chunks[c]
        n = len(text)
        if n < 2:
            continue
        shape = whole = 7
        for i in range(n):
            at = i + GRAMS
            chars[at] = text[i]
            kinds[at] = char_class(text[i])
            whole = extend(whole, chars[at])
            if kinds[at] != kinds[at - 1]:
                shape = extend(shape, kinds[at])
        for i in range(GRAMS):
            chars[GRAMS + n + i], kinds[GRAMS + n + i] = 0, 4
        after[n] = run_after[n] = 5
        for i in range(n - 1, -1, -1):
            at = i + GRAMS
            after[i] = extend(after[i + 1], chars[at])
            h = run_after[i + 1] if _run_class(kinds[at]) == _run_class(kinds[at + 1]) else 5
            run_after[i] = extend(h, lower_case(chars[at]))
        before = run_before = 3
        for i in range(1, n):
            at = i + GRAMS
            before = extend(before, chars[at - 1])
            if _run_class(kinds[at - 1]) != _run_class(kinds[at - 2]):
                run_before = 3
            run_before = extend(run_before, lower_case(chars[at - 1]))
            h = k = 11
            for g in range(GRAMS):
                h, k = extend(h, chars[at - 1 - g]), extend(k, kinds[at - 1 - g])
                out[row, g], out[row, 2 * GRAMS + g] = attribute(h), attribute(k)
            h = k = 13
            for g in range(GRAMS):
                h, k = extend(h, chars[at + g]), extend(k, kinds[at + g])
                out[row, GRAMS + g], out[row, 3 * GRAMS + g] = attribute(h), attribute(k)
            g = 4 * GRAMS
            out[row, g], out[row, g + 1] = attribute(before), attribute(after[i])
            out[row, g + 2], out[row, g + 3] = attribute(run_before), attribute(run_after[i])
            out[row, g + 4], out[row, g + 5] = attribute(extend(whole, i)), attribute(extend(shape, i))
            out[row, g + 6] = <uint32_t>min(i, <Py_ssize_t>FAR) + 1
            out[row, g + 7] = <uint32_t>min(n - i, <Py_ssize_t>FAR) + 1
            row += 1
    starts[len(chunks)] = <int32_t>row
    return starts_array, result
