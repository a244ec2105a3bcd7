/* A step of the linear associative unit in training, see ../lau.py. States are floats; gates lie side by side, r, z, g and
   the difference of what state and input give to the candidate. */

/* Given the product (rows, 4 width) of the state and its weights, the state (rows, width), mask (rows) or null, the linear
   part of the input (rows, width), gates (rows, 4 width) and candidate (rows, width), which come with what the input gives
   to them, the next state (rows, width) and its copy that is low or null, width, whether the product is low. */
BODY(lau, int low) {
    int64_t width = given[8];
    const uint8_t *real = ADDRESS(uint8_t, 2);
    uint16_t *copy = ADDRESS(uint16_t, 7);
    for (int64_t i = from; i < to; i++) {
        const void *product = NAMED(row)(ADDRESS(void, 0), i, 4 * width, low);
        const float *h = ADDRESS(float, 1) + i * width, *linear = ADDRESS(float, 3) + i * width;
        float *r = ADDRESS(float, 4) + i * 4 * width, *z = r + width, *g = z + width, *difference = g + width;
        float *candidate = ADDRESS(float, 5) + i * width, *new = ADDRESS(float, 6) + i * width;
        for (int64_t j = 0; j < 3 * width; j++) r[j] = NAMED(sigmoid)(r[j] + NAMED(read)(product, j, low));
        for (int64_t j = 0; j < width; j++) {
            float more = difference[j] + NAMED(read)(product, 3 * width + j, low);
            float c = NAMED(tangent)(candidate[j] + r[j] * more), mixed = h[j] + z[j] * (c - h[j]);
            difference[j] = more;
            candidate[j] = c;
            new[j] = mixed + g[j] * (linear[j] - mixed);
        }
        if (real && !real[i]) memcpy(new, h, (size_t)width * sizeof *h);
        if (copy) NAMED(narrowed)(copy + i * width, new, width);
    }
}

KERNEL_OF(lau, 9)

/* Given three terms of the state's gradient (rows, width), each of which may be null, mask (rows) or null,
   the linear part of the input (rows, width), gates (rows, 4 width), candidate and the state before the step (rows,
   width), the candidate's gradient before its function (rows, width), that of the input (rows, 5 width): of r, z, g, the
   difference and the linear part, a copy of the first four that is low (rows, 4 width) or null, what goes on to the step
   before without a product (rows, width), width, whether the second and the third term are low. */
BODY(lau_back, int low) {
    int64_t width = given[12];
    const uint8_t *real = ADDRESS(uint8_t, 3);
    uint16_t *copy = ADDRESS(uint16_t, 10);
    for (int64_t i = from; i < to; i++) {
        int64_t at = i * width;
        const float *linear = ADDRESS(float, 4) + at, *h = ADDRESS(float, 7) + at;
        const float *r = ADDRESS(float, 5) + 4 * at, *z = r + width, *g = z + width, *difference = g + width;
        const float *candidate = ADDRESS(float, 6) + at;
        float *d_candidate = ADDRESS(float, 8) + at, *stays = ADDRESS(float, 11) + at;
        float *dr = ADDRESS(float, 9) + 5 * at, *dz = dr + width, *dg = dz + width, *d_difference = dg + width;
        float *d_linear = d_difference + width;
        NAMED(sum_of_terms)(stays, given, at, width, low); /* in the place of what stays of it */
        if (real && !real[i]) {
            memset(dr, 0, (size_t)width * 5 * sizeof *dr);
            memset(d_candidate, 0, (size_t)width * sizeof *d_candidate);
        } else {
            for (int64_t j = 0; j < width; j++) {
                float change = candidate[j] - h[j], through = stays[j] * g[j], mixed = stays[j] - through;
                float dc = mixed * z[j] * (1 - candidate[j] * candidate[j]), reset = dc * r[j];
                dr[j] = reset * difference[j] * (1 - r[j]);
                dz[j] = mixed * z[j] * change * (1 - z[j]);
                dg[j] = through * (linear[j] - (h[j] + z[j] * change)) * (1 - g[j]);
                d_difference[j] = reset;
                d_linear[j] = through;
                d_candidate[j] = dc;
                stays[j] = mixed * (1 - z[j]);
            }
        }
        if (copy) NAMED(narrowed)(copy + 4 * at, dr, 4 * width);
    }
}

KERNEL_OF(lau_back, 13)
