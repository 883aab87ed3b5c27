/* What C compilers do differently, in one place: kernels use these names, never `__attribute__` or `__builtin_...`.
 *
 *     SPECTRAL_RESTRICT     `restrict`, which is not a word of every compiler
 *     SPECTRAL_UNUSED       no warning if a function is not called; not together with clones
 *     SPECTRAL_PREFETCH(p)  ask for memory that is needed soon
 *     SPECTRAL_VECTOR(n)    attribute of a type: a vector of n bytes; not defined where there are none, so that
 *                           `#ifdef SPECTRAL_VECTOR` stands between the vectors and the same in plain C
 *     SPECTRAL_TARGET(...)  compile a function for a processor that has more; ask for that before it is called
 *     SPECTRAL_SUPPORTS(s)  whether this x86 processor has it; not defined where that is asked in another way
 *     SPECTRAL_CLONES       compile a function for longer vectors, too, and choose when the module is loaded;
 *                           no operation is another in it (avx2 has no fused multiply-add)
 *     SPECTRAL_CLONES_OF(...)  the same for the targets that are named, which must be known to GCC 9 and Clang 14
 *     SPECTRAL_CLONES_OF_SUMS  the same for loops whose sums may be taken in any order
 *
 * Functions in headers are `static inline`: no compiler warns of those that a module does not call. Clang takes
 * clones and `unused` together for an error.
 *
 * GCC and Clang are known. Others (MSVC) get plain C; so does everyone with -DSPECTRAL_PLAIN_C, to try it.
 */
#ifndef SPECTRAL_COMPILER_H
#define SPECTRAL_COMPILER_H

#include <stdint.h> /* glibc says in any of its headers that it is glibc */

#if defined(__GNUC__) || defined(__clang__) || defined(_MSC_VER)
#define SPECTRAL_RESTRICT __restrict
#else
#define SPECTRAL_RESTRICT
#endif

#if defined(__GNUC__) || defined(__clang__)
#define SPECTRAL_TARGET(...) __attribute__((target(__VA_ARGS__)))
#define SPECTRAL_SUPPORTS(name) __builtin_cpu_supports(name)
#else
#define SPECTRAL_TARGET(...) /* MSVC takes every instruction everywhere */
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(SPECTRAL_PLAIN_C)
#define SPECTRAL_UNUSED __attribute__((unused))
#define SPECTRAL_PREFETCH(address) __builtin_prefetch(address)
#define SPECTRAL_VECTOR(bytes) __attribute__((vector_size(bytes)))

/* The loader chooses: glibc's does, that of musl and of macOS cannot. Clang has it since 14. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define SPECTRAL_CLONES_OF(...) __attribute__((target_clones(__VA_ARGS__)))
#endif
#endif

/* functions of vectors are inlined: how these are passed does not matter */
#pragma GCC diagnostic ignored "-Wpsabi"

/* Clang takes "avx2,fma" for two targets, and has no `optimize` */
#if defined(SPECTRAL_CLONES_OF) && !defined(__clang__)
#define SPECTRAL_CLONES_OF_SUMS                                                                                      \
    __attribute__((target_clones("default", "avx2,fma"),                                                             \
                   optimize("associative-math", "no-signed-zeros", "no-trapping-math", "O3")))
#endif
#endif

#ifndef SPECTRAL_UNUSED
#define SPECTRAL_UNUSED
#define SPECTRAL_PREFETCH(address) ((void)(address))
#endif
#ifndef SPECTRAL_CLONES_OF
#define SPECTRAL_CLONES_OF(...)
#endif
#define SPECTRAL_CLONES SPECTRAL_CLONES_OF("avx2", "default")
#ifndef SPECTRAL_CLONES_OF_SUMS
#define SPECTRAL_CLONES_OF_SUMS SPECTRAL_CLONES
#endif

#endif
