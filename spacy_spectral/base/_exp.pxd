"""Exponentials of many numbers: what compilers make vectors of, the same everywhere. Where processors can have
longer vectors, there is one more version for these; no operation is another in it."""

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
    #if __has_attribute(target_clones)
    #define LONG_VECTORS __attribute__((unused, target_clones("avx2", "default")))
    #endif
    #endif
    #ifndef LONG_VECTORS
    #define LONG_VECTORS inline
    #endif

    /* out[i] = exp(x[i] - shift), to 2e-7 of it; 0 below exp(-87). Cody & Waite: 2^k times a polynomial (the
       coefficients are those of Cephes' expf). Adding and taking away 1.5 * 2^23 rounds to an integer. */
    static LONG_VECTORS void exp_floats(double* out, const float* x, float shift, int n) {
        for (int i = 0; i < n; i++) {
            float v = x[i] - shift, small = v < -87.0f ? -87.0f : v > 88.0f ? 88.0f : v;
            float k = (small * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
            float r = (small - k * 0.693359375f) + k * 2.12194440e-4f;
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
    """
    void exp_floats(double* out, const float* x, float shift, int n) noexcept nogil
