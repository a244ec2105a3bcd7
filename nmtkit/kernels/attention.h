/* One step of additive attention, see ../ops/attention.py. A row is a query; `beam` rows belong to each sentence. */
GIVEN(attend) {
    const any *query, *keys, *values; /* (rows, width), (sentences, sources, width), (sentences, sources, depth) */
    const float *v;                   /* (width) */
    const uint8_t *mask;              /* (sentences, sources); positions where it is 0 get weight 0 */
    any *context;                     /* (rows, depth) */
    float *weights, *scratch;         /* (rows, sources), (parts, depth) */
    int64_t beam, sources, width, depth, low;
};

BODY(attend, int low) {
    const float *v = given->v;
    float *context = given->scratch + part * given->depth;
    int64_t sources = given->sources, width = given->width, depth = given->depth;
    for (int64_t b = from; b < to; b++) {
        const void *q = NAMED(row)(given->query, b, width, low);
        int64_t first = b / given->beam * sources; /* of the sentence */
        const uint8_t *real = given->mask + first;
        float *weights = given->weights + b * sources, best = -INFINITY, sum = 0;
        for (int64_t s = 0; s < sources; s++) {
            weights[s] = -INFINITY;
            if (!real[s]) continue;
            const void *k = NAMED(row)(given->keys, first + s, width, low);
            float score = SUM(a, width, v[a] * NAMED(tangent)(NAMED(read)(q, a, low) + NAMED(read)(k, a, low)));
            weights[s] = score;
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
            const void *x = NAMED(row)(given->values, first + s, depth, low);
            EACH(d, depth) context[d] += weight * NAMED(read)(x, d, low);
        }
        void *out = NAMED(row)(given->context, b, depth, low);
        for (int64_t d = 0; d < depth; d++) NAMED(write)(out, d, context[d], low);
    }
}

KERNEL_OF(attend, low)

/* The gradients of queries, keys and v; those of keys and v are accumulated. A row is a sentence with one query. */
GIVEN(attend_back) {
    const any *d_context, *query, *keys, *values; /* (rows, depth), the others as above, with a beam of 1 */
    const float *v, *weights;                     /* as above */
    any *d_query;                                 /* (rows, width) */
    float *d_keys, *d_v, *scratch;                /* (rows, sources, width), (parts, width), (parts, width + sources) */
    int64_t sources, width, depth, low;
};

BODY(attend_back, int low) {
    int64_t sources = given->sources, width = given->width, depth = given->depth;
    const float *v = given->v;
    float *d_v = given->d_v + part * width, *d_q = given->scratch + part * (width + sources), *d = d_q + width;
    for (int64_t b = from; b < to; b++) {
        const void *g = NAMED(row)(given->d_context, b, depth, low), *q = NAMED(row)(given->query, b, width, low);
        const float *weights = given->weights + b * sources;
        float mean = 0;
        for (int64_t s = 0; s < sources; s++) { /* the gradients of the weights and their mean */
            if (weights[s] == 0) continue;
            const void *x = NAMED(row)(given->values, b * sources + s, depth, low);
            d[s] = SUM(j, depth, NAMED(read)(g, j, low) * NAMED(read)(x, j, low));
            mean += weights[s] * d[s];
        }
        for (int64_t a = 0; a < width; a++) d_q[a] = 0;
        for (int64_t s = 0; s < sources; s++) {
            if (weights[s] == 0) continue;
            float d_score = weights[s] * (d[s] - mean);
            const void *k = NAMED(row)(given->keys, b * sources + s, width, low);
            float *d_k = given->d_keys + (b * sources + s) * width;
            EACH(a, width) { /* by itself, GCC does not check so many pointers for overlaps, and does not vectorise */
                float y = NAMED(tangent)(NAMED(read)(q, a, low) + NAMED(read)(k, a, low));
                float slope = d_score * v[a] * (1 - y * y);
                d_v[a] += d_score * y;
                d_k[a] += slope;
                d_q[a] += slope;
            }
        }
        void *out = NAMED(row)(given->d_query, b, width, low);
        for (int64_t a = 0; a < width; a++) NAMED(write)(out, a, d_q[a], low);
    }
}

KERNEL_OF(attend_back, low)
