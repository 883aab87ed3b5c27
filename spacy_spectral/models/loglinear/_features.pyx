# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Hashed features. A *composite* joins a few columns of a token and its neighbours into one 64-bit
number, once per token; the key of an arc is then one multiplication of two composites. 0 stands for
"does not apply" (no cluster, no morphology): every key made from it is 0 as well and never looked up.
"""
import numpy

from libc.stdint cimport int32_t, uint8_t, uint64_t

from ...base._linear cimport mix

cpdef enum:
    MAX_PARTS = 4
    NO_CHILD = 7  # stands for a word that is not there


def hash_strings(strings) -> numpy.ndarray:
    """Hash texts to 64 bits (FNV-1a over UTF-8, mixed), never to 0.

    strings (Sequence[str]): The texts.
    RETURNS (numpy.ndarray): One uint64 for each.
    """
    result = numpy.empty(len(strings), dtype=numpy.uint64)
    cdef uint64_t[::1] out = result
    cdef Py_ssize_t i
    cdef uint64_t value
    cdef bytes data
    cdef const unsigned char* text
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
    const Context* context, const uint64_t* columns, int length, uint64_t* out
) noexcept nogil:
    """Composites of positions 0 (the root) to `length` of one sentence."""
    cdef int position, k, part, at, column
    cdef uint64_t value, atom
    cdef const int32_t* parts
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


def fill_children(
    uint64_t[:, ::1] columns not None, const int32_t[::1] starts not None,
    const int32_t[::1] arc_start not None, const int32_t[::1] arc_head not None,
    const float[::1] arc_prob not None, const uint8_t[::1] is_function not None, int word, int left,
    int right,
):
    """Write beside every token the outermost function words that seem to depend on it.

    is_function (uint8[n]): Tokens that hardly ever have modifiers (see `statistics.function_tags`).
    word (int): The column that is copied.
    left, right (int): Columns for the word of the outermost function word on that side whose likeliest
        head is the token; NO_CHILD where there is none.
    """
    cdef int s, start, n, m, a, best
    with nogil:
        for s in range(columns.shape[0]):
            columns[s, left] = columns[s, right] = NO_CHILD
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            for m in range(n, 0, -1):  # the leftmost one is written last
                if not is_function[start + m - 1]:
                    continue
                best = arc_start[start + m - 1]
                for a in range(best + 1, arc_start[start + m]):
                    if arc_prob[a] > arc_prob[best]:
                        best = a
                best = arc_head[best]
                if best == 0:
                    continue
                if best > m:
                    columns[start + best - 1, left] = columns[start + m - 1, word]
                elif columns[start + best - 1, right] == NO_CHILD:
                    columns[start + best - 1, right] = columns[start + m - 1, word]
