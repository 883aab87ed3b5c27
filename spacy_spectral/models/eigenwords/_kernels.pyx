# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Counting over bytes which words follow which.

The tables are open-addressing hashes that only grow with the number of *distinct* keys, so memory is bounded by
the vocabulary and not by the corpus or its lines. Blocks handed to `add` must not end inside of a chunk.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

import numpy

from ...base._prefetch cimport FETCH
from ...base._random cimport mix64


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == 32 or (9 <= c <= 13)


cdef inline uint64_t hash_bytes(const uint8_t* text, int64_t length) noexcept nogil:
    cdef uint64_t code = <uint64_t>0xcbf29ce484222325
    cdef int64_t i
    for i in range(length):
        code = (code ^ text[i]) * <uint64_t>0x100000001b3
    return mix64(code)


cdef enum:
    LINE_SIZE = 1 << 12


cdef class PairCounter:
    """How often word b follows word a at distance 1, 2, .. window within a line.

    The key of (distance, a, b) is ((distance - 1) * n_words + a) * n_words + b. Every line stands between two boundary
    symbols, which are the last word of the vocabulary. A line may come in any number of blocks; `end_line` ends the last.
    """

    cdef int32_t[::1] slots         # of chunks: number + 1, 0 for a free slot
    cdef uint64_t[::1] hashes
    cdef const int64_t[::1] offsets # chunk i is text[offsets[i] : offsets[i + 1]]
    cdef const uint8_t[::1] text
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] ids
    cdef int64_t n_words, window, used, filled
    cdef uint64_t[:, ::1] keys      # key + 1, 0 for a free slot; the count is beside it: one cache line per update
    cdef int32_t line[LINE_SIZE]  # the boundary or earlier words, and the words whose pairs are not all counted
    cdef readonly int64_t n_tokens

    def __cinit__(
        self, chunks, const int64_t[::1] starts not None, const int32_t[::1] ids not None,
        int64_t n_words, int64_t window,
    ):
        cdef int64_t i, slot
        if starts.shape[0] != len(chunks) + 1 or starts[0] != 0 or starts[len(chunks)] != ids.shape[0]:
            raise ValueError("starts do not fit the chunks")
        for i in range(len(chunks)):
            if starts[i] > starts[i + 1]:
                raise ValueError("starts must not fall")
        if not 1 <= window < LINE_SIZE:
            raise ValueError("window too large")
        for i in range(ids.shape[0]):
            if not 0 <= ids[i] < n_words:
                raise ValueError("id outside of the vocabulary")
        self.text = b"".join(chunks)
        self.offsets = numpy.cumsum([0, *map(len, chunks)], dtype="int64")
        self.slots = numpy.zeros(1 << (2 * len(chunks) + 1).bit_length(), dtype="int32")
        self.hashes = numpy.zeros(len(chunks), dtype="uint64")
        for i in range(len(chunks)):
            slot = self.slot_of(&self.text[self.offsets[i]], self.offsets[i + 1] - self.offsets[i])
            if self.slots[slot]:
                raise ValueError("chunks must be distinct")
            self.slots[slot] = <int32_t>(i + 1)
            self.hashes[i] = hash_bytes(&self.text[self.offsets[i]], self.offsets[i + 1] - self.offsets[i])
        self.starts = starts
        self.ids = ids
        self.n_words = n_words
        self.window = window
        self.n_tokens = 0
        self.used = 0
        self.line[0] = <int32_t>(n_words - 1)
        self.filled = 1
        self.keys = numpy.zeros((1 << 16, 2), dtype="uint64")

    cdef inline int64_t slot_of(self, const uint8_t* text, int64_t length) noexcept nogil:
        """The slot that holds a chunk, or the free slot where it belongs."""
        cdef uint64_t code = hash_bytes(text, length)
        cdef int64_t mask = self.slots.shape[0] - 1, number
        cdef int64_t slot = <int64_t>(code & <uint64_t>mask)
        while self.slots[slot]:
            number = self.slots[slot] - 1
            if (
                self.hashes[number] == code
                and self.offsets[number + 1] - self.offsets[number] == length
                and memcmp(&self.text[self.offsets[number]], text, length) == 0
            ):
                return slot
            slot = (slot + 1) & mask
        return slot

    cdef inline uint64_t* find(self, uint64_t key) noexcept nogil:
        cdef uint64_t mask = <uint64_t>self.keys.shape[0] - 1
        cdef uint64_t slot = mix64(key) & mask
        while self.keys[slot, 0] and self.keys[slot, 0] != key:
            slot = (slot + 1) & mask
        return &self.keys[slot, 0]

    cdef int reserve(self, int64_t n_new) except -1 nogil:
        """Keep the table at most 60 % full with this many more keys."""
        cdef int64_t i, n_slots = self.keys.shape[0]
        cdef uint64_t[:, ::1] old = self.keys
        cdef uint64_t* found
        while (self.used + n_new) * 10 > n_slots * 6:
            n_slots *= 2
        if n_slots == old.shape[0]:
            return 0
        with gil:
            self.keys = numpy.zeros((n_slots, 2), dtype="uint64")
        for i in range(old.shape[0]):
            if old[i, 0]:
                found = self.find(old[i, 0])
                found[0] = old[i, 0]
                found[1] = old[i, 1]
        return 0

    cdef int count(self, int64_t n_left) except -1 nogil:
        """Count the pairs whose left word is one of the first `n_left` of self.line."""
        cdef int64_t i, d, last, length = self.filled
        cdef uint64_t n = <uint64_t>self.n_words
        cdef uint64_t mask, key
        cdef uint64_t* found
        self.reserve(n_left * self.window)
        mask = <uint64_t>self.keys.shape[0] - 1
        for i in range(n_left + 8):
            # the slots of a token are fetched eight tokens before they are needed
            if i < n_left:
                last = min(self.window, length - 1 - i)
                for d in range(last):
                    key = (<uint64_t>d * n + <uint64_t>self.line[i]) * n + <uint64_t>self.line[i + d + 1] + 1
                    FETCH(&self.keys[mix64(key) & mask, 0])
            if 8 <= i:
                last = min(self.window, length - 1 - (i - 8))
                for d in range(last):
                    key = (<uint64_t>d * n + <uint64_t>self.line[i - 8]) * n + <uint64_t>self.line[i - 8 + d + 1] + 1
                    found = self.find(key)
                    if not found[0]:
                        found[0] = key
                        self.used += 1
                    found[1] += 1
        return 0

    cdef inline int push(self, int32_t word) except -1 nogil:
        cdef int64_t i
        if self.filled == LINE_SIZE:
            # the last words wait for what follows them
            self.count(LINE_SIZE - self.window)
            for i in range(self.window):
                self.line[i] = self.line[LINE_SIZE - self.window + i]
            self.filled = self.window
        self.line[self.filled] = word
        self.filled += 1
        return 0

    cdef int finish_line(self) except -1 nogil:
        if self.filled > 1:
            self.push(<int32_t>(self.n_words - 1))
            self.count(self.filled - 1)
        self.line[0] = <int32_t>(self.n_words - 1)
        self.filled = 1
        return 0

    def end_line(self):
        """What is added next begins a line."""
        self.finish_line()

    def add(self, const uint8_t[::1] block not None):
        """Count the pairs of a block. False if a chunk was met that the vocabulary does not know:
        counting stopped there."""
        cdef int64_t start = 0, end, slot, number, i, length = block.shape[0]
        cdef bint complete = True
        if length == 0:
            return True
        cdef const uint8_t* text = &block[0]
        with nogil:
            while start < length:
                if is_space(text[start]):
                    if text[start] == 10:
                        self.finish_line()
                    start += 1
                    continue
                end = start + 1
                while end < length and not is_space(text[end]):
                    end += 1
                slot = self.slot_of(text + start, end - start)
                if not self.slots[slot]:
                    complete = False
                    break
                number = self.slots[slot] - 1
                for i in range(self.starts[number], self.starts[number + 1]):
                    self.push(self.ids[i])
                self.n_tokens += self.starts[number + 1] - self.starts[number]
                start = end
        return complete

    def __len__(self):
        return self.used

    def __sizeof__(self):
        return sizeof(self.line) + 2 * self.keys.shape[0] * sizeof(uint64_t)

    def export(self):
        """RETURNS (Tuple[ndarray, ndarray]): The keys in order, and their counts."""
        table = numpy.asarray(self.keys)
        table = table[table[:, 0] > 0]
        table = table[numpy.argsort(table[:, 0])]
        return table[:, 0] - 1, table[:, 1].astype("int64")
