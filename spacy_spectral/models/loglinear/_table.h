/* See `_table.pxd`. */
#ifndef SPECTRAL_TABLE_H
#define SPECTRAL_TABLE_H

#include <stdint.h>
#include <string.h>

#include "../../base/_compiler.h"

/* how many bits a byte has */
#define B2(n) n, n + 1, n + 1, n + 2
#define B4(n) B2(n), B2(n + 1), B2(n + 1), B2(n + 2)
#define B6(n) B4(n), B4(n + 1), B4(n + 1), B4(n + 2)
static inline int count_of_bits(int byte) {
    static const uint8_t counts[256] = {B6(0), B6(1), B6(1), B6(2)};
    return counts[byte];
}

typedef struct { uint32_t check[8], row[8]; } Bucket;

/* The row of a check, 0 for none. */
static inline uint32_t row_in_bucket(const Bucket* bucket, uint32_t check) {
#ifdef SPECTRAL_VECTOR
    typedef uint32_t four SPECTRAL_VECTOR(16);
    typedef uint64_t two SPECTRAL_VECTOR(16);
    four checks[2], rows[2], found;
    memcpy(checks, bucket->check, sizeof checks);
    memcpy(rows, bucket->row, sizeof rows);
    found = ((four)(checks[0] == check) & rows[0]) | ((four)(checks[1] == check) & rows[1]);
    uint64_t both = ((two)found)[0] | ((two)found)[1];
    return (uint32_t)both | (uint32_t)(both >> 32);
#else
    uint32_t row = 0;
    for (int i = 0; i < 8; i++) row |= bucket->row[i] & -(uint32_t)(bucket->check[i] == check);
    return row;
#endif
}

/* out += weights */
static inline SPECTRAL_CLONES void add_dense(int32_t* out, const void* cells, int n) {
    const int16_t* weights = cells;
    for (int i = 0; i < n; i++) out[i] += weights[i];
}

#endif
