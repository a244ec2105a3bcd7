/* A step of the cells with a layer normalisation for each gate, see ../gated.py. What the gates r, z and the third take
   from x and from the product s with the state comes first in both, then the candidate's part, then in x H(x). The
   third gate of a LAU is g, that of a GRU, which makes it an L-GRU, is l. Backward computes the gates again: to keep
   them would take memory, and to read them hardly less time. */

/* The gate of number k of a row, from x (or null) and s: its terms, normalised if there is a gain, and its values;
   gives what the terms were scaled by. */
static float NAMED(gate)(const float *x, const float *s, const float *gain, const float *bias, int64_t k, int64_t width,
                         float *terms, float *values) {
    int64_t first = k * width;
    float scale = 1.0f;
    memcpy(terms, s + first, (size_t)width * sizeof *s);
    if (x)
        for (int64_t j = 0; j < width; j++) terms[j] += x[first + j];
    if (gain) {
        scale = NAMED(normalise)(terms, width, 1e-6f); /* EPSILON of ../gated.py */
        for (int64_t j = 0; j < width; j++) values[j] = NAMED(sigmoid)(terms[j] * gain[first + j] + bias[first + j]);
    } else {
        for (int64_t j = 0; j < width; j++) values[j] = NAMED(sigmoid)(terms[j] + bias[first + j]);
    }
    return scale;
}

/* Back through it: the gradient of the gate's values becomes that of its terms as they were; those of its bias and gain
   are added to the gradients of all biases and gains. */
static void NAMED(gate_back)(float *d, const float *terms, const float *values, float scale, const float *gain,
                             int64_t k, int64_t width, float *d_bias, float *d_gain) {
    int64_t first = k * width;
    for (int64_t j = 0; j < width; j++) {
        d[j] *= values[j] * (1 - values[j]);
        d_bias[first + j] += d[j];
    }
    if (!gain) return;
    for (int64_t j = 0; j < width; j++) {
        d_gain[first + j] += d[j] * terms[j];
        d[j] *= gain[first + j];
    }
    NAMED(normalise_back)(d, terms, width, scale);
}

/* The tanh of the candidate from the gate r, the bias, and what x (or null) and s give to the candidate. */
static void NAMED(gated_tanh)(const float *x, const float *s, const float *bias, const float *r, int lau,
                              int64_t width, float *c) {
    if (lau) {
        for (int64_t j = 0; j < width; j++) c[j] = x[j] + bias[j] + r[j] * (s[j] - x[j]);
    } else {
        for (int64_t j = 0; j < width; j++) c[j] = r[j] * (s[j] + bias[j]);
        if (x)
            for (int64_t j = 0; j < width; j++) c[j] += x[j];
    }
    for (int64_t j = 0; j < width; j++) c[j] = NAMED(tangent)(c[j]);
}

/* Given x (rows, 3 width; with three gates 5 width) or null, s (rows, (gates + 1) width), the state (rows, width), gain
   (gates, width) or null, bias (gates, width), the candidate's bias (width), what dropout multiplies the candidate by
   (rows, width) or null, the next state (rows, width), room to work in (parts, (4 gates + 1) width), whether it is a
   LAU, the number of gates, width, whether x and whether s is low. */
KERNEL(gated) {
    int lau = (int)given[9], x_low = (int)given[12], low = (int)given[13];
    int64_t gates = given[10], width = given[11], place = gates * width;
    int64_t of_x = place + (gates - 1) * width, of_s = place + width; /* a row of each */
    const float *gain = ADDRESS(float, 3), *bias = ADDRESS(float, 4), *other_bias = ADDRESS(float, 5);
    float *x_room = ADDRESS(float, 8) + part * (4 * gates + 1) * width, *s_room = x_room + of_x;
    float *terms = s_room + of_s, *r = terms + width, *z = r + width, *third = z + width;
    for (int64_t i = from; i < to; i++) {
        const float *s = NAMED(floats)(NAMED(row)(ADDRESS(void, 1), i, of_s, low), of_s, low, s_room);
        const float *x = ADDRESS(float, 0), *h = ADDRESS(float, 2) + i * width, *keep = ADDRESS(float, 6), *linear = 0;
        float *new = ADDRESS(float, 7) + i * width;
        if (x) x = NAMED(floats)(NAMED(row)(x, i, of_x, x_low), of_x, x_low, x_room);
        if (x) linear = x + place + width; /* H(x), if there are three gates */
        for (int64_t k = 0; k < gates; k++) NAMED(gate)(x, s, gain, bias, k, width, terms, r + k * width);
        NAMED(gated_tanh)(x ? x + place : x, s + place, other_bias, r, lau, width, new);
        if (gates == 3 && !lau)
            for (int64_t j = 0; j < width; j++) new[j] += third[j] * linear[j];
        if (keep)
            for (int64_t j = 0; j < width; j++) new[j] *= keep[i * width + j];
        for (int64_t j = 0; j < width; j++) new[j] = h[j] + z[j] * (new[j] - h[j]);
        if (lau)
            for (int64_t j = 0; j < width; j++) new[j] += third[j] * (linear[j] - new[j]);
    }
}

/* Backward. Given the first seven as above, the gradient of the next state (rows, width), those of x (or null), s and
   the state, in the shapes of these, the sums of those of the gates' biases, the candidate's and the gains (parts, (2
   gates + 1) width), to which they are added, room to work in (parts, (8 gates + 2) width), whether it is a LAU, the
   number of gates, width, whether x and its gradient and whether s and its gradient are low. */
KERNEL(gated_back) {
    int lau = (int)given[13], x_low = (int)given[16], low = (int)given[17];
    int64_t gates = given[14], width = given[15], place = gates * width;
    int64_t of_x = place + (gates - 1) * width, of_s = place + width;
    const float *gain = ADDRESS(float, 3), *bias = ADDRESS(float, 4), *other_bias = ADDRESS(float, 5);
    float *d_bias = ADDRESS(float, 11) + part * (2 * place + width), *d_other = d_bias + place;
    float *x_room = ADDRESS(float, 12) + part * (8 * gates + 2) * width, *d_x_room = x_room + of_x;
    float *s_room = d_x_room + of_x, *d_s_room = s_room + of_s, *terms = d_s_room + of_s, *d_gain = d_other + width;
    float *r = terms + place, *z = r + width, *third = z + width, *c = r + place, *d = c + width;
    float scales[3] = {0};
    for (int64_t i = from; i < to; i++) {
        const float *s = NAMED(floats)(NAMED(row)(ADDRESS(void, 1), i, of_s, low), of_s, low, s_room);
        const float *x = ADDRESS(float, 0), *h = ADDRESS(float, 2) + i * width, *keep = ADDRESS(float, 6), *linear = 0;
        const float *d_new = ADDRESS(float, 7) + i * width;
        void *to_x = NAMED(row)(ADDRESS(void, 8), i, of_x, x_low), *to_s = NAMED(row)(ADDRESS(void, 9), i, of_s, low);
        float *d_h = ADDRESS(float, 10) + i * width, *d_x = x_low ? d_x_room : to_x, *d_s = low ? d_s_room : to_s;
        float *d_r = d_s, *d_z = d_r + width, *d_third = d_z + width, *change = d_z;
        if (x) x = NAMED(floats)(NAMED(row)(x, i, of_x, x_low), of_x, x_low, x_room);
        if (x) linear = x + place + width;
        if (keep) keep += i * width;
        for (int64_t k = 0; k < gates; k++)
            scales[k] = NAMED(gate)(x, s, gain, bias, k, width, terms + k * width, r + k * width);
        NAMED(gated_tanh)(x ? x + place : x, s + place, other_bias, r, lau, width, c);

        /* The change that z lets through, which becomes z's gradient; the candidate's; what the state gets directly. */
        memcpy(change, c, (size_t)width * sizeof *c);
        memcpy(d_h, d_new, (size_t)width * sizeof *d_h);
        if (gates == 3 && !lau)
            for (int64_t j = 0; j < width; j++) change[j] += third[j] * linear[j];
        if (keep)
            for (int64_t j = 0; j < width; j++) change[j] *= keep[j];
        for (int64_t j = 0; j < width; j++) change[j] -= h[j];
        if (lau) {
            for (int64_t j = 0; j < width; j++) d_third[j] = d_new[j] * (linear[j] - (h[j] + z[j] * change[j]));
            for (int64_t j = 0; j < width; j++) d_x[place + width + j] = d_new[j] * third[j];
            for (int64_t j = 0; j < width; j++) d_h[j] -= d_x[place + width + j];
        }
        for (int64_t j = 0; j < width; j++) {
            d[j] = d_h[j] * z[j];
            d_z[j] = d_h[j] * change[j];
            d_h[j] -= d[j];
        }
        if (keep)
            for (int64_t j = 0; j < width; j++) d[j] *= keep[j];
        if (gates == 3 && !lau)
            for (int64_t j = 0; j < width; j++) {
                d_third[j] = d[j] * linear[j];
                d_x[place + width + j] = d[j] * third[j];
            }

        /* Through the tanh, to what x and s give to the candidate. */
        for (int64_t j = 0; j < width; j++) d[j] *= 1 - c[j] * c[j];
        for (int64_t j = 0; j < width; j++) d_s[place + j] = d[j] * r[j];
        if (lau) { /* x stands outside r and, subtracted, inside */
            for (int64_t j = 0; j < width; j++) d_r[j] = d[j] * (s[place + j] - x[place + j]);
            for (int64_t j = 0; j < width; j++) d_x[place + j] = d[j] - d_s[place + j];
            for (int64_t j = 0; j < width; j++) d_other[j] += d[j];
        } else {
            for (int64_t j = 0; j < width; j++) d_r[j] = d[j] * (s[place + j] + other_bias[j]);
            for (int64_t j = 0; j < width; j++) d_other[j] += d_s[place + j];
            if (x) memcpy(d_x + place, d, (size_t)width * sizeof *d);
        }

        /* x and s are added up before every gate, so they have one gradient there. */
        for (int64_t k = 0; k < gates; k++)
            NAMED(gate_back)(d_s + k * width, terms + k * width, r + k * width, scales[k], gain, k, width, d_bias,
                             d_gain);
        if (low) NAMED(narrowed)(to_s, d_s, of_s);
        if (!x) continue;
        memcpy(d_x, d_s, (size_t)place * sizeof *d_s);
        if (x_low) NAMED(narrowed)(to_x, d_x, of_x);
    }
}
