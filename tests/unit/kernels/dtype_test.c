/* dtype_test.c - formats: single numbers, blocks worked out by hand. */
#include "unit/unit.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Every half has one float, and comes back from it. */
static void every_half_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h <= 0xFFFF; h++) {
        float f = f16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true((h & 0x7C00) == 0x7C00 && (h & 0x3FF) != 0);
        else
            assert_int_equal(f32_to_f16(f), h);
        f = bf16_to_f32((uint16_t)h);
        if (!isnan(f))
            assert_int_equal(f32_to_bf16(f), h);
        else
            assert_true(isnan(bf16_to_f32(f32_to_bf16(f))));
    }
}

static void halves_round_to_the_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(f32_to_f16(1.0f + 0x1p-11f), 0x3C00);     /* a tie, down to even */
    assert_int_equal(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3C02); /* a tie, up to even */
    assert_int_equal(f32_to_f16(1.0f + 0x1.8p-11f), 0x3C01);
    assert_int_equal(f32_to_f16(65519.0f), 0x7BFF);
    assert_int_equal(f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0);
    assert_int_equal(f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(f32_to_f16(-0x1p-24f), 0x8001);
    assert_int_equal(f32_to_bf16(1.0f + 0x1p-8f), 0x3F80);
    assert_int_equal(f32_to_bf16(1.0f + 3 * 0x1p-8f), 0x3F82);
    assert_int_equal(f32_to_bf16(-INFINITY), 0xFF80);
}

static void names_and_numbers_find_their_formats(void **state)
{
    (void)state;
    enum dtype dtype;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        const struct dtype_info *info = dtype_info((enum dtype)d);
        if (info->is_scaled) { /* no tensor is of it */
            assert_false(dtype_from_name(info->name, &dtype));
            continue;
        }
        assert_true(dtype_from_name(info->name, &dtype));
        assert_int_equal(dtype, d);
        if (info->ggml_type >= 0) {
            assert_true(dtype_from_ggml((uint32_t)info->ggml_type, &dtype));
            assert_int_equal(dtype, d);
        }
    }
    assert_true(dtype_from_name("Q4_K", &dtype) && dtype == DTYPE_Q4_K);
    assert_false(dtype_from_name("q4", &dtype));
    /* Removed from the format, or never in it. */
    static const uint32_t none[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(dtype_from_ggml(none[i], &dtype));
}

static void sizes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    size_t bytes;
    assert_true(dtype_bytes(DTYPE_Q4_K, 512, &bytes) && bytes == 288);
    assert_false(dtype_bytes(DTYPE_Q4_K, 511, &bytes));
    assert_false(dtype_bytes(DTYPE_F64, UINT64_MAX / 4, &bytes));
}

/* A block's bytes (the rest are zero) and some of its values. */
struct worked {
    enum dtype dtype;
    struct {
        uint16_t at;
        uint8_t v;
    } bytes[24];
    struct {
        uint16_t i;
        float v;
    } values[8];
};

/* 0x3C00 is one in half precision, 0x4000 two, 0x3800 a half. */
static const struct worked worked[] = {
    {DTYPE_Q4_0,
     {{1, 0x40}, {2, 0x1F}, {17, 0xA8}},
     {{0, 14}, {16, -14}, {15, 0}, {31, 4}, {1, -16}}},
    {DTYPE_Q4_1, {{1, 0x40}, {3, 0x3C}, {4, 0x1F}}, {{0, 31}, {16, 3}, {1, 1}}},
    {DTYPE_Q5_0,
     {{1, 0x3C}, {2, 1}, {5, 0x80}, {6, 0x2F}, {21, 0x30}},
     {{0, 15}, {16, -14}, {31, 3}, {1, -16}}},
    {DTYPE_Q5_1, {{1, 0x3C}, {3, 0xBC}, {4, 2}, {9, 0x43}}, {{1, 18}, {17, 3}, {0, -1}}},
    {DTYPE_Q8_0, {{1, 0x38}, {2, 0x80}, {33, 7}}, {{0, -64}, {31, 3.5f}, {1, 0}}},
    {DTYPE_Q1_0,
     {{1, 0x40}, {2, 0x05}, {17, 0x80}},
     {{0, 2}, {1, -2}, {2, 2}, {127, 2}, {126, -2}}},
    {DTYPE_Q2_0, {{1, 0x40}, {2, 0xE4}}, {{0, -2}, {1, 0}, {2, 2}, {3, 4}, {4, -2}}},
    /* scale 3 and minimum 2 of the second sixteen; bits of shift 2 for 32.. */
    {DTYPE_Q2_K,
     {{81, 0x3C}, {83, 0x38}, {1, 0x23}, {2, 0x01}, {32, 0x03}, {16, 0x0C}},
     {{16, 8}, {17, -1}, {32, 3}, {0, 0}}},
    /* scale 0 is 33 - 32: low nibble 1, high bits 2; high bit clear: less 4 */
    {DTYPE_Q3_K,
     {{109, 0x3C}, {96, 0x01}, {104, 0x02}, {0, 0x01}, {32, 0x03}, {33, 0x02}},
     {{0, 3}, {1, -2}, {2, -4}}},
    /* scale 1 is 5, minimum 1 is 3; scale 7 is 16 * 2 + 1, its minimum 16 + 9 */
    {DTYPE_Q4_K,
     {{1, 0x3C},
      {3, 0x3C},
      {5, 5},
      {9, 3},
      {7, 0x80},
      {11, 0x40},
      {15, 0x91},
      {16, 0x70},
      {143, 0x20}},
     {{32, 32}, {33, -3}, {255, 41}, {254, -25}, {0, 0}}},
    {DTYPE_Q5_K,
     {{1, 0x3C}, {3, 0x3C}, {5, 5}, {9, 3}, {16, 0x02}, {48, 0x70}},
     {{32, 112}, {33, -3}, {0, 0}}},
    {DTYPE_Q6_K,
     {{209, 0x3C}, {192, 2}, {196, 0xFF}, {0, 0x51}, {128, 0x13}},
     {{0, 34}, {64, 11}, {65, 32}, {1, -64}}},
    {DTYPE_IQ4_NL, {{1, 0x3C}, {2, 0xF0}}, {{0, -127}, {16, 113}, {1, -127}}},
    /* scale 1: low nibble 3, high bits 2: 35 - 32 */
    {DTYPE_IQ4_XS, {{1, 0x3C}, {2, 0x08}, {4, 0x30}, {24, 0x8F}}, {{32, 339}, {48, 3}, {0, 4064}}},
    /* 255 is 2/3 + 2/9 ... and a little; 128 is 1/3 + 1/9 + ... */
    {DTYPE_TQ1_0,
     {{53, 0x3C}, {0, 255}, {1, 128}, {48, 255}},
     {{0, 1}, {32, 1}, {1, 0}, {33, 0}, {2, -1}, {240, 1}}},
    {DTYPE_TQ2_0,
     {{65, 0x40}, {0, 0x24}, {63, 0x80}},
     {{0, -2}, {32, 0}, {64, 2}, {96, -2}, {255, 2}}},
    {DTYPE_MXFP4, {{0, 128}, {1, 0x97}}, {{0, 12}, {16, -1}, {1, 0}}},
    {DTYPE_NVFP4,
     {{1, 0x40}, {12, 0x27}, {0, 0x01}, {4, 0x02}},
     {{16, 12}, {24, 2}, {0, 0x1p-9f}, {17, 0}}},
    /* all signs but the first even: index 1 of the sevens is bits 0 and 7 */
    {DTYPE_IQ2_XXS, {{1, 0x40}, {6, 0x01}, {9, 0x10}}, {{0, -6}, {1, 6}, {7, -6}, {8, 6}}},
    {DTYPE_IQ1_S, {{1, 0x40}, {35, 0x90}}, {{0, -6.75f}, {32, -1.75f}}},
};

static void blocks_decode_as_worked_out_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof worked / sizeof *worked; i++) {
        const struct worked *w = &worked[i];
        uint8_t block[512] = {0};
        float out[DTYPE_MAX_BLOCK];
        for (size_t j = 0; j < 24; j++) {
            if (w->bytes[j].v)
                block[w->bytes[j].at] = w->bytes[j].v;
        }
        const struct dtype_info *info = dtype_info(w->dtype);
        dtype_decode(w->dtype, block, out, info->block_len);
        for (size_t j = 0; j < 8 && (j == 0 || w->values[j].i || w->values[j].v != 0); j++) {
            if (out[w->values[j].i] != w->values[j].v)
                fail_msg("%s: value %d is %g instead of %g", info->name, w->values[j].i,
                         (double)out[w->values[j].i], (double)w->values[j].v);
        }
    }
}

static void plain_numbers_decode(void **state)
{
    (void)state;
    float out[2];
    dtype_decode(DTYPE_I8, (int8_t[]){-128, 127}, out, 2);
    assert_true(out[0] == -128 && out[1] == 127);
    dtype_decode(DTYPE_U8, (uint8_t[]){200, 0}, out, 2);
    assert_true(out[0] == 200 && out[1] == 0);
    dtype_decode(DTYPE_I16, (int16_t[]){-300, 300}, out, 2);
    assert_true(out[0] == -300 && out[1] == 300);
    dtype_decode(DTYPE_U16, (uint16_t[]){65535, 1}, out, 2);
    assert_true(out[0] == 65535 && out[1] == 1);
    dtype_decode(DTYPE_I32, (int32_t[]){-70000, 5}, out, 2);
    assert_true(out[0] == -70000 && out[1] == 5);
    dtype_decode(DTYPE_I64, (int64_t[]){-1, 1 << 20}, out, 2);
    assert_true(out[0] == -1 && out[1] == 1048576);
    dtype_decode(DTYPE_F64, (double[]){0.5, -3}, out, 2);
    assert_true(out[0] == 0.5f && out[1] == -3);
    dtype_decode(DTYPE_BOOL, (uint8_t[]){1, 0}, out, 2);
    assert_true(out[0] == 1 && out[1] == 0);
    dtype_decode(DTYPE_F8_E4M3, (uint8_t[]){0x38, 0xFE}, out, 2);
    assert_true(out[0] == 1 && out[1] == -448);
    dtype_decode(DTYPE_F8_E4M3, (uint8_t[]){0x01, 0x7F}, out, 2);
    assert_true(out[0] == 0x1p-9f && isnan(out[1]));
    dtype_decode(DTYPE_F8_E5M2, (uint8_t[]){0x3C, 0x7B}, out, 2);
    assert_true(out[0] == 1 && out[1] == 57344);
}

/* Zeros, one number, huge and missing numbers: no trap, no nonsense. */
static void strange_numbers_encode_without_harm(void **state)
{
    (void)state;
    float x[512] = {0}, y[512];
    uint8_t blocks[4096];
    for (int d = 0; d < DTYPE_COUNT; d++) {
        if (!dtype_can_encode((enum dtype)d))
            continue;
        memset(x, 0, sizeof x);
        assert_true(dtype_encode((enum dtype)d, x, blocks, 512));
        dtype_decode((enum dtype)d, blocks, y, 512);
        for (size_t i = 0; i < 512; i++)
            assert_true(y[i] == 0);
        static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, 1e-40f};
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            x[300] = odd[i];
            assert_true(dtype_encode((enum dtype)d, x, blocks, 512));
            dtype_decode((enum dtype)d, blocks, y, 512);
        }
    }
}

static void random_fill_is_repeatable_and_in_bounds(void **state)
{
    (void)state;
    enum { N = 2048 };
    static uint8_t a[N * 8], b[N * 8];
    static float x[N];
    for (int d = 0; d < DTYPE_COUNT; d++) {
        size_t bytes;
        if (dtype_info((enum dtype)d)->is_scaled) {
            assert_false(dtype_bytes((enum dtype)d, N, &bytes));
            continue;
        }
        assert_true(dtype_bytes((enum dtype)d, N, &bytes));
        uint64_t seed_a = 99, seed_b = 99;
        dtype_fill_random((enum dtype)d, a, N, 0.5f, &seed_a);
        dtype_fill_random((enum dtype)d, b, N, 0.5f, &seed_b);
        assert_memory_equal(a, b, bytes);
        dtype_decode((enum dtype)d, a, x, N);
        if (!dtype_info((enum dtype)d)->is_quantized)
            continue;
        float most = 0;
        for (size_t i = 0; i < N; i++) {
            /* Q2_0 reaches to twice its scale, others round past the end */
            assert_true(fabsf(x[i]) <= (d == DTYPE_Q2_0 ? 1.01f : 0.6f));
            most = fmaxf(most, fabsf(x[i]));
        }
        assert_true(most > 0.2f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_round_trips),
        cmocka_unit_test(halves_round_to_the_nearest_even),
        cmocka_unit_test(names_and_numbers_find_their_formats),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
        cmocka_unit_test(blocks_decode_as_worked_out_by_hand),
        cmocka_unit_test(plain_numbers_decode),
        cmocka_unit_test(strange_numbers_encode_without_harm),
        cmocka_unit_test(random_fill_is_repeatable_and_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
