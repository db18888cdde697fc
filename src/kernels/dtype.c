/* dtype.c - the table of formats, and single numbers in 8 and 16 bits. */
#include "kernels/blocks.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { NO_GGML = -1 };

/* name, GGUF number, block elements, block bytes, decode, encode, quantized */
static const struct dtype_info infos[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 0, 1, 4, true, true, false},
    [DTYPE_F16] = {"f16", 1, 1, 2, true, true, false},
    [DTYPE_BF16] = {"bf16", 30, 1, 2, true, true, false},
    [DTYPE_F64] = {"f64", 28, 1, 8, true, true, false},
    [DTYPE_I8] = {"i8", 24, 1, 1, true, false, false},
    [DTYPE_I16] = {"i16", 25, 1, 2, true, false, false},
    [DTYPE_I32] = {"i32", 26, 1, 4, true, false, false},
    [DTYPE_I64] = {"i64", 27, 1, 8, true, false, false},
    [DTYPE_U8] = {"u8", NO_GGML, 1, 1, true, false, false},
    [DTYPE_U16] = {"u16", NO_GGML, 1, 2, true, false, false},
    [DTYPE_U32] = {"u32", NO_GGML, 1, 4, true, false, false},
    [DTYPE_U64] = {"u64", NO_GGML, 1, 8, true, false, false},
    [DTYPE_BOOL] = {"bool", NO_GGML, 1, 1, true, false, false},
    [DTYPE_F8_E4M3] = {"f8_e4m3", NO_GGML, 1, 1, true, false, false},
    [DTYPE_F8_E5M2] = {"f8_e5m2", NO_GGML, 1, 1, true, false, false},
    [DTYPE_Q1_0] = {"q1_0", 41, 128, 18, true, true, true},
    [DTYPE_Q2_0] = {"q2_0", 42, 64, 18, true, true, true},
    [DTYPE_Q4_0] = {"q4_0", 2, 32, 18, true, true, true},
    [DTYPE_Q4_1] = {"q4_1", 3, 32, 20, true, true, true},
    [DTYPE_Q5_0] = {"q5_0", 6, 32, 22, true, true, true},
    [DTYPE_Q5_1] = {"q5_1", 7, 32, 24, true, true, true},
    [DTYPE_Q8_0] = {"q8_0", 8, 32, 34, true, true, true},
    [DTYPE_Q8_1] = {"q8_1", 9, 32, 36, true, false, true},
    [DTYPE_Q2_K] = {"q2_K", 10, 256, 84, true, true, true},
    [DTYPE_Q3_K] = {"q3_K", 11, 256, 110, true, true, true},
    [DTYPE_Q4_K] = {"q4_K", 12, 256, 144, true, true, true},
    [DTYPE_Q5_K] = {"q5_K", 13, 256, 176, true, true, true},
    [DTYPE_Q6_K] = {"q6_K", 14, 256, 210, true, true, true},
    [DTYPE_Q8_K] = {"q8_K", 15, 256, 292, true, false, true},
    [DTYPE_IQ1_S] = {"iq1_s", 19, 256, 50, true, false, true},
    [DTYPE_IQ1_M] = {"iq1_m", 29, 256, 56, true, false, true},
    [DTYPE_IQ2_XXS] = {"iq2_xxs", 16, 256, 66, true, false, true},
    [DTYPE_IQ2_XS] = {"iq2_xs", 17, 256, 74, true, false, true},
    [DTYPE_IQ2_S] = {"iq2_s", 22, 256, 82, true, false, true},
    [DTYPE_IQ3_XXS] = {"iq3_xxs", 18, 256, 98, true, false, true},
    [DTYPE_IQ3_S] = {"iq3_s", 21, 256, 110, true, false, true},
    [DTYPE_IQ4_NL] = {"iq4_nl", 20, 32, 18, true, true, true},
    [DTYPE_IQ4_XS] = {"iq4_xs", 23, 256, 136, true, true, true},
    [DTYPE_TQ1_0] = {"tq1_0", 34, 256, 54, true, true, true},
    [DTYPE_TQ2_0] = {"tq2_0", 35, 256, 66, true, true, true},
    [DTYPE_MXFP4] = {"mxfp4", 39, 32, 17, true, true, true},
    [DTYPE_NVFP4] = {"nvfp4", 40, 64, 36, true, true, true},
};

const struct dtype_info *dtype_info(enum dtype dtype)
{
    return &infos[dtype];
}

bool dtype_from_ggml(uint32_t type, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (infos[i].ggml_type >= 0 && (uint32_t)infos[i].ggml_type == type) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_from_name(const char *name, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcasecmp(infos[i].name, name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_bytes(enum dtype dtype, uint64_t n, size_t *bytes)
{
    const struct dtype_info *info = &infos[dtype];
    if (n % info->block_len)
        return false;
    uint64_t blocks = n / info->block_len;
    if (blocks > SIZE_MAX / info->block_bytes)
        return false;
    *bytes = (size_t)blocks * info->block_bytes;
    return true;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* A subnormal half is its mantissa in units of 2^-24; the others have their
 * exponent moved from bias 15 to bias 127. */
float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    if (exponent == 0)
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    if (exponent == 31)
        return float_of(sign | 0x7F800000u | mantissa << 13);
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float f)
{
    uint32_t bits = bits_of(f);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000)
        return (uint16_t)(sign | 0x7E00);
    if (bits >= 0x477FF000) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7C00);
    if (bits < 0x38800000) { /* below 2^-14: adding 1/2 lets the adder round */
        float moved = float_of(bits) + 0.5f;
        return (uint16_t)(sign | (bits_of(moved) - bits_of(0.5f)));
    }
    bits += 0xFFF + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - (112u << 23)) >> 13);
}

float bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float e8m0_to_f32(uint8_t e)
{
    return e == 0 ? 0x1p-127f : float_of((uint32_t)e << 23);
}

float e4m3_to_f32(uint8_t v)
{
    uint32_t exponent = v >> 3 & 15, mantissa = v & 7;
    float f;
    if ((v & 127) == 127)
        f = NAN;
    else if (exponent == 0)
        f = (float)mantissa * 0x1p-9f;
    else
        f = float_of((exponent + 120) << 23 | mantissa << 20);
    return v & 128 ? -f : f;
}

float e5m2_to_f32(uint8_t v)
{
    return f16_to_f32((uint16_t)(v << 8));
}

float ue4m3_to_f32(uint8_t v)
{
    v &= 127;
    return v == 127 ? 0.0f : e4m3_to_f32(v);
}

uint8_t f32_to_ue4m3(float f)
{
    if (!(f > 0))
        return 0;
    if (f >= 448.0f)
        return 126;
    if (f < 0x1p-6f) /* subnormal: units of 2^-9; 8 is the first normal number */
        return (uint8_t)(f * 512.0f + 0.5f);
    uint32_t bits = bits_of(f) + (1u << 19); /* round half up in the eighth's place */
    uint32_t v = (bits >> 20) - (120u << 3);
    return (uint8_t)(v > 126 ? 126 : v);
}
