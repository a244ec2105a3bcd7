/* The GRU that resets before its second product, see ../ops/gru.py: one kernel before that product and one after it.
   As in lstm.h, d_x is null where x has the dtype of s. */

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
