# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The hot loops of the tagger: attributes of words, feature keys, training and decoding.

A token is a row of attributes (32-bit values; 0 means "has none"). A template is up to three
(offset, column) cells of that matrix; its key at a token is a hash of the cells' values. A feature
is a kept key, and owns a row of (part, weight) entries. A class is a set of parts, and its score is
the sum of its parts' scores (for tags the parts are tag pair and coarse tag, for morphology the
whole analysis and each Feature=Value of it). The column `out` receives the decoded class of every
token as soon as it is known, so templates that look at `out` to the left see decisions.
"""

from libc.math cimport expf, logf, sqrtf
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define SPECTRAL_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define SPECTRAL_PREFETCH(address) ((void)(address))
    #endif
    """
    void SPECTRAL_PREFETCH(const void* address) noexcept nogil

DEF CELLS = 3
DEF MAX_AFFIX = 5
DEF BOUNDARY = 1
DEF MAX_TEMPLATES = 256

# Columns 0..FORM_COLUMNS-1 of the attribute matrix, see `form_attributes`.
FORM_COLUMNS = 4 + 2 * MAX_AFFIX


cdef struct Table:
    const uint64_t* keys
    const int32_t* ids
    uint64_t mask


# ---------------------------------------------------------------- attributes


cdef inline uint32_t _finish(uint64_t h) noexcept nogil:
    """Fold a 64-bit hash to an attribute value: never 0 (absent) and never the boundary."""
    h ^= h >> 33
    h *= <uint64_t>0xff51afd7ed558ccd
    h ^= h >> 33
    cdef uint32_t value = <uint32_t>h
    return value if value > BOUNDARY else value + 2


cdef inline uint64_t _mix(uint64_t h, uint64_t value) noexcept nogil:
    h = (h ^ value) * <uint64_t>0x9e3779b97f4a7c15
    return h ^ (h >> 29)


def form_attributes(list words):
    """What can be read off word forms, computed once per distinct form.

    words (List[str]): Word forms.
    RETURNS (ndarray[uint32]): One row a word: form, lower-cased form, shape with runs collapsed,
        full shape, then prefixes and suffixes of 1..5 lower-cased characters (0 where the word is
        not longer than the affix).
    """
    result = numpy.zeros((len(words), FORM_COLUMNS), dtype="uint32")
    cdef uint32_t[:, ::1] out = result
    cdef Py_ssize_t i, j, n
    cdef str word, lower
    cdef Py_UCS4 char
    cdef uint64_t form, shape, collapsed, h
    cdef uint32_t kind, last
    for i in range(len(words)):
        word = words[i]
        lower = word.lower()
        form = shape = collapsed = 7
        last = 0
        n = 0
        for char in word:
            form = _mix(form, char)
            if char.isupper() or char.istitle():
                kind = 1
            elif char.isalpha():
                kind = 2
            elif char.isnumeric():
                kind = 3
            else:
                kind = <uint32_t>char + 8
            if kind != last:
                collapsed = _mix(collapsed, kind)
            if n < 6:
                shape = _mix(shape, kind)
            last = kind
            n += 1
        out[i, 0] = _finish(form)
        out[i, 2] = _finish(collapsed)
        out[i, 3] = _finish(_mix(shape, n if n < 6 else 6))
        form = 7
        n = len(lower)
        for j in range(n):
            form = _mix(form, lower[j])
            if j < MAX_AFFIX and j + 1 < n:
                out[i, 4 + j] = _finish(form)
        out[i, 1] = _finish(form)
        h = 11
        for j in range(min(<Py_ssize_t>MAX_AFFIX, n - 1)):
            h = _mix(h, lower[n - 1 - j])
            out[i, 4 + MAX_AFFIX + j] = _finish(h)
    return result


# ---------------------------------------------------------------- feature keys


cdef inline uint64_t _key(
    const uint32_t* attributes, Py_ssize_t width, const int32_t* template, int number,
    Py_ssize_t i, Py_ssize_t start, Py_ssize_t end,
) noexcept nogil:
    """The key of a template at token i of the sentence [start, end); 0 if a cell is empty."""
    cdef uint64_t h = <uint64_t>(number + 1) * <uint64_t>0xc2b2ae3d27d4eb4f
    cdef uint32_t value
    cdef Py_ssize_t j
    cdef int cell
    for cell in range(CELLS):
        if template[2 * cell + 1] < 0:
            break
        j = i + template[2 * cell]
        if j < start or j >= end:
            value = BOUNDARY
        else:
            value = attributes[j * width + template[2 * cell + 1]]
            if value == 0:
                return 0
        h = (h ^ value) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 32
    return h if h != 0 else 1


def feature_keys(
    const uint32_t[:, ::1] attributes, const int32_t[::1] starts, const int32_t[:, ::1] templates,
    int first,
):
    """Keys of templates at every token.

    attributes (ndarray[uint32]): One row a token.
    starts (ndarray[int32]): Where sentences start, closed by the number of tokens.
    templates (ndarray[int32]): Rows of (offset, column) cells, column -1 where unused.
    first (int): The number of the first template (its number is part of the key).
    RETURNS (ndarray[uint64]): One row a token, one column a template; 0 means no feature.
    """
    cdef Py_ssize_t n_templates = templates.shape[0], width = attributes.shape[1]
    result = numpy.zeros((attributes.shape[0], n_templates), dtype="uint64")
    cdef uint64_t[:, ::1] out = result
    cdef Py_ssize_t s, i, t
    if not attributes.shape[0] or not n_templates:
        return result
    with nogil:
        for s in range(starts.shape[0] - 1):
            for i in range(starts[s], starts[s + 1]):
                for t in range(n_templates):
                    out[i, t] = _key(
                        &attributes[0, 0], width, &templates[t, 0], first + <int>t,
                        i, starts[s], starts[s + 1],
                    )
    return result


def index_keys(const uint64_t[::1] keys):
    """Number the distinct keys in order of first occurrence.

    keys (ndarray[uint64]): Feature keys; 0 means none.
    RETURNS (Tuple[ndarray[int32], ndarray[uint64]]): The number of every key (-1 for none), and
        the distinct keys.
    """
    cdef Py_ssize_t n = keys.shape[0], capacity = 1024, count = 0, i, j
    ids = numpy.empty(n, dtype="int32")
    cdef int32_t[::1] out = ids
    found = numpy.empty(capacity // 2, dtype="uint64")
    slots = numpy.full(capacity, -1, dtype="int32")
    cdef uint64_t[::1] distinct = found
    cdef int32_t[::1] slot = slots
    cdef uint64_t mask = capacity - 1
    cdef uint64_t where
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


def hash_table(const uint64_t[::1] keys):
    """An open-addressing table from key to its position, at most half full.

    keys (ndarray[uint64]): Distinct keys, none 0.
    RETURNS (Tuple[ndarray[uint64], ndarray[int32]]): Slots of keys (0 is free) and of positions.
    """
    cdef Py_ssize_t n = keys.shape[0], capacity = 16, i
    while capacity < 2 * n:
        capacity *= 2
    slot_keys = numpy.zeros(capacity, dtype="uint64")
    slot_ids = numpy.full(capacity, -1, dtype="int32")
    cdef uint64_t[::1] out_keys = slot_keys
    cdef int32_t[::1] out_ids = slot_ids
    cdef uint64_t mask = capacity - 1, where
    with nogil:
        for i in range(n):
            where = (keys[i] >> 7) & mask
            while out_keys[where] != 0:
                where = (where + 1) & mask
            out_keys[where] = keys[i]
            out_ids[where] = <int32_t>i
    return slot_keys, slot_ids


cdef inline int32_t _find(Table* table, uint64_t key) noexcept nogil:
    cdef uint64_t where = (key >> 7) & table.mask
    while table.keys[where] != key:
        if table.keys[where] == 0:
            return -1
        where = (where + 1) & table.mask
    return table.ids[where]


# ---------------------------------------------------------------- which weights exist


def weight_rows(
    const int32_t[:, ::1] ids, const int32_t[::1] gold, Py_ssize_t n_features, int cutoff,
    const int32_t[::1] part_starts, const int32_t[::1] class_parts, Py_ssize_t n_parts,
):
    """The rows of weights: a feature seen often enough gets one for every part it was seen with.

    ids (ndarray[int32]): Features of tokens, -1 for none.
    gold (ndarray[int32]): The class of each token, -1 where it is not known.
    n_features (int): The number of features.
    cutoff (int): Features of fewer tokens get no weights.
    part_starts (ndarray[int32]): Where the parts of each class start in `class_parts`.
    class_parts (ndarray[int32]): The parts of the classes, one class after the other.
    n_parts (int): The number of parts.
    RETURNS (Tuple[ndarray[int32], ndarray[uint16]]): Where rows start, and the parts in them.
    """
    cdef Py_ssize_t n = ids.shape[0], width = ids.shape[1], i, j, k, f, total = 0
    seen_in = numpy.zeros(n_features + 1, dtype="int32")
    cdef int32_t[::1] begin = seen_in
    cdef int32_t[::1] tokens
    starts = numpy.zeros(n_features + 1, dtype="int32")
    cdef int32_t[::1] row_starts = starts
    stamps = numpy.full(n_parts, -1, dtype="int32")
    cdef int32_t[::1] stamp = stamps
    cdef uint16_t[::1] out
    cdef int32_t f_begin, c
    for i in range(n):
        if gold[i] >= 0:
            for j in range(width):
                if ids[i, j] >= 0:
                    begin[ids[i, j] + 1] += 1
    for f in range(n_features):
        begin[f + 1] += begin[f]
    cursor = seen_in.copy()
    cdef int32_t[::1] next_free = cursor
    order = numpy.empty(max(1, begin[n_features]), dtype="int32")
    tokens = order
    for i in range(n):
        if gold[i] >= 0:
            for j in range(width):
                f = ids[i, j]
                if f >= 0:
                    tokens[next_free[f]] = gold[i]
                    next_free[f] += 1
    parts = numpy.empty(1024, dtype="uint16")
    out = parts
    for f in range(n_features):
        row_starts[f] = <int32_t>total
        if begin[f + 1] - begin[f] < cutoff:
            continue
        for k in range(begin[f], begin[f + 1]):
            c = tokens[k]
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


# ---------------------------------------------------------------- scores


cdef struct Classes:
    const int32_t* part_starts
    const int32_t* parts
    const int32_t* group_starts
    const int32_t* group_members
    Py_ssize_t n_parts


cdef inline void _class_scores(
    Classes* classes, int group, const float* part_scores, float* scores
) noexcept nogil:
    """Scores of the classes that are candidates in a group: sums of their parts' scores."""
    cdef Py_ssize_t m, k
    cdef int32_t c
    cdef float total
    for m in range(classes.group_starts[group], classes.group_starts[group + 1]):
        c = classes.group_members[m]
        total = 0
        for k in range(classes.part_starts[c], classes.part_starts[c + 1]):
            total += part_scores[classes.parts[k]]
        scores[m - classes.group_starts[group]] = total


cdef inline float _softmax(float* scores, Py_ssize_t n, Py_ssize_t* best) noexcept nogil:
    """Turn scores into probabilities; the first of equals is best."""
    cdef Py_ssize_t m, top = 0
    cdef float total = 0, highest
    for m in range(1, n):
        if scores[m] > scores[top]:
            top = m
    highest = scores[top]
    for m in range(n):
        scores[m] = expf(scores[m] - highest)
        total += scores[m]
    for m in range(n):
        scores[m] /= total
    best[0] = top
    return total


def train_epoch(
    uint32_t[:, ::1] attributes, const int32_t[::1] starts, const int32_t[::1] order,
    const int32_t[:, ::1] static_ids, const int32_t[:, ::1] templates, int first, int out_column,
    const uint64_t[::1] slot_keys, const int32_t[::1] slot_ids,
    const int32_t[::1] row_starts, const uint16_t[::1] row_parts, float[:, ::1] state,
    const int32_t[::1] part_starts, const int32_t[::1] class_parts, Py_ssize_t n_parts,
    const int32_t[::1] groups, const int32_t[::1] group_starts, const int32_t[::1] group_members,
    const int32_t[::1] gold, float rate, float ignore, float time, float time_step,
):
    """One pass of AdaGrad over the sentences for the conditional log-likelihood.

    `state` holds for every weight its value, its sum of squared gradients and the time-weighted
    sum of its changes, so that the averaged weight is value - sum when time has run from 0 to 1.
    Gradients below `ignore` are dropped: they are most of the work and hardly any of the change.
    RETURNS (Tuple[float, int, int]): The negative log-likelihood, right decisions, decisions.
    """
    cdef Py_ssize_t n_static = static_ids.shape[1], n_dynamic = templates.shape[0]
    cdef Py_ssize_t width = attributes.shape[1]
    cdef Py_ssize_t s, q, i, j, k, m, n_ids, size, best, g0, largest = 0, decided = 0, right = 0
    cdef double loss = 0
    cdef int32_t f, gold_class
    cdef float g, change, p_gold
    cdef bint has_gradient
    cdef Table table
    table.keys, table.ids, table.mask = &slot_keys[0], &slot_ids[0], slot_keys.shape[0] - 1
    cdef Classes classes
    classes.part_starts, classes.parts = &part_starts[0], &class_parts[0]
    classes.group_starts, classes.group_members = &group_starts[0], &group_members[0]
    classes.n_parts = n_parts
    for m in range(group_starts.shape[0] - 1):
        largest = max(largest, <Py_ssize_t>(group_starts[m + 1] - group_starts[m]))
    cdef int32_t* ids = <int32_t*>malloc((n_static + n_dynamic + 1) * sizeof(int32_t))
    cdef float* part_scores = <float*>malloc((n_parts + 1) * sizeof(float))
    cdef float* scores = <float*>malloc((largest + 1) * sizeof(float))
    if ids == NULL or part_scores == NULL or scores == NULL:
        free(ids)
        free(part_scores)
        free(scores)
        raise MemoryError()
    with nogil:
        for q in range(order.shape[0]):
            s = order[q]
            for i in range(starts[s], starts[s + 1]):
                time += time_step
                n_ids = 0
                for j in range(n_static):
                    f = static_ids[i, j]
                    if f >= 0 and row_starts[f] < row_starts[f + 1]:
                        SPECTRAL_PREFETCH(&state[row_starts[f], 0])
                        ids[n_ids] = f
                        n_ids += 1
                for j in range(n_dynamic):
                    f = _find(&table, _key(&attributes[0, 0], width, &templates[j, 0],
                                           first + <int>j, i, starts[s], starts[s + 1]))
                    if f >= 0 and row_starts[f] < row_starts[f + 1]:
                        SPECTRAL_PREFETCH(&state[row_starts[f], 0])
                        ids[n_ids] = f
                        n_ids += 1
                for k in range(n_parts):
                    part_scores[k] = 0
                for j in range(n_ids):
                    for k in range(row_starts[ids[j]], row_starts[ids[j] + 1]):
                        part_scores[row_parts[k]] += state[k, 0]
                g0 = group_starts[groups[i]]
                size = group_starts[groups[i] + 1] - g0
                if size == 0:
                    continue
                _class_scores(&classes, groups[i], part_scores, scores)
                _softmax(scores, size, &best)
                attributes[i, out_column] = <uint32_t>group_members[g0 + best] + 2
                gold_class = gold[i]
                if gold_class < 0:
                    continue
                decided += 1
                right += group_members[g0 + best] == gold_class
                # gradient of the loss by part: expected count under the model minus gold count
                for k in range(n_parts):
                    part_scores[k] = 0
                p_gold = 0
                has_gradient = False
                for m in range(size):
                    g = scores[m]
                    if group_members[g0 + m] == gold_class:
                        p_gold = g
                        g -= 1
                    if g > ignore or g < -ignore:
                        has_gradient = True
                        for k in range(part_starts[group_members[g0 + m]],
                                       part_starts[group_members[g0 + m] + 1]):
                            part_scores[class_parts[k]] += g
                loss -= logf(p_gold + 1e-30)
                if not has_gradient:
                    continue
                for j in range(n_ids):
                    for k in range(row_starts[ids[j]], row_starts[ids[j] + 1]):
                        g = part_scores[row_parts[k]]
                        if g != 0:
                            state[k, 1] += g * g
                            change = -rate * g / sqrtf(state[k, 1])
                            state[k, 0] += change
                            state[k, 2] += time * change
    free(ids)
    free(part_scores)
    free(scores)
    return loss, right, decided


def decode(
    uint32_t[:, ::1] attributes, const int32_t[::1] starts,
    const int32_t[:, ::1] templates, int out_column,
    const uint64_t[::1] slot_keys, const int32_t[::1] slot_ids,
    const int32_t[::1] row_starts, const uint16_t[::1] row_parts, const float[::1] weights,
    const int32_t[::1] part_starts, const int32_t[::1] class_parts, Py_ssize_t n_parts,
    const int32_t[::1] groups, const int32_t[::1] group_starts, const int32_t[::1] group_members,
    int top,
):
    """Decide greedily from left to right.

    RETURNS (Tuple[ndarray[int32], ndarray[float32]]): The `top` most probable classes of every
        token (-1 where there are fewer candidates), best first, and their probabilities.
    """
    cdef Py_ssize_t n_templates = templates.shape[0], width = attributes.shape[1]
    cdef Py_ssize_t s, i, j, k, m, n_ids, size, best, g0, largest = 0
    cdef int32_t f
    cdef int32_t row
    cdef uint64_t key
    cdef Table table
    best_classes = numpy.full((attributes.shape[0], top), -1, dtype="int32")
    best_probs = numpy.zeros((attributes.shape[0], top), dtype="float32")
    cdef int32_t[:, ::1] out_classes = best_classes
    cdef float[:, ::1] out_probs = best_probs
    if not attributes.shape[0]:
        return best_classes, best_probs
    table.keys, table.ids, table.mask = &slot_keys[0], &slot_ids[0], slot_keys.shape[0] - 1
    cdef Classes classes
    classes.part_starts, classes.parts = &part_starts[0], &class_parts[0]
    classes.group_starts, classes.group_members = &group_starts[0], &group_members[0]
    classes.n_parts = n_parts
    for m in range(group_starts.shape[0] - 1):
        largest = max(largest, <Py_ssize_t>(group_starts[m + 1] - group_starts[m]))
    cdef uint64_t* keys = <uint64_t*>malloc((n_templates + 1) * sizeof(uint64_t))
    cdef int32_t* ids = <int32_t*>malloc((n_templates + 1) * sizeof(int32_t))
    cdef float* part_scores = <float*>malloc((n_parts + 1) * sizeof(float))
    cdef float* scores = <float*>malloc((largest + 1) * sizeof(float))
    if ids == NULL or keys == NULL or part_scores == NULL or scores == NULL:
        free(keys)
        free(ids)
        free(part_scores)
        free(scores)
        raise MemoryError()
    with nogil:
        for s in range(starts.shape[0] - 1):
            for i in range(starts[s], starts[s + 1]):
                g0 = group_starts[groups[i]]
                size = group_starts[groups[i] + 1] - g0
                if size == 0:
                    continue
                if size == 1:
                    out_classes[i, 0] = group_members[g0]
                    out_probs[i, 0] = 1
                    attributes[i, out_column] = <uint32_t>group_members[g0] + 2
                    continue
                # three sweeps, so that the memory a sweep needs is on its way before it starts
                for j in range(n_templates):
                    keys[j] = _key(&attributes[0, 0], width, &templates[j, 0], <int>j,
                                   i, starts[s], starts[s + 1])
                    SPECTRAL_PREFETCH(&table.keys[(keys[j] >> 7) & table.mask])
                    SPECTRAL_PREFETCH(&table.ids[(keys[j] >> 7) & table.mask])
                n_ids = 0
                for j in range(n_templates):
                    if keys[j] != 0:
                        f = _find(&table, keys[j])
                        if f >= 0:
                            ids[n_ids] = f
                            SPECTRAL_PREFETCH(&row_starts[f])
                            n_ids += 1
                for j in range(n_ids):
                    SPECTRAL_PREFETCH(&row_parts[row_starts[ids[j]]])
                    SPECTRAL_PREFETCH(&weights[row_starts[ids[j]]])
                for k in range(n_parts):
                    part_scores[k] = 0
                for j in range(n_ids):
                    for k in range(row_starts[ids[j]], row_starts[ids[j] + 1]):
                        part_scores[row_parts[k]] += weights[k]
                _class_scores(&classes, groups[i], part_scores, scores)
                _softmax(scores, size, &best)
                attributes[i, out_column] = <uint32_t>group_members[g0 + best] + 2
                for m in range(top):
                    if m >= size:
                        break
                    best = 0
                    for k in range(1, size):
                        if scores[k] > scores[best]:
                            best = k
                    out_classes[i, m] = group_members[g0 + best]
                    out_probs[i, m] = scores[best]
                    scores[best] = -1
    free(keys)
    free(ids)
    free(part_scores)
    free(scores)
    return best_classes, best_probs
