/* encode.c - floats to block formats.
 *
 * The cache's formats round as everybody does, so that a quantized cache holds
 * the same numbers as elsewhere. The super-block formats are encoded simply,
 * without a search for the best scale: they serve synthetic models. */
#include "kernels/blocks.h"
#include "kernels/format.h"

#include <math.h>
#include <string.h>

static void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void store_f16(uint8_t *p, float f)
{
    store_u16(p, f32_to_f16(f));
}

static float inverse(float f)
{
    return f != 0 ? 1.0f / f : 0.0f;
}

static int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

/* A NaN or infinity must not become undefined behaviour in a cast. */
static int to_int(float f)
{
    return f > 32767.0f ? 32767 : f > -32768.0f ? (int)f : f != f ? 0 : -32768;
}

static int nearest(float f)
{
    return to_int(rintf(f));
}

static float largest(const float *x, int n)
{
    float amax = 0;
    for (int i = 0; i < n; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    return amax;
}

/* The value of the largest magnitude, with its sign. */
static float extreme(const float *x, int n)
{
    float amax = 0, max = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > amax) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    }
    return max;
}

static void range(const float *x, int n, float *min, float *max)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        *min = fminf(*min, x[i]);
        *max = fmaxf(*max, x[i]);
    }
}

static void pack_nibbles(const uint8_t *q, int half, uint8_t *qs)
{
    for (int j = 0; j < half; j++)
        qs[j] = (uint8_t)((q[j] & 15) | (q[j + half] & 15) << 4);
}

static void pack_fifth_bits(const uint8_t *q, uint8_t *bits)
{
    memset(bits, 0, 4);
    for (int i = 0; i < 32; i++)
        bits[i / 8] = (uint8_t)(bits[i / 8] | (q[i] >> 4 & 1) << i % 8);
}

/* Elements of each 128: byte i % 32, bits i / 32 * 2. */
static void pack_two_bits(const uint8_t *q, uint8_t *qs)
{
    memset(qs, 0, 64);
    for (int i = 0; i < 256; i++) {
        uint8_t *p = &qs[i / 128 * 32 + i % 32];
        *p = (uint8_t)(*p | (q[i] & 3) << i % 128 / 32 * 2);
    }
}

/* ---- blocks of one scale ---- */

void encode_q1_0(const float *x, uint8_t *b)
{
    float sum = 0;
    for (int i = 0; i < 128; i++)
        sum += fabsf(x[i]);
    store_f16(b, sum / 128);
    memset(b + 2, 0, 16);
    for (int i = 0; i < 128; i++)
        b[2 + i / 8] = (uint8_t)(b[2 + i / 8] | (x[i] >= 0) << i % 8);
}

void encode_q2_0(const float *x, uint8_t *b)
{
    float d = largest(x, 64), id = inverse(d);
    store_f16(b, d);
    memset(b + 2, 0, 16);
    for (int i = 0; i < 64; i++) {
        int q = clamp(to_int(roundf(x[i] * id)) + 1, 0, 3);
        b[2 + i / 4] = (uint8_t)(b[2 + i / 4] | q << i % 4 * 2);
    }
}

void encode_q4_0(const float *x, uint8_t *b)
{
    float d = extreme(x, 32) / -8, id = inverse(d);
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp(to_int(x[i] * id + 8.5f), 0, 15);
    store_f16(b, d);
    pack_nibbles(q, 16, b + 2);
}

void encode_q4_1(const float *x, uint8_t *b)
{
    float min, max;
    range(x, 32, &min, &max);
    float d = (max - min) / 15, id = inverse(d);
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp(to_int((x[i] - min) * id + 0.5f), 0, 15);
    store_f16(b, d);
    store_f16(b + 2, min);
    pack_nibbles(q, 16, b + 4);
}

void encode_q5_0(const float *x, uint8_t *b)
{
    float d = extreme(x, 32) / -16, id = inverse(d);
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp(to_int(x[i] * id + 16.5f), 0, 31);
    store_f16(b, d);
    pack_fifth_bits(q, b + 2);
    pack_nibbles(q, 16, b + 6);
}

void encode_q5_1(const float *x, uint8_t *b)
{
    float min, max;
    range(x, 32, &min, &max);
    float d = (max - min) / 31, id = inverse(d);
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)clamp(to_int((x[i] - min) * id + 0.5f), 0, 31);
    store_f16(b, d);
    store_f16(b + 2, min);
    pack_fifth_bits(q, b + 4);
    pack_nibbles(q, 16, b + 8);
}

void encode_q8_0(const float *x, uint8_t *b)
{
    float d = largest(x, 32) / 127, id = inverse(d);
    store_f16(b, d);
    for (int i = 0; i < 32; i++)
        b[2 + i] = (uint8_t)clamp(to_int(roundf(x[i] * id)), -127, 127);
}

/* The entry of a table, ascending over its first `n`, that is nearest. */
static uint8_t nearest_entry(const int8_t *table, int n, float v)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        if (fabsf(v - (float)table[i]) < fabsf(v - (float)table[best]))
            best = i;
    }
    return (uint8_t)best;
}

/* Entries of the table of iq4, and the scale that fits them best, each element
 * weighted by its square. */
static float fit_iq4(const float *x, uint8_t *q)
{
    float id = inverse(extreme(x, 32) / (float)iq4_values[0]);
    float xq = 0, qq = 0;
    for (int i = 0; i < 32; i++) {
        q[i] = nearest_entry(iq4_values, 16, x[i] * id);
        float v = (float)iq4_values[q[i]], weight = x[i] * x[i];
        xq += weight * v * x[i];
        qq += weight * v * v;
    }
    return qq > 0 ? xq / qq : 0;
}

void encode_iq4_nl(const float *x, uint8_t *b)
{
    uint8_t q[32];
    store_f16(b, fit_iq4(x, q));
    pack_nibbles(q, 16, b + 2);
}

static uint8_t e2m1(float v)
{
    uint8_t q = nearest_entry(e2m1_doubled, 8, fabsf(v) * 2);
    return (uint8_t)(q | (v < 0 ? 8 : 0));
}

void encode_mxfp4(const float *x, uint8_t *b)
{
    float amax = largest(x, 32);
    int e = amax > 0 ? clamp(ilogbf(amax) - 2 + 127, 0, 254) : 0;
    float id = 1.0f / e8m0_to_f32((uint8_t)e);
    uint8_t q[32];
    for (int i = 0; i < 32; i++)
        q[i] = e2m1(x[i] * id);
    b[0] = (uint8_t)e;
    pack_nibbles(q, 16, b + 1);
}

void encode_nvfp4(const float *x, uint8_t *b)
{
    for (int j = 0; j < 4; j++) {
        b[j] = f32_to_ue4m3(largest(x + 16 * j, 16) / 6);
        float id = inverse(ue4m3_to_f32(b[j]));
        uint8_t q[16];
        for (int i = 0; i < 16; i++)
            q[i] = e2m1(x[16 * j + i] * id);
        pack_nibbles(q, 8, b + 4 + 8 * j);
    }
}

/* ---- super-blocks ---- */

/* Scales (and minimums, at most 0, as positive numbers) of n_subs groups, as
 * integers up to max_scale times the block's own two factors. */
struct affine_scales {
    float d, dmin;
    uint8_t scale[16], min[16];
};

static void fit_affine(const float *x, int n_subs, int sub_len, int max_q, int max_scale,
                       struct affine_scales *s)
{
    float scale[16], min[16];
    for (int j = 0; j < n_subs; j++) {
        float low, high;
        range(x + j * sub_len, sub_len, &low, &high);
        low = fminf(low, 0);
        scale[j] = (high - low) / (float)max_q;
        min[j] = -low;
    }
    /* Through F16, so that the integers are chosen for the factors as stored. */
    s->d = f16_to_f32(f32_to_f16(largest(scale, n_subs) / (float)max_scale));
    s->dmin = f16_to_f32(f32_to_f16(largest(min, n_subs) / (float)max_scale));
    for (int j = 0; j < n_subs; j++) {
        s->scale[j] = (uint8_t)clamp(nearest(scale[j] * inverse(s->d)), 0, max_scale);
        s->min[j] = (uint8_t)clamp(nearest(min[j] * inverse(s->dmin)), 0, max_scale);
    }
}

static void quantize_affine(const float *x, int sub_len, int max_q, const struct affine_scales *s,
                            uint8_t *q)
{
    for (int i = 0; i < 256; i++) {
        float id = inverse(s->d * s->scale[i / sub_len]);
        float min = s->dmin * s->min[i / sub_len];
        q[i] = (uint8_t)clamp(nearest((x[i] + min) * id), 0, max_q);
    }
}

void encode_q2_k(const float *x, uint8_t *b)
{
    struct affine_scales s;
    uint8_t q[256];
    fit_affine(x, 16, 16, 3, 15, &s);
    quantize_affine(x, 16, 3, &s, q);
    for (int j = 0; j < 16; j++)
        b[j] = (uint8_t)(s.scale[j] | s.min[j] << 4);
    pack_two_bits(q, b + 16);
    store_f16(b + 80, s.d);
    store_f16(b + 82, s.dmin);
}

static void store_k4_scales(const struct affine_scales *s, uint8_t *b)
{
    store_f16(b, s->d);
    store_f16(b + 2, s->dmin);
    for (int j = 0; j < 4; j++) {
        b[4 + j] = (uint8_t)(s->scale[j] | (s->scale[j + 4] >> 4) << 6);
        b[8 + j] = (uint8_t)(s->min[j] | (s->min[j + 4] >> 4) << 6);
        b[12 + j] = (uint8_t)((s->scale[j + 4] & 15) | (s->min[j + 4] & 15) << 4);
    }
}

void encode_q4_k(const float *x, uint8_t *b)
{
    struct affine_scales s;
    uint8_t q[256];
    fit_affine(x, 8, 32, 15, 63, &s);
    quantize_affine(x, 32, 15, &s, q);
    store_k4_scales(&s, b);
    for (int j = 0; j < 4; j++)
        pack_nibbles(q + 64 * j, 32, b + 16 + 32 * j);
}

void encode_q5_k(const float *x, uint8_t *b)
{
    struct affine_scales s;
    uint8_t q[256];
    fit_affine(x, 8, 32, 31, 63, &s);
    quantize_affine(x, 32, 31, &s, q);
    store_k4_scales(&s, b);
    memset(b + 16, 0, 32);
    for (int i = 0; i < 256; i++)
        b[16 + i % 32] = (uint8_t)(b[16 + i % 32] | (q[i] >> 4) << i / 32);
    for (int j = 0; j < 4; j++)
        pack_nibbles(q + 64 * j, 32, b + 48 + 32 * j);
}

/* Signed scales of n_subs groups whose integers run from -max_q: as integers
 * of -max_scale..max_scale-1 times *d. */
static void fit_signed(const float *x, int n_subs, int sub_len, int max_q, int max_scale, float *d,
                       int8_t *scale)
{
    float exact[16];
    for (int j = 0; j < n_subs; j++)
        exact[j] = extreme(x + j * sub_len, sub_len) / (float)-max_q;
    *d = f16_to_f32(f32_to_f16(extreme(exact, n_subs) / (float)-max_scale));
    for (int j = 0; j < n_subs; j++)
        scale[j] = (int8_t)clamp(nearest(exact[j] * inverse(*d)), -max_scale, max_scale - 1);
}

void encode_q3_k(const float *x, uint8_t *b)
{
    float d;
    int8_t scale[16];
    uint8_t q[256];
    fit_signed(x, 16, 16, 4, 32, &d, scale);
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)(clamp(nearest(x[i] * inverse(d * (float)scale[i / 16])), -4, 3) + 4);
    memset(b, 0, 110);
    for (int i = 0; i < 256; i++)
        b[i % 32] = (uint8_t)(b[i % 32] | (q[i] >> 2) << i / 32);
    pack_two_bits(q, b + 32);
    for (int j = 0; j < 16; j++) {
        int s = scale[j] + 32;
        b[96 + j % 8] = (uint8_t)(b[96 + j % 8] | (s & 15) << (j < 8 ? 0 : 4));
        b[104 + j % 4] = (uint8_t)(b[104 + j % 4] | (s >> 4) << 2 * (j / 4));
    }
    store_f16(b + 108, d);
}

void encode_q6_k(const float *x, uint8_t *b)
{
    float d;
    int8_t scale[16];
    uint8_t q[256], high[256];
    fit_signed(x, 16, 16, 32, 128, &d, scale);
    for (int i = 0; i < 256; i++) {
        q[i] = (uint8_t)(clamp(nearest(x[i] * inverse(d * (float)scale[i / 16])), -32, 31) + 32);
        high[i] = q[i] >> 4;
    }
    pack_nibbles(q, 64, b);
    pack_nibbles(q + 128, 64, b + 64);
    pack_two_bits(high, b + 128);
    memcpy(b + 192, scale, 16);
    store_f16(b + 208, d);
}

void encode_iq4_xs(const float *x, uint8_t *b)
{
    float scale[8];
    uint8_t q[32];
    for (int j = 0; j < 8; j++)
        scale[j] = fit_iq4(x + 32 * j, q);
    float d = f16_to_f32(f32_to_f16(extreme(scale, 8) / -32));
    unsigned high = 0;
    memset(b, 0, 8);
    for (int j = 0; j < 8; j++) {
        int s = clamp(nearest(scale[j] * inverse(d)), -32, 31);
        float id = inverse(d * (float)s);
        for (int i = 0; i < 32; i++)
            q[i] = nearest_entry(iq4_values, 16, x[32 * j + i] * id);
        pack_nibbles(q, 16, b + 8 + 16 * j);
        b[4 + j / 2] = (uint8_t)(b[4 + j / 2] | ((s + 32) & 15) << j % 2 * 4);
        high |= (unsigned)(s + 32) >> 4 << 2 * j;
    }
    store_f16(b, d);
    store_u16(b + 2, (uint16_t)high);
}

/* Digits 0, 1, 2, the first the most significant of five, as a fraction of
 * 256 rounded up: multiplying by 3 then brings out one digit after another. */
static uint8_t pack_trits(const uint8_t *digit, int n, int stride)
{
    unsigned v = 0;
    for (int i = 0; i < 5; i++)
        v = v * 3 + (i < n ? digit[i * stride] : 0u);
    return (uint8_t)((v * 256 + 242) / 243);
}

static void ternary(const float *x, float *d, uint8_t *q)
{
    *d = largest(x, 256);
    float id = inverse(*d);
    for (int i = 0; i < 256; i++)
        q[i] = (uint8_t)(clamp(to_int(roundf(x[i] * id)), -1, 1) + 1);
}

void encode_tq1_0(const float *x, uint8_t *b)
{
    float d;
    uint8_t q[256];
    ternary(x, &d, q);
    for (int i = 0; i < 32; i++)
        b[i] = pack_trits(q + i, 5, 32);
    for (int i = 0; i < 16; i++)
        b[32 + i] = pack_trits(q + 160 + i, 5, 16);
    for (int i = 0; i < 4; i++)
        b[48 + i] = pack_trits(q + 240 + i, 4, 4);
    store_f16(b + 52, d);
}

void encode_tq2_0(const float *x, uint8_t *b)
{
    float d;
    uint8_t q[256];
    ternary(x, &d, q);
    pack_two_bits(q, b);
    store_f16(b + 64, d);
}

/* ---- numbers that stand alone ---- */

void encode_f32(const float *x, void *out, size_t n)
{
    memcpy(out, x, n * sizeof *x);
}

void encode_f16(const float *x, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_f16((uint8_t *)out + 2 * i, x[i]);
}

void encode_bf16(const float *x, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        store_u16((uint8_t *)out + 2 * i, f32_to_bf16(x[i]));
}

void encode_f64(const float *x, void *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        memcpy((uint8_t *)out + 8 * i, &v, sizeof v);
    }
}
