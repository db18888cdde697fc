/* generic.c - the kernels in plain C: what the others are measured against. */
#include "kernels/format.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

#include <math.h>
#include <string.h>

static void sums_of_16(const int8_t *q, size_t n, int32_t *sum16)
{
    for (size_t i = 0; i < n / 16; i++) {
        sum16[i] = 0;
        for (size_t k = 0; k < 16; k++)
            sum16[i] += q[16 * i + k];
    }
}

void quantize_generic(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / BLOCK_COLS; b++, x += BLOCK_COLS) {
        float amax = 0;
        for (int i = 0; i < BLOCK_COLS; i++)
            amax = fmaxf(amax, fabsf(x[i]));
        float inverse = amax > 0 ? 127.0f / amax : 0;
        int8_t *q = out->q + b * BLOCK_COLS;
        for (int i = 0; i < BLOCK_COLS; i++) {
            float v = rintf(x[i] * inverse);
            q[i] = v >= -127 && v <= 127 ? (int8_t)v : 0; /* 0 for what is not finite */
        }
        out->scale[b] = f16_to_f32(f32_to_f16(amax / 127.0f));
    }
    sums_of_16(out->q, n, out->sum16);
}

void quantize_wide_generic(const float *x, size_t n, const struct act_row *out)
{
    for (size_t b = 0; b < n / WIDE_COLS; b++, x += WIDE_COLS) {
        float amax = 0, max = 0; /* max with its sign: it becomes -127 */
        for (int i = 0; i < WIDE_COLS; i++) {
            float a = fabsf(x[i]);
            if (a > amax) {
                amax = a;
                max = x[i];
            }
        }
        float inverse = amax > 0 ? -127.0f / max : 0;
        int8_t *q = out->q + b * WIDE_COLS;
        for (int i = 0; i < WIDE_COLS; i++) {
            float v = rintf(x[i] * inverse);
            q[i] = v >= -127 && v <= 127 ? (int8_t)v : 0;
        }
        for (size_t i = 0; i < WIDE_COLS / BLOCK_COLS; i++)
            out->scale[b * (WIDE_COLS / BLOCK_COLS) + i] = amax > 0 ? 1 / inverse : 0;
    }
    sums_of_16(out->q, n, out->sum16);
}

void unpack_generic(const struct panel_source *s, size_t begin, size_t n, struct panel *out)
{
    format_of(s->w->dtype)->matrix->unpack(s, begin, n, out);
}

static void dot_one_panel(const struct panel *p, const struct act_tile *tile, size_t n,
                          size_t n_tokens, float *const *acc)
{
    size_t sub = p->format.sub_len;
    for (size_t t = 0; t < n_tokens; t++) {
        for (size_t s = 0; s < n / sub; s++) {
            const uint8_t *q = p->q + s * sub * PANEL_ROWS;
            const int8_t *a = tile->q[t] + s * sub;
            float a_scale = tile->scale[t][s * sub / BLOCK_COLS];
            int32_t bias = p->format.offset ? tile->bias[t][s] : 0;
            for (size_t r = 0; r < PANEL_ROWS; r++) {
                int32_t sum = bias;
                for (size_t k = 0; k < sub; k++)
                    sum += q[k / 4 * (PANEL_ROWS * 4) + r * 4 + k % 4] * a[k];
                acc[t][r] += (float)sum * (p->scale[s * PANEL_ROWS + r] * a_scale);
                if (p->format.has_min)
                    acc[t][r] += p->min[s * PANEL_ROWS + r] * tile->sum[t][s];
            }
        }
    }
}

void panel_dot_generic(const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                       size_t n, size_t n_tokens, float *const *acc)
{
    for (size_t p = 0; p < n_panels; p++)
        dot_one_panel(&panels[p], tile, n, n_tokens, acc + p * n_tokens);
}

void float_dots_generic(enum dtype dtype, const void *const *w, size_t n_w, size_t step,
                        const float *const *x, size_t n_x, size_t n, float *acc)
{
    size_t size = dtype_info(dtype)->block_bytes;
    for (size_t i = 0; i < n_w; i++) {
        for (size_t k = 0; k < n; k++) {
            float v;
            size_t at = k / DOT_LANES * step + k % DOT_LANES;
            dtype_decode(dtype, (const char *)w[i] + at * size, &v, 1);
            for (size_t t = 0; t < n_x; t++)
                acc[(i * n_x + t) * DOT_LANES + k % DOT_LANES] += v * x[t][k];
        }
    }
}

float lanes_sum_generic(const float *acc)
{
    float half[DOT_LANES];
    memcpy(half, acc, sizeof half);
    for (int n = DOT_LANES / 2; n > 0; n /= 2) {
        for (int i = 0; i < n; i++)
            half[i] += half[i + n];
    }
    return half[0];
}

void scores_generic(const float *const *q, size_t n_q, const float *k, size_t n_k, size_t dim,
                    float *scores, size_t stride)
{
    for (size_t i = 0; i < n_q; i++) {
        for (size_t c = 0; c < n_k; c++)
            scores[i * stride + c] = vec_dot(q[i], k + c * dim, dim);
    }
}

void values_generic(const float *weights, size_t stride, size_t n_q, const float *v, size_t n_k,
                    size_t dim, float *const *out)
{
    for (size_t i = 0; i < n_q; i++) {
        for (size_t c = 0; c < n_k; c++)
            vec_add_scaled(out[i], v + c * dim, weights[i * stride + c], dim);
    }
}

static float half(float f)
{
    return f16_to_f32(f32_to_f16(f));
}

void product_generic(const float *a, size_t n_rows, size_t n_k, const float *b, size_t n_cols,
                     float *const *c)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t k = 0; k < n_k; k++) {
            for (size_t j = 0; j < n_cols; j++)
                c[i][j] += a[i * n_k + k] * b[k * n_cols + j];
        }
    }
}

void transpose_generic(const float *in, size_t n_rows, size_t n_cols, float *out)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_cols; j++)
            out[j * n_rows + i] = in[i * n_cols + j];
    }
}

void values_half_generic(const float *weights, const float *shrink, const bool *shrinks,
                         size_t stride, size_t n_q, const uint16_t *const *v, size_t ahead,
                         size_t n_k, size_t dim, float *acc)
{
    (void)ahead;
    for (size_t r = 0; r < n_q; r++, weights += stride, shrink += stride, acc += dim) {
        for (size_t c = 0; c < n_k; c++) {
            if (weights[c] == 0)
                continue;
            bool shrinking = shrinks[r] && shrink[c] != 1;
            for (size_t i = 0; i < dim; i++) {
                float kept = shrinking ? half(acc[i] * shrink[c]) : acc[i];
                acc[i] = half(fmaf(f16_to_f32(v[c][i]), weights[c], kept));
            }
        }
    }
}

float exp_sum_generic(const float *x, float max, size_t n, float *y)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += y[i] = expf(x[i] - max);
    return sum;
}

static bool reads_packed_generic(const struct matrix *w)
{
    (void)w;
    return false;
}

const struct kernel_table kernels_generic = {
    .name = "generic",
    .quantize = quantize_generic,
    .quantize_wide = quantize_wide_generic,
    .unpack = unpack_generic,
    .panel_dot = panel_dot_generic,
    .reads_packed = reads_packed_generic,
    .float_dots = float_dots_generic,
    .lanes_sum = lanes_sum_generic,
    .decode = dtype_decode,
    .scores = scores_generic,
    .values = values_generic,
    .values_half = values_half_generic,
    .product = product_generic,
    .transpose = transpose_generic,
    .exp_sum = exp_sum_generic,
    .activate = activate_generic,
};
