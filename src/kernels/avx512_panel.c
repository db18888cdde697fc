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

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i broadcast_dword(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

/* n_tokens, sub, has_min and has_offset are constants wherever this is used. */
INLINE void dot_tile(const struct panel *p, const struct act_tile *tile, size_t first, size_t n,
                     float *const *acc, size_t n_tokens, size_t sub, bool has_min, bool has_offset)
{
    __m512 sum[TILE_TOKENS];
    for (size_t t = 0; t < n_tokens; t++)
        sum[t] = _mm512_loadu_ps(acc[first + t]);
    for (size_t s = 0; s < n / sub; s++) {
        const uint8_t *q = p->q + s * sub * PANEL_ROWS;
        __m512i dot[TILE_TOKENS];
        for (size_t t = 0; t < n_tokens; t++)
            dot[t] =
                has_offset ? _mm512_set1_epi32(tile->bias[first + t][s]) : _mm512_setzero_si512();
        for (size_t k = 0; k < sub; k += 4) {
            __m512i w = _mm512_load_si512(q + k * PANEL_ROWS);
            for (size_t t = 0; t < n_tokens; t++)
                dot[t] = _mm512_dpbusd_epi32(dot[t], w,
                                             broadcast_dword(tile->q[first + t] + s * sub + k));
        }
        __m512 scale = _mm512_load_ps(p->scale + s * PANEL_ROWS);
        for (size_t t = 0; t < n_tokens; t++) {
            __m512 a = _mm512_set1_ps(tile->scale[first + t][s * sub / BLOCK_COLS]);
            sum[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t]), _mm512_mul_ps(scale, a), sum[t]);
        }
        if (has_min) {
            __m512 min = _mm512_load_ps(p->min + s * PANEL_ROWS);
            for (size_t t = 0; t < n_tokens; t++)
                sum[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(tile->sum[first + t][s]), sum[t]);
        }
    }
    for (size_t t = 0; t < n_tokens; t++)
        _mm512_storeu_ps(acc[first + t], sum[t]);
}

INLINE void dot_tokens(const struct panel *p, const struct act_tile *tile, size_t n,
                       size_t n_tokens, float *const *acc, size_t sub, bool has_min,
                       bool has_offset)
{
    size_t t = 0;
    for (; t + 8 <= n_tokens; t += 8)
        dot_tile(p, tile, t, n, acc, 8, sub, has_min, has_offset);
    for (; t + 4 <= n_tokens; t += 4)
        dot_tile(p, tile, t, n, acc, 4, sub, has_min, has_offset);
    for (; t + 2 <= n_tokens; t += 2)
        dot_tile(p, tile, t, n, acc, 2, sub, has_min, has_offset);
    for (; t < n_tokens; t++)
        dot_tile(p, tile, t, n, acc, 1, sub, has_min, has_offset);
}

void panel_dot_avx512(const struct panel *p, const struct act_tile *tile, size_t n, size_t n_tokens,
                      float *const *acc)
{
    bool has_offset = p->format.offset != 0;
    if (p->format.sub_len == 32) {
        if (p->format.has_min)
            dot_tokens(p, tile, n, n_tokens, acc, 32, true, false);
        else if (has_offset)
            dot_tokens(p, tile, n, n_tokens, acc, 32, false, true);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 32, false, false);
    } else {
        if (p->format.has_min)
            dot_tokens(p, tile, n, n_tokens, acc, 16, true, false);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 16, false, true);
    }
}

void unpack_avx512(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    unpack_simd(s, begin, n, out);
}

/* Sixteen activations to 8 bits; returns their sum. Rounding is to nearest, ties
 * to even. */
INLINE int32_t quantize_16(const float *x, __m512 inverse, int8_t *q)
{
    __m512i ints = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), inverse));
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

/* The same numbers as quantize_wide_generic. Of a largest and a smallest that
 * are equally far from zero, the one that comes first counts. */
void quantize_wide_avx512(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / WIDE_COLS; b++, x += WIDE_COLS) {
        __m512 max = _mm512_loadu_ps(x), min = max;
        for (size_t i = 16; i < WIDE_COLS; i += 16) {
            max = _mm512_max_ps(max, _mm512_loadu_ps(x + i));
            min = _mm512_min_ps(min, _mm512_loadu_ps(x + i));
        }
        float high = _mm512_reduce_max_ps(max), low = _mm512_reduce_min_ps(min);
        float far = high > -low ? high : low;
        for (size_t i = 0; high == -low && i < WIDE_COLS; i++) {
            if (x[i] == high || x[i] == low) {
                far = x[i];
                break;
            }
        }
        float inverse = far != 0 ? -127.0f / far : 0, scale = far != 0 ? 1 / inverse : 0;
        for (size_t i = 0; i < WIDE_COLS; i += 16)
            out->sum16[(b * WIDE_COLS + i) / 16] =
                quantize_16(x + i, _mm512_set1_ps(inverse), out->q + b * WIDE_COLS + i);
        for (size_t i = 0; i < WIDE_COLS / BLOCK_COLS; i++)
            out->scale[b * (WIDE_COLS / BLOCK_COLS) + i] = scale;
    }
}
#endif
