/* Rule tensors against state vectors, for floats and for doubles.
 *
 * A tensor of the rule a -> b c lies as [b][c][a], so that both directions run along memory:
 *
 *     inside:   out[i] += w sum_jk l[j] r[k] T[j][k][i]
 *     outside:  G[j][k] = sum_i T[j][k][i] o[i];   dl += w G r;   dr += w G' l;   the edge is w l' G r
 *
 * The loops are compiled for longer vectors, too.
 */
#ifndef SPACY_SPECTRAL_TENSOR_H
#define SPACY_SPECTRAL_TENSOR_H

#include "../../base/_compiler.h"

#define TENSOR_KERNELS(REAL, NAME)                                                                        \
    static inline SPECTRAL_CLONES_OF_SUMS                                                                 \
    void NAME##_inside(const REAL *t, const REAL *l, const REAL *r, int na, int nb, int nc,               \
        REAL w, REAL *out) {                                                                              \
        for (int j = 0; j < nb; j++) {                                                                    \
            REAL lw = w * l[j];                                                                           \
            for (int k = 0; k < nc; k++, t += na) {                                                       \
                REAL f = lw * r[k];                                                                       \
                for (int i = 0; i < na; i++) out[i] += f * t[i];                                          \
            }                                                                                             \
        }                                                                                                 \
    }                                                                                                     \
    static inline SPECTRAL_CLONES_OF_SUMS                                                                 \
    REAL NAME##_outside(const REAL *t, const REAL *l, const REAL *r, const REAL *o, int na,               \
        int nb, int nc, REAL w, REAL *dl, REAL *dr) {                                                     \
        REAL edge = 0;                                                                                    \
        for (int j = 0; j < nb; j++) {                                                                    \
            REAL row = 0;                                                                                 \
            for (int k = 0; k < nc; k++, t += na) {                                                       \
                REAL g = 0;                                                                               \
                for (int i = 0; i < na; i++) g += t[i] * o[i];                                            \
                g *= w;                                                                                   \
                row += g * r[k];                                                                          \
                dr[k] += g * l[j];                                                                        \
            }                                                                                             \
            dl[j] += row;                                                                                 \
            edge += row * l[j];                                                                           \
        }                                                                                                 \
        return edge;                                                                                      \
    }                                                                                                     \
    /* counts[j][k][i] += w l[j] r[k] o[i] */                                                             \
    static inline SPECTRAL_CLONES_OF_SUMS                                                                 \
    void NAME##_outer(REAL *counts, const REAL *l, const REAL *r, const REAL *o, int na,                  \
        int nb, int nc, REAL w) {                                                                         \
        for (int j = 0; j < nb; j++)                                                                      \
            for (int k = 0; k < nc; k++, counts += na) {                                                  \
                REAL f = w * l[j] * r[k];                                                                 \
                for (int i = 0; i < na; i++) counts[i] += f * o[i];                                       \
            }                                                                                             \
    }

TENSOR_KERNELS(float, float32)
TENSOR_KERNELS(double, float64)

#endif
