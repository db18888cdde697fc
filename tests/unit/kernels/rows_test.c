/* rows_test.c - norms, softmax, activations and rope against their formulas. */
#include "unit/unit.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static uint64_t seed = 4242;

static void fill(float *x, size_t n)
{
    dtype_fill_random(DTYPE_F32, x, n, 3, &seed);
}

static void assert_near(float got, double want)
{
    if (!(fabs((double)got - want) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%g instead of %g", (double)got, want);
}

static void norms_follow_their_formulas(void **state)
{
    (void)state;
    static float x[1000], w[1000], b[1000], y[1000];
    for (size_t n = 1; n <= 1000; n = n * 3 + 2) {
        fill(x, n);
        fill(w, n);
        fill(b, n);
        double sum = 0, squares = 0, var = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        double mean = sum / (double)n, rms = sqrt(squares / (double)n + 1e-5);
        for (size_t i = 0; i < n; i++)
            var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        rms_norm(x, w, 1e-5f, n, y);
        for (size_t i = 0; i < n; i++)
            assert_near(y[i], (double)x[i] / rms * (double)w[i]);
        rms_norm(x, NULL, 1e-5f, n, y);
        for (size_t i = 0; i < n; i++)
            assert_near(y[i], (double)x[i] / rms);
        layer_norm(x, w, b, 1e-5f, n, y);
        for (size_t i = 0; n > 1 && i < n; i++)
            assert_near(y[i],
                        ((double)x[i] - mean) / sqrt(var + 1e-5) * (double)w[i] + (double)b[i]);
        memcpy(y, x, n * sizeof *x);
        layer_norm(y, NULL, NULL, 1e-5f, n, y); /* in place */
        for (size_t i = 0; n > 1 && i < n; i++)
            assert_near(y[i], ((double)x[i] - mean) / sqrt(var + 1e-5));
    }
}

static void softmax_sums_to_one_without_its_sink(void **state)
{
    (void)state;
    float x[50], mask[50], y[50], sink = 1.5f;
    fill(x, 50);
    for (int i = 0; i < 50; i++)
        mask[i] = i % 7 ? 0.25f : -INFINITY;
    double total = exp(1.5);
    for (int i = 0; i < 50; i++)
        total += exp((double)x[i] * 0.5 + (double)mask[i]);
    softmax(x, mask, 0.5f, &sink, 50, y);
    double sum = 0;
    for (int i = 0; i < 50; i++) {
        assert_near(y[i], exp((double)x[i] * 0.5 + (double)mask[i]) / total);
        sum += (double)y[i];
    }
    assert_near((float)sum, 1 - exp(1.5) / total);
    softmax(x, NULL, 1, NULL, 50, x); /* in place */
    sum = 0;
    for (int i = 0; i < 50; i++)
        sum += (double)x[i];
    assert_near((float)sum, 1);
}

static void a_softmax_of_nothing_is_zero(void **state)
{
    (void)state;
    float x[4] = {1, 2, 3, 4}, mask[4], y[4];
    for (int i = 0; i < 4; i++)
        mask[i] = -INFINITY;
    softmax(x, mask, 1, NULL, 4, y);
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == 0);
}

static double formula(enum activation act, double v)
{
    switch (act) {
    case ACT_SILU:
        return v / (1 + exp(-v));
    case ACT_GELU:
        return 0.5 * v * (1 + tanh(sqrt(2 / acos(-1.0)) * (v + 0.044715 * v * v * v)));
    case ACT_GELU_ERF:
        return 0.5 * v * (1 + erf(v / sqrt(2)));
    case ACT_GELU_QUICK:
        return v / (1 + exp(-1.702 * v));
    case ACT_RELU:
        return v > 0 ? v : 0;
    case ACT_RELU_SQR:
        return v > 0 ? v * v : 0;
    case ACT_TANH:
        return tanh(v);
    default:
        return 1 / (1 + exp(-v));
    }
}

static void activations_follow_their_formulas(void **state)
{
    (void)state;
    static float x[300], up[300], y[300];
    for (int act = ACT_SILU; act <= ACT_SIGMOID; act++) {
        fill(x, 300);
        fill(up, 300);
        activate((enum activation)act, x, 300, y);
        for (int i = 0; i < 300; i++)
            assert_near(y[i], formula((enum activation)act, (double)x[i]));
        activate_gated((enum activation)act, x, up, 300, x); /* in place */
        for (int i = 0; i < 300; i++)
            assert_near(x[i], (double)y[i] * (double)up[i]);
    }
    fill(x, 300);
    fill(up, 300);
    swiglu_oai(x, up, 1.702f, 2, 300, y);
    for (int i = 0; i < 300; i++) {
        double g = fmin((double)x[i], 2), u = fmax(fmin((double)up[i], 2), -2);
        assert_near(y[i], g / (1 + exp(-1.702 * g)) * (u + 1));
    }
    soft_cap(x, 1.5f, 300, y);
    for (int i = 0; i < 300; i++)
        assert_near(y[i], 1.5 * tanh((double)x[i] / 1.5));
}

static const struct rope_params plain_rope = {.n_dims = 8,
                                              .freq_base = 10000,
                                              .freq_scale = 1,
                                              .attn_factor = 1,
                                              .beta_fast = 32,
                                              .beta_slow = 1,
                                              .n_ctx_orig = 4096};

static void rope_turns_pairs_by_their_angle(void **state)
{
    (void)state;
    float cos_sin[8], x[2][12], y[2][12];
    for (int32_t pos = 0; pos < 3000; pos += 997) {
        rope_angles(&plain_rope, pos, cos_sin);
        for (int kind = ROPE_NORMAL; kind <= ROPE_NEOX; kind++) {
            fill(x[0], 24);
            memcpy(y, x, sizeof x);
            rope_apply((enum rope_kind)kind, y[0], 2, 12, 8, cos_sin);
            for (int h = 0; h < 2; h++) {
                for (int i = 0; i < 4; i++) {
                    int a = kind == ROPE_NEOX ? i : 2 * i,
                        b = kind == ROPE_NEOX ? i + 4 : 2 * i + 1;
                    double angle = pos * pow(10000, -i / 4.0);
                    double c = cos(angle), s = sin(angle);
                    /* single precision holds angles of thousands to 1e-4 */
                    assert_true(fabs((double)y[h][a] - (double)x[h][a] * c + (double)x[h][b] * s) <
                                2e-3);
                    assert_true(fabs((double)y[h][b] - (double)x[h][a] * s - (double)x[h][b] * c) <
                                2e-3);
                }
                for (int i = 8; i < 12; i++)
                    assert_true(y[h][i] == x[h][i]);
            }
        }
    }
}

static void rope_scales_and_factors_slow_the_turning(void **state)
{
    (void)state;
    float a[8], b[8], factors[4] = {2, 2, 2, 2};
    struct rope_params p = plain_rope;
    rope_angles(&p, 100, a);
    p.freq_scale = 0.25f;
    rope_angles(&p, 400, b);
    for (int i = 0; i < 8; i++)
        assert_near(b[i], (double)a[i]);
    p.freq_scale = 1;
    p.freq_factors = factors;
    rope_angles(&p, 200, b);
    for (int i = 0; i < 8; i++)
        assert_near(b[i], (double)a[i]);
}

/* YaRN leaves fast dimensions alone, interpolates slow ones, and is longer by
 * 1 + 0.1 ln(s). */
static void yarn_mixes_by_frequency(void **state)
{
    (void)state;
    float scaled[64], kept[64], interpolated[64];
    struct rope_params p = plain_rope;
    p.n_dims = 64;
    rope_angles(&p, 1000, kept);
    p.freq_scale = 0.25f;
    rope_angles(&p, 1000, interpolated);
    p.ext_factor = 1;
    rope_angles(&p, 1000, scaled);
    double longer = 1 + 0.1 * log(4);
    assert_near(scaled[0], (double)kept[0] * longer);
    assert_near(scaled[1], (double)kept[1] * longer);
    assert_near(scaled[62], (double)interpolated[62] * longer);
    assert_near(scaled[63], (double)interpolated[63] * longer);
}

static void vectors_add_and_multiply(void **state)
{
    (void)state;
    float a[37], b[37], y[37];
    fill(a, 37);
    fill(b, 37);
    double dot = 0;
    for (int i = 0; i < 37; i++)
        dot += (double)a[i] * (double)b[i];
    assert_near(vec_dot(a, b, 37), dot);
    vec_add(a, b, 37, y);
    vec_mul(y, b, 37, y);
    vec_scale(y, 0.5f, 37, y);
    vec_add_scaled(y, a, -2, 37);
    for (int i = 0; i < 37; i++)
        assert_near(y[i], ((double)a[i] + (double)b[i]) * (double)b[i] / 2 - 2 * (double)a[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_follow_their_formulas),
        cmocka_unit_test(softmax_sums_to_one_without_its_sink),
        cmocka_unit_test(a_softmax_of_nothing_is_zero),
        cmocka_unit_test(activations_follow_their_formulas),
        cmocka_unit_test(rope_turns_pairs_by_their_angle),
        cmocka_unit_test(rope_scales_and_factors_slow_the_turning),
        cmocka_unit_test(yarn_mixes_by_frequency),
        cmocka_unit_test(vectors_add_and_multiply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
