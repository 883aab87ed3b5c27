# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The quick pruner: for every token a softmax over all heads, from few features in a small table."""
import numpy as np

from libc.math cimport exp, fabs, log, sqrt
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from ._features cimport Context, fill_composites, pair_key

DEF MAX_TEMPLATES = 64
DEF NEGLIGIBLE = 1e-3

cdef uint64_t SEED = <uint64_t>0xD1B54A32D192ED03


cdef inline int _distance_bin(int distance) noexcept nogil:
    if distance <= 5:
        return distance
    if distance <= 10:
        return 6 + (distance > 7)
    return 8 + (distance > 15) + (distance > 30)


cdef void _slots_of(
    const uint64_t *composites, int k, const int32_t *templates, int n_templates, int h, int m,
    int between, uint64_t mask, uint32_t *slots
) noexcept nogil:
    cdef int t, extra, kind
    cdef int direction = 2 if h == 0 else (m > h)
    cdef int distance = _distance_bin(m - h if m > h else h - m) if h else 0
    cdef uint64_t head, mod
    for t in range(n_templates):
        kind = templates[3 * t + 2]
        extra = direction
        if kind & 1:
            extra += 4 * (1 + distance)
        if kind & 2:
            extra += 64 * (1 + between)
        head = composites[h * k + templates[3 * t]]
        mod = composites[m * k + templates[3 * t + 1]]
        slots[t] = pair_key(head, mod, SEED * (t + 1) + extra * <uint64_t>0x9FB21C651E98DF25) & mask
        if head == 0 or mod == 0:
            slots[t] = 0


cdef void _slots_of_token(
    const uint64_t *composites, int k, const int32_t *templates, int n_templates,
    const int32_t *tags, const uint8_t *between_bit, int n, int m, uint64_t mask, uint32_t *slots
) noexcept nogil:
    """Slots of all heads of token m, walking away from it on both sides."""
    cdef int h, between = 0
    for h in range(m - 1, 0, -1):
        _slots_of(composites, k, templates, n_templates, h, m, between, mask, slots + h * n_templates)
        between |= between_bit[tags[h - 1]]
    _slots_of(composites, k, templates, n_templates, 0, m, 0, mask, slots)
    between = 0
    for h in range(m + 1, n + 1):
        _slots_of(composites, k, templates, n_templates, h, m, between, mask, slots + h * n_templates)
        between |= between_bit[tags[h - 1]]


cdef void _softmax(
    const float *weights, const uint32_t *slots, int n_templates, int n, int m, float *probs
) noexcept nogil:
    cdef int h, t
    cdef float score, top = -1e30, total = 0
    for h in range(n + 1):
        score = 0
        for t in range(n_templates):
            score += weights[slots[h * n_templates + t]]
        probs[h] = score
        if h != m and score > top:
            top = score
    for h in range(n + 1):
        probs[h] = exp(probs[h] - top) if h != m else 0
        total += probs[h]
    for h in range(n + 1):
        probs[h] /= total


def train_pruner(
    const uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] tags,
    const int32_t[::1] heads, const int32_t[:, :, ::1] composites, const int32_t[:, ::1] templates,
    const uint8_t[::1] between_bit, float[::1] weights, float[::1] squares, const int32_t[::1] order,
    double rate,
):
    """One epoch of AdaGrad on log p(head | token). Slot 0 is not used and stays 0.

    RETURNS (float): The mean loss per token.
    """
    cdef Context context
    cdef int i, s, start, n, m, h, t, k = composites.shape[0], n_templates = templates.shape[0]
    cdef int longest = int(np.diff(starts).max()), gold
    cdef uint64_t mask = weights.shape[0] - 1
    cdef uint64_t[::1] values = np.empty((longest + 1) * k, dtype=np.uint64)
    cdef uint32_t[::1] slots = np.zeros((longest + 1) * n_templates, dtype=np.uint32)
    cdef float[::1] probs = np.empty(longest + 1, dtype=np.float32)
    cdef double loss = 0
    cdef long count = 0
    cdef float gradient
    cdef uint32_t at
    context.n_columns = columns.shape[1]
    context.n_composites = k
    context.composites = &composites[0, 0, 0]
    with nogil:
        for i in range(order.shape[0]):
            s = order[i]
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            fill_composites(&context, &columns[start, 0], n, &values[0])
            for m in range(1, n + 1):
                gold = heads[start + m - 1]
                if gold < 0:
                    continue
                _slots_of_token(&values[0], k, &templates[0, 0], n_templates, &tags[start],
                                &between_bit[0], n, m, mask, &slots[0])
                _softmax(&weights[0], &slots[0], n_templates, n, m, &probs[0])
                loss -= log(probs[gold] + 1e-30)
                count += 1
                for h in range(n + 1):
                    if h == m:
                        continue
                    gradient = (h == gold) - probs[h]
                    if fabs(gradient) < NEGLIGIBLE:
                        continue
                    for t in range(n_templates):
                        at = slots[h * n_templates + t]
                        if at:
                            squares[at] += gradient * gradient
                            weights[at] += rate * gradient / sqrt(squares[at])
    return loss / max(count, 1)


def prune(
    const uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] tags,
    const int32_t[:, :, ::1] composites, const int32_t[:, ::1] templates,
    const uint8_t[::1] between_bit, const float[::1] weights, double threshold, int most,
    const int32_t[::1] gold,
):
    """The heads worth a closer look.

    threshold (float): Keep heads with at least this probability relative to the token's best.
    most (int): Keep at most so many heads of a token.
    gold (int32[n]): Heads to keep in any case (-1: none).
    RETURNS (Tuple[ndarray, ndarray, ndarray]): arc_start (int32[n + 1]), heads (int32) ascending for
        each token, their probabilities (float32). The head to the left is always kept, so a tree exists.
    """
    cdef Context context
    cdef int s, start, n, m, h, k = composites.shape[0], n_templates = templates.shape[0], kept, j
    cdef int longest = int(np.diff(starts).max()) if starts.shape[0] > 1 else 0
    cdef uint64_t mask = weights.shape[0] - 1
    cdef uint64_t[::1] values = np.empty((longest + 1) * k, dtype=np.uint64)
    cdef uint32_t[::1] slots = np.zeros((longest + 1) * n_templates, dtype=np.uint32)
    cdef float[::1] probs = np.empty(longest + 1, dtype=np.float32)
    cdef Py_ssize_t total = columns.shape[0], at = 0
    arc_start = np.zeros(total + 1, dtype=np.int32)
    arc_head = np.empty(total * (most + 2) + 1, dtype=np.int32)
    arc_prob = np.empty(total * (most + 2) + 1, dtype=np.float32)
    cdef int32_t[::1] out_start = arc_start
    cdef int32_t[::1] out_head = arc_head
    cdef float[::1] out_prob = arc_prob
    cdef float limit
    cdef float[::1] best = np.empty(most, dtype=np.float32)
    context.n_columns = columns.shape[1]
    context.n_composites = k
    context.composites = &composites[0, 0, 0]
    with nogil:
        for s in range(starts.shape[0] - 1):
            start = starts[s]
            n = starts[s + 1] - start
            if n == 0:
                continue
            fill_composites(&context, &columns[start, 0], n, &values[0])
            for m in range(1, n + 1):
                _slots_of_token(&values[0], k, &templates[0, 0], n_templates, &tags[start],
                                &between_bit[0], n, m, mask, &slots[0])
                _softmax(&weights[0], &slots[0], n_templates, n, m, &probs[0])
                kept = 0
                for h in range(n + 1):  # insertion into the best few
                    if h == m or (kept == most and probs[h] <= best[kept - 1]):
                        continue
                    j = kept if kept < most else most - 1
                    while j > 0 and best[j - 1] < probs[h]:
                        best[j] = best[j - 1]
                        j -= 1
                    best[j] = probs[h]
                    kept += kept < most
                limit = max(best[kept - 1], threshold * best[0])
                j = 0
                for h in range(n + 1):
                    if h == m:
                        continue
                    if probs[h] >= limit and j < most:  # there may be ties
                        j += 1
                    elif h != m - 1 and h != gold[start + m - 1]:
                        continue
                    out_head[at] = h
                    out_prob[at] = probs[h]
                    at += 1
                out_start[start + m] = at
    return arc_start, arc_head[:at].copy(), arc_prob[:at].copy()


def fill_children(
    uint64_t[:, ::1] columns, const int32_t[::1] starts, const int32_t[::1] arc_start,
    const int32_t[::1] arc_head, const float[::1] arc_prob, const uint8_t[::1] is_function,
    int source, int left, int right,
):
    """Write beside every token the outermost function words that seem to depend on it.

    is_function (uint8[n]): Which tokens may be such (see `estimate.function_tags`).
    source (int): The column that is copied from the function word to ...
    left, right (int): ... these columns of its likeliest head; 7 where there is no such word.
    """
    cdef int s, start, n, m, a, best
    with nogil:
        for s in range(columns.shape[0]):
            columns[s, left] = columns[s, right] = 7
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
                if arc_head[best] > m:
                    columns[start + arc_head[best] - 1, left] = columns[start + m - 1, source]
                elif arc_head[best] > 0 and columns[start + arc_head[best] - 1, right] == 7:
                    columns[start + arc_head[best] - 1, right] = columns[start + m - 1, source]
