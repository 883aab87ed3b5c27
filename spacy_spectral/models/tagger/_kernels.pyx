# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The hot loops of a linear classifier of tokens: training and decoding.

A feature owns a row of (part, weight) entries. A class is a set of parts and scores the sum of
their scores: for tags the parts are the pair of fine and coarse tag and the coarse tag alone, for
morphology the whole analysis and every Feature=Value in it. The candidates of a token are the
classes of its group. Decisions are written into the attribute column `out` (as class + 2) as soon
as they are made, so that templates that look there to the left see them.
"""

from libc.math cimport expf, logf, sqrtf
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ...base._prefetch cimport FETCH
from ._features cimport Slot, Table, find_key, template_key

import numpy

cdef enum:
    AHEAD = 2  # tokens whose rows are fetched before they are needed

# A class this much (in log) less probable than the best has probability 0: saves most of the exp().
cdef float NEGLIGIBLE = -16.0


cdef packed struct Entry:
    int32_t part
    float weight


cdef packed struct Learner:
    int32_t part
    float weight
    float squares  # of gradients so far, for AdaGrad
    float drift  # changes weighted by when they happened, for averaging


ENTRY = numpy.dtype([("part", "i4"), ("weight", "f4")])
LEARNER = numpy.dtype([("part", "i4"), ("weight", "f4"), ("squares", "f4"), ("drift", "f4")])


cdef struct Row:
    int32_t start
    int32_t end


cdef struct Classes:
    const int32_t* part_starts
    const int32_t* parts
    const int32_t* group_starts
    const int32_t* members
    Py_ssize_t n_parts


cdef inline Py_ssize_t _probabilities(
    Classes* classes, int group, const float* part_scores, float* scores
) noexcept nogil:
    """Probabilities of the candidates of a group. RETURNS: the best, the first of equals."""
    cdef Py_ssize_t first = classes.group_starts[group], m, k, best = 0
    cdef Py_ssize_t size = classes.group_starts[group + 1] - first
    cdef int32_t c
    cdef float total
    for m in range(size):
        c = classes.members[first + m]
        total = 0
        for k in range(classes.part_starts[c], classes.part_starts[c + 1]):
            total += part_scores[classes.parts[k]]
        scores[m] = total
        if total > scores[best]:
            best = m
    cdef float highest = scores[best]
    total = 0
    for m in range(size):
        if scores[m] - highest > NEGLIGIBLE:
            scores[m] = expf(scores[m] - highest)
            total += scores[m]
        else:
            scores[m] = 0
    for m in range(size):
        scores[m] /= total
    return best


cdef inline bint _find_row(const Table* table, uint64_t key, Row* row) noexcept nogil:
    """Where the entries of a key are; 0 is no key. RETURNS (bint): Whether there are any."""
    cdef const Slot* slot = find_key(table, key) if key else NULL
    if slot != NULL:
        row.start, row.end = slot.start, slot.end
    return slot != NULL


cdef Py_ssize_t _largest_group(const int32_t[::1] group_starts):
    # a loop: numpy's overhead would be felt in short calls
    cdef Py_ssize_t g, largest = 0
    for g in range(group_starts.shape[0] - 1):
        largest = max(largest, <Py_ssize_t>(group_starts[g + 1] - group_starts[g]))
    return largest


def train_epoch(
    uint32_t[:, ::1] attributes not None, const int32_t[::1] starts not None,
    const int32_t[::1] order not None, const int32_t[::1] id_starts not None,
    const int32_t[::1] static_ids not None, const int32_t[:, ::1] templates not None,
    const int32_t[::1] numbers not None, int out_column, const Slot[::1] slots not None,
    const int32_t[::1] row_starts not None, Learner[::1] entries not None,
    const int32_t[::1] part_starts not None, const int32_t[::1] class_parts not None,
    Py_ssize_t n_parts, const int32_t[::1] groups not None, const int32_t[::1] group_starts not None,
    const int32_t[::1] members not None, const int32_t[::1] gold not None,
    unsigned char[::1] sure not None, float rate, float ignore, double time, double time_step,
):
    """One pass of AdaGrad over sentences for the conditional log-likelihood of the gold classes.

    When time has run from 0 to 1, weight - drift of an entry is its averaged weight. Gradients
    below `ignore` are dropped: they are most of the work and hardly any of the change. For the
    same reason a token that was sure (no gradient left) is passed over the next time.
    RETURNS (Tuple[float, int, int]): The negative log-likelihood, right decisions, decisions.
    """
    cdef Py_ssize_t n_dynamic = templates.shape[0], width = attributes.shape[1]
    cdef Py_ssize_t s, q, i, j, k, m, n_rows, best, first, size, decided = 0, right = 0, longest
    cdef double loss = 0
    cdef uint64_t key
    cdef float g, change, p_gold
    cdef bint learns
    cdef Table table
    table.slots, table.mask = &slots[0], slots.shape[0] - 1
    cdef Classes classes
    classes.part_starts, classes.parts, classes.n_parts = &part_starts[0], &class_parts[0], n_parts
    classes.group_starts, classes.members = &group_starts[0], &members[0]
    longest = int(numpy.diff(id_starts).max()) + n_dynamic + 1
    cdef Row* rows = <Row*>malloc(longest * sizeof(Row))
    cdef float* part_scores = <float*>malloc(n_parts * sizeof(float))
    cdef float* scores = <float*>malloc((_largest_group(group_starts) + 1) * sizeof(float))
    if rows == NULL or part_scores == NULL or scores == NULL:
        free(rows)
        free(part_scores)
        free(scores)
        raise MemoryError()
    with nogil:
        for q in range(order.shape[0]):
            s = order[q]
            for i in range(starts[s], starts[s + 1]):
                time += time_step
                first = group_starts[groups[i]]
                size = group_starts[groups[i] + 1] - first
                if size == 0:
                    continue
                if size == 1:
                    attributes[i, out_column] = <uint32_t>members[first] + 2
                    continue
                if sure[i]:
                    sure[i] = False
                    attributes[i, out_column] = <uint32_t>gold[i] + 2
                    decided += 1
                    right += 1
                    continue
                if i + AHEAD < starts[s + 1] and not sure[i + AHEAD]:
                    for j in range(id_starts[i + AHEAD], id_starts[i + AHEAD + 1]):
                        FETCH(&entries[row_starts[static_ids[j]]])
                n_rows = 0
                for j in range(id_starts[i], id_starts[i + 1]):
                    rows[n_rows].start = row_starts[static_ids[j]]
                    rows[n_rows].end = row_starts[static_ids[j] + 1]
                    n_rows += 1
                for j in range(n_dynamic):
                    key = template_key(&attributes[0, 0], width, &templates[j, 0], numbers[j],
                                       i, starts[s], starts[s + 1])
                    if _find_row(&table, key, &rows[n_rows]):
                        FETCH(&entries[rows[n_rows].start])
                        n_rows += 1
                memset(part_scores, 0, n_parts * sizeof(float))
                for j in range(n_rows):
                    for k in range(rows[j].start, rows[j].end):
                        part_scores[entries[k].part] += entries[k].weight
                best = _probabilities(&classes, groups[i], part_scores, scores)
                attributes[i, out_column] = <uint32_t>members[first + best] + 2
                if gold[i] < 0:
                    continue
                decided += 1
                right += members[first + best] == gold[i]
                # gradient of the loss by part: expected count under the model minus gold count
                memset(part_scores, 0, n_parts * sizeof(float))
                p_gold = 0
                learns = False
                for m in range(size):
                    g = scores[m]
                    if members[first + m] == gold[i]:
                        p_gold = g
                        g -= 1
                    if g > ignore or g < -ignore:
                        learns = True
                        for k in range(part_starts[members[first + m]],
                                       part_starts[members[first + m] + 1]):
                            part_scores[class_parts[k]] += g
                loss -= logf(p_gold + 1e-30)
                if not learns:
                    sure[i] = True
                    continue
                for j in range(n_rows):
                    for k in range(rows[j].start, rows[j].end):
                        g = part_scores[entries[k].part]
                        if g != 0:
                            entries[k].squares += g * g
                            change = -rate * g / sqrtf(entries[k].squares)
                            entries[k].weight += change
                            entries[k].drift += <float>time * change
    free(rows)
    free(part_scores)
    free(scores)
    return loss, right, decided


def type_scores(
    const uint32_t[:, ::1] types not None, const int32_t[:, ::1] templates not None,
    const int32_t[::1] numbers not None, const int32_t[::1] slots not None, Py_ssize_t n_slots,
    const Slot[::1] table_slots not None, const Entry[::1] entries not None, Py_ssize_t n_parts,
):
    """Part scores of the templates that look at one word only, for every word and offset.

    types (ndarray): uint32, attributes of words.
    slots (ndarray): int32, for every template which offset it belongs to.
    RETURNS (ndarray): float32, word x offset x part.
    """
    cdef Py_ssize_t n = types.shape[0], width = types.shape[1], i, j, k
    cdef Row row
    cdef uint64_t key
    # all cells look at the word itself here, so that its row is a sentence of its own
    at_word = numpy.array(templates)
    at_word[:, ::2] = 0
    cdef const int32_t[:, ::1] cells = at_word
    result = numpy.zeros((n, n_slots, n_parts), dtype="float32")
    cdef float[:, :, ::1] out = result
    cdef Table table
    table.slots, table.mask = &table_slots[0], table_slots.shape[0] - 1
    with nogil:
        for i in range(n):
            for j in range(cells.shape[0]):
                key = template_key(&types[0, 0], width, &cells[j, 0], numbers[j], i, i, i + 1)
                if _find_row(&table, key, &row):
                    for k in range(row.start, row.end):
                        out[i, slots[j], entries[k].part] += entries[k].weight
    return result


def decode(
    uint32_t[:, ::1] attributes not None, const int32_t[::1] starts not None,
    const int32_t[::1] types not None, const float[:, :, ::1] by_type not None,
    const int32_t[::1] offsets not None, const int32_t[:, ::1] templates not None,
    const int32_t[::1] numbers not None, int out_column, const Slot[::1] slots not None,
    const Entry[::1] entries not None, const int32_t[::1] part_starts not None,
    const int32_t[::1] class_parts not None, Py_ssize_t n_parts, const int32_t[::1] groups not None,
    const int32_t[::1] group_starts not None, const int32_t[::1] members not None,
    const int32_t[::1] labels not None, Py_ssize_t n_labels, const int32_t[::1] given not None,
    int top,
):
    """Decide from left to right: the given or the most probable label, and in it the likeliest class.

    types (ndarray): int32, the row of each token's word in `by_type`; row 0 is the boundary.
    by_type (ndarray): float32, what `type_scores` gave.
    offsets (ndarray): int32, the offsets `by_type` is made for.
    labels (ndarray): int32, the label of each class.
    given (ndarray): int32, the label of each token, -1 where it is to be found.
    RETURNS (Tuple[ndarray, ndarray, ndarray]): int32, the class of every token (-1 without
        candidates); its `top` most probable labels, best first (-1 where there are fewer); float32,
        their probabilities.
    """
    cdef Py_ssize_t n_templates = templates.shape[0], width = attributes.shape[1]
    cdef Py_ssize_t n_offsets = offsets.shape[0], s, i, j, k, m, n_rows, size, best, first, where
    cdef float highest
    cdef const float* row
    decided = numpy.full(attributes.shape[0], -1, dtype="int32")
    best_labels = numpy.full((attributes.shape[0], top), -1, dtype="int32")
    best_probs = numpy.zeros((attributes.shape[0], top), dtype="float32")
    cdef int32_t[::1] out = decided
    cdef int32_t[:, ::1] out_labels = best_labels
    cdef float[:, ::1] out_probs = best_probs
    if not attributes.shape[0] or not members.shape[0]:
        return decided, best_labels, best_probs
    cdef Table table
    table.slots, table.mask = &slots[0], slots.shape[0] - 1
    cdef Classes classes
    classes.part_starts, classes.parts, classes.n_parts = &part_starts[0], &class_parts[0], n_parts
    classes.group_starts, classes.members = &group_starts[0], &members[0]
    cdef uint64_t* keys = <uint64_t*>malloc((n_templates + 1) * sizeof(uint64_t))
    cdef Row* rows = <Row*>malloc((n_templates + 1) * sizeof(Row))
    cdef float* part_scores = <float*>malloc(n_parts * sizeof(float))
    cdef float* scores = <float*>malloc((_largest_group(group_starts) + 1) * sizeof(float))
    cdef float* by_label = <float*>malloc(n_labels * sizeof(float))
    if keys == NULL or rows == NULL or part_scores == NULL or scores == NULL or by_label == NULL:
        free(keys)
        free(rows)
        free(part_scores)
        free(scores)
        free(by_label)
        raise MemoryError()
    with nogil:
        for s in range(starts.shape[0] - 1):
            for i in range(starts[s], starts[s + 1]):
                first = group_starts[groups[i]]
                size = group_starts[groups[i] + 1] - first
                if size == 0:
                    continue
                if size == 1:
                    out[i] = members[first]
                    out_labels[i, 0] = labels[members[first]]
                    out_probs[i, 0] = 1
                    attributes[i, out_column] = <uint32_t>members[first] + 2
                    continue
                # in sweeps, so that the memory of the next one is on its way before it starts
                for j in range(n_templates):
                    keys[j] = template_key(&attributes[0, 0], width, &templates[j, 0], numbers[j],
                                           i, starts[s], starts[s + 1])
                    FETCH(&table.slots[(keys[j] >> 7) & table.mask])
                n_rows = 0
                for j in range(n_templates):
                    if _find_row(&table, keys[j], &rows[n_rows]):
                        FETCH(&entries[rows[n_rows].start])
                        n_rows += 1
                memset(part_scores, 0, n_parts * sizeof(float))
                for j in range(n_offsets):
                    where = i + offsets[j]
                    if where < starts[s] or where >= starts[s + 1]:
                        row = &by_type[0, j, 0]
                    else:
                        row = &by_type[types[where], j, 0]
                    for k in range(n_parts):
                        part_scores[k] += row[k]
                for j in range(n_rows):
                    for k in range(rows[j].start, rows[j].end):
                        part_scores[entries[k].part] += entries[k].weight
                _probabilities(&classes, groups[i], part_scores, scores)
                for m in range(size):
                    by_label[labels[members[first + m]]] = 0
                for m in range(size):
                    by_label[labels[members[first + m]]] += scores[m]
                for j in range(top):
                    best = labels[members[first]]
                    for m in range(1, size):
                        if by_label[labels[members[first + m]]] > by_label[best]:
                            best = labels[members[first + m]]
                    if by_label[best] <= 0:
                        break
                    out_labels[i, j] = <int32_t>best
                    out_probs[i, j] = by_label[best]
                    by_label[best] = -1
                highest = -1
                best = given[i] if given[i] >= 0 else out_labels[i, 0]
                for m in range(size):
                    if labels[members[first + m]] == best and scores[m] > highest:
                        highest = scores[m]
                        out[i] = members[first + m]
                attributes[i, out_column] = <uint32_t>out[i] + 2
    free(keys)
    free(rows)
    free(part_scores)
    free(scores)
    free(by_label)
    return decided, best_labels, best_probs
