/* avx512_panel.c - block formats with AVX-512 and its byte dot product (VNNI).
 *
 * One vector is one dword of a panel: four columns of sixteen rows. A dword of
 * activations, broadcast from memory, is multiplied into all of them by one
 * instruction (u8 weights times s8 activations, summed into 32 bits exactly).
 * Eight such make a block of 32 columns; its sums are then turned to floats,
 * scaled and added to the tile's accumulators, which stay in registers. */
#if defined(__x86_64__)
#include "kernels/lanes_avx512.h"
/**/
#include "kernels/avx512.h"
#include "kernels/panel_simd.h"
/**/
#include "kernels/panel_one.h"

INLINE __m512i broadcast_dword(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

/* What of a tile's work is known when compiling. */
struct shape {
    size_t n_panels, n_tokens, sub;
    bool has_min, has_offset;
};

/* The integer sums of block s: dot[p][t]. */
INLINE void dot_block(const struct panel *panels, const struct act_tile *tile, struct shape is,
                      size_t s, __m512i dot[TILE_PANELS][TILE_TOKENS])
{
    for (size_t t = 0; t < is.n_tokens; t++) {
        __m512i start =
            is.has_offset ? _mm512_set1_epi32(tile->bias[t][s]) : _mm512_setzero_si512();
        for (size_t p = 0; p < is.n_panels; p++)
            dot[p][t] = start;
    }
    for (size_t k = 0; k < is.sub; k += 4) {
        __m512i w[TILE_PANELS];
        for (size_t p = 0; p < is.n_panels; p++)
            w[p] = _mm512_load_si512(panels[p].q + (s * is.sub + k) * PANEL_ROWS);
        for (size_t t = 0; t < is.n_tokens; t++) {
            __m512i a = broadcast_dword(tile->q[t] + s * is.sub + k);
            for (size_t p = 0; p < is.n_panels; p++)
                dot[p][t] = _mm512_dpbusd_epi32(dot[p][t], w[p], a);
        }
    }
}

/* All of `is` is constant wherever this is used, so that the 24 sums of two
 * panels and six activations (integers and floats) stay in registers. */
INLINE void dot_tile(const struct panel *panels, const struct act_tile *tile, size_t n,
                     float *const *acc, struct shape is)
{
    __m512 sum[TILE_PANELS][TILE_TOKENS];
    for (size_t p = 0; p < is.n_panels; p++) {
        for (size_t t = 0; t < is.n_tokens; t++)
            sum[p][t] = _mm512_loadu_ps(acc[p * is.n_tokens + t]);
    }
    for (size_t s = 0; s < n / is.sub; s++) {
        __m512i dot[TILE_PANELS][TILE_TOKENS];
        dot_block(panels, tile, is, s, dot);
        __m512 scale[TILE_PANELS], min[TILE_PANELS];
        for (size_t p = 0; p < is.n_panels; p++) {
            scale[p] = _mm512_load_ps(panels[p].scale + s * PANEL_ROWS);
            if (is.has_min)
                min[p] = _mm512_load_ps(panels[p].min + s * PANEL_ROWS);
        }
        for (size_t t = 0; t < is.n_tokens; t++) {
            __m512 a = _mm512_set1_ps(tile->scale[t][s * is.sub / BLOCK_COLS]);
            for (size_t p = 0; p < is.n_panels; p++) {
                sum[p][t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][t]),
                                            _mm512_mul_ps(scale[p], a), sum[p][t]);
                if (is.has_min)
                    sum[p][t] = _mm512_fmadd_ps(min[p], _mm512_set1_ps(tile->sum[t][s]), sum[p][t]);
            }
        }
    }
    for (size_t p = 0; p < is.n_panels; p++) {
        for (size_t t = 0; t < is.n_tokens; t++)
            _mm512_storeu_ps(acc[p * is.n_tokens + t], sum[p][t]);
    }
}

INLINE void dot_shape(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                      size_t n, size_t n_tokens, float *const *acc, size_t sub, bool has_min,
                      bool has_offset)
{
#define SHAPE(p, t)                                                                                \
    case (p)*8 + (t):                                                                              \
        dot_tile(panels, tile, n, acc, (struct shape){p, t, sub, has_min, has_offset});            \
        break
    switch (n_panels * 8 + n_tokens) {
        SHAPE(1, 1);
        SHAPE(1, 2);
        SHAPE(1, 3);
        SHAPE(1, 4);
        SHAPE(1, 5);
        SHAPE(1, 6);
        SHAPE(2, 1);
        SHAPE(2, 2);
        SHAPE(2, 3);
        SHAPE(2, 4);
        SHAPE(2, 5);
        SHAPE(2, 6);
    default:
        break;
    }
#undef SHAPE
}

void panel_dot_avx512(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                      size_t n, size_t n_tokens, float *const *acc)
{
    const struct panel_format *f = &panels[0].format;
    if (f->sub_len == 32) {
        if (f->has_min)
            dot_shape(panels, n_panels, tile, n, n_tokens, acc, 32, true, false);
        else
            dot_shape(panels, n_panels, tile, n, n_tokens, acc, 32, false, true);
    } else {
        if (f->has_min)
            dot_shape(panels, n_panels, tile, n, n_tokens, acc, 16, true, false);
        else
            dot_shape(panels, n_panels, tile, n, n_tokens, acc, 16, false, true);
    }
}

void panel_one_avx512(const struct panel_source *s, const struct act_tile *tile, size_t n,
                      float *acc)
{
    panel_one_simd(s, tile, n, acc);
}

bool reads_packed_avx512(const struct matrix *w)
{
    return reads_packed_simd(w);
}

void unpack_avx512(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    unpack_simd(s, begin, n, out);
}

/* Sixteen activations to 8 bits; returns their sum. Rounding is to nearest, ties
 * to even; what is no number or too large becomes 0. */
INLINE int32_t quantize_16(const float *x, __m512 inverse, int8_t *q)
{
    __m512 v = _mm512_roundscale_ps(_mm512_mul_ps(_mm512_loadu_ps(x), inverse),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __mmask16 fits = _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(127), _CMP_LE_OQ);
    __m512i ints = _mm512_maskz_cvtps_epi32(fits, v);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtsepi32_epi8(ints));
    return _mm512_reduce_add_epi32(ints);
}

/* The same numbers as quantize_generic. */
void quantize_avx512(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / BLOCK_COLS; b++, x += BLOCK_COLS) {
        __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
        float amax = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
        __m512 inverse = _mm512_set1_ps(amax > 0 ? 127.0f / amax : 0);
        int8_t *q = out->q + b * BLOCK_COLS;
        out->sum16[2 * b] = quantize_16(x, inverse, q);
        out->sum16[2 * b + 1] = quantize_16(x + 16, inverse, q + 16);
        out->scale[b] = _cvtsh_ss(_cvtss_sh(amax / 127.0f, _MM_FROUND_TO_NEAREST_INT));
    }
}

/* The same numbers as quantize_wide_generic. */
void quantize_wide_avx512(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / WIDE_COLS; b++, x += WIDE_COLS) {
        __m512 max = _mm512_loadu_ps(x), min = max;
        for (size_t i = 16; i < WIDE_COLS; i += 16) {
            max = _mm512_max_ps(max, _mm512_loadu_ps(x + i));
            min = _mm512_min_ps(min, _mm512_loadu_ps(x + i));
        }
        float high = _mm512_reduce_max_ps(max), low = _mm512_reduce_min_ps(min);
        float far = wide_extreme(x, high, low);
        float inverse = far != 0 ? -127.0f / far : 0, scale = far != 0 ? 1 / inverse : 0;
        for (size_t i = 0; i < WIDE_COLS; i += 16)
            out->sum16[(b * WIDE_COLS + i) / 16] =
                quantize_16(x + i, _mm512_set1_ps(inverse), out->q + b * WIDE_COLS + i);
        for (size_t i = 0; i < WIDE_COLS / BLOCK_COLS; i++)
            out->scale[b * (WIDE_COLS / BLOCK_COLS) + i] = scale;
    }
}
#endif
