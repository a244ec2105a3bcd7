/* All kernels for one kind of processor, after the functions that they share. NAMED(name) is the name of a symbol for
   that kind.

   The loops are written for a compiler to vectorise; only pairs.h and tiles.h use intrinsics. Matrices are row-major
   and contiguous unless stated otherwise. A bfloat16 is the upper half of a float's bits. NaN is propagated. */

/* The bits of a float as an integer of the same order, so that a maximum is computed as fast as a sum. Minus infinity
   is the smallest integer; a negative NaN, which would be below it, wraps around to the largest ones, where the
   positive NaNs are. */
enum { NAMED(SPARE) = 0x7fffff };

INLINE int32_t NAMED(ordered)(float x) {
    int32_t bits = (int32_t)to_bits(x);
    return (int32_t)((uint32_t)(bits ^ ((bits >> 31) & 0x7fffffff)) - NAMED(SPARE));
}

INLINE float NAMED(unordered)(int32_t order) {
    int32_t bits = (int32_t)((uint32_t)order + NAMED(SPARE));
    return from_bits((uint32_t)(bits ^ ((bits >> 31) & 0x7fffffff)));
}

INLINE float NAMED(wide)(uint16_t x) { return from_bits((uint32_t)x << 16); }

/* Rounds to the nearest bfloat16, ties to even. */
INLINE uint16_t NAMED(narrow)(float x) {
    uint32_t bits = to_bits(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* Element j of a row of bfloat16 if `low`, else of floats. Where `low` is a constant the test is compiled away. */
INLINE float NAMED(read)(const void *row, int64_t j, int low) {
    return low ? NAMED(wide)(((const uint16_t *)row)[j]) : ((const float *)row)[j];
}

INLINE void NAMED(write)(void *row, int64_t j, float x, int low) {
    if (low)
        ((uint16_t *)row)[j] = NAMED(narrow)(x);
    else
        ((float *)row)[j] = x;
}

/* The address of row i of rows of `width` elements. */
INLINE char *NAMED(row)(const void *rows, int64_t i, int64_t width, int low) {
    return (char *)(intptr_t)rows + i * width * (low ? 2 : 4);
}

/* Row i of rows of `step` elements as floats: the row itself, or its first n elements converted into `scratch`. */
INLINE const float *NAMED(floats)(const void *rows, int64_t i, int64_t step, int64_t low, int64_t n, float *scratch) {
    const void *row = NAMED(row)(rows, i, step, low != 0);
    if (!low) return row;
    for (int64_t j = 0; j < n; j++) scratch[j] = NAMED(wide)(((const uint16_t *)row)[j]);
    return scratch;
}

/* A row x plus a row s, n elements each, in either dtype. */
INLINE void NAMED(added_of)(const void *x, int x_low, const void *s, int low, int64_t n, float *sums) {
    EACH(j, n) sums[j] = NAMED(read)(x, j, x_low) + NAMED(read)(s, j, low);
}

/* Row i of x plus row i of s, n elements each, in either dtype. x_step is the row stride of x. */
static void NAMED(added)(const void *x, int64_t x_step, int64_t x_low, const void *s, int64_t low, int64_t i, int64_t n,
                         float *sums) {
    x = NAMED(row)(x, i, x_step, x_low != 0), s = NAMED(row)(s, i, n, low != 0);
    if (x_low)
        low ? NAMED(added_of)(x, 1, s, 1, n, sums) : NAMED(added_of)(x, 1, s, 0, n, sums);
    else
        low ? NAMED(added_of)(x, 0, s, 1, n, sums) : NAMED(added_of)(x, 0, s, 0, n, sums);
}

/* Writes n floats to row i, in either dtype. */
static void NAMED(put)(void *rows, int64_t low, int64_t i, int64_t n, const float *x) {
    void *row = NAMED(row)(rows, i, n, low != 0);
    if (low)
        for (int64_t j = 0; j < n; j++) ((uint16_t *)row)[j] = NAMED(narrow)(x[j]);
    else
        memcpy(row, x, (size_t)n * sizeof *x);
}

/* exp(x) to within two units in the last place; about 2^-126 where it would be smaller.

   x = n ln 2 + r, with ln 2 split into two parts so that n times the first one is exact; exp(r) is its Taylor series.
   */
INLINE float NAMED(exponential)(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float n = __builtin_rintf(x * 1.442695041f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * from_bits((uint32_t)((int32_t)n + 127) << 23);
}

INLINE float NAMED(sigmoid)(float x) { return 1.0f / (1.0f + NAMED(exponential)(-x)); }

/* tanh(x) with an absolute error of 2^-23, so that results near 0 have a large relative error. */
INLINE float NAMED(tangent)(float x) { return 1.0f - 2.0f / (1.0f + NAMED(exponential)(2.0f * x)); }

/* The sum of LANES floats, pairwise, which is more accurate than one by one; they are overwritten. */
INLINE float NAMED(total)(float *sums) {
    for (int64_t n = LANES / 2; n; n /= 2)
        for (int64_t l = 0; l < n; l++) sums[l] += sums[l + n];
    return sums[0];
}

/* Layer normalisation of n terms in place, without gain and bias; returns the factor by which they were scaled. */
INLINE float NAMED(normalise)(float *terms, int64_t n, float epsilon) {
    float mean = SUM(j, n, terms[j]) / (float)n;
    for (int64_t j = 0; j < n; j++) terms[j] -= mean;
    float scale = 1.0f / __builtin_sqrtf(SUM(j, n, terms[j] * terms[j]) / (float)n + epsilon);
    for (int64_t j = 0; j < n; j++) terms[j] *= scale;
    return scale;
}

/* Backward of `normalise`: the gradient d of n normalised terms becomes that of its inputs. Normalisation cancels
   shifts and scales of its inputs, so their components of the gradient are removed. */
INLINE void NAMED(normalise_back)(float *d, const float *terms, int64_t n, float scale) {
    float mean = SUM(j, n, d[j]) / (float)n, slope = SUM(j, n, d[j] * terms[j]) / (float)n;
    for (int64_t j = 0; j < n; j++) d[j] = (d[j] - mean - terms[j] * slope) * scale;
}

#include "attention.h"
#include "cells.h"
#include "search.h"
#ifdef __x86_64__
#include "pairs.h"
#endif
#undef NAMED
