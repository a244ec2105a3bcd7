/* A step of a GRU in training and in search, see ../gru.py. States are floats; gates lie side by side, r and z. */

/* Given x (rows, 3 width), the product (rows, 2 width) of the state and the gates' weights, the state (rows, width), gates
   (rows, 2 width), r times the state (rows, width), width, whether x is low, whether the product and whether r times the
   state is. */
BODY(gru_gates, int x_low, int product_low, int low) {
    int64_t width = given[5];
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(ADDRESS(void, 0), i, 3 * width, x_low);
        const void *product = NAMED(row)(ADDRESS(void, 1), i, 2 * width, product_low);
        const float *h = ADDRESS(float, 2) + i * width;
        float *gates = ADDRESS(float, 3) + i * 2 * width;
        void *reset = NAMED(row)(ADDRESS(void, 4), i, width, low);
        for (int64_t j = 0; j < 2 * width; j++)
            gates[j] = NAMED(sigmoid)(NAMED(read)(x, j, x_low) + NAMED(read)(product, j, product_low));
        for (int64_t j = 0; j < width; j++) NAMED(write)(reset, j, gates[j] * h[j], low);
    }
}

KERNEL(gru_gates) {
    if (!given[8])
        NAMED(gru_gates_of)(given, from, to, part, 0, 0, 0);
    else if (!given[7])
        NAMED(gru_gates_of)(given, from, to, part, 0, 0, 1);
    else if (!given[6])
        NAMED(gru_gates_of)(given, from, to, part, 0, 1, 1);
    else
        NAMED(gru_gates_of)(given, from, to, part, 1, 1, 1);
}

/* Given x (rows, 3 width), the product (rows, width) of r times the state and the candidate's weights, gates (rows, 2
   width), the state (rows, width), mask (rows) or null, the candidate (rows, width) or null, the next state (rows, width)
   and its copy that is low or null, width, whether x and whether the product is low. */
BODY(gru_state, int x_low, int low) {
    int64_t width = given[8];
    const uint8_t *real = ADDRESS(uint8_t, 4);
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(ADDRESS(void, 0), i, 3 * width, x_low);
        const void *product = NAMED(row)(ADDRESS(void, 1), i, width, low);
        const float *z = ADDRESS(float, 2) + (2 * i + 1) * width, *h = ADDRESS(float, 3) + i * width;
        float *candidate = ADDRESS(float, 5), *new = ADDRESS(float, 6) + i * width;
        uint16_t *copy = ADDRESS(uint16_t, 7);
        for (int64_t j = 0; j < width; j++) {
            float c = NAMED(tangent)(NAMED(read)(x, 2 * width + j, x_low) + NAMED(read)(product, j, low));
            if (candidate) candidate[i * width + j] = c;
            new[j] = h[j] + z[j] * (c - h[j]);
        }
        if (real && !real[i]) memcpy(new, h, (size_t)width * sizeof *h);
        if (copy) NAMED(narrowed)(copy + i * width, new, width);
    }
}

KERNEL_OF_TWO(gru_state, 9, 10)

/* Backward before the product with the candidate's weights. Given three terms of the state's gradient (rows, width), each
   of which may be null, mask (rows) or null, gates (rows, 2 width), the candidate (rows, width), the gradient of x (rows,
   3 width), of which the candidate's part is written, the sum of the terms (rows, width), width, whether all but the first
   term, gates, candidate and sum are low. */
BODY(gru_candidate_back, int low) {
    int64_t width = given[8];
    const uint8_t *real = ADDRESS(uint8_t, 3);
    for (int64_t i = from; i < to; i++) {
        const float *z = ADDRESS(float, 4) + (2 * i + 1) * width;
        const float *candidate = ADDRESS(float, 5) + i * width, taken = real && !real[i] ? 0 : 1;
        void *d_x = NAMED(row)(ADDRESS(void, 6), i, 3 * width, low);
        float *sum = ADDRESS(float, 7) + i * width;
        NAMED(sum_of_terms)(sum, given, i * width, width, low);
        for (int64_t j = 0; j < width; j++)
            NAMED(write)(d_x, 2 * width + j, taken * sum[j] * z[j] * (1 - candidate[j] * candidate[j]), low);
        /* oneDNN, which multiplies the candidate's part next, multiplies what stands beside it by zero: it must be finite. */
        memset(d_x, 0, (size_t)width * (low ? 4 : 8));
    }
}

KERNEL_OF(gru_candidate_back, 9)

/* Backward after it. Given the state's gradient (rows, width), which becomes what goes on directly and through r, the
   gradient of r times the state (rows, width), mask (rows) or null, gates (rows, 2 width), the candidate and the state
   before the step (rows, width), the gradient of x (rows, 3 width), of which the gates' part is written, width, whether
   that and the second are low. */
BODY(gru_gates_back, int low) {
    int64_t width = given[7];
    const uint8_t *real = ADDRESS(uint8_t, 2);
    for (int64_t i = from; i < to; i++) {
        float *dh = ADDRESS(float, 0) + i * width;
        const void *through = NAMED(row)(ADDRESS(void, 1), i, width, low);
        const float *r = ADDRESS(float, 3) + 2 * i * width, *z = r + width, *candidate = ADDRESS(float, 4) + i * width;
        const float *h = ADDRESS(float, 5) + i * width;
        void *d_x = NAMED(row)(ADDRESS(void, 6), i, 3 * width, low);
        if (real && !real[i]) { /* its gradient goes on as it is */
            memset(d_x, 0, (size_t)width * (low ? 4 : 8));
            continue;
        }
        for (int64_t j = 0; j < width; j++) {
            float d = dh[j], d_reset = NAMED(read)(through, j, low);
            NAMED(write)(d_x, j, d_reset * h[j] * r[j] * (1 - r[j]), low);
            NAMED(write)(d_x, width + j, d * (candidate[j] - h[j]) * z[j] * (1 - z[j]), low);
            dh[j] = d * (1 - z[j]) + d_reset * r[j];
        }
    }
}

KERNEL_OF(gru_gates_back, 8)
