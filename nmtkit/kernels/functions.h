/* What the kernels of one kind of processor share. Not-a-number stays what it is. */

/* The bits of a float as an integer of the same order, so that the greatest is found as fast as a sum. Minus infinity is
   the least integer, so that what lies below it, not-a-number with a minus sign, wraps around to the greatest, where
   not-a-number with a plus sign is. */
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

/* To the nearest bfloat16, of two as near the even one. */
INLINE uint16_t NAMED(narrow)(float x) {
    uint32_t bits = to_bits(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* Number j of a row of bfloat16 if it is low, else of floats. Where `low` is a constant there is no question left. */
INLINE float NAMED(read)(const void *row, int64_t j, int low) {
    return low ? NAMED(wide)(((const uint16_t *)row)[j]) : ((const float *)row)[j];
}

INLINE void NAMED(write)(void *row, int64_t j, float x, int low) {
    if (low)
        ((uint16_t *)row)[j] = NAMED(narrow)(x);
    else
        ((float *)row)[j] = x;
}

/* Where row i begins, of rows of so many numbers. */
INLINE char *NAMED(row)(const void *rows, int64_t i, int64_t width, int low) {
    return (char *)(intptr_t)rows + i * width * (low ? 2 : 4);
}

/* A row of n numbers as floats: itself, or the floats that are then in the room. */
INLINE const float *NAMED(floats)(const void *row, int64_t n, int low, float *room) {
    if (!low) return row;
    for (int64_t j = 0; j < n; j++) room[j] = NAMED(wide)(((const uint16_t *)row)[j]);
    return room;
}

/* n floats to bfloat16. */
INLINE void NAMED(narrowed)(uint16_t *row, const float *x, int64_t n) {
    for (int64_t j = 0; j < n; j++) row[j] = NAMED(narrow)(x[j]);
}

/* The sum of n numbers of each of the first three that a kernel was given, each of which may be null, from number `at` on;
   the first are floats, the others low or not. */
INLINE void NAMED(sum_of_terms)(float *sum, const int64_t *given, int64_t at, int64_t n, int low) {
    const float *first = ADDRESS(float, 0);
    const void *second = ADDRESS(void, 1), *third = ADDRESS(void, 2);
    for (int64_t j = 0; j < n; j++) {
        float x = first ? first[at + j] : 0;
        if (second) x += NAMED(read)(second, at + j, low);
        if (third) x += NAMED(read)(third, at + j, low);
        sum[j] = x;
    }
}

/* e to the power x, to two units in the last place; 2^-126 or so for what is smaller.

   x = n ln 2 + r, where ln 2 is taken in two parts, the first of which times n is exact; e^r is its Taylor series. */
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

/* To 2^-23 everywhere, which is coarse beside the smallest results. */
INLINE float NAMED(tangent)(float x) { return 1.0f - 2.0f / (1.0f + NAMED(exponential)(2.0f * x)); }

/* The sum of LANES floats, by halves, which keeps more digits than one after the other; they are overwritten. */
INLINE float NAMED(total)(float *sums) {
    for (int64_t n = LANES / 2; n; n /= 2)
        for (int64_t l = 0; l < n; l++) sums[l] += sums[l + n];
    return sums[0];
}

/* The sum of n floats. */
INLINE float NAMED(sum)(const float *x, int64_t n) {
    int64_t whole = n - n % LANES;
    float sums[LANES] = {0};
    for (int64_t j = 0; j < whole; j += LANES)
        for (int64_t l = 0; l < LANES; l++) sums[l] += x[j + l];
    for (int64_t j = whole; j < n; j++) sums[j - whole] += x[j];
    return NAMED(total)(sums);
}

/* The sum of the products of n floats each. */
INLINE float NAMED(dot)(const float *x, const float *y, int64_t n) {
    int64_t whole = n - n % LANES;
    float sums[LANES] = {0};
    for (int64_t j = 0; j < whole; j += LANES)
        for (int64_t l = 0; l < LANES; l++) sums[l] += x[j + l] * y[j + l];
    for (int64_t j = whole; j < n; j++) sums[j - whole] += x[j] * y[j];
    return NAMED(total)(sums);
}

/* Layer normalisation of n terms in place, before gain and bias; gives what they were scaled by. */
INLINE float NAMED(normalise)(float *terms, int64_t n, float epsilon) {
    float mean = NAMED(sum)(terms, n) / (float)n;
    for (int64_t j = 0; j < n; j++) terms[j] -= mean;
    float scale = 1.0f / __builtin_sqrtf(NAMED(dot)(terms, terms, n) / (float)n + epsilon);
    for (int64_t j = 0; j < n; j++) terms[j] *= scale;
    return scale;
}

/* The gradient of n normalised terms becomes that of the terms before. Neither the mean of these nor their common size
   changes anything: what would change them is taken out. */
INLINE void NAMED(normalise_back)(float *d, const float *terms, int64_t n, float scale) {
    float mean = NAMED(sum)(d, n) / (float)n, slope = NAMED(dot)(d, terms, n) / (float)n;
    for (int64_t j = 0; j < n; j++) d[j] = (d[j] - mean - terms[j] * slope) * scale;
}
