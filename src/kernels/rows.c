/* rows.c - norms, activations and softmax over one row, in plain C.
 *
 * Sums run in 16 lanes, so that a compiler can keep them in vector registers
 * and a long row loses less to rounding than one running sum would. */
#include "kernels/table.h"

#include <math.h>

enum { LANES = 16 };

static float lanes_sum(const float acc[LANES])
{
    float half[LANES];
    for (int i = 0; i < LANES; i++)
        half[i] = acc[i];
    for (int n = LANES / 2; n > 0; n /= 2) {
        for (int i = 0; i < n; i++)
            half[i] += half[i + n];
    }
    return half[0];
}

static float sum_of_products(const float *a, const float *b, size_t n)
{
    float acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            acc[j] += a[i + (size_t)j] * b[i + (size_t)j];
    }
    for (int j = 0; i < n; i++, j++)
        acc[j] += a[i] * b[i];
    return lanes_sum(acc);
}

static float sum_of(const float *a, size_t n)
{
    float acc[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++)
            acc[j] += a[i + (size_t)j];
    }
    for (int j = 0; i < n; i++, j++)
        acc[j] += a[i];
    return lanes_sum(acc);
}

void rms_norm(const float *x, const float *weight, float eps, size_t n, float *y)
{
    float scale = 1.0f / sqrtf(sum_of_products(x, x, n) / (float)n + eps);
    if (weight) {
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale * weight[i];
    } else {
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * scale;
    }
}

void layer_norm(const float *x, const float *weight, const float *bias, float eps, size_t n,
                float *y)
{
    float mean = sum_of(x, n) / (float)n;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - mean;
    float scale = 1.0f / sqrtf(sum_of_products(y, y, n) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] *= scale;
    if (weight)
        vec_mul(y, weight, n, y);
    if (bias)
        vec_add(y, bias, n, y);
}

void vec_add(const float *a, const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

void vec_mul(const float *a, const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

void vec_scale(const float *x, float scale, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale;
}

void vec_add_scaled(float *y, const float *x, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += scale * x[i];
}

float vec_dot(const float *a, const float *b, size_t n)
{
    return sum_of_products(a, b, n);
}

void soft_cap(const float *x, float cap, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cap * tanhf(x[i] / cap);
}

void softmax(const float *x, const float *mask, float scale, const float *sink, size_t n, float *y)
{
    float max = sink ? *sink : -INFINITY;
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * scale + (mask ? mask[i] : 0);
        max = fmaxf(max, y[i]);
    }
    if (max == -INFINITY)
        max = 0; /* everything is masked: zeros, not NaNs */
    for (size_t i = 0; i < n; i++)
        y[i] = expf(y[i] - max);
    float sum = sum_of(y, n) + (sink ? expf(*sink - max) : 0);
    vec_scale(y, sum > 0 ? 1 / sum : 0, n, y);
}

static float silu(float x)
{
    return x / (1.0f + expf(-x));
}

/* sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel 2016. */
static float gelu(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * x * (1.0f + 0.044715f * x * x)));
}

static float gelu_erf(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

static float gelu_quick(float x)
{
    return x / (1.0f + expf(-1.702f * x));
}

static float relu(float x)
{
    return x > 0 ? x : 0;
}

#define EACH(expression)                                                                           \
    for (size_t i = 0; i < n; i++) {                                                               \
        float v = x[i];                                                                            \
        y[i] = (expression);                                                                       \
    }                                                                                              \
    break

void activate_generic(enum activation act, const float *x, size_t n, float *y)
{
    switch (act) {
    case ACT_SILU:
        EACH(silu(v));
    case ACT_GELU:
        EACH(gelu(v));
    case ACT_GELU_ERF:
        EACH(gelu_erf(v));
    case ACT_GELU_QUICK:
        EACH(gelu_quick(v));
    case ACT_RELU:
        EACH(relu(v));
    case ACT_RELU_SQR:
        EACH(relu(v) * relu(v));
    case ACT_TANH:
        EACH(tanhf(v));
    case ACT_SIGMOID:
        EACH(1.0f / (1.0f + expf(-v)));
    }
}

void activate(enum activation act, const float *x, size_t n, float *y)
{
    kernel_table()->activate(act, x, n, y);
}

void activate_gated(enum activation act, const float *gate, const float *up, size_t n, float *y)
{
    /* In pieces through a buffer of our own, since y may be gate or up. */
    float buffer[256];
    for (size_t i = 0; i < n; i += 256) {
        size_t piece = n - i < 256 ? n - i : 256;
        activate(act, gate + i, piece, buffer);
        vec_mul(buffer, up + i, piece, y + i);
    }
}

void swiglu_oai(const float *gate, const float *up, float alpha, float limit, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float g = fminf(gate[i], limit);
        float u = fmaxf(fminf(up[i], limit), -limit);
        y[i] = g / (1.0f + expf(-alpha * g)) * (u + 1.0f);
    }
}
