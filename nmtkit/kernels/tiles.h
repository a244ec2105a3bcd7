/* Products in bfloat16 by tiles (Intel AMX): registers of 16 rows of 64 bytes. One instruction multiplies two of them
   and adds the product to a third. See tiles.py.

   Tiles 0 to 3 are sums, 16 rows of 16 floats; 4 and 5 are 16 rows of 32 elements of the left matrix; 6 and 7 are 32
   rows of 16 columns of the right one, packed in pairs: two rows interleaved, column by column. */

enum {
    ROWS = 16,
    DEPTH = 32,
    TILE = ROWS * DEPTH, /* elements */
    SUMS = ROWS * ROWS,
    COLUMNS = 32, /* of a strip of the right matrix: two tiles side by side */
    NEAR = 512,   /* rows of a strip that fit into the first-level cache: 32 KB */
    BLOCK = 1 << 19, /* elements of x that fit into the second-level cache: 1 MB */
    MOST = 1024,     /* rows of a block */
};

/* Element j of a matrix of bfloat16, if `low`, or of floats, as bfloat16. */
INLINE uint16_t number(const char *w, int64_t j, int low) {
    return low ? ((const uint16_t *)w)[j] : NAMED(narrow)(((const float *)w)[j]);
}

/* Packs the right matrix. A row of the kernel is a strip; columns beyond the width are zero. */
GIVEN(tiles_lay_out) {
    const any *matrix;   /* (depth, width) with strides `down` and `right`, one of which is 1 */
    uint16_t *tiles;     /* (rows, depth / DEPTH, 2, TILE) */
    int64_t down, right, depth, width, low;
};

INLINE void lay_out(
    const GIVEN(tiles_lay_out) *given, int64_t from, int64_t to, int low, int beside
) {
    int64_t step = beside ? given->down : given->right, depth = given->depth, width = given->width;
    for (int64_t tile = from * depth / DEPTH * 2; tile < to * depth / DEPTH * 2; tile++) {
        int64_t row = tile / 2 % (depth / DEPTH) * DEPTH, column = tile / 2 / (depth / DEPTH) * COLUMNS + tile % 2 * ROWS;
        const char *w = (const char *)given->matrix + (row * given->down + column * given->right) * (low ? 2 : 4);
        uint32_t *pairs = (uint32_t *)given->tiles + tile * TILE / 2;
        int64_t columns = width - column < ROWS ? width - column : ROWS;
        if (columns < ROWS) memset(pairs, 0, TILE * sizeof(uint16_t));
        for (int64_t i = 0; i < DEPTH; i += 2, pairs += ROWS)
            for (int64_t j = 0; j < columns; j++) {
                uint16_t one = number(w, beside ? i * step + j : i + j * step, low);
                uint16_t other = number(w, beside ? (i + 1) * step + j : i + 1 + j * step, low);
                pairs[j] = one | (uint32_t)other << 16;
            }
    }
}

KERNEL(tiles_lay_out) {
    if (given->low)
        given->right == 1 ? lay_out(given, from, to, 1, 1) : lay_out(given, from, to, 1, 0);
    else
        given->right == 1 ? lay_out(given, from, to, 0, 1) : lay_out(given, from, to, 0, 0);
}

/* Configures tiles 0 to 5 for this many rows. */
static void use_tiles(int64_t rows) {
    struct {
        uint8_t palette, zeros[15];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int64_t i = 0; i < 8; i++) {
        shapes.bytes[i] = 64;
        shapes.rows[i] = (uint8_t)(i < 6 ? rows : ROWS);
    }
    _tile_loadconfig(&shapes);
}

/* Up to 16 rows of x, or 32 if `two`, times a part of a strip, accumulated over the parts in `sums`: two tiles or four,
   those of the first 16 rows first. */
INLINE void multiply_rows(
    const uint16_t *x, int64_t stride, const uint16_t *strip, int64_t depth, int is_first, float *sums, int two
) {
    if (is_first) {
        _tile_zero(0);
        _tile_zero(1);
        if (two) {
            _tile_zero(2);
            _tile_zero(3);
        }
    } else {
        _tile_loadd(0, sums, 64);
        _tile_loadd(1, sums + SUMS, 64);
        if (two) {
            _tile_loadd(2, sums + 2 * SUMS, 64);
            _tile_loadd(3, sums + 3 * SUMS, 64);
        }
    }
    for (int64_t k = 0; k < depth; k += DEPTH, strip += 2 * TILE) {
        _tile_loadd(6, strip, 64);
        _tile_loadd(4, x + k, stride * 2);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, strip + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (two) {
            _tile_loadd(5, x + ROWS * stride + k, stride * 2);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + SUMS, 64);
    if (two) {
        _tile_stored(2, sums + 2 * SUMS, 64);
        _tile_stored(3, sums + 3 * SUMS, 64);
    }
}

/* Two tiles of sums side by side plus the bias, up to `columns` columns, written as floats, or as bfloat16 if `low`. */
static void write_sums(
    const float *sums, const float *bias, int64_t rows, int64_t columns, char *result, int64_t step, int low
) {
    __mmask32 taken = columns < COLUMNS ? ((__mmask32)1 << columns) - 1 : ~(__mmask32)0;
    __mmask16 first = (__mmask16)taken, second = (__mmask16)(taken >> ROWS);
    __m512 left = _mm512_setzero_ps(), right = left;
    if (bias) {
        left = _mm512_maskz_loadu_ps(first, bias);
        right = _mm512_maskz_loadu_ps(second, bias + ROWS);
    }
    for (int64_t i = 0; i < rows; i++, result += step) {
        __m512 one = _mm512_add_ps(_mm512_loadu_ps(sums + i * ROWS), left);
        __m512 other = _mm512_add_ps(_mm512_loadu_ps(sums + SUMS + i * ROWS), right);
        if (low)
            _mm512_mask_storeu_epi16(result, taken, (__m512i)_mm512_cvtne2ps_pbh(other, one));
        else {
            _mm512_mask_storeu_ps(result, first, one);
            _mm512_mask_storeu_ps(result + ROWS * sizeof(float), second, other);
        }
    }
}

/* A row of the kernel is a strip. Rows of x are processed in blocks that stay in the second-level cache while they are
   multiplied by all strips, and strips in parts that stay in the first-level cache. */
GIVEN(tiles_multiply) {
    const uint16_t *x;     /* (count, depth) with row stride `stride` */
    const uint16_t *tiles; /* (rows, depth / DEPTH, 2, TILE), as packed by tiles_lay_out */
    const float *bias;     /* (width) or null */
    any *result;           /* (count, width) */
    int64_t count, stride, depth, width, low;
};

/* Rows `top` to `bottom` times the part of a strip from k on; the last part writes the results. */
static void multiply_part(
    const GIVEN(tiles_multiply) *of, int64_t strip, int64_t k, int64_t top, int64_t bottom, float *sums
) {
    int64_t step = of->width * (of->low ? 2 : 4);
    int64_t much = k + NEAR < of->depth ? NEAR : of->depth - k, column = strip * COLUMNS, used = 0;
    int is_last = k + much == of->depth;
    for (int64_t i = top; i < bottom;) {
        int64_t n = bottom - i < ROWS ? bottom - i : bottom - i < 2 * ROWS ? ROWS : 2 * ROWS;
        const uint16_t *x = of->x + i * of->stride + k, *part = of->tiles + (column * of->depth) + k * COLUMNS;
        char *result = (char *)of->result + i * step + column * (of->low ? 2 : 4);
        float *s = sums + (i - top) * COLUMNS;
        if (is_last) /* only a few columns of each row are written: prefetched during the products */
            for (int64_t row = 0; row < n; row++) {
                __builtin_prefetch(result + row * step, 1, 2);
                __builtin_prefetch(result + row * step + (of->low ? 63 : 127), 1, 2);
            }
        int64_t in_a_tile = n < ROWS ? n : ROWS;
        if (used != in_a_tile) use_tiles(used = in_a_tile);
        if (n == 2 * ROWS)
            multiply_rows(x, of->stride, part, much, !k, s, 1);
        else
            multiply_rows(x, of->stride, part, much, !k, s, 0);
        for (int64_t row = 0; is_last && row < n; row += ROWS)
            write_sums(
                s + row * COLUMNS, of->bias ? of->bias + column : 0, in_a_tile, of->width - column, result + row * step,
                step, (int)of->low
            );
        i += n;
    }
}

KERNEL(tiles_multiply) {
    int64_t block = BLOCK / given->depth / (2 * ROWS) * (2 * ROWS);
    block = block < 2 * ROWS ? 2 * ROWS : block > MOST ? MOST : block;
    float sums[MOST * COLUMNS];
    uint8_t before[64] = {0};
    _tile_storeconfig(before); /* oneDNN's configuration, which it may not load again */
    for (int64_t top = 0; top < given->count; top += block)
        for (int64_t strip = from; strip < to; strip++)
            for (int64_t k = 0; k < given->depth; k += NEAR)
                multiply_part(given, strip, k, top, top + block < given->count ? top + block : given->count, sums);
    if (before[0])
        _tile_loadconfig(before);
    else
        _tile_release();
}

/* Whether this processor has AMX tiles and Linux lets this process use them. */
EXPORT int64_t nmtkit_tiles(void) {
    unsigned int a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return 0; /* AMX-BF16, AMX-TILE */
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a >> 5 & 1)) return 0;                     /* AVX512-BF16 */
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}
