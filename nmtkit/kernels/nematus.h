/* A step of the GRU of Nematus, see ../nematus.py. What belongs to the gates r and u and to the candidate p lies side
   by side. As in gated.h, backward computes the gates again. */

/* A row of it. From terms (3 width), x (or null), gain and shift of the gates' normalisation and of the candidate's (or
   null): the terms normalised, the gates and the state's part of the candidate (3 width), the candidate (width), and
   what the terms of the gates and of the candidate were scaled by. */
static void NAMED(nematus_cell)(float *terms, const float *x, const float *const norms[4], int64_t width,
                                float *values, float *p, float scales[2]) {
    const float *gates_gain = norms[0], *gates_shift = norms[1], *gain = norms[2], *shift = norms[3];
    float *state = values + 2 * width;
    if (gain) {
        scales[0] = NAMED(normalise)(terms, 2 * width, 1e-5f); /* EPSILON of ../nematus.py */
        scales[1] = NAMED(normalise)(terms + 2 * width, width, 1e-5f);
        for (int64_t j = 0; j < 2 * width; j++) values[j] = terms[j] * gates_gain[j] + gates_shift[j];
        for (int64_t j = 0; j < width; j++) state[j] = terms[2 * width + j] * gain[j] + shift[j];
    } else {
        memcpy(values, terms, 3 * (size_t)width * sizeof *terms);
    }
    if (x)
        for (int64_t j = 0; j < 2 * width; j++) values[j] += x[j];
    for (int64_t j = 0; j < 2 * width; j++) values[j] = NAMED(sigmoid)(values[j]);
    for (int64_t j = 0; j < width; j++) p[j] = values[j] * state[j];
    if (x)
        for (int64_t j = 0; j < width; j++) p[j] += x[2 * width + j];
    for (int64_t j = 0; j < width; j++) p[j] = NAMED(tangent)(p[j]);
}

/* A row of the product with the state as terms, with the bias or null. */
static void NAMED(nematus_terms)(const void *s, const float *bias, int64_t width, int low, float *terms) {
    const float *floats = NAMED(floats)(s, 3 * width, low, terms);
    if (!low) memcpy(terms, floats, 3 * (size_t)width * sizeof *terms);
    if (bias)
        for (int64_t j = 0; j < 3 * width; j++) terms[j] += bias[j];
}

/* Given x (rows, 3 width) or null, the product s (rows, 3 width) with the state, the state (rows, width), bias (3
   width) or null, gain and shift of the gates' normalisation (2 width) and of the candidate's (width), or four times
   null, the next state (rows, width), room to work in (parts, 9 width), width, by how many numbers a row of x begins
   after the one before it, which is 0 if all are one, whether x and whether s is low. */
KERNEL(nematus) {
    int64_t width = given[10], stride = given[11];
    int x_low = (int)given[12], low = (int)given[13];
    const float *const norms[4] = {ADDRESS(float, 4), ADDRESS(float, 5), ADDRESS(float, 6), ADDRESS(float, 7)};
    float *x_room = ADDRESS(float, 9) + part * 9 * width, *terms = x_room + 3 * width, *values = terms + 3 * width;
    float *u = values + width, scales[2];
    for (int64_t i = from; i < to; i++) {
        const float *x = ADDRESS(float, 0), *h = ADDRESS(float, 2) + i * width;
        float *new = ADDRESS(float, 8) + i * width;
        if (x) x = NAMED(floats)(NAMED(row)(x, i, stride, x_low), 3 * width, x_low, x_room);
        NAMED(nematus_terms)(NAMED(row)(ADDRESS(void, 1), i, 3 * width, low), ADDRESS(float, 3), width, low, terms);
        NAMED(nematus_cell)(terms, x, norms, width, values, new, scales);
        for (int64_t j = 0; j < width; j++) new[j] += u[j] * (h[j] - new[j]);
    }
}

/* Backward. Given the first eight as above, the gradient of the next state (rows, width), those of x, unless it is null
   or one row, s and the state, in the shapes of these, the sums of those of shifts, gains, bias and an x of one row
   (parts, 4, 3 width), to which those are added that there are, room to work in (parts, 17 width), width, by how many
   numbers a row of x begins after the one before it, whether x and its gradient and whether s and its gradient are low.
   */
KERNEL(nematus_back) {
    int64_t width = given[14], stride = given[15];
    int x_low = (int)given[16], low = (int)given[17];
    const float *const norms[4] = {ADDRESS(float, 4), ADDRESS(float, 5), ADDRESS(float, 6), ADDRESS(float, 7)};
    const float *bias = ADDRESS(float, 3), *gates_gain = norms[0], *gain = norms[2];
    float *d_shift = ADDRESS(float, 12) + part * 12 * width, *d_gain = d_shift + 3 * width;
    float *d_bias = d_gain + 3 * width, *d_row = d_bias + 3 * width, *x_room = ADDRESS(float, 13) + part * 17 * width;
    float *d_x_room = x_room + 3 * width, *d_s_room = d_x_room + 3 * width, *terms = d_s_room + 3 * width;
    float *r = terms + 3 * width, *u = r + width, *state = u + width, *p = state + width, *dp = p + width, scales[2];
    for (int64_t i = from; i < to; i++) {
        const float *x = ADDRESS(float, 0), *h = ADDRESS(float, 2) + i * width, *d_new = ADDRESS(float, 8) + i * width;
        void *to_s = NAMED(row)(ADDRESS(void, 10), i, 3 * width, low);
        float *d_h = ADDRESS(float, 11) + i * width, *d_s = low ? d_s_room : to_s, *du = d_s + width;
        if (x) x = NAMED(floats)(NAMED(row)(x, i, stride, x_low), 3 * width, x_low, x_room);
        NAMED(nematus_terms)(NAMED(row)(ADDRESS(void, 1), i, 3 * width, low), bias, width, low, terms);
        NAMED(nematus_cell)(terms, x, norms, width, r, p, scales);
        for (int64_t j = 0; j < width; j++) d_h[j] = d_new[j] * u[j];
        for (int64_t j = 0; j < width; j++) du[j] = d_new[j] * (h[j] - p[j]) * u[j] * (1 - u[j]);
        for (int64_t j = 0; j < width; j++) dp[j] = (d_new[j] - d_h[j]) * (1 - p[j] * p[j]);
        for (int64_t j = 0; j < width; j++) d_s[j] = dp[j] * state[j] * r[j] * (1 - r[j]);
        for (int64_t j = 0; j < width; j++) d_s[2 * width + j] = dp[j] * r[j];

        /* x is added after the normalisation, s before it: from here on their gradients part. */
        if (x && !stride) {
            for (int64_t j = 0; j < 2 * width; j++) d_row[j] += d_s[j];
            for (int64_t j = 0; j < width; j++) d_row[2 * width + j] += dp[j];
        } else if (x) {
            void *to_x = NAMED(row)(ADDRESS(void, 9), i, 3 * width, x_low);
            float *d_x = x_low ? d_x_room : to_x;
            memcpy(d_x, d_s, 2 * (size_t)width * sizeof *d_x);
            memcpy(d_x + 2 * width, dp, (size_t)width * sizeof *d_x);
            if (x_low) NAMED(narrowed)(to_x, d_x, 3 * width);
        }
        if (gain) {
            for (int64_t j = 0; j < 3 * width; j++) d_shift[j] += d_s[j];
            for (int64_t j = 0; j < 3 * width; j++) d_gain[j] += d_s[j] * terms[j];
            for (int64_t j = 0; j < 2 * width; j++) d_s[j] *= gates_gain[j];
            for (int64_t j = 0; j < width; j++) d_s[2 * width + j] *= gain[j];
            NAMED(normalise_back)(d_s, terms, 2 * width, scales[0]);
            NAMED(normalise_back)(d_s + 2 * width, terms + 2 * width, width, scales[1]);
        }
        if (bias)
            for (int64_t j = 0; j < 3 * width; j++) d_bias[j] += d_s[j];
        if (low) NAMED(narrowed)(to_s, d_s, 3 * width);
    }
}
