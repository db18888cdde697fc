/* avx2_panel.c - block formats with AVX2.
 *
 * As in avx512_panel.c, with eight rows to a vector and the byte product in two
 * steps: u8 times s8 summed by pairs into 16 bits (which saturate), pairs
 * summed into 32. How many 16-bit sums fit before they must be widened follows
 * from the largest stored integer (panel_format.max): eight for 4-bit formats,
 * none for 8-bit ones, whose even and odd bytes have to be multiplied apart. */
#if defined(__x86_64__)
#include "kernels/lanes_avx2.h"
/**/
#include "kernels/avx2.h"
#include "kernels/panel_simd.h"
/**/
#include "kernels/panel_one.h"

enum { TOKENS = 3 };

INLINE __m256i broadcast_dword(const int8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

INLINE __m256i widen(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* dot[t] += sub columns of eight rows; run sums of 16 bits fit (0: not even
 * two products do). All but the pointers are constants. */
INLINE void dot_sub(const uint8_t *q, const int8_t *const *a, size_t n_tokens, size_t sub,
                    size_t run, __m256i *dot)
{
    if (run == 0) {
        const __m256i even = _mm256_set1_epi16(255);
        for (size_t k = 0; k < sub; k += 4) {
            __m256i w = _mm256_load_si256((const __m256i *)(q + k * PANEL_ROWS));
            __m256i w0 = _mm256_and_si256(w, even), w1 = _mm256_andnot_si256(even, w);
            for (size_t t = 0; t < n_tokens; t++) {
                __m256i x = broadcast_dword(a[t] + k);
                dot[t] = _mm256_add_epi32(dot[t], widen(_mm256_maddubs_epi16(w0, x)));
                dot[t] = _mm256_add_epi32(dot[t], widen(_mm256_maddubs_epi16(w1, x)));
            }
        }
        return;
    }
    for (size_t k = 0; k < sub; k += 4 * run) {
        __m256i pairs[TOKENS];
        for (size_t i = 0; i < run; i++) {
            __m256i w = _mm256_load_si256((const __m256i *)(q + (k + 4 * i) * PANEL_ROWS));
            for (size_t t = 0; t < n_tokens; t++) {
                __m256i p = _mm256_maddubs_epi16(w, broadcast_dword(a[t] + k + 4 * i));
                pairs[t] = i == 0 ? p : _mm256_add_epi16(pairs[t], p);
            }
        }
        for (size_t t = 0; t < n_tokens; t++)
            dot[t] = _mm256_add_epi32(dot[t], widen(pairs[t]));
    }
}

INLINE void dot_tile(const struct panel *p, const struct act_tile *tile, size_t first, size_t n,
                     float *const *acc, size_t n_tokens, size_t sub, size_t run)
{
    bool has_min = p->format.has_min, has_offset = p->format.offset != 0;
    for (size_t half = 0; half < PANEL_ROWS; half += 8) {
        __m256 sum[TOKENS];
        for (size_t t = 0; t < n_tokens; t++)
            sum[t] = _mm256_loadu_ps(acc[first + t] + half);
        for (size_t s = 0; s < n / sub; s++) {
            const int8_t *a[TOKENS];
            __m256i dot[TOKENS];
            for (size_t t = 0; t < n_tokens; t++) {
                a[t] = tile->q[first + t] + s * sub;
                dot[t] = _mm256_set1_epi32(has_offset ? tile->bias[first + t][s] : 0);
            }
            dot_sub(p->q + s * sub * PANEL_ROWS + 4 * half, a, n_tokens, sub, run, dot);
            __m256 scale = _mm256_load_ps(p->scale + s * PANEL_ROWS + half);
            for (size_t t = 0; t < n_tokens; t++) {
                __m256 b = _mm256_set1_ps(tile->scale[first + t][s * sub / BLOCK_COLS]);
                sum[t] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[t]), _mm256_mul_ps(scale, b), sum[t]);
            }
            if (has_min) {
                __m256 min = _mm256_load_ps(p->min + s * PANEL_ROWS + half);
                for (size_t t = 0; t < n_tokens; t++)
                    sum[t] = _mm256_fmadd_ps(min, _mm256_set1_ps(tile->sum[first + t][s]), sum[t]);
            }
        }
        for (size_t t = 0; t < n_tokens; t++)
            _mm256_storeu_ps(acc[first + t] + half, sum[t]);
    }
}

INLINE void dot_tokens(const struct panel *p, const struct act_tile *tile, size_t n,
                       size_t n_tokens, float *const *acc, size_t sub, size_t run)
{
    size_t t = 0;
    for (; t + 3 <= n_tokens; t += 3)
        dot_tile(p, tile, t, n, acc, 3, sub, run);
    for (; t < n_tokens; t++)
        dot_tile(p, tile, t, n, acc, 1, sub, run);
}

static void dot_one_panel(const struct panel *p, const struct act_tile *tile, size_t n,
                          size_t n_tokens, float *const *acc)
{
    int run = INT16_MAX / (2 * 127 * p->format.max);
    if (p->format.sub_len == 32) {
        if (run >= 8)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 8);
        else if (run >= 4)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 4);
        else if (run >= 1)
            dot_tokens(p, tile, n, n_tokens, acc, 32, 1);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 32, 0);
    } else {
        if (run >= 4)
            dot_tokens(p, tile, n, n_tokens, acc, 16, 4);
        else if (run >= 2)
            dot_tokens(p, tile, n, n_tokens, acc, 16, 2);
        else
            dot_tokens(p, tile, n, n_tokens, acc, 16, 1);
    }
}

void panel_dot_avx2(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                    size_t n, size_t n_tokens, float *const *acc)
{
    for (size_t p = 0; p < n_panels; p++)
        dot_one_panel(&panels[p], tile, n, n_tokens, acc + p * n_tokens);
}

void panel_one_avx2(const struct panel_source *s, const struct act_tile *tile, size_t n, float *acc)
{
    panel_one_simd(s, tile, n, acc);
}

bool reads_packed_avx2(const struct matrix *w)
{
    return reads_packed_simd(w);
}

void unpack_avx2(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    unpack_simd(s, begin, n, out);
}

INLINE float largest8(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

INLINE int32_t sum8(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1)));
}

/* 32 activations to 8 bits (to nearest, ties to even), and the sums of both
 * sixteens. */
INLINE void quantize_32(const float *x, __m256 inverse, int8_t *q, int32_t *sum16)
{
    __m256i ints[4];
    for (size_t i = 0; i < 4; i++) {
        __m256 v = _mm256_round_ps(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        /* What is no number or too large becomes 0. */
        __m256 fits = _mm256_cmp_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), v), _mm256_set1_ps(127),
                                    _CMP_LE_OQ);
        ints[i] = _mm256_cvtps_epi32(_mm256_and_ps(v, fits));
    }
    sum16[0] = sum8(_mm256_add_epi32(ints[0], ints[1]));
    sum16[1] = sum8(_mm256_add_epi32(ints[2], ints[3]));
    /* Packing works within halves; the permutation puts them in order. */
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(ints[0], ints[1]),
                                       _mm256_packs_epi32(ints[2], ints[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)q, bytes);
}

/* The same numbers as quantize_generic. */
void quantize_avx2(const float *x, size_t n, const struct act_row *out)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t b = 0; b < n / BLOCK_COLS; b++, x += BLOCK_COLS) {
        __m256 amax8 = _mm256_setzero_ps();
        for (size_t i = 0; i < BLOCK_COLS; i += 8)
            amax8 = _mm256_max_ps(amax8, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
        float amax = largest8(amax8);
        __m256 inverse = _mm256_set1_ps(amax > 0 ? 127.0f / amax : 0);
        quantize_32(x, inverse, out->q + b * BLOCK_COLS, out->sum16 + 2 * b);
        out->scale[b] = _cvtsh_ss(_cvtss_sh(amax / 127.0f, _MM_FROUND_TO_NEAREST_INT));
    }
}

/* The same numbers as quantize_wide_generic. */
void quantize_wide_avx2(const float *x, size_t n, const struct act_row *out)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t b = 0; b < n / WIDE_COLS; b++, x += WIDE_COLS) {
        __m256 max = _mm256_loadu_ps(x), min = max;
        for (size_t i = 8; i < WIDE_COLS; i += 8) {
            max = _mm256_max_ps(max, _mm256_loadu_ps(x + i));
            min = _mm256_min_ps(min, _mm256_loadu_ps(x + i));
        }
        float high = largest8(max), low = -largest8(_mm256_xor_ps(min, sign));
        float far = wide_extreme(x, high, low);
        float inverse = far != 0 ? -127.0f / far : 0, scale = far != 0 ? 1 / inverse : 0;
        for (size_t i = 0; i < WIDE_COLS; i += BLOCK_COLS) {
            size_t at = b * WIDE_COLS + i;
            quantize_32(x + i, _mm256_set1_ps(inverse), out->q + at, out->sum16 + at / 16);
            out->scale[at / BLOCK_COLS] = scale;
        }
    }
}
#endif
