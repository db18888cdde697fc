/* numbers.c - single numbers in 4, 8 and 16 bits. */
#include "kernels/blocks.h"

#include <math.h>
#include <string.h>

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

float e2m1_to_f32(uint8_t v)
{
    return (float)e2m1_doubled[v] * 0.5f;
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
