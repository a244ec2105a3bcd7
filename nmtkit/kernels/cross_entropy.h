/* Loss and gradient of a row of logits, see cross_entropy.py.

   Given logits (rows, words), each row beginning `stride` of them after the one before it, bias (words), targets (rows),
   losses (rows, 2), the bias's gradient (parts, words) or null, room to work in (parts, words), what is wanted of a wrong
   word and of the target, words, stride, whether the logits are low. Writes the negative log-likelihood of the target and
   the sum of all words' log-probabilities. If there is a gradient of the bias, the logits become their own gradient,
   softmax less what is wanted, which is added to it. */
BODY(cross_entropy, int low) {
    const float *bias = ADDRESS(float, 1), wrong = ADDRESS(float, 6)[0], right = ADDRESS(float, 6)[1];
    int64_t words = given[7], stride = given[8], whole = words - words % LANES;
    float *z = ADDRESS(float, 5) + part * words, *d_bias = ADDRESS(float, 4);
    if (d_bias) d_bias += part * words;
    for (int64_t i = from; i < to; i++) {
        void *x = NAMED(row)(ADDRESS(void, 0), i, stride, low);
        int64_t target = ADDRESS(int64_t, 2)[i];
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
        float sum = NAMED(total)(sums);
        double all = log((double)sum);
        ADDRESS(double, 3)[2 * i] = all - of_target;
        ADDRESS(double, 3)[2 * i + 1] = NAMED(total)(terms) - all * (double)words;
        if (!d_bias) continue;
        float factor = 1.0f / sum, likelihood = z[target] * factor;
        for (int64_t j = 0; j < words; j++) {
            float d = z[j] * factor - wrong;
            d_bias[j] += d;
            NAMED(write)(x, j, d, low);
        }
        NAMED(write)(x, target, likelihood - right, low);
        d_bias[target] += wrong - right;
    }
}

KERNEL_OF(cross_entropy, 9)
