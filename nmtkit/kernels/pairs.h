/* Products of 8-bit integers for processors that accumulate pairs of them in 16 bits; see pairs.py. */

enum {
    NAMED(STRIP) = 16,  /* columns of the weight processed at once: two vectors of sums */
    NAMED(DEEP) = 8,    /* rows of the weight accumulated in 16 bits, four products in each sum */
    NAMED(AT_ONCE) = 6, /* rows of x processed at once */
    NAMED(FEW) = 12     /* rows of x that are multiplied by all strips in turn: their results stay in cache */
};

/* x (rows, depth) times a strip, plus `first` (STRIP): sums (rows, STRIP). */
INLINE void NAMED(sums_of_rows)(
    const uint8_t *x, int64_t rows, int64_t depth, const int8_t *strip, const int32_t *first, int32_t *sums
) {
    const __m256i *weights = (const __m256i *)strip, ones = _mm256_set1_epi16(1);
    __m256i left[NAMED(AT_ONCE)], right[NAMED(AT_ONCE)];
    for (int64_t i = 0; i < rows; i++) {
        left[i] = _mm256_loadu_si256((const __m256i *)first);
        right[i] = _mm256_loadu_si256((const __m256i *)first + 1);
    }
    for (int64_t k = 0; k < depth; k += NAMED(DEEP), weights += 4)
        for (int64_t i = 0; i < rows; i++) {
            int32_t first_four, second_four; /* separate, so that each is one broadcast load */
            memcpy(&first_four, x + i * depth + k, sizeof first_four);
            memcpy(&second_four, x + i * depth + k + 4, sizeof second_four);
            __m256i one = _mm256_set1_epi32(first_four), other = _mm256_set1_epi32(second_four);
            __m256i sum = _mm256_maddubs_epi16(one, _mm256_loadu_si256(weights));
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(other, _mm256_loadu_si256(weights + 1)));
            left[i] = _mm256_add_epi32(left[i], _mm256_madd_epi16(sum, ones));
            sum = _mm256_maddubs_epi16(one, _mm256_loadu_si256(weights + 2));
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(other, _mm256_loadu_si256(weights + 3)));
            right[i] = _mm256_add_epi32(right[i], _mm256_madd_epi16(sum, ones));
        }
    for (int64_t i = 0; i < rows; i++) {
        _mm256_storeu_si256((__m256i *)(sums + i * NAMED(STRIP)), left[i]);
        _mm256_storeu_si256((__m256i *)(sums + i * NAMED(STRIP)) + 1, right[i]);
    }
}

/* Each sum times the scales of its row and column, plus the bias. A row of the kernel is a strip. */
GIVEN(pairs_multiply) {
    const uint8_t *x;                       /* (count, depth), unsigned */
    const int8_t *strips;                   /* (rows, depth / DEEP, 2, 2, 8, 4) */
    const int32_t *first;                   /* (rows, STRIP) initial values of the sums */
    const float *scales, *bias, *x_scales;  /* of the columns (rows, STRIP), (rows, STRIP), of x (count) */
    any *result;                            /* (count, width) */
    int64_t count, depth, width, low;
};

/* `rows` rows of x, from row i on, times strip s. */
INLINE void NAMED(results_of_rows)(const GIVEN(pairs_multiply) *given, int64_t i, int64_t rows, int64_t s, int low) {
    int64_t depth = given->depth, width = given->width, column = s * NAMED(STRIP);
    const float *scales = given->scales + column, *bias = given->bias + column;
    int32_t sums[NAMED(AT_ONCE) * NAMED(STRIP)];
    for (int64_t r = 0; r < rows; r++) /* only a few columns of each row are written, which hardware prefetchers miss */
        __builtin_prefetch(NAMED(row)(given->result, i + r, width, low) + column * (low ? 2 : 4), 1, 2);
    NAMED(sums_of_rows)(
        given->x + i * depth, rows, depth, given->strips + column * depth, given->first + column, sums
    );
    for (int64_t r = 0; r < rows; r++) {
        void *y = NAMED(row)(given->result, i + r, width, low);
        float scale = given->x_scales[i + r], results[NAMED(STRIP)];
        for (int64_t j = 0; j < NAMED(STRIP); j++)
            results[j] = (float)sums[r * NAMED(STRIP) + j] * (scale * scales[j]) + bias[j];
        if (width - column >= NAMED(STRIP))
            for (int64_t j = 0; j < NAMED(STRIP); j++) NAMED(write)(y, column + j, results[j], low);
        else
            for (int64_t j = 0; column + j < width; j++) NAMED(write)(y, column + j, results[j], low);
    }
}

BODY(pairs_multiply, int low) {
    for (int64_t top = 0; top < given->count; top += NAMED(FEW))
        for (int64_t s = from; s < to; s++) {
            int64_t i = top, bottom = top + NAMED(FEW) < given->count ? top + NAMED(FEW) : given->count;
            for (; bottom - i >= NAMED(AT_ONCE); i += NAMED(AT_ONCE))
                NAMED(results_of_rows)(given, i, NAMED(AT_ONCE), s, low);
            for (; bottom - i >= 2; i += 2) NAMED(results_of_rows)(given, i, 2, s, low);
            if (i < bottom) NAMED(results_of_rows)(given, i, 1, s, low);
        }
}

KERNEL_OF(pairs_multiply, low)
