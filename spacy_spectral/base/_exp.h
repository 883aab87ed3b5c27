/* See `_exp.pxd`. */
#ifndef SPECTRAL_EXP_H
#define SPECTRAL_EXP_H

#include <stdint.h>
#include <string.h>

#include "_compiler.h"

/* out[i] = exp(x[i] - shift), to 2e-7 of it; 0 below exp(-87). Cody & Waite: 2^k times a polynomial (the
   coefficients are those of Cephes' expf). Adding and taking away 1.5 * 2^23 rounds to an integer. */
static inline SPECTRAL_CLONES void exp_floats(double* out, const float* x, float shift, int n) {
    for (int i = 0; i < n; i++) {
        float v = x[i] - shift, clipped = v < -87.0f ? -87.0f : v > 88.0f ? 88.0f : v;
        float k = (clipped * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
        float r = (clipped - k * 0.693359375f) + k * 2.12194440e-4f;
        float p = 1.9875691500e-4f;
        int32_t bits = ((int32_t)k + 127) << 23;
        float power;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1.0f;
        memcpy(&power, &bits, sizeof(power));
        out[i] = v < -87.0f ? 0.0 : (double)(p * power);
    }
}

/* out[i] = x[i]^power, to 1e-8 of it, of x >= 0; 0 below 2^-1022, no answer above 2^1023. log2 is e plus the
   series of artanh, 2^y is 2^k times that of exp. Adding 2^52 reads an integer, 1.5 * 2^52 rounds to one. */
static inline SPECTRAL_CLONES void power_doubles(double* out, const double* x, double power, int n) {
    for (int i = 0; i < n; i++) {
        uint64_t bits, above, exponent, is_some;
        int64_t scale;
        double m, e, s, q, y, k, r, p;
        memcpy(&bits, &x[i], sizeof(bits));
        is_some = bits ? ~(uint64_t)0 : 0;
        above = ((bits & 0xFFFFFFFFFFFFFu) + 0x95F6198000000u) >> 52;  /* 1 for m > sqrt(2) */
        exponent = ((bits >> 52) + above) | 0x4330000000000000u;
        bits = (bits & 0xFFFFFFFFFFFFFu) | (0x3FF0000000000000u - (above << 52));
        memcpy(&m, &bits, sizeof(m));
        memcpy(&e, &exponent, sizeof(e));
        s = (m - 1.0) / (m + 1.0);
        q = s * s;
        p = 1.0 / 9.0;
        p = p * q + 1.0 / 7.0;
        p = p * q + 1.0 / 5.0;
        p = p * q + 1.0 / 3.0;
        p = p * q + 1.0;
        y = power * (e - (4503599627370496.0 + 1023.0) + 2.8853900817779268 * s * p);
        k = y + 6755399441055744.0;
        memcpy(&scale, &k, sizeof(scale));
        r = (y - (k - 6755399441055744.0)) * 0.69314718055994531;
        p = 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r * r + r + 1.0;
        scale += 1023 - 0x4338000000000000;  /* k, of which the bits of 1.5 * 2^52 are taken away */
        is_some &= scale > 0 ? ~(uint64_t)0 : 0;
        bits = ((uint64_t)scale << 52) & is_some;
        memcpy(&k, &bits, sizeof(k));
        out[i] = p * k;
    }
}

#endif
