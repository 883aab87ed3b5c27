# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Counting over bytes: how often each whitespace-separated chunk occurs, then which words follow which.

Both tables are open-addressing hashes that only grow with the number of *distinct* keys, so memory is bounded by
the vocabulary and not by the corpus or its lines. Blocks handed to `add` must not end inside of a chunk.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

from ...base._prefetch cimport FETCH
from ...base._random cimport mix64


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == 32 or (9 <= c <= 13)


cdef class ChunkTable:
    """Distinct byte strings, numbered in the order in which they were first seen."""

    cdef int64_t size, capacity, n_slots, arena_size, arena_capacity
    cdef int32_t* slots        # number + 1, 0 for a free slot
    cdef uint64_t* hashes
    cdef int64_t* offsets      # size + 1 of them: string i is arena[offsets[i]:offsets[i + 1]]
    cdef int64_t* counts
    cdef uint8_t* arena

    def __cinit__(self):
        self.size = 0
        self.capacity = 1 << 12
        self.n_slots = 1 << 13
        self.arena_size = 0
        self.arena_capacity = 1 << 16
        self.slots = <int32_t*>calloc(self.n_slots, sizeof(int32_t))
        self.hashes = <uint64_t*>malloc(self.capacity * sizeof(uint64_t))
        self.offsets = <int64_t*>malloc((self.capacity + 1) * sizeof(int64_t))
        self.counts = <int64_t*>malloc(self.capacity * sizeof(int64_t))
        self.arena = <uint8_t*>malloc(self.arena_capacity)
        if not (self.slots and self.hashes and self.offsets and self.counts and self.arena):
            raise MemoryError
        self.offsets[0] = 0

    def __dealloc__(self):
        free(self.slots)
        free(self.hashes)
        free(self.offsets)
        free(self.counts)
        free(self.arena)

    cdef inline int64_t slot_of(self, const uint8_t* text, int64_t length, uint64_t code) noexcept nogil:
        """The slot that holds the string, or the free slot where it belongs."""
        cdef int64_t mask = self.n_slots - 1
        cdef int64_t slot = <int64_t>(code & <uint64_t>mask)
        cdef int64_t number
        while self.slots[slot]:
            number = self.slots[slot] - 1
            if (
                self.hashes[number] == code
                and self.offsets[number + 1] - self.offsets[number] == length
                and memcmp(self.arena + self.offsets[number], text, length) == 0
            ):
                return slot
            slot = (slot + 1) & mask
        return slot

    cdef int grow(self, int64_t length) except -1 nogil:
        """Make room for one more string of this length."""
        cdef int64_t i, slot, n_slots
        cdef void* block
        cdef int32_t* slots
        while self.arena_size + length > self.arena_capacity:
            block = realloc(self.arena, self.arena_capacity * 2)
            if not block:
                with gil:
                    raise MemoryError
            self.arena = <uint8_t*>block
            self.arena_capacity *= 2
        if self.size < self.capacity:
            return 0
        block = realloc(self.hashes, 2 * self.capacity * sizeof(uint64_t))
        if block:
            self.hashes = <uint64_t*>block
            block = realloc(self.offsets, (2 * self.capacity + 1) * sizeof(int64_t))
        if block:
            self.offsets = <int64_t*>block
            block = realloc(self.counts, 2 * self.capacity * sizeof(int64_t))
        if block:
            self.counts = <int64_t*>block
            block = calloc(2 * self.n_slots, sizeof(int32_t))
        if not block:
            with gil:
                raise MemoryError
        slots = <int32_t*>block
        n_slots = 2 * self.n_slots
        for i in range(self.size):
            slot = <int64_t>(self.hashes[i] & <uint64_t>(n_slots - 1))
            while slots[slot]:
                slot = (slot + 1) & (n_slots - 1)
            slots[slot] = <int32_t>(i + 1)
        free(self.slots)
        self.slots = slots
        self.n_slots = n_slots
        self.capacity *= 2
        return 0

    cdef int insert(self, const uint8_t* text, int64_t length, uint64_t code, int64_t count) except -1 nogil:
        """Add to the count of a string, which is new or known."""
        cdef int64_t slot = self.slot_of(text, length, code)
        if self.slots[slot]:
            self.counts[self.slots[slot] - 1] += count
            return 0
        if self.arena_size + length > self.arena_capacity or self.size == self.capacity:
            self.grow(length)
            slot = self.slot_of(text, length, code)
        memcpy(self.arena + self.arena_size, text, length)
        self.hashes[self.size] = code
        self.counts[self.size] = count
        self.arena_size += length
        self.offsets[self.size + 1] = self.arena_size
        self.size += 1
        self.slots[slot] = <int32_t>self.size
        return 0


cdef inline uint64_t hash_bytes(const uint8_t* text, int64_t length) noexcept nogil:
    cdef uint64_t code = <uint64_t>0xcbf29ce484222325
    cdef int64_t i
    for i in range(length):
        code = (code ^ text[i]) * <uint64_t>0x100000001b3
    return mix64(code)


cdef class ChunkCounter:
    """How often each whitespace-separated chunk of bytes occurs."""

    cdef ChunkTable table

    def __cinit__(self):
        self.table = ChunkTable()

    def add(self, const uint8_t[::1] block not None):
        """Count the chunks of a block."""
        cdef int64_t start = 0, end, length = block.shape[0]
        if length == 0:
            return
        cdef const uint8_t* text = &block[0]
        with nogil:
            while start < length:
                if is_space(text[start]):
                    start += 1
                    continue
                end = start + 1
                while end < length and not is_space(text[end]):
                    end += 1
                self.table.insert(text + start, end - start, hash_bytes(text + start, end - start), 1)
                start = end

    def chunks(self):
        """RETURNS (List[Tuple[bytes, int]]): Every chunk with its count."""
        cdef ChunkTable table = self.table
        cdef int64_t i
        return [
            ((<char*>table.arena)[table.offsets[i] : table.offsets[i + 1]], table.counts[i])
            for i in range(table.size)
        ]


cdef enum:
    LINE_SIZE = 1 << 12


cdef class PairCounter:
    """How often word b follows word a at distance 1, 2, .. window within a line.

    The key of (distance, a, b) is ((distance - 1) * n_words + a) * n_words + b. Every line stands between two boundary
    symbols, which are the last word of the vocabulary. A line may come in any number of blocks; `end_line` ends the last.
    """

    cdef ChunkTable table
    cdef const int64_t[::1] starts
    cdef const int32_t[::1] ids
    cdef int64_t n_words, window, n_slots, used, filled
    cdef uint64_t* keys       # key + 1, 0 for a free slot; the count is beside it: one cache line per update
    cdef int32_t line[LINE_SIZE]  # the boundary or earlier words, and the words whose pairs are not all counted
    cdef readonly int64_t n_tokens

    def __cinit__(
        self, chunks, const int64_t[::1] starts not None, const int32_t[::1] ids not None,
        int64_t n_words, int64_t window,
    ):
        cdef const uint8_t[::1] chunk
        cdef int64_t i
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
        self.table = ChunkTable()
        for chunk_bytes in chunks:
            chunk = chunk_bytes
            self.table.insert(&chunk[0], chunk.shape[0], hash_bytes(&chunk[0], chunk.shape[0]), 1)
        if self.table.size != len(chunks):
            raise ValueError("chunks must be distinct")
        self.starts = starts
        self.ids = ids
        self.n_words = n_words
        self.window = window
        self.n_tokens = 0
        self.used = 0
        self.n_slots = 1 << 16
        self.line[0] = <int32_t>(n_words - 1)
        self.filled = 1
        self.keys = <uint64_t*>calloc(2 * self.n_slots, sizeof(uint64_t))
        if not self.keys:
            raise MemoryError

    def __dealloc__(self):
        free(self.keys)

    cdef inline uint64_t* find(self, uint64_t key) noexcept nogil:
        cdef uint64_t mask = <uint64_t>self.n_slots - 1
        cdef uint64_t slot = mix64(key) & mask
        while self.keys[2 * slot] and self.keys[2 * slot] != key:
            slot = (slot + 1) & mask
        return self.keys + 2 * slot

    cdef int reserve(self, int64_t n_new) except -1 nogil:
        """Keep the table at most 60 % full with this many more keys."""
        cdef int64_t i, old_slots = self.n_slots
        cdef int64_t n_slots = old_slots
        cdef uint64_t* old = self.keys
        cdef uint64_t* found
        while (self.used + n_new) * 10 > n_slots * 6:
            n_slots *= 2
        if n_slots == old_slots:
            return 0
        self.keys = <uint64_t*>calloc(2 * n_slots, sizeof(uint64_t))
        if not self.keys:
            self.keys = old
            with gil:
                raise MemoryError
        self.n_slots = n_slots
        for i in range(old_slots):
            if old[2 * i]:
                found = self.find(old[2 * i])
                found[0] = old[2 * i]
                found[1] = old[2 * i + 1]
        free(old)
        return 0

    cdef int count(self, int64_t n_left) except -1 nogil:
        """Count the pairs whose left word is one of the first `n_left` of self.line."""
        cdef int64_t i, d, last, length = self.filled
        cdef uint64_t n = <uint64_t>self.n_words
        cdef uint64_t mask, key
        cdef uint64_t* found
        self.reserve(n_left * self.window)
        mask = <uint64_t>self.n_slots - 1
        for i in range(n_left + 8):
            # the slots of a token are fetched eight tokens before they are needed
            if i < n_left:
                last = min(self.window, length - 1 - i)
                for d in range(last):
                    key = (<uint64_t>d * n + <uint64_t>self.line[i]) * n + <uint64_t>self.line[i + d + 1] + 1
                    FETCH(self.keys + 2 * (mix64(key) & mask))
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
        """Count the pairs of a block.

        RETURNS (bool): False if a chunk was met that the vocabulary does not know; counting stopped there.
        """
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
                slot = self.table.slot_of(text + start, end - start, hash_bytes(text + start, end - start))
                if not self.table.slots[slot]:
                    complete = False
                    break
                number = self.table.slots[slot] - 1
                for i in range(self.starts[number], self.starts[number + 1]):
                    self.push(self.ids[i])
                self.n_tokens += self.starts[number + 1] - self.starts[number]
                start = end
        return complete

    def __len__(self):
        return self.used

    def __sizeof__(self):
        return sizeof(self.line) + 2 * self.n_slots * sizeof(uint64_t)

    def export(self, uint64_t[::1] keys not None, int64_t[::1] counts not None):
        """Write the keys and counts, in no particular order, to arrays of len(self)."""
        cdef int64_t i, at = 0
        if keys.shape[0] != self.used or counts.shape[0] != self.used:
            raise ValueError("the arrays must hold len(self) values")
        with nogil:
            for i in range(self.n_slots):
                if self.keys[2 * i]:
                    keys[at] = self.keys[2 * i] - 1
                    counts[at] = <int64_t>self.keys[2 * i + 1]
                    at += 1
