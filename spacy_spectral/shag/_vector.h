/* Inner loops of the chart: rows of `width` doubles, one row per split point.
 *
 * Four columns at a time stay in registers while the split points run: callers pad rows to a multiple
 * of four, so there is no remainder loop.
 */
#ifndef SPACY_SPECTRAL_VECTOR_H
#define SPACY_SPECTRAL_VECTOR_H

/* out = sum_t weights[t] * rows[t] */
static inline void weighted_sum(const double *restrict rows, const double *restrict weights,
                                int count, int width, double *restrict out) {
    for (int b = 0; b < width; b += 4) {
        double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        const double *row = rows + b;
        for (int t = 0; t < count; t++, row += width) {
            const double w = weights[t];
            s0 += w * row[0];
            s1 += w * row[1];
            s2 += w * row[2];
            s3 += w * row[3];
        }
        out[b] = s0;
        out[b + 1] = s1;
        out[b + 2] = s2;
        out[b + 3] = s3;
    }
}

/* The adjoint of weighted_sum: d_rows[t] += weights[t] * d_out and d_weights[t] += rows[t] . d_out */
static inline void weighted_sum_adjoint(const double *restrict rows, const double *restrict weights,
                                        int count, int width, const double *restrict d_out,
                                        double *restrict d_rows, double *restrict d_weights) {
    for (int b = 0; b < width; b += 4) {
        const double o0 = d_out[b], o1 = d_out[b + 1], o2 = d_out[b + 2], o3 = d_out[b + 3];
        const double *row = rows + b;
        double *d_row = d_rows + b;
        for (int t = 0; t < count; t++, row += width, d_row += width) {
            const double w = weights[t];
            d_weights[t] += (o0 * row[0] + o1 * row[1]) + (o2 * row[2] + o3 * row[3]);
            d_row[0] += w * o0;
            d_row[1] += w * o1;
            d_row[2] += w * o2;
            d_row[3] += w * o3;
        }
    }
}

#endif
