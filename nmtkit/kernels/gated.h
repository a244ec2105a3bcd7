/* The cells with a layer normalisation for each gate, see ../ops/gated.py: GRU, T-GRU and L-GRU, and the LAU. A row of
   x and s begins with the terms of the gates, r, z and the third, followed by the candidate's and, in x, by H(x). A
   cell without x is given one row of zeros, one without dropout one row of ones, both with a row stride of 0. Backward
   recomputes the gates: storing them would take memory, and reading them would save hardly any time. */

/* Parameters of the gates: gain (gates, width), or null without normalisation, bias (gates, width). */
typedef struct {
    const float *gain, *bias;
    int64_t count, width;
} NAMED(Gates);

/* All gates of a row from their terms, which are normalised in place, and the factors of the normalisation. */
static void NAMED(gates)(NAMED(Gates) gates, float *terms, float *values, float *scales) {
    int64_t width = gates.width, all = gates.count * width;
    const float *gain = gates.gain, *bias = gates.bias;
    if (gain) {
        for (int64_t k = 0; k < gates.count; k++) scales[k] = NAMED(normalise)(terms + k * width, width, 1e-6f);
        EACH(j, all) values[j] = NAMED(sigmoid)(terms[j] * gain[j] + bias[j]);
    } else {
        EACH(j, all) values[j] = NAMED(sigmoid)(terms[j] + bias[j]);
    }
}

/* Backward of `gates`: the gradient d of the values becomes that of the terms before normalisation; those of gain and
   bias, (gates, width) each, are accumulated. */
static void NAMED(gates_back)(NAMED(Gates) gates, const float *terms, const float *values, const float *scales, float *d,
                              float *d_gain, float *d_bias) {
    int64_t width = gates.width, all = gates.count * width;
    const float *gain = gates.gain;
    EACH(j, all) {
        d[j] *= values[j] * (1 - values[j]);
        d_bias[j] += d[j];
    }
    if (!gain) return;
    EACH(j, all) {
        d_gain[j] += d[j] * terms[j];
        d[j] *= gain[j];
    }
    for (int64_t k = 0; k < gates.count; k++)
        NAMED(normalise_back)(d + k * width, terms + k * width, width, scales[k]);
}

GIVEN(gated_gru) {
    const any *x, *s;                      /* (rows, 3 width; with three gates 5 width), (rows, (gates + 1) width) */
    const float *h;                        /* (rows, width) */
    const float *gain, *bias, *state_bias; /* the gates', and the candidate's (width) */
    const float *keep;                     /* (rows, width) */
    float *new_h;                          /* (rows, width) */
    int64_t gates, width, x_step, keep_step, x_low, low;
};

KERNEL(gated_gru) {
    int64_t width = given->width, place = given->gates * width, of_x = place + (given->gates - 1) * width;
    NAMED(Gates) gates = {given->gain, given->bias, given->gates, width};
    const float *bias = given->state_bias;
    float x_room[of_x], s_room[place + width], terms[place], r[place], *z = r + width, *l = z + width, scales[3];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, of_x, x_room);
        const float *s = NAMED(floats)(given->s, i, place + width, given->low, place + width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width;
        float *new = given->new_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        EACH(j, width) new[j] = NAMED(tangent)(x_c[j] + r[j] * (s_c[j] + bias[j]));
        if (gates.count == 3) EACH(j, width) new[j] += l[j] * linear[j];
        EACH(j, width) new[j] = h[j] + z[j] * (new[j] * keep[j] - h[j]);
    }
}

/* Backward; d_x is null for a row of zeros. The gradients of parameters are accumulated separately for each part. */
GIVEN(gated_gru_back) {
    const any *x, *s;
    const float *h, *gain, *bias, *state_bias, *keep, *d_new_h;
    any *d_x, *d_s;
    float *d_h, *d_gain, *d_bias, *d_state_bias;
    int64_t gates, width, x_step, keep_step, x_low, low;
};

KERNEL(gated_gru_back) {
    int64_t width = given->width, place = given->gates * width, of_x = place + (given->gates - 1) * width;
    NAMED(Gates) gates = {given->gain, given->bias, given->gates, width};
    const float *bias = given->state_bias;
    float *d_bias = given->d_state_bias + part * width;
    float x_room[of_x], s_room[place + width], terms[place], r[place], *z = r + width, *l = z + width, scales[3];
    float d_x[of_x], d_s[place + width], *d_z = d_s + width, *d_l = d_z + width, c[width], d[width];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, of_x, x_room);
        const float *s = NAMED(floats)(given->s, i, place + width, given->low, place + width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width, *d_new = given->d_new_h + i * width;
        float *d_h = given->d_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        EACH(j, width) d[j] = c[j] = NAMED(tangent)(x_c[j] + r[j] * (s_c[j] + bias[j]));
        if (gates.count == 3) EACH(j, width) d[j] += l[j] * linear[j];
        EACH(j, width) { /* d is the candidate, and then its gradient */
            d_z[j] = d_new[j] * (d[j] * keep[j] - h[j]);
            d_h[j] = d_new[j] * (1 - z[j]);
            d[j] = d_new[j] * z[j] * keep[j];
        }
        if (gates.count == 3) EACH(j, width) {
            d_l[j] = d[j] * linear[j];
            d_x[place + width + j] = d[j] * l[j];
        }
        EACH(j, width) {
            float inner = d[j] * (1 - c[j] * c[j]);
            d_x[place + j] = inner;
            d_s[j] = inner * (s_c[j] + bias[j]);
            d_s[place + j] = inner * r[j];
            d_bias[j] += inner * r[j];
        }
        NAMED(gates_back)(gates, terms, r, scales, d_s, given->d_gain + part * place, given->d_bias + part * place);
        NAMED(put)(given->d_s, given->low, i, place + width, d_s);
        if (!given->d_x) continue;
        memcpy(d_x, d_s, (size_t)place * sizeof *d_s); /* x and s are added up before every gate */
        NAMED(put)(given->d_x, given->x_low, i, of_x, d_x);
    }
}

GIVEN(gated_lau) {
    const any *x, *s;                          /* (rows, 5 width), (rows, 4 width) */
    const float *h;                            /* (rows, width) */
    const float *gain, *bias, *candidate_bias; /* the gates', and the candidate's (width) */
    const float *keep;                         /* (rows, width) */
    float *new_h;                              /* (rows, width) */
    int64_t width, keep_step, x_low, low;
};

KERNEL(gated_lau) {
    int64_t width = given->width, place = 3 * width;
    NAMED(Gates) gates = {given->gain, given->bias, 3, width};
    const float *bias = given->candidate_bias;
    float x_room[5 * width], s_room[4 * width], terms[place], r[place], *z = r + width, *g = z + width, scales[3];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, 5 * width, given->x_low, 5 * width, x_room);
        const float *s = NAMED(floats)(given->s, i, 4 * width, given->low, 4 * width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width;
        float *new_h = given->new_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        EACH(j, width) {
            float c = NAMED(tangent)(x_c[j] + bias[j] + r[j] * (s_c[j] - x_c[j]));
            float mixed = h[j] + z[j] * (c * keep[j] - h[j]);
            new_h[j] = mixed + g[j] * (linear[j] - mixed);
        }
    }
}

GIVEN(gated_lau_back) {
    const any *x, *s;
    const float *h, *gain, *bias, *candidate_bias, *keep, *d_new_h;
    any *d_x, *d_s;
    float *d_h, *d_gain, *d_bias, *d_candidate_bias;
    int64_t width, keep_step, x_low, low;
};

KERNEL(gated_lau_back) {
    int64_t width = given->width, place = 3 * width;
    NAMED(Gates) gates = {given->gain, given->bias, 3, width};
    const float *bias = given->candidate_bias;
    float *d_bias = given->d_candidate_bias + part * width;
    float x_room[5 * width], s_room[4 * width], terms[place], r[place], *z = r + width, *g = z + width, scales[3];
    float d_x[5 * width], d_s[4 * width], *d_z = d_s + width, *d_g = d_z + width;
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, 5 * width, given->x_low, 5 * width, x_room);
        const float *s = NAMED(floats)(given->s, i, 4 * width, given->low, 4 * width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width, *d_new = given->d_new_h + i * width;
        float *d_h = given->d_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        EACH(j, width) {
            float c = NAMED(tangent)(x_c[j] + bias[j] + r[j] * (s_c[j] - x_c[j])), change = c * keep[j] - h[j];
            float d = d_new[j] * (1 - g[j]), inner = d * z[j] * keep[j] * (1 - c * c);
            d_h[j] = d * (1 - z[j]);
            d_s[j] = inner * (s_c[j] - x_c[j]);
            d_z[j] = d * change;
            d_g[j] = d_new[j] * (linear[j] - h[j] - z[j] * change);
            d_s[place + j] = inner * r[j];
            d_x[place + j] = inner * (1 - r[j]); /* x stands outside r and, subtracted, inside */
            d_x[place + width + j] = d_new[j] * g[j];
            d_bias[j] += inner;
        }
        NAMED(gates_back)(gates, terms, r, scales, d_s, given->d_gain + part * place, given->d_bias + part * place);
        memcpy(d_x, d_s, (size_t)place * sizeof *d_s);
        NAMED(put)(given->d_s, given->low, i, 4 * width, d_s);
        NAMED(put)(given->d_x, given->x_low, i, 5 * width, d_x);
    }
}
