/* The greater of each pair of neighbours, see maxout.py. */

/* Given x (rows, 2 width), the result (rows, width), width, whether both are low. */
BODY(maxout, int low) {
    int64_t width = given[2];
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(ADDRESS(void, 0), i, 2 * width, low);
        void *result = NAMED(row)(ADDRESS(void, 1), i, width, low);
        for (int64_t j = 0; j < width; j++) {
            float a = NAMED(read)(x, 2 * j, low), b = NAMED(read)(x, 2 * j + 1, low);
            NAMED(write)(result, j, a > b || a != a ? a : b, low);
        }
    }
}

KERNEL_OF(maxout, 3)

/* Given x (rows, 2 width), the result's gradient (rows, width), that of x (rows, 2 width), width, whether all are low. Two
   equal neighbours have half of the gradient each. */
BODY(maxout_back, int low) {
    int64_t width = given[3];
    for (int64_t i = from; i < to; i++) {
        const void *x = NAMED(row)(ADDRESS(void, 0), i, 2 * width, low);
        const void *d = NAMED(row)(ADDRESS(void, 1), i, width, low);
        void *d_x = NAMED(row)(ADDRESS(void, 2), i, 2 * width, low);
        for (int64_t j = 0; j < width; j++) {
            float a = NAMED(read)(x, 2 * j, low), b = NAMED(read)(x, 2 * j + 1, low), whole = NAMED(read)(d, j, low);
            float of_a = a > b ? whole : a == b ? whole / 2 : 0;
            NAMED(write)(d_x, 2 * j, of_a, low);
            NAMED(write)(d_x, 2 * j + 1, whole - of_a, low);
        }
    }
}

KERNEL_OF(maxout_back, 4)
