/* A step of additive attention in training, see attention.py. A row is a sentence, which has one query. */

/* Given queries (rows, width), keys (rows, sources, width), values (rows, sources, depth), v (width), mask (rows, sources),
   contexts (rows, depth), weights (rows, sources), room to work in (parts, depth), sources, width, depth, whether queries,
   keys, values and contexts are low. What is masked has the weight 0. */
BODY(attend, int low) {
    const float *v = ADDRESS(float, 3);
    float *context = ADDRESS(float, 7) + part * given[10];
    int64_t sources = given[8], width = given[9], depth = given[10], whole = width - width % LANES;
    for (int64_t b = from; b < to; b++) {
        const void *q = NAMED(row)(ADDRESS(void, 0), b, width, low);
        const uint8_t *real = ADDRESS(uint8_t, 4) + b * sources;
        float *weights = ADDRESS(float, 6) + b * sources, best = -INFINITY, sum = 0;
        for (int64_t s = 0; s < sources; s++) {
            weights[s] = -INFINITY;
            if (!real[s]) continue;
            const void *k = NAMED(row)(ADDRESS(void, 1), b * sources + s, width, low);
            float sums[LANES] = {0};
            for (int64_t a = 0; a < whole; a += LANES)
                for (int64_t l = 0; l < LANES; l++)
                    sums[l] += v[a + l] * NAMED(tangent)(NAMED(read)(q, a + l, low) + NAMED(read)(k, a + l, low));
            for (int64_t a = whole; a < width; a++)
                sums[a - whole] += v[a] * NAMED(tangent)(NAMED(read)(q, a, low) + NAMED(read)(k, a, low));
            float score = weights[s] = NAMED(total)(sums);
            best = score > best || score != score ? score : best;
        }
        for (int64_t s = 0; s < sources; s++) {
            weights[s] = real[s] ? NAMED(exponential)(weights[s] - best) : 0;
            sum += weights[s];
        }
        for (int64_t d = 0; d < depth; d++) context[d] = 0;
        for (int64_t s = 0; s < sources; s++) {
            float weight = weights[s] / sum;
            weights[s] = weight;
            if (weight == 0) continue;
            const void *x = NAMED(row)(ADDRESS(void, 2), b * sources + s, depth, low);
            for (int64_t d = 0; d < depth; d++) context[d] += weight * NAMED(read)(x, d, low);
        }
        void *out = NAMED(row)(ADDRESS(void, 5), b, depth, low);
        for (int64_t d = 0; d < depth; d++) NAMED(write)(out, d, context[d], low);
    }
}

KERNEL_OF(attend, 11)

/* Given the gradient of the contexts (rows, depth), queries, keys, values and v as above, weights (rows, sources), the
   gradients of the queries (rows, width), of the keys (rows, sources, width), to which this step's is added, and of v
   (parts, width), likewise, room to work in (parts, width + sources), sources, width, depth, whether the first four and the
   queries' gradient are low; the other gradients are not. */
BODY(attend_back, int low) {
    int64_t sources = given[10], width = given[11], depth = given[12], whole = depth - depth % LANES;
    const float *v = ADDRESS(float, 4);
    float *d_v = ADDRESS(float, 8) + part * width, *d_q = ADDRESS(float, 9) + part * (width + sources), *d = d_q + width;
    for (int64_t b = from; b < to; b++) {
        const void *g = NAMED(row)(ADDRESS(void, 0), b, depth, low), *q = NAMED(row)(ADDRESS(void, 1), b, width, low);
        const float *weights = ADDRESS(float, 5) + b * sources;
        float mean = 0;
        for (int64_t s = 0; s < sources; s++) { /* the gradient of a weight, and through the softmax that of its score */
            if (weights[s] == 0) continue;
            const void *x = NAMED(row)(ADDRESS(void, 3), b * sources + s, depth, low);
            float sums[LANES] = {0};
            for (int64_t j = 0; j < whole; j += LANES)
                for (int64_t l = 0; l < LANES; l++) sums[l] += NAMED(read)(g, j + l, low) * NAMED(read)(x, j + l, low);
            for (int64_t j = whole; j < depth; j++) sums[j - whole] += NAMED(read)(g, j, low) * NAMED(read)(x, j, low);
            d[s] = NAMED(total)(sums);
            mean += weights[s] * d[s];
        }
        for (int64_t a = 0; a < width; a++) d_q[a] = 0;
        for (int64_t s = 0; s < sources; s++) {
            if (weights[s] == 0) continue;
            float d_score = weights[s] * (d[s] - mean);
            const void *k = NAMED(row)(ADDRESS(void, 2), b * sources + s, width, low);
            float *d_k = ADDRESS(float, 7) + (b * sources + s) * width;
            for (int64_t a = 0; a < width; a++) {
                float y = NAMED(tangent)(NAMED(read)(q, a, low) + NAMED(read)(k, a, low));
                float slope = d_score * v[a] * (1 - y * y);
                d_v[a] += d_score * y;
                d_k[a] += slope;
                d_q[a] += slope;
            }
        }
        void *out = NAMED(row)(ADDRESS(void, 6), b, width, low);
        for (int64_t a = 0; a < width; a++) NAMED(write)(out, a, d_q[a], low);
    }
}

KERNEL_OF(attend_back, 13)
