/* Inner loops of the chart: rows of `width` doubles, one row per split point.
 *
 * Four columns at a time stay in registers while the split points run: callers pad rows to a multiple
 * of four, so there is no remainder loop.
 */
#ifndef SPACY_SPECTRAL_VECTOR_H
#define SPACY_SPECTRAL_VECTOR_H

#include <string.h>

#include "../../base/_compiler.h"

/* Ask for memory that is needed soon: operators lie scattered over megabytes. */
static inline void prefetch(const double *block, int size) {
    for (int k = 0; k < size; k += 8) SPECTRAL_PREFETCH(block + k);
}

#ifdef SPECTRAL_VECTOR
typedef double four SPECTRAL_VECTOR(32);
static inline four four_load(const double *p) { four v; memcpy(&v, p, sizeof v); return v; }
static inline void four_store(double *p, four v) { memcpy(p, &v, sizeof v); }
static inline four four_scale(four v, double w) { return v * w; }
static inline four four_add(four a, four b) { return a + b; }
static inline double four_dot(four a, four b) { four p = a * b; return (p[0] + p[1]) + (p[2] + p[3]); }
#else
typedef struct { double x[4]; } four;
static inline four four_load(const double *p) { four v; memcpy(&v, p, sizeof v); return v; }
static inline void four_store(double *p, four v) { memcpy(p, &v, sizeof v); }
static inline four four_scale(four v, double w) { for (int k = 0; k < 4; k++) v.x[k] *= w; return v; }
static inline four four_add(four a, four b) { for (int k = 0; k < 4; k++) a.x[k] += b.x[k]; return a; }
static inline double four_dot(four a, four b) {
    return (a.x[0] * b.x[0] + a.x[1] * b.x[1]) + (a.x[2] * b.x[2] + a.x[3] * b.x[3]);
}
#endif

/* out = sum_t weights[t] * rows[t]; rows of `width` doubles stand `stride` apart */
static inline void weighted_sum_strided(const double *SPECTRAL_RESTRICT rows,
                                        const double *SPECTRAL_RESTRICT weights, int count, int width,
                                        int stride, double *SPECTRAL_RESTRICT out) {
    for (int b = 0; b < width; b += 4) {
        four sum = four_scale(four_load(rows + b), weights[0]);
        const double *row = rows + b + stride;
        for (int t = 1; t < count; t++, row += stride)
            sum = four_add(sum, four_scale(four_load(row), weights[t]));
        four_store(out + b, sum);
    }
}

static inline void weighted_sum(const double *SPECTRAL_RESTRICT rows, const double *SPECTRAL_RESTRICT weights,
                                int count, int width, double *SPECTRAL_RESTRICT out) {
    weighted_sum_strided(rows, weights, count, width, width, out);
}

/* out += weight * matrix . vector, for the leading n columns and rows of a matrix with `stride` columns */
static inline void add_product(const double *SPECTRAL_RESTRICT matrix, int stride, int n, double weight,
                               const double *SPECTRAL_RESTRICT vector, double *SPECTRAL_RESTRICT out) {
    for (int a = 0; a < n; a++) {
        double total = 0;
        for (int b = 0; b < n; b += 4)
            total += four_dot(four_load(matrix + a * stride + b), four_load(vector + b));
        out[a] += weight * total;
    }
}

/* out = matrix' . vector */
static inline void transposed_product(const double *SPECTRAL_RESTRICT matrix, int stride, int n,
                                      const double *SPECTRAL_RESTRICT vector, double *SPECTRAL_RESTRICT out) {
    weighted_sum_strided(matrix, vector, n, n, stride, out);
}

/* The adjoint of weighted_sum: d_rows[t] += weights[t] * d_out and d_weights[t] += rows[t] . d_out */
static inline void weighted_sum_adjoint(const double *SPECTRAL_RESTRICT rows,
                                        const double *SPECTRAL_RESTRICT weights, int count, int width,
                                        const double *SPECTRAL_RESTRICT d_out,
                                        double *SPECTRAL_RESTRICT d_rows, double *SPECTRAL_RESTRICT d_weights) {
    for (int b = 0; b < width; b += 4) {
        const four d = four_load(d_out + b);
        const double *row = rows + b;
        double *d_row = d_rows + b;
        for (int t = 0; t < count; t++, row += width, d_row += width) {
            d_weights[t] += four_dot(d, four_load(row));
            four_store(d_row, four_add(four_load(d_row), four_scale(d, weights[t])));
        }
    }
}

#endif
