# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The hot loops of a linear classifier of tokens: keys of features, training and decoding.

A token is a row of attributes (see `_strings`). A template is up to three (offset, column) cells of
that matrix, and its key at a token a 64-bit hash of the template's number and the cells' values.

The outputs of a feature's row are parts of classes. A class is a set of parts and scores the sum of
their scores: for tags the parts are the pair of fine and coarse tag and the coarse tag alone, for
morphology the whole analysis and every Feature=Value in it. The candidates of a token are the
classes of its group. Decisions are written into the attribute column `out` (as class + 2) as soon
as they are made, so that templates that look there to the left see them.
"""

from libc.math cimport expf, logf
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ...base._linear cimport BOUNDARY, Entry, Slope, Slot, climb, find_row
from ...base._prefetch cimport FETCH

import numpy

from ...base._linear import ENTRY

cdef enum:
    CELLS = 3
    AHEAD = 2  # tokens whose rows are fetched before they are needed

# A class this much (in log) less probable than the best has probability 0: saves most of the exp().
cdef float NEGLIGIBLE = -16.0


cdef struct Learner:
    float weight
    uint32_t output
    Slope slope


LEARNER = numpy.dtype([*ENTRY.descr, ("slope", [("squares", "f4"), ("drift", "f4")])])


cdef struct Classes:
    const int32_t* part_starts
    const int32_t* parts
    const int32_t* group_starts
    const int32_t* members
    Py_ssize_t n_parts


cdef inline uint64_t template_key(
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
    const uint32_t[:, ::1] attributes not None, const int32_t[::1] starts not None,
    const int32_t[:, ::1] templates not None, const int32_t[::1] numbers not None,
):
    """Keys of templates at every token, 0 for no feature. Templates are rows of (offset, column) cells,
    column -1 where unused; their numbers are part of the keys."""
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


def weight_rows(
    const int32_t[:, ::1] ids not None, const int32_t[::1] gold not None, Py_ssize_t n_features,
    int cutoff, const int32_t[::1] part_starts not None, const int32_t[::1] class_parts not None,
    Py_ssize_t n_parts,
):
    """The rows of weights, as starts and parts: a feature of at least `cutoff` tokens gets a weight for
    every part it was seen with. Features and gold classes are -1 where there is none."""
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


cdef Py_ssize_t _largest_group(const int32_t[::1] group_starts):
    # a loop: numpy's overhead would be felt in short calls
    cdef Py_ssize_t g, largest = 0
    for g in range(group_starts.shape[0] - 1):
        largest = max(largest, <Py_ssize_t>(group_starts[g + 1] - group_starts[g]))
    return largest


def train_epoch(
    uint32_t[:, ::1] attributes not None, const int32_t[::1] starts not None,
    const int32_t[::1] order not None, const int32_t[::1] token_starts not None,
    const uint32_t[::1] token_rows not None, const int32_t[:, ::1] templates not None,
    const int32_t[::1] numbers not None, int out_column, const Slot[::1] slots not None,
    Learner[::1] entries not None,
    const int32_t[::1] part_starts not None, const int32_t[::1] class_parts not None,
    Py_ssize_t n_parts, const int32_t[::1] groups not None, const int32_t[::1] group_starts not None,
    const int32_t[::1] members not None, const int32_t[::1] gold not None,
    unsigned char[::1] sure not None, const float[::1] weights not None, float rate, float ignore,
    double time, double time_step,
):
    """One pass of AdaGrad over sentences for the conditional log-likelihood of the gold classes.

    token_starts, token_rows: The rows of features that look at no decision, by token; `slots` has the others.
    weights: How much each sentence counts.

    When time has run from 0 to 1, weight - drift of an entry is its averaged weight. Gradients
    below `ignore` are dropped: they are most of the work and hardly any of the change. For the
    same reason a token that was sure (no gradient left) is passed over the next time.
    RETURNS: The negative log-likelihood, right decisions, decisions.
    """
    cdef Py_ssize_t n_dynamic = templates.shape[0], width = attributes.shape[1]
    cdef Py_ssize_t s, q, i, j, k, m, n_rows, best, first, size, decided = 0, right = 0, longest
    cdef double loss = 0
    cdef uint64_t key, mask = slots.shape[0] - 1
    cdef float g, p_gold, weight
    cdef bint learns
    cdef Classes classes
    classes.part_starts, classes.parts, classes.n_parts = &part_starts[0], &class_parts[0], n_parts
    classes.group_starts, classes.members = &group_starts[0], &members[0]
    longest = int(numpy.diff(token_starts).max()) + n_dynamic + 1
    cdef uint32_t[::1] rows = numpy.empty(longest, dtype="uint32")
    cdef float[::1] part_scores = numpy.empty(n_parts, dtype="float32")
    cdef float[::1] scores = numpy.empty(_largest_group(group_starts) + 1, dtype="float32")
    with nogil:
        for q in range(order.shape[0]):
            s = order[q]
            weight = weights[s]
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
                    for j in range(token_starts[i + AHEAD], token_starts[i + AHEAD + 1]):
                        FETCH(&entries[token_rows[j]])
                n_rows = 0
                for j in range(token_starts[i], token_starts[i + 1]):
                    rows[n_rows] = token_rows[j]
                    n_rows += 1
                for j in range(n_dynamic):
                    key = template_key(&attributes[0, 0], width, &templates[j, 0], numbers[j],
                                       i, starts[s], starts[s + 1])
                    rows[n_rows] = find_row(&slots[0], mask, key) if key else 0
                    if rows[n_rows]:
                        FETCH(&entries[rows[n_rows]])
                        n_rows += 1
                memset(&part_scores[0], 0, n_parts * sizeof(float))
                for j in range(n_rows):
                    for k in range(rows[j] + 1, rows[j] + entries[rows[j]].output + 1):
                        part_scores[entries[k].output] += entries[k].weight
                best = _probabilities(&classes, groups[i], &part_scores[0], &scores[0])
                attributes[i, out_column] = <uint32_t>members[first + best] + 2
                if gold[i] < 0:
                    continue
                decided += 1
                right += members[first + best] == gold[i]
                # gradient of the loss by part: expected count under the model minus gold count
                memset(&part_scores[0], 0, n_parts * sizeof(float))
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
                            part_scores[class_parts[k]] += weight * g
                loss -= logf(p_gold + 1e-30)
                if not learns:
                    sure[i] = True
                    continue
                for j in range(n_rows):
                    for k in range(rows[j] + 1, rows[j] + entries[rows[j]].output + 1):
                        g = part_scores[entries[k].output]
                        if g != 0:
                            climb(&entries[k].weight, &entries[k].slope, -g, rate, <float>time)
    return loss, right, decided


def type_scores(
    const uint32_t[:, ::1] types not None, const int32_t[:, ::1] templates not None,
    const int32_t[::1] numbers not None, const int32_t[::1] slots not None, Py_ssize_t n_slots,
    const Slot[::1] table_slots not None, const Entry[::1] entries not None, Py_ssize_t n_parts,
):
    """Part scores of the templates that look at one word only, [word, offset, part]; `slots` has which
    offset each template belongs to."""
    cdef Py_ssize_t n = types.shape[0], width = types.shape[1], i, j, k
    cdef uint32_t row
    cdef uint64_t key, mask = table_slots.shape[0] - 1
    # all cells look at the word itself here, so that its row is a sentence of its own
    at_word = numpy.array(templates)
    at_word[:, ::2] = 0
    cdef const int32_t[:, ::1] cells = at_word
    result = numpy.zeros((n, n_slots, n_parts), dtype="float32")
    cdef float[:, :, ::1] out = result
    with nogil:
        for i in range(n):
            for j in range(cells.shape[0]):
                key = template_key(&types[0, 0], width, &cells[j, 0], numbers[j], i, i, i + 1)
                row = find_row(&table_slots[0], mask, key) if key else 0
                for k in range(row + 1, row + entries[row].output + 1):
                    out[i, slots[j], entries[k].output] += entries[k].weight
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

    types: The row of each token's word in `by_type`, from `type_scores`; row 0 is the boundary.
    labels: The label of each class; given: that of each token, -1 where it is to be found.
    RETURNS: The class of every token (-1 without candidates); its `top` most probable labels, best first
    (-1 where there are fewer), and their probabilities.
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
    cdef uint64_t mask = slots.shape[0] - 1
    cdef Classes classes
    classes.part_starts, classes.parts, classes.n_parts = &part_starts[0], &class_parts[0], n_parts
    classes.group_starts, classes.members = &group_starts[0], &members[0]
    cdef uint64_t* keys = <uint64_t*>malloc((n_templates + 1) * sizeof(uint64_t))
    cdef uint32_t* rows = <uint32_t*>malloc((n_templates + 1) * sizeof(uint32_t))
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
                    FETCH(&slots[keys[j] & mask])
                n_rows = 0
                for j in range(n_templates):
                    rows[n_rows] = find_row(&slots[0], mask, keys[j]) if keys[j] else 0
                    if rows[n_rows]:
                        FETCH(&entries[rows[n_rows]])
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
                    for k in range(rows[j] + 1, rows[j] + entries[rows[j]].output + 1):
                        part_scores[entries[k].output] += entries[k].weight
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
