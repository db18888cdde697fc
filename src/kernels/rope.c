/* rope.c - rotary positions: the angles once per token, the rotation per head. */
#include "kernels/kernels.h"

#include <math.h>

/* The dimension that turns n_turns times within the original context. */
static float dimension_of(const struct rope_params *p, float n_turns)
{
    const float two_pi = 6.28318530718f;
    return (float)p->n_dims * logf((float)p->n_ctx_orig / (n_turns * two_pi)) /
           (2 * logf(p->freq_base));
}

/* YaRN: dimensions below `low` keep their frequency, those above `high` are
 * interpolated, in between it is a ramp. */
static void yarn_bounds(const struct rope_params *p, float *low, float *high)
{
    float first = dimension_of(p, p->beta_fast), last = dimension_of(p, p->beta_slow);
    *low = fmaxf(0, p->fractions ? first : floorf(first));
    *high = fminf((float)p->n_dims - 1, p->fractions ? last : ceilf(last));
}

void rope_angles(const struct rope_params *p, int32_t pos, float *cos_sin)
{
    float low = 0, high = 0, magnitude = p->attn_factor;
    if (p->ext_factor != 0) {
        yarn_bounds(p, &low, &high);
        magnitude *= 1.0f + 0.1f * logf(1.0f / p->freq_scale);
    }
    float step = powf(p->freq_base, -2.0f / (float)p->n_dims);
    float turning = (float)pos;
    for (int32_t i = 0; i < p->n_dims / 2; i++) {
        float kept = p->freq_factors ? turning / p->freq_factors[i] : turning;
        float angle = kept * p->freq_scale;
        if (p->ext_factor != 0) {
            float ramp = ((float)i - low) / fmaxf(0.001f, high - low);
            float mix = (1 - fminf(1, fmaxf(0, ramp))) * p->ext_factor;
            angle = angle * (1 - mix) + kept * mix;
        }
        cos_sin[2 * i] = cosf(angle) * magnitude;
        cos_sin[2 * i + 1] = sinf(angle) * magnitude;
        turning *= step;
    }
}

static void rotate(float *x0, float *x1, float cosine, float sine)
{
    float a = *x0, b = *x1;
    *x0 = a * cosine - b * sine;
    *x1 = a * sine + b * cosine;
}

void rope_apply(enum rope_kind kind, float *x, int32_t n_heads, size_t head_stride, int32_t n_dims,
                const float *cos_sin)
{
    int32_t half = n_dims / 2;
    for (int32_t h = 0; h < n_heads; h++, x += head_stride) {
        if (kind == ROPE_NEOX) {
            for (int32_t i = 0; i < half; i++)
                rotate(&x[i], &x[i + half], cos_sin[2 * i], cos_sin[2 * i + 1]);
        } else {
            for (int32_t i = 0; i < half; i++)
                rotate(&x[2 * i], &x[2 * i + 1], cos_sin[2 * i], cos_sin[2 * i + 1]);
        }
    }
}
