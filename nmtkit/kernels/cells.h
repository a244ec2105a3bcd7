/* The recurrent cells of ../ops, each with its backward, which recomputes the gates: storing them would take memory and
   reading them would save hardly any time. A row of x or s has the terms of the gates and of the candidate, from the
   input or from the product with the state.

   A cell without x or bias is given one row of zeros, and one without dropout a row of ones, with a row stride of 0. In
   backward the gradient of such a row is null, and so is d_x where it equals d_s. The gradients of everything that the
   rows share, such as parameters, are accumulated separately for each part. */

/* The LSTM with peepholes, see ../ops/lstm.py: z, i, g, o. */

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

/* The GRU that resets before its second product, see ../ops/gru.py: one kernel before that product and one after it. */

GIVEN(gru_gates) {
    const any *x, *s; /* (rows, 2 width), the terms of r and z; x has the row stride x_step */
    const float *h;   /* (rows, width) */
    float *reset, *z; /* (rows, width) */
    int64_t width, x_step, x_low, low;
};

KERNEL(gru_gates) {
    int64_t width = given->width;
    float r[2 * width];
    for (int64_t i = from; i < to; i++) {
        const float *h = given->h + i * width;
        float *reset = given->reset + i * width, *z = given->z + i * width;
        NAMED(added)(given->x, given->x_step, given->x_low, given->s, given->low, i, 2 * width, r);
        EACH(j, width) {
            reset[j] = NAMED(sigmoid)(r[j]) * h[j];
            z[j] = NAMED(sigmoid)(r[width + j]);
        }
    }
}

GIVEN(gru_gates_back) {
    const any *x, *s;
    const float *h, *d_reset, *d_z;
    any *d_x, *d_s;
    float *d_h;
    int64_t width, x_step, x_low, low;
};

KERNEL(gru_gates_back) {
    int64_t width = given->width;
    float terms[2 * width], *terms_z = terms + width;
    for (int64_t i = from; i < to; i++) {
        const float *h = given->h + i * width, *d_reset = given->d_reset + i * width, *d_z = given->d_z + i * width;
        float *d_h = given->d_h + i * width;
        NAMED(added)(given->x, given->x_step, given->x_low, given->s, given->low, i, 2 * width, terms);
        EACH(j, width) {
            float r = NAMED(sigmoid)(terms[j]), z = NAMED(sigmoid)(terms_z[j]);
            terms[j] = d_reset[j] * h[j] * r * (1 - r);
            terms_z[j] = d_z[j] * z * (1 - z);
            d_h[j] = d_reset[j] * r;
        }
        NAMED(put)(given->d_s, given->low, i, 2 * width, terms);
        if (given->d_x) NAMED(put)(given->d_x, given->x_low, i, 2 * width, terms);
    }
}

GIVEN(gru_state) {
    const any *x, *s;   /* (rows, width), the candidate's terms; x has the row stride x_step */
    const float *h, *z; /* (rows, width) */
    float *new_h;       /* (rows, width) */
    int64_t width, x_step, x_low, low;
};

KERNEL(gru_state) {
    int64_t width = given->width;
    float terms[width];
    for (int64_t i = from; i < to; i++) {
        const float *h = given->h + i * width, *z = given->z + i * width;
        float *new_h = given->new_h + i * width;
        NAMED(added)(given->x, given->x_step, given->x_low, given->s, given->low, i, width, terms);
        EACH(j, width) new_h[j] = h[j] + z[j] * (NAMED(tangent)(terms[j]) - h[j]);
    }
}

GIVEN(gru_state_back) {
    const any *x, *s;
    const float *h, *z, *d_new_h;
    any *d_x, *d_s;
    float *d_h, *d_z;
    int64_t width, x_step, x_low, low;
};

KERNEL(gru_state_back) {
    int64_t width = given->width;
    float terms[width];
    for (int64_t i = from; i < to; i++) {
        const float *h = given->h + i * width, *z = given->z + i * width, *d = given->d_new_h + i * width;
        float *d_h = given->d_h + i * width, *d_z = given->d_z + i * width;
        NAMED(added)(given->x, given->x_step, given->x_low, given->s, given->low, i, width, terms);
        EACH(j, width) {
            float c = NAMED(tangent)(terms[j]);
            terms[j] = d[j] * z[j] * (1 - c * c);
            d_z[j] = d[j] * (c - h[j]);
            d_h[j] = d[j] * (1 - z[j]);
        }
        NAMED(put)(given->d_s, given->low, i, width, terms);
        if (given->d_x) NAMED(put)(given->d_x, given->x_low, i, width, terms);
    }
}

/* The cells with a layer normalisation for each gate, see ../ops/gated.py: GRU, T-GRU and L-GRU, and the LAU, which has
   the arguments of an L-GRU. A row of x and s begins with the terms of the gates, r, z and the third, followed by the
   candidate's and, in x, by H(x). */

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
    const any *x, *s; /* (rows, 3 width; with three gates 5 width), (rows, (gates + 1) width) */
    const float *h;   /* (rows, width) */
    const float *gain, *bias, *candidate_bias; /* the gates', and the candidate's (width) */
    const float *keep; /* (rows, width) */
    float *new_h;      /* (rows, width) */
    int64_t gates, width, x_step, keep_step, x_low, low;
};

BODY(gated_gru, int lau) {
    int64_t width = given->width, place = given->gates * width, of_x = place + (given->gates - 1) * width;
    NAMED(Gates) gates = {given->gain, given->bias, given->gates, width};
    const float *bias = given->candidate_bias;
    float x_room[of_x], s_room[place + width], terms[place], r[place], *z = r + width, *third = z + width, scales[3];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, of_x, x_room);
        const float *s = NAMED(floats)(given->s, i, place + width, given->low, place + width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width;
        float *new = given->new_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        if (lau) {
            EACH(j, width) {
                float c = NAMED(tangent)(x_c[j] + bias[j] + r[j] * (s_c[j] - x_c[j]));
                float mixed = h[j] + z[j] * (c * keep[j] - h[j]);
                new[j] = mixed + third[j] * (linear[j] - mixed);
            }
        } else {
            EACH(j, width) new[j] = NAMED(tangent)(x_c[j] + r[j] * (s_c[j] + bias[j]));
            if (gates.count == 3) EACH(j, width) new[j] += third[j] * linear[j];
            EACH(j, width) new[j] = h[j] + z[j] * (new[j] * keep[j] - h[j]);
        }
    }
}

GIVEN(gated_gru_back) {
    const any *x, *s;
    const float *h, *gain, *bias, *candidate_bias, *keep, *d_new_h;
    any *d_x, *d_s;
    float *d_h, *d_gain, *d_bias, *d_candidate_bias;
    int64_t gates, width, x_step, keep_step, x_low, low;
};

BODY(gated_gru_back, int lau) {
    int64_t width = given->width, place = given->gates * width, of_x = place + (given->gates - 1) * width;
    NAMED(Gates) gates = {given->gain, given->bias, given->gates, width};
    const float *bias = given->candidate_bias;
    float *d_bias = given->d_candidate_bias + part * width;
    float x_room[of_x], s_room[place + width], terms[place], r[place], *z = r + width, *third = z + width, scales[3];
    float d_x[of_x], d_s[place + width], *d_z = d_s + width, *d_third = d_z + width, c[width], d[width];
    for (int64_t i = from; i < to; i++) {
        const float *x = NAMED(floats)(given->x, i, given->x_step, given->x_low, of_x, x_room);
        const float *s = NAMED(floats)(given->s, i, place + width, given->low, place + width, s_room);
        const float *h = given->h + i * width, *keep = given->keep + i * given->keep_step;
        const float *x_c = x + place, *s_c = s + place, *linear = x_c + width, *d_new = given->d_new_h + i * width;
        float *d_h = given->d_h + i * width;
        EACH(j, place) terms[j] = x[j] + s[j];
        NAMED(gates)(gates, terms, r, scales);
        if (lau) {
            EACH(j, width) {
                float new = NAMED(tangent)(x_c[j] + bias[j] + r[j] * (s_c[j] - x_c[j])), change = new * keep[j] - h[j];
                float mixed = d_new[j] * (1 - third[j]), inner = mixed * z[j] * keep[j] * (1 - new * new);
                d_h[j] = mixed * (1 - z[j]);
                d_s[j] = inner * (s_c[j] - x_c[j]);
                d_z[j] = mixed * change;
                d_third[j] = d_new[j] * (linear[j] - h[j] - z[j] * change);
                d_s[place + j] = inner * r[j];
                d_x[place + j] = inner * (1 - r[j]); /* x stands outside r and, subtracted, inside */
                d_x[place + width + j] = d_new[j] * third[j];
                d_bias[j] += inner;
            }
        } else {
            EACH(j, width) d[j] = c[j] = NAMED(tangent)(x_c[j] + r[j] * (s_c[j] + bias[j]));
            if (gates.count == 3) EACH(j, width) d[j] += third[j] * linear[j];
            EACH(j, width) { /* d is the candidate, and then its gradient */
                d_z[j] = d_new[j] * (d[j] * keep[j] - h[j]);
                d_h[j] = d_new[j] * (1 - z[j]);
                d[j] = d_new[j] * z[j] * keep[j];
            }
            if (gates.count == 3) EACH(j, width) {
                d_third[j] = d[j] * linear[j];
                d_x[place + width + j] = d[j] * third[j];
            }
            EACH(j, width) {
                float inner = d[j] * (1 - c[j] * c[j]);
                d_x[place + j] = inner;
                d_s[j] = inner * (s_c[j] + bias[j]);
                d_s[place + j] = inner * r[j];
                d_bias[j] += inner * r[j];
            }
        }
        NAMED(gates_back)(gates, terms, r, scales, d_s, given->d_gain + part * place, given->d_bias + part * place);
        NAMED(put)(given->d_s, given->low, i, place + width, d_s);
        if (!given->d_x) continue;
        memcpy(d_x, d_s, (size_t)place * sizeof *d_s); /* x and s are added up before every gate */
        NAMED(put)(given->d_x, given->x_low, i, of_x, d_x);
    }
}

KERNEL(gated_gru) { NAMED(gated_gru_of)(given, from, to, part, 0); }
KERNEL(gated_gru_back) { NAMED(gated_gru_back_of)(given, from, to, part, 0); }

EXPORT void NAMED(gated_lau)(const void *given, int64_t from, int64_t to, int64_t part) {
    NAMED(gated_gru_of)(given, from, to, part, 1);
}
EXPORT void NAMED(gated_lau_back)(const void *given, int64_t from, int64_t to, int64_t part) {
    NAMED(gated_gru_back_of)(given, from, to, part, 1);
}

/* The GRU of Nematus, see ../ops/nematus.py: r, u, p. */

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
