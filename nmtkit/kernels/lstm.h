/* The LSTM with peepholes, see ../ops/lstm.py. A row of x or s has the terms of z, i, g and o from input or state. */

GIVEN(lstm) {
    const any *x, *s;           /* (rows, 4 width) */
    const float *c, *peepholes; /* (rows, width), (3, width) */
    float *new_h, *new_c;       /* (rows, width) */
    int64_t width, x_low, low;
};

KERNEL(lstm) {
    int64_t width = given->width;
    const float *theta_i = given->peepholes, *theta_g = theta_i + width, *theta_o = theta_g + width;
    float z[4 * width], *i = z + width, *g = i + width, *o = g + width; /* pre-activations */
    for (int64_t row = from; row < to; row++) {
        const float *c = given->c + row * width;
        float *new_h = given->new_h + row * width, *new_c = given->new_c + row * width;
        NAMED(added)(given->x, 4 * width, given->x_low, given->s, given->low, row, 4 * width, z);
        EACH(j, width) {
            float in = NAMED(sigmoid)(i[j] + c[j] * theta_i[j]), kept = NAMED(sigmoid)(g[j] + c[j] * theta_g[j]);
            float next = NAMED(tangent)(z[j]) * in + kept * c[j];
            new_c[j] = next;
            new_h[j] = NAMED(tangent)(next) * NAMED(sigmoid)(o[j] + next * theta_o[j]);
        }
    }
}

/* Backward; d_x is null where x has the dtype of s, because d_x equals d_s then. */
GIVEN(lstm_back) {
    const any *x, *s;
    const float *c, *peepholes, *d_new_h, *d_new_c;
    any *d_x, *d_s;
    float *d_c, *d_peepholes; /* (rows, width), (parts, 3, width), accumulated */
    int64_t width, x_low, low;
};

KERNEL(lstm_back) {
    int64_t width = given->width;
    const float *theta_i = given->peepholes, *theta_g = theta_i + width, *theta_o = theta_g + width;
    float *d_theta_i = given->d_peepholes + part * 3 * width, *d_theta_g = d_theta_i + width;
    float *d_theta_o = d_theta_g + width, z[4 * width], *i = z + width, *g = i + width, *o = g + width;
    for (int64_t row = from; row < to; row++) {
        const float *c = given->c + row * width, *d_h = given->d_new_h + row * width;
        const float *d_next = given->d_new_c + row * width;
        float *d_c = given->d_c + row * width;
        NAMED(added)(given->x, 4 * width, given->x_low, given->s, given->low, row, 4 * width, z);
        EACH(j, width) { /* gradients overwrite the pre-activations */
            float new = NAMED(tangent)(z[j]), in = NAMED(sigmoid)(i[j] + c[j] * theta_i[j]);
            float kept = NAMED(sigmoid)(g[j] + c[j] * theta_g[j]), next = new * in + kept * c[j];
            float out = NAMED(sigmoid)(o[j] + next * theta_o[j]), state = NAMED(tangent)(next);
            float d_o = d_h[j] * state * out * (1 - out);
            float d = d_next[j] + d_h[j] * out * (1 - state * state) + d_o * theta_o[j];
            float d_i = d * new * in * (1 - in), d_g = d * c[j] * kept * (1 - kept);
            z[j] = d * in * (1 - new * new);
            i[j] = d_i;
            g[j] = d_g;
            o[j] = d_o;
            d_c[j] = d * kept + d_i * theta_i[j] + d_g * theta_g[j];
            d_theta_i[j] += d_i * c[j];
            d_theta_g[j] += d_g * c[j];
            d_theta_o[j] += d_o * next;
        }
        NAMED(put)(given->d_s, given->low, row, 4 * width, z);
        if (given->d_x) NAMED(put)(given->d_x, given->x_low, row, 4 * width, z);
    }
}
