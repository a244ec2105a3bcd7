/* A step of the LSTM with peepholes in training, see ../lstm.py. States are floats; gates lie side by side, z, i, g, o. */

/* Given f (rows, 4 width), the product (rows, 4 width) of the state and its weights, state and cell (rows, width),
   peepholes (3, width), mask (rows) or null, gates (rows, 4 width), the next state (rows, width) and its copy that is low or
   null, the next cell (rows, width), width, whether f and whether the product is low. */
BODY(lstm, int f_low, int low) {
    int64_t width = given[10];
    const float *theta_i = ADDRESS(float, 4), *theta_g = theta_i + width, *theta_o = theta_g + width;
    const uint8_t *real = ADDRESS(uint8_t, 5);
    uint16_t *copy = ADDRESS(uint16_t, 8);
    for (int64_t row = from; row < to; row++) {
        const void *f = NAMED(row)(ADDRESS(void, 0), row, 4 * width, f_low);
        const void *product = NAMED(row)(ADDRESS(void, 1), row, 4 * width, low);
        const float *h = ADDRESS(float, 2) + row * width, *s = ADDRESS(float, 3) + row * width;
        float *z = ADDRESS(float, 6) + row * 4 * width, *i = z + width, *g = i + width, *o = g + width;
        float *new = ADDRESS(float, 7) + row * width, *cell = ADDRESS(float, 9) + row * width;
        for (int64_t j = 0; j < width; j++)
            z[j] = NAMED(tangent)(NAMED(read)(f, j, f_low) + NAMED(read)(product, j, low));
        for (int64_t j = 0, k = width; j < width; j++, k++)
            i[j] = NAMED(sigmoid)(NAMED(read)(f, k, f_low) + NAMED(read)(product, k, low) + s[j] * theta_i[j]);
        for (int64_t j = 0, k = 2 * width; j < width; j++, k++)
            g[j] = NAMED(sigmoid)(NAMED(read)(f, k, f_low) + NAMED(read)(product, k, low) + s[j] * theta_g[j]);
        for (int64_t j = 0, k = 3 * width; j < width; j++, k++) {
            float next = z[j] * i[j] + g[j] * s[j];
            float out = NAMED(sigmoid)(NAMED(read)(f, k, f_low) + NAMED(read)(product, k, low) + next * theta_o[j]);
            o[j] = out;
            cell[j] = next;
            new[j] = NAMED(tangent)(next) * out;
        }
        if (real && !real[row]) {
            memcpy(new, h, (size_t)width * sizeof *h);
            memcpy(cell, s, (size_t)width * sizeof *s);
        }
        if (copy) NAMED(narrowed)(copy + row * width, new, width);
    }
}

KERNEL_OF_TWO(lstm, 11, 12)

/* Given three terms of the state's gradient (rows, width), each of which may be null, the cell's gradient
   (rows, width), peepholes (3, width), mask (rows) or null, gates (rows, 4 width), the cell before and after the step
   (rows, width), the gates' gradient before their functions (rows, 4 width) and its copy that is low or null, what of the
   state's gradient is handed on past the step (rows, width) or null, the gradient of the cell before the step (rows,
   width), width, whether the second and the third term are low. */
BODY(lstm_back, int low) {
    int64_t width = given[13];
    const float *theta_i = ADDRESS(float, 4), *theta_g = theta_i + width, *theta_o = theta_g + width;
    const uint8_t *real = ADDRESS(uint8_t, 5);
    uint16_t *copy = ADDRESS(uint16_t, 10);
    for (int64_t row = from; row < to; row++) {
        int64_t at = row * width;
        const float *ds = ADDRESS(float, 3) + at, *s = ADDRESS(float, 7) + at;
        const float *z = ADDRESS(float, 6) + 4 * at, *i = z + width, *g = i + width, *o = g + width;
        const float *cell = ADDRESS(float, 8) + at;
        float *dz = ADDRESS(float, 9) + 4 * at, *di = dz + width, *dg = di + width, *d_o = dg + width;
        float *passed = ADDRESS(float, 11) + at, *old = ADDRESS(float, 12) + at;
        int handed_on = real && !real[row];
        NAMED(sum_of_terms)(d_o, given, at, width, low); /* in the place of what comes of it */
        if (real)
            for (int64_t j = 0; j < width; j++) passed[j] = handed_on ? d_o[j] : 0;
        if (handed_on) {
            memcpy(old, ds, (size_t)width * sizeof *ds);
            memset(dz, 0, (size_t)width * 4 * sizeof *dz);
        } else {
            for (int64_t j = 0; j < width; j++) {
                float dh = d_o[j], state = NAMED(tangent)(cell[j]), out = dh * state * o[j] * (1 - o[j]);
                float d_cell = ds[j] + dh * o[j] * (1 - state * state) + out * theta_o[j];
                float in = d_cell * z[j] * i[j] * (1 - i[j]), forget = d_cell * s[j] * g[j] * (1 - g[j]);
                dz[j] = d_cell * i[j] * (1 - z[j] * z[j]);
                di[j] = in;
                dg[j] = forget;
                d_o[j] = out;
                old[j] = d_cell * g[j] + in * theta_i[j] + forget * theta_g[j];
            }
        }
        if (copy) NAMED(narrowed)(copy + 4 * at, dz, 4 * width);
    }
}

KERNEL_OF(lstm_back, 14)
