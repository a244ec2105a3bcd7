/* What search does on a processor beside its products, each in one pass over memory; see native.py for what it is for.

   native.c includes this file once for each kind of processor, with KERNEL(name) as the name that it has for that kind.
   There are no vector instructions here: the loops are such that a compiler makes them. Not-a-number stays what it is.

   Matrices are row by row, without gaps. bfloat16 is the upper half of a float's bits. */

/* The bits of a float as an integer of the same order, so that the greatest is found as fast as a sum. Minus infinity is
   the least integer, so that what lies below it, not-a-number with a minus sign, wraps around to the greatest, where
   not-a-number with a plus sign is. */
enum { KERNEL(SPARE) = 0x7fffff };

INLINE int32_t KERNEL(ordered)(float x) {
    int32_t bits = (int32_t)to_bits(x);
    return (int32_t)((uint32_t)(bits ^ ((bits >> 31) & 0x7fffffff)) - KERNEL(SPARE));
}

INLINE float KERNEL(unordered)(int32_t order) {
    int32_t bits = (int32_t)((uint32_t)order + KERNEL(SPARE));
    return from_bits((uint32_t)(bits ^ ((bits >> 31) & 0x7fffffff)));
}

INLINE float KERNEL(wide)(uint16_t x) { return from_bits((uint32_t)x << 16); }

INLINE float KERNEL(same)(float x) { return x; }

/* To the nearest bfloat16, of two as near the even one. */
INLINE uint16_t KERNEL(narrow)(float x) {
    uint32_t bits = to_bits(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* e to the power x, to two units in the last place; 2^-126 or so for what is smaller.

   x = n ln 2 + r, where ln 2 is taken in two parts, the first of which times n is exact; e^r is its Taylor series. */
INLINE float KERNEL(exponential)(float x) {
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

/* out (rows, words): log softmax of the logits (rows, words). */
#define LOG_SOFTMAX(NAME, TYPE, READ)                                                                                  \
    EXPORT void KERNEL(NAME)(const TYPE *logits, float *out, int64_t rows, int64_t words) {                            \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            const TYPE *x = logits + i * words;                                                                        \
            float *y = out + i * words, sums[LANES] = {0}, sum = 0;                                                    \
            int32_t most = INT32_MIN;                                                                                  \
            for (int64_t j = 0; j < words; j++) {                                                                      \
                int32_t o = KERNEL(ordered)(KERNEL(READ)(x[j]));                                                       \
                most = o > most ? o : most;                                                                            \
            }                                                                                                          \
            float best = KERNEL(unordered)(most);                                                                      \
            int64_t whole = words - words % LANES;                                                                     \
            for (int64_t j = 0; j < whole; j += LANES)                                                                 \
                for (int64_t l = 0; l < LANES; l++) sums[l] += KERNEL(exponential)(KERNEL(READ)(x[j + l]) - best);     \
            for (int64_t l = 0; l < LANES; l++) sum += sums[l];                                                        \
            for (int64_t j = whole; j < words; j++) sum += KERNEL(exponential)(KERNEL(READ)(x[j]) - best);             \
            float all = logf(sum);                                                                                     \
            for (int64_t j = 0; j < words; j++) y[j] = (KERNEL(READ)(x[j]) - best) - all;                              \
        }                                                                                                              \
    }

LOG_SOFTMAX(log_softmax_bfloat16, uint16_t, wide)
LOG_SOFTMAX(log_softmax_float32, float, same)

/* best and columns (rows, k): the k greatest of each row of values (rows, words), sorted, of equals the last, so that the
   end mark, which is among the first words, ends nothing that could as well go on. A row begins `stride` values after the
   one before it. k is at most the number of words. maxima (words / GROUP, rounded up) is room to work in: only groups of
   columns whose greatest is among the k greatest have to be looked through. */
EXPORT void KERNEL(best)(const float *values, int64_t stride, int64_t rows, int64_t words, int64_t k, int32_t *maxima,
                         float *best, int64_t *columns) {
    enum { GROUP = 64 };
    int64_t whole = words / GROUP, groups = (words + GROUP - 1) / GROUP;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = values + i * stride;
        float *y = best + i * k;
        int64_t *at = columns + i * k, found = 0;
        for (int64_t g = 0; g < whole; g++) {
            int32_t most = INT32_MIN;
            for (int64_t j = 0; j < GROUP; j++) {
                int32_t o = KERNEL(ordered)(x[g * GROUP + j]);
                most = o > most ? o : most;
            }
            maxima[g] = most;
        }
        if (whole < groups) maxima[whole] = INT32_MAX; /* what is left over is always looked through */
        for (int64_t g = 0; g < whole; g++) { /* at first y has the k greatest maxima */
            if (found == k && maxima[g] <= KERNEL(ordered)(y[k - 1])) continue;
            int64_t place = found < k ? found++ : k - 1;
            for (; place && maxima[g] > KERNEL(ordered)(y[place - 1]); place--) y[place] = y[place - 1];
            y[place] = KERNEL(unordered)(maxima[g]);
        }
        int32_t least = found == k ? KERNEL(ordered)(y[k - 1]) : INT32_MIN;
        found = 0;
        for (int64_t g = 0; g < groups; g++) {
            if (maxima[g] < least) continue;
            for (int64_t j = g * GROUP; j < words && j < (g + 1) * GROUP; j++) {
                int32_t o = KERNEL(ordered)(x[j]);
                if (found == k && o < KERNEL(ordered)(y[k - 1])) continue;
                int64_t place = found < k ? found++ : k - 1;
                for (; place && o >= KERNEL(ordered)(y[place - 1]); place--) {
                    y[place] = y[place - 1];
                    at[place] = at[place - 1];
                }
                y[place] = x[j];
                at[place] = j;
            }
        }
    }
}

/* scores (sentences, beam, sources): the sum over a of factors[a] / (1 + query[a] key[a]), for queries (sentences, beam,
   width), keys (sentences, sources, width) and factors (width). */
EXPORT void KERNEL(scores)(const float *query, const float *keys, const float *factors, float *scores,
                           int64_t sentences, int64_t beam, int64_t sources, int64_t width) {
    int64_t whole = width - width % LANES;
    for (int64_t b = 0; b < sentences; b++)
        for (int64_t s = 0; s < sources; s++) {
            const float *key = keys + (b * sources + s) * width;
            for (int64_t k = 0; k < beam; k++) {
                const float *q = query + (b * beam + k) * width;
                float sums[LANES] = {0}, sum = 0;
                for (int64_t a = 0; a < whole; a += LANES)
                    for (int64_t l = 0; l < LANES; l++) sums[l] += factors[a + l] / (1.0f + q[a + l] * key[a + l]);
                for (int64_t l = 0; l < LANES; l++) sum += sums[l];
                for (int64_t a = whole; a < width; a++) sum += factors[a] / (1.0f + q[a] * key[a]);
                scores[(b * beam + k) * sources + s] = sum;
            }
        }
}

INLINE float KERNEL(sigmoid)(float x) { return 1.0f / (1.0f + KERNEL(exponential)(-x)); }

/* To 2^-23 everywhere, which is coarse beside the smallest results. */
INLINE float KERNEL(tangent)(float x) { return 1.0f - 2.0f / (1.0f + KERNEL(exponential)(2.0f * x)); }

/* The gates of a GRU, see gru.py: z (rows, width), and reset (rows, width), r times h, in bfloat16; from x (rows, 3 width),
   the product (rows, 2 width) of h (rows, width) and the gates' weights, and h. */
EXPORT void KERNEL(gru_gates)(const float *x, const float *product, const float *h, float *z, uint16_t *reset,
                              int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++, x += 3 * width, product += 2 * width, h += width, z += width, reset += width) {
        for (int64_t j = 0; j < width; j++) reset[j] = KERNEL(narrow)(KERNEL(sigmoid)(x[j] + product[j]) * h[j]);
        for (int64_t j = 0; j < width; j++) z[j] = KERNEL(sigmoid)(x[width + j] + product[width + j]);
    }
}

/* The next state (rows, width) of a GRU from x (rows, 3 width), the product (rows, width) of `reset` and the candidate's
   weights, z and h (rows, width). */
EXPORT void KERNEL(gru_state)(const float *x, const float *product, const float *z, const float *h, float *next,
                              int64_t rows, int64_t width) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            float candidate = KERNEL(tangent)(x[(3 * i + 2) * width + j] + product[i * width + j]), old = h[i * width + j];
            next[i * width + j] = old + z[i * width + j] * (candidate - old);
        }
}

/* out (count, width): rows (count, width) divided by scales (count) and rounded, plus `largest`, which no integer
   exceeds; of two as near the even one. */
#define QUANTISE(NAME, TYPE, READ)                                                                                     \
    EXPORT void KERNEL(NAME)(const TYPE *rows, uint8_t *out, float *scales, int64_t count, int64_t width,              \
                             int64_t largest) {                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const TYPE *x = rows + i * width;                                                                          \
            uint8_t *y = out + i * width;                                                                              \
            int32_t most = 0;                                                                                          \
            for (int64_t j = 0; j < width; j++) {                                                                      \
                int32_t o = (int32_t)(to_bits(KERNEL(READ)(x[j])) & 0x7fffffff);                                       \
                most = o > most ? o : most;                                                                            \
            }                                                                                                          \
            float scale = from_bits((uint32_t)most) / (float)largest;                                                  \
            scale = scale < 1e-30f ? 1e-30f : scale;                                                                   \
            float factor = 1.0f / scale;                                                                               \
            for (int64_t j = 0; j < width; j++)                                                                        \
                y[j] = (uint8_t)((int32_t)__builtin_rintf(KERNEL(READ)(x[j]) * factor) + (int32_t)largest);            \
            scales[i] = scale;                                                                                         \
        }                                                                                                              \
    }

QUANTISE(quantise_bfloat16, uint16_t, wide)
QUANTISE(quantise_float32, float, same)

/* out (count, width): sums (count, width) times scales (count), plus bias (width) unless it is null. */
#define DEQUANTISE(NAME, TYPE, WRITE)                                                                                  \
    EXPORT void KERNEL(NAME)(const float *sums, const float *scales, const float *bias, TYPE *out, int64_t count,      \
                             int64_t width) {                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const float *x = sums + i * width, scale = scales[i];                                                      \
            TYPE *y = out + i * width;                                                                                 \
            if (bias)                                                                                                  \
                for (int64_t j = 0; j < width; j++) y[j] = KERNEL(WRITE)(x[j] * scale + bias[j]);                      \
            else                                                                                                       \
                for (int64_t j = 0; j < width; j++) y[j] = KERNEL(WRITE)(x[j] * scale);                                \
        }                                                                                                              \
    }

DEQUANTISE(dequantise_bfloat16, uint16_t, narrow)
DEQUANTISE(dequantise_float32, float, same)

#undef LOG_SOFTMAX
#undef QUANTISE
#undef DEQUANTISE
#undef KERNEL
