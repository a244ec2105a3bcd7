/* The GRU of Nematus, see ../ops/nematus.py. The terms of the gates r and u and of the candidate p are concatenated. A
   cell without x or bias is given a row of zeros. As in gated.h, backward recomputes the gates. */

/* Gain and shift of the gates' normalisation (2 width) and of the candidate's (width), or null without normalisation.
   */
typedef struct {
    const float *gates_gain, *gates_shift, *gain, *shift;
} NAMED(Norms);

/* One row from x and the terms of the state. Results: the terms, normalised; `values`, both gates and the state's part
   of the candidate (3 width); p, the candidate (width); and the factors of both normalisations. */
static void NAMED(nematus_row)(const float *x, float *terms, NAMED(Norms) norms, int64_t width, float *values, float *p,
                               float scales[2]) {
    float *r = values, *state = values + 2 * width;
    if (norms.gain) {
        scales[0] = NAMED(normalise)(terms, 2 * width, 1e-5f);
        scales[1] = NAMED(normalise)(terms + 2 * width, width, 1e-5f);
        EACH(j, 2 * width) values[j] = terms[j] * norms.gates_gain[j] + norms.gates_shift[j];
        EACH(j, width) state[j] = terms[2 * width + j] * norms.gain[j] + norms.shift[j];
    } else {
        memcpy(values, terms, 3 * (size_t)width * sizeof *terms);
    }
    EACH(j, 2 * width) values[j] = NAMED(sigmoid)(values[j] + x[j]);
    EACH(j, width) p[j] = NAMED(tangent)(r[j] * state[j] + x[2 * width + j]);
}

GIVEN(nematus) {
    const any *x, *s; /* (rows, 3 width) with row stride x_step, 0 if all rows share one; (rows, 3 width) */
    const float *h, *bias, *gates_gain, *gates_shift, *gain, *shift; /* (rows, width), (3 width), as Norms has them */
    float *new_h;                                                     /* (rows, width) */
    int64_t width, x_step, x_low, low;
};

KERNEL(nematus) {
    int64_t width = given->width;
    NAMED(Norms) norms = {given->gates_gain, given->gates_shift, given->gain, given->shift};
    float x_room[3 * width], terms[3 * width], r[3 * width], *u = r + width, scales[2];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, 3 * width, x_room);
        const float *h = given->h + i * width;
        float *new_h = given->new_h + i * width;
        NAMED(added)(given->bias, 0, 0, given->s, given->low, i, 3 * width, terms);
        NAMED(nematus_row)(x, terms, norms, width, r, new_h, scales);
        EACH(j, width) new_h[j] += u[j] * (h[j] - new_h[j]);
    }
}

/* Backward. The gradients of a shared x, of the bias and of the norms are accumulated separately for each part. */
GIVEN(nematus_back) {
    const any *x, *s;
    const float *h, *bias, *gates_gain, *gates_shift, *gain, *shift, *d_new_h;
    any *d_x, *d_s;
    float *d_h, *d_bias, *d_gates_gain, *d_gates_shift, *d_gain, *d_shift;
    int64_t width, x_step, x_low, low;
};

KERNEL(nematus_back) {
    int64_t width = given->width;
    NAMED(Norms) norms = {given->gates_gain, given->gates_shift, given->gain, given->shift};
    float *d_bias = given->d_bias + part * 3 * width, *d_one_x = (float *)given->d_x + part * 3 * width;
    float *d_gates_gain = given->d_gates_gain + part * 2 * width, *d_gates_shift = given->d_gates_shift + part * 2 * width;
    float *d_gain = given->d_gain + part * width, *d_shift = given->d_shift + part * width;
    float x_room[3 * width], terms[3 * width], r[3 * width], *u = r + width, *state = u + width, p[width], scales[2];
    float d_x[3 * width], d_s[3 * width], *d_u = d_s + width, *d_state = d_u + width, *d_p = d_x + 2 * width;
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, 3 * width, x_room);
        const float *h = given->h + i * width, *d_new = given->d_new_h + i * width;
        float *d_h = given->d_h + i * width;
        NAMED(added)(given->bias, 0, 0, given->s, given->low, i, 3 * width, terms);
        NAMED(nematus_row)(x, terms, norms, width, r, p, scales);
        EACH(j, width) {
            float inner = d_new[j] * (1 - u[j]) * (1 - p[j] * p[j]);
            d_h[j] = d_new[j] * u[j];
            d_u[j] = d_new[j] * (h[j] - p[j]) * u[j] * (1 - u[j]);
            d_p[j] = inner;
            d_s[j] = inner * state[j] * r[j] * (1 - r[j]);
            d_state[j] = inner * r[j];
        }
        /* x is added after the normalisation, s before it: from here on their gradients differ. */
        memcpy(d_x, d_s, 2 * (size_t)width * sizeof *d_s);
        if (given->d_x && given->x_step) NAMED(put)(given->d_x, given->x_low, i, 3 * width, d_x);
        if (given->d_x && !given->x_step) EACH(j, 3 * width) d_one_x[j] += d_x[j];
        if (norms.gain) {
            EACH(j, 2 * width) {
                d_gates_shift[j] += d_s[j];
                d_gates_gain[j] += d_s[j] * terms[j];
                d_s[j] *= norms.gates_gain[j];
            }
            EACH(j, width) {
                d_shift[j] += d_state[j];
                d_gain[j] += d_state[j] * terms[2 * width + j];
                d_state[j] *= norms.gain[j];
            }
            NAMED(normalise_back)(d_s, terms, 2 * width, scales[0]);
            NAMED(normalise_back)(d_state, terms + 2 * width, width, scales[1]);
        }
        if (given->d_bias) EACH(j, 3 * width) d_bias[j] += d_s[j];
        NAMED(put)(given->d_s, given->low, i, 3 * width, d_s);
    }
}
