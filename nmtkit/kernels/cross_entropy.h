/* Cross-entropy of logits and its gradient, row by row, see ../ops/cross_entropy.py. */

GIVEN(cross_entropy) {
    any *logits;             /* (rows, words), row stride `stride`; replaced by their gradient if d_bias is not null */
    const float *bias;       /* (words) */
    const int64_t *target;   /* (rows) */
    const float *wanted;     /* (2), the probabilities wanted of a wrong word and of the target */
    double *sums;            /* (rows, 2), the target's negative log-likelihood and the sum of all log-probabilities */
    float *d_bias, *scratch; /* (parts, words) each; d_bias is accumulated, and may be null */
    int64_t words, stride, low;
};

BODY(cross_entropy, int low) {
    const float *bias = given->bias, wrong = given->wanted[0], right = given->wanted[1];
    int64_t words = given->words, whole = words - words % LANES;
    float *z = given->scratch + part * words, *d_bias = given->d_bias ? given->d_bias + part * words : NULL;
    for (int64_t i = from; i < to; i++) {
        void *x = NAMED(row)(given->logits, i, given->stride, low);
        int64_t target = given->target[i];
        int32_t most = INT32_MIN;
        for (int64_t j = 0; j < words; j++) {
            z[j] = NAMED(read)(x, j, low) + bias[j];
            int32_t o = NAMED(ordered)(z[j]);
            most = o > most ? o : most;
        }
        float best = NAMED(unordered)(most), of_target = z[target] - best;
        float sums[LANES] = {0}, terms[LANES] = {0};
        for (int64_t j = 0; j < whole; j += LANES)
            for (int64_t l = 0; l < LANES; l++) {
                float y = z[j + l] - best, e = NAMED(exponential)(y);
                z[j + l] = e;
                sums[l] += e;
                terms[l] += y;
            }
        for (int64_t j = whole; j < words; j++) {
            float y = z[j] - best;
            z[j] = NAMED(exponential)(y);
            sums[j - whole] += z[j];
            terms[j - whole] += y;
        }
        float sum = NAMED(total)(sums), factor = 1.0f / sum;
        double all = log((double)sum);
        given->sums[2 * i] = all - of_target;
        given->sums[2 * i + 1] = NAMED(total)(terms) - all * (double)words;
        if (!d_bias) continue;
        float of_right = z[target] * factor - right;
        EACH(j, words) {
            float d = z[j] * factor - wrong;
            d_bias[j] += d;
            NAMED(write)(x, j, d, low);
        }
        NAMED(write)(x, target, of_right, low);
        d_bias[target] += wrong - right;
    }
}

KERNEL_OF(cross_entropy, low)
