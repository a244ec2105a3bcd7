/* The work of search other than matrix products, each kernel in one pass over memory; see search.py. */

/* The maximum of `count` words of a row, from `first` on, as `ordered`. */
INLINE int32_t NAMED(most)(const void *x, int64_t first, int64_t count, int low) {
    int32_t most = INT32_MIN;
    for (int64_t j = 0; j < count; j++) {
        int32_t o = NAMED(ordered)(NAMED(read)(x, first + j, low));
        most = o > most ? o : most;
    }
    return most;
}

/* The sum of exp(logit - greatest) over the words of a row. */
INLINE float NAMED(sum_of_exponentials)(const void *x, int64_t words, float greatest, int low) {
    return SUM(j, words, NAMED(exponential)(NAMED(read)(x, j, low) - greatest));
}

GIVEN(log_softmax) {
    const any *logits; /* (rows, words) */
    float *result;     /* (rows, words) */
    int64_t words, low;
};

BODY(log_softmax, int low) {
    int64_t words = given->words;
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(given->logits, i, words, low);
        float *y = given->result + i * words, greatest = NAMED(unordered)(NAMED(most)(x, 0, words, low));
        float all = logf(NAMED(sum_of_exponentials)(x, words, greatest, low));
        for (int64_t j = 0; j < words; j++) y[j] = (NAMED(read)(x, j, low) - greatest) - all;
    }
}

KERNEL_OF(log_softmax, low)

enum { NAMED(GROUP) = 64 }; /* columns */

/* The maximum of a row's words, and the maxima of its complete groups. */
INLINE float NAMED(greatest)(const void *x, int64_t words, int low, int32_t *maxima) {
    int64_t whole = words / NAMED(GROUP), rest = words % NAMED(GROUP);
    int32_t greatest = NAMED(most)(x, words - rest, rest, low);
    for (int64_t g = 0; g < whole; g++) {
        maxima[g] = NAMED(most)(x, g * NAMED(GROUP), NAMED(GROUP), low);
        greatest = maxima[g] > greatest ? maxima[g] : greatest;
    }
    return NAMED(unordered)(greatest);
}

/* The top k of a row from the word `first` on, sorted, and their columns. Ties go to the last column, so that EOS, one
   of the first words, does not win them. Only groups whose maximum is among the top k maxima are searched, and groups
   of which not all words count. */
INLINE void NAMED(best_of)(
    const void *x, int64_t words, int64_t first, int64_t k, int low, int32_t *maxima, float *y, int64_t *at
) {
    int64_t whole = words / NAMED(GROUP), groups = (words + NAMED(GROUP) - 1) / NAMED(GROUP), found = 0;
    for (int64_t g = first > 0; g < whole; g++) { /* first, y is filled with the top k maxima */
        if (found == k && maxima[g] <= NAMED(ordered)(y[k - 1])) continue;
        int64_t place = found < k ? found++ : k - 1;
        for (; place && maxima[g] > NAMED(ordered)(y[place - 1]); place--) y[place] = y[place - 1];
        y[place] = NAMED(unordered)(maxima[g]);
    }
    int32_t least = found == k ? NAMED(ordered)(y[k - 1]) : INT32_MIN;
    if (whole < groups) maxima[whole] = INT32_MAX;
    if (first) maxima[0] = INT32_MAX;
    found = 0;
    for (int64_t g = 0; g < groups; g++) {
        if (maxima[g] < least) continue;
        int64_t end = (g + 1) * NAMED(GROUP) < words ? (g + 1) * NAMED(GROUP) : words;
        for (int64_t j = g ? g * NAMED(GROUP) : first; j < end; j++) {
            float value = NAMED(read)(x, j, low);
            int32_t o = NAMED(ordered)(value);
            if (found == k && o < NAMED(ordered)(y[k - 1])) continue;
            int64_t place = found < k ? found++ : k - 1;
            for (; place && o >= NAMED(ordered)(y[place - 1]); place--) {
                y[place] = y[place - 1];
                at[place] = at[place - 1];
            }
            y[place] = value;
            at[place] = j;
        }
    }
}

/* The top k of each row's log softmax, which is computed for them only. */
GIVEN(best_log_softmax) {
    const any *logits; /* (rows, words) */
    float *found;      /* (rows, k) */
    int64_t *columns;  /* (rows, k) */
    int32_t *scratch;  /* (parts, words / GROUP rounded up) */
    int64_t words, first, k, low; /* k is at most words - first */
};

BODY(best_log_softmax, int low) {
    int64_t words = given->words, k = given->k, groups = (words + NAMED(GROUP) - 1) / NAMED(GROUP);
    int32_t *maxima = given->scratch + part * groups;
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(given->logits, i, words, low);
        float greatest = NAMED(greatest)(x, words, low, maxima), *y = given->found + i * k;
        float all = logf(NAMED(sum_of_exponentials)(x, words, greatest, low));
        NAMED(best_of)(x, words, given->first, k, low, maxima, y, given->columns + i * k);
        for (int64_t j = 0; j < k; j++) y[j] = (y[j] - greatest) - all;
    }
}

KERNEL_OF(best_log_softmax, low)

/* Attention scores: the sum over a of factors[a] / (1 + query[a] key[a]). A row is a sentence. */
GIVEN(scores) {
    const float *query, *keys, *factors; /* (rows, beam, width), (rows, sources, width), (width) */
    float *result;                       /* (rows, beam, sources) */
    int64_t beam, sources, width;
};

KERNEL(scores) {
    const float *factors = given->factors;
    int64_t beam = given->beam, sources = given->sources, width = given->width;
    for (int64_t b = from; b < to; b++)
        for (int64_t s = 0; s < sources; s++) {
            const float *key = given->keys + (b * sources + s) * width;
            for (int64_t k = 0; k < beam; k++) {
                const float *q = given->query + (b * beam + k) * width;
                given->result[(b * beam + k) * sources + s] = SUM(a, width, factors[a] / (1.0f + q[a] * key[a]));
            }
        }
}

/* Weighted sums of values. A row is a sentence. */
GIVEN(weighted) {
    const float *weights; /* (rows, beam, sources) */
    const any *values;    /* (rows, sources, depth) */
    float *result;        /* (rows, beam, depth) */
    int64_t beam, sources, depth, low;
};

BODY(weighted, int low) {
    int64_t beam = given->beam, sources = given->sources, depth = given->depth;
    for (int64_t b = from; b < to; b++) {
        const float *weights = given->weights + b * beam * sources;
        for (int64_t d = 0; d < depth; d += LANES) {
            int64_t n = depth - d < LANES ? depth - d : LANES;
            for (int64_t k = 0; k < beam; k++) {
                float sums[LANES] = {0};
                for (int64_t s = 0; s < sources; s++) {
                    const void *x = NAMED(row)(given->values, b * sources + s, depth, low);
                    float weight = weights[k * sources + s];
                    if (n == LANES)
                        for (int64_t l = 0; l < LANES; l++) sums[l] += weight * NAMED(read)(x, d + l, low);
                    else
                        for (int64_t l = 0; l < n; l++) sums[l] += weight * NAMED(read)(x, d + l, low);
                }
                memcpy(given->result + (b * beam + k) * depth + d, sums, (size_t)n * sizeof *sums);
            }
        }
    }
}

KERNEL_OF(weighted, low)

/* Quantisation: each number is divided by its row's scale and rounded, ties to even, to an integer from -largest to
   largest, to which `largest` is added. */
GIVEN(quantise) {
    const any *numbers; /* (rows, width) */
    uint8_t *integers;  /* (rows, width) */
    float *scales;      /* (rows) */
    int64_t width, largest, low;
};

BODY(quantise, int low) {
    int64_t width = given->width, largest = given->largest;
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(given->numbers, i, width, low);
        uint8_t *y = given->integers + i * width;
        int32_t most = 0;
        for (int64_t j = 0; j < width; j++) {
            int32_t o = (int32_t)(to_bits(NAMED(read)(x, j, low)) & 0x7fffffff);
            most = o > most ? o : most;
        }
        float scale = from_bits((uint32_t)most) / (float)largest;
        scale = scale < 1e-30f ? 1e-30f : scale;
        float factor = 1.0f / scale;
        for (int64_t j = 0; j < width; j++)
            y[j] = (uint8_t)((int32_t)__builtin_rintf(NAMED(read)(x, j, low) * factor) + (int32_t)largest);
        given->scales[i] = scale;
    }
}

KERNEL_OF(quantise, low)

/* Each sum times its row's scale, plus the bias. */
GIVEN(dequantise) {
    const float *sums, *scales, *bias; /* (rows, width), (rows), (width) or null */
    any *result;                       /* (rows, width) */
    int64_t width, low;
};

BODY(dequantise, int low) {
    const float *bias = given->bias;
    int64_t width = given->width;
    for (int64_t i = from; i < to; i++) {
        const float *x = given->sums + i * width, scale = given->scales[i];
        void *y = NAMED(row)(given->result, i, width, low);
        if (bias)
            for (int64_t j = 0; j < width; j++) NAMED(write)(y, j, x[j] * scale + bias[j], low);
        else
            for (int64_t j = 0; j < width; j++) NAMED(write)(y, j, x[j] * scale, low);
    }
}

KERNEL_OF(dequantise, low)
