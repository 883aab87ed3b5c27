/* The product of rows with a matrix, in an order of additions that is fixed: every number of the result is

       y = 0, then y = fma(x[i], w[i], y) for i = 0, 1, ..., k - 1.

   So it depends on its row and its column alone: not on how many rows there are, where they lie or how they
   are cut into blocks. Fused multiply-add rounds once; every 64-bit ARM processor has it, and every x86-64
   processor with AVX2. On others `y + x[i] * w[i]` takes its place: last digits differ there.

   The method is that of Goto & van de Geijn (2008): factors are copied in the order in which they are read, unless
   they lie well already, and a kernel keeps a block of the result in registers. */
#ifndef SPACY_SPECTRAL_GEMM_H
#define SPACY_SPECTRAL_GEMM_H

#include <stddef.h>
#include <string.h>

#include "_compiler.h"

/* What the largest kernel needs, and how many there are at most. `gemm_kernels` lists those that this processor has,
   the fastest first. */
#define GEMM_MOST_ROWS 12
#define GEMM_MOST_COLUMNS 32
#define GEMM_MOST_KERNELS 3

/* A kernel multiplies a block of rows, x[r * x_step + i * x_apart], and a panel of columns, w[i * columns + c], and
   writes the block of the result to y, one row every `y_step` numbers. */
typedef void (*gemm_run)(const float *x, ptrdiff_t x_step, ptrdiff_t x_apart, const float *w, ptrdiff_t k, float *y,
                         ptrdiff_t y_step);

typedef struct {
    ptrdiff_t rows, columns;
    gemm_run run;
} gemm_kernel;

/* Two vectors of columns for every row: all of them and what they are made of fit into the registers. Rows are found
   by threes from one pointer, as x86 adds one or two steps to it in the same instruction. */
#define GEMM_KERNEL(NAME, TARGET, ROWS, WIDTH, VECTOR, ZERO, LOAD, STORE, SPREAD, FMA)                              \
    TARGET static void NAME(const float *x, ptrdiff_t x_step, ptrdiff_t x_apart, const float *w, ptrdiff_t k,       \
                            float *y, ptrdiff_t y_step) {                                                           \
        VECTOR left[ROWS], right[ROWS];                                                                             \
        const float *thirds[ROWS / 3];                                                                              \
        ptrdiff_t i;                                                                                                \
        int r;                                                                                                      \
        for (r = 0; r < ROWS; r++) left[r] = right[r] = ZERO();                                                     \
        for (r = 0; r < ROWS / 3; r++) thirds[r] = x + 3 * r * x_step;                                              \
        for (i = 0; i < k; i++, w += 2 * WIDTH) {                                                                   \
            const VECTOR a = LOAD(w), b = LOAD(w + WIDTH);                                                          \
            for (r = 0; r < ROWS; r++) {                                                                            \
                const VECTOR value = SPREAD(thirds[r / 3][r % 3 * x_step]);                                         \
                left[r] = FMA(value, a, left[r]);                                                                   \
                right[r] = FMA(value, b, right[r]);                                                                 \
            }                                                                                                       \
            for (r = 0; r < ROWS / 3; r++) thirds[r] += x_apart;                                                    \
        }                                                                                                           \
        for (r = 0; r < ROWS; r++, y += y_step) {                                                                   \
            STORE(y, left[r]);                                                                                      \
            STORE(y + WIDTH, right[r]);                                                                             \
        }                                                                                                           \
    }

#if defined(__x86_64__) || defined(_M_X64)

#include <immintrin.h>

GEMM_KERNEL(gemm_avx512, SPECTRAL_TARGET("avx512f"), 12, 16, __m512, _mm512_setzero_ps, _mm512_loadu_ps,
            _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps)
GEMM_KERNEL(gemm_avx2, SPECTRAL_TARGET("avx2,fma"), 6, 8, __m256, _mm256_setzero_ps, _mm256_loadu_ps,
            _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps)

#define GEMM_SSE_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
GEMM_KERNEL(gemm_plain, , 3, 4, __m128, _mm_setzero_ps, _mm_loadu_ps, _mm_storeu_ps, _mm_set1_ps, GEMM_SSE_FMA)

#ifdef SPECTRAL_SUPPORTS
static inline int gemm_has_avx512(void) { return SPECTRAL_SUPPORTS("avx512f"); }
static inline int gemm_has_avx2(void) { return SPECTRAL_SUPPORTS("avx2") && SPECTRAL_SUPPORTS("fma"); }
#else
#include <intrin.h>
/* Whether processor and system have it: bits of leaf 7, and of the registers that the system saves. */
static inline int gemm_has(int bit, unsigned long long saved) {
    int leaf[4];
    __cpuid(leaf, 0);
    if (leaf[0] < 7) return 0;
    __cpuid(leaf, 1);
    if (!(leaf[2] >> 27 & 1) || !(leaf[2] >> 12 & 1)) return 0; /* OSXSAVE, FMA */
    if ((_xgetbv(0) & saved) != saved) return 0;
    __cpuidex(leaf, 7, 0);
    return leaf[1] >> bit & 1;
}
static inline int gemm_has_avx512(void) { return gemm_has(16, 0xE6); }
static inline int gemm_has_avx2(void) { return gemm_has(5, 0x6); }
#endif

static inline int gemm_kernels(gemm_kernel *kernels) {
    const gemm_kernel avx512 = {12, 32, gemm_avx512}, avx2 = {6, 16, gemm_avx2}, plain = {3, 8, gemm_plain};
    int n = 0;
    if (gemm_has_avx512()) kernels[n++] = avx512;
    if (gemm_has_avx2()) kernels[n++] = avx2;
    kernels[n++] = plain;
    return n;
}

#elif defined(__aarch64__) || defined(_M_ARM64)

#include <arm_neon.h>

#define GEMM_NEON_ZERO() vdupq_n_f32(0.0f)
#define GEMM_NEON_FMA(a, b, c) vfmaq_f32(c, a, b)
GEMM_KERNEL(gemm_plain, , 12, 4, float32x4_t, GEMM_NEON_ZERO, vld1q_f32, vst1q_f32, vdupq_n_f32, GEMM_NEON_FMA)

static inline int gemm_kernels(gemm_kernel *kernels) {
    const gemm_kernel plain = {12, 8, gemm_plain};
    kernels[0] = plain;
    return 1;
}

#else

static inline void gemm_plain(const float *x, ptrdiff_t x_step, ptrdiff_t x_apart, const float *w, ptrdiff_t k, float *y,
                       ptrdiff_t y_step) {
    float sums[3][8] = {{0}};
    ptrdiff_t i;
    int r, c;
    for (i = 0; i < k; i++, x += x_apart, w += 8)
        for (r = 0; r < 3; r++)
            for (c = 0; c < 8; c++) sums[r][c] += x[r * x_step] * w[c];
    for (r = 0; r < 3; r++) memcpy(y + r * y_step, sums[r], sizeof(sums[r]));
}

static inline int gemm_kernels(gemm_kernel *kernels) {
    const gemm_kernel plain = {3, 8, gemm_plain};
    kernels[0] = plain;
    return 1;
}

#endif

/* Copy some vectors of k numbers so that those of one place lie together, in blocks of `width` vectors; the
   last block is filled up with zeros. Vector v is at from + v * step, its numbers `apart` from each other. */
static inline void gemm_pack(const float *from, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t n, ptrdiff_t k,
                      ptrdiff_t width, float *to) {
    ptrdiff_t begin, i, v, own;
    for (begin = 0; begin < n; begin += width, from += width * step, to += width * k) {
        own = n - begin < width ? n - begin : width;
        if (own < width) memset(to, 0, sizeof(float) * width * k);
        if (step == 1) {
            for (i = 0; i < k; i++) memcpy(to + i * width, from + i * apart, sizeof(float) * own);
        } else {
            /* some numbers of all vectors at a time: what is read and written stays in the cache */
            ptrdiff_t first, last;
            for (first = 0; first < k; first = last) {
                last = first + 16 < k ? first + 16 : k;
                for (v = 0; v < own; v++)
                    for (i = first; i < last; i++) to[i * width + v] = from[v * step + i * apart];
            }
        }
    }
}

/* y[n, m] = x[n, k] times the columns of w, with `kernel`. Numbers of x are `x_apart` from each other, rows
   `x_step`; numbers of a column of w `w_apart`, columns `w_step`. `rows` has room for `at_once` rows of x, filled
   up to a multiple of the kernel's, `panel` for k * kernel.columns. */
static inline void gemm(gemm_kernel kernel, ptrdiff_t n, ptrdiff_t m, ptrdiff_t k, const float *x, ptrdiff_t x_step,
                 ptrdiff_t x_apart, const float *w, ptrdiff_t w_step, ptrdiff_t w_apart, float *y, float *rows,
                 ptrdiff_t at_once, float *panel) {
    float block[GEMM_MOST_ROWS * GEMM_MOST_COLUMNS];
    ptrdiff_t first, i, j, r, own, direct, height, width;
    for (first = 0; first < n; first += at_once, x += at_once * x_step, y += at_once * m) {
        own = n - first < at_once ? n - first : at_once;
        /* blocks of rows that lie side by side are read where they are, but the last is filled up */
        direct = x_apart == 1 ? own - own % kernel.rows : 0;
        gemm_pack(x + direct * x_step, x_step, x_apart, own - direct, k, kernel.rows, rows);
        for (j = 0; j < m; j += kernel.columns) {
            width = m - j < kernel.columns ? m - j : kernel.columns;
            gemm_pack(w + j * w_step, w_step, w_apart, width, k, kernel.columns, panel);
            for (i = 0; i < own; i += kernel.rows) {
                const int is_direct = i < direct, is_whole = own - i >= kernel.rows && width == kernel.columns;
                kernel.run(is_direct ? x + i * x_step : rows + (i - direct) * k, is_direct ? x_step : 1,
                           is_direct ? 1 : kernel.rows, panel, k, is_whole ? y + i * m + j : block,
                           is_whole ? m : kernel.columns);
                if (is_whole) continue;
                height = own - i < kernel.rows ? own - i : kernel.rows;
                for (r = 0; r < height; r++)
                    memcpy(y + (i + r) * m + j, block + r * kernel.columns, sizeof(float) * width);
            }
        }
    }
}

#endif
